"""What ``draw`` draws, and where it goes."""

from __future__ import annotations

import sys
from dataclasses import replace

from .. import __version__
from ..db import lookup
from ..db.fragment import Fragment
from ..db.lookup import Query
from ..db.picture import Picture, compose
from ..db.picture.view import View
from ..db.reader import Reader
from .output import binary_stdout


def draw(reader: Reader, query: Query, accumulator: str | None, diff: tuple[str, str] | None, view: View) -> Picture:
    """An operand, in two sources if there is a ``diff``; without a role, a whole instruction."""
    if diff:
        left, right = (_operand(reader, replace(query, source=name)) for name in diff)
        return compose.difference(left, right, view, _notes(reader, [left[0], right[0]]))
    if query.role is not None:
        fragments = _operand(reader, query)
        return compose.operand(fragments, view, _notes(reader, fragments))
    operands = lookup.operands(reader, query, accumulator)
    return compose.instruction(operands, view, _notes(reader, operands))


def write(picture: Picture, form: str | None, output: str) -> None:
    """Write a picture to a file, or to stdout for ``-``."""
    if output != "-":
        picture.save(output, form)
        return
    form = form or "svg"
    picture.write(form, sys.stdout.buffer if form == "svg" else binary_stdout(form))
    sys.stdout.buffer.flush()


def _operand(reader: Reader, query: Query) -> list[Fragment]:
    return lookup.with_rows(reader, lookup.one_operand(reader, query))


def _notes(reader: Reader, fragments: list[Fragment]) -> list[str]:
    """Which sources they come from, and what drew them."""
    titles = {record["name"]: record["title"] for record in lookup.sources(reader).records()}
    sources = dict.fromkeys(str(fragment.source) for fragment in fragments)
    return [*(f"{source}: {titles[source]}" for source in sources), f"Drawn by lanemap {__version__}"]
