"""The descriptors of tcgen05.mma, from words to them and back: of an instruction, and of a matrix in memory.

The first has 32 bits (9.7.18.4.2), the second 64, and ``shared`` for its kind (9.7.18.4.1).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import LanemapError
from ..isa import data
from ..isa.instructions import AXES, INSTRUCTIONS, Key, instruction
from ..isa.types import type_bits
from ..rows import Rows, Told
from ..text import either, listed, spans

#: Stands for a kind in the words of a descriptor of a matrix.
_SHARED = "shared"

_KINDS = [kind for table in data("instruction_descriptor") for kind in table["kinds"].split() if kind != _SHARED]
_SHAPE = re.compile(r"m(\d{1,3})n(\d{1,3})(?:k(\d{1,3}))?", re.IGNORECASE)


class BitField(NamedTuple):
    """A field of the word: its bits, low first, and what its numbers stand for.

    Without ``values`` it is a number, which the word has divided by ``times``. ``later`` is the target from which on
    there is the field, or a bit or value of it. ``needed`` is the only value of it that a type of A or B has.
    """

    name: str
    bits: Sequence[int]
    values: Mapping[str, int]
    times: int = 1
    later: str = ""
    needed: Mapping[str, str] = {}

    def number(self, word: str) -> int:
        """The number that a word stands for.

        Raises:
            LanemapError: none does; says which do.
        """
        if self.values:
            named = self.values.items()
            known = {name.lower(): number for names, number in named for name in (names, *names.split(", "))}
            if word.lower() not in known:
                raise LanemapError(f"{self.name} is not {word}: choose from {', '.join(self.values)}")
            return known[word.lower()]
        most = ((1 << len(self.bits)) - 1) * self.times
        if not word.isdecimal() or int(word) % self.times or int(word) > most:
            by = f" in steps of {self.times}" if self.times > 1 else ""
            raise LanemapError(f"{self.name} is not {word}: it is 0 to {most}{by}")
        return int(word) // self.times

    def meaning(self, number: int) -> str:
        """What a number stands for; empty if nothing."""
        if not self.values:
            return str(number * self.times)
        return next((names for names, value in self.values.items() if value == number), "")


def fields(kind: str) -> list[BitField]:
    """The fields of a kind, such as f16, in the order of their bits.

    Raises:
        LanemapError: there is no such kind; names those that there are.
    """
    found = []
    for row in _table(kind)["fields"]:
        spelt = {kind: _numbered(kind)} if row["field"] == "K" else row.get("values", {})
        values: Mapping[str, int] = next((these for kinds, these in spelt.items() if kind in kinds.split()), {})
        if values or not spelt:  # what other kinds alone have is reserved
            runs = (map(int, run.split("-")) for run in row["bits"].split())
            bits = [bit for first, *last in runs for bit in range(first, (last or [first])[0] + 1)]
            named = {name: row[name] for name in ("times", "later", "needed") if name in row}
            found.append(BitField(row["field"], bits, values, **named))
    return found


def widths(kind: str, *, sparse: bool) -> dict[int, list[int]]:
    """The values of N that an instruction of a kind has for each M, whichever blocks execute it (9.7.18.2.1)."""
    found: dict[int, list[int]] = {}
    for row in _table(kind)["shapes"]:
        if kind in row["kinds"].split() and not (sparse and row.get("dense")):
            widths = [n for first, last, step in row["N"] for n in range(first, last + 1, step)]
            found |= {m: [*found.get(m, ()), *widths] for m in row["M"]}
    return found


def expect_shape(key: Key) -> None:
    """Refuse a shape that no instruction of one block has, of any kind, for an A or B in shared memory.

    Raises:
        LanemapError: it is one; says what would be right.
    """
    type_, (m, n, k) = key.type, (int(number) for _, number in AXES.findall(key.shape))
    how = "sparse" if instruction(key.instruction).sparse else "dense"
    of_a = {kind: next(field.values for field in fields(kind) if field.name == "A") for kind in _KINDS}
    every = [(kind, row) for kind, types in of_a.items() if type_ in types for row in _depths(kind, how)]
    typed = [(kind, row) for kind, row in every if type_ in row.get("types", type_).split()]
    if not typed:
        raise LanemapError(f"{key.instruction} has no A or B of {type_}")
    if not (having := [(kind, row) for kind, row in typed if row[how] == k]):
        deep = sorted({row[how] for _, row in typed})
        raise LanemapError(f"K of {type_} is {k}: it must be {either([*map(str, deep)])}")
    if not (kinds := [kind for kind, row in having if type_ not in row.get("drawn", "").split()]):
        raise LanemapError(f"how {type_} with K of {k} is packed is figure-only: name one of 8 bits")
    wide: dict[int, set[int]] = {}
    for kind in kinds:
        for rows, columns in widths(kind, sparse=how == "sparse").items():
            wide.setdefault(rows, set()).update(columns)
    if wide.pop(256) and m == 256:
        raise LanemapError("M of 256 lies in two blocks: name what one of them holds, with M of 128")
    if m not in wide:
        raise LanemapError(f"M of {type_} with K of {k} is {m}: it must be {either([*map(str, sorted(wide))])}")
    # Where B of 8 bits is transposed, N goes in steps of 16 (table 50 of 9.1).
    narrow = key.role == "B" and str(key.qualifiers).endswith("MN") and type_bits(type_) == 8
    if n not in (fitting := {n for n in wide[m] if n % 16 == 0 or not narrow}):
        raise LanemapError(f"N of {type_} with M of {m} is {n}: it must be {listed(fitting)}")


def _depths(kind: str, how: str) -> list[Mapping[str, Any]]:
    """The rows of K of dense or of sparse products of a kind."""
    return [row for row in _table(kind)["depths"] if kind in row["kinds"].split() and how in row]


def _numbered(kind: str) -> dict[str, int]:
    """The words for each number of the field of K."""
    rows = [row for row in _table(kind)["depths"] if kind in row["kinds"].split() and "number" in row]
    return {", ".join(f"{how} {row[how]}" for how in ("dense", "sparse") if how in row): row["number"] for row in rows}


def _table(kind: str) -> Mapping[str, Any]:
    tables = {name: table for table in data("instruction_descriptor") for name in table["kinds"].split()}
    if kind not in tables:
        raise LanemapError(f"no kind {kind!r} of tcgen05.mma: choose from {', '.join(tables)}")
    return tables[kind]  # type: ignore[no-any-return]


@dataclass(frozen=True, repr=False)
class InstructionDescriptor(Told):
    """The word with which tcgen05.mma, or its sparse form, is told its shapes and types, or where a matrix lies."""

    instruction: str
    kind: str
    word: int

    @property
    def bits(self) -> int:
        """How many it has."""
        return _width(self.kind)

    def numbers(self) -> Iterator[tuple[BitField, int]]:
        """Each field, and its number in the word."""
        for field in fields(self.kind):
            yield field, sum((self.word >> bit & 1) << at for at, bit in enumerate(field.bits))

    @property
    def exit_code(self) -> int:
        """0 where each field has a meaning, else 1."""
        return int(bool(self.wrong))

    @property
    def wrong(self) -> list[str]:
        """What no descriptor of the kind has."""
        used = {bit for field in fields(self.kind) for bit in field.bits}
        reserved = [bit for bit in range(self.bits) if self.word >> bit & 1 and bit not in used]
        said = [f"bit{'s' * (len(reserved) > 1)} {spans(reserved)} must be 0"] if reserved else []
        for field, number in self.numbers():
            if not field.meaning(number):
                choices = " or ".join(f"{number} ({names})" for names, number in field.values.items())
                said.append(f"{field.name} is {number}: it must be {choices}")
        held = {field.name: number * field.times for field, number in self.numbers()}
        if instruction(self.instruction).sparse and not held.get("sparse", 1):
            said.append(f"sparse is 0 (no): for {self.instruction} it must be 1 (yes)")
        meant = {field.name: field.meaning(number) for field, number in self.numbers()}
        how, types = "sparse" if held.get("sparse") else "dense", {meant.get("A", ""), meant.get("B", "")} - {""}
        deep = [row for row in _depths(self.kind, how) if row.get("number", held.get("K")) == held.get("K")]
        if meant.get("K") and not any(types <= {*row.get("types", " ".join(types)).split()} for row in deep):
            said.append(f"K is {held['K']} ({meant['K']}): no {how} product of {' and '.join(sorted(types))} has it")
        for field, number in self.numbers():
            for of, needed in field.needed.items():
                if of in types and (other := field.meaning(number)) not in ("", needed):
                    said.append(
                        f"{field.name} is {number} ({other}): of {of} it must be {field.values[needed]} ({needed})"
                    )
        known = widths(self.kind, sparse=how == "sparse")
        if known and held["M"] not in known:
            said.append(f"M is {held['M']}: it must be {either([*map(str, sorted(known))])}")
        elif known and held["N"] not in known[held["M"]]:
            said.append(f"N is {held['N']}: with M of {held['M']} it must be {listed(known[held['M']])}")
        return said

    @property
    def verdict(self) -> str:
        """Whether it is one."""
        return "; ".join(self.wrong) or "each field has a meaning"

    def rows(self) -> Rows:
        """Each field with its bits, number and meaning."""
        rows = [
            (field.name, spans(field.bits), number, field.meaning(number) or "none", field.later or None)
            for field, number in self.numbers()
        ]
        return Rows(("field", "bits", "number", "meaning", "target"), rows)

    def parts(self) -> Iterator[str | Rows]:
        """The word, what is wrong, and its fields."""
        of = "matrix" if self.kind == _SHARED else "instruction"
        yield f"{of} descriptor of {self.instruction} {_named(self.kind)}: 0x{self.word:0{self.bits // 4}x}"
        yield self.verdict
        yield self.rows()


def _named(kind: str) -> str:
    return kind if kind == _SHARED else f"kind::{kind}"


def _width(kind: str) -> int:
    return 64 if kind == _SHARED else 32


def described(words: str) -> bool:
    """Whether words begin with an instruction that a descriptor tells its shape and types: no mnemonic has them."""
    named = INSTRUCTIONS.get(words.lower().split(maxsplit=1)[0]) if words.split() else None
    return named is not None and named.multiplies and not named.has_forms


def describe(words: str, decode: int | None = None) -> InstructionDescriptor:
    """The descriptor of a kind, or what the fields of a word are.

    Args:
        words: the kind, or ``shared``; and without a word the shape, the types of D, A and B (of kinds with scales of
            A and B), and other fields as ``transpose_B=yes``. What is not named is 0, or the only value that there is.
        decode: a word.

    Raises:
        LanemapError: a field has no such value; says what it has.
    """
    head, *named = words.split()
    head = head.lower()
    kinds = [word.lower().removeprefix("kind::") for word in named if word.lower().startswith("kind::")]
    if [word.lower() for word in named].count(_SHARED) == 1 and not kinds:
        kinds = [_SHARED]
        named = [word for word in named if word.lower() != _SHARED]
    if len(kinds) != 1:
        raise LanemapError(
            f"name one kind of {head}, as in kind::f16; for the descriptor of a matrix A or B, or shared and its fields"
        )
    kind = kinds[0]
    known = {field.name.lower(): field for field in fields(kind)}
    if decode is not None:
        if not 0 <= decode < 1 << _width(kind):
            raise LanemapError(f"{decode:#x} is no such descriptor: it has {_width(kind)} bits")
        return InstructionDescriptor(head, kind, decode)
    given: dict[str, str] = {}
    types = []
    for word in (word for word in named if not word.lower().startswith("kind::")):
        name, equals, value = word.partition("=")
        said = {name.lower(): value.lower()} if equals else {}
        if shape := _SHAPE.fullmatch(word):
            said = {axis: number for axis, number in zip("mnk", shape.groups(), strict=True) if number}
        elif not equals:
            types.append(word)
        _expect_new(given, said)
        given |= said
    if instruction(head).sparse and "sparse" in known:
        given.setdefault("sparse", "yes")
    roles = [role for role in "dab" if role in known]
    if not {"m", "n"} & known.keys() <= given.keys() or len(types) != len(roles):
        of = " and ".join(", ".join(roles).upper().rsplit(", ", 1))
        example = " ".join(next(iter(known[role].values)) for role in roles)
        alone = " alone" if len(types) > len(roles) else ""
        raise LanemapError(f"name the shape and the types of {of}{alone}, as in m128n256 {example}")
    _expect_new(given, dict(zip(roles, types, strict=True)))
    given |= dict(zip(roles, types, strict=True))
    if "k" in given:
        given["k"] = f"{'sparse' if given.get('sparse') == 'yes' else 'dense'} {given['k']}"
    if unknown := given.keys() - known.keys():
        names = ", ".join(field.name for field in known.values())
        raise LanemapError(f"{_named(kind)} has no {', '.join(sorted(unknown))}: its fields are {names}")
    number = 0
    for name, field in known.items():
        least = min(field.values.values(), default=0)
        chosen = field.number(given[name]) if name in given else least
        number |= sum((chosen >> at & 1) << bit for at, bit in enumerate(field.bits))
    made = InstructionDescriptor(head, kind, number)
    if made.wrong:
        raise LanemapError(f"no {head} {_named(kind)} has this shape: {'; '.join(made.wrong)}")
    return made


def _expect_new(given: Mapping[str, str], said: Mapping[str, str]) -> None:
    if twice := given.keys() & said.keys():
        raise LanemapError(f"{either(sorted(name.upper() for name in twice))} is said twice: name it once")
