"""Chains against a simulation: values are put where D is, moved as told, and read as A or B."""

from collections import Counter
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap import DEFAULT_SOURCE
from lanemap.db.errors import LanemapError
from lanemap.db.flow.chain import Chains, Movement, chain, operand, relabelled
from lanemap.db.flow.recipe import pairs, recipe
from lanemap.db.layout.fragment import Fragment, by_rule, elements
from lanemap.db.lookup import Query, read_fragments

from ..modes import SOME_OR_ALL

SOURCE = DEFAULT_SOURCE


def distinct(database, role, source=SOURCE, **query):
    """One operand of a role for each different layout."""
    found = [
        fragment
        for fragment in read_fragments(database.reader, Query(role=role, source=source, **query))
        if fragment.digest and fragment.memory != "Tensor Memory"
    ]
    return list({(fragment.digest, fragment.dimensions, fragment.slot_bits): fragment for fragment in found}.values())


def simulated(found):
    """What every slot of A or B holds after the moves, and what it should hold; by tile, lane, reg, slot."""
    first, second = found.first, found.second
    down, across = first.dimensions[::-1] if found.transposed else first.dimensions
    rows, cols = second.dimensions
    height, width = max(down, rows), max(across, cols)
    given, taken = first.records(), second.records()
    computations = max(element.computation for element in given)
    whole = np.random.default_rng(1).permutation(height * width * computations).reshape(-1, height, width).tolist()
    held = {}
    for element in given:
        row, col = (element.col, element.row) if found.transposed else (element.row, element.col)
        for y, x in product(range(height // down), range(width // across)):
            held[y, x, *element[:3]] = whole[element.computation - 1][y * down + row][x * across + col]
    moved = {move[:5]: held[move[-5:]] for move in found.moves}
    right = {}
    for element in taken:
        for y, x in product(range(height // rows), range(width // cols)):
            row, col = y * rows + element.row, x * cols + element.col
            if found.order and second.role == "A":
                col = found.order[col]
            elif found.order:
                row = found.order[row]
            right[y, x, *element[:3]] = whole[element.computation - 1][row][col]
    return moved, right, held


def registers_are_those_of_d(found, right, held):
    """Whether each register of the operand holds, slot by slot, what some register of D in the same lane holds.

    The bits of a value are those of its type: an f32 may be taken as a tf32, and b16 are the bits of any type.
    """
    types = {found.first.type, found.second.type}
    if len(types) > 1 and types != {"f32", "tf32"} and "b16" not in types:
        return False
    if found.first.slots != found.second.slots or found.first.register_bits != found.second.register_bits:
        return False
    sides = []
    for slots in (held, right):
        registers = {}
        for (*register, slot), value in slots.items():
            registers.setdefault(tuple(register), {})[slot] = value
        sides.append({(register[2], tuple(sorted(values.items()))) for register, values in registers.items()})
    return sides[1] <= sides[0]


def found(database, first, second, transposed=False):
    operands = (operand(database.reader, Query(*words.split(), source=SOURCE)) for words in (first, second))
    return chain(*operands, transposed=transposed)


@pytest.mark.few(4)
@SOME_OR_ALL
@pytest.mark.parametrize(
    ("instruction", "role"), [(None, "A"), (None, "B"), ("wmma", "A"), ("wmma", "B"), ("wgmma", "A")]
)
def test_moving_as_told_makes_the_operand(database, instruction, role, step):
    """Of mma, mma.sp and movmatrix, as documented, and of what was measured."""
    tried = 0
    which = {"instruction": instruction} if instruction else {}
    source = "h200-sm_90a" if instruction else SOURCE
    dense = [fragment for fragment in distinct(database, role, source, **which) if not fragment.windowed]
    narrow = [fragment for fragment in distinct(database, "D", source, **which) if fragment.dimensions[1] <= 32]
    for number, first in enumerate(narrow):
        for told in Chains.of(first, dense[number % step :: step]):
            tried += 1
            moved, right, held = simulated(told)
            assert moved == right
            assert (told.movement is Movement.NONE) == all(move.lane == move.from_lane for move in told.moves)
            assert told.registers_stay == registers_are_those_of_d(told, right, held)
            renumbered = relabelled(told)
            assert (renumbered is told) == (told.movement is Movement.NONE)
            if renumbered and renumbered is not told:
                assert renumbered.movement is Movement.NONE
                assert sorted(renumbered.order) == list(range(len(renumbered.order)))
                moved, right, _ = simulated(renumbered)
                assert moved == right
    assert tried * step > 20


def test_an_f32_is_taken_as_a_tf32(database):
    assert relabelled(found(database, "m16n8k8 f32 D", "m16n8k8 tf32 A")).registers_stay


@given(st.permutations(range(4)))
def test_registers_stay_only_where_every_slot_does(database, order):
    """D of s8 packs, as it were: four slots in a register, in any order."""
    second = operand(database.reader, Query("m16n8k16", "s8", "A", source=SOURCE))
    table = second.elements.copy()
    table["slot"] = np.asarray(order)[table["slot"]]
    table = table[np.lexsort((table["slot"], table["reg"], table["lane"]))]
    first = replace(second, role="D", shape="m16n16k16", elements=table)
    told = chain(first, second)
    assert told.movement is Movement.NONE
    assert told.registers_stay == (order == [0, 1, 2, 3]) == registers_are_those_of_d(told, *simulated(told)[1:])


def test_registers_that_are_torn_do_not_stay(database):
    """Every slot is where it is taken, but of two registers."""
    second = operand(database.reader, Query("m16n8k16", "s8", "A", source=SOURCE))
    columns = {name: second.elements[name].astype(int) for name in second.elements.dtype.names}
    columns["reg"] ^= columns["slot"] & 1
    told = chain(replace(second, role="D", shape="m16n16k16", elements=elements(columns)), second)
    assert told.movement is Movement.NONE
    assert all(move.slot == move.from_slot for move in told.moves)
    assert told.registers_stay is registers_are_those_of_d(told, *simulated(told)[1:]) is False


def test_what_cannot_be_chained_is_left_out(database):
    """Of four products, or with columns that metadata chooses."""
    first = operand(database.reader, Query("m16n8k16", "f32", "D", source=SOURCE))
    every = [fragment for fragment in read_fragments(database.reader, Query(source=SOURCE)) if fragment.digest]
    taken = {told.second.key for told in Chains.of(first, every)}
    assert {
        (fragment.role, fragment.computations, fragment.windowed) for fragment in every if fragment.key in taken
    } == {
        ("A", 1, False),
        ("B", 1, False),
    }


@pytest.mark.parametrize(
    ("first", "second", "transposed", "verdict", "as_they_are"),
    [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", False, Movement.NONE, False),
        ("m16n8k16 f16 D", "m16n8k16 f16 A", False, Movement.NONE, True),
        ("m16n8k16 f16 D", "m16n8k16 f16 B", True, Movement.NONE, True),
        ("m16n8k16 f16 D", "m16n8k16 bf16 B", True, Movement.NONE, False),
        ("m16n8k16 f16 D", "m16n8k16 f16 B", False, Movement.FAR, False),
        ("m16n8k32 f32 D", "m16n8k32 e4m3 A", False, Movement.NEAR, False),
        ("m16n8k8 f32 D", "m16n8k8 tf32 A", False, Movement.NEAR, False),
        ("m64n64k16 f32 D", "m64n64k16 f16 A", False, Movement.NONE, False),
        ("m64n128k16 f16 D", "m64n64k16 f16 A", False, Movement.NONE, True),
        ("m64n64k32 f32 D", "m64n64k32 e4m3 A", False, Movement.NEAR, False),
    ],
)
def test_what_is_known(database, first, second, transposed, verdict, as_they_are):
    """Among them those that fused attention kernels rest on: P as A in 16 bits as it stands, and not in 8 bits."""
    told = found(database, first, second, transposed)
    assert (told.movement, told.registers_stay) == (verdict, as_they_are)


def test_those_that_renumber_k_are_apart_unless_asked_for(database):
    plain, asked = (database.chain("m16n8k16 f32 D", relabel=relabel) for relabel in (False, True))
    assert all(entry.order is None and not entry.moves_values for entry in plain)
    assert all(entry.order and not entry.moves_values for entry in plain.renumbered)
    assert {(entry.second.key, entry.transposed) for entry in [*plain, *plain.renumbered]} == {
        (entry.second.key, entry.transposed) for entry in asked
    }
    assert plain.renumbered
    assert asked.renumbered == []


@pytest.mark.parametrize("shape", ["m16n8k32", "m64n64k32"])
def test_the_order_for_8_bits_is_that_of_fused_attention(database, shape):
    """Of a warp, and of a warpgroup."""
    p = found(database, f"{shape} f32 D", f"{shape} e4m3 A")
    renumbered = relabelled(p)
    assert renumbered.order[:16] == (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
    moved, right, _ = simulated(renumbered)
    assert moved == right


@pytest.mark.parametrize(
    ("first", "second", "transposed"),
    [
        ("m16n8k8 f32 D", "m16n8k8 tf32 A", False),
        ("m16n8k8 f32 D", "m16n8k8 f16 B", True),
        ("m8n8k4 f64 D", "m8n8k4 f64 A", False),
        ("m8n8k4 f64 D", "m8n8k4 f64 B", False),
        ("m8n8k4 f64 D", "m8n8k4 f64 B", True),
    ],
)
def test_a_numbering_is_found_where_trying_all_finds_one(database, first, second, transposed):
    told = found(database, first, second, transposed)
    rows, cols = told.second.dimensions
    depth = (cols if second[-1] == "A" else rows) * told.tiles[1][second[-1] == "A"]
    lanes = {}
    for move in told.moves:
        row, col = move.tile_row * rows + move.row, move.tile_col * cols + move.col
        k, end = (col, row) if second[-1] == "A" else (row, col)
        lanes[k, end] = (move.lane, move.from_lane)
    ends = {end for _, end in lanes}
    possible = any(
        all(lanes[k, end][0] == lanes[order[k], end][1] for k in range(depth) for end in ends)
        for order in permutations(range(depth))
    )
    assert (relabelled(told) is not None) == possible


def test_moves_are_in_the_order_of_their_tiles(database):
    told = database.chain("wmma m16n16k16 f32 D", "m8n8k4 f64 A")
    assert told.tiles == ((1, 1), (2, 4))
    assert told.moves == sorted(told.moves)


def test_beside_a_sparse_a_no_chunk_is_torn(database):
    """A chunk that is torn or in another order breaks 2:4, or what its metadata says."""
    torn = 0
    for first in distinct(database, "D"):
        for told in Chains.of(first, distinct(database, "B", instruction="mma.sp")):
            if relabelled(told) is None:
                torn += relabelled(replace(told, second=replace(told.second, instruction="mma"))) is not None
            else:
                assert told.movement is Movement.NONE
    assert torn > 0


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_beside_a_sparse_a_whole_chunks_are_renumbered(database, type_):
    first = operand(database.reader, Query("m16n8k16", "f16", "D", source=SOURCE))
    second = operand(database.reader, Query("m16n8k16", type_, "B", "mma.sp", source=SOURCE))
    assert chain(first, second, transposed=True).movement is Movement.NONE
    for bits in (4, 12):
        columns = {name: second.elements[name] for name in second.elements.dtype.names}
        columns["row"] = columns["row"] ^ bits
        told = chain(first, replace(second, elements=elements(columns)), transposed=True)
        renumbered = relabelled(told)
        assert told.movement is not Movement.NONE
        assert {*zip(renumbered.order[::4], renumbered.order[3::4], strict=True)} == {(0, 3), (4, 7), (8, 11), (12, 15)}
        moved, right, _ = simulated(renumbered)
        assert moved == right


def test_copies_in_one_lane_are_renumbered_alike(database):
    """A of wmma f16 holds every element twice in a lane: its K is renumbered as if it were once."""
    first = operand(database.reader, Query("m8n8", "b16", "D", "movmatrix", source=SOURCE))
    second = operand(database.reader, Query("m16n16k16", "f16", "A", "wmma", source=SOURCE))
    assert Counter((element.row, element.col) for element in second.records()) == Counter(
        2 * [*product(range(16), repeat=2)]
    )
    columns = {name: second.elements[name] for name in second.elements.dtype.names}
    columns["col"] = columns["col_last"] = columns["col"] ^ 6
    shuffled = replace(second, elements=elements(columns))
    told = chain(first, shuffled)
    assert told.movement is not Movement.NONE
    assert relabelled(told).order == tuple(k ^ 6 for k in range(16))
    moved, right, _ = simulated(relabelled(told))
    assert moved == right


def test_operands_of_one_layout_share_their_moves(database):
    """So that a list of all operands is quick, and small in memory."""
    first = operand(database.reader, Query("m64n128k16", "f32", "D", source=SOURCE))
    seconds = read_fragments(database.reader, Query(type="f16", role="A", instruction="wgmma", source=first.source))
    told = Chains.of(first, seconds)
    assert len(told) == 2 * len(seconds) > 2
    assert {entry.second.key for entry in told} == {second.key for second in seconds}
    assert len({id(entry.table) for entry in told}) == 2


def test_a_layout_in_a_larger_matrix_is_another_one(database):
    """As of a source that lacks some of its elements."""
    first = operand(database.reader, Query("m16n8k16", "f16", "D", source=SOURCE))
    second = operand(database.reader, Query("m16n8k8", "f16", "A", source=SOURCE))
    both = [second, replace(second, shape="m16n8k16")]
    told = [entry for entry in Chains.of(first, both) if entry.transposed]
    assert [entry.moves for entry in told] == [chain(first, fragment, transposed=True).moves for fragment in both]
    assert [entry.tiles[1] for entry in told] == [(1, 2), (1, 1)]


def test_from_an_operand_that_takes_the_chains_are_those_from_each_d(database):
    second = operand(database.reader, Query("m16n8k16", "f16", "A", source=SOURCE))
    givers = distinct(database, "D")
    told = {(entry.first.key, entry.transposed): entry.moves for entry in Chains.of(second, givers)}
    assert told
    for first in givers:
        there = {(first.key, entry.transposed): entry.moves for entry in Chains.of(first, [second])}
        assert {key: told.get(key) for key in there} == there


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda first, second: (first[first["lane"] > 0], second), "D of mma m16n8k16 f16 lacks values that A of"),
        (lambda first, second: (outside(first, "row", 16), second), "lacks values that A of"),
        (lambda first, second: (outside(first, "col", -1), second), "lacks values that A of"),
        (lambda first, second: (first, outside(second, "computation", 2)), "computation 2 is outside D of"),
    ],
)
def test_a_damaged_layout_is_not_chained(database, change, words):
    ends = [operand(database.reader, Query("m16n8k16", "f16", role, source=SOURCE)) for role in "DA"]
    tables = change(*(end.elements for end in ends))
    damaged = [replace(end, elements=table) for end, table in zip(ends, tables, strict=True)]
    with pytest.raises(LanemapError, match=words):
        chain(*damaged)


def outside(table, name, place):
    """A table with its first element at another place."""
    moved = table.copy()
    moved[name][0] = place
    moved["col_last"] = moved["col"]
    return moved


def matrix_core(name, shape, type_, role, blocks=1):
    """An operand of AMD's matrix cores: 64 lanes, of which each block of the shape has as many as it has rows of A.

    A and B have four elements of K in each lane, D groups of four rows.
    """
    m, n, _ = (int(number) for number in shape[1:].replace("n", " ").replace("k", " ").split())
    size = m if role == "A" else n
    lanes, registers = np.arange(64)[:, None], 2 if role != "D" else m * n * blocks // 64
    slots = 1 if role == "D" else 2
    element = np.arange(registers * slots)[None]
    group = lanes // size
    block, part = (group % blocks, group // blocks) if blocks > 1 else (0 * group, group)
    if role == "D":
        row, col = element // 4 * 4 * (64 // size // blocks) + part * 4 + element % 4, lanes % size + 0 * element
    else:
        row, col = lanes % size + 0 * element, part * 4 + element
        row, col = (row, col) if role == "A" else (col, row)
    table = by_rule(slots, row, col, computation=block + 1)
    return Fragment(name, shape, type_, role, registers, slots, table, threads=64)


@pytest.mark.parametrize("name", ["v_mfma_f32_f16", "somebodys_product"])
@pytest.mark.parametrize(("shape", "blocks"), [("m32n32k8", 1), ("m16n16k16", 1), ("m4n4k4", 16)])
def test_a_product_of_64_lanes_that_nobody_has_heard_of_is_chained_with_itself(name, shape, blocks):
    """D is B of the next as it stands, and transposed A; every move is right whatever the layout."""
    d, a, b = (
        matrix_core(name, shape, type_, role, blocks) for type_, role in (("f32", "D"), ("f16", "A"), ("f16", "B"))
    )
    assert max(element.lane for element in d.records()) == 63
    verdicts = {(entry.second.role, entry.transposed): entry.movement for entry in Chains.of(d, [a, b])}
    exchanged = Movement.NEAR if (name, blocks) == ("v_mfma_f32_f16", 16) else Movement.FAR
    assert verdicts == {
        ("B", False): Movement.NONE,
        ("A", True): Movement.NONE,
        ("A", False): exchanged,
        ("B", True): exchanged,
    }
    for told in Chains.of(d, [a, b]):
        moved, right, _ = simulated(told)
        assert moved == right
        assert len(moved) == 64 * 4 * told.tiles[1][0] * told.tiles[1][1]


def lanes_renumbered(fragment, lanes):
    columns = {name: fragment.elements[name] for name in fragment.elements.dtype.names}
    return replace(fragment, elements=elements(columns | {"lane": np.asarray(lanes)[columns["lane"]]}))


@pytest.mark.parametrize(
    ("name", "swapped", "movement", "verdict"),
    [
        ("v_mfma_f32_f16", 15, Movement.NEAR, "data movement within the row"),
        ("v_mfma_f32_f16", 16, Movement.FAR, "data movement across the wavefront"),
        ("somebodys_product", 1, Movement.FAR, "data movement across the group"),
        ("somebodys_product", 32, Movement.FAR, "data movement across the group"),
    ],
)
def test_lanes_that_exchange_cheaply_are_those_of_the_vendor(name, swapped, movement, verdict):
    """A row of 16 lanes for AMD; of an unknown one nothing is said to be near."""
    d, b = (matrix_core(name, "m32n32k8", type_, role) for type_, role in (("f32", "D"), ("f16", "B")))
    told = chain(d, lanes_renumbered(b, np.arange(64) ^ swapped))
    assert (told.movement, told.verdict) == (movement, verdict)
    moved, right, _ = simulated(told)
    assert moved == right
    assert verdict in told.text(200)


@given(st.permutations(range(64)), st.sampled_from(["A", "B"]), st.booleans())
def test_64_lanes_in_any_order_move_to_where_they_are_taken(order, role, transposed):
    d, other = (
        matrix_core("somebodys_product", "m16n16k16", "f32", "D"),
        matrix_core("somebodys_product", "m16n16k16", "f16", role),
    )
    told = chain(d, lanes_renumbered(other, order), transposed=transposed)
    for entry in filter(None, (told, relabelled(told))):
        moved, right, _ = simulated(entry)
        assert moved == right


def test_k_of_a_c_or_of_half_an_operand_is_not_renumbered(database):
    d, c = (operand(database.reader, Query("m16n8k16", "f32", role, source=SOURCE)) for role in "DC")
    told = chain(d, lanes_renumbered(c, np.arange(32) ^ 1))
    assert relabelled(told) is None
    assert "C has no K that could be renumbered" in told.text(200)
    told = found(database, "m16n8k32 s32 D", "m16n8k32 s8 A")
    assert relabelled(told)
    assert relabelled(chain(told.first, replace(told.second, elements=told.second.elements[:-1]))) is None


def test_values_that_leave_their_warp_are_said_to(database):
    """A warpgroup is four warps, of which no two exchange values by shuffles."""
    first = operand(database.reader, Query("m64n64k16", "f16", "D", source=SOURCE))
    second = operand(database.reader, Query("m64n64k16", "f16", "A", source=SOURCE))
    assert chain(first, lanes_renumbered(second, np.arange(128) ^ 32)).verdict == "data movement between warps"
    assert chain(first, lanes_renumbered(second, np.arange(128) ^ 16)).verdict == "data movement across the warp"
    assert chain(first, lanes_renumbered(second, np.arange(128) ^ 3)).verdict == "data movement within the quad"


def test_what_moves_registers_of_a_warp_is_not_offered_to_other_vendors(database):
    """Neither movmatrix for a chain, nor ldmatrix for an operand."""
    moved = tuple(database.fragment("m8n8", "b16", role, instruction="movmatrix") for role in "AD")
    d, a = database.fragment("m16n8k16", "f16", "D"), database.fragment("m16n8k16", "f16", "B")
    told = replace(chain(d, a), movmatrix=moved)
    assert told.through_movmatrix()
    assert not replace(told, second=replace(a, instruction="v_mfma_f32_f16")).through_movmatrix()
    known = pairs(database.reader, Query("ldmatrix", role="r"))
    for name, words in (("v_mfma_f32_f16", "is AMD's, and ldmatrix"), ("somebodys_product", "cannot move")):
        with pytest.raises(LanemapError, match=words):
            recipe(known, matrix_core(name, "m32n32k8", "f16", "A"), "row")
    with pytest.raises(LanemapError, match="is held by 48 lanes"):
        recipe(known, replace(matrix_core("somebodys_product", "m32n32k8", "f16", "A"), threads=48), "row")


def small(role, lane, computation=1):
    """An operand of two rows and a column, of an instruction that nobody knows, whose elements are in these lanes."""
    lanes = np.asarray(lane)
    numbers = np.broadcast_to(computation, lanes.shape)
    row = np.arange(lanes.size) % 2
    columns = {"lane": lanes, "reg": 0 * row, "slot": 0 * row, "row": row, "col": 0 * row, "computation": numbers}
    return Fragment("somebodys_product", "m2n1k2", "f32", role, 1, 1, elements(columns), threads=8)


def test_a_value_that_several_lanes_hold_is_taken_from_the_lane_that_needs_it():
    d, b = small("D", [0, 1, 2, 3]), small("B", [2, 3])
    assert chain(d, b).movement is Movement.NONE
    assert chain(d, small("B", [5, 4])).table["from_lane"].tolist() == [1, 0]


def test_products_of_one_instruction_are_not_taken_for_each_other():
    """Where K is renumbered, too: each lane needs of each product just what it holds of another row."""
    d, b = small("D", [1, 0, 0, 1], [1, 1, 2, 2]), small("B", [0, 1, 1, 0], [1, 1, 2, 2])
    assert relabelled(chain(d, b)).order == (1, 0)
    with pytest.raises(LanemapError, match="have 2 and 1 computations"):
        chain(d, small("B", [0, 1]))


def test_k_is_not_renumbered_across_the_blocks_of_every_scale(database):
    """All products of e2m1 in 4 bits have block scales: of 16 or 32 elements."""
    a = database.fragment("m16n8k64", "e2m1", "A")
    table, (run, part) = a.elements, np.divmod(a.elements["col"], 8)
    for moved, order in ((table["col"] ^ 8, [k ^ 8 for k in range(64)]), (run % 4 * 16 + run // 4 * 8 + part, None)):
        columns = {name: table[name] for name in ("lane", "reg", "slot", "row")} | {"col": moved}
        d = Fragment("somebodys_product", "m16n64k8", "f32", "D", a.registers, a.slots, elements(columns))
        renumbered = relabelled(chain(d, a))
        assert (renumbered and [*renumbered.order]) == order
        assert not (renumbered and renumbered.torn_scales)


def test_what_lies_in_tensor_memory_is_no_end_of_a_chain(database):
    """Its lanes are those of the memory, and no threads."""
    held = database.fragment("tcgen05.mma m64n64k16 f32", role="D", qualifiers="ws")
    assert held.memory == "Tensor Memory"
    with pytest.raises(LanemapError, match="lies in Tensor Memory: chain what tcgen05.ld loads of it"):
        database.chain("tcgen05.mma m64n64k16 f32 D ws", "m16n8k16 f16 A")
    with pytest.raises(LanemapError, match="lies in Tensor Memory: no lane holds a row of it"):
        database.reduce("tcgen05.mma m64n64k16 f32 D ws")


def test_a_chain_to_shared_memory_asks_how_the_matrix_lies_there(database):
    for asked in ({}, {"through": "128B"}):
        with pytest.raises(LanemapError, match="say how B of wgmma m64n64k16 f16 lies in shared memory: none.K"):
            database.chain("m64n64k16 f32 D", "m64n64k16 f16 B", **asked)
    with pytest.raises(LanemapError, match="128B.K lies in shared memory: say how the tile is swizzled"):
        database.chain("m64n64k16 f32 D", "m64n64k16 f16 B 128B.K")
