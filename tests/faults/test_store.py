"""Databases: wherever a first start or an import fails or is killed, the old state or the new one is there, whole."""

import os
import resource
import shutil
import signal
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from sqlalchemy import event

from lanemap import LanemapError
from lanemap.db.layout.fragment import Source
from lanemap.db.store import store
from lanemap.db.store.connection import connect, state
from lanemap.db.store.location import locate

from ..modes import LONG
from .conftest import Fault, each_fault, in_child


def version(fragments, number):
    """A source of two fragments that say which version of it they are of."""
    changed = []
    for fragment in fragments[:2]:
        table = fragment.elements.copy()
        table["row"] = (table["row"] + number) % fragment.dimensions[0]
        changed.append(replace(fragment, elements=table))
    return Source("mine", "import", f"version {number}", changed)


def read(place, fragments):
    """The version that the database holds, if all of it is of one: 0 where there is no database."""
    location = locate(place)
    if state(location) is None:
        return 0
    with closing(connect(location)) as reader, reader.snapshot():
        ((title,),) = reader.select("SELECT title FROM source", {}).rows
        number = int(title.split()[1])
        mappings = [row[0] for row in reader.select("SELECT mapping_id FROM fragment ORDER BY id", {}).rows]
        for mapping, expected in zip(mappings, version(fragments, number).fragments, strict=True):
            assert reader.packed([mapping])[mapping] == expected.elements.tobytes()
        ((rows,),) = reader.select("SELECT COUNT(*) FROM layout", {}).rows
        ((known,),) = reader.select("SELECT COUNT(*) FROM mapping", {}).rows
    assert (rows, known) == (sum(len(fragment.elements) for fragment in fragments[:2]), 2)
    return number


def build(place, fragments):
    store.ship(locate(place), lambda: [version(fragments, 1)], "first")


def load(place, fragments):
    store.load(locate(place), [version(fragments, 2)])


@pytest.fixture
def fault(monkeypatch):
    """A fault at each statement that is written with, before and after it, and at each commit."""
    fault, make = Fault(), store._engine

    def engine(location, mode):
        made = make(location, mode)
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(made, name, lambda *_: translated())
        return made

    def translated():
        try:
            fault()
        except OSError as error:
            raise LanemapError(str(error)) from None

    monkeypatch.setattr(store, "_engine", engine)
    return fault


@pytest.mark.slow
@pytest.mark.parametrize("imports", [False, True])
def test_sqlite_holds_the_old_state_or_the_new_one(tmp_path, fragments, fault, imports):
    place, first = tmp_path / "layouts.db", tmp_path / "first"
    build(first, fragments)

    def prepare():
        for path in tmp_path.glob("layouts.db*"):
            path.unlink()
        if imports:
            shutil.copy(first, place)

    def check():
        assert read(place, fragments) in ((1, 2) if imports else (0, 1))
        build(place, fragments)
        load(place, fragments)
        assert read(place, fragments) == 2
        assert {path.name for path in tmp_path.iterdir()} == {"layouts.db", "first"}

    work = load if imports else build
    assert each_fault(fault, prepare, lambda: work(place, fragments), check, every=5 if imports else 25) > 6


def test_postgresql_holds_the_old_state_or_the_new_one(new_database, fragments, fault):
    place = new_database()

    def prepare():
        build(place, fragments)
        store.load(locate(place), [version(fragments, 1)])

    def check():
        assert read(place, fragments) in (1, 2)

    assert each_fault(fault, prepare, lambda: load(place, fragments), check, every=5) > 6


@pytest.mark.slow
@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("imports", [False, True])
def test_a_disk_that_fills_or_fails_at_any_place(tmp_path, fragments, imports, kills):
    """Writing beyond a limit fails, or ends the process there, at some places of the database and of its journal."""
    place, first = tmp_path / "layouts.db", tmp_path / "first"
    build(first, fragments)
    work, old, new = (load, 1, 2) if imports else (build, 0, 1)
    shutil.copy(first, place)
    load(place, fragments)
    whole, codes = place.stat().st_size, set()
    for limit in range(0, whole + 16_384, whole // (8 if LONG else 4)):
        place.unlink()
        if imports:
            shutil.copy(first, place)

        def limited(limit=limit):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kills else signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                work(place, fragments)
            except LanemapError as error:
                os._exit(3 if str(error).startswith(f"{place}: ") and "\n" not in str(error) else 4)

        code = in_child(limited)
        codes.add(code)
        assert code in (0, -signal.SIGXFSZ if kills else 3)
        assert read(place, fragments) == (new if code == 0 else old)
        work(place, fragments)
        assert read(place, fragments) == new
        with suppress(FileNotFoundError):
            assert not place.with_name("layouts.db-journal").read_bytes()
    assert len(codes) == 2
