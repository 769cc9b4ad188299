"""Markdown and plain text, in the dialects that conversions of the documentation come in.

In plain text the structure is lost: headings, tables and formulas are lines among lines, or run together. In both,
tables may be drawn with lines of dashes, as pandoc draws them; these are turned into tables with pipes first.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ...db.errors import LanemapError
from . import html
from .blocks import Block, Paragraph, heading, link, unescape

_MAX_NESTING = 60


def markdown(text: str) -> list[Block]:
    """The blocks of a Markdown document.

    Raises:
        LanemapError: it is nested deeper than any page of the documentation.
    """
    text = _FENCED.sub(_fenced, piped(text))
    text = _INDENTED.sub(r"\1  ", text)
    # A table of HTML is one block: blank lines would end it, and what is indented behind one would be code.
    text = _TABLE.sub(lambda table: _EMPTY.sub(f"{table[1]}<!---->", table[0]), text)
    # A heading whose line a conversion has broken inside a tag, a link or a phrase is one line again.
    text = _CUT_HEADING.sub(lambda cut: " ".join(cut[0].split("\n")) + "\n" * cut[0].count("\n"), text)
    # Pandoc's own signs go: spans and their attributes, but an attribute that names an anchor becomes a link.
    for _ in range(_SPANS_IN_SPANS if "{" in text else 0):
        text = _SPAN.sub(lambda span: span[1] + "\n" * span[2].count("\n"), text)
    text = _ATTRIBUTES.sub(lambda match: (f" [](#{match[1]})" if match[1] else "") + "\n" * match[0].count("\n"), text)
    tokens = _parser().parse(text)
    if any(token.level >= _MAX_NESTING - 1 and token.nesting == 1 for token in tokens):
        raise LanemapError(
            f"lists and quotations are nested deeper than {_MAX_NESTING} levels: this is not a PTX document"
        )
    return html.blocks("".join(_rendered(tokens)))


def _fenced(code: re.Match[str]) -> str:
    """Fenced code with what its first line has in front of it, such as a quotation mark, in front of all its lines."""
    margin, lines = code[1], code[0].split("\n")
    return "\n".join(line if line.startswith(margin.rstrip() or margin) else margin + line for line in lines)


def _rendered(tokens: Sequence[Token]) -> Iterator[str]:
    """The tokens as HTML in which everything is on the line that it has in the Markdown."""
    parser, line = _parser(), 0
    for token in tokens:
        first = token.map[0] if token.map else line
        written = parser.renderer.render([token], parser.options, {})
        written = written.strip("\n") if token.type != "html_block" else written
        yield "\n" * (first - line) + written
        line = max(first, line) + written.count("\n")


class _Parser(MarkdownIt):
    """Links are never followed, so that they need not be made fit for it."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the parser's name
        return url


@cache
def _parser() -> MarkdownIt:
    return _Parser("commonmark", {"maxNesting": _MAX_NESTING, "breaks": True}).enable("table")


def plain_text(text: str) -> Iterator[Block]:
    """The headings of a plain text, and what stands between blank lines."""
    text = _DIRECTIVE.sub("", _TARGET.sub(lambda target: link(target[1]), _ESCAPES.sub("", piped(unescape(text)))))
    text = _GLUED.sub(lambda glued: f"\n{_SEAM}{glued[0].lstrip()}", text)
    held: list[str] = []
    begun = 0
    for number, line in _rejoined(text):
        matched = _HEADING.match(line)
        if (matched or not line) and held:
            yield Paragraph(begun, "\n".join(held))
            held = []
        if matched:  # as far as it is the title: text may run on behind it
            title = matched[2]
            name, cut = _TITLE.match(title), _SENTENCE.search(title)
            end = min(name.end() if name else len(title), cut.start() if cut else len(title), _LONGEST_TITLE)
            yield heading(number, f"{matched[1]} {title[:end]}")
            line = title[end:].strip()
        if line:
            begun = begun if held else number
            held.append(line)
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


def piped(text: str) -> str:
    """The text with every table that is drawn with lines of dashes written with pipes; no line moves.

    There are two kinds: a grid of ``+---+`` lines, and columns under a line such as ``----- --------`` whose cells may
    run over several lines.
    """
    if not _RULED.search(text):
        return text
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if _GRID.fullmatch(lines[at]):
            start, end, rows = _grid(lines, at)
        elif _COLUMNS.fullmatch(lines[at]):
            start, end, rows = _columns(lines, at)
        else:
            at += 1
            continue
        margin = lines[start][: len(lines[start]) - len(lines[start].lstrip(" \t>"))]
        written = [f"{margin}| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
        written[1:1] = [f"{margin}|{' --- |' * len(row)}" for row in rows[:1]]
        blank = [margin.rstrip()] * (end - start - len(written))
        lines[start:end] = (written + blank)[: end - start]
        at = end
    return "\n".join(lines)


def _grid(lines: Sequence[str], start: int) -> tuple[int, int, list[list[str]]]:
    """Where the grid that begins at a line ends, and its rows."""
    end = start
    while end < len(lines) and lines[end].lstrip(" \t>").startswith(("+", "|")):
        end += 1
    walls = [index for index, sign in enumerate(lines[start]) if sign == "+"]
    spans = [slice(left + 1, right) for left, right in pairwise(walls)]
    rules = [at for at in range(start, end) if _GRID.fullmatch(lines[at])]
    parts = [lines[above + 1 : below] for above, below in pairwise([*rules, end])]
    return start, end, [_cells(part, spans) for part in parts if part]


def _columns(lines: Sequence[str], ruler: int) -> tuple[int, int, list[list[str]]]:
    """Where the table around a ruler begins and ends, and its rows. Rows of several lines stand between blank ones."""
    start = ruler
    while start > max(0, ruler - _MOST_TITLE_LINES) and not _BLANK.fullmatch(lines[start - 1]):
        start -= 1
        if _LINE.fullmatch(lines[start]):
            break
    framed = _LINE.fullmatch(lines[start]) is not None
    starts = [matched.start() for matched in re.finditer("-+", lines[ruler])]
    spans = [slice(*span) for span in pairwise([*starts, None])]
    rows = [_cells(lines[start + framed : ruler], spans)]
    end = ruler + 1
    held: list[str] = []
    while end < len(lines) and not _LINE.fullmatch(lines[end]) and not _COLUMNS.fullmatch(lines[end]):
        blank = _BLANK.fullmatch(lines[end]) is not None
        if blank and not framed:
            break
        held += [] if blank else [lines[end]]
        if held and (blank or not framed):
            rows.append(_cells(held, spans))
            held = []
        end += 1
    rows += [_cells(held, spans)] if held else []
    return start, min(end + framed, len(lines)), rows


def _cells(lines: Sequence[str], spans: Sequence[slice]) -> list[str]:
    return [" ".join(filter(None, (line[span].strip() for line in lines))) for span in spans]


#: A heading that ends inside a tag or link, or after a word that something must follow, and the lines up to the next
#: blank one.
_CUT_HEADING = re.compile(
    r"^[ \t>]{0,20}#{1,6}[ \t](?:[^\n]{0,400}(?:<[^>\n]{0,400}|\[[^\]\n]{0,400}|\b(?:for|of|sparse)))[ \t]?"
    r"(?:\n[ \t>]{0,20}[^\s>#][^\n]{0,400}){1,8}$",
    re.MULTILINE,
)
#: Code in a quotation or list: up to the end of its fence, or to a heading where a conversion has lost that.
_FENCED = re.compile(
    r"^([ \t]{0,20}[ \t>]{1,20})(`{3,9}|~{3,9})[^\n`]{0,99}\n"
    r"(?:(?![ \t>]*\2[ \t]*$|[ \t>]*#{1,6}[ \t]+\d)[^\n]*\n)*[ \t>]*(?:\2)?[ \t]*$",
    re.MULTILINE,
)
#: An item of a list that code or a table without indentation has interrupted: it is no code.
_INDENTED = re.compile(r"(^[^\s*+\-][^\n]*\n(?:[ \t]*\n){1,3}) {4,20}(?=[*+\-] )", re.MULTILINE)
_TABLE = re.compile(r"^([ \t>]{0,40})<table\b(?:(?!</?table\b)[\s\S]){0,20000}</table>", re.MULTILINE | re.IGNORECASE)
_EMPTY = re.compile(r"^[ \t>]*$", re.MULTILINE)
_SPANS_IN_SPANS = 3
_SPAN = re.compile(r"\[([^\[\]]{0,300})\](\{[.#][A-Za-z][^{}]{0,300}\})")
_ATTRIBUTES = re.compile(r"\{(?=[.#][A-Za-z])(?:#([\w.:\-]{1,200}))?[^{}]{0,300}\}")
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
    r"(?:Matrix Fragments? for (?:sparse )?\S{1,60}"
    r"(?: with (?:\S{1,9} (?:/|and|or) ){0,9}\S{1,9}(?: floating point| integer)?(?: types?)?)?)(?=\s+(?-i:[A-Z]))",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=\S)[ \t](?=A warp(?:group)?\b|Elements of|Multiplicand|Accumulator|(?:Copy|Permalink) to\b)"
)
_MOST_TITLE_LINES = 20
_BLANK = re.compile(r"[ \t>]*")
_GRID = re.compile(r"[ \t>]{0,40}\+(?:[-=:]{2,}\+)+[ \t]*")
_LINE = re.compile(r"[ \t>]{0,40}-{8,}[ \t]*")
_COLUMNS = re.compile(r"[ \t>]{0,40}-{2,}(?: {1,3}-{2,})+[ \t]*")
_RULED = re.compile(r"^[ \t>]{0,40}(?:\+[-=:]{2,}[+-]|-{2,} {1,3}--)", re.MULTILINE)
