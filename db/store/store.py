"""Writing: building a database, and loading a source into it. Each load is one transaction, all or nothing."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from ..errors import AbsentError, LanemapError, UnavailableError, validated
from ..isa import forms
from ..isa.instructions import INSTRUCTIONS, Key, dimensions, instruction
from ..isa.not_found import source_names
from ..isa.spelling import atom, opcode_name
from ..layout.fragment import Fragment, Source, check_names
from ..layout.structure import check, expected
from . import schema
from .connection import busy, connected, recover, wait_for_lock
from .integrity import SEALED, rows_sum, seal, seals
from .location import MIGRATED, SCHEMA_VERSION, Location
from .schema import LAYOUT, element, finding, fragment, mapping, meta, metadata, source

Progress = Callable[[Source], object]

#: Any number will do, as long as every Lanemap takes the same lock before it writes.
_LOCK = 0x4C414E45

_LONGEST_PROVENANCE = 1 << 20


def ship(
    location: Location,
    sources: Callable[[], Iterable[Source]],
    shipped: str,
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make the database if it is not there, and load ``sources`` unless it was built from the same ones already.

    Safe while others do the same: one builds, the rest wait and find it done. Other sources in it stay; those in a
    database of an older version are taken over, and so are those of the default database of an older version.

    Args:
        location: where.
        sources: called only when there is something to load.
        shipped: the digest of the program that makes ``sources``.
        again: load them even if they are there.
        progress: called with each source before it is loaded.
    """
    kept: list[Source] = []
    if file := location.file:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LanemapError(
                f"cannot make the folder {file.parent}: {error.strerror}: name another database"
            ) from None
        older = Location(file.with_name(f"lanemap-{MIGRATED[-1]}.db"))
        if location.default and not file.exists() and older.file and older.file.exists():
            with _transaction(older) as connection:
                kept = schema.older_sources(connection, older) if "meta" in _tables(connection) else []
    with _transaction(location, "rwc") as connection:
        known = _tables(connection)
        if "meta" in known and _said(connection, "schema") in MIGRATED:
            kept = schema.older_sources(connection, location)
            connection.execute(sa.text("DROP VIEW layout"))
            metadata.drop_all(connection)
            known = []
        if "meta" not in known:
            if known:
                raise LanemapError(f"{location} holds tables that are not Lanemap's: name another database")
            metadata.create_all(connection, checkfirst=False)
            connection.execute(sa.text(LAYOUT))
        elif not again and _said(connection, "shipped") == shipped:
            return
        own = list(sources())
        _write_forms(connection)
        names = {each.name.lower() for each in own}
        _load(connection, [*own, *(each for each in kept if each.name.lower() not in names)], progress)
        _write_meta(connection, {"schema": str(SCHEMA_VERSION), "shipped": shipped})


def load(
    location: Location, sources: Iterable[Source], progress: Progress | None = None, *, replacing: bool = True
) -> list[str]:
    """Load sources into a database that exists; the names of those that were loaded.

    One of a name that is there already is replaced, or left as it is where not ``replacing``.
    """
    with _transaction(location) as connection:
        there = connection.scalars(sa.select(sa.func.lower(source.c.name))).all()
        loaded = [each for each in sources if replacing or each.name.lower() not in there]
        if loaded:
            _load(connection, loaded, progress)
    return [each.name for each in loaded]


def remove(location: Location, name: str) -> None:
    """Remove a source from a database that exists.

    Raises:
        AbsentError: it has no source of this name.
    """
    with _transaction(location) as connection:
        if not connection.execute(sa.delete(source).where(sa.func.lower(source.c.name) == name.lower())).rowcount:
            known = connection.scalars(sa.select(source.c.name).order_by(source.c.id)).all()
            raise AbsentError(f"no source {name or repr(name)}: {source_names(name, known)}")
        _finish(connection)


def _said(connection: sa.Connection, key: str) -> str | None:
    """What ``meta`` says."""
    return connection.scalar(sa.select(meta.c.value).where(meta.c.key == key))


@contextmanager
def _transaction(location: Location, mode: str = "rw") -> Iterator[sa.Connection]:
    """One transaction that excludes other writers from its first statement on. With ``rwc`` a file is made if need be.

    Raises:
        LanemapError: an error of the database.
    """
    made = _engine(location, mode)
    try:
        with made.connect() as connection:
            if location.file is not None:
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                # What was committed stays so: without it, a journal that was deleted is back after a power failure.
                wait_for_lock(lambda: _execute(connection, "PRAGMA synchronous = EXTRA"), location)
                # What does not fit the cache would be written early, and readers would have to wait until the end.
                connection.exec_driver_sql("PRAGMA cache_spill = OFF")
                # ANALYZE reads so many rows of an index, not all: the elements of a layout are like those of any other.
                connection.exec_driver_sql("PRAGMA analysis_limit = 1000")
                wait_for_lock(lambda: _execute(connection, "BEGIN IMMEDIATE"), location)
            else:
                connection.exec_driver_sql("BEGIN")
                locked = sa.select(sa.func.pg_try_advisory_xact_lock(_LOCK))
                wait_for_lock(lambda: bool(connection.scalar(locked)), location)
            yield connection
            wait_for_lock(lambda: _execute(connection, "COMMIT"), location)
    except DBAPIError as error:
        raise _in_words(error, location) from None
    finally:
        made.dispose()


def _engine(location: Location, mode: str) -> sa.Engine:
    """An engine that leaves transactions to its user. Python's sqlite3 would begin them after CREATE TABLE."""
    if (file := location.file) is not None:
        recover(file)
        address = f"{file.absolute().as_uri()}?mode={mode}"
        # Not as a part of the engine's address, because the name of a file may hold ? and %.
        open_file = partial(sqlite3.connect, address, uri=True, timeout=0, isolation_level=None)
        return sa.create_engine("sqlite://", poolclass=NullPool, creator=open_file)
    # The address is understood as readers understand it.
    return sa.create_engine(
        "postgresql+psycopg://",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        creator=partial(connected, location),
    )


def _execute(connection: sa.Connection, statement: str) -> bool:
    """Whether a statement could be executed, or found a lock."""
    try:
        connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if not busy(error.orig):
            raise
        return False
    return True


def _in_words(error: DBAPIError, location: Location) -> LanemapError:
    """A database's error as one line."""
    reason = location.without_secrets(str(error.orig).strip().splitlines()[0])
    if "not a database" in reason:
        return LanemapError(f"{location} is not a Lanemap database: name another file")
    if "unable to open" in reason or "readonly" in reason:
        return LanemapError(f"cannot write {location}: {reason}: name a file that can be written")
    lost = location.file is None and isinstance(error, OperationalError)
    return (UnavailableError if lost else LanemapError)(f"{location}: {reason}")


def _tables(connection: sa.Connection) -> list[str]:
    """What there is where new tables are made: not in the other schemas of the server, even if they can be seen."""
    found = sa.inspect(connection)
    return found.get_table_names(found.default_schema_name)


def _load(connection: sa.Connection, sources: Iterable[Source], progress: Progress | None) -> None:
    for each in sources:
        check_names(each)
        if progress:
            progress(each)
        _replace(connection, each)
    _finish(connection)
    # Without statistics the planner does not see that looking up a cell is worth an index.
    connection.exec_driver_sql("ANALYZE")


def _replace(connection: sa.Connection, new: Source) -> None:
    connection.execute(sa.delete(source).where(sa.func.lower(source.c.name) == sa.func.lower(new.name)))
    values = {"name": new.name, "kind": new.kind, "title": new.title, "provenance": provenance(new)}
    source_id = connection.scalar(sa.insert(source).values(values).returning(source.c.id))
    if not new.fragments:
        return
    mappings = _store_elements(connection, new.fragments)
    rows = []
    for each in new.fragments:
        row = {name: getattr(each, name) for name in SEALED if name not in ("rows", "cols", "citation")}
        row["rows"], row["cols"] = each.dimensions
        said = {name: value for name, value in each.citation._asdict().items() if value is not None}
        row |= {"source": new.name, "citation": json.dumps(said)}
        row |= {"source_id": source_id, "mapping_id": mappings.get(each.digest or ""), "seal": seal(row)}
        rows.append({name: value for name, value in row.items() if name not in ("source", "digest")})
    connection.execute(sa.insert(fragment), rows)
    # Ids ascend as the rows are inserted. To ask for each as it is made takes SQLite a statement for every row.
    of_source = sa.select(fragment.c.id).where(fragment.c.source_id == source_id).order_by(fragment.c.id)
    ids = connection.scalars(of_source).all()
    checked = {(each.digest, expected(each)): each for each in new.fragments}
    found = {alike: check(each) for alike, each in checked.items()}
    findings = [
        {"fragment_id": number, "words": words}
        for number, each in zip(ids, new.fragments, strict=True)
        for words in found[each.digest, expected(each)]
    ]
    if findings:
        connection.execute(sa.insert(finding), findings)


def _finish(connection: sa.Connection) -> None:
    """Delete layouts and instructions that no fragment has, add instructions that only fragments have, and seal it."""
    named = sa.select(fragment.c.mapping_id).where(fragment.c.mapping_id.is_not(None))
    lent = sa.select(mapping.c.rows_of).where(mapping.c.id.in_(named), mapping.c.rows_of.is_not(None))
    connection.execute(sa.delete(mapping).where(mapping.c.id.not_in(named.union(lent))))
    connection.execute(sa.delete(schema.instruction).where(schema.instruction.c.name.not_in(list(INSTRUCTIONS))))
    threads = sa.select(fragment.c.instruction, sa.func.max(fragment.c.threads)).group_by(fragment.c.instruction)
    others = sorted((name, most) for name, most in connection.execute(threads) if name not in INSTRUCTIONS)
    _insert(connection, schema.instruction, [_instruction_row(*each) for each in others])
    in_file = connection.dialect.name == "sqlite"
    _write_meta(connection, seals(lambda statement: list(connection.exec_driver_sql(statement)), file=in_file))


def _write_meta(connection: sa.Connection, values: Mapping[str, str]) -> None:
    connection.execute(sa.delete(meta).where(meta.c.key.in_(list(values))))
    _insert(connection, meta, values.items())


def _write_forms(connection: sa.Connection) -> None:
    """Write the tables of instructions and forms, as this version of Lanemap knows them."""
    for table in (schema.operand, schema.form, schema.instruction):
        connection.execute(sa.delete(table))
    _insert(connection, schema.instruction, map(_instruction_row, INSTRUCTIONS))
    every = {form.mnemonic: form for form in (*forms.every(), *forms.mixed_warpgroup(), *forms.later_moves())}
    rows: list[tuple[Any, ...]] = []
    operands: list[tuple[Any, ...]] = []
    for mnemonic, form in every.items():
        spelled = opcode_name(form) or None, atom(form) or None
        rows.append((mnemonic, form.name, form.shape, *spelled, form.target, ".".join(map(str, form.version))))
        keys = [form.key(role) for role in form.types if role in form.instruction.axes]
        operands += [(mnemonic, key.role, key.type, key.major, key.qualifiers) for key in keys]
    _insert(connection, schema.form, rows)
    _insert(connection, schema.operand, operands)


def _instruction_row(name: str, threads: int | None = None) -> tuple[Any, ...]:
    row = instruction(name)
    return name, row.vendor.name, threads or row.threads, row.moves, int(row.sparse)


def _insert(connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows with their values in the order of the columns."""
    if named := [dict(zip(table.c.keys(), row, strict=True)) for row in rows]:
        connection.execute(sa.insert(table), named)


def _store_elements(connection: sa.Connection, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Store the layouts that are not there yet; the identities of all, by fingerprint."""
    known = {row.digest: row.id for row in connection.execute(sa.select(mapping.c.digest, mapping.c.id))}
    tables = {str(each.digest): each.table for each in fragments if each.has_rows and each.digest not in known}
    if not tables:
        return known
    shared = _shared(tables)
    inserted = sa.insert(mapping).returning(mapping.c.id, sort_by_parameter_order=True)
    for borrow in (False, True):  # who lends its rows comes first
        digests = [digest for digest in tables if (digest in shared) == borrow]
        packed = [
            {
                "digest": digest,
                "elements": tables[digest].tobytes(),
                "registers": int(tables[digest]["reg"].max(initial=0)) + 1,
                "rows_of": known.get(shared.get(digest, "")),
                "rows_sum": rows_sum(tables[digest]),
            }
            for digest in digests
        ]
        if packed:
            known |= zip(digests, connection.scalars(inserted, packed), strict=True)
    rows = [(known[digest], *row) for digest, table in tables.items() if digest not in shared for row in table.tolist()]
    columns = ", ".join(element.c.keys())
    if connection.dialect.name == "postgresql":
        with connection.connection.cursor().copy(f"COPY element ({columns}) FROM STDIN") as copy:
            copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))
    else:
        marks = ", ".join("?" * len(element.c))
        connection.exec_driver_sql(f"INSERT INTO element ({columns}) VALUES ({marks})", rows)  # noqa: S608
    return known


def _shared(tables: Mapping[str, Any]) -> dict[str, str]:
    """Of which larger table each other one is the first registers, by fingerprint."""
    largest: dict[bytes, list[str]] = {}
    shared = {}
    for digest, table in sorted(tables.items(), key=lambda item: -len(item[1])):
        alike = largest.setdefault(table[table["reg"] == 0].tobytes(), [])
        registers = table["reg"].max(initial=0)
        for other in alike:
            if np.array_equal(tables[other][tables[other]["reg"] <= registers], table):
                shared[digest] = other
                break
        else:
            alike.append(digest)
    return shared


class _WrongClaim(msgspec.Struct):
    operand: tuple[str, str, str, str, str | None, int | None, str | None]
    origin: str
    words: str


class _Documented(msgspec.Struct):
    verdict: str
    detail: str


class _Outcome(msgspec.Struct):
    instruction: str
    status: str
    message: str
    documented: _Documented | None = None


class _Provenance(msgspec.Struct):
    """What of a provenance others read. All may be left out, and anything else may be in it."""

    disagreements: list[str] = []
    wrong: list[_WrongClaim] = []
    unreached: dict[str, Any] = {}


class _CaptureProvenance(_Provenance):
    instructions: list[_Outcome] = []


def provenance(source: Source) -> str:
    """The provenance of a source as JSON, if every reader of it will understand it.

    That of a capture has a list ``instructions``: what became of each form. That of any source has a list
    ``disagreements`` of text, of what it says is wrong in itself, and a list ``wrong`` of what a library claims wrongly
    of an operand, which is a key. That of an import has an object ``unreached`` of text by operand.

    Raises:
        LanemapError: says what of it is wrong.
    """
    try:
        written = json.dumps(dict(source.provenance), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LanemapError(f"{source.name}: its provenance is not a JSON object: {error}") from None
    if len(written) > _LONGEST_PROVENANCE:
        raise LanemapError(f"{source.name}: its provenance has more than {_LONGEST_PROVENANCE} characters")
    try:
        said = validated(json.loads(written), _CaptureProvenance if source.kind == "capture" else _Provenance)
        for wrong_claim in said.wrong:
            key = Key(*wrong_claim.operand)
            dimensions(key.shape, key.role, key.instruction, key.qualifiers)
    except LanemapError as error:
        raise LanemapError(f"{source.name}: its provenance is wrong: {error}") from None
    return written
