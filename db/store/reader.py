"""Read-only connections: what those to SQLite and to PostgreSQL have in common.

Whatever the statement, a reader cannot write. One reader serves any number of threads: each request takes a free
connection, or opens another one.
"""

from __future__ import annotations

import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from sys import getsizeof
from typing import Any, TypeVar

from ..errors import DamagedError, LanemapError
from ..layout.fragment import Citation, Packed, by_element, part
from ..rows import Rows
from .integrity import TABLES as TABLES_SEALED
from .integrity import problems, seal_of_table
from .location import Location

Value = str | int | None
T = TypeVar("T")

#: The columns of the ``layout`` view and of every export, in this order.
COLUMNS = (
    *("shape", "type", "role", "lane", "reg", "slot", "row", "col"),
    *("col_last", "instruction", "major", "computation", "selector", "qualifiers", "source", "first_bit"),
)

#: Selects the state of a database: a seal of each table.
STATE = "SELECT key, value FROM meta ORDER BY key"

#: Default limits of a user's query.
SECONDS, ROWS = 60.0, 1_000_000

_RESULT_BYTES = 1 << 30
_QUERY_LENGTH = 50_000
_LONGEST = 86_400
_IDLE = 4
_MOST_KEPT = 4096

#: No layout takes more bytes. In a database from elsewhere a few compressed ones may claim to be any number.
_MOST_BYTES = 1 << 26

#: The tables that a query can read.
TABLES = "layout, source, fragment, citation, mapping, element, finding, instruction, form and operand"

#: How to repair a damaged database.
RESTORE = "restore it from a copy, or move it away, and the next command builds another one"


#: The state of each database when it was last verified, with its rows or without them.
_VERIFIED: dict[tuple[Location, bool], object] = {}


class Reader(ABC):
    """A database that exists, open for reading."""

    def __init__(self, location: Location, shipped: Callable[[], Collection[str]]) -> None:
        self.location = location
        self.shipped = shipped
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._own = threading.local()
        self._closed = False
        self._unique = object()
        self._kept: tuple[object, dict[Hashable, Any]] = None, {}
        self._elements: dict[str, Packed] = {}
        self._give_back(self._begin())

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within the block this thread sees one state of the database, whoever writes meanwhile.

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
            # A user's query that cannot be interrupted may still run, and closing its connection would end the process:
            # the thread that runs it closes it.
            if not self._own.queried:
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
            cursor = self._own.connection.execute(self._spelled(statement), parameters)
            return Rows(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())

    def sql(self, query: str, *, seconds: float = SECONDS, rows: int = ROWS) -> Rows:
        """Run a user's query unchanged.

        Args:
            query: one SELECT.
            seconds: how long it may take.
            rows: how many rows it may return.

        Raises:
            LanemapError: the database refuses it, or it exceeds a limit.
        """
        if not isinstance(query, str) or "\0" in query or any("\ud800" <= character <= "\udfff" for character in query):
            raise LanemapError("sql: the query is not UTF-8 text: write a SELECT, as in SELECT * FROM layout LIMIT 5")
        if len(query) > _QUERY_LENGTH:
            raise LanemapError(f"sql: the query is longer than {_QUERY_LENGTH} characters")
        numbers = isinstance(seconds, int | float) and isinstance(rows, int)
        if not (numbers and 0 < seconds <= _LONGEST and rows > 0):
            raise LanemapError(f"sql: rows must be at least 1, and seconds more than 0 and at most {_LONGEST}")
        with self.snapshot():
            self.verify(rows=True)
            with self._in_words():
                self._own.queried = True
                found = self._interruptible(query, seconds, rows)
                self._own.queried = False
                return found

    def _interruptible(self, query: str, seconds: float, most: int) -> Rows:
        """Run a query in a thread of its own, so that a time limit, Ctrl-C and SIGTERM can end it."""
        from concurrent.futures import Future, wait  # not needed by a look-up

        connection, answer = self._own.connection, Future[Rows]()

        def work() -> None:
            try:
                answer.set_result(self._asked(connection, query, seconds, most))
            except BaseException as error:
                connection.close()
                answer.set_exception(error)

        try:
            # Ctrl-C may come even while the thread starts.
            threading.Thread(target=work, daemon=True).start()
            return answer.result(seconds)
        except TimeoutError:
            raise too_long(seconds) from None
        finally:
            # A query that has just begun misses the first interruption; one that cannot be interrupted is abandoned.
            for _ in range(5):
                if answer.done():
                    break
                self._interrupt(connection)
                wait([answer], 0.05)

    @abstractmethod
    def changes(self) -> Hashable:
        """A value that differs after every write, of a snapshot the one when it was taken.

        For a file it never waits, even while another program writes.
        """

    def privilege(self) -> str | None:
        """Why a user's query could read more than what Lanemap wrote; None if it could not."""
        return None

    def elements(self, mapping: int, digest: str) -> Packed:
        """The elements of a mapping, which are read on demand, and from then on kept, whatever is written."""
        held = self._elements.get(digest)
        if held is None or (held.mapping != mapping and "data" not in vars(held)):
            if len(self._elements) > _MOST_KEPT:
                self._elements = {}
            held = self._elements[digest] = Packed(digest, mapping, lambda number: self.packed([number])[number])
        return held

    def packed(self, mappings: Collection[int]) -> dict[int, bytes]:
        """The packed elements of mappings, by number, each checked against its digest.

        Raises:
            LanemapError: they are damaged, or a mapping no longer exists.
        """
        between = {"first": min(mappings, default=0), "last": max(mappings, default=0)}
        wanted = set(mappings)
        rows = [row for row in self.select(_PACKED, between).rows if row[0] in wanted]
        lenders = {row[-1] for row in rows} - {None}
        whole = self.packed(lenders) if lenders else {}
        read = {}
        for number, digest, elements, registers, cols, lender in rows:
            try:
                if lender is None:
                    read[number] = by_element(zlib.decompressobj().decompress(elements, _MOST_BYTES))
                else:
                    read[number] = part(whole[lender], registers, cols)
            except (TypeError, ValueError, zlib.error):
                read[number] = b""
            if sha256(read[number]).hexdigest() != digest:
                raise self.damaged(f"the elements of mapping {number}")
        if len(rows) < len(wanted):
            raise LanemapError(f"{self.location} was changed by another program while it was read: run it again")
        return read

    def verify(self, *, rows: bool) -> None:
        """Check, once for each state of the database, that its fragments are as they were written.

        Args:
            rows: whether to check the rows of their elements, too. Packed elements are checked when they are read.

        Raises:
            LanemapError: it is damaged; the message says which part.
        """

        def run(statement: str) -> Sequence[tuple[Any, ...]]:
            return self.select(statement, {}).rows

        with self.snapshot():
            state = self._version(), run(STATE)
            if state in (_VERIFIED.get((self.location, True)), _VERIFIED.get((self.location, rows))):
                return
            try:
                problem = next(problems(run, file=self.location.file is not None, rows=rows), None)
            except (TypeError, ValueError, LookupError):  # a value does not even have the type that was written
                problem = "a value"
            if problem is not None:
                raise self.damaged(problem)
            _VERIFIED[self.location, rows] = state

    def sealed(self, *tables: str) -> list[tuple[Any, ...]]:
        """What the seals of tables cover, side by side: a few rows, for which the database need not be verified.

        Raises:
            DamagedError: they are not what was written.
        """
        with self.snapshot():
            meta = dict(self.select(STATE, {}).rows)
            of_each = [self.select(TABLES_SEALED[table], {}).rows for table in tables]
        for table, rows in zip(tables, of_each, strict=True):
            if meta.get(f"seal of {table}") != seal_of_table(rows):
                raise self.damaged(f"the table {table}")
        return [tuple(chain(*rows)) for rows in zip(*of_each, strict=True)]

    def kept(self, key: Hashable, read: Callable[[], T]) -> T:
        """What ``read`` reads, once for a state of the database. ``key`` says what it is."""
        state = self.changes()
        held = self._kept  # another thread may put others there meanwhile
        if state != held[0] or len(held[1]) > _MOST_KEPT:
            held = self._kept = state, {}
        kept: dict[Hashable, T] = held[1]
        if key not in kept:
            with self.snapshot():
                result = read()
                if self.changes() != state:  # it was written in the meantime
                    return result
            kept[key] = result
        return kept[key]

    def damaged(self, part: str) -> DamagedError:
        """The error for a part that is not as it was written."""
        return DamagedError(f"{self.location} is damaged: {part} changed after it was written: {RESTORE}")

    def close(self) -> None:
        """Release the connections, and all that was kept. A closed reader can no longer be used."""
        self._closed = True
        self._kept, self._elements = (None, {}), {}
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
        with suppress(Exception):  # the connection was lost, but what was read is valid
            connection.rollback()
            with self._lock:
                if not self._closed and len(self._idle) < _IDLE:
                    self._idle.append(connection)
                    return
        connection.close()

    def _version(self) -> object:
        """A value that differs after every change, as far as can be told without reading the database."""
        return self._unique

    @abstractmethod
    def _start(self, idle: Any | None) -> Any:
        """Begin a read transaction on the idle connection if it still works, else on a new one."""

    def _spelled(self, statement: str) -> str:
        """A statement with its parameters as the driver writes them."""
        return statement

    @abstractmethod
    def _asked(self, connection: Any, query: str, seconds: float, most: int) -> Rows:
        """The result of a user's query, which another thread may interrupt."""

    @abstractmethod
    def _interrupt(self, connection: Any) -> None:
        """End the query that a connection runs."""

    @abstractmethod
    def _in_words(self) -> AbstractContextManager[None]:
        """Turn the database's own errors into a LanemapError."""


_PACKED = (
    "SELECT id, digest, elements, registers * times, cols + (times - 1) * width, rows_of FROM mapping"
    " WHERE id BETWEEN :first AND :last"
)


def collected(cursor: Iterable[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
    """The rows of a cursor, within the limits."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        size += sum(map(getsizeof, row))
        if len(rows) == most:
            raise LanemapError(f"sql: there are more than {most} rows: add LIMIT, or allow more rows")
        if size > _RESULT_BYTES:
            raise LanemapError(f"sql: the result exceeds {_RESULT_BYTES >> 20} MB: select fewer columns or rows")
        rows.append(row)
    return rows


def too_long(seconds: float) -> LanemapError:
    """The error for a query that exceeded its time."""
    return LanemapError(f"sql: the query takes longer than {seconds:g} s: ask for less, or allow more time")


def sql_words(reason: str) -> str:
    """An error in a user's query, with what would be right."""

    def says(*words: str) -> bool:
        return any(word in reason for word in words)

    if says("at or near", "syntax error", "incomplete input", "one statement at a time", "multiple commands"):
        return f"sql: {reason} (it takes one SELECT, and only reads)"
    if says("binding", "Binding"):
        return "sql: a placeholder has no value (it takes one SELECT, without placeholders)"
    if says("not authorized", "authorization denied", "prohibited", "may not be modified"):
        return "sql only reads: write a SELECT, as in SELECT * FROM layout LIMIT 5"
    if says(*(f"no such column: {name}" for name in Citation._fields)):
        return f"sql: {reason} (the table citation has it in words, as JSON)"
    if says("no such column"):
        return f"sql: {reason} (layout has {', '.join(COLUMNS)})"
    return f"sql: {reason}" + (f" (there are {TABLES})" if says("no such table", "does not exist") else "")
