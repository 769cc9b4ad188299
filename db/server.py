"""Connections through SQLAlchemy: all writing, and everything on a database server."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from .errors import LanemapError
from .location import Location

#: Any number will do, as long as every Lanemap takes the same lock before it writes.
_LOCK = 0x4C414E45


def engine(location: Location) -> Engine:
    """An engine whose transactions exclude other writers from their first statement on."""
    if location.file is not None:
        made = _sqlite(str(location.file.absolute()))
        event.listen(made, "connect", _leave_transactions_to_us)
        event.listen(made, "begin", _begin_to_write)
        return made
    try:
        return create_engine(location.url or "")
    except ImportError:
        raise LanemapError('PostgreSQL needs psycopg: pip install "lanemap[postgres]"') from None
    except (ValueError, ArgumentError) as error:
        raise LanemapError(f"cannot read the database URL: {error}: write postgresql://USER@HOST/NAME") from None


def reading_engine(location: Location) -> Engine:
    """An engine for queries alone."""
    if location.file is None:
        return engine(location)
    return _sqlite(location.file.absolute().as_uri(), mode="ro", uri="true")


def _sqlite(name: str, **query: str) -> Engine:
    """An engine on a file. Its name is no text to be parsed: it may hold ? and %."""
    url = URL.create("sqlite", database=name, query=query)
    return create_engine(url, poolclass=NullPool, connect_args={"timeout": 60})


def exclude_writers(connection: Connection) -> None:
    """Wait until no other Lanemap writes to this database, then keep others from it until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def in_words(error: DBAPIError, location: Location) -> LanemapError:
    """A database's error as one line."""
    reason = str(error.orig).strip().splitlines()[0]
    if "not a database" in reason:
        return LanemapError(f"{location} is not a Lanemap database: name another file with --db")
    if "unable to open" in reason or "readonly" in reason:
        return LanemapError(f"cannot write {location}: {reason}: name a file that can be written with --db")
    return LanemapError(f"{location}: {reason}")


def _leave_transactions_to_us(connection: Any, _record: object) -> None:
    # Python's sqlite3 opens transactions on its own, and not before CREATE TABLE.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_to_write(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
