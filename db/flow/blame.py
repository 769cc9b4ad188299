"""From a wrong result to its cause: which single exchange of what registers hold explains the matrix that came out.

A product is compared in whole: each single mistake in an operand is made, and the product with it is what came out, or
is not. Sums of integers are exact; of others each element may be off by what its terms and types allow.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import LanemapError
from ..isa.names import accumulators
from ..isa.types import TYPES
from ..layout.algebra import Array
from ..layout.codes import decode, table
from ..layout.fragment import Fragment
from ..lookup import Query, operand_with_rows
from ..rows import Rows, Told
from ..store.reader import Reader
from ..text import counted, either
from .mistake import Given

#: Of each type of D the bits of integers whose sums are exact, and how far other sums may be off for their size.
_SUMS = {"f64": (53, 2.0**-46), "f32": (24, 2.0**-17), "f16": (11, 2.0**-9), "s32": (53, 0.0)}
#: The same where A has at most 8 bits: some tensor cores add these with fewer bits.
_NARROW = (13, 2.0**-12)

#: The types of D that elements of numpy's types are.
_NATIVE = {row.native: name for name, row in TYPES.items() if row.native and name != "tf32"}

#: What a type keeps of numbers, which are rounded to it, or cut off.
_MANTISSA = {"f16": 11, "bf16": 8, "tf32": 11}


class Cause(NamedTuple):
    """An exchange in an operand that explains the result, in words that follow "as if"."""

    role: str
    words: str


@dataclass(frozen=True, eq=False, repr=False)
class Blame(Told):
    """What explains a result: ``wrong`` of ``total`` elements of D are; each of ``causes`` explains all of them.

    ``roles`` are the operands in which ``tried`` exchanges were tried.
    """

    subject: str
    source: str
    wrong: int
    total: int
    causes: tuple[Cause, ...]
    roles: Sequence[str]
    tried: int
    remarks: Sequence[str] = ()

    @property
    def right(self) -> bool:
        """Whether there is nothing to blame."""
        return not self.wrong

    def rows(self) -> Rows:
        """The causes."""
        return Rows(("role", "words", "elements"), [(*cause, self.total) for cause in self.causes])

    def parts(self) -> Iterator[str | Rows]:
        """How much is wrong, and each cause in a line, or that there is none."""
        if self.right:
            yield f"{self.subject}: all {self.total} elements are right"
            return
        yield f"{self.subject}: {self.wrong} of {self.total} elements are wrong"
        yield f"source: {self.source}"
        for cause in self.causes:
            yield f"as if {cause.words}: {self.total} of {self.total} elements"
        if not self.causes:
            tried = f"{counted(self.tried, 'exchange')}, transpositions and offsets of {either(self.roles)}"
            yield f"none of {tried} explains it"


@dataclass(frozen=True)
class Multiplied:
    """A product of operands by their roles, as far as they are known. Of a sparse one, ``a`` says what E means.

    That of bits a ^ b has a - 1/2 and 1 - 2 b as factors, whose product is as much less than a ^ b as 1/2.
    """

    values: Mapping[str, Array]
    a: Fragment | None
    xor: bool = False

    def left(self, **changed: Array) -> Array:
        """A as it is multiplied: with the columns that E chooses, and scaled. Some operands may be others."""
        values = {**self.values, **changed}
        made = values["A"]
        if self.a and "E" in values:
            rule, (count, rows, fields) = self.a.sparsity, values["E"].shape
            first = np.arange(fields) // rule.fields * rule.width + values["E"].astype(np.int64) * rule.group
            col = (first[..., None] + np.arange(rule.group)).reshape(made.shape)
            whole = np.zeros((count, *self.a.dimensions))
            np.add.at(whole[0], (np.arange(rows)[:, None], col[0]), made[0])
            made = whole
        if self.xor:
            made = made - 0.5
        scale = values.get("SFA")
        return made if scale is None else made * np.repeat(scale, made.shape[2] // scale.shape[2], axis=2)

    def right(self, **changed: Array) -> Array:
        """B as it is multiplied: scaled."""
        values = {**self.values, **changed}
        made, scale = values["B"], values.get("SFB")
        if self.xor:
            made = 1 - 2 * made
        return made if scale is None else made * np.repeat(scale, made.shape[1] // scale.shape[1], axis=1)


def blame(
    reader: Reader, query: Query, given: Mapping[str, Any], actual: Any, expected: Any = None, d: str | None = None
) -> Blame:
    """Which single mistake explains an actual D.

    Args:
        reader: the database.
        query: the instruction, and maybe a tile of it.
        given: A, B, C, E, SFA and SFB, as far as they are known, by their roles.
        actual: the D that came out.
        expected: the D that is right, where it is not A x B + C.
        d: the type of C and D, by default that of ``actual`` if there is such a D, or else the widest.

    Raises:
        LanemapError: an array does not fit the instruction, or there is nothing to compare with.
    """
    given = {role: array for role, array in given.items() if array is not None}
    both = {"A", "B"} <= given.keys()
    if not both and expected is None:
        raise LanemapError("give A and B, or the expected D: there is nothing to compare with", "expected")
    fragments = _operands(reader, query, given, d or _NATIVE.get(np.asarray(actual).dtype.str[1:], ""), named=d)
    xor = False
    if both and fragments["A"].type == "b1":
        operations = {form.suffix for form in query.forms}
        if len(operations) > 1:
            raise LanemapError(
                "products of bits are of xor or and: name the mnemonic, as in " + query.forms[0].mnemonic
            )
        xor = ".xor.popc" in operations
    sides = {role: Given(role, values_of(of, given[role], role), of) for role, of in fragments.items() if role in given}
    seen = values_of(fragments["D"], actual, "actual")
    product = Multiplied({role: side.values for role, side in sides.items()}, fragments.get("A"), xor)
    nothing = np.zeros((1, seen.shape[1], 1)), np.zeros((1, 1, seen.shape[2]))
    left, right = (product.left(), product.right()) if both else nothing
    added = product.values.get("C", np.zeros_like(seen))
    made = left @ right + xor * left.shape[2] / 2 + added
    wanted = made if expected is None else values_of(fragments["D"], expected, "expected")
    rest = wanted - left @ right
    allowed = _tolerance(fragments, product.values, np.abs(left) @ np.abs(right) + np.abs(wanted), seen, wanted)
    wraps = fragments["D"].type == "s32"
    sides["D"] = Given("D", wanted, fragments["D"])

    def equal(found: Array, limit: Array = allowed, other: Array = seen) -> Array:
        apart = np.abs(found - other)
        return np.asarray((apart % (1 << 32) if wraps else apart) <= limit)

    # A product with a few vectors refuses most mistakes at once.
    generator = np.random.default_rng(0)
    across, down = (generator.choice([-1.0, 1.0], shape) for shape in ((seen.shape[2], 2), (2, seen.shape[1])))

    def explains(role: str, index: Array, within: Array | None = None) -> bool:
        """Whether D is what came out if each cell of an operand, maybe for some of D, has the value of another one."""
        values = sides[role].values
        moved = values.ravel()[index.ravel()].reshape(values.shape)
        if np.array_equal(moved, values):
            return False
        if role == "D":
            return bool(equal(moved, allowed.ravel()[index.ravel()].reshape(seen.shape)).all())
        if role == "C":
            return bool(equal(wanted - added + moved).all())
        one, other = left, right
        if role in ("B", "SFB"):
            other = product.right(**{role: moved})
            likely = equal(down @ one @ other, 2 * np.abs(down) @ allowed, down @ (seen - rest))
        else:
            one = product.left(**{role: moved})
            likely = equal(one @ (other @ across), 2 * allowed @ np.abs(across), (seen - rest) @ across)
        if within is not None:
            return bool(equal(np.where(within, one @ other + rest, wanted)).all())
        return bool(likely.all() and equal(one @ other + rest).all())

    wrong, tried, causes = int((~equal(wanted)).sum()), 0, []
    roles = [role for role in ("A", "B", "E", "SFA", "SFB", "C", "D") if role in sides and (both or role in "CD")]
    for role in roles if wrong else ():
        for words, index in sides[role].moves():
            tried += 1
            if explains(role, index):
                causes.append(Cause(role, words))
    # What only one of several warps has wrong is in its part of D.
    apart = ~equal(wanted)
    for warp, cells in enumerate(sides["D"].cells if wrong else ()):
        within = np.zeros(seen.shape, bool)
        within.flat[cells[cells >= 0]] = True
        for role in roles if len(sides["D"].cells) > 1 and not apart[~within].any() else ():
            for words, index in sides[role].moves_in(warp):
                tried += 1
                if explains(role, index, within):
                    causes.append(Cause(role, words))
    if wrong and "C" in sides and equal(wanted - added).all():
        causes.append(Cause("C", "C were left out"))
    if wrong and both and "E" not in sides and (swapped := sides["A"].swapped(sides["B"])):
        found = product.left(A=swapped[0]) @ product.right(B=swapped[1])
        causes += [Cause("A", "A and B were exchanged")] if equal(rest + found).all() else []
    remarks = () if both else ("without A and B only what happens to C and D can be told",)
    of = fragments["D"]
    return Blame(str(of), str(of.source), wrong, seen.size, tuple(dict.fromkeys(causes)), roles, tried, remarks)


def _tolerance(fragments: Mapping[str, Fragment], values: Mapping[str, Array], size: Array, *known: Array) -> Array:
    """How far each element of D may be off: not at all where all numbers are integers whose sums are exact."""
    narrow = "A" in fragments and TYPES[fragments["A"].type].bits <= 8 and fragments["D"].type != "s32"
    bits, error = _SUMS.get(fragments["D"].type, _SUMS["f16"])
    if narrow:
        bits, error = min(bits, _NARROW[0]), max(error, _NARROW[1])
    if size.max(initial=0) < 2.0**bits and all((each == np.rint(each)).all() for each in (*values.values(), *known)):
        return np.zeros_like(size)
    for role in {"A", "B"} & values.keys():
        kept = _MANTISSA.get(fragments[role].type, 53)
        mantissa = np.frexp(values[role])[0] * 2.0**kept
        error = max(error, 4 * 2.0**-kept if (mantissa != np.rint(mantissa)).any() else 0)
    return np.asarray(error * size)


def _operands(
    reader: Reader, query: Query, roles: Mapping[str, Any], d: str, *, named: str | None
) -> dict[str, Fragment]:
    """The fragment of each operand: of several majors or selectors the first, of scales that with as many as given.

    Raises:
        LanemapError: there is none, or no D of the type that is ``named``.
    """
    found: dict[str, Fragment] = {}
    for role in ("E", "A", "B", "SFA", "SFB", "D", "C"):
        if role not in roles and role != "D":
            continue
        instruction = found["E"].instruction if "E" in found else query.instruction
        several = list(operand_with_rows(reader, replace(query, role=role, instruction=instruction)))
        first = several[0]
        if role in ("C", "D"):
            of_a = operand_with_rows(reader, replace(query, role="A", instruction=first.instruction))[0].type
            types = accumulators(first.instruction, first.shape, of_a) or (first.type,)
            if named and named not in types:
                raise LanemapError(f"no accumulator {named}: there is {either(types)}", "accumulator")
            wanted = d if d in types else types[0]
            if wanted != first.type:
                exact = replace(query, shape=first.shape, type=wanted, role=role, instruction=first.instruction)
                several = list(operand_with_rows(reader, exact))
        if role in ("SFA", "SFB"):
            count = np.shape(roles[role])[-1 if role == "SFA" else -2]
            several = [each for each in several if f"scale_vec::{count}X" in str(each.qualifiers)] or several
        found[role] = several[0]
    return found


def values_of(fragment: Fragment, given: Any, name: str) -> Array:
    """An array as numbers (computations, rows, columns).

    Unsigned integers stand for the bits of floating-point types; all else are values. A sparse A has what is stored of
    it, and E the index of each stored element, or pair, in its chunk.

    Raises:
        LanemapError: it has another shape, or numbers that the type lacks.
    """
    array, rule, row = np.asarray(given), fragment.sparsity, TYPES[fragment.type]
    if array.dtype.kind == "V" and array.dtype.names is None:
        # Numbers of ml_dtypes, or those of a file, which has their bits alone.
        if array.dtype.type is not np.void:
            array = array.astype(np.float64)
        elif array.dtype.itemsize * 8 == max(row.container, 8):
            array = array.view(f"u{array.dtype.itemsize}")
            if fragment.type[0] == "s":
                above = array.itemsize * 8 - row.bits
                array = (array << above).view(f"i{array.itemsize}") >> above
    rows, cols = fragment.dimensions
    if fragment.role in ("A", "E"):
        cols = cols // rule.width * rule.fields * (rule.group if fragment.role == "A" else 1)
    shape = (fragment.computations, rows, cols)[fragment.computations == 1 :]
    if array.shape != shape or array.dtype.kind not in "biuf":
        words = f"{fragment} takes an array of numbers of {' x '.join(map(str, shape))}"
        raise LanemapError(f"{name} is {' x '.join(map(str, array.shape))} of {array.dtype}: {words}", name.lower())
    whole = re.fullmatch("[sub][0-9]+", fragment.type)
    if not whole and fragment.role != "E" and array.dtype.kind == "u":
        if array.dtype.itemsize * 8 != row.container or (array >> row.bits - 1 > 1).any():
            words = f"bits of {fragment.type} are uint{row.container} below {1 << row.bits:#x}, values are floats"
            raise LanemapError(f"{name} is of {array.dtype}: {words}", name.lower())
        array = decode(fragment.type, row.bits, array)
    numbers = np.asarray(array, np.float64).reshape(-1, rows, cols)
    good = np.ones(numbers.shape, bool)
    if fragment.role == "E":
        good = np.isin(numbers, np.arange(rule.width // rule.group))
    elif whole:
        low = -(1 << row.bits - 1) * (fragment.type[0] == "s")
        good = (numbers == np.rint(numbers)) & (numbers >= low) & (numbers < low + (1 << row.bits))
    elif row.parts:
        good = np.isin(numbers, table(fragment.type, row.bits))
    if not good.all():
        what = "index of a kept element" if fragment.role == "E" else f"value of {fragment.type}"
        raise LanemapError(f"{name} has {numbers[~good][0]:g}, which is no {what}", name.lower())
    return numbers
