"""No false agreement: layouts of every family are corrupted at random, and brute-force products judge verdicts."""

from collections import Counter
from dataclasses import replace
from itertools import count, product

import numpy as np
import pytest
from hypothesis import settings

from lanemap.db.compare.verdict import Verdict, compare
from lanemap.db.layout.fragment import elements
from lanemap.db.text import grouped

from ..modes import LONG
from ..shipped import corrected, everything, recorded
from .product import computed

DOCUMENTED, CAPTURED = corrected(), [fragment for fragment in recorded().fragments if fragment.elements is not None]
(TRAITS,) = (source.fragments for source in everything() if source.kind == "import")
LIKE = {Verdict.IDENTICAL, Verdict.RELABELLED}
AXES = {"A": "mk", "B": "kn", "C": "mn", "D": "mn", "E": "mk", "SFA": "ms", "SFB": "sn", "r": "mn", "p": "m1"}


SCALE = {"SFA": "ue8m0", "SFB": "ue8m0"}


def of(source, name, shape, types, scales=None):
    """The operands of one form, by role; those of scales for one choice of bytes and threads, and E of one selector."""
    found = {}
    for fragment in source:
        wanted = types.get(fragment.role) == fragment.type and fragment.key[:2] == (name, shape)
        if wanted and (scales is None or scales in (fragment.qualifiers or scales)):
            found.setdefault(fragment.role, fragment)
    assert found.keys() == types.keys(), (name, shape, found.keys())
    return found


def abcd(types, **more):
    return dict(zip("ABCD", types.split(), strict=True)) | more


def sparse_scaled(shape, type_, measured, accumulator, scales):
    """A sparse form with block scales, which the card lacks, with layouts of one whose types are as wide."""
    found = of(CAPTURED, "mma.sp", shape, abcd(f"{measured} {measured} {accumulator} {accumulator}", E=measured))
    types = {measured: type_, accumulator: "f32"}
    found = {role: replace(fragment, type=types[fragment.type]) for role, fragment in found.items()}
    return found | of(DOCUMENTED, "mma.sp", shape, SCALE, scales)


FAMILIES = {
    "f16": of(DOCUMENTED, "mma", "m16n8k16", abcd("f16 f16 f32 f32")),
    "mixed": of(DOCUMENTED, "mma", "m16n8k32", abcd("e4m3 e5m2 f32 f32")),
    "f64": of(DOCUMENTED, "mma", "m8n8k4", abcd("f64 f64 f64 f64")),
    "quad pairs": of(DOCUMENTED, "mma", "m8n8k4", abcd("f16 f16 f32 f32")),
    "sparse f16": of(CAPTURED, "mma.sp", "m16n8k16", abcd("f16 f16 f32 f32", E="f16")),
    "sparse tf32": of(CAPTURED, "mma.sp", "m16n8k16", abcd("tf32 tf32 f32 f32", E="tf32")),
    "sparse s4": of(CAPTURED, "mma.sp", "m16n8k64", abcd("s4 s4 s32 s32", E="s4")),
    "scales 1X": of(DOCUMENTED, "mma", "m16n8k32", abcd("e4m3 e4m3 f32 f32", **SCALE), "scale_vec::1X"),
    "scales 2X": of(DOCUMENTED, "mma", "m16n8k64", abcd("e2m1 e2m1 f32 f32", **SCALE), "scale_vec::2X"),
    "scales 4X": of(DOCUMENTED, "mma", "m16n8k64", abcd("e2m1 e2m1 f32 f32", **SCALE), "scale_vec::4X"),
    "sparse scales 1X": sparse_scaled("m16n8k64", "e5m2", "e4m3", "f32", "scale_vec::1X"),
    "sparse scales 2X": sparse_scaled("m16n8k128", "e2m1", "s4", "s32", "scale_vec::2X"),
    "wgmma": of(CAPTURED, "wgmma", "m64n8k16", {"A": "f16", "D": "f32"}),
    "sparse wgmma": of(CAPTURED, "wgmma.sp", "m64n8k32", {"A": "f16", "D": "f32", "E": "f16"}),
    "wmma": of(CAPTURED, "wmma", "m16n16k16", abcd("f16 f16 f32 f32")),
    "ldmatrix": of(DOCUMENTED, "ldmatrix", "m8n8", {"r": "b16", "p": "b16"}, "x4"),
    "movmatrix": of(CAPTURED, "movmatrix", "m8n8", {"A": "b16", "D": "b16"}),
}


def axes(fragment):
    """What rows and columns of an operand count."""
    return {"A": "mn", "D": "nm"}[fragment.role] if fragment.instruction == "movmatrix" else AXES[fragment.role]


def renumbered(fragment, permutations):
    """The fragment with its rows, columns and computations renumbered; scales by ``s``."""
    table = fragment.elements.copy()
    row, col = axes(fragment)
    if row in permutations:
        table["row"] = np.asarray(permutations[row])[table["row"]]
    if col in permutations:  # a window becomes one from the first column of what its columns become to the last
        first, last = table["col"][:, None], table["col_last"][:, None]
        inside = np.asarray(permutations[col])[np.minimum(first + np.arange((last - first).max(initial=0) + 1), last)]
        table["col"], table["col_last"] = inside.min(axis=1), inside.max(axis=1)
    if "computation" in permutations:
        table["computation"] = 1 + np.asarray(permutations["computation"])[table["computation"] - 1]
    return replace(fragment, elements=table)


def renumbering(operands, generator):
    """A permutation of some axes: of K as whole chunks, or as blocks of scales, or within them, or across them."""
    extents = {}
    for operand in operands.values():
        extents |= dict(zip(axes(operand), operand.dimensions, strict=True))
    scales, chunk = extents.pop("s", 1), max(operand.chunk if operand.windowed else 1 for operand in operands.values())
    extents.pop("1", None)
    found = {}
    for axis, extent in extents.items():
        if generator.random() < 0.5:
            continue
        if axis != "k":
            found[axis] = generator.permutation(extent)
            continue
        block = extent // scales
        blocks = generator.permutation(scales) if generator.random() < 0.5 else np.arange(scales)
        if generator.random() < 0.2:  # across the blocks, which scales would have to follow, and cannot
            order = generator.permutation(extent // chunk)
        else:
            order = np.concatenate(
                [generator.permutation(block // chunk) + entry * (block // chunk) for entry in blocks]
            )
        found["k"] = (order[:, None] * chunk + np.arange(chunk)).ravel()
        if generator.random() < 0.8:
            found["s"] = blocks
    if max(operand.computations for operand in operands.values()) > 1 and generator.random() < 0.5:
        found["computation"] = generator.permutation(max(operand.computations for operand in operands.values()))
    return found


def corrupted(fragment, generator):
    """The fragment with something else in some slots, or without some of them."""
    table = fragment.elements.copy()
    kind = generator.choice(["swap", "element", "missing", "lane", "reg", "slot", "axis", "windows"])
    one, other = generator.integers(0, len(table), 2)
    if kind == "swap":
        for name in ("row", "col", "col_last", "computation"):
            table[name][[one, other]] = table[name][[other, one]]
    elif kind == "element":
        name = generator.choice(["row", "col"])
        width = int(table["col_last"][one] - table["col"][one]) if name == "col" else 0
        extent = fragment.dimensions[name == "col"]
        table[name][one] = generator.integers(0, extent - width)
        table["col_last"][one] = table["col"][one] + width if name == "col" else table["col_last"][one]
    elif kind == "missing":
        table = np.delete(table, generator.integers(0, len(table), generator.integers(1, 4)))
    elif kind == "axis":
        name = generator.choice(["row", "col"])
        permutation = generator.permutation(fragment.dimensions[name == "col"])
        if not fragment.windowed or name == "row":
            table[name] = permutation[table[name]]
            table["col_last"] = table["col_last"] if name == "row" else table["col"]
    elif kind == "windows":
        if fragment.windowed:
            which = generator.random(len(table)) < generator.choice([0.1, 1])
            table["col_last"][which] = table["col"][which]
    else:
        values = np.unique(table[kind])
        one, other = generator.choice(values, 2)
        table[kind] = np.where(table[kind] == one, other, np.where(table[kind] == other, one, table[kind]))
        table = elements({name: table[name] for name in table.dtype.names})
    return replace(fragment, elements=table)


def case(operands, generator):
    """Both sides: renumbered alike, or but for one or two operands, then corrupted here or there, or one less."""
    permutations = renumbering(operands, generator)
    left, right = dict(operands), {role: renumbered(operand, permutations) for role, operand in operands.items()}
    for role in generator.choice([*operands], generator.choice([0, 0, 1, 2])):
        right[role] = operands[role]
    for _ in range(generator.choice([0, 0, 1, 2])):
        side, role = (left, right)[generator.integers(2)], generator.choice([*operands])
        side[role] = corrupted(side[role], generator)
    if generator.random() < 0.15:
        del left[generator.choice([*operands])]
    return left, right


def agrees(left, right):
    """Whether an instruction computes the same through both layouts, in every slot, whatever the numbers."""
    return all(np.array_equal(one, other) for one, other in zip(computed(left), computed(right), strict=True))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_renumbered_alike_is_relabelled_and_computes_the_same(name):
    """Each axis alone; an axis that an operand in memory counts is not free, and does not compute the same."""
    operands = FAMILIES[name]
    extents = {
        axis: extent
        for operand in operands.values()
        for axis, extent in zip(axes(operand), operand.dimensions, strict=True)
    }
    chunk = max(operand.chunk if operand.windowed else 1 for operand in operands.values())
    for axis in extents.keys() - {"s", "1"}:
        step = chunk if axis == "k" else 1
        block = extents[axis] // extents.get("s", 1) // step if axis == "k" else extents[axis]
        order = np.arange(extents[axis] // step)
        order[:block] = order[:block][::-1]
        permutations = {axis: (order[:, None] * step + np.arange(step)).ravel()}
        right = {role: renumbered(operand, permutations) for role, operand in operands.items()}
        free = agrees(operands, right)
        fixed = {"wgmma": "kn", "sparse wgmma": "kn", "ldmatrix": "n"}.get(name, "")
        assert free == (axis not in fixed or block == 1), (name, axis)
        found = {result.key.role: result.verdict for result in compare([*operands.values()], [*right.values()])}
        assert (set(found.values()) <= LIKE) == free, (name, axis, found)
        # One operand alone, without the others or with them as they are, is not.
        for role, operand in operands.items():
            if axis in axes(operand) and right[role].digest != operand.digest:
                others = {**operands, role: right[role]}
                alone = {one.key.role: one.verdict for one in compare([*operands.values()], [*others.values()])}
                assert alone[role] is Verdict.DIFFERENT, (name, axis, role)
                assert compare([operand], [right[role]])[0].verdict is Verdict.DIFFERENT, (name, axis, role)


def test_scales_go_with_their_blocks_of_k():
    operands = FAMILIES["scales 2X"]
    swapped = {"k": np.r_[32:64, 0:32], "s": [1, 0]}
    across = {"k": np.r_[16:48, 0:16, 48:64]}
    for permutations, alike in ((swapped, True), ({"k": swapped["k"]}, False), ({"s": [1, 0]}, False), (across, False)):
        right = {role: renumbered(operand, permutations) for role, operand in operands.items()}
        assert agrees(operands, right) == alike
        found = {result.key.role: result.verdict for result in compare([*operands.values()], [*right.values()])}
        assert (set(found.values()) <= LIKE) == alike, found
        if not alike and "k" in permutations:
            assert {found["A"], found["B"]} == {Verdict.DIFFERENT}
    without = {role: operand for role, operand in operands.items() if not role.startswith("SF")}
    right = {role: renumbered(fragment, {"m": np.arange(16)[::-1]}) for role, fragment in without.items()}
    found = {result.key.role: result.verdict for result in compare([*without.values()], [*right.values()])}
    assert found["A"] is Verdict.DIFFERENT  # every form has scales, which nothing is said of


def is_product(name, roles, axis=None):
    """Whether a product can be made of some operands, or all that count an axis are there.

    One of C and D may be missing, and of the types that also have forms without scales these.
    """
    counts = {role: (None, "computation", *axes(word).replace("s", "k")) for role, word in FAMILIES[name].items()}
    counting = {role for role, counted in counts.items() if axis in counted}
    missing = counting - roles - ({"SFA", "SFB"} if "1X" in name else set())
    return not missing or missing < counting & {"C", "D"}


def expect_a_symmetry(name, left, right, found):
    """What is relabelled is renumbered alike wherever the axis is counted, and any product stays as it is."""
    operands, moved = FAMILIES[name], {}
    for role, result in found.items():
        if result.verdict is Verdict.RELABELLED and " of " not in "".join(result.permutations):
            for axis, to in result.permutations.items():
                assert moved.setdefault(axis, to) == to
                assert is_product(name, found.keys(), axis), (name, role, axis)
    if "k" in moved and "SFA" in operands:
        scales = operands["SFA"].dimensions[1]
        blocks = np.asarray(moved["k"]).reshape(scales, -1) // (len(moved["k"]) // scales)
        assert (blocks == blocks[:, :1]).all()
        moved["s"] = blocks[:, 0]
    assert not moved or agrees(operands, {role: renumbered(operand, moved) for role, operand in operands.items()})
    for role, result in found.items():
        mine, theirs = renumbered(left[role], moved).elements, right[role].elements
        if result.verdict is Verdict.RELABELLED and " of " not in "".join(result.permutations):
            assert all(np.array_equal(mine[axis], theirs[axis]) for axis in ("row", "computation"))
            assert result.narrower or all(np.array_equal(mine[axis], theirs[axis]) for axis in ("col", "col_last"))


def combined(operands, accumulators):
    """The types of A, B, C and D of products of any two types, whose C and D have one type."""
    return [(a, b, d, d) for a, b, d in product(operands.split(), operands.split(), accumulators.split())]


#: Several types of one shape, from one source, with the types of the forms that have them. Metadata goes with A.
POOLS = {
    "halves": (DOCUMENTED, "mma", "m16n8k16", combined("f16", "f16 f32") + combined("bf16", "f32")),
    "bytes": (DOCUMENTED, "mma", "m16n8k32", combined("s8 u8", "s32") + combined("e4m3 e5m2", "f16 f32")),
    "sparse halves": (CAPTURED, "mma.sp", "m16n8k32", combined("f16", "f16 f32") + combined("bf16", "f32")),
    "sparse bytes": (CAPTURED, "mma.sp", "m16n8k64", combined("s8 u8", "s32") + combined("e4m3 e5m2", "f16 f32")),
    "sparse nibbles": (CAPTURED, "mma.sp", "m16n8k64", combined("s4 u4", "s32")),
    "sparse tf32": (CAPTURED, "mma.sp", "m16n8k16", combined("tf32", "f32")),
    "wmma": (
        CAPTURED,
        "wmma",
        "m16n16k16",
        [("f16", "f16", *accumulators) for accumulators in product(("f16", "f32"), repeat=2)]
        + [(type_, type_, "s32", "s32") for type_ in ("s8", "u8")],
    ),
    "ldmatrix": (DOCUMENTED, "ldmatrix", "m8n8", []),
    "stmatrix": (DOCUMENTED, "stmatrix", "m8n8", []),
    "Tensor Memory": (TRAITS, "tcgen05.ld", "16x32bx2", []),
    "unknown": (DOCUMENTED, "mma", "m16n8k16", combined("f16", "f32")),
}
FIXED = {"ldmatrix": "n", "stmatrix": "n", "tcgen05.ld": ["l", "c", "computation"]}


def pooled(name, generator):
    """Some operands of a pool, and the types of all forms that they are of: their keys by role, one form each."""
    source, instruction, shape, types = POOLS[name]
    fragments = [one for one in source if one.key[:2] == (instruction, shape)]
    if name == "unknown":
        fragments = [replace(one, instruction="theirs") for one in fragments]
    if types:
        some = [types[at] for at in generator.permutation(len(types))[: generator.integers(1, 4)]]
        wanted = {pair for form in some for pair in zip("ABCDE", (*form, form[0]), strict=True)}
        fragments = [one for one in fragments if (one.role, one.type) in wanted and one.selector in (None, 0)]
    else:
        sizes = list(dict.fromkeys(one.qualifiers for one in fragments))
        chosen = {sizes[at] for at in generator.permutation(len(sizes))[: generator.integers(1, 4)]}
        fragments = [one for one in fragments if one.qualifiers in chosen]
    return fragments, types


def forms_of(fragments, types):
    """Every product or move that some operands are of, as fragments by role; those that are not there are left out."""
    if not types:
        yield from ({one.role: one for one in some} for some in grouped(fragments, lambda one: one.qualifiers).values())
    for form in types:
        roles = dict(zip("ABCDE", (*form, form[0]), strict=True))
        there = [[one for one in fragments if (one.role, one.type) == pair] or [None] for pair in roles.items()]
        for operands in product(*there):
            yield {one.role: one for one in operands if one}


def chosen_columns(fragment, generator):
    """A sparse operand with the columns of one choice, which metadata can make or not; or with whole rows."""
    table, group = fragment.elements.copy(), fragment.sparsity.group
    if generator.random() < 0.2:
        table["col"], table["col_last"] = 0, fragment.dimensions[1] - 1
        return replace(fragment, elements=table)
    run, fields = group if fragment.role == "A" else 1, fragment.sparsity.fields
    indices = generator.integers(0, fragment.chunk // group, fields)
    indices = np.sort(indices) if generator.random() < 0.7 else indices
    order = np.lexsort((table["slot"], table["reg"], table["lane"], table["col"] // fragment.chunk, table["row"]))
    columns = np.array([group * index + step for index in indices for step in range(run)])
    tiled = np.tile(columns, -(-len(table) // len(columns)))[: len(table)]
    table["col"][order] = table["col"][order] // fragment.chunk * fragment.chunk + tiled
    table["col_last"] = table["col"] + (group - 1 if fragment.role == "E" else 0)
    return replace(fragment, elements=table)


def pooled_case(name, generator):
    """Both sides, renumbered in one or two ways or not, operands of one or two cards, some changed, some missing."""
    fragments, types = pooled(name, generator)
    some = {fragment.role: fragment for fragment in fragments}
    ways = [renumbering(some, generator) if "r" not in some or "p" in some else {} for _ in range(2)]
    if name == "Tensor Memory" and generator.random() < 0.5:
        ways[0] = {"computation": np.array([1, 0])}
    if "A" in some and some["A"].windowed and generator.random() < 0.3:
        ways[0]["k"] = np.arange(some["A"].dimensions[1]) ^ 1
    torn = generator.random() < 0.3
    left = [chosen_columns(one, generator) if one.windowed and generator.random() < 0.1 else one for one in fragments]
    right = []
    for one in fragments:
        way = ways[int(torn and generator.random() < 0.3)] if generator.random() < 0.9 else {}
        one = chosen_columns(one, generator) if one.windowed and generator.random() < 0.4 else one
        one = renumbered(
            one, {axis: to for axis, to in way.items() if axis != "computation" or len(to) == one.computations}
        )
        right.append(replace(one, source=f"card {generator.integers(2) if torn else 0}"))
    for side in (left, right):
        for at in generator.permutation(len(side))[: generator.choice([0, 0, 0, 1])]:
            side[at] = corrupted(side[at], generator)
        for at in generator.permutation(len(side))[: generator.choice([0, 0, 0, 0, 1])]:
            width = {"register_bits": 64} if generator.random() < 0.5 else {"slots": 2 * side[at].slots}
            side[at] = replace(side[at], **width)
    keys = [one.key for one in fragments]
    gone = [
        {keys[at] for at in generator.permutation(len(keys))[: generator.choice([0, 0, 0, 1, 2])]} for _ in range(2)
    ]
    gone = [gone[0], gone[0]] if generator.random() < 0.5 else gone
    sides = [[one for one in side if one.key not in lost] for side, lost in zip((left, right), gone, strict=True)]
    return *sides, types


def goes_along(result, axis, to):
    """Whether an operand has an axis renumbered in this way, element by element; windows as one within the other."""
    counted = dict(zip(axes(result.left), (["row", "row"], ["col", "col_last"]), strict=True))
    ends = (counted | {"computation": ["computation"] * 2}).get(axis)
    mine, theirs = (side.elements for side in (result.left, result.right))
    places = [table["lane"].astype(int) << 16 | table["reg"] << 8 | table["slot"] for table in (mine, theirs)]
    _, at, there = np.intersect1d(*places, return_indices=True)
    spans = np.stack([table[end] for table in (mine[at], theirs[there]) for end in ends], axis=1) if ends else []
    start = int(axis == "computation")
    for first, last, other_first, other_last in np.unique(spans, axis=0).tolist() if ends else ():
        image = {to[at - start] + start for at in range(first, last + 1)}
        wanted = {*range(other_first, other_last + 1)}
        if not (image <= wanted or wanted <= image):
            return False
    return True


def expect_a_form_for_each(found, types, name):
    """What is relabelled has a form of which all that counts the axis was compared, goes along, and has one source."""
    compared = {key: result for key, result in found.items() if result.compared}
    every = list(forms_of([result.left for result in compared.values()], types))
    for key, result in compared.items():
        for axis, to in result.permutations.items() if result.verdict is Verdict.RELABELLED else ():
            assert axis not in FIXED.get(key.instruction, "")
            if " of " in axis:
                continue
            vouching = []
            for form in (form for form in every if form.get(key.role) is result.left):
                counts = {"A": "mk", "B": "kn", "C": "mn", "D": "mn"} | (
                    {"E": "mk"} if name.startswith("sparse") else {}
                )
                counts = {"r": "mn", "p": "m1"} if not types else counts
                counting = {role for role, named in counts.items() if axis in (*named, "computation")}
                missing = counting - form.keys()
                others = [compared[form[role].key] for role in counting & form.keys()]
                whole = not missing or missing < counting & {"C", "D"}
                alike = whole and all(goes_along(other, axis, to) for other in others)
                vouching.append(alike and len({other.right.source for other in others}) == 1)
            assert any(vouching), (name, key, axis)


def expect_true_products(found, types, name):
    """Every instruction all of whose operands are alike computes the same through both sides."""
    alike = {key: one for key, one in found.items() if one.verdict in LIKE and not one.narrower}
    for form in forms_of([result.left for result in alike.values()], types):
        roles = form.keys()
        multiplies = {"A", "B"} <= roles and roles & {"C", "D"} and ("E" in roles or not name.startswith("sparse"))
        if multiplies or {"r", "p"} <= roles:
            other = {role: alike[one.key].right for role, one in form.items()}
            assert agrees(form, other), (name, {role: str(one) for role, one in form.items()})


def expect_one_choice(found):
    """A and E that name single columns beside windows on the other side: some metadata selects both in every chunk."""
    named = [one for one in found.values() if one.agrees and one.narrower and exact(getattr(one, one.narrower))]
    for a, e in product(named, named):
        together = (a.key.role, e.key.role) == ("A", "E") and (a.key.type, a.narrower) == (e.key.type, e.narrower)
        orders = [one.permutations.get("k", range(one.left.dimensions[1])) for one in (a, e)]
        if not together or [*orders[0]] != [*orders[1]]:
            continue
        counted = np.argsort(orders[0]) if a.narrower == "right" else np.asarray(orders[0])
        columns = [{}, {}]
        for of_row, one in zip(columns, (a, e), strict=True):
            for *_, row, col, last, _ in getattr(one, one.narrower).elements.tolist():  # in the order of slots
                selected = sorted(counted[col : last + 1].tolist())
                of_row.setdefault((row, selected[0] // one.left.chunk), []).extend(selected)
        assert columns[0] == columns[1]
        assert all(chosen == sorted({*chosen}) for chosen in columns[0].values())


def exact(fragment):
    """Whether each element names the columns that one field of metadata selects: a pair of E of 4 bits, else one."""
    width = fragment.sparsity.group if fragment.role == "E" else 1
    return (fragment.elements["col_last"] - fragment.elements["col"] == width - 1).all()


def packed_apart(result):
    return (result.left.slots, result.left.register_bits) != (result.right.slots, result.right.register_bits)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_form_of_several_agrees_falsely(seed):
    """Several types and sizes at once: operands missing here or there, of two cards, named exactly or not at all."""
    generator, judged, names = np.random.default_rng(seed), Counter(), [*POOLS]
    for at in count():
        name = names[at % len(names)]
        left, right, types = pooled_case(name, generator)
        found = {result.key: result for result in compare(left, right)}
        judged.update(result.verdict for result in found.values())
        for result in found.values():
            if result.left and result.right:
                whole = [side.elements["col_last"] - side.elements["col"] + 1 for side in (result.left, result.right)]
                claimless = result.left.windowed and any((one == result.left.dimensions[1]).any() for one in whole)
                assert not (claimless or packed_apart(result)) or result.verdict in (
                    Verdict.DIFFERENT,
                    Verdict.UNJUDGED,
                )
                assert (result.verdict is Verdict.UNJUDGED) <= claimless
        expect_a_form_for_each(found, types, name)
        expect_true_products(found, types, name)
        expect_one_choice(found)
        if judged.total() >= (50_000 if LONG else 15 * settings().max_examples):
            break
    print(dict(judged))
    assert min(judged[verdict] for verdict in Verdict) > judged.total() / 200


@pytest.mark.timeout(3600)
def test_there_is_no_false_agreement(seed):
    """What is called identical or relabelled computes the same, and is renumbered in all that counts the axis."""
    generator, judged, names = np.random.default_rng(seed), Counter(), [*FAMILIES]
    for at in count():
        name = names[at % len(names)]
        left, right = case(FAMILIES[name], generator)
        results = compare([*left.values()], [*right.values()])
        found = {result.key.role: result for result in results if result.compared}
        judged.update(result.verdict for result in found.values())
        alike = {role for role, result in found.items() if result.verdict in LIKE}
        if is_product(name, alike) and not any(found[role].narrower for role in alike):
            sides = ({role: side[role] for role in alike} for side in (left, right))
            assert agrees(*sides), (name, at, seed)
        expect_a_symmetry(name, left, right, found)
        if judged.total() >= (50_000 if LONG else 15 * settings().max_examples):
            break
    print(dict(judged))
    assert min(judged[Verdict.RELABELLED], judged[Verdict.DIFFERENT]) > judged.total() / 20


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAMILIES if "E" in FAMILIES[name]])
def test_refined_is_what_some_valid_metadata_selects(name):
    """Of a sparse A each way to choose columns in ascending order, and none that metadata cannot say."""
    a = FAMILIES[name]["A"]
    run, wide = {8: (2, 4), 4: (1, 4), 2: (1, 2)}[a.chunk]
    for chosen in product(range(wide), repeat=1 if wide == 2 else 2):
        exact = a.elements.copy()
        # The elements of a chunk stand beside each other, in the order of their slots.
        order = np.lexsort((exact["slot"], exact["reg"], exact["lane"], exact["col"] // a.chunk, exact["row"]))
        columns = [run * index + step for index in chosen for step in range(run)]
        exact["col"][order] = exact["col"][order] // a.chunk * a.chunk + np.tile(columns, len(exact) // len(columns))
        exact["col_last"] = exact["col"]
        wider = a.elements.copy()
        wider["col"] = wider["col"] // a.chunk * a.chunk
        wider["col_last"] = wider["col"] + a.chunk - 1
        for mine, theirs, narrower in ((exact, wider, "left"), (wider, exact, "right")):
            (found,) = compare([replace(a, elements=mine)], [replace(a, elements=theirs)])
            valid = [*chosen] == sorted(set(chosen))
            assert found.verdict is (Verdict.REFINED if valid else Verdict.DIFFERENT), chosen
            assert found.narrower == (narrower if valid else None)
            assert ("no valid metadata selects" in found.words) == (not valid)


def test_windows_cut_to_their_first_column_are_no_refinement():
    """As a table without ``col_last`` has them: both elements of a chunk claim the same column."""
    for fragment in (
        FAMILIES["sparse f16"]["A"],
        next(one for one in DOCUMENTED if one.key[:2] == ("mma.sp", "m16n8k32")),
    ):
        cut = fragment.elements.copy()
        cut["col"] = cut["col"] // fragment.chunk * fragment.chunk
        cut["col_last"] = cut["col"]
        (found,) = compare([replace(fragment, elements=cut)], [fragment])
        assert found.verdict is Verdict.DIFFERENT


def test_a_chunk_named_twice_and_another_never_is_no_refinement():
    """Within a window of two chunks, as a document may name it, exact columns must be those of both."""
    a = FAMILIES["sparse f16"]["A"]
    wider, exact = a.elements.copy(), a.elements.copy()
    wider["col"] = wider["col"] // (2 * a.chunk) * 2 * a.chunk
    wider["col_last"] = wider["col"] + 2 * a.chunk - 1
    order = np.lexsort((exact["slot"], exact["reg"], exact["lane"], exact["col"] // a.chunk, exact["row"]))
    exact["col"][order] = exact["col"][order] // a.chunk * a.chunk + np.tile([0, 1], len(exact) // 2)
    exact["col_last"] = exact["col"]
    twice = exact.copy()
    twice["col"] = twice["col_last"] = twice["col"] - twice["col"] // a.chunk % 2 * a.chunk
    for mine, verdict in ((exact, Verdict.REFINED), (twice, Verdict.DIFFERENT)):
        (found,) = compare([replace(a, elements=mine)], [replace(a, elements=wider)])
        assert found.verdict is verdict


def test_one_chunk_that_no_metadata_selects_is_no_refinement():
    a = FAMILIES["sparse f16"]["A"]
    wide, exact = a.elements.copy(), a.elements.copy()
    wide["col"] = wide["col"] // a.chunk * a.chunk
    wide["col_last"] = wide["col"] + a.chunk - 1
    order = np.lexsort((exact["slot"], exact["reg"], exact["lane"], exact["col"] // a.chunk, exact["row"]))
    exact["col"][order] = wide["col"][order] + np.tile([1, 2], len(exact) // 2)
    exact["col_last"] = exact["col"]
    (found,) = compare([replace(a, elements=exact)], [replace(a, elements=wide)])
    assert found.verdict is Verdict.REFINED
    exact["col"][order[:2]] = exact["col_last"][order[:2]] = exact["col"][order[:2]][::-1]
    (found,) = compare([replace(a, elements=exact)], [replace(a, elements=wide)])
    assert (found.verdict, found.impossible) == (Verdict.DIFFERENT, "left")
