"""Look-ups: which fragments there are, where an element sits, and what sits in a cell.

The statements run on SQLite and PostgreSQL alike. A filter that is None does not filter.
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, lru_cache, partial
from typing import Any, Self, TypedDict

from .errors import AbsentError, LanemapError, NoRowsError, OutsideError
from .isa.instructions import INSTRUCTIONS, Key, instruction
from .isa.listing import naturally
from .isa.names import DEFAULT_SOURCE, Which, accumulators, text, whole
from .isa.names import Query as Query
from .isa.types import plain, same_name, type_name
from .layout.fragment import Citation, Element, Fragment, Packed, merge
from .store.integrity import expected_of_shapes, seal, seals_of_shapes
from .store.reader import COLUMNS as COLUMNS
from .store.reader import Reader, Rows, Tabular


class Place(TypedDict, total=False):
    """Coordinates of elements, from 0, of which any may be open.

    ``row`` and ``col`` are those of the operand's matrix, ``slot`` counts the elements in a register, low bits first,
    and ``computation``, from 1, several products or matrices: in m8n8k4 with f16 a warp does four.
    """

    row: int | None
    col: int | None
    lane: int | None
    reg: int | None
    slot: int | None
    computation: int | None


class Where(Place, Which):
    """The same, and what tells operands apart; see ``Which``."""


_Read = Callable[[Reader, Sequence[Mapping[str, Any]]], list[Fragment]]

_OWN = [field.name for field in fields(Fragment) if field.name not in ("elements", "citation")]

_SOURCES = """
SELECT source.name, source.kind, source.title, source.provenance,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id) AS fragments,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id AND mapping_id IS NULL) AS without_rows,
       (SELECT COUNT(*) FROM finding JOIN fragment ON fragment.id = fragment_id WHERE source_id = source.id) AS findings
FROM source ORDER BY source.id
"""

_FRAGMENTS = """
SELECT fragment.*, source.name AS source, digest
FROM fragment LEFT JOIN source ON source.id = source_id LEFT JOIN mapping ON mapping.id = mapping_id
WHERE CAST(:shape AS TEXT) IS NULL OR shape = :shape ORDER BY fragment.id
"""


_NAMES = """
SELECT DISTINCT instruction, shape, type, role FROM fragment
WHERE (CAST(:shape AS TEXT) IS NULL OR shape = LOWER(:shape))
  AND (CAST(:role AS TEXT) IS NULL OR role = :role AND mapping_id IS NOT NULL)
"""


def names(reader: Reader, column: str, shape: str | None = None, role: str | None = None) -> list[str]:
    """The values of a column of fragments, of all or of a shape and role with elements, or the names of the sources."""
    if column == "source":
        return [record["name"] for record in sources(reader).records()]
    return sorted({record[column] for record in reader.select(_NAMES, {"shape": shape, "role": role}).records()})


def sources(reader: Reader) -> Rows:
    """Every source, with how many fragments it has, how many of them have no rows, and findings on it.

    Raises:
        DamagedError: what the database says of a source is not what was written.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        return reader.select(_SOURCES, {})


def by_trust(reader: Reader, *named: str) -> list[str]:
    """The names of the sources in the order in which look-ups use them.

    The ``named`` ones come first, then the default source, documents, captures and imports; in each kind shipped ones
    before the user's own, and then by name. The order does not depend on when they were loaded: reloading the shipped
    ones must not change an answer.

    Raises:
        DamagedError: see ``sources``.
    """
    wanted, shipped = [*map(str.lower, named)], reader.shipped()

    def order(record: Mapping[str, Any]) -> tuple[Any, ...]:
        name, kind = record["name"], {"document": 0, "capture": 1}.get(record["kind"], 2)
        return name.lower() not in wanted, name != DEFAULT_SOURCE, kind, name not in shipped, name

    return [record["name"] for record in sorted(sources(reader).records(), key=order)]


def best(candidates: Iterable[Fragment], order: Sequence[str]) -> dict[Key, Fragment]:
    """For each key the fragment of the first source in ``order`` that has rows, or if none has, of the first one."""
    ranked = sorted(candidates, key=lambda fragment: (not fragment.has_rows, order.index(str(fragment.source))))
    return {fragment.key: fragment for fragment in merge(ranked)[0]}


def _first(reader: Reader, having: Container[str | None]) -> str | None:
    """The most trusted of some sources."""
    return next(filter(having.__contains__, by_trust(reader)), None)


def findings(reader: Reader, *queries: Query) -> Rows:
    """What the structural checks found on the fragments that match. See ``fragments``."""
    with reader.snapshot():
        reader.verify(rows=False)
        by_id = {record["id"]: record for record in _found(reader, queries)}
        rows = reader.select("SELECT fragment_id, words FROM finding ORDER BY id", {}).rows
    pairs = [(_fragment(by_id[number], bytes), words) for number, words in rows if number in by_id]
    records = [(fragment.source, *fragment.key, fragment.citation.section, words) for fragment, words in pairs]
    return Rows(("source", *Key._fields, "section", "finding"), records)


def fragments(reader: Reader, *queries: Query) -> list[Fragment]:
    """The fragments that match any of the queries, in the order of their sources. Elements are read on demand.

    Raises:
        LanemapError: a query matches none; the message names the unknown part, and what there is.
    """
    with reader.snapshot():
        return _lazy(reader, _found(reader, queries))


def read_fragments(reader: Reader, *queries: Query) -> list[Fragment]:
    """The same, with the elements of all of them read in one statement.

    Raises:
        LanemapError: see ``fragments``.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        return _read(reader, _found(reader, queries))


def best_fragments(reader: Reader, *queries: Query) -> list[Fragment]:
    """The fragments with elements that match, or without any if no source has them; see ``_evidence``.

    Raises:
        LanemapError: a query matches none, see ``fragments``, or no source has rows, see ``with_rows``.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        found = [
            fragment
            for query in queries
            for fragment in _evidence(reader, query, _read(reader, _records(reader, query)), _read)
        ]
        matching = [*{(fragment.key, fragment.source): fragment for fragment in found}.values()]
        return matching if any(fragment.has_rows for fragment in matching) else with_rows(reader, matching)


def _evidence(reader: Reader, query: Query, own: list[Fragment], read: _Read) -> list[Fragment]:
    """The fragments of a query: its ``own``, unless the default source only draws some of these, or knows none.

    Then each is of the most trusted source that has rows of it, or if none has, of the most trusted one.
    """
    if not _is_default(query) or (own and all(fragment.has_rows for fragment in own)):
        return own or fragments(reader, query)
    every = read(reader, _found(reader, [replace(query, source=None)]))
    chosen = best(every, by_trust(reader))
    return [chosen[key] for key in dict.fromkeys(fragment.key for fragment in own or prefer_dense(every))]


def every_operand(reader: Reader, *queries: Query) -> list[Fragment]:
    """The fragments with elements that match, each key once.

    Each is of the source of its query, or if that has no rows, of the most trusted one that has.

    Raises:
        LanemapError: no source has them.
    """
    order = by_trust(reader, *(query.source for query in queries if query.source))
    every = read_fragments(reader, *(replace(query, source=None) for query in queries))
    return [fragment for fragment in best(every, order).values() if fragment.has_rows]


def _is_default(query: Query) -> bool:
    return str(query.source).lower() == DEFAULT_SOURCE


def _found(reader: Reader, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """The records of the fragments that match any of the queries, each of which must match some."""
    by_id: dict[int, dict[str, Any]] = {}
    for query in queries:
        records = _records(reader, query)
        if not records and _is_default(query):  # which is the document of one vendor
            records = _records(reader, replace(query, source=None))
        if not records:
            from .isa.not_found import no_fragment

            every = _whole(reader, None)
            first_of = partial(_first, reader)
            raise AbsentError(no_fragment(query.parameters(), query.tokens, query.title, every, first_of))
        by_id |= {record["id"]: record for record in records}
    return [by_id[number] for number in sorted(by_id)]


def _lazy(reader: Reader, records: Sequence[Mapping[str, Any]]) -> list[Fragment]:
    """Fragments whose elements are read on demand."""

    @cache
    def read(mapping: int) -> bytes:
        return reader.packed([mapping])[mapping]

    return [_fragment(record, partial(read, record["mapping_id"])) for record in records]


def _read(reader: Reader, records: Sequence[Mapping[str, Any]]) -> list[Fragment]:
    """Fragments whose elements are read in one statement."""
    packed = reader.packed({record["mapping_id"] for record in records} - {None})
    return [_fragment(record, partial(packed.__getitem__, record["mapping_id"])) for record in records]


def _whole(reader: Reader, shape: str | None) -> list[dict[str, Any]]:
    """The records of all fragments, or of those of a shape, for which the database need not be verified.

    Raises:
        DamagedError: something in them has changed or is missing.
    """
    # Characters that a database cannot hold match nothing.
    printable = shape and "".join(letter if letter.isprintable() else "\ufffd" for letter in shape)
    with reader.snapshot():
        if shape is None:
            reader.verify(rows=False)
        records = reader.select(_FRAGMENTS, {"shape": printable}).records()
        if shape is None:
            return records
        meta = dict(reader.select("SELECT key, value FROM meta", {}).rows)
    seals = seals_of_shapes((record["shape"], record["seal"]) for record in records)
    try:
        written = expected_of_shapes(meta)
        expected = seals if written is None else {name: own for name, own in written.items() if name == shape}
    except (TypeError, ValueError, AttributeError):
        raise reader.damaged("the shape of a fragment") from None
    if seals != expected or any(record["seal"] != seal(record) for record in records):
        raise reader.damaged("the record of a fragment")
    return records


def _records(reader: Reader, query: Query) -> list[dict[str, Any]]:
    """The records of the fragments that match; C and D match by the type of A if they have no such type themselves."""
    parameters = query.parameters()
    every = [record for record in _whole(reader, parameters["shape"]) if _is(record, source=parameters["source"])]
    for candidate in filter(None, (query, query.of_accumulator())):
        if matching := [record for record in every if candidate.matches(Key._make(map(record.get, Key._fields)))]:
            return matching
    if parameters["instruction"] in INSTRUCTIONS or not (type_ := query.type or parameters["type"]):
        return []
    unknown = [record for record in every if record["instruction"] not in INSTRUCTIONS]
    asked = {**query.asked, "type": plain(type_)}  # their types have one name
    if (matching := [record for record in unknown if _is(record, **asked)]) or parameters["role"] not in ("C", "D"):
        return matching
    of_a = {(record["instruction"], record["shape"]) for record in unknown if _is(record, **{**asked, "role": "A"})}
    matching = [record for record in unknown if _is(record, **{**asked, "type": None})]
    matching = [record for record in matching if (record["instruction"], record["shape"]) in of_a]
    return matching if len({record["type"] for record in matching}) == 1 else []


def _is(record: Mapping[str, Any], **wanted: Any) -> bool:
    """Whether a record has these values; None is any."""
    return all(value is None or same_name(record[name], value) for name, value in wanted.items())


def _fragment(record: Mapping[str, Any], read: Callable[[], bytes]) -> Fragment:
    elements = None if record["mapping_id"] is None else Packed(record["digest"], read)
    fields = {name: record[name] for name in _OWN}
    return Fragment(elements=elements, citation=_citation(record["citation"]), **fields)  # type: ignore[arg-type]


@lru_cache(256)  # few differ, of thousands
def _citation(written: str) -> Citation:
    return Citation(**json.loads(written))


class Fragments(list[Fragment], Tabular):
    """The fragments of one operand as look-ups show them, and the ``query`` for it."""

    def __init__(self, query: Query, listed: Iterable[Fragment]) -> None:
        super().__init__(listed)
        self.query = query

    @property
    def remarks(self) -> list[str]:
        """How they differ from the request, in sentences."""
        parameters, first = self.query.parameters(), self[0]
        subject = f"{first.role} of {first.instruction} {first.shape}"
        lines = []
        row = instruction(first.instruction)
        if parameters["type"] not in (None, first.type) and row.known:
            results = accumulators(first.instruction, first.shape, parameters["type"]) if first.role in "CD" else ()
            others = [type_ for type_ in results if type_ != first.type]
            choice = f"; it may be {' or '.join(others)}" if others else ""
            types = " or ".join(dict.fromkeys(fragment.type for fragment in self))
            lines.append(f"{subject} {parameters['type']} has the type {types}{choice}")
        if parameters["instruction"] is None and row.sparse:
            lines.append(f"{subject} {first.type}: only {first.instruction} has this operand")
        if first.role == "A" and "B" in row.absent and self.query.from_memory:
            lines.append(f"the atom takes A from shared memory: {subject} is that of the atom that ends in _RS")
        if row.per_architecture:
            lines.append(
                f"PTX leaves the layouts of {row.name} open: those of {first.source} hold for its architecture alone"
            )
        if parameters["source"] and first.stands_in(parameters["source"]):
            where = f" ({first.citation.origin})" if first.citation.origin else ""
            evidence = ", neither documented nor measured" if first.status == "imported" else ""
            lacking = f"{parameters['source']} has no rows for {first}"
            lines.append(f"{lacking}: these are from {first.source}{where}{evidence}")
        return lines

    def expect_one(self, *attributes: str) -> Self:
        """The same fragments, after the check of the function of this name."""
        expect_one(self.query, self, *attributes)
        return self

    def rows(self, **where: int | None) -> Rows:
        """The elements at the given coordinates, with the columns of ``layout``, by lane, reg and slot.

        A column matches every element that can stand for it.

        Raises:
            OutsideError: a coordinate is outside all of them; names its range.
        """
        coordinates = {name: number for name, value in where.items() if (number := whole(name, value)) is not None}
        records, outside = [], []
        for fragment in self:
            ranges = fragment.ranges if coordinates else {}
            if wrong := [name for name, value in coordinates.items() if value not in ranges[name]]:
                outside.append(OutsideError(wrong[0], coordinates[wrong[0]], ranges[wrong[0]], fragment))
                continue
            elements = fragment.tuples()
            for name, value in coordinates.items():
                first, last = (Element._fields.index(field) for field in (name, "col_last" if name == "col" else name))
                elements = [element for element in elements if element[first] <= value <= element[last]]
            columns = {name: getattr(fragment, name, None) for name in COLUMNS}
            records += [tuple((columns | Element._make(element)._asdict()).values()) for element in elements]
        if outside and len(outside) == len(self):
            raise outside[0]
        return Rows(COLUMNS, records)


def one_operand(reader: Reader, query: Query) -> Fragments:
    """The fragments of one operand: if no instruction is named, those of the dense one, if there is one.

    If the default source has no rows of them, they are those of the most trusted other source that has, as ``remarks``
    say. There are several if a layout qualifier (m8n8k4 with f16) or the sparsity selector (E) tells them apart.

    Raises:
        LanemapError: see ``fragments``.
    """
    if query.parameters()["role"] is None:
        named = prefer_dense(fragments(reader, replace(query, source=None)))
        held = {fragment.role for fragment in named}
        roles = [role for role in instruction(named[0].instruction).axes if role in held]
        raise LanemapError(f"say which role of {query.title}: {', '.join(roles)}")
    own = prefer_dense(_lazy(reader, _records(reader, query)))
    return Fragments(query, prefer_dense(_evidence(reader, query, own, _lazy)))


def expect_one(query: Query, named: Iterable[object], *attributes: str) -> None:
    """Refuse to choose for the user: what a query names must be alike in these attributes.

    Raises:
        LanemapError: one of them has several values; lists them.
    """
    named = list(named)
    for attribute in attributes:
        values = dict.fromkeys(str(getattr(item, attribute)) for item in named)
        if len(values) > 1:
            from .isa.listing import shortened

            name = " of ".join(filter(None, (query.parameters()["role"], query.title)))
            called = {"qualifiers": "qualifiers", "a": "types of A"}.get(attribute, f"{attribute}s")
            raise LanemapError(f"{name} has the {called} {shortened([*values])}: name one")


def prefer_dense(candidates: Sequence[Fragment]) -> list[Fragment]:
    """The fragments of one instruction, of a sparse one only if all are sparse."""
    names = sorted({fragment.instruction for fragment in candidates}, key=lambda name: (instruction(name).sparse, name))
    return [fragment for fragment in candidates if fragment.instruction == names[0]]


def operand_with_rows(reader: Reader, query: Query, *alike: str) -> Fragments:
    """The fragments of ``one_operand`` that have elements, all alike in some attributes.

    Raises:
        LanemapError: see ``fragments``, ``with_rows`` and ``expect_one``.
    """
    return Fragments(query, with_rows(reader, one_operand(reader, query))).expect_one(*alike)


def with_rows(reader: Reader, candidates: Sequence[Fragment]) -> list[Fragment]:
    """The fragments that have elements.

    Raises:
        LanemapError: none has; the message says what the source has instead, and which other source has rows.
        NoRowsError: no other source has any, either.
    """
    if rows := [fragment for fragment in candidates if fragment.has_rows]:
        return rows
    first = candidates[0]
    others = fragments(reader, Query(first.shape, first.type, first.role, first.instruction))
    keys = {fragment.key for fragment in candidates}
    better = _first(reader, {fragment.source for fragment in others if fragment.has_rows and fragment.key in keys})
    figures = [figure.split()[0] for figure in (first.citation.figures or "").split(", ") if figure]
    drawn = f", figure{'s' * (len(figures) > 1)} {', '.join(figures)}" if figures else ""
    why = f"{first}: {first.status}{drawn}"
    if better is None:
        raise NoRowsError(f"no source has rows for {why}", first.key)
    raise LanemapError(f"{first.source} has no rows for {why}: ask the source {better}", "source")


def operands(reader: Reader, query: Query, accumulator: str | None = None) -> list[Fragment]:
    """One fragment for each operand of an instruction: of two majors, row for A and column for B.

    Fragments that the source only draws, and metadata that it lacks, come from another source.

    Args:
        reader: where to look.
        query: an instruction by one name, or a shape and the type of A.
        accumulator: the type of C and D. Default: the most exact that the instruction has.

    Raises:
        LanemapError: no source has rows for an operand, the query names several sources, or the instruction has no
            such accumulator.
    """
    a = operand_with_rows(reader, replace(query, role="A", selector=None)).expect_one("source")
    first, row = a[0], instruction(a[0].instruction)
    named = replace(query, instruction=first.instruction, major=None, source=None)
    roles = [role for role in row.axes if not role.startswith("SF")]
    types: Sequence[str] = accumulators(first.instruction, first.shape, first.type)
    if not row.known:
        every = fragments(reader, Query(first.shape, instruction=first.instruction))
        roles = [role for role in roles if role in {fragment.role for fragment in every}]
        types = [*dict.fromkeys(fragment.type for fragment in every if fragment.role == "D")]
    requested = accumulator or query.type_named("D")
    result = next(iter(types), "") if requested is None else type_name(text("accumulator", requested))[0]
    if result not in types:
        name = f"{first.instruction} {first.shape} {first.type}"
        lacking = f"no accumulator {requested or 'is known'} for {name}"
        raise LanemapError(f"{lacking}: there is {', '.join(types) or 'none'}")

    def only(role: str) -> Fragment:
        major = query.major or query.layout_of(role) or {"A": "row", "B": "col"}.get(role)
        selector = query.selector if role == "E" else None
        result_of = Query(first.shape, result, role, first.instruction)
        whose = result_of if role in "CD" else replace(named, role=role, selector=selector)
        every = a if role == "A" else every_operand(reader, replace(whose, source=str(first.source)))
        return min(every or with_rows(reader, fragments(reader, whose)), key=lambda fragment: fragment.major != major)

    return [only(role) for role in roles]


def following(reader: Reader, words: Sequence[str]) -> list[str]:
    """The words that may follow those of a request: shapes of the instruction, types of the shape, roles of the type.

    Raises:
        LanemapError: nothing matches the words so far.
    """
    query = Query(words[0], words[1]) if len(words) == 2 else Query.parse(words)
    parameters = query.parameters()
    if parameters["role"] is not None:
        return []
    matching = fragments(reader, query)
    if parameters["shape"] is None:
        return sorted({fragment.shape for fragment in matching}, key=naturally)
    if not query.token("type") and not query.spells_types:
        return sorted({fragment.type for fragment in matching})
    results = accumulators(parameters["instruction"], parameters["shape"], parameters["type"] or "")
    axes = {role for fragment in matching for role in instruction(fragment.instruction).axes if results}
    return sorted({fragment.role for fragment in matching} | axes & {"C", "D"})
