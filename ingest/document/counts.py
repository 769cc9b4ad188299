"""How many registers threads hold where a section says so and draws the rest: wgmma, tcgen05.ld and tcgen05.st.

wgmma's tables count registers in numbers or of N, as in ``N/4 number of .f16x2 registers``, and metadata in vectors;
those of the moves of Tensor Memory have a row for each ``.num`` and a column for some shapes each.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...db.isa.forms import Form, forms
from ...db.isa.instructions import Key, operand
from ...db.text import counted
from .blocks import NUMBER, TYPES, Row, number, plain, types
from .sections import Kind, Remarks, Section


class Count(NamedTuple):
    """What a section says of the registers of an operand, and what its forms have instead: nothing if they agree."""

    words: str
    known: str


def compare_counts(place: Section, remarks: Remarks) -> None:
    """Remark on the registers that a section states: that they are those of the forms, and on each that is not."""
    line, stated = place.heading.line, list(counts(place))
    for words, known in stated:
        if known:
            remarks.add(Kind.NOTE, place, line, words, f"the table of forms has {known}")
    if agreed := sum(not known for _, known in stated):
        remarks.add(
            Kind.COUNTED, place, line, place.title, f"{counted(agreed, 'number')} as the table of forms has them"
        )


def counts(place: Section) -> Iterator[Count]:
    """The registers that a section states, compared with those that the operands of the forms have."""
    if moved := _MOVED.search(place.heading.title):
        yield from _of_shapes(moved[1], [block.cells for block in place.blocks if isinstance(block, Row)])
    elif product := _PRODUCT.search(place.heading.title):
        name = "wgmma.sp" if product["sparse"] else "wgmma"
        yield from _of_types(name, [form for form in forms(name) if form.shape.endswith(f"k{product['k']}")], place)


def _of_types(name: str, of: list[Form], place: Section) -> Iterator[Count]:
    text = plain(place.text)
    for row in _HELD.finditer(text):
        role, per = ("D", int(row["divisor"])) if row["divisor"] else ("A", 0)
        each = number(row["each"]) if row["each"] else 1
        registers = 0 if per else number(row["count"])
        for type_ in types(row["types"]):
            keys = [Key(name, form.shape, type_, role) for form in of if (form.a if role == "A" else form.d) == type_]
            held = {key: (_n(key) // per if per else registers, each) for key in keys}
            yield _compared(f"{role} of {type_}: {f'N/{per}' if per else registers} registers of {each}", held)
    for vectors in _VECTORS.finditer(text):
        keys = [Key(name, form.shape, form.a, "E") for form in of]
        yield _compared(f"E: 1 register of {number(vectors[1])}", dict.fromkeys(keys, (1, number(vectors[1]))))


def _of_shapes(name: str, rows: Iterable[tuple[str, ...]]) -> Iterator[Count]:
    columns: list[list[str]] = []
    for first, *cells in rows:
        shapes = [_SHAPE.findall(cell) for cell in (first, *cells)]
        columns = [of for of in shapes if of] or columns
        for of, cell in zip(columns, cells, strict=False) if _NUM.fullmatch(first) else ():
            named = [form for form in forms(name) if form.shape in of and form.qualifiers == first[1:]]
            keys = [Key(name, form.shape, form.a, "r", qualifiers=form.qualifiers) for form in named]
            count = int(cell) if cell.isdecimal() else 0
            if count or keys:
                yield _compared(f"{first} of {' '.join(of)}: {cell} registers", dict.fromkeys(keys, (count, 1)))


def _compared(words: str, stated: dict[Key, tuple[int, int]]) -> Count:
    for key, held in stated.items():
        if (known := (operand(key).registers, operand(key).slots)) != held:
            return Count(words, f"{known[0]} of {known[1]} for {key.shape}")
    return Count(words, "" if stated else "no such form")


def _n(key: Key) -> int:
    return int(key.shape[key.shape.index("n") + 1 : key.shape.index("k")])


_PRODUCT = re.compile(r"\bFragments? for (?P<sparse>sparse )?wgmma\.mma_async\.m64nNk(?P<k>\d{1,3})\b")
_MOVED = re.compile(r"(tcgen05\.(?:ld|st))\W{0,3}$")
_HELD = re.compile(
    rf"(?P<types>{TYPES})[\s|]{{1,9}}A vector expression containing (?:N/(?P<divisor>\d) number of|(?P<count>{NUMBER}))"
    rf" \.\w{{1,6}} registers?(?:,? with each register containing (?P<each>{NUMBER}))?"
)
_VECTORS = re.compile(rf"\b(?:a|one) \.b32 register containing ({NUMBER}) \d-bit vectors")
_NUM = re.compile(r"\.x\d{1,3}")
_SHAPE = re.compile(r"\.(\d{1,3}x\d{1,3}b(?:x2)?)\b")
