"""Operands and instructions as tables of HTML, each distinct layout drawn once."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from ...db.fragment import Fragment
from ...db.instructions import instruction
from ...db.picture.grid import Grid, by_element, by_lane, selector, sheets, size
from ...db.picture.html import table, width
from ...db.picture.view import View

#: More cells than these make a page too heavy; then the picture is a file of its own.
_MOST = 6000
_KEPT = 512


#: What a drawing depends on, whatever the fragment is called.
_LAYOUT = attrgetter(
    *("digest", "role", "windowed", "registers", "register_bits", "slots", "threads", "dimensions", "computations")
)


class Alike:
    """A fragment that equals others of the same layout, so that what was made of one is found for all.

    ``also`` is what else it depends on.
    """

    def __init__(self, fragment: Fragment, *also: str | None) -> None:
        self.fragment = fragment
        self.facts = _LAYOUT(fragment), instruction(fragment.instruction).axes[fragment.role], also

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike) and self.facts == other.facts

    def __hash__(self) -> int:
        return hash(self.facts)


@lru_cache(_KEPT)
def matrix(drawn: Alike, lane: int | None = None) -> list[str]:
    """The matrix of each computation of a fragment; nothing where it is too large to be shown in a page."""
    made = []
    for (sheet,) in sheets([drawn.fragment]):
        (grid,) = by_element([sheet], View())
        made.append((grid, _caption(drawn.fragment, grid)))
    if sum(len(line) for grid, _ in made for _, line in grid.rows) > _MOST:
        return []
    return [table(grid, _facts(drawn.fragment, grid), said, lanes=_lanes(lane)) for grid, said in made]


@lru_cache(_KEPT)
def register_file(drawn: Alike, lane: int | None = None) -> str:
    """What each lane holds, a row for each."""
    grid = by_lane(drawn.fragment, View())
    if sum(len(line) for _, line in grid.rows) > _MOST:
        return ""
    facts = _facts(drawn.fragment, grid) | {"by": "lane"}
    return table(grid, facts, f"{drawn.fragment.role} by lane: row,col in each register.slot", lanes=_lanes(lane))


def held(fragment: Fragment, lane: int) -> list[tuple[str, str]]:
    """What one lane holds: register and slots, and the rows and columns in them."""
    assert fragment.elements is not None
    mine = replace(fragment, elements=fragment.elements[fragment.elements["lane"] == lane])
    grid = by_lane(mine, View(whole=True))
    return [(column, cell.label) for _, cells in grid.rows for column, cell in zip(grid.columns, cells, strict=True)]


@lru_cache(_KEPT)
def product(drawn: tuple[Alike, ...], lane: int | None = None) -> list[dict[str, str]]:
    """The matrices of an instruction's operands by role, for each computation.

    Rows and columns that operands share are drawn alike, so that they meet when A is put to the left of D and B above.
    """
    fragments = [_first(each) for each in drawn]
    pictures = []
    for together in sheets(fragments):
        grids = dict(zip(fragments, by_element(together, View()), strict=True))
        below = [grid for each, grid in grids.items() if each.role in "BD"]
        characters = width(*below) if below else 0
        pictures.append(
            {
                each.role: table(
                    grid,
                    _facts(each, grid),
                    _caption(each, grid),
                    characters=characters if each.role in "BD" else 0,
                    lanes=_lanes(lane),
                )
                for each, grid in grids.items()
            }
        )
    return pictures


@lru_cache(_KEPT)
def _first(alike: Alike) -> Fragment:
    """The first fragment of its layout that was drawn, so that what is worked out of one is kept for all."""
    return alike.fragment


def _lanes(lane: int | None) -> tuple[int, ...]:
    return () if lane is None else (lane,)


def _caption(fragment: Fragment, grid: Grid) -> str:
    parts = f"{fragment.role}, {size(fragment)}", grid.title, selector(fragment)
    return ", ".join(filter(None, parts))


def _facts(fragment: Fragment, grid: Grid) -> dict[str, Any]:
    """What a script must know of a table: whose it is, and what its rows and columns count."""
    axes = instruction(fragment.instruction).axes[fragment.role]
    return {"role": fragment.role, "axes": axes, "part": grid.title or None}
