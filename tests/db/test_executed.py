"""What chains and recipes say is executed on simulated threads whose registers have the bits that PTX says.

Values are put into the bits of their type by a table that is written here, not by Lanemap's own.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import lanemap
from lanemap.db.flow.chain import Chains, as_half_pairs, chain, relabelled
from lanemap.db.flow.metadata import decode, operands
from lanemap.db.flow.recipe import pairs, recipe
from lanemap.db.lookup import Query, read_fragments

from ..forms import FORMS
from ..modes import SOME_OR_ALL
from ..shipped import CORRECTED

#: Exponent and mantissa bits.
FLOATS = {"f64": (11, 52), "f32": (8, 23), "tf32": (8, 23), "f16": (5, 10), "bf16": (8, 7), "e4m3": (4, 3)}
FLOATS |= {"e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
BITS = {"s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}

#: Where in a container of 8 bits those begin that do not fill it (9.7.16.5.14).
FIRST = {"e2m1": 2, "e2m3": 0, "e3m2": 0}


def code(value: int, type_: str) -> int:
    """The bits of a small whole number that is not negative."""
    if type_ not in FLOATS or not value:
        return value
    exponent, mantissa = FLOATS[type_]
    power = value.bit_length() - 1
    return (power + (1 << exponent - 1) - 1 << mantissa) + ((value << mantissa) >> power) - (1 << mantissa)


def bits(type_: str) -> int:
    return 1 + sum(FLOATS[type_]) if type_ in FLOATS else BITS[type_]


def in_slots(values: dict, fragment) -> dict:
    """What slots hold, by the document."""
    return coded(values, fragment.type, FIRST[fragment.type] if bits(fragment.type) < fragment.slot_bits else 0)


def coded(values: dict, type_: str, first: int = 0) -> dict:
    """The same with the bits of each value, from the first bit on."""
    codes = {value: code(value, type_) << first for value in {*values.values()}}
    return {at: codes[value] for at, value in values.items()}


def largest(type_: str) -> int:
    return 1 if type_ == "b1" else 3


def test_codes_are_those_of_numpy():
    for type_, view in (("f16", np.uint16), ("f32", np.uint32), ("f64", np.uint64)):
        for value in range(4):
            assert code(value, type_) == int(np.array(value, f"f{bits(type_) // 8}").view(view))
    assert [code(value, "e2m1") for value in (0, 1, 2, 3, 4, 6)] == [0, 2, 4, 5, 6, 7]


def one_of_each(reader, role, source, **which):
    """One operand for each layout and type."""
    found = [
        fragment for fragment in read_fragments(reader, Query(role=role, source=source, **which)) if fragment.digest
    ]
    dense = [fragment for fragment in found if not fragment.windowed and not fragment.type.startswith("b16")]
    return list(
        {
            (fragment.digest, fragment.dimensions, fragment.slot_bits, fragment.type): fragment for fragment in dense
        }.values()
    )


def values_of(first, second, transposed):
    """The matrix that both are tiles of, of every computation, with values that both types have."""
    down, across = first.dimensions[::-1] if transposed else first.dimensions
    shape = first.computations, *map(max, (down, across), second.dimensions)
    return np.random.default_rng(5).integers(0, largest(second.type) + 1, shape)


def places(fragment, matrix, transposed=False):
    """What each slot of every tile of a matrix holds, by tile, lane, reg and slot."""
    rows, cols = fragment.dimensions[::-1] if transposed else fragment.dimensions
    table = fragment.elements
    row, col = (table["col"], table["row"]) if transposed else (table["row"], table["col"])
    keys = list(zip(*(table[name].tolist() for name in ("lane", "reg", "slot")), strict=True))
    found = {}
    for y, x in product(range(matrix.shape[1] // rows), range(matrix.shape[2] // cols)):
        held = matrix[table["computation"] - 1, y * rows + row, x * cols + col].tolist()
        found |= {(y, x, *key): value for key, value in zip(keys, held, strict=True)}
    return found


def registers(slots, fragment):
    """Registers of slots: their bits, one slot above the other."""
    found, width = {}, fragment.slot_bits
    for (*register, slot), held in slots.items():
        found[*register] = found.get((*register,), 0) | held << slot * width
    return found


@pytest.mark.slow
@SOME_OR_ALL
@pytest.mark.parametrize(
    ("source", "which", "widest"),
    [
        (CORRECTED, {}, 16),
        ("h200-sm_90a", {"instruction": "wmma"}, 8),
        ("h200-sm_90a", {"instruction": "wgmma"}, 8),
    ],
)
def test_registers_of_a_chain_have_the_bits_that_the_next_product_reads(database, source, which, widest, step):
    """Taken as they are, or converted slot by slot into the bits that are said."""
    stayed, converted = set(), set()
    roles = "A" if which.get("instruction") == "wgmma" else "AB"
    ends = [fragment for role in roles for fragment in one_of_each(database.reader, role, source, **which)]
    for number, first in enumerate(one_of_each(database.reader, "D", source, **which)):
        if first.dimensions[1] > widest or first.type == "b16":
            continue
        for told in Chains.of(first, [end for end in ends if end.threads == first.threads][number % step :: step]):
            for made in {told, relabelled(told) or told}:
                matrix = values_of(first, made.second, made.transposed)
                given = coded(places(first, matrix, made.transposed), first.type)
                whole = registers(given, first)
                if made.order:
                    order = np.array(made.order)
                    matrix = matrix[:, :, order] if made.second.role == "A" else matrix[:, order]
                right = in_slots(places(made.second, matrix), made.second)
                if made.registers_stay:
                    held = {(*move[:4],): whole[(*move[8:12],)] for move in made.moves}
                    stayed.add((first.type, made.second.type))
                else:
                    codes = {code(value, first.type): value for value in range(4)}
                    low, width = made.second.occupied_bits.start, len(made.second.occupied_bits)
                    slots = {move[:5]: code(codes[given[move[8:]]], made.second.type) for move in made.moves}
                    assert all(value < 1 << width for value in slots.values())
                    held = registers({at: value << low for at, value in slots.items()}, made.second)
                    converted.add((first.type, made.second.type))
                assert held == registers(right, made.second), made
    assert converted
    assert all(one == other or {one, other} == {"f32", "tf32"} for one, other in stayed)
    if not which and step == 1:
        assert ("f32", "e2m1") in converted
        assert {("f16", "f16"), ("f32", "tf32")} <= stayed


@pytest.mark.parametrize(("source", "name"), [(CORRECTED, "mma"), ("h200-sm_90a", "wmma")])
def test_a_d_is_the_c_that_adds_to_it(database, source, name):
    """Of another shape, too; there is no K that could be renumbered."""
    moved = set()
    for first, second in product(*(one_of_each(database.reader, role, source, instruction=name) for role in "DC")):
        if first.computations == second.computations == 1 and first.type == second.type:
            try:
                told = chain(first, second)
            except lanemap.LanemapError as error:
                assert "neither is a tile of the other" in str(error)
                continue
            matrix = values_of(first, second, False)
            given, right = places(first, matrix), places(second, matrix)
            assert {move[:5]: given[move[8:]] for move in told.moves} == right
            assert told.registers_stay or told.moves_values
            assert (relabelled(told) is None) == told.moves_values
            moved.add(told.moves_values)
    assert moved == {False} if name == "mma" else moved == {False, True}


def scaled_products(told):
    """Of every form with block scales that has the operand: the product as it should be, and as it is after the chain.

    The rows or columns of the other operand are in the order that is said, the scales where they were.
    """
    second, order = told.second, np.array(told.order)
    depth = second.dimensions[second.role == "A"]
    random = np.random.default_rng(2)
    one, other = random.integers(1, 9, (2, len(order)))
    for form in FORMS:
        if form.scale is not None and (form.name, form.shape, form.a) == second.key[:3]:
            count = form.block_scales[0]
            scales = np.repeat(random.integers(0, 1 << 20, len(order) // depth * count), depth // count)
            yield count, (one * other * scales).sum(), (one[order] * other[order] * scales).sum()


def test_no_renumbering_of_k_moves_an_element_to_another_scale(database):
    """Blocks of K have scales of their own (9.7.16.3): the order stays within them, or is said not to."""
    kept, torn = set(), set()
    ends = [fragment for role in "AB" for fragment in one_of_each(database.reader, role, CORRECTED)]
    scaled = [end for end in ends if end.instruction.startswith("mma") and end.type[0] == "e"]
    for first in one_of_each(database.reader, "D", CORRECTED, instruction="mma"):
        for told in Chains.of(first, scaled):
            made = relabelled(told)
            if made is None or not made.order:
                continue
            for count, right, found in scaled_products(made):
                assert (right != found) == (count in made.torn_scales), made
                (torn if right != found else kept).add((made.second.shape, made.second.type, count))
            assert all(f"scale_vec::{count}X" in str(made) for count in made.torn_scales)
    assert ("m16n8k64", "e2m1", 2) in kept
    assert ("m16n8k64", "e2m1", 4) in torn


@pytest.fixture(scope="module")
def known(database):
    names = {"ldmatrix": "m8n8", "stmatrix": "m8n8", "widening": "m8n16"}
    return {
        name: pairs(
            database.reader, Query(shape, None, "r", name.replace("widening", "ldmatrix"), source="h200-sm_90a")
        )
        for name, shape in names.items()
    }


def loaded(known, made, memory):
    """The registers of each lane after the moves of a recipe, from lines of bytes: what is widened, and the shift."""
    found = np.zeros((made.operand.threads, made.operand.registers * made.count), np.uint64)
    first = 0
    for step, used in enumerate(made.moves):
        r, p = next(pair for pair in known if pair.r is used)
        passed = {address.lane: address for address in made.addresses if address.step == step}
        passing = {(element.computation, element.row): element.lane for element in p.records()}
        for warp, element in product(range(made.operand.threads // 32), r.records()):
            address = passed[32 * warp + passing[element.computation, element.row]]
            start = 8 * address.byte + element.col * r.slot_bits
            value = sum(memory[address.line][start // 8 + byte] << 8 * byte for byte in range(r.slot_bits // 8))
            found[32 * warp + element.lane, first + element.reg] |= np.uint64(value << element.slot * r.slot_bits)
        first += used.registers
    return (found << np.uint64(made.shift)) & np.uint64((1 << 32) - 1)


def widened(line, width):
    """What each 16 bytes of memory become: elements of 4 or 6 bits from their first bytes, in the low bits of bytes."""
    found = []
    for at in range(0, len(line), 16):
        packed = int.from_bytes(bytes(line[at : at + 16]), "little")
        found += [packed >> width * number & (1 << width) - 1 for number in range(16)]
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("major", ["row", "col"])
@pytest.mark.parametrize("name", ["ldmatrix", "widening"])
def test_registers_after_a_recipe_have_the_bits_that_the_product_reads(known, database, name, major):
    """Of every type: memory holds codes, those that the move widens packed, others in bits of their place."""
    made_of = set()
    ends = [fragment for role in "ABCD" for fragment in one_of_each(database.reader, role, CORRECTED)]
    for operand in [end for end in ends if end.computations == 1 and end.instruction != "movmatrix"]:
        try:
            made = recipe(known[name], operand, major)
        except lanemap.LanemapError:
            continue
        matrix = np.random.default_rng(3).integers(0, largest(operand.type) + 1, operand.dimensions)
        lines = matrix if major == "row" else matrix.T
        packed = name == "widening"
        text = " ".join(str(made).split())
        memory = []
        for line in lines.tolist():
            if packed:
                width = bits(operand.type)
                assert f"16 elements fill {2 * width} of each 16 bytes" in text
                groups = [line[at : at + 16] for at in range(0, len(line), 16)]
                words = [sum(code(value, operand.type) << width * n for n, value in enumerate(some)) for some in groups]
                memory.append(widened(b"".join(word.to_bytes(16, "little") for word in words), width))
            else:
                word = sum(
                    held << operand.slot_bits * n for n, held in in_slots(dict(enumerate(line)), operand).items()
                )
                memory.append(list(word.to_bytes(-(-len(line) * operand.slot_bits // 8), "little")))
        assert made.tile == (len(memory), len(memory[0]))
        right = registers(in_slots(places(operand, matrix[None]), operand), operand)
        held = loaded(known[name], made, memory)
        assert {(lane, reg): int(held[lane, reg]) for _, _, lane, reg in right} == {
            (lane, reg): value for (_, _, lane, reg), value in right.items()
        }, operand
        made_of.add(operand.type)
    narrow = {"e2m1", "e2m3", "e3m2"}
    assert (
        made_of == narrow if name == "widening" else made_of >= {"f16", "bf16"} | (narrow if major == "row" else set())
    )


@pytest.mark.parametrize(
    "shape_type", ["m16n8k16 f16", "m16n8k32 bf16", "m16n8k16 tf32", "m16n8k64 s8", "m16n8k64 u4", "m16n8k64 e4m3"]
)
def test_what_is_kept_of_a_sparse_a_is_loaded_where_its_metadata_means_it(known, database, shape_type):
    """Memory holds what is kept in the order of columns: every slot has the value of the column that it stands for."""
    shape, type_ = shape_type.split()
    a, e, _ = operands(database.reader, Query(shape, type_, selector=0, instruction="mma.sp"))
    rule = next(form for form in FORMS if (form.name, form.shape, form.a) == ("mma.sp", shape, type_)).sparsity
    random = np.random.default_rng(4)
    vectors = random.choice(list(rule.indices), (32, 8)).astype(np.uint64)
    words = (vectors << np.arange(0, 32, 4, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    columns = decode(words, a, e)
    matrix = random.integers(0, largest(type_) + 1, a.dimensions)
    stored = [
        sorted({int(col) for element, col in zip(a.records(), columns, strict=True) if element.row == row})
        for row in range(16)
    ]
    made = recipe(known["ldmatrix"], a, "row")
    memory = []
    for row, cols in enumerate(stored):
        word = sum(code(int(matrix[row, col]), type_) << a.slot_bits * n for n, col in enumerate(cols))
        memory.append(list(word.to_bytes(len(cols) * a.slot_bits // 8, "little")))
    assert made.tile == (16, len(memory[0]))
    held = loaded(known["ldmatrix"], made, memory)
    for element, col in zip(a.records(), columns, strict=True):
        found = int(held[element.lane, element.reg]) >> element.slot * a.slot_bits & (1 << a.slot_bits) - 1
        assert found == code(int(matrix[element.row, col]), type_)


def test_movmatrix_makes_what_is_taken_of_converted_registers(database):
    """D is converted to the type of A or B first, and each register of it transposed (9.7.16.5.17)."""
    moved = tuple(database.fragment("m8n8", "b16", role, instruction="movmatrix") for role in "AD")
    place = {(element.row, element.col): (element.lane, element.slot) for element in moved[0].records()}
    origin = {(element.lane, element.slot): place[element.col, element.row] for element in moved[1].records()}
    said = 0
    ends = [fragment for role in "AB" for fragment in one_of_each(database.reader, role, CORRECTED)]
    for first in one_of_each(database.reader, "D", CORRECTED, instruction="mma"):
        for plain in Chains.of(first, [end for end in ends if end.slot_bits == 16]):
            told = replace(plain, movmatrix=moved)
            if not (told.moves_values and (crossing := told.through_movmatrix())):
                continue
            half = as_half_pairs(first) or first
            matrix = values_of(first, told.second, told.transposed)
            given = {at: code(v, told.second.type) for at, v in places(half, matrix, told.transposed).items()}
            right = in_slots(places(told.second, matrix), told.second)
            for at in crossing:
                for lane, slot in product(range(32), range(2)):
                    from_lane, from_slot = origin[lane, slot]
                    source = at.from_tile_row, at.from_tile_col, from_lane, at.from_reg, from_slot
                    assert right[at.tile_row, at.tile_col, lane, at.reg, slot] == given[source]
            text = " ".join(str(told).split())
            assert ("packed to 16 bits first" in text) == (first.slot_bits == 32)
            assert (f"converted to {told.second.type} first" in text) == (
                first.slot_bits == 16 and first.type != told.second.type
            )
            said += 1
    assert said > 3
