"""Verdicts, judged by what instructions compute through both layouts: nothing is explained away, nothing overlooked."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.layout.fragment import elements

from ..modes import examples
from ..shipped import CORRECTED, corrected, documents, printed, recorded
from .product import computes_the_same, instructions, meets, results

DOCUMENTED, CAPTURED = corrected(), recorded().fragments
AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk"}
SAME, LIKE = {Verdict.IDENTICAL}, {Verdict.IDENTICAL, Verdict.RELABELLED}


def forms(operands, accumulators):
    """A, B, C and D of every instruction whose A and B are any two of the types, and C and D of one type."""
    pairs = product(operands.split(), operands.split())
    return [(a, b, type_, type_) for (a, b), type_ in product(pairs, accumulators.split())]


BYTES, FLOATS = forms("s8 u8", "s32"), forms("e4m3 e5m2", "f16 f32")
NARROW = forms("e4m3 e5m2 e3m2 e2m3 e2m1", "f16 f32")
HALF, BRAIN, TF32, F64 = forms("f16", "f16 f32"), forms("bf16", "f32"), forms("tf32", "f32"), forms("f64", "f64")
#: Shapes with the types that their instructions take (9.7.16.5.14, 9.7.16.6.3). Sparse ones as measured: with E, and
#: with the B that the document only draws.
FAMILIES = [
    (DOCUMENTED, "mma", "m16n8k16", HALF + BRAIN + FLOATS + BYTES),
    (DOCUMENTED, "mma", "m16n8k8", HALF + BRAIN + TF32),
    (DOCUMENTED, "mma", "m8n8k4", HALF + F64),
    (DOCUMENTED, "mma", "m16n8k32", forms("s4 u4", "s32") + BYTES + NARROW),
    (CAPTURED, "mma.sp", "m16n8k16", HALF + BRAIN + TF32),
    (CAPTURED, "mma.sp", "m16n8k32", HALF + BRAIN + BYTES),
    (CAPTURED, "mma.sp", "m16n8k64", forms("s4 u4", "s32") + BYTES + forms("e4m3 e5m2", "f32")),
]


def k_of(type_):
    """The types that share a K with one, as those do that one instruction can multiply."""
    groups = (("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"))
    return next((group for group in groups if type_ in group), (type_,))


def chunk(fragment):
    """How many columns metadata chooses from together; 1 in a dense instruction."""
    return 1 if fragment.instruction == "mma" else {"tf32": 2, "s4": 8, "u4": 8}.get(fragment.type, 4)


def axes(fragment):
    """What rows, columns and computations count, each by a name of its own."""
    named = [k_of(fragment.type) if axis == "k" else axis for axis in AXES[fragment.role]]
    return dict(zip(("row", "col", "computation"), [*named, "computation"], strict=True))


def sizes(fragments):
    """How many numbers each dimension has, in steps that a renumbering may not tear."""
    found = {}
    for fragment in fragments:
        for name, extent in zip(("row", "col"), fragment.dimensions, strict=True):
            axis = axes(fragment)[name]
            found[axis] = (extent, chunk(fragment) if isinstance(axis, tuple) else 1)
    if any(fragment.shape == "m8n8k4" and fragment.type == "f16" for fragment in fragments):
        found["computation"] = (4, 1)
    return found


def renumbered(fragment, permutations):
    """The fragment with its rows, columns and computations renumbered."""
    table = fragment.elements.copy()
    for name, axis in axes(fragment).items():
        if axis == "computation" and table["computation"].max() > 1 and axis in permutations:
            table[name] = 1 + np.asarray(permutations[axis])[table[name] - 1]
        elif axis != "computation" and axis in permutations:
            table[name] = np.asarray(permutations[axis])[table[name]]
            if name == "col":
                table["col_last"] = np.asarray(permutations[axis])[fragment.elements["col_last"]]
    return replace(fragment, elements=table)


def corrupted(fragment, kind, draw):
    """The fragment with something else in some slots. Of ``swap`` to ``slot`` every cell is still held as before."""
    table = fragment.elements.copy()
    some = st.integers(0, len(table) - 1)
    if kind == "swap":
        one, other = draw(some), draw(some)
        for name in ("row", "col", "col_last", "computation"):
            table[name][[one, other]] = table[name][[other, one]]
    elif kind == "element":
        at, name = draw(some), draw(st.sampled_from(["row", "col", "computation"]))
        extent = dict(zip(("row", "col", "computation"), (*fragment.dimensions, 4), strict=True))[name]
        width = table["col_last"][at] - table["col"][at] if name == "col" else 0
        table[name][at] = draw(st.integers(0, extent - 1 - width)) + (name == "computation")
        table["col_last"][at] = table["col"][at] + width if name == "col" else table["col_last"][at]
    elif kind == "missing":
        table = np.delete(table, draw(st.lists(some, min_size=1, max_size=3)))
    else:
        one, other = draw(st.permutations(np.unique(table[kind]).tolist()))[:2] if np.ptp(table[kind]) else (0, 0)
        moved = table[kind].copy()
        table[kind] = np.where(moved == one, other, np.where(moved == other, one, moved))
        table = elements({name: table[name] for name in table.dtype.names})
    return replace(fragment, elements=table)


WHOLE, BROKEN = ("swap", "lane", "reg", "slot"), ("element", "missing", "swap", "lane")


@st.composite
def families(draw):
    """Operands of a few instructions of one shape: with their metadata, and sometimes with one operand too few."""
    source, name, shape, every = draw(st.sampled_from(FAMILIES))
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=3, unique=True))
    wanted = {(role, type_) for form in chosen for role, type_ in zip("ABCD", form, strict=True)}
    wanted |= {("E", type_) for role, type_ in wanted if role == "A"}
    if draw(st.integers(0, 4)) == 0:
        wanted -= {draw(st.sampled_from(sorted(wanted)))}
    fragments = [fragment for fragment in source if (fragment.instruction, fragment.shape) == (name, shape)]
    return [fragment for fragment in fragments if (fragment.role, fragment.type) in wanted], every


@st.composite
def relabellings(draw):
    """Fragments, the same renumbered, and how."""
    left, every = draw(families())
    permutations = {}
    for axis, (extent, step) in sizes(left).items():
        if draw(st.booleans()):
            chunks = draw(st.permutations(range(extent // step)))
            permutations[axis] = tuple(chunks[i // step] * step + i % step for i in range(extent))
    return left, [renumbered(fragment, permutations) for fragment in left], permutations, every


def verdicts(left, right):
    return {result.key: result for result in compare(left, right)}


def whole(fragments, every):
    """The keys of all fragments that an instruction can be made with, and of the metadata of these."""
    metadata = {fragment.type for fragment in fragments if fragment.role == "E"}
    operands = {
        operand.key
        for operands in instructions(fragments, every)
        if operands[0].instruction == "mma" or operands[0].type in metadata
        for operand in operands
    }
    types = {key.type for key in operands if key.role == "A"}
    return operands | {fragment.key for fragment in fragments if fragment.role == "E" and fragment.type in types}


def reproduces(result, left, right):
    """Whether the permutations of a result take the one fragment to the other."""
    own = dict(zip(axes(left).values(), (*AXES[left.role], "computation"), strict=True))
    named = {axis: result.permutations[short] for axis, short in own.items() if short in result.permutations}
    return np.array_equal(renumbered(left, named).elements, right.elements)


@pytest.mark.slow
@given(relabellings())
@settings(max_examples=100)
def test_every_renumbering_is_found_and_told_as_it_is(case):
    left, right, permutations, every = case
    assert computes_the_same(left, right, every)
    found = verdicts(left, right)
    for one, other in zip(left, right, strict=True):
        result = found[one.key]
        if one.digest == other.digest:
            assert result.verdict is Verdict.IDENTICAL
        elif one.key in whole(left, every):
            assert result.verdict is Verdict.RELABELLED, (result, permutations)
        if result.verdict is Verdict.RELABELLED:
            assert reproduces(result, one, other)


@pytest.mark.slow
@given(relabellings(), st.data())
@examples(250)
def test_layouts_agree_exactly_where_all_products_do(case, data):
    """Whatever is done to up to two operands, on either side, so that every cell is still held."""
    left, right, _, every = case
    sides = [left, right]
    for _ in range(data.draw(st.integers(0, 2))):
        side, at = data.draw(st.integers(0, 1)), data.draw(st.integers(0, len(left) - 1))
        sides[side] = list(sides[side])
        sides[side][at] = corrupted(sides[side][at], data.draw(st.sampled_from(WHOLE)), data.draw)
    found = verdicts(*sides)
    expect_no_more_than_is_true(found, *sides, every)
    if computes_the_same(*sides, every) and whole(left, every) == set(found):
        assert {result.verdict for result in found.values()} <= LIKE


@given(relabellings(), st.data())
@examples(200)
def test_no_corruption_is_explained_away(case, data):
    """Elements changed or missing, on both sides."""
    left, right, _, every = case
    at = data.draw(st.integers(0, len(left) - 1))
    sides = [
        [
            corrupted(fragment, data.draw(st.sampled_from(BROKEN)), data.draw) if place == at else fragment
            for place, fragment in enumerate(side)
        ]
        for side in (left, right)
    ]
    found = verdicts(*sides)
    expect_no_more_than_is_true(found, *sides, every)


def expect_no_more_than_is_true(found, left, right, every):
    """What is called identical or relabelled computes the same, and of what differs every element is counted."""
    theirs = {fragment.key: fragment for fragment in right}
    for one in left:
        result, other = found[one.key], theirs[one.key]
        assert (result.verdict is Verdict.IDENTICAL) == (one.digest == other.digest)
        if result.verdict is Verdict.RELABELLED:
            assert reproduces(result, one, other)
        if result.verdict is Verdict.DIFFERENT:
            assert {place: (mine, yours) for place, mine, yours in result.difference.elements} == brute_force(
                one, other
            )
            assert result.difference.count == len(brute_force(one, other))
    for operands in instructions(left, every):
        if all(found[operand.key].verdict in LIKE for operand in operands):
            assert np.array_equal(results(*operands), results(*(theirs[operand.key] for operand in operands)))


def brute_force(left, right):
    """What differs, slot by slot."""
    sides = [{row[:3]: row[3:] for row in fragment.elements.tolist()} for fragment in (left, right)]
    places = {*sides[0], *sides[1]}
    return {at: (sides[0].get(at), sides[1].get(at)) for at in places if sides[0].get(at) != sides[1].get(at)}


@st.composite
def narrowings(draw):
    """A sparse instruction with windows made narrower, here or there, and whole chunks renumbered in some operands."""
    _, name, shape, every = draw(st.sampled_from(FAMILIES[4:]))
    form = draw(st.sampled_from(every))
    wanted = {*zip("ABCD", form, strict=True), ("E", form[0])}
    left = [
        fragment
        for fragment in CAPTURED
        if (fragment.instruction, fragment.shape) == (name, shape) and (fragment.role, fragment.type) in wanted
    ]
    right, axis = left, k_of(form[0])
    if draw(st.booleans()):
        extent, step = sizes(left)[axis]
        chunks = draw(st.permutations(range(extent // step)))
        roles = draw(st.sampled_from(["ABE", "A", "B"]))
        permutation = tuple(chunks[i // step] * step + i % step for i in range(extent))
        right = [renumbered(fragment, {axis: permutation}) if fragment.role in roles else fragment for fragment in left]
    sides = [left, right]
    for side in draw(st.sampled_from([(0,), (1,), (0, 1)])):
        end, by = draw(st.sampled_from([("col", 1), ("col_last", -1)]))
        which = draw(st.sampled_from([slice(None), slice(0, 40), slice(20, 60)]))
        sides[side] = [narrowed(one, end, by, which) if one.role == "A" else one for one in sides[side]]
    if draw(st.booleans()):
        # Not even where B comes with windows, which it never has, may one side be narrower.
        sides[0] = [narrowed(one, "col_last", 1, slice(None)) if one.role == "B" else one for one in sides[0]]
    return (*sides, [form])


def narrowed(fragment, end, by, which):
    table = fragment.elements.copy()
    table[end][which] += by
    return replace(fragment, elements=table)


@given(narrowings())
@examples(200)
def test_windows_may_be_narrower_on_one_side_only(case):
    """By what can meet: the elements of B that an element of A can be multiplied with are among those of the other."""
    left, right, every = case
    found = {result.key.role: result for result in compare(left, right)}
    (a, b, *_), (other_a, other_b, *_) = (next(instructions(side, every)) for side in (left, right))
    mine, theirs = meets(a, b), meets(other_a, other_b)
    within = {"left": not (mine & ~theirs).any(), "right": not (theirs & ~mine).any()}
    verdict = found["A"].verdict
    if found["B"].verdict in LIKE and verdict in (Verdict.REFINED, Verdict.RELABELLED) and found["A"].narrower:
        assert within[found["A"].narrower]
    if found["B"].verdict is Verdict.IDENTICAL:
        assert (verdict is Verdict.REFINED) == (a.digest != other_a.digest and any(within.values()))
    if not any(within.values()):
        assert Verdict.DIFFERENT in (verdict, found["B"].verdict)
    elif verdict is Verdict.DIFFERENT:
        assert not computes_the_same(left, right, every)
    assert found["B"].verdict is not Verdict.REFINED


def of(name, shape, *types, source=CAPTURED):
    found = [fragment for fragment in source if (fragment.instruction, fragment.shape) == (name, shape)]
    return [fragment for fragment in found if (fragment.role, fragment.type) in types or fragment.type in types]


def test_narrower_windows_with_chunks_renumbered_alike_are_relabelled():
    left = of("mma.sp", "m16n8k32", *zip("ABCDE", ("f16", "f16", "f32", "f32", "f16"), strict=True))
    chunks = (3, 1, 0, 2, 7, 6, 5, 4)
    to = tuple(chunks[i // 4] * 4 + i % 4 for i in range(32))
    right = [renumbered(fragment, {("f16",): to}) for fragment in left]
    right = [
        narrowed(fragment, "col_last", -1, slice(None)) if fragment.role == "A" else fragment for fragment in right
    ]
    for sides, narrower in (((left, right), "right"), ((right, left), "left")):
        found = {result.key.role: result for result in compare(*sides)}
        assert {role: str(result.verdict) for role, result in found.items()} == {
            **dict.fromkeys("ABE", "relabelled"),
            **dict.fromkeys("CD", "identical"),
        }
        assert found["A"].narrower == narrower
        assert found["A"].permutations == found["B"].permutations


def test_the_four_products_of_a_warp_may_be_renumbered():
    left = of("mma", "m8n8k4", "f16", source=DOCUMENTED)
    right = [renumbered(fragment, {"computation": (2, 0, 3, 1)}) for fragment in left]
    assert {(str(result.verdict), result.words) for result in compare(left, right)} == {
        ("relabelled", "computation: 1 to 3 to 4 to 2 to 1")
    }
    alone = [other if other.role == "A" else one for one, other in zip(left, right, strict=True)]
    assert {result.key.role: str(result.verdict) for result in compare(left, alone)}["A"] == "different"


def in_each_product(fragment, permutations):
    """The fragment with its rows and columns renumbered in each product in a way of its own."""
    table = fragment.elements.copy()
    for name, axis in zip(("row", "col"), AXES[fragment.role], strict=True):
        table[name] = np.asarray(permutations[axis])[table["computation"] - 1, table[name]]
    table["col_last"] = table["col"]
    return replace(fragment, elements=table)


EXTENTS = {"m": 8, "n": 8, "k": 4}
IN_EACH = {axis: st.tuples(*[st.permutations(range(extent))] * 4) for axis, extent in EXTENTS.items()}


@pytest.mark.slow
@given(st.fixed_dictionaries(IN_EACH), st.sampled_from("ABCD"), st.permutations(range(4)))
@settings(max_examples=30)
def test_each_of_the_four_products_may_be_renumbered_in_its_own_way(permutations, role, order):
    left = of("mma", "m8n8k4", "f16", source=DOCUMENTED)
    right = [renumbered(in_each_product(fragment, permutations), {"computation": order}) for fragment in left]
    assert computes_the_same(left, right, HALF)
    found = verdicts(left, right)
    assert {result.verdict for result in found.values()} <= LIKE
    for result in found.values():
        told = {
            axis: [
                result.permutations.get(axis) or result.permutations.get(f"{axis} of product {number}") or range(extent)
                for number in range(1, 5)
            ]
            for axis, extent in EXTENTS.items()
        }
        assert renumbered(in_each_product(result.left, told), {"computation": order}).digest == result.right.digest
    alone = [one if one.role == role else other for one, other in zip(left, right, strict=True)]
    same = computes_the_same(left, alone, HALF)
    assert ({result.verdict for result in verdicts(left, alone).values()} <= LIKE) == same


def test_the_renumbering_of_one_product_is_told():
    left = of("mma", "m8n8k4", "f16", source=DOCUMENTED)
    stay = [range(8)] * 4
    permutations = {"m": stay, "n": stay, "k": [range(4), (2, 3, 0, 1), range(4), range(4)]}
    found = compare(left, [in_each_product(fragment, permutations) for fragment in left])
    assert {result.words for result in found if result.key.role in "AB"} == {"k of product 2: flip bit 1"}
    assert {str(result.verdict) for result in found if result.key.role in "CD"} == {"identical"}


def test_only_operands_of_one_instruction_share_a_dimension():
    """M of bf16 A is that of an f32 D, and of the f16 A that has it too; there is no bf16 with an f16 D."""
    pool = of("mma", "m16n8k16", "bf16", "f16", "f32", source=DOCUMENTED)
    turned = tuple(reversed(range(16)))
    right = [renumbered(fragment, {"m": turned}) for fragment in pool]
    halves = {True: LIKE, False: {Verdict.DIFFERENT}}
    for types, believed in ((("bf16", "f32"), True), (("bf16", "f16"), False), (("bf16", "f16", "f32"), True)):
        chosen = [
            at
            for at, fragment in enumerate(pool)
            if fragment.type in types and (fragment.type != "f16" or fragment.role in "CD")
        ]
        found = compare([pool[at] for at in chosen], [right[at] for at in chosen])
        assert {result.verdict for result in found if result.key.role == "A"} <= halves[believed]


def test_what_is_taken_from_elsewhere_is_named():
    pool = of("mma", "m16n8k16", "f16", source=DOCUMENTED) + of("mma", "m16n8k8", "f16", source=DOCUMENTED)
    theirs = {(fragment.shape, fragment.role): fragment for fragment in pool}
    a, b, small = (theirs[key] for key in (("m16n8k16", "A"), ("m16n8k16", "B"), ("m16n8k8", "A")))
    for wrong, right in ((replace(a, elements=b.elements), b), (replace(b, elements=a.elements), a)):
        found = verdicts([wrong, *(fragment for fragment in pool if fragment.key != wrong.key)], pool)[wrong.key]
        assert found.verdict is Verdict.DIFFERENT
        assert found.words == f"it is {right} on the right; {found.difference.words}"
    found = verdicts([replace(a, elements=small.elements)], pool)[a.key]
    assert found.words.startswith("it is A of mma m16n8k8 f16 on the right; ")


def test_windows_of_another_product_or_row_are_not_refined():
    a = next(fragment for fragment in CAPTURED if fragment.key[:4] == ("mma.sp", "m16n8k32", "f16", "A"))
    for name in ("computation", "row"):
        table = a.elements.copy()
        table[name] += 1
        assert compare([replace(a, elements=table)], [a])[0].verdict is Verdict.DIFFERENT


def test_a_dense_operand_is_never_refined():
    left = of("mma", "m16n8k16", "f16", "f32", source=DOCUMENTED)
    table = left[0].elements.copy()
    table["col"], table["col_last"] = 0, 15
    wide = [replace(left[0], elements=table), *left[1:]]
    assert verdicts(left, wide)[left[0].key].verdict is Verdict.DIFFERENT


def test_what_one_side_lacks_is_said_to_be_there_alone():
    left = of("mma", "m16n8k16", "f16", source=DOCUMENTED)
    drawn = replace(left[0], elements=None, status="figure-only")
    found = verdicts(left, [drawn, *left[2:]])
    assert (found[left[0].key].verdict, found[left[0].key].words) == (Verdict.LEFT_ONLY, "figure-only")
    assert found[left[1].key].words == "not there"
    assert verdicts(left[1:], left)[left[0].key].verdict is Verdict.RIGHT_ONLY
    assert drawn.key not in verdicts([drawn], [drawn, left[1]])


def test_the_document_against_the_card():
    for source, different in ((printed(), 2), (documents()[CORRECTED].fragments, 0)):
        every = [one for fragment in source for one in fragment.every]
        counted = Counter(result.verdict for result in compare(every, CAPTURED))
        assert counted == Counter(
            {
                Verdict.IDENTICAL: 949 - different,
                Verdict.DIFFERENT: different,
                Verdict.REFINED: 14,
                Verdict.RIGHT_ONLY: 1247,
                Verdict.LEFT_ONLY: 4588,
            }
        )


def test_an_operand_without_any_element_differs():
    bare = [replace(fragment, elements=fragment.elements[:0]) for fragment in DOCUMENTED]
    for left, right in ((bare, DOCUMENTED), (DOCUMENTED, bare)):
        assert {result.verdict for result in compare(left, right)} == {Verdict.DIFFERENT}
