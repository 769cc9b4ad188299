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

from .conftest import asking


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


@pytest.fixture
def made(monkeypatch):
    """What is remembered: nothing yet."""
    monkeypatch.setattr(work, "_made", type(work._made)())
    return work._made


def test_nothing_that_pages_remember_keeps_an_earlier_survey(changing, made, monkeypatch):
    database, change = changing
    seen, true = [], work.surveys.survey

    def noted(reader):
        found = true(reader)
        seen.append(weakref.ref(found))
        return found

    monkeypatch.setattr(work.surveys, "survey", noted)
    with asking(database) as client:
        for name in ("theirs", "others", "more"):
            for page in ("/", *(f"/mma/m16n8k16/f16{role}" for role in ("", "/A", "/D"))):
                assert client.get(page, follow_redirects=True).status_code == 200, page
            change(name)
        gc.collect()
        assert [each() is None for each in seen] == [True, True, False]
    assert len(made) > 5


def make(size):
    return "x" * size


def test_what_is_remembered_has_a_limit_of_size(made):
    for key in (0, 1, 2, 0, 3, 0):  # the fourth pushes out what was used longest ago, which is 1
        assert len(remembered(make, key, 8 << 20)) == 8 << 20
    assert [key for _, key in made] == [2, 3, 0]


def test_nothing_small_is_remembered_in_any_number(made):
    for key in range(20_000):
        remembered(make, key, 1)
    assert 1000 < len(made) < 10_000
    remembered(make, -1, 99 << 20)  # nor what is too large alone
    assert not made


def test_what_two_make_at_once_counts_once(made):
    together = threading.Barrier(2)

    def slow():
        together.wait(30)
        return make(8 << 20)

    for key in range(5):
        both = [threading.Thread(target=remembered, args=(slow, key)) for _ in range(2)]
        for each in both:
            each.start()
        for each in both:
            each.join()
    assert [key for _, key in made] == [2, 3, 4]
