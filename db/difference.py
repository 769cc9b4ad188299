"""What is wrong with a fragment, as a person would say it: from the elements that do not match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter, sub
from typing import Any

from .fragment import LANES
from .spans import spans

Row = Mapping[str, Any]
Place = tuple[int, int, int]

_left = itemgetter("left_row", "left_col", "left_col_last", "left_computation")
_right = itemgetter("right_row", "right_col", "right_col_last", "right_computation")
_place = itemgetter("lane", "reg", "slot")
_GROUPS = 3


def summarise(rows: Sequence[Row], registers: int, slots: int) -> str:
    """One or two sentences on the elements that do not match, as ``compare.differing`` gives all of them.

    Of two sides, ``left`` and ``right``, it says what the left one has: which registers, slots or lanes stand in for
    each other, or by how much rows and columns are off and where.
    """
    absent = [words for side in ("left", "right") if (words := _absent(rows, side, registers, slots))]
    both = [row for row in rows if row["left_row"] is not None and row["right_row"] is not None]
    exchanged = _exchanged(both, registers, slots)
    parts = absent + ([exchanged] if exchanged else _offsets(both, registers, slots))
    return "; ".join(parts)


def _absent(rows: Sequence[Row], side: str, registers: int, slots: int) -> str:
    missing = [_place(row) for row in rows if row[f"{side}_row"] is None]
    return f"absent on the {side}: {_where(missing, registers, slots)}" if missing else ""


def _offsets(rows: Sequence[Row], registers: int, slots: int) -> list[str]:
    groups: dict[tuple[int, ...], list[Place]] = {}
    for row in rows:
        offset = tuple(map(sub, _left(row), _right(row)))
        groups.setdefault(offset, []).append(_place(row))
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    words = [f"{_where(places, registers, slots)}: {_off(offset)}" for offset, places in largest[:_GROUPS]]
    if len(largest) > _GROUPS:
        words.append(
            f"and {sum(len(places) for _, places in largest[_GROUPS:])} more elements, each off in its own way"
        )
    return words


def _off(offset: tuple[int, ...]) -> str:
    row, col, col_last, computation = offset
    named = [("row", row), ("col", col), ("computation", computation)]
    if col_last != col:
        named.insert(2, ("col_last", col_last))
    parts = [f"{name} is {abs(by)} too {'high' if by > 0 else 'low'}" for name, by in named if by]
    return " and ".join(parts)


def _exchanged(rows: Sequence[Row], registers: int, slots: int) -> str:
    """Whole registers, slots or lanes that stand in for each other; empty where it is not that."""
    home: dict[tuple[int, ...], Place] = {_right(row): _place(row) for row in rows}
    moves = [(_place(row), home.get(_left(row))) for row in rows]
    if len(home) != len(rows) or not rows or any(other is None for _, other in moves):
        return ""
    for index, name in enumerate(("lane", "reg", "slot")):
        pairs = {(one[index], other[index]) for one, other in moves if other is not None}
        rest = [(one[:index] + one[index + 1 :], other[:index] + other[index + 1 :]) for one, other in moves if other]
        if all(one == other for one, other in rest) and max(Counter(one for one, _ in pairs).values()) == 1:
            where = _where([one for one, _ in moves], registers, slots, but=name)
            return (f"{where}: " if where else "") + _exchange_in_words(name, dict(pairs))
    return ""


def _exchange_in_words(name: str, moves: Mapping[int, int]) -> str:
    swaps = sorted((one, other) for one, other in moves.items() if one < other and moves.get(other) == one)
    if 2 * len(swaps) == len(moves) and len(swaps) <= _GROUPS:
        return ", ".join(f"{name}s {one} and {other} are exchanged" for one, other in swaps)
    listed = ", ".join(f"{one} is {other}" for one, other in sorted(moves.items())[: 2 * _GROUPS])
    return f"{name}s are exchanged: left {listed}" + (", ..." if len(moves) > 2 * _GROUPS else "")


def _where(places: Sequence[Place], registers: int, slots: int, but: str = "") -> str:
    """Places in words, the whole of a dimension left out, as is ``but``: ``reg 1`` is all its slots in all lanes."""
    lanes, regs, within = ({place[index] for place in places} for index in range(3))
    if len(places) != len(lanes) * len(regs) * len(within):
        return f"{len(places)} elements in {_some('reg', regs)}, {_some('lane', lanes)}"
    parts = (("reg", regs, registers), ("slot", within, slots), ("lane", lanes, LANES))
    named = [_some(name, chosen) for name, chosen, total in parts if len(chosen) < total and name != but]
    return ", ".join(named) or ("" if but else "everywhere")


def _some(name: str, numbers: set[int]) -> str:
    ordered = sorted(numbers)
    if (
        len(ordered) > 3
        and ordered == list(range(ordered[0], ordered[-1] + 1, step := ordered[1] - ordered[0]))
        and step > 1
    ):
        return f"{name}s {ordered[0]}, {ordered[1]}, .., {ordered[-1]}"
    return f"{name}{'s' * (len(numbers) > 1)} {spans(numbers)}"
