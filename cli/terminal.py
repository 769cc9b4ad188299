"""A fragment on the terminal: what is said of it, then its grids, coloured by lane where the terminal can."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ..db.fragment import Fragment
from ..db.picture.grid import Cell, Grid, by_element, by_lane, heading, sheets
from ..db.picture.palette import ink, shade
from ..db.picture.view import PLAIN, View
from .options import By
from .output import room


def describe(fragment: Fragment) -> Iterator[str]:
    """What the source says of the fragment, as lines."""
    yield heading(fragment)
    registers, slots = fragment.registers, fragment.slots
    yield (
        f"per lane: {registers} register{'s' * (registers > 1)} of {fragment.register_bits} bits, "
        f"{slots} slot{'s' * (slots > 1)} of {fragment.slot_bits} bit{'s' * (fragment.slot_bits > 1)} in each"
    )
    yield f"source:   {fragment.source}"
    if fragment.section:
        yield f"section:  {fragment.section} #{fragment.anchor}"
    for name, label in (("same_as", "same as:  section "), ("also", "also in:  section "), ("figures", "figure:   ")):
        if getattr(fragment, name):
            yield f"{label}{getattr(fragment, name)}"
    for name in ("mended", "erratum", "evidence"):
        if getattr(fragment, name):
            yield f"{name + ':':<10}{getattr(fragment, name)}"
    if fragment.formula:
        yield from ("", *narrowed([f"    {line}" for line in fragment.formula.splitlines()], room()))


def narrowed(formula: Sequence[str], width: int | None) -> list[str]:
    """The lines of a formula, no wider than a terminal: first without what puts its conditions below each other."""
    if width is None or max(map(len, formula)) <= width:
        return list(formula)
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    close = (re.sub(r"(?<=\S) {3,}", "  ", line) for line in formula)
    return [part for line in close for part in textwrap.wrap(line, width, subsequent_indent=" " * 8, **options) or [""]]


def show(fragments: Sequence[Fragment], by: By, view: View = PLAIN) -> None:
    """Print each fragment, one after the other."""
    console = Console(highlight=False, markup=False, emoji=False)
    for index, fragment in enumerate(fragments):
        if index:
            console.print()
        for line in describe(fragment):
            formula = line.startswith(" ")
            console.print(line if formula else _wrapped(line, console.width), soft_wrap=True)
        if not fragment.has_rows:
            console.print("\nno rows: the document only draws this one")
            continue
        print_grids(_grids(fragment, by, view), console)


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)


def _grids(fragment: Fragment, by: By, view: View) -> list[Grid]:
    if by is By.LANE:
        return [by_lane(fragment, view)]
    return [grid for together in sheets([fragment]) for grid in by_element(together, view)]


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
            label = cells[at].label
            line.append(" " * (widths[at] - len(label)))
            line.append(label, style=_style(cells[at]))
        yield line


def _style(cell: Cell) -> str:
    if cell.lane is None:
        return ""
    fill = shade(cell.lane)
    return f"#{ink(fill)} on #{fill}"
