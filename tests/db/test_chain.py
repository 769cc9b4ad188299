"""Chains against a simulation: values are put where D is, moved as told, and read as A or B."""

from dataclasses import replace
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from sqlalchemy import create_engine, text

import lanemap
from lanemap.db import lookup
from lanemap.db.chain import Movement, chain, relabelled
from lanemap.db.fragment import dimensions
from lanemap.db.lookup import Query, fragments

SOURCE = lanemap.DEFAULT_SOURCE


@pytest.fixture(scope="module")
def database(built):
    with lanemap.open(str(built)) as database:
        yield database


def distinct(database, role):
    """One operand of a role for each different layout."""
    seen = {}
    for each in fragments(database.reader, Query(role=role, source=SOURCE)):
        if each.has_rows:
            seen.setdefault((each.digest, each.dimensions), each)
    return list(seen.values())


def query(each):
    return Query(*(getattr(each, name) for name in ("shape", "type", "role", "instruction", "major")), source=SOURCE)


@cache
def elements(database, operand):
    return lookup.find(database.reader, operand).records()


def simulated(database, found):
    """What every slot of A or B holds after the moves, and what it should hold; by tile, lane, reg, slot."""
    first, second = found.first, found.second
    down, across = first.dimensions
    if found.transposed:
        down, across = across, down
    height, width = map(max, (down, across), second.dimensions)
    given, taken = elements(database, query(first)), elements(database, query(second))
    computations = max(each["computation"] for each in given)
    whole = np.random.default_rng(1).permutation(height * width * computations).reshape(-1, height, width).tolist()
    held = {}
    for each in given:
        row, col = (each["col"], each["row"]) if found.transposed else (each["row"], each["col"])
        for y, x in product(range(height // down), range(width // across)):
            value = whole[each["computation"] - 1][y * down + row][x * across + col]
            held[y, x, each["lane"], each["reg"], each["slot"]] = value
    moved = {move[:5]: held[move[-5:]] for move in found.moves}
    right = {}
    for each in taken:
        for y, x in product(range(height // second.dimensions[0]), range(width // second.dimensions[1])):
            row, col = y * second.dimensions[0] + each["row"], x * second.dimensions[1] + each["col"]
            if found.order and second.role == "A":
                col = found.order[col]
            elif found.order:
                row = found.order[row]
            right[y, x, each["lane"], each["reg"], each["slot"]] = whole[each["computation"] - 1][row][col]
    return moved, right


def found(database, first, second, transposed=False):
    operands = (Query(*words.split(), source=SOURCE) for words in (first, second))
    return chain(database.reader, *operands, transposed=transposed)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("role", ["A", "B"])
def test_moving_as_told_makes_the_operand(database, role, transposed):
    tried = 0
    for first, second in product(distinct(database, "D"), distinct(database, role)):
        if second.instruction == "mma.sp" and role == "A":
            continue
        try:
            told = chain(database.reader, query(first), query(second), transposed=transposed)
        except lanemap.LanemapError as error:
            assert "computations" in str(error)
            continue
        tried += 1
        moved, right = simulated(database, told)
        assert moved == right
        stays = all(move.lane == move.from_lane for move in told.moves)
        assert (told.movement is Movement.NONE) == stays
        if anew := relabelled(told):
            assert anew.movement is Movement.NONE
            assert sorted(anew.order) == list(range(len(anew.order)))
            moved, right = simulated(database, anew)
            assert moved == right
    assert tried > 20


@pytest.mark.parametrize(
    ("first", "second", "transposed", "verdict", "as_they_are"),
    [
        ("m16n8k16 f32 D", "m16n8k16 f16 A", False, Movement.NONE, False),
        ("m16n8k16 f16 D", "m16n8k16 f16 A", False, Movement.NONE, True),
        ("m16n8k16 f16 D", "m16n8k16 bf16 B", True, Movement.NONE, True),
        ("m16n8k16 f16 D", "m16n8k16 f16 B", False, Movement.WARP, False),
        ("m16n8k32 f32 D", "m16n8k32 e4m3 A", False, Movement.QUAD, False),
        ("m16n8k8 f32 D", "m16n8k8 tf32 A", False, Movement.QUAD, False),
    ],
)
def test_what_is_known(database, first, second, transposed, verdict, as_they_are):
    """Among them those that fused attention kernels rest on: P as A in 16 bits as it stands, and not in 8 bits."""
    told = found(database, first, second, transposed)
    assert (told.movement, told.registers_stay) == (verdict, as_they_are)


def test_the_order_for_8_bits_is_that_of_fused_attention(database):
    p = found(database, "m16n8k32 f32 D", "m16n8k32 e4m3 A")
    assert relabelled(p).order[:16] == (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)


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
    rows, cols = dimensions(*second.split()[::2])
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


def test_beside_a_sparse_a_whole_chunks_are_numbered_anew(database):
    """A chunk that is torn or in another order breaks 2:4, or what its metadata says."""
    whole = torn = 0
    sparse = fragments(database.reader, Query(role="B", instruction="mma.sp", source=SOURCE))
    sparse = {(each.digest, each.slot_bits): each for each in sparse if each.has_rows}
    for first, second, transposed in product(distinct(database, "D"), sparse.values(), (False, True)):
        try:
            told = chain(database.reader, query(first), query(second), transposed=transposed)
        except lanemap.LanemapError:
            continue
        anew = relabelled(told)
        if anew is None:
            torn += relabelled(replace(told, second=replace(told.second, instruction="mma"))) is not None
            continue
        whole += 1
        width = second.chunk
        chunks = [anew.order[at : at + width] for at in range(0, len(anew.order), width)]
        assert all(chunk == tuple(range(chunk[0], chunk[0] + width)) for chunk in chunks)
        assert all(chunk[0] % width == 0 for chunk in chunks)
        moved, right = simulated(database, anew)
        assert moved == right
    assert whole > 0
    assert torn > 0


def test_postgresql_has_the_same_chains(database, server):
    url = server.replace("postgresql", "postgresql+psycopg", 1)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE chains"))
    engine.dispose()
    with lanemap.open(server.replace("/postgres?", "/chains?")) as other:
        for second, transposed in (("m16n8k16 f16 A", False), ("m8n8k4 f64 B", True)):
            both = [found(each, "m16n8k16 f32 D", second, transposed).moves for each in (database, other)]
            assert both[0] == both[1]
