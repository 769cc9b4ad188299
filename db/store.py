"""Writing: building a database, and loading a source into it. Each load is one transaction, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, func, insert, inspect, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from .errors import LanemapError, masked
from .fragment import Element, Fragment, Source, check_names
from .integrity import TABLES, rows_sum, seal, source_seal, tables
from .location import SCHEMA_VERSION, Location
from .provenance import provenance
from .schema import LAYOUT, finding, fragment, mapping, meta, metadata, source
from .sqlite import busy, recover, wait_for_lock
from .structure import check, expected

Progress = Callable[[Source], object]

#: Any number will do, as long as every Lanemap takes the same lock before it writes.
_LOCK = 0x4C414E45


def ship(
    location: Location,
    sources: Callable[[], Iterable[Source]],
    shipped: str,
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> None:
    """Make the database if it is not there, and load ``sources`` unless it was built from the same ones already.

    Safe while others do the same: one builds, the rest wait and find it done. Other sources in it stay.

    Args:
        location: where.
        sources: called only when there is something to load.
        shipped: the fingerprint of what ``sources`` returns.
        again: load them even if they are there.
        progress: called with each source before it is loaded.
    """
    _make_folder(location)
    with _transaction(location) as connection:
        if "meta" not in _tables(connection):
            _create(connection, location)
        elif not again and connection.scalar(select(meta.c.value).where(meta.c.key == "shipped")) == shipped:
            return
        _load(connection, sources(), progress)
        connection.execute(delete(meta))
        values = {"schema": str(SCHEMA_VERSION), "shipped": shipped}
        if location.file is not None:
            values["tables"] = tables(connection.exec_driver_sql(TABLES))
        connection.execute(insert(meta), [{"key": key, "value": value} for key, value in values.items()])


def load(location: Location, sources: Iterable[Source], progress: Progress | None = None) -> None:
    """Load sources into a database that exists. One of a name that is there already is replaced."""
    with _transaction(location) as connection:
        _load(connection, sources, progress)


@contextmanager
def _transaction(location: Location) -> Iterator[Connection]:
    """One transaction that excludes other writers.

    Raises:
        LanemapError: an error of the database.
    """
    made = _engine(location)
    try:
        with made.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise _in_words(error, location) from None
    finally:
        made.dispose()


def remove(location: Location, name: str) -> None:
    """Remove a source from a database that exists.

    Raises:
        LanemapError: it has no source of this name.
    """
    with _transaction(location) as connection:
        if not connection.execute(delete(source).where(func.lower(source.c.name) == name.lower())).rowcount:
            known = connection.scalars(select(source.c.name).order_by(source.c.id)).all()
            raise LanemapError(f"no source {name or repr(name)}: choose from {', '.join(known)}")
        _drop_unused(connection)


def _engine(location: Location) -> Engine:
    """An engine whose transactions exclude other writers from their first statement on."""
    try:
        return _sqlite(location) if location.file is not None else _postgresql(location)
    except ImportError:
        raise LanemapError('PostgreSQL needs psycopg: pip install "psycopg[binary]"') from None
    except (ValueError, ArgumentError):
        raise LanemapError(f"cannot read the database address {location}: write postgresql://USER@HOST/NAME") from None


def _postgresql(location: Location) -> Engine:
    address = (location.url or "").replace("postgresql://", "postgresql+psycopg://", 1)
    made = create_engine(address, poolclass=NullPool, connect_args={"connect_timeout": 10})

    @event.listens_for(made, "begin")
    def begin(connection: Connection) -> None:
        locked = text("SELECT pg_try_advisory_xact_lock(:lock)")
        wait_for_lock(lambda: bool(connection.scalar(locked, {"lock": _LOCK})), location)

    return made


def _sqlite(location: Location) -> Engine:
    assert location.file is not None
    recover(location.file)
    # The name of a file may hold ? and %, which have a meaning in a URL.
    url = URL.create("sqlite", database=str(location.file.absolute()))
    made = create_engine(url, poolclass=NullPool, connect_args={"timeout": 0})

    @event.listens_for(made, "connect")
    def connect(connection: Any, _record: object) -> None:
        # Python's sqlite3 opens transactions on its own, and not before CREATE TABLE.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        # What does not fit the cache would be written early, and readers would have to wait until the end.
        connection.execute("PRAGMA cache_spill = OFF")
        # ANALYZE reads so many rows of an index, not all: the elements of a layout are like those of any other one.
        connection.execute("PRAGMA analysis_limit = 1000")

    @event.listens_for(made, "begin")
    def begin(connection: Connection) -> None:
        wait_for_lock(lambda: _execute(connection, "BEGIN IMMEDIATE"), location)

    @event.listens_for(made, "commit")
    def commit(connection: Connection) -> None:
        wait_for_lock(lambda: _execute(connection, "COMMIT"), location)

    return made


def _execute(connection: Connection, statement: str) -> bool:
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
    reason = masked(str(error.orig).strip().splitlines()[0])
    if "not a database" in reason:
        return LanemapError(f"{location} is not a Lanemap database: name another file")
    if "unable to open" in reason or "readonly" in reason:
        return LanemapError(f"cannot write {location}: {reason}: name a file that can be written")
    return LanemapError(f"{location}: {reason}")


def _make_folder(location: Location) -> None:
    folder = location.file.parent if location.file else Path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LanemapError(f"cannot make the folder {folder}: {error.strerror}: name another database") from None


def _tables(connection: Connection) -> list[str]:
    """What there is where new tables are made: not in the other schemas of the server, even if they can be seen."""
    found = inspect(connection)
    return found.get_table_names(found.default_schema_name)


def _create(connection: Connection, location: Location) -> None:
    if _tables(connection):
        raise LanemapError(f"{location} holds tables that are not Lanemap's: name another database")
    metadata.create_all(connection, checkfirst=False)
    connection.execute(text(LAYOUT))


def _load(connection: Connection, sources: Iterable[Source], progress: Progress | None) -> None:
    for each in sources:
        check_names(each)
        if progress:
            progress(each)
        _replace(connection, each)
    # Without statistics the planner does not see that looking up a cell is worth an index.
    connection.exec_driver_sql("ANALYZE")


def _replace(connection: Connection, new: Source) -> None:
    connection.execute(delete(source).where(func.lower(source.c.name) == func.lower(new.name)))
    mappings = _store_elements(connection, new.fragments)
    rows = [_row(each, new.name, mappings) for each in new.fragments]
    found = _findings(new.fragments)
    values = {"name": new.name, "kind": new.kind, "title": new.title, "provenance": provenance(new)}
    noted = [(row["seal"], words) for row, several in zip(rows, found, strict=True) for words in several]
    values["seal"] = source_seal(values, [row["seal"] for row in rows], noted)
    source_id = connection.scalar(insert(source).values(values).returning(source.c.id))
    if rows:
        inserted = insert(fragment).returning(fragment.c.id, sort_by_parameter_order=True)
        ids = connection.scalars(inserted, [row | {"source_id": source_id} for row in rows]).all()
        each_found = zip(ids, found, strict=True)
        if findings := [{"fragment_id": number, "words": words} for number, several in each_found for words in several]:
            connection.execute(insert(finding), findings)
    _drop_unused(connection)


def _drop_unused(connection: Connection) -> None:
    """Delete the layouts that no fragment has."""
    named = select(fragment.c.mapping_id).where(fragment.c.mapping_id.is_not(None))
    lent = select(mapping.c.rows_of).where(mapping.c.id.in_(named), mapping.c.rows_of.is_not(None))
    connection.execute(delete(mapping).where(mapping.c.id.not_in(named.union(lent))))


def _row(each: Fragment, source_name: str, mappings: dict[str, int]) -> dict[str, Any]:
    rows, cols = each.dimensions
    stored = {name: getattr(each, name) for name in fragment.c.keys() if hasattr(each, name)}  # noqa: SIM118
    stored |= {"rows": rows, "cols": cols}
    sealed = seal(stored | {"source": source_name, "digest": each.digest})
    return stored | {"mapping_id": mappings.get(each.digest or ""), "seal": sealed}


def _store_elements(connection: Connection, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Store the layouts that are not there yet; the identities of all, by fingerprint."""
    known = {row.digest: row.id for row in connection.execute(select(mapping.c.digest, mapping.c.id))}
    tables = {
        each.digest: each.elements
        for each in fragments
        if each.digest is not None and each.elements is not None and each.digest not in known
    }
    if not tables:
        return known
    shared = _shared(tables)
    inserted = insert(mapping).returning(mapping.c.id, sort_by_parameter_order=True)
    new: dict[str, int] = {}
    for chosen in (set(tables) - set(shared), set(shared)):
        packed: list[dict[str, Any]] = [
            {
                "digest": digest,
                "elements": table.tobytes(),
                "registers": int(table["reg"].max(initial=0)) + 1,
                "rows_of": new.get(shared.get(digest, "")),
                "rows_sum": rows_sum(table),
            }
            for digest, table in tables.items()
            if digest in chosen
        ]
        if packed:
            ids = connection.scalars(inserted, packed)
            new |= dict(zip((each["digest"] for each in packed), ids, strict=True))
    rows = [(new[digest], *row) for digest, table in tables.items() if digest not in shared for row in table.tolist()]
    columns = ("mapping_id", *Element._fields)
    if connection.dialect.name == "postgresql":
        _copy(connection, columns, rows)
    else:
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(f"INSERT INTO element ({', '.join(columns)}) VALUES ({marks})", rows)  # noqa: S608
    return known | new


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


def _copy(connection: Connection, columns: Sequence[str], rows: Sequence[tuple[int, ...]]) -> None:
    cursor = connection.connection.cursor()
    names = ", ".join(f'"{name}"' for name in columns)
    with cursor.copy(f"COPY element ({names}) FROM STDIN") as copy:
        copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))


def _findings(fragments: Sequence[Fragment]) -> list[list[str]]:
    """What the structural checks find in each fragment."""
    checked: dict[tuple[object, ...], list[str]] = {}
    found = []
    for each in fragments:
        alike = (each.digest, expected(each))
        if alike not in checked:
            checked[alike] = check(each)
        found.append(checked[alike])
    return found
