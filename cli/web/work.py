"""What takes long, or reads what somebody sent, in processes of their own.

A few work at a time and the others wait; each has a limit of time, at which it is killed, and one of memory. So no
request can hold up the others, whatever it asks for.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process
from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from ... import LanemapError
from ...db.location import Location

P = ParamSpec("P")
T = TypeVar("T")

#: How long a piece of work may take, and how long it may wait for its turn.
SECONDS, PATIENCE = 60.0, 60.0
#: How large a file that somebody sends may be, and how many are taken in at once.
LARGEST, UPLOADS = 64 << 20, 16

_MEMORY = 4 << 30
_ENDED = "this needs more memory than a request may have, or ended the process that worked on it: ask for less"


class Workers:
    """Processes that work on a database for requests, as many as the machine has processors, and at least two."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._places = CapacityLimiter(max(2, os.cpu_count() or 2))
        self._running = CapacityLimiter(self._places.total_tokens)
        self._uploads = CapacityLimiter(UPLOADS)

    async def __call__(self, work: Callable[Concatenate[Location, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of a module in a process. Its first argument is where the database is.

        Raises:
            LanemapError: the function raises one, or goes beyond a limit.
            HTTPException: there is no process for it.
        """
        async with _turn(self._places):
            try:
                with fail_after(SECONDS):
                    call = (work, (self._location, *args), kwargs)
                    return await to_process.run_sync(_limited, call, cancellable=True, limiter=self._running)
            except TimeoutError:
                raise LanemapError(f"this takes longer than {SECONDS:g} s: ask for less") from None
            except BrokenWorkerProcess:
                raise LanemapError(_ENDED) from None

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[Path]:
        """The body of a request as a file, which is gone when the block ends.

        Raises:
            HTTPException: it is too large, empty, or wrapped as the form of a page would.
        """
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise HTTPException(415, "send the file itself as the body, as curl --data-binary @FILE does")
        async with _turn(self._uploads):
            with TemporaryDirectory(prefix="lanemap-") as folder:
                file = Path(folder, "upload")
                with file.open("wb") as stream:
                    async for chunk in request.stream():
                        stream.write(chunk)
                        if stream.tell() > LARGEST:
                            raise HTTPException(413, f"that is more than {LARGEST >> 20} MB: send a smaller file")
                    if not stream.tell():
                        raise HTTPException(400, "nothing was sent: send a file as the body")
                yield file


async def workers(request: Request) -> Workers:
    """Those of the application."""
    made: Workers = request.app.state.workers
    return made


#: A parameter of a route.
Working = Annotated[Workers, Depends(workers)]


@asynccontextmanager
async def _turn(places: CapacityLimiter) -> AsyncIterator[None]:
    try:
        with fail_after(PATIENCE):
            await places.acquire()
    except TimeoutError:
        raise HTTPException(503, "there is too much to do: try again in a minute", {"Retry-After": "60"}) from None
    try:
        yield
    finally:
        places.release()


def _limited(call: tuple[Callable[..., T], tuple[object, ...], dict[str, object]]) -> T:
    """In the process: what may go wrong there in words, because no traceback comes out of it."""
    _limit_memory()
    work, args, kwargs = call
    try:
        return work(*args, **kwargs)
    except LanemapError:
        raise
    except (MemoryError, RecursionError):
        raise LanemapError(_ENDED) from None
    except Exception:
        from traceback import format_exc

        raise RuntimeError(format_exc()) from None


@cache
def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):  # where there is no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
