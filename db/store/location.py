"""Which database: a file or a server, from an argument, the environment, or the user's data directory."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LanemapError
from ..text import masked

#: Raised with every change of the tables and views. A database of another version is never read.
SCHEMA_VERSION = 13

_RIGHT = "write postgresql://USER@HOST/NAME, with @ : / ? # % in a password as %40 %3A %2F %3F %23 %25"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|(postgres|sqlite|file)[a-z0-9+]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Location:
    """A SQLite file, or the address of a PostgreSQL server, which may hold a password.

    ``default``: it was not named by the user, so it changes with the schema of the package.
    """

    file: Path | None
    url: str | None = field(default=None, repr=False)
    default: bool = False

    def __str__(self) -> str:
        """The file, or the host and database of an address."""
        if self.file is not None:
            return str(self.file)
        from urllib.parse import parse_qs, urlsplit

        parts = urlsplit(self.url or "")
        host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
        return f"postgresql://{host}{parts.path}"

    @property
    def earlier(self) -> Sequence[Path]:
        """The default databases of other versions of the schema, which this version does not read."""
        beside = self.file.parent.glob("lanemap-*.db") if self.file and self.default else ()
        return sorted(file for file in beside if file != self.file)

    def without_secrets(self, reason: str) -> str:
        """An error of the server or its library in one line, showing of the address only host and database."""
        if self.url is None:
            return masked(" ".join(reason.split()))
        from urllib.parse import parse_qs, unquote, urlsplit

        from psycopg.pq import Conninfo

        parts = urlsplit(self.url)
        shown = {parts.hostname, parts.path.strip("/"), *parse_qs(parts.query).get("host", [])}
        shown |= {option.keyword.decode() for option in Conninfo.get_defaults()}
        # An & or = that is not percent-encoded cuts a password into what looks like options.
        secrets = filter(None, (parts.username, parts.password, *re.split("[&=]", parts.query)))
        hidden = {text for part in secrets for text in (part, unquote(part))}
        for text in sorted(hidden - shown, key=len, reverse=True):
            reason = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "***", reason)
        return masked(" ".join(reason.split()))


def named_file(path: str | os.PathLike[str], wanted: str) -> Path:
    """The path that a user named.

    Args:
        path: as it was given; an empty one would be the current folder, which nobody means.
        wanted: what it should name, as in ``a capture file``.

    Raises:
        LanemapError: it is empty, no text, or neither a file nor a folder: a pipe can be read only once, and might
            never end.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise LanemapError(f"{path!r} names no file: name {wanted}")
    file = Path(name)
    try:
        os.fsencode(name)
        special = file.exists() and not (file.is_file() or file.is_dir())
    except OSError as error:
        raise LanemapError(f"cannot read {name}: {error.strerror}: name {wanted}") from None
    except UnicodeError:
        raise LanemapError(f"{path!r} names no file: name {wanted}") from None
    if special:
        raise LanemapError(f"{name} is neither a file nor a folder: name {wanted}")
    return file


def locate(url: str | os.PathLike[str] | None = None) -> Location:
    """The database that ``url`` names: a file, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``.

    Default: the environment variable LANEMAP_DB, or else a file in the user's data directory. The name of that file
    has the schema version in it, so that versions of Lanemap with different schemas never share one.

    Raises:
        LanemapError: it is none of these, or a misspelt address.
    """
    url = (os.environ.get("LANEMAP_DB") or None) if url is None else url
    if url is None:
        from platformdirs import user_data_path

        return Location(user_data_path("lanemap", appauthor=False) / f"lanemap-{SCHEMA_VERSION}.db", default=True)
    if not isinstance(url, str):
        return Location(_file(url))
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme == "sqlite" and rest.startswith("/"):
        return Location(_file(rest[1:]))
    if separator and scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return Location(None, _server(f"postgresql://{rest}"))
    if _SCHEME.match(url) or re.search(r":.*@|password\s*=", url, re.DOTALL | re.IGNORECASE):
        kind = url.partition(":")[0] if _SCHEME.match(url) else ""
        raise LanemapError(f"cannot use a database address {kind!r}: give a file, sqlite:///FILE or postgresql://...")
    return Location(_file(url))


def _file(name: str | os.PathLike[str]) -> Path:
    file = named_file(name, "a database file, as in layouts.db or sqlite:///layouts.db")
    if str(file) == ":memory:":
        raise LanemapError(f"{str(file)!r} names no file: write sqlite:///layouts.db, or just layouts.db")
    return file


def _server(url: str) -> str:
    """The address of a server, if no part of it could be mistaken for another.

    A character that is not percent-encoded may cut a password in two, and one half would be shown as a host.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        clear = url.count("@") == parts.netloc.count("@") <= 1 and not parts.fragment and (parts.port or True)
    except ValueError:
        clear = False
    if not clear or not url.isprintable() or re.search(r"\s|%(?![0-9a-f]{2})|%00", url, re.IGNORECASE):
        raise LanemapError(f"cannot read the database address: {_RIGHT}")
    return url
