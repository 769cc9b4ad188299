"""Markdown, in the dialects that conversions of the documentation come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ....db.errors import LanemapError
from ..blocks import Block, Code, Heading, Paragraph, Row, at_most, clean, heading, link
from ..sections import is_part, is_read
from . import html
from .ruled import piped

#: What takes the parser most time. The manual has some 20,000 lines with words on them.
MAX_CHARACTERS = 5_000_000
MAX_LINES = 50_000
MAX_CELLS = 100_000
MAX_BRACKETS = 20_000
MAX_PARAGRAPH = 20_000
_MAX_NESTING = 60


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown document.

    Raises:
        LanemapError: it is longer, or nested deeper, than any page of the documentation.
    """
    at_most(MAX_CHARACTERS, len(text), "characters of Markdown")
    at_most(MAX_LINES, len(_WRITTEN.findall(text)), "lines of Markdown")
    at_most(MAX_CELLS, text.count("|"), "cells of tables")
    references: dict[str, Any] = {}
    tokens = _parser().parse(_plain_dialect(_whole_headings(piped(text))), references)
    if any(token.level >= _MAX_NESTING - 1 and token.nesting == 1 for token in tokens):
        raise LanemapError(
            f"lists and quotations are nested deeper than {_MAX_NESTING} levels: this is not a PTX document"
        )
    return list(_blocks(tokens, references))


class _Parser(MarkdownIt):
    """Links are never followed, so that they need not be made fit for it."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the parser's name
        return url


@cache
def _parser() -> MarkdownIt:
    return _Parser("commonmark", {"maxNesting": _MAX_NESTING}).enable("table").disable("inline")


def _blocks(tokens: Sequence[Token], references: dict[str, Any]) -> Iterator[Block]:
    """Markup inside paragraphs is most of the work: it is only read in the sections that matter."""
    line, cells, brackets = 1, list[str](), 0
    inside, level = "", 1
    section: Heading | None = None
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        match token.type:
            case "heading_open" | "th_open" | "td_open" | "paragraph_open":
                inside, level = token.type, int(token.tag[1]) if token.type == "heading_open" else level
            case "inline" if inside == "heading_open":
                head = heading(line, _words(token, references), level)
                section = section if section and is_part(head, section) else head
                yield head
            case "inline":
                read = section is None or is_read(section.title)
                brackets += token.content.count("[") if read else 0
                at_most(MAX_BRACKETS, brackets, "brackets")
                words = _words(token, references) if read else token.content
                if inside == "paragraph_open":
                    yield Paragraph(line, words)
                else:
                    cells.append(words)
            case "tr_close":
                yield Row(line, tuple(cells))
                cells = []
            case "fence" | "code_block":
                yield Code(line, token.content)
            case "html_block":
                found = html.blocks(token.content, first_line=line)
                section = next((block for block in reversed(found) if isinstance(block, Heading)), section)
                yield from found


def _words(inline: Token, references: dict[str, Any]) -> str:
    at_most(MAX_PARAGRAPH, len(inline.content), "characters in a paragraph")
    words: list[str] = []
    targets: list[str] = []
    children: list[Token] = []
    parser = _parser()
    parser.inline.parse(inline.content, parser, references, children)
    for token in children:
        match token.type:
            case "text" | "code_inline":
                words.append(clean(token.content))
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "link_open":
                targets.append(link(str(token.attrs.get("href", ""))))
            case "link_close":
                words.append(targets.pop())
            case "html_inline" if _BREAK.match(token.content):
                words.append("\n")
            case "html_inline" if named := _NAMED.search(token.content):
                words.append(link("#" + named[1]))
    return "".join(words)


def _whole_headings(text: str) -> str:
    """Headings whose line a conversion has broken inside a tag, a link or a phrase, each on one line again."""
    return _CUT_HEADING.sub(lambda cut: " ".join(cut[0].split("\n")) + "\n" * cut[0].count("\n"), text)


def _plain_dialect(text: str) -> str:
    """Without pandoc's own signs: spans and their attributes go, an attribute that names an anchor becomes a link."""
    if "{" not in text:
        return text
    for _ in range(_SPANS_IN_SPANS):
        text = _SPAN.sub(lambda span: span[1] + "\n" * span[2].count("\n"), text)
    return _ATTRIBUTES.sub(_anchor, text)


def _anchor(attributes: re.Match[str]) -> str:
    named = re.match(r"#([\w.:\-]{1,200})", attributes[1])
    return (f" [](#{named[1]})" if named else "") + "\n" * attributes[1].count("\n")


#: A heading that ends inside a tag or link, or after a word that something must follow, and the lines up to the next
#: blank one.
_CUT_HEADING = re.compile(
    r"^[ \t>]{0,20}#{1,6}[ \t](?:[^\n]{0,400}(?:<[^>\n]{0,400}|\[[^\]\n]{0,400}|\b(?:for|of|sparse)))[ \t]?"
    r"(?:\n[ \t>]{0,20}[^\s>#][^\n]{0,400}){1,8}$",
    re.MULTILINE,
)
_WRITTEN = re.compile(r"^[ \t>]*[^ \t>\n]", re.MULTILINE)
_SPANS_IN_SPANS = 3
_SPAN = re.compile(r"\[([^\[\]]{0,300})\](\{[.#][A-Za-z][^{}]{0,300}\})")
_ATTRIBUTES = re.compile(r"\{([.#][A-Za-z][^{}]{0,300})\}")
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_NAMED = re.compile(r"""<a\s[^>]{0,200}?\b(?:id|name)\s*=\s*["']([\w.:\-]{1,200})["']""", re.IGNORECASE)
