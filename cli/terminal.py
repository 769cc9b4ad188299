"""A fragment on the terminal: what is said of it, then its grids, coloured by lane where the terminal can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ..db.fragment import Fragment
from ..db.picture.compose import heading
from ..db.picture.grid import Cell, Grid, by_element, by_lane
from ..db.picture.palette import ink, shade
from .options import By


def describe(fragment: Fragment) -> Iterator[str]:
    """What the source says of the fragment, as lines."""
    yield heading(fragment)
    registers, slots = fragment.registers, fragment.slots
    yield (
        f"per lane: {registers} register{'s' * (registers > 1)} of {fragment.register_bits} bits, "
        f"{slots} slot{'s' * (slots > 1)} of {fragment.slot_bits} bits in each"
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
        yield from ("", *(f"    {line}" for line in fragment.formula.splitlines()))


def show(fragments: Sequence[Fragment], by: By) -> None:
    """Print each fragment, one after the other."""
    console = Console(highlight=False, markup=False, emoji=False)
    for index, fragment in enumerate(fragments):
        if index:
            console.print()
        for line in describe(fragment):
            console.print(line, soft_wrap=True)
        if not fragment.has_rows:
            console.print("\nno rows: the document only draws this one")
            continue
        print_grids(by_element(fragment) if by is By.ELEMENT else by_lane(fragment), console)


def print_grids(grids: Sequence[Grid], console: Console) -> None:
    """Print the grids, in as many blocks of columns as the width of the terminal needs."""
    for grid in grids:
        for block in _blocks(grid, console.width):
            console.print()
            if block.title:
                console.print(Text(block.title, style="bold"))
            for line in _lines(block):
                console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _blocks(grid: Grid, width: int) -> Iterator[Grid]:
    margin = max(len(grid.corner), *(len(name) for name, _ in grid.rows))
    widths = _widths(grid)
    start = 0
    while start < len(widths):
        stop, used = start + 1, margin + 2 + widths[start]
        while stop < len(widths) and used + 1 + widths[stop] <= width:
            used += 1 + widths[stop]
            stop += 1
        rows = [(name, cells[start:stop]) for name, cells in grid.rows]
        yield Grid(grid.title, grid.corner, grid.columns[start:stop], rows)
        start = stop


def _widths(grid: Grid) -> list[int]:
    return [
        max(len(name), *(len(cells[index].label) for _, cells in grid.rows)) for index, name in enumerate(grid.columns)
    ]


def _lines(grid: Grid) -> Iterator[Text]:
    margin = max(len(grid.corner), *(len(name) for name, _ in grid.rows))
    widths = _widths(grid)
    header = " ".join(name.rjust(width) for name, width in zip(grid.columns, widths, strict=True))
    yield Text(f"{grid.corner:>{margin}}  {header}", style="bold")
    for name, cells in grid.rows:
        line = Text(f"{name:>{margin}}  ")
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            line.append(" " * (index > 0))
            line.append(cell.label.rjust(width), style=_style(cell))
        yield line


def _style(cell: Cell) -> str:
    if cell.lane is None:
        return ""
    fill = shade(cell.lane)
    return f"#{ink(fill)} on #{fill}"
