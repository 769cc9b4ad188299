"""Verdicts: no corruption is explained away, every relabelling is found, and its permutation reproduces it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import StaticPool

import lanemap
from lanemap.db import store
from lanemap.db.compare import Verdict, compare, differing
from lanemap.db.crosscheck import check, diff
from lanemap.db.fragment import Source, elements
from lanemap.db.lookup import Query
from lanemap.db.schema import LAYOUT, metadata
from lanemap.ingest import catalogue

ALL = [each for each in catalogue.load()[1].fragments if each.elements is not None]
#: Types that one instruction can multiply with each other: their K is one.
MIXED = {"u8": "s8", "e5m2": "e4m3"}
AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn"}
#: Instructions whose operands share an accumulator: M and N are one for each of these, K one per type of A and B.
FAMILIES = [
    ("mma", "m16n8k16", ("f16", "bf16", "e4m3", "e5m2"), ("f16", "f32")),
    ("mma", "m16n8k16", ("s8", "u8"), ("s32",)),
    ("mma", "m16n8k8", ("tf32", "f16", "bf16"), ("f16", "f32")),
    ("mma", "m8n8k4", ("f64",), ("f64",)),
    ("mma", "m8n8k16", ("s8", "u8"), ("s32",)),
]


def family(instruction, shape, multiplicands, accumulators):
    return [
        each
        for each in ALL
        if (each.instruction, each.shape) == (instruction, shape)
        and each.type in (multiplicands if each.role in "AB" else accumulators)
    ]


@pytest.fixture(scope="module")
def memory():
    """A database in memory, and a function that compares two lists of fragments in it."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"))
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(text(LAYOUT))

    def verdicts(left, right):
        with engine.begin() as connection:
            for name, fragments in (("left", left), ("right", right)):
                store._replace(connection, Source(name, "import", name, fragments))
            return {pair.key: pair for pair in compare(connection, "left", "right")}

    verdicts.engine = engine
    return verdicts


def k_of(type_):
    return "k", MIXED.get(type_, type_)


def relabelled(fragment, permutations):
    """The fragment with its rows and columns renumbered; K by the fragment's own type."""
    table = fragment.elements.copy()
    for axis, name in zip(AXES[fragment.role], ("row", "col"), strict=True):
        permutation = permutations.get(axis if axis != "k" else k_of(fragment.type))
        if permutation is not None:
            table[name] = np.asarray(permutation)[table[name]]
    table["col_last"] = table["col"]
    return replace(fragment, elements=table)


def reproduces(pair, left, right):
    """Whether the permutations of a verdict take the one fragment to the other."""
    named = {axis if axis != "k" else k_of(left.type): value for axis, value in pair.permutations.items()}
    return np.array_equal(relabelled(left, named).elements, right.elements)


def sizes(fragments):
    m, k = next(each for each in fragments if each.role == "A").dimensions
    n = next(each for each in fragments if each.role == "B").dimensions[1]
    return {"m": m, "n": n} | {k_of(each.type): k for each in fragments if each.role == "A"}


@st.composite
def relabellings(draw):
    fragments = family(*draw(st.sampled_from(FAMILIES)))
    permutations = {}
    for axis, size in sizes(fragments).items():
        if draw(st.booleans()):
            permutations[axis] = tuple(draw(st.permutations(range(size))))
    return fragments, permutations


@given(relabellings())
@settings(max_examples=400, deadline=None)
def test_every_consistent_relabelling_is_found(memory, case):
    left, permutations = case
    right = [relabelled(each, permutations) for each in left]
    for key, pair in memory(left, right).items():
        one = next(each for each in left if each.key == key)
        other = next(each for each in right if each.key == key)
        expected = Verdict.IDENTICAL if one.digest == other.digest else Verdict.RELABELLED
        assert pair.verdict is expected, (key, permutations)
        assert reproduces(pair, one, other)
        if expected is Verdict.RELABELLED:
            mine = {"m": "m", "n": "n", k_of(one.type): "k"}
            moved = {mine[axis]: to for axis, to in permutations.items() if axis in mine and to != tuple(sorted(to))}
            assert pair.permutations == {axis: to for axis, to in moved.items() if axis in AXES[one.role]}


@given(relabellings(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_permutation_of_one_operand_alone_is_a_difference(memory, case, data):
    left, permutations = case
    shared = {"A": "k", "B": "k", "C": "m", "D": "n"}
    victim = data.draw(st.sampled_from(left))
    axis = shared[victim.role]
    size = victim.dimensions[AXES[victim.role].index(axis)]
    own = tuple(data.draw(st.permutations(range(size)).filter(lambda p: list(p) != sorted(p))))
    right = [relabelled(each, permutations) for each in left]
    extra = {axis if axis != "k" else k_of(victim.type): own}
    right = [relabelled(each, extra) if each.key == victim.key else each for each in right]
    told = memory(left, right)
    one = next(each for each in left if each.key == victim.key)
    other = next(each for each in right if each.key == victim.key)
    # The one permutation may happen to undo the other: then it is what it was.
    expected = {Verdict.IDENTICAL} if one.digest == other.digest else {Verdict.DIFFERENT}
    assert told[victim.key].verdict in expected


def corrupt(fragment, kind, data):
    table = fragment.elements.copy()
    rows, cols = fragment.dimensions
    if kind == "element":
        index = data.draw(st.integers(0, len(table) - 1))
        table["row"][index] = data.draw(st.integers(0, rows - 1))
        table["col"][index] = table["col_last"][index] = data.draw(st.integers(0, cols - 1))
    elif kind == "swap":
        one, other = data.draw(st.tuples(st.integers(0, len(table) - 1), st.integers(0, len(table) - 1)))
        for name in ("row", "col", "col_last"):
            table[name][[one, other]] = table[name][[other, one]]
    else:
        size = {"lane": 32, "reg": fragment.registers, "slot": fragment.slots}[kind]
        one, other = data.draw(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
        moved = table[kind].copy()
        table[kind] = np.where(moved == one, other, np.where(moved == other, one, moved))
        table = elements({name: table[name] for name in table.dtype.names})
    return replace(fragment, elements=table)


@given(st.sampled_from(FAMILIES), st.sampled_from(["element", "swap", "lane", "reg", "slot"]), st.data())
@settings(max_examples=1500, deadline=None)
def test_no_corruption_is_explained_away(memory, which, kind, data):
    """Whatever is done to one operand: identical or relabelled only if one renumbering of all of them makes it so."""
    left = family(*which)
    victim = data.draw(st.sampled_from(left))
    right = [corrupt(each, kind, data) if each.key == victim.key else each for each in left]
    told = memory(left, right)
    for one, other in zip(left, right, strict=True):
        pair = told[one.key]
        if pair.verdict is Verdict.IDENTICAL:
            assert one.digest == other.digest
        elif pair.verdict is Verdict.RELABELLED:
            assert reproduces(pair, one, other)
            assert consistent(told)
        else:
            assert pair.verdict is Verdict.DIFFERENT
            assert one.digest != other.digest
            unequal = np.count_nonzero(one.elements != other.elements)
            assert pair.count == unequal
            assert not explained(left, right)


def consistent(told):
    """All relabelled operands name the same permutation of each dimension."""
    named = {}
    for pair in told.values():
        for axis, permutation in pair.permutations.items():
            named.setdefault(axis if axis != "k" else k_of(pair.type), set()).add(permutation)
    return all(len(permutations) == 1 for permutations in named.values())


def explained(left, right):
    """By brute force over every slot: does one renumbering of each dimension take all of left to right?"""
    forward, backward = {}, {}
    for one, other in zip(left, right, strict=True):
        if not np.array_equal(one.elements[["lane", "reg", "slot"]], other.elements[["lane", "reg", "slot"]]):
            return False
        for axis, name in zip(AXES[one.role], ("row", "col"), strict=True):
            dimension = axis if axis != "k" else k_of(one.type)
            for before, after in zip(one.elements[name].tolist(), other.elements[name].tolist(), strict=True):
                if forward.setdefault((dimension, before), after) != after:
                    return False
                if backward.setdefault((dimension, after), before) != before:
                    return False
    return True


def window(fragment, inside):
    """A sparse A whose slots name one column each, or every column of their windows but the last."""
    table = fragment.elements.copy()
    if inside == "narrow":
        table["col_last"] -= 1
    return replace(fragment, elements=table)


@pytest.mark.parametrize("side", ["left", "right"])
def test_narrower_windows_refine(memory, side):
    sparse = [each for each in ALL if each.instruction == "mma.sp" and each.role == "A" and each.shape == "m16n8k32"]
    narrow = [window(each, "narrow") for each in sparse]
    told = memory(narrow, sparse) if side == "left" else memory(sparse, narrow)
    assert {pair.verdict for pair in told.values()} == {Verdict.REFINED}
    assert {pair.narrower for pair in told.values()} == {side}


def test_windows_can_be_relabelled(memory):
    """Whole chunks of a sparse A renumbered, and the rows of B alike."""
    left = [
        each
        for each in ALL
        if (each.instruction, each.shape) == ("mma.sp", "m16n8k16") and each.type in ("bf16", "f32")
    ]
    chunks = (2, 0, 3, 1)
    permutation = tuple(chunks[i // 4] * 4 + i % 4 for i in range(16))
    right = []
    for each in left:
        table = each.elements.copy()
        if each.role == "A":
            table["col"] = np.asarray(chunks)[table["col"] // 4] * 4
            table["col_last"] = table["col"] + 3
        elif each.role == "B":
            table["row"] = np.asarray(permutation)[table["row"]]
        right.append(replace(each, elements=table))
    told = memory(left, right)
    assert {pair.role: pair.verdict.value for pair in told.values()} == {
        "A": "relabelled",
        "B": "relabelled",
        "C": "identical",
        "D": "identical",
    }
    assert {pair.permutations["k"] for pair in told.values() if pair.permutations} == {permutation}
    only_a = [other if other.role == "A" else one for one, other in zip(left, right, strict=True)]
    assert {pair.role: pair.verdict.value for pair in memory(left, only_a).values()}["A"] == "different"


def sparse_f16():
    operands = {"A": "f16", "B": "f16", "C": "f32", "D": "f32"}
    return [
        each
        for each in ALL
        if (each.instruction, each.shape) == ("mma.sp", "m16n8k16") and operands[each.role] == each.type
    ]


def with_rows(fragment, rows):
    table = fragment.elements.copy()
    table["row"] = rows(table["row"])
    return replace(fragment, elements=table)


@pytest.mark.parametrize("rows", [lambda k: 15 - k, lambda k: k ^ 1, lambda k: (k + 4) % 16])
@pytest.mark.parametrize("exact", [False, True])
def test_k_of_a_sparse_b_alone_is_a_difference(memory, rows, exact):
    """Also where A is refined, and within a chunk, where the metadata counts."""
    left = sparse_f16()
    right = [with_rows(each, rows) if each.role == "B" else each for each in left]
    if exact:
        right = [window(each, "narrow") if each.role == "A" else each for each in right]
    told = {pair.role: pair.verdict for pair in memory(left, right).values()}
    assert told["B"] is Verdict.DIFFERENT
    assert told["A"] is (Verdict.REFINED if exact else Verdict.IDENTICAL)


def test_chunks_that_move_in_both_are_relabelled_though_a_is_refined(memory):
    left = sparse_f16()
    right = [with_rows(each, lambda k: k) if each.role == "B" else each for each in left]
    right = [window(each, "narrow") if each.role == "A" else each for each in right]
    assert {pair.verdict for pair in memory(left, right).values()} == {Verdict.IDENTICAL, Verdict.REFINED}


@pytest.mark.parametrize("role", ["A", "B", "C", "D"])
def test_an_operand_alone_cannot_be_relabelled(memory, role):
    """A renumbering that nothing else bears out is a difference, and asking for less does not change a verdict."""
    axis = {"A": "k", "B": "k", "C": "m", "D": "n"}[role]
    whole = [each for each in family(*FAMILIES[1]) if each.type in ("s8", "s32")]
    moved = {"k": k_of("s8")}.get(axis, axis)
    size = sizes(whole)[moved]
    right = [relabelled(each, {moved: tuple(reversed(range(size)))}) if each.role == role else each for each in whole]
    alone = [each for each in right if each.role == role]
    told = memory([each for each in whole if each.role == role], alone)
    assert {pair.verdict for pair in told.values()} == {Verdict.DIFFERENT}
    assert {pair.verdict for pair in memory(whole, right).values() if pair.role == role} == {Verdict.DIFFERENT}
    with memory.engine.connect() as connection:
        (asked,) = compare(connection, "left", "right", Query(role=role))
    assert asked.verdict is Verdict.DIFFERENT


def test_types_that_multiply_with_each_other_have_one_k(memory):
    left = family(*FAMILIES[1])
    reverse = tuple(reversed(range(16)))
    right = [relabelled(each, {k_of("u8"): reverse}) if each.type == "u8" else each for each in left]
    verdicts = {(pair.role, pair.type): pair.verdict for pair in memory(left, right).values()}
    assert verdicts["A", "u8"] is verdicts["B", "u8"] is Verdict.DIFFERENT
    both = [relabelled(each, {k_of("u8"): reverse}) for each in left]
    verdicts = {(pair.role, pair.type): pair.verdict for pair in memory(left, both).values()}
    assert verdicts["A", "u8"] is verdicts["B", "s8"] is Verdict.RELABELLED


def test_a_dense_operand_is_never_refined(memory):
    left = family(*FAMILIES[0])
    table = left[0].elements.copy()
    table["col"], table["col_last"] = 0, 15
    wide = [replace(left[0], elements=table), *left[1:]]
    assert memory(left, wide)[left[0].key].verdict is Verdict.DIFFERENT


def test_what_one_side_lacks_is_said_to_be_there_alone(memory):
    left = family(*FAMILIES[0])
    drawn = replace(left[0], elements=None, status="figure-only")
    told = memory(left, [drawn, *left[2:]])
    assert told[left[0].key].verdict is Verdict.LEFT_ONLY
    assert told[left[0].key].status == "figure-only"
    assert told[left[1].key].status == "not there"
    assert memory(left[1:], left)[left[0].key].verdict is Verdict.RIGHT_ONLY
    assert drawn.key not in memory([drawn], [drawn, left[1]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: np.where(t["reg"] == 1, t["col"] + 8, t["col"]) % 16, "reg 1: col is 8 too low"),
        (
            lambda t: np.where((t["reg"] == 1) & (t["lane"] == 3), t["col"] ^ 1, t["col"]),
            "reg 1, lane 3: slots 0 and 1 are exchanged",
        ),
    ],
)
def test_a_difference_is_told_as_a_person_would(memory, change, words):
    left = [each for each in family(*FAMILIES[0]) if (each.role, each.type) == ("A", "f16")]
    table = left[0].elements.copy()
    table["col"] = table["col_last"] = change(table)
    right = [replace(left[0], elements=table), *left[1:]]
    told = tell(memory, left, right)
    assert words in told[left[0].key].words


@pytest.mark.parametrize(
    ("name", "one", "other", "words"),
    [
        ("reg", 1, 2, "regs 1 and 2 are exchanged"),
        ("lane", 5, 9, "lanes 5 and 9 are exchanged"),
        ("slot", 0, 1, "slots 0 and 1 are exchanged"),
    ],
)
def test_what_is_exchanged_is_named(memory, name, one, other, words):
    left = [each for each in family(*FAMILIES[0]) if each.type == "f16"]
    victim = next(each for each in left if each.role == "A")
    table = victim.elements.copy()
    moved = table[name].copy()
    table[name] = np.where(moved == one, other, np.where(moved == other, one, moved))
    broken = replace(victim, elements=elements({each: table[each] for each in table.dtype.names}))
    right = [broken if each is victim else each for each in left]
    assert tell(memory, left, right)[victim.key].words == words


def tell(memory, left, right):
    memory(left, right)
    with memory.engine.connect() as connection:
        return {told.pair.key: told for told in diff(connection, "left", "right").told}


def test_every_differing_element_is_listed_once(memory):
    left = family(*FAMILIES[0])
    table = left[0].elements.copy()
    table["col"] = table["col_last"] = (table["col"] + 1) % 16
    right = [replace(left[0], elements=table[5:]), *left[1:]]
    pair = memory(left, right)[left[0].key]
    with memory.engine.connect() as connection:
        rows = differing(connection, pair)
        first = differing(connection, pair, limit=3)
    assert len(rows) == pair.count == len(table)
    assert first == rows[:3]
    assert Counter(row["right_row"] is None for row in rows) == {True: 5, False: len(table) - 5}
    places = [(row["lane"], row["reg"], row["slot"]) for row in rows]
    assert places == sorted(set(places))


@pytest.fixture(params=["sqlite", "postgresql"])
def both(request, built):
    """The shipped database on both servers: verdicts must be the same."""
    from lanemap.db.location import locate
    from lanemap.db.server import reading_engine

    url = str(built)
    if request.param == "postgresql":
        url = request.getfixturevalue("server")
        lanemap.open(url).close()
    engine = reading_engine(locate(url))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_the_document_against_the_card(both):
    for name, different in (("ptx-isa-9.1", 1), (lanemap.DEFAULT_SOURCE, 0)):
        counted = Counter(pair.verdict for pair in compare(both, name, "h200-sm_90a"))
        assert counted[Verdict.DIFFERENT] == different
        assert counted[Verdict.IDENTICAL] == 131 - different
        assert counted[Verdict.REFINED] == 14
        assert counted[Verdict.RIGHT_ONLY] == 41
        assert counted[Verdict.LEFT_ONLY] == 18


def test_the_whole_check(both):
    report = check(both)
    assert (report.unexplained, report.known) == (0, 3)
    assert [(each.source, each.known is not None) for each in report.findings] == [("ptx-isa-9.1", True)] * 2
    told = [each for comparison in report.comparisons for each in comparison.told if each.known]
    assert [(each.pair.key, each.words) for each in told] == [
        (("mma", "m16n8k256", "b1", "A", "row", None, None), "reg 1: col is 32 too high")
    ]


@pytest.mark.parametrize(
    ("left", "right", "query", "words"),
    [
        ("nobody", "ptx-isa-9.1", Query(), "no source nobody: there is ptx-isa-9.1"),
        ("ptx-isa-9.1", "h200-sm_90a", Query(shape="m1n1k1"), "has rows that match"),
    ],
)
def test_nothing_to_compare_is_an_error(both, left, right, query, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        compare(both, left, right, query)
