"""Which database: a file or a server, from an argument, the environment, or the user's data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import LanemapError

#: Raised by every change of the tables and views. A database of another version is never read.
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Location:
    """A SQLite file, or the SQLAlchemy URL of a server. ``default``: nobody named one, so it follows the package."""

    file: Path | None
    url: str | None = None
    default: bool = False

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        from sqlalchemy import make_url

        return make_url(self.url or "").render_as_string(hide_password=True)


def locate(url: str | None = None) -> Location:
    """The database that ``url`` names: a file, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``.

    Without one, the environment variable LANEMAP_DB, and without that a file in the user's data directory. Its name
    carries the schema version, so that two versions of Lanemap never read each other's.
    """
    url = url or os.environ.get("LANEMAP_DB")
    if not url:
        from platformdirs import user_data_path

        return Location(user_data_path("lanemap", appauthor=False) / f"lanemap-{SCHEMA_VERSION}.db", default=True)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Location(Path(url))
    if scheme == "sqlite":
        if len(rest) < 2 or rest == "/:memory:":
            raise LanemapError(f"{url!r} names no file: write sqlite:///layouts.db, or just layouts.db")
        return Location(Path(rest[1:]))
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return Location(None, f"postgresql+psycopg://{rest}")
    raise LanemapError(f"cannot use a database of kind {scheme!r}: give a file, sqlite:///FILE or postgresql://...")
