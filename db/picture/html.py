"""Grids as tables of HTML, for pages: text that a reader, a script and a screen reader take from the same cells.

The colours are classes, ``lane5`` for lane 5, so that a page needs one style sheet and no style of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from html import escape

from .grid import Cell, Grid
from .palette import WHITE, ink, shade

#: What pages stand on in dark mode.
DARK = "16181c"
_LANES = 32
_WIDEST = 40


def table(
    grid: Grid, facts: Mapping[str, object], caption: str, *, characters: int = 0, lanes: Collection[int] = ()
) -> str:
    """A grid as a table.

    Args:
        grid: what to write.
        facts: attributes ``data-...`` of the table, for scripts.
        caption: its name.
        characters: how many every column has room for. Default: those of its widest label.
        lanes: only these lanes keep their colour. Default: all.
    """
    attributes = "".join(f' data-{name}="{escape(str(value))}"' for name, value in facts.items() if value is not None)
    picked = " picked" if lanes else ""
    lines = [
        f'<table class="grid w{characters or width(grid)}{picked}"{attributes}>',
        f"<caption>{escape(caption)}</caption>",
    ]
    columns = "".join(f'<th scope="col">{escape(column)}' for column in grid.columns)
    lines += [f"<thead><tr><td>{escape(grid.corner)}{columns}</thead>", "<tbody>"]
    for name, cells in grid.rows:
        row = "".join(f"<td{_class(cell, lanes)}>{escape(cell.label)}" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}{row}')
    lines += ["</tbody>", "</table>"]
    lines += [f'<p class="note">{escape(note)}</p>' for note in grid.notes]
    return "\n".join(lines)


def width(*grids: Grid) -> int:
    """The characters of the widest label, for columns that are all as wide."""
    return min(max(len(cell.label) for grid in grids for cell in grid.cells), _WIDEST)


def _class(cell: Cell, lanes: Collection[int]) -> str:
    held = {run.lane for run in cell.held}
    marks = {"opens": cell.opens, "closes": cell.closes, "differs": cell.differs, "on": not held.isdisjoint(lanes)}
    names = [f"lane{held.pop() % _LANES}"] if len(held) == 1 else []
    names += [name for name, applies in marks.items() if applies]
    return f' class="{" ".join(names)}"' if len(names) > 1 else f" class={names[0]}" if names else ""


def stylesheet() -> str:
    """The colours of lanes, in light and in dark mode, and the widths of columns."""
    lines = [f".w{each} td,.w{each} th[scope=col]{{min-width:{each + 1}ch}}" for each in range(1, _WIDEST + 1)]
    lines += _colours(WHITE)
    lines += ["@media(prefers-color-scheme:dark){", *_colours(DARK), "}"]
    return "\n".join(lines) + "\n"


def _colours(ground: str) -> Iterator[str]:
    for lane in range(_LANES):
        fill = shade(lane, ground)
        yield f".lane{lane}{{--fill:#{fill};--ink:#{ink(fill)}}}"
