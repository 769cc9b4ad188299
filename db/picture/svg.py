"""A picture as SVG: text that a browser, a document or a review shows, in light and in dark mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO
from xml.sax.saxutils import escape

from ..grouped import grouped
from .layout import SIZES, Anchor, Block, Box, Style, Words
from .marks import Line, brackets, frame
from .palette import BLACK, FAINT, WHITE, ink, shade

_DARK = "1b1b1f"
_BOLD = (Style.TITLE, Style.NAME)


def write(picture: Block, title: str, stream: IO[bytes]) -> None:
    """Write it. Colours are rules of a style sheet: one path and one group of labels for each lane."""
    stream.write("".join(line + "\n" for line in _lines(picture, title)).encode())


def _lines(picture: Block, title: str) -> Iterator[str]:
    width, height = f"{picture.width:g}", f"{picture.height:g}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    yield f"<title>{escape(title)}</title>"
    yield "<style>"
    boxes = grouped(picture.boxes, lambda box: box.cell.lane)
    lanes = sorted(lane for lane in boxes if lane is not None)
    yield "text{font-family:Helvetica,Arial,sans-serif}"
    yield from (f".{style}{{font-size:{SIZES[style]:g}px{_weight(style)}}}" for style in Style)
    yield f".label{{text-anchor:{Anchor.MIDDLE}}}.frame{{fill:none;stroke-width:3}}"
    yield from _colours(WHITE, BLACK, FAINT, lanes)
    yield "@media(prefers-color-scheme:dark){"
    yield from _colours(_DARK, "f0f0f0", "b0b0b0", lanes)
    yield "}"
    yield "</style>"
    yield f'<path class="ground" d="M0 0h{width}v{height}H0z"/>'
    for lane in (None, *lanes):
        if mine := boxes.get(lane):
            yield f'<g class="label {_lane(lane)}">'
            yield f'<path d="{"".join(map(_rectangle, mine))}"/>'
            yield from _marks("window", brackets, mine)
            yield from map(_label, mine)
            yield "</g>"
    yield from _marks("frame", frame, picture.boxes)
    for style in Style:
        if some := [each for each in picture.words if each.style is style]:
            yield f'<g class="{style}">'
            yield from map(_words, some)
            yield "</g>"
    yield "</svg>"


def _weight(style: Style) -> str:
    return ";font-weight:bold" if style in _BOLD else ""


def _colours(ground: str, text: str, faint: str, lanes: Iterable[int]) -> Iterator[str]:
    yield f".ground{{fill:#{ground}}}text{{fill:#{text}}}.axis text,.note text,.none text{{fill:#{faint}}}"
    yield f"path{{stroke:#{ground}}}.none path{{fill:none;stroke:#{faint}}}.frame{{stroke:#{text}}}"
    for lane in lanes:
        fill = shade(lane, ground)
        name, text = _lane(lane), ink(fill)
        yield f".{name} path{{fill:#{fill}}}.{name} text{{fill:#{text}}}.{name} .window{{fill:none;stroke:#{text}}}"


def _marks(name: str, shape: Callable[[Box], Iterable[Line]], boxes: Sequence[Box]) -> Iterator[str]:
    if drawn := "".join(_path(line) for box in boxes for line in shape(box)):
        yield f'<path class="{name}" d="{drawn}"/>'


def _lane(lane: int | None) -> str:
    return "none" if lane is None else f"lane{lane}"


def _rectangle(box: Box) -> str:
    return f"M{box.x:g} {box.y:g}h{box.width:g}v{box.height:g}h{-box.width:g}z"


def _path(line: Line) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in line)


def _label(box: Box) -> str:
    return f'<text x="{box.x + box.width / 2:g}" y="{box.baseline:g}">{escape(box.cell.label)}</text>'


def _words(each: Words) -> str:
    anchor = "" if each.anchor is Anchor.START else f' text-anchor="{each.anchor}"'
    return f'<text x="{each.x:g}" y="{each.y:g}"{anchor}>{escape(each.words)}</text>'
