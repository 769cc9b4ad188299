"""Read-only connections for look-ups. SQLite is read with the standard library alone: the ORM is too slow to import.

A reader runs one statement and gives its rows. It cannot write, whatever the statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import LanemapError
from .location import Location

Value = str | int | None


@dataclass(frozen=True)
class Rows:
    """The result of a query: the names of its columns, and its rows as tuples."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def named(self) -> Rows:
        """The same rows, for what tells columns apart by their names.

        Raises:
            LanemapError: two have the same name.
        """
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise LanemapError(f"two columns are called {twice!r}: name them apart, as in SELECT row AS a, col AS b")
        return self

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries.

        Raises:
            LanemapError: two columns have the same name.
        """
        self.named()
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Reader(Protocol):
    """A read-only connection."""

    def select(self, statement: str, parameters: Mapping[str, Value]) -> Rows:
        """Run one of Lanemap's own statements, with ``:name`` parameters."""

    def sql(self, query: str) -> Rows:
        """Run a user's query as it is."""

    def close(self) -> None:
        """Release the connection."""


def connect(location: Location) -> Reader:
    """Open a database that exists."""
    return FileReader(location.file) if location.file is not None else ServerReader(location)


class ClosedReader:
    """What is left of a reader that was closed."""

    def select(self, statement: str, parameters: Mapping[str, Value]) -> Rows:  # noqa: ARG002
        """See Reader."""
        raise LanemapError("the database is closed: open it again with lanemap.open")

    def sql(self, query: str) -> Rows:
        """See Reader."""
        return self.select(query, {})

    def close(self) -> None:
        """See Reader."""


class FileReader:
    """SQLite, opened read-only; an authoriser refuses every statement but queries."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
        except sqlite3.Error as error:
            raise LanemapError(f"cannot open {file}: {error}: name another database with --db") from None
        self._connection.set_authorizer(_authorize)
        # SQLite calls this now and then, which is when Python notices Ctrl-C during a long query.
        self._connection.set_progress_handler(lambda: 0, 1_000_000)

    def select(self, statement: str, parameters: Mapping[str, Value]) -> Rows:
        """See Reader."""
        try:
            return self._run(statement, parameters)
        except sqlite3.Error as error:
            raise LanemapError(f"cannot read {self.file}: {error}: name another database with --db") from None

    def sql(self, query: str) -> Rows:
        """See Reader."""
        _check_text(query)
        try:
            rows = self._run(query, {})
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise LanemapError(_sql_words(str(error))) from None
        if not rows.columns:
            raise LanemapError("that is no query: write a SELECT, as in SELECT * FROM layout LIMIT 5")
        return rows

    def close(self) -> None:
        """See Reader."""
        self._connection.close()

    def _run(self, statement: str, parameters: Mapping[str, Value]) -> Rows:
        cursor = self._connection.execute(statement, parameters)
        return Rows(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())


class ServerReader:
    """PostgreSQL, in read-only transactions."""

    def __init__(self, location: Location) -> None:
        from .server import engine

        self._location = location
        self._engine = engine(location)

    def select(self, statement: str, parameters: Mapping[str, Value]) -> Rows:
        """See Reader."""
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError

        from .server import in_words

        try:
            with self._engine.connect().execution_options(postgresql_readonly=True) as connection:
                result = connection.execute(text(statement), dict(parameters))
                return Rows(tuple(result.keys()), [tuple(row) for row in result])
        except DBAPIError as error:
            raise in_words(error, self._location) from None

    def sql(self, query: str) -> Rows:
        """See Reader. A server-side cursor takes one query and nothing else."""
        from sqlalchemy.exc import DBAPIError

        _check_text(query)

        options = {"postgresql_readonly": True, "stream_results": True}
        try:
            with self._engine.connect().execution_options(**options) as connection:
                # The driver looks for placeholders, in strings too.
                result = connection.exec_driver_sql(query.replace("%", "%%"))
                return Rows(tuple(result.keys()), [tuple(row) for row in result])
        except DBAPIError as error:
            raise LanemapError(_sql_words(str(error.orig).splitlines()[0])) from None

    def close(self) -> None:
        """See Reader."""
        self._engine.dispose()


def _check_text(query: object) -> None:
    if not isinstance(query, str) or "\0" in query or any("\ud800" <= each <= "\udfff" for each in query):
        raise LanemapError("sql: that is not text in UTF-8 (it takes one SELECT, as in SELECT * FROM layout LIMIT 5)")


def _sql_words(reason: str) -> str:
    """What went wrong in a user's query, with what would be right."""
    if (
        "at or near" in reason
        or "at end of input" in reason
        or "one statement at a time" in reason
        or "multiple commands" in reason
    ):
        return f"sql: {reason} (it takes one SELECT, and only reads)"
    if "binding" in reason.lower():
        return "sql: a value is left open (it takes one SELECT, without placeholders)"
    if "not authorized" in reason or "authorization denied" in reason or "prohibited" in reason:
        return "sql only reads: write a SELECT, as in SELECT * FROM layout LIMIT 5"
    unknown = "no such table" in reason or "does not exist" in reason
    return f"sql: {reason}" + (
        " (there are layout, chain, source, fragment, mapping, element and finding)" if unknown else ""
    )


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


def _authorize(action: int, _first: str | None, second: str | None, *_: str | None) -> int:
    """Allow queries alone: no writing, and no ATTACH, PRAGMA or VACUUM INTO, which could reach other files."""
    extension = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if action in _ALLOWED and not extension else sqlite3.SQLITE_DENY
