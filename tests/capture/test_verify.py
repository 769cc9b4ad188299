"""The second check: it agrees with the table of a device, and with no other."""

from dataclasses import replace

import numpy as np
import pytest

from lanemap.capture.device import Bench, Probes
from lanemap.capture.kernels import kernels
from lanemap.capture.verify import AGREES, DISAGREES, NOT_DOCUMENTED, keys, verify
from lanemap.db.isa.forms import select
from lanemap.db.layout.fragment import elements

from .group import SimulatedGroup
from .tables import at_random


def form(pattern):
    return select(pattern)[0]


MMA = [form("mma.*.m16n8k16.*.f16.f16.f32"), form("mma.*.m8n8k4.*.f16"), form("mma.sp*.m16n8k32.*.f16.f16.f32")]
FAMILIES = [
    form("wgmma.mma_async.sync.*.m64n16k16.f32.f16.f16"),
    form("wgmma.mma_async.sp.*.m64n32k32.f32.f16.f16"),
    form("wgmma.mma_async.sync.*.m64n24k32.s32.s8.s8"),
    form("ldmatrix.*.x2.shared.b16"),
    form("ldmatrix.*.x4.trans.shared.b16"),
    form("stmatrix.*.x4.trans.shared.b16"),
    form("movmatrix.*"),
    form("wmma.load.a.*.row.m16n16k16.shared.f16"),
    form("wmma.load.b.*.row.m8n8k4.shared.f64"),
    form("wmma.store.d.*.col.m32n8k16.shared.f32"),
    form("wmma.mma.*.row.col.m16n16k16.f32.bf16.bf16.f32"),
]


def said(device, form, table):
    return verify(Bench(device, form), table)


def of(form, complete):
    """A table with every fragment of a form, and of the ldmatrix that the kernel of movmatrix uses."""
    return at_random([*select("ldmatrix.*.m8n8.x1.shared.b16"), form]) if form in FAMILIES else complete


def exchanged(fragment, *slots):
    """The fragment with the cells of two slots, or two runs of slots, exchanged."""
    table, (one, other) = fragment.elements.copy(), slots
    for name in ("row", "col", "col_last", "computation"):
        table[name][[*one, *other]] = fragment.elements[name][[*other, *one]]
    return replace(fragment, elements=table)


def pairs(fragment, count, size=1):
    """Pairs of runs of slots that hold different cells, from the first slots and from the second ones of registers."""
    random = np.random.default_rng(0)
    cells = fragment.elements[["row", "col", "computation"]]
    for at in range(count):
        place = at % (len(cells) // size // 2)
        while True:
            one, other = (2 * random.integers(len(cells) // size // 2, size=2) + place % 2) * size
            if cells[one] != cells[other]:
                break
        yield np.arange(one, one + size), np.arange(other, other + size)


@pytest.mark.few(4)
@pytest.mark.parametrize("form", [*MMA, *FAMILIES], ids=str)
def test_a_table_with_two_elements_exchanged_disagrees(form, complete):
    """Unless they are two numbers of an input that happen to be equal in every round, one pair in 25 of a warpgroup."""
    table = of(form, complete)
    device = SimulatedGroup(table)
    assert said(device, form, table).verdict == AGREES
    for key in dict.fromkeys(key for kernel in kernels(form) for key in keys(kernel)):
        size = form.sparsity.fields if key.role == "E" else 1
        tables = [{**table, key: exchanged(table[key], *pair)} for pair in pairs(table[key], 6, size)]
        verdicts = [said(device, form, wrong).verdict for wrong in tables]
        assert verdicts.count(DISAGREES) >= (6 if key.role in "DCrp" else 5), key


@pytest.mark.parametrize("form", [*MMA, *FAMILIES], ids=str)
def test_a_table_that_lacks_an_element_is_not_compared(form, complete):
    table = of(form, complete)
    for key in keys(kernels(form)[0]):
        if key.role in "Ep":
            continue
        held = table[key].elements
        short = elements({name: held[name][:-1] for name in held.dtype.names})
        found = said(SimulatedGroup(table), form, {**table, key: replace(table[key], elements=short)})
        assert (found.verdict, found.detail) == (NOT_DOCUMENTED, f"no elements of {key.role}")


def test_a_run_that_stops_agrees_with_nothing_and_says_why():
    """The kernel of movmatrix loads its source by ldmatrix, of which this table has no layout."""
    transposed = next(form for form in FAMILIES if form.name == "movmatrix")
    found = said(SimulatedGroup(at_random([transposed])), transposed, at_random([transposed]))
    assert found.verdict == DISAGREES
    assert "there is no layout of r of ldmatrix" in found.detail


def test_a_wrong_selector_is_named(complete):
    sparse = MMA[2]
    for selector in sparse.selectors:
        key = sparse.key("E", selector)
        one, other = next(pairs(complete[key], 1, sparse.sparsity.fields))
        wrong = said(SimulatedGroup(complete), sparse, {**complete, key: exchanged(complete[key], one, other)})
        assert f"with selector {selector} are wrong" in wrong.detail


@pytest.mark.parametrize("form", [form for form in FAMILIES if form.name in ("ldmatrix", "stmatrix")], ids=str)
def test_a_device_that_takes_no_notice_of_addresses_disagrees(form):
    class Deaf(SimulatedGroup):
        def run(self, kernel, probes):
            in_order = {"p": np.broadcast_to(np.arange(32, dtype=np.uint32) * 16, probes.patterns["p"].shape)}
            return super().run(kernel, Probes({**probes.patterns, **in_order}, probes.picks))

    table = at_random([form])
    assert said(Deaf(table), form, table).verdict == DISAGREES
