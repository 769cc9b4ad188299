"""Fragments in other toolchains' notations, each derived from the rows, read back, and compared with them.

One module per notation, each with a ``NOTATION``, and one entry in ``NOTATIONS``, which says what it is for without
importing it. Where an instruction handles several products or matrices, ``computation`` is a coordinate before row and
column, and counts from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import LanemapError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..fragment import Fragment


class RefusedError(LanemapError):
    """A notation cannot express a fragment: one line that names the first element that breaks it."""


@dataclass(frozen=True)
class Notation:
    """How a toolchain writes layouts.

    ``compose`` gives the text of a fragment under a name, or raises RefusedError. ``read`` evaluates such a text in the
    notation's own terms: the elements that it says, in any order. ``instruction``, if there is one, gives under a name
    what a toolchain has to know of a whole instruction, from its operands by role, after their texts. ``comment``
    starts a comment; ``before``, ``between`` and ``after`` make a file of several texts.
    """

    compose: Callable[[Fragment, str], str]
    read: Callable[[str, Fragment], NDArray[Any]]
    instruction: Callable[[str, Mapping[str, Fragment]], str] | None = None
    comment: str = "//"
    before: str = ""
    between: str = "\n"
    after: str = ""


@dataclass(frozen=True)
class NotationEntry:
    """What a notation writes, and for whom."""

    name: str
    writes: str
    audience: str

    def load(self) -> Notation:
        """The notation itself, from the module of its name."""
        notation: Notation = import_module(f".{self.name.replace('-', '_')}", __name__).NOTATION
        return notation


NOTATIONS: Mapping[str, NotationEntry] = {
    each.name: each
    for each in (
        NotationEntry(
            "cute",
            "`Layout<Shape<...>,Stride<...>>` of thread and value, and for a whole instruction what `MMA_Traits` holds",
            "CUTLASS",
        ),
        NotationEntry("linear", "`#ttg.linear`, bases of register and lane bits", "Triton"),
        NotationEntry("triton", "`#ttg.nvidia_mma` or `#ttg.dot_op`, where one equals the layout", "Triton"),
        NotationEntry(
            "affine",
            "`affine_map<(lane, value) -> (row, col)>`, and the nested layout where there is one",
            "MLIR, IREE",
        ),
        NotationEntry("python", "an index function and its inverse", "TVM, TileLang"),
        NotationEntry("cpp", "a header of constexpr functions for host and device, C++17, no dependency", "CUDA, C++"),
        NotationEntry("ptx-formula", "a closed form in PTX's own notation", "reading"),
        NotationEntry("tikz", "a picture of the matrix with lanes and elements", "papers in LaTeX"),
    )
}


def notation(name: str) -> Notation:
    """The notation of a name.

    Raises:
        LanemapError: there is none; lists those that there are.
    """
    if name not in NOTATIONS:
        raise LanemapError(f"{name!r} is not a notation: choose {', '.join(NOTATIONS)}")
    return NOTATIONS[name].load()


def identifier(fragment: Fragment) -> str:
    """A name for the fragment that is one in C++, Python and MLIR, unique within a source.

    >>> from lanemap.db.fragment import Fragment
    >>> identifier(Fragment("mma.sp", "m16n8k16", "f16", "E", 1, 16, None, selector=2))
    'mma_sp_m16n8k16_f16_e_selector2'
    """
    key = fragment.key
    parts = [key.instruction, key.shape, key.type, key.qualifiers, key.role.lower()]
    parts += [key.major] if key.several_majors else []
    parts += [f"selector{key.selector}"] if key.selector is not None else []
    return re.sub(r"\W+", "_", "_".join(filter(None, parts)), flags=re.ASCII)
