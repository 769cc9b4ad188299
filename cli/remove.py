"""``lanemap remove``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import shipped_names
from .app import app, open_database
from .options import Db, source_names


def _added(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the sources that can be removed."""
    kept = {*shipped_names(), *(context.params.get("sources") or ())}
    return [name for name in source_names(context, incomplete) if name not in kept]


@app.command(epilog="Example: lanemap remove mine")
def remove(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="As lanemap list sources names it.", autocompletion=_added),
    ],
    db: Db = None,
) -> None:
    """Remove sources that were imported, captured or ingested.

    What Lanemap ships stays.
    """
    with open_database(db) as database:
        for source in sources:
            database.remove(source)
            sys.stderr.write(f"lanemap: removed {source}\n")
