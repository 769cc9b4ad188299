"""Fragments in other toolchains' notations, each derived from the rows, read back, and compared with them.

One module per notation, each with a ``NOTATION``. Where a warp does several products (m8n8k4 with f16), ``computation``
is a coordinate before row and column, and counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fragment import Fragment
from .table import RefusedError, refusal


@dataclass(frozen=True)
class Notation:
    """How a toolchain writes layouts.

    ``compose`` gives the text of a fragment under a name, or raises RefusedError. ``read`` evaluates such a text in the
    notation's own terms: the rows (ELEMENT) that it says, in any order. ``comment`` starts a comment; ``before``,
    ``between`` and ``after`` make a file of several texts.
    """

    compose: Callable[[Fragment, str], str]
    read: Callable[[str, Fragment], NDArray[Any]]
    comment: str = "//"
    before: str = ""
    between: str = "\n"
    after: str = ""


def express(notation: Notation, fragment: Fragment) -> str:
    """The fragment in a notation, evaluated again and found equal to the rows.

    Raises:
        RefusedError: the notation cannot express it, or the fragment has no rows.
    """
    if fragment.elements is None:
        raise RefusedError(f"{fragment} has no rows: it is {fragment.status}")
    text = notation.compose(fragment, identifier(fragment))
    again = notation.read(text, fragment)
    if len(again) != len(fragment.elements):
        raise RefusedError(f"{fragment}: {len(again)} elements read back, the rows are {len(fragment.elements)}")
    if len(different := np.flatnonzero(again != fragment.elements)):
        raise refusal(fragment, fragment.elements[different[0]], "reads back as another cell")
    return text


def identifier(fragment: Fragment) -> str:
    """A name for the fragment that is one in C++, Python and MLIR, unique within a source.

    >>> identifier(Fragment("mma.sp", "m16n8k16", "f16", "E", 1, 16, None, selector=2))
    'mma_sp_m16n8k16_f16_e_selector2'
    """
    parts = [fragment.instruction.replace(".", "_"), fragment.shape, fragment.type, fragment.role.lower()]
    parts += [fragment.major] if fragment.major and (fragment.shape, fragment.type) == ("m8n8k4", "f16") else []
    parts += [f"selector{fragment.selector}"] if fragment.selector is not None else []
    return "_".join(parts)
