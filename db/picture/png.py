"""A picture as PNG, on white, with Pillow and the font that Pillow brings."""

from __future__ import annotations

from typing import IO

from .layout import SIZES, Anchor, Block, Style
from .marks import brackets, frame
from .palette import BLACK, FAINT, WHITE, on_paper

#: Dots per CSS pixel.
_SCALE = 2
_ANCHORS = {Anchor.START: "ls", Anchor.MIDDLE: "ms", Anchor.END: "rs"}


def write(picture: Block, title: str, stream: IO[bytes]) -> None:
    """Write it."""
    from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

    image = Image.new("RGB", (round(picture.width * _SCALE), round(picture.height * _SCALE)), f"#{WHITE}")
    draw = ImageDraw.Draw(image)
    fonts = {style: ImageFont.load_default(size * _SCALE) for style, size in SIZES.items()}
    for box in picture.boxes:
        fill, edge, text = on_paper(box.cell.lane)
        edges = [round(each * _SCALE) for each in (box.x, box.y, box.x + box.width, box.y + box.height)]
        draw.rectangle(edges, f"#{fill}", f"#{edge}")
        at = ((box.x + box.width / 2) * _SCALE, box.baseline * _SCALE)
        draw.text(at, box.cell.label, f"#{text}", fonts[Style.LABEL], "ms")
        for line in brackets(box):
            draw.line([(x * _SCALE, y * _SCALE) for x, y in line], f"#{text}", _SCALE)
    for box in picture.boxes:
        for line in frame(box):
            draw.line([(x * _SCALE, y * _SCALE) for x, y in line], f"#{BLACK}", 3 * _SCALE)
    for each in picture.words:
        bold = each.style in (Style.TITLE, Style.NAME)
        colour = BLACK if bold else FAINT
        at = (each.x * _SCALE, each.y * _SCALE)
        draw.text(
            at, each.words, f"#{colour}", fonts[each.style], _ANCHORS[each.anchor], stroke_width=0.5 if bold else 0
        )
    described = PngImagePlugin.PngInfo()
    described.add_text("Title", title)
    image.save(stream, "PNG", pnginfo=described, dpi=(96 * _SCALE, 96 * _SCALE), optimize=True)
