"""What a browser sees: ``lanemap serve`` and ``site``."""

import logging
import signal
import socket
import sys
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from .. import LanemapError
from .app import app, complain, open_database, progress_line
from .options import argument, read_token


@app.command(epilog="Example: lanemap serve --port 0")
def serve(
    host: Annotated[str, "Where to listen; 0.0.0.0 is for everyone."] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 picks a free port.", min=0, max=65535, metavar="PORT")] = 8000,
    name: Annotated[list[str] | None, "Another name that requests may use."] = None,
    proxy: Annotated[list[str] | None, "The address of a proxy, whose X-Forwarded-For is believed."] = None,
    show: Annotated[bool, "Open it in a browser."] = False,
    token_file: Annotated[str | None, "Take captures from those who have this token."] = None,
    sql_as_superuser: Annotated[
        bool,
        "Take queries in SQL where the role of the database reads password hashes and files of its server: "
        "whoever reaches this server reads them, too.",
    ] = False,
    db: str | None = None,
) -> None:
    """Serve the database to browsers, and to programs over HTTP.

    It runs until it is stopped, and needs FastAPI, uvicorn and Jinja (the extra "serve"). Without a token nothing can
    be written.
    """
    try:
        from .web.app import LOCAL, create_app
        from .web.server import Server
    except ImportError as error:
        raise LanemapError(f'serve needs {error.name}: pip install ".[serve]" in a clone of Lanemap') from None

    from ..db.heap import share_heap

    share_heap()
    token = None if token_file is None else read_token(token_file)
    with open_database(db) as database, _listening(host, port) as listening:
        place, number, *_ = listening.getsockname()
        names = {host_name.lower() for host_name in (host, socket.gethostname(), socket.getfqdn(), *(name or ()))}
        without_sql = None
        if (privilege := database.reader.privilege()) and not sql_as_superuser:
            without_sql = f"no queries in SQL are taken, because {privilege}: use a role that only reads tables"
            complain(f"{without_sql}, or --sql-as-superuser")
        application = create_app(database, token=token, names={*LOCAL, *names}, without_sql=without_sql)
        if not ip_address(place).is_loopback:
            overheard = ", and whoever overhears the token may write: let a proxy with TLS stand in front of it"
            exposed = "every machine that can reach this one may read the database, unencrypted"
            complain(f"{exposed}{overheard if token else ''}.")
        named = "localhost" if ip_address(place).is_unspecified else host
        address = f"http://[{named}]:{number}" if ":" in named else f"http://{named}:{number}"
        sys.stdout.write(f"Lanemap is at {address} (Ctrl-C stops it)\n")
        sys.stdout.flush()
        if show:
            import webbrowser

            webbrowser.open(address)
        # At the end two threads wait for each worker process, and asyncio warns of the one that is late.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        if hasattr(signal, "SIGPIPE"):  # a client that goes, or a worker, is an error of one request
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        # Both are how a server is meant to end.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            Server(application, proxy or ()).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections. Refuses a port that is taken, and a host that is not of this machine."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        # Python adds to some errors what it tried.
        reason = str(error.strerror).partition(" (")[0]
        raise LanemapError(f"cannot listen at {host}, port {port}: {reason}: choose another --port or --host") from None


@app.command(epilog="Example: lanemap site public")
def site(
    folder: Annotated[str, argument("FOLDER", "A new folder, an empty one, or one with an earlier site.")],
    db: str | None = None,
) -> None:
    """Write the pages of the explorer as files.

    Any web host can serve them, and a browser opens them as they are. What needs a server is left out: chains, SQL, and
    comparing files. A folder that holds anything else is not touched, and a site of which nothing changed stays. It
    needs Jinja (the extra "serve").
    """
    try:
        from .web.site import write
    except ImportError as error:
        raise LanemapError(f'site needs {error.name}: pip install ".[serve]" in a clone of Lanemap') from None

    with open_database(db) as database, progress_line("pages") as progress:
        count = write(database, Path(folder), progress)
    sys.stderr.write(f"{count} pages: open {Path(folder) / 'index.html'}\n")
