"""The blocks of a report, and how they are written: as text for a terminal, as Markdown, as HTML.

The simplest are those of every answer (``Told.parts``): sentences, and rows under the names of their columns. All text
in a block may come from outside: each writer makes it harmless.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from ..rows import Rows, table, wrapped
from ..text import printable


class Title(NamedTuple):
    """The title of the report (level 1), of a part (2), or of something in a part (3)."""

    text: str
    level: int = 2


class Passage(NamedTuple):
    """Sentences of a ``kind``: ``item`` (of a list), ``agreed`` or ``disagreed`` (a verdict), ``code``, or none.

    ``hint`` ends it on a terminal alone: what to type there.
    """

    text: str
    kind: str = ""
    language: str = ""
    hint: str = ""


class Facts(NamedTuple):
    """Pairs of a name and a value."""

    pairs: Collection[tuple[str, str]]


class Image(NamedTuple):
    """A picture, drawn as HTML when it is shown."""

    draw: Callable[[], str]


class Details(NamedTuple):
    """Blocks under a title, shown on demand, or at once if ``open``."""

    title: str
    blocks: Sequence["Block"]
    open: bool = False
    level: int = 2


Block = str | Rows | Title | Passage | Facts | Image | Details

_WIDTH = 80
_VERDICTS = ("agreed", "disagreed")


def clean(text: object) -> str:
    """Text from outside as one line without control characters."""
    return "" if text is None else printable(" ".join(str(text).split()))


def as_text(blocks: Iterable[Block], *, everything: bool = False) -> str:
    """A report 80 columns wide, with the verdict last and closed details only if ``everything``."""
    blocks = list(blocks)
    verdicts = [block for block in blocks if isinstance(block, Passage) and block.kind in _VERDICTS]
    rest = [block for block in blocks if block not in verdicts]
    lines = [*_lines(rest, everything), "", *(line for block in verdicts for line in _wrapped(block.text))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).lstrip("\n")) + "\n"


def _lines(blocks: Iterable[Block], everything: bool, indent: str = "") -> Iterator[str]:
    margin = indent
    for block in blocks:
        match block:
            case Title(text, level):
                margin = indent + "  " * (level > 2)
                yield from ("", *_wrapped(text, indent), *([""] if level == 2 else [])) if level > 1 else ()
            case Passage(text, "code"):
                yield from ("", *(margin + printable(line) for line in text.splitlines()), "")
            case Passage(text, hint=hint):
                yield from _wrapped(text + hint, margin)
            case str(text):
                yield from _wrapped(text, margin)
            case Rows():
                yield from ((margin + line).rstrip() for line in table(block, _WIDTH - len(margin)).splitlines())
            case Facts(pairs):
                for name, value in pairs:
                    yield from _wrapped(f"{name}: {value}", margin)
            case Details(title, inside, shown) if shown or everything:
                yield from ("", *_wrapped(f"{title}:", margin), *_lines(inside, everything, margin + "  "))


def _wrapped(text: str, margin: str = "") -> list[str]:
    """Lines broken between words. A word that is longer than a line stays in one piece."""
    return wrapped(clean(text), _WIDTH, margin + "  ", margin)


#: What has a meaning in Markdown or in HTML within it. An underscore has one only at the end of a word.
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<!\w)_|_(?!\w)")


def _quoted(text: object) -> str:
    """Text from outside, escaped so that Markdown shows it unchanged."""
    return _SPECIAL.sub(r"\\\g<0>", escape(clean(text), quote=False))


def as_markdown(blocks: Iterable[Block]) -> str:
    """A report in plain Markdown, for a review or an issue, without pictures."""
    text = ""
    for part in _markdown(blocks):
        close = part.startswith("- ") and text.rpartition("\n")[2].startswith("- ")
        text += ("" if not text else "\n" if close else "\n\n") + part
    return text + "\n"


def _markdown(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Title(text, level):
                yield f"{'#' * level} {_quoted(text)}"
            case Passage(text, "code", language):
                yield "\n".join((f"```{language or 'text'}", text.strip("\n"), "```"))
            case str(text) | Passage(text, ""):
                yield _quoted(text)
            case Passage(text, kind):
                yield ("- {}" if kind == "item" else "**{}**").format(_quoted(text))
            case Rows(columns, rows):
                lines = [map(_quoted, row) for row in (columns, *rows)]
                head, *rest = (f"| {' | '.join(line)} |" for line in lines)
                yield "\n".join([head, f"|{'---|' * len(columns)}", *rest])
            case Facts(pairs) if pairs:
                yield "\n".join(f"- **{_quoted(name)}**: {_quoted(value)}" for name, value in pairs)
            case Details(title, inside, _, level):
                yield from (f"{'#' * level} {_quoted(title)}", *_markdown(inside))


#: The style sheet of a report within an element of class ``lanemap``, for light and dark mode, phones and paper.
STYLE = (files(__package__) / "report.css").read_text("utf-8")


_NUMBER = ' class="number"'


def as_html(blocks: Iterable[Block]) -> str:
    """A report as elements for a page that has ``STYLE``, without scripts or anything from the network."""
    return "\n".join(_html(blocks))


def as_page(blocks: Iterable[Block]) -> str:
    """A report as one self-contained HTML page, whose title is the first heading with the verdict."""
    blocks = list(blocks)
    title = ": ".join(clean(block.text) for block in blocks[:2] if isinstance(block, Title | Passage))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    page = "body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{escape(title)}</title><style>{page}</style></head>\n'
        f"<body>{as_element(blocks)}</body></html>\n"
    )


def as_element(blocks: Iterable[Block], most: float = math.inf, rest: str = "") -> str:
    """A report as an element with its style. Of more than ``most`` characters it has the first blocks, and ``rest``."""
    style = f"<style>:root {{ color-scheme: light dark; }}{STYLE}</style>"
    shown, size = [], 0
    for part in _html(blocks):
        if (size := size + len(part)) > most:
            shown.append(f"<p>{escape(rest)}</p>")
            break
        shown.append(part)
    return "\n".join([f'<div class="lanemap">{style}', *shown, "</div>"])


def _html(blocks: Iterable[Block]) -> Iterator[str]:
    def safe(text: object) -> str:
        return escape(clean(text))

    above = 1
    for block in blocks:
        match block:
            case Title(text, level):
                above = min(level, above + 1)  # a skipped level confuses people who use a screen reader
                yield f"<h{above}>{safe(text)}</h{above}>"
            case Passage(text, "code"):
                yield f'<pre class="wide" tabindex="0">{escape(text)}</pre>'
            case Passage(text, "item"):
                yield f"<ul><li>{safe(text)}</li></ul>"
            case str(text) | Passage(text, ""):
                yield f"<p>{safe(text)}</p>"
            case Passage(text, kind):
                yield f'<p class="verdict {kind}">{safe(text)}</p>'
            case Rows(columns, rows):
                head = "".join(f"<th>{safe(column)}</th>" for column in columns)
                body = "".join(
                    f"<tr>{''.join(f'<td{_NUMBER * isinstance(value, int)}>{safe(value)}</td>' for value in row)}</tr>"
                    for row in rows
                )
                element = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
                yield f'<div class="wide" tabindex="0">{element}</div>'
            case Facts(pairs) if pairs:
                items = (f"<dt>{safe(name)}</dt><dd>{safe(value)}</dd>" for name, value in pairs)
                yield f"<dl>{''.join(items)}</dl>"
            case Image(draw):
                yield f'<div class="wide" tabindex="0">{draw()}</div>'
            case Details(title, inside, shown):
                summary = f"<summary>{safe(title)}</summary>"
                yield f"<details{' open' * shown}>{summary}\n{as_html(inside)}\n</details>"


def annotation(kind: str, words: str, **properties: str) -> str:
    """An annotation of a workflow on GitHub: an ``error`` or a ``warning``, and the ``file`` and ``line`` of it."""

    def escaped(text: str, more: str = "") -> str:
        return "".join(f"%{ord(sign):02X}" if sign in f"%\r\n{more}" else sign for sign in text)

    said = ",".join(f"{name}={escaped(value, ':,')}" for name, value in properties.items())
    return f"::{kind} {said}::{escaped(words)}\n"
