"""What every format becomes: a stream of headings, paragraphs and table rows, each with its first line.

List items and captions are paragraphs, because conversions mix them up. Links stay inside the text: the target's
fragment follows the link's words between two control characters. Those are removed from the document itself, so that
no document can forge one.

Of the words in them, those that carry meaning to all readers stand here too: types and numbers.
"""

import html
import re
import unicodedata
from typing import NamedTuple

from ...db.errors import LanemapError

OPEN, CLOSE = "\x02", "\x03"
ANCHOR = f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}"

#: A type as documents write it. The name of a shape also begins with a dot.
TYPE = r"\.(?!m\d+n)[a-z]{1,3}\d\w{0,6}"
TYPES = rf"{TYPE}(?:\s{{0,3}}(?:/|,|and|or|,\s?and|,\s?or)\s{{0,3}}{TYPE}){{0,20}}"

_SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_NUMBERS = {word: value for value, word in enumerate(_SMALL.split(), start=1)}
_NUMBERS |= {"a": 1, "an": 1, "single": 1, "a single": 1, "thirty two": 32, "sixty four": 64}
#: A whole number in digits or in words, as in ``a single``, ``thirty two`` or ``16``.
NUMBER = rf"(?:\d{{1,4}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\b".replace(" ", r"[\s\-]")


class Heading(NamedTuple):
    """The head of a section: ``level`` from 1 for the largest, ``number`` as in ``9.7.16.5.8``."""

    line: int
    title: str
    number: str | None = None
    anchor: str | None = None
    level: int = 1

    @property
    def text(self) -> str:
        """The title."""
        return self.title


class Paragraph(NamedTuple):
    """A paragraph, a list item, a caption or code, with its line breaks and link targets."""

    line: int
    text: str


class Row(NamedTuple):
    """The cells of one row of a table."""

    line: int
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """All cells, as a table with pipes has them."""
        return " | ".join([*filter(None, self.cells), ""])


Block = Heading | Paragraph | Row


def heading(line: int, text: str, level: int | None = None) -> Heading:
    """A heading from its words: the number in front, the last link as anchor, permalink signs dropped.

    Without a level it is as deep as its number is long.
    """
    anchors = [anchor for anchor in re.findall(ANCHOR, text) if anchor]
    words = plain(text).strip("# ")
    matched = _NUMBERED.match(words)
    number, title = matched.groups() if matched else (None, words)
    level = level or len((number or "").split("."))
    return Heading(line, title, number, anchors[-1] if anchors else None, level)


def link(target: str | None) -> str:
    """What stands behind the words of a link to ``target``; nothing where that names no place in a document."""
    fragment = (target or "").partition("#")[2]
    return f"{OPEN}{fragment}{CLOSE}" if _FRAGMENT.fullmatch(fragment) else ""


def plain(text: str) -> str:
    """The text without link targets, its white space made single."""
    return " ".join(re.sub(ANCHOR, "", text).split())


def clean(text: str) -> str:
    """The text in the characters of the notation: plain spaces, dashes, dots and line ends, no control characters."""
    return _UNPLAIN.sub(lambda run: "".join(map(_PLAIN.__getitem__, run[0])), text.replace("\r\n", "\n"))


def at_most(limit: int, number: int, what: str) -> None:
    """Refuse a document that has more of something than any document of PTX.

    Raises:
        LanemapError: names the number and the limit.
    """
    if number > limit:
        raise LanemapError(f"{number} {what} are more than any PTX document has (limit {limit})")


def unescape(text: str) -> str:
    """Entities such as ``&gt;`` as characters. An ampersand of the notation is never followed by such a name."""
    return clean(html.unescape(text)) if _ENTITY.search(text) else text


def types(text: str) -> tuple[str, ...]:
    """The types that a text names, in order, without dots."""
    return tuple(dict.fromkeys(name[1:] for name in re.findall(TYPE + r"\b", text)))


def number(words: str) -> int:
    """The number that NUMBER matched.

    >>> number("thirty two")
    32
    """
    return int(words) if words.isdecimal() else _NUMBERS[re.sub(r"[\s\-]", " ", words.lower())]


def bits(type_: str) -> int | None:
    """Width of a type by its name: ``e4m3`` has 1 + 4 + 3 bits, ``tf32`` takes 32, ``f16x2`` is a pair.

    >>> bits("e2m1"), bits("bf16"), bits("f16x2")
    (4, 16, 32)
    """
    if small := re.fullmatch(r"e(\d)m(\d)", type_):
        return 1 + int(small[1]) + int(small[2])
    if wide := re.fullmatch(r"[a-z]{1,3}(\d{1,3})(?:x(\d))?", type_):
        return int(wide[1]) * int(wide[2] or 1)
    return None


_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,9})\.?\s+(\S.*)", re.DOTALL)
_FRAGMENT = re.compile(r"[\w.:\-]{1,200}")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,7}|#x[0-9a-fA-F]{1,6});")


# One plain spelling for the many that conversions use; nothing for what cannot be seen or only marks a link.
_UNSEEN = [*range(0x20), 0x7F, 0xAD, 0xB6, 0xFEFF, *range(0x200B, 0x2010), *range(0xE000, 0xF900)]
_PLAIN = {
    **dict.fromkeys(map(chr, _UNSEEN), ""),
    **{sign: " " for sign in map(chr, range(0xA0, 0x3001)) if unicodedata.category(sign) == "Zs"},
    **dict.fromkeys("\v\f\r\x85\u2028\u2029", "\n"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\uff0d", "-"),
}
_PLAIN |= {"…": "...", "≤": "<=", "≥": ">=", "≠": "!=", "\xd7": "*", "\u2217": "*", "«": "<<", "»": ">>"}
del _PLAIN["\t"], _PLAIN["\n"]
_UNPLAIN = re.compile(f"[{re.escape(''.join(_PLAIN))}]+")
