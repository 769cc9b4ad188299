"""A picture as PDF, on white, one page of its size, with ReportLab and the fonts that every reader has."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from .layout import SIZES, Anchor, Block, Style
from .marks import Line, brackets, frame
from .palette import BLACK, FAINT, on_paper

if TYPE_CHECKING:
    from reportlab.pdfgen.canvas import Canvas

#: Points per CSS pixel.
_SCALE = 0.75


def write(picture: Block, title: str, stream: IO[bytes]) -> None:
    """Write it. Equal pictures are equal files."""
    from reportlab.pdfgen.canvas import Canvas

    size = (picture.width * _SCALE, picture.height * _SCALE)
    page = Canvas(stream, pagesize=size, pageCompression=1, invariant=1, bottomup=0)
    page.setTitle(title)
    page.setCreator("lanemap")
    page.scale(_SCALE, _SCALE)
    put = {Anchor.START: page.drawString, Anchor.MIDDLE: page.drawCentredString, Anchor.END: page.drawRightString}
    for box in picture.boxes:
        fill, edge, text = on_paper(box.cell.lane)
        page.setFillColor(f"#{fill}")
        page.setStrokeColor(f"#{edge}")
        page.rect(box.x, box.y, box.width, box.height, fill=1)
        page.setFillColor(f"#{text}")
        page.setFont("Helvetica", SIZES[Style.LABEL])
        page.drawCentredString(box.x + box.width / 2, box.baseline, box.cell.label)
        page.setStrokeColor(f"#{text}")
        for line in brackets(box):
            _trace(page, line)
    page.setStrokeColor(f"#{BLACK}")
    page.setLineWidth(3)
    for box in picture.boxes:
        for line in frame(box):
            _trace(page, line)
    for each in picture.words:
        bold = each.style in (Style.TITLE, Style.NAME)
        page.setFillColor(f"#{BLACK if bold else FAINT}")
        page.setFont("Helvetica-Bold" if bold else "Helvetica", SIZES[each.style])
        put[each.anchor](each.x, each.y, each.words)
    page.showPage()
    page.save()


def _trace(page: Canvas, line: Line) -> None:
    path = page.beginPath()
    path.moveTo(*line[0])
    for point in line[1:]:
        path.lineTo(*point)
    page.drawPath(path)
