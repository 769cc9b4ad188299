"""The reader: whatever the statement, it cannot write, has limits, and sees one state of the database."""

import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

import lanemap
from lanemap.db.errors import DamagedError, UnavailableError
from lanemap.db.layout.fragment import Source
from lanemap.db.store import store
from lanemap.db.store.connection import connect
from lanemap.db.store.location import locate

WRITING = [
    "DELETE FROM element",
    "UPDATE element SET row = 0",
    "INSERT INTO meta VALUES ('a', 'b')",
    "DROP VIEW layout",
    "CREATE TABLE x (y integer)",
    "CREATE TEMP TABLE x (y integer)",
    "SELECT 1; DELETE FROM element",
    "WITH x AS (SELECT 1) DELETE FROM element",
    "VACUUM",
    "BEGIN",
    "COMMIT",
    "",
    "-- nothing",
    "SELEC 1",
    "SELECT * FROM nowhere",
]
ONLY_SQLITE = [
    "ATTACH '{folder}/other.db' AS other",
    "VACUUM INTO '{folder}/other.db'",
    "PRAGMA query_only = 0",
    "PRAGMA journal_mode = WAL",
    "SELECT load_extension('x')",
]
ONLY_POSTGRESQL = [
    "COPY element TO '{folder}/other.csv'",
    "COPY element TO PROGRAM 'cat'",
    "DO $$ BEGIN DELETE FROM element; END $$",
    "WITH gone AS (DELETE FROM element RETURNING *) SELECT * FROM gone",
    "SET default_transaction_read_only = off",
    "SELECT setval('source_id_seq', 1)",
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def place(request):
    if request.param == "sqlite":
        return str(request.getfixturevalue("built"))
    return request.getfixturevalue("new_database")(request.getfixturevalue("built_on_server"))


def count(place):
    return lanemap.open(place).sql("SELECT COUNT(*) AS n FROM element").n[0]


def test_no_statement_writes(place, tmp_path):
    before = count(place)
    with lanemap.open(place) as database:
        for statement in WRITING + (ONLY_POSTGRESQL if place.startswith("postgresql") else ONLY_SQLITE):
            with pytest.raises(lanemap.LanemapError) as error:
                database.reader.sql(statement.replace("{folder}", str(tmp_path)))
            assert "\n" not in str(error.value)
    assert count(place) == before
    assert list(tmp_path.iterdir()) == []


def test_queries_of_every_kind_are_answered(place):
    reader = connect(locate(place))
    for query, expected in [
        ("SELECT 1", [(1,)]),
        ("VALUES (1, 2)", [(1, 2)]),
        (
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3) SELECT x FROM c",
            [(1,), (2,), (3,)],
        ),
        ("SELECT row, col FROM layout WHERE source = 'nowhere'", []),
        ("SELECT 'a:b', '100%', ':name'", [("a:b", "100%", ":name")]),
    ]:
        assert list(reader.sql(query).rows) == expected
    assert reader.sql("SELECT row, col FROM layout WHERE 1 = 0").columns == ("row", "col")
    reader.close()


def test_a_cell_is_found_through_the_index(place):
    if place.startswith("postgresql"):
        pytest.skip("PostgreSQL scans so small a table on purpose")
    with sqlite3.connect(place) as connection:
        query = "SELECT * FROM layout WHERE shape = 'm16n8k16' AND type = 'f16' AND role = 'A' AND row = 3 AND col = 5"
        plan = " ".join(row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + query))
    assert "fragment_key" in plan
    assert "element_cell" in plan


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"


def test_a_connection_that_answered_a_query_is_used_again_after_a_refusal(place):
    with closing(connect(locate(place))) as reader:
        with suppress(lanemap.LanemapError), reader.snapshot():
            kept = reader._own.connection
            reader.sql("SELECT 1")
            raise lanemap.LanemapError("something else")
        assert reader._idle == [kept]


def test_a_query_that_takes_too_long_ends(place):
    running = threading.active_count()
    with lanemap.open(place) as database:
        for seconds, query in ((0.05, ENDLESS), (0.2, ENDLESS), (0.2, "SELECT COUNT(*) FROM layout a, layout b")):
            with pytest.raises(lanemap.LanemapError, match=f"longer than {seconds} s"):
                database.reader.sql(query, seconds=seconds)
            while threading.active_count() > running:  # nothing goes on behind one's back
                time.sleep(0.01)
        assert database.reader.sql("SELECT 1").rows == [(1,)]


def test_the_time_of_what_cannot_be_interrupted_is_hardly_exceeded(place, monkeypatch):
    with lanemap.open(place) as database:
        released, reader = threading.Event(), database.reader
        reader.verify(rows=True)
        monkeypatch.setattr(reader, "_asked", lambda *_: released.wait())
        began = time.monotonic()
        with pytest.raises(lanemap.LanemapError, match="longer than 0.05 s"):
            reader.sql("SELECT 1", seconds=0.05)
        assert time.monotonic() - began < 0.9
        released.set()


UNINTERRUPTIBLE = """
import sys, threading, lanemap
with lanemap.open(sys.argv[1]) as database:
    try:
        database.sql("SELECT instr(zeroblob(2000000), CAST(zeroblob(900000) || 'x' AS BLOB))", seconds=0.1)
    except lanemap.LanemapError as error:
        print(error)
    print(threading.active_count(), database.sql("SELECT 1 AS one").one.tolist())
"""


@pytest.mark.slow
def test_what_sqlite_cannot_interrupt_is_left_behind(built):
    """In a process of its own, whose end is that of the query, too."""
    done = subprocess.run([sys.executable, "-c", UNINTERRUPTIBLE, built], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "sql: the query takes longer than 0.1 s: ask for less, or allow more time",
        "2 [1]",
    ], done.stderr


def test_more_rows_than_allowed_are_refused(place):
    with lanemap.open(place) as database:
        assert len(database.reader.sql("SELECT * FROM layout LIMIT 20", rows=20).rows) == 20
        for query in ("SELECT * FROM layout LIMIT 21", ENDLESS.replace("COUNT(*)", "x")):
            with pytest.raises(lanemap.LanemapError, match="more than 20 rows"):
                database.reader.sql(query, rows=20)
        for limits in ({"rows": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"seconds": float("inf")}):
            with pytest.raises(lanemap.LanemapError, match="rows must be at least 1"):
                database.reader.sql("SELECT 1", **limits)


def test_a_query_that_fills_the_memory_ends_in_an_error(place, monkeypatch):
    monkeypatch.setattr("lanemap.db.store.reader._RESULT_BYTES", 10_000_000)
    kind = "postgresql" if place.startswith("postgresql") else "sqlite"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with lanemap.open(place) as database:
        for query in BOMBS[kind]:
            with pytest.raises(lanemap.LanemapError, match="^sql: "):
                database.reader.sql(query)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < max(before, 1 << 20) + (1 << 17)


BOMBS = {
    "sqlite": [
        "SELECT zeroblob(1000000000)",
        "SELECT hex(randomblob(500000000))",
        "SELECT replace(hex(zeroblob(900000)), '0', hex(zeroblob(1000)))",
        f"SELECT {', '.join(['zeroblob(2000000)'] * 300)}",
        ENDLESS.replace("COUNT(*)", "zeroblob(2000000)"),
        "SELECT group_concat(hex(zeroblob(100000))) FROM (SELECT 1 FROM layout LIMIT 100)",
        "SELECT 1" + " + 1" * 100_000,
    ],
    "postgresql": [
        "SELECT repeat('x', 100000000)",
        "SELECT repeat('x', 1000000) FROM generate_series(1, 100000)",
        "SELECT 1" + " + 1" * 100_000,
    ],
}


#: The command line, which says when it asks the database.
SAYING = """
import sys
from lanemap.cli import main
from lanemap.db.store.reader import Reader
ask = Reader.sql
def sql(*arguments, **options):
    print("asked", file=sys.stderr, flush=True)
    return ask(*arguments, **options)
Reader.sql = sql
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_query_can_be_interrupted(place, name, code):
    command = [sys.executable, "-c", SAYING, "sql", ENDLESS, "--db", place]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr.readline() == "asked\n"
    time.sleep(0.2)
    running.send_signal(getattr(signal, name))
    out, err = running.communicate()
    assert (running.returncode, out, err) == (code, "", "")


def test_an_interruption_stays_one_in_python(place):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with lanemap.open(place) as database:
            with pytest.raises(KeyboardInterrupt):
                # Again and again: one that comes while Python collects garbage is ignored.
                signal.setitimer(signal.ITIMER_REAL, 0.2, 5)
                database.sql(ENDLESS)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert database.sql("SELECT 1 AS one").one.tolist() == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interruption_while_a_query_begins_ends_the_query(built, monkeypatch):
    start, running = threading.Thread.start, threading.active_count()

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    with lanemap.open(built) as database:
        database.sql("SELECT 1 AS one")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                database.sql(ENDLESS)
        for _ in range(1000):
            if threading.active_count() == running:
                break
            time.sleep(0.01)
        assert threading.active_count() == running


def test_functions_that_do_more_than_read_are_refused(place, tmp_path):
    if not place.startswith("postgresql"):
        pytest.skip("SQLite has none that are not refused with the rest of what writes")
    target = tmp_path / "written"
    with lanemap.open(place) as other, lanemap.open(place) as database:
        (pid,) = other.reader.select("SELECT pg_backend_pid()", {}).rows[0]
        for query in [
            f"SELECT lo_export(lo_from_bytea(0, 'x'), '{target}')",
            "SELECT pg_read_file('/etc/passwd')",
            f"SELECT pg_terminate_backend({pid})",
            f'SELECT 1 LIMIT "pg_terminate_backend"({pid})::int',
            f"VALUES (PG_Cancel_Backend({pid}))",
            f"SELECT query_to_xml('select pg_terminate' || '_backend({pid})', true, true, '')",
            f'SELECT U&"pg\\005fterminate_backend"({pid})',
            "SELECT set_config('transaction_read_only', 'off', true)",
            "SELECT pg_advisory_lock(1)",
            "SELECT nextval('source_id_seq')",
            "SELECT pg_sleep(100)",
        ]:
            with pytest.raises(lanemap.LanemapError, match="only reads tables"):
                database.reader.sql(query)
        for query in (
            "SELECT random() < 2",
            "SELECT COUNT(*) > 0 FROM generate_series(1, 3)",
            "SELECT now() > 'epoch'",
        ):
            assert database.reader.sql(query).rows == [(True,)]
        assert other.reader.select("SELECT pg_backend_pid()", {}).rows == [(pid,)]
    assert not target.exists()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT value FROM json_each('[1, 2]')", [(1,), (2,)]),
        ("SELECT key FROM json_tree('{\"a\": 1}') WHERE key NOT NULL", [("a",)]),
        ("SELECT name FROM pragma_table_info('meta')", [("key",), ("value",)]),
        ("SELECT COUNT(*) > 0 FROM pragma_table_list", [(1,)]),
    ],
)
def test_table_functions_that_only_read_are_allowed(built, query, expected):
    with lanemap.open(built) as database:
        assert database.reader.sql(query).rows == expected
        for refused in (
            "UPDATE sqlite_master SET sql = ''",
            "SELECT * FROM pragma_journal_mode",
            "PRAGMA user_version",
        ):
            with pytest.raises(lanemap.LanemapError, match="only reads"):
                database.reader.sql(refused)


def version(fragments, number):
    """A source of some fragments that all say which version of it they are of."""
    changed = []
    for fragment in fragments[:3]:
        table = fragment.elements.copy()
        table["row"] = (table["row"] + number) % fragment.dimensions[0]
        changed.append(replace(fragment, elements=table))
    return Source("mine", "import", f"version {number}", changed)


def read_version(reader, fragments):
    """The number that everything says in one snapshot, read in five statements."""
    with reader.snapshot():
        ((title,),) = reader.select("SELECT title FROM source WHERE name = 'mine'", {}).rows
        number = int(title.split()[1])
        stored = "SELECT mapping_id FROM fragment JOIN source ON source.id = source_id WHERE source.name = 'mine'"
        mappings = [mapping for (mapping,) in reader.select(f"{stored} ORDER BY fragment.id", {}).rows]
        for mapping, expected in zip(mappings, version(fragments, number).fragments, strict=True):
            assert reader.packed([mapping])[mapping] == expected.elements.tobytes()
    return number


@pytest.mark.slow
def test_two_readers_and_a_writer_interleaved(own, fragments, seed):
    """Random steps of three actors: whoever waits for whom, a reader sees one whole state from begin to end."""
    versions = 60 if "LANEMAP_LONG" in os.environ else 5
    chance = random.Random(seed)
    location = locate(own)
    store.load(location, [version(fragments, 0)])
    done, begun, seen = [0], [0], []

    def write():
        begun.append(begun[-1] + 1)
        store.load(location, [version(fragments, begun[-1])])
        done.append(begun[-1])

    def read(reader, held, step):
        if step == "begin" and not held:
            held[:] = [reader.snapshot(), done[-1], None]
            held[0].__enter__()
        elif step == "end" and held:
            held.pop(0).__exit__(None, None, None)
            held.clear()
        else:
            least = held[1] if held else done[-1]
            number = read_version(reader, fragments)
            assert least <= number <= begun[-1]
            if held:
                assert held[2] in (None, number)
                held[2] = number
            seen.append(number)

    readers = [(connect(location), []) for _ in range(2)]
    actors = [ThreadPoolExecutor(1) for _ in range(3)]
    last = [None] * 3
    while done[-1] < versions:
        while all(future and not future.done() for future in last):
            time.sleep(0.001)
        who = chance.choice([index for index, future in enumerate(last) if not future or future.done()])
        if last[who]:
            last[who].result()
        if who == 2:
            last[who] = actors[who].submit(write)
        else:
            last[who] = actors[who].submit(read, *readers[who], chance.choice(["begin", "read", "read", "end"]))
        time.sleep(chance.choice([0, 0.002, 0.01]))
    for index in range(2):
        actors[index].submit(read, *readers[index], "end")
    for future in last:
        future.result()
    for actor in actors:
        actor.shutdown()
    assert len(set(seen)) > 1
    assert read_version(readers[0][0], fragments) == done[-1]
    for reader, _ in readers:
        reader.close()


@pytest.mark.slow
def test_many_threads_share_a_database(own, fragments):
    """Each answer is that of one thread alone, while a source comes and goes."""
    asked = [("m16n8k16", "f16", "A"), ("m8n8k4", "f64", "C"), ("m16n8k8", "tf32", "B")]
    store.load(locate(own), [version(fragments, 0)])
    with lanemap.open(own) as database:
        expected = [database.find(*request, lane=5).to_csv() for request in asked]
        stop = threading.Event()

        def look_up(number):
            chance, answered = random.Random(number), 0
            while not stop.is_set() or not answered:
                index = chance.randrange(len(asked))
                assert database.find(*asked[index], lane=5).to_csv() == expected[index]
                read_version(database.reader, fragments)
                answered += 1
            return answered

        with ThreadPoolExecutor(8) as pool:
            running = [pool.submit(look_up, number) for number in range(8)]
            try:
                for number in range(1, 4):
                    store.load(locate(own), [version(fragments, number)])
            finally:
                stop.set()
            assert all(future.result() for future in running)
        with pytest.raises(lanemap.LanemapError, match="no source nobody"):
            database.find(*asked[0], lane=5, source="nobody")
    with pytest.raises(lanemap.LanemapError, match="closed"):
        database.find(*asked[0], lane=5)


@contextmanager
def cut(place):
    """A function that ends every other connection to a database, as a server does that is stopped."""
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        every = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        yield lambda: connection.execute(f"{every} WHERE datname = current_database() AND pid != pg_backend_pid()")


def test_a_server_connection_that_was_cut_is_replaced(new_database, built_on_server):
    place = new_database(built_on_server)
    with lanemap.open(place) as database, cut(place) as end:
        end()
        assert len(database.sources())
        with pytest.raises(UnavailableError) as error, database.reader.snapshot():
            database.sources()
            end()
            database.sources()
        assert "\n" not in str(error.value)
        with database.reader.snapshot():  # what was read of it stands
            assert len(database.sources())
            end()
        assert len(database.sources())


def test_a_query_and_an_import_whose_connection_is_cut_are_said_in_a_line(new_database, built_on_server, fragments):
    place = new_database(built_on_server)
    with lanemap.open(place) as database, cut(place) as end:
        threading.Timer(1, end).start()
        with pytest.raises(UnavailableError, match="postgresql:") as query:
            database.sql("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n")

        def sources():
            end()
            yield Source("lost", "import", "Lost", fragments[:1])

        with pytest.raises(UnavailableError, match="postgresql:") as written:
            store.load(locate(place), sources())
        assert "\n" not in str(query.value) + str(written.value)
        assert "lost" not in set(database.sources().name)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what a process has open is in /proc on Linux")
def test_a_file_that_another_took_the_place_of_is_not_kept_open(file, tmp_path):
    with lanemap.open(str(file)) as database:
        before = database.reader.changes()
        database.find("m16n8k16", "f16", "A", lane=5)
        Path(shutil.copy2(file, tmp_path / "other.db")).replace(file)
        assert database.reader.changes() != before
        database.find("m16n8k16", "f16", "A", lane=5)
        opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
        assert not [path for path in opened if path.startswith(str(file)) and "deleted" in path]


def test_every_write_is_seen_also_in_the_same_step_of_file_times(file, monkeypatch):
    """As on a system whose file times stand still, and where every change leaves the size as it is."""
    same = os.stat_result((0o100644, 1, 1, 1, 0, 0, 4096, *[int(time.time())] * 3))
    monkeypatch.setattr(Path, "stat", lambda *_, **__: same)
    reader = connect(locate(str(file)))
    assert len({reader.changes() for _ in range(3)}) == 3
    for later in (3600, -3600):  # by a clock that was put back, or that of another machine, the file is of the future
        monkeypatch.setattr(time, "time", lambda later=later: same.st_mtime + later)
        assert len({reader.changes() for _ in range(3)}) == 1
    reader.close()


@pytest.mark.slow
def test_what_another_process_writes_between_two_equal_requests_is_seen(own, fragments, monkeypatch):
    later = time.time() + 3600  # long after the last write
    monkeypatch.setattr(time, "time", lambda: later)
    which = fragments[0].key._asdict() | {"source": "mine"}
    with lanemap.open(own) as database:
        for number in (1, 2, 3):
            written = version(fragments, number)
            writer = multiprocessing.get_context("fork").Process(target=store.load, args=(locate(own), [written]))
            writer.start()
            writer.join()
            for _ in range(2):
                found = database.find(**which)
                assert found["row"].tolist() == written.fragments[0].table["row"].tolist()
                assert database.fragment(**which).packed == written.fragments[0].packed
        assert database.fragment(**which) is database.fragment(**which)


def test_what_somebody_does_to_an_answer_is_not_in_the_next_one(file):
    with lanemap.open(str(file)) as database:
        for place in ({}, {"row": 3, "col": 2}):
            found = database.find("m8n8k4", "f16", "A", instruction="mma", **place)
            before = found.values.tolist()
            found["row"] += 1
            found.loc[0, ["shape", "lane"]] = "other", 99
            assert database.find("m8n8k4", "f16", "A", instruction="mma", **place).values.tolist() == before
        fragment = database.fragment("m16n8k16", "f16", "A")
        with pytest.raises(ValueError, match="read-only"):
            fragment.table["row"] = 0


@pytest.mark.parametrize("linked", [False, True], ids=["by its name", "by a link"])
def test_a_write_is_seen_that_is_still_in_a_write_ahead_log(file, tmp_path, monkeypatch, linked):
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    link = tmp_path / "link"
    link.symlink_to(file)
    with closing(sqlite3.connect(file)) as writer, lanemap.open(str(link if linked else file)) as database:
        writer.execute("PRAGMA journal_mode = WAL")
        before = database.reader.changes()
        assert database.reader.changes() == before
        database.sources()
        main = file.stat()
        writer.execute("UPDATE source SET name = 'renamed' WHERE id = (SELECT MIN(id) FROM source)")
        writer.commit()
        assert file.stat() == main
        assert database.reader.changes() != before
        with pytest.raises(DamagedError):
            database.sources()


def test_a_flipped_bit_never_gives_other_elements(file):
    """Most are noticed; the others are another way to compress the same."""
    with sqlite3.connect(file) as connection:
        number, packed = connection.execute("SELECT id, elements FROM mapping ORDER BY id LIMIT 1").fetchone()
        with lanemap.open(file) as database:
            written = database.reader.packed([number])
        chance, noticed = random.Random(4), 0
        for _ in range(30):
            damaged = bytearray(packed)
            damaged[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
            connection.execute("UPDATE mapping SET elements = ? WHERE id = ?", (bytes(damaged), number))
            connection.commit()
            with lanemap.open(file) as database:
                try:
                    assert database.reader.packed([number]) == written
                except lanemap.LanemapError as error:
                    assert f"{file} is damaged" in str(error)
                    noticed += 1
        assert noticed > 20
        connection.execute("DELETE FROM fragment")
        connection.execute("DELETE FROM mapping")
        connection.commit()
        with lanemap.open(file) as database, pytest.raises(lanemap.LanemapError, match="run it again"):
            database.reader.packed([number])


@pytest.mark.slow
@pytest.mark.parametrize("writes", [False, True])
def test_a_lock_is_waited_for_with_a_word_and_until_ctrl_c(file, writes):
    waits = f"import lanemap; lanemap.open({str(file)!r}).{'refresh' if writes else 'sources'}()"
    with sqlite3.connect(file, isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        waiting = subprocess.Popen([sys.executable, "-c", waits], stderr=subprocess.PIPE, text=True)
        assert waiting.stderr.readline() == f"lanemap: waiting for another program that uses {file}\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate()[1].endswith("KeyboardInterrupt\n")
        connection.execute("ROLLBACK")


@pytest.mark.slow
def test_a_reader_goes_on_after_a_writer_was_killed(file):
    """The journal of a writer that was killed is undone by the next one who reads."""
    write = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('UPDATE element SET row = row + 1')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with lanemap.open(file) as database:
        before = database.sql("SELECT SUM(row) AS n FROM element").n[0]
        subprocess.run([sys.executable, "-c", write, str(file)], check=False)
        assert file.with_name(file.name + "-journal").stat().st_size > 0
        assert database.sql("SELECT SUM(row) AS n FROM element").n[0] == before
    assert not file.with_name(file.name + "-journal").exists()


def test_a_refused_look_up_holds_nothing(file):
    """Whoever keeps the error, as a server may until memory is tidied, keeps nobody from writing."""
    with lanemap.open(str(file)) as database:
        with pytest.raises(lanemap.LanemapError) as refused:
            database.find("nothing", "f16", "A", row=0)
        other = sqlite3.connect(file, timeout=0, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        other.close()
        assert "nothing" in str(refused.value)


#: Queries that are refused, and their limits.
REFUSED = [
    ("selct", {}),
    ("SELECT lanes FROM layout", {}),
    ("SELECT * FROM layout", {"rows": 20}),
    (ENDLESS, {"seconds": 0.1}),
    ("", {}),
]


@pytest.mark.slow
def test_refused_queries_hold_nothing(file):
    """As long as one is read nobody can write, and the process of a server is kept for other queries."""
    with lanemap.open(str(file)) as database:
        for query, limits in REFUSED:
            with pytest.raises(lanemap.LanemapError) as refused:
                database.reader.sql(query, **limits)
            with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
                for _ in range(6000):  # what was interrupted ends in a thread of its own
                    with suppress(sqlite3.OperationalError):
                        other.execute("BEGIN EXCLUSIVE")
                        break
                    time.sleep(0.01)
                assert other.in_transaction, (query, refused.value)
            assert database.reader.sql("SELECT 1").rows == [(1,)]


def test_refused_queries_leave_no_transaction_on_a_server(new_database, built_on_server):
    with lanemap.open(new_database(built_on_server)) as database:
        for query, limits in REFUSED:
            with pytest.raises(lanemap.LanemapError) as refused:
                database.reader.sql(query, **limits)
            own = "pid <> pg_backend_pid() AND datname = current_database() AND state LIKE 'idle in transaction%'"
            until = time.monotonic() + 5  # a backend takes a moment to notice that its connection was closed
            while found := database.reader.select(f"SELECT query FROM pg_stat_activity WHERE {own}", {}).rows:
                assert time.monotonic() < until, (query, refused.value, found)
                time.sleep(0.01)


#: What an administrator may have made.
VOLATILE = """
CREATE FUNCTION größe() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION größer() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION "a ""b"() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION "A'b"() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE FUNCTION added(int, int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
CREATE OPERATOR @@@! (FUNCTION = added, LEFTARG = int, RIGHTARG = int);
CREATE AGGREGATE total_of (int) (SFUNC = added, STYPE = int, INITCOND = 0);
CREATE TYPE colour AS ENUM ('red');
CREATE FUNCTION painted(int) RETURNS colour LANGUAGE sql VOLATILE AS $$ SELECT 'red'::colour $$;
CREATE CAST (int AS colour) WITH FUNCTION painted(int);
CREATE FUNCTION writes(int) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true';
CREATE DOMAIN checked AS int CHECK (writes(VALUE));
CREATE DOMAIN asleep AS float CHECK (pg_sleep(VALUE) IS NOT NULL);
CREATE DOMAIN narrower AS checked;
CREATE TYPE pair AS (first int, second narrower);
CREATE TYPE span AS RANGE (subtype = checked);
CREATE TABLE pairs (held pair);
CREATE DOMAIN positive AS int CHECK (VALUE > 0)
"""


@pytest.fixture(scope="module")
def with_volatile(new_database, built_on_server):
    import psycopg

    address = new_database(built_on_server)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in VOLATILE.split(";"):
            connection.execute(statement)
    return address


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("SELECT größe()", "größe"),
        ("SELECT GRößER()", "größer"),
        ('SELECT "a ""b"()', 'a "b'),
        ("""SELECT '"', "A'b"()""", "A'b"),
        ("SELECT 1 @@@!2", "@@@!"),
        ("SELECT 1 OPERATOR(public.@@@!) 2", "@@@!"),
        ("SELECT total_of(1)", "total_of"),
        ("SELECT 1::colour", "colour"),
        ("SELECT 1::checked", "checked"),
        ("SELECT 9.5::asleep", "asleep"),
        ("SELECT 1::narrower", "narrower"),
        ("SELECT '{1,2}'::checked[]", "checked"),
        ("SELECT '(1,2)'::pair", "pair"),
        ("SELECT '[1,2]'::span", "span"),
        ("""SELECT json_populate_record(NULL::pairs, '{"held": {"first": 1, "second": 2}}')""", "pairs"),
    ],
)
def test_what_is_volatile_is_not_reached_by_any_spelling_of_its_name(with_volatile, query, name):
    with lanemap.open(with_volatile) as database:
        with pytest.raises(lanemap.LanemapError, match=f"it does not take {re.escape(name)}, which"):
            database.reader.sql(query)
        assert database.reader.sql("SELECT COUNT(*) AS höhe, random() < 2 FROM source").rows[0][1]
        assert database.reader.sql("SELECT 1::positive").rows == [(1,)]


def test_the_limit_of_time_holds_while_the_server_copies_a_large_value(new_database, built_on_server):
    """It copies a value of 1 GB in one piece and then, for its length, again; its own limit comes after that."""
    query = "SELECT length(string_agg(repeat('x', 10000000), '')) FROM generate_series(1, 100)"
    with lanemap.open(new_database(built_on_server)) as database:
        database.reader.sql("SELECT 1")
        began = time.monotonic()
        with pytest.raises(lanemap.LanemapError, match="the query takes longer than 0.2 s"):
            database.reader.sql(query, seconds=0.2)
        assert time.monotonic() - began < 1.5
        assert database.reader.sql("SELECT 1").rows == [(1,)]


@pytest.mark.slow
def test_a_server_with_a_limit_of_memory_says_that_a_query_takes_more(tmp_path):
    """As the guide says: its processes inherit the limit, and it goes on."""
    pgserver = pytest.importorskip("pgserver", reason="needs lanemap[test-server]")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1_000_000 << 10, limits[1]))
    try:
        server = pgserver.get_server(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    try:
        location = locate(server.get_uri())
        store.ship(location, list, "empty")
        reader = connect(location)
        for query in ("string_agg(repeat('x', 10000000), '')) FROM generate_series(1, 100", "repeat('x', 1000000000)"):
            with pytest.raises(lanemap.LanemapError, match="takes more memory than the server may: ask for less"):
                reader.sql(f"SELECT length({query})")
            assert reader.sql("SELECT 1").rows == [(1,)]
        reader.close()
    finally:
        server.cleanup()


def test_a_large_row_is_not_sent(new_database, built_on_server):
    """psycopg holds a row several times before anybody can look at it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with lanemap.open(new_database(built_on_server)) as database:
        ask = database.reader.sql
        for query in ("SELECT repeat('x', 90000000)", "SELECT 1, s FROM (SELECT repeat('x', 9000000) AS s) AS t;"):
            with pytest.raises(lanemap.LanemapError, match="a row takes more than 8 MB: select fewer columns"):
                ask(query)
        for escaping in ("SELECT repeat('x', 90000000)) AS a UNION ALL (SELECT ''", "SELECT 1) -- (", "SELECT 1; ; "):
            with pytest.raises(lanemap.LanemapError, match="it takes one SELECT"):
                ask(escaping)
        assert ask("SELECT row, row FROM (VALUES (2), (1)) AS t (row) ORDER BY 1 -- )").rows == [(1, 1), (2, 2)]
        assert ask("TABLE meta; ").columns == ("key", "value")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < max(before, 1 << 20) + (1 << 16)
