"""Pages from templates, and layouts in them as tables.

Whatever comes from outside is escaped where it is put into a page. Each distinct layout is drawn once.
"""

import shlex
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from ... import DEFAULT_SOURCE, ROLES, Fragment, Key, Known, Recipe, Run, Survey, Through, __version__, span_words
from ...db.render import blocks, facts
from ...db.render.picture import formats
from ...db.render.picture import grid as drawing
from ...db.text import grouped
from .links import Links

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"


@cache
def environment() -> Environment:
    """The templates, as they were when this was first called, with everything escaped."""
    env = Environment(
        loader=DictLoader({path.name: path.read_text("utf-8") for path in (_FOLDER / "templates").iterdir()}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(states=Known, version=__version__, formats=[*formats.FORMATS], selection=selection)
    env.filters.update(facts=facts.facts, size=facts.size, true_of=facts.true_of, unit=facts.unit)
    env.filters.update(described=describe, held=held_by_lane, places=places)
    return env


@cache
def _asset(name: str) -> str:
    """The address of a style sheet, script or icon, with its digest, so that a browser may keep it for ever."""
    generated = name == "layouts.css"
    digest = sha256(layouts_css().encode() if generated else (STATIC / name).read_bytes()).hexdigest()
    return f"/{name if generated else f'static/{name}'}?v={digest[:16]}"


def server_links(survey: Survey) -> Links:
    """Addresses on the server."""
    return Links(survey, attrgetter("address"), _asset)


def render(name: str, links: Links, facts: dict[str, Any]) -> str:
    """A page.

    Args:
        name: of the template.
        links: where other pages are.
        facts: what it says, with a ``title``.
    """
    return environment().get_template(f"{name}.html").render(here=name, links=links, survey=links.survey, **facts)


def layouts_css() -> str:
    """The style sheet that is made: the colours of lanes, sizes of pictures, what is chosen, that of reports."""
    sizes = [f".{letter}{size}{{--{letter}:{size}}}" for letter in "cr" for size in _SIZES]
    hidden = "section:has(#{0}:checked) .{1}:not(.{2}){{display:none}}"
    chosen = [hidden.format(f"{role}-{at}", f"at-{role}", f"v{at}") for role in CHOSEN for at in range(_CHOICES)]
    one = [hidden.format(f"at-{role}", "operand", f"at-{role}") for role in ROLES]
    phone = ["@media screen and (max-width:640px){", *one, "}"]
    return formats.stylesheet() + "".join([*sizes, *chosen, *phone]) + blocks.STYLE


def selection(key: Key, source: str | None) -> str:
    """The options of ``lanemap export`` that choose a fragment."""
    options = key._asdict() | {"source": None if source == DEFAULT_SOURCE else source}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in options.items() if value is not None)


def describe(fragment: Fragment) -> str:
    """What a preview of a link says of an operand."""
    rows, cols = fragment.dimensions
    lanes = "" if fragment.tile else f"which of {fragment.threads} lanes holds which element in "
    held = f"{lanes}which of {fragment.registers} {facts.unit(fragment)}s" + " holds which element" * (not lanes)
    return f"{fragment}, {rows} x {cols}: {held}, by {fragment.source}."


#: More cells than these make a page too heavy; then the picture is a file of its own.
_MOST = 6000


#: What a drawing depends on, whatever the fragment is called.
_LAYOUT = attrgetter(
    *("digest", "role", "windowed", "registers", "register_bits", "slots", "threads", "dimensions", "computations"),
    "tiling",
)


def alike(fragment: Fragment, *also: object) -> Hashable:
    """What fragments of the same layout have in common, so that what was made of one is found for all.

    ``also`` is what else it depends on.
    """
    return *_LAYOUT(fragment), fragment.key.axes, facts.part_of_slot(fragment), also


def _table(
    fragment: Fragment,
    grid: drawing.Grid,
    lane: int | None,
    caption: str = "",
    characters: int = 0,
    *,
    by: str | None = None,
    axes: str | None = None,
) -> str:
    """A table, with what a script must know of it: whose it is, and what its rows and columns count."""
    data: dict[str, Any] = {"role": fragment.role, "axes": axes or fragment.key.axes, "part": grid.title or None}
    data |= {"by": by, "size": fragment.dimensions, "unit": facts.unit(fragment)}
    parts = f"{fragment.role}, {facts.size(fragment)}", grid.title, fragment.qualifiers, facts.selector(fragment)
    caption = caption or ", ".join(filter(None, parts))
    return _paper(grid, data, caption, characters, lane)


def _paper(grid: drawing.Grid, data: dict[str, Any], caption: str, characters: int = 0, lane: int | None = None) -> str:
    """A table that the style sheet fits into a printed page."""
    characters = characters or formats.width(grid)
    table = formats.table(grid, data, caption, characters=characters, lanes=() if lane is None else (lane,))
    return f'<div class="paper {_sized("c", _wide(grid, characters))}">{table}</div>'


def _wide(grid: drawing.Grid, characters: int) -> float:
    """How many ems a table is wide, of which a character takes 0.6; beside the columns stand the names of rows."""
    return 0.7 * max(7, len(grid.corner)) + (0.1 + 0.62 * (1 + characters)) * len(grid.columns)


def _cells(*grids: drawing.Grid) -> int:
    return sum(len(line) for grid in grids for _, line in grid.rows)


def matrix(fragment: Fragment, lane: int | None = None, axes: str | None = None) -> list[str]:
    """The matrix of each computation of a fragment; nothing where it is too large to be shown in a page.

    ``axes``: what its rows and columns count in the picture that it is a part of, if not what they do by themselves.
    """
    for whole in [True, False] if fragment.tiling else [False]:  # a large tile as what repeats
        grids = [grid for (grid,) in drawing.by_element([fragment], drawing.View(whole=whole))]
        if _cells(*grids) <= _MOST:
            return [_table(fragment, grid, lane, axes=axes) for grid in grids]
    return []


def register_file(fragment: Fragment, lane: int | None = None) -> str:
    """What each lane holds, a row for each; or each bank of shared memory, a row for each 128 bytes."""
    by = "bank" if fragment.tile else "lane"
    if fragment.tile:
        grid = drawing.by_bank(fragment.tuples())
        caption = f"{fragment.role} in shared memory: row,col in the word of each bank, 128 bytes a line"
    else:
        grid = drawing.by_lane(fragment, drawing.View())
        caption = f"{fragment.role} by lane: row,col in each {facts.unit(fragment)}.slot"
    return _table(fragment, grid, lane, caption, by=by) if _cells(grid) <= _MOST else ""


def between(found: Through) -> list[str]:
    """The tile between two operands by bank, as it is written, and as it is read where that differs."""
    tables, turn = [], slice(None, None, -1 if found.turned else 1)
    for at, name in enumerate(("written", "read") if found.moves_values else ("tile",)):
        held = sorted(found.words((found.written, found.read)[at]))
        caption = f"{name}: row,col of {found.first.role} in the word of each bank, 128 bytes a line"
        data = {"role": name, "axes": "MN", "by": "bank", "size": found.written.shape[turn]}
        tables.append(_paper(drawing.by_bank(held, whole=True), data, caption))
    return tables


def tile(made: Recipe) -> str:
    """The tile in memory of a recipe: which lane passes the address of which 16 bytes.

    Its rows are the lines of the tile. Columns count elements, as those of the operand do.
    """
    operand, (lines, width) = made.operand, made.tile
    turn = slice(None, None, 1 if made.major == "row" else -1)
    length = operand.dimensions[made.major == "row"] // (1 + operand.windowed)
    step = max(1, length * _ROW // width)
    # Lanes that a move ignores repeat the addresses of others.
    first = {(address.line, address.byte): address for address in reversed(made.addresses)}
    several = len(made.moves) > 1

    def cell(line: int, byte: int) -> drawing.Cell:
        if (at := first.get((line, byte))) is None:
            return drawing.Cell("-", [])
        words = f"lane {at.lane}" + f", move {at.step}" * several
        held = (at.lane, at.reg, 0, at.line, at.byte, at.byte)
        return drawing.Cell(words, [Run.of(held, held)])

    places = range(0, width, _ROW)
    rows = [(str(line), [cell(line, byte) for byte in places]) for line in range(lines)]
    columns = [span_words((at * step, at * step + step - 1)) for at in range(len(places))]
    grid = drawing.Grid("", "\\".join(facts.axes(operand)[turn]), columns, rows)
    size = lines, len(places) * step
    data = {"role": f"{made.major}-major tile", "axes": "MN"[turn], "by": "address", "size": size}
    caption = f"{made.major}-major tile, {lines} x {width} bytes: whose address each 16 are at"
    return _paper(grid, data, caption)


#: Bytes of memory at one address.
_ROW = 16


def held_by_lane(fragment: Fragment, lane: int) -> list[tuple[str, str]]:
    """What one lane holds: register and slots, and the rows and columns in them."""
    of_lane = replace(fragment, elements=fragment.table[fragment.table["lane"] == lane])
    grid = drawing.by_lane(of_lane, drawing.View(whole=True))
    return [(column, cell.label) for _, cells in grid.rows for column, cell in zip(grid.columns, cells, strict=True)]


def places(fragment: Fragment, row: int, col: int) -> str:
    """Where an element is held, or may be."""
    lane = "" if fragment.tile else "lane {}, "
    found = fragment.table[["lane", "reg", "slot", "row", "col", "col_last"]].tolist()
    held = [place for *place, at, first, last in found if at == row and first <= col <= last]
    return "; ".join(f"{lane.format(number)}{facts.unit(fragment)} {reg}, slot {slot}" for number, reg, slot in held)


def product(drawn: Sequence[Fragment], lane: int | None = None) -> list[dict[str, Any]]:
    """The matrices of an instruction's operands, for each computation.

    Rows and columns that operands share are drawn alike, so that they meet when A is put to the left of D and B above,
    and scales before them. ``tables`` have their roles, and which of its role each is. The style sheet fits ``wide``
    and ``high``, the classes of all that meet, and ``beside``, those of the others, into the page, all of which
    ``broad`` ones need.
    """
    pictures = []
    for grids in drawing.by_element(drawn, drawing.View()):
        by_role = grouped(zip(drawn, grids, strict=True), lambda pair: pair[0].role)
        tables, wide, high = [], defaultdict[str, float](float), defaultdict[str, int](int)
        for role, pairs in by_role.items():
            alike = _BELOW if role in _BELOW else (role,)
            cells = formats.width(*(grid for like in alike for _, grid in by_role.get(like, ())))
            for at, (fragment, grid) in enumerate(pairs):
                caption = role if role.startswith("SF") else ""  # a column of scales is narrow
                tables.append((role, at, _table(fragment, grid, lane, caption, cells)))
                wide[role] = max(wide[role], _wide(grid, cells))
                high[role] = max(high[role], 4 + 2 * len(grid.rows))
        across = wide["SFA"] + wide["A"] + max(wide["B"], wide["D"], wide["SFB"]) + wide["C"]
        pictures.append(
            {
                "tables": tables,
                "wide": _sized("c", across),
                "high": _sized("r", high["SFB"] + high["B"] + max(high["A"], high["C"], high["D"])),
                "broad": max(across, *wide.values()) > _BROAD,
                "beside": {role: _sized("c", wide[role]) for role in by_role if role in ("E", "r")},
            }
        )
    return pictures


#: The roles of which every fragment is drawn, of which people choose one, and how many there are at most.
CHOSEN = ("E", "SFA", "SFB")
_CHOICES = 32

#: The roles whose columns stand below each other.
_BELOW = ("B", "D", "SFB")

#: How many ems wide a picture is beside which nothing stands.
_BROAD = 125

#: What a picture may measure, in ems, and the steps.
_SIZES = range(5, 1001, 5)


def _sized(letter: str, ems: float) -> str:
    """The class of what measures so many ems, or a little less."""
    return f"{letter}{min(_SIZES[-1], -int(-ems // 5) * 5)}"
