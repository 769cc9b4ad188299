"""Writing connections through SQLAlchemy, and reading ones for what compares in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from .errors import LanemapError, masked
from .location import Location
from .reader import busy, recover, wait_for_lock

#: Any number will do, as long as every Lanemap takes the same lock before it writes.
_LOCK = 0x4C414E45


def engine(location: Location) -> Engine:
    """An engine whose transactions exclude other writers from their first statement on."""
    try:
        made = _sqlite(location) if location.file is not None else _postgresql(location)
    except ImportError:
        raise LanemapError('PostgreSQL needs psycopg: pip install "lanemap[postgres]"') from None
    except (ValueError, ArgumentError):
        raise LanemapError(f"cannot read the database address {location}: write postgresql://USER@HOST/NAME") from None
    return made


def reading_engine(location: Location) -> Engine:
    """An engine for queries alone."""
    if location.file is None:
        return engine(location)
    url = URL.create("sqlite", database=location.file.absolute().as_uri(), query={"mode": "ro", "uri": "true"})
    return create_engine(url, poolclass=NullPool, connect_args={"timeout": 60})


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
    # A file name is no text to be parsed: it may hold ? and %.
    url = URL.create("sqlite", database=str(location.file.absolute()))
    made = create_engine(url, poolclass=NullPool, connect_args={"timeout": 0})

    @event.listens_for(made, "connect")
    def connect(connection: Any, _record: object) -> None:
        # Python's sqlite3 opens transactions on its own, and not before CREATE TABLE.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        # What does not fit the cache would be written early, and readers would have to wait until the end.
        connection.execute("PRAGMA cache_spill = OFF")

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


def in_words(error: DBAPIError, location: Location) -> LanemapError:
    """A database's error as one line."""
    reason = masked(str(error.orig).strip().splitlines()[0])
    if "not a database" in reason:
        return LanemapError(f"{location} is not a Lanemap database: name another file")
    if "unable to open" in reason or "readonly" in reason:
        return LanemapError(f"cannot write {location}: {reason}: name a file that can be written")
    return LanemapError(f"{location}: {reason}")
