"""Recipes against a simulated warp: memory of numbered bits is moved as told, and compared with the operand's rows."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

import lanemap
from lanemap.db.flow.chain import as_half_pairs, chain
from lanemap.db.flow.recipe import form_of, formula, pairs, recipe
from lanemap.db.isa.instructions import in_tensor_memory, tile
from lanemap.db.layout.fragment import Element, elements
from lanemap.db.lookup import Query, read_fragments

from ..forms import MOVES
from ..shipped import CORRECTED

MAJORS = ("row", "col")


def asked(database, move, operand, major="row", **options):
    """The recipe for a tile of one major."""
    ends = (operand, move) if "stmatrix" in move else (move, operand)
    return database.chain(*ends, major=major, **options)[0]


@pytest.fixture(scope="module")
def known(database):
    """ldmatrix and stmatrix with each of their qualifiers."""
    moves = [*product(("ldmatrix", "stmatrix"), [("m8n8", "b16")]), ("ldmatrix", ("m8n16", "b8x16"))]
    moves.append(("ldmatrix", ("m16n16", "b8")))
    found = [pairs(database.reader, Query(*shape, "r", name, source="h200-sm_90a")) for name, shape in moves]
    return dict(zip(("ldmatrix", "stmatrix", "widening", "bytes"), found, strict=True))


@pytest.fixture(scope="module")
def operands(database):
    """One dense operand of one product for each layout of an instruction, of wgmma the narrow ones."""
    every = [fragment for fragment in read_fragments(database.reader, Query()) if fragment.digest]
    dense = [
        fragment
        for fragment in every
        if fragment.role in "ABCD"
        and not fragment.windowed
        and fragment.computations == 1
        and not tile(fragment.key)
        and not in_tensor_memory(fragment.key)
    ]
    few = [
        fragment
        for fragment in dense
        if fragment.instruction not in ("wgmma.sp", "movmatrix") and fragment.dimensions[1] < 33
    ]
    few += [fragment for fragment in dense if fragment.instruction == "mma" and fragment.dimensions[1] > 32]
    return list(
        {
            (fragment.instruction, fragment.digest, fragment.dimensions, fragment.slot_bits): fragment
            for fragment in few
        }.values()
    )


def numbered(operand, major, count=1):
    """A tile in memory of which every bit is a number of its own, and the bits that each register should hold.

    It holds several operands, A below each other and the others side by side.
    """
    rows, cols = operand.dimensions
    whole = (count * rows, cols) if operand.role == "A" else (rows, count * cols)
    lines, places = whole if major == "row" else whole[::-1]
    table, width = operand.elements, operand.slot_bits
    memory = np.arange(lines * places * width).reshape(lines, -1)
    registers = np.full((count, operand.threads, operand.registers * operand.register_bits), -1)
    for number in range(count):
        row = table["row"] + (number * rows if operand.role == "A" else 0)
        col = table["col"] + (0 if operand.role == "A" else number * cols)
        line, place = (row, col) if major == "row" else (col, row)
        for bit in range(width):
            at = table["reg"] * operand.register_bits + table["slot"] * width + bit
            registers[number, table["lane"], at] = memory[line, place * width + bit]
    return memory, np.hstack(registers)


def bits_of(move):
    """Lane, bit of its registers, lane that passes the address, and bit after it, of every bit that a move moves."""
    passing = {(of["computation"], of["row"]): of["lane"] for of in move.p.elements}
    table, width = move.r.elements.astype([(name, int) for name in Element._fields]), move.r.slot_bits
    by = [passing[at["computation"], at["row"]] for at in table]
    first = 32 * table["reg"] + width * table["slot"], width * table["col"]
    bit, after = (np.add.outer(start, np.arange(width)).ravel() for start in first)
    return np.repeat(table["lane"], width), bit, np.repeat(by, width), after


def followed(known, found):
    """Every bit that a recipe moves: lane, bit of its registers, line of memory, bit of the line; arrays."""
    first, parts = 0, []
    for step, used in enumerate(found.moves):
        move = next(pair for pair in known if pair.r is used)
        passed = sorted(
            (address.lane, address.line, address.byte) for address in found.addresses if address.step == step
        )
        lanes, lines, bytes_ = np.transpose(passed)
        assert np.array_equal(lanes, range(found.operand.threads))
        lane, bit, by, after = bits_of(move)
        held = 32 * np.asarray(found.registers)[first + bit // 32] + bit % 32
        warps = range(0, found.operand.threads, 32)
        parts += [(warp + lane, held, lines[warp + by], 8 * bytes_[warp + by] + after) for warp in warps]
        first += used.registers
    return np.hstack(parts)


def assert_made(right, memory, known, loaded):
    """The registers are right after a load, and the tile is all of the memory."""
    registers = np.full_like(right, -1)
    lane, bit, line, at = followed(known, loaded)
    registers[lane, bit] = memory[line, at]
    assert np.array_equal(registers, right), loaded.operand
    assert loaded.tile == (len(memory), memory.shape[1] // 8)


def found(known, operand, major, count=1):
    try:
        return recipe(known, operand, major, count)
    except lanemap.LanemapError:
        return None


def possible(known, operand, major, count):
    """Whether trying every address finds rows of memory that make every register, all with or all without .trans.

    Where a matrix fills two registers, any two may be those.
    """
    memory, registers = numbered(operand, major, count)
    starts = {line[at : at + 128].tobytes() for line in memory for at in range(0, len(line) - 127, 128)}
    words = registers.shape[1] // 32

    def fills(move, into):
        lane, bit, by, after = bits_of(move)
        rows = np.full((operand.threads // 32, 32, 128), -1)
        rows[:, by, after] = registers.reshape(-1, 32, registers.shape[1])[
            :, lane, 32 * np.asarray(into)[bit // 32] + bit % 32
        ]
        return all(row.tobytes() in starts for row in rows[:, np.unique(by)].reshape(-1, 128))

    def makes(move, left):
        ways = (into for into in permutations(left, move.r.registers) if left[0] in into)
        return not left or any(makes(move, [*{*left} - {*into}]) for into in ways if fills(move, into))

    return any(makes(move, [*range(words)]) for move in known if move.r.computations == 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("major", MAJORS)
def test_loading_by_a_recipe_makes_the_operand(known, operands, major, count):
    made = []
    for operand in operands:
        loaded = found(known["ldmatrix"], operand, major, count)
        assert (loaded is not None) == possible(known["ldmatrix"], operand, major, count), operand
        if loaded is None:
            continue
        memory, right = numbered(operand, major, count)
        assert_made(right, memory, known["ldmatrix"], loaded)
        made.append((operand.role, operand.slot_bits))
    if major == "row":
        assert {("A", bits) for bits in (1, 4, 8, 16, 32)} | {("B", 16), ("D", 16)} <= {*made}
    else:
        assert {("B", bits) for bits in (1, 4, 8, 16, 32)} | {("A", 16), ("D", 16)} <= {*made}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("major", MAJORS)
def test_bytes_are_transposed(known, operands, major, count):
    """A from a column-major tile, and B from a row-major one, which takes an even number: its lines have 16 bytes."""
    made = set()
    for operand in operands:
        if operand.slot_bits != 8 or operand.instruction == "wgmma":
            continue
        loaded = found(known["bytes"], operand, major, count)
        number = loaded.count if loaded else count
        assert (loaded is not None) == possible(known["bytes"], operand, major, number), operand
        if loaded is None:
            continue
        assert number == count or (number == count + 1 and not possible(known["bytes"], operand, major, count))
        memory, right = numbered(operand, major, number)
        assert_made(right, memory, known["bytes"], loaded)
        assert "target:  sm_100f sm_110f sm_120f" in str(loaded)
        made.add((operand.role, operand.shape))
    expected = {"col": {("A", "m16n8k16"), ("A", "m16n8k32")}, "row": {("B", "m16n8k16"), ("B", "m16n8k32")}}
    assert made >= expected[major]


def test_what_no_target_has_together_is_no_recipe(known, database):
    """wgmma is for sm_90a alone, where no move transposes bytes."""
    operand = database.fragment("m64n8k32", "e4m3", "A")
    with pytest.raises(lanemap.LanemapError, match=r"it needs sm_100f sm_110f sm_120f, and wgmma needs sm_90a"):
        recipe(known["bytes"], operand, "col")
    assert recipe(known["bytes"], replace(operand, instruction="somebodys_product"), "col")


@pytest.mark.parametrize(("role", "major"), [("A", "row"), ("B", "col")])
@pytest.mark.parametrize("type_", ["e2m1", "e2m3", "e3m2"])
def test_elements_of_4_and_6_bits_are_widened(known, database, type_, role, major):
    """In memory each is in a place of 8 bits, as in the register. Along the other axis no load makes the operand."""
    operand = database.fragment("m16n8k32", type_, role)
    loaded = recipe(known["widening"], operand, major)
    memory, right = numbered(operand, major)
    assert_made(right, memory, known["widening"], loaded)
    assert form_of(loaded.moves[0], operand).mnemonic.endswith(".b4x16_p64" if type_ == "e2m1" else ".b6x16_p32")
    assert found(known["widening"], operand, "col" if major == "row" else "row") is None
    assert found(known["widening"], database.fragment("m16n8k64", "e2m1", role), major) is None, "two to a byte"


@pytest.mark.parametrize(("role", "major"), [("A", "row"), ("B", "col")])
@pytest.mark.parametrize(
    ("type_", "width", "shift"), [("e2m1", 4, 2), ("e2m3", 6, 0), ("e3m2", 6, 0), ("e4m3", 8, 0), ("s8", 8, 0)]
)
def test_after_the_shift_elements_have_the_bits_that_the_product_reads(
    known, database, type_, width, shift, role, major
):
    """By the document: narrow elements fill the first bytes of each 16 (9.7.14.5.15), and come out in the lowest bits.

    The product reads e2m1 from bits 2 to 5, e2m3 and e3m2 from the lowest 6 (9.7.14.5.14). Patterns are random, since
    those of zeros and ones show no bit that is lost.
    """
    operand = database.fragment("m16n8k32", type_, role)
    loaded = recipe(known["widening" if width < 8 else "ldmatrix"], operand, major)
    assert loaded.shift == shift
    rows, cols = operand.dimensions
    lines, places_ = (rows, cols) if major == "row" else (cols, rows)
    codes = np.random.default_rng(0).integers(0, 1 << width, (lines, places_))
    stored = (codes[..., None] >> np.arange(width) & 1).reshape(lines, -1, 16 * width)
    memory = np.concatenate([stored, np.ones((lines, places_ // 16, 128 - 16 * width), int)], axis=2)
    widened = np.zeros((lines, places_, 8), int)
    widened[..., :width] = memory[..., : 16 * width].reshape(lines, places_, width)
    registers = np.zeros((32, operand.registers), np.uint32)
    lane, bit, line, at = followed(known["widening" if width < 8 else "ldmatrix"], loaded)
    np.bitwise_or.at(registers, (lane, bit // 32), (widened[line, at // 8, at % 8] << bit % 32).astype(np.uint32))
    registers <<= np.uint32(loaded.shift)
    first = 2 if type_ == "e2m1" else 0
    for element in operand.records():
        line, place = (element.row, element.col) if major == "row" else (element.col, element.row)
        assert registers[element.lane, element.reg] >> (8 * element.slot) & 0xFF == codes[line, place] << first
    assert [*operand.occupied_bits] == [*range(first, first + width)]
    text = " ".join(str(loaded).split())
    assert (f"shift each register left by {shift}: e2m1 has bits 2-5 of each 8" in text) == bool(shift)


def test_what_fills_its_slot_is_not_shifted(operands, known, database):
    """Two e2m1 to a byte have no padding (9.7.14.5.14), and what a move leaves in registers is in their lowest bits."""
    assert database.fragment("m16n8k64", "e2m1", "A").occupied_bits == range(4)
    claimed = replace(database.fragment("m16n8k32", "e2m1", "A"), instruction="somebodys_product")
    assert claimed.occupied_bits == range(2, 6)
    assert replace(claimed, first_bit=None).occupied_bits == range(8), "nothing is known of it"
    assert {pair.r.occupied_bits for pair in known["widening"]} == {range(8)}
    for operand in operands:
        narrow = operand.type in ("e2m1", "e2m3", "e3m2") and operand.slot_bits == 8
        assert narrow or operand.occupied_bits == range(operand.slot_bits)


def test_moves_are_spelled_as_in_the_table_of_forms(known, database):
    operand = database.fragment("m16n8k16", "f16", "A")
    every = {form.mnemonic for form in MOVES if form.name in ("ldmatrix", "stmatrix") and form.shape == "m8n8"}
    assert {form_of(pair.r, operand).mnemonic for name in ("ldmatrix", "stmatrix") for pair in known[name]} == every


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("major", MAJORS)
def test_storing_by_a_recipe_makes_the_matrix(known, operands, major, count):
    made = set()
    for operand in [operand for operand in operands if operand.role == "D" and operand.slot_bits in (16, 32)]:
        stored = recipe(known["stmatrix"], operand, major, count)
        assert stored.packed == (operand.slot_bits == 32)
        assert_stored(known, stored)
        made.add((operand.instruction, operand.slot_bits))
    assert {("mma", 16), ("mma", 32), ("wgmma", 16), ("wgmma", 32)} <= made


def assert_stored(known, stored):
    """The tile that a recipe stores is the matrix."""
    held = as_half_pairs(stored.operand) if stored.packed else stored.operand
    right, registers = numbered(held, stored.major, stored.count)
    memory = np.full_like(right, -1)
    lane, bit, line, at = followed(known["stmatrix"], stored)
    memory[line, at] = registers[lane, bit]
    assert np.array_equal(memory, right)
    assert stored.tile == (len(memory), memory.shape[1] // 8)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("major", MAJORS)
def test_what_was_loaded_from_tensor_memory_is_stored(known, database, major, count):
    """The epilogue of a kernel for Blackwell: only lanes that hold a row side by side can write it row by row."""
    made = set()
    for operand in read_fragments(database.reader, Query(instruction="tcgen05.ld", source="cutlass-4.2.0")):
        if (
            operand.computations == 1
            and operand.registers <= 32
            and (stored := found(known["stmatrix"], operand, major, count))
        ):
            assert_stored(known, stored)
            made.add((operand.shape, "pack::16b" in operand.qualifiers, stored.packed))
    in_order = {("16x256b", False, True), ("16x128b", False, False), ("16x128b", True, False)}
    assert in_order & made == (in_order if major == "row" else in_order - {("16x128b", False, False)})
    assert (("32x32b", False, False) in made) == (major == "col")


def rearranged(operand, change):
    """An operand whose elements are elsewhere: ``change`` is given its columns, and gives those that are others."""
    columns = {name: operand.elements[name].astype(int) for name in operand.elements.dtype.names}
    return replace(operand, elements=elements(columns | change(columns)))


@pytest.mark.parametrize(
    ("change", "can"),
    [
        (lambda of: {"reg": of["reg"] ^ 1}, True),
        (lambda of: {"row": of["row"] ^ 5}, True),
        (lambda of: {"lane": of["lane"] ^ 4 * 7}, True),
        (lambda of: {name: of[name] ^ 8 for name in ("col", "col_last")}, True),
        (lambda of: {"lane": np.where(of["lane"] % 8 == 0, of["lane"] ^ 8, of["lane"])}, False),
        (lambda of: {"reg": np.where(of["lane"] == 5, of["reg"] ^ 1, of["reg"])}, False),
        (lambda of: {"slot": of["slot"] ^ 1}, False),
        (lambda of: {name: of[name] ^ 2 for name in ("col", "col_last")}, False),
    ],
)
def test_an_operand_that_is_not_like_any_is_loaded_if_it_can_be(known, database, change, can):
    """Registers, rows and blocks of lanes in another order need other addresses; what is inside of a row must stay."""
    operand = rearranged(database.fragment("m16n8k16", "f16", "A"), change)
    loaded = found(known["ldmatrix"], operand, "row")
    assert (loaded is not None) == possible(known["ldmatrix"], operand, "row", 1) == can
    if loaded:
        memory, right = numbered(operand, "row")
        lane, bit, line, at = followed(known["ldmatrix"], loaded)
        assert np.array_equal(right[lane, bit], memory[line, at])


@pytest.mark.parametrize("role", ["A", "D"])
def test_an_operand_with_a_hole_has_no_recipe(known, database, role):
    whole = database.fragment("m16n8k16", "f16", role)
    with pytest.raises(lanemap.LanemapError, match=f"in some of {role} a slot holds nothing"):
        recipe(known["stmatrix" if role == "D" else "ldmatrix"], replace(whole, elements=whole.elements[:-1]), "row")


def test_windows_of_two_chunks_say_not_what_is_kept(known, database):
    operand = database.fragment("mma.sp m16n8k16 f16", role="A", source="h200-sm_90a")
    assert recipe(known["ldmatrix"], operand, "row")
    wide = rearranged(operand, lambda of: {"col_last": of["col_last"] + operand.chunk})
    with pytest.raises(lanemap.LanemapError, match="does not say which chunk of 4 columns"):
        recipe(known["ldmatrix"], wide, "row")


def test_a_chunk_of_several_lanes_or_more_than_half_of_its_columns_is_refused(known, database):
    operand = database.fragment("mma.sp m16n8k16 f16", role="A", source="h200-sm_90a")
    columns = {"col": operand.elements["col"] // 8 * 8, "col_last": operand.elements["col"] // 8 * 8 + 3}
    crowded = rearranged(operand, lambda of: columns | {"lane": of["lane"] // 4 * 4})
    shared = rearranged(operand, lambda of: {"lane": of["lane"] ^ of["slot"]})
    for wrong in (crowded, shared):
        with pytest.raises(lanemap.LanemapError, match="does not say which chunk of 4 columns"):
            recipe(known["ldmatrix"], wrong, "row")


def test_movmatrix_does_not_join_halves_of_two_registers(database):
    first, second = database.fragment("m16n8k16", "f16", "D"), database.fragment("m16n8k16", "f16", "B")
    moved = tuple(database.fragment("m8n8", "b16", role, instruction="movmatrix") for role in "AD")
    assert replace(chain(first, second), movmatrix=moved).through_movmatrix()
    joined = rearranged(second, lambda of: {"reg": of["reg"] ^ of["slot"]})
    assert replace(chain(first, joined), movmatrix=moved).through_movmatrix() is None


def test_movmatrix_transposes_in_each_warp_of_a_warpgroup(database):
    moved = tuple(database.fragment("m8n8", "b16", role, instruction="movmatrix") for role in "AD")
    first = database.fragment("m64n8k16", "f16", "D")
    block = replace(first, shape="m64n8k8", role="A")
    turned = rearranged(
        block, lambda of: {"row": of["row"] // 8 * 8 + of["col"], "col": of["row"] % 8, "col_last": of["row"] % 8}
    )
    assert len(replace(chain(first, turned), movmatrix=moved).through_movmatrix()) == first.registers
    swapped = rearranged(turned, lambda of: {"lane": of["lane"] ^ 32})
    assert replace(chain(first, swapped), movmatrix=moved).through_movmatrix() is None


def test_packing_keeps_the_order_of_elements(operands):
    for operand in operands:
        half = as_half_pairs(operand)
        assert (half is not None) == (operand.slot_bits == 32 and operand.registers % 2 == 0)
        if half:
            fields = ["lane", "row", "col", "computation"]
            assert np.array_equal(half.elements[fields], operand.elements[fields])
            assert (half.slots, half.slot_bits, half.registers * 2) == (2, 16, operand.registers)


def test_expressions_say_what_the_addresses_are(known, operands):
    tried = 0
    for operand, major, name in product(operands, MAJORS, ("ldmatrix", "stmatrix")):
        for step in range(len(made.moves) if (made := found(known[name], operand, major)) else 0):
            addresses = [address for address in made.addresses if address.step == step]
            for field in ("line", "byte"):
                values = eval(formula(addresses, field), {}, {"lane": np.arange(operand.threads)})
                assert (
                    np.broadcast_to(values, operand.threads) == [getattr(address, field) for address in addresses]
                ).all()
                tried += 1
    assert tried > 100


def test_addresses_that_no_expression_gives_are_listed(known, database):
    operand = database.fragment("m16n8k16", "f16", "A")
    addresses = recipe(known["ldmatrix"], operand, "row").addresses
    mixed = [address._replace(line=(address.lane * address.lane) % 13) for address in addresses]
    assert formula(mixed, "line").split() == [str(lane * lane % 13) for lane in range(32)]


@pytest.mark.parametrize(
    ("move", "operand", "major", "qualifiers"),
    [
        ("ldmatrix m8n8 b16 r", "m16n8k16 f16 A", "row", ["x4"]),
        ("ldmatrix m8n8 b16 r", "m16n8k16 f16 A", "col", ["x4.trans"]),
        ("ldmatrix m8n8 b16 r", "m16n8k16 bf16 B", "col", ["x2"]),
        ("ldmatrix m8n8 b16 r", "m16n8k16 bf16 B", ".Row", ["x2.trans"]),
        ("ldmatrix m8n8 b16 r", "m16n8k32 e4m3 A", "row", ["x4"]),
        ("ldmatrix m8n8 b16 r", "m16n8k4 tf32 A", "row", ["x2"]),
        ("ldmatrix m8n8 b16 r", "m8n8k16 s8 B", "col", ["x1"]),
        ("ldmatrix m8n8 b16 r", "m64n64k16 f16 A", "row", ["x4"]),
        ("stmatrix m8n8 b16 r", "m16n8k16 f32 D", "row", ["x2"]),
        ("stmatrix m8n8 b16 r", "m64n24k16 f32 D", "col", ["x4.trans", "x2.trans"]),
    ],
)
def test_what_is_known(database, move, operand, major, qualifiers):
    """Among them what every kernel with ldmatrix does."""
    assert [entry.qualifiers for entry in asked(database, move, operand, major=major).moves] == qualifiers


@pytest.mark.parametrize(
    ("move", "operand", "major", "count", "qualifiers"),
    [
        ("ldmatrix m8n8 b16 r", "m16n8k16 f16 B", "col", 2, ["x4"]),
        ("ldmatrix m8n8 b16 r", "m16n8k16 f16 B", "row", 2, ["x4.trans"]),
        ("ldmatrix m8n8 b16 r", "m16n8k32 e4m3 B", "col", 2, ["x4"]),
        ("ldmatrix m8n8 b16 r", "m16n8k8 f16 A", "row", 2, ["x4"]),
        ("ldmatrix m8n8 b16 r", "m16n8k8 bf16 B", "col", 7, ["x4", "x2", "x1"]),
        ("stmatrix m8n8 b16 r", "m16n8k16 f32 D", "row", 2, ["x4"]),
    ],
)
def test_neighbours_share_a_move(database, move, operand, major, count, qualifiers):
    """As in every kernel that loads two B with one ldmatrix.x4."""
    made = asked(database, move, operand, major=major, count=count)
    assert [move.qualifiers for move in made.moves] == qualifiers


@pytest.mark.parametrize("count", [0, -1, 17])
def test_neighbours_are_a_few(database, count):
    with pytest.raises(lanemap.LanemapError, match=f"invalid count {count}: 1 to 16 neighbours"):
        asked(database, "ldmatrix m8n8 b16 r", "m16n8k16 f16 B", count=count)


@pytest.mark.parametrize(
    ("sparse", "dense"),
    [
        ("mma.sp m16n8k16 f16 A", "mma m16n8k8 f16 A"),
        ("mma.sp m16n8k32 bf16 A", "mma m16n8k16 bf16 A"),
        ("mma.sp m16n8k8 tf32 A", "mma m16n8k4 tf32 A"),
        ("mma.sp m16n8k16 tf32 A", "mma m16n8k8 tf32 A"),
        ("mma.sp m16n8k32 s8 A", "mma m16n8k16 s8 A"),
        ("mma.sp m16n8k64 e4m3 A", "mma m16n8k32 e4m3 A"),
        ("mma.sp m16n8k64 u4 A", "mma m16n8k32 u4 A"),
        ("mma.sp m16n8k128 s4 A", "mma m16n8k64 s4 A"),
        ("wgmma.sp m64n24k32 f16 A", "wgmma m64n24k16 f16 A"),
        ("wgmma.sp m64n24k64 s8 A", "wgmma m64n24k32 s8 A"),
    ],
)
def test_what_is_kept_of_a_sparse_a_is_loaded_as_a_dense_one(database, sparse, dense):
    """Half of K is stored, and registers hold it as they hold a dense A of that K."""
    card = {"role": "A", "source": "h200-sm_90a"}
    fragments = {name: database.fragment(name.removesuffix(" A"), **card) for name in (sparse, dense)}
    known = pairs(database.reader, Query("m8n8", "b16", "r", "ldmatrix"))
    for major, count in product(MAJORS, (1, 2)):
        made = [found(known, fragment, major, count) for fragment in fragments.values()]
        assert (made[0] is None) == (made[1] is None)
        if made[0]:
            assert (made[0].addresses, made[0].tile) == (made[1].addresses, made[1].tile)
            assert made[0].operand is fragments[sparse]
    assert made[0] or fragments[dense].slot_bits != 16


@pytest.mark.parametrize(
    ("move", "words"),
    [
        ("ldmatrix m16n16 b8 r", "m16n16 b8 cannot move A of .* in a row-major tile: the lanes that share"),
        ("stmatrix m16n8 b8 r", "no source has the addresses of stmatrix m16n8 b8: name"),
        ("ldmatrix m8n16 b8x16 r", "is for elements of 4 and 6 bits in bytes of their own, not A of mma m16n8k32 e4m3"),
    ],
)
def test_moves_of_other_shapes_are_not_mixed_with_it(database, move, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        asked(database, move, "m16n8k32 e4m3 A")
    plain = asked(database, "ldmatrix r", "m16n8k32 e4m3 A")
    assert plain.addresses == asked(database, "ldmatrix m8n8 b16 r", "m16n8k32 e4m3 A").addresses
    assert {move.shape for move in plain.moves} == {"m8n8"}


def test_a_recipe_is_rows_and_a_frame(database):
    made = asked(database, "ldmatrix m8n8 b16 r", "m16n8k16 f16 A")
    frame = made.frame()
    assert list(frame) == ["major", "step", "qualifiers", "matrix", "reg", "lane", "line", "byte", "address", "shift"]
    assert frame["lane"].tolist() == list(range(32))
    assert frame["line"].tolist() == [lane % 16 for lane in range(32)]
    assert frame["byte"].tolist() == [lane // 16 * 16 for lane in range(32)]
    assert frame["address"].tolist() == [lane % 16 * 32 + lane // 16 * 16 for lane in range(32)]
    assert frame["reg"].tolist() == [lane // 8 for lane in range(32)] == [number - 1 for number in frame["matrix"]]


def moved_by_movmatrix(plain, found, given, taken):
    """Where each slot of the registers that movmatrix makes has its value from, and where it should, in one matrix."""
    place = {(element.row, element.col): (element.lane, element.slot) for element in given.records()}
    origin = {(element.lane, element.slot): place[element.col, element.row] for element in taken.records()}
    first, second = as_half_pairs(plain.first) or plain.first, plain.second
    turn = (lambda row, col: (col, row)) if plain.transposed else lambda row, col: (row, col)
    height, width = turn(*first.dimensions)
    held = {element[:3]: turn(element.row, element.col) for element in first.records()}
    for move, element in product(found, second.records()):
        if element.reg == move.reg:
            lane, slot = origin[element.lane % 32, element.slot]
            row, col = held[element.lane // 32 * 32 + lane, move.from_reg, slot]
            comes = move.from_tile_row * height + row, move.from_tile_col * width + col
            rows, cols = second.dimensions
            yield comes, (move.tile_row * rows + element.row, move.tile_col * cols + element.col)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("mma", {("A", True), ("B", False)}),
        ("wmma", {("A", True), ("B", False), ("A", False), ("B", True)}),
        ("wgmma", set()),  # values would move between warps
    ],
)
def test_movmatrix_makes_the_operand_of_d(database, name, made):
    """Each register of D, moved as the rows of movmatrix say, is a register of A or B; or no way is found."""
    given, taken = (database.fragment("m8n8", "b16", role, instruction="movmatrix") for role in "AD")
    every = read_fragments(database.reader, Query(instruction=name, source="h200-sm_90a"))
    few = [
        fragment
        for fragment in every
        if max(fragment.dimensions) <= 64 and fragment.computations == 1 and fragment.role in "ABD"
    ]
    distinct = {
        (fragment.role, fragment.digest, fragment.dimensions, fragment.slot_bits): fragment for fragment in few
    }.values()
    firsts = [fragment for fragment in distinct if fragment.role == "D" and fragment.slot_bits in (16, 32)]
    seconds = [fragment for fragment in distinct if fragment.role in "AB" and fragment.slot_bits == 16]
    verdicts = set()
    for first, second, transposed in product(firsts, seconds, (False, True)):
        try:
            plain = chain(first, second, transposed=transposed)
        except lanemap.LanemapError:
            continue
        if (found := replace(plain, movmatrix=(given, taken)).through_movmatrix()) is None:
            continue
        verdicts.add((second.role, transposed))
        cells = list(moved_by_movmatrix(plain, found, given, taken))
        assert all(comes == goes for comes, goes in cells), (str(first), str(second), transposed)
        assert len(cells) == len(plain.moves)
    assert verdicts == made


@pytest.mark.parametrize(
    ("operand", "major", "words"),
    [
        ("m16n8k32 e4m3 A", "col", "the 2 elements in them are not next to each other"),
        ("m16n8k64 s4 B", "row", "the 4 elements in them are not next to each other"),
        ("m16n8k8 tf32 B", "row", "not side by side in memory"),
        ("m8n8k4 f64 A", "row", "a lane has 32 bits of each row of memory, and an element has 64"),
        ("m8n8k4 f16 A", "row", "A of mma m8n8k4 f16 holds 4 matrices"),
        ("m16n8k16 f16 A", "columns", "invalid major 'columns'"),
        ("wgmma m64n64k16 f16 B 128B.K", "row", "lies in shared memory, and ldmatrix moves what registers hold"),
        ("tcgen05.mma m128n64k16 f16 A", "row", "lies in Tensor Memory, and ldmatrix moves what registers hold"),
        (Query("mma.sp m16n8k64 s8", role="A", source=CORRECTED), "row", "does not say which chunk of 4 columns"),
        ("mma.sp m16n8k32 f16 E", "row", "E of mma.sp m16n8k32 f16 is not a matrix operand"),
        ("m16n8k16 A", "row", "A of m16n8k16 has the types f16, bf16, .*: name one"),
    ],
)
def test_where_there_is_no_recipe_it_says_why(database, operand, major, words):
    with pytest.raises(lanemap.LanemapError, match=words):
        asked(database, "ldmatrix m8n8 b16 r", operand, major=major)
