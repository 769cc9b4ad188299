"""The text of kernels: what must come before what, and the numbers in it."""

import re
from itertools import chain, pairwise

import ml_dtypes
import numpy as np

from lanemap.capture.kernels import kernels, text
from lanemap.capture.module import modules

from ..forms import CAPTURED, MOVES, NARROW_FORMS, WARPGROUP

SCALED = [form for form in CAPTURED if getattr(form, "scale", None) is not None]


def operations(kernel):
    """The operations of a kernel in their order, with their qualifiers."""
    return re.findall(r"^    (?!\.)(\S+)", text(kernel), re.MULTILINE)


def places(done, begins):
    return [at for at, line in enumerate(done) if line.startswith(begins)]


def test_a_warpgroup_reads_what_was_written_and_writes_what_was_computed():
    """9.7.15.4: the asynchronous proxy sees generic writes after its fence, registers after wgmma.fence."""
    for form in (form for form in WARPGROUP if form.dimensions[1] in (24, form.dimensions[2])):
        (kernel,) = kernels(form)
        done = operations(kernel)
        steps = [
            "st.shared", "fence.proxy.async", "bar.sync", "wgmma.fence.sync.aligned", form.mnemonic,
            "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned", "st.global",
        ]  # fmt: skip
        found = [places(done, step) for step in steps]
        assert all(found)
        assert all(before[-1] < after[0] for before, after in pairwise(found))
        assert "wgmma.wait_group.sync.aligned 0;" in kernel.body
        assert done.index(form.mnemonic) > max(places(done, "or.b64"))


def test_a_barrier_stands_between_a_move_and_what_others_do_with_its_memory():
    for form in MOVES:
        (kernel,) = kernels(form)
        done = operations(kernel)
        (move,) = places(done, form.mnemonic)
        first = min(places(done, "ldmatrix")) if form.name == "movmatrix" else move
        barriers = places(done, "bar.sync")
        assert any(max(places(done[:first], "st.shared")) < at < first for at in barriers)
        if form.stores:
            assert any(move < at < min(places(done, "ld.shared")) for at in barriers)


def test_block_scales_are_all_one():
    """So that a product is what it would be without them, whatever bytes and lanes they are taken from."""
    for form in SCALED:
        one = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}[form.types["SFA"]]
        for kernel in kernels(form):
            (word,) = re.findall(r"mov\.b32 %scale, (0x\w+);", kernel.body)
            assert (np.array([int(word, 16)], "<u4").view(one).astype(float) == 1).all()
            assert kernel.body.endswith(", %scale, {0, 0}, %scale, {0, 0};")
    assert len(SCALED) > len([form for form in NARROW_FORMS if form.scale is not None])


def test_kernels_that_are_loaded_together_ask_for_one_version():
    """A driver that is too old for some forms refuses no others with them."""
    together = modules(CAPTURED)
    assert sorted(map(str, chain(*together))) == sorted(map(str, CAPTURED))
    assert all(len({form.version for form in forms}) == 1 for forms in together)


def test_the_first_product_of_a_warpgroup_starts_its_sum():
    """What is in the registers of D before does not count (9.7.15.5, scale-d): the others add to it."""
    for form in (form for form in WARPGROUP if form.dimensions[1] == 8):
        (kernel,) = kernels(form)
        products = [line for line in kernel.body.splitlines() if line.strip().startswith(form.mnemonic)]
        adds = [re.findall(r"%starts|%adds", line) for line in products]
        assert adds == [["%starts"], *[["%adds"]] * (len(products) - 1)]
        assert len(products) > 1
        assert "setp.ne.u32 %starts, 0, 0;" in kernel.body
        assert "setp.eq.u32 %adds, 0, 0;" in kernel.body
