"""What a warpgroup or a matrix move cannot do is a contradiction, and says where; it is never a layout."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lanemap.capture import from_memory
from lanemap.capture.device import Bench, Contradiction, Output
from lanemap.db.isa.forms import select

from .group import SimulatedGroup
from .tables import at_random


def form(pattern):
    (found,) = select(pattern)
    return found


DENSE = form("wgmma.mma_async.sync.*.m64n16k16.f32.f16.f16")
SPARSE = form("wgmma.mma_async.sp.*.m64n32k32.f32.f16.f16")
LOAD, STORE = form("ldmatrix.*.x2.shared.b16"), form("stmatrix.*.x2.shared.b16")


class Sometimes(SimulatedGroup):
    """A group that runs some probes by another table, and to whose output something may happen."""

    def __init__(self, table, other=None, when=None, change=lambda words: words):
        super().__init__(table)
        self._other = SimulatedGroup(table if other is None else other)
        self._when, self._change = when, change

    def run(self, kernel, probes):
        words = super().run(kernel, probes).data
        if self._when is not None:
            taken = {port.name: probes.picks[:, number] for number, port in enumerate(kernel.inputs)}
            chosen = self._when(probes.patterns, taken)
            words = np.where(np.reshape(chosen, (-1, 1, 1)), self._other.run(kernel, probes).data, words)
        return Output(self._change(words.copy()), 0.0)


def doubled(table, key):
    """The table with the second element of a fragment where the first is."""
    elements = table[key].elements.copy()
    for name in ("row", "col", "col_last", "computation"):
        elements[name][1] = elements[name][0]
    return {**table, key: replace(table[key], elements=elements)}


def turned(table, key, *names):
    """The table with the rows or columns of a fragment in the opposite order."""
    elements = table[key].elements.copy()
    for name in names:
        elements[name] = elements[name].max() - elements[name]
    return {**table, key: replace(table[key], elements=elements)}


def lost(words):
    """Lane 3 gets nothing in its first register."""
    words[:, 0, 3] = 0
    return words


def refused(measure, form, device, *known, said):
    with pytest.raises(Contradiction, match=said):
        measure(Bench(device, form), form, *known)


@pytest.mark.parametrize("form", [DENSE, SPARSE], ids=str)
def test_a_d_or_an_a_that_holds_an_element_twice(form):
    table = at_random([form])
    assert from_memory.measure_warpgroup(Bench(SimulatedGroup(table), form), form, {})
    twice = SimulatedGroup(doubled(table, form.key("D")))
    refused(
        from_memory.measure_warpgroup, form, twice, {}, said=r"row \d+, column \d+ of D is in [02] slots, not in one"
    )
    twice = SimulatedGroup(doubled(table, form.key("A")))
    refused(
        from_memory.measure_warpgroup,
        form,
        twice,
        {},
        said=r"A lane \d+, reg \d, slot \d does not appear in D exactly once",
    )


def test_a_d_that_gets_nothing():
    device = Sometimes(at_random([DENSE]), change=lost)
    refused(from_memory.measure_warpgroup, DENSE, device, {}, said="nothing comes out in D lane 3, reg 0, slot 0")


def test_selectors_that_place_a_differently():
    table = at_random([SPARSE])
    other = {**table, SPARSE.key("A"): at_random([SPARSE], 1)[SPARSE.key("A")]}
    device = Sometimes(table, other, lambda _, taken: taken["A_1_"] > 0)
    said = "selector 1 places slots of A differently from selector 0"
    refused(from_memory.measure_warpgroup, SPARSE, device, {}, said=said)


def test_metadata_that_moves_rows():
    table = at_random([SPARSE])
    vector = list(SPARSE.sparsity.indices)[1]

    def chosen(patterns, taken):
        return (patterns["E"][taken["E"], 0] == 0x11111111 * vector).all(axis=1)

    device = Sometimes(table, turned(table, SPARSE.key("D"), "row"), chosen)
    refused(from_memory.measure_warpgroup, SPARSE, device, {}, said="metadata moves a slot of A to another row")


def test_numbered_metadata_that_does_what_no_other_does():
    table = at_random([SPARSE])

    def chosen(patterns, taken):
        return np.full(len(taken["E"]), (patterns["E"] != patterns["E"][..., :1]).any())

    device = Sometimes(table, turned(table, SPARSE.key("D"), "col", "col_last"), chosen)
    said = "numbered metadata places slots of A differently from uniform metadata"
    refused(from_memory.measure_warpgroup, SPARSE, device, {}, said=said)


@pytest.mark.parametrize(("steps", "said"), [([0, 0], "two fields"), ([0], "no field of metadata governs A lane")])
def test_fields_of_metadata_of_which_not_one_governs_each_slot(monkeypatch, steps, said):
    rule, fields = SPARSE.sparsity, from_memory.governing_fields
    probed = SimpleNamespace(indices=rule.indices, fields=rule.fields, slots=rule.slots)
    probed.steps = [rule.steps[step] for step in steps]
    monkeypatch.setattr(from_memory, "governing_fields", lambda form, _, *rest: fields(form, probed, *rest))
    refused(from_memory.measure_warpgroup, SPARSE, SimulatedGroup(at_random([SPARSE])), {}, said=said)


def with_one_lane_twice(form):
    """The address of the second row of a matrix is that of the first."""
    table = at_random([form])
    elements = table[form.key("p")].elements.copy()
    elements["lane"][1] = elements["lane"][0]
    return SimulatedGroup({**table, form.key("p"): replace(table[form.key("p")], elements=elements)})


def test_a_load_that_takes_fewer_addresses_than_rows():
    refused(from_memory.measure_move, LOAD, with_one_lane_twice(LOAD), said="15 lanes pass addresses of rows")


def test_a_load_that_does_not_give_what_is_in_memory():
    device = Sometimes(at_random([LOAD]), change=lost)
    refused(from_memory.measure_move, LOAD, device, said="r lane 3, reg 0, slot 0 does not hold what is in memory")


def test_a_store_of_which_one_slot_overwrites_another():
    said = r"r lane \d+, reg \d, slot \d does not appear in memory exactly once"
    refused(from_memory.measure_move, STORE, with_one_lane_twice(STORE), said=said)


def test_a_store_that_changes_numbers():
    def seven(words):
        words[2:, 0] = 7
        return words

    device = Sometimes(at_random([STORE]), change=seven)
    refused(from_memory.measure_move, STORE, device, said="memory holds other numbers than the registers")
