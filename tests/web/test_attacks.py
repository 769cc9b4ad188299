"""What the server withstands: an answer for each, whatever is sent, and the others are served meanwhile."""

import contextlib
import gzip
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap.cli.web import app, work
from lanemap.db.layout.fragment import Source
from lanemap.db.lookup import Query

from ..shipped import SHIPPED
from .conftest import TOKEN, serving

FIND = "/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def recorded(database, tmp_path_factory):
    """A capture file of a few operands."""
    source = database.source("h200-sm_90a")
    some = [replace(fragment, elements=fragment.elements) for fragment in source.fragments if fragment.type == "b1"]
    file = tmp_path_factory.mktemp("recorded") / "mine.parquet"
    lanemap.write_capture(replace(source, fragments=some), file)
    return file.read_bytes()


def test_every_answer_forbids_what_a_page_must_not_do(client):
    for path in (FIND, "/api/find", "/nothing", "/api/captures", "/openapi.json", "/static/nothing.js"):
        for _ in range(2):
            headers = client.get(path).headers
            assert headers.get_list("content-security-policy") == [POLICY]
            assert headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" in client.get("/", headers={"host": "elsewhere"}).headers


def test_a_host_that_is_not_its_own_is_refused(client, refused):
    for host in ("elsewhere", "127.0.0.1.elsewhere", "elsewhere:8000", "", "[::2]", "0.0.0.0", "127.0.0.2"):
        refused(client.get(FIND, headers={"host": host}), 421, "host")
        refused(client.post("/api/diff", headers={"host": host}), 421, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000"])
def test_its_own_hosts_are_answered(client, host):
    assert client.get(FIND, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_nothing_is_written_without_the_token(own_client, recorded, refused):
    before = own_client.get("/api/sources").json()
    for given in ("", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff", TOKEN):
        headers = {b"authorization": given.encode("latin-1")}
        refused(own_client.post("/api/captures", content=recorded, headers=headers), 401, "token")
    refused(own_client.post("/api/captures", content=recorded), 401, "token")
    assert own_client.get("/api/sources").json() == before


def test_nothing_is_written_where_the_server_has_no_token(client, recorded, refused):
    refused(client.post("/api/captures", content=recorded, headers={"authorization": "Bearer None"}), 403, "token")
    refused(client.post("/api/captures", content=recorded), 403, "token")


@pytest.mark.slow
def test_a_capture_is_stored_once_as_a_source_of_its_own(own_client, recorded, own):
    answers = [own_client.post("/api/captures", content=recorded, headers=BEARER) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    (name,) = {answer.json()["source"] for answer in answers}
    assert name.startswith("h200-sm_90a-")
    with lanemap.open(own) as database:
        assert database.sources().name.tolist()[len(SHIPPED) :] == [name]
        assert database.diff(name, "h200-sm_90a").unexplained == 0
    fleet = own_client.get("/api/fleet").json()
    assert {row["source"] for row in fleet} == {*SHIPPED[-2:], name}


@pytest.mark.slow
def test_a_capture_that_is_sent_several_times_at_once_is_new_once(own_client, recorded):
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda _: own_client.post("/api/captures", content=recorded, headers=BEARER), range(4))]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json()["source"] for answer in answers}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_two_captures_of_one_card_do_not_replace_each_other(own_client, recorded, database, tmp_path):
    source = database.source("h200-sm_90a")
    some = [fragment for fragment in source.fragments if fragment.shape == "m8n8k16"]
    lanemap.write_capture(replace(source, fragments=some), tmp_path / "other.parquet")
    names = {
        own_client.post("/api/captures", content=data, headers=BEARER).json()["source"]
        for data in (recorded, (tmp_path / "other.parquet").read_bytes())
    }
    assert len(names) == 2
    assert names < {source["name"] for source in own_client.get("/api/sources").json()}


def damaged(recorded):
    """Files that are none, by what is wrong with them."""
    table = pa.table({name: pa.array([0]) for name in ("lane", "reg", "slot", "row", "col")})
    named = {name: pa.array(["x" * 2000]) for name in ("shape", "type", "role")}
    wide, wrong, deep = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({f"c{number}": [0] for number in range(3000)}), wide)
    pq.write_table(pa.table({**named, **{name: table[name] for name in table.column_names}}), wrong)
    pq.write_table(table.replace_schema_metadata({b"lanemap.capture": b"[" * 100_000}), deep)
    return {
        "nothing": b"",
        "text": b"hello",
        "zeros": bytes(1000),
        "cut": recorded[: len(recorded) // 2],
        "no end": recorded[:-4],
        "only an end": b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1",
        "compressed": gzip.compress(recorded),
        "arrow": b"ARROW1\0\0" + b"\xff" * 1000,
        "wide": wide.getvalue(),
        "long names": wrong.getvalue(),
        "deep": deep.getvalue(),
        "csv": b"shape,type,role,lane,reg,slot,row,col\n<script>,f16,A,0,0,0,0,0\n",
        "one line": b"shape," * 1_000_000,
    }


@pytest.mark.slow
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_what_is_no_file_is_refused(client, own_client, recorded, refused):
    before = own_client.get("/api/sources").json()
    for server, path in ((client, "/api/diff"), (own_client, "/api/captures")):
        for name, data in damaged(recorded).items():
            said = refused(server.post(path, content=data, headers=BEARER), 400)
            assert "/" not in said.replace("text/", ""), (name, said)
        form = server.post(path, files={"file": recorded}, headers=BEARER)
        refused(form, 415, "--data-binary")
    assert own_client.get("/api/sources").json() == before


def bomb(rows):
    """A small Parquet file of a table of layouts with any number of rows."""
    columns = {name: pa.array(np.zeros(rows, np.int32)) for name in ("lane", "reg", "slot", "row", "col")}
    texts = {
        name: pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [value])
        for name, value in (("shape", "m16n8k16"), ("type", "f16"), ("role", "A"))
    }
    made = io.BytesIO()
    pq.write_table(pa.table({**texts, **columns}), made, compression="zstd")
    return made.getvalue()


def test_a_bomb_is_refused(client, refused):
    data = bomb(8_000_000)
    assert len(data) < 1 << 20
    refused(client.post("/api/diff", content=data), 400, "more than")


def test_what_is_too_large_is_refused(client, refused):
    """Whether its length is said or not."""
    refused(client.post("/api/decode", content=bytes(app.LARGEST + 1)), 413, "1 MB")
    refused(client.post("/api/decode", content=iter([bytes(1 << 16)] * 17)), 413, "1 MB")
    with socket.create_connection((client.base_url.host, client.base_url.port)) as raw:
        raw.sendall(
            f"POST /api/diff HTTP/1.1\r\nHost: localhost\r\nContent-Length: {app.LARGEST_FILE + 1}\r\n\r\n".encode()
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
    refused(client.post("/api/diff", content=(bytes(1 << 20) for _ in range(65))), 413, "64 MB")


def test_deep_and_strange_json_is_refused(client, refused):
    headers = {"content-type": "application/json"}
    number = b'{"shape": "m16n8k16", "type": "f16", "selector": 0, "words": [' + b"9" * 10_000 + b"]}"
    for body in (b"[" * 500_000, b'{"words":' * 50_000, b"\xff\xfe", b"null", b"[]", number, b"NaN"):
        refused(client.post("/api/decode", content=body, headers=headers), 400)


def test_a_body_that_waits_for_a_place_is_not_called_slow(monkeypatch):
    monkeypatch.setattr(app, "BODY", 0.1)
    answers = []

    async def late(scope, receive, send):
        await anyio.sleep(0.3)
        assert (await receive())["body"] == b"here"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"

    messages = iter([{"type": "http.request", "body": b"here"}, {"type": "http.disconnect"}])

    async def receive():
        await anyio.sleep(0.01)
        return next(messages)

    async def send(message):
        answers.append(message["status"])

    scope = {"type": "http", "path": "/api/diff", "headers": [(b"host", b"localhost")]}
    anyio.run(app.Guard(late, frozenset({"localhost"}), {}), scope, receive, send)
    assert answers == [200]


@pytest.mark.slow
def test_a_hundred_uploads_at_once_are_all_answered(client, database, monkeypatch):
    monkeypatch.setattr(work, "SECONDS", 300)
    sent = io.BytesIO()
    database.export(sent, format="csv", query=Query("m16n8k8", "bf16", source="ptx-isa-9.1", instruction="mma"))
    wrong = sent.getvalue().replace(b",0,0,0,0,0,0,", b",0,0,0,1,0,0,", 1)

    def send(number):
        body = (sent.getvalue(), wrong, bomb(10), *[b"x" * 1_000_000] * 7)[number % 10]
        return client.post("/api/diff?against=ptx-isa-9.1%2Berrata&operand=m16n8k8+bf16", content=body)

    limit = httpx.Limits(max_connections=None)
    with httpx.Client(base_url=client.base_url, timeout=300, limits=limit) as client, ThreadPoolExecutor(100) as many:
        answers = list(many.map(send, range(100)))
    assert [answer.status_code for answer in answers] == [200, 200, *[400] * 8] * 10
    assert [answer.json()["agree"] for answer in answers if answer.status_code == 200] == [True, False] * 10


@pytest.mark.slow
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_slow_uploads_hold_up_neither_a_capture_nor_another_address(own_client, recorded, monkeypatch):
    monkeypatch.setattr(app, "BODY", 300)
    head = b"POST /api/diff HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nshape"
    with contextlib.ExitStack() as stack:

        def slow(number, own):
            for _ in range(number):
                place = own_client.base_url.host, own_client.base_url.port
                raw = stack.enter_context(socket.create_connection(place, source_address=(own, 0)))
                raw.sendall(head)

        slow(work.UPLOADS, "127.0.0.2")
        assert own_client.post("/api/diff", content=b"shape").status_code == 400
        for number in range(3, 6):
            slow(work.UPLOADS // 4, f"127.0.0.{number}")
        assert own_client.post("/api/captures", content=recorded, headers=BEARER, timeout=60).status_code == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "words"),
    [
        (ENDLESS, "longer than 1 s"),
        (ENDLESS.replace("COUNT(*)", "x"), "more than 100000 rows"),
        ("SELECT hex(randomblob(1000000)) FROM layout", ""),
        ("SELECT * FROM pragma_database_list", "only reads"),
        ("ATTACH 'x.db' AS x", "only reads"),
        ("SELECT load_extension('x')", ""),
        ("SELECT 1; DROP TABLE source", ""),
    ],
)
def test_a_query_ends_by_its_limits(client, refused, query, words):
    # The one that is to end by its rows has time for them.
    seconds = 30 if "rows" in words else 1
    said = refused(client.get("/api/sql", params={"query": query, "seconds": seconds}), 400, words)
    assert "/" not in said


@pytest.mark.slow
def test_others_are_served_while_queries_run(client):
    """Every process is busy with a query that would never end."""
    busy = max(2, os.cpu_count() or 2)
    with ThreadPoolExecutor(busy) as many:
        queries = [many.submit(client.get, "/api/sql", params={"query": ENDLESS, "seconds": 2}) for _ in range(busy)]
        answers = [client.get(FIND + f"&slot={slot}").status_code for slot in (0, 1)]
        assert not any(query.done() for query in queries)
        assert answers == [200, 200]
        assert {query.result().status_code for query in queries} == {400}


@pytest.mark.slow
def test_what_takes_too_long_is_killed_and_told_when_to_come_again(client, refused, monkeypatch):
    """So is who waits for a process that long: more ask than there are processes."""
    many = 2 * max(2, os.cpu_count() or 2)
    with monkeypatch.context() as patched, ThreadPoolExecutor(many) as pool:
        patched.setattr(work, "SECONDS", 1.0)
        asked = [pool.submit(client.get, "/api/sql", params={"query": ENDLESS, "seconds": 30}) for _ in range(many)]
        for answer in asked:
            refused(answer.result(), 503, "longer than 1 s")
            assert answer.result().headers["retry-after"] == "60"
    ends = time.monotonic() + 100
    while at_work := [number for number, state in workers().items() if state == "R"]:
        assert time.monotonic() < ends, f"{at_work} work on"
        time.sleep(0.05)
    assert client.get("/api/sql?query=SELECT 1 AS one").json() == [{"one": 1}]


@pytest.mark.slow
def test_who_goes_while_a_process_starts_leaves_none_behind(own_client):
    before = workers()
    for wait in np.linspace(0.02, 0.2, 20):
        with contextlib.suppress(httpx.ReadTimeout):
            own_client.get("/api/sql?query=SELECT 1", timeout=float(wait))
    ends = time.monotonic() + 100
    while len(workers().keys() - before) > max(2, os.cpu_count() or 2):
        assert time.monotonic() < ends, "more are there than work at a time"
        time.sleep(0.05)


def workers():
    """The state of each process that works for a server of this one, by its number."""
    found, numbers = {}, []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may have ended, and so may a process
            numbers += (task / "children").read_text().split()
    for process in (Path(f"/proc/{number}") for number in numbers):
        with contextlib.suppress(OSError):
            if "anyio.to_process" in (process / "cmdline").read_text():
                found[process.name] = (process / "stat").read_text().rpartition(")")[2].split()[0]
    return found


@pytest.mark.slow
def test_a_process_has_a_limit_of_memory():
    """In a process of its own, because the limit stays."""
    work = (
        "from lanemap.cli.web import work\nwork._opened = lambda _: 8 << 30\n"
        "work._limit_memory()\nwork._limited((bytearray, None, (), {}))"
    )
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True)
    assert "LanemapError: this needs more memory" in done.stderr


def test_no_answer_names_a_place_on_the_machine(client, database, built):
    said = [client.get("/api/sources").text, client.get("/openapi.json").text]
    said += [
        client.get(path).text for path in ("/api/diff?left=a&right=b", "/static/../app.py", "/static/%2e%2e/app.py")
    ]
    assert not [text for text in said if str(built.parent) in text or str(Path.home()) in text or "Traceback" in text]


def test_a_place_that_is_given_from_here_is_not_named_either(built, refused, monkeypatch):
    monkeypatch.chdir(built.parent)
    with lanemap.open(built.name) as database, serving(database) as address:
        place = database.location.file.absolute()
        monkeypatch.setattr(database.reader, "select", lambda *_: broken(f"{place} and {place.name} are wrong"))
        said = refused(httpx.get(f"{address}/api/fragments", timeout=100), 400)
    assert said == "the database and the database are wrong"


def broken(words):
    raise lanemap.LanemapError(words)


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_a_database_that_is_gone_is_not_named(own_client, own, refused):
    Path(own).write_bytes(b"not a database at all, but of some length" * 100)
    for _ in range(2):
        said = refused(own_client.get("/api/sources"), 503)
        assert own not in said
        assert "the database" in said


def other_file(own, tmp_path, name):
    """A copy of a database with one more source."""
    copy = tmp_path / f"{name}.db"
    shutil.copyfile(own, copy)
    with lanemap.open(str(copy)) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        database.add([Source(name, "import", "Mine", [replace(fragment, source=name)])])
    return copy


def names(client):
    return [source["name"] for source in client.get("/api/sources").json()][len(SHIPPED) :]


@pytest.mark.slow
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_a_database_that_another_took_the_place_of_is_the_other(own_client, own, recorded, tmp_path):
    """By rename, and written over, so that SQLite itself sees no difference in the header."""
    one, two = (other_file(own, tmp_path, name) for name in ("one", "two"))
    assert one.read_bytes()[24:40] == two.read_bytes()[24:40]
    assert names(own_client) == []
    assert own_client.get("/api/find?shape=m16n8k16&type=f16&role=A&source=one").status_code == 400
    two_bytes = two.read_bytes()
    one.replace(own)
    assert names(own_client) == ["one"]
    assert "one" in own_client.get("/sources").text
    time.sleep(0.01)
    Path(own).write_bytes(two_bytes)
    assert names(own_client) == ["two"]
    two.replace(own)
    answer = own_client.post("/api/captures", content=recorded, headers=BEARER)
    assert answer.status_code == 201
    assert names(own_client) == ["two", answer.json()["source"]]
    with lanemap.open(own) as database:
        assert database.sources().name.tolist()[len(SHIPPED) :] == names(own_client)


@pytest.mark.slow
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_a_database_that_is_gone_takes_nothing_until_it_is_back(own_client, own, recorded, refused, tmp_path):
    assert names(own_client) == []
    away = Path(own).rename(tmp_path / "away.db")
    for _ in range(2):
        answer = own_client.get("/api/sources")
        refused(answer, 503)
        assert answer.headers["retry-after"] == "60"
        refused(own_client.post("/api/captures", content=recorded, headers=BEARER), 503)
        assert not Path(own).exists()
    away.rename(own)
    assert own_client.post("/api/captures", content=recorded, headers=BEARER).status_code == 201
    assert len(names(own_client)) == 1


@pytest.mark.slow
def test_killed_while_it_stores_a_capture(own, shipped, tmp_path):
    """The database has all of it or nothing, and serves on."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    command = [sys.executable, "-m", "lanemap", "serve", "--port", "0", "--db", own, "--token-file", str(file)]
    recording = lanemap._recordings()[0].read_bytes()
    place = os.environ | {"TMPDIR": str(tmp_path)}
    with (
        lanemap.open(own) as database,
        ThreadPoolExecutor(1) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=place) as server,
    ):
        address = server.stdout.readline().split()[3]
        sent = one.submit(httpx.post, f"{address}/api/captures", content=recording, headers=BEARER, timeout=300)
        while not (sent.done() or writing(database, own)):
            time.sleep(0.01)
        os.killpg(server.pid, signal.SIGKILL)
        assert isinstance(sent.exception(), httpx.HTTPError)
    with lanemap.open(own) as database:
        assert database.sources().name.tolist() == shipped
        assert database.find("m16n8k16", "f16", "A", row=9, col=3).lane.tolist() == [5]
        captured = database.source("h200-sm_90a")
        database.add([replace(captured, name="mine", fragments=captured.fragments[:3])])
        assert database.find("m8n8k4", "f16", "A", source="mine", row=0, col=0).source.tolist()[0] == "mine"


def writing(database, own):
    """Whether somebody is writing to a database."""
    if "postgresql" not in own:
        return Path(f"{own}-journal").exists()
    return bool(database.reader.select("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'", {}).rows)
