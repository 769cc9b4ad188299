"""Reading SQLite, with the standard library alone: SQLAlchemy is too slow to import."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from .errors import LanemapError, UnavailableError
from .limits import collected, interruptible, sql_words
from .reader import RESTORE, Reader, Rows, Value

_VALUE_BYTES = 1 << 21
_PATIENCE = 60.0


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
            return Rows(tuple(column[0] for column in cursor.description or ()), collected(cursor, most))

        limits = {limit: connection.setlimit(limit, value) for limit, value in _LIMITS.items()}
        connection.set_authorizer(_authorize)
        try:
            rows = interruptible(run, connection.interrupt, seconds)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise LanemapError(sql_words(str(error))) from None
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
                f"cannot read {self.location}: {error}: {RESTORE if damaged else 'name another database'}"
            ) from None


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


def there(file: Path) -> bool:
    """Whether a file holds anything, half done or not."""
    if file.is_dir():
        raise LanemapError(f"{file} is a folder: name a file in it, as in {file}/layouts.db")
    recover(file)
    return file.exists() and file.stat().st_size > 0


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
