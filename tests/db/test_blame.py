"""Single mistakes are planted in the registers of a simulated product, and found; what is no single mistake is not."""

import re
from dataclasses import replace
from itertools import combinations
from time import process_time

import ml_dtypes
import numpy as np
import pytest

import lanemap
from lanemap.db.flow.mistake import Given, Sieve

from ..modes import LONG

#: Instructions with the type of D and what their operands are filled with.
PRODUCTS = {
    "m16n8k16 f16": ("f32", "ABC"),
    "m16n8k16 bf16": ("f32", "AB"),
    "m16n8k16 f16 with D of f16": ("f16", "ABC"),
    "m16n8k8 tf32": ("f32", "ABC"),
    "m16n8k32 s8": ("s32", "ABC"),
    "m16n8k64 u4": ("s32", "AB"),
    "m8n8k4 f64": ("f64", "ABC"),
    "m8n8k4 f16": ("f32", "ABC"),
    "m16n8k32 e4m3": ("f32", "ABC"),
    "mma.sp m16n8k32 f16": ("f32", "ABCE"),
    "mma.sp m16n8k16 tf32": ("f32", "ABE"),
    "m16n8k64 e2m1": ("f32", ["A", "B", "SFA", "SFB"]),
    "m16n8k16 f16 in a tile": ("f32", "ABC"),
}
TILE = {"tile": "m32n32k32", "warps": "2x2"}


def stored(fragment):
    """Row and column of each element, of a sparse operand among what is stored of its row."""
    table = fragment.table
    if not fragment.windowed:
        return table["computation"] - 1, table["row"], table["col"]
    column, chunk = np.zeros(len(table), int), fragment.chunk
    kept = len(table) * chunk // (fragment.dimensions[0] * fragment.dimensions[1])
    rows = {}
    for at, (lane, reg, slot, row, col, last, _) in enumerate(table.tolist()):
        rows.setdefault((row, col // chunk), []).append((col, last, lane, reg, slot, at))
    for (_, number), held in rows.items():
        for nth, (*_, at) in enumerate(sorted(held)):
            column[at] = number * kept + nth
    return table["computation"] - 1, table["row"], column


class Simulated:
    """An instruction whose operands are filled with random integers that their types have."""

    def __init__(self, database, name, generator):
        self.d, roles = PRODUCTS[name]
        self.query = lanemap.Query.parse(name.partition(" with")[0].partition(" in")[0], source="best")
        if name.endswith("tile"):
            self.query = replace(self.query, **TILE)
        self.fragments = {}
        for role in roles:
            if role == "C":
                continue
            several = database.operand(replace(self.query, role=role))
            if role in ("SFA", "SFB"):
                several = [each for each in several if "scale_vec::2X" in each.qualifiers]
            self.fragments[role] = several[0]
        first = self.fragments["A"]
        for role in {"C", "D"} & {*roles, "D"}:
            named = {"shape": first.shape, "type": self.d, "instruction": first.instruction}
            self.fragments[role] = database.operand(replace(self.query, role=role, **named))[0]
        self.values = {}
        for role, fragment in self.fragments.items():
            computation, row, column = stored(fragment)
            shape = (computation.max() + 1, row.max() + 1, column.max() + 1)
            if role != "D":
                self.values[role] = self.random(fragment, shape, generator)

    def random(self, fragment, shape, generator):
        if fragment.role == "E":
            count = fragment.sparsity.width // fragment.sparsity.group
            fields = fragment.sparsity.fields
            chosen = [sorted(generator.permutation(count)[:fields]) for _ in range(np.prod(shape) // fields)]
            return np.array(chosen).reshape(shape)
        choices = {"e2m1": [-6, -4, -3, -2, -1, 1, 2, 3, 4, 6], "ue8m0": [1, 2], "u4": range(16)}
        return generator.choice(choices.get(fragment.type, [*range(-8, 0), *range(1, 9)]), shape)

    def registers(self, role, matrix):
        fragment, table = self.fragments[role], self.fragments[role].table
        held = np.full((fragment.threads, fragment.registers, fragment.slots), -999)
        held[table["lane"], table["reg"], table["slot"]] = matrix[stored(fragment)]
        return held

    def read(self, role, held, like):
        fragment, table = self.fragments[role], self.fragments[role].table
        matrix = like.copy()
        matrix[stored(fragment)] = held[table["lane"], table["reg"], table["slot"]]
        return matrix

    def product(self, values):
        a, b = values["A"].astype(np.int64), values["B"].astype(np.int64)
        if "E" in values:
            rule, (_, rows, _) = self.fragments["A"].sparsity, a.shape
            dense = np.zeros((1, rows, self.fragments["A"].dimensions[1]), np.int64)
            for row, column in np.ndindex(a.shape[1:]):
                field, inside = divmod(column, rule.group)
                chunk = field // rule.fields
                dense[0, row, chunk * rule.width + values["E"][0, row, field] * rule.group + inside] += a[
                    0, row, column
                ]
            a = dense
        depth = a.shape[2]
        scale_a = np.repeat(values["SFA"], depth // values["SFA"].shape[2], axis=2) if "SFA" in values else 1
        scale_b = np.repeat(values["SFB"], depth // values["SFB"].shape[1], axis=1) if "SFB" in values else 1
        return np.einsum("cmk,ckn->cmn", a * scale_a, b * scale_b) + values.get("C", 0)

    def with_mistake(self, role, change):
        """D where a mistake is made in an operand, which changes a matrix."""
        if role == "D":
            return change(self.product(self.values))
        return self.product({**self.values, role: change(self.values[role])})

    def blame(self, database, actual, **more):
        given = {role.lower(): value[0] if len(value) == 1 else value for role, value in self.values.items()}
        actual = actual[0] if len(actual) == 1 else actual
        return database.blame(self.query, actual, **given, accumulator=self.d, **more)


def swap(array, axis, one, other):
    order = np.arange(array.shape[axis])
    order[[one, other]] = other, one
    return array.take(order, axis)


def mistake(simulated, generator):
    """A single mistake of a random kind: the operand, what it does to a matrix, and how it is described."""
    role = generator.choice([*simulated.values, "D"])
    fragment = simulated.fragments[role]
    matrix = simulated.values[role] if role != "D" else simulated.product(simulated.values)
    kind = generator.choice(["register", "lane", "slot", "row", "column", "offset", "transposed", "halves"])
    if kind in ("register", "lane", "slot"):
        axis = {"lane": 0, "register": 1, "slot": 2}[kind]
        sizes = fragment.group if kind == "lane" else (fragment.registers, fragment.slots)[axis - 1]
        if sizes < 2:
            return None
        one, other = sorted(generator.permutation(sizes)[:2].tolist())

        def change(matrix):
            held = simulated.registers(role, matrix)
            by_warp = held.reshape(-1, fragment.group, *held.shape[1:])
            moved = swap(by_warp, axis + 1, one, other).reshape(held.shape)
            return simulated.read(role, moved, matrix)

        # What holds nothing cannot be exchanged with what does.
        if (change(np.ones_like(matrix)) < 0).any():
            return None
        return role, change, f"{kind}s {one} and {other} of {role} were exchanged"
    _, rows, cols = matrix.shape
    if kind in ("row", "column"):
        axis = 1 if kind == "row" else 2
        if matrix.shape[axis] < 2:
            return None
        one, other = sorted(generator.permutation(matrix.shape[axis])[:2].tolist())
        return role, lambda whole: swap(whole, axis, one, other), f"{kind}s {one} and {other} of {role} were exchanged"
    if kind == "offset":
        axis = generator.integers(1, 3)
        if matrix.shape[axis] < 3:
            return None
        by = int(generator.integers(1, matrix.shape[axis]))
        name = ("rows", "columns")[axis - 1]
        words = f"{name} of {role} were {by} too high, and wrapped around"
        words = f"the halves of the {name} of {role} were exchanged" if 2 * by == matrix.shape[axis] else words
        k = fragment.key.axes[axis - 1] == "k"
        return (
            role,
            lambda whole: np.roll(whole, -by, axis),
            words.replace(f"halves of the {name}", "halves of K") if k else words,
        )
    if kind == "halves":
        axis = {"A": 2, "E": 2, "B": 1}.get(role, 0)
        if axis == 0 or matrix.shape[axis] < 4:
            return None
        return (
            role,
            lambda whole: np.roll(whole, whole.shape[axis] // 2, axis),
            f"the halves of K of {role} were exchanged",
        )
    if 1 in (rows, cols):
        return None
    if rows == cols:
        return role, lambda whole: whole.swapaxes(1, 2), f"{role} were transposed"
    words = f"{role} were stored by the other of rows and columns, and read along rows"
    return role, lambda whole: whole.swapaxes(1, 2).reshape(whole.shape), words


QUICK = ("m16n8k16 f16", "m8n8k4 f16", "mma.sp m16n8k32 f16")
FEW = [pytest.param(name, 2, id=name) for name in QUICK]
MANY = [pytest.param(name, 160 if LONG else 16, id=f"{name} often", marks=pytest.mark.slow) for name in PRODUCTS]


@pytest.mark.parametrize(("name", "wanted"), FEW + MANY)
def test_planted_mistakes_are_found(database, name, wanted):
    """In all products together more than 200."""
    generator = np.random.default_rng([*PRODUCTS].index(name))
    found = 0
    while found < wanted:
        simulated = Simulated(database, name, generator)
        if (made := mistake(simulated, generator)) is None:
            continue
        role, change, words = made
        actual = simulated.with_mistake(role, change)
        if np.array_equal(actual, simulated.product(simulated.values)):
            continue
        blamed = simulated.blame(database, actual)
        assert words in [cause.words for cause in blamed.causes], (words, str(blamed))
        off = np.abs(actual - (right := simulated.product(simulated.values)))
        # Products of 8 bits and fewer are added with 13 bits: what differs by less is not called wrong.
        size = simulated.product({role: np.abs(values) for role, values in simulated.values.items()}) + np.abs(right)
        narrow = any(type_ in name for type_ in ("e2m1", "e4m3", "e5m2", "e2m3", "e3m2"))
        assert (off > (2.0**-12 * size if narrow else 0)).sum() <= blamed.wrong <= (off > 0).sum()
        found += 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PRODUCTS]
)
def test_what_is_right_is_not_blamed_and_random_permutations_are_not_explained(database, name):
    generator = np.random.default_rng(5)
    simulated = Simulated(database, name, generator)
    right = simulated.product(simulated.values)
    assert simulated.blame(database, right).right
    for _ in range(4):
        shuffled = generator.permutation(right.ravel()).reshape(right.shape)
        blamed = simulated.blame(database, shuffled)
        assert (blamed.right, blamed.causes) == (False, ())
        assert "explains it" in " ".join(str(blamed).split())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m16n8k16 f16 in a tile", "mma.sp m16n8k32 f16"])
def test_what_refuses_most_mistakes_at_once_refuses_none_that_explains(database, monkeypatch, name):
    generator = np.random.default_rng(7)
    simulated = Simulated(database, name, generator)
    for role in "AD":
        made = simulated.with_mistake(role, lambda whole: np.roll(whole, 8, 1))
        sieved = simulated.blame(database, made)
        with monkeypatch.context() as patched:
            patched.setattr(Sieve, "passes", lambda sieve, changes: np.ones(np.shape(changes), bool))
            assert simulated.blame(database, made).causes == sieved.causes
        assert sieved.causes


def test_warps_that_share_an_operand_with_others_are_exchanged_alone(database):
    """Warps 1 and 2 of 2 x 2: all that is wrong is theirs, and what others hold of the same rows is right."""
    simulated = Simulated(database, "m16n8k16 f16 in a tile", np.random.default_rng(0))
    right, result = simulated.product(simulated.values), simulated.fragments["D"]
    whole = simulated.with_mistake("A", lambda rows: np.roll(rows, 16, 1))
    own = result.table[np.isin(result.table["lane"] // 32, (1, 2))]
    actual = right.copy()
    actual[0, own["row"], own["col"]] = whole[0, own["row"], own["col"]]
    assert "warps 1 and 2 of A were exchanged" in [cause.words for cause in simulated.blame(database, actual).causes]
    named = [cause.words for cause in simulated.blame(database, whole).causes]
    assert "the halves of the rows of A were exchanged" in named
    assert "warps 1 and 2 of A were exchanged" not in named


@pytest.mark.parametrize("operand", ["wmma m16n16k16 f16 A", "wmma m16n16k16 f16 B"])
def test_what_is_exchanged_is_exchanged_in_every_copy(database, operand):
    """Two registers hold each element: one of them that is exchanged alone leaves two matrices."""
    fragment = database.operand(operand)[0]
    assert fragment.copies == 2
    given = Given(fragment.role, np.arange(256.0).reshape(1, 16, 16), fragment)
    registers = given.cells[0].swapaxes(0, 1).reshape(8, -1)

    def whole(one, other):
        moved = registers.copy()
        moved[[one, other]] = moved[[other, one]]
        return all(len(np.unique(moved[registers == cell])) == 1 for cell in np.unique(registers))

    words = " ".join(mistake.words for mistake in given.mistakes(None, ()))
    named = {tuple(map(int, pair)) for pair in re.findall(r"registers (\d+) and (\d+) of", words)}
    assert named == {pair for pair in combinations(range(8), 2) if whole(*pair)}
    assert "registers of " in words


@pytest.mark.slow
def test_infinities_are_right_where_they_should_be_and_near_nothing(database):
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(-8, 8, size).astype("f4") for size in ((16, 16), (16, 8), (16, 8)))
    c[3], a[5, 2], b[2, 4] = -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        right = a @ b + c
    assert database.blame("m16n8k16 f16", right, a=a, b=b, c=c).right
    off = right.copy()
    off[3, 0] = 7
    assert database.blame("m16n8k16 f16", off, a=a, b=b, c=c).wrong == 1
    named = [cause.words for cause in database.blame("m16n8k16 f16", swap(right, 0, 0, 9), a=a, b=b, c=c).causes]
    assert named == ["rows 0 and 9 of D were exchanged"]


def test_a_number_that_no_exchange_makes_is_named(database):
    simulated = Simulated(database, "m16n8k16 f16", np.random.default_rng(0))
    actual = simulated.with_mistake("A", lambda whole: swap(whole, 1, 0, 5)).astype(float)
    actual[0, 3, 1] = np.nan
    blamed = simulated.blame(database, actual)
    assert blamed.causes == ()
    assert blamed.remarks[0].startswith("row 3, column 1 of D is nan, and ")
    assert blamed.remarks[0].endswith(" by the product: no exchange makes that of 1 element")
    actual[0, 3, 1] = 0
    assert simulated.blame(database, actual).remarks == []


def test_two_mistakes_at_once_are_not_explained(database):
    simulated = Simulated(database, "m16n8k16 f16", np.random.default_rng(0))
    values = {**simulated.values, "A": swap(simulated.values["A"], 1, 0, 5), "B": swap(simulated.values["B"], 1, 2, 7)}
    assert simulated.blame(database, simulated.product(values)).causes == ()


def test_all_that_explain_equally_are_named(database):
    simulated = Simulated(database, "m16n8k16 f16", np.random.default_rng(0))
    del simulated.values["C"]
    wrong = simulated.with_mistake("B", lambda whole: np.roll(whole, 8, 1))
    named = [cause.words for cause in simulated.blame(database, wrong).causes]
    for words in ("halves of K of A", "halves of K of B", "registers 0 and 1 of B", "halves of the registers of A"):
        assert any(words in each for each in named), named


def test_other_numbers_agree_as_far_as_their_types_allow(database):
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=size).astype(np.float16) for size in ((16, 16), (16, 8)))
    right = a.astype("f4") @ b.astype("f4")
    noisy = (right * (1 + generator.normal(size=right.shape) * 1e-7)).astype("f4")
    assert database.blame("m16n8k16 f16", noisy, a=a, b=b).right
    assert not database.blame("m16n8k16 f16", right + 0.01, a=a, b=b).right
    wrong = swap(a, 1, 2, 3).astype("f4") @ b.astype("f4")
    named = [cause.words for cause in database.blame("m16n8k16 f16", wrong, a=a, b=b).causes]
    assert named == ["columns 2 and 3 of A were exchanged", "rows 2 and 3 of B were exchanged"]


def test_numbers_that_a_type_rounds_are_no_excuse_for_what_is_wrong(database):
    """A and B of 32 bits are rounded to f16: D differs by that alone, and a mistake is larger."""
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=size) for size in ((16, 16), (16, 8)))
    rounded = a.astype("f2").astype("f8") @ b.astype("f2").astype("f8")
    assert database.blame("m16n8k16 f16", rounded.astype("f4"), a=a, b=b).right
    assert not database.blame("m16n8k16 f16", (rounded + 0.2).astype("f4"), a=a, b=b).right


def test_integers_of_32_bits_wrap_around(database):
    a, b, c = np.ones((8, 16), int), np.ones((16, 8), int), np.full((8, 8), (1 << 31) - 1)
    wrapped = (a @ b + c - (1 << 32)).astype("i4")
    assert database.blame("m8n8k16 s8", wrapped, a=a, b=b, c=c).right
    assert not database.blame("m8n8k16 s8", (wrapped.astype("i8") + (1 << 31)).astype("i4"), a=a, b=b, c=c).right


def test_what_is_added_to_a_product_stays_where_an_operand_is_wrong(database):
    generator = np.random.default_rng(0)
    a, b, bias = (generator.integers(-8, 8, size) for size in ((16, 16), (16, 8), (16, 8)))
    blamed = database.blame("m16n8k16 f16", a.T @ b + 3 * bias, a=a, b=b, expected=a @ b + 3 * bias)
    assert [cause.words for cause in blamed.causes] == ["A were transposed"]


def test_bits_stand_for_their_values(database):
    """Of bf16 as uint16 and of e4m3 as uint8."""
    generator = np.random.default_rng(0)
    a, b = generator.integers(-8, 8, (16, 16)), generator.integers(-8, 8, (16, 8))
    as_bits = {name: (x.astype("f4").view("u4") >> 16).astype("u2") for name, x in (("a", a), ("b", b))}
    assert database.blame("m16n8k16 bf16", (a @ b).astype("f4"), **as_bits).right
    one, many = np.full((16, 32), 0x38, np.uint8), generator.integers(-8, 8, (32, 8))
    assert database.blame("m16n8k32 e4m3", np.tile(many.sum(axis=0), (16, 1)), a=one, b=many).right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instruction", "type", "depth"),
    [
        ("m16n8k16 bf16", "bfloat16", 16),
        ("m16n8k32 e4m3", "float8_e4m3fn", 32),
        ("m16n8k32 e5m2", "float8_e5m2", 32),
        ("m16n8k64 s4", "int4", 64),
        ("m16n8k64 u4", "uint4", 64),
    ],
)
def test_numbers_of_ml_dtypes_are_taken_as_arrays_and_from_files(database, tmp_path, instruction, type, depth):
    """A file has only their bits, as numpy writes it."""
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0 if type == "uint4" else -8, 8, size) for size in ((16, depth), (depth, 8)))
    held = {name: x.astype(getattr(ml_dtypes, type)) for name, x in (("a", a), ("b", b))}
    if type == "float8_e5m2":  # for which numpy writes a file that it cannot read
        stored = held["a"].view("V1")
    else:
        np.save(tmp_path / "a.npy", held["a"])
        stored = np.load(tmp_path / "a.npy")
    assert stored.dtype.type is np.void
    for given in (held["a"], stored):
        assert database.blame(instruction, a @ b, a=given, b=held["b"]).right
        named = [each.words for each in database.blame(instruction, swap(a, 0, 1, 2) @ b, a=given, b=held["b"]).causes]
        assert "rows 1 and 2 of A were exchanged" in named


@pytest.mark.parametrize("operation", ["xor", "and"])
def test_products_of_bits(database, operation):
    """In registers 0 and 1 of A are rows 0 and 8, and what follows them."""
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(0, 2, size) for size in ((16, 128), (128, 8), (16, 8)))
    name = f"mma m16n8k128 b1 {operation}.popc"

    def product(a, b):
        pairs = a[:, :, None] ^ b if operation == "xor" else a[:, :, None] & b
        return pairs.sum(axis=1) + c

    assert database.blame(name, product(a, b), a=a, b=b, c=c).right
    for role, wrong in (("A", product(np.roll(a, 8, 0), b)), ("B", product(a, swap(b, 0, 3, 70)))):
        named = [each.words for each in database.blame(name, wrong, a=a, b=b, c=c).causes]
        expected = {"A": "registers 0 and 1 of A were exchanged", "B": "rows 3 and 70 of B were exchanged"}[role]
        assert expected in named
    other = product(a, b) + 1
    assert not database.blame(name, other, a=a, b=b, c=c).causes
    assert database.blame(name.removeprefix("mma "), product(a, b), a=a, b=b, c=c).right


def test_the_deepest_product_of_bits_takes_no_time(database):
    """Every exchange of two of 256 columns, some 70,000 in all."""
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0, 2, size) for size in ((16, 256), (256, 8)))
    actual = (swap(a, 1, 3, 200)[:, :, None] ^ b).sum(axis=1)
    before = process_time()
    blamed = database.blame("BMMA.168256.XOR.POPC", actual, a=a, b=b)
    assert process_time() - before < 2
    assert [cause.words for cause in blamed.causes] == [
        "columns 3 and 200 of A were exchanged",
        "rows 3 and 200 of B were exchanged",
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize("role", "ABCD")
def test_two_lanes_of_one_warp_of_a_tile(database, role):
    """Other warps that hold the same have it right."""
    generator = np.random.default_rng("ABCD".index(role))
    simulated = Simulated(database, "m16n8k16 f16 in a tile", generator)
    fragment, result = simulated.fragments[role], simulated.fragments["D"]
    right = simulated.product(simulated.values)
    warp, (one, other) = int(generator.integers(4)), sorted(generator.permutation(32)[:2].tolist())
    matrix = right if role == "D" else simulated.values[role]
    mine = fragment.table["lane"] // 32 == warp
    order = np.arange(fragment.threads)
    order[[32 * warp + one, 32 * warp + other]] = order[[32 * warp + other, 32 * warp + one]]
    held, changed = simulated.registers(role, matrix)[order], matrix.copy()
    table = fragment.table[mine]
    changed[0, table["row"], table["col"]] = held[table["lane"], table["reg"], table["slot"]]
    actual = changed
    if role != "D":
        whole, actual = simulated.product({**simulated.values, role: changed}), right.copy()
        own = result.table[result.table["lane"] // 32 == warp]
        actual[0, own["row"], own["col"]] = whole[0, own["row"], own["col"]]
    words = f"lanes {one} and {other} of {role} were exchanged in warp {warp} alone"
    named = [cause.words for cause in simulated.blame(database, actual).causes]
    assert words in named
    assert all("alone" in each or role == "D" for each in named)


def test_whole_operands(database):
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(-8, 8, (8, size)) for size in (16, 8, 8))
    b = generator.integers(-8, 8, (16, 8))
    given = {"a": a, "b": b, "c": c}
    assert [each.words for each in database.blame("m8n8k16 s8", a @ b, **given).causes] == ["C were left out"]
    named = [each.words for each in database.blame("m8n8k16 s8", b.T @ a.T + c, **given).causes]
    assert "A and B were exchanged" in named


def test_without_a_and_b_there_are_c_and_d(database):
    generator = np.random.default_rng(0)
    right = generator.integers(-99, 99, (16, 8))
    blamed = database.blame("m16n8k16 f16", swap(right, 0, 0, 8), expected=right)
    assert "rows 0 and 8 of D were exchanged" in str(blamed)
    assert blamed.remarks
    with pytest.raises(lanemap.LanemapError, match="give A and B, or the expected D"):
        database.blame("m16n8k16 f16", right)
    scaled = right * 2
    blamed = database.blame(
        "m16n8k16 f16", swap(scaled, 0, 0, 8), a=np.ones((16, 16)), b=np.ones((16, 8)), expected=scaled
    )
    assert "rows 0 and 8 of D" in str(blamed)


def test_of_operands_in_shared_memory_rows_and_columns_are_tried(database):
    generator = np.random.default_rng(0)
    a, b = generator.integers(-8, 8, (64, 16)), generator.integers(-8, 8, (16, 8))
    blamed = database.blame("m64n8k16 f16", a @ np.roll(b, -3, 1), a=a, b=b)
    assert "columns of B were 3 too high, and wrapped around" in [cause.words for cause in blamed.causes]
    tile = {"tile": "m128n32", "warps": "2x1", "a": np.vstack([a, a + 1]), "b": np.hstack([b, -b, b + 1, 2 * b])}
    assert database.blame("m64n8k16 f16", tile["a"] @ tile["b"], **tile).right
    exchanged = swap(tile["b"], 1, 5, 28)
    blamed = database.blame("m64n8k16 f16", tile["a"] @ exchanged, **tile)
    assert "columns 5 and 28 of B were exchanged" in [cause.words for cause in blamed.causes]
    with pytest.raises(lanemap.LanemapError, match="an array of numbers of 16 x 32"):
        database.blame("m64n8k16 f16", tile["a"] @ b, **tile | {"b": b})


GOOD = {"actual": np.zeros((16, 8)), "a": np.ones((16, 16)), "b": np.ones((16, 8))}


@pytest.mark.parametrize(
    ("instruction", "change", "words"),
    [
        (
            "m16n8k16 f16",
            {"a": np.ones((16, 8))},
            "A is 16 x 8 of float64: .* takes an array of numbers of 16 x 16",
        ),
        ("m16n8k16 f16", {"a": np.ones((16, 16), np.uint8)}, "bits of f16 are uint16 below 0x10000"),
        ("m16n8k16 f16", {"a": np.full((16, 16), "x")}, "takes an array of numbers"),
        ("m16n8k16 f16", {"accumulator": "s32"}, "no accumulator s32: there is f32 or f16"),
        ("m8n8k16 s8", {"actual": np.zeros((8, 8)), "a": np.full((8, 16), 200)}, "A has 200, which is no value of s8"),
        ("m8n8k16 s8", {"actual": np.zeros((8, 8)), "a": np.full((8, 16), 0.5)}, "A has 0.5, which is no value of s8"),
        (
            "m8n8k128 b1",
            {"actual": np.zeros((8, 8)), "a": np.ones((8, 128)), "b": np.ones((128, 8))},
            "name mma m8n8k128 b1 xor.popc or",
        ),
        ("m16n8k16 f16", {"a": np.zeros((16, 16), "V3")}, "A is 16 x 16 of |V3: .* takes an array of numbers"),
        ("m16n8k16 f16", {"a": np.zeros((16, 16), [("x", "f4")])}, "takes an array of numbers"),
        ("m16n8k16 f16", {"a": [[1, 2], [3]]}, "A is no array: give rows of equally many numbers"),
        ("m16n8k16 f16", {"actual": [[1, 2], [3]]}, "actual is no array"),
        ("m16n8k16 f16", {"actual": 5}, "actual is one number of int64"),
        ("m16n8k16 f16 A", {}, "name m16n8k16 f16 without a role, or with D"),
        ("mma.sp m16n8k32 f16", {"b": np.ones((32, 8))}, "is sparse: give E"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(database, instruction, change, words):
    given = GOOD | change
    if isinstance(change.get("a"), np.ndarray) and given["b"].shape[0] != given["a"].shape[1]:
        given |= {"b": np.ones((np.shape(given["a"])[1], 8))}
    actual = given.pop("actual")
    with pytest.raises(lanemap.LanemapError, match=words) as refused:
        database.blame(instruction, actual, **given)
    assert "\n" not in str(refused.value)


def test_the_command(run, tmp_path):
    def said(*arguments, code=0):
        result = run(*arguments)
        assert result.code == code
        return result

    generator = np.random.default_rng(0)
    a, b = generator.integers(-8, 8, (16, 16)), generator.integers(-8, 8, (16, 8))
    files = {}
    for name, array in {"a": a, "b": b, "right": a @ b, "wrong": a.T @ b, "object": np.array([None])}.items():
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], array)
    given = ["blame", "m16n8k16", "f16", "--a", files["a"], "--b", files["b"], "--actual"]
    assert "all 128 elements are right" in said(*given, files["right"]).out
    wrong = said(*given, files["wrong"], code=1)
    assert "as if A were transposed: 128 of 128 elements" in wrong.out
    assert '"role": "A"' in said(*given, files["wrong"], "--format", "jsonl", code=1).out
    files["vast"] = tmp_path / "vast.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 100000000), }"
    files["vast"].write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n")
    for file in (files["object"], files["vast"], tmp_path / "none.npy", __file__):
        refused = said(*given, file, code=2)
        assert refused.err.count("\n") == 1
        assert "cannot read" in refused.err
