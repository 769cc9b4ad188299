"""Fragments: what every source provides, and everything else works on."""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import compress, starmap
from operator import and_, attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import LanemapError
from ..isa import instructions
from ..isa.instructions import Key
from ..isa.names import DEFAULT_SOURCE, EVERY_SOURCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ..isa.shared import BoundingBox, Tile
    from ..isa.tiling import Tiling
    from .places import Index, MatrixCell, RegisterPlace

    Array = NDArray[Any]

_WORD = re.compile(r"[A-Za-z0-9_.:]+")


class Element(NamedTuple):
    """One element: its place, and the cell of the matrix that it holds.

    ``col_last`` equals ``col`` unless the source names only a window of columns (sparse A and E). ``computation``
    counts products or matrices of one instruction, from 1.
    """

    lane: int
    reg: int
    slot: int
    row: int
    col: int
    col_last: int
    computation: int


#: The fields for the place of an element, and those for its cell.
PLACE, CELL = Element._fields[:3], Element._fields[3:]

#: Iterates over ``Fragment.packed``: the numbers of one element after the other.
unpacked = (_PACKED := struct.Struct(f"<{len(Element._fields)}h")).iter_unpack
_LARGEST = (1 << 15) - 1

#: The status of a sparse operand that was imported without ``col_last``.
UNTOLD_WINDOWS = "imported without col_last"

#: The status of a layout that a source states, and that puts two elements in one place.
IMPOSSIBLE = "impossible"


def part(elements: bytes, registers: int, cols: int) -> bytes:
    """Of packed elements those in registers and columns below these."""
    if "numpy" in sys.modules:  # a look-up does not import it, for which one part takes a few milliseconds
        table = _array(elements)
        return chosen(table, (table["reg"] < registers) & (table["col"] < cols)).tobytes()
    numbers = memoryview(elements).cast("h")
    _, reg, _, _, col, *_ = (numbers[at :: len(Element._fields)] for at in range(len(Element._fields)))
    held = map(and_, map(registers.__gt__, reg), map(cols.__gt__, col))
    return b"".join(map(itemgetter(0), compress(struct.iter_unpack(f"{_PACKED.size}s", elements), held)))


@cache
def element_type() -> np.dtype[Any]:
    """Element as a numpy type, 16 bits for each field: the form in which elements are packed."""
    import numpy as np

    return np.dtype([(name, "<i2") for name in Element._fields])


def _array(elements: bytes) -> Array:
    import numpy as np

    return np.frombuffer(elements, element_type())


def chosen(table: Array, which: Array) -> Array:
    """The elements at indices, or where a mask is true: numpy takes them as bytes in a tenth of the time.

    A mask of the first ones gives a view.
    """
    if which.dtype == bool and which[: (count := which.sum())].all():
        return table[:count]
    return table.view(f"V{table.itemsize}")[which].view(table.dtype)


class Packed:
    """Elements that are read on demand from a mapping, or made here, where its number is 0."""

    def __init__(self, digest: str, mapping: int, read: Callable[[int], bytes]) -> None:
        self.digest = digest
        self.mapping = mapping
        self._read = read

    @cached_property
    def data(self) -> bytes:
        """The elements, packed."""
        return self._read(self.mapping)

    @cached_property
    def array(self) -> Array:
        """The elements as an array."""
        return _array(self.data)


def by_field(table: Array) -> Array:
    """The numbers of a table, all of one field after all of another."""
    import numpy as np

    return np.ascontiguousarray(table.view("<i2").reshape(-1, len(Element._fields)).T)


def by_element(numbers: bytes) -> bytes:
    """The packed elements of which these are the numbers, all of one field after all of another.

    Raises:
        ValueError: there are not as many of each.
    """
    fields, elements = len(Element._fields), array("h", bytes(len(numbers)))
    size = len(numbers) // fields
    for at in range(fields):
        elements[at::fields] = array("h", numbers[at * size : (at + 1) * size])
    return elements.tobytes()


def pack(elements: Iterable[tuple[int, ...]]) -> bytes:
    """Elements by lane, reg and slot as they are packed."""
    return b"".join(starmap(_PACKED.pack, elements))


def packed(elements: bytes | Array, digest: str | None = None) -> Packed:
    """Elements that are made here, and not read from a database.

    Fragments share them: an array is read-only from now on.

    Args:
        elements: packed, or an array of ``element_type``, by lane, reg and slot.
        digest: their sha256, where it is known already.
    """
    from hashlib import sha256

    data = elements if isinstance(elements, bytes) else elements.data
    made = Packed(digest or sha256(data).hexdigest(), 0, lambda _: bytes(data))
    if not isinstance(elements, bytes):
        elements.flags.writeable = False
        made.array = elements
    return made


def first_columns(cells: Packed, counts: Iterable[int]) -> dict[int, Packed]:
    """The elements in so many columns, by their number, for several of them.

    Most are the first elements of a table: what two of them have is neither copied nor read again for the digest.
    """
    from hashlib import sha256

    import numpy as np

    table, found, hasher, end = cells.array, dict[int, Packed](), sha256(), 0
    for count in sorted(counts):
        inside, digest = chosen(table, table["col"] < count), None
        if np.may_share_memory(inside, table):
            hasher.update(table[end : len(inside)].data)
            end, digest = len(inside), hasher.hexdigest()
        found[count] = packed(inside, digest)
    return found


class _Elements:
    """The attribute ``elements``: an array or None, or Packed, which becomes an array on demand."""

    def __get__(self, fragment: Fragment | None, _: type | None = None) -> Array | None:
        if fragment is None:
            raise AttributeError("elements")  # so that the dataclass sees no default
        stored = fragment.__dict__["_stored"]
        return stored.array if isinstance(stored, Packed) else stored

    def __set__(self, fragment: Fragment, value: Array | Packed | None) -> None:
        fragment.__dict__["_stored"] = None if isinstance(value, _Elements) else value


class Citation(NamedTuple):
    """What a source says about a layout besides its elements. Only documents have most of it.

    ``section`` and ``anchor`` are where it is documented, ``same_as`` the section that this one refers to, ``also``
    others that say the same. ``figures`` have their number and anchor. ``formula`` is in the notation of the document,
    ``mended`` says how it differs from the printed one. ``erratum`` is the reason for a correction, with its
    ``evidence``. ``origin`` is where an import found the layout.
    """

    section: str | None = None
    anchor: str | None = None
    same_as: str | None = None
    also: str | None = None
    figures: str | None = None
    formula: str | None = None
    mended: str | None = None
    erratum: str | None = None
    evidence: str | None = None
    origin: str | None = None

    @property
    def slip(self) -> bool:
        """Whether the formula had to be mended. A formula that the document states in words is not a slip."""
        return self.mended is not None and not self.mended.startswith("put into a formula")


NOT_CITED = Citation()

_key = attrgetter(*Key._fields)


@dataclass(frozen=True, eq=False)
class Fragment(instructions.Slots):
    """All elements of one operand, as one source has them: a layout.

    ``elements`` is an array of ``element_type``, sorted by lane, reg and slot, or None if the source names the fragment
    without its elements (``status`` says why, for example ``figure-only``). The type of role E is the type of the A
    whose columns it selects. ``threads`` hold it: by default those of the instruction, or if that is unknown, the
    next power of two of its lanes. ``first_bit`` is the lowest bit of its slot that an element occupies: 0 if it fills
    the slot, and None if it does not and the source claims none. ``note`` says why it answers a
    look-up, where that is not because its source is the one to answer first. The operand of a tile has the key of that
    of one instruction, its ``atom``, and a ``tiling``: lanes then count the threads of all warps. ``members`` are the
    elements of the same operand in other shapes, of which the source says the same as of this, the largest.
    """

    instruction: str
    shape: str
    type: str
    role: str
    registers: int
    slots: int
    elements: Array | None = field(default=_Elements(), repr=False)  # type: ignore[assignment]
    major: str | None = None
    selector: int | None = None
    qualifiers: str | None = None
    source: str | None = None
    status: str = "documented"
    threads: int = 0
    citation: Citation = NOT_CITED
    first_bit: int | None = None
    register_bits: int = 0
    note: str | None = None
    tiling: Tiling | None = None
    atom: Fragment | None = field(default=None, repr=False)
    members: Mapping[str, Packed | None] = field(default_factory=dict, repr=False)

    #: Return its ``Picture``, also for a notebook. The package attaches them: a layout does not know how it is drawn.
    draw: ClassVar[Callable[..., Any]]
    _repr_html_: ClassVar[Callable[[Fragment], str | None]]
    #: Returns the operand of a tile of many such instructions. It is attached, too: a tile is made of fragments.
    tiled: ClassVar[Callable[..., Fragment]]
    #: Returns the ``Reduction`` of its rows or columns.
    reduced: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        """Fill in the threads and the width of a register if not given, and recognise elements that fill their slots.

        Raises:
            LanemapError: an element does not fit its slot from its first bit on.
        """
        if not self.threads:
            threads = instructions.threads(self.key)
            if not instructions.instruction(self.instruction).known and self.elements is not None:
                threads = 1 << int(self.elements["lane"].max(initial=0)).bit_length()
            object.__setattr__(self, "threads", threads)
        if not self.register_bits:
            object.__setattr__(self, "register_bits", instructions.register_bits(self.instruction, self.type))
        if self.first_bit == 0:
            return
        last_start = self.slot_bits - (instructions.element_width(self.type, self.role, self.slot_bits) or 1)
        if self.first_bit is None and not last_start:
            object.__setattr__(self, "first_bit", 0)
        elif self.first_bit is not None and not 0 <= self.first_bit <= last_start:
            raise LanemapError(
                f"{self}: first_bit {self.first_bit} is outside 0..{last_start}: {self.type} in {self.slot_bits} bits",
                "first_bit",
            )

    @classmethod
    def of(
        cls, key: Key, elements: Array | Packed | None, status: str, citation: Citation = NOT_CITED, **sizes: Any
    ) -> Fragment:
        """The fragment that a key names. ``sizes`` are ``registers`` and ``slots``, by default those of the operand.

        ``first_bit`` and ``register_bits`` may be given, too.
        """
        if not {"registers", "slots"} <= sizes.keys():
            sizes |= {name: getattr(instructions.operand(key), name) for name in ("registers", "slots")}
        return cls(**key._asdict(), **sizes, elements=elements, status=status, citation=citation)  # type: ignore[arg-type]

    @classmethod
    def stored(cls, key: Key, elements: Packed | None, values: Mapping[str, Any]) -> Fragment:
        """One that was checked when it was written. ``values`` are all attributes but those left at their defaults."""
        fragment = object.__new__(cls)
        fragment.__dict__.update(values, key=key, _stored=elements)
        return fragment

    @property
    def every(self) -> Sequence[Fragment]:
        """Its members and then itself, each as a fragment of its own."""
        return self._every if self.members else [self]

    @cached_property
    def _every(self) -> Sequence[Fragment]:
        return [*starmap(self.member, self.members.items()), self.member(self.shape, self.__dict__["_stored"])]

    def member(self, shape: str, elements: Packed | None) -> Fragment:
        """The same operand in another shape of its family, or in its own, as a fragment of its own."""
        registers = instructions.operand(self.key._replace(shape=shape)).registers
        return replace(self, shape=shape, registers=registers, elements=elements, members={})  # type: ignore[arg-type]

    @cached_property
    def key(self) -> Key:
        """The key, which names the fragment within its source."""
        return Key._make(_key(self))

    @property
    def vendor(self) -> str:
        """The name of the vendor whose instruction it is of."""
        return self.key.vendor

    @property
    def group(self) -> int:
        """How many of its threads execute together: 32 in a warpgroup, all where the vendor is unknown."""
        vendor = instructions.instruction(self.instruction).vendor
        return min(self.threads, vendor.group) if vendor.name else self.threads

    @property
    def dimensions(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        dimensions = instructions.dimensions(self.shape, self.role, self.instruction, self.qualifiers)
        return self.tiling.dimensions(self.shape, self.key.axes, dimensions) if self.tiling else dimensions

    @property
    def ranges(self) -> dict[str, range]:
        """The range of each field of an element."""
        rows, cols = self.dimensions
        counts = (self.threads, self.registers, self.slots, rows, cols, cols)
        computations = range(1, self.computations + 1)
        return dict(zip(Element._fields, (*map(range, counts), computations), strict=True))

    @cached_property
    def computations(self) -> int:
        """How many products or matrices the instruction handles at once; for an unknown one, how many elements name."""
        if not instructions.instruction(self.instruction).known and self.elements is not None:
            return int(self.elements["computation"].max(initial=1))
        return instructions.computations(self.instruction, self.shape, self.type, self.qualifiers)

    @property
    def identifier(self) -> str:
        """That of the key, and of a tile what it is made of."""
        return self.key.identifier + (f"_{self.tiling.identifier}" if self.tiling else "")

    @property
    def copies(self) -> int:
        """How often each element is held: in a tile by all warps that differ along another axis."""
        warps = self.tiling.copies(self.key.axes) if self.tiling else 1
        return instructions.copies(*self.key[:4]) * warps

    @property
    def tile(self) -> Tile | BoundingBox | None:
        """The tile or box that it is in shared memory; None in registers."""
        return instructions.tile(self.key) or instructions.box(self.key)

    @property
    def memory(self) -> str:
        """What memory it lies in; empty of what lanes hold in registers."""
        return "shared memory" if self.tile else "Tensor Memory" * instructions.in_tensor_memory(self.key)

    @property
    def partial(self) -> bool:
        """Whether slots may hold nothing: what only some lanes supply, and memory that is not read."""
        return self.role in instructions.PARTIAL_ROLES or bool(self.memory)

    @property
    def windowed(self) -> bool:
        """Whether its elements may stand for a window of columns."""
        return self.role in instructions.instruction(self.instruction).windowed

    @property
    def sparsity(self) -> instructions.Sparsity:
        """How metadata chooses columns of A (9.7.16.6.1)."""
        return instructions.sparsity(self.instruction, self.shape, self.type)

    @property
    def chunk(self) -> int:
        """The columns that metadata chooses from together: 1 where nothing is compressed."""
        return instructions.chunk(*self.key[:3])

    @cached_property
    def expected(self) -> tuple[int, ...]:
        """What its elements must agree with: all that the structural checks use besides them, equal for many types."""
        sizes = *self.dimensions, self.threads, self.registers, self.slots, self.computations
        return *sizes, self.copies, self.windowed, self.chunk, self.partial

    @property
    def occupied_bits(self) -> range:
        """The bits of its slot that an element occupies, usually all: as claimed, or else as the instruction does."""
        if self.first_bit is None:
            return instructions.occupied_bits(self.instruction, self.type, self.slot_bits)
        width = instructions.element_width(self.type, self.role, self.slot_bits) or self.slot_bits - self.first_bit
        return range(self.first_bit, self.first_bit + width)

    @property
    def table(self) -> Array:
        """The elements.

        Raises:
            LanemapError: the source does not give them.
        """
        self.expect_rows()
        return self.elements  # type: ignore[return-value]

    def expect_rows(self) -> None:
        """Refuse a fragment without elements.

        Raises:
            LanemapError: the source does not give them.
        """
        if not self.has_rows:
            raise LanemapError(f"{self.source or 'its source'} has no rows for {self}: {self.status}")

    @property
    def has_rows(self) -> bool:
        """Whether the source gives its elements. Does not read them."""
        return self.__dict__["_stored"] is not None

    @cached_property
    def digest(self) -> str | None:
        """The digest of the elements: equal digests are equal layouts."""
        stored = self.__dict__["_stored"]
        if stored is None:
            return None
        if isinstance(stored, Packed):
            return stored.digest
        import hashlib

        return hashlib.sha256(stored.tobytes()).hexdigest()

    def records(self) -> list[Element]:
        """The elements as named tuples, without numpy; none where the source does not give them."""
        return list(map(Element._make, self.tuples()))

    def tuples(self) -> Iterable[tuple[int, ...]]:
        """The same as plain tuples, which are faster to make."""
        return unpacked(self.packed)

    def columns(self) -> dict[str, tuple[int, ...]]:
        """The numbers of all elements by field, without numpy."""
        fields, packed = Element._fields, self.packed
        numbers = struct.unpack(f"<{len(packed) // 2}h", packed)
        return {name: numbers[at :: len(fields)] for at, name in enumerate(fields)}

    @property
    def packed(self) -> bytes:
        """The elements as they are stored, equal for equal layouts; empty if the source does not give them."""
        stored = self.__dict__["_stored"]
        if stored is None:
            return b""
        return stored.data if isinstance(stored, Packed) else stored.tobytes()

    def same_layout(self, other: Fragment) -> bool:
        """Whether both hold the same cells in the same places."""
        layout = attrgetter("digest", "registers", "slots", "first_bit")
        return bool(layout(self) == layout(other))

    def begins(self, other: Fragment) -> bool:
        """Whether it holds just the first columns of another one, in the same places."""
        first = other.table[other.table["col_last"] < self.dimensions[1]]
        return self.packed_like(other) and first.tobytes() == self.packed

    def refines(self, other: Fragment) -> bool:
        """Whether it says of every place what the other does, in some with a narrower window of columns."""
        if not self.windowed or not self.packed_like(other) or self.digest == other.digest:
            return False
        return len(self.packed) == len(other.packed) and all(
            (*place, computation) == (*same, its_computation) and first <= col and col_last <= last
            for (*place, col, col_last, computation), (*same, first, last, its_computation) in zip(
                self.tuples(), other.tuples(), strict=True
            )
        )

    @property
    def packing(self) -> tuple[int, int, int | None]:
        """How a register is divided: its width, its slots, and the lowest bit of a slot that an element occupies."""
        return self.register_bits, self.slots, self.first_bit

    def packed_like(self, other: Fragment) -> bool:
        """Whether elements of both are in the same bits of a register, as far as both claim them."""
        alike = self.first_bit == other.first_bit or None in (self.first_bit, other.first_bit)
        return alike and self.packing[:2] == other.packing[:2]

    def at(self, lane: ArrayLike, reg: ArrayLike, slot: ArrayLike) -> MatrixCell:
        """The cell that a place holds; for arrays, which broadcast, the cells of all places.

        ``at(5, 1, 1)`` of A of m16n8k16 with f16 is ``MatrixCell(row=9, col=3, col_last=3, computation=1)``. If a place
        holds nothing, its fields are None, or masked in arrays.

        Raises:
            OutsideError: a coordinate is outside the fragment; names its range.
            LanemapError: a coordinate is not an integer, or the source does not give the elements.
        """
        return self._index.at(lane=lane, reg=reg, slot=slot)

    def find(self, row: ArrayLike, col: ArrayLike, computation: ArrayLike | None = None) -> RegisterPlace:
        """The place of a cell; for arrays, which broadcast, the places of all cells.

        ``find(9, 3)`` of A of m16n8k16 with f16 is ``RegisterPlace(lane=5, reg=1, slot=1)``. If cells of the fragment
        may be in several places (copies, windows of sparse A and E that contain a column, computations if none is
        named), the places are along another axis, the last. It is as long as the cell with most places needs, and
        masked for others. The fields of a cell that is nowhere are None, or masked in arrays.

        Raises:
            OutsideError: a coordinate is outside the fragment; names its range.
            LanemapError: a coordinate is not an integer, or the source does not give the elements.
        """
        return self._index.holding(row=row, col=col, **({} if computation is None else {"computation": computation}))

    @cached_property
    def _index(self) -> Index:
        from .places import Index

        return Index(self.table, self.ranges, self)

    def __str__(self) -> str:
        return f"{self.key}, {self.tiling}" if self.tiling else str(self.key)


@dataclass(frozen=True)
class Source:
    """Where layouts come from: a document, a capture or an import, with its fragments and its provenance."""

    name: str
    kind: str
    title: str
    fragments: Sequence[Fragment] = field(repr=False)
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def with_rows(self) -> list[Fragment]:
        """The fragments whose elements it gives."""
        return [fragment for fragment in self.fragments if fragment.has_rows]


def count_elements(fragments: Iterable[Fragment]) -> int:
    """How many elements fragments have together."""
    return sum(len(fragment.elements) for fragment in fragments if fragment.elements is not None)


def merge(fragments: Iterable[Fragment]) -> tuple[list[Fragment], list[tuple[Fragment, Fragment]]]:
    """The first fragment of each key, and every later one of the same key after the first."""
    first: dict[Key, Fragment] = {}
    repeated = []
    for fragment in fragments:
        earlier = first.setdefault(fragment.key, fragment)
        if earlier is not fragment:
            repeated.append((earlier, fragment))
    return list(first.values()), repeated


def by_rule(slots: int, row: Array, col: Array, col_last: Array | None = None, computation: Array | int = 1) -> Array:
    """Elements from a rule (thread, element) -> (row, col).

    Args:
        slots: how many elements a register has.
        row: the row of each element, an array (threads, elements per thread), as are ``col`` and ``col_last``.
        col: the column, or the first column of its window.
        col_last: the last column of the window. Default: ``col``.
        computation: from 1, an array like ``row``, or one that broadcasts to it.

    Raises:
        LanemapError: see ``elements``.
    """
    import numpy as np

    thread, element = np.indices(row.shape)
    columns: dict[str, Any] = {"lane": thread, "slot": element, "row": row, "col": col, "computation": computation}
    columns["col_last"] = col if col_last is None else col_last
    return elements({name: np.broadcast_to(values, row.shape).ravel() for name, values in columns.items()}, slots)


def address_lanes(registers: Fragment, addresses: Fragment) -> Array:
    """For each element in the registers ``r`` of a move, the lane whose address ``p`` is that of its row."""
    import numpy as np

    r, p = registers.table, addresses.table
    lanes = np.zeros((registers.computations + 1, registers.dimensions[0]), np.intp)
    lanes[p["computation"], p["row"]] = p["lane"]
    return np.asarray(lanes[r["computation"], r["row"]])


def elements(columns: Mapping[str, Array], slots: int = 0) -> Array:
    """An array of elements, sorted by lane, reg and slot, from equally long columns named like the fields of Element.

    Without ``col_last`` it is ``col``, and without ``computation`` it is 1. With the ``slots`` of a register ``slot``
    counts those of a lane.

    Raises:
        LanemapError: a number does not fit into 16 bits.
    """
    import numpy as np

    table = np.empty(len(columns["lane"]), element_type())
    reg = {"reg": columns["slot"] // slots, "slot": columns["slot"] % slots} if slots else {}
    complete = {"col_last": columns["col"], "computation": 1, **columns, **reg}
    for name in Element._fields:
        values = np.asarray(complete[name])
        if max(values.max(initial=0), -values.min(initial=0)) > _LARGEST:
            outside = values[np.abs(values) > _LARGEST]
            raise LanemapError(f"{name} {outside[0]} is outside -{_LARGEST}..{_LARGEST}")
        table[name] = values
    numbers = place_numbers(table)
    return table if (np.diff(numbers) >= 0).all() else chosen(table, np.argsort(numbers, kind="stable"))


def place_numbers(table: Mapping[str, Array] | Array) -> Array:
    """A number for the place of each element, in the order of lane, reg and slot."""
    numbers: Array = table[PLACE[0]].astype("i8")
    for name in PLACE[1:]:
        numbers <<= 16  # in place: a capture has more than a million elements
        numbers += table[name]
    return numbers


#: The most characters in the name or title of a source.
_LONGEST = 300


def check_name(name: object, kind: str = "source name") -> None:
    """Refuse a name that no request could contain, or that would break the output around it.

    Raises:
        LanemapError: it is not one line of printable characters, or a spreadsheet would take it for a formula.
    """
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or name[:1] in ("", *"=+-@"):
        raise LanemapError(
            f"invalid {kind} {name!r}: it must be one line of printable characters, such as 'mine', and must not begin "
            "with = + - @",
            "name",
        )
    if len(name) > _LONGEST:
        raise LanemapError(
            f"invalid {kind} {name[:40]}...: it has {len(name)} characters, more than {_LONGEST}", "name"
        )
    stands_for = {EVERY_SOURCE: "every source", DEFAULT_SOURCE: "the best evidence"}
    if name.lower() in stands_for:
        raise LanemapError(f"invalid {kind} {name!r}: it stands for {stands_for[name.lower()]}", "name")


def check_names(source: Source) -> None:
    """Refuse a source whose names no request could contain, or no export could hold.

    Raises:
        LanemapError: a name is invalid; the message says which.
    """
    if not isinstance(source, Source):
        raise LanemapError(f"{source!r} is not a source: read_file and import_layouts return sources")
    check_name(source.name)
    check_name(source.title, f"title of {source.name}")
    for name in ("instruction", "shape", "type", "major", "qualifiers"):
        for word in {getattr(fragment, name) for fragment in source.fragments}:
            optional = word is None and name in ("major", "qualifiers")
            if not optional and not (isinstance(word, str) and _WORD.fullmatch(word)):
                raise LanemapError(f"{source.name}: invalid {name} {word!r}: use only letters, digits and _ . :")
    for fragment in source.fragments:
        if fragment.selector is not None and fragment.selector not in range(4):
            raise LanemapError(f"{source.name}: invalid selector {fragment.selector!r}: it is 0 to 3")
        try:
            _ = fragment.dimensions
        except LanemapError as error:
            raise LanemapError(f"{source.name}: {error}") from None
