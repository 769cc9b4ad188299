"""What a user's query may take, and what is said of one that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof
from typing import Any

from .errors import LanemapError
from .reader import Rows

_RESULT_BYTES = 1 << 30


def in_batches(cursor: Any, ends: float, seconds: float) -> Iterator[tuple[Any, ...]]:
    """Rows of a server, a few first, so that a few large ones are noticed before there are many."""
    size = 1
    while rows := cursor.fetchmany(size):
        yield from rows
        if time.monotonic() > ends:
            raise too_long(seconds)
        size = min(2 * size, 1000)


def collected(found: Iterable[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
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


def interruptible(run: Callable[[], Rows], interrupt: Callable[[], object], seconds: float) -> Rows:
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
            raise too_long(seconds)
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


def too_long(seconds: float) -> LanemapError:
    """What is said of a query that was ended."""
    return LanemapError(f"sql: the query takes longer than {seconds:g} s: ask for less, or allow more time")


def sql_words(reason: str) -> str:
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
