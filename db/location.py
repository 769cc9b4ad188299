"""Which database: a file or a server, from an argument, the environment, or the user's data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import LanemapError

#: Raised by every change of the tables and views. A database of another version is never read.
SCHEMA_VERSION = 3


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


def named_file(path: str | os.PathLike[str], what: str) -> Path:
    """The path that somebody named.

    Args:
        path: as it was given; an empty one would be the current folder, which nobody means.
        what: what it should have been, as in ``a capture file``.

    Raises:
        LanemapError: it is none, or neither a file nor a folder: a pipe is read but once, and might never end.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise LanemapError(f"{path!r} names no file: name {what}")
    file = Path(name)
    try:
        os.fsencode(name)
        special = file.exists() and not (file.is_file() or file.is_dir())
    except OSError as error:
        raise LanemapError(f"cannot read {name}: {error.strerror}: name {what}") from None
    except UnicodeError:
        raise LanemapError(f"{path!r} names no file: name {what}") from None
    if special:
        raise LanemapError(f"{name} is neither a file nor a folder: name {what}")
    return file


def locate(url: str | os.PathLike[str] | None = None) -> Location:
    """The database that ``url`` names: a file, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``.

    Without one, the environment variable LANEMAP_DB, and without that a file in the user's data directory. Its name
    carries the schema version, so that two versions of Lanemap never read each other's.
    """
    url = (os.environ.get("LANEMAP_DB") or None) if url is None else url
    if url is None:
        from platformdirs import user_data_path

        return Location(user_data_path("lanemap", appauthor=False) / f"lanemap-{SCHEMA_VERSION}.db", default=True)
    scheme, separator, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not separator or scheme == "sqlite":
        return Location(_database(url, rest[1:] if separator else url))
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return Location(None, f"postgresql+psycopg://{rest}")
    raise LanemapError(f"cannot use a database of kind {scheme!r}: give a file, sqlite:///FILE or postgresql://...")


def _database(url: str | os.PathLike[str], name: str | os.PathLike[str]) -> Path:
    file = named_file(name, "a database file, as in layouts.db or sqlite:///layouts.db")
    if str(file) == ":memory:" or str(file).startswith("file:"):
        raise LanemapError(f"{str(url)!r} names no file: write sqlite:///layouts.db, or just layouts.db")
    return file
