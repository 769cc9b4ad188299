"""Products of a warp, measured: relations between slots that need no layout, then labels as far as hardware can tell.

Every product is of zeros and ones, so every output is exact. Slots are numbered as in a fragment's elements. One slot
of B is set to 1 with an A of ones: the slots of D that become 1 are its column. Then one slot of every column is set to
1 at a time, and the numbers of A's slots are written into A bit by bit: each slot of D reads the number of the one slot
of A that met it. For a sparse A that is repeated with each valid vector of metadata everywhere; and the numbers of the
vectors themselves are written by moving only one index from one valid value to another.

A product does not change when K is permuted alike in A and B, M alike in A, C and D, or N alike in B, C and D. The
measurement is unique up to that, and the declared anchor fixes the rest: rows and columns are those of the documented
D; the order along K is the one that agrees most with the documented B, or if that is figure-only, with the documented
windows of A, whose chunks are stored in the order of their slots. Within a chunk, index values name the columns. A
document is no anchor if most of the slots to which it gives one place contradict it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..db.flow.metadata import pack_vectors
from ..db.isa.forms import Form
from ..db.isa.instructions import Key, Sparsity
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment
from . import device
from .device import Bench, Contradiction, Side, captured, describe_slot, side
from .values import write_registers


class Measurement(NamedTuple):
    """The relations between the slots of one instruction, all as slot numbers.

    ``c_of_d`` (slots of D): the slot of C that is added there. ``column_of_d``: a number for each column. ``b_of``
    (depth, slots of D): the slots of B in that column, in some order. ``meets`` (metadata vectors, depth, slots of D):
    the slot of A that meets ``b_of`` there, -1 if none does. ``governs``, by selector: the metadata field (lane *
    fields in a register + field) of each slot of A.
    """

    c_of_d: Array
    column_of_d: Array
    b_of: Array
    meets: Array
    governs: Mapping[int, Array]


def bits(bench: Bench, subject: str, patterns: Mapping[str, Array], selector: int | None) -> Array:
    """Products (patterns of A, of B, of E, slots of D), all 0 or 1, of an A and a B of zeros and ones.

    For an instruction that counts differing bits, the product follows from |a and b| = (|a xor 0| + |0 xor b| -
    |a xor b|) / 2.
    """
    outputs = bench.values(patterns, selector)
    if bench.form.suffix == ".xor.popc":
        left, right = (bench.values({name: patterns[name]}) for name in "AB")
        outputs = (np.repeat(left, len(right), axis=0) + np.tile(right, (len(left), 1)) - outputs) / 2
    return bench.checked(subject, outputs).reshape(*(len(patterns[name]) for name in "ABE"), -1)


def measure(bench: Bench, form: Form) -> Measurement:
    """All relations of a form. Raises Contradiction if the outputs fit no matrix product."""
    a, b, c, d = (form.operand(role) for role in "ABCD")
    depth, selector = form.dimensions[2], form.selectors[0]
    numbered, vectors = device.index_registers(a)[1:], device.uniform_metadata(form)
    everything, ends = numbered[:1], vectors[sorted({0, len(vectors) - 1})]
    hot = write_registers(b, np.eye(b.size, dtype=np.int8))
    answers = bits(bench, "columns of B", {"A": everything, "B": hot, "E": ends}, selector)
    hit_b, hit_d = np.nonzero(answers.any(axis=(0, 2)))
    column_of_b, column_of_d = blocks(hit_b, hit_d, side(b), side(d))
    sizes = np.bincount(column_of_b)
    if (sizes != depth).any():
        raise Contradiction(f"a column of B has {sizes[np.argmax(sizes != depth)]} slots: K is {depth}")
    b_by_column = np.argsort(column_of_b, kind="stable").reshape(len(sizes), depth)

    rank = np.empty(b.size, np.intp)
    rank[b_by_column] = np.arange(depth)
    one_of_each = write_registers(b, rank == np.arange(depth)[:, None])
    outputs = bits(bench, "partners of A and B", {"A": numbered, "B": one_of_each, "E": vectors}, selector)
    meets = device.which(outputs.swapaxes(1, 2))

    def shown(selector: int, words: Array) -> Array:
        patterns = {"A": everything, "B": one_of_each, "E": words[:, None]}
        outputs = bits(bench, f"metadata with selector {selector}", patterns, selector)
        return np.asarray(outputs[0].swapaxes(0, 1))

    governs = {
        number: governing_fields(form, form.sparsity, number, meets.reshape(len(vectors), -1), partial(shown, number))
        for number in form.selectors
        if number is not None
    }
    added = bench.values({"C": device.index_registers(c)[1:], "E": vectors[:1]}, selector)
    c_of_d = device.which(bench.checked("accumulator C", added))
    if (c_of_d < 0).any():
        raise Contradiction(f"no slot of C comes out in {describe_slot(d, np.argmin(c_of_d))}")
    return Measurement(c_of_d, column_of_d, b_by_column[column_of_d].T, meets, governs)


def governing_fields(form: Form, rule: Sparsity, selector: int, stored: Array, show: Callable[[Array], Array]) -> Array:
    """The metadata field (lane * fields in a register + field) that governs each slot of A.

    The field shows by the slots that move when one index of a vector of metadata changes. ``stored`` (metadata vectors,
    places) is the slot of A that appears in each place, -1 if none does; ``show`` returns for patterns of metadata
    (patterns, threads) in which places (patterns, ...) something appears. Raises Contradiction unless one field governs
    each slot.
    """
    vectors = list(rule.indices)
    field_of_a = np.full(form.operand("A").size, -1)

    def name(slot: Any) -> str:
        return f"{describe_slot(form.operand('A'), slot)} with selector {selector}"

    for field, (before, after) in enumerate(rule.steps):
        numbered = np.where(device.index_patterns(8 * form.threads), after, before)
        patterns = pack_vectors(numbered.reshape(-1, form.threads, 8))
        outputs = show(patterns).reshape(len(patterns), -1)
        old, new = (stored[vectors.index(vector)] for vector in (before, after))
        if not ((outputs[0] == (old >= 0)).all() and (outputs[1] == (new >= 0)).all()):
            raise Contradiction(
                f"with selector {selector} numbered metadata places slots of A differently from uniform metadata"
            )
        moved = (old < 0) & (new >= 0)
        slots, vector = new[moved], device.decode_index(outputs[2:])[moved]
        governing = vector // 8 * rule.slots + vector % 8 * rule.fields + field
        earlier = field_of_a[slots]
        field_of_a[slots] = governing
        odd = (field_of_a[slots] != governing) | (earlier >= 0)
        if odd.any():
            raise Contradiction(f"two fields of metadata govern {name(slots[np.argmax(odd)])}")
    if (field_of_a < 0).any():
        raise Contradiction(f"no field of metadata governs {name(np.argmin(field_of_a))}")
    return field_of_a


def metadata(
    key: Key, governing: Array, row: Array, first: Array, last: Array, computation: Array | None = None
) -> Fragment:
    """E from the field that governs each slot of A, with the rows and columns of these slots."""
    fields, example = np.unique(governing, return_index=True)
    low, high = np.full(len(fields), 1 << 16), np.zeros(len(fields), np.int64)
    at = np.searchsorted(fields, governing)
    np.minimum.at(low, at, first)
    np.maximum.at(high, at, last)
    return captured(key, fields, row[example], low, high, 1 if computation is None else computation[example])


class Depth(NamedTuple):
    """The relations along K. B slots of one product term are a class; a strand is the classes that an A slot can meet.

    ``class_of_b`` (slots of B), ``class_of_a`` (metadata vectors, slots of A), ``strand``, ``indices`` (classes): the
    index that selects the class within its strand. ``chunks`` (chunks, group): the strands of one chunk of columns.
    """

    class_of_b: Array
    class_of_a: Array
    strand: Array
    indices: Array
    chunks: Array


def label(form: Form, measured: Measurement, documented: Mapping[Any, Fragment]) -> tuple[list[Fragment], str]:
    """The measured fragments of an instruction and, in words, the anchor of their labels.

    Raises Contradiction if the measured rows, columns or chunks are not those of the anchor.
    """
    a, b, c, d = (form.operand(role) for role in "ABCD")
    anchor = _documented(form, "D", documented)
    if anchor is None or not np.array_equal(anchor[1], np.arange(d.size)):
        raise Contradiction("the documented D, which is the anchor, does not name every slot of D")
    computation, row, column = (anchor[0][name].astype(np.int64) for name in ("computation", "row", "col"))
    met = measured.meets >= 0
    slot_d = np.broadcast_to(np.arange(d.size), met.shape)[met]
    row_of_a, row_of_d = blocks(measured.meets[met], slot_d, side(a), side(d))
    row_label = common(computation << 16 | row, row_of_d, side(d), "row")[row_of_a]
    column_label = common(computation << 16 | column, measured.column_of_d, side(d), "column")
    column_of_b = np.empty(b.size, np.int64)
    column_of_b[measured.b_of] = column_label[measured.column_of_d]
    depth = _depth(form, measured, met)
    classes, words = _depth_labels(form, depth, column_of_b >> 16, documented)
    windows = classes[depth.class_of_a]
    first, last = windows.min(axis=0), windows.max(axis=0)
    row_a, computation_a = row_label & 0xFFFF, row_label >> 16
    deep = classes[depth.class_of_b]
    fragments = [
        captured(form.key("A"), np.arange(a.size), row_a, first, last, computation_a),
        captured(form.key("B"), np.arange(b.size), deep, column_of_b & 0xFFFF, None, column_of_b >> 16),
        captured(form.key("C"), measured.c_of_d, row, column, None, computation),
        captured(form.key("D"), np.arange(d.size), row, column, None, computation),
    ]
    if len(np.unique(measured.c_of_d)) != c.size:
        raise Contradiction("two slots of D accumulate one slot of C")
    for selector, field in measured.governs.items():
        fragments.append(metadata(form.key("E", selector), field, row_a, first, last, computation_a))
    return fragments, f"rows and columns as in the documented D; {words}"


def _depth(form: Form, measured: Measurement, met: Array) -> Depth:
    a, b, rule = form.operand("A"), form.operand("B"), form.sparsity
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
    form: Form, depth: Depth, computation_of_b: Array, documented: Mapping[Any, Fragment]
) -> tuple[Array, str]:
    """The column of A, or row of B, of each class, and in words where that order comes from."""
    rule = form.sparsity
    total = len(depth.chunks) // form.computations
    role, classes, column, agrees = _order_of_k(form, depth, documented)
    inside = (column >= 0) & (column < form.dimensions[2])
    votes = np.zeros((int(depth.strand.max()) + 1, total, rule.group), np.int64)
    chunk, member, strand = column // rule.width, column % rule.group, depth.strand[classes]
    np.add.at(votes, (strand[inside], chunk[inside], member[inside]), 1)
    computation = np.empty(len(votes), np.int64)
    computation[depth.strand[depth.class_of_b]] = computation_of_b
    base = np.empty(len(votes), np.int64)
    for number in np.unique(computation):
        chunks = depth.chunks[computation[depth.chunks[:, 0]] == number]
        if len(chunks) != total:
            raise Contradiction(f"computation {number} has {len(chunks)} chunks of K: the shape has {total}")
        labels = np.arange(total)[:, None] * rule.width + np.arange(rule.group)
        base[_strands_of(labels, role, chunks, votes)] = labels
    agreed = int((inside & agrees & (base[strand] == chunk * rule.width + member)).sum())
    by_windows = "chunks of K as in the documented windows of A, in the order of slots"
    words = "K as in the documented B" if role == "B" else by_windows
    return base[depth.strand] + depth.indices * rule.group, f"{words} ({agreed} of {len(column)} slots agree)"


def _order_of_k(form: Form, depth: Depth, documented: Mapping[Any, Fragment]) -> tuple[str, Array, Array, Array]:
    """The operand whose document orders K, and for each of its slots class, column, and whether the index fits."""
    rule = form.sparsity
    if by_b := _documented(form, "B", documented):
        table, slots = by_b
        classes, column = depth.class_of_b[slots], table["row"].astype(np.int64)
        return "B", classes, column, column % rule.width // rule.group == depth.indices[classes]
    if by_a := _documented(form, "A", documented):
        table, slots = by_a
        # A window may hold several chunks: the slots that share it store its columns in the order of their numbers.
        _, window = np.unique(table[["computation", "row", "col", "col_last"]], return_inverse=True)
        order = np.argsort(window, kind="stable")
        rank = np.empty(len(table), np.int64)
        rank[order] = np.arange(len(table)) - np.searchsorted(window[order], window[order])
        stored = rule.fields * rule.group
        column = table["col"] + rank // stored * rule.width + rank % rule.group
        return "A", depth.class_of_a[0][slots], column, np.ones(len(slots), bool)
    raise Contradiction("neither B nor A is documented, so nothing orders K")


def _strands_of(labels: Array, role: str, chunks: Array, votes: Array) -> Array:
    """For each label (chunk of columns, member), the strand with most of the slots to which the document gives it.

    No other order of K agrees better with the document. A label without such a strand, two labels with the same one,
    and a divided chunk are refused.
    """
    by_strand = votes[chunks].reshape(chunks.size, *labels.shape)
    most, slots, named = by_strand.argmax(axis=0), by_strand.max(axis=0), by_strand.sum(axis=0)
    line = "row" if role == "B" else "chunk of columns from"
    few = 2 * slots <= named
    if few.any():
        at = tuple(np.argwhere(few)[0])
        raise Contradiction(
            f"of {named[at]} slots that the documented {role} gives {line} {labels[at]} along K, "
            f"no more than {slots[at]} are together as measured: that orders nothing"
        )
    chunk = most // chunks.shape[1]
    if len(np.unique(most)) < most.size or (chunk != chunk[:, :1]).any():
        raise Contradiction(
            f"the documented {role} divides K into chunks that are not those measured: it orders nothing"
        )
    return np.asarray(chunks.ravel()[most])


def _documented(form: Form, role: str, documented: Mapping[Any, Fragment]) -> tuple[Array, Array] | None:
    """The documented elements of an operand and the number of each one's slot; None where there are none."""
    fragment, held = documented.get(form.key(role)), form.operand(role)
    if fragment is None or (table := fragment.elements) is None:
        return None
    number = held.number(table["lane"].astype(np.int64), table["reg"], table["slot"])
    if number.max(initial=0) >= held.size:
        raise Contradiction(f"the documented {role} has more registers than the instruction")
    return table, number


def blocks(left: Array, right: Array, lefts: Side, rights: Side) -> tuple[Array, Array]:
    """Block numbers of all lefts and rights of a relation where any two lefts meet the same rights or none in common.

    The relation is given as pairs, in any order and with repetitions. Raises Contradiction for any other relation, or
    if an item meets nothing.
    """
    met = np.zeros((lefts.size, rights.size), bool)
    met[left, right] = True
    for part, meets in ((lefts, met.any(axis=1)), (rights, met.any(axis=0))):
        if not meets.all():
            raise Contradiction(f"{part.name(int(np.argmin(meets)))} meets nothing")
    _, block = np.unique(met.argmax(axis=1), return_inverse=True)
    first = met.argmax(axis=0)
    if (odd := met != (block[:, None] == block[first])).any():
        at, met_at = np.argwhere(odd)[0].tolist()
        one, other = sorted((at, int(first[met_at])))
        raise Contradiction(f"{lefts.name(one)} and {lefts.name(other)} meet some of the same but not all")
    return block, block[first]


def strands(left: Array, right: Array, lefts: int, rights: int) -> Array:
    """Numbers of the connected parts of a relation given as pairs, for each right."""
    part = np.arange(rights)
    while True:
        least = np.full(lefts, rights)
        np.minimum.at(least, left, part[right])
        joined = part.copy()
        np.minimum.at(joined, right, least[left])
        if (joined == part).all():
            return np.unique(part, return_inverse=True)[1]
        part = joined


def common(labels: Array, block: Array, names: Side, axis: str) -> Array:
    """The label of each block. Raises Contradiction unless all its members have it and no other block does."""
    in_one, in_two = f"in one {axis} as measured, in two", f"in two {axis}s as measured, in one"
    for one, other, words in ((block, labels, in_one), (labels, block, in_two)):
        _, first, group = np.unique(one, return_index=True, return_inverse=True)
        if (differs := other[first[group]] != other).any():
            odd = int(np.argmax(differs))
            pair = f"{names.name(int(first[group[odd]]))} and {names.name(odd)}"
            raise Contradiction(f"{pair} are {words} by the documented D")
    return labels[np.unique(block, return_index=True)[1]]
