"""What a picture shows: an operand, an operand in two sources, or the operands of an instruction as in a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..difference import difference as elements_of
from ..errors import LanemapError
from ..fragment import Fragment
from . import Picture
from .grid import Grid, by_element, in_product, side_by_side
from .layout import Block, beside, panels, picture, product, titled

_CELLS = "5:0.1 in a cell is lane 5, register 0, slot 1; cells of one lane have one colour."
_JOINED = "5:0.0-1 is slots 0 and 1, which hold the rows or columns of the cell in turn."
_WINDOW = "5:0.0|1 in [ ] is slots 0 and 1, of which each can stand for any of the columns from [ to ]."
_EMPTY = "- is a cell that no lane holds."


def operand(fragments: Sequence[Fragment], notes: Sequence[str] = ()) -> Picture:
    """An operand, with a panel for each of its fragments, which differ in major or selector, and each computation.

    ``notes`` are lines that stand below the picture, after where the layouts come from.
    """
    blocks = []
    grids: list[Grid] = []
    for fragment in fragments:
        drawn = by_element(fragment)
        grids += drawn
        blocks += panels(drawn, [_joined(_part(fragment, fragments), grid.title) for grid in drawn])
    title = heading(fragments[0]) if len(fragments) == 1 else _name(fragments[0])
    return _picture(title, fragments[:1], [], grids, blocks, notes)


def difference(left: Sequence[Fragment], right: Sequence[Fragment], notes: Sequence[str] = ()) -> Picture:
    """An operand in two sources beside each other. Only cells that differ keep their colour, in a frame.

    Raises:
        LanemapError: they have no fragment in common.
    """
    theirs = {each.key: each for each in right}
    pairs = [(each, theirs[each.key]) for each in left if each.key in theirs]
    names = str(left[0].source), str(right[0].source)
    if not pairs:
        raise LanemapError(f"{names[0]} and {names[1]} have no {_name(left[0])} in common: see lanemap list")
    blocks = []
    grids: list[Grid] = []
    found = [elements_of(*pair) for pair in pairs]
    count, total = sum(each.count for each in found), sum(each.total for each in found)
    for pair in pairs:
        for one, other in side_by_side(*pair):
            grids += [one, other]
            part = _joined(_part(pair[0], [each for each, _ in pairs]), one.title)
            blocks.append(beside(panels([_faded(one), _faded(other)], names), part))
    told = f"{count} of {total} elements differ; their cells are framed." if count else "Nothing differs."
    title = f"{_name(left[0])}: {names[0]} and {names[1]}"
    return _picture(title, pairs[0], [told], grids, blocks, notes)


def instruction(operands: Sequence[Fragment], notes: Sequence[str] = ()) -> Picture:
    """A, B, and C and D of an instruction around each other as in a product."""
    a, b, c, d = operands
    last = "C and D" if c.digest == d.digest else "D"
    roles = zip(("A", "B", last), (a, b, d), strict=True)
    names = [f"{role} {each.type}, {' x '.join(map(str, each.dimensions))}" for role, each in roles]
    blocks = []
    grids: list[Grid] = []
    for three in in_product(a, b, d):
        grids += three
        blocks.append(titled(product(*three, names), three[0].title))
    title = f"{a.instruction} {a.shape}: A and B {a.type}, {last} {d.type}"
    return _picture(title, [a, b, d], [], grids, blocks, notes)


def heading(fragment: Fragment) -> str:
    """The line that names a fragment, with its size."""
    rows, cols = fragment.dimensions
    major = f", {fragment.major} major" if fragment.major else ""
    selector = f", selector {fragment.selector}" if fragment.selector is not None else ""
    return f"{_name(fragment)}: {rows} x {cols}{major}{selector}"


def _picture(
    title: str,
    fragments: Sequence[Fragment],
    told: Sequence[str],
    grids: Sequence[Grid],
    blocks: Sequence[Block],
    notes: Sequence[str],
) -> Picture:
    cells = [cell for grid in grids for _, line in grid.rows for cell in line]
    above = [title, *told, _CELLS]
    above += [_WINDOW] if any(cell.opens or cell.closes for cell in cells) else []
    above += [_EMPTY] if any(cell.label == "-" for cell in cells) else []
    above += [_JOINED] if any("-" in cell.label.partition(".")[2] for cell in cells) else []
    return Picture(title, picture(above, blocks, [*_provenance(fragments), *notes]))


def _provenance(fragments: Sequence[Fragment]) -> Iterator[str]:
    """Where each source says it."""
    for source in dict.fromkeys(str(fragment.source) for fragment in fragments):
        mine = [fragment for fragment in fragments if fragment.source == source]
        sections = ", ".join(dict.fromkeys(f"section {each.section}" for each in mine if each.section))
        corrected = "corrected: see lanemap list errata" if any(each.erratum for each in mine) else ""
        yield ", ".join(filter(None, (f"Source: {source}", sections, corrected)))


def _name(fragment: Fragment) -> str:
    return str(fragment.key._replace(major=None, selector=None))


def _part(fragment: Fragment, found: Sequence[Fragment]) -> str:
    """What tells a fragment from the others of the operand."""
    major = f"{fragment.major} major" if len({each.major for each in found}) > 1 else ""
    selector = f"selector {fragment.selector}" if len({each.selector for each in found}) > 1 else ""
    return _joined(major, selector)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _faded(grid: Grid) -> Grid:
    rows = [(name, [cell if cell.differs else replace(cell, lane=None) for cell in line]) for name, line in grid.rows]
    return replace(grid, rows=rows)
