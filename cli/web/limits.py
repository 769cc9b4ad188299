"""What every request is held to: how long it may take to be answered, and how much it may send."""

from __future__ import annotations

from math import inf

from anyio import move_on_after
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import work
from .problem import problem

#: How long a request may take, with all that it waits for, until its answer begins.
SECONDS = 150.0
#: How much a request may send that is not a file.
LARGEST = 1 << 20


def limit_time(app: ASGIApp) -> ASGIApp:
    """End a request that takes too long. An answer that has begun may be read as slowly as its reader likes."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        with move_on_after(SECONDS) as limit:

            async def begin(message: Message) -> None:
                limit.deadline = inf
                await send(message)

            await app(scope, receive, begin)
        if limit.cancelled_caught:
            await problem(503, f"this took longer than {SECONDS:g} s: try again later")(scope, receive, send)

    return limited


def limit_body(app: ASGIApp) -> ASGIApp:
    """Refuse a body that is too large, before it is read where its length is said. Files have their own limit."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        largest = work.LARGEST if scope["path"] in ("/api/captures", "/api/diff") else LARGEST
        too_large = f"that is more than {largest >> 20} MB: send less"
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > largest:
            await problem(413, too_large)(scope, receive, send)
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > largest:
                raise HTTPException(413, too_large)
            return message

        await app(scope, counted, send)

    return limited
