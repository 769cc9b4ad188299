"""Plain text in which the structure is lost: headings, tables and formulas are lines among lines, or run together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..blocks import Block, Heading, Paragraph, at_most, heading, link, unescape
from .ruled import piped

MAX_CHARACTERS = 5_000_000


def blocks(text: str) -> Iterator[Block]:
    """The headings of a plain text, and what stands between blank lines.

    Raises:
        LanemapError: it is longer than any text of the documentation.
    """
    at_most(MAX_CHARACTERS, len(text), "characters of text")
    text = _DIRECTIVE.sub("", _TARGET.sub(lambda found: link(found[1]), _ESCAPES.sub("", piped(unescape(text)))))
    text = _GLUED.sub(_apart, text)
    held: list[str] = []
    begun = 0
    for number, line in _rejoined(text):
        head, rest = _head(line, number)
        if (head or not rest) and held:
            yield Paragraph(begun, "\n".join(held))
            held = []
        if head:
            yield head
        if rest:
            begun = begun if held else number
            held.append(rest)
    if held:
        yield Paragraph(begun, "\n".join(held))


def _rejoined(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers. A title that a line's end has cut before it names a shape is whole again."""
    number = 0
    title = ""
    for line in text.split("\n"):
        # A line that only the reader ended, to part what had run together, is no line of the document.
        number += not line.startswith(_SEAM)
        line = f"{title} {line.removeprefix(_SEAM).strip()}".strip()
        title = line if _CUT_TITLE.fullmatch(line) and line != title else ""
        if not title:
            yield number, line
    if title:
        yield number, title


def _head(line: str, number: int) -> tuple[Heading | None, str]:
    """The heading that a line is, if it is one, and what else the line holds."""
    matched = _HEADING.match(line)
    if not matched:
        return None, line
    title = matched[2]
    known = _TITLE.match(title)
    cut = _SENTENCE.search(title)
    end = min(known.end() if known else len(title), cut.start() if cut else len(title), _LONGEST_TITLE)
    return heading(number, f"{matched[1]} {title[:end]}"), title[end:].strip()


def _apart(glued: re.Match[str]) -> str:
    return f"\n{_SEAM}{glued[0].lstrip()}"


_ESCAPES = re.compile(r"`|\\(?:[ \t]|(?=[_*|]))")
_DIRECTIVE = re.compile(r"^[ \t]{0,40}\.\. \w{1,20}::[ \t]?", re.MULTILINE)
_TARGET = re.compile(r"[ \t]?<(#[\w.:\-]{1,200})>_{0,2}")
_SEAM = "\x04"
_LONGEST_TITLE = 200
#: A section number right behind a formula. PTX's chapters have one digit: what stands before it ends the formula.
_GLUED = re.compile(
    r"(?:(?<=[^\s.#\d(])|(?<=[^\s.#]\d)|(?<=[ {,]\d))\d(?:\.\d{1,3}){2,9}\.[ \t]+(?=[A-Z])"
    r"|(?<=\S)[ \t]\d{1,3}(?:\.\d{1,3}){2,9}\.[ \t]+"
    r"(?=Matrix Fragment|Sparse matrix|Multiply-and|Warp-level|Asynchronous)"
)
_HEADING = re.compile(r"(?:#{1,6}[ \t]+)?(\d{1,3}(?:\.\d{1,3}){2,9})\.?[ \t]+(?=[A-Z])(.+)")
_CUT_TITLE = re.compile(
    rf"{_HEADING.pattern.removesuffix('(?=[A-Z])(.+)')}Matrix Fragments? for(?:(?!m\d{{1,3}}n|WMMA\b)[^\n]){{0,60}}",
    re.IGNORECASE,
)
#: The titles that matter, where a new sentence runs on behind them.
_TITLE = re.compile(
    r"(?:Sparse matrix storage|Matrix Fragments? for (?:sparse )?\S{1,60}"
    r"(?: with (?:\S{1,9} (?:/|and|or) ){0,9}\S{1,9}(?: floating point| integer)?(?: types?)?)?)(?=\s+(?-i:[A-Z]))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=\S)[ \t](?=A warp(?:group)?\b|Elements of|Multiplicand|Accumulator|(?:Copy|Permalink) to\b)"
)
