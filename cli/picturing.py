"""What ``draw`` draws: an operand, an operand in two sources, or the operands of an instruction as in a product."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from .. import __version__
from ..db import lookup
from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Fragment
from ..db.lookup import Query
from ..db.reader import Reader
from .drawing import describe
from .grid import Grid, by_element, in_product, side_by_side
from .options import PictureFormat
from .output import binary_stdout
from .picture.layout import Block, beside, panels, picture, product, titled
from .picture.pdf import write_pdf
from .picture.png import write_png
from .picture.svg import write_svg

_WRITERS: Mapping[PictureFormat, Callable[[Block, str, IO[bytes]], None]] = {
    PictureFormat.SVG: write_svg,
    PictureFormat.PNG: write_png,
    PictureFormat.PDF: write_pdf,
}
_CELLS = "5:0.1 in a cell is lane 5, register 0, slot 1; cells of one lane have one colour."
_JOINED = "5:0.0-1 is slots 0 and 1, which hold the rows or columns of the cell in turn."
_WINDOW = "5:0.0|1 in [ ] is slots 0 and 1, of which each can stand for any of the columns from [ to ]."
_EMPTY = "- is a cell that no lane holds."


@dataclass(frozen=True)
class Drawing:
    """A picture and the line that names it."""

    title: str
    picture: Block


def operand(reader: Reader, query: Query) -> Drawing:
    """An operand, with a panel for each major, selector and computation that there is."""
    found = lookup.with_rows(reader, lookup.one_operand(reader, query))
    blocks = []
    grids: list[Grid] = []
    for fragment in found:
        drawn = by_element(fragment)
        grids += drawn
        blocks += panels(drawn, [_joined(_part(fragment, found), grid.title) for grid in drawn])
    title = next(describe(found[0])) if len(found) == 1 else _name(found[0])
    return _drawing(reader, title, found[:1], [], grids, blocks)


def difference(reader: Reader, query: Query, sources: tuple[str, str]) -> Drawing:
    """An operand in two sources beside each other. Only cells that differ keep their colour, in a frame."""
    sides = [lookup.with_rows(reader, lookup.one_operand(reader, replace(query, source=name))) for name in sources]
    keys = [{(each.instruction, each.major, each.selector): each for each in side} for side in sides]
    shared = [key for key in keys[0] if key in keys[1]]
    if not shared:
        raise LanemapError(f"{sources[0]} and {sources[1]} have no {_name(sides[0][0])} in common: see lanemap list")
    blocks = []
    grids: list[Grid] = []
    counts = [0, 0]
    for key in shared:
        pair = [side[key] for side in keys]
        counts = [total + more for total, more in zip(counts, _count(*pair), strict=True)]
        for one, other in side_by_side(*pair):
            grids += [one, other]
            part = _joined(_part(keys[0][key], [keys[0][each] for each in shared]), one.title)
            blocks.append(beside(panels([_faded(one), _faded(other)], sources), part))
    told = f"{counts[0]} of {counts[1]} elements differ; their cells are framed." if counts[0] else "Nothing differs."
    title = f"{_name(sides[0][0])}: {sources[0]} and {sources[1]}"
    return _drawing(reader, title, [side[0] for side in sides], [told], grids, blocks)


def instruction(reader: Reader, query: Query, accumulator: str | None) -> Drawing:
    """A, B, and C and D of an instruction around each other as in a product."""
    a = _only(reader, replace(query, role="A", major=query.major or "row"))
    same = replace(query, instruction=a.instruction)
    majors = {each.major for each in lookup.fragments(reader, replace(same, role="B"))}
    b = _only(reader, replace(same, role="B", major=query.major if query.major in majors else "col"))
    result = replace(same, type=_accumulator(a, accumulator), major=None)
    c, d = (_only(reader, replace(result, role=role)) for role in "CD")
    last = "C and D" if c.digest == d.digest else "D"
    roles = zip(("A", "B", last), (a, b, d), strict=True)
    names = [f"{role} {each.type}, {' x '.join(map(str, each.dimensions))}" for role, each in roles]
    blocks = []
    grids: list[Grid] = []
    for three in in_product(a, b, d):
        grids += three
        blocks.append(titled(product(*three, names), three[0].title))
    title = f"{a.instruction} {a.shape}: A and B {a.type}, {last} {d.type}"
    return _drawing(reader, title, [a, b, d], [], grids, blocks)


def write(drawing: Drawing, form: PictureFormat | None, output: str) -> None:
    """Write a picture to a file, or to stdout for ``-``."""
    form = form or _form(output)
    try:
        if output == "-":
            stream = sys.stdout.buffer if form is PictureFormat.SVG else binary_stdout(form.value)
            _WRITERS[form](drawing.picture, drawing.title, stream)
            stream.flush()
            return
        with atomically(Path(output)) as stream:
            _WRITERS[form](drawing.picture, drawing.title, stream)
    except ImportError as error:
        raise LanemapError(f'{form.upper()} needs {error.name}: pip install "lanemap[draw]"') from None


def _form(output: str) -> PictureFormat:
    ending = "svg" if output == "-" else Path(output).suffix.lower().removeprefix(".")
    if ending not in list(PictureFormat):
        raise LanemapError(f"cannot tell the format of {output!r}: end it in .svg, .png or .pdf, or say --format")
    return PictureFormat(ending)


def _drawing(
    reader: Reader,
    title: str,
    fragments: Sequence[Fragment],
    told: Sequence[str],
    grids: Sequence[Grid],
    blocks: Sequence[Block],
) -> Drawing:
    cells = [cell for grid in grids for _, line in grid.rows for cell in line]
    heading = [title, *told, _CELLS]
    heading += [_WINDOW] if any(cell.opens or cell.closes for cell in cells) else []
    heading += [_EMPTY] if any(cell.label == "-" for cell in cells) else []
    heading += [_JOINED] if any("-" in cell.label.partition(".")[2] for cell in cells) else []
    return Drawing(title, picture(heading, blocks, list(_provenance(reader, fragments))))


def _provenance(reader: Reader, fragments: Sequence[Fragment]) -> Iterator[str]:
    """Where each source says it, and which sources they are."""
    titles = {record["name"]: record["title"] for record in lookup.sources(reader).records()}
    for source in dict.fromkeys(str(fragment.source) for fragment in fragments):
        mine = [fragment for fragment in fragments if fragment.source == source]
        sections = ", ".join(dict.fromkeys(f"section {each.section}" for each in mine if each.section))
        corrected = "corrected: see lanemap list errata" if any(each.erratum for each in mine) else ""
        yield ", ".join(filter(None, (f"Source: {source} ({titles[source]})", sections, corrected)))
    yield f"Drawn by lanemap {__version__}"


def _only(reader: Reader, query: Query) -> Fragment:
    return lookup.with_rows(reader, lookup.one_operand(reader, query))[0]


def _accumulator(a: Fragment, asked: str | None) -> str:
    """The type of C and D: what is asked for, if the instruction has it; else the most exact one."""
    from ..db.instructions import FORMS

    key = (a.instruction, a.shape, a.type)
    there = sorted({each.d for each in FORMS if (each.name, each.shape, each.a) == key})
    query = asked.strip().lower().removeprefix(".") if asked else max(there, default="")
    if query not in there:
        name = f"{a.instruction} {a.shape} {a.type}"
        raise LanemapError(f"no accumulator {asked or 'is known'} for {name}: there is {', '.join(there) or 'none'}")
    return query


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


def _count(left: Fragment, right: Fragment) -> tuple[int, int]:
    """How many elements differ, and how many there are."""
    sides = [{each[:3]: each[3:] for each in side.records()} for side in (left, right)]
    every = {*sides[0], *sides[1]}
    return sum(sides[0].get(each) != sides[1].get(each) for each in every), len(every)
