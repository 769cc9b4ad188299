import gc
import gzip
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine, text

import lanemap
from lanemap.cli import main
from lanemap.db.layout.fragment import Fragment
from lanemap.ingest import cute, python
from lanemap.ingest import python as mappings

from .modes import LONG
from .shipped import SHIPPED, corrected, documents, everything

# Tests name the database they use; none may touch that of whoever runs them.
os.environ["LANEMAP_DB"] = os.devnull + "/no-test-uses-a-default-database"


# What is compiled is kept, also where the environment says otherwise, as containers do: else every process that tests,
# and every command that a test starts, compiles Lanemap anew, and rewrites the assertions of all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# A test says the same on every machine: its examples are not random, but in the long mode, nor timed.
def pytest_configure(config):
    settings.register_profile(
        "lanemap",
        deadline=None,
        derandomize=not LONG,
        max_examples=200 if LONG else 50,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("lanemap")


def pytest_make_parametrize_id(val):
    """What a long text is called: its beginning."""
    return f"{val[:40]!a}..." if isinstance(val, str | bytes) and len(val) > 100 else None


# What runs in the background ignores Ctrl+C, and so would every command that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

_NUMBERS = count()


@pytest.fixture
def seed() -> int:
    """What random cases begin from: the same everywhere, but what LANEMAP_SEED says, or a new one in the long mode."""
    chosen = int(os.environ.get("LANEMAP_SEED", time.time_ns() % 1_000_000 if LONG else 0))
    print(f"LANEMAP_SEED={chosen}")
    return chosen


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is there before the first test stays until the last one: it is not searched for garbage again and again.

    Nor is the rest as often as Python does by itself, which would take a tenth of the time.
    """
    gc.disable()
    collected = yield
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000)
    return collected


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items):
    """What takes long to prepare is prepared in one process, and comes first. So is what quick tests of a file share.

    Tests that fork come before all others: a child must not wait for a lock that a thread of its parent holds.
    """
    cases = Counter()
    for item in items:
        if few := item.get_closest_marker("few"):
            assert "snapshot" not in item.fixturenames, f"{item.nodeid}: a snapshot that no case uses fails the run"
            if cases[item.path, item.originalname] % few.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[item.path, item.originalname] += 1

    prepared = {"server": "server", "release": "release", "arrays": "release", "chromium": "pages", "site": "pages"}
    prepared |= {"replay": "release", "runner": "runner", "folder": "dataset", "fleet": "dataset", "whole": "document"}

    def group(item):
        if "postgresql" in item.name or "faults" in item.path.parts:
            return "server"
        file = None if item.get_closest_marker("slow") else item.path.stem
        return next((name for fixture, name in prepared.items() if needs(item, fixture)), file)

    def needs(item, fixture):
        return fixture in item.fixturenames or f"[{fixture}]" in item.name

    order = {name: place for place, name in enumerate(dict.fromkeys(prepared.values()))}
    items.sort(key=lambda item: ("faults" not in item.path.parts, order.get(group(item), len(order))))
    for item in items:
        if name := group(item):
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def shipped() -> list[str]:
    return SHIPPED


@pytest.fixture(scope="session")
def sources():
    """The documents by name."""
    return documents()


@pytest.fixture(scope="session")
def fragments() -> list[Fragment]:
    """Every fragment of the corrected document that has elements."""
    return corrected()


def _build(address, ships):
    """Make a database of what ``ships`` makes of each fragment that ships."""
    some = [replace(source, fragments=[*filter(None, map(ships, source.fragments))]) for source in everything()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanemap, "_shipped", lambda: some)
        lanemap.open(str(address)).close()
    return address


def _some(fragment):
    """Of wgmma some N alone, and of what is in memory no large ones, unless in the long mode."""
    most = 64 if fragment.instruction == "wgmma.sp" else 128
    if fragment.members and not LONG:
        members = {shape: held for shape, held in fragment.members.items() if int(re.split("[nk]", shape)[1]) < most}
        largest = fragment.shape.replace("n256", f"n{most}")
        return replace(next(one for one in fragment.every if one.shape == largest), members=members)
    held = f"8|64|{most}" if fragment.tile else "8|24|64|128|256"
    return fragment if LONG or re.match(rf"(?!m64n)|m64n({held})(k|$)", fragment.shape) else None


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """The folder of all processes that test. Of those that make the same database there, the second waits for it."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def whole(shared_folder):
    """A database of everything that ships. Copy it before writing to it."""
    return _build(shared_folder / "whole.db", lambda fragment: fragment)


@pytest.fixture(scope="session")
def built(shared_folder):
    """The same, but a fraction of it unless in the long mode."""
    return _build(shared_folder / "layouts.db", _some)


@pytest.fixture(scope="session")
def built_for_a_warp(shared_folder):
    """The same without wgmma and tcgen05.mma, for tests that read all of it time and again."""
    ours = re.compile("(?!m(64|128)n)")
    return _build(shared_folder / "warp.db", lambda fragment: fragment if ours.match(fragment.shape) else None)


@pytest.fixture
def few(monkeypatch):
    """What ships is a few fragments of each source, where it matters how a database is built and not what is in it."""
    sources = [replace(source, fragments=source.with_rows[:3]) for source in everything()]
    monkeypatch.setattr(lanemap, "_shipped", lambda: sources)


@pytest.fixture(scope="session")
def database(built):
    """The same, open."""
    with lanemap.open(str(built)) as database:
        yield database


@pytest.fixture(scope="session")
def reader(database):
    """What reads it."""
    return database.reader


@pytest.fixture
def shipped_once(monkeypatch):
    """No database is that of the package: nothing is shipped to it again."""
    monkeypatch.setattr(lanemap, "program_digest", lambda: "shipped")


@pytest.fixture(scope="session")
def acme(built, tmp_path_factory):
    """A database with instructions that Lanemap has never heard of, in a source of its own, of 64 lanes.

    ``acme_dot`` has i8 and s8, one the other way round; ``acme_narrow`` and ``acme_wide`` have types of their own.
    """
    rows = []
    for lane in range(64):
        half, place = divmod(lane, 32)
        for i in range(4):
            rows += [
                ("acme_gemm", "m32n32k8", "f16", "A", lane, i // 2, i % 2, place, 4 * half + i, 16),
                ("acme_gemm", "m32n32k8", "f16", "B", lane, i // 2, i % 2, 4 * half + i, place, 16),
                ("acme_dot", "m32n32k8", "i8", "A", lane, 0, i, place, 4 * half + i, 8),
                ("acme_dot", "m32n32k8", "s8", "A", lane, 0, i, place, 4 * half + 3 - i, 8),
                ("acme_narrow", "m32n32k8", "bf6", "A", lane, 0, i, place, 4 * half + i, 6),
                ("acme_wide", "m32n32k8", "xf32", "A", lane, i, 0, place, 4 * half + i, 32),
            ]
        for i in range(16):
            rows.append(("acme_gemm", "m32n32k8", "f32", "D", lane, i, 0, 8 * (i // 4) + 4 * half + i % 4, place, 32))
    folder = tmp_path_factory.mktemp("acme")
    table, file = folder / "acme.csv", shutil.copy2(built, folder / "layouts.db")
    lines = ["instruction,shape,type,role,lane,reg,slot,row,col,bits", *(",".join(map(str, row)) for row in rows), ""]
    table.write_text("\n".join(lines))
    with lanemap.open(str(file)) as database:
        database.import_layouts("table", table)
    return file


@pytest.fixture
def file(built, tmp_path) -> Path:
    """A database of one's own."""
    return Path(shutil.copy2(built, tmp_path / "layouts.db"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The URL of a PostgreSQL server that runs for the tests."""
    pytest.importorskip("psycopg", reason="needs lanemap[test-server]")
    pgserver = pytest.importorskip("pgserver", reason="needs lanemap[test-server]")
    running = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        running.psql(f"ALTER SYSTEM SET {setting} = off")
    running.psql("SELECT pg_reload_conf()")
    yield running.get_uri()
    running.cleanup()


@pytest.fixture(scope="session")
def new_database(server):
    """Make a database on the server, empty or a copy of another one; its address."""
    admin = create_engine(server.replace("postgresql", "postgresql+psycopg", 1), isolation_level="AUTOCOMMIT")

    def new_database(template: str = "template1") -> str:
        name = f"test_{next(_NUMBERS)}"
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return server.replace("/postgres?", f"/{name}?")

    yield new_database
    admin.dispose()


@pytest.fixture(scope="session")
def built_on_server(new_database):
    """The name of a PostgreSQL database of what ``built`` has. Copy it before writing to it."""
    address = _build(new_database(), _some)
    return address.partition("?")[0].rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def own(request, tmp_path, built):
    """A database of one's own, of both kinds in turn."""
    if request.param == "sqlite":
        return str(shutil.copy2(built, tmp_path / "own.db"))
    return request.getfixturevalue("new_database")(request.getfixturevalue("built_on_server"))


@pytest.fixture(scope="session")
def cutlass() -> Path:
    """The headers of a real release."""
    found = importlib.util.find_spec("cutlass_library")
    if found is None or found.origin is None:
        pytest.skip("nvidia-cutlass is not installed")
    return Path(found.origin).parent / "source" / "include"


@pytest.fixture(scope="session")
def release(cutlass):
    """What the importer makes of the release."""
    return cute.load(cutlass)[0]


@pytest.fixture(scope="session")
def transcribed():
    """What the mapping makes of tensor-layouts."""
    if importlib.util.find_spec("tensor_layouts") is None:
        pytest.skip("tensor-layouts is not installed")
    return python.load("tensor-layouts")[0]


@pytest.fixture(scope="session")
def replay():
    """A function that gives what a mapping makes of the recorded answers of its library."""

    @cache
    def replay(name):
        folder = Path(__file__).parent / "importers" / "python" / "recordings"
        recorded = json.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes()))

        def answers(tasks, package, path, python):
            assert recorded["package"] == package
            kernel = {"error": "kernels are not recorded"}
            known = recorded["answers"]
            return recorded["version"], [
                kernel if task["form"] == "kernel" else known[mappings.called(task)] for task in tasks
            ]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mappings, "answers", answers)
            return mappings.load(name)

    return replay


@pytest.fixture
def run(monkeypatch, capfdbinary, built):
    """Run a command as the shell would: exit code, stdout and stderr. It uses the built database unless told not to."""

    def run(*arguments: str, db: Path | str | None = built, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["lanemap", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        if db is not None:
            monkeypatch.setenv("LANEMAP_DB", str(db))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(read=lambda size=-1: stdin.decode()))
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capfdbinary.readouterr()
        return SimpleNamespace(
            code=stopped.value.code,
            bytes=written.out,
            out=written.out.decode("utf-8", "replace"),
            err=written.err.decode(),
        )

    return run


@pytest.fixture
def refused(run):
    """Run a command that must fail: one line on stderr that holds every given word, exit 2, nothing on stdout."""

    def refused(*arguments: str, words: tuple[str, ...], **options) -> None:
        result = run(*arguments, **options)
        assert (result.code, result.out) == (2, ""), result
        assert result.err.startswith("lanemap: ")
        assert result.err.count("\n") == 1, result.err
        for word in words:
            assert word in result.err

    return refused
