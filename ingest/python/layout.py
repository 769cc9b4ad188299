"""From the numbers that an entry returns to the layout of an operand.

Every form becomes ``Places``: where each value of each thread is in the entry's tile, a pair on the entry's own axes.
A claim cuts its operand out of that.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ...db.errors import LanemapError
from ...db.isa import instructions as table
from ...db.isa.instructions import Key, Operand
from ...db.isa.tiling import Tiling, pieces
from ...db.layout.algebra import parse_strided, span
from ...db.layout.fragment import Citation, Fragment, address_lanes, elements
from .. import catalogue
from ..atom import thread_value
from .mapping import Claim, LibraryEntry

_MOVE = re.compile(r"((?:ld|st)matrix)[.]x[124]([.]trans)?")
_Numbers = NDArray[np.int64]


class Places(NamedTuple):
    """Equally long columns: thread, value, and the pair where it is; ``undefined`` says where there is none."""

    thread: _Numbers
    value: _Numbers
    pair: _Numbers
    undefined: Sequence[str] = ()


def named(claim: Claim, type_: str) -> Key:
    """The operand of a claim."""
    major = claim.major or next(iter(table.majors(claim.instruction, claim.shape, type_, claim.role)), None)
    return Key(claim.instruction, claim.shape, type_, claim.role, major, claim.selector, claim.qualifiers or None)


def size(claim: Claim, type_: str) -> Operand:
    """The registers of the operand of a claim, or the words of one in shared memory.

    Raises:
        LanemapError: the elements do not fill the registers.
    """
    key = named(claim, type_)
    of = table.operand(key)
    cells = table.computations(key.instruction, key.shape, type_, key.qualifiers) * prod(_dimensions(claim))
    stored = cells // 2 if claim.role == "A" and table.instruction(claim.instruction).sparse else cells
    partial = claim.role in table.PARTIAL_ROLES or table.tile(key) or table.box(key) or table.in_tensor_memory(key)
    if not partial and of.size != stored * table.copies(*key[:4]):
        raise LanemapError(f"{key} does not fill the registers of {of.threads} threads: correct the shape")
    return of


def in_tile(claim: Claim) -> Iterator[Claim]:
    """The claim on the operand of each instruction of its tile.

    Raises:
        LanemapError: see ``Tiling.of`` and ``grid``; or there is no such copy.
    """
    tiling = Tiling.of(claim.tile, claim.warps, claim.order, claim.contiguous)
    row = table.instruction(claim.instruction)
    axes = "mn" if row.moves else row.axes[claim.role]
    copies = tiling.copies(axes) if tiling else 1
    if (claim.copy or 0) >= copies:
        words = f"{copies} warps hold the same, from 0 to {copies - 1}" if copies > 1 else "no other warp holds it"
        raise LanemapError(f"copy {claim.copy} of {claim.role}: {words}")
    if tiling is None:
        yield claim
        return
    of, extents = size(claim, claim.types.split()[0]), _extents(claim)
    extents = extents[::-1] if claim.turned else extents
    shape = "m{}n{}".format(*extents) if row.moves else claim.shape
    for piece in pieces(tiling, shape, axes, extents):
        copy = sum(number for axis, number in tiling.warp(piece.warp).items() if axis not in axes)
        if claim.copy in (None, copy):
            begin = (piece.col, piece.row) if claim.turned else (piece.row, piece.col)
            yield structs.replace(
                claim,
                tile="",
                warps="",
                order="",
                contiguous=False,
                origin=(claim.origin[0] + begin[0], claim.origin[1] + begin[1]),
                first=claim.first + piece.number * _values(claim, of),
                thread=claim.thread + piece.warp * of.threads,
            )


def domain(entry: LibraryEntry) -> list[int] | None:
    """The range of each argument of an entry's callable; None for an object."""
    if entry.form == "kernel":
        return None
    threads, values = _claimed(entry)
    match entry.form:
        case "place" | "cell" if any(entry.tile):
            return list(entry.tile)
        case "place":
            return [threads, values]
        case "cell":
            return [max(claim.origin[axis] + _extents(claim)[axis] for claim in entry.claims) for axis in (0, 1)]
        case "address":
            return [threads]
    return None


def places(entry: LibraryEntry, claim: Claim, type_: str, answer: Mapping[str, Any]) -> Places:
    """Where an entry puts each value of each thread.

    Raises:
        LanemapError: the entry's result does not have its form.
    """
    try:
        if entry.form in ("place", "cell"):
            return _enumerated(entry, answer)
        if entry.form == "address":
            return loaded(size(claim, type_), claim.move, _enumerated(entry, answer))
        if entry.form == "bases":
            bases = answer["value"]
            pair = span([*bases["lane"], *bases.get("warp", [])])[:, None] ^ span(bases["register"])
        else:  # an index into the operand, its first axis fastest
            index = thread_value(parse_strided(answer["value"]))
            if table.computations(*named(claim, type_)[:3]) > 1:  # lanes 0-3 and 16-19 do the first, others the same
                lane = np.arange(size(claim, type_).threads)
                index = index[lane % 4 + lane // 16 * 4]
            slow, fast = np.divmod(index, entry.tile[0] or _dimensions(claim)[claim.turned])
            pair = np.stack([fast, slow], axis=-1)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise LanemapError(f"its result does not have the form {entry.form!r}") from None
    thread, value = (axis.ravel() for axis in np.indices(pair.shape[:2]))
    return Places(thread, value, pair.reshape(-1, 2))


def fragment(
    entry: LibraryEntry, claim: Claim, type_: str, tile: Places, origin: str | None
) -> tuple[Fragment, list[str]]:
    """The operand of a claim, and what is wrong with it: places that are undefined, or outside.

    Raises:
        LanemapError: nothing of it is inside.
    """
    of = size(claim, type_)
    rule = table.sparsity(claim.instruction, claim.shape, type_)
    lane, element, pair, remarks = _cut(entry, claim, of, tile)
    row, col = pair.T[::-1] if claim.turned else pair.T
    held = {"lane": lane, "row": row, "col": col}
    if claim.role == "E":  # the indices in each value, with the columns that each can select
        per_value = claim.bits * rule.fields // 4
        place, element = ((first[:, None] * per_value + np.arange(per_value)).ravel() for first in (col, element))
        part = np.array(sorted(rule.indices.values())).T[place % rule.fields] * rule.group
        start = place // rule.fields * rule.width
        held = {"lane": np.repeat(lane, per_value), "row": np.repeat(row, per_value)}
        held |= {"col": start + part.min(axis=1), "col_last": start + part.max(axis=1) + rule.group - 1}
    elif claim.compressed:
        held["col"] = col // (rule.width // 2) * rule.width
        held["col_last"] = held["col"] + rule.width - 1
    matrix, held["row"] = np.divmod(held["row"], _dimensions(claim)[0])  # those of a move are below one another
    held["computation"] = matrix + table.computation(claim.instruction, claim.shape, type_, held["lane"])
    if not len(held["row"]):
        raise LanemapError("; ".join(remarks) or "it has no element of the operand")
    cells = elements({**held, "slot": element}, of.slots)
    cited = Citation(origin=origin)
    return Fragment.of(named(claim, type_), cells, "imported", cited, first_bit=claim.first_bit), remarks


def _enumerated(entry: LibraryEntry, answer: Mapping[str, Any]) -> Places:
    """The values of a callable, in the order of its domain."""
    at = np.array(list(product(*map(range, domain(entry) or ()))), np.int64)
    defined = [place for place, value in enumerate(answer["values"]) if value is not None]
    values = [answer["values"][place] for place in defined]
    pairs = np.array([divmod(value, entry.stride) if entry.stride else value for value in values])
    if pairs.shape != (len(defined), 2) or pairs.dtype.kind != "i":
        raise ValueError
    words = {"cell": "cell ({}, {})", "place": "lane {} value {}"}.get(entry.form, "lane {}")
    needed = at[:, 1] < _claimed(entry)[1] if entry.form == "place" else np.ones(len(at), bool)
    undefined = [
        f"{words.format(*at[where[0]].tolist())} is not defined{_others(len(where))}: {error}"
        for error, places in answer["undefined"].items()
        if (where := [place for place in places if needed[place]])
    ]
    if entry.form == "cell":
        return Places(pairs[:, 0], pairs[:, 1], at[defined], undefined)
    value = at[defined, -1] if at.shape[1] > 1 else np.zeros(len(defined), np.int64)
    return Places(at[defined, 0], value, pairs, undefined)


def loaded(of: Operand, name: str, addresses: Places) -> Places:
    """The registers that ``ldmatrix`` loads, or ``stmatrix`` stores, with the addresses of lanes.

    The fragment ``p`` of the move says which row of which matrix a lane names, ``r`` which registers hold the row. A
    pair is the cell at which the 16 bytes begin, which run along its second axis.

    Raises:
        LanemapError: there is no such move, or it cannot move elements of this width.
    """
    matched = _MOVE.fullmatch(name)
    if matched is None:
        raise LanemapError(f"invalid move {name!r}: write ldmatrix.x4, stmatrix.x2.trans and so on")
    if matched[2] and of.slots == 1:
        raise LanemapError(f"{name} moves units of 16 bits, but {of.type} has 32")
    move = Key(matched[1], "m8n8", "b16", "r", qualifiers=name.partition(".")[2])
    documented = catalogue.documented()
    if move not in documented:
        raise LanemapError(f"there is no {name}")
    r, p = (documented[move._replace(role=role)] for role in "rp")
    passing = np.isin(np.arange(of.threads), addresses.thread)
    start: _Numbers = np.full((of.threads, 2), -1)
    start[addresses.thread] = addresses.pair
    thread, register, slot = (axis.ravel() for axis in np.indices((r.threads, r.registers, of.slots)))
    bit = slot * of.slot_bits
    inside = r.number(thread, register, bit // r.slot_bits)
    giver = address_lanes(r, p)[inside]
    along = (r.table["col"][inside] * r.slot_bits + bit % r.slot_bits) // of.slot_bits
    pair = start[giver] + np.stack([0 * along, along], axis=1)
    row_size = r.dimensions[1] * r.slot_bits // of.slot_bits
    askew = [lane for lane in p.table["lane"].tolist() if passing[lane] and start[lane, 1] % row_size]
    words = "lane {} passes an address that is not a multiple of 16 bytes{}"
    remarks = [words.format(askew[0], _others(len(askew)))] if askew else []
    valid = np.flatnonzero(passing[giver])
    value = register * of.slots + slot
    return Places(thread[valid], value[valid], pair[valid], [*addresses.undefined, *remarks])


def _claimed(entry: LibraryEntry) -> tuple[int, int]:
    """Of how many threads, and of how many values of each, an entry claims something."""
    sizes = [(claim, size(claim, type_)) for claim in entry.claims for type_ in claim.types.split()]
    threads = max(claim.thread + operand.threads for claim, operand in sizes)
    return threads, max(claim.first + _values(claim, operand) for claim, operand in sizes)


def _dimensions(claim: Claim) -> tuple[int, int]:
    return table.dimensions(claim.shape, claim.role, claim.instruction, claim.qualifiers or None)


def _values(claim: Claim, of: Operand) -> int:
    """How many values a thread has; a value of metadata holds several indices."""
    return 32 // claim.bits if claim.role == "E" else of.per_thread


def _extents(claim: Claim) -> tuple[int, int]:
    """How many steps the operand has on each axis of the entry."""
    rows, cols = _dimensions(claim)
    if table.instruction(claim.instruction).moves:
        rows *= table.computations(claim.instruction, claim.shape, "", claim.qualifiers)
    if claim.role == "E":
        # Each four bits of a metadata value stand for a chunk.
        type_ = claim.types.split()[0]
        cols = cols // table.sparsity(claim.instruction, claim.shape, type_).width * 4 // claim.bits
    elif claim.compressed:
        cols //= 2
    return (cols, rows) if claim.turned else (rows, cols)


def _cut(entry: LibraryEntry, claim: Claim, of: Operand, tile: Places) -> tuple[Any, Any, Any, list[str]]:
    """The threads, values and pairs of a claim's operand, from its own origin, and remarks on what is outside."""
    several = table.computations(claim.instruction, claim.shape, claim.types.split()[0]) > 1
    thread, value = tile.thread - claim.thread, tile.value - claim.first
    pair, extents = tile.pair - np.array(claim.origin), np.array(_extents(claim))
    pair = pair % extents if several else pair
    held = (thread >= 0) & (thread < of.threads) & (value >= 0) & (value < _values(claim, of))
    held &= np.isin(thread % 4, claim.quad)
    inside = ((pair >= 0) & (pair < extents)).all(axis=1)
    remarks = list(tile.undefined)
    wrong = inside & ~held if entry.form == "cell" else held & ~inside
    if entry.form == "place" and any(entry.tile):
        wrong |= (tile.value >= _claimed(entry)[1]) & ~inside
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        where = f"lane {tile.thread[at]} value {tile.value[at]}"
        cell = f"({', '.join(map(str, tile.pair[at].tolist()))})"
        ends = claim.thread + of.threads - 1, claim.first + _values(claim, of) - 1
        held_by = f"lanes {claim.thread}-{ends[0]} values {claim.first}-{ends[1]}"
        corners = tuple(claim.origin), tuple((np.array(claim.origin) + extents - 1).tolist())
        remark = f"{where} is at {cell}, outside the operand's {corners[0]} to {corners[1]}"
        if entry.form == "cell":
            remark = f"cell {cell} is at {where}, outside the operand's {held_by}"
        remarks.append(f"{remark}{_others(int(wrong.sum()))}")
    chosen = np.flatnonzero(held & inside)
    _, first = np.unique(thread[chosen] * _values(claim, of) + value[chosen], return_index=True)
    if twice := len(chosen) - len(first):
        double = chosen[np.setdiff1d(np.arange(len(chosen)), first)[0]]
        remarks.append(f"lane {thread[double]} value {value[double]} stands for several cells{_others(twice)}")
    chosen = chosen[np.sort(first)]
    return thread[chosen], value[chosen], pair[chosen], remarks


def _others(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""
