"""What routes work with: the open database as it is now, and processes of their own for what takes long.

What was read of the database or made of it is kept as far as there is room, until it changes. What takes long, or
reads what somebody sent, is done in a process with a database of its own. A few work at a time and the others wait. A
process is killed when the request that it works for ends, at the limit of time of requests at the latest, and has a
limit of memory. So no request can hold up the others, whatever it asks for.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, chdir, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, fail_after, to_process
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ... import (
    DEFAULT_SOURCE,
    Chain,
    Database,
    Fragments,
    LanemapError,
    Location,
    Recipes,
    Source,
    Survey,
    Through,
    UnavailableError,
    read_file,
)
from ...capture import recording
from ...db.heap import settle_heap, uncollected
from ...db.render import report
from ..app import encoded
from ..options import ChainFormat, Format, ReportFormat
from .render import between, tile

if TYPE_CHECKING:
    from ... import Check, Key, Query

P = ParamSpec("P")
T = TypeVar("T")

#: How long a request may take, with all that it waits for, until its answer begins. A query may take half of it.
SECONDS = 60.0
#: How many files are taken in at once, a quarter of them from one address.
UPLOADS = 16
#: How large an answer may be that is passed from one process to another.
LARGEST_ANSWER = 32 << 20

#: How large a kernel may be that somebody sends, how long it may run, and how much memory it may take.
LARGEST_KERNEL, KERNEL_SECONDS, KERNEL_MEMORY = 256 << 10, 10.0, 512 << 20

_MEMORY = 4 << 30
_TOO_LARGE = "this needs more memory than a request may have: ask for less"
_TOO_SLOW = f"this ran for {KERNEL_SECONDS:g} s without an end: take smaller arrays, or run lanemap trace"
_ENDED = "the process that worked on this ended before it had an answer: ask again, or ask for less"


class Workers:
    """Processes that work on a database for requests, and places for files; no address can take all of them.

    An address has as many processes as the machine has processors, and there is one more. Captures with the token have
    places of their own.
    """

    def __init__(self, location: Location, without_sql: str | None = None) -> None:
        """Start none yet. ``without_sql``: why no query is run for anybody."""
        os.environ["PYTHONSAFEPATH"] = "1"  # no process starts with a copy.py of the current folder for Python's
        self.without_sql = without_sql
        self.location = location
        count = max(2, os.cpu_count() or 2)
        self.limits = {"process": (count + 1, count), "upload": (UPLOADS, UPLOADS // 4)}
        self.shared = {name: CapacityLimiter(most) for name, (most, _) in self.limits.items()}
        self.trusted = {name: CapacityLimiter(most) for name, (most, _) in self.limits.items()}
        self.own: WeakValueDictionary[tuple[str, str], CapacityLimiter] = WeakValueDictionary()


class Work:
    """What is done in processes for one request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._workers: Workers = request.app.state.workers
        self.trusted = False

    @asynccontextmanager
    async def _place(self, name: str) -> AsyncIterator[None]:
        """Wait for a place: one of the address, then one of all; with the token one of those that have it."""
        workers, address = self._workers, self._request.client.host if self._request.client else ""
        if self.trusted:
            async with workers.trusted[name]:
                yield
        else:
            limiter = workers.own.setdefault((name, address), CapacityLimiter(workers.limits[name][1]))
            async with limiter, workers.shared[name]:
                yield

    async def __call__(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a module in a process, with the database and these arguments.

        Raises:
            LanemapError: the function raises one, or exceeds the limit of memory.
            HTTPException: it is an SQL query, and these are not allowed.
            ClientDisconnect: the client has gone.
        """
        if work is sql and self._workers.without_sql:
            raise HTTPException(403, self._workers.without_sql)
        call = partial(_in_process, (work, self._workers.location, args, kwargs))
        with CancelScope() as scope:
            watching = asyncio.ensure_future(self._until_gone(scope))
            try:
                async with self._place("process"):
                    with suppress(BrokenWorkerProcess):  # it may have ended before this came
                        return await call()
                    return await call()
            except BrokenWorkerProcess:
                raise LanemapError(_ENDED) from None
            except TimeoutError:
                raise LanemapError(_TOO_SLOW) from None
            finally:
                watching.cancel()
        raise ClientDisconnect

    async def _until_gone(self, scope: CancelScope) -> None:
        """Cancel a scope when the client goes; what it sends after the body is not for anybody."""
        with suppress(HTTPException):
            while (await self._request.receive())["type"] != "http.disconnect":
                pass
        scope.cancel()

    @asynccontextmanager
    async def received(self) -> AsyncIterator[Path]:
        """The body of the request as a file, which is gone when the block ends.

        Raises:
            HTTPException: it is empty, or wrapped as the form of a page would.
        """
        if self._request.headers.get("content-type", "").startswith("multipart/"):
            raise HTTPException(415, "send the file itself as the body, as curl --data-binary @FILE does")
        async with self._place("upload"):
            with TemporaryDirectory() as folder:
                file = Path(folder, "upload")
                with file.open("wb") as stream:
                    async for chunk in self._request.stream():
                        stream.write(chunk)
                    if not stream.tell():
                        raise HTTPException(400, "nothing was sent: send a file as the body")
                yield file


async def _working(request: Request) -> Work:
    return Work(request)


#: A parameter of a route.
Working = Annotated[Work, Depends(_working)]


async def _in_process(call: tuple[Callable[..., T], Location, tuple[object, ...], dict[str, object]]) -> T:
    """Call a function in a process, which is killed when this is cancelled."""
    unlimited: Any = nullcontext()  # so that nobody takes the process between the two
    with CancelScope(shield=True):  # who is cancelled while a process starts would leave it behind
        await to_process.run_sync(_limit_memory, limiter=unlimited)
    with fail_after(KERNEL_SECONDS if call[0] is trace else None):
        return await to_process.run_sync(_limited, call, cancellable=True, limiter=unlimited)


def _limited(call: tuple[Callable[..., T], Location, tuple[object, ...], dict[str, object]]) -> T:
    """In the process: what may go wrong there in words, because no traceback comes out of it.

    Raises:
        LanemapError: the answer is too large, or needs too much memory to be made.
    """
    work, location, args, kwargs = call
    try:
        answer = work(_opened(location), *args, **kwargs)
    except (LanemapError, OSError):
        raise
    except (MemoryError, RecursionError):
        raise LanemapError(_TOO_LARGE) from None
    except Exception:
        from traceback import format_exc

        raise RuntimeError(format_exc()) from None
    if isinstance(answer, str | bytes) and len(answer) > LARGEST_ANSWER:
        raise LanemapError(f"the answer has more than {LARGEST_ANSWER >> 20} MB: ask for less, or for another format")
    return answer


def _limit_memory(most: int = _MEMORY) -> None:
    with suppress(ImportError, ValueError, OSError):  # where there is no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


#: The database, open in this process.
_opened = cache(Database)


def sql(database: Database, form: Format, query: str, seconds: float, rows: int) -> str | bytes:
    """The result of one SELECT."""
    return encoded(database.select(query, seconds=seconds, rows=rows), form)


def check(database: Database, form: str, against: list[str]) -> str | bytes:
    """The report of ``Database.check``, or a row for each comparison of a fragment."""
    return _report(database.check(against), form)


def diff(database: Database, form: str, left: str, right: str, which: Mapping[str, Any]) -> str | bytes:
    """The report of ``Database.diff`` of two sources, or of one and ``best``."""
    return _report(database.diff(database.source(left), _right(database, right), **which), form)


def into(database: Database, file: Path, report: Callable[..., str | bytes], *args: Any) -> None:
    """Write what one of these functions reports to a file, which may be larger than an answer."""
    answer = report(database, *args)
    file.write_bytes(answer if isinstance(answer, bytes) else answer.encode())


def diff_file(database: Database, form: str, file: Path, against: str, which: Mapping[str, Any]) -> str | bytes:
    """The same of a file and a source."""
    with chdir(file.parent):  # so that nothing said of it names the folder
        sent = replace(read_file(file.name), name=file.name)
    return _report(database.diff(sent, _right(database, against), **which), form)


def _right(database: Database, name: str) -> Source | None:
    """What a name stands for on the right: a source, never a file, or None for the best evidence."""
    return None if name.lower() == DEFAULT_SOURCE else database.source(name)


def chain(database: Database, /, form: ChainFormat, first: str, second: str | None, **options: Any) -> str | bytes:
    """The rows or the device function of ``Database.chain``; as JSON with the verdict and exit code."""
    answer = database.chain(first, second, **options)
    if form is ChainFormat.CPP:
        return answer.cpp()
    if form is not ChainFormat.JSON:
        return encoded(answer.rows(), Format(form))
    record: dict[str, Any] = {"verdict": answer.verdict, "exit_code": answer.exit_code}
    if isinstance(answer, Chain):
        ends = {"first": answer.first, "second": answer.second}
        record |= {end: {**its.key._asdict(), "source": its.source} for end, its in ends.items()}
        record |= {name: getattr(answer, name) for name in ("transposed", "movement", "registers_stay", "order")}
        record["tiles"] = dict(zip(ends, answer.tiles, strict=True))
    return json.dumps(record | {"rows": answer.rows().records()}) + "\n"


def descriptor(database: Database, form: Format, operand: str, tile: str | None, decode: str | None) -> str | bytes:
    """The rows of ``Database.descriptor``; as JSON with its text and exit code, and word and verdict if any."""
    answer = database.descriptor(operand, tile, decode=decode)
    if form is not Format.JSON:
        return encoded(answer.rows(), form)
    made = getattr(answer, "word", None)  # as text, because JSON has no whole numbers of 64 bits
    record = {"word": made if made is None else hex(made), "verdict": getattr(answer, "verdict", None)}
    record["exit_code"] = answer.exit_code
    return json.dumps(record | {"text": answer.text(), "rows": answer.rows().records()}) + "\n"


def shown(
    database: Database, first: str, second: str | None, **options: Any
) -> tuple[list[tuple[Key, str, bool]], dict[str, Any]]:
    """What a page says of ``Database.chain``: the layouts, and for each whether it is one of a tile; and the rest.

    ``order`` is that of K where it is renumbered. Of ``code`` and why it is ``lacking`` one is empty.
    """
    answer = database.chain(first, second, **options)
    layouts = [(end.key, str(end.source), end.tiling is not None) for end in answer.ends if not end.tile]
    facts: dict[str, Any] = {"verdict": answer.verdict, "text": answer.text(), "code": "", "lacking": "", "tiles": []}
    facts["order"] = answer.order if isinstance(answer, Chain) else None
    try:
        facts["code"] = answer.cpp()
    except LanemapError as error:
        facts["lacking"] = str(error)
    if isinstance(answer, Recipes):
        facts["tiles"] = [tile(each) for each in answer]
    elif isinstance(answer, Through):
        facts["tiles"] = between(answer)
    return layouts, facts


def export(database: Database, form: str, query: Query, file: Path) -> list[str]:
    """``Database.export`` to a file; what the notation cannot express, in words."""
    export = database.export(file, format=form, query=query)
    return [str(error) for error in export.refused]


def too_large(kernel: str) -> str:
    """Why a kernel is not run, if it is too large; else nothing."""
    large = len(kernel) > LARGEST_KERNEL or len(kernel.encode("utf-8", "replace")) > LARGEST_KERNEL
    return f"the kernel has more than {LARGEST_KERNEL >> 10} kB: send less, or run lanemap trace" if large else ""


def trace(
    database: Database, /, form: str, kernel: str, arguments: Sequence[str] | Mapping[str, Any], **how: Any
) -> str:
    """The report of ``Database.trace`` on a kernel that somebody sent, which names no files."""
    with suppress(OSError):  # what this process has, and so much more
        _limit_memory(int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + KERNEL_MEMORY)
    found = database.trace(kernel, arguments, files=False, **how)
    return found.contents() if form == "page" else found.report(form)


def store(database: Database, file: Path) -> tuple[str, bool]:
    """Store a capture under a name of its own: that of its device, and of what is in the file.

    Returns the name, and whether it is new: what was sent twice is stored once.
    """
    with chdir(file.parent):
        sent = recording.read(file.name)
    with file.open("rb") as stream:
        name = f"{sent.name}-{file_digest(stream, 'sha256').hexdigest()[:8]}"
    database.names("source")  # where the file is gone none is made
    new = bool(database.add([replace(sent, name=name)], replacing=False))
    if name not in database.names("source"):
        raise UnavailableError(f"{database.location}: another file took its place")
    return name, new


def _report(check: Check, form: str) -> str | bytes:
    """A report, rows, or for ``page`` what a page with a style of its own shows."""
    if form == "page":
        return report.contents(check)
    return check.report(form) if form in [*ReportFormat] else encoded(check.rows(), Format(form))


#: Where a GET request keeps the digest of what the database held when it came.
DIGEST = "lanemap.digest"

#: How much is kept in all, in characters or bytes, and what each thing counts for besides its own size.
_ROOM, _MORE = 32 << 20, 4000


class Made(OrderedDict[Hashable, tuple[Any, int]]):
    """What was made of a database, with its size: what was used last, as far as there is room."""

    size = 0
    _lock = threading.Lock()

    def recall(self, key: Hashable) -> Any:
        """What is kept under a key, or None."""
        with self._lock:
            if key in self:
                self.move_to_end(key)
            return self.get(key, (None, 0))[0]

    def keep(self, key: Hashable, result: Any, size: int) -> None:
        """Keep what is not None, and forget what was not used for longest."""
        with self._lock:
            _, before = self.pop(key, (None, 0))  # of somebody who made it at the same time
            self[key] = result, size + _MORE
            self.size += size + _MORE - before
            while self.size > _ROOM:
                self.size -= self.popitem(last=False)[1][1]

    def forget(self) -> None:
        """Keep nothing of what there is."""
        with self._lock:
            self.clear()
            self.size = 0


#: What this process made of its database.
MADE = Made()


def remembered(function: Callable[P, T], key: Hashable, *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function that never gives None gives for these arguments; what was used last is kept.

    ``key`` is what decides it, whatever the time. It is kept as well, and should hold nothing large.
    """
    result: T | None = MADE.recall((function, key))
    if result is None:
        with uncollected():  # what is drawn are many objects, which all stay until it is written
            result = function(*args, **kwargs)
        MADE.keep((function, key), result, len(repr(result)))
    return result


class State:
    """The current state of a database. An answer from an earlier state is never returned for a later one."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[object, tuple[object, Any]] = {}
        self._asking: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._digest = b""

    async def _now(self, ask: Callable[[Database], T]) -> T:
        """The current answer to a question. Requests that come while it is computed wait for the same answer."""
        async with self._asking[ask]:
            reader = self.database.reader
            changes = reader.changes() if reader.location.file else await run_sync(reader.changes)
            # An answer may be newer than these changes: then the next request computes it again.
            if ask not in self._known or self._known[ask][0] != changes:
                self._known.pop(ask, None)  # before the new answer is there: together they would take twice the memory
                self._known[ask] = changes, await run_sync(ask, self.database)
                await run_sync(settle_heap)  # of what was known before
            answer: T = self._known[ask][1]
            return answer

    async def digest(self) -> bytes:
        """What the database holds.

        Raises:
            LanemapError: it cannot be read.
        """
        digest = await self._now(Database.digest)
        if digest != self._digest:
            self._digest = digest
            MADE.forget()
        return digest

    async def survey(self) -> Survey:
        """What is known of every operand, which takes seconds to look through.

        Raises:
            LanemapError: the database cannot be read.
        """
        return await self._now(Database.survey)

    async def operand(self, request: Request, query: Query) -> Fragments:
        """The fragments with elements of one operand, as the database was when a request came or later.

        Raises:
            LanemapError: there is none.
        """
        fragments: Fragments | None = MADE.recall(asked := (request.scope.get(DIGEST), query))
        if fragments is None:
            fragments = await run_sync(self._operand, query)
            if asked[0] == self._digest:
                MADE.keep(asked, fragments, sum(len(fragment.packed) for fragment in fragments))
        return fragments

    def _operand(self, query: Query) -> Fragments:
        with self.database.reader.snapshot():
            fragments = self.database.operand(query).expect_one("shape", "type")
            for fragment in fragments:
                fragment.tuples()  # reads them
            return fragments


async def _state(request: Request) -> State:
    state: State = request.app.state.lanemap
    return state


async def _database(state: Current) -> Database:
    return state.database


async def _surveyed(state: Current) -> Survey:
    return await state.survey()


#: Parameters of routes.
Current = Annotated[State, Depends(_state)]
Opened = Annotated[Database, Depends(_database)]
Surveyed = Annotated[Survey, Depends(_surveyed)]
