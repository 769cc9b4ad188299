"""``lanemap serve`` as it is used: it says where it is, and ends when it is told to."""

import asyncio
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import lanemap
from lanemap import Database
from lanemap.cli.web.app import create_app
from lanemap.cli.web.server import GRACE, Server
from lanemap.db.store import store
from lanemap.db.store.location import locate

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
LANEMAP = Path(sysconfig.get_path("scripts")) / "lanemap"


@pytest.fixture
def start(built):
    """Start the command, after code that sets other limits; the process, and the address that it prints."""
    started = []

    def start(*arguments, limits=""):
        code = f"{limits}\nfrom lanemap.cli import main\nmain()"
        command = [sys.executable, "-c", code, "serve", "--db", str(built), "--port", "0", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, start_new_session=True, **pipes)
        started.append(process)
        line = process.stdout.readline()
        assert line.startswith("Lanemap is at http://"), process.communicate()
        return process, line.split()[3]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def children(number):
    """The processes that a process started."""
    return list(map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "send"),
    [
        (signal.SIGINT, os.killpg),
        pytest.param(signal.SIGTERM, os.kill, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, os.killpg, marks=pytest.mark.slow),
    ],
)
def test_it_answers_until_it_is_stopped(start, ending, send):
    """Alone, or with all that works for it, as Ctrl-C and the end of a service do it."""
    process, address = start()
    assert address.startswith("http://127.0.0.1:")
    assert (
        httpx.get(f"{address}/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3", timeout=100).json()[0]["lane"] == 5
    )
    # With a process at work for it.
    assert httpx.get(f"{address}/api/sql?query=SELECT 1 AS one", timeout=100).json() == [{"one": 1}]
    workers = children(process.pid)
    assert workers
    send(process.pid, ending)
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


@pytest.mark.slow
def test_nothing_of_the_current_folder_is_run(built, small, tmp_path):
    """A ``copy.py`` there is not Python's, neither for a command nor for the processes that work for it."""
    ran = tmp_path / "ran"
    for name in ("copy.py", "pickle.py", "json.py", "anyio.py", "multiprocessing.py"):
        (tmp_path / name).write_text(f"open({str(ran)!r}, 'a').write({name!r})\n")
    command = [LANEMAP, "serve", "--db", str(built), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:
        address = process.stdout.readline().split()[3]
        answer = httpx.get(f"{address}/api/sql?query=SELECT 1 AS one", timeout=100)
        process.terminate()
    written = [LANEMAP, "site", "--db", small, "public"]
    assert subprocess.run(written, cwd=tmp_path, capture_output=True).returncode == 0
    assert not ran.exists(), ran.read_text()
    assert answer.json() == [{"one": 1}]


@pytest.mark.slow
def test_what_it_means_to_listen_to_everyone_is_said(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-these-tests")
    process, address = start("--host", "0.0.0.0", "--token-file", token)
    port = address.rpartition(":")[2]
    assert address == f"http://localhost:{port}"
    for name, status in ((f"localhost:{port}", 200), (f"{socket.gethostname()}:{port}", 200), ("elsewhere", 421)):
        assert httpx.get(f"{address}/api/sources", headers={"host": name}, timeout=100).status_code == status
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert said.count("\n") == 1
    assert "every machine that can reach this one" in said
    assert "overhears the token" in said


@pytest.mark.slow
def test_a_name_that_it_is_given_is_its_own(start):
    _, address = start("--name", "Lanemap.Example")
    assert httpx.get(f"{address}/api/sources", headers={"host": "lanemap.example"}, timeout=100).status_code == 200


@pytest.mark.parametrize(
    ("role", "options", "words"),
    [
        ("postgres", [], "is a superuser"),
        ("files_reader", [], "may read files of the server"),
        ("postgres", ["--sql-as-superuser"], None),
        ("plain", [], None),
    ],
)
def test_a_role_that_reads_more_than_tables_takes_no_queries(start, as_role, role, options, words):
    process, address = start("--db", as_role(role), *options)
    for path in ("/api/sql?query=SELECT 1 AS one", "/sql?query=SELECT 1 AS one"):
        answer = httpx.get(f"{address}{path}", timeout=100)
        assert answer.status_code == (403 if words else 200), answer.text
        assert words is None or words in answer.text
    assert (
        httpx.get(f"{address}/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3", timeout=100).json()[0]["lane"] == 5
    )
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert (words in said and "--sql-as-superuser" in said) if words else not said


@pytest.fixture(scope="module")
def as_role(new_database, built_on_server):
    """The address of a database of everything that ships, for a role."""
    import psycopg

    address = new_database(built_on_server)
    with psycopg.connect(address, autocommit=True) as connection:
        for role in ("plain", "files_reader"):
            connection.execute(f"CREATE ROLE {role} LOGIN")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        connection.execute("GRANT pg_read_server_files TO files_reader")
    return lambda role: address.replace("//postgres:", f"//{role}:")


def test_a_browser_is_opened_at_its_address(run, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    result = run("serve", "--port", "0", "--open")
    assert opened == [result.out.split()[3]]


def test_a_place_where_it_cannot_listen_is_refused(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port))
        assert (result.code, result.out) == (2, "")
        assert f"cannot listen at 127.0.0.1, port {port}" in result.err
    assert "cannot listen at 192.0.2.1" in run("serve", "--host", "192.0.2.1", "--port", "0").err


def test_what_has_to_be_installed_is_said(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "lanemap.cli.web.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("serve")
    assert (result.code, result.out) == (2, "")
    assert 'serve needs uvicorn: pip install ".[serve]"' in result.err


@pytest.mark.slow
def test_a_request_that_nobody_waits_for_ends(start):
    """As many as there are processes are given up; the next one does not wait for their ends."""
    _, address = start(limits="from lanemap.cli.web import work; work.SECONDS = 1000")
    host, port = address.removeprefix("http://").split(":")
    for _ in range(max(2, os.cpu_count() or 2) + 1):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(f"GET /api/sql?query={quote(ENDLESS)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            time.sleep(0.5)
    assert httpx.get(f"{address}/api/sql?query=SELECT 1 AS one", timeout=100).json() == [{"one": 1}]


@pytest.mark.slow
def test_clients_that_go_before_their_answer_end_nothing(start):
    """With the default action of SIGPIPE, a server ends when it writes to somebody who is gone."""
    process, address = start()
    path = "/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3"
    for attempt in range(100):
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as gone:
            gone.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 3)
            time.sleep(attempt % 20 / 1000)
    assert httpx.get(f"{address}{path}", timeout=100).status_code == 200
    assert process.poll() is None


@pytest.mark.slow
def test_a_process_that_was_killed_costs_nobody_an_answer(start):
    process, address = start()
    for _ in range(3):
        assert httpx.get(f"{address}/api/sql?query=SELECT 1 AS one", timeout=100).json() == [{"one": 1}]
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)


@pytest.mark.slow
def test_what_is_in_flight_when_it_is_stopped_is_told_to_come_again(start):
    process, address = start()
    with ThreadPoolExecutor(2) as two:
        asked = [two.submit(httpx.get, f"{address}/api/sql", params={"query": ENDLESS}, timeout=60) for _ in range(2)]
        while len(children(process.pid)) < 2:
            time.sleep(0.1)
        process.terminate()
        answers = [request.result() for request in asked]
    assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(503, "60")] * 2
    assert "is being stopped" in answers[0].json()["detail"]
    assert process.communicate() == ("", "")
    assert process.returncode == 0


@pytest.mark.slow
def test_a_page_that_takes_longer_than_the_grace_is_told_to_come_again(small, capsys):
    begun = threading.Event()

    class Slow(Database):
        def fleet(self):
            begun.set()
            time.sleep(GRACE + 1)
            return super().fleet()

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(2) as two:
        server = Server(create_app(Slow(locate(small))))
        running = two.submit(server.run, [listening])
        asked = two.submit(httpx.get, f"http://127.0.0.1:{listening.getsockname()[1]}/fleet", timeout=60)
        assert begun.wait(60)
        server.should_exit = True
        answer = asked.result()
        running.result()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "is being stopped" in answer.json()["detail"]
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_database_is_looked_through_before_a_page_is_asked_for(small):
    with (
        lanemap.open(small) as database,
        socket.create_server(("127.0.0.1", 0)) as listening,
        ThreadPoolExecutor(1) as one,
    ):
        server = Server(app := create_app(database))
        running = one.submit(server.run, [listening])
        by = time.monotonic() + 60
        while Database.survey not in app.state.lanemap._known and time.monotonic() < by:
            time.sleep(0.01)
        server.should_exit = True
        running.result()
    assert Database.survey in app.state.lanemap._known


@pytest.mark.slow
def test_a_full_temporary_folder_is_said_in_a_line(start):
    """A limit of the size of files stands for it."""
    process, address = start()
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    answer = httpx.post(f"{address}/api/diff", content=bytes(1 << 18), timeout=100)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "no room" in answer.json()["detail"]
    assert httpx.get(f"{address}/api/find?shape=m16n8k16&type=f16&role=A&lane=0", timeout=100).status_code == 200
    process.terminate()
    said = process.communicate()[1]
    assert said.count("\n") == 1
    assert said.startswith("lanemap: ")


@pytest.mark.slow
def test_a_database_server_that_stops_is_said_in_a_line_and_found_again(start, small, tmp_path_factory):
    pytest.importorskip("psycopg", reason="needs lanemap[test-server]")
    pgserver = pytest.importorskip("pgserver", reason="needs lanemap[test-server]")
    folder = tmp_path_factory.mktemp("stopping")
    place = pgserver.get_server(folder).get_uri()
    store.ship(locate(place), list, "nothing")
    with lanemap.open(small) as held, lanemap.open(place) as database:
        database.add([held.source("ours")])
    process, address = start("--db", place, "--sql-as-superuser")
    cell = "/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3&source=ours"
    paths = (cell, cell.replace("row=9", "row=8"), "/", "/api/sources", "/api/sql?query=SELECT 1 AS one")

    def answers():
        return [httpx.get(f"{address}{path}", timeout=100) for path in paths]

    try:
        assert [answer.status_code for answer in answers()] == [200] * len(paths)
        pgserver.get_server(folder).cleanup()
        for answer in answers():
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "60"), answer.text
        assert "\n" not in answer.json()["detail"]
        assert "postgres" not in answer.json()["detail"]
        pgserver.get_server(folder)
        assert [answer.status_code for answer in answers()] == [200] * len(paths)
    finally:
        pgserver.get_server(folder).cleanup()
    process.terminate()
    said = process.communicate()[1].splitlines()
    assert all(line.startswith("lanemap: ") for line in said), said


_ALLOCATE = """
import ctypes, threading
from lanemap.db.heap import share_heap
libc, together = ctypes.CDLL(None), threading.Barrier(4)
if {shared}:
    share_heap()

def allocate():
    libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library has one heap")
@pytest.mark.parametrize("shared", [True, False])
def test_the_threads_of_a_server_share_a_heap(shared):
    code = _ALLOCATE.format(shared=shared)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.count("<heap nr") == 1) is shared


_FREE = """
import ctypes
from lanemap.db.heap import share_heap, settle_heap
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def pages():
    return int(open("/proc/self/statm").read().split()[1])

if {shared}:
    share_heap()
libc.free(libc.malloc(16 << 20))
small = [libc.malloc(64 << 10) for _ in range(512)]
large = libc.malloc(8 << 20)
ctypes.memset(large, 1, 8 << 20)
for place in small:
    ctypes.memset(place, 1, 64 << 10)
kept = libc.malloc(1000)
before = pages()
libc.free(large)
freed = pages()
[*map(libc.free, small)]
settle_heap()
print(before - freed >= 2000, before - pages() >= 9000)
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library has one heap")
@pytest.mark.parametrize("shared", [True, False])
def test_a_server_gives_back_what_it_freed(shared):
    """What was large at once, and what lies below something that is kept where the heap is trimmed."""
    done = subprocess.run(
        [sys.executable, "-c", _FREE.format(shared=shared)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(shared), "True"]


@contextmanager
def connected(address, number, own="127.0.0.1"):
    """Connections to a server from an address."""
    host, port = address.removeprefix("http://").split(":")
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((host, int(port)), source_address=(own, 0)))
            for _ in range(number)
        ]


@pytest.mark.slow
def test_a_request_that_does_not_come_is_not_waited_for(start):
    _, address = start(limits="from lanemap.cli.web import app, server; server.HEAD = app.BODY = 3")
    began = time.monotonic()
    with connected(address, 1) as (kept,):
        kept.sendall(b"GET /api/sources HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(20).startswith(b"HTTP/1.1 200")
        kept.sendall(b"GET /")
        with connected(address, 2) as (head, body):
            head.sendall(b"GET / HTTP/1.1\r\nHost:")
            body.sendall(b"POST /api/diff HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nshape")
            assert b"HTTP/1.1 408" in body.recv(20)
            assert head.recv(20) == b""
        while kept.recv(1 << 16):
            pass
    assert time.monotonic() - began > 3


@pytest.mark.slow
def test_half_sent_requests_keep_nobody_out(start):
    """More at once than the process may have descriptors, from one address: they never make it wait for others."""
    process, address = start(limits="from lanemap.cli.web import server; server.HEAD = 600; server.BACKLOG = 1024")
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
    process.send_signal(signal.SIGSTOP)
    with (
        connected(address, 300) as many,
        httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=100) as other,
    ):
        for connection in many:
            connection.sendall(b"GET /")
        process.send_signal(signal.SIGCONT)
        assert other.get(f"{address}/api/sources", timeout=100).status_code == 200
        assert [connection.recv(12) for connection in many[-3:]] == [b"HTTP/1.1 503"] * 3
    process.terminate()
    assert process.communicate() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("named", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_named_proxy_asks_for_others(start, named):
    """It may have more connections, and says whose a request is; nobody else's word is taken."""
    process, address = start(*["--proxy", "127.0.0.1"] * named)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
    ask = b"GET /api/sources HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"
    with connected(address, 100) as many:
        many[-1].sendall(ask)
        assert many[-1].recv(12) == (b"HTTP/1.1 200" if named else b"HTTP/1.1 503")


@pytest.mark.slow
def test_where_descriptors_run_out_it_waits_and_says_so_in_lines(start):
    """From many addresses: these requests do not come, and then others are answered again."""
    process, address = start(limits="from lanemap.cli.web import server; server.HEAD = 2")
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
    with ExitStack() as stack:
        for number in range(2, 8):
            stack.enter_context(connected(address, 60, f"127.0.0.{number}"))
        assert httpx.get(f"{address}/api/sources", timeout=60).status_code == 200
    process.terminate()
    said = process.communicate()[1].splitlines()
    assert said
    assert all(line.startswith("lanemap: ") for line in said), said


def test_a_server_that_ends_while_descriptors_run_out_says_nothing_more(database, caplog):
    """asyncio tries to accept again after a second, as often as it failed, when the socket is closed already."""

    class Full(socket.socket):
        def accept(self):
            raise OSError(errno.EMFILE, "Too many open files")

    async def ended():
        loop, server = asyncio.get_running_loop(), Server(create_app(database))
        loop.set_exception_handler(server._say)
        listening = Full()
        listening.bind(("127.0.0.1", 0))
        serving = await asyncio.start_server(lambda *_: None, sock=listening)
        with socket.create_connection(listening.getsockname()):
            await asyncio.sleep(0.1)
            server.should_exit = True
            serving.close()
            await asyncio.sleep(1.3)

    asyncio.run(ended())
    assert [record.getMessage() for record in caplog.records] == [
        "lanemap: socket.accept() out of system resource: Too many open files"
    ]
