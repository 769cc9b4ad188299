"""Processes that measure for one: what comes out is the same with them, without them, and where they fail."""

import multiprocessing
import operator
import os
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

import lanemap
from lanemap.capture import cuda, processes, run
from lanemap.capture.device import NotLoaded, Output
from lanemap.capture.module import longest_first, modules
from lanemap.db.errors import LanemapError

from ..forms import CAPTURED, DENSE_FORMS, MOVES, SPARSE_FORMS
from .group import SimulatedGroup
from .tables import at_random, capture

SOME = [
    *DENSE_FORMS[8:12],
    *SPARSE_FORMS[:2],
    *(form for form in MOVES if form.name in ("ldmatrix", "stmatrix") and form.shape == "m8n8"),
]
MODULES = 4


@pytest.fixture(scope="module")
def table(complete):
    return {**complete, **at_random(MOVES)}


class Card(SimulatedGroup):
    """A card on which something happens in every process but this one."""

    def __init__(self, table, happens=lambda: None):
        super().__init__(table)
        self._happens, self._mine = happens, os.getpid()
        self.ran = []

    def run(self, kernel, probes):
        elsewhere = os.getpid() != self._mine
        if elsewhere:
            self._happens()
        self.ran.append(str(kernel.form))
        return Output(super().run(kernel, probes).data, float(elsewhere))


def measured(source):
    """All that must be the same, whoever measured it."""
    outcomes = [
        {name: value for name, value in outcome.items() if name not in ("seconds", "gpu_seconds")}
        for outcome in source.provenance["instructions"]
    ]
    return (
        [(fragment.key, fragment.digest) for fragment in source.fragments],
        outcomes,
        source.provenance["disagreements"],
    )


def both(documented, card, open_device):
    """What is measured alone and in several processes, and how often progress was told."""
    alone, told = capture(card, documented, SOME), []
    card.ran.clear()
    mine = os.getpid()

    def opened():
        return nullcontext(card) if os.getpid() == mine else open_device()

    together = run.capture(opened, lambda: documented, SOME, told.append, count=2)
    assert not multiprocessing.active_children()
    assert sorted(outcome.instruction for outcome in told) == sorted(map(str, SOME))
    return alone, together


def test_processes_measure_all_and_nothing_is_different(documented, table):
    card = Card(table)
    alone, together = both(documented, card, lambda: nullcontext(card))
    assert measured(together) == measured(alone)
    assert all(outcome["status"] == "captured" for outcome in alone.provenance["instructions"])
    assert together.provenance["gpu_seconds"] > alone.provenance["gpu_seconds"] == 0
    assert not card.ran


@pytest.mark.slow
def test_what_no_process_can_measure_is_measured_here(documented, table):
    """As where the driver gives a card to one process alone."""
    card = Card(table)

    def refused():
        raise LanemapError("the card is taken")

    alone, together = both(documented, card, refused)
    assert measured(together) == measured(alone)
    assert set(card.ran) == set(map(str, SOME))


@pytest.mark.parametrize("end", [os._exit, sys.exit], ids=["die", "end"])
def test_processes_that_end_are_replaced_here(documented, table, end):
    card = Card(table, lambda: end(3))
    alone, together = both(documented, card, lambda: nullcontext(card))
    assert measured(together) == measured(alone)
    assert together.provenance["gpu_seconds"] == 0


def test_a_mistake_in_a_process_is_not_hidden(documented, table):
    def mistaken():
        raise ValueError("a mistake")

    card = Card(table, mistaken)
    with pytest.raises(ValueError, match="a mistake"):
        both(documented, card, lambda: nullcontext(card))
    assert not multiprocessing.active_children()


class UnreadableError(Exception):
    """What one process can send, and no other can make again."""

    def __init__(self, kernel, reason):
        super().__init__(f"{kernel}: {reason}")


def test_a_mistake_that_cannot_be_read_is_not_waited_for(documented, table):
    def mistaken():
        raise UnreadableError("mma", "a mistake")

    card = Card(table, mistaken)
    alone, together = both(documented, card, lambda: nullcontext(card))
    assert measured(together) == measured(alone)


def test_an_interrupt_ends_the_processes(documented, table):
    def interrupt(_):
        raise KeyboardInterrupt

    card = Card(table)
    with pytest.raises(KeyboardInterrupt):
        capture(card, documented, SOME, interrupt, count=2)
    assert not multiprocessing.active_children()


def test_modules_of_one_family_are_measured_in_one_process():
    """The products of wmma build on its moves, which are measured before."""
    assert len(modules(SOME)) == MODULES
    assert len({form.name for form in SOME}) == MODULES


@pytest.mark.parametrize("methods", [["fork", "spawn"], ["spawn"]])
def test_without_fork_there_are_no_processes(methods, monkeypatch, documented, table):
    monkeypatch.setattr(processes, "get_all_start_methods", lambda: methods)
    beside = []
    source = capture(Card(table), documented, SOME, lambda _: beside.append(multiprocessing.active_children()), count=1)
    assert len(beside[0]) == ("fork" in methods)
    assert len(source.fragments) > len(SOME)


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "expected"), [("ldmatrix", False), (None, True)])
def test_few_instructions_are_measured_in_one_process(monkeypatch, pattern, expected):
    """A process of its own takes longer to begin than they do."""
    counts = []

    class Nothing(SimulatedGroup):
        def run(self, kernel, probes):
            raise NotLoaded("nothing is measured here")

    def counted(open_device, do, count):
        counts.append(count)
        return processes.Processes(open_device, do, 0)

    monkeypatch.setattr(cuda, "Gpu", lambda *_: nullcontext(Nothing({})))
    monkeypatch.setattr(run, "Processes", counted)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    lanemap.measure(pattern)
    lanemap.measure(pattern, processes=2)
    assert counts == [4 if expected else 0, 2]


@pytest.mark.timeout(60)
def test_there_may_be_more_tasks_than_a_pipe_holds():
    with processes.Processes(lambda: nullcontext(2), operator.mul, 2) as beside:
        assert sorted(beside.results(range(8_000))) == [(task, 2 * task) for task in range(8_000)]


@pytest.mark.timeout(60)
def test_what_a_process_did_before_it_ended_is_not_done_again():
    mine = os.getpid()

    def do(two, task):
        return two * task if task != 5 or os.getpid() == mine else os._exit(3)

    with processes.Processes(lambda: nullcontext(2), do, 1) as beside:
        assert [*beside.results(range(9))] == [(task, 2 * task) for task in range(9)]


@pytest.mark.timeout(60)
def test_nobody_waits_for_what_the_others_close():
    @contextmanager
    def opened():
        yield 2
        time.sleep(600)

    with processes.Processes(opened, operator.mul, 2) as beside:
        assert sorted(beside.results(range(9))) == [(task, 2 * task) for task in range(9)]
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_what_takes_longest_is_measured_first(documented):
    def nothing(*_):
        raise NotLoaded("nothing is measured here")

    card = Card({})
    card.run = nothing
    everything = modules(CAPTURED)
    module_of = {str(form): number for number, module in enumerate(everything) for form in module}
    measured = []
    capture(card, documented, None, lambda outcome: measured.append(module_of[outcome.instruction]))
    assert [*dict.fromkeys(measured)] == longest_first(everything)
    first, *_, last = longest_first(everything)
    assert len(everything[first]) > len(everything[last])


def test_processes_are_forked_before_numpy_is_imported():
    """They import it while the driver makes their contexts."""
    script = (
        "import sys, lanemap\n"
        "from lanemap.capture import processes\n"
        "def forked(*_): raise SystemExit(*[name for name in ('numpy', 'pycuda') if name in sys.modules])\n"
        "processes.Processes.__init__ = forked\n"
        "lanemap.measure()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_an_ended_process_cannot_take_ends_nobody():
    """Commands have the default action of SIGPIPE, which ends who writes to one that is gone."""
    script = (
        "import os, signal\n"
        "from contextlib import nullcontext\n"
        "from lanemap.capture.processes import Processes\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "mine = os.getpid()\n"
        "begin = lambda: nullcontext(2) if os.getpid() == mine else os._exit(0)\n"
        "with Processes(begin, lambda two, task: two * task, 1) as processes:\n"
        "    processes._processes[0].join()\n"
        "    assert [*processes.results(range(3))] == [(0, 0), (1, 2), (2, 4)]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_where_no_process_can_be_started_the_tasks_are_done_here(monkeypatch):
    def refused(_):
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(multiprocessing.get_context("fork").Process, "start", refused)
    before = {*Path("/proc/self/fd").iterdir()}
    with processes.Processes(lambda: nullcontext(2), operator.mul, 2) as beside:
        assert [*beside.results(range(300))] == [(task, 2 * task) for task in range(300)]
    assert {*Path("/proc/self/fd").iterdir()} == before
