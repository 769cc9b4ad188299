"""HTML, as the documentation site serves it and as others keep it."""

from __future__ import annotations

import re

from lxml import etree

from ...db.errors import LanemapError
from .blocks import OPEN, Block, Code, Row, Text, clean, heading, link


def blocks(text: str, first_line: int = 1) -> list[Block]:
    """The blocks of an HTML document, or of a piece of one that begins on ``first_line``.

    Raises:
        LanemapError: elements are nested deeper than in any page of the documentation.
    """
    walker = _Walker(first_line)
    root = _parse(text)
    if root is not None:
        walker.walk(root)
    return walker.found


def _parse(text: str) -> etree._Element | None:
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True, recover=True
    )
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, AttributeError):
        root = None
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise LanemapError("HTML elements are nested deeper than 250 levels: this is no PTX document")
    return root


class _Walker:
    """Collects blocks in the order of the document: words gather until an element that stands by itself ends them."""

    def __init__(self, first_line: int) -> None:
        self.found: list[Block] = []
        self.first_line = first_line
        self.line = first_line
        self.words: list[str] = []
        self.targets: list[str] = []
        self.named: list[str] = []
        self.tables: list[_Table] = []

    def walk(self, root: etree._Element) -> None:
        events = etree.iterwalk(root, events=("start", "end"))
        for event, element in events:
            if event == "start":
                self.line = self.first_line + _line(element) - 1
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
        if tag == "pre":
            self._flush()
            typed = clean("".join(element.itertext()))
            if not _LINE_NUMBERS.fullmatch(typed):
                self.found.append(Code(self.line, typed))
            return True
        if tag in _APART:
            self._flush()
        if tag == "a":
            self.targets.append(link(element.get("href")))
        elif tag == "br":
            self.words.append("\n")
        elif tag == "table":
            self.tables.append(_Table())
        elif tag == "tr" and self.tables:
            self.tables[-1].begin(self.line)
        elif tag in ("td", "th") and self.tables:
            self.tables[-1].cell(element)
        self.words.append(_flow(element.text))
        return False

    def _end(self, element: etree._Element) -> None:
        tag = element.tag
        if tag in _HEADINGS:
            self._head()
        elif tag in _CAPTIONS or "caption" in (element.get("class") or "").split():
            self._caption()
        if tag in _APART:
            self._flush()
        if tag == "a":
            self.words.append(self.targets.pop() if self.targets else "")
        elif tag == "tr" and self.tables and (row := self.tables[-1].end()):
            self.found.append(row)
        elif tag == "table" and self.tables:
            self.tables.pop()
        self.named.pop()

    def _flush(self) -> None:
        text = _tidy("".join(self.words))
        self.words.clear()
        if not text:
            return
        if self.tables and self.tables[-1].open:
            self.tables[-1].write(text)
        else:
            self.found.append(Text(self.line, text))

    def _head(self) -> None:
        head = heading(self.line, "".join(self.words))
        self.words.clear()
        if head.title:
            anchor = head.anchor or next(filter(None, reversed(self.named)), None)
            self.found.append(heading(self.line, f"{head.number or ''} {head.title}{link(f'#{anchor}')}"))

    def _caption(self) -> None:
        if OPEN not in "".join(self.words):
            self.words.append(link("#" + next(filter(None, reversed(self.named)), "")))


class _Table:
    """The rows of a table while it is read. A cell that spans rows stands in each of them."""

    def __init__(self) -> None:
        self.line = 0
        self.cells: list[str] = []
        self.spans: list[int] = []
        self.above: list[tuple[str, int]] = []
        self.open = False

    def begin(self, line: int) -> None:
        self.line, self.cells, self.spans = line, [], []

    def cell(self, element: etree._Element) -> None:
        self._fill()
        span = element.get("rowspan") or "1"
        self.cells.append("")
        self.spans.append(min(int(span), _MAX_SPAN) if span.isdecimal() else 1)
        self.open = True

    def write(self, text: str) -> None:
        self.cells[-1] = f"{self.cells[-1]} {text}".strip()

    def end(self) -> Row | None:
        self._fill()
        self.open = False
        self.above = [(text, left - 1) for text, left in zip(self.cells, self.spans, strict=True)]
        return Row(self.line, tuple(self.cells)) if any(self.cells) else None

    def _fill(self) -> None:
        """Cells from above that reach down to where the next cell would stand."""
        while len(self.cells) < len(self.above) and self.above[len(self.cells)][1] > 0:
            text, left = self.above[len(self.cells)]
            self.cells.append(text)
            self.spans.append(left)


def _line(element: etree._Element) -> int:
    """Line of the element. The parser counts to 65535 and no further."""
    return int(element.sourceline or 1)


def _flow(text: str | None) -> str:
    """Text whose white space carries no meaning."""
    return _SPACE.sub(" ", clean(text)) if text else ""


def _tidy(text: str) -> str:
    text = "\n".join(line.strip() for line in text.split("\n")).strip()
    return re.sub(f" +(?={OPEN})", "", _SPACES.sub(" ", text))


_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_CAPTIONS = {"figcaption", "caption"}
_SKIPPED = {"script", "style", "nav", "svg", "math", "noscript", "template", "button", "iframe", "object", "footer"}
_APART = _HEADINGS | _CAPTIONS
_APART |= {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "table", "tr", "td", "th", "blockquote", "section", "title"}
_APART |= {"article", "aside", "body", "figure", "head", "header", "hr", "main", "img", "details", "summary", "thead"}
_MAX_SPAN = 100
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(r" {2,}")
_LINE_NUMBERS = re.compile(r"[\d\s]*")
