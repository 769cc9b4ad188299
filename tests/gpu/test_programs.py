"""Simulated threads store in random programs what a card does, to the last bit, and nothing is said of these."""

import itertools
from collections.abc import Iterator

import pytest

from ..modes import some
from . import programs_of_copies, programs_of_matrices, programs_of_threads, programs_of_warps
from .programs import Program, batched, build, digests, inputs, record, recorded, traced
from .programs_of_threads import Random

_THREADS = ("moves", "loads", "stores", "spaces", "atomics", "warps", "flows", "barriers", "mbarriers")
_MATRICES = ("matrices", "products", "warpgroups")
_COPIES = ("copies", "boxes", "maps")
_EVERY = (*_THREADS, *_MATRICES, *_COPIES)
_QUICK = ("spaces", "barriers")


def programs(name: str) -> Iterator[Program]:
    """Those of a family."""
    if name in _COPIES:
        return getattr(programs_of_copies, name)()
    if name in _MATRICES:
        return getattr(programs_of_matrices, name)()
    room = programs_of_threads if hasattr(programs_of_threads, name) else programs_of_warps
    return map(Program, batched([*getattr(room, name)(Random(_THREADS.index(name)))]))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in _QUICK else pytest.mark.slow) for name in _EVERY],
)
def test_simulated_threads_store_what_a_card_does(name):
    given, known, seen = inputs(), recorded(), 0
    for program in some(programs(name), 2):
        pairs = zip(program.cases, digests(program), strict=True)
        program = program._replace(cases=[case for case, digest in pairs if digest in known])
        found = traced(program, given)
        assert found.ok, found
        results = found.outputs["out"].reshape(program.results, -1).astype("u8")
        every = zip(program.cases, digests(program), digests(program, results), strict=True)
        assert not [case for case, digest, result in every if known[digest].pop(0) != result]
        seen += len(program.cases)
    assert seen


@pytest.mark.slow
def test_they_assemble(tmp_path):
    made, known = some(itertools.chain.from_iterable(map(programs, _EVERY)), 8), recorded()
    assert build(tmp_path, made) == sum(digest in known for program in made for digest in digests(program))


def test_a_card_stores_what_is_recorded(tmp_path, needs):
    needs((9, 0), (9, 0))
    build(tmp_path, itertools.chain.from_iterable(map(programs, _EVERY)))
    record(tmp_path, tmp_path / "again.npz")
    assert recorded(tmp_path / "again.npz") == recorded()
