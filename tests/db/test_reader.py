"""The reader: whatever the statement, it cannot write, and says so in one line."""

import sqlite3

import pytest

import lanemap
from lanemap.db.location import locate
from lanemap.db.reader import connect

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
def place(request, tmp_path_factory):
    url = str(tmp_path_factory.mktemp("read") / "layouts.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("server")
    lanemap.open(url).close()
    return url


def count(place):
    return lanemap.open(place).sql("SELECT COUNT(*) AS n FROM element").n[0]


def test_no_statement_writes(place, tmp_path):
    before = count(place)
    for statement in WRITING + (ONLY_POSTGRESQL if place.startswith("postgresql") else ONLY_SQLITE):
        reader = connect(locate(place))
        with pytest.raises(lanemap.LanemapError) as error:
            reader.sql(statement.replace("{folder}", str(tmp_path)))
        assert "\n" not in str(error.value)
        reader.close()
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


def test_a_query_can_be_interrupted(place):
    """Ctrl-C ends a query that would never end."""
    if place.startswith("postgresql"):
        pytest.skip("the PostgreSQL driver waits in Python, where Ctrl-C is noticed anyway")
    import signal

    reader = connect(locate(place))
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"
    with pytest.raises((KeyboardInterrupt, lanemap.LanemapError)):
        reader.sql(endless)
