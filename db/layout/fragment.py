"""Fragments: what every source delivers, and what everything else works on."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from warnings import warn

from ..errors import LanemapError
from ..isa import instructions
from ..isa.instructions import Key
from ..isa.vendors import DEFAULT_SOURCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from .places import Index, MatrixCell, RegisterPlace

    Array = NDArray[Any]

_WORD = re.compile(r"[A-Za-z0-9_.:]+")


class Element(NamedTuple):
    """One element: where it sits, and which cell of the matrix it holds.

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


#: The fields that say where an element sits, and those that say what it holds.
PLACE, CELL = Element._fields[:3], Element._fields[3:]

#: What ``Fragment.packed`` has, as the numbers of one element after the other.
unpacked = struct.Struct(f"<{len(Element._fields)}h").iter_unpack
_LARGEST = (1 << 15) - 1


@cache
def element_type() -> np.dtype[Any]:
    """Element as a numpy type, 16 bits for each field: the form in which elements are packed."""
    import numpy as np

    return np.dtype([(name, "<i2") for name in Element._fields])


class Packed:
    """Elements that are read when somebody asks for them."""

    def __init__(self, digest: str, read: Callable[[], bytes]) -> None:
        self.digest = digest
        self._read = read

    @cached_property
    def data(self) -> bytes:
        """The elements, packed."""
        return self._read()

    @cached_property
    def array(self) -> Array:
        """The elements as an array."""
        import numpy as np

        return np.frombuffer(self.data, element_type())


class _Elements:
    """The attribute ``elements``: an array or None, or Packed, which becomes an array when it is asked for."""

    def __get__(self, fragment: Fragment | None, _: type | None = None) -> Array | None:
        if fragment is None:
            raise AttributeError("elements")  # so that the dataclass sees no default
        stored = fragment.__dict__["_stored"]
        return stored.array if isinstance(stored, Packed) else stored

    def __set__(self, fragment: Fragment, value: Array | Packed | None) -> None:
        fragment.__dict__["_stored"] = None if isinstance(value, _Elements) else value


class Citation(NamedTuple):
    """What a source says of a layout beside its elements. Most of it only documents say.

    ``section`` and ``anchor`` are where it is documented, ``same_as`` the section that this one refers to, ``also``
    others that say the same. ``figures`` have their number and anchor. ``formula`` is in the notation of the document,
    ``mended`` how it differs from what is printed. ``erratum`` is why it was corrected, with its ``evidence``.
    ``origin`` is where an import found the layout.
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
        """Whether the formula was mended to be read. One that the document has in words is no slip of it."""
        return self.mended is not None and not self.mended.startswith("put into a formula")


NOT_CITED = Citation()


@dataclass(frozen=True, eq=False)
class Fragment:
    """All elements of one operand, as one source has them: a layout.

    ``elements`` is an array of ``element_type``, sorted by lane, reg and slot, or None where the source names the
    fragment without giving its elements (``status`` says why, for example ``figure-only``). The type of role E is the
    type of the A whose columns it selects. ``threads`` hold it: by default those of the instruction, or where that is
    unknown, as many groups of its vendor's as have its lanes. ``first_bit`` is the lowest bit of its slot that an
    element has: 0 where it fills the slot, and None where it does not and the source claims none.
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

    #: Its ``Picture``, and that in a notebook. The package attaches them: a layout does not know how it is drawn.
    draw: ClassVar[Callable[..., Any]]
    _repr_html_: ClassVar[Callable[[Fragment], str | None]]

    def __post_init__(self) -> None:
        """Tell the threads and the width of a register where nobody says them, and an element that fills its slot.

        Raises:
            LanemapError: an element does not fit its slot from its first bit on.
        """
        if not self.threads:
            row = instructions.instruction(self.instruction)
            last = 0 if row.known or self.elements is None else int(self.elements["lane"].max(initial=0))
            object.__setattr__(self, "threads", (last // row.threads + 1) * row.threads)
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
        """The fragment that a key names. ``registers`` and ``slots`` are those of the operand, if they are not given.

        ``first_bit`` and ``register_bits`` may be given, too.
        """
        if not {"registers", "slots"} <= sizes.keys():
            sizes |= {name: getattr(instructions.operand(key), name) for name in ("registers", "slots")}
        return cls(**key._asdict(), **sizes, elements=elements, status=status, citation=citation)  # type: ignore[arg-type]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What the citation says, under its old name for one more version."""
            if name not in Citation._fields:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            warn(f"write fragment.citation.{name} instead of fragment.{name}", DeprecationWarning, stacklevel=2)
            return getattr(self.citation, name)

    @cached_property
    def key(self) -> Key:
        """What names the fragment within its source."""
        return Key._make(attrgetter(*Key._fields)(self))

    @property
    def dimensions(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return instructions.dimensions(self.shape, self.role, self.instruction, self.qualifiers)

    @property
    def ranges(self) -> dict[str, range]:
        """What each field of an element can be."""
        rows, cols = self.dimensions
        counts = (self.threads, self.registers, self.slots, rows, cols, cols)
        computations = range(1, self.computations + 1)
        return dict(zip(Element._fields, (*map(range, counts), computations), strict=True))

    @cached_property
    def computations(self) -> int:
        """How many products or matrices one execution of the instruction handles; of an unknown one, as it has."""
        if not instructions.instruction(self.instruction).known and self.elements is not None:
            return int(self.elements["computation"].max(initial=1))
        return instructions.computations(self.instruction, self.shape, self.type, self.qualifiers)

    @property
    def windowed(self) -> bool:
        """Whether its elements may stand for a window of columns."""
        return self.role in instructions.instruction(self.instruction).windowed

    @property
    def chunk(self) -> int:
        """The columns of A that metadata chooses from together (9.7.14.6.1): 1 where A is dense."""
        return instructions.sparsity(self.instruction, self.shape, self.type).width

    @property
    def slot_bits(self) -> int:
        """Width of one slot. Wider than the type for 4- and 6-bit types that sit in an 8-bit container."""
        return self.register_bits // self.slots

    @property
    def occupied_bits(self) -> range:
        """The bits of its slot that an element has, mostly all: as claimed, or else as the instruction reads them."""
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
        """Whether the source gives its elements. They are not read to tell."""
        return self.__dict__["_stored"] is not None

    @cached_property
    def digest(self) -> str | None:
        """Fingerprint of the elements: equal digests are equal layouts."""
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

    @property
    def packed(self) -> bytes:
        """The elements as they are stored, alike for equal layouts; empty where the source does not give them."""
        stored = self.__dict__["_stored"]
        if stored is None:
            return b""
        return stored.data if isinstance(stored, Packed) else stored.tobytes()

    def same_layout(self, other: Fragment) -> bool:
        """Whether both hold the same cells in the same places."""
        layout = attrgetter("digest", "registers", "slots", "first_bit")
        return bool(layout(self) == layout(other))

    def stands_in(self, asked: str) -> bool:
        """Whether it is of another source than the one that was asked for, which could have it.

        The default source is the documents of one vendor.
        """
        vendor = instructions.instruction(self.instruction).vendor
        of_others = asked.lower() == DEFAULT_SOURCE and vendor.source != DEFAULT_SOURCE
        return str(self.source).lower() != asked.lower() and not of_others

    def displaced(self, other: Fragment) -> bool:
        """Whether elements have other bits of their slots in another fragment, as both claim."""
        return None not in (self.first_bit, other.first_bit) and self.first_bit != other.first_bit

    def at(self, lane: ArrayLike, reg: ArrayLike, slot: ArrayLike) -> MatrixCell:
        """The cell that a place holds; of arrays, which broadcast, the cells of all.

        ``at(5, 1, 1)`` of A of m16n8k16 with f16 is ``MatrixCell(row=9, col=3, col_last=3, computation=1)``. Where a
        place holds nothing, each is None, in arrays masked.

        Raises:
            OutsideError: a coordinate is outside the fragment; names its range.
            LanemapError: a coordinate is no integer, or the source does not give the elements.
        """
        return self._index.at(lane, reg, slot)

    def find(self, row: ArrayLike, col: ArrayLike, computation: ArrayLike | None = None) -> RegisterPlace:
        """The place of a cell; of arrays, which broadcast, the places of all.

        ``find(9, 3)`` of A of m16n8k16 with f16 is ``RegisterPlace(lane=5, reg=1, slot=1)``. Where cells of the
        fragment may be in several places, these have an axis of their own, the last: copies, windows of sparse A and E
        that a column is in, and all computations where none is named. It is as long as for the cell that is in most;
        others are masked. A cell that is nowhere is None, in arrays masked.

        Raises:
            OutsideError: a coordinate is outside the fragment; names its range.
            LanemapError: a coordinate is no integer, or the source does not give the elements.
        """
        return self._index.find(row, col, computation)

    @cached_property
    def _index(self) -> Index:
        from .places import Index

        return Index(self.table, self.ranges, self)

    def __str__(self) -> str:
        return str(self.key)


@dataclass(frozen=True)
class Source:
    """Where layouts come from: a document, a capture or an import, with its fragments and its provenance."""

    name: str
    kind: str
    title: str
    fragments: Sequence[Fragment]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def with_rows(self) -> list[Fragment]:
        """The fragments that it gives the elements of."""
        return [fragment for fragment in self.fragments if fragment.has_rows]


def count_elements(fragments: Iterable[Fragment]) -> int:
    """How many elements fragments have together."""
    return sum(len(fragment.elements) for fragment in fragments if fragment.elements is not None)


def merge(fragments: Iterable[Fragment]) -> tuple[list[Fragment], list[tuple[Fragment, Fragment]]]:
    """The first fragment of each key, and every later one of the same key after the first."""
    first: dict[Key, Fragment] = {}
    repeated = []
    for fragment in fragments:
        known = first.setdefault(fragment.key, fragment)
        if known is not fragment:
            repeated.append((known, fragment))
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
    columns: dict[str, Any] = {
        "lane": thread,
        "reg": element // slots,
        "slot": element % slots,
        "row": row,
        "col": col,
        "col_last": col if col_last is None else col_last,
        "computation": np.broadcast_to(computation, row.shape),
    }
    return elements({name: values.ravel() for name, values in columns.items()})


def address_lanes(registers: Fragment, addresses: Fragment) -> Array:
    """Of each element in the registers ``r`` of a move, the lane whose address ``p`` is that of its row."""
    import numpy as np

    r, p = registers.table, addresses.table
    lanes = np.zeros((registers.computations + 1, registers.dimensions[0]), np.intp)
    lanes[p["computation"], p["row"]] = p["lane"]
    return np.asarray(lanes[r["computation"], r["row"]])


def elements(columns: Mapping[str, Array]) -> Array:
    """An array of elements, sorted by lane, reg and slot, from equally long columns named like the fields of Element.

    Without ``col_last`` it is ``col``, and without ``computation`` it is 1.

    Raises:
        LanemapError: a number does not fit into 16 bits.
    """
    import numpy as np

    table = np.empty(len(columns["lane"]), element_type())
    given = {"col_last": columns["col"], "computation": 1, **columns}
    for name in Element._fields:
        values = np.asarray(given[name])
        if (outside := np.abs(values) > _LARGEST).any():
            raise LanemapError(f"{name} {values[outside][0]} is outside -{_LARGEST}..{_LARGEST}")
        table[name] = values
    return table[np.argsort(place_numbers(table), kind="stable")]  # fast where they are in order


def place_numbers(table: Array) -> Array:
    """A number for the place of each element: in the order of lane, reg and slot."""
    lane, reg, slot = (table[name].astype("i8") for name in PLACE)
    numbers: Array = (lane << 32) + (reg << 16) + slot
    return numbers


#: Characters of the name or title of a source.
_LONGEST = 300


def check_name(name: object, what: str = "source name") -> None:
    """Refuse a name that no request could spell, or that would break what is written around it.

    Raises:
        LanemapError: it is not one line of printable characters, or a spreadsheet would take it for a formula.
    """
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or name[:1] in ("", *"=+-@"):
        raise LanemapError(
            f"invalid {what} {name!r}: it must be one line of printable characters, such as 'mine', and must not begin "
            "with = + - @",
            "name",
        )
    if len(name) > _LONGEST:
        raise LanemapError(
            f"invalid {what} {name[:40]}...: it has {len(name)} characters, and {_LONGEST} at most", "name"
        )
    if name.lower() == "all":  # as in ``isa.names.EVERY_SOURCE``
        raise LanemapError(f"invalid {what} {name!r}: it stands for every source", "name")


def check_names(source: Source) -> None:
    """Refuse a source whose names no request could spell, or no export could hold.

    Raises:
        LanemapError: a name is invalid; says which.
    """
    if not isinstance(source, Source):
        raise LanemapError(f"{source!r} is not a source: read_file and import_layouts return sources")
    check_name(source.name)
    check_name(source.title, f"title of {source.name}")
    for fragment in source.fragments:
        for name in ("instruction", "type", "major", "qualifiers"):
            word = getattr(fragment, name)
            optional = word is None and name in ("major", "qualifiers")
            if not optional and not (isinstance(word, str) and _WORD.fullmatch(word)):
                raise LanemapError(f"{source.name}: invalid {name} {word!r}: use letters, digits and _ . : only")
        if fragment.selector is not None and fragment.selector not in range(4):
            raise LanemapError(f"{source.name}: invalid selector {fragment.selector!r}: it is 0 to 3")
        if not isinstance(fragment.shape, str):
            raise LanemapError(
                f"{source.name}: shape {fragment.shape!r} is not text: write m16n8k16 for M=16, N=8, K=16"
            )
        try:
            _ = fragment.dimensions
        except LanemapError as error:
            raise LanemapError(f"{source.name}: {error}") from None
