"""Sparsity metadata: which columns the words of operand E select for the compressed A, and back (PTX ISA 9.7.16.6.1).

A row of A is cut into chunks, and the metadata names the columns of each chunk that are stored. Columns and words here
are numpy arrays: columns in the order of the elements of the A fragment, words in the order of the lanes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LanemapError
from ..isa.instructions import Sparsity, instruction
from ..layout.fragment import PLACE, Fragment
from ..lookup import Query, by_trust, read_fragments
from ..rows import Rows, Tabular
from ..store.reader import Reader


@dataclass(frozen=True, repr=False)
class Metadata(Tabular):
    """Words of metadata, and the columns of A that they choose.

    ``words`` has a word for each thread, ``columns`` a column for each element of ``a``. ``others`` are further sources
    that have both operands.
    """

    a: Fragment
    e: Fragment
    words: NDArray[Any]
    columns: NDArray[Any]
    others: Sequence[str] = ()

    def columns_by_slot(self) -> Rows:
        """The row and column of each element of A."""
        table = self.a.table[[*PLACE, "row"]].tolist()
        return Rows((*PLACE, "row", "col"), [(*at, int(col)) for at, col in zip(table, self.columns, strict=True)])

    def words_by_lane(self) -> Rows:
        """The word of each lane."""
        return Rows(("lane", "metadata"), [(lane, f"0x{word:08X}") for lane, word in enumerate(self.words.tolist())])

    rows = columns_by_slot


def from_words(words: Sequence[int], a: Fragment, e: Fragment, others: Sequence[str] = ()) -> Metadata:
    """The columns that words choose: one word for each thread, or one for all.

    Raises:
        LanemapError: there are too few or too many words, or a vector of metadata in use is not valid.
    """
    if len(words) not in (1, a.threads):
        raise LanemapError(f"{len(words)} words of metadata: give {a.threads}, one for each lane, or one for all")
    full = np.resize(np.asarray(words, np.uint32), a.threads)
    return Metadata(a, e, full, decode(full, a, e), others)


def from_columns(
    chosen: Mapping[tuple[int, int, int], int], a: Fragment, e: Fragment, others: Sequence[str] = ()
) -> Metadata:
    """The words that choose a column for each lane, reg and slot of A.

    Raises:
        LanemapError: a slot has no column, or no metadata can express a choice.
    """
    places = [tuple(place) for place in a.table[list(PLACE)].tolist()]
    if missing := [place for place in places if place not in chosen]:
        lane, reg, slot = missing[0]
        raise LanemapError(
            f"no column for {len(missing)} of {len(places)} elements, the first is lane {lane} reg {reg} slot {slot}"
        )
    columns = np.asarray([chosen[place] for place in places])
    return Metadata(a, e, encode(columns, a, e), columns, others)


def operands(reader: Reader, query: Query) -> tuple[Fragment, Fragment, list[str]]:
    """A and E of a sparse instruction from the most trusted source that has both, and the other sources that do.

    Args:
        reader: the database.
        query: shape and type of A, and selector and source where they matter.

    Raises:
        LanemapError: the selector is missing, or no source has the elements of both.
    """
    every = read_fragments(reader, replace(query, role="E", selector=None))
    metadata = [fragment for fragment in every if instruction(fragment.instruction).sparse]
    first, selector = metadata[0], query.parameters()["selector"]
    selectors = sorted({fragment.selector for fragment in metadata if fragment.selector is not None})
    name, valid = f"E of {first.instruction} {first.shape} {first.type}", " or ".join(map(str, selectors))
    if selector is None and len(selectors) > 1:
        raise LanemapError(f"{name} depends on the sparsity selector: say selector {valid}", "selector")
    if selector not in (None, *selectors):
        raise LanemapError(f"{name} has selector {valid}, not {selector}", "selector")
    of_a = replace(query, role="A", instruction=first.instruction, selector=None)
    stored = {fragment.source: fragment for fragment in read_fragments(reader, of_a) if fragment.has_rows}
    pairs = {
        str(fragment.source): (stored[fragment.source], fragment)
        for fragment in metadata
        if fragment.has_rows and fragment.source in stored and selector in (None, fragment.selector)
    }
    if not pairs:
        raise LanemapError(f"no source has the elements of {name}: only a capture can have them")
    best, *others = filter(pairs.__contains__, by_trust(reader))
    return (*pairs[best], others)


def pack_vectors(vectors: NDArray[Any]) -> NDArray[Any]:
    """Words (..., lanes) of 4-bit vectors (..., lanes, 8), low bits first."""
    return np.asarray(np.bitwise_or.reduce(vectors.astype(np.uint32) << np.arange(0, 32, 4, dtype=np.uint32), axis=-1))


def decode(words: NDArray[Any], a: Fragment, e: Fragment) -> NDArray[Any]:
    """Absolute columns of the elements of A that metadata ``words`` (..., 32 lanes) select, as (..., elements of A).

    ``a`` and ``e`` are fragments of one instruction, ``e`` for the selector in use; a documented A, whose windows are
    wider, will do. Raises LanemapError if a vector of metadata in use is not valid.
    """
    rule, fields, words = a.sparsity, e.table, np.asarray(words)
    if words.shape[-1:] != (a.threads,):
        raise LanemapError(f"metadata has {words.shape[-1:] or 'no'} words: give {a.threads}, one for each lane")
    vector = words[..., fields["lane"]].astype(np.uint32) >> _shifts(fields, rule) & 0xF
    selected = np.full((rule.fields, 16), -1)
    for value, indices in rule.indices.items():
        selected[:, value] = indices
    index = selected[fields["slot"] % rule.fields, vector]
    if (index < 0).any():
        at = tuple(np.argwhere(index < 0)[0])
        valid = ", ".join(f"0x{value:X}" for value in rule.indices)
        where = fields[at[-1]]
        low = where["slot"] // rule.fields * 4
        raise LanemapError(
            f"metadata of lane {where['lane']} has 0x{vector[at]:X} in bits {low} to {low + 3}: {e} takes {valid}"
        )
    first = fields["col"] // rule.width * rule.width + index * rule.group
    chosen = (first[..., None] + np.arange(rule.group)).reshape(*index.shape[:-1], -1)
    rows = np.repeat(fields["row"].astype(np.int64), rule.group)
    columns: NDArray[Any] = np.empty_like(chosen)
    columns[..., _storage_order(a)] = np.sort(rows << 16 | chosen, axis=-1) & 0xFFFF
    return columns


def encode(columns: NDArray[Any], a: Fragment, e: Fragment) -> NDArray[Any]:
    """Metadata words (32 lanes) that select ``columns``, one for each element of ``a``; unused bits are 0.

    Raises LanemapError if a choice is outside its chunk, does not ascend, or breaks a pair (4-bit types).
    """
    rule, order, fields = a.sparsity, _storage_order(a), e.table
    columns = np.asarray(columns)
    if columns.shape != order.shape:
        raise LanemapError(f"{len(order)} columns are needed, one for each element of {a}: got {columns.size}")
    fields = fields[np.lexsort((fields["col"], fields["row"]))]
    runs = columns[order].reshape(-1, rule.group)
    slots = a.table[order].reshape(-1, rule.group)
    first = fields["col"] // rule.width * rule.width
    index = (runs[:, 0] - first) // rule.group
    inside = (runs[:, 0] >= first) & (index < rule.width // rule.group)
    _require(inside, runs, slots, "is outside the chunk of columns {0} to {1}", first, first + rule.width - 1)
    complete = (runs == first[:, None] + index[:, None] * rule.group + np.arange(rule.group)).all(axis=1)
    _require(complete, runs, slots, "must be followed by its neighbour: 4-bit types are stored in pairs of columns")
    vectors = list(map(tuple, index.reshape(-1, rule.fields).tolist()))
    codes = {indices: value for value, indices in rule.indices.items()}
    valid = np.repeat([vector in codes for vector in vectors], rule.fields)
    _require(valid, runs, slots, "must be less than the next column of its chunk")
    values = np.array([codes[vector] for vector in vectors], np.uint32)
    words = np.zeros(a.threads, np.uint32)
    low = fields.reshape(-1, rule.fields)[:, 0]
    np.bitwise_or.at(words, low["lane"], values << _shifts(low, rule))
    return words


def _shifts(fields: NDArray[Any], rule: Sparsity) -> NDArray[Any]:
    """Lowest bit of the 4-bit vector that each field belongs to."""
    return (fields["slot"] // rule.fields * 4).astype(np.uint32)


def _storage_order(a: Fragment) -> NDArray[Any]:
    """Elements of A such that each row's stored columns ascend."""
    return np.lexsort((a.table["col"], a.table["row"]))


def _require(good: NDArray[Any], runs: NDArray[Any], slots: NDArray[Any], rule: str, *values: NDArray[Any]) -> None:
    if not good.all():
        at = int(np.argmin(good))
        slot = slots[at, 0]
        place = f"lane {slot['lane']}, reg {slot['reg']}, slot {slot['slot']}"
        raise LanemapError(f"column {runs[at, 0]} of {place} {rule.format(*(value[at] for value in values))}")
