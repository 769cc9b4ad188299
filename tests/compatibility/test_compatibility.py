"""What earlier versions wrote is still read: databases, captures, exports and datasets, one of each lies here.

The database was written at schema version 6, the others at 5. ``expected.json`` is what version 5 said of the sources.
"""

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import lanemap
from lanemap.db.errors import DamagedError
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Citation, count_elements
from lanemap.db.store import location

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
EXPORTED = ["mine", "tilelang-0.1.15:emitter f16"]


def described(source) -> dict:
    """What ``expected.json`` says of a source."""
    names = EXPECTED["house-ptx"]["fragments"][0]
    fragments = [
        {name: getattr(fragment.citation if name in Citation._fields else fragment, name) for name in names}
        for fragment in source.fragments
    ]
    return {
        "kind": source.kind,
        "title": source.title,
        "provenance": json.loads(json.dumps(dict(source.provenance))),
        "fragments": fragments,
        "rows": count_elements(source.fragments),
    }


def layouts(source) -> dict:
    """The layout of each fragment by its key."""
    return {str(fragment.key): fragment.digest for fragment in source.fragments}


def expected_layouts(name) -> dict:
    return {
        str(Key(*(fragment[name] for name in Key._fields))): fragment["digest"]
        for fragment in EXPECTED[name]["fragments"]
        if fragment["digest"]
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["export.parquet", "export.csv", "export.arrow", "dataset"])
def test_exports_are_still_read(name, built, tmp_path):
    with lanemap.open(str(shutil.copy2(built, tmp_path / "new.db"))) as database:
        found = {imported.source.name: imported.source for imported in database.import_layouts("table", HERE / name)}
    names = [*EXPORTED, *(["bench-sm_90a"] if name in ("export.parquet", "dataset") else [])]
    assert {name: layouts(source) for name, source in found.items()} == {name: expected_layouts(name) for name in names}


def test_a_recording_is_still_read():
    source = lanemap.read_file(HERE / "recording.parquet")
    assert source.name == "bench-sm_90a"
    assert described(source)["provenance"] == EXPECTED["bench-sm_90a"]["provenance"]
    assert layouts(source) == expected_layouts("bench-sm_90a")


@pytest.fixture
def old(tmp_path) -> Path:
    """A database of the older schema: a table, two sources of a library, a document and a capture.

    What ships is left out, and what can be told from the rest.
    """
    file = tmp_path / "old" / f"lanemap-{location.MIGRATED}.db"
    file.parent.mkdir()
    file.write_bytes(gzip.decompress((HERE / "schema-6.db.gz").read_bytes()))
    return file


def check_migrated(place):
    """Whatever was added is there as it was, beside what ships, and everything can be asked again."""
    for _ in range(2):  # nothing is left to do for the second
        with lanemap.open(place) as database:
            assert not database.stale
            assert set(database.sources().name) == {*EXPECTED, *lanemap.shipped_names()}
            for name, expected in EXPECTED.items():
                assert described(database.source(name)) == expected
            assert database.sql("SELECT COUNT(*) AS n FROM layout WHERE source = 'mine'").n[0] == 512
            said = database.sql("SELECT DISTINCT first_bit FROM layout WHERE type = 'f16'").first_bit
            assert said.tolist() == [0], "an element that fills its slot begins with it, whoever says so"
            found = database.find("m32n32k8", "f16", "A", instruction="v_mfma_f32_32x32x8_f16", source="mine", lane=40)
            assert found.row.tolist() == [8] * 4
            assert database.sql("SELECT vendor, threads FROM instruction WHERE name LIKE 'v_%'").values.tolist() == [
                ["amd", 64]
            ]


@pytest.mark.slow
def test_a_file_of_an_older_schema_is_migrated(old, few):
    check_migrated(old)


def test_a_server_of_an_older_schema_is_migrated(old, new_database, few):
    """The tables, rows and view of the file, on a server."""
    import psycopg

    place = new_database()
    definitions = "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    with closing(sqlite3.connect(old)) as file, psycopg.connect(place) as connection:
        for name, sql in file.execute(f"{definitions} ORDER BY type, rootpage").fetchall():
            for here, there in {"BLOB": "BYTEA", "AUTOINCREMENT": "", "WITHOUT ROWID": ""}.items():
                sql = sql.replace(here, there)
            connection.execute(sql)
            rows = file.execute(f"SELECT * FROM {name}").fetchall() if "CREATE TABLE" in sql else []
            values = ", ".join(["%s"] * len(rows[0])) if rows else ""
            connection.cursor().executemany(f"INSERT INTO {name} VALUES ({values})", rows)
    check_migrated(place)


@pytest.mark.slow
def test_the_default_database_keeps_what_was_in_the_older_one(old, few, tmp_path, monkeypatch):
    new = old.with_name(f"lanemap-{location.SCHEMA_VERSION}.db")
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: old.parent)
    monkeypatch.delenv("LANEMAP_DB")
    before = old.read_bytes()
    check_migrated(None)
    assert new.exists()
    assert old.read_bytes() == before
    with lanemap.open() as database:
        database.remove("mine")
    with lanemap.open() as database:
        assert "mine" not in set(database.sources().name)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE fragment SET status = 'x' WHERE id = (SELECT MIN(id) FROM fragment)",
        "UPDATE mapping SET elements = zeroblob(14)",
        "UPDATE source SET title = 'x' WHERE name = 'mine'",
        "DELETE FROM finding",
    ],
)
def test_what_was_damaged_is_not_taken_over(old, few, damage):
    with closing(sqlite3.connect(old)) as connection, connection:
        assert connection.execute(damage).rowcount
    before = old.read_bytes()
    with pytest.raises(DamagedError, match="restore it from a copy"):
        lanemap.open(old)
    assert old.read_bytes() == before
