"""Look-ups: which fragments there are, where an element sits, and what sits in a cell.

The statements run on SQLite and PostgreSQL alike. A filter that is None does not filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict, cast

from .errors import AbsentError, LanemapError, NoRowsError, OutsideError
from .isa.arguments import text, whole
from .isa.instructions import INSTRUCTIONS, WORD, Key, instruction
from .isa.names import DEFAULT_SOURCE, Which, accumulators
from .isa.names import Query as Query
from .isa.tiling import Tiling
from .isa.types import plain, same_name, type_name
from .isa.vendors import VENDORS
from .layout.fragment import IMPOSSIBLE, PLACE, Citation, Element, Fragment, Source
from .layout.tile import in_tile, of_threads, threads_at, tiled
from .rows import Rows, Tabular
from .store.integrity import OWN, SEALED, SHAPES, seal, seals_of_shapes
from .store.reader import COLUMNS as COLUMNS
from .store.reader import Reader
from .text import brief, either, grouped, naturally

if TYPE_CHECKING:
    import pandas as pd


class Place(TypedDict, total=False):
    """Coordinates of elements, from 0, of which any may be open.

    ``row`` and ``col`` are those of the operand's matrix, ``slot`` counts the elements in a register, low bits first,
    and ``computation``, from 1, several products or matrices: in m8n8k4 with f16 a warp does four. In a tile ``lane``
    counts the threads of each warp, ``warp`` the warps, and ``thread`` the threads of all of them.
    """

    row: int | None
    col: int | None
    lane: int | None
    reg: int | None
    slot: int | None
    computation: int | None
    thread: int | None
    warp: int | None


class Where(Place, Which):
    """The same, and what tells operands apart; see ``Which``."""


#: The name of a source that corrects another one ends with this.
ERRATA = "+errata"

#: The number of a fragment in the database, and the place of a member in its family.
_Number = tuple[int, int]

#: The columns of a record that a Fragment has unchanged, and where the citation stands in a record.
_OWN = [name for name in (*OWN, "source") if name in {field.name for field in fields(Fragment)}]
_own, _CITATION = itemgetter(*map(SEALED.index, _OWN)), SEALED.index("citation")

_SOURCES = """
SELECT source.name, source.kind, source.title, source.provenance,
       COALESCE(fragments, 0) AS fragments, COALESCE(without_rows, 0) AS without_rows,
       (SELECT COUNT(*) FROM finding JOIN fragment ON fragment.id = fragment_id WHERE source_id = source.id) AS findings
FROM source LEFT JOIN (
    SELECT source_id, COUNT(*) AS fragments, SUM(CASE WHEN named.mapping_id IS NULL THEN 1 ELSE 0 END) AS without_rows
    FROM named JOIN fragment ON fragment.id = fragment_id GROUP BY source_id
) AS counted ON counted.source_id = source.id
ORDER BY source.id
"""

_FRAGMENTS = f"""
SELECT {", ".join(f"fragment.{name}" for name in OWN)}, words, source.name, own.digest, seal,
       fragment.id, named.shape, held.id, held.digest
FROM named JOIN fragment ON fragment.id = fragment_id LEFT JOIN source ON source.id = source_id
LEFT JOIN mapping AS own ON own.id = fragment.mapping_id LEFT JOIN mapping AS held ON held.id = named.mapping_id
LEFT JOIN citation ON citation.id = citation_id
WHERE {{}} ORDER BY fragment.id
"""  # noqa: S608 - the columns of fragments
#: Those of a shape by its index, which is not used where the shape may be null.
_OF_SHAPE = _FRAGMENTS.format("named.shape = :shape")
_EVERY = _FRAGMENTS.format("member IS NULL")
_MEMBERS = """
SELECT fragment_id, shape, mapping_id, digest
FROM member LEFT JOIN mapping ON mapping.id = mapping_id ORDER BY member.id
"""

_FINDINGS = f"""
SELECT source.name, {", ".join(Key._fields)}, words
FROM finding JOIN fragment ON fragment.id = fragment_id JOIN source ON source.id = source_id ORDER BY finding.id
"""  # noqa: S608 - the columns of keys

_NAMES = """
SELECT DISTINCT instruction, named.shape, type, role FROM named JOIN fragment ON fragment.id = fragment_id
WHERE CAST(:shape AS TEXT) IS NULL OR named.shape = LOWER(:shape)
"""


def names(reader: Reader, column: str, shape: str | None = None) -> list[str]:
    """The values of a column of fragments, of all or of a shape, or the names of the sources.

    Raises:
        LanemapError: there are no names of such a column.
    """
    if column == "source":
        return [record["name"] for record in sources(reader).records()]
    if column not in ("shape", "type", "role", "instruction"):
        raise LanemapError(f"{column!r} has no names: choose from shape, type, role, instruction, source")
    return sorted({record[column] for record in reader.select(_NAMES, {"shape": shape}).records()})


def sources(reader: Reader) -> Rows:
    """Every source, with how many fragments it has, how many of them have no rows, and findings on it.

    Raises:
        DamagedError: what the database says of a source is not what was written.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        return reader.select(_SOURCES, {})


def in_order(kinds: Mapping[str, str], shipped: Container[str] = ()) -> dict[str, str]:
    """Sources in the order in which they answer: ``kinds`` has the kind of each by its name.

    Documents come first, then captures, then the others; of each kind ``shipped`` ones before the user's own. Versions
    of a vendor's document go from the highest to the lowest, each corrected before it is as printed, and the capture
    that the vendor's row names goes before others. When a source was loaded makes no difference.
    """

    def order(name: str) -> tuple[Any, ...]:
        kind, printed = kinds[name], name.removesuffix(ERRATA)
        usual = bool(_documented(printed)) or any(name == vendor.capture for vendor in VENDORS.values())
        version = [-int(number) for number in re.findall("[0-9]+", printed.rpartition("-")[2])]
        of_kind = (not usual, [*version, 0], printed, name == printed) if kind == "document" else (not usual, name)
        return ("document", "capture", kind).index(kind), name not in shipped, *of_kind

    return {name: kinds[name] for name in sorted(kinds, key=order)}


def documents(ordered: Mapping[str, str]) -> dict[str, str]:
    """The document of each vendor that answers first, by the vendor's name, of sources ``in_order``."""
    names = [name for name, kind in ordered.items() if kind == "document"]
    return {vendor: name for name in reversed(names) if (vendor := _documented(name))}


@cache
def _documented(name: str) -> str | None:
    """The name of the vendor whose document a source is, in some version; None for any other source."""
    version = f"{name.removesuffix(ERRATA)}-"
    having = (vendor for vendor in VENDORS.values() if vendor.document)
    return next((vendor.name for vendor in having if version.startswith(f"{vendor.document}-")), None)


def choose(sources: Sequence[Source]) -> dict[Key, Fragment]:
    """The fragment of each key that answers, and that judges: the best evidence that there is.

    ``sources`` are ``in_order``. The first one that has rows answers, or if none has, the first one. Only where the
    first of the captures refines what a document says, the capture answers. A fragment that is not of the source that
    is asked first, which is one of the kind ``named`` or else the vendor's document, says why in its ``note``. What a
    kernel does is no evidence of what it must do: traces answer only where they are named.
    """
    chosen: dict[Key, Fragment] = {}
    documented: dict[Key, Fragment] = {}
    for source in sources:
        if source.kind == "trace":
            continue
        for fragment in source.fragments:
            key = fragment.key
            if key not in chosen or (fragment.has_rows and not chosen[key].has_rows):
                chosen[key] = fragment
                if source.kind == "document" and fragment.has_rows:
                    documented[key] = fragment
            elif source.kind == "capture" and fragment.has_rows:
                document = documented.pop(key, None)
                if document and fragment.refines(document):
                    wider = f"{document.source} leaves more columns open for {fragment}"
                    chosen[key] = _noted(fragment, f"{wider}: these are from {fragment.source}")
    first = documents({source.name: source.kind for source in sources})
    named = next((source.name for source in sources if source.kind == "named"), None)
    for key, fragment in chosen.items():
        asked = named or first.get(instruction(key.instruction).vendor.name, fragment.source)
        if fragment.has_rows and not fragment.note and fragment.source != asked:
            where = f" ({fragment.citation.origin})" if fragment.citation.origin else ""
            evidence = ", neither documented nor measured" if fragment.status.startswith("imported") else ""
            lacking = f"{asked} has no rows for {fragment}"
            chosen[key] = _noted(fragment, f"{lacking}: these are from {fragment.source}{where}{evidence}")
    return chosen


def _noted(fragment: Fragment, note: str) -> Fragment:
    noted = copy(fragment)  # shares the elements, whether they were read or not
    vars(noted)["note"] = note
    return noted


def by_trust(reader: Reader, named: str | None = None) -> dict[str, str]:
    """The sources of a database ``in_order``; one that is ``named`` is the first, as its kind says.

    Raises:
        DamagedError: what the database says of a source is not what was written.
    """

    def read() -> dict[str, str]:
        rows = reader.sealed("source")
        return in_order({name: kind for name, kind, *_ in rows}, reader.shipped())

    ordered = reader.kept("sources", read)
    first = {name: "named" for name in ordered if name.lower() == str(named).lower()}
    return first | ordered | first


def best(reader: Reader, candidates: Iterable[Fragment], named: str | None = None) -> dict[Key, Fragment]:
    """What ``choose`` takes of candidates from a database, for each of their keys."""
    held = grouped(candidates, lambda fragment: fragment.source)
    return choose([Source(name, kind, "", held.get(name, ())) for name, kind in by_trust(reader, named).items()])


def findings(reader: Reader, *queries: Query) -> Rows:
    """What the structural checks found on the fragments that match. See ``fragments``."""
    with reader.snapshot():
        found = {(fragment.source, fragment.key): fragment for fragment in fragments(reader, *queries)}
        reader.verify(rows=False)
        rows = [((source, Key(*key)), words) for source, *key, words in reader.select(_FINDINGS, {}).rows]
    records = [(pair[0], *pair[1], found[pair].citation.section, words) for pair, words in rows if pair in found]
    return Rows(("source", *Key._fields, "section", "finding"), records)


def fragments(reader: Reader, *queries: Query, families: bool = False) -> list[Fragment]:
    """The fragments that match any of the queries, in the order of their sources. Elements are read on demand.

    Those of ``best``, the default source, are the best evidence of each, see ``choose``: of what a vendor's document
    has, or if it has nothing that matches, of what any source has, as of an instruction that documents leave open.

    Args:
        reader: where to look.
        queries: what to look for.
        families: leave the members of a fragment in it, unless a query names their shape or asks for the best
            evidence, which may be another source's for some of them.

    Raises:
        LanemapError: a query matches none; the message names the unknown part, and what there is.
    """
    with reader.snapshot():
        found: dict[_Number, Fragment] = {}
        for query in queries:
            found |= _found(reader, query, families=families)
        return [found[number] for number in sorted(found)]


def read_fragments(reader: Reader, *queries: Query, families: bool = False) -> list[Fragment]:
    """The same, with the elements of all of them read in one statement.

    Raises:
        LanemapError: see ``fragments``.
    """
    with reader.snapshot():
        reader.verify(rows=False)
        found = fragments(reader, *queries, families=families)
        stored = [vars(fragment)["_stored"] for fragment in found if fragment.has_rows]
        unread = {packed.mapping: packed for packed in stored if packed.mapping and "data" not in vars(packed)}
        for mapping, elements in reader.packed(unread).items():
            vars(unread[mapping])["data"] = elements
        return found


def every_operand(reader: Reader, query: Query) -> list[Fragment]:
    """The fragments with elements that match, each key once.

    Each is of the source of the query, or if that has no rows, the best evidence of all others.

    Raises:
        LanemapError: no source has them.
    """
    with reader.snapshot():
        every = read_fragments(reader, replace(query, source=None))
        return [fragment for fragment in best(reader, every, query.source).values() if fragment.has_rows]


def _found(reader: Reader, query: Query, *, dense: bool = False, families: bool = False) -> dict[_Number, Fragment]:
    """The fragments that match a query by their numbers, ``dense`` as ``prefer_dense`` has them. See ``fragments``.

    A fragment of the best evidence has the number of the first of its key.
    """
    parameters = query.parameters()
    shape, source = parameters["shape"], parameters["source"]
    every = _whole(reader, shape)

    def having(belongs: Callable[[Fragment], bool]) -> dict[int, Fragment]:
        return {number: one for number, one in every.items() if belongs(one)}

    def matching(those: Mapping[int, Fragment]) -> dict[_Number, Fragment]:
        matched = _matching(query, parameters, those)
        return {(number, 0): one for number, one in matched.items()} if families else _numbered(matched)

    def by_default() -> tuple[dict[int, Fragment], set[str], dict[Key, list[Fragment]]]:
        """Those of the documents that answer first, all instructions, and what all sources have of each key."""
        first = documents(by_trust(reader)).values()
        names = {one.instruction for one in every.values()}
        of_key = grouped((one for each in every.values() for one in each.every), lambda one: one.key)
        return having(lambda one: one.source in first), names, of_key

    if source is None:
        found = matching(every)
    elif source.lower() != DEFAULT_SOURCE:
        found = matching(having(lambda one: same_name(one.source, source)))
    else:
        documented, names, of_key = reader.kept(("by default", shape), by_default)
        own = matching(documented)
        answered = {one.vendor for one in own.values()} | {""} if own else set()
        rows = map(instruction, names)
        open_names = {row.name for row in rows if row.per_architecture or row.vendor.name not in answered}
        if open_names:
            own |= matching(having(lambda one: one.instruction in open_names))
        numbers = {one.key: number for number, one in reversed(own.items())}
        candidates = (one for key in numbers for one in of_key[key])
        found = {numbers[key]: one for key, one in best(reader, candidates).items()}
    if not found:
        from .isa.not_found import no_fragment

        members = [one for each in _whole(reader, None).values() for one in each.every]
        asked = parameters if str(source).lower() != DEFAULT_SOURCE else parameters | {"source": None}
        words, order = str(query.qualifiers or ""), [*by_trust(reader)]
        raise AbsentError(no_fragment(query.tokens, query.title, words, asked, members, order))
    if dense:
        preferred = prefer_dense(query, found.values())[0].instruction
        found = {number: one for number, one in found.items() if one.instruction == preferred}
    if tiling := Tiling.of(**query.tiles):
        # Beside operands in registers, those in shared memory have no part in it.
        held = {number: one for number, one in found.items() if not one.tile} or found
        found = {number: tiled(one, tiling) for number, one in held.items()}
    return dict(sorted(found.items()))


def _numbered(families: Mapping[int, Fragment]) -> dict[_Number, Fragment]:
    """Fragments with all their members by their numbers."""
    return {(number, place): one for number, each in families.items() for place, one in enumerate(each.every)}


def _whole(reader: Reader, shape: str | None) -> dict[int, Fragment]:
    """All fragments by their numbers, or those of a shape, for which the database need not be verified.

    Raises:
        DamagedError: something in them has changed or is missing.
    """
    # Characters that a database cannot hold match nothing.
    printable = shape and "".join(letter if letter.isprintable() else "\ufffd" for letter in shape)

    def read() -> dict[int, Fragment]:
        if shape is None:
            reader.verify(rows=False)
            records = reader.select(_EVERY, {}).rows
            families = grouped(reader.select(_MEMBERS, {}).rows, itemgetter(0))
        else:
            records, families = reader.select(_OF_SHAPE, {"shape": printable}).rows, {}
            _verify(reader, shape, records)
        whole = {}
        for *sealed, _, number, named, mapping, digest in records:
            elements = digest and reader.elements(mapping, digest)
            members = {name: held and reader.elements(of, held) for _, name, of, held in families.get(number, ())}
            values = dict(zip(_OWN, _own(sealed), strict=True), citation=_citation(sealed[_CITATION]), members=members)
            one = Fragment.stored(Key._make(sealed[: len(Key._fields)]), elements, values)
            whole[number] = one if named == one.shape else one.member(named, elements)
        return whole

    return reader.kept(("fragments", printable), read)


def _verify(reader: Reader, shape: str, records: Sequence[Sequence[Any]]) -> None:
    """Refuse records of the fragments of a shape that are not as they were written, or not all of them."""

    def expected() -> dict[str, str]:
        return dict(json.loads(dict(reader.select("SELECT key, value FROM meta", {}).rows)[SHAPES]))

    end = len(SEALED)
    seals = seals_of_shapes((named, stored, digest) for *_, stored, _, named, _, digest in records)
    try:
        wanted = reader.kept(SHAPES, expected).get(shape)
    except (KeyError, ValueError, TypeError):
        raise reader.damaged("the shape of a fragment") from None
    if seals.get(shape) != wanted or any(record[end] != seal(record[:end]) for record in records):
        raise reader.damaged("the record of a fragment")


def _matching(query: Query, parameters: Mapping[str, Any], every: Mapping[int, Fragment]) -> dict[int, Fragment]:
    """Those that match a query; C and D match by the type of A if they have no such type themselves."""
    if keys := query.matching(fragment.key for fragment in every.values()):
        return {number: fragment for number, fragment in every.items() if fragment.key in keys}
    if parameters["instruction"] in INSTRUCTIONS or not (type_ := query.type or parameters["type"]):
        return {}
    unknown = {number: fragment for number, fragment in every.items() if fragment.instruction not in INSTRUCTIONS}

    def of(**wanted: Any) -> dict[int, Fragment]:
        asked = {name: value for name, value in {**query.asked, **wanted}.items() if value is not None}.items()

        def fits(one: Fragment) -> bool:
            return all(same_name(getattr(one, name), value) for name, value in asked)

        return {number: one for number, one in unknown.items() if fits(one)}

    type_ = plain(type_)  # their types have one name
    if (found := of(type=type_)) or parameters["role"] not in ("C", "D"):
        return found
    of_a = {fragment.key[:2] for fragment in of(type=type_, role="A").values()}
    found = {number: fragment for number, fragment in of(type=None).items() if fragment.key[:2] in of_a}
    return found if len({fragment.type for fragment in found.values()}) == 1 else {}


@lru_cache(256)  # few differ, of thousands
def _citation(written: str) -> Citation:
    return Citation(**json.loads(written))


class Fragments(list[Fragment], Tabular):
    """The fragments of one operand as look-ups show them, and the ``query`` for it."""

    #: What ``lanemap show`` prints of them, and their pictures for a notebook. The package attaches them.
    text: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[[Fragments], str | None]]

    def __init__(self, query: Query, listed: Iterable[Fragment]) -> None:
        super().__init__(listed)
        self.query = query

    def __repr__(self) -> str:
        return brief(super().__repr__(), f"{len(self)} in all; frame() has their elements")

    def __str__(self) -> str:
        return self.text()

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
        atom = re.split(r"[_<]", self.query.token("spelling") or "")
        if first.role in row.in_memory and not first.tile and "SS" in atom:
            lines.append(f"the atom takes A from shared memory: {subject} is that of the atom that ends in _RS")
        if row.per_architecture:
            own = f"the layouts of {first.source} hold for its architecture alone"
            lines.append(f"documents leave {row.name} open: {own}")
        return [*lines, first.note] if first.note else lines

    def expect_one(self, *attributes: str) -> Self:
        """The same fragments, after the check of the function of this name."""
        expect_one(self.query, self, *attributes)
        return self

    def rows(self, **where: int | None) -> Rows:
        """The elements at the given coordinates, with the columns of ``layout``, by lane, reg and slot.

        In shared memory the last column is the byte at which an element begins, counted from the start of the operand.
        In a tile the last columns are the thread, its warp, and which instruction of the warp along each axis. A column
        matches every element that can stand for it.

        Raises:
            OutsideError: a coordinate is outside all of them; names its range.
        """
        inside, threads, coordinates = self._inside(where)
        records = []
        for fragment in inside:
            elements = fragment.tuples()
            if threads is not None:
                elements = [element for element in elements if element[0] in threads]
            for value, *between in coordinates:
                first, last = map(Element._fields.index, between)
                elements = [element for element in elements if element[first] <= value <= element[last]]
            columns = {name: getattr(fragment, name, None) for name in COLUMNS}
            every = map(Element._make, elements)
            records += [tuple((columns | each._asdict() | _more(fragment, *each[:3])).values()) for each in every]
        return Rows(self._columns, records)

    def frame(self, **where: int | None) -> pd.DataFrame:
        """The same as a frame, with whole numbers as such, also where there is no row or no selector.

        Raises:
            OutsideError: see ``rows``.
        """
        import numpy as np
        import pandas as pd

        inside, threads, coordinates = self._inside(where)
        tables = [fragment.table for fragment in inside]
        if threads is not None:
            tables = [table[np.isin(table["lane"], threads)] for table in tables]
        for value, first, last in coordinates:
            tables = [table[(table[first] <= value) & (value <= table[last])] for table in tables]
        counts = tuple(map(len, tables))
        places = [[table[name].astype("i8") for name in PLACE] for table in tables]
        more = [_more(fragment, *place) for fragment, place in zip(inside, places, strict=True)]

        def column(name: str) -> Any:
            if name in more[0]:
                return np.concatenate([columns[name] for columns in more])
            if name in Element._fields:
                return np.concatenate([table[name] for table in tables], dtype="i8")
            return _repeated(name, tuple(getattr(fragment, name) for fragment in inside), counts).copy()

        # The constructor examines columns that need not be, which takes most of the time of a look-up.
        arrays = list(map(column, self._columns))
        index = pd.RangeIndex(sum(counts))
        columns, frame_type = _names(self._columns), cast(Any, pd.DataFrame)
        return cast("pd.DataFrame", frame_type._from_arrays(arrays, columns, index, verify_integrity=False))

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*COLUMNS, *_more(self[0], 0, 0, 0))))

    def _inside(
        self, where: Mapping[str, int | None]
    ) -> tuple[list[Fragment], Sequence[int] | None, list[tuple[int, str, str]]]:
        """The fragments that have all coordinates, the threads, and of each other one the fields that it lies between.

        Raises:
            OutsideError: there is no such fragment.
        """
        coordinates = {name: number for name, value in where.items() if (number := whole(name, value)) is not None}
        inside, outside = [], []
        for fragment in self:
            ranges = {**fragment.ranges, **of_threads(fragment)} if coordinates else {}
            if wrong := [name for name, value in coordinates.items() if value not in ranges[name]]:
                outside.append(OutsideError(wrong[0], coordinates[wrong[0]], ranges[wrong[0]], fragment))
            else:
                inside.append(fragment)
        if outside and not inside:
            raise outside[0]
        named = {name: coordinates.pop(name) for name in of_threads(inside[0]) if name in coordinates}
        between = [(value, name, "col_last" if name == "col" else name) for name, value in coordinates.items()]
        return inside, threads_at(inside[0], **named) if named else None, between


def _more(fragment: Fragment, thread: Any, reg: Any, slot: Any) -> dict[str, Any]:
    """What else is said of a place, or of arrays of them: the byte in shared memory, or the warp of a tile."""
    if fragment.tile:
        return {"byte": (reg * WORD + slot * fragment.slot_bits) // 8}
    return in_tile(fragment, thread, reg)


@cache
def _names(columns: Sequence[str]) -> pd.Index[str]:
    import pandas as pd

    return pd.Index(columns)


@lru_cache(256)  # most elements of a frame have the same in such a column, and pandas takes long to see what it is
def _repeated(name: str, values: Sequence[Any], counts: Sequence[int]) -> Any:
    """A column of a frame in which each value is repeated so often."""
    import pandas as pd

    repeated = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    return pd.Series(repeated, dtype="Int64" if name == "selector" else None).values


def one_operand(reader: Reader, query: Query) -> Fragments:
    """The fragments of one operand: if no instruction is named, those of the dense one, if there is one.

    By default they are the best evidence, see ``fragments``, of which ``remarks`` say where it is not the document's.
    There are several if a layout qualifier (m8n8k4 with f16) or the sparsity selector (E) tells them apart.

    Raises:
        LanemapError: see ``fragments``.
    """
    if query.parameters()["role"] is None:
        named = prefer_dense(query, fragments(reader, replace(query, source=None)))
        held = {fragment.role for fragment in named}
        roles = [role for role in instruction(named[0].instruction).axes if role in held]
        raise LanemapError(f"say which role of {query.title}: {', '.join(roles)}")
    with reader.snapshot():
        return Fragments(query, _found(reader, query, dense=True).values())


def expect_one(query: Query, named: Iterable[object], *attributes: str) -> None:
    """Refuse to choose for the user: what a query names must be alike in these attributes.

    Raises:
        LanemapError: one of them has several values; lists them.
    """
    named = list(named)
    for attribute in attributes if len(named) > 1 else ():
        values = dict.fromkeys(str(getattr(item, attribute)) for item in named)
        if len(values) > 1:
            from .text import enumerated

            name = " of ".join(filter(None, (query.parameters()["role"], query.title)))
            called = {"qualifiers": "qualifiers", "a": "types of A"}.get(attribute, f"{attribute}s")
            raise LanemapError(f"{name} has the {called} {enumerated([*values])}: name one")


def prefer_dense(query: Query, candidates: Iterable[Fragment]) -> list[Fragment]:
    """The fragments of one instruction, of a sparse one only if all are sparse, of memory alone only if all are.

    Raises:
        LanemapError: they are of several vendors; says the whole name that each has for what the query names.
    """

    def order(fragment: Fragment) -> tuple[bool, bool, str]:
        named = instruction(fragment.instruction)
        return named.sparse, not named.register_roles, fragment.instruction

    dense_first = sorted(candidates, key=order)
    of_each = {fragment.vendor: fragment for fragment in reversed(dense_first) if fragment.vendor}
    if len(of_each) > 1:
        named = ["instruction", "shape"] + ["type"] * bool(query.token("type")) + ["role"] * ("role" in query.asked)
        whole_names = [" ".join(getattr(fragment, name) for name in named) for fragment in of_each.values()]
        titles = " and ".join(VENDORS[name].title for name in of_each)
        what = " ".join(filter(None, (query.title, query.asked.get("role"))))
        raise LanemapError(f"{titles} have {what}: write {either(sorted(whole_names))}, or name the vendor")
    return [fragment for fragment in dense_first if fragment.instruction == dense_first[0].instruction]


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
    having = {fragment.source for fragment in others if fragment.has_rows and fragment.key in keys}
    better = next(filter(having.__contains__, by_trust(reader)), None)
    figures = [figure.split()[0] for figure in (first.citation.figures or "").split(", ") if figure]
    drawn = f", figure{'s' * (len(figures) > 1)} {', '.join(figures)}" if figures else ""
    impossible = ", as it puts two elements in one place" * (first.status == IMPOSSIBLE)
    why = f"{first}: {first.status}{drawn}{impossible}"
    if better is None:
        raise NoRowsError(f"no source has rows for {why}", first.key)
    raise LanemapError(f"{first.source} has no rows for {why}: ask the source {better}", "source")


def operands(reader: Reader, query: Query, accumulator: str | None = None) -> list[Fragment]:
    """One fragment for each operand of an instruction: of two majors, row for A and column for B.

    By default they are the best evidence; of a source that is named, what it lacks comes from others.

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
    named = replace(query, instruction=first.instruction, major=None)
    roles = [role for role in row.register_roles if not role.startswith("SF")]
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
        result_of = replace(named, shape=first.shape, type=result, role=role, selector=None, qualifiers=None)
        whose = result_of if role in "CD" else replace(named, role=role, selector=selector)
        every = a if role == "A" else every_operand(reader, whose)
        having = every or with_rows(reader, fragments(reader, replace(whose, source=None)))
        return min(having, key=lambda fragment: fragment.major != major)

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
