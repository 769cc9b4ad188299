"""MLIR's ``affine_map<(lane, value) -> (row, col)>``, and the nested layout that IREE uses, where there is one.

``value`` is the element i. A nested layout cuts each dimension into outer, thread and element tiles, and lets a lane
count its elements through the outer tiles, then the element tiles, the last dimension fastest. PTX counts them its own
way, so a map from those tiles to ``value`` comes with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..fragment import Fragment
from . import Notation
from .arithmetic import evaluate, quotients
from .digits import Array, Digit, Sum
from .table import rows_of, table

_PLACE = ("lane", "value")
_CELL = ("computation", "row", "col")
_MAP = re.compile(r"^#\w+ = affine_map<\((.*)\) -> \((.*)\)>$", re.MULTILINE)
_TILE = re.compile(r"(outer_tile|thread_tile|element_tile|thread_strides) = \[(.*?)\]")
_NONE = Digit(1, 1, 0)


@dataclass(frozen=True)
class _Tiles:
    """One dimension: ``(outer * thread.size + thread) * element.size + element``. A step is a place in the value."""

    outer: Digit
    thread: Digit
    element: Digit


def compose(fragment: Fragment, name: str) -> str:
    """The map, and the nested layout with its map, or a line that says why there is none."""
    sums = table(fragment).sums()
    whole = _map(name, _PLACE, [quotients(each, _PLACE) for each in sums.values()])
    tiles = {axis: _tiles(each) for axis, each in sums.items()}
    cut = [each for each in tiles.values() if each]
    if len(cut) == len(tiles):
        return whole + _nested(name, cut)
    odd = next(axis for axis, each in tiles.items() if each is None)
    return f"{whole}// no nested layout: {odd} is more than one outer, one thread and one element tile\n"


def read(text: str, fragment: Fragment) -> Array:
    """The rows that the map says, as far as the nested layout, if there is one, says the same."""
    (_, results), *nested = _MAP.findall(text)
    lane, value = np.indices((fragment.threads, fragment.registers * fragment.slots))
    cells = [np.broadcast_to(_value(each, {"lane": lane, "value": value}), lane.shape) for each in results.split(", ")]
    rows = rows_of(fragment, dict(zip(_CELL[-len(cells) :], cells, strict=True)))
    if not nested:
        return rows
    agree = np.zeros(lane.shape, bool)
    for place, again in _tiled(text, np.arange(fragment.threads), *nested[0]):
        agree[:, place] = np.all([each[:, place] == other for each, other in zip(cells, again, strict=True)], axis=0)
    return rows[agree.ravel()]


def _tiles(total: Sum) -> _Tiles | None:
    """The tiles of one dimension."""
    threads, values = ([digit for digit in axis if digit.weight] for axis in total.axes)
    thread, *more = threads or [_NONE]
    element = next((digit for digit in values if digit.weight == 1), _NONE)
    outer, *others = [digit for digit in values if digit is not element] or [_NONE]
    nested = thread.weight in (0, element.size) and outer.weight in (0, element.size * thread.size)
    return _Tiles(outer, thread, element) if nested and not (more or others or total.constant) else None


def _nested(name: str, cut: Sequence[_Tiles]) -> str:
    ones, zeros = [1] * len(cut), [0] * len(cut)
    parts = {
        "subgroup_tile": ones,
        "batch_tile": ones,
        "outer_tile": [each.outer.size for each in cut],
        "thread_tile": [each.thread.size for each in cut],
        "element_tile": [each.element.size for each in cut],
        "subgroup_strides": zeros,
        "thread_strides": [each.thread.step if each.thread.weight else 0 for each in cut],
    }
    body = ", ".join(f"{part} = {numbers}" for part, numbers in parts.items())
    layout = f"#{name}_nested = #iree_vector_ext.nested_layout<{body}>\n"
    names = _tile_names(len(cut))
    digits = [each.outer for each in cut] + [each.element for each in cut]
    steps = Sum(0, tuple((Digit(1, digit.size, digit.step if digit.weight else 0),) for digit in digits))
    return layout + _map(f"{name}_nested_value", names, [quotients(steps, names)])


def _tiled(text: str, lane: Array, names: str, value: str) -> list[tuple[int, list[Array]]]:
    """For each element that the nested layout has, its place in value, and its cell in each lane."""
    tiles = {part: [int(number) for number in numbers.split(", ")] for part, numbers in _TILE.findall(text)}
    found = []
    for indices in np.ndindex(*tiles["outer_tile"], *tiles["element_tile"]):
        place = int(_value(value, dict(zip(names.split(", "), map(np.asarray, indices), strict=True))))
        half = len(indices) // 2
        cells = [
            (outer * thread + lane // max(stride, 1) % thread) * size + element
            for outer, element, thread, stride, size in zip(
                indices[:half],
                indices[half:],
                tiles["thread_tile"],
                tiles["thread_strides"],
                tiles["element_tile"],
                strict=True,
            )
        ]
        found.append((place, cells))
    return found


def _tile_names(dimensions: int) -> tuple[str, ...]:
    return tuple(f"{part}{axis}" for part in ("outer", "element") for axis in range(dimensions))


def _map(name: str, names: Sequence[str], results: Sequence[str]) -> str:
    words = ", ".join(results).replace("//", "floordiv").replace("%", "mod")
    return f"#{name} = affine_map<({', '.join(names)}) -> ({words})>\n"


def _value(text: str, values: dict[str, Array]) -> Array:
    return np.asarray(evaluate(text.replace("floordiv", "//").replace("mod", "%"), values))


NOTATION = Notation(compose, read, before="// lane and value, which is the element i, to row and col.\n\n")
