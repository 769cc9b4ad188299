"""``lanemap site``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import LanemapError
from .app import app, open_database
from .options import Db


@app.command(epilog="Example: lanemap site public")
def site(
    folder: Annotated[str, typer.Argument(help="A new folder, an empty one, or one with an earlier site.")],
    db: Db = None,
) -> None:
    """Write the pages of the explorer as files.

    Any web host can serve them, and a browser opens them as they are. What needs a server is left out: SQL, and
    comparing files. A folder that holds anything else is not touched. It needs Jinja (the extra "serve").
    """
    try:
        from .web.site import write
    except ImportError as error:
        raise LanemapError(f'site needs {error.name}: pip install ".[serve]" in a clone of Lanemap') from None

    with open_database(db) as database:
        count = write(database, Path(folder), _progress)
    sys.stderr.write(f"{count} pages: open {Path(folder) / 'index.html'}\n")


def _progress(done: int, total: int) -> None:
    """Say on a terminal how many pages are written."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} pages" + ("\r\033[K" if done == total else ""))
        sys.stderr.flush()
