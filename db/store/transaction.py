"""Writing: one transaction, all or nothing, on SQLite and PostgreSQL alike."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from ..errors import LanemapError, UnavailableError
from .connection import TABLES, busy, connected, recover, wait_for_lock
from .location import Location
from .reader import Rows, run, spelled

#: The advisory lock of every transaction: any number, as long as all versions of Lanemap use the same one.
_LOCK = 0x4C414E45


class Transaction:
    """A connection within a transaction. Statements have parameters like ``:name``."""

    def __init__(self, connection: Any, location: Location) -> None:
        self.location, self.in_file = location, location.file is not None
        self._connection = connection

    def run(self, statement: str, **parameters: Any) -> Rows:
        """Run a statement; the rows that it returns."""
        return run(self._connection, statement, parameters, self.location)

    def values(self, statement: str, **parameters: Any) -> list[Any]:
        """The values in the first column of what a statement returns."""
        return [row[0] for row in self.run(statement, **parameters).rows]

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows, all of which have the columns of the first."""
        rows = list(rows)
        if rows:
            statement = f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES (:{', :'.join(rows[0])})"  # noqa: S608
            self._connection.cursor().executemany(spelled(statement, self.location), rows)

    def copy(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
        """Insert many rows of numbers, which have the same columns in the same order."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        if self.in_file:
            self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608
        else:
            with self._connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))

    def tables(self) -> list[str]:
        """The tables of the schema in which new ones are made, not of other visible schemas of a server."""
        return self.values(TABLES[self.in_file])

    def attempt(self, statement: str) -> bool:
        """Whether a statement was run, not stopped by a lock."""
        try:
            self.run(statement)
        except sqlite3.Error as error:
            if not busy(error):
                raise
            return False
        return True


@contextmanager
def begin(location: Location, mode: str = "rw") -> Iterator[Transaction]:
    """A transaction that excludes other writers from its first statement on. Mode ``rwc`` makes the file if need be.

    Raises:
        LanemapError: an error of the database.
    """
    with _in_words(location), closing(_opened(location, mode)) as connection:
        transaction = Transaction(connection, location)
        if location.file is not None:
            transaction.run("PRAGMA foreign_keys = ON")
            # Makes commits durable: otherwise a deleted journal may reappear after a power failure.
            wait_for_lock(lambda: transaction.attempt("PRAGMA synchronous = EXTRA"), location)
            # Otherwise what does not fit into the cache is written early, and readers must wait until the end.
            transaction.run("PRAGMA cache_spill = OFF")
            # ANALYZE need not read all rows of an index: the elements of all layouts are alike.
            transaction.run("PRAGMA analysis_limit = 1000")
            wait_for_lock(lambda: transaction.attempt("BEGIN IMMEDIATE"), location)
        else:
            wait_for_lock(
                lambda: transaction.values("SELECT pg_try_advisory_xact_lock(:lock)", lock=_LOCK)[0], location
            )
        yield transaction
        wait_for_lock(lambda: transaction.attempt("COMMIT"), location)


def _opened(location: Location, mode: str) -> Any:
    if location.file is None:
        return connected(location)
    recover(location.file)
    address = f"{location.file.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)


@contextmanager
def _in_words(location: Location) -> Iterator[None]:
    """Turn a database's error into one line."""
    lost: type[Exception] | tuple[()] = ()
    errors: type[Exception] = sqlite3.Error
    if location.file is None:
        import psycopg

        errors, lost = psycopg.Error, psycopg.OperationalError
    try:
        yield
    except errors as error:
        reason = location.without_secrets(str(error).strip().splitlines()[0])
        if "not a database" in reason:
            raise LanemapError(f"{location} is not a Lanemap database: name another file") from None
        if "unable to open" in reason or "readonly" in reason:
            raise LanemapError(f"cannot write {location}: {reason}: name a file that can be written") from None
        raise (UnavailableError if isinstance(error, lost) else LanemapError)(f"{location}: {reason}") from None
