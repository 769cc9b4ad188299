"""Building, loading and replacing, on SQLite and on a real PostgreSQL."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

import lanemap
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Element, Source, element_type
from lanemap.db.layout.structure import check
from lanemap.db.lookup import Query, findings
from lanemap.db.store import store
from lanemap.db.store.connection import connect, connected
from lanemap.db.store.location import SCHEMA_VERSION, locate


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """The URL of an empty database, of both kinds in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "new" / "layouts.db")
    return request.getfixturevalue("new_database")()


#: Of what every N is there, one width of wgmma is enough here.
FEW = "(?!m(64|128)n)|m64n8k"
SECRET = "hunter2"
SAID = {"instruction": "mma", "status": "failed", "message": ""}


def rows(place, query):
    """What a query of ours finds, without what guards those of users."""
    reader = connect(locate(place))
    try:
        return reader.select(query, {}).rows
    finally:
        reader.close()


def small(fragment, name="mine"):
    return Source(name, "import", "a test", [fragment], {"from": "nowhere"})


def test_the_first_use_builds_it_and_the_next_does_not(place, few, shipped):
    loaded = []
    lanemap.open(place, progress=lambda source: loaded.append(source.name)).close()
    assert loaded == shipped
    lanemap.open(place, progress=lambda source: loaded.append(source.name)).close()
    assert loaded == shipped


@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_writer_waits_for_another_from_its_first_statement_on(file, fragments, kind):
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute(f"BEGIN {kind}")
        ends = threading.Timer(0.3, other.execute, ["COMMIT"])
        ends.start()
        assert store.load(locate(str(file)), [small(fragments[0])]) == ["mine"]
        ends.join()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a?b.db", "100%25.db", "a#b.db", "a b&mode=memory.db", "ü.db"])
def test_a_file_of_any_name_is_the_one_that_is_read(built, tmp_path, fragments, name):
    file = Path(shutil.copy(built, tmp_path / name))
    lanemap.open(file).add([small(fragments[0])])
    assert rows(str(file), "SELECT COUNT(*) FROM source WHERE name = 'mine'") == [(1,)]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.slow
def test_every_row_is_what_was_evaluated(own, sources):
    for name, source in sources.items():
        expected = {
            (*fragment.key, *map(int, element))
            for family in source.fragments
            for fragment in family.every
            if fragment.elements is not None and re.match(FEW, fragment.shape)
            for element in fragment.elements.tolist()
        }
        cells = ", ".join(Element._fields)
        few = "(shape NOT LIKE 'm64n%' AND shape NOT LIKE 'm128n%' OR shape LIKE 'm64n8k%')"
        query = f"SELECT {', '.join(Key._fields)}, {cells} FROM layout WHERE source = '{name}' AND {few}"
        stored = rows(own, query)
        assert len(stored) == len(expected)
        assert set(stored) == expected


@pytest.mark.slow
def test_packed_elements_are_the_stored_ones(own):
    stored = rows(
        own,
        "SELECT lane, reg + number * registers, slot, row, repetition.col, col_last + number * mapping.width,"
        " computation"
        " FROM mapping JOIN element ON element.mapping_id = COALESCE(rows_of, mapping.id)"
        " AND reg < registers AND element.col < cols"
        " JOIN repetition ON repetition.width = mapping.width AND first = element.col AND number < times"
        " ORDER BY mapping.id, lane, reg + number * registers, slot",
    )
    with lanemap.open(own) as database:
        packed = database.reader.packed([number for (number,) in rows(own, "SELECT id FROM mapping")])
    assert np.array(stored, element_type()).tobytes() == b"".join(packed[number] for number in sorted(packed))
    borrowed = rows(own, "SELECT elements FROM mapping WHERE rows_of IS NOT NULL")
    assert borrowed
    assert {bytes(held) for (held,) in borrowed} == {b""}


@pytest.mark.slow
def test_loading_again_replaces_and_leaves_nothing_behind(few, own, fragments, shipped):
    before = rows(own, "SELECT COUNT(*) FROM element")
    location = locate(own)
    changed = fragments[0].elements.copy()
    changed["row"] = 7 - changed["row"]
    store.load(location, [small(replace(fragments[0], elements=changed))])
    assert rows(own, "SELECT COUNT(*) FROM layout WHERE source = 'mine'") == [(len(changed),)]
    store.load(location, [small(fragments[0])])
    assert rows(own, "SELECT COUNT(*) FROM layout WHERE source = 'mine'") == [(len(changed),)]
    assert rows(own, "SELECT COUNT(*) FROM element") == before
    for table in ("fragment", "finding"):
        orphans = "SELECT COUNT(*) FROM {} WHERE {} NOT IN (SELECT id FROM {})"
        parent = {"fragment": ("source_id", "source"), "finding": ("fragment_id", "fragment")}[table]
        assert rows(own, orphans.format(table, *parent)) == [(0,)]
    lanemap.open(own).refresh()
    assert rows(own, "SELECT name FROM source ORDER BY name") == sorted((name,) for name in [*shipped, "mine"])


def test_the_first_registers_of_a_larger_layout_share_its_rows(own, fragments):
    whole = next(fragment for fragment in fragments if fragment.has_rows and fragment.registers > 2)
    changed = whole.elements.copy()
    changed["row"] = 1 + changed["row"]
    larger = replace(whole, elements=changed)
    smaller = replace(whole, elements=changed[changed["reg"] < 2], registers=2, qualifiers="part")
    (before,) = rows(own, "SELECT COUNT(*) FROM element")[0]
    store.load(locate(own), [Source("mine", "import", "a test", [smaller, larger])])
    assert rows(own, "SELECT COUNT(*) FROM element") == [(before + len(changed),)]
    for fragment, of in ((larger, "IS NULL"), (smaller, "= 'part'")):
        query = f"SELECT {', '.join(Element._fields)} FROM layout WHERE source = 'mine' AND qualifiers {of}"
        assert sorted(rows(own, query)) == fragment.elements.tolist()


def test_columns_that_no_operand_has_are_in_the_view(own, fragments):
    """A source that is wrong is there as it is, with what the structural checks say of it."""
    columns = fragments[0].elements["col"].copy()
    for wrong in (columns - 3, columns + 40):
        changed = fragments[0].elements.copy()
        changed["col"] = changed["col_last"] = wrong
        store.load(locate(own), [small(replace(fragments[0], elements=changed))])
        query = f"SELECT {', '.join(Element._fields)} FROM layout WHERE source = 'mine'"
        assert sorted(rows(own, query)) == sorted(changed.tolist())


def test_a_source_can_be_removed(own, fragments, shipped):
    before = rows(own, "SELECT COUNT(*) FROM element")
    changed = fragments[0].elements.copy()
    changed["row"] = 7 - changed["row"]
    store.load(locate(own), [small(replace(fragments[0], elements=changed))])
    store.remove(locate(own), "MINE")
    assert rows(own, "SELECT name FROM source ORDER BY name") == sorted((name,) for name in shipped)
    assert rows(own, "SELECT COUNT(*) FROM element") == before
    with pytest.raises(lanemap.LanemapError, match="no source mine: choose from ptx-isa-9.4, "):
        store.remove(locate(own), "mine")


@pytest.mark.slow
def test_numbers_are_never_used_again(own, fragments):
    """What a reader noted of a source that is gone never means another one."""
    changed = fragments[0].elements.copy()
    seen = {table: set() for table in ("source", "fragment", "mapping")}
    for shift in range(3):
        changed["row"] = (fragments[0].elements["row"] + 1 + shift) % 8
        store.load(locate(own), [small(replace(fragments[0], elements=changed.copy()))])
        for table, numbers in seen.items():
            (number,) = rows(own, f"SELECT MAX(id) FROM {table}")[0]
            assert number not in numbers
            numbers.add(number)
        store.remove(locate(own), "mine")


def test_findings_are_recorded_and_do_not_stop_the_load(own):
    found = rows(
        own,
        "SELECT source.name, shape, role, words FROM finding JOIN fragment ON fragment.id = fragment_id "
        "JOIN source ON source.id = source_id ORDER BY finding.id",
    )
    printed = ("ptx-isa-9.4", "ptx-isa-9.4", "ptx-isa-9.1", "ptx-isa-9.1")
    assert [finding[:3] for finding in found] == [(source, "m16n8k256", "A") for source in printed]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "zz;x<y"}, "invalid type 'zz;x<y'"),
        ({"qualifiers": "x4 trans"}, "invalid qualifiers 'x4 trans'"),
        ({"instruction": ""}, "invalid instruction ''"),
        ({"major": "row\n"}, "major"),
        ({"role": "F"}, "invalid role 'F'"),
        ({"shape": "16x8x16"}, "is not a shape"),
        ({"shape": "m16n8k40000"}, "each dimension is 1 to 32767"),
        ({"shape": "m16n0k16"}, "each dimension is 1 to 32767"),
    ],
)
def test_what_could_not_be_asked_for_is_not_loaded(built, fragments, changes, words):
    before = built.read_bytes()
    with pytest.raises(lanemap.LanemapError, match=words):
        store.load(locate(built), [small(replace(fragments[0], **changes))])
    for name in ("", "a\nb", " a", "\u202ea", *(f"{sign}cmd" for sign in "=+-@")):
        with pytest.raises(lanemap.LanemapError, match="invalid source name"):
            store.load(locate(built), [Source(name, "import", "a test", fragments[:1])])
    with pytest.raises(lanemap.LanemapError, match="title"):
        store.load(locate(built), [Source("mine", "import", "a\ntest", fragments[:1])])
    assert built.read_bytes() == before


def test_a_source_that_fails_half_way_leaves_the_old_one(own, fragments):
    location = locate(own)
    store.load(location, [small(fragments[0])])
    before = rows(own, "SELECT * FROM layout WHERE source = 'mine' ORDER BY lane, reg, slot")

    def sources():
        yield small(fragments[1])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.load(location, sources())
    twice = small(fragments[0])
    with pytest.raises(lanemap.LanemapError, match="(?i)unique"):
        store.load(location, [replace(twice, fragments=[fragments[2], fragments[2]])])
    assert rows(own, "SELECT * FROM layout WHERE source = 'mine' ORDER BY lane, reg, slot") == before


@pytest.mark.slow
def test_processes_at_once_build_it_once(place, shipped):
    """While one of them reads what to load, the others come."""
    opening = (
        "import time, lanemap\n"
        "from lanemap.db.layout.fragment import Source\n"
        "def shipped():\n"
        "    time.sleep(0.5)\n"
        f"    return [Source(name, 'import', 'a test', []) for name in {shipped}]\n"
        "lanemap._shipped = shipped\n"
        "loaded = []\n"
        f"lanemap.open({place!r}, progress=lambda source: loaded.append(source.name)).close()\n"
        "print(len(loaded))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", opening], stdout=subprocess.PIPE) for _ in range(2)]
    assert sorted(int(process.communicate()[0]) for process in processes) == [0, len(shipped)]
    assert rows(place, "SELECT COUNT(*) FROM source") == [(len(shipped),)]


def test_a_connection_that_is_closed_meanwhile_needs_no_interruption(file):
    """As by a query that failed just before its time was over."""
    connection = sqlite3.connect(":memory:")
    connection.close()
    with lanemap.open(file) as database:
        database.reader._interrupt(connection)


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_to_misread(few, tmp_path, shipped):
    """Kill the builder while it loads: the next one starts over, whatever was written."""
    file = tmp_path / "layouts.db"
    slow = (
        "import time, lanemap, lanemap.ingest.catalogue as c\n"
        "made, document = [], c.document\n"
        "def slowly(name):\n"
        "    if made:\n"
        "        print('half', flush=True)\n"
        "        time.sleep(60)\n"
        "    made.append(name)\n"
        "    return document(name)\n"
        "c.document = slowly\n"
        f"lanemap.open({str(file)!r})\n"
    )
    builder = subprocess.Popen([sys.executable, "-c", slow], stdout=subprocess.PIPE, cwd=tmp_path)
    assert builder.stdout.readline() == b"half\n"
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    lanemap.open(str(file)).close()
    assert rows(str(file), "SELECT COUNT(DISTINCT source) FROM layout") == [(len(shipped),)]


def test_every_shipped_file_makes_a_database_stale(tmp_path, monkeypatch):
    for name in ("__init__.py", "ingest/a.toml", "db/isa/b.py", "cli/web/static/c.css", "README.md", "tests/d.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one")
    monkeypatch.setattr(lanemap, "_FOLDER", tmp_path)
    digest = lanemap.program_digest.__wrapped__
    first = digest()
    for name, counts in {
        **dict.fromkeys(("__init__.py", "ingest/a.toml", "db/isa/b.py", "cli/web/static/c.css"), True),
        **dict.fromkeys(("README.md", "tests/d.py"), False),
    }.items():
        file = tmp_path / name
        file.write_text("two")
        assert (digest() != first) == counts, name
        file.write_text("one")
        os.utime(file, (0, 0))
        assert digest() == first
    (tmp_path / "db" / "__pycache__").mkdir()
    (tmp_path / "db" / "__pycache__" / "b.pyc").touch()
    assert digest() == first
    (tmp_path / "db" / "isa" / "b.py").rename(tmp_path / "db" / "b.py")
    assert digest() != first


@pytest.mark.slow
def test_the_default_database_follows_the_package(few, tmp_path, monkeypatch, shipped):
    monkeypatch.delenv("LANEMAP_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    database = lanemap.open()
    assert database.location.file == locate().file
    assert database.location.file.name == f"lanemap-{SCHEMA_VERSION}.db"
    database.close()
    monkeypatch.setattr(lanemap, "program_digest", lambda: "another")
    loaded = []
    assert not lanemap.open(progress=loaded.append).stale
    assert len(loaded) == len(shipped)
    assert not lanemap.open(progress=loaded.append).stale
    assert len(loaded) == len(shipped)


@pytest.mark.slow
def test_what_was_added_to_a_default_database_of_another_version_is_not_lost_silently(few, tmp_path, monkeypatch, run):
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: tmp_path)
    monkeypatch.delenv("LANEMAP_DB")
    earlier = tmp_path / "lanemap-6.db"
    earlier.write_bytes(b"whatever it is")
    said = f"what was added to {earlier}, of another version of Lanemap, is not here: add it again"
    with pytest.warns(UserWarning, match=f"^{said}$"), lanemap.open() as database:
        database.location.file.unlink()
    assert run("list", "sources", db=None).err == f"lanemap: {said}\n"
    lanemap.open().close()  # it is said where the database is built, and once
    assert earlier.read_bytes() == b"whatever it is"


@pytest.mark.slow
def test_a_named_database_is_left_as_it_is_but_called_stale(few, file, monkeypatch):
    monkeypatch.setattr(lanemap, "program_digest", lambda: "another")
    assert lanemap.open(str(file)).stale
    lanemap.open(str(file)).refresh()
    assert not lanemap.open(str(file)).stale


def test_another_schema_is_never_read(file):
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'schema'")
    with pytest.raises(lanemap.LanemapError, match="another version of Lanemap"):
        lanemap.open(str(file))
    with pytest.raises(lanemap.LanemapError, match="another version of Lanemap"):
        lanemap.open(str(file)).refresh()


@pytest.mark.parametrize(
    "statements",
    [
        "DELETE FROM meta",
        "DELETE FROM meta WHERE key = 'shipped'",
        "DROP TABLE meta; CREATE TABLE meta (a, b, c)",
        "DROP TABLE meta; CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('schema', 'theirs')",
    ],
)
def test_a_table_meta_of_another_application_is_one_line(file, statements):
    with sqlite3.connect(file) as connection:
        connection.executescript(statements)
    with pytest.raises(lanemap.LanemapError, match="is not a Lanemap database"):
        lanemap.open(str(file))


@pytest.mark.parametrize("there", [None, b"", b"SQLite format 3"])
def test_a_journal_of_somebody_else_stays(tmp_path, there):
    file, journal = tmp_path / "layouts.db", tmp_path / "layouts.db-journal"
    journal.write_text("Dear diary")
    if there is not None:
        file.write_bytes(there)
    with pytest.raises(lanemap.LanemapError, match="layouts.db-journal is not the journal of"):
        lanemap.open(str(file))
    assert journal.read_text() == "Dear diary"
    assert file.exists() == (there is not None)


def test_someone_elses_database_is_not_touched(tmp_path):
    file = tmp_path / "theirs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE precious (x)")
    before = file.read_bytes()
    with pytest.raises(lanemap.LanemapError, match="not Lanemap's"):
        lanemap.open(str(file))
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, I am no database at all" * 100, b"\0" * 5000])
def test_a_file_that_is_no_database_is_not_touched(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(lanemap.LanemapError, match="not a database"):
        lanemap.open(str(file))
    assert file.read_bytes() == content


def test_provenance_is_json(file):
    for (provenance,) in rows(str(file), "SELECT provenance FROM source WHERE kind = 'document'"):
        assert json.loads(provenance)["version"] in ("9.1", "9.4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provenance", "words"),
    [
        ([], None),
        ({"instructions": []}, None),
        ({"instructions": None}, r"wrong: instructions: expected a list, got nothing"),
        ({"instructions": "all"}, r"wrong: instructions: expected a list, got text"),
        ({"instructions": [{}]}, r"wrong: instructions\[0\]: it has no 'instruction'"),
        ({"instructions": [5]}, r"instructions\[0\]: expected a table, got a whole number"),
        ({"instructions": [{"instruction": "x", "status": "failed"}]}, "it has no 'message'"),
        ({"instructions": [SAID | {"documented": 1}]}, "documented: expected a table or nothing, got a whole number"),
        ({"instructions": [SAID | {"documented": {"verdict": "disagrees"}}]}, "documented: it has no 'detail'"),
        ({"disagreements": 5}, "wrong: disagreements: expected a list, got a whole number"),
        ({"disagreements": [5]}, r"wrong: disagreements\[0\]: expected text, got a whole number"),
        ({"wrong": [{"origin": "x", "words": 5}]}, r"wrong\[0\].words: expected text, got a whole number"),
        ({"wrong": [{"origin": "x", "words": "y"}]}, r"wrong\[0\]: it has no 'operand'"),
        (
            {"wrong": [{"origin": "x", "words": "y", "operand": ["mma"]}]},
            "operand: expected a list of length 4 to 7",
        ),
        ({"wrong": [{"origin": "x", "words": "y", "operand": [[]] * 7}]}, r"operand\[0\]: expected text, got a list"),
        (
            {"wrong": [{"origin": "x", "words": "y", "operand": ["mma", "m1", "f16", "Z", *[None] * 3]}]},
            "its provenance is wrong: .*m1",
        ),
        ({"a": object()}, "not a JSON object"),
        ({"a": float("nan")}, "not a JSON object"),
        ([1], "not a JSON object"),
        ({"a": "x" * 2_000_000}, "more than"),
    ],
)
def test_provenance_that_no_check_could_read_is_refused(file, fragments, provenance, words):
    source = Source("mine", "capture", "a test", fragments[:1], provenance)
    if words is None:
        store.load(locate(file), [source])
        with lanemap.open(file) as database:
            assert "mine" in list(database.sources()["name"])
        return
    with pytest.raises(lanemap.LanemapError, match=words):
        store.load(locate(file), [source])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("layouts.db", Path("layouts.db")),
        ("sqlite:///layouts.db", Path("layouts.db")),
        ("sqlite:////tmp/layouts.db", Path("/tmp/layouts.db")),
    ],
)
def test_a_file_may_be_named_in_two_ways(url, expected):
    assert locate(url).file == expected


@pytest.mark.parametrize(
    "url",
    [
        *("mysql://x/y", "sqlite://", "sqlite://layouts.db", "sqlite:layouts.db", "sqlite:///:memory:", "http://x"),
        *(f"postgresql:/u:{SECRET}@h/x", f"postgresql:u:{SECRET}@h/x", f"postgresq://u:{SECRET}@h/x"),
        *(f"u:{SECRET}@h/x", f"u:{SECRET}/x@h", f"PostgreSQL:/u:{SECRET}@h/x", f"//u:{SECRET}@h/x"),
        *(f"postgresql://u:{SECRET}@h:abc/x", f"postgresql://u:p@{SECRET}:w@h/x", f"postgresql://u:p/{SECRET}@h/x"),
        *(f"postgresql://u:1?{SECRET}@h/x", f"postgresql://u:1#{SECRET}@h/x", f"postgresql://u:{SECRET}\n@h/x"),
        *(f"postgresql://u:{SECRET}{text}@h/x" for text in ("%", "%re", "%0", "%00", " ", "%%", "%zz", "\0", "\u00a0")),
        *(f"postgresql://{SECRET}%re:p@h/x", f"postgresql://u@h/x?password={SECRET}%", f"postgresql:// u:{SECRET}@h/x"),
        *(f"host=h user=u password={SECRET} dbname=x", f"host=h password = '{SECRET}'", f" postgresql://u:{SECRET}@h"),
        *(f"jdbc:postgresql://h/x?user=u&password={SECRET}", f"postgresql//u:{SECRET}@h/x", f"u:{SECRET}\n@h"),
    ],
)
def test_an_address_that_is_nearly_right_is_refused_without_its_password(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lanemap.LanemapError) as error:
        lanemap.open(url)
    assert SECRET not in str(error.value)
    assert "postgresql://" in str(error.value) or "sqlite:///" in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@localhost:1/name",
        f"POSTGRES://me@localhost:1/name?password={SECRET}",
        f"postgresql://{SECRET}@localhost:1/name",
        f"postgresql://me:{SECRET}%20%25%C3%A9@localhost:1/name",
        f"postgresql://me:{SECRET}@localhost:1/name?sslmode={SECRET}",
        f"postgresql://me:{SECRET}@localhost:1/name?application_name={SECRET}&{SECRET}=1",
        f"postgresql://localhost:1/name?user={SECRET}&options=-c%20{SECRET}",
        f"postgresql://localhost:1/name?user=u&password=abc&{SECRET}",
        f"postgresql://localhost:1/name?user=u&password=abc&{SECRET}=x={SECRET}",
        f"postgresql://localhost:1/name?user=u&password=abc&{SECRET}%41+b",
    ],
)
def test_a_password_is_shown_nowhere(url, run):
    location = locate(url)
    assert SECRET not in f"{location} {location!r}"
    assert str(location) == "postgresql://localhost:1/name"
    with pytest.raises(lanemap.LanemapError) as error:
        lanemap.open(url)
    assert SECRET not in "".join(traceback.format_exception(error.value))
    assert error.value.__cause__ is None
    assert isinstance(error.value.__context__, ModuleNotFoundError | None)  # without psycopg
    result = run("list", db=url)
    assert (result.code, result.out) == (2, "")
    assert SECRET not in result.err
    assert SECRET not in run("list", "--db", url).err
    if "=" not in url.partition("password=")[0]:
        assert SECRET not in run(url).err


@pytest.mark.parametrize("reach", [connected, lambda location: store.remove(location, "mine")])
def test_a_writer_that_cannot_connect_shows_no_password_either(reach):
    pytest.importorskip("psycopg", reason="needs lanemap[postgres]")
    location = locate(f"postgresql://me:{SECRET}@localhost:1/name?password=abc&{SECRET}")
    with pytest.raises(lanemap.UnavailableError) as error:
        reach(location)
    assert SECRET not in str(error.value)
    assert (error.value.__cause__, error.value.__context__) == (None, None)


def test_names_of_options_are_not_hidden():
    pytest.importorskip("psycopg", reason="needs lanemap[postgres]")
    location = locate("postgresql://u:p@/x?host=nohost.invalid&password=abc&sekret")
    said = location.without_secrets('failed to resolve host "nohost.invalid": no password for u, p, abc, sekret')
    assert said == 'failed to resolve host "nohost.invalid": no password for ***, ***, ***, ***'


def test_a_server_that_does_not_answer_is_one_line(tmp_path):
    with pytest.raises(lanemap.LanemapError) as error:
        lanemap.open(f"postgresql://postgres@/postgres?host={tmp_path}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["public", "mine, public", "mine"])
def test_tables_of_other_schemas_are_not_ours(server, fragments, path, monkeypatch):
    monkeypatch.setattr(lanemap, "_shipped", lambda: [small(fragments[0])])
    name = f"schemas_{path.replace(', ', '_')}"
    url = server.replace("postgresql", "postgresql+psycopg", 1)
    for database, statements in (
        ("postgres", [f"CREATE DATABASE {name}", f"ALTER DATABASE {name} SET search_path TO {path}"]),
        (name, [f"CREATE SCHEMA {schema}" for schema in ("mine", "other")]),
        (name, [f"CREATE TABLE {schema}.meta (a int)" for schema in {"other", "public"} - {path}]),
    ):
        engine = create_engine(url.replace("/postgres?", f"/{database}?"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()
    place = server.replace("/postgres?", f"/{name}?")
    for _ in range(2):
        with lanemap.open(place) as database:
            assert list(database.sources()["name"]) == ["mine"]
    own = path.split(",")[0]
    assert rows(place, f"SELECT name FROM {own}.source") == [("mine",)]


@pytest.mark.parametrize("place", ["/proc/nowhere/layouts.db", "/dev/null/layouts.db"])
def test_a_folder_that_cannot_be_made_is_one_line(place):
    with pytest.raises(lanemap.LanemapError, match="name another database"):
        lanemap.open(place)


def refresh(place):
    with lanemap.open(place) as database:
        database.refresh()


@pytest.mark.slow
def test_a_database_can_be_read_while_it_is_replaced(whole, tmp_path):
    """A reader sees the old source or the new one, never half of it."""
    file = shutil.copy2(whole, tmp_path)
    counts = set()
    writer = multiprocessing.get_context("spawn").Process(target=refresh, args=(str(file),))
    writer.start()
    while writer.is_alive():
        counts |= set(rows(str(file), "SELECT COUNT(*) FROM fragment JOIN mapping ON mapping.id = mapping_id"))
        time.sleep(0.01)
    assert len(counts) == 1


@pytest.mark.slow
def test_layouts_that_are_alike_are_checked_against_what_each_fragment_expects(file, sources):
    sound = [
        fragment
        for fragment in sources["ptx-isa-9.4"].fragments
        if (fragment.shape, fragment.type) == ("m16n8k8", "f16")
    ]
    given = [*sound, *(replace(fragment, shape="m16n8k16") for fragment in sound)]
    expected = [(str(fragment.key), words) for fragment in given for words in check(fragment)]
    assert {key for key, _ in expected} == {
        str(fragment.key) for fragment in given if fragment.role in "AB" and "k16" in fragment.shape
    }
    with lanemap.open(str(file)) as database:
        database.add([Source("mine", "import", "mine", given)])
        found = findings(database.reader, Query(source="mine")).records()
    assert [(str(Key(*(finding[name] for name in Key._fields))), finding["finding"]) for finding in found] == expected
