"""Mappings: TOML files that say which callables of a library are layouts of which operands.

A file has keys of its own (``Mapping``) and tables ``[[entry]]`` (``LibraryEntry``), each with a list ``claims``
(``Claim``). An entry names one callable or object; a claim says which operand it is the layout of. One with a list
``each`` of tables stands for as many entries: in its texts ``{rows}`` is what the table has as ``rows``, and a text
that is nothing else becomes the value itself.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...db.errors import LanemapError, validated
from ...db.isa.instructions import INSTRUCTIONS, dimensions, instruction, majors
from ..importing import MAPPINGS

FORMS = ("place", "cell", "address", "bases", "strides", "kernel")
#: A number of lanes, values, rows or columns.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 16)]


class _Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a file, all of whose keys are known."""


class Claim(_Known, frozen=True):
    """An operand whose layout an entry claims to be.

    Attributes:
        shape: as in m16n8k16.
        types: PTX types with the same claim, such as ``f16 bf16``.
        role: of the operand.
        instruction: as PTX writes it.
        axes: what the entry's pair counts: ``nk`` is (n, k). Default: the rows and columns of the operand.
        major: of A and B, where both exist.
        selector: of the metadata E.
        qualifiers: what else in the instruction's name changes the layout, such as ``x4`` of ``tcgen05.ld``, or how it
            lies in shared memory, such as ``128B.K``: its one lane is 0, and values are its elements from the start.
        origin: the cell of the entry's tile, in its own axes, where the operand begins.
        first: the value of a thread that is the operand's first.
        thread: the thread that is the operand's lane 0.
        quad: the lanes of each four that supply the operand, if not all do.
        move: ``ldmatrix.x4``, ``stmatrix.x2.trans`` and so on: the move that the addresses are for.
        bits: width of one value of E, which holds several indices.
        first_bit: the lowest bit of its slot that an element occupies, if it does not fill it. Default: not claimed.
        logical: whether a sparse A counts the columns of the whole A, not the stored ones.
        set: the claim set, if it is not that of the entry.
        tile: what else is claimed, as in ``m64n64k32``: the operand of every instruction of such a tile; of a move M
            are its rows. See ``Tiling``.
        warps: how many make the tile along M and N, as in ``2x2``.
        order: the axis along which warps are numbered first, and those along which their instructions are.
        contiguous: whether the instructions of a warp are neighbours.
        copy: which of the warps that hold the same is claimed. Default: all.
    """

    shape: str
    types: str
    role: str
    instruction: str = "mma"
    axes: str = ""
    major: str | None = None
    selector: Count | None = None
    qualifiers: str = ""
    origin: tuple[Count, Count] = (0, 0)
    first: Count = 0
    thread: Count = 0
    quad: tuple[Annotated[int, msgspec.Meta(ge=0, le=3)], ...] = (0, 1, 2, 3)
    move: str = ""
    bits: Annotated[int, msgspec.Meta(ge=2, le=32)] = 16
    first_bit: Count | None = None
    logical: bool = False
    set: str = ""
    tile: str = ""
    warps: str = ""
    order: str = ""
    contiguous: bool = False
    copy: Count | None = None

    @property
    def turned(self) -> bool:
        """Whether the entry's pair counts columns before rows."""
        return self.axes not in ("", instruction(self.instruction).axes[self.role])

    @property
    def compressed(self) -> bool:
        """Whether it counts the stored columns of a sparse A."""
        return self.role == "A" and instruction(self.instruction).sparse and not self.logical

    def check(self) -> None:
        """Refuse a claim that names no operand.

        Raises:
            LanemapError: says what would be right.
        """
        if self.instruction not in INSTRUCTIONS:
            raise LanemapError(f"invalid instruction {self.instruction!r}: choose from {', '.join(INSTRUCTIONS)}")
        if not self.types.split():
            raise LanemapError('it has no types: write types = "f16"')
        dimensions(self.shape, self.role, self.instruction, self.qualifiers or None)
        natural = instruction(self.instruction).axes[self.role]
        of_each = (majors(self.instruction, self.shape, type_, self.role) for type_ in self.types.split())
        if self.major and not all(self.major in known for known in of_each):
            raise LanemapError(f"invalid major {self.major!r}: only A and B have row or col, and most but one of them")
        if self.axes and sorted(self.axes) != sorted(natural):
            raise LanemapError(f"invalid axes {self.axes!r}: {self.role} has {natural} or {natural[::-1]}")


class Traced(_Known, frozen=True):
    """What a kernel is traced with, as ``lanemap trace`` takes it.

    Attributes:
        args: the arguments by name, in their order, as in ``f16[64,64]``.
        product: what the kernel computes.
        grid: how many blocks.
    """

    args: dict[str, str | int | float] = {}
    product: str | None = None
    grid: int | tuple[int, ...] = 1


class LibraryEntry(_Known, frozen=True):
    """One callable or object of a library.

    Attributes:
        name: in its module, with dots for members of a class.
        form: one of FORMS. ``place`` takes (lane, value) to a pair, ``cell`` a pair to (lane, value), ``address`` a
            lane to the pair at which its 16 bytes begin; ``bases`` are vectors for the bits of register, lane and
            warp; ``strides`` is an object whose text is CuTe's shape:stride; ``kernel`` is a table of ``ptx``,
            ``block`` and ``shared``, which is traced, and claims the operands of its tensor instructions.
        claims: the operands whose layout it is; of a kernel none.
        module: where it is; alternatives for versions in which it has moved.
        adapter: whether it is in the Python file next to the mapping and with its name.
        set: the claim set. Sets are compared one by one.
        make: arguments of a call that returns the callable or the object.
        with_: arguments of each call, by name; ``with`` in the file.
        stride: if it returns a number instead of a pair, how many of the second axis one step of the first has.
        tile: how many cells a ``cell``, or threads and values a ``place`` takes, by default as many as its claims need;
            the rows and columns that ``strides`` index, by default those of one operand.
        origin: the name of its definition in the library, if that is not the entry itself.
        trace: what a kernel is traced with: its arguments, by name, and the product.
    """

    name: str
    form: str
    claims: tuple[Claim, ...] = ()
    module: str | tuple[str, ...] = ()
    adapter: bool = False
    set: str = ""
    make: dict[str, Any] | None = None
    with_: dict[str, Any] = msgspec.field(default_factory=dict, name="with")
    stride: Count = 0
    tile: tuple[Count, Count] = (0, 0)
    origin: str = ""
    trace: Traced | None = None

    def check(self) -> None:
        """Refuse an entry that cannot be called, or claims nothing.

        Raises:
            LanemapError: says what would be right.
        """
        if self.form not in FORMS:
            raise LanemapError(f"invalid form {self.form!r}: it is one of {', '.join(FORMS)}")
        if not self.module and not self.adapter:
            raise LanemapError("it has no module: name the one that the callable is in")
        if (self.form == "kernel") != (self.trace is not None):
            raise LanemapError('a kernel, and nothing else, is traced: write trace = { args = { a = "f16[64,64]" } }')
        if not self.claims and self.form != "kernel":
            raise LanemapError('it has no claims: write claims = [{shape = "m16n8k16", types = "f16", role = "A"}]')
        for claim in self.claims:
            claim.check()
        if any(bool(claim.move) != (self.form == "address") for claim in self.claims):
            words = 'a claim on addresses needs the move that they are for, and no other does: move = "ldmatrix.x4"'
            raise LanemapError(words)


class _Head(_Known, frozen=True):
    library: str
    package: str
    seen: tuple[str, ...] = ()
    module: str | tuple[str, ...] = ()


class Mapping(_Head, frozen=True, kw_only=True):
    """A file: the library and its distribution, the versions with which it was seen to work, and its entries.

    ``library`` names the source, and ``package`` is the distribution, as ``pip`` lists it, whose version is a part of
    the name where it is installed. ``module`` is the default for entries. ``refused`` has the entries that cannot be
    used, each with the reason.
    """

    path: Path
    entries: tuple[LibraryEntry, ...]
    refused: tuple[tuple[str, str], ...]


def read_mapping(path: Path) -> Mapping:
    """Read a mapping. An entry that cannot be used is refused by name; the others are kept.

    Raises:
        LanemapError: the file cannot be read, is not TOML, or has a wrong key outside its entries.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LanemapError(f"cannot read {path}: {error.strerror}: name a mapping, or a shipped one") from None
    except (ValueError, RecursionError) as error:
        raise LanemapError(f"{path} is not TOML: {error}") from None
    tables = table.pop("entry", [])
    if not isinstance(tables, list) or not tables:
        raise LanemapError(f"{path} has no entry: write [[entry]] with a module, a name, a form and claims")
    try:
        head = validated(table, _Head, _Head.__struct_fields__)
    except LanemapError as error:
        words = 'a mapping begins with library = "NAME" and package = "NAME", as pip lists it'
        raise LanemapError(f"{path}: {error}: {words}") from None
    entries, refused = [], []
    keys = (*LibraryEntry.__struct_encode_fields__, *Claim.__struct_fields__)
    for number, record in enumerate(tables, start=1):
        try:
            for each in _each(record):
                entry = validated(each, LibraryEntry, keys)
                if not entry.module and not entry.adapter:
                    entry = msgspec.structs.replace(entry, module=head.module)
                entry.check()
                entries.append(entry)
        except LanemapError as error:
            name = f" ({record['name']})" if isinstance(record, dict) and "name" in record else ""
            refused.append((f"entry {number}{name}", str(error)))
    return Mapping(**msgspec.structs.asdict(head), path=path, entries=tuple(entries), refused=tuple(refused))


def _each(record: Any) -> Iterator[Any]:
    """The entries that one of a file stands for."""
    if not isinstance(record, dict) or "each" not in record:
        yield record
        return
    entry = {key: value for key, value in record.items() if key != "each"}
    if not isinstance(record["each"], list) or not all(isinstance(values, dict) for values in record["each"]):
        raise LanemapError("each is no list of tables: write each = [{rows = 64}, {rows = 128}]")
    for values in record["each"]:
        try:
            yield _filled(entry, values)
        except KeyError as error:
            raise LanemapError(f"each has no {error.args[0]}, which the entry names") from None


def _filled(value: Any, values: dict[str, Any]) -> Any:
    """A value of a file with names in braces replaced, however deep it is."""
    match value:
        case dict():
            return {key: _filled(inner, values) for key, inner in value.items()}
        case list():
            return [_filled(inner, values) for inner in value]
        case str() if whole := _NAMED.fullmatch(value):
            return values[whole[1]]
        case str():
            return _NAMED.sub(lambda name: str(values[name[1]]), value)
    return value


_NAMED = re.compile(r"\{(\w+)\}")


def shipped() -> Iterator[Mapping]:
    """The shipped mappings, by name. Each covers many versions of its library."""
    yield from map(read_mapping, sorted(MAPPINGS.glob("*.toml")))
