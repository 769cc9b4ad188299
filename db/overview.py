"""What there is, in rows: sources, fragments, errata and findings, and fragments together by operand or instruction."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from . import lookup
from .isa.instructions import INSTRUCTIONS, ROLES, choices, undecided
from .isa.names import Query
from .layout.fragment import Citation, Fragment
from .rows import Rows
from .store.reader import Reader
from .text import grouped

_FRAGMENT = (
    *("instruction", "shape", "type", "role", "major", "selector", "qualifiers", "source", "status"),
    *("threads", "registers", "register_bits", "slots", "slot_bits", "first_bit", "has_rows", "digest"),
)
_ERRATUM = ("source", "instruction", "shape", "type", "role", "section", "erratum", "evidence")
_ALIKE = ("instruction", "shape", "major", "registers", "slots", "status")


def _sources(reader: Reader, *queries: Query) -> Rows:
    every = lookup.sources(reader)
    if named := [query for query in queries if query.source is not None]:
        names = {fragment.source for fragment in lookup.fragments(reader, *named)}
        return Rows(every.columns, [row for row in every.rows if row[0] in names])
    return every


def _fragments(reader: Reader, *queries: Query) -> Rows:
    fields = attrgetter(*_FRAGMENT)
    fragments = lookup.fragments(reader, *queries)
    records = [(*fields(fragment), *fragment.citation, *fragment.dimensions) for fragment in fragments]
    return Rows((*_FRAGMENT, *Citation._fields, "rows", "cols"), records)


def _errata(reader: Reader, *queries: Query) -> Rows:
    records = [vars(fragment) | fragment.citation._asdict() for fragment in _in_order(reader, queries)]
    return Rows(_ERRATUM, [tuple(record[name] for name in _ERRATUM) for record in records if record["erratum"]])


def _operands(reader: Reader, *queries: Query) -> Rows:
    """One row for the roles, types and selectors that a section treats alike."""

    def alike(fragment: Fragment) -> tuple[Any, ...]:
        kind, apart = "CD" if fragment.role in "CD" else fragment.role, undecided(fragment.qualifiers)
        return kind, apart, *(getattr(fragment, name) for name in _ALIKE), fragment.citation.section

    rows = []
    for (_, _, instruction, shape, major, *rest), group in grouped(_in_order(reader, queries), alike).items():
        roles, types, selectors = (_distinct(group, name) for name in ("role", "type", "selector"))
        qualifiers = choices(fragment.qualifiers for fragment in group)
        rows.append((instruction, shape, roles, types, selectors, major, qualifiers, *rest))
    columns = "instruction shape roles types selectors major qualifiers regs slots status section"
    return Rows(tuple(columns.split()), rows)


def _instructions(reader: Reader, *queries: Query) -> Rows:
    rows = []
    groups = grouped(_in_order(reader, queries), lambda fragment: fragment.instruction)
    for name in dict.fromkeys((*(known for known in INSTRUCTIONS if known in groups), *groups)):
        group = groups[name]
        shapes, drawn = {fragment.shape for fragment in group}, sum(not fragment.has_rows for fragment in group)
        roles = " ".join(sorted({fragment.role for fragment in group}, key=ROLES.index))
        rows.append((name, roles, len(shapes), _distinct(group, "type"), len(group), drawn))
    return Rows(("instruction", "roles", "shapes", "types", "fragments", "without_rows"), rows)


def _in_order(reader: Reader, queries: Sequence[Query]) -> list[Fragment]:
    """The fragments that match, with block scales last."""
    return sorted(lookup.fragments(reader, *queries), key=lambda fragment: fragment.role.startswith("SF"))


def _distinct(group: Sequence[Fragment], name: str) -> str | None:
    values = dict.fromkeys(str(getattr(fragment, name)) for fragment in group if getattr(fragment, name) is not None)
    return " ".join(values) or None


#: The listings: functions of a reader, and of queries one of which a fragment must match.
LISTINGS: dict[str, Callable[..., Rows]] = {
    "sources": _sources,
    "fragments": _fragments,
    "findings": lookup.findings,
    "errata": _errata,
    "operands": _operands,
    "instructions": _instructions,
}
