"""Look-ups: which fragments there are, where an element sits, and what sits in a cell.

The statements run on SQLite and PostgreSQL alike. A filter that is None does not filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from hashlib import sha256
from typing import Any

from .candidates import accumulators, forms
from .errors import LanemapError, NoRowsError
from .fragment import Element, Fragment, Packed
from .instructions import Key, instruction
from .integrity import seal
from .names import DEFAULT_SOURCE as DEFAULT_SOURCE
from .names import Query as Query
from .names import naturally, operand, text, whole
from .reader import Reader, Rows, Value
from .spelling import type_name

#: The columns of the ``layout`` view and of every export, in this order.
COLUMNS = (
    *("shape", "type", "role", "lane", "reg", "slot", "row", "col"),
    *("col_last", "instruction", "major", "computation", "selector", "qualifiers", "source"),
)

_COL, _COL_LAST = Element._fields.index("col"), Element._fields.index("col_last")
_STORED = [field.name for field in fields(Fragment) if field.name != "elements"]

_LISTED = (
    *("instruction", "shape", "type", "role", "major", "selector", "qualifiers", "source", "status"),
    *("threads", "registers", "register_bits", "slots", "slot_bits", "has_rows", "digest"),
    *("section", "anchor", "same_as", "also", "figures", "formula", "mended", "erratum", "evidence", "origin"),
)

_SOURCES = """
SELECT source.name, source.kind, source.title, source.provenance,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id) AS fragments,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id AND mapping_id IS NULL) AS without_rows,
       (SELECT COUNT(*) FROM finding JOIN fragment ON fragment.id = fragment_id WHERE source_id = source.id) AS findings
FROM source ORDER BY source.id
"""

_MATCHING = """
FROM fragment JOIN source ON source.id = fragment.source_id LEFT JOIN mapping ON mapping.id = mapping_id
WHERE (CAST(:source AS TEXT) IS NULL OR LOWER(source.name) = LOWER(:source))
  AND (CAST(:instruction AS TEXT) IS NULL OR instruction = :instruction)
  AND (CAST(:shape AS TEXT) IS NULL OR shape = :shape)
  AND (CAST(:type AS TEXT) IS NULL OR type = :type)
  AND (CAST(:role AS TEXT) IS NULL OR role = :role)
  AND (CAST(:major AS TEXT) IS NULL OR major = :major)
  AND (CAST(:selector AS INTEGER) IS NULL OR selector = :selector)
  AND (CAST(:qualifiers AS TEXT) IS NULL OR LOWER(qualifiers) = :qualifiers)
"""
_FRAGMENTS = f"SELECT fragment.*, source.name AS source, digest {_MATCHING} ORDER BY fragment.id"

_FINDINGS = """
SELECT source.name AS source, instruction, shape, type, role, major, selector, qualifiers, section, words AS finding
FROM finding JOIN fragment ON fragment.id = fragment_id JOIN source ON source.id = source_id
ORDER BY finding.id
"""


def sources(reader: Reader) -> Rows:
    """Every source, with how many fragments it has, how many of them have no rows, and findings on it."""
    return reader.select(_SOURCES, {})


def by_trust(reader: Reader) -> list[str]:
    """The names of the sources: documents, then what was measured, then what was imported, each by name.

    Not by when they were loaded: loading what ships again must not change an answer.

    Raises:
        LanemapError: the database is damaged.
    """
    with reader.snapshot():
        reader.verify(rows=False)  # a look-up alone does not read what kind a source is
        kinds = {record["name"]: record["kind"] for record in sources(reader).records()}
    return sorted(kinds, key=lambda name: ({"document": 0, "capture": 1}.get(kinds[name], 2), name))


def digest(reader: Reader) -> bytes:
    """What the database holds, as a digest that is the same for everyone who reads it."""
    with reader.snapshot():
        # A source is never changed: another one takes its place, with a number that none had before.
        numbers = reader.select("SELECT id FROM source ORDER BY id", {}).rows
        built_from = reader.select("SELECT value FROM meta WHERE key = 'shipped'", {}).rows
        return sha256(repr([numbers, built_from, sources(reader).rows]).encode()).digest()


def findings(reader: Reader, *queries: Query) -> Rows:
    """What the structural checks found on the fragments that match. See ``fragments``."""
    with reader.snapshot():
        reader.verify(rows=False)
        there = {(record["source"], *_key(record)) for record in _found(reader, queries)}
        found = reader.select(_FINDINGS, {})
    named = 1 + len(Key._fields)
    return Rows(found.columns, [row for row in found.rows if row[:named] in there])


def fragments(reader: Reader, *queries: Query) -> list[Fragment]:
    """The fragments that match, in the order of their sources. Their elements are read when somebody asks for them.

    Of several queries they are those that match any.

    Raises:
        LanemapError: a query matches none; names which part of it is unknown, and what there is.
    """
    with reader.snapshot():
        return _lazy(reader, _found(reader, queries))


def listed(reader: Reader, query: Query) -> Rows:
    """The same as rows: what a source says of each fragment, without its elements.

    Raises:
        LanemapError: see ``fragments``.
    """
    found = [tuple(getattr(each, name) for name in _LISTED) + each.dimensions for each in fragments(reader, query)]
    return Rows((*_LISTED, "rows", "cols"), found)


def read_fragments(reader: Reader, *queries: Query) -> list[Fragment]:
    """The same, with the elements of all of them read in one statement.

    Raises:
        LanemapError: see ``fragments``.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        records = _found(reader, queries)
        packed = reader.packed({record["mapping_id"] for record in records} - {None})
        return [_fragment(record, partial(packed.__getitem__, record["mapping_id"])) for record in records]


def _found(reader: Reader, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """What is stored of the fragments that match any of the queries, each of which must match some."""
    found: dict[int, dict[str, Any]] = {}
    for query in queries:
        if not (records := _records(reader, query)):
            if query.name.type and query.role is None:
                forms(query.name)
            from .missing import no_fragment

            every = reader.select(_FRAGMENTS, dict.fromkeys(query.parameters())).records()
            raise LanemapError(no_fragment(query, every, partial(by_trust, reader)))
        found |= {record["id"]: record for record in records}
    return [found[number] for number in sorted(found)]


def _lazy(reader: Reader, records: Sequence[Mapping[str, Any]]) -> list[Fragment]:
    """Fragments whose elements are read when somebody asks for them. The database need not be verified."""
    if any(record["seal"] != seal(record) for record in records):
        raise reader.damaged("what is said of a fragment")

    def read(mapping: int) -> bytes:
        return reader.packed([mapping])[mapping]

    return [_fragment(record, partial(read, record["mapping_id"])) for record in records]


def _records(reader: Reader, query: Query) -> list[dict[str, Any]]:
    """What is stored of the fragments that match, C and D by the type of A where they have no such type themselves."""
    for each in filter(None, (query, query.of_accumulator())):
        records = reader.select(_FRAGMENTS, _stored(each.parameters())).records()
        if found := [record for record in records if each.includes(_key(record))]:
            return found
    return []


def _key(record: Mapping[str, Any]) -> Key:
    return Key(*(record[name] for name in Key._fields))


def _fragment(record: Mapping[str, Any], read: Callable[[], bytes]) -> Fragment:
    elements = None if record["mapping_id"] is None else Packed(record["digest"], read)
    return Fragment(elements=elements, **{name: record[name] for name in _STORED})  # type: ignore[arg-type]


def one_operand(reader: Reader, query: Query) -> list[Fragment]:
    """The fragments of one operand: the dense instruction's where no instruction is named and there is one.

    Where the default source has no rows of them, they are those of the first other source ``by_trust`` that has;
    ``remarks`` says so. More than one where a layout qualifier (m8n8k4 with f16) or the sparsity selector (E) tells
    them apart.

    Raises:
        LanemapError: see ``fragments``.
    """
    if query.parameters()["role"] is None:
        there = densest(fragments(reader, replace(query, source=None)))
        axes = [*instruction(there[0].instruction).axes]
        roles = sorted({each.role for each in there}, key=lambda role: (axes.index(role) if role in axes else -1, role))
        raise LanemapError(f"say which role of {query.name}: {', '.join(roles)}")
    found = densest(_lazy(reader, _records(reader, query)))
    if str(query.source).lower() == DEFAULT_SOURCE and not any(each.has_rows for each in found):
        everywhere = densest(_lazy(reader, _records(reader, replace(query, source=None))))
        having = {each.source for each in everywhere if each.has_rows}
        first = next((name for name in by_trust(reader) if name in having), None)
        found = [each for each in everywhere if each.source == first] if first else found
        query = query if found else replace(query, source=None)
    return found or fragments(reader, query)


def one_fragment(reader: Reader, query: Query) -> Fragment:
    """The one fragment of an operand.

    Raises:
        LanemapError: there are several; says what tells them apart. Or see ``one_operand``.
    """
    found = one_operand(reader, query)
    expect_one(query, found, "source", "major", "selector", "qualifiers")
    return found[0]


def expect_one(query: Query, found: Iterable[object], *attributes: str) -> None:
    """Refuse to choose for whoever asks: what a query names must be alike in these attributes.

    Raises:
        LanemapError: one of them has several values; lists them.
    """
    found = list(found)
    for attribute in attributes:
        values = dict.fromkeys(str(getattr(each, attribute)) for each in found)
        if len(values) > 1:
            from .missing import shortened

            name = " of ".join(filter(None, (query.parameters()["role"], str(query.name))))
            called = {"qualifiers": "qualifiers", "a": "types of A"}.get(attribute, f"{attribute}s")
            raise LanemapError(f"{name} has the {called} {shortened([*values])}: name one")


def densest(found: Sequence[Fragment]) -> list[Fragment]:
    """Those of one instruction: of a sparse one only where all are."""
    names = sorted({each.instruction for each in found}, key=lambda name: (instruction(name).sparse, name))
    return [each for each in found if each.instruction == names[0]]


def of_dense(reader: Reader, query: Query) -> Query:
    """The query for the one instruction that look-ups take it for: a sparse one only where all are.

    Raises:
        LanemapError: see ``fragments``.
    """
    return replace(query, instruction=densest(fragments(reader, query))[0].instruction)


def remarks(query: Query, found: Sequence[Fragment]) -> list[str]:
    """How what ``one_operand`` found differs from what was asked for, in sentences."""
    asked, first = query.parameters(), found[0]
    what = f"{first.role} of {first.instruction} {first.shape}"
    lines = []
    if asked["type"] not in (None, first.type):
        there = accumulators(first.instruction, first.shape, asked["type"]) if first.role in "CD" else ()
        others = [each for each in there if each != first.type]
        choice = f"; it may be {' or '.join(others)}" if others else ""
        types = " or ".join(dict.fromkeys(each.type for each in found))
        lines.append(f"{what} {asked['type']} has the type {types}{choice}")
    if asked["instruction"] is None and instruction(first.instruction).sparse:
        lines.append(f"{what} {first.type}: only {first.instruction} has this operand")
    if first.role == "A" and first.instruction in ("wgmma", "wgmma.sp") and query.from_memory:
        lines.append(f"the atom takes A from shared memory: {what} is that of the atom that ends in _RS")
    if first.instruction == "wmma":
        lines.append(f"PTX leaves the layouts of wmma open: those of {first.source} hold for its architecture alone")
    if asked["source"] and asked["source"].lower() != str(first.source).lower():
        lines.append(f"{asked['source']} has no rows for {first}: these are from {first.source}")
    return lines


def operand_with_rows(reader: Reader, query: Query) -> list[Fragment]:
    """The fragments of ``one_operand`` that have elements.

    Raises:
        LanemapError: see ``fragments`` and ``with_rows``.
    """
    return with_rows(reader, one_operand(reader, query))


def with_rows(reader: Reader, found: Sequence[Fragment]) -> list[Fragment]:
    """Those fragments that have elements.

    Raises:
        LanemapError: none has; says what the source has instead, and which other source has rows.
        NoRowsError: no other source has any, either.
    """
    if rows := [each for each in found if each.has_rows]:
        return rows
    first = found[0]
    others = fragments(reader, Query(first.shape, first.type, first.role, first.instruction))
    keys = {each.key for each in found}
    having = {str(other.source) for other in others if other.has_rows and other.key in keys}
    names = [name for name in by_trust(reader) if name in having]
    figures = [each.split()[0] for each in (first.figures or "").split(", ") if each]
    drawn = f", figure{'s' * (len(figures) > 1)} {', '.join(figures)}" if figures else ""
    why = f"{first}: {first.status}{drawn}"
    if not names:
        raise NoRowsError(f"no source has rows for {why}", first.key)
    raise LanemapError(f"{first.source} has no rows for {why}: ask the source {names[0]}", "source")


def operands(reader: Reader, query: Query, accumulator: str | None = None) -> list[Fragment]:
    """One fragment of each operand of an instruction: of two majors the row of A and the column of B.

    What the source only draws, and metadata that it does not know, are those of another source.

    Args:
        reader: where to look.
        query: an instruction by one name, or a shape and the type of A.
        accumulator: the type of C and D. Default: the most exact that the instruction has.

    Raises:
        LanemapError: no source has rows for an operand, the query names several sources, or the instruction has no
            such accumulator.
    """
    a = operand_with_rows(reader, replace(query, role="A", selector=None))
    expect_one(query, a, "source")
    result = _accumulator(a[0], accumulator or query.name.types.get("D"))
    named = replace(query, instruction=a[0].instruction, major=None, source=None)
    order = [str(a[0].source), DEFAULT_SOURCE, *by_trust(reader)]

    def only(role: str) -> Fragment:
        major = query.major or query.name.layout_of(role) or {"A": "row", "B": "col"}.get(role)
        selector = query.selector if role == "E" else None
        result_of = Query(a[0].shape, result, role, a[0].instruction)
        asked = result_of if role in "CD" else replace(named, role=role, selector=selector)
        found = a if role == "A" else fragments(reader, asked)
        known = [each for each in found if each.has_rows]
        known.sort(key=lambda each: (order.index(str(each.source)), each.major != major))
        return known[0] if known else with_rows(reader, found)[0]

    return [only(role) for role in instruction(a[0].instruction).axes if not role.startswith("SF")]


def _accumulator(a: Fragment, asked: str | None) -> str:
    known = accumulators(a.instruction, a.shape, a.type)
    wanted = next(iter(known), "") if asked is None else type_name(text("accumulator", asked))[0]
    if wanted not in known:
        name = f"{a.instruction} {a.shape} {a.type}"
        raise LanemapError(f"no accumulator {asked or 'is known'} for {name}: there is {', '.join(known) or 'none'}")
    return wanted


def following(reader: Reader, words: Sequence[str]) -> list[str]:
    """The words that may follow those of a request: shapes of the instruction, types of the shape, roles of the type.

    Raises:
        LanemapError: nothing matches the words so far.
    """
    query = Query(words[0], words[1]) if len(words) == 2 else operand(words)
    asked = query.parameters()
    if asked["role"] is not None:
        return []
    found = fragments(reader, query)
    if asked["shape"] is None:
        return sorted({each.shape for each in found}, key=naturally)
    if not query.name.type and not query.name.types:
        return sorted({each.type for each in found})
    results = accumulators(asked["instruction"], asked["shape"], asked["type"] or "")
    axes = {role for each in found for role in instruction(each.instruction).axes if results}
    return sorted({each.role for each in found} | axes & {"C", "D"})


def elements(fragment: Fragment, **where: int | None) -> list[Element]:
    """The elements of a fragment at the given lane, reg, slot, row, col or computation, by lane, reg and slot.

    A column matches every element that can stand for it.

    Raises:
        LanemapError: a coordinate is outside the fragment; names its range.
    """
    asked = {name: number for name, value in where.items() if (number := whole(name, value)) is not None}
    ranges = fragment.ranges if asked else {}
    for name, value in asked.items():
        if value not in (known := ranges[name]):
            goes = f"it goes from {known[0]} to {known[-1]}" if len(known) > 1 else f"there is only {known[0]}"
            raise LanemapError(f"{name} {value} is outside {fragment}: {goes}")
    found = fragment.tuples()
    if (col := asked.pop("col", None)) is not None:
        found = [each for each in found if each[_COL] <= col <= each[_COL_LAST]]
    for name, value in asked.items():
        place = Element._fields.index(name)
        found = [each for each in found if each[place] == value]
    return list(map(Element._make, found))


def find(reader: Reader, query: Query, **where: int | None) -> Rows:
    """The elements of one operand at the given coordinates, with the columns of ``layout``.

    Raises:
        LanemapError: no such fragment, a coordinate outside it, or a fragment without rows.
    """
    with reader.snapshot():
        return rows(operand_with_rows(reader, query), **where)


def rows(found: Iterable[Fragment], **where: int | None) -> Rows:
    """The elements of fragments at the given coordinates, with the columns of ``layout``.

    Raises:
        LanemapError: a coordinate is outside all of them.
    """
    records, outside = [], []
    found = list(found)
    for each in found:
        names = {name: getattr(each, name) for name in COLUMNS if name not in Element._fields}
        try:
            records += [names | element._asdict() for element in elements(each, **where)]
        except LanemapError as error:
            outside.append(error)
    if outside and len(outside) == len(found):
        raise outside[0]
    return Rows(COLUMNS, [tuple(record[name] for name in COLUMNS) for record in records])


#: No selector is so far from 0. What a database cannot hold is not in it.
_FAR = 1 << 15


def _stored(asked: dict[str, Value]) -> dict[str, Value]:
    """What was asked, in values that every database takes and that match no more than it would."""
    return {
        name: max(-_FAR, min(value, _FAR)) if isinstance(value, int) else value and _printable(value)
        for name, value in asked.items()
    }


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
