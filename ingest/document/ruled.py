"""Tables drawn with lines of dashes, as pandoc draws them, turned into tables with pipes; no line moves.

Two kinds: a grid of ``+---+`` lines, and columns under a line such as ``----- --------`` whose cells may run over
several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

_Span = tuple[int, int | None]


def piped(text: str) -> str:
    """The text with every such table written with pipes."""
    if not _RULED.search(text):
        return text
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if _GRID.fullmatch(lines[at]):
            end = _end_of_grid(lines, at)
            _replace(lines, at, end, _grid_rows(lines[at:end]))
            at = end
        elif _COLUMNS.fullmatch(lines[at]):
            start, end, rows = _columned(lines, at)
            _replace(lines, start, end, rows)
            at = end
        else:
            at += 1
    return "\n".join(lines)


def _replace(lines: list[str], start: int, end: int, rows: list[list[str]]) -> None:
    margin = _MARGIN.match(lines[start])
    front = margin[0] if margin else ""
    written = [f"{front}| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    if written:
        written.insert(1, f"{front}|{' --- |' * len(rows[0])}")
    written = written[: end - start]
    lines[start:end] = written + [front.rstrip()] * (end - start - len(written))


def _end_of_grid(lines: list[str], at: int) -> int:
    end = at
    while end < len(lines) and lines[end].lstrip(" \t>").startswith(("+", "|")):
        end += 1
    return end


def _grid_rows(lines: list[str]) -> list[list[str]]:
    walls = [index for index, sign in enumerate(lines[0]) if sign == "+"]
    spans: list[_Span] = [(left + 1, right) for left, right in pairwise(walls)]
    rows: list[list[str]] = []
    held: list[str] = []
    for line in lines:
        if _GRID.fullmatch(line):
            rows += [_cells(held, spans)] if held else []
            held = []
        else:
            held.append(line)
    return rows


def _columned(lines: list[str], ruler: int) -> tuple[int, int, list[list[str]]]:
    """Where the table around a ruler begins and ends, and its rows. Rows of several lines stand between blank ones."""
    start = ruler
    while start > 0 and _BLANK.fullmatch(lines[start - 1]) is None and not _LINE.fullmatch(lines[start - 1]):
        start -= 1
    framed = start > 0 and _LINE.fullmatch(lines[start - 1]) is not None
    starts = [matched.start() for matched in re.finditer("-+", lines[ruler])]
    spans: list[_Span] = list(zip(starts, [*starts[1:], None], strict=True))
    rows = [_cells(lines[start:ruler], spans)]
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
    closed = framed and end < len(lines)
    return start - framed, end + closed, rows


def _cells(lines: Iterable[str], spans: list[_Span]) -> list[str]:
    def parts(span: _Span) -> Iterator[str]:
        return (line[slice(*span)].strip() for line in held)

    held = list(lines)
    return [" ".join(filter(None, parts(span))) for span in spans]


_MARGIN = re.compile(r"[ \t>]*")
_BLANK = re.compile(r"[ \t>]*")
_GRID = re.compile(r"[ \t>]{0,40}\+(?:[-=:]{2,}\+)+[ \t]*")
_LINE = re.compile(r"[ \t>]{0,40}-{8,}[ \t]*")
_COLUMNS = re.compile(r"[ \t>]{0,40}-{2,}(?: {1,3}-{2,})+[ \t]*")
_RULED = re.compile(r"^[ \t>]{0,40}(?:\+[-=:]{2,}[+-]|-{2,} {1,3}--)", re.MULTILINE)
