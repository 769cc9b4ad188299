"""Pictures as SVG, PNG and PDF, grids as HTML, and the colours of lanes in all of them and on the terminal."""

import io
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import IO

from ...errors import LanemapError
from ...text import grouped
from .grid import Cell, Grid
from .layout import SIZES, Block, Box, Caption, Line, brackets, frame

#: Okabe and Ito's colours, which colour-blind readers can tell apart, one for each group of four lanes ...
_HUES = ("E69F00", "56B4E9", "009E73", "F0E442", "0072B2", "D55E00", "CC79A7", "999999")
#: ... and four shades of each, for the lanes in the group: how much of it is the ground that it stands on. Lanes 32 to
#: 63 go the other way, from the ground, and lanes 64 to 127 do both with hues halfway to the next one.
_SHADES = ((0.0, 0.3, 0.55, 0.75), (0.25, 0.38, 0.52, 0.67), (0.07, 0.32, 0.48, 0.65), (0.25, 0.38, 0.52, 0.67))
#: How many lanes have colours of their own; others share them.
COLOURS = 128

BLACK, FAINT, WHITE = "000000", "555555", "ffffff"
#: The grounds of pictures and of pages in dark mode.
_DARK, _DARK_PAGE = "1b1b1f", "16181c"
_BOLD = ("title", "name")


def shade(lane: int, ground: str = WHITE) -> str:
    """The colour of a lane, as six hexadecimal digits."""
    block, hue = lane // 32 % 4, lane // 4 % 8
    share = _SHADES[block][lane % 4]
    colour = b""
    for start, following, behind in zip(*map(bytes.fromhex, (_HUES[hue], _HUES[(hue + 1) % 8], ground)), strict=True):
        full = (start + following) / 2 if block > 1 else start
        colour += bytes([round(full * (1 - share) + (255 - behind if block % 2 else behind) * share)])
    return colour.hex()


def ink(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    fractions = [part / 255 for part in bytes.fromhex(colour)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in fractions]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return BLACK if (light + 0.05) ** 2 > 1.05 * 0.05 else WHITE


@dataclass(frozen=True)
class Picture:
    """A picture, and the line that names it."""

    title: str
    body: Block = field(repr=False)

    def write(self, form: str, stream: IO[bytes]) -> None:
        """Write it in one of ``FORMATS``. LanemapError: there is no such format, or its library is not installed."""
        if form not in FORMATS:
            raise LanemapError(f"no picture format {form!r}: choose from {', '.join(FORMATS)}")
        try:
            FORMATS[form](self.body, self.title, stream)
        except ImportError as error:
            raise LanemapError(f"{form.upper()} needs {error.name}: run pip install pillow reportlab") from None

    def save(self, path: str | PathLike[str], form: str | None = None) -> None:
        """Write it to a file, by default in the format of its ending. The file appears complete or not at all."""
        from ...store.files import atomically

        form = form or format_of(path)
        with atomically(Path(path)) as stream:
            self.write(form, stream)

    def svg(self) -> str:
        """The picture as SVG, which follows the viewer's light or dark mode."""
        return self._bytes("svg").decode()

    def png(self) -> bytes:
        """The picture as PNG, on white. Needs Pillow."""
        return self._bytes("png")

    def pdf(self) -> bytes:
        """The picture as PDF, one page of its size, on white. Needs ReportLab."""
        return self._bytes("pdf")

    def _bytes(self, form: str) -> bytes:
        stream = io.BytesIO()
        self.write(form, stream)
        return stream.getvalue()

    def image(self, more: str = "") -> str:
        """The picture as an element of HTML with its own style sheet. ``more`` are attributes of the element."""
        data = b64encode(self._bytes("svg")).decode()
        return f'<img alt="{escape(self.title)}"{more} src="data:image/svg+xml;base64,{data}">'

    def _repr_html_(self) -> str:
        """The picture in a notebook, which can be scrolled if it is wide."""
        style = ' style="max-width:none"'
        return f'<div style="overflow-x:auto">{self.image(style)}</div>'


def format_of(path: str | PathLike[str]) -> str:
    """The format that the ending of a file name stands for; LanemapError if none."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise LanemapError(f"cannot tell the format of {str(path)!r}: end it in one of {endings}, or name a format")
    return ending


def _svg(picture: Block, title: str) -> Iterator[str]:
    """Colours are rules of a style sheet: one path and one group of labels for each lane."""
    width, height = f"{picture.width:g}", f"{picture.height:g}"
    boxes = grouped(picture.boxes, lambda box: box.cell.lane)
    lanes: list[int | None] = [None, *sorted(lane for lane in boxes if lane is not None)]
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    yield f"<title>{escape(title, quote=False)}</title>"
    yield "<style>"
    yield "text{font-family:Helvetica,Arial,sans-serif}"
    for style, size in SIZES.items():
        yield f".{style}{{font-size:{size:g}px{';font-weight:bold' if style in _BOLD else ''}}}"
    yield ".label{text-anchor:middle}.frame{fill:none;stroke-width:3}"
    yield from _svg_colours(WHITE, BLACK, FAINT, lanes)
    yield "@media(prefers-color-scheme:dark){"
    yield from _svg_colours(_DARK, "f0f0f0", "b0b0b0", lanes)
    yield "}"
    yield "</style>"
    yield f'<path class="ground" d="M0 0h{width}v{height}H0z"/>'
    for lane in lanes:
        if lane_boxes := boxes.get(lane):
            yield f'<g class="label {_svg_lane(lane)}">'
            outlines = (f"M{box.x:g} {box.y:g}h{box.width:g}v{box.height:g}h{-box.width:g}z" for box in lane_boxes)
            yield f'<path d="{"".join(outlines)}"/>'
            yield from _svg_lines("window", brackets, lane_boxes)
            for box in lane_boxes:
                yield _svg_text(box.x + box.width / 2, box.baseline, box.cell.label)
            yield "</g>"
    yield from _svg_lines("frame", frame, picture.boxes)
    for style in SIZES:
        if lines := [caption for caption in picture.captions if caption.style == style]:
            yield f'<g class="{style}">'
            for text in lines:
                anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
                yield _svg_text(text.x, text.y, text.text, anchor)
            yield "</g>"
    yield "</svg>"


def _svg_colours(ground: str, text: str, faint: str, lanes: Iterable[int | None]) -> Iterator[str]:
    yield f".ground{{fill:#{ground}}}text{{fill:#{text}}}.axis text,.note text,.none text{{fill:#{faint}}}"
    yield f"path{{stroke:#{ground}}}.none path{{fill:none;stroke:#{faint}}}.frame{{stroke:#{text}}}"
    for lane in lanes:
        if lane is not None:
            fill, name = shade(lane, ground), _svg_lane(lane)
            text = ink(fill)
            yield f".{name} path{{fill:#{fill}}}.{name} text{{fill:#{text}}}.{name} .window{{fill:none;stroke:#{text}}}"


def _svg_lines(name: str, shape: Callable[[Box], Iterable[Line]], boxes: Sequence[Box]) -> Iterator[str]:
    if drawn := "".join("M" + "L".join(f"{x:g} {y:g}" for x, y in line) for box in boxes for line in shape(box)):
        yield f'<path class="{name}" d="{drawn}"/>'


def _svg_text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text, quote=False)}</text>'


def _svg_lane(lane: int | None) -> str:
    return "none" if lane is None else f"lane{lane}"


def _strokes(picture: Block) -> Iterator[tuple[Box | Caption | Line, str, str]]:
    """What is drawn on white, in order, with its colour: boxes and their edges, captions, lines with widths."""
    colours: dict[int | None, tuple[str, str, str]] = {None: (WHITE, FAINT, FAINT)}
    for box in picture.boxes:
        lane = box.cell.lane
        if lane is not None and lane not in colours:
            colours[lane] = (shade(lane), WHITE, ink(shade(lane)))
        fill, edge, letters = colours[lane]
        yield box, f"#{fill}", f"#{edge}"
        yield Caption(box.x + box.width / 2, box.baseline, box.cell.label, "label", "middle"), f"#{letters}", ""
        for line in brackets(box):
            yield line, f"#{letters}", "1"
    for line in (line for box in picture.boxes for line in frame(box)):
        yield line, f"#{BLACK}", "3"
    for text in picture.captions:
        yield text, f"#{BLACK if text.style in _BOLD else FAINT}", ""


def _write_png(picture: Block, title: str, stream: IO[bytes]) -> None:
    """Two dots per CSS pixel, in the font that comes with Pillow."""
    from PIL import Image, ImageDraw, ImageFont
    from PIL.PngImagePlugin import PngInfo

    image = Image.new("RGB", (round(picture.width * 2), round(picture.height * 2)), f"#{WHITE}")
    draw = ImageDraw.Draw(image)
    fonts = {style: ImageFont.load_default(size * 2) for style, size in SIZES.items()}
    anchors = {"start": "ls", "middle": "ms", "end": "rs"}
    for stroke, colour, more in _strokes(picture):
        match stroke:
            case Box(x, y, width, height):
                draw.rectangle([round(length * 2) for length in (x, y, x + width, y + height)], colour, more)
            case Caption(x, y, text, style, anchor):
                thicker = 0.5 if style in _BOLD else 0
                draw.text((x * 2, y * 2), text, colour, fonts[style], anchors[anchor], stroke_width=thicker)
            case line:
                draw.line([(x * 2, y * 2) for x, y in line], colour, int(more) * 2)
    about = PngInfo()
    about.add_itxt("Title", title)
    image.save(stream, "PNG", dpi=(192, 192), pnginfo=about, compress_level=3)


def _write_pdf(picture: Block, title: str, stream: IO[bytes]) -> None:
    """One page of its size, in the fonts that every reader has. Equal pictures make equal files."""
    from reportlab.pdfgen.canvas import Canvas

    points = 0.75  # per CSS pixel
    size = (picture.width * points, picture.height * points)
    page = Canvas(stream, pagesize=size, pageCompression=1, invariant=1, bottomup=0)
    page.setTitle(title)
    page.setCreator("lanemap")
    page.scale(points, points)
    put = {"start": page.drawString, "middle": page.drawCentredString, "end": page.drawRightString}
    for stroke, colour, more in _strokes(picture):
        match stroke:
            case Box(x, y, width, height):
                page.setFillColor(colour)
                page.setStrokeColor(more)
                page.rect(x, y, width, height, fill=1)
            case Caption(x, y, text, style, anchor):
                page.setFillColor(colour)
                page.setFont("Helvetica-Bold" if style in _BOLD else "Helvetica", SIZES[style])
                put[anchor](x, y, text)
            case line:
                page.setStrokeColor(colour)
                page.setLineWidth(int(more))
                path = page.beginPath()
                path.moveTo(*line[0])
                for point in line[1:]:
                    path.lineTo(*point)
                page.drawPath(path)
    page.showPage()
    page.save()


#: The formats by name, which is also the ending of a file: functions of the picture, its title and a stream.
FORMATS: Mapping[str, Callable[[Block, str, IO[bytes]], None]] = {
    "svg": lambda picture, title, stream: stream.writelines(f"{line}\n".encode() for line in _svg(picture, title)),
    "png": _write_png,
    "pdf": _write_pdf,
}

_WIDEST = 40


def table(
    grid: Grid, facts: Mapping[str, object], caption: str, *, characters: int = 0, lanes: Collection[int] = ()
) -> str:
    """A grid as an HTML table, for readers, scripts and screen readers alike.

    Colours are classes, ``lane5`` for lane 5, so that all pages share one style sheet. Only ``lanes``, by default all,
    keep theirs. ``facts`` are ``data-...`` attributes for scripts, and every column has room for so many
    ``characters``, by default those of its widest label.
    """
    attributes = "".join(f' data-{name}="{escape(str(value))}"' for name, value in facts.items() if value is not None)
    picked = " picked" if lanes else ""
    columns = "".join(f'<th scope="col">{escape(column)}' for column in grid.columns)
    lines = [
        f'<table class="grid w{characters or width(grid)}{picked}"{attributes}>',
        f"<caption>{escape(caption)}</caption>",
        f"<thead><tr><td>{escape(grid.corner)}{columns}</thead>",
        "<tbody>",
    ]
    for name, cells in grid.rows:
        labels = escape("\n".join([cell.label for cell in cells])).split("\n")  # all of a row at once
        row = "".join([f"<td{_class(cell, lanes)}>{label}" for cell, label in zip(cells, labels, strict=True)])
        lines.append(f'<tr><th scope="row">{escape(name)}{row}')
    lines += ["</tbody>", "</table>"]
    lines += [f'<p class="note">{escape(note)}</p>' for note in grid.notes]
    return "\n".join(lines)


def width(*grids: Grid) -> int:
    """How many characters the widest label has."""
    return min(max(len(cell.label) for grid in grids for cell in grid.cells), _WIDEST)


def _class(cell: Cell, lanes: Collection[int]) -> str:
    held = cell.colours
    marks = cell.opens, cell.closes, cell.differs, bool(lanes) and not held.isdisjoint(lanes), *cell.walls
    return _classes(held.pop() % COLOURS if len(held) == 1 else None, *marks)


@cache
def _classes(colour: int | None, *marks: bool) -> str:
    names = [f"lane{colour}"] if colour is not None else []
    names += compress(("opens", "closes", "differs", "on", "left", "top"), marks)
    return f' class="{" ".join(names)}"' if len(names) > 1 else f" class={names[0]}" if names else ""


def stylesheet() -> str:
    """The colours of lanes, in light and in dark mode, and the widths of columns."""
    lines = [f".w{count} td,.w{count} th[scope=col]{{min-width:{count + 1}ch}}" for count in range(1, _WIDEST + 1)]
    for ground in (WHITE, _DARK_PAGE):
        fills = [shade(lane, ground) for lane in range(COLOURS)]
        rules = [f".lane{lane}{{--fill:#{fill};--ink:#{ink(fill)}}}" for lane, fill in enumerate(fills)]
        lines += rules if ground == WHITE else ["@media screen and (prefers-color-scheme:dark){", *rules, "}"]
    return "\n".join(lines) + "\n"
