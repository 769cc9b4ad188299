"""Mappings: TOML files that say which callables of a library claim what of which operands.

A file has keys of its own (``Mapping``) and tables ``[[entry]]`` (``LibraryEntry``), each with a list ``claims``
(``Claim``). An entry names one callable or object; a claim says of which operand it is the layout.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator
from collections.abc import Mapping as Table
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ...db.errors import LanemapError
from ...db.instructions import INSTRUCTIONS, dimensions, instruction

_Built = TypeVar("_Built")

FORMS = ("place", "cell", "address", "bases", "strides")


@dataclass(frozen=True)
class Claim:
    """One operand that an entry says it is the layout of.

    Attributes:
        shape: as in m16n8k16.
        types: PTX types with the same claim, such as ``f16 bf16``.
        role: of the operand.
        instruction: as PTX spells it.
        axes: what the entry's pair counts: ``nk`` is (n, k). Default: the rows and columns of the operand.
        major: of A and B, where both exist.
        selector: of the metadata E.
        qualifiers: what else in the instruction's name changes the layout, such as ``x4`` of ``tcgen05.ld``.
        origin: the cell of the entry's tile, in its own axes, where the operand begins.
        first: the value of a thread that is the operand's first.
        thread: the thread that is the operand's lane 0.
        quad: the lanes of each four that count, for operands that the others do not supply.
        move: ``ldmatrix.x4``, ``stmatrix.x2.trans`` and so on: what turns addresses into registers.
        bits: width of one value of E, which holds several indices.
        logical: whether a sparse A counts the columns of the whole A, not those that are stored.
        set: the claim set, where it is not that of the entry.
    """

    shape: str
    types: str
    role: str
    instruction: str = "mma"
    axes: str = ""
    major: str | None = None
    selector: int | None = None
    qualifiers: str = ""
    origin: tuple[int, int] = (0, 0)
    first: int = 0
    thread: int = 0
    quad: tuple[int, ...] = (0, 1, 2, 3)
    move: str = ""
    bits: int = 16
    logical: bool = False
    set: str = ""

    @property
    def turned(self) -> bool:
        """Whether the entry's pair counts columns before rows."""
        return self.axes not in ("", instruction(self.instruction).axes[self.role])

    @property
    def compressed(self) -> bool:
        """Whether it is about the columns of a sparse A that are stored."""
        return self.role == "A" and instruction(self.instruction).sparse and not self.logical


@dataclass(frozen=True)
class LibraryEntry:
    """One callable or object of a library.

    Attributes:
        name: in its module, with dots for what is inside a class.
        form: one of FORMS. ``place`` takes (lane, value) to a pair, ``cell`` a pair to (lane, value), ``address`` a
            lane to the pair at which its 16 bytes begin; ``bases`` are vectors for the bits of register, lane and
            warp; ``strides`` is CuTe's shape:stride text.
        claims: what it is the layout of.
        module: where it is; alternatives for versions in which it has moved.
        adapter: whether it is in the Python file of the mapping's name, which is beside it.
        set: the claim set. Sets are compared one by one.
        make: arguments of a call that gives the callable or the object.
        with_: arguments of each call, by name; ``with`` in the file.
        stride: where a number comes out instead of a pair: how many of the second axis one step of the first has.
        tile: how many cells a ``cell`` takes. Default: as many as its claims need.
        origin: the name of what defines it in the library, where that is not the entry itself.
        unreached: why no result depends on what it claims, where that is so. Reports say it of what is wrong.
    """

    name: str
    form: str
    claims: tuple[Claim, ...]
    module: tuple[str, ...] = ()
    adapter: bool = False
    set: str = ""
    make: Table[str, Any] | None = None
    with_: Table[str, Any] = field(default_factory=dict)
    stride: int = 0
    tile: tuple[int, int] = (0, 0)
    origin: str = ""
    unreached: str = ""


@dataclass(frozen=True)
class Mapping:
    """A file: the library and its distribution, the versions that it was seen to work with, and its entries.

    ``refused`` has the entries that cannot be used, each with the reason.
    """

    path: Path
    library: str
    package: str
    seen: tuple[str, ...] = ()
    entries: tuple[LibraryEntry, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def read_mapping(path: Path) -> Mapping:
    """Read a mapping. An entry that cannot be used is refused by name, and the others stay.

    Raises:
        LanemapError: the file cannot be read, is not TOML, or has a wrong key outside its entries.
    """
    try:
        with path.open("rb") as stream:
            table = tomllib.load(stream)
    except OSError as error:
        raise LanemapError(f"cannot read {path}: {error.strerror}: name a mapping, or one that ships") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LanemapError(f"{path} is not TOML: {error}") from None
    tables = table.pop("entry", [])
    if not isinstance(tables, list) or not tables:
        raise LanemapError(f"{path} has no entry: write [[entry]] with a module, a name, a form and claims")
    entries, refused = [], []
    for number, each in enumerate(tables, start=1):
        called = f"entry {number}" + (f" ({each['name']})" if isinstance(each, dict) and "name" in each else "")
        try:
            entries.append(_entry(each))
        except LanemapError as error:
            refused.append((called, str(error)))
    try:
        return _build(Mapping, table, path=path, entries=tuple(entries), refused=tuple(refused))
    except LanemapError as error:
        raise LanemapError(f"{path}: {error}") from None


def shipped() -> Iterator[Mapping]:
    """The mappings that ship, by name."""
    yield from map(read_mapping, sorted((Path(__file__).parent / "mappings").glob("*.toml")))


def _entry(table: object) -> LibraryEntry:
    if not isinstance(table, dict):
        raise LanemapError("it is not a table: write [[entry]]")
    claims = table.get("claims")
    if not isinstance(claims, list) or not claims:
        raise LanemapError('it has no claims: write claims = [{shape = "m16n8k16", types = "f16", role = "A"}]')
    renamed = {"with_" if name == "with" else name: value for name, value in table.items() if name != "claims"}
    entry = _build(LibraryEntry, renamed, claims=tuple(map(_claim, claims)))
    if entry.form not in FORMS:
        raise LanemapError(f"invalid form {entry.form!r}: it is one of {', '.join(FORMS)}")
    if not entry.module and not entry.adapter:
        raise LanemapError("it has no module: name the one that the callable is in")
    if entry.form == "address" and not all(claim.move for claim in entry.claims):
        raise LanemapError('a claim on addresses says what loads them: move = "ldmatrix.x4"')
    return entry


def _claim(table: object) -> Claim:
    if not isinstance(table, dict):
        raise LanemapError(f'claim {table!r} is not a table: write {{shape = "m16n8k16", types = "f16", role = "A"}}')
    claim = _build(Claim, table)
    if claim.instruction not in INSTRUCTIONS:
        raise LanemapError(f"invalid instruction {claim.instruction!r}: choose from {', '.join(INSTRUCTIONS)}")
    dimensions(claim.shape, claim.role, claim.instruction, claim.qualifiers or None)
    natural = instruction(claim.instruction).axes[claim.role]
    if claim.axes and sorted(claim.axes) != sorted(natural):
        raise LanemapError(f"invalid axes {claim.axes!r}: {claim.role} has {natural} or {natural[::-1]}")
    return claim


def _build(kind: type[_Built], table: Table[str, Any], **made: Any) -> _Built:
    """An instance of a dataclass from a table and, for the fields that are not in the table, from ``made``."""
    known = {each.name: each for each in fields(kind) if each.name not in made}  # type: ignore[arg-type]
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise LanemapError(f"unknown key {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        accepts, words = _KINDS[str(known[name].type).removesuffix(" | None")]
        if not accepts(value):
            raise LanemapError(f"{name} is {value!r}: it must be {words}")
        one_for_many = known[name].type == "tuple[str, ...]" and isinstance(value, str)
        made[name] = (value,) if one_for_many else tuple(value) if isinstance(value, list) else value
    for name, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and name not in table:
            raise LanemapError(f"it has no {name}")
    return kind(**made)


def _whole(value: object) -> bool:
    return type(value) is int


#: What a value of each type of field must be in the file, as a test and in words.
_KINDS: Table[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "text"),
    "int": (_whole, "a whole number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "tuple[int, int]": (
        lambda value: isinstance(value, list) and [*map(_whole, value)] == [True] * 2,
        "two whole numbers",
    ),
    "tuple[int, ...]": (lambda value: isinstance(value, list) and all(map(_whole, value)), "whole numbers"),
    "tuple[str, ...]": (
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))
        ),
        "text, or a list of it",
    ),
    "Table[str, Any]": (lambda value: isinstance(value, dict), "a table"),
}
