"""What an entry gives as numbers, as the layout of an operand.

Every form becomes ``Places``: where each value of each thread is in the entry's tile, a pair on the entry's own axes.
A claim cuts its operand out of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...db import instructions as table
from ...db.errors import LanemapError
from ...db.fragment import Fragment, elements
from ...db.instructions import Key, Operand
from ..shape_stride import layout, thread_value
from .mapping import Claim, LibraryEntry

_MOVE = re.compile(r"(?:ld|st)matrix[.]x([124])([.]trans)?")
_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Equally long columns: thread, value, and the pair where it is; and where there is nothing, in words."""

    thread: _Numbers
    value: _Numbers
    pair: _Numbers
    undefined: Sequence[str] = ()


def named(claim: Claim, type_: str) -> Key:
    """The operand of a claim."""
    major = claim.major or next(iter(table.majors(claim.instruction, claim.shape, type_, claim.role)), None)
    return Key(claim.instruction, claim.shape, type_, claim.role, major, claim.selector, claim.qualifiers or None)


def size(claim: Claim, type_: str) -> Operand:
    """The registers of the operand of a claim.

    Raises:
        LanemapError: the elements do not fill them.
    """
    key = named(claim, type_)
    of = table.operand(key)
    cells = table.computations(key.instruction, key.shape, type_, key.qualifiers) * prod(_dimensions(claim))
    stored = cells // 2 if claim.role == "A" and table.instruction(claim.instruction).sparse else cells
    if claim.role not in table.SUPPLIED and of.size != stored * table.copies(*key[:4]):
        raise LanemapError(f"{key} does not fill the registers of {of.threads} threads")
    return of


def domain(entry: LibraryEntry) -> list[int] | None:
    """How far each argument of an entry's callable goes; None for an object."""
    sizes = [(claim, size(claim, type_)) for claim in entry.claims for type_ in claim.types.split()]
    threads = max(claim.thread + each.threads for claim, each in sizes)
    match entry.form:
        case "place":
            return [threads, max(claim.first + _values(claim, each) for claim, each in sizes)]
        case "cell" if any(entry.tile):
            return list(entry.tile)
        case "cell":
            return [max(claim.origin[axis] + _extents(claim)[axis] for claim in entry.claims) for axis in (0, 1)]
        case "address":
            return [threads]
    return None


def places(entry: LibraryEntry, claim: Claim, type_: str, answer: Mapping[str, Any]) -> Places:
    """Where an entry puts each value of each thread.

    Raises:
        LanemapError: what the entry gave is not of its form.
    """
    try:
        match entry.form:
            case "place" | "cell":
                return _enumerated(entry, answer)
            case "address":
                return _loaded(claim, type_, _enumerated(entry, answer))
            case "bases":
                return _spanned(answer["value"])
            case _:
                return _strided(claim, answer["value"])
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise LanemapError(f"what it gives is not of the form {entry.form!r}") from None


def fragment(
    entry: LibraryEntry, claim: Claim, type_: str, found: Places, origin: str | None
) -> tuple[Fragment, list[str]]:
    """The operand of a claim, and what is wrong with it: places that are not defined, or outside.

    Raises:
        LanemapError: nothing of it is inside.
    """
    of = size(claim, type_)
    columns, remarks = _cut(entry, claim, of, found)
    row, col = columns["pair"].T[::-1] if claim.turned else columns["pair"].T
    held = {"lane": columns["thread"], "element": columns["value"], "row": row, "col": col}
    if claim.role == "E":
        held = _metadata(claim, type_, held)
    elif claim.compressed:
        rule = table.sparsity(claim.instruction, claim.shape, type_)
        held["col"] = held["col"] // (rule.width // 2) * rule.width
        held["col_last"] = held["col"] + rule.width - 1
    if table.computations(claim.instruction, claim.shape, type_) > 1:
        held["computation"] = table.quad_pair(held["lane"])
    if not len(held["row"]):
        raise LanemapError("; ".join(remarks) or "nothing of the operand is there")
    element = held.pop("element")
    made = Fragment(
        **named(claim, type_)._asdict(),
        registers=of.registers,
        slots=of.slots,
        elements=elements({**held, "reg": element // of.slots, "slot": element % of.slots}),
        status="imported",
        origin=origin,
    )
    return made, remarks


def _enumerated(entry: LibraryEntry, answer: Mapping[str, Any]) -> Places:
    """The values of a callable, in the order of its domain."""
    extents = domain(entry)
    assert extents is not None
    at = np.array(list(product(*map(range, extents))), np.int64)
    known = [place for place, value in enumerate(answer["values"]) if value is not None]
    values = [answer["values"][place] for place in known]
    pairs = np.array([divmod(value, entry.stride) if entry.stride else value for value in values])
    if pairs.shape != (len(known), 2) or pairs.dtype.kind != "i":
        raise ValueError
    words = "cell {}" if entry.form == "cell" else "lane {} value {}" if entry.form == "place" else "lane {}"
    undefined = [
        f"{_at(words, at[where[0]])} is not defined{_others(len(where))}: {error}"
        for error, where in answer["undefined"].items()
    ]
    if entry.form == "cell":
        return Places(pairs[:, 0], pairs[:, 1], at[known], undefined)
    return Places(at[known, 0], at[known, -1] if at.shape[1] > 1 else np.zeros(len(known), np.int64), pairs, undefined)


def _loaded(claim: Claim, type_: str, addresses: Places) -> Places:
    """The registers that come out of ``ldmatrix``, or go into ``stmatrix``, where each lane gives an address.

    Lane 8 i + r gives row r of matrix i: 16 bytes. Register i of lane t holds four bytes of it: of row t / 4 from byte
    4 (t % 4) on, or with ``.trans`` two bytes of each of two rows, 2 (t % 4) and the next, at byte 2 (t / 4)
    (sections 9.7.14.5.15 and 9.7.14.5.16).
    """
    matched = _MOVE.fullmatch(claim.move)
    if matched is None:
        raise LanemapError(f"invalid move {claim.move!r}: write ldmatrix.x4, stmatrix.x2.trans and so on")
    of, trans = size(claim, type_), matched[2] is not None
    if trans and of.slots == 1:
        raise LanemapError(f"{claim.move} moves units of 16 bits, and {type_} has 32")
    start = np.full((of.threads, 2), -1)
    start[addresses.thread] = addresses.pair
    known = np.isin(np.arange(of.threads), addresses.thread)
    thread, register, slot = (each.ravel() for each in np.indices((of.threads, int(matched[1]), of.slots)))
    half = max(1, of.slots // 2)
    matrix_row = 2 * (thread % 4) + slot // half if trans else thread // 4
    along = thread // 4 * half + slot % half if trans else thread % 4 * of.slots + slot
    giver = register * 8 + matrix_row
    pair = start[giver] + np.stack([np.zeros_like(along), along], axis=1)
    askew = [lane for lane in range(8 * int(matched[1])) if known[lane] and start[lane, 1] % (4 * of.slots)]
    words = "lane {} gives an address that is not a multiple of 16 bytes{}"
    remarks = [words.format(askew[0], _others(len(askew)))] if askew else []
    there = known[giver]
    value = register * of.slots + slot
    return Places(thread[there], value[there], pair[there], [*addresses.undefined, *remarks])


def _spanned(bases: Mapping[str, Any]) -> Places:
    """The sums without carry of the vectors for the bits that are set in the numbers of register and thread."""

    def span(vectors: Iterable[Sequence[int]]) -> _Numbers:
        points = np.zeros((1, 2), np.int64)
        for vector in vectors:
            points = np.concatenate([points, points ^ np.array(vector, np.int64)])
        return points

    threads, values = span([*bases["lane"], *bases.get("warp", [])]), span(bases["register"])
    thread, value = (each.ravel() for each in np.indices((len(threads), len(values))))
    return Places(thread, value, threads[thread] ^ values[value])


def _strided(claim: Claim, text: str) -> Places:
    """``((4,8),(2,2)):((32,1),(16,8))``: thread and value to an index into the operand, its first axis fastest."""
    shape, _, stride = text.replace("(", "[").replace(")", "]").partition(":")
    index = thread_value(layout(_nested(json.loads(shape)), _nested(json.loads(stride))))
    first = _dimensions(claim)[claim.turned]
    thread, value = (each.ravel() for each in np.indices(index.shape))
    return Places(thread, value, np.stack([index.ravel() % first, index.ravel() // first], axis=1))


def _nested(value: Any) -> Any:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def _dimensions(claim: Claim) -> tuple[int, int]:
    return table.dimensions(claim.shape, claim.role, claim.instruction, claim.qualifiers or None)


def _values(claim: Claim, of: Operand) -> int:
    """How many values a thread has: of metadata, each holds several indices."""
    return 32 // claim.bits if claim.role == "E" else of.registers * of.slots


def _extents(claim: Claim) -> tuple[int, int]:
    """How many steps the operand has on each axis of the entry."""
    rows, cols = _dimensions(claim)
    if claim.role == "E":
        # A metadata value of some bits stands for as many indices; each four bits for a chunk.
        type_ = claim.types.split()[0]
        cols = cols // table.sparsity(claim.instruction, claim.shape, type_).width * 4 // claim.bits
    elif claim.compressed:
        cols //= 2
    return (cols, rows) if claim.turned else (rows, cols)


def _cut(entry: LibraryEntry, claim: Claim, of: Operand, found: Places) -> tuple[dict[str, Any], list[str]]:
    """The places of a claim's operand, counted from its own origin, and those that are outside."""
    several = table.computations(claim.instruction, claim.shape, claim.types.split()[0]) > 1
    thread, value = found.thread - claim.thread, found.value - claim.first
    pair, extents = found.pair - np.array(claim.origin), np.array(_extents(claim))
    pair = pair % extents if several else pair
    held = (thread >= 0) & (thread < of.threads) & (value >= 0) & (value < _values(claim, of))
    held &= np.isin(thread % 4, claim.quad)
    inside = ((pair >= 0) & (pair < extents)).all(axis=1)
    remarks = list(found.undefined)
    wrong = inside & ~held if entry.form == "cell" else held & ~inside
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        where = f"lane {found.thread[at]} value {found.value[at]}"
        cell = f"({', '.join(map(str, found.pair[at].tolist()))})"
        ends = claim.thread + of.threads - 1, claim.first + _values(claim, of) - 1
        held_by = f"lanes {claim.thread}-{ends[0]} values {claim.first}-{ends[1]}"
        corners = tuple(claim.origin), tuple((np.array(claim.origin) + extents - 1).tolist())
        what = (
            f"cell {cell} is at {where}, outside the operand's {held_by}"
            if entry.form == "cell"
            else f"{where} is at {cell}, outside the operand's {corners[0]} to {corners[1]}"
        )
        remarks.append(f"{what}{_others(int(wrong.sum()))}")
    kept = np.flatnonzero(held & inside)
    _, first = np.unique(thread[kept] * _values(claim, of) + value[kept], return_index=True)
    if twice := len(kept) - len(first):
        again = kept[np.setdiff1d(np.arange(len(kept)), first)[0]]
        remarks.append(f"lane {thread[again]} value {value[again]} stands for several cells{_others(twice)}")
    kept = kept[np.sort(first)]
    return {"thread": thread[kept], "value": value[kept], "pair": pair[kept]}, remarks


def _metadata(claim: Claim, type_: str, held: Mapping[str, Any]) -> dict[str, Any]:
    """The indices in each value of metadata, with the columns that each can select."""
    rule = table.sparsity(claim.instruction, claim.shape, type_)
    each = claim.bits // rule.field_bits
    index = np.arange(each)
    place = (held["col"][:, None] * each + index).ravel()
    part = np.array(sorted(rule.indices.values())).T[place % rule.fields]
    start = place // rule.fields * rule.width
    return {
        "lane": np.repeat(held["lane"], each),
        "element": (held["element"][:, None] * each + index).ravel(),
        "row": np.repeat(held["row"], each),
        "col": start + part.min(axis=1) * rule.group,
        "col_last": start + part.max(axis=1) * rule.group + rule.group - 1,
    }


def _at(words: str, numbers: Any) -> str:
    return words.format(tuple(numbers.tolist())) if words == "cell {}" else words.format(*numbers.tolist())


def _others(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""
