"""What ``lanemap serve`` runs: uvicorn, with limits of time and number for connections, and an end that answers."""

import asyncio
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from logging import getLogger
from typing import Any

import uvicorn
from anyio import CancelScope
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ... import LanemapError
from .work import State

if sys.platform != "win32":
    import resource  # now, because there may be no descriptor for it when it is needed

#: How many seconds a connection may be open without a whole head of a request.
HEAD = 10
#: How many connections may come from one address, and what part of the descriptors that the process may have.
CONNECTIONS, SHARE = 256, 4
#: How many connections wait to be accepted. So often asyncio tries where there are no more descriptors.
BACKLOG = 128
#: How many seconds answers have that have begun when the server is stopped.
GRACE = 5

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 60\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Server(uvicorn.Server):
    """Serves an application until it is stopped; then requests whose answer has not begun are answered 503."""

    def __init__(self, app: FastAPI, proxies: Collection[str] = ()) -> None:
        """Serve ``app``. ``proxies`` are the addresses that may say for whom they ask."""
        self._requests: Mapping[CancelScope, bool] = app.state.requests
        self._state: State = app.state.lanemap
        self._silent = 0.0
        config = uvicorn.Config(
            app,
            http=_Connection,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            forwarded_allow_ips=[*proxies],
            backlog=BACKLOG,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn``."""
        asyncio.get_running_loop().set_exception_handler(self._say)
        await super().startup([_Listening(socket_, self.config.forwarded_allow_ips or ()) for socket_ in sockets or ()])
        self._surveying = asyncio.ensure_future(self._survey())

    async def _survey(self) -> None:
        """Look through the database before the first page needs it, which would take seconds."""
        with suppress(LanemapError):  # that page will say why not
            await self._state.survey()

    def _say(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say in a line that there are no descriptors for more connections. asyncio tries again after a second."""
        if self.should_exit and "_start_serving" in context["message"]:
            return  # the socket is closed before asyncio tries again
        if not isinstance(error := context.get("exception"), OSError):
            loop.default_exception_handler(context)
        elif loop.time() > self._silent:
            getLogger("lanemap").error("lanemap: %s: %s", context["message"], error.strerror)
            self._silent = loop.time() + 60

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn``."""
        for request, begun in [*self._requests.items()]:
            if begun:
                request.deadline = asyncio.get_running_loop().time() + GRACE - 1
            else:
                request.cancel()
        await super().shutdown(sockets)


class _Listening(socket.socket):
    """Takes the connections of another socket, and at once ends those of an address that has too many already.

    asyncio accepts many before a protocol hears of one: if that ended them, one address could take all descriptors.
    """

    def __init__(self, other: socket.socket, proxies: Collection[str]) -> None:
        super().__init__(fileno=other.dup().detach())
        self._proxies = proxies
        self._open: list[tuple[str, socket.socket]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """See ``socket``."""
        connection, address = super().accept()
        self._open = [entry for entry in self._open if entry[1].fileno() >= 0]
        host = address[0]
        if host not in self._proxies and sum(host == other for other, _ in self._open) >= _most():
            with connection, suppress(OSError):
                connection.send(_FULL)
            raise InterruptedError  # asyncio asks again when others had their turn
        self._open.append((host, connection))
        return connection, address


class _Connection(H11Protocol):
    """A connection that ends where no request comes."""

    _patience: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:
            self._patience.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # the next request may have come with the last
            self._patience.cancel()
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._patience.cancel()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(HEAD, self.transport.close)


def _most() -> int:
    if sys.platform == "win32":
        return CONNECTIONS
    return min(CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE)
