"""Layouts of instructions that move matrices, measured: memory that holds the numbers of its own places.

The numbers are written in binary, a digit to a pattern, since narrow elements hold no more. What a load brings into a
slot is the number of a place in memory. A store is given the numbers of slots, and memory then says which came where.
So labels are absolute: a row of an 8 x 8 matrix is what one address names, and lane 8 i + j names row j of matrix i + 1
(9.7.14.5.15), of which the lanes that matter are measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.forms import Move
from ..db.fragment import Fragment
from ..db.instructions import WARP, computations, operand
from . import memory
from .bench import Bench, captured, describe_slot, number, numbered, numbers
from .device import combinations
from .relations import Contradiction

#: Rows of a matrix.
_ROWS = 8


def measure(bench: Bench, form: Move) -> tuple[list[Fragment], str]:
    """The fragments of a move, and in words what their labels are from.

    Raises Contradiction where what comes out is not a copy of what went in.
    """
    places = np.arange(np.prod(memory.extents(form, form.role)))
    patterns = {
        "memory": memory.write(form, form.role, numbers(len(places)).reshape(-1, *memory.extents(form, form.role))),
        "p": (np.arange(WARP, dtype=np.uint32) * memory.LINE).reshape(1, 1, WARP),
    }
    key = form.key(form.role)
    if form.stores:
        patterns["r"] = numbered(operand(key))
        line, place = _stored(bench, form, patterns)
    else:
        line, place = _loaded(bench, patterns, form)
    if form.name == "movmatrix":
        source, moved = np.hsplit(np.stack([line, place]).reshape(2, WARP, 2, 2).swapaxes(1, 2).reshape(2, -1), 2)
        slots = np.arange(source.shape[1])
        fragments = [captured(form.key("A"), slots, *source), captured(key, slots, *moved[::-1])]
        return fragments, "rows and columns of A are those that ldmatrix loads"
    if form.name == "wmma":
        row, column = (line, place) if form.layout == "row" else (place, line)
        return [captured(key, np.arange(len(row)), row, column)], "rows and columns are those of the matrix in memory"
    lanes = np.unique(line)
    if len(lanes) != _ROWS * computations(*key[:3], key.qualifiers):
        raise Contradiction(f"{len(lanes)} lanes give addresses of rows")
    given = captured(form.key("p"), lanes, lanes % _ROWS, 0 * lanes, computation=lanes // _ROWS + 1)
    words = "rows are those that addresses name, lane 8 i + j that of row j of matrix i + 1"
    held = captured(key, np.arange(len(line)), line % _ROWS, place, computation=line // _ROWS + 1)
    return [held, given], words


def _loaded(bench: Bench, patterns: dict[str, NDArray[Any]], form: Move) -> tuple[NDArray[Any], NDArray[Any]]:
    """The line of memory, and the place in it, that each slot holds."""
    found = bench.checked("load", bench.values(patterns, combinations(np.arange(len(patterns["memory"])), 0)))
    if found[0].any() or not found[1].all():
        slot = np.argmax(found[0] | ~found[1])
        raise Contradiction(f"{bench.place(slot)} does not hold what is in memory")
    return divmod(number(found[2:]), memory.extents(form, form.role)[1])


def _stored(bench: Bench, form: Move, patterns: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same for a store: the line of memory, and the place in it, where each slot comes out."""
    count = operand(form.key(form.role)).size
    found = bench.values(patterns, combinations(np.arange(len(patterns["r"])), 0))
    written = np.flatnonzero((found[0] == 0) & (found[1] == 1))
    held = found[:, written]
    if not ((held == 0) | (held == 1)).all():
        raise Contradiction("memory holds other numbers than the registers")
    slots = number(held[2:] == 1)
    if not np.array_equal(np.sort(slots), np.arange(count)):
        missing = np.setdiff1d(np.arange(count), slots)
        what = describe_slot(operand(form.key(form.role)), missing[0]) if len(missing) else "a slot"
        raise Contradiction(f"{what} does not come out in memory once")
    where = np.empty(count, np.int64)
    where[slots] = written
    return divmod(where, memory.extents(form, form.role)[1])
