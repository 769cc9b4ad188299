"""What ``diff`` and ``check`` do: find both sides, compare them, and write the report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from .. import Database, __version__, read_file
from ..db import crosscheck, lookup
from ..db.crosscheck import Check
from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Source
from ..db.location import named_file
from ..db.lookup import Query


def diff(database: Database, left: str, right: str, query: Query) -> Check:
    """Compare two sides, each the name of a source in the database or a file."""
    return crosscheck.diff(_side(database, left), _side(database, right), query)


def check(database: Database, against: Sequence[str]) -> Check:
    """Check everything in the database."""
    with database.reader.snapshot():
        known = _known(database)
        sources, findings = crosscheck.read_sources(database.reader), crosscheck.read_findings(database.reader)
    return crosscheck.check(sources, findings, [_spelled(name, known) for name in against])


def write(report: Check, form: str, output: Path | None, *, everything: bool, sides: Sequence[str] = ()) -> None:
    """Print the report, or write it to a file that appears whole or not at all, and is none of ``sides``."""
    made = {"command": shlex.join(["lanemap", *sys.argv[1:]]), "version": f"lanemap {__version__}"}
    made["date"] = datetime.now(UTC).date().isoformat()
    text = replace(report, made=made).report(form, everything=everything)
    if output is None:
        sys.stdout.write(text)
        return
    with atomically(output, [Path(side) for side in sides if Path(side).is_file()]) as stream:
        stream.write(text.encode())


def _known(database: Database) -> list[str]:
    return [record["name"] for record in lookup.sources(database.reader).records()]


def _spelled(name: str, known: Sequence[str]) -> str:
    """A source as the database spells it; any other name as it is."""
    return next((each for each in known if each.lower() == name.lower()), name)


def _side(database: Database, side: str) -> Source:
    known = _known(database)
    if (name := _spelled(side, known)) in known:
        return crosscheck.read_sources(database.reader, [name])[0]
    if not named_file(side, "a source or a file").exists():
        raise LanemapError(f"{side} is neither a source nor a file: there is {', '.join(known)}")
    return replace(read_file(side), name=side)
