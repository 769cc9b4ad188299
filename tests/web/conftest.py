import socket
import threading
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

import lanemap
from lanemap.cli.web.app import create_app

TOKEN = "a-token-of-these-tests"


@contextmanager
def serving(database, **options):
    """A server on an open database; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_app(database, **options), log_level="critical"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def client(database):
    """Asks a server on the built database, in which nothing can be written."""
    with serving(database) as address, httpx.Client(base_url=address, timeout=300) as client:
        yield client


@pytest.fixture
def own_client(own):
    """Asks a server on a database of one's own, which takes captures."""
    with (
        lanemap.open(own) as database,
        serving(database, token=TOKEN) as address,
        httpx.Client(base_url=address, timeout=300) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def refused():
    """That an answer is a refusal in one sentence, and which."""

    def refused(answer, status, *words):
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        said = answer.json()
        assert (answer.status_code, said["status"]) == (status, status), said
        assert "\n" not in said["detail"]
        assert not [word for word in words if word not in said["detail"]], said
        return said["detail"]

    return refused
