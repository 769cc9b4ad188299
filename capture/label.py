"""Labels for measured relations: which matrix element each slot holds, as far as hardware can tell.

A product does not change when K is permuted alike in A and B, M alike in A, C and D, or N alike in B, C and D. What is
measured is fixed up to that, and the declared anchor fixes the rest: rows and columns are those of the documented D;
the order along K is the one that agrees most with the documented B, or where that is only drawn, with the documented
windows of A, whose chunks are stored in the order of their slots. Within a chunk, index values name the columns. A
document that most of the slots it gives one place contradict orders nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.fragment import Fragment
from ..db.instructions import DENSE, Form
from .bench import captured, side
from .probe import Measurement
from .relations import Contradiction, Side, blocks, common, strands


@dataclass(frozen=True)
class Depth:
    """The relations along K. B slots of one product term are a class; a strand is the classes that an A slot can meet.

    ``class_of_b`` (slots of B), ``class_of_a`` (metadata vectors, slots of A), ``strand`` and ``index`` (classes): the
    index that selects the class within its strand. ``chunks`` (chunks, group): the strands of one chunk of columns.
    """

    class_of_b: NDArray[Any]
    class_of_a: NDArray[Any]
    strand: NDArray[Any]
    index: NDArray[Any]
    chunks: NDArray[Any]


def label(instruction: Form, measured: Measurement, documented: Mapping[Any, Fragment]) -> tuple[list[Fragment], str]:
    """The measured fragments of an instruction and, in words, the anchor of their labels.

    Raises Contradiction where the measured rows, columns or chunks are not those that the anchor names.
    """
    a, b, c, d = (instruction.operand(role) for role in "ABCD")
    anchor = _documented(instruction, "D", documented)
    if anchor is None or not np.array_equal(_slots(instruction, "D", anchor), np.arange(d.size)):
        raise Contradiction("the documented D, which is the anchor, does not name every slot of D")
    computation, row, column = (anchor[name].astype(np.int64) for name in ("computation", "row", "col"))
    met = measured.meets >= 0
    slot_d = np.broadcast_to(np.arange(d.size), met.shape)[met]
    row_of_a, row_of_d = blocks(measured.meets[met], slot_d, side(a), side(d))
    row_label = common(computation << 16 | row, row_of_d, side(d), "row")[row_of_a]
    column_label = common(computation << 16 | column, measured.column_of_d, side(d), "column")
    column_of_b = np.empty(b.size, np.int64)
    column_of_b[measured.b_of] = column_label[measured.column_of_d]
    depth = _depth(instruction, measured, met)
    classes, words = _depth_labels(instruction, depth, column_of_b >> 16, row_label >> 16, documented)
    windows = classes[depth.class_of_a]
    first, last = windows.min(axis=0), windows.max(axis=0)
    row_a, computation_a = row_label & 0xFFFF, row_label >> 16
    deep = classes[depth.class_of_b]
    fragments = [
        captured(instruction.key("A"), np.arange(a.size), row_a, first, last, computation_a),
        captured(instruction.key("B"), np.arange(b.size), deep, column_of_b & 0xFFFF, None, column_of_b >> 16),
        captured(instruction.key("C"), measured.c_of_d, row, column, None, computation),
        captured(instruction.key("D"), np.arange(d.size), row, column, None, computation),
    ]
    if len(np.unique(measured.c_of_d)) != c.size:
        raise Contradiction("two slots of D accumulate one slot of C")
    for selector, field in measured.governs.items():
        names, one = np.unique(field, return_index=True)
        low, high = np.full(len(names), 1 << 16), np.zeros(len(names), np.int64)
        place = np.searchsorted(names, field)
        np.minimum.at(low, place, first)
        np.maximum.at(high, place, last)
        fragments.append(captured(instruction.key("E", selector), names, row_a[one], low, high, computation_a[one]))
    return fragments, f"rows and columns as in the documented D; {words}"


def _depth(instruction: Form, measured: Measurement, met: NDArray[Any]) -> Depth:
    a, b, rule = instruction.operand("A"), instruction.operand("B"), instruction.sparsity or DENSE
    vector, rank, slot_d = np.nonzero(met)
    meeting = vector * a.size + measured.meets[met]
    lefts = Side(len(rule.indices) * a.size, lambda number: side(a).name(number % a.size))
    class_of_meeting, class_of_b = blocks(meeting, measured.b_of[rank, slot_d], lefts, side(b))
    class_of_a = class_of_meeting.reshape(len(rule.indices), a.size)
    count = int(class_of_b.max()) + 1
    slot_a = np.broadcast_to(np.arange(a.size), class_of_a.shape)
    strand = strands(slot_a.ravel(), class_of_a.ravel(), a.size, count)
    field = next(iter(measured.governs.values()), np.zeros(a.size, np.int64))
    index_of_a = np.array(list(rule.indices.values()))[:, field % rule.fields]
    index = np.empty(count, np.int64)
    index[class_of_a] = index_of_a
    if (index[class_of_a] != index_of_a).any():
        raise Contradiction("two index values of metadata select one row of B")
    strand_of_a = strand[class_of_a[0]]
    field = field if measured.governs else strand_of_a
    names, field = np.unique(field, return_inverse=True)
    total = int(strand.max()) + 1
    numbers = Side(len(names), lambda number: f"metadata field {names[number]}")
    _, chunk_of_strand = blocks(field, strand_of_a, numbers, Side(total, lambda number: f"chunk {number} of K"))
    sizes = np.bincount(chunk_of_strand)
    if (sizes != rule.group).any() or (np.bincount(strand) != rule.width // rule.group).any():
        raise Contradiction(f"the columns that metadata can select are not {rule.title}")
    chunks = np.argsort(chunk_of_strand, kind="stable").reshape(-1, rule.group)
    return Depth(class_of_b, class_of_a, strand, index, chunks)


def _depth_labels(
    instruction: Form,
    depth: Depth,
    computation_of_b: NDArray[Any],
    computation_of_a: NDArray[Any],
    documented: Mapping[Any, Fragment],
) -> tuple[NDArray[Any], str]:
    """The column of A, or row of B, of each class, and where that order is from."""
    rule = instruction.sparsity or DENSE
    total = len(depth.chunks) // instruction.computations
    role, classes, column, agrees = _order_of_k(instruction, depth, documented)
    inside = (column >= 0) & (column < instruction.dimensions[2])
    votes = np.zeros((int(depth.strand.max()) + 1, total, rule.group), np.int64)
    chunk, member, strand = column // rule.width, column % rule.group, depth.strand[classes]
    np.add.at(votes, (strand[inside], chunk[inside], member[inside]), 1)
    computation = np.empty(len(votes), np.int64)
    computation[depth.strand[depth.class_of_b]] = computation_of_b
    if (computation[depth.strand[depth.class_of_a]] != computation_of_a).any():
        raise Contradiction("slots of A and B that meet are in two computations of the documented D")
    base = np.empty(len(votes), np.int64)
    for each in np.unique(computation):
        chunks = depth.chunks[computation[depth.chunks[:, 0]] == each]
        if len(chunks) != total:
            raise Contradiction(f"computation {each} has {len(chunks)} chunks of K: the shape has {total}")
        labels = np.arange(total)[:, None] * rule.width + np.arange(rule.group)
        base[_strands_of(labels, role, chunks, votes)] = labels
    agreed = int((inside & agrees & (base[strand] == chunk * rule.width + member)).sum())
    words = "K as in the documented B" if role == "B" else _BY_WINDOWS
    return base[depth.strand] + depth.index * rule.group, f"{words} ({agreed} of {len(column)} slots agree)"


_BY_WINDOWS = "chunks of K as in the documented windows of A, in the order of slots"


def _order_of_k(
    instruction: Form, depth: Depth, documented: Mapping[Any, Fragment]
) -> tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The operand whose document orders K; of each of its slots the class, the column, and whether the index fits."""
    rule = instruction.sparsity or DENSE
    if (table := _documented(instruction, "B", documented)) is not None:
        classes, column = depth.class_of_b[_slots(instruction, "B", table)], table["row"].astype(np.int64)
        return "B", classes, column, column % rule.width // rule.group == depth.index[classes]
    if (table := _documented(instruction, "A", documented)) is not None:
        slots = _slots(instruction, "A", table)
        return "A", depth.class_of_a[0][slots], _in_slot_order(instruction, table), np.ones(len(slots), bool)
    raise Contradiction("neither B nor A is documented, so nothing orders K")


def _strands_of(labels: NDArray[Any], role: str, chunks: NDArray[Any], votes: NDArray[Any]) -> NDArray[Any]:
    """For each label (chunk of columns, member), the strand with most of the slots that the document gives it.

    No other order of K agrees with the document as well. A label without such a strand, two labels with the same one,
    and a chunk that is divided are refused.
    """
    by_strand = votes[chunks].reshape(chunks.size, *labels.shape)
    most, slots, named = by_strand.argmax(axis=0), by_strand.max(axis=0), by_strand.sum(axis=0)
    one = "row" if role == "B" else "chunk of columns from"
    few = 2 * slots <= named
    if few.any():
        at = tuple(np.argwhere(few)[0])
        raise Contradiction(
            f"of {named[at]} slots that the documented {role} gives {one} {labels[at]} along K, "
            f"no more than {slots[at]} are together as measured: that orders nothing"
        )
    chunk = most // chunks.shape[1]
    if len(np.unique(most)) < most.size or (chunk != chunk[:, :1]).any():
        raise Contradiction(
            f"the documented {role} divides K into chunks that are not those measured: it orders nothing"
        )
    return np.asarray(chunks.ravel()[most])


def _in_slot_order(instruction: Form, table: NDArray[Any]) -> NDArray[Any]:
    """The chunk and the member of a pair that each slot of a documented A stores, as a column of A.

    A window may hold several chunks: the slots that share it store its columns in the order of their numbers.
    """
    rule = instruction.sparsity or DENSE
    _, window = np.unique(table[["computation", "row", "col", "col_last"]], return_inverse=True)
    order = np.argsort(window, kind="stable")
    starts = np.searchsorted(window[order], window[order])
    rank = np.empty(len(table), np.int64)
    rank[order] = np.arange(len(table)) - starts
    stored = rule.fields * rule.group
    return np.asarray(table["col"] + rank // stored * rule.width + rank % rule.group)


def _documented(instruction: Form, role: str, documented: Mapping[Any, Fragment]) -> NDArray[Any] | None:
    fragment = documented.get(instruction.key(role))
    return None if fragment is None else fragment.elements


def _slots(instruction: Form, role: str, table: NDArray[Any]) -> NDArray[Any]:
    operand = instruction.operand(role)
    number = (table["lane"].astype(np.int64) * operand.registers + table["reg"]) * operand.slots + table["slot"]
    if number.max(initial=0) >= operand.size:
        raise Contradiction(f"the documented {role} has more registers than the instruction")
    return np.asarray(number)
