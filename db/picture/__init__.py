"""Pictures of fragments, as SVG, PNG and PDF.

``compose`` makes them: boxes and words, placed by ``layout``. A new format is a module of this package and a name in
``FORMATS``: ``write(body, title, stream)`` in the module writes a picture to a binary stream.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..errors import LanemapError

if TYPE_CHECKING:
    from os import PathLike

    from .layout import Block

#: What a picture can be: the endings of files, and modules of this package.
FORMATS = ("svg", "png", "pdf")


def format_of(path: str | PathLike[str]) -> str:
    """The format that the ending of a file name says.

    Raises:
        LanemapError: it says none.
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise LanemapError(f"cannot tell the format of {str(path)!r}: end it in one of {endings}, or name a format")
    return ending


@dataclass(frozen=True)
class Picture:
    """A picture, and the line that names it."""

    title: str
    body: Block

    def write(self, form: str, stream: IO[bytes]) -> None:
        """Write it in one of ``FORMATS``.

        Raises:
            LanemapError: there is no such format, or a library that it needs is not installed.
        """
        if form not in FORMATS:
            raise LanemapError(f"no picture format {form!r}: choose from {', '.join(FORMATS)}")
        try:
            import_module(f".{form}", __name__).write(self.body, self.title, stream)
        except ImportError as error:
            raise LanemapError(f"{form.upper()} needs {error.name}: run pip install pillow reportlab") from None

    def save(self, path: str | PathLike[str], form: str | None = None) -> None:
        """Write it to a file, in the format that its ending says if none is named. It appears whole or not at all.

        Raises:
            LanemapError: see ``write``; or the file cannot be written.
        """
        from ..files import atomically

        form = form or format_of(path)
        with atomically(Path(path)) as stream:
            self.write(form, stream)

    def svg(self) -> str:
        """It as SVG, which follows the light or dark mode of whoever looks at it."""
        return self._bytes("svg").decode()

    def png(self) -> bytes:
        """It as PNG, on white. Needs Pillow."""
        return self._bytes("png")

    def pdf(self) -> bytes:
        """It as PDF, one page of its size, on white. Needs ReportLab."""
        return self._bytes("pdf")

    def _bytes(self, form: str) -> bytes:
        stream = io.BytesIO()
        self.write(form, stream)
        return stream.getvalue()

    def image(self, more: str = "") -> str:
        """It as an element of HTML, whose style sheet is its own. ``more`` are attributes of the element."""
        from base64 import b64encode
        from html import escape

        data = b64encode(self._bytes("svg")).decode()
        return f'<img alt="{escape(self.title)}"{more} src="data:image/svg+xml;base64,{data}">'

    def _repr_html_(self) -> str:
        """It in a notebook. Wide ones can be scrolled on a phone."""
        style = ' style="max-width:none"'
        return f'<div style="overflow-x:auto">{self.image(style)}</div>'
