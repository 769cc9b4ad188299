import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
import uvicorn

import lanemap
from lanemap.cli.web.app import create_app
from lanemap.cli.web.site import write
from lanemap.db.layout.fragment import Source
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.store import store
from lanemap.db.store.location import locate

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


@contextmanager
def asking(database, **options):
    """Asks a server on an open database."""
    with serving(database, **options) as address, httpx.Client(base_url=address, timeout=300) as client:
        yield client


@pytest.fixture(scope="session")
def client(database):
    """Asks a server on the built database, in which nothing can be written."""
    with asking(database) as client:
        yield client


@pytest.fixture(scope="session")
def known(database):
    """What is known of the built database."""
    return database.survey()


@pytest.fixture
def own_client(own):
    """Asks a server on a database of one's own, which takes captures."""
    with lanemap.open(own) as database, asking(database, token=TOKEN) as client:
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


@pytest.fixture(scope="session")
def small(built, tmp_path_factory):
    """A database with few instructions, of all kinds, and a source that differs."""
    with lanemap.open(str(built)) as database:
        chosen = [
            fragment
            for shape in ("m16n8k16", "m8n8k4", "m64n8k16", "m64n24k16", "m8n8")
            for fragment in read_fragments(database.reader, Query(shape=shape, source="h200-sm_90a"))
            if fragment.has_rows and fragment.type in ("f16", "f32", "b16") and fragment.instruction != "wmma"
        ]
        wrong = chosen[0].elements.copy()
        wrong["row"] = wrong["row"][::-1]
    small = str(tmp_path_factory.mktemp("small") / "small.db")
    store.ship(locate(small), list, "nothing")
    with lanemap.open(small) as database:
        ours = [replace(fragment, source="ours") for fragment in chosen]
        theirs = [replace(chosen[0], elements=wrong, source="../the?irs#%2e", major="row")]
        database.add([Source("ours", "document", "Ours", ours), Source("../the?irs#%2e", "capture", "Theirs", theirs)])
    return small


@pytest.fixture(scope="session")
def site(small, tmp_path_factory):
    """The site of that database."""
    folder = tmp_path_factory.mktemp("site")
    with lanemap.open(small) as database:
        seen = []
        count = write(database, folder / "public", lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, count)
    assert seen[-1] == (count, count)
    return folder / "public"
