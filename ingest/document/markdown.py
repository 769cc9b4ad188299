"""Markdown, in the dialects that conversions of the documentation come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ...db.errors import LanemapError
from . import markup
from .blocks import Block, Code, Heading, Row, Text, clean, heading, link
from .ruled import piped
from .sections import is_read

_MAX_NESTING = 60


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown document.

    Raises:
        LanemapError: lists or quotations are nested deeper than in any page of the documentation.
    """
    references: dict[str, Any] = {}
    tokens = _parser().parse(_plain_dialect(_whole_headings(piped(text))), references)
    if any(token.level >= _MAX_NESTING - 1 and token.nesting == 1 for token in tokens):
        raise LanemapError(
            f"lists and quotations are nested deeper than {_MAX_NESTING} levels: this is no PTX document"
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
    """Markup inside paragraphs is most of the work: it is only read where it matters."""
    line, cells = 1, list[str]()
    inside, read = "", True
    for token in tokens:
        if token.map:
            line = token.map[0] + 1
        match token.type:
            case "heading_open" | "th_open" | "td_open" | "paragraph_open":
                inside = token.type
            case "inline" if inside == "heading_open":
                head = heading(line, _words(token, references))
                read = is_read(head.title)
                yield head
            case "inline":
                words = _words(token, references) if read else token.content
                if inside == "paragraph_open":
                    yield Text(line, words)
                else:
                    cells.append(words)
            case "tr_close":
                yield Row(line, tuple(cells))
                cells = []
            case "fence" | "code_block":
                yield Code(line, token.content)
            case "html_block":
                for block in markup.blocks(token.content, first_line=line):
                    read = is_read(block.title) if isinstance(block, Heading) else read
                    yield block


def _words(inline: Token, references: dict[str, Any]) -> str:
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
_SPANS_IN_SPANS = 3
_SPAN = re.compile(r"\[([^\[\]]{0,300})\](\{[.#][A-Za-z][^{}]{0,300}\})")
_ATTRIBUTES = re.compile(r"\{([.#][A-Za-z][^{}]{0,300})\}")
_BREAK = re.compile(r"<br\b", re.IGNORECASE)
_NAMED = re.compile(r"""<a\s[^>]{0,200}?\b(?:id|name)\s*=\s*["']([\w.:\-]{1,200})["']""", re.IGNORECASE)
