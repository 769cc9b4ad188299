"""Reading PostgreSQL."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from .errors import LanemapError, UnavailableError, masked
from .limits import collected, in_batches, sql_words, too_long
from .reader import Reader, Rows, Value


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
                return Rows(columns, collected(in_batches(cursor, ends, seconds), most))
        except psycopg.errors.QueryCanceled:
            raise too_long(seconds) from None
        except (psycopg.Error, ValueError) as error:
            raise LanemapError(sql_words(str(error).strip().splitlines()[0])) from None

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
