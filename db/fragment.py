"""Fragments: what every source delivers, and what everything else works on."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from . import instructions
from .errors import LanemapError
from .instructions import Key
from .names import EVERY_SOURCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .picture import Picture

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


_PACKED = struct.Struct(f"<{len(Element._fields)}h")
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


@dataclass(frozen=True, eq=False)
class Fragment:
    """All elements of one operand, as one source has them: a layout.

    ``elements`` is an array of ``element_type``, sorted by lane, reg and slot, or None where the source names the
    fragment without giving its elements (``status`` says why, for example ``figure-only``). The type of role E is the
    type of the A whose columns it selects. ``origin`` says where an import found it.
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
    def key(self) -> Key:
        """What names the fragment within its source."""
        return Key(*(getattr(self, name) for name in Key._fields))

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

    @property
    def threads(self) -> int:
        """How many threads hold it."""
        return instructions.instruction(self.instruction).threads

    @property
    def computations(self) -> int:
        """How many products or matrices one execution of the instruction handles."""
        return instructions.computations(self.instruction, self.shape, self.type, self.qualifiers)

    @property
    def slip(self) -> bool:
        """Whether its formula was mended to be read. One that the document has in words is no slip of it."""
        return self.mended is not None and not self.mended.startswith("put into a formula")

    @property
    def windowed(self) -> bool:
        """Whether its elements may stand for a window of columns."""
        return self.role in instructions.instruction(self.instruction).windowed

    @property
    def chunk(self) -> int:
        """The columns of A that metadata chooses from together (9.7.14.6.1): 1 where A is dense."""
        return instructions.sparsity(self.instruction, self.shape, self.type).width

    @property
    def register_bits(self) -> int:
        """Width of one register."""
        return instructions.register_bits(self.type)

    @property
    def slot_bits(self) -> int:
        """Width of one slot. Wider than the type for 4- and 6-bit types that sit in an 8-bit container."""
        return self.register_bits // self.slots

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
        stored = self.__dict__["_stored"]
        if stored is None:
            return ()
        return _PACKED.iter_unpack(stored.data if isinstance(stored, Packed) else stored.tobytes())

    def same_layout(self, other: Fragment) -> bool:
        """Whether both hold the same cells in the same places."""
        return (self.digest, self.registers, self.slots) == (other.digest, other.registers, other.slots)

    def draw(self, **how: Any) -> Picture:
        """Its picture. See ``picture.view.View`` for how it can be drawn, as in ``draw(lanes=[13])``.

        Raises:
            LanemapError: the source does not give its elements, or they are not what is to stand out.
        """
        from .picture.compose import operand
        from .picture.view import View

        if not self.has_rows:
            raise LanemapError(f"{self.source} has no rows for {self}: {self.status}")
        return operand([self], View(**how))

    def _repr_html_(self) -> str | None:
        """Its picture in a notebook; None, which shows its name, where there is nothing to draw."""
        return self.draw()._repr_html_() if self.has_rows else None

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
        return [each for each in self.fragments if each.has_rows]


def count_elements(fragments: Iterable[Fragment]) -> int:
    """How many elements fragments have together."""
    return sum(len(each.elements) for each in fragments if each.elements is not None)


def merge(fragments: Iterable[Fragment]) -> tuple[list[Fragment], list[tuple[Fragment, Fragment]]]:
    """The first fragment of each key, and every later one of the same key after the first."""
    first: dict[Key, Fragment] = {}
    repeated = []
    for each in fragments:
        known = first.setdefault(each.key, each)
        if known is not each:
            repeated.append((known, each))
    return list(first.values()), repeated


def by_rule(
    slots: int,
    row: Array,
    col: Array,
    col_last: Array | None = None,
    computation: Array | int = 1,
    lanes: Sequence[int] | Array | None = None,
) -> Array:
    """Elements from a rule (thread, element) -> (row, col).

    Args:
        slots: how many elements a register has.
        row: the row of each element, an array (threads, elements per thread), as are ``col`` and ``col_last``.
        col: the column, or the first column of its window.
        col_last: the last column of the window. Default: ``col``.
        computation: from 1, an array like ``row``, or one that broadcasts to it.
        lanes: the threads that the rows of the arrays belong to. Default: all, in order.

    Raises:
        LanemapError: see ``elements``.
    """
    import numpy as np

    thread, element = np.indices(row.shape)
    columns = {
        "lane": thread if lanes is None else np.asarray(lanes)[thread],
        "reg": element // slots,
        "slot": element % slots,
        "row": row,
        "col": col,
        "col_last": col if col_last is None else col_last,
        "computation": np.broadcast_to(computation, row.shape),
    }
    return elements({name: values.ravel() for name, values in columns.items()})


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
    return table[np.lexsort((table["slot"], table["reg"], table["lane"]))]


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
    if name.lower() == EVERY_SOURCE:
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
    for each in source.fragments:
        for name in ("instruction", "type", "major", "qualifiers"):
            word = getattr(each, name)
            if word is None and name in ("major", "qualifiers"):
                continue
            if not isinstance(word, str) or not _WORD.fullmatch(word):
                raise LanemapError(f"{source.name}: invalid {name} {word!r}: use letters, digits and _ . : only")
        if each.selector is not None and each.selector not in range(4):
            raise LanemapError(f"{source.name}: invalid selector {each.selector!r}: it is 0 to 3")
        if not isinstance(each.shape, str):
            raise LanemapError(f"{source.name}: shape {each.shape!r} is not text: write m16n8k16 for M=16, N=8, K=16")
        try:
            _ = each.dimensions
        except LanemapError as error:
            raise LanemapError(f"{source.name}: {error}") from None
