"""Windows of columns: what a sparse A and its metadata E claim, and whether metadata can select it (9.7.16.6.1).

An element whose column metadata chooses stands for a window of columns. A source may name the columns of one choice.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..layout.fragment import UNTOLD_WINDOWS, Fragment
from ..layout.permutation import Permutation
from .difference import Array, Pair


class Named(NamedTuple):
    """A sparse A, or metadata E, with its elements on the left and on the right, slot by slot."""

    operand: Fragment
    left: Array
    right: Array

    @property
    def chosen(self) -> bool:
        """Whether the sides differ in their columns, and a side names some that metadata chooses from the others."""
        first, last = (self.left[name] != self.right[name] for name in ("col", "col_last"))
        widths = [table["col_last"] - table["col"] + 1 for table in (self.left, self.right)]
        few = (widths[0] != widths[1]) | (widths[0] <= together(self.operand))
        return bool((first | last).any() and few.any())


def together(operand: Fragment) -> int:
    """How many columns an element has where metadata has chosen: those that one of its fields selects."""
    return operand.sparsity.group if operand.role == "E" else 1


def unclaimed(fragment: Fragment) -> str:
    """Why a fragment claims no column; empty where it does."""
    if not fragment.windowed:
        return ""
    if fragment.status == UNTOLD_WINDOWS:
        return "has no col_last: each of its columns may be exact, or the first of a window"
    table = fragment.table
    whole = table["col_last"] - table["col"] + 1 >= fragment.dimensions[1]
    return "has windows of a whole row: they claim no column" if whole.any() else ""


def loose(operand: Fragment, pairs: Iterable[Pair]) -> set[Pair]:
    """The windows that a renumbering need not take to each other column by column.

    They differ in width, as they may, or are the columns that one field of metadata selects together.
    """
    if not operand.windowed:
        return set()
    widths = {(left, right): (left[1] - left[0] + 1, right[1] - right[0] + 1) for left, right in pairs}
    return {pair for pair, (left, right) in widths.items() if left != right or left == together(operand) > 1}


def possible(named: Named, others: Iterable[Named], columns: Permutation = ()) -> bool:
    """Whether some valid metadata selects what A or E names, and what the other one of its type names with it.

    ``columns`` takes those of the left to the right. Default: none moves. An operand that no metadata selects does not
    judge the other.
    """
    key = named.operand.key
    beside = [one for one in others if one.operand.type == key.type and one.operand.role != key.role]
    selected = [one for one in beside if _selectable([one], columns)]
    return _selectable([named], columns) and all(_selectable([named, one], columns) for one in selected)


def _selectable(named: Sequence[Named], columns: Permutation) -> bool:
    """Whether some valid metadata selects what all of ``named`` name in every chunk of a row.

    The first of them must have all elements of its chunks. Metadata counts columns as the side does that has windows.
    If neither has any, nothing shows which one counts as metadata does: both must.
    """
    cols = named[0].operand.dimensions[1]
    if any((table["col"] < 0).any() or (table["col_last"] >= cols).any() for one in named for table in one[1:]):
        return False
    order = np.array(columns or range(cols))
    inverse = np.argsort(order)
    # Of each operand the windows of one side, and those of the other in the numbering of this side.
    sides = (
        [(one, one.left, _moved(one.right, inverse)) for one in named],
        [(one, one.right, _moved(one.left, order)) for one in named],
    )
    counting = [side for side in sides if any(_widest(own) > together(one.operand) for one, own, _ in side)]
    return all(_chosen([(one, _common(own, other)) for one, own, other in side]) for side in counting or sides)


def _widest(table: Array) -> int:
    return int((table["col_last"] - table["col"]).max(initial=0)) + 1


def _moved(table: Array, order: Array) -> Array:
    """The elements with their windows renumbered: from the first column of what they become to the last."""
    inside = np.minimum(table["col"][:, None] + np.arange(_widest(table)), table["col_last"][:, None])
    moved = table.copy()
    moved["col"], moved["col_last"] = order[inside].min(axis=1), order[inside].max(axis=1)
    return moved


def _common(own: Array, other: Array) -> Array:
    """The elements of one side with what its windows have in common with those of the other."""
    common = own.copy()
    common["col"] = np.maximum(own["col"], other["col"])
    common["col_last"] = np.minimum(own["col_last"], other["col_last"])
    return common


def _chosen(operands: Sequence[tuple[Named, Array]]) -> bool:
    """Whether some valid metadata selects a column in each window."""
    (chunks, possible, complete), *others = (_choices(one.operand, table) for one, table in operands)
    for numbers, also, _ in others:
        _, at, there = np.intersect1d(chunks, numbers, assume_unique=True, return_indices=True)
        possible[at] &= also[there]
    return complete and bool(possible.any(axis=1).all())


def _choices(operand: Fragment, table: Array) -> tuple[Array, Array, bool]:
    """The chunks that have all their elements, and which vectors of metadata select columns within their windows.

    Returns:
        A number for each chunk; an array (chunks, vectors); and whether all chunks that have elements are among them.
        The elements of a chunk are in the order of their slots, as the indices in metadata ascend.
    """
    rule = operand.sparsity
    run = rule.group if operand.role == "A" else 1  # an element of E stands for all columns that it selects
    # A document may name a window of several chunks, whose elements are in the order of the chunks.
    block = max(rule.width, 1 << (_widest(table) - 1).bit_length())
    fields = rule.fields * run
    numbers = (table["computation"].astype(np.int64) << 32) + (table["row"].astype(np.int64) << 16)
    numbers += table["col"] // block * (block // rule.width)
    order = np.lexsort((table["slot"], table["reg"], table["lane"], numbers))
    blocks, counts = np.unique(numbers, return_counts=True)
    complete = counts == fields * block // rule.width
    chunks = (blocks[complete][:, None] + np.arange(block // rule.width)).ravel()
    of_chunk = table[order][np.repeat(complete, counts)].reshape(len(chunks), fields)
    first, last = (of_chunk[name] - (chunks % (1 << 16) * rule.width)[:, None] for name in ("col", "col_last"))
    starts = [(np.array(indices)[:, None] * rule.group + np.arange(run)).ravel() for indices in rule.indices.values()]
    possible = [((first <= start) & (start + rule.group - run <= last)).all(axis=1) for start in starts]
    return chunks, np.stack(possible, axis=1), bool(complete.all())
