"""Captures on a simulated warp, which multiplies by any layout table: what is found must be that table."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture import product
from lanemap.capture.device import Bench, Contradiction, LaunchFailed, NotLoaded, Output
from lanemap.capture.kernels import POISON
from lanemap.capture.module import CAPTURED, FAILED, UNSUPPORTED
from lanemap.capture.verify import AGREES, DISAGREES, NOT_DOCUMENTED
from lanemap.db.isa.vendors import NVIDIA

from ..forms import DENSE_FORMS, FORMS, NARROW_FORMS, SPARSE_FORMS
from ..modes import SOME_OR_ALL, examples
from .group import SimulatedGroup
from .tables import capture

SMALL = [form for form in (*DENSE_FORMS, *SPARSE_FORMS) if form.a != "b1" and form.dimensions[2] <= 128]
DENSE_SMALL = [form for form in SMALL if not form.sparse]
SPARSE_SMALL = [form for form in SMALL if form.sparse]
PERMUTED = examples(25)


class Tampered(SimulatedGroup):
    """A simulated warp whose outputs something has happened to."""

    def __init__(self, table, change):
        super().__init__(table)
        self._change = change

    def run(self, kernel, probes):
        output = super().run(kernel, probes)
        return Output(self._change(kernel, output.data.copy()), output.gpu_seconds)


def permuted(fragment, order):
    """The fragment with the matrix elements of its slots in another order."""
    table = fragment.elements.copy()
    for name in ("row", "col", "col_last", "computation"):
        table[name] = fragment.elements[name][order]
    return replace(fragment, elements=table)


def relabelled(fragment, names, order):
    """The fragment with each of its coordinates ``names`` replaced by what ``order`` says."""
    table = fragment.elements.copy()
    for name in names:
        table[name] = np.asarray(order)[fragment.elements[name]]
    return replace(fragment, elements=table)


def captured(table, documented, instruction):
    """Fragments by role (E by selector) of a capture that must succeed."""
    source = capture(SimulatedGroup(table, "sm_120a"), documented, [instruction])
    (result,) = source.provenance["instructions"]
    assert result["status"] == CAPTURED, result["message"]
    assert result["measured"]["verdict"] == AGREES
    return {
        fragment.role if fragment.selector is None else fragment.selector: fragment for fragment in source.fragments
    }


def failure(device, documented, instruction):
    """The message of a capture that must fail and deliver nothing."""
    source = capture(device, documented, [instruction])
    (result,) = source.provenance["instructions"]
    assert result["status"] == FAILED
    assert not source.fragments
    assert "\n" not in result["message"]
    assert result["message"].startswith(str(instruction))
    return result["message"]


def random_order(draw, size):
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).permutation(size)


@pytest.mark.slow
def test_every_form_is_found_exactly(documented, complete):
    source = capture(SimulatedGroup(complete, "sm_120a"), documented, FORMS)
    assert [result["status"] for result in source.provenance["instructions"]] == [CAPTURED] * len(FORMS)
    assert {fragment.key: fragment.digest for fragment in source.fragments} == {
        key: fragment.digest for key, fragment in complete.items()
    }
    assert not source.provenance["disagreements"]
    drawn = {str(form) for form in FORMS if documented[form.key("B")].elements is None}
    for result in source.provenance["instructions"]:
        expected = NOT_DOCUMENTED if result["instruction"] in drawn else AGREES
        assert result["documented"]["verdict"] == expected
        assert ("windows of A" in result["anchor"]) == (result["instruction"] in drawn)


def test_provenance_says_which_version_of_ptx_the_captured_forms_took(documented, complete):
    """Not what those asked for that are unsupported."""
    late = max(FORMS, key=lambda form: form.version)
    assert late.version > NVIDIA.version
    for target, expected in (("sm_120a", late.version), ("sm_90a", NVIDIA.version)):
        source = capture(SimulatedGroup(complete, target), documented, [DENSE_FORMS[0], late])
        assert source.provenance["device"]["ptx_version"] == "{}.{}".format(*expected)


@PERMUTED
@given(st.data())
def test_a_permuted_dense_a_or_c_is_found_exactly(documented, complete, data):
    instruction, role = data.draw(st.sampled_from(DENSE_SMALL)), data.draw(st.sampled_from("AC"))
    key = instruction.key(role)
    order = random_order(data.draw, instruction.operand(role).size)
    wrong = permuted(complete[key], order)
    found = captured({**complete, key: wrong}, documented, instruction)
    assert found[role].digest == wrong.digest
    for other in set("ABCD") - {role}:
        assert found[other].digest == complete[instruction.key(other)].digest


@PERMUTED
@given(st.data())
def test_a_b_with_slots_exchanged_is_found_exactly(documented, complete, data):
    """As long as most slots of each row are where the document has them: three of at least eight may be elsewhere."""
    instruction = data.draw(st.sampled_from([fragment for fragment in DENSE_SMALL if fragment.computations == 1]))
    key = instruction.key("B")
    order = np.arange(instruction.operand("B").size)
    some = random_order(data.draw, len(order))[:3]
    order[some] = np.roll(some, 1)
    wrong = permuted(complete[key], order)
    found = captured({**complete, key: wrong}, documented, instruction)
    assert found["B"].digest == wrong.digest
    assert found["A"].digest == complete[instruction.key("A")].digest


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "instruction", [DENSE_FORMS[8], DENSE_FORMS[18], SPARSE_FORMS[0], SPARSE_FORMS[6], SPARSE_FORMS[12]], ids=str
)
def test_a_document_that_most_slots_contradict_orders_nothing(documented, complete, instruction, seed):
    role = "A" if documented[instruction.key("B")].elements is None else "B"
    key = instruction.key(role)
    order = np.random.default_rng(seed).permutation(instruction.operand(role).size)
    wrong = {**documented, key: permuted(documented[key], order)}
    message = failure(SimulatedGroup(complete), wrong, instruction)
    assert f"slots that the documented {role} gives" in message
    assert "are together as measured: that orders nothing" in message


def test_a_tie_orders_nothing(documented, complete):
    """Half of the slots of rows 0 and 1 are exchanged: either order would agree as well."""
    instruction = DENSE_FORMS[11]
    key = instruction.key("B")
    table = documented[key].elements.copy()
    tied = (table["row"] < 2) & (table["col"] < 4)
    table["row"][tied] ^= 1
    wrong = {**documented, key: replace(documented[key], elements=table)}
    message = failure(SimulatedGroup(complete), wrong, instruction)
    assert "of 8 slots that the documented B gives row 0 along K, no more than 4 are together" in message


def test_a_document_without_a_row_orders_nothing(documented, complete):
    instruction = DENSE_FORMS[11]
    key = instruction.key("B")
    wrong = {**documented, key: relabelled(documented[key], ["row"], np.r_[1, 1 : instruction.dimensions[2]])}
    assert "slots that the documented B gives row" in failure(SimulatedGroup(complete), wrong, instruction)


def test_a_document_of_which_two_rows_are_one_orders_nothing(documented, complete):
    """It divides row 0 into rows 0 and 1, and spreads row 1 over others: most slots of each row are still together."""
    instruction = DENSE_FORMS[11]
    key = instruction.key("B")
    table = documented[key].elements.copy()
    first, second = table["row"] == 0, table["row"] == 1
    table["row"][first & (table["col"] >= 4)] = 1
    table["row"][second] = 2 + table["col"][second]
    wrong = {**documented, key: replace(documented[key], elements=table)}
    assert "B divides K into chunks that are not those measured" in failure(
        SimulatedGroup(complete), wrong, instruction
    )


def test_a_document_with_pairs_of_two_chunks_orders_nothing(documented, complete):
    """Metadata chooses columns in pairs, of which the document exchanges the second ones of two chunks."""
    instruction = next(form for form in SPARSE_FORMS if form.sparsity.group == 2)
    key, width = instruction.key("B"), instruction.sparsity.width
    rows = np.arange(instruction.dimensions[2])
    odd = (rows % 2 == 1) & (rows < 2 * width)
    rows[odd] = (rows[odd] + width) % (2 * width)
    wrong = {**documented, key: relabelled(documented[key], ["row"], rows)}
    assert "B divides K into chunks that are not those measured" in failure(
        SimulatedGroup(complete), wrong, instruction
    )


@pytest.mark.parametrize("instruction", SPARSE_FORMS, ids=str)
def test_chunks_are_in_the_documented_order_whatever_the_order_within(documented, complete, instruction):
    """The index values name the columns within a chunk; which chunk it is, the document says all the same."""
    key, width = instruction.key("B"), instruction.sparsity.width
    if documented[key].elements is None:
        pytest.skip("its B is only drawn")
    columns = np.arange(instruction.dimensions[2])
    turned = columns // width * width + (columns + instruction.sparsity.group) % width
    source = capture(
        SimulatedGroup(complete), {**documented, key: relabelled(documented[key], ["row"], turned)}, [instruction]
    )
    (result,) = source.provenance["instructions"]
    assert result["status"] == CAPTURED
    assert "(0 of " in result["anchor"]
    assert all(fragment.digest == complete[fragment.key].digest for fragment in source.fragments)


@pytest.mark.slow
@PERMUTED
@given(st.data())
def test_permuted_rows_or_columns_of_d_show_in_the_others(documented, complete, data):
    instruction = data.draw(st.sampled_from([form for form in SMALL if form.computations == 1]))
    m, n, _ = instruction.dimensions
    name, role, size = data.draw(st.sampled_from([("row", "A", m), ("col", "B", n)]))
    order = random_order(data.draw, size)
    key = instruction.key("D")
    wrong = relabelled(complete[key], ["col", "col_last"] if name == "col" else ["row"], order)
    found = captured({**complete, key: wrong}, documented, instruction)
    back = np.argsort(order)
    assert found["D"].digest == complete[key].digest
    names = ["row"] if role == "A" else ["col", "col_last"]
    assert found[role].digest == relabelled(complete[instruction.key(role)], names, back).digest
    names = ["row"] if name == "row" else ["col", "col_last"]
    assert found["C"].digest == relabelled(complete[instruction.key("C")], names, back).digest


@PERMUTED
@given(st.data())
def test_a_permuted_sparse_a_is_found_exactly(documented, complete, data):
    known = [form for form in SPARSE_SMALL if documented[form.key("B")].elements is not None]
    instruction = data.draw(st.sampled_from(known))
    key = instruction.key("A")
    wrong = permuted(complete[key], random_order(data.draw, instruction.operand("A").size))
    found = captured({**complete, key: wrong}, documented, instruction)
    for role in "ABCD":
        assert found[role].digest == (wrong.digest if role == "A" else complete[instruction.key(role)].digest)
    for selector in instruction.selectors:
        assert found[selector].digest == complete[instruction.key("E", selector)].digest


@pytest.mark.slow
@PERMUTED
@given(st.data())
def test_permuted_metadata_and_a_drawn_b_are_found_exactly(documented, complete, data):
    instruction = data.draw(st.sampled_from(SPARSE_SMALL))
    rule = instruction.sparsity
    wrong = {}
    for selector in instruction.selectors:
        key = instruction.key("E", selector)
        vectors = len(complete[key].elements) // rule.fields
        order = random_order(data.draw, vectors)[:, None] * rule.fields + np.arange(rule.fields)
        wrong[key] = permuted(complete[key], order.ravel())
    if documented[instruction.key("B")].elements is None:
        key = instruction.key("B")
        wrong[key] = permuted(complete[key], random_order(data.draw, instruction.operand("B").size))
    found = captured({**complete, **wrong}, documented, instruction)
    expected = {**complete, **wrong}
    for role in "ABCD":
        assert found[role].digest == expected[instruction.key(role)].digest
    for selector in instruction.selectors:
        assert found[selector].digest == expected[instruction.key("E", selector)].digest


@PERMUTED
@given(st.data())
def test_whatever_b_the_document_says_orders_k(documented, complete, data):
    known = [form for form in SMALL if documented[form.key("B")].elements is not None and form.computations == 1]
    instruction = data.draw(st.sampled_from(known))
    wrong = {}
    for role in "AB":
        key = instruction.key(role)
        wrong[key] = permuted(complete[key], random_order(data.draw, instruction.operand(role).size))
    expected = {**complete, **wrong}
    found = captured(expected, {**documented, instruction.key("B"): wrong[instruction.key("B")]}, instruction)
    for role in "ABCD":
        assert found[role].digest == expected[instruction.key(role)].digest


def test_index_values_overrule_a_documented_b(documented, complete):
    instruction = SPARSE_FORMS[0]
    key = instruction.key("B")
    order = np.r_[1, 0, 2 : instruction.dimensions[2]]
    wrong = {**documented, key: relabelled(documented[key], ["row"], order)}
    source = capture(SimulatedGroup(complete), wrong, [instruction])
    (result,) = source.provenance["instructions"]
    assert result["anchor"].endswith("K as in the documented B (112 of 128 slots agree)")
    assert result["documented"]["verdict"] == DISAGREES
    assert all(fragment.digest == complete[fragment.key].digest for fragment in source.fragments)


@PERMUTED
@given(st.data())
def test_a_d_without_rows_and_columns_is_a_contradiction(documented, complete, data):
    instruction = data.draw(st.sampled_from(SMALL))
    key = instruction.key("D")
    order = np.arange(instruction.operand("D").size)
    m, n, _ = instruction.dimensions
    one, other = data.draw(st.integers(0, m - 2)), data.draw(st.integers(0, n - 2))
    table = complete[key].elements
    corner = (table["row"] == one) & (table["col"] == other) & (table["computation"] == 1)
    opposite = (table["row"] == m - 1) & (table["col"] == n - 1) & (table["computation"] == 1)
    order[[corner.argmax(), opposite.argmax()]] = order[[opposite.argmax(), corner.argmax()]]
    message = failure(SimulatedGroup({**complete, key: permuted(complete[key], order)}), documented, instruction)
    assert "as measured, in two by the documented D" in message


@pytest.mark.parametrize(
    "instruction",
    [DENSE_FORMS[0], DENSE_FORMS[9], DENSE_FORMS[18], DENSE_FORMS[32], SPARSE_FORMS[0], SPARSE_FORMS[7]],
    ids=str,
)
@pytest.mark.parametrize("seed", range(5))
def test_noise_is_a_contradiction(documented, complete, instruction, seed):
    random = np.random.default_rng(seed)

    def noise(_, words):
        return np.where(random.random(words.shape) < 0.5, words, 0).astype(words.dtype)

    failure(Tampered(complete, noise), documented, instruction)


def test_other_values_than_0_and_1_fail_with_probe_and_value(documented, complete):
    def seven(_, words):
        words[5, 1, 3] = np.array(7, "f4").view("u4")
        return words

    message = failure(Tampered(complete, seven), documented, DENSE_FORMS[1])
    assert "probe 5 of the columns of B gives 7 in D lane 3, reg 1, slot 0: not 0 or 1" in message


@pytest.mark.parametrize("instruction", [DENSE_FORMS[1], DENSE_FORMS[8]], ids=str)
def test_unwritten_output_fails(documented, complete, instruction):
    def unwritten(_, words):
        words[2, 1, 30] = POISON << 32 | POISON if words.itemsize == 8 else POISON
        return words

    assert "probe 2 did not write D in lane 30, reg 1" in failure(
        Tampered(complete, unwritten), documented, instruction
    )


def test_one_instruction_that_fails_does_not_stop_the_rest(documented, complete):
    class Unlucky(SimulatedGroup):
        def run(self, kernel, probes):
            if kernel.form == DENSE_FORMS[8]:
                raise NotLoaded("the driver cannot load it: no")
            if kernel.form == DENSE_FORMS[9]:
                raise LaunchFailed("the launch failed: no")
            return super().run(kernel, probes)

    seen = []
    forms = [*DENSE_FORMS[8:11], NARROW_FORMS[0]]
    source = capture(Unlucky(complete), documented, forms, seen.append)
    seen.sort(key=lambda outcome: [str(form) for form in forms].index(outcome.instruction))
    assert [outcome.status for outcome in seen] == [UNSUPPORTED, FAILED, CAPTURED, UNSUPPORTED]
    assert seen[3].message.endswith("needs sm_120a, but this device is sm_90a")
    assert {fragment.shape for fragment in source.fragments} == {"m16n8k8"}
    assert all(bool(outcome.ptx_sha256) == (outcome.instruction != str(NARROW_FORMS[0])) for outcome in seen)


def test_forms_that_share_an_operand_must_agree(documented, complete):
    class Inconsistent(SimulatedGroup):
        def run(self, kernel, probes):
            other = self if kernel.form.d == "f16" else SimulatedGroup({**complete, key: swapped})
            return SimulatedGroup.run(other, kernel, probes)

    one, other = [form for form in DENSE_FORMS if (form.shape, form.a) == ("m16n8k16", "f16")]
    key = one.key("A")
    swapped = permuted(complete[key], np.r_[1, 0, 2:256])
    source = capture(Inconsistent(complete), documented, [one, other])
    said = f"A of mma m16n8k16 f16 differs between {one} and {other}: "
    said += "2 of 256 elements: reg 0, lane 0: slots 0 and 1 are exchanged"
    assert source.provenance["disagreements"] == [said]


def test_products_by_a_wrong_document_disagree(documented, complete):
    instruction = DENSE_FORMS[11]
    key = instruction.key("A")
    wrong = {**documented, key: permuted(documented[key], np.r_[1, 0, 2 : instruction.operand("A").size])}
    source = capture(SimulatedGroup(complete), wrong, [instruction])
    (result,) = source.provenance["instructions"]
    assert result["status"] == CAPTURED
    assert result["documented"]["verdict"] == DISAGREES
    assert "elements are wrong, the first in D lane" in result["documented"]["detail"]


@pytest.mark.parametrize(
    ("instruction", "names"),
    [(DENSE_FORMS[11], ["col", "col_last"]), (SPARSE_FORMS[0], ["col_last"])],
    ids=["dense", "windows"],
)
def test_a_document_that_leaves_the_matrix_disagrees(documented, complete, instruction, names):
    key = instruction.key("A")
    beyond = relabelled(documented[key], names, np.arange(100, 100 + instruction.dimensions[2]))
    source = capture(SimulatedGroup(complete), {**documented, key: beyond}, [instruction])
    (result,) = source.provenance["instructions"]
    assert result["documented"]["verdict"] == DISAGREES
    assert re.search(r"col(_last)? 1\d\d.* is outside 0\.\.15", result["documented"]["detail"])


@pytest.mark.parametrize("role", "BD")
def test_without_its_anchor_an_instruction_fails(documented, complete, role):
    lacking = {key: fragment for key, fragment in documented.items() if fragment.role != role and fragment.role != "A"}
    message = failure(SimulatedGroup(complete), lacking, DENSE_FORMS[11])
    assert "documented" in message


def test_an_anchor_that_lacks_a_slot_names_none(documented, complete):
    instruction = DENSE_FORMS[8]
    key = instruction.key("D")
    short = replace(documented[key], elements=documented[key].elements[:-1])
    message = failure(SimulatedGroup(complete), {**documented, key: short}, instruction)
    assert "the documented D, which is the anchor, does not name every slot of D" in message


def test_a_document_with_more_registers_than_there_are_orders_nothing(documented, complete):
    instruction = DENSE_FORMS[8]
    key = instruction.key("B")
    table = documented[key].elements.copy()
    table["reg"] += table["lane"] == 31
    message = failure(
        SimulatedGroup(complete), {**documented, key: replace(documented[key], elements=table)}, instruction
    )
    assert "the documented B has more registers than the instruction" in message


class Mixed(SimulatedGroup):
    """A simulated warp of which some slots of D, where ``when`` says, are those that another table gives."""

    def __init__(self, table, other, slots, when=lambda probes: True):
        super().__init__(table)
        self._other, self._slots, self._when = SimulatedGroup(other), slots, when

    def run(self, kernel, probes):
        words = super().run(kernel, probes).data
        if self._when(probes):
            words = np.where(self._slots, self._other.run(kernel, probes).data, words)
        return Output(words, 0.0)


def row_of(fragment, row):
    """The slots of a D of 32 bits in one row, as an array (registers, lanes)."""
    table = fragment.elements
    slots = np.zeros((fragment.registers, fragment.threads), bool)
    slots[table["reg"], table["lane"]] = table["row"] == row
    return slots


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([3, 2, 1, 0], "two index values of metadata select one row of B"),
        ([0, 1, 6, 7], "the columns that metadata can select are not 2:4"),
    ],
)
def test_rows_that_metadata_serves_differently_are_a_contradiction(documented, complete, order, said):
    """In the first row of D, what an index means is the other way round, or is in two chunks."""
    instruction = next(form for form in SPARSE_SMALL if form.sparsity.width == 4 and form.d == "f32")
    key, depth = instruction.key("B"), instruction.dimensions[2]
    columns = (np.arange(0, depth, 4)[:, None] + order).ravel() % depth
    other = {**complete, key: relabelled(complete[key], ["row"], columns)}
    first = row_of(complete[instruction.key("D")], 0)
    assert said in failure(Mixed(complete, other, first), documented, instruction)


def test_an_element_of_c_that_comes_out_twice_is_a_contradiction(documented, complete):
    instruction = DENSE_FORMS[11]
    key = instruction.key("C")
    rows = np.r_[1, 1 : instruction.dimensions[0]]
    other = {**complete, instruction.key("D"): relabelled(complete[instruction.key("D")], ["row"], rows)}

    def adds_nothing(probes):
        return not probes.picks[:, :2].any()

    device = Mixed(complete, other, row_of(complete[key], 0), adds_nothing)
    assert "two slots of D accumulate one slot of C" in failure(device, documented, instruction)


@SOME_OR_ALL
def test_without_a_documented_b_the_documented_a_orders_k(documented, complete, step):
    lacking = {key: fragment for key, fragment in documented.items() if fragment.role != "B"}
    for instruction in SMALL[::step]:
        found = captured(complete, lacking, instruction)
        assert all(found[role].digest == complete[instruction.key(role)].digest for role in "ABCD")


def test_an_interrupted_capture_stops(documented, complete):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture(SimulatedGroup(complete), documented, DENSE_FORMS[:2], interrupt)


def test_a_capture_says_where_it_is_from(documented, complete):
    source = capture(SimulatedGroup(complete), documented, DENSE_FORMS[:1], version="1.2")
    assert (source.name, source.kind) == ("simulated-warp-sm_90a", "capture")
    assert source.provenance["device"]["target"] == "sm_90a"
    assert source.provenance["tool"] == "lanemap 1.2"
    (result,) = source.provenance["instructions"]
    assert result["probes"] > 100
    assert result["anchor"].startswith("rows and columns as in the documented D; K as in the documented B (128 of 128")
    assert all(fragment.status == "captured" for fragment in source.fragments)


@pytest.mark.parametrize(
    ("steps", "lost", "said"),
    [
        ([0, 1], 0, "with selector 1 numbered metadata places slots of A differently from uniform metadata"),
        ([0, 0], None, "two fields of metadata govern"),
        ([0], None, "no field of metadata governs"),
        ([0, 1], None, None),
    ],
    ids=["pairs", "two fields", "no field", "right"],
)
def test_probes_of_metadata_that_contradict_others_are_refused(complete, monkeypatch, steps, lost, said):
    """Each index moves slots of its own, all of them together every slot, and which slots meet stays as measured."""
    form = next(form for form in SPARSE_SMALL if form.sparsity.fields == 2)
    rule, fields = form.sparsity, product.governing_fields
    probed = SimpleNamespace(indices=rule.indices, fields=rule.fields, slots=rule.slots)
    probed.steps = [rule.steps[step] for step in steps]

    def contradicted(form, rule, selector, stored, show):
        if lost is not None and selector == 1:
            stored = stored.copy()
            stored[0, np.flatnonzero(stored[0] >= 0)[lost]] = -1
        return fields(form, probed, selector, stored, show)

    monkeypatch.setattr(product, "governing_fields", contradicted)
    bench = Bench(SimulatedGroup(complete, "sm_120a"), form)
    if said is None:
        assert product.measure(bench, form).governs.keys() == {*form.selectors}
        return
    with pytest.raises(Contradiction, match=said):
        product.measure(bench, form)
