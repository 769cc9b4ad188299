"""What a picture shows: an operand, an operand in two sources, or the operands of an instruction as in a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from .. import instructions, lookup
from ..errors import LanemapError
from ..fragment import Fragment
from ..instructions import name_of
from ..names import Query
from ..reader import Reader
from . import Picture
from .grid import Grid, by_element, heading, name, selector, sheets, size
from .layout import Block, beside, panels, picture, product, titled
from .view import PLAIN, View

#: What a label says, by whether labels are as PTX writes elements.
_CELLS = {
    False: "5:0.1 in a cell is lane 5, register 0, slot 1; cells of one lane have one colour.",
    True: "T5:{a1} in a cell is element a1 of lane 5; cells of one lane have one colour.",
}
_JOINED = {
    False: "5:0.0-1 is slots 0 and 1, which hold the rows or columns of the cell in turn.",
    True: "T5:{a0,a1} is elements a0 and a1, which hold the rows or columns of the cell in turn.",
}
_WINDOW = {
    False: "5:0.0|1 in [ ] is slots 0 and 1, of which each can stand for any of the columns from [ to ].",
    True: "T5:{a0|a1} in [ ] is elements a0 and a1, of which each can stand for any of the columns from [ to ].",
}
_EMPTY = "- is a cell that no lane holds."


def draw(
    reader: Reader,
    query: Query,
    view: View,
    note: str,
    accumulator: str | None = None,
    diff: Sequence[str] | None = None,
) -> Picture:
    """What a query names: an operand, or without a role a whole instruction.

    Args:
        reader: where to look.
        query: which operand or instruction.
        view: how to draw it.
        note: a line below the picture, after those that say where the layouts come from.
        accumulator: the type of C and D of an instruction. Default: the most exact.
        diff: two sources of an operand to compare.

    Raises:
        LanemapError: there is no such operand, two sources are not named, or the view picks what is not there.
    """
    with reader.snapshot():
        role = query.parameters()["role"]
        if accumulator is not None and role is not None:
            raise LanemapError("an accumulator is for a whole instruction: name no role", "accumulator")
        if diff is not None:
            if role is None or len(diff) != 2:
                raise LanemapError("name the operand to compare, by a shape, a type and a role, and two sources")
            left, right = (_panels(reader, replace(query, source=name)) for name in diff)
            return difference(left, right, view, [*_titles(reader, [left[0], right[0]]), note])
        if role is not None:
            found = _panels(reader, query)
            return operand(found, view, [*lookup.remarks(query, found), *_titles(reader, found), note])
        found = _operands(reader, query, accumulator)
        return instruction(found, view, [*_titles(reader, found), note])


def _panels(reader: Reader, query: Query) -> list[Fragment]:
    """The fragments of one operand. They are of one source and shape, and may differ in what else tells them apart."""
    found = lookup.operand_with_rows(reader, query)
    lookup.expect_one(query, found, "source", "shape")
    return found


def _operands(reader: Reader, query: Query, accumulator: str | None) -> list[Fragment]:
    """One fragment of each operand of the one instruction that a query names."""
    found = lookup.fragments(reader, replace(query, source=None))
    product = instructions.instruction(lookup.densest(found)[0].instruction)
    if product.multiplies:
        forms = [form for form in query.forms if form.name == product.name]
        lookup.expect_one(query, forms, "shape", "a")
        return lookup.operands(reader, query, accumulator)
    if accumulator is not None:
        raise LanemapError(f"{product.name} accumulates nothing: name no accumulator", "accumulator")
    moved = [each for each in found if not instructions.instruction(each.instruction).multiplies]
    lookup.expect_one(query, moved, "instruction", "shape", "type", "qualifiers")
    return [
        _panels(reader, replace(query, role=role))[0]
        for role in instructions.instruction(moved[0].instruction).axes
        if any(each.role == role for each in moved)
    ]


def _titles(reader: Reader, fragments: Sequence[Fragment]) -> list[str]:
    """What the sources of fragments are."""
    titles = {record["name"]: record["title"] for record in lookup.sources(reader).records()}
    return [f"{source}: {titles[source]}" for source in dict.fromkeys(str(each.source) for each in fragments)]


def operand(fragments: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()) -> Picture:
    """An operand, with a panel for each of its fragments, which differ in major or selector, and each computation.

    Args:
        fragments: those of the operand, each with elements.
        view: how to draw them.
        notes: lines below the picture, after those that say where the layouts come from.

    Raises:
        LanemapError: the view picks what is not there.
    """
    view.check(fragments)
    blocks = []
    drawn: list[Grid] = []
    for fragment in fragments:
        mine = [grid for together in sheets([fragment]) for grid in by_element(together, view)]
        drawn += mine
        blocks += panels(mine, [_joined(_part(fragment, fragments), grid.title) for grid in mine])
    title = heading(fragments[0]) if len(fragments) == 1 else _name(fragments)
    return _picture(title, fragments[:1], drawn, blocks, view, notes)


def difference(
    left: Sequence[Fragment], right: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()
) -> Picture:
    """An operand in two sources beside each other. Only cells that differ keep their colour, in a frame.

    Raises:
        LanemapError: they have no fragment in common, or the view picks what is not there.
    """
    from ..difference import difference as elements_that_differ

    theirs = {each.key: each for each in right}
    pairs = [(each, theirs[each.key]) for each in left if each.key in theirs]
    names = str(left[0].source), str(right[0].source)
    if not pairs:
        raise LanemapError(f"{names[0]} and {names[1]} have no {name(left[0])} in common: see lanemap list")
    view.check([*left, *right])
    blocks = []
    drawn: list[Grid] = []
    for pair in pairs:
        for sides in sheets(pair):
            one, other = by_element(sides, view)
            marked = [one.compared(other), other.compared(one)]
            drawn += marked
            part = _joined(_part(pair[0], [each for each, _ in pairs]), one.title)
            blocks.append(beside(panels([grid.only(attrgetter("differs")) for grid in marked], names), part))
    found = [elements_that_differ(*pair) for pair in pairs]
    count, total = sum(each.count for each in found), sum(each.total for each in found)
    differ = f"{count} of {total} elements differ; their cells are framed." if count else "Nothing differs."
    title = f"{_name([each for each, _ in pairs])}: {names[0]} and {names[1]}"
    return _picture(title, pairs[0], drawn, blocks, view, notes, differ)


def instruction(operands: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()) -> Picture:
    """The operands of an instruction around each other as in a product, C only where its layout is not that of D.

    Args:
        operands: one fragment of each role that the instruction has in registers.
        view: how to draw them.
        notes: see ``operand``.

    Raises:
        LanemapError: the view picks what is not there.
    """
    view.check(operands)
    of = {each.role: each for each in operands}
    both = "C" in of and "D" in of and of["C"].same_layout(of["D"])
    shown = [each for role, each in of.items() if not (both and role == "C")]
    names = {
        role: f"{'C and D' if both and role == 'D' else role} {each.type}"
        + (f" {each.major} major" if each.key.several_majors else "")
        for role, each in of.items()
    }
    blocks = []
    drawn: list[Grid] = []
    for together in sheets(shown):
        placed = dict(zip((each.role for each in shown), by_element(together, view), strict=True))
        drawn += placed.values()
        parts: dict[str, Block] = {}
        for roles in ("A", "BD", "C", "E", "p", "r"):
            there = [role for role in roles if role in placed]
            labels = [f"{names[role]}, {_joined(selector(of[role]), size(of[role]))}" for role in there]
            parts |= zip(there, panels([placed[role] for role in there], labels) if there else (), strict=True)
        blocks.append(titled(product(parts), next(iter(placed.values())).title))
    first = operands[0]
    moved = None if instructions.instruction(first.instruction).multiplies else first.qualifiers
    what = " ".join(filter(None, (first.instruction, first.shape, moved)))
    title = f"{what}: {', '.join(names[each.role] for each in shown)}"
    return _picture(title, shown, drawn, blocks, view, notes)


def _picture(
    title: str,
    fragments: Sequence[Fragment],
    drawn: Sequence[Grid],
    blocks: Sequence[Block],
    view: View,
    notes: Sequence[str],
    differ: str = "",
) -> Picture:
    if not view.title:
        return Picture(title, picture([], blocks, []))
    cells = [cell for grid in drawn for cell in grid.cells]
    said = {
        title: True,
        differ: bool(differ),
        _CELLS[view.ptx]: True,
        _WINDOW[view.ptx]: any(cell.opens or cell.closes for cell in cells),
        _EMPTY: any(not cell.held for cell in cells),
        _JOINED[view.ptx]: any(cell.joined for cell in cells),
    }
    heading = [line for line, applies in said.items() if applies]
    return Picture(title, picture(heading, blocks, [*_provenance(fragments), *notes]))


def _provenance(fragments: Sequence[Fragment]) -> Iterator[str]:
    """Where each source says it."""
    sources = dict.fromkeys(str(fragment.source) for fragment in fragments)
    for source in sources:
        mine = [fragment for fragment in fragments if fragment.source == source]
        roles = ", ".join(dict.fromkeys(each.role for each in mine))
        what = f"Source of {roles}" if len(sources) > 1 and len({each.role for each in fragments}) > 1 else "Source"
        sections = ", ".join(dict.fromkeys(f"section {each.section}" for each in mine if each.section))
        corrected = "corrected: see lanemap list errata" if any(each.erratum for each in mine) else ""
        yield ", ".join(filter(None, (f"{what}: {source}", sections, corrected)))


def _name(fragments: Sequence[Fragment]) -> str:
    """The operand that all fragments are of, without what tells them apart."""
    alike = len({each.qualifiers for each in fragments}) == 1
    keys = (each.key._replace(major=None, selector=None) for each in fragments)
    return name_of(dict.fromkeys(key if alike else key._replace(qualifiers=None) for key in keys))


def _part(fragment: Fragment, found: Sequence[Fragment]) -> str:
    """What tells a fragment from the others of the operand."""
    words = {
        "type": fragment.type,
        "qualifiers": fragment.qualifiers or "",
        "major": f"{fragment.major} major",
        "selector": selector(fragment),
    }
    return _joined(*(each for name, each in words.items() if len({getattr(other, name) for other in found}) > 1))


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
