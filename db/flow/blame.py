"""From a wrong result to its cause: which single exchange of what registers hold explains the matrix that came out.

A product is compared in whole: each single mistake in an operand is made, and the product with it is what came out, or
is not. Sums of integers are exact; of others each element may be off by what its terms and types allow.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..isa.names import accumulators
from ..isa.tiling import Tiling
from ..isa.types import TYPES
from ..layout.algebra import Array
from ..layout.codes import decode, table
from ..layout.fragment import Fragment
from ..lookup import Query, operand_with_rows
from ..rows import Rows, Told
from ..store.reader import Reader
from ..text import counted, either
from .mistake import Given, Mistake, Sieve

#: Of each type of D the bits of integers whose sums are exact, and how far other sums may be off for their size.
_SUMS = {"f64": (53, 2.0**-46), "f32": (24, 2.0**-17), "f16": (11, 2.0**-9), "s32": (53, 0.0)}
#: The same where A has at most 8 bits: some tensor cores add these with fewer bits.
_NARROW = (13, 2.0**-12)

#: What integers of 32 bits wrap around at, and the largest weight of an element of D in a sum over it.
_WRAPS, _HEAVIEST = 1 << 32, 99

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

    ``roles`` are the operands in which mistakes were tried.
    """

    subject: str
    source: str
    wrong: int
    total: int
    causes: tuple[Cause, ...]
    roles: Sequence[str]
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
            yield f"no exchange, transposition or offset of {either(self.roles)} explains it"


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
        if (columns := self._columns(values)) is not None:
            whole = np.zeros((1, *self.a.dimensions))  # type: ignore[union-attr]
            np.add.at(whole[0], (np.arange(len(columns))[:, None], columns), made[0])
            made = whole
        return self._scaled(made - 0.5 if self.xor else made, "SFA", 2, values)

    def right(self, **changed: Array) -> Array:
        """B as it is multiplied: scaled."""
        values = {**self.values, **changed}
        return self._scaled(1 - 2 * values["B"] if self.xor else values["B"], "SFB", 1, values)

    def weights(self, weights: Array) -> dict[str, Array]:
        """How much a sum over D with such weights grows with each element of A, B, C and D itself."""
        a, b = weights @ self.right().swapaxes(1, 2), self.left().swapaxes(1, 2) @ weights
        a, b = self._scaled(a, "SFA", 2, self.values), self._scaled(b, "SFB", 1, self.values)
        if (columns := self._columns(self.values)) is not None:
            a = np.take_along_axis(a, columns[None], axis=2)
        return {"A": a, "B": -2 * b if self.xor else b}

    def _columns(self, values: Mapping[str, Array]) -> Array | None:
        """The column of each stored element of a sparse A, by row; None of a dense one."""
        if not self.a or "E" not in values:
            return None
        rule, (_, rows, fields) = self.a.sparsity, values["E"].shape
        first = np.arange(fields) // rule.fields * rule.width + values["E"][0].astype(np.int64) * rule.group
        return np.asarray((first[..., None] + np.arange(rule.group)).reshape(rows, -1))

    @staticmethod
    def _scaled(made: Array, role: str, axis: int, values: Mapping[str, Array]) -> Array:
        """What is multiplied, or its weights, with the scales of a role along K."""
        scale = values.get(role)
        return made if scale is None else made * np.repeat(scale, made.shape[axis] // scale.shape[axis], axis)


@dataclass(frozen=True, eq=False)
class Compared:
    """What came out, ``seen``, beside what is ``wanted``: the product of ``left`` and ``right``, and the ``rest``.

    Each element may be off by what is ``allowed``. Integers wrap around at ``wraps``, others have 0 there.
    """

    sides: Mapping[str, Given]
    product: Multiplied
    left: Array
    right: Array
    rest: Array
    wanted: Array
    seen: Array
    allowed: Array
    wraps: int

    def equal(self, found: Array, limit: Array | None = None) -> Array:
        """Where another D is what came out."""
        if self.wraps:
            found = found + np.rint((self.seen - found) / self.wraps) * self.wraps
        limit = self.allowed if limit is None else limit
        return np.isclose(found, self.seen, rtol=0, atol=limit, equal_nan=True)

    @cached_property
    def good(self) -> Array:
        """Where what came out is right."""
        return self.equal(self.wanted)

    @property
    def added(self) -> Array:
        """C, or nothing."""
        return self.product.values.get("C", np.zeros_like(self.seen))

    def within(self, warps: tuple[int, ...]) -> Array:
        """What of D some warps hold."""
        return np.isin(np.arange(self.seen.size), self.sides["D"].cells[[*warps]]).reshape(self.seen.shape)

    def explains(self, role: str, mistake: Mistake) -> bool:
        """Whether D is what came out if cells of an operand, maybe for some warps of D, have the values of others."""
        values, (_, cells, instead, warps) = self.sides[role].values, mistake
        within = self.within(warps) if warps else np.True_
        moved, most = values.copy(), self.allowed.copy()
        moved.flat[cells] = values.flat[instead]
        if np.array_equal(moved, values):
            return False
        if role == "D":
            found, most.flat[cells] = moved, self.allowed.flat[instead]
        elif role == "C":
            found = self.wanted - self.added + moved
        elif role in ("B", "SFB"):
            found = self.left @ self.product.right(**{role: moved}) + self.rest
        else:
            found = self.product.left(**{role: moved}) @ self.right + self.rest
        return bool(self.equal(np.where(within, found, self.wanted), most).all())


@np.errstate(invalid="ignore", over="ignore")  # of infinities
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
    if query.parameters()["role"] not in (None, "D"):
        raise LanemapError(f"name {query.title} without a role, or with D: that is what came out", "role")
    actual, expected = _array("actual", actual), None if expected is None else _array("expected", expected)
    given = {role: _array(role, array) for role, array in given.items() if array is not None}
    both = {"A", "B"} <= given.keys()
    if not both and expected is None:
        raise LanemapError("give A and B, or the expected D: there is nothing to compare with", "expected")
    fragments = _operands(reader, query, given, d or _NATIVE.get(actual.dtype.str[1:], ""), named=d)
    xor = False
    if both and instruction(fragments["A"].instruction).sparse and "E" not in fragments:
        raise LanemapError(f"{fragments['A']} is sparse: give E, the index of each stored element in its chunk", "e")
    if both and fragments["A"].type == "b1":
        operations = {form.suffix: f"{form.name} {form.shape} b1 {form.suffix[1:]}" for form in query.forms}
        if len(operations) > 1:
            raise LanemapError(f"{query.title} multiplies bits in two ways: name {either([*operations.values()])}")
        xor = ".xor.popc" in operations
    sides = {role: Given(role, values_of(of, given[role], role), of) for role, of in fragments.items() if role in given}
    seen = values_of(fragments["D"], actual, "actual")
    product = Multiplied({role: side.values for role, side in sides.items()}, fragments.get("A"), xor)
    nothing = np.zeros((1, seen.shape[1], 1)), np.zeros((1, 1, seen.shape[2]))
    left, right = (product.left(), product.right()) if both else nothing
    made, rest = left @ right, xor * left.shape[2] / 2 + product.values.get("C", np.zeros_like(seen))
    wanted = made + rest
    if expected is not None:
        wanted = values_of(fragments["D"], expected, "expected")
        rest = wanted - made
    size = np.abs(left) @ np.abs(right) + np.abs(wanted)
    size = np.where(np.isfinite(size), size, 0)  # infinity is near nothing
    allowed = _tolerance(fragments, product.values, size, seen, wanted)
    wraps = _WRAPS * (fragments["D"].type == "s32")
    sides["D"] = Given("D", wanted, fragments["D"])

    compared = Compared(sides, product, left, right, rest, wanted, seen, allowed, wraps)
    good = compared.good
    apart = np.where(good, 0, seen - wanted)
    weights = np.random.default_rng(0).integers(-_HEAVIEST, _HEAVIEST, seen.shape, endpoint=True).astype(np.float64)
    off = float((weights * apart).sum())
    limit = _HEAVIEST * float(allowed.sum() + 2.0**-40 * (size + np.abs(seen)).sum())
    weighed = {"C": weights, "D": weights} | (product.weights(weights) if both else {})
    sieves = {role: Sieve(each, off, limit, wraps) for role, each in weighed.items()}

    wrong = int((~good).sum())
    roles = [role for role in ("A", "B", "E", "SFA", "SFB", "C", "D") if role in sides and (both or role in "CD")]
    alone = [warp for warp in range(len(sides["D"].cells)) if good[~compared.within((warp,))].all()]
    causes = [
        Cause(role, mistake.words)
        for role in (roles if wrong else ())
        for mistake in sides[role].mistakes(sieves.get(role), alone)
        if compared.explains(role, mistake)
    ]
    if wrong and "C" in sides and compared.equal(wanted - compared.added).all():
        causes.append(Cause("C", "C were left out"))
    if wrong and both and "E" not in sides and (swapped := sides["A"].swapped(sides["B"])):
        found = product.left(A=swapped[0]) @ product.right(B=swapped[1])
        causes += [Cause("A", "A and B were exchanged")] if compared.equal(rest + found).all() else []
    remarks = [] if both else ["without A and B only what happens to C and D can be told"]
    of = fragments["D"]
    if not causes and len(odd := np.argwhere(~np.isfinite(seen) & np.isfinite(wanted))):
        *_, row, col = odd[0]
        words = f"row {row}, column {col} of D is {seen[tuple(odd[0])]:g}, and {wanted[tuple(odd[0])]:g} by the product"
        remarks.append(f"{words}: no exchange makes that of {counted(len(odd), 'element')}")
    return Blame(str(of), str(of.source), wrong, seen.size, tuple(dict.fromkeys(causes)), roles, remarks)


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
    tiling = Tiling.of(**query.tiles)
    for role in ("E", "A", "B", "SFA", "SFB", "D", "C"):
        if role not in roles and role != "D":
            continue
        name = next((each.instruction for each in found.values()), query.instruction)
        asked = replace(query, role=role, instruction=name)
        in_memory = tiling and name and role in instruction(name).memory_only
        several = list(operand_with_rows(reader, replace(asked, **Query().tiles) if in_memory else asked))
        if in_memory:  # all of the tile at once, which no warp holds
            several = [replace(each, tiling=tiling, atom=each) for each in several]
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


def _array(name: str, given: Any) -> Array:
    """What is given, as an array of one type."""
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise LanemapError(f"{name} is no array: give rows of equally many numbers", name.lower()) from None


def values_of(fragment: Fragment, array: Array, name: str) -> Array:
    """An array as numbers (computations, rows, columns).

    Unsigned integers stand for the bits of floating-point types; all else are values. A sparse A has what is stored of
    it, and E the index of each stored element, or pair, in its chunk.

    Raises:
        LanemapError: it has another shape, or numbers that the type lacks.
    """
    rule, row = fragment.sparsity, TYPES[fragment.type]
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
        its = " x ".join(map(str, array.shape)) or "one number"
        raise LanemapError(f"{name} is {its} of {array.dtype}: {words}", name.lower())
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
