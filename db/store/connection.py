"""Connections for reading, to an SQLite file and to PostgreSQL, and the state of a database.

SQLite is read with the standard library alone: SQLAlchemy is too slow to import.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import LanemapError, UnavailableError
from ..rows import Rows
from .location import SCHEMA_VERSION, Location
from .reader import RESTORE, STATE, Reader, collected, sql_words, too_long


def connect(location: Location, shipped: Callable[[], Collection[str]] = frozenset) -> Reader:
    """Open an existing database. ``shipped`` returns the names of the sources that come with Lanemap."""
    return (FileReader if location.file is not None else ServerReader)(location, shipped)


def state(location: Location) -> str | None:
    """The digest of the program that built the shipped sources.

    None if there is no database yet.

    Raises:
        LanemapError: it was made by another version of Lanemap, or is not a Lanemap database.
    """
    if location.file is not None and not has_content(location.file):
        return None
    with closing(connect(location)) as reader, reader.snapshot():
        if not reader.select(_HAS_META[location.file is None], {}).rows:
            return None
        rows = reader.select("SELECT * FROM meta", {})
        meta = dict(rows.rows) if rows.columns == ("key", "value") else {}
    if not {"schema", "shipped"} <= {*meta}:
        raise LanemapError(f"{location} has a table meta, but is not a Lanemap database: name another database")
    if meta["schema"] != str(SCHEMA_VERSION):
        raise LanemapError(
            f"{location} was made by another version of Lanemap (schema {meta['schema']}, this one has "
            f"{SCHEMA_VERSION}): name another database, or move this one away and run the command again"
        )
    return str(meta["shipped"])


_HAS_META = {
    False: "SELECT 1 FROM sqlite_schema WHERE name = 'meta'",
    True: "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'meta'",
}

_VALUE_BYTES = 1 << 21
_ROW_BYTES = 1 << 23
_TOO_LARGE = "a row is too large: "
_PATIENCE = 60.0


class _OpenFile(sqlite3.Connection):
    """A connection, and the status that its file had before it was opened."""

    status: object = None


def _status(file: Path) -> object:
    """A value that differs after every change of a database, and wherever another file took its place."""
    seen, now = [], time.time()
    # A database that somebody has switched to a write-ahead log changes there first. SQLite keeps it beside the file.
    followed = file.resolve() if file.is_symlink() else file
    for part in (file, Path(f"{followed}-wal")):
        try:
            status = part.stat()
        except OSError:
            continue
        # File times advance in steps: a file changed just now may change again within the same step.
        if abs(now - status.st_mtime) < 1 or abs(now - status.st_ctime) < 1:
            return object()
        seen.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(seen) or object()


class FileReader(Reader):
    """SQLite, opened read-only; an authoriser refuses every statement of a user except queries.

    A connection whose file has changed is not used again.
    """

    def __init__(self, location: Location, shipped: Callable[[], Collection[str]]) -> None:
        self._file = location.file or Path()
        super().__init__(location, shipped)

    def changes(self) -> Hashable:
        """See ``Reader``."""
        connection = getattr(self._own, "connection", None)
        return connection.status if connection else _status(self._file)

    def _version(self) -> object:
        return self._own.connection.status

    def _start(self, idle: Any | None) -> Any:
        if idle and idle.status != _status(self._file):
            idle.close()
            idle = None
        connection = idle or self._open()
        connection.execute("BEGIN")

        def attempt() -> bool:
            try:
                # The first statement that reads takes the lock, and with it the snapshot.
                connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                    recover(self._file)
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

    def _open(self) -> _OpenFile:
        recover(self._file)
        status = _status(self._file)
        address = f"{self._file.absolute().as_uri()}?mode=ro"
        options: dict[str, Any] = {"uri": True, "timeout": 0, "isolation_level": None, "check_same_thread": False}
        connection: _OpenFile = sqlite3.connect(address, factory=_OpenFile, **options)
        connection.status = status
        return connection

    def _interrupt(self, connection: Any) -> None:
        with suppress(sqlite3.ProgrammingError):  # a query that failed meanwhile has closed it
            connection.interrupt()

    def _asked(self, connection: Any, query: str, _: float, most: int) -> Rows:
        limits = {limit: connection.setlimit(limit, value) for limit, value in _LIMITS.items()}
        connection.set_authorizer(_authorize)
        try:
            with closing(connection.execute(query)) as cursor:
                rows = Rows(tuple(column[0] for column in cursor.description or ()), collected(cursor, most))
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


def wait_for_lock(attempt: Callable[[], bool], database: object) -> None:
    """Repeat an attempt until it succeeds. Waits in Python, where Ctrl-C is noticed, and logs this after a second.

    Raises:
        LanemapError: it did not succeed within a minute.
    """
    began = time.monotonic()
    warned = False
    while not attempt():
        waited = time.monotonic() - began
        if waited > _PATIENCE:
            used = f"{database} has been in use by another program for more than {_PATIENCE:.0f} s"
            raise UnavailableError(f"{used}: try again later")
        if waited > 1 and not warned:
            from logging import getLogger

            getLogger("lanemap").warning("lanemap: waiting for another program that uses %s", database)
            warned = True
        time.sleep(0.01 if waited < 1 else 0.1)


def busy(error: BaseException | None) -> bool:
    """Whether SQLite refused because another connection has a lock."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def recover(file: Path) -> None:
    """Undo what a killed writer left half done, which a read-only connection could not.

    Raises:
        LanemapError: it cannot be undone, or the journal next to the file belongs to another one.
    """
    journal = Path(f"{file}-journal")
    try:
        with journal.open("rb") as stream:
            head = stream.read(8)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise LanemapError(f"cannot read {journal}: {error.strerror}") from None
    # SQLite first writes a header of zeros, and deletes whatever it finds under this name.
    if not file.exists() or head not in (b"", bytes(8), b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"):
        raise LanemapError(f"{journal} is not the journal of {file}: move it away, or name another database")
    with closing(sqlite3.connect(file, timeout=0)) as connection:
        try:
            connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        except sqlite3.Error as error:
            if not busy(error):
                reason = f"{file} was left half written and cannot be recovered: {error}"
                raise LanemapError(f"{reason}: name another database") from None


def has_content(file: Path) -> bool:
    """Whether a database file exists and is not empty, after undoing what a killed writer left behind."""
    if file.is_dir():
        raise LanemapError(f"{file} is a folder: name a file in it, as in {file}/layouts.db")
    recover(file)
    return file.exists() and file.stat().st_size > 0


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_PRAGMAS = {"table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "function_list"}


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow only queries: no writing, and no ATTACH, PRAGMA or VACUUM INTO, which could reach other files."""
    if action == sqlite3.SQLITE_FUNCTION and second == "load_extension":
        return sqlite3.SQLITE_DENY
    # A table function such as json_each is declared as if it changed the schema, which no statement really can.
    declares = action == sqlite3.SQLITE_UPDATE and first == "sqlite_master"
    describes = action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS
    return sqlite3.SQLITE_OK if action in _ALLOWED or declares or describes else sqlite3.SQLITE_DENY


_LIMITS = {sqlite3.SQLITE_LIMIT_LENGTH: _VALUE_BYTES, sqlite3.SQLITE_LIMIT_COLUMN: 200}


class ServerReader(Reader):
    """PostgreSQL, in read-only transactions each of which sees one state."""

    def changes(self) -> Hashable:
        """See ``Reader``."""
        return tuple(self.select(STATE, {}).rows)

    def privilege(self) -> str | None:
        """See ``Reader``."""
        powers = self.select(_POWERS, {}).rows
        return f"the role {powers[0][0]} of {self.location} {powers[0][1]}" if powers else None

    def _start(self, idle: Any | None) -> Any:
        import psycopg

        if idle is not None:
            try:
                idle.execute("SELECT 1")
            except psycopg.OperationalError:  # the server was restarted in the meantime
                idle.close()
            else:
                return idle
        connection = connected(self.location)
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        return connection

    def _spelled(self, statement: str) -> str:
        return re.sub(r"(?<![:\w]):([a-z_]\w*)", r"%(\1)s", statement.replace("%", "%%"))

    def _interrupt(self, connection: Any) -> None:
        # The server does not notice its own limit of time while it copies a large value.
        connection.cancel()

    def _asked(self, connection: Any, query: str, seconds: float, most: int) -> Rows:
        import psycopg

        ends = time.monotonic() + seconds
        try:
            _refuse_volatile(connection, query)
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, int(seconds * 1000)))])
            # A server-side cursor takes exactly one query. A query that it accepts has balanced brackets, so it stays
            # within those of the other one, which sends no row that would fill the memory here.
            with connection.cursor("sql") as cursor:
                cursor.execute(query)
            with connection.cursor("sql") as cursor:
                cursor.execute(_SMALL_ROWS.format(query.rstrip().rstrip(";")))
                columns = tuple(column.name for column in cursor.description)
                return Rows(columns, collected(_in_batches(cursor, ends, seconds), most))
        except psycopg.errors.QueryCanceled:
            raise too_long(seconds) from None
        except psycopg.errors.OutOfMemory:
            raise LanemapError("sql: the query takes more memory than the server may: ask for less") from None
        except (psycopg.Error, ValueError) as error:
            if connection.closed:
                raise
            reason = str(error).strip().splitlines()[0]
            if _TOO_LARGE in reason:
                reason = f"a row takes more than {_ROW_BYTES >> 20} MB: select fewer columns"
            raise LanemapError(sql_words(reason)) from None

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            import psycopg
        except ImportError:
            raise LanemapError('PostgreSQL needs psycopg: pip install "psycopg[binary]"') from None
        try:
            yield
        except psycopg.Error as error:
            reason = self.location.without_secrets(str(error))
            raise UnavailableError(f"cannot read {self.location}: {reason}") from None


def connected(location: Location) -> Any:
    """A connection to the PostgreSQL server at a location.

    Raises:
        UnavailableError: the server cannot be reached, or refuses. It has no error of psycopg as its cause or context,
            as that may hold the password.
    """
    import psycopg

    try:
        return psycopg.connect(location.url or "", connect_timeout=10)
    except psycopg.Error as error:
        reason = location.without_secrets(str(error))
    raise UnavailableError(f"cannot read {location}: {reason}")


#: Roles that can read more than the tables that were granted to them.
_POWERS = """
SELECT current_user, 'is a superuser' FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper
UNION ALL SELECT current_user, 'may read files of the server'
WHERE pg_catalog.pg_has_role(current_user, 'pg_read_server_files', 'USAGE')
    OR pg_catalog.pg_has_role(current_user, 'pg_execute_server_program', 'USAGE')
"""


def _in_batches(cursor: Any, ends: float, seconds: float) -> Iterator[tuple[Any, ...]]:
    """Rows of a server, at first a few at a time, so that large ones are noticed before there are many."""
    size = 1
    while rows := cursor.fetchmany(size):
        yield from rows
        if time.monotonic() > ends:
            raise too_long(seconds)
        size = min(2 * size, 100)


def _refuse_volatile(connection: Any, query: str) -> None:
    """Refuse what PostgreSQL itself calls volatile: it writes, or reaches files and other connections.

    The names are searched for in the whole text, as PostgreSQL writes a name in one piece unless it is escaped. A name
    that is not a word, such as an operator, may be part of another.
    """
    text = query.casefold()
    words = {*_IDENTIFIER.findall(text)}
    for (name,) in connection.execute(_VOLATILE).fetchall():
        spelled = name.casefold()
        if spelled in words if _IDENTIFIER.fullmatch(spelled) else spelled in text.replace('""', '"'):
            raise LanemapError(f"sql only reads tables: it does not take {name}, which can do more than that")
    if re.search(r"\bu&[\"']", text):
        raise LanemapError("sql only reads tables: it does not take U&, which can do more than that")


#: A name: small letters, _, all that is not ASCII, and behind the first digits and $. It has no range of Unicode, which
#: would take 10 ms to compile.
_IDENTIFIER = re.compile(r"[^\x00-^`{-\x7f][^\x00-#%-/:-^`{-\x7f]*")

#: The names of volatile functions, and of operators, aggregates and casts that call them, of domains whose CHECK does,
#: and of every type that has a part of such a domain.
_VOLATILE = """
WITH volatile AS (SELECT oid, proname::text FROM pg_catalog.pg_proc WHERE provolatile = 'v'
    AND proname NOT IN ('random', 'gen_random_uuid', 'clock_timestamp'))
SELECT proname FROM volatile
UNION SELECT oprname FROM pg_catalog.pg_operator JOIN volatile ON oprcode = volatile.oid
UNION SELECT p.proname FROM pg_catalog.pg_aggregate JOIN pg_catalog.pg_proc AS p ON p.oid = aggfnoid
    JOIN volatile ON volatile.oid IN (aggtransfn, aggfinalfn, aggcombinefn, aggmtransfn, aggminvtransfn, aggmfinalfn)
UNION SELECT typname FROM pg_catalog.pg_cast JOIN volatile ON castfunc = volatile.oid
    JOIN pg_catalog.pg_type ON pg_type.oid = casttarget
UNION (WITH RECURSIVE checked(type) AS (
    SELECT contypid FROM pg_catalog.pg_constraint
    JOIN volatile ON conbin::text ~ (':(op)?funcid ' || volatile.oid || ' ')
    UNION SELECT pg_type.oid FROM checked JOIN pg_catalog.pg_type ON checked.type IN (typbasetype, typelem)
        OR EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = typrelid AND atttypid = checked.type)
        OR EXISTS (SELECT FROM pg_catalog.pg_range WHERE rngtypid = pg_type.oid AND rngsubtype = checked.type))
    SELECT typname FROM checked JOIN pg_catalog.pg_type ON pg_type.oid = checked.type)
"""

#: The rows of a query. A row with too many bytes is an error and is not sent.
_SMALL_ROWS = f"""
SELECT * FROM ({{}}
) AS lanemap WHERE CASE WHEN pg_catalog.pg_column_size(lanemap) <= {_ROW_BYTES} THEN true
    ELSE ('{_TOO_LARGE}' || pg_catalog.pg_column_size(lanemap))::boolean END
"""  # noqa: S608 - a user's query, which PostgreSQL has accepted as one query before
