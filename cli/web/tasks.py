"""What the server has done in processes of their own: methods of ``Database``, and their answers as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import replace
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import Database, LanemapError, read_file
from ...db import lookup
from ...db.location import Location
from ...db.lookup import Query
from ...db.report import FORMATS as REPORTS
from ..options import Format
from ..output import encoded

if TYPE_CHECKING:
    from ...db.chain import Chain
    from ...db.crosscheck import Check

#: How large an answer may be that is passed from one process to another.
_LARGEST = 32 << 20


@cache
def _database(location: Location) -> Database:
    """The database, open in this process."""
    return Database(location)


def sql(location: Location, form: Format, query: str, seconds: float, rows: int) -> bytes:
    """The result of one SELECT."""
    return _passed(encoded(_database(location).reader.sql(query, seconds=seconds, rows=rows), form))


def check(location: Location, form: str, against: list[str]) -> bytes:
    """The report of ``Database.check``, or a row for each comparison of a fragment."""
    return _report(_database(location).check(against), form)


def diff(location: Location, form: str, left: str, right: str, which: Mapping[str, str | None]) -> bytes:
    """The report of ``Database.diff`` of two sources."""
    database = _database(location)
    return _report(database.diff(database.source(left), database.source(right), **which), form)


def diff_file(location: Location, form: str, file: Path, against: str, which: Mapping[str, str | None]) -> bytes:
    """The same of a file and a source."""
    database = _database(location)
    with chdir(file.parent):  # so that nothing said of it names the folder
        sent = replace(read_file(file.name), name=file.name)
    return _report(database.diff(sent, database.source(against), **which), form)


def chain(location: Location, form: Format, first: str, second: str, options: Mapping[str, bool]) -> bytes:
    """The moves of ``Database.chain``; as JSON with the verdict."""
    found = _database(location).chain(first, second, **options)
    return _passed(json.dumps(_said(found)) + "\n" if form is Format.JSON else encoded(found.rows(), form))


def export(location: Location, form: str, query: Query, file: Path) -> list[str]:
    """``Database.export`` to a file; what the notation cannot express, in words."""
    made = _database(location).export(file, format=form, query=query)
    return [str(each) for each in made.refused]


def store(location: Location, file: Path) -> tuple[str, bool]:
    """Store a capture under a name of its own: that of its device, and of what is in the file.

    Returns the name, and whether it is new: what was sent twice is stored once.
    """
    from ...capture import recording

    database = _database(location)
    with chdir(file.parent):
        sent = recording.read(file.name)
    with file.open("rb") as stream:
        name = f"{sent.name}-{file_digest(stream, 'sha256').hexdigest()[:8]}"
    if name in {each["name"] for each in lookup.sources(database.reader).records()}:
        return name, False
    database.add([replace(sent, name=name)])
    return name, True


def _report(found: Check, form: str) -> bytes:
    """A report, rows, or for ``page`` what a page with a style of its own shows."""
    if form == "page":
        from ...db.report.html import contents

        return _passed(contents(found))
    return _passed(found.report(form) if form in REPORTS else encoded(found.rows(), Format(form)))


def _said(chain: Chain) -> dict[str, Any]:
    ends = {"first": chain.first, "second": chain.second}
    given, taken = chain.tiles
    return {
        **{name: {**each.key._asdict(), "source": each.source} for name, each in ends.items()},
        "transposed": chain.transposed,
        "movement": chain.movement,
        "registers_stay": chain.registers_stay,
        "tiles": {"first": given, "second": taken},
        "order": chain.order,
        "moves": chain.rows().records(),
    }


def _passed(answer: str | bytes) -> bytes:
    """An answer that is not too large.

    Raises:
        LanemapError: it is.
    """
    data = answer.encode() if isinstance(answer, str) else answer
    if len(data) > _LARGEST:
        raise LanemapError(f"the answer has more than {_LARGEST >> 20} MB: ask for less, or for another format")
    return data
