"""What a server keeps of a database has bounds, however often that changes and whatever is asked of it."""

import asyncio
import gc
import shutil
import sys
import threading
import time
import weakref
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import pytest

import lanemap
from lanemap.cli.web.work import DIGEST, MADE, State, remembered
from lanemap.db.layout.fragment import Source

from .conftest import asking


@pytest.fixture
def changing(small, tmp_path, monkeypatch):
    """A database, and a function that changes it. Nothing counts as changed because it was just now."""
    later = SimpleNamespace(**vars(time) | {"time": lambda: time.time() + 10})
    monkeypatch.setattr("lanemap.db.store.connection.time", later)
    with lanemap.open(shutil.copy2(small, tmp_path)) as database:
        ours = database.source("ours").fragments[:1]

        def change(name):
            database.add([Source(name, "import", "soaked", [replace(fragment, source=name) for fragment in ours])])

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


def test_no_earlier_answer_is_kept_while_the_next_one_is_made(changing):
    database, change = changing
    of, last, known = State(database), [], []

    def ask(database):
        known.append([earlier() for earlier in last])
        answer = database.survey()
        last[:] = [weakref.ref(answer)]
        return answer

    asyncio.run(of._now(ask))
    change("theirs")
    asyncio.run(of._now(ask))
    assert known == [[], [None]]


def test_what_is_known_is_looked_through_for_garbage_once(changing):
    """And not while somebody waits for a page. What is of an earlier state is looked through again."""
    database, change = changing
    of = State(database)
    for name in ("first", "second"):
        change(name)
        known = asyncio.run(of.survey())
        assert gc.get_freeze_count() > len(known.fragments)
        assert not [each for each in gc.get_objects() if isinstance(each, lanemap.Survey)]
    gc.unfreeze()


def test_an_operand_for_a_request_of_an_earlier_state_is_not_kept(changing):
    database, change = changing
    of, query = State(database), lanemap.Query("m16n8k16", "f16", "A", source="ours")
    early = SimpleNamespace(scope={DIGEST: asyncio.run(of.digest())})
    assert asyncio.run(of.operand(early, query)) is asyncio.run(of.operand(early, query))
    change("theirs")
    assert asyncio.run(of.digest()) != early.scope[DIGEST]
    asyncio.run(of.operand(early, query))
    assert (early.scope[DIGEST], query) not in MADE


def test_who_comes_while_a_survey_is_made_waits_for_it_and_holds_up_nobody(changing, monkeypatch):
    database, _ = changing
    made, going = [], threading.Event()
    true = lanemap.Database.survey

    def slow(asked):
        made.append(threading.current_thread())
        assert going.wait(30)
        return true(asked)

    monkeypatch.setattr(lanemap.Database, "survey", slow)

    async def ask():
        asked = [asyncio.create_task(State.survey(of)) for _ in range(5)]
        while not made:
            await asyncio.sleep(0.01)
        going.set()  # by the loop, which goes on
        return await asyncio.gather(*asked)

    of = State(database)
    assert len({id(survey) for survey in asyncio.run(ask())}) == 1
    assert len(made) == 1


@pytest.fixture
def made():
    """What is kept: nothing yet."""
    MADE.forget()
    yield MADE
    MADE.forget()


@pytest.mark.slow
def test_nothing_of_an_earlier_state_is_kept(changing, made, monkeypatch):
    database, change = changing
    seen, true = [], lanemap.Database.survey

    def noted(asked):
        found = true(asked)
        seen.append(weakref.ref(found))
        return found

    monkeypatch.setattr(lanemap.Database, "survey", noted)
    state = State(database)
    monkeypatch.setattr("lanemap.cli.web.app.State", lambda _: state)
    with asking(database) as client:
        for name in ("theirs", "others", "more"):
            find = "/api/find?shape=m16n8k16&type=f16&role=A&row=9&col=3"
            for page in ("/", *(f"/mma/m16n8k16/f16{role}" for role in ("", "/A", "/D")), find):
                assert client.get(page, follow_redirects=True).status_code == 200, page
            kept = Counter(type(value[0]) for value, _ in made.values() if isinstance(value, list))
            assert kept[lanemap.Fragment] == 1
            assert kept[dict] > 3  # the messages of answers, the last of which may be still to come
            assert len(made) > kept.total() > 4
            change(name)
            assert client.get("/api/sources").status_code == 200
            assert len(made) <= 1  # this answer, which is kept after it was sent
            assert made.size == sum(size for _, size in made.values()) < 10_000
        gc.collect()
        assert [reference() is None for reference in seen] == [True, True, False]


def make(size):
    return "x" * size


def test_what_is_remembered_has_a_limit_of_size_and_what_was_used_last_is_kept(made):
    asked = []

    def noted(key):
        asked.append(key)
        return make(1 << 20)

    for key in range(100):
        remembered(noted, key, key)
        remembered(noted, 0, 0)
        assert min(key, 10) < len(made) < 32
    assert asked == [*range(100)]
    assert (noted, 99) in made


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
        return make(1 << 20)

    for key in range(40):
        both = [threading.Thread(target=remembered, args=(slow, key)) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    assert 10 < len(made) < 32


def unbounded():
    """How much is in the caches of modules that have no bound."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "lanemap"]
    caches = {
        value for module in modules for value in vars(module).values() if isinstance(value, type(lru_cache(make)))
    }
    return sum(cache.cache_info().currsize for cache in caches if cache.cache_info().maxsize is None)


@pytest.mark.slow
def test_no_words_from_outside_fill_a_cache_without_bound(changing):
    database, _ = changing
    of = {fragment.role: fragment for fragment in database.source("ours").fragments if fragment.shape == "m16n8k16"}
    wrong = of["D"].elements.copy()
    wrong["row"] = wrong["row"][::-1]
    sizes = []
    with asking(database) as client:
        for some in (range(5), range(5, 10)):
            odd = [{"instruction": f"odd{number}", "shape": f"m16n8k{16 + number}"} for number in some]
            for name, held in (("one", of["D"].elements), ("other", wrong)):
                told = [replace(of["D"], source=name, elements=held, **key) for key in odd]
                database.add([Source(name, "import", "odd", told)])
            assert len(database.diff("one", "other").rows().records()) == 5
            for key in odd:
                asked = {**key, "type": of["D"].type, "role": "D", "source": "one"}
                assert client.get("/api/find", params=asked).status_code == 200
                for words in (" ".join(key.values()), f"mma.sync.{key['shape']}.f16"):
                    client.get("/search", params={"q": words})
                    client.get("/chain", params={"first": f"D {words}", "second": f"A {words}"})
                    client.get(f"/{words.replace(' ', '/')}/f16/A")
            database.remove("one")
            database.remove("other")
            sizes.append(unbounded())
    assert sizes[0] == sizes[1]
