"""The tables, which ``schema.sql`` defines, and the sources in those of an older version."""

import json
import re
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import numpy as np

from ..errors import DamagedError
from ..isa.instructions import Key
from ..layout.fragment import Citation, Fragment, Source, element_type
from .reader import RESTORE
from .transaction import Transaction

_SQL = Path(__file__).with_suffix(".sql")
_FILE = {"number": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "clustered": "WITHOUT ROWID"}
_SERVER = {"number": "SERIAL PRIMARY KEY", "bytes": "BYTEA", "clustered": ""}


def create(transaction: Transaction) -> None:
    """Create the tables and the view."""
    written = _SQL.read_text("utf-8").format_map(_FILE if transaction.in_file else _SERVER)
    for statement in re.findall(r"^CREATE .*?;", written, re.DOTALL | re.MULTILINE):
        transaction.run(statement)


def drop(transaction: Transaction) -> None:
    """Drop the view and all tables that there are of those which ``create`` creates."""
    transaction.run("DROP VIEW layout")
    for table in reversed(re.findall(r"^CREATE TABLE (\w+)", _SQL.read_text("utf-8"), re.MULTILINE)):
        transaction.run(f"DROP TABLE IF EXISTS {table}")


#: The columns that the seal of a fragment covered in schema 5.
_SEALED_5 = (
    *("instruction", "shape", "type", "role", "registers", "slots", "major", "selector", "qualifiers", "source"),
    *("status", *Citation._fields, "rows", "cols", "digest"),
)


def older_sources(transaction: Transaction) -> list[Source]:
    """The sources in a database of schema 5.

    Raises:
        DamagedError: it has changed since it was written.
    """

    def refuse(part: object) -> None:
        raise DamagedError(f"{transaction.location} is damaged: {part} changed after it was written: {RESTORE}")

    every = "FROM fragment JOIN source ON source.id = source_id LEFT JOIN mapping ON mapping.id = mapping_id"
    selected = f"SELECT fragment.*, source.name AS source, digest, elements {every} ORDER BY source_id, fragment.id"
    records = transaction.run(selected).records()
    selected = "SELECT source_id, fragment.seal, words FROM finding JOIN fragment ON fragment.id = fragment_id"
    findings = transaction.run(selected).records()
    by_source = {number: list(group) for number, group in groupby(records, lambda record: record["source_id"])}
    sources = []
    for row in transaction.run("SELECT * FROM source ORDER BY id").records():
        seals, fragments = [], []
        for record in by_source.get(row["id"], ()):
            key = Key(*(record[name] for name in Key._fields))
            expected = sha256("\0".join(str(record[name]) for name in _SEALED_5).encode()).hexdigest()
            if expected != record["seal"] or (
                record["digest"] and sha256(record["elements"]).hexdigest() != record["digest"]
            ):
                refuse(key)
            elements = None if record["digest"] is None else np.frombuffer(record["elements"], element_type())
            citation = Citation(*(record[name] for name in Citation._fields))
            counts = {"registers": record["registers"], "slots": record["slots"]}
            fragments.append(Fragment.of(key, elements, record["status"], citation, **counts))
            seals.append(record["seal"])
        of_source = (record for record in findings if record["source_id"] == row["id"])
        noted = sorted(((record["seal"], record["words"]) for record in of_source), key=repr)
        content = [*(row[name] for name in ("name", "kind", "title", "provenance")), *seals, *noted]
        if sha256(repr(content).encode()).hexdigest() != row["seal"]:
            refuse(f"the source {row['name']}")
        sources.append(Source(row["name"], row["kind"], row["title"], fragments, json.loads(row["provenance"])))
    return sources
