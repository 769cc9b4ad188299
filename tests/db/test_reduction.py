"""Reductions along rows and columns: followed lane by lane, every element of a line is met, and met once."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanemap
from lanemap.db.flow.reduction import LINES, reduction
from lanemap.db.layout.fragment import elements

from ..modes import LONG, one_of_each
from ..shipped import corrected, everything

#: Every layout that lanes hold, once, of every source that ships.
HELD = {
    (fragment.digest, fragment.registers, fragment.slots, fragment.dimensions): fragment
    for source in everything()
    for fragment in source.with_rows
    if not fragment.memory
}


def lines(fragment, along):
    """The cells of each line, counted once, and for each lane and element the line and the cell that it holds."""
    held, cells = {}, defaultdict(set)
    for n, (lane, reg, slot, row, col, last, computation) in enumerate(fragment.tuples()):
        line = computation, row if along == "row" else col
        cell = n if col < last else (computation, row, col)
        held[lane, reg * fragment.slots + slot] = line, cell
        cells[line].add(cell)
    return held, cells


def simulated(found):
    """The cells that a lane has met of the line of each of its values, with repetitions, as shuffles pass them on."""
    held, _ = lines(found.fragment, found.along)
    at = range(found.fragment.threads)
    state = [[[held[lane, one][1] for one in value if (lane, one) in held] for value in found.values] for lane in at]
    # An element that a lane holds twice is not in any value twice.
    for mask in found.masks:
        partner = [[list(value) for value in state[lane ^ mask]] for lane in at]
        state = [[own + its for own, its in zip(*pair, strict=True)] for pair in zip(state, partner, strict=True)]
    return state


def proved(found):
    """Whether every lane has met all elements of its lines that its warp holds, each once, and other warps the rest."""
    fragment = found.fragment
    held, cells = lines(fragment, found.along)
    by_warp = defaultdict(set)
    for (lane, _), (line, cell) in held.items():
        by_warp[lane // fragment.group, line].add(cell)
    for lane, values in enumerate(simulated(found)):
        for value, met in zip(found.values, values, strict=True):
            mine = {held[lane, one][0] for one in value if (lane, one) in held}
            assert len(mine) == (1 if met else 0)
            for line in mine:
                assert sorted(met) == sorted(by_warp[lane // fragment.group, line])
    extent = fragment.ranges[found.along].stop
    said = {line: parts for parts, several in found.warps.items() for line in several}
    for line, whole in cells.items():
        parts = said.get((line[0] - 1) * extent + line[1], ())
        sharing = {warp for warp, its in by_warp if its == line}
        if not parts:
            assert all(by_warp[warp, line] == whole for warp in sharing)
            continue
        assert {warp for part in parts for warp in part} == sharing
        one_of_each = [cell for part in parts for cell in by_warp[part[0], line]]
        assert sorted(one_of_each) == sorted(whole)
        assert all(by_warp[warp, line] == by_warp[part[0], line] for part in parts for warp in part)


def possible(fragment, along):
    return along == "row" or not (fragment.table["col"] < fragment.table["col_last"]).any()


def kind(fragment):
    return fragment.instruction, fragment.role, fragment.slots, fragment.windowed, fragment.computations


def follow(fragments, along):
    """Proves all but those that are wrong: the printed A of m16n8k256 holds some cells twice and others never."""
    refused = []
    for fragment in fragments:
        if possible(fragment, along):
            found = reduction(fragment, along)
            if found.masks is None:
                refused.append((str(fragment), found.reason.partition(" take ")[0]))
                assert str(found).count(found.reason[:20]) == 1
            else:
                proved(found)
    return refused


@pytest.mark.parametrize("along", LINES)
def test_layouts_that_ship_are_reduced_by_masks(along):
    """One of each kind, and in the long mode all, of which one is wrong."""
    refused = follow(one_of_each(kind, HELD.values(), lambda fragment: len(fragment.table)), along)
    assert refused == [("A of mma m16n8k256 b1", "no XOR masks")] * LONG


D = next(fragment for fragment in corrected() if str(fragment) == "D of mma m16n8k16 f32")


def moved(fragment, lanes):
    """The same in other lanes."""
    table = fragment.table
    return replace(
        fragment, elements=elements({name: table[name] for name in table.dtype.names} | {"lane": lanes[table["lane"]]})
    )


@given(st.permutations(range(32)), st.sampled_from([*LINES]))
def test_lanes_in_any_order_are_reduced_rightly_or_not_at_all(order, along):
    found = reduction(moved(D, np.array(order)), along)
    if found.masks is None:
        rows = {tuple(sorted(lanes)) for lanes in holders(found)}
        masks = {lanes[0] ^ other for lanes in rows for other in lanes}
        assert any({lane ^ mask for lane in lanes} != {*lanes} for lanes in rows for mask in masks)
    else:
        proved(found)


def holders(found):
    by_line = defaultdict(set)
    for (lane, _), (line, _) in lines(found.fragment, found.along)[0].items():
        by_line[line].add(lane)
    return by_line.values()


@given(st.permutations(range(5)), st.integers(0, 31), st.sampled_from([*LINES]))
def test_lanes_whose_bits_are_exchanged_and_flipped_are_always_reduced(bits, flipped, along):
    order = np.array([sum((lane >> bit & 1) << to for bit, to in enumerate(bits)) ^ flipped for lane in range(32)])
    found = reduction(moved(D, order), along)
    proved(found)
    assert sorted(found.masks) == sorted(1 << bits[bit] for bit in ((0, 1) if along == "row" else (2, 3, 4)))


def test_what_lanes_hold_twice_is_not_added_twice():
    """A of an instruction of which the upper half of a warp has what the lower has."""
    lane = np.arange(32)[:, None]
    table = elements(
        {
            "lane": np.repeat(np.arange(32), 2),
            "reg": np.tile([0, 1], 32),
            "slot": np.zeros(64, int),
            "row": (lane % 16 // 4 + np.array([0, 4])).ravel(),
            "col": (lane % 4 + np.array([0, 0])).ravel(),
        }
    )
    found = reduction(lanemap.Fragment("mine", "m8n8k4", "f32", "A", 2, 1, table, threads=32))
    assert (found.masks, found.copies) == ((1, 2), (16,))
    proved(found)
    assert "masks 16 reach the same elements again" in str(found)


@pytest.mark.parametrize("along", LINES)
def test_of_one_layout_each_fragment_answers_under_its_own_name(database, along):
    """And of one with a group of another size not even the same."""
    first, second = (database.fragment("m16n8k16", type, "A") for type in ("f16", "bf16"))
    for fragment in (first, second, replace(second, source="ours")):
        found = reduction(fragment, along)
        assert found.fragment is fragment
        assert str(found).startswith(f"{fragment} along each")
        assert f"source: {fragment.source}\n" in str(found)
    assert reduction(replace(first, threads=64), along).line.tolist() == reduction(first, along).line.tolist()
    moved = replace(first, elements=first.table[first.table["lane"] < 16])
    assert str(reduction(moved, along)) != str(reduction(first, along))


def test_registers_of_other_rows_in_some_lanes_are_said_and_listed():
    table = D.table.copy()
    table["reg"] = np.where(table["lane"] == 9, (table["reg"] + 2) % 4 ^ (table["reg"] & 1), table["reg"])
    swapped = replace(D, elements=elements({name: table[name] for name in table.dtype.names}))
    found = reduction(swapped)
    assert (found.masks, found.values) == (None, None)
    assert "lane 9 has its rows in other registers than lane 0" in str(found)
    assert {row["value"] for row in found.rows().records()} == {None}


def test_warps_that_hold_parts_of_a_row_need_shared_memory_and_copies_do_not():
    """Four warps, 2 x 2: of a D two share each row, of an A those along N have all of it."""
    fragments = {}
    for role, across in (("D", 8), ("A", 0)):
        table = np.concatenate([D.table] * 4)
        warp = np.repeat(np.arange(4), len(D.table))
        columns = {name: table[name].astype(int) for name in table.dtype.names}
        columns["lane"] += warp * 32
        columns["row"] += warp // 2 * 16
        columns["col"] += warp % 2 * across
        columns["col_last"] = columns["col"]
        shape = f"m32n{8 + across}k8"
        fragments[role] = lanemap.Fragment("mma", shape, "f32", role, 4, 1, elements(columns), threads=128)
    found = reduction(fragments["D"])
    assert found.warps == {((0,), (1,)): [*range(16)], ((2,), (3,)): [*range(16, 32)]}
    assert "warps:  0, 1 share rows 0-15" in str(found)
    proved(found)
    assert found.verdict == "2 shuffles of each of 2 rows, then shared memory between warps"
    held = reduction(fragments["A"])
    assert held.warps == {}
    proved(held)
    assert reduction(fragments["A"], "col").warps == {((0, 1), (2, 3)): [*range(8)]}
    proved(reduction(fragments["A"], "col"))


@pytest.mark.parametrize(
    ("operand", "shape", "warps"),
    [
        ("m16n8k16 f32 D", "m64n64", "2x2"),
        ("m16n8k16 f16 A", "m32k32", "2x2"),
        ("m16n8k8 tf32 B", "n32k16", "1x4"),
        ("m8n8k4 f32 D", "m16n16", "1x2"),
        ("m64n8k16 f32 D", "m128n16", "2x1"),
    ],
)
@pytest.mark.parametrize("along", LINES)
def test_tiles(database, operand, shape, warps, along):
    found = database.reduce(replace(lanemap.Query.parse(operand), tile=shape, warps=warps), along)
    assert found.masks is not None
    proved(found)
    shared = {"row": warps[2] != "1", "col": warps[0] != "1"}[along] and found.fragment.role == "D"
    assert bool(found.warps) >= shared
    assert "thread" in found.rows().columns


def test_warps_that_have_some_elements_of_a_row_in_common_are_refused():
    table = np.concatenate([D.table, D.table])
    columns = {name: table[name].astype(int) for name in table.dtype.names}
    columns["lane"] += np.repeat([0, 32], len(D.table))
    columns["col"] += np.repeat([0, 4], len(D.table))
    columns["col_last"] = columns["col"]
    found = reduction(lanemap.Fragment("mma", "m16n12k8", "f32", "D", 4, 1, elements(columns), threads=64))
    assert found.masks is None
    assert found.reason == "warps share some elements of row 0, but not all"


def test_a_recorded_sum_of_numbers(database):
    """The masks add up the rows of a matrix as they are, also of two computations."""
    for operand in ("m16n8k16 f32 D", "m8n8k4 f32 D", "m64n24k16 f32 D"):
        found = database.reduce(operand)
        fragment = found.fragment
        matrix = np.random.default_rng(0).integers(0, 1000, (fragment.computations, *fragment.dimensions))
        held = np.zeros((fragment.threads, fragment.per_thread), int)
        table = fragment.table
        held[table["lane"], table["reg"]] = matrix[table["computation"] - 1, table["row"], table["col"]]
        sums = np.stack([held[:, value].sum(axis=1) for value in map(list, found.values)], axis=1)
        for mask in found.masks:
            sums = sums + sums[np.arange(fragment.threads) ^ mask]
        for row in found.rows().records():
            expected = matrix[row["computation"] - 1, row["row"]].sum()
            assert sums[row["lane"], row["value"]] == expected


@pytest.mark.parametrize(
    ("operand", "along", "words"),
    [
        ("m64n8k16 f16 A 128B.K", "row", "lies in shared memory: no lane holds a row of it"),
        ("m16n8k32 f16 A mma.sp", "col", "metadata chooses the columns"),
        ("m16n8k16 f32 D", "diagonal", "'diagonal' is neither row nor col"),
        ("m8n8k4 f16 A", "row", "name one"),
    ],
)
def test_what_cannot_be_reduced_says_why(database, operand, along, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        database.reduce(operand, along)


def test_the_command(run):
    said = run("reduce", "m16n8k16", "f32", "D", "--along", "row")
    assert "masks:  1, 2, in this order" in said.out
    assert run("reduce", "m16n8k16", "f32", "D", "--format", "jsonl").out.count('"masks": "1 2"') == 128
