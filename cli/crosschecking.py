"""What ``diff`` and ``check`` do: find both sides, compare them in a database, and write the report."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from .. import Database, read_file
from ..db import crosscheck, lookup
from ..db.crosscheck import Check
from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Source
from ..db.location import Location, named_file
from ..db.lookup import Query, read_fragments
from ..db.server import reading_engine
from ..db.store import ship
from .options import ReportFormat
from .report import render


def diff(database: Database, left: str, right: str, query: Query) -> Check:
    """Compare two sides, each the name of a source in the database or a file."""
    known = _known(database)
    left, right = _spelled(left, known), _spelled(right, known)
    files = {side: _read(side, known) for side in (left, right) if side not in known}
    if not files:
        with _connected(database.location) as connection:
            return Check([crosscheck.diff(connection, left, right, query)])
    # A file is compared as a source is: in a database, made for it.
    stored = [side for side in (left, right) if side not in files]
    sources = [*files.values(), *(_stored(database, side) for side in stored)]
    with tempfile.TemporaryDirectory(prefix="lanemap-") as folder:
        place = Location(Path(folder) / "comparison.db")
        ship(place, lambda: sources, "comparison")
        with _connected(place) as connection:
            return Check([crosscheck.diff(connection, left, right, query)])


def check(database: Database, against: Sequence[str]) -> Check:
    """Check everything in the database."""
    known = _known(database)
    if "" in against:
        raise LanemapError(f"no source '': there is {', '.join(known)}")
    against = [_spelled(name, known) for name in against]
    with _connected(database.location) as connection:
        return crosscheck.check(connection, against)


def write(
    report: Check, form: ReportFormat, output: Path | None, *, everything: bool, sides: Sequence[str] = ()
) -> None:
    """Print the report, or write it to a file that appears whole or not at all, and is none of ``sides``."""
    text = render(report, form, everything=everything)
    if output is None:
        sys.stdout.write(text)
        return
    with atomically(output, [Path(side) for side in sides if Path(side).is_file()]) as stream:
        stream.write(text.encode())


@contextmanager
def _connected(location: Location) -> Iterator[Connection]:
    engine = reading_engine(location)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _known(database: Database) -> list[str]:
    return [record["name"] for record in lookup.sources(database.reader).records()]


def _spelled(name: str, known: Sequence[str]) -> str:
    """A source as the database spells it; what is none, as it is."""
    return next((each for each in known if each.lower() == name.lower()), name)


def _read(side: str, known: Sequence[str]) -> Source:
    if not named_file(side, "a source or a file").exists():
        raise LanemapError(f"{side} is no source and no file: there is {', '.join(known)}")
    source = read_file(side)
    return Source(side, source.kind, source.title, source.fragments, source.provenance)


def _stored(database: Database, name: str) -> Source:
    there = read_fragments(database.reader, Query(source=name))
    return Source(name, "copy", name, there)
