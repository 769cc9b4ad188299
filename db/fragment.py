"""What every source delivers: fragments, each with one element per (lane, reg, slot)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import LanemapError

LANES = 32

#: One element of a fragment. ``col_last`` equals ``col`` unless the source names only a window of columns
#: (sparse A and E); ``computation`` is 1 except in m8n8k4 with f16, where a warp does four products.
ELEMENT = np.dtype([(name, "<i2") for name in ("lane", "reg", "slot", "row", "col", "col_last", "computation")])

_SHAPE = re.compile(r"m([0-9]{1,5})n([0-9]{1,5})k([0-9]{1,5})")
_WORD = re.compile(r"[A-Za-z0-9_.:]+")
_ROLES = ("A", "B", "C", "D", "E")


def dimensions(shape: str, role: str) -> tuple[int, int]:
    """Rows and columns of the matrix that a role holds: A and E are M x K, B is K x N, C and D are M x N.

    >>> dimensions("m16n8k32", "B")
    (32, 8)
    """
    matched = _SHAPE.fullmatch(shape)
    if matched is None:
        raise LanemapError(f"{shape!r} is not a shape: write m16n8k16 for M=16, N=8, K=16")
    m, n, k = map(int, matched.groups())
    return {"A": (m, k), "E": (m, k), "B": (k, n), "C": (m, n), "D": (m, n)}[role]


@dataclass(frozen=True)
class Fragment:
    """All elements of one (instruction, shape, type, role, major, selector), as one source has them.

    ``elements`` is an array of ELEMENT sorted by lane, reg and slot, or None where the source names the fragment
    without giving its elements (``status`` says why, for example ``figure-only``). The type of role E is the type of
    the A whose columns it selects.
    """

    instruction: str
    shape: str
    type: str
    role: str
    registers: int
    slots: int
    elements: NDArray[Any] | None = field(repr=False)
    major: str | None = None
    selector: int | None = None
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

    @property
    def key(self) -> tuple[str, str, str, str, str | None, int | None]:
        """What names the fragment within its source."""
        return self.instruction, self.shape, self.type, self.role, self.major, self.selector

    @property
    def dimensions(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return dimensions(self.shape, self.role)

    @property
    def register_bits(self) -> int:
        """Width of one register: 64 for f64, else 32."""
        return 64 if self.type == "f64" else 32

    @property
    def slot_bits(self) -> int:
        """Width of one slot. Wider than the type for 4- and 6-bit types that sit in an 8-bit container."""
        return self.register_bits // self.slots

    @cached_property
    def digest(self) -> str | None:
        """Fingerprint of the elements: equal digests are equal layouts."""
        return None if self.elements is None else hashlib.sha256(self.elements.tobytes()).hexdigest()

    def __str__(self) -> str:
        parts = [self.role, "of", self.instruction, self.shape, self.type]
        parts += [f"{self.major} major"] if self.major and self.shape == "m8n8k4" and self.type == "f16" else []
        parts += [f"selector {self.selector}"] if self.selector is not None else []
        return " ".join(parts)


@dataclass(frozen=True)
class Source:
    """Where layouts come from: a document, a capture or an import, with its fragments and its provenance."""

    name: str
    kind: str
    title: str
    fragments: Sequence[Fragment]
    provenance: Mapping[str, Any] = field(default_factory=dict)


def check_name(name: object, what: str = "source name") -> None:
    """Refuse a name that could not be asked for, or would break what is written around it.

    Raises:
        LanemapError: it is not one line of printable characters.
    """
    if not isinstance(name, str) or not name or not name.isprintable() or name != name.strip():
        raise LanemapError(f"{what} {name!r} is none: it is a line of printable characters, as in --name mine")


def check_names(source: Source) -> None:
    """Refuse a source whose names no request could spell, or no export could hold.

    Raises:
        LanemapError: its name or title is no line of text, or a name of one of its fragments is no plain word.
    """
    if not isinstance(source, Source):
        raise LanemapError(f"{source!r} is no source: read_file and import_layouts give some")
    check_name(source.name)
    check_name(source.title, f"{source.name}: title")
    for each in source.fragments:
        words = {
            "instruction": each.instruction,
            "type": each.type,
            "major": "none" if each.major is None else each.major,
        }
        for name, word in words.items():
            if not isinstance(word, str) or not _WORD.fullmatch(word):
                raise LanemapError(f"{source.name}: {name} {word!r} is none: it is a word of letters, digits and _ . :")
        if each.role not in _ROLES:
            raise LanemapError(f"{source.name}: role {each.role!r} is none of A, B, C, D and E")
        if not isinstance(each.shape, str):
            raise LanemapError(f"{source.name}: shape {each.shape!r} is not text: write m16n8k16 for M=16, N=8, K=16")
        if not all(0 < extent < 1 << 15 for extent in dimensions(each.shape, "A") + dimensions(each.shape, "B")):
            raise LanemapError(f"{source.name}: shape {each.shape} is none: each dimension is 1 to {(1 << 15) - 1}")


def elements(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """An ELEMENT array, sorted by lane, reg and slot, from equally long columns named like its fields."""
    table = np.empty(len(columns["lane"]), ELEMENT)
    for name in ELEMENT.names or ():
        table[name] = columns[name]
    return table[np.lexsort((table["slot"], table["reg"], table["lane"]))]


def unpack(packed: bytes) -> NDArray[Any]:
    """The ELEMENT array that ``tobytes`` made."""
    return np.frombuffer(packed, ELEMENT)
