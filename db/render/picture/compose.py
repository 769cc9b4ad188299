"""The pictures: an operand, an operand in two sources, or the operands of an instruction placed as in a product."""

from collections.abc import Sequence
from dataclasses import replace

from ... import lookup
from ...errors import LanemapError
from ...isa import instructions
from ...isa.instructions import name_of
from ...isa.names import Query
from ...layout.fragment import Fragment
from ...store.reader import Reader
from ..facts import heading, name, part_of_slot, provenance, selector, size
from .formats import Picture
from .grid import PLAIN, View, by_element
from .layout import Block, flow, panels, picture, product, titled

#: Fragments that are drawn together have one source and shape. They may differ in everything else.
_ALIKE = ("shape", "source")

#: An element and its label, two of them and the labels of those that hold their cells in turn, and that share a window.
_ELEMENT = "lane 5, register 0, slot 1", "5:0.1", "slots 0 and 1", "5:0.0-1", "5:0.0|1"
_PTX_ELEMENT = "element a1 of lane 5", "T5:{a1}", "elements a0 and a1", "T5:{a0,a1}", "T5:{a0|a1}"


def draw(
    reader: Reader, query: Query, view: View, note: str, accumulator: str | None, diff: Sequence[str] | None
) -> Picture:
    """What a query names: an operand, one in two sources (``diff``), or without a role a whole instruction.

    ``accumulator`` is the type of C and D of an instruction, by default the most exact. ``note`` is a line below the
    picture, after those that name the sources. Raises LanemapError where there is no such operand, ``diff`` does not
    name two sources, or the view picks elements that do not exist.
    """
    with reader.snapshot():
        role = query.parameters()["role"]
        if accumulator is not None and role is not None:
            raise LanemapError("an accumulator is for a whole instruction: name no role", "accumulator")
        if diff is not None:
            if role is None or len(diff) != 2:
                raise LanemapError("name the operand to compare, by a shape, a type and a role, and two sources")
            left, right = (lookup.operand_with_rows(reader, replace(query, source=name), *_ALIKE) for name in diff)
            return difference(left, right, view, [*_titles(reader, [left[0], right[0]]), note])
        if role is not None:
            shown = lookup.operand_with_rows(reader, query, *_ALIKE)
            return operand(shown, view, [*shown.remarks, *_titles(reader, shown), note])
        fragments = _operands(reader, query, accumulator)
        return instruction(fragments, view, [*_titles(reader, fragments), note])


def _operands(reader: Reader, query: Query, accumulator: str | None) -> list[Fragment]:
    """One fragment for each operand of the instruction that a query names."""
    named = lookup.fragments(reader, replace(query, source=None))
    product = instructions.instruction(lookup.prefer_dense(query, named)[0].instruction)
    if product.multiplies:
        forms = [form for form in query.forms if form.name == product.name]
        lookup.expect_one(query, forms, "shape", "a")
        return lookup.operands(reader, query, accumulator)
    if accumulator is not None:
        raise LanemapError(f"{product.name} accumulates nothing: name no accumulator", "accumulator")
    moved = [fragment for fragment in named if not instructions.instruction(fragment.instruction).multiplies]
    lookup.expect_one(query, moved, "instruction", "shape", "type", "qualifiers")
    return [
        lookup.operand_with_rows(reader, replace(query, role=role), *_ALIKE)[0]
        for role in instructions.instruction(moved[0].instruction).axes
        if any(fragment.role == role for fragment in moved)
    ]


def _titles(reader: Reader, fragments: Sequence[Fragment]) -> list[str]:
    """The name and title of each source of the fragments."""
    titles = {record["name"]: record["title"] for record in lookup.sources(reader).records()}
    return [f"{source}: {titles[source]}" for source in dict.fromkeys(str(fragment.source) for fragment in fragments)]


def operand(fragments: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()) -> Picture:
    """An operand, with a panel for each of its fragments, which differ in major or selector, and each computation.

    They have elements; ``notes`` are lines below. Raises LanemapError where the view picks elements that do not exist.
    """
    view.check(fragments)
    blocks = []
    for fragment in fragments:
        grids = [grid for (grid,) in by_element([fragment], view)]
        blocks += panels(grids, [_joined(_part(fragment, fragments), grid.title) for grid in grids])
    title = heading(fragments[0]) if len(fragments) == 1 else _name(fragments)
    return _picture([title], fragments[:1], blocks, view, notes)


def difference(
    left: Sequence[Fragment], right: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()
) -> Picture:
    """An operand in two sources side by side; only cells that differ have colour and a frame. See ``operand``.

    Also raises LanemapError where they have no fragment in common.
    """
    from ...compare.difference import difference as elements_that_differ

    right_by_key = {fragment.key: fragment for fragment in right}
    pairs = [(fragment, right_by_key[fragment.key]) for fragment in left if fragment.key in right_by_key]
    names = str(left[0].source), str(right[0].source)
    if not pairs:
        raise LanemapError(f"{names[0]} and {names[1]} do not both have {name(left[0])}: see lanemap list")
    view.check([*left, *right])
    blocks = []
    for pair in pairs:
        part = _part(pair[0], [fragment for fragment, _ in pairs])
        for left_grid, right_grid in by_element(pair, view):
            sides = panels([left_grid.compared(right_grid), right_grid.compared(left_grid)], names)
            blocks.append(titled(flow(sides), _joined(part, left_grid.title)))
    results = [elements_that_differ(*pair) for pair in pairs]
    count, total = sum(result.count for result in results), sum(result.total for result in results)
    differ = f"{count} of {total} elements differ; their cells are framed." if count else "Nothing differs."
    title = f"{_name([fragment for fragment, _ in pairs])}: {names[0]} and {names[1]}"
    return _picture([title, differ], pairs[0], blocks, view, notes)


def instruction(operands: Sequence[Fragment], view: View = PLAIN, notes: Sequence[str] = ()) -> Picture:
    """The operands of an instruction placed as in a product; C only where its layout is not that of D.

    There is one fragment for each role that the instruction has in registers. See ``operand``.
    """
    view.check(operands)
    of = {fragment.role: fragment for fragment in operands}
    both = "C" in of and "D" in of and of["C"].same_layout(of["D"])
    shown = [fragment for role, fragment in of.items() if not (both and role == "C")]
    names = {
        role: f"{'C and D' if both and role == 'D' else role} {fragment.type}"
        + (f" {fragment.major} major" if fragment.key.several_majors else "")
        for role, fragment in of.items()
    }
    blocks = []
    for grids in by_element(shown, view):
        placed = dict(zip((fragment.role for fragment in shown), grids, strict=True))
        parts: dict[str, Block] = {}
        for roles in ("A", "BD", "C", "E", "p", "r"):
            present = [role for role in roles if role in placed]
            labels = [f"{names[role]}, {_joined(selector(of[role]), size(of[role]))}" for role in present]
            parts |= zip(present, panels([placed[role] for role in present], labels) if present else (), strict=True)
        blocks.append(titled(product(parts), grids[0].title))
    first = operands[0]
    moved = None if instructions.instruction(first.instruction).multiplies else first.qualifiers
    subject = " ".join(filter(None, (first.instruction, first.shape, moved)))
    title = f"{subject}: {', '.join(names[fragment.role] for fragment in shown)}"
    return _picture([title], shown, blocks, view, notes)


def _picture(
    titles: Sequence[str], fragments: Sequence[Fragment], blocks: Sequence[Block], view: View, notes: Sequence[str]
) -> Picture:
    """A picture with titles above; the first of them is its name."""
    if not view.title:
        return Picture(titles[0], picture([], blocks, []))
    cells = [box.cell for block in blocks for box in block.boxes]
    element, label, two, joined, window = _PTX_ELEMENT if view.ptx else _ELEMENT
    opens = any(cell.opens or cell.closes for cell in cells)
    legend = {
        f"{label} in a cell is {element}; cells of one lane have one colour.": True,
        f"{window} in [ ] is {two}, of which each can stand for any of the columns from [ to ].": opens,
        "- is a cell that no lane holds.": any(not cell.held for cell in cells),
        f"{joined} is {two}, which hold the rows or columns of the cell in turn.": any(cell.joined for cell in cells),
        "Lanes count the threads of all warps, between whose cells are thick lines.": any(f.tiling for f in fragments),
    }
    narrow = [fragment for fragment in fragments if part_of_slot(fragment)]
    legend |= {
        f"A slot of {fragment.role} has {fragment.slot_bits} bits, of which {part_of_slot(fragment)}.": True
        for fragment in narrow
    }
    heading = [*titles, *(line for line, applies in legend.items() if applies)]
    return Picture(titles[0], picture(heading, blocks, [*provenance(fragments), *notes]))


def _name(fragments: Sequence[Fragment]) -> str:
    """The operand that all fragments belong to, without what tells them apart."""
    alike = len({fragment.qualifiers for fragment in fragments}) == 1
    keys = (fragment.key._replace(major=None, selector=None) for fragment in fragments)
    return name_of(dict.fromkeys(key if alike else key._replace(qualifiers=None) for key in keys))


def _part(fragment: Fragment, fragments: Sequence[Fragment]) -> str:
    """What tells a fragment from the other ``fragments`` of the operand."""
    words = {
        "type": fragment.type,
        "qualifiers": fragment.qualifiers or "",
        "major": f"{fragment.major} major",
        "selector": selector(fragment),
    }
    return _joined(*(text for name, text in words.items() if len({getattr(other, name) for other in fragments}) > 1))


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
