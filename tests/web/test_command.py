"""``lanemap serve`` as it is used: it says where it is, and ends when it is told to."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest


@pytest.fixture
def start(built):
    """Start the command; the process, and the address that it prints."""
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "lanemap", "serve", "--db", str(built), "--port", "0", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        line = process.stdout.readline()
        assert line.startswith("Lanemap is at http://"), process.communicate()
        return process, line.split()[3]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_stopped(start, ending):
    process, address = start()
    assert address.startswith("http://127.0.0.1:")
    assert httpx.get(f"{address}/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3").json()[0]["lane"] == 5
    # With a process at work for it.
    assert httpx.get(f"{address}/api/sql?query=SELECT 1 AS one", timeout=100).json() == [{"one": 1}]
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert workers
    process.send_signal(ending)
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    assert not [each for each in workers if Path(f"/proc/{each}").exists()]


def test_what_it_means_to_listen_to_everyone_is_said(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-these-tests")
    process, address = start("--host", "0.0.0.0", "--token-file", token)
    port = address.rpartition(":")[2]
    assert address == f"http://localhost:{port}"
    for name, status in ((f"localhost:{port}", 200), (f"{socket.gethostname()}:{port}", 200), ("elsewhere", 421)):
        assert httpx.get(f"{address}/api/sources", headers={"host": name}).status_code == status
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert said.count("\n") == 1
    assert "every machine that can reach this one" in said
    assert "overhears the token" in said


def test_a_name_that_it_is_given_is_its_own(start):
    _, address = start("--name", "Lanemap.Example")
    assert httpx.get(f"{address}/api/sources", headers={"host": "lanemap.example"}).status_code == 200


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
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("serve")
    assert (result.code, result.out) == (2, "")
    assert 'serve needs uvicorn: pip install ".[serve]"' in result.err
