"""The recorded run that ships: complete, from a card, and what it says of the document."""

import json
from collections import Counter

import numpy as np
import pytest

import lanemap
from lanemap.capture import recording
from lanemap.capture.device import Bench
from lanemap.capture.kernels import kernels
from lanemap.capture.verify import AGREES, keys, verify
from lanemap.db.isa.instructions import tile

from ..forms import CAPTURED, DENSE_FORMS, SPARSE_FORMS
from ..modes import SOME_OR_ALL
from ..shipped import CORRECTED
from .group import SimulatedGroup
from .tables import capture


@pytest.fixture(scope="module")
def recordings():
    return [recording.read(path) for path in lanemap._recordings()]


@pytest.fixture(scope="module")
def h200(recordings):
    return next(source for source in recordings if source.name == "h200-sm_90a")


def test_it_is_small():
    assert sum(path.stat().st_size for path in lanemap._recordings()) < 2_300_000


def test_files_are_named_after_their_sources(recordings):
    assert [path.stem for path in lanemap._recordings()] == [source.name for source in recordings]


def test_it_was_made_on_the_card(h200):
    device = h200.provenance["device"]
    assert (device["name"], device["compute_capability"], device["target"]) == ("NVIDIA H200", "9.0", "sm_90a")
    assert device["driver_version"][0].isdigit()
    assert h200.provenance["gpu_seconds"] > 0
    assert h200.provenance["gpu_seconds"] < 0.2
    assert json.dumps(h200.provenance)


def test_every_form_is_accounted_for(h200):
    """But for those that need a later version of PTX than the kernels of the run asked for."""
    status = {result["instruction"]: result["status"] for result in h200.provenance["instructions"]}
    version = tuple(map(int, h200.provenance["device"]["ptx_version"].split(".")))
    forms = [form for form in CAPTURED if form.version <= version or str(form) in status]
    captured = [form for form in forms if form.supports("sm_90a")]
    assert status == {str(form): "captured" if form in captured else "unsupported" for form in forms}
    there = Counter(fragment.key for fragment in h200.fragments)
    assert set(there.values()) == {1}
    assert {key for key in there if tile(key) is None} == {
        key for form in captured for kernel in kernels(form) for key in keys(kernel)
    }


@pytest.mark.slow
@SOME_OR_ALL
def test_a_warp_with_these_layouts_is_captured_the_same_in_a_small_file(h200, sources, tmp_path, step):
    """The labels of products that the recorded run got are those that it would get today, word for word."""
    documented = {fragment.key: fragment for fragment in sources[CORRECTED].fragments}
    again = capture(
        SimulatedGroup({fragment.key: fragment for fragment in h200.fragments}),
        documented,
        (*DENSE_FORMS, *SPARSE_FORMS)[::step],
    )
    recorded = {fragment.key: fragment.digest for fragment in h200.fragments}
    assert all(fragment.digest == recorded[fragment.key] for fragment in again.fragments)
    anchors = {result["instruction"]: result["anchor"] for result in h200.provenance["instructions"]}
    for result in again.provenance["instructions"]:
        assert result["status"] == "captured"
        assert result["anchor"] == anchors[result["instruction"]]
    recording.write(again, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").stat().st_size < 300_000


NARROW = [form for form in CAPTURED if form.name == "wmma" and form.role and form.a in ("s4", "u4", "b1")]


def expect_agreement(h200, forms):
    table = {fragment.key: fragment for fragment in h200.fragments}
    bench = [Bench(SimulatedGroup(table), form) for form in forms if form.supports("sm_90a")]
    assert {verify(each, table).verdict for each in bench} == {AGREES}


@pytest.mark.slow
@SOME_OR_ALL
def test_simulated_threads_compute_by_these_layouts_what_the_model_does(h200, step):
    """Every form whose operands are measured, by the kernel that a card runs."""
    expect_agreement(h200, CAPTURED[::step])


def test_simulated_threads_load_elements_that_share_bytes(h200):
    expect_agreement(h200, NARROW)


def test_forms_that_share_an_operand_agree(h200):
    assert h200.provenance["disagreements"] == []


def test_products_by_the_document_agree_wherever_it_has_one(h200):
    verdicts = {result["documented"]["verdict"] for result in h200.provenance["instructions"] if result["documented"]}
    assert verdicts == {"agrees", "not documented"}
    undocumented = [
        result["instruction"].split(".")[0]
        for result in h200.provenance["instructions"]
        if result["documented"] and result["documented"]["verdict"] == "not documented"
    ]
    assert set(undocumented) == {"mma", "wgmma", "wmma"}
    assert {result["measured"]["verdict"] for result in h200.provenance["instructions"] if result["measured"]} == {
        "agrees"
    }


def test_what_is_documented_is_what_is_measured(h200, sources):
    """With errata every fragment is the same, or says exactly what the document gives a window for."""
    documented = {fragment.key: fragment for fragment in sources[CORRECTED].fragments}
    for fragment in h200.fragments:
        if (said := documented.get(fragment.key)) is None:
            assert fragment.instruction not in ("mma", "mma.sp") or fragment.type == "f32"
            continue
        assert (fragment.registers, fragment.slots) == (said.registers, said.slots)
        if said.elements is None or said.digest == fragment.digest:
            continue
        assert fragment.instruction == "mma.sp"
        assert fragment.role == "A"
        for name in ("lane", "reg", "slot", "row", "computation"):
            assert np.array_equal(fragment.elements[name], said.elements[name])
        assert (fragment.elements["col"] >= said.elements["col"]).all()
        assert (fragment.elements["col_last"] <= said.elements["col_last"]).all()


def test_the_erratum_was_earned_on_hardware(h200, sources):
    printed = {fragment.key: fragment for fragment in sources["ptx-isa-9.1"].fragments}
    wrong = {fragment.key for fragment in h200.fragments if fragment.role in "AB" and fragment.instruction == "mma"} & {
        key for key, said in printed.items() if said.elements is not None
    }
    wrong = {
        key
        for key in wrong
        if printed[key].digest != {fragment.key: fragment.digest for fragment in h200.fragments}[key]
    }
    assert wrong == {("mma", "m16n8k256", "b1", "A", "row", None, None)}
