"""What differs, as two small pictures beside each other: which lane holds each cell on the left and on the right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from ..compare import Result
from ..difference import Cell, Place

_WIDTH, _HEIGHT, _AXIS = 22, 16, 30
#: A larger picture is cut off: so many columns, and so many cells.
_COLS, _CELLS = 256, 4096

#: For each cell the slots that hold it.
Held = Mapping[tuple[int, int], list[Place]]


def pictures(result: Result, names: tuple[str, str]) -> Iterator[str]:
    """A pair of figures for each computation in which something differs, cut to the cells that do."""
    assert result.left is not None
    assert result.right is not None
    assert result.difference is not None
    sides = [fragment.elements.tolist() for fragment in (result.left, result.right) if fragment.elements is not None]
    different: dict[int, list[Cell]] = {}
    for _, left, right in result.difference.elements:
        for cell in (left, right):
            if cell:
                different.setdefault(cell[3], []).append(cell)
    for computation, cells in sorted(different.items()):
        rows = range(min(cell[0] for cell in cells), max(cell[0] for cell in cells) + 1)
        cols = range(min(cell[1] for cell in cells), max(cell[2] for cell in cells) + 1)
        shown = rows[: max(1, _CELLS // len(cols[:_COLS]))]
        marked = {place for place, left, right in result.difference.elements}
        yield '<div class="pair">'
        for name, table in zip(names, sides, strict=True):
            held = _held([row for row in table if row[6] == computation])
            yield _figure(name, held, marked, shown, cols[:_COLS])
        yield "</div>"
        cut = f"; of {len(rows)} rows and {len(cols)} columns the first are shown"
        number = f"computation {computation}: " if computation > 1 or len(different) > 1 else ""
        yield (
            f"<p>{number}a cell shows the lane that holds it, rows down and columns across; "
            f"strong cells differ{cut if len(shown) < len(rows) or len(cols) > _COLS else ''}</p>"
        )


def _held(table: list[tuple[int, ...]]) -> Held:
    held: dict[tuple[int, int], list[Place]] = {}
    for lane, reg, slot, row, first, last, _ in table:
        for col in range(first, last + 1):
            held.setdefault((row, col), []).append((lane, reg, slot))
    return held


def _figure(name: str, held: Held, marked: set[Place], rows: range, cols: range) -> str:
    width, height = _AXIS + len(cols) * _WIDTH, _HEIGHT * (1 + len(rows))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [f'<figure><figcaption>{escape(name)}</figcaption><svg {size} role="img">']
    parts += [_words(_AXIS + (across + 0.5) * _WIDTH, 0, str(col)) for across, col in enumerate(cols)]
    for down, row in enumerate(rows, 1):
        parts.append(_words(_AXIS / 2, down * _HEIGHT, str(row)))
        for across, col in enumerate(cols):
            places = held.get((row, col), [])
            told = ", ".join(f"lane {lane} reg {reg} slot {slot}" for lane, reg, slot in places) or "no lane"
            strong = ' class="strong"' if any(place in marked for place in places) else ""
            cell = _cell(_AXIS + across * _WIDTH, down * _HEIGHT, {lane for lane, *_ in places})
            parts.append(f"<g{strong}><title>row {row} col {col}: {told}</title>{cell}</g>")
    return "".join([*parts, "</svg></figure>"])


def _cell(x: int, y: int, lanes: set[int]) -> str:
    """A box in the colour of the lane that holds it, with its number; ``+`` for several lanes and ``-`` for none."""
    lane = min(lanes, default=0)
    fill, label = ("none", "-+"[bool(lanes)])
    if len(lanes) == 1:
        fill, label = f"hsl({lane * 360 // 32 % 360} 70% 70%)", str(lane)
    box = f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="{fill}"/>'
    return box + _words(x + _WIDTH / 2, y, label)


def _words(x: float, y: float, words: str) -> str:
    return f'<text x="{x:g}" y="{y + _HEIGHT - 4:g}">{words}</text>'
