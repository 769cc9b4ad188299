"""What a server keeps of a database has bounds, however often that changes and whatever is asked of it."""

import asyncio
import gc
import shutil
import threading
import weakref
from dataclasses import replace

import pytest

import lanemap
from lanemap.cli.web import work
from lanemap.cli.web.work import State, remembered
from lanemap.db.layout.fragment import Source


@pytest.fixture
def changing(small, tmp_path):
    """A database, and a function that changes it."""
    with lanemap.open(shutil.copy2(small, tmp_path)) as database:
        ours = database.source("ours").fragments[:1]

        def change(name):
            database.add([Source(name, "import", "soaked", [replace(each, source=name) for each in ours])])

        yield database, change


def test_the_survey_of_an_earlier_state_is_not_kept(changing):
    database, change = changing
    of = State(database)
    first = weakref.ref(asyncio.run(of.survey()))
    assert first() is asyncio.run(of.survey())
    change("theirs")
    assert "theirs" in asyncio.run(of.survey()).sources
    gc.collect()
    assert first() is None


def test_who_comes_while_a_survey_is_made_waits_for_it_and_holds_up_nobody(changing, monkeypatch):
    database, _ = changing
    made, going = [], threading.Event()
    true = work.surveys.survey

    def slow(reader):
        made.append(threading.current_thread())
        assert going.wait(30)
        return true(reader)

    monkeypatch.setattr(work.surveys, "survey", slow)

    async def ask():
        asked = [asyncio.create_task(State.survey(of)) for _ in range(5)]
        while not made:
            await asyncio.sleep(0.01)
        going.set()  # by the loop, which goes on
        return await asyncio.gather(*asked)

    of = State(database)
    assert len({id(each) for each in asyncio.run(ask())}) == 1
    assert len(made) == 1


def test_what_is_remembered_has_a_limit_of_size(monkeypatch):
    monkeypatch.setattr(work, "_made", type(work._made)())
    monkeypatch.setattr(work, "_size", [0])
    made = []

    def make(number):
        made.append(number)
        return "x" * (8 << 20)

    for number in (0, 1, 2, 0, 3, 0):  # the fourth pushes out what was used longest ago, which is 1
        assert len(remembered(make, number)) == 8 << 20
    assert made == [0, 1, 2, 3]
    remembered(make, 1)
    assert made[-1] == 1
    assert len(work._made) == 3
