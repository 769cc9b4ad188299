"""A fragment on the terminal: its facts, then its grids, coloured by lane where the terminal has colours."""

import re
from collections.abc import Iterator, Sequence
from typing import IO

from rich.console import Console
from rich.text import Text

from ..layout.fragment import IMPOSSIBLE, Fragment
from ..rows import wrapped
from .facts import facts
from .formulas import in_cases, to_slot
from .picture.formats import ink, shade
from .picture.grid import Grid, View, by_element, by_lane


def narrowed(formula: Sequence[str], width: int | None) -> list[str]:
    """The lines of a formula within a width: if need be without the spaces that align its conditions, then broken."""
    if width is None or max(map(len, formula)) <= width:
        return list(formula)
    close = (re.sub(r"(?<=\S) {3,}", "  ", line) for line in formula)
    return [part for line in close for part in wrapped(line, width, " " * 8) or [""]]


def show(
    fragments: Sequence[Fragment],
    by: str,
    width: int | None = None,
    *,
    whole: bool = False,
    file: IO[str] | None = None,
) -> None:
    """Print each fragment, one after the other, ``by`` element or by lane; or write them to a file."""
    console = Console(highlight=False, markup=False, emoji=False, file=file, width=width if file else None)
    for index, fragment in enumerate(fragments):
        if index:
            console.print()
        texts = facts(fragment)
        formula = texts.pop("formula", "")
        for label, text in texts.items():
            line = text if label == "operand" else f"{label + ':':<10}{text}"
            console.print(_wrapped(line, console.width), soft_wrap=True)
        for lines in (formula.splitlines() or in_cases(fragment), to_slot(fragment)):
            if lines:
                console.print("\n".join(["", *narrowed([f"    {line}" for line in lines], width)]), soft_wrap=True)
        if not fragment.has_rows:
            why = {
                "unstated": "the document neither states nor draws it",
                IMPOSSIBLE: "the document puts two elements in one place",
            }.get(fragment.status, "the document has a figure of it and no formula")
            console.print(f"\nno rows: {fragment.status}: {why}")
            continue
        view = View(whole=whole)
        grids = [by_lane(fragment, view)] if by == "lane" else [grid for (grid,) in by_element([fragment], view)]
        print_grids(grids, console)


def _wrapped(line: str, width: int) -> str:
    return "\n".join(wrapped(line, width, " " * 10))


def print_grids(grids: Sequence[Grid], console: Console) -> None:
    """Print the grids, in as many strips of columns as the width of the terminal needs, and their notes."""
    for grid in grids:
        margin = max(len(grid.corner), *(len(name) for name, _ in grid.rows))
        widths = [
            1 + max(len(name), *(len(cells[at].label) for _, cells in grid.rows))
            for at, name in enumerate(grid.columns)
        ]
        for number, strip in enumerate(grid.cut(widths, console.width - margin - 1)):
            console.print()
            if grid.title and not number:
                console.print(Text(grid.title, style="bold"))
            for line in _lines(grid, strip, margin, widths):
                console.print(line, no_wrap=True, overflow="ignore", crop=False)
        if grid.notes:
            console.print()
        for words in grid.notes:
            console.print(_wrapped(words, console.width), soft_wrap=True)


def _lines(grid: Grid, strip: range, margin: int, widths: Sequence[int]) -> Iterator[Text]:
    header = "".join(grid.columns[at].rjust(widths[at]) for at in strip)
    yield Text(f"{grid.corner:>{margin}} {header}", style="bold")
    for name, cells in grid.rows:
        line = Text(f"{name:>{margin}} ")
        for at in strip:
            label, lane = cells[at].label, cells[at].lane
            fill = "" if lane is None else shade(lane)
            line.append(" " * (widths[at] - len(label)))
            line.append(label, style=f"#{ink(fill)} on #{fill}" if fill else "")
        yield line
