"""The pages of the guide: Markdown files, which are read as they are in a repository and in a browser as pages."""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from ... import Query
from .links import Links

_FOLDER = Path(__file__).parent / "guide"
#: In the order of the README.
_ORDER = """
first-hour look-up draw tiles fuse reduce load-and-store chain-code shared-memory tensor-memory sparse block-scales
trace blame check capture export query serve threats sources new-version glossary changes contributing
""".split()
_PARSER = MarkdownIt("js-default")


class Guide(NamedTuple):
    """A page: its title, its first sentence, and the words of its name and text that it is found by, without code."""

    title: str
    summary: str
    words: str
    text: str


@cache
def guide() -> Mapping[str, Guide]:
    """The pages by name."""
    return {name: _parsed(name, (_FOLDER / f"{name}.md").read_text("utf-8")) for name in _ORDER}


def found(text: str) -> dict[str, Guide]:
    """The pages that have all words of a text, those first whose name or title has them."""
    words = text.lower().split()
    hits = {name: page for name, page in guide().items() if words and all(word in page.words for word in words)}

    def named(name: str) -> bool:
        return all(word in f"guide {name} {hits[name].title}".lower() for word in words)

    return {name: hits[name] for name in sorted(hits, key=named, reverse=True)}


@cache
def kernels() -> dict[str, str]:
    """The kernels that the guide traces, by name: one, and what each change makes of it."""
    text = guide()["trace"].text
    found = {name: kernel for kernel, name in re.findall(r"^```ptx\n(// (\w+)[.]ptx\n.*?)^```$", text, re.M | re.S)}
    for old, new, name, changed in re.findall(r"^sed 's/(.*?)/(.*?)/' (\w+)[.]ptx > (\w+)[.]ptx$", text, re.M):
        found[changed] = found[name].replace(old, new)
    return found


def content(text: str, links: Links) -> Markup:
    """A page as HTML, with links to other pages and to its own headings as on GitHub."""
    tokens = _PARSER.parse(text)
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^\w -]", "", inline.content.lower()).replace(" ", "-"))
    for token in _inside(tokens):
        for name in ("href", "src"):
            target, _, place = str(token.attrGet(name) or "").partition("#")
            if target.endswith(".md"):
                address = links("guide", target.removesuffix(".md")) or ""
                token.attrSet(name, address + (place and f"#{place}"))
            elif target.startswith("../static/"):
                token.attrSet(name, links.asset(target.removeprefix("../static/")))
    for at, token in reversed([*enumerate(tokens)]):
        if token.type == "fence" and token.info == "console" and (there := _page_of(token.content, links)):
            here = Markup('<p class="muted"><a href="{}">The same on a page</a></p>\n').format(there)
            tokens.insert(at + 1, Token("html_block", "", 0, content=here))
    rendered = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return Markup(re.sub("<(pre|table)>", r'<\1 tabindex="0">', rendered))  # noqa: S704 - a file of the program


def _page_of(commands: str, links: Links) -> str | None:
    """The address at which a page answers what the first of some commands asks, if there is one."""
    _, command, *words = shlex.split(
        commands.replace("\\\n", "").partition("\n")[0].removeprefix("$ ").partition(" | ")[0]
    )
    named = [*takewhile(lambda word: not word.startswith(("-", "2>")), words)]
    options = [word for word in words[len(named) :] if not word.startswith("2>")]
    if command == "sql":
        return links("sql", query=named[0])
    if command in ("find", "show") and {*options}.isdisjoint(("--tile", "--terms")):
        return links("search", q=" ".join(named))
    if command == "chain" and {*options} <= {"--relabel"}:
        first, second = (*map(" ".join, Query.split(named)), None)[:2]
        return links("chain", first=first, second=second, relabel="true" if options else None)
    if command == "descriptor":
        given = zip(options[::2], options[1::2], strict=True)
        return links("descriptor", operand=" ".join(named), **{name.removeprefix("--"): text for name, text in given})
    return None


def _parsed(name: str, text: str) -> Guide:
    tokens = _PARSER.parse(text)
    title, summary = ("".join(child.content or " " for child in token.children or ()) for token in tokens[1:5:3])
    words = ["guide", name, *(token.content for token in _inside(tokens) if token.type == "text")]
    return Guide(title, summary, " ".join(dict.fromkeys(" ".join(words).lower().split())), text)


def _inside(tokens: list[Token]) -> Iterator[Token]:
    return (child for token in tokens for child in token.children or ())
