"""What ``lanemap serve`` runs: uvicorn, with limits of time and number for connections, and an end that answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from logging import getLogger
from typing import Any

import uvicorn
from anyio import CancelScope
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

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
        await super().startup(sockets)

    def _say(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say in a line that there are no descriptors for more connections. asyncio tries again after a second."""
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


class _Connection(H11Protocol):
    """A connection that ends where no request comes, or where its address has too many already."""

    _patience: asyncio.TimerHandle | None = None

    @property
    def _proxies(self) -> Collection[str]:
        return self.config.forwarded_allow_ips or ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host, *_ = self.client or ("",)
        others = [getattr(each, "client", None) for each in self.connections]
        mine = sum(client[0] == host for client in others if client)
        if mine > _most() and host not in self._proxies:
            transport.write(_FULL)
            transport.close()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._patience and self.cycle and not self.cycle.response_complete:
            self._patience.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # the next request may have come with the last
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._patience:
            self._patience.cancel()

    def _wait(self) -> None:
        if self._patience:
            self._patience.cancel()
        self._patience = self.loop.call_later(HEAD, self.transport.close)


def _most() -> int:
    with suppress(ImportError):  # where there is no such limit
        import resource

        return min(CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE)
    return CONNECTIONS
