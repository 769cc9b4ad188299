"""Read-only connections. SQLite is read with the standard library alone: SQLAlchemy is too slow to import.

Whatever the statement, a reader cannot write. One reader serves any number of threads: each request takes a connection
that is free, or opens another one.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from .errors import LanemapError, UnavailableError, masked
from .location import SCHEMA_VERSION, Location

if TYPE_CHECKING:
    import pandas as pd

Value = str | int | None

#: Limits of a user's query, unless other ones are given.
SECONDS, ROWS = 60.0, 1_000_000

_RESULT_BYTES = 1 << 30
_VALUE_BYTES = 1 << 21
_QUERY_LENGTH = 50_000
_LONGEST = 86_400
_PATIENCE = 60.0
_IDLE = 4


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

    def frame(self) -> pd.DataFrame:
        """The rows as a frame.

        Raises:
            LanemapError: two columns have the same name.
        """
        import pandas as pd

        return pd.DataFrame.from_records(list(self.named().rows), columns=list(self.columns))


class Reader(ABC):
    """A database that exists, open for reading."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._own = threading.local()
        self._closed = False
        self._verified: Sequence[tuple[Any, ...]] | None = None
        self._give_back(self._begin())

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread reads in the block is of one state of the database, whoever writes meanwhile.

        Raises:
            LanemapError: the database is closed, or cannot be read.
        """
        if getattr(self._own, "connection", None) is not None:
            yield
            return
        self._own.connection, self._own.queried = self._begin(), False
        try:
            yield
            self._give_back(self._own.connection)
        except LanemapError:
            # After a user's query it is neither given back nor closed: one that cannot be interrupted may still run,
            # and closing what it works on would end the process. It closes with the last that refers to it.
            if not self._own.queried:
                with suppress(Exception):  # what was raised first is what is said
                    self._give_back(self._own.connection)
            raise
        finally:
            self._own.connection = None

    def select(self, statement: str, parameters: Mapping[str, Value]) -> Rows:
        """Run one of Lanemap's own statements, with ``:name`` parameters.

        Raises:
            LanemapError: the database cannot be read: it is damaged, or the server stopped.
        """
        with self.snapshot(), self._in_words():
            return self._select(self._own.connection, statement, parameters)

    def sql(self, query: str, *, seconds: float = SECONDS, rows: int = ROWS) -> Rows:
        """Run a user's query as it is.

        Args:
            query: one SELECT.
            seconds: how long it may take.
            rows: how many rows it may give.

        Raises:
            LanemapError: the database refuses it, or it goes beyond a limit.
        """
        if not isinstance(query, str) or "\0" in query or any("\ud800" <= each <= "\udfff" for each in query):
            raise LanemapError(
                "sql: that is not text in UTF-8 (it takes one SELECT, as in SELECT * FROM layout LIMIT 5)"
            )
        if len(query) > _QUERY_LENGTH:
            raise LanemapError(f"sql: the query is longer than {_QUERY_LENGTH} characters")
        if not (0 < seconds <= _LONGEST and rows > 0):
            raise LanemapError(f"sql: the limits are 1 row or more, and more than 0 and up to {_LONGEST} seconds")
        with self.snapshot():
            self.verify()
            self._own.queried = True
            return self._sql(self._own.connection, query, seconds, rows)

    @abstractmethod
    def changes(self) -> object:
        """Another value after somebody has written. Of a file it is told at once, even while somebody writes."""

    def packed(self, mappings: Collection[int]) -> dict[int, bytes]:
        """The packed elements of mappings, by number, each compared with its digest.

        Raises:
            LanemapError: they are damaged, or a mapping is not there any more.
        """
        between = {"first": min(mappings, default=0), "last": max(mappings, default=0)}
        wanted = set(mappings)
        rows = [row for row in self.select(_PACKED, between).rows if row[0] in wanted]
        if bad := next((number for number, digest, elements in rows if sha256(elements).hexdigest() != digest), None):
            raise self.damaged(f"the elements of mapping {bad}")
        if len(rows) < len(wanted):
            raise LanemapError(f"{self.location}: another program replaced what was being read: run it again")
        return {number: elements for number, _, elements in rows}

    def verify(self) -> None:
        """Make sure, once for each state of the database, that all of it but packed elements is what was written.

        Raises:
            LanemapError: it is damaged; says what of it.
        """
        from .integrity import problems

        with self.snapshot():
            state = self.select("SELECT id FROM source ORDER BY id", {}).rows
            if state != self._verified:
                try:
                    problem = next(problems(self), None)
                except (TypeError, ValueError, LookupError):  # what is there is not even of the types that were written
                    problem = "a value"
                if problem is not None:
                    raise self.damaged(problem)
                self._verified = state

    def damaged(self, what: str) -> LanemapError:
        """What to raise where something was read that was not written so."""
        return LanemapError(f"{self.location} is damaged: {what} changed after it was written: {_RESTORE}")

    def close(self) -> None:
        """Release the connections. A closed reader answers nothing more."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _begin(self) -> Any:
        """A connection in a read transaction."""
        if self._closed:
            raise LanemapError("the database is closed: open it again with lanemap.open")
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        with self._in_words():
            return self._start(idle)

    def _give_back(self, connection: Any) -> None:
        connection.rollback()
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    @abstractmethod
    def _start(self, idle: Any | None) -> Any:
        """Begin a read transaction on an idle connection if it still works, else on a new one."""

    @abstractmethod
    def _select(self, connection: Any, statement: str, parameters: Mapping[str, Value]) -> Rows: ...

    @abstractmethod
    def _sql(self, connection: Any, query: str, seconds: float, most: int) -> Rows: ...

    @abstractmethod
    def _in_words(self) -> AbstractContextManager[None]:
        """The database's own errors as a LanemapError."""


def connect(location: Location) -> Reader:
    """Open a database that exists."""
    return FileReader(location) if location.file is not None else ServerReader(location)


def state(location: Location) -> str | None:
    """The fingerprint of the shipped sources that the database was built from; None where there is no database yet.

    Raises:
        LanemapError: it was made by another version of Lanemap, or is not a Lanemap database.
    """
    if location.file is not None and not _there(location.file):
        return None
    with closing(connect(location)) as reader, reader.snapshot():
        if not reader.select(_HAS_META[location.file is None], {}).rows:
            return None
        try:
            meta = dict(reader.select("SELECT key, value FROM meta", {}).rows)
        except LanemapError:
            meta = {}
    if not {"schema", "shipped"} <= {*meta}:
        raise LanemapError(f"{location} is not a Lanemap database, though it has a table meta: name another database")
    if meta["schema"] != str(SCHEMA_VERSION):
        raise LanemapError(
            f"{location} was made by another version of Lanemap (schema {meta['schema']}, this one has "
            f"{SCHEMA_VERSION}): name another database, or move this one away and run the command again"
        )
    return str(meta["shipped"])


def wait_for_lock(attempt: Callable[[], bool], what: object) -> None:
    """Repeat an attempt until it succeeds. Waits in Python, where Ctrl-C is noticed, and says so after a second.

    Raises:
        LanemapError: it did not succeed for a minute.
    """
    began = time.monotonic()
    said = False
    while not attempt():
        waited = time.monotonic() - began
        if waited > _PATIENCE:
            raise UnavailableError(
                f"{what} is in use by another program, for more than {_PATIENCE:.0f} s: try again later"
            )
        if waited > 1 and not said:
            from logging import getLogger

            getLogger("lanemap").warning("lanemap: waiting for another program that uses %s", what)
            said = True
        time.sleep(0.01 if waited < 1 else 0.1)


def busy(error: BaseException | None) -> bool:
    """Whether SQLite refused because another connection has a lock."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


class FileReader(Reader):
    """SQLite, opened read-only; an authoriser refuses every statement of a user but queries."""

    _watching: sqlite3.Connection | None = None
    _changes: object = None

    def close(self) -> None:
        """See ``Reader``."""
        super().close()
        with self._lock:
            if self._watching:
                self._watching.close()

    def changes(self) -> object:
        """See ``Reader``."""
        with self._lock:
            try:
                if self._closed:
                    return None
                self._watching = self._watching or self._open()
                # SQLite counts what other connections have committed.
                self._changes = self._watching.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error as error:
                if not busy(error):  # a writer was killed: whoever reads next mends it
                    return object()
            return self._changes

    def _start(self, idle: Any | None) -> Any:
        assert self.location.file is not None
        file, connection = self.location.file, idle or self._open()
        connection.execute("BEGIN")

        def attempt() -> bool:
            try:
                # The lock, and with it the snapshot, is taken by the first statement that reads.
                connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                    recover(file)
                elif not busy(error):
                    raise
                return False
            return True

        try:
            wait_for_lock(attempt, self.location)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> sqlite3.Connection:
        assert self.location.file is not None
        recover(self.location.file)
        return sqlite3.connect(
            f"{self.location.file.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )

    def _select(self, connection: Any, statement: str, parameters: Mapping[str, Value]) -> Rows:
        cursor = connection.execute(statement, parameters)
        return Rows(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())

    def _sql(self, connection: Any, query: str, seconds: float, most: int) -> Rows:
        def run() -> Rows:
            cursor = connection.execute(query)
            return Rows(tuple(column[0] for column in cursor.description or ()), _collected(cursor, most))

        limits = {limit: connection.setlimit(limit, value) for limit, value in _LIMITS.items()}
        connection.set_authorizer(_authorize)
        try:
            rows = _interruptible(run, connection.interrupt, seconds)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise LanemapError(_sql_words(str(error))) from None
        connection.set_authorizer(None)
        for limit, value in limits.items():
            connection.setlimit(limit, value)
        if not rows.columns:
            raise LanemapError("that is not a query: write a SELECT, as in SELECT * FROM layout LIMIT 5")
        return rows

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            damaged = any(words in str(error) for words in ("malformed", "no such", "decode"))
            raise UnavailableError(
                f"cannot read {self.location}: {error}: {_RESTORE if damaged else 'name another database'}"
            ) from None


def recover(file: Path) -> None:
    """Undo what a writer that was killed left half done: a reader that may not write could not.

    Raises:
        LanemapError: it cannot be undone, or the journal beside the file is of another one.
    """
    journal = Path(f"{file}-journal")
    try:
        with journal.open("rb") as stream:
            head = stream.read(8)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise LanemapError(f"cannot read {journal}: {error.strerror}") from None
    # SQLite writes a header of zeros first, and deletes whatever it finds under this name.
    if not file.exists() or head not in (b"", bytes(8), b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"):
        raise LanemapError(f"{journal} is not the journal of {file}: move it away, or name another database")
    with closing(sqlite3.connect(file, timeout=0)) as connection:
        try:
            connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        except sqlite3.Error as error:
            if not busy(error):
                raise LanemapError(
                    f"{file} was left half written and cannot be mended: {error}: name another database"
                ) from None


def _there(file: Path) -> bool:
    """Whether a file holds anything, half done or not."""
    if file.is_dir():
        raise LanemapError(f"{file} is a folder: name a file in it, as in {file}/layouts.db")
    recover(file)
    return file.exists() and file.stat().st_size > 0


class ServerReader(Reader):
    """PostgreSQL, in read-only transactions that see one state."""

    def changes(self) -> object:
        """See ``Reader``."""
        # A source is never changed: another one takes its place, with a number that none had before.
        return self.select("SELECT id FROM source ORDER BY id", {}).rows

    def _start(self, idle: Any | None) -> Any:
        import psycopg

        if idle is not None:
            try:
                idle.execute("SELECT 1")
            except psycopg.OperationalError:  # the server was started again meanwhile
                idle.close()
            else:
                return idle
        connection = psycopg.connect(self.location.url or "", connect_timeout=10)
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        return connection

    def _select(self, connection: Any, statement: str, parameters: Mapping[str, Value]) -> Rows:
        cursor = connection.execute(_with_psycopg_parameters(statement), parameters)
        return Rows(tuple(column.name for column in cursor.description), cursor.fetchall())

    def _sql(self, connection: Any, query: str, seconds: float, most: int) -> Rows:
        import psycopg

        ends = time.monotonic() + seconds
        try:
            _refuse_volatile(connection, query)
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, int(seconds * 1000)))])
            # A cursor on the server takes one query and nothing else.
            with connection.cursor("sql") as cursor:
                cursor.execute(query)
                columns = tuple(column.name for column in cursor.description)
                return Rows(columns, _collected(_in_batches(cursor, ends, seconds), most))
        except psycopg.errors.QueryCanceled:
            raise _too_long(seconds) from None
        except (psycopg.Error, ValueError) as error:
            raise LanemapError(_sql_words(str(error).strip().splitlines()[0])) from None

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            import psycopg
        except ImportError:
            raise LanemapError('PostgreSQL needs psycopg: pip install "psycopg[binary]"') from None
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise UnavailableError(f"cannot read {self.location}: {masked(reason)}") from None


@cache
def _with_psycopg_parameters(statement: str) -> str:
    return re.sub(r"(?<![:\w]):([a-z_]\w*)", r"%(\1)s", statement.replace("%", "%%"))


def _refuse_volatile(connection: Any, query: str) -> None:
    """Refuse the functions that PostgreSQL itself calls volatile: they write, or reach files and other connections.

    They are looked for in the whole text: a name in PostgreSQL is spelled in one piece, unless it is escaped.
    """
    words = {*re.findall(r"[a-z_][a-z0-9_$]*", query.lower())} - {"random", "gen_random_uuid", "clock_timestamp"}
    found = connection.execute(_VOLATILE, [sorted(words)]).fetchone()
    if found or re.search(r"\bu&[\"']", query, re.IGNORECASE):
        name = found[0] if found else "U&"
        raise LanemapError(f"sql only reads tables: it does not take {name}, which can do more than that")


_VOLATILE = "SELECT proname FROM pg_catalog.pg_proc WHERE provolatile = 'v' AND proname::text = ANY(%s) LIMIT 1"


def _in_batches(cursor: Any, ends: float, seconds: float) -> Iterator[tuple[Any, ...]]:
    """Rows of a server, a few first, so that a few large ones are noticed before there are many."""
    size = 1
    while rows := cursor.fetchmany(size):
        yield from rows
        if time.monotonic() > ends:
            raise _too_long(seconds)
        size = min(2 * size, 1000)


def _collected(found: Iterable[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
    """Rows in a list, as many as may be."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in found:
        size += sum(map(getsizeof, row))
        if len(rows) == most:
            raise LanemapError(f"sql: there are more than {most} rows: add LIMIT, or allow more rows")
        if size > _RESULT_BYTES:
            raise LanemapError(
                f"sql: the result takes more than {_RESULT_BYTES >> 20} MB: select fewer columns or rows"
            )
        rows.append(row)
    return rows


def _interruptible(run: Callable[[], Rows], interrupt: Callable[[], object], seconds: float) -> Rows:
    """Run a query in a thread of its own, so that a limit of time, Ctrl-C and SIGTERM can end it."""
    results: list[Rows | BaseException] = []
    done = threading.Event()

    def keep() -> None:
        try:
            results.append(run())
        except BaseException as error:
            results.append(error)
        done.set()

    try:
        # Ctrl-C may come while the thread begins, too.
        threading.Thread(target=keep, daemon=True).start()
        if not done.wait(seconds):
            raise _too_long(seconds)
    finally:
        # What began just now does not notice the first interruption; what cannot be interrupted is left behind.
        for _ in range(20):
            if done.is_set():
                break
            interrupt()
            done.wait(0.05)
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


def _too_long(seconds: float) -> LanemapError:
    return LanemapError(f"sql: the query takes longer than {seconds:g} s: ask for less, or allow more time")


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
    if any(
        words in reason for words in ("not authorized", "authorization denied", "prohibited", "may not be modified")
    ):
        return "sql only reads: write a SELECT, as in SELECT * FROM layout LIMIT 5"
    unknown = "no such table" in reason or "does not exist" in reason
    return f"sql: {reason}" + (" (there are layout, source, fragment, mapping, element and finding)" if unknown else "")


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "function_list"}


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow queries alone: no writing, and no ATTACH, PRAGMA or VACUUM INTO, which could reach other files."""
    if action == sqlite3.SQLITE_FUNCTION and second == "load_extension":
        return sqlite3.SQLITE_DENY
    # A table function such as json_each is declared as if it changed the schema, which SQLite lets no statement do.
    declares = action == sqlite3.SQLITE_UPDATE and first == "sqlite_master"
    describes = action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS
    return sqlite3.SQLITE_OK if action in _ALLOWED or declares or describes else sqlite3.SQLITE_DENY


_LIMITS = {sqlite3.SQLITE_LIMIT_LENGTH: _VALUE_BYTES, sqlite3.SQLITE_LIMIT_COLUMN: 200}

_RESTORE = "restore it from a copy, or move it away, and the next command builds another one"

_PACKED = "SELECT id, digest, elements FROM mapping WHERE id BETWEEN :first AND :last"
_HAS_META = {
    False: "SELECT 1 FROM sqlite_schema WHERE name = 'meta'",
    True: "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'meta'",
}
