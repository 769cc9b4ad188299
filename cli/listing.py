"""What ``list`` lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..db import lookup
from ..db.errors import LanemapError
from ..db.fragment import Fragment
from ..db.lookup import DEFAULT_SOURCE, Query
from ..db.reader import Reader, Rows
from .options import What

_FRAGMENT = ("instruction", "shape", "roles", "types", "major", "selectors", "regs", "slots", "status", "section")
_SOURCE = ("name", "kind", "fragments", "without_rows", "findings", "title")
_ERRATUM = ("source", "instruction", "shape", "type", "role", "section", "erratum", "evidence")


def listing(reader: Reader, what: What, query: Query) -> Rows:
    """The rows to print: fragments and errata of the source that look-ups read, unless another is named."""
    if what is What.SOURCES:
        return _sources(reader, query)
    if what is What.FINDINGS:
        return lookup.findings(reader, query)
    fragments = lookup.fragments(
        reader, replace(query, source=DEFAULT_SOURCE if query.source is None else query.source)
    )
    if what is What.ERRATA:
        wrong = [fragment for fragment in fragments if fragment.erratum]
        return Rows(_ERRATUM, [tuple(getattr(fragment, name) for name in _ERRATUM) for fragment in wrong])
    return _alike(fragments)


def _sources(reader: Reader, query: Query) -> Rows:
    named = [name for name in ("instruction", "shape", "type", "role") if getattr(query, name) is not None]
    if named:
        raise LanemapError(f"--{named[0]} is not for sources: list fragments --{named[0]} says what a source has of it")
    there = None if query.source is None else {each.source for each in lookup.fragments(reader, query)}
    records = [each for each in lookup.sources(reader).records() if there is None or each["name"] in there]
    return Rows(_SOURCE, [tuple(record[name] for name in _SOURCE) for record in records])


def _alike(fragments: list[Fragment]) -> Rows:
    """One row for the roles, types and selectors that a section treats alike."""
    names = ("instruction", "shape", "major", "registers", "slots", "status", "section")
    groups: dict[tuple[Any, ...], list[Fragment]] = {}
    for fragment in fragments:
        kind = "CD" if fragment.role in "CD" else fragment.role
        groups.setdefault((kind, *(getattr(fragment, name) for name in names)), []).append(fragment)
    rows = []
    for (_, instruction, shape, major, *rest), group in groups.items():
        roles, types, selectors = (_distinct(group, name) for name in ("role", "type", "selector"))
        rows.append((instruction, shape, roles, types, major, selectors, *rest))
    return Rows(_FRAGMENT, rows)


def _distinct(group: list[Fragment], name: str) -> str | None:
    values = dict.fromkeys(str(getattr(fragment, name)) for fragment in group if getattr(fragment, name) is not None)
    return " ".join(values) or None
