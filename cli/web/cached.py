"""Answers are kept, and have an ETag: both hold as long as the database and the program stay the same.

Everything that GET answers follows from the address, the header Accept and these two, unless it says ``no-store``.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import LanemapError
from .held import STATE, Held

#: How much is kept, how large one answer of that may be, and what it takes besides its body.
_MOST, _LARGEST = 64 << 20, 2 << 20
_OVERHEAD = 2 << 10
_PACKAGE = Path(__file__).parents[2]
_Answer = tuple[Message, bytes]


def keep_answers(app: ASGIApp, held: Held) -> ASGIApp:
    """Answer from memory what was asked before, and with 304 where the client has the answer already."""
    kept = _Kept()

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/static/"):
            await app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The server itself leaves out the body.
            scope = {**scope, "method": "GET"}
        try:
            before = await held.digest() if scope["method"] == "GET" else None
        except LanemapError:  # the route will find the same, and say so
            before = None
        if before is None:
            await _listen(app, scope, receive, send, None)
            return
        headers = dict(scope["headers"])
        asked = headers.get(b"host", b""), scope["path"].encode(), scope["query_string"], headers.get(b"accept", b"")
        tag = sha256(b"\0".join([_program(), before, *asked])).hexdigest()[:32].encode()
        if tag in headers.get(b"if-none-match", b""):
            await _send(send, ({"type": "http.response.start", "status": 304, "headers": _tagged([], tag)}, b""))
        elif found := kept.get(tag):
            await _send(send, found)
        else:
            made = await _listen(app, {**scope, STATE: before}, receive, send, tag)
            # What was written meanwhile may be in the answer or not.
            if made and before == await held.digest():
                kept.add(tag, made)

    return answered


async def _listen(app: ASGIApp, scope: Scope, receive: Receive, send: Send, tag: bytes | None) -> _Answer | None:
    """Pass an answer on with its tag; the whole of it, where it may be kept and is not too large."""
    start: Message = {}
    parts: list[bytes] = []
    size = 0

    async def listening(message: Message) -> None:
        nonlocal start, size
        if message["type"] == "http.response.start":
            if tag and message["status"] == 200 and not _says_no_store(message):
                message = start = {**message, "headers": _tagged(message["headers"], tag)}
            elif not _says_no_store(message):
                message = {**message, "headers": [*message["headers"], (b"cache-control", b"no-store")]}
        elif start and size <= _LARGEST:
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        await send(message)

    await app(scope, receive, listening)
    return (start, b"".join(parts)) if start and size <= _LARGEST else None


async def _send(send: Send, answer: _Answer) -> None:
    start, body = answer
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _says_no_store(message: Message) -> bool:
    return (b"cache-control", b"no-store") in message["headers"]


def _tagged(headers: list[tuple[bytes, bytes]], tag: bytes) -> list[tuple[bytes, bytes]]:
    """Headers with the tag, which a browser may keep the answer by as long as it asks whether it still holds."""
    own = [each for each in headers if each[0].lower() not in (b"etag", b"last-modified")]
    return [*own, (b"etag", b'"%b"' % tag), (b"cache-control", b"no-cache"), (b"vary", b"Accept")]


class _Kept:
    """Answers by their tags, those that were asked for last, within a limit of memory."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._size = 0

    def get(self, tag: bytes) -> _Answer | None:
        found = self._answers.get(tag)
        if found:
            self._answers.move_to_end(tag)
        return found

    def add(self, tag: bytes, answer: _Answer) -> None:
        if tag not in self._answers:
            self._answers[tag] = answer
            self._size += _OVERHEAD + len(answer[1])
        while self._size > _MOST:
            self._size -= _OVERHEAD + len(self._answers.popitem(last=False)[1][1])


@cache
def _program() -> bytes:
    """What answers: a digest of every file of the package that an answer can depend on."""
    found = sha256()
    for file in sorted(each for pattern in ("*.py", "cli/**/*.*", "db/**/*.*") for each in _PACKAGE.glob(pattern)):
        if file.is_file() and file.suffix != ".pyc":
            found.update(file.read_bytes())
    return found.digest()
