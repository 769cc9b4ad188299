"""Each way in which a verdict was once false, as small as it can be: renumbered without proof, or without meaning."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.layout.fragment import UNTOLD_WINDOWS, Fragment, by_rule, elements

from ..modes import SOME_OR_ALL
from .test_verdicts import CAPTURED, DOCUMENTED, FAMILIES, TRAITS, axes, renumbered

RELABELLED, DIFFERENT, REFINED, UNJUDGED = Verdict.RELABELLED, Verdict.DIFFERENT, Verdict.REFINED, Verdict.UNJUDGED


def verdicts(left, right):
    return {(result.key.role, result.key.type): result.verdict for result in compare(left, right)}


def turned(operands, axis, step=1):
    """Operands with an axis in reverse order, in whole chunks of ``step``."""
    extent = next(dict(zip(axes(one), one.dimensions, strict=True)).get(axis) for one in operands if axis in axes(one))
    order = (np.arange(extent // step)[::-1, None] * step + np.arange(step)).ravel()
    return [renumbered(one, {axis: order}) for one in operands]


def operands(source, name, shape, *types):
    return [one for one in source if one.key[:2] == (name, shape) and (one.role, one.type) in types]


def test_an_operand_is_not_relabelled_by_a_form_that_it_is_no_part_of():
    """Metadata of e5m2 on neither side: that of e4m3, beside its own A, says nothing of it."""
    whole = [(role, "e4m3") for role in "ABE"] + [(role, "f32") for role in "CD"]
    for types in ([("A", "e5m2")], [("A", "e5m2"), ("B", "e5m2")]):
        left = operands(CAPTURED, "mma.sp", "m16n8k64", *types)
        assert {*verdicts(left, turned(left, "k", 4)).values()} == {DIFFERENT}
        left = operands(CAPTURED, "mma.sp", "m16n8k64", *types, *whole)
        found = verdicts(left, turned(left, "k", 4))
        assert found["A", "e5m2"] is DIFFERENT
        assert {found[role, "e4m3"] for role in "ABE"} == {RELABELLED}
        # B of e5m2 is also that of a product with A of e4m3, of which all is there.
        assert found.get(("B", "e5m2"), RELABELLED) is RELABELLED


def test_rows_are_not_relabelled_by_the_result_of_another_type():
    left = operands(DOCUMENTED, "mma", "m16n8k16", *[("A", "bf16"), ("A", "f16"), ("C", "f16"), ("D", "f16")])
    found = verdicts(left, turned(left, "m"))
    assert found == {("A", "bf16"): DIFFERENT} | dict.fromkeys([("A", "f16"), ("C", "f16"), ("D", "f16")], RELABELLED)
    left = operands(CAPTURED, "wmma", "m16n16k16", ("C", "f16"), ("D", "f16"), ("A", "s8"), ("C", "s32"), ("D", "s32"))
    found = verdicts(left, turned(left, "m"))
    assert {found["C", "f16"], found["D", "f16"]} == {DIFFERENT}
    assert found["A", "s8"] is RELABELLED


def test_an_operand_on_one_side_only_relabels_nothing():
    """Nor where nobody but the other side says which operands an instruction has."""
    lane = np.arange(32)[:, None]
    cells = {"A": (lane // 4, lane % 4), "B": (lane % 4, lane // 8), "D": (lane // 4, lane % 4)}
    made = {role: Fragment("theirs", "m8n4k4", "f32", role, 1, 1, by_rule(1, *cells[role])) for role in cells}
    right = turned([*made.values()], "m")
    assert verdicts([*made.values()], right)["A", "f32"] is RELABELLED
    without = [made["A"], made["B"]]
    assert verdicts(without, right)["A", "f32"] is verdicts(without, turned(without, "m"))["A", "f32"] is DIFFERENT
    assert {*verdicts(without, turned(without, "k")).values()} == {RELABELLED}


def test_what_two_forms_explain_in_two_ways_is_not_believed():
    """K of s8 reversed in A and B, that of u8 as it is: A of s8 meets B of u8, too."""
    s8 = operands(DOCUMENTED, "mma", "m16n8k32", ("A", "s8"), ("B", "s8"))
    u8 = operands(DOCUMENTED, "mma", "m16n8k32", ("A", "u8"), ("B", "u8"))
    assert {*verdicts(s8, turned(s8, "k")).values()} == {RELABELLED}
    found = verdicts([*s8, *u8], [*turned(s8, "k"), *u8])
    assert {found["A", "s8"], found["B", "s8"]} == {DIFFERENT}
    # With an A of u8 that is wrong, no product has both ways in it that is not accused.
    wrong = [replace(one, elements=one.elements[::-1]) if one.role == "A" else one for one in u8]
    found = verdicts([*s8, *u8], [*turned(s8, "k"), *turned(wrong, "m")])
    assert found["A", "u8"] is DIFFERENT


def test_operands_of_two_sources_prove_nothing_together():
    left = operands(DOCUMENTED, "mma", "m16n8k16", ("A", "bf16"), ("B", "bf16"))
    right = turned(left, "k")
    assert {*verdicts(left, right).values()} == {RELABELLED}
    right = [replace(one, source=f"card {one.role}") for one in right]
    assert {*verdicts(left, right).values()} == {DIFFERENT}


def chosen(fragment, indices):
    """Single columns, or pairs of them: those that metadata selects with the same indices in each chunk, in order."""
    table, width = fragment.elements.copy(), fragment.chunk
    group = fragment.sparsity.group
    run = group if fragment.role == "A" else 1
    order = np.lexsort((table["slot"], table["reg"], table["lane"], table["col"] // width, table["row"]))
    columns = [group * index + step for index in indices for step in range(run)]
    table["col"][order] = table["col"][order] // width * width + np.tile(columns, len(table) // len(columns))
    table["col_last"] = table["col"] + (group - 1 if fragment.role == "E" else 0)
    return replace(fragment, elements=table)


def exchanged(fragment):
    """K ^ 1 in what counts K: neighbours exchange their numbers."""
    table = fragment.elements.copy()
    if fragment.role == "B":
        table["row"] ^= 1
    elif fragment.role in "AE":
        first, last = table["col"] ^ 1, table["col_last"] ^ 1
        table["col"], table["col_last"] = np.minimum(first, last), np.maximum(first, last)
    return replace(fragment, elements=table)


def test_single_columns_that_no_metadata_selects_are_not_relabelled():
    """Without a window on either side nothing shows how metadata counts: both must name what it can select."""
    parts = FAMILIES["sparse f16"]
    for indices, verdict in (((0, 2), RELABELLED), ((0, 1), DIFFERENT)):
        left = parts | {role: chosen(parts[role], indices) for role in "AE"}
        found = verdicts([*left.values()], [exchanged(one) for one in left.values()])
        assert {found[role, "f16"] for role in "ABE"} == {verdict}


def test_one_choice_is_within_a_and_its_metadata_whatever_their_rows():
    """Rows renumbered alike in A, C, D and E, beside no B."""
    parts = {role: one for role, one in FAMILIES["sparse f16"].items() if role != "B"}
    for other, verdict in (((0, 1), RELABELLED), ((2, 3), DIFFERENT)):
        named = parts | {"A": chosen(parts["A"], (0, 1)), "E": chosen(parts["E"], other)}
        found = verdicts([*parts.values()], turned([*named.values()], "m"))
        assert (found["A", "f16"], found["E", "f16"], found["D", "f32"]) == (verdict, verdict, RELABELLED)


def test_a_pair_that_metadata_selects_has_no_order():
    """K ^ 1 leaves each pair of columns where it is, and so the E of both sides."""
    parts = FAMILIES["sparse s4"]
    left = parts | {"E": chosen(parts["E"], (0, 2))}
    right = [exchanged(one) for one in (left | {"A": chosen(parts["A"], (0, 2))}).values()]
    found = verdicts([*left.values()], right)
    assert [found[role, "s4"] for role in "ABE"] == [RELABELLED, RELABELLED, Verdict.IDENTICAL]


def test_a_moves_by_columns_whose_rows_b_lacks():
    """Of those rows A and E alone say how they are renumbered."""
    parts = FAMILIES["sparse f16"]
    left = parts | {role: chosen(parts[role], (0, 2)) for role in "AE"}
    b = left["B"]
    left["B"] = replace(b, elements=b.elements[b.elements["row"] // 4 > 0])
    found = verdicts([*left.values()], [exchanged(one) for one in left.values()])
    assert {found[role, "f16"] for role in "ABE"} == {RELABELLED}


def test_a_chunk_that_lacks_an_element_on_both_sides_is_not_refined():
    a = FAMILIES["sparse f16"]["A"]
    left, right = (replace(one, elements=one.elements[1:]) for one in (chosen(a, (0, 1)), a))
    (found,) = compare([left], [right])
    assert found.verdict is DIFFERENT
    assert "no valid metadata selects the columns that the left names, and no others" in found.words


def test_what_claims_no_column_is_not_judged():
    a = next(one for one in CAPTURED if one.key[:4] == ("mma.sp", "m16n8k32", "f16", "A"))
    whole, order = a.elements.copy(), a.elements.copy()
    whole["col"], whole["col_last"] = 0, 31
    order["reg"] = np.array([2, 1, 0, 3])[order["reg"]]
    wide, exchanged_registers = replace(a, elements=whole), replace(a, elements=elements(dict_of(order)))
    for other in (a, exchanged_registers, wide):
        for left, right, side in ((wide, other, "left"), (other, wide, "right")):
            (found,) = compare([left], [right])
            assert (found.verdict, found.compared, found.agrees) == (UNJUDGED, False, False)
            assert f"the {side} has windows of a whole row" in found.words
    untold = replace(chosen(a, (0, 1)), status=UNTOLD_WINDOWS)
    (found,) = compare([untold], [a])
    assert (found.verdict, found.words[:25]) == (UNJUDGED, "the left has no col_last:")
    # Beside it nothing shows that K is renumbered alike.
    b = operands(CAPTURED, "mma.sp", "m16n8k32", ("B", "f16"))
    assert verdicts([wide, *b], [wide, *turned(b, "k", 4)])["B", "f16"] is DIFFERENT


def dict_of(table):
    return {name: table[name] for name in table.dtype.names}


def test_equal_cells_in_other_containers_are_different():
    rule = by_rule(2, *np.indices((32, 2)))
    one = Fragment("theirs", "m32n8k2", "e4m3", "A", 1, 4, rule)
    for other, words in (
        (
            replace(one, slots=2),
            "a register is 32 bits with 4 slots on the left, and 32 bits with 2 slots on the right",
        ),
        (replace(one, register_bits=64), "32 bits with 4 slots on the left, and 64 bits with 4 slots"),
    ):
        (found,) = compare([one], [other])
        assert found.verdict is DIFFERENT
        assert words in found.words
        assert (found.difference.count, found.difference.total) == (64, 64)


@pytest.mark.parametrize("name", ["ldmatrix", "stmatrix"])
def test_moves_of_several_sizes_are_judged_each_by_itself(name):
    left = [one for one in DOCUMENTED if one.key[:2] == (name, "m8n8")]
    assert {one.qualifiers for one in left} > {"x1", "x2", "x4"}
    right = turned(left, "m")
    assert {result.verdict for result in compare(left, right)} == {RELABELLED}
    right = [
        mine if (mine.role, mine.qualifiers) == ("p", "x4") else other for mine, other in zip(left, right, strict=True)
    ]
    found = {(result.key.role, result.key.qualifiers): result.verdict for result in compare(left, right)}
    assert (found["r", "x4"], found["p", "x4"], found["r", "x1"]) == (DIFFERENT, Verdict.IDENTICAL, RELABELLED)


def test_memory_counts_the_two_computations_of_tensor_memory():
    left = [one for one in TRAITS if one.shape == "16x32bx2"]
    assert left
    right = [renumbered_computations(one) for one in left]
    assert {result.verdict for result in compare(left, right)} == {DIFFERENT}


def renumbered_computations(fragment):
    table = fragment.elements.copy()
    table["computation"] = 3 - table["computation"]
    return replace(fragment, elements=table)


@pytest.mark.slow
@SOME_OR_ALL
@pytest.mark.parametrize("name", ["sparse f16", "sparse s4", "sparse tf32"])
def test_a_and_its_metadata_name_one_choice_of_columns(name, step):
    """Of all that A and E can name, those are right that one metadata selects, as the side with windows counts."""
    parts = FAMILIES[name]
    fields = parts["A"].sparsity.fields
    width = parts["A"].chunk // parts["A"].sparsity.group
    for at, (one, other) in enumerate(product(product(range(width), repeat=fields), repeat=2)):
        if at % step and one != other:
            continue
        named = parts | {"A": chosen(parts["A"], one), "E": chosen(parts["E"], other)}
        right = one == other and [*one] == sorted({*one})
        found = {role: verdict for (role, _), verdict in verdicts([*parts.values()], [*named.values()]).items()}
        assert (found["A"] is found["E"] is REFINED) == right, (one, other)
        # The same with K ^ 1 in A, B and E, and in B alone, where it must be right as B counts.
        moved = {role: exchanged(fragment) for role, fragment in named.items()}
        found = {role: verdict for (role, _), verdict in verdicts([*parts.values()], [*moved.values()]).items()}
        assert ({found["A"], found["B"], found["E"]} <= {RELABELLED, REFINED}) == right, (one, other, found)
        again = named | {"B": exchanged(parts["B"])}
        found = {role: verdict for (role, _), verdict in verdicts([*parts.values()], [*again.values()]).items()}
        group = parts["A"].sparsity.group
        counted = [[index ^ (group == 1) for index in indices] for indices in (one, other)]
        consistent = counted[0] == counted[1] == sorted({*counted[0]}) and group == 1
        assert (found["B"] is RELABELLED) == consistent, (one, other, found)
