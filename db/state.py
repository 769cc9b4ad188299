"""What is at a location before it is opened: nothing, a Lanemap database, or something that must not be touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .errors import LanemapError
from .location import SCHEMA_VERSION, Location
from .reader import connect


def state(location: Location) -> str | None:
    """The fingerprint of the shipped sources that the database was built from; None where there is no database yet.

    Raises:
        LanemapError: it was made by another version of Lanemap, or is not a Lanemap database.
    """
    if location.file is not None:
        if location.file.is_dir():
            raise LanemapError(f"{location} is a folder: name a file with --db, as in {location}/layouts.db")
        _recover(location.file)
        if not location.file.exists() or location.file.stat().st_size == 0:
            return None
    reader = connect(location)
    try:
        if not reader.select(_META[location.file is None], {}).rows:
            return None
        meta = dict(reader.select("SELECT key, value FROM meta", {}).rows)
    finally:
        reader.close()
    if meta.get("schema") != str(SCHEMA_VERSION):
        raise LanemapError(
            f"{location} was made by another version of Lanemap (schema {meta.get('schema')}, this one has "
            f"{SCHEMA_VERSION}): name another file with --db, or move this one away and run the command again"
        )
    return str(meta["shipped"])


def _recover(file: Path) -> None:
    """Undo what a writer that was killed left half done: a reader that may not write could not."""
    if Path(f"{file}-journal").exists():
        try:
            with closing(sqlite3.connect(file, timeout=60)) as connection:
                connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        except sqlite3.Error as error:
            raise LanemapError(
                f"{file} was left half written and cannot be mended: {error}: name another with --db"
            ) from None


_META = {
    False: "SELECT 1 FROM sqlite_schema WHERE name = 'meta'",
    True: "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'meta'",
}
