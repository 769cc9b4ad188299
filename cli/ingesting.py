"""What ``ingest`` prints of documents: what was read, and out loud what was not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..db.reader import Rows
from ..ingest.document import Reading
from ..ingest.document.report import Kind, Remark
from .options import Format
from .output import table, write_rows

_COLUMNS = ("kind", "source", "section", "document", "line", "fragments", "rows", "text", "reason")


def report(readings: Sequence[Reading], *, slips: bool, form: Format) -> None:
    """Print what documents came to: for reading, or as one row per section and remark."""
    if form is not Format.TABLE:
        write_rows(Rows(_COLUMNS, [row for reading in readings for row in _rows(reading, slips=slips)]), form)
        return
    for reading in readings:
        sys.stdout.write(_words(reading, slips=slips))


def write_catalogue(readings: Sequence[Reading], folder: Path) -> None:
    """Write the files of the catalogue: into the folder, or where there are several sources into one for each."""
    for reading in readings:
        target = folder if len(readings) == 1 else folder / reading.source.name
        count = reading.write(target)
        sys.stderr.write(f"lanemap: {count} sections of {reading.source.name} in {target}\n")


def _words(reading: Reading, *, slips: bool) -> str:
    fragments = reading.source.fragments
    rows = sum(len(each.elements) for each in fragments if each.elements is not None)
    sections = [(place.name, count, elements, place.heading.title) for place, count, elements in reading.counts]
    lines = [f"{reading.source.name}: {len(sections)} sections, {len(fragments)} fragments, {rows} rows", ""]
    if sections:
        lines += table(Rows(("section", "fragments", "rows", "title"), sections)).splitlines()
        lines.append("")
    counted = Counter(remark.kind for remark in reading.remarks)
    shown = [remark for remark in reading.remarks if slips or remark.kind is not Kind.SLIP]
    lines += [_line(remark) for kind in Kind for remark in shown if remark.kind is kind]
    if counted[Kind.SLIP] and not slips:
        lines.append(f"{counted[Kind.SLIP]} slips and doubts in the text: --slips lists them")
    return "\n".join(lines).rstrip() + "\n"


def _line(remark: Remark) -> str:
    where = f"{remark.file}:{remark.line}"
    if remark.kind is Kind.LATER:
        return f"{remark.kind.value}: {remark.text} ({where})"
    return f"{remark.kind.value}: {remark.section} ({where}): {remark.reason}: {remark.text}"


def _rows(reading: Reading, *, slips: bool) -> list[tuple[Any, ...]]:
    name = reading.source.name
    rows: list[tuple[Any, ...]] = [
        ("section", name, place.name, place.file, place.heading.line, count, elements, place.heading.title, None)
        for place, count, elements in reading.counts
    ]
    return rows + [
        (each.kind.value, name, each.section, each.file, each.line, None, None, each.text, each.reason or None)
        for each in reading.remarks
        if slips or each.kind is not Kind.SLIP
    ]
