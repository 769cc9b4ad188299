"""Triton's linear layouts: each bit of register, lane and warp adds, by XOR, its basis to the cell.

``register`` counts the elements i, ``lane`` the threads of a warp. A layout is linear where the cell of a place is the
XOR of those of its bits.
"""

from __future__ import annotations

import re

import numpy as np

from ..fragment import Fragment
from ..instructions import WARP
from . import Notation, RefusedError
from .digits import Array
from .table import located, refusal, rows_of, table

_CELL = ("computation", "row", "col")
_BASES = re.compile(r"(register|lane|warp) = \[(.*?)\](?=, \w+ =)")


def compose(fragment: Fragment, name: str) -> str:
    """An alias of a ``#ttg.linear`` attribute."""
    held = table(fragment)
    if held.values & (held.values - 1):
        raise RefusedError(f"{fragment}: {held.values} elements per lane are not counted by bits")
    cells = np.stack(list(held.coordinates.values()), axis=-1)
    lanes, registers = cells[_powers(fragment.threads), 0], cells[0, _powers(held.values)]
    again = _spread(lanes)[:, None] ^ _spread(registers)[None]
    if len(wrong := np.argwhere(again != cells).tolist()):
        lane, element, axis = wrong[0]
        which, value, expected = list(held.coordinates)[axis], cells[lane, element, axis], again[lane, element, axis]
        why = f"has {which} {value}, but the XOR of the bases of its bits is {expected}"
        raise refusal(fragment, located(fragment, lane, element), why)
    within = len(_powers(WARP))
    bases = {"register": registers, "lane": lanes[:within], "warp": lanes[within:]}
    parts = [f"{part} = {vectors.tolist()}" for part, vectors in bases.items()]
    return f"#{name} = #ttg.linear<{{{', '.join([*parts, 'block = []'])}}}>\n"


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the bases say."""
    dimensions = text.partition("[[")[2].partition("]")[0].count(",") + 1
    bases = {part: np.array(re.findall(r"\d+", body), np.int64) for part, body in _BASES.findall(text)}
    register, lane, warp = (bases[part].reshape(-1, dimensions) for part in ("register", "lane", "warp"))
    lane, register = _spread(np.concatenate([lane, warp])), _spread(register)
    cells = np.moveaxis(lane[:, None] ^ register[None], -1, 0)
    return rows_of(fragment, dict(zip(_CELL[-dimensions:], cells, strict=True)))


def _powers(length: int) -> list[int]:
    return [1 << bit for bit in range(length.bit_length() - 1)]


def _spread(bases: Array) -> Array:
    """The XOR of every subset of bases, in the order in which their bits count."""
    spread = np.zeros((1, bases.shape[1]), np.int64)
    for basis in bases:
        spread = np.concatenate([spread, spread ^ basis])
    return spread


NOTATION = Notation(
    compose, read, before="// From bits of register, which counts the elements i, and of lane to row and col.\n\n"
)
