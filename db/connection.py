"""Which reader a database has, and in which state it is."""

from __future__ import annotations

from contextlib import closing

from .errors import LanemapError
from .location import SCHEMA_VERSION, Location
from .postgresql import ServerReader
from .reader import Reader
from .sqlite import FileReader, there


def connect(location: Location) -> Reader:
    """Open a database that exists."""
    return FileReader(location) if location.file is not None else ServerReader(location)


def state(location: Location) -> str | None:
    """The fingerprint of the shipped sources that the database was built from; None where there is no database yet.

    Raises:
        LanemapError: it was made by another version of Lanemap, or is not a Lanemap database.
    """
    if location.file is not None and not there(location.file):
        return None
    with closing(connect(location)) as reader, reader.snapshot():
        if not reader.select(_HAS_META[location.file is None], {}).rows:
            return None
        try:
            meta = dict(reader.select("SELECT key, value FROM meta", {}).rows)
        except LanemapError:
            meta = {}
    if not {"schema", "shipped"} <= {*meta}:
        raise LanemapError(f"{location} is not a Lanemap database, though it has a table meta: name another database")
    if meta["schema"] != str(SCHEMA_VERSION):
        raise LanemapError(
            f"{location} was made by another version of Lanemap (schema {meta['schema']}, this one has "
            f"{SCHEMA_VERSION}): name another database, or move this one away and run the command again"
        )
    return str(meta["shipped"])


_HAS_META = {
    False: "SELECT 1 FROM sqlite_schema WHERE name = 'meta'",
    True: "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'meta'",
}
