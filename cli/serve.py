"""``lanemap serve``."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated

import typer

from .. import LanemapError
from .app import app, complain, open_database
from .options import Db
from .token import read_token

_EXPOSED = "every machine that can reach this one may read the database, unencrypted"


@app.command(epilog="Example: lanemap serve --port 0")
def serve(  # over 40 lines with its options
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; 0.0.0.0 is for everyone.", metavar="HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="0 takes one that is free.", min=0, max=65535, metavar="PORT")
    ] = 8000,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Another name that requests may use. May be repeated.", metavar="NAME"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    token_file: Annotated[
        str | None, typer.Option("--token-file", help="Take captures from those who have this token.", metavar="FILE")
    ] = None,
    db: Db = None,
) -> None:
    """Serve the database to browsers, and to programs over HTTP.

    It runs until it is stopped, and needs FastAPI, uvicorn and Jinja (the extra "serve"). Without a token nothing can
    be written.
    """
    try:
        import uvicorn

        from .web.app import LOCAL, create_app
    except ImportError as error:
        raise LanemapError(f'serve needs {error.name}: pip install ".[serve]" in a clone of Lanemap') from None

    token = None if token_file is None else read_token(token_file)
    with open_database(db) as database, _listening(host, port) as listening:
        place, number, *_ = listening.getsockname()
        names = {each.lower() for each in (host, socket.gethostname(), socket.getfqdn(), *(name or ()))}
        application = create_app(database, token=token, names={*LOCAL, *names})
        if not ip_address(place).is_loopback:
            complain(_WARNING[token is not None])
        address = f"http://{_written(place, host)}:{number}"
        sys.stdout.write(f"Lanemap is at {address} (Ctrl-C stops it)\n")
        sys.stdout.flush()
        if show:
            import webbrowser

            webbrowser.open(address)
        config = uvicorn.Config(application, log_level="warning", server_header=False, timeout_graceful_shutdown=5)
        # At the end two threads wait for each worker process, and asyncio warns of the one that is late.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        # Both are how a server is meant to end.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


#: What it means to listen to other machines, without and with a token.
_WARNING = (
    f"{_EXPOSED}.",
    f"{_EXPOSED}, and whoever overhears the token may write: let a proxy with TLS stand in front of it.",
)


def _written(place: str, host: str) -> str:
    """A host as an address has it."""
    if ip_address(place).is_unspecified:
        host = "localhost"
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections.

    Raises:
        LanemapError: the port is taken, or the host is not one of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        # Python adds to some errors what it tried.
        reason = str(error.strerror).partition(" (")[0]
        raise LanemapError(f"cannot listen at {host}, port {port}: {reason}: choose another --port or --host") from None
