"""What a wrong layout does to a product: every cell gets a number, which goes where the layout says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .fragment import Fragment
from .instructions import dimensions, instruction

#: Row, first and last column, computation, and which of the elements with the same window of columns it is.
_Cell = tuple[int, ...]
_Cells = Mapping[tuple[int, int, int], _Cell]


def wrong_results(claimed: Fragment, true: Fragment) -> NDArray[np.bool_]:
    """Which results are wrong where registers are filled, or D is read, as claimed, and the instruction is as it is.

    The cells of A, B, scales and E hold different numbers, which are multiplied with a random matrix. What nothing is
    claimed to fill holds numbers of its own. An instruction that does not multiply gives the matrix that it moves.

    Returns:
        An array (computations, rows, columns) of the elements of D, or of the matrix that is moved.
    """
    said, so = _cells(claimed), _cells(true)
    if instruction(true.instruction).multiplies and true.role not in "CD":
        return _multiplied(said, so, true)
    given, taken = (said, so) if true.role == "C" else (so, said)
    extents = true.dimensions
    right = np.zeros((true.computations, *extents), bool)
    wrong = right.copy()
    for place, (row, col, _, computation, _) in taken.items():
        if row < extents[0] and col < extents[1]:
            same = given.get(place) == taken[place]
            (right if same else wrong)[computation - 1, row, col] = True
    return wrong | ~right


def _cells(fragment: Fragment) -> _Cells:
    counted: Counter[_Cell] = Counter()
    held = {}
    for each in fragment.records():
        cell = each.row, each.col, each.col_last, each.computation
        held[each.lane, each.reg, each.slot] = (*cell, counted[cell] if fragment.windowed else 0)
        counted[cell] += 1
    return held


def _multiplied(said: _Cells, so: _Cells, true: Fragment) -> NDArray[np.bool_]:
    generator = np.random.default_rng(0)
    cells = sorted({*said.values(), *so.values()})
    numbers = dict(zip(cells, generator.integers(1, 1 << 20, (len(cells), 2)).tolist(), strict=True))
    meant = np.zeros((true.computations, *true.dimensions), np.int64)
    seen = meant.copy()
    for place, cell in so.items():
        row, col, last, computation, _ = cell
        value, index = numbers[cell]
        at = computation - 1, row, col + index % (last - col + 1)
        meant[at] += value
        seen[at] += numbers[said[place]][0] if place in said else generator.integers(1, 1 << 20)
    rows, cols = dimensions(true.shape, "D", true.instruction)
    if true.role in ("B", "SFB"):
        factor = generator.integers(1, 1 << 10, (rows, true.dimensions[0]))
        wrong: NDArray[np.bool_] = factor @ seen != factor @ meant
    else:
        factor = generator.integers(1, 1 << 10, (true.dimensions[1], cols))
        wrong = seen @ factor != meant @ factor
    return wrong
