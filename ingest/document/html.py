"""HTML, as the documentation site serves it and as others keep it."""

import re
from itertools import chain, repeat
from typing import Any

from lxml import etree

from ...db.errors import LanemapError
from .blocks import OPEN, Block, Paragraph, Row, clean, heading, link, plain

MAX_TAG = 5_000


def blocks(text: str) -> list[Block]:
    """The blocks of an HTML document.

    Raises:
        LanemapError: longer or deeper nested tags than any page of the documentation has.
    """
    if _LONG_TAG.search(text):
        raise LanemapError(f"an HTML tag is longer than {MAX_TAG} characters: this is not a PTX document")
    blocks: list[Block] = []
    line = 1
    # The parser reads one document, and drops what stands behind its end: a file may hold several.
    for document in _END.split(text):
        parser = etree.HTMLParser(
            encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True, recover=True
        )
        try:
            root = etree.fromstring(document.encode("utf-8", "replace"), parser)
        except (etree.XMLSyntaxError, AttributeError):
            root = None
        if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
            raise LanemapError(
                "HTML is nested deeper than 250 levels, or a text in it longer than 10 million characters"
            )
        if root is not None:
            walker = _Walker(line)
            walker.walk(root)
            blocks += walker.found
        line += document.count("\n")
    return blocks


class _Walker:
    """Collects blocks in the order of the document: words gather until an element that stands by itself ends them."""

    def __init__(self, first_line: int) -> None:
        self.found: list[Block] = []
        self.first_line = self.line = first_line
        self.words: list[str] = []
        self.targets: list[str] = []
        self.named: list[str] = []
        self.anchor = ""
        self.tables: list[_Table] = []

    def walk(self, root: etree._Element) -> None:
        events = etree.iterwalk(root, events=("start", "end"))
        for event, element in events:
            if event == "start":
                if element.tag in _APART:  # the parser counts lines to 65535 and no further
                    self.line = self.first_line + int(element.sourceline or 1) - 1
                if self._begin(element):
                    events.skip_subtree()
            else:
                self._end(element)
                self.words.append(_flow(element.tail))
        self._flush()

    def _begin(self, element: etree._Element) -> bool:
        """Take note of an element; true where nothing inside it is to be walked."""
        tag = element.tag
        self.named.append(element.get("id") or "")
        if tag in _SKIPPED:
            return True
        if tag in _APART:
            self._flush()
        if tag == "pre":
            typed = clean("".join(element.itertext()))
            self.found += [] if _LINE_NUMBERS.fullmatch(typed) else [Paragraph(self.line, typed)]
            return True
        if tag == "a":
            self.targets.append(link(element.get("href") or f"#{element.get('id') or element.get('name')}"))
        elif tag == "br":
            self.words.append("\n")
        elif tag == "table":
            self.tables.append(_Table())
        elif tag == "tr" and self.tables:
            self.tables[-1].line, self.tables[-1].cells = self.line, []
        elif tag in ("td", "th") and self.tables:
            span = element.get("rowspan") or ""
            self.tables[-1].cells.append(["", min(int(span), _MAX_SPAN) if span.isdecimal() else 1])
        self.words.append(_flow(element.text))
        return False

    def _end(self, element: etree._Element) -> None:
        tag = element.tag
        if tag in _TITLES or "caption" in (element.get("class") or "").split():
            if OPEN not in "".join(self.words):
                self.words.append(self.anchor or link("#" + next(filter(None, reversed(self.named)), "")))
                self.anchor = ""
            if tag in _HEADINGS:
                head = heading(self.line, "".join(self.words), int(tag[1]))
                self.found += [head] if head.title else []
                self.words.clear()
        if tag in _APART:
            self._flush()
        if tag == "a":
            self.words.append(self.targets.pop() if self.targets else "")
        elif tag == "tr" and self.tables and any(cells := self.tables[-1].row()):
            self.found.append(Row(self.tables[-1].line, cells))
        elif tag == "table" and self.tables:
            self.tables.pop()
        self.named.pop()

    def _flush(self) -> None:
        text = "\n".join(line.strip() for line in "".join(self.words).split("\n")).strip()
        text = re.sub(f" +(?={OPEN})", "", _SPACES.sub(" ", text))
        self.words.clear()
        if text and not plain(text):  # an anchor by itself is that of the heading or caption behind it
            self.anchor = self.anchor or text
        elif text and self.tables and self.tables[-1].cells:
            cell = self.tables[-1].cells[-1]
            cell[0] = f"{cell[0]} {text}".strip()
        elif text:
            self.found.append(Paragraph(self.line, text + ("" if OPEN in text else self.anchor)))
            self.anchor = ""


class _Table:
    """The row of a table that is being read, and the one above it: texts with how many rows they still span."""

    def __init__(self) -> None:
        self.line = 0
        self.cells: list[Any] = []
        self.above: list[Any] = []

    def row(self) -> tuple[str, ...]:
        """The texts of a row that is over. A cell that spans rows stands in each of them."""
        own_cells, cells = iter(self.cells), []
        for above in chain(self.above, repeat(("", 0))):
            cell = above if above[1] > 0 else next(own_cells, None)
            if cell is None:
                break
            cells.append(cell)
        self.cells, self.above = [], [(text, left - 1) for text, left in cells]
        return tuple(text for text, _ in cells)


def _flow(text: str | None) -> str:
    """Text whose white space carries no meaning, without the signs of Markdown for code, which no formula has."""
    return _SPACE.sub(" ", clean(text).replace("`", "")) if text else ""


_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_TITLES = _HEADINGS | {"figcaption", "caption"}
_SKIPPED = {"script", "style", "nav", "svg", "math", "noscript", "template", "button", "iframe", "object", "footer"}
_APART = _TITLES | set("p div li ul ol dl dt dd table tr td th blockquote section title article aside body".split())
_APART |= set("figure head header hr main img details summary thead pre".split())
_MAX_SPAN = 20
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(r" {2,}")
_END = re.compile(r"(?<=</html>)", re.IGNORECASE)
_LINE_NUMBERS = re.compile(r"[\d\s]*")
#: A quoted value counts as one character, so that pictures inside a page are no matter.
_LONG_TAG = re.compile(rf"""<[a-zA-Z](?:[^<>"']|"[^"]*"|'[^']*'){{{MAX_TAG}}}""")
