"""Tables drawn with lines of dashes, as pandoc draws them, turned into tables with pipes; no line moves.

Two kinds: a grid of ``+---+`` lines, and columns under a line such as ``----- --------`` whose cells may run over
several lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_Rows = list[list[str]]


def piped(text: str) -> str:
    """The text with every such table written with pipes."""
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


def _grid(lines: Sequence[str], start: int) -> tuple[int, int, _Rows]:
    """Where the grid that begins at a line ends, and its rows."""
    end = start
    while end < len(lines) and lines[end].lstrip(" \t>").startswith(("+", "|")):
        end += 1
    walls = [index for index, sign in enumerate(lines[start]) if sign == "+"]
    spans = [slice(left + 1, right) for left, right in pairwise(walls)]
    rules = [at for at in range(start, end) if _GRID.fullmatch(lines[at])]
    parts = [lines[above + 1 : below] for above, below in pairwise([*rules, end])]
    return start, end, [_cells(part, spans) for part in parts if part]


def _columns(lines: Sequence[str], ruler: int) -> tuple[int, int, _Rows]:
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


_MOST_TITLE_LINES = 20
_BLANK = re.compile(r"[ \t>]*")
_GRID = re.compile(r"[ \t>]{0,40}\+(?:[-=:]{2,}\+)+[ \t]*")
_LINE = re.compile(r"[ \t>]{0,40}-{8,}[ \t]*")
_COLUMNS = re.compile(r"[ \t>]{0,40}-{2,}(?: {1,3}-{2,})+[ \t]*")
_RULED = re.compile(r"^[ \t>]{0,40}(?:\+[-=:]{2,}[+-]|-{2,} {1,3}--)", re.MULTILINE)
