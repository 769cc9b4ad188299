"""What section 9.7.16.3 says of block scales, against its words, arithmetic, and the CUTLASS release."""

import re
from itertools import product

import numpy as np
import pytest

from lanemap.db.isa.instructions import in_tensor_memory
from lanemap.db.layout.structure import check

from ..shipped import CORRECTED, NUMBERED

#: Table 36: the types of scales, for each number of them in a row of A; and what has them.
SHAPES = {1: {"mma": "m16n8k32", "mma.sp": "m16n8k64"}, 2: {"mma": "m16n8k64", "mma.sp": "m16n8k128"}}
SHAPES[4] = SHAPES[2]
TYPES = {1: ["ue8m0"], 2: ["ue8m0"], 4: ["ue8m0", "ue4m3"]}
#: Table 37.
BYTES = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
THREADS = {"SFA": (0, 1), "SFB": (0, 1, 2, 3)}


@pytest.fixture(scope="module", params=NUMBERED)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def scales(sources, version):
    """The block scales by key, as printed and as corrected: nothing is."""
    both = (sources[f"ptx-isa-{version}"], sources[f"ptx-isa-{version}+errata"])
    printed, corrected = (
        {e.key: e for e in s.fragments if e.role in THREADS and not in_tensor_memory(e.key)} for s in both
    )
    assert all(corrected[key].same_layout(fragment) for key, fragment in printed.items())
    return corrected


def chosen(key):
    """How many scales there are, byte-id and thread-id."""
    found = re.fullmatch(r"scale_vec::(\d)X\.byte_id::(\d)\.thread_id::(\d)", key.qualifiers)
    return tuple(map(int, found.groups()))


def test_every_selector_of_the_tables_is_there_and_no_other(scales):
    assert {(*key[:4], *chosen(key)) for key in scales} == {
        (name, shape, type_, role, count, byte, thread)
        for count, shapes in SHAPES.items()
        for (name, shape), type_, role in product(shapes.items(), TYPES[count], THREADS)
        for byte, thread in product(BYTES[count], THREADS[role])
    }
    assert len(scales) == 96


def test_each_row_of_a_has_its_scales_in_one_lane_of_its_quad(scales):
    """Backwards from the matrix: the lane and the byte that a scale must be in."""
    for key, scale in scales.items():
        count, byte, thread = chosen(key)
        found = {(e.row, e.col): (e.lane, e.reg, e.slot) for e in scale.records()}
        if key.role == "SFA":
            lanes = {row: 4 * (row % 8) + 2 * thread + row // 8 for row in range(16)}
            wanted = {(row, n): (lanes[row], 0, byte + n) for row in range(16) for n in range(count)}
        else:
            wanted = {(n, col): (4 * col + thread, 0, byte + n) for col in range(8) for n in range(count)}
        assert found == wanted, scale
        assert len(scale.records()) == len(wanted)
        assert check(scale) == []


def test_registers_are_four_bytes(scales):
    for key, scale in scales.items():
        assert (scale.registers, scale.slots, scale.slot_bits, scale.status) == (1, 4, 8, "documented")
        count, _, _ = chosen(key)
        assert scale.dimensions == ((16, count) if key.role == "SFA" else (count, 8))


def test_scaled_products_do_not_see_other_bytes(scales):
    """A random product of blocks, each scale read from registers that are random everywhere else."""
    random = np.random.default_rng(5)
    for (key_a, a), (key_b, b) in product(scales.items(), scales.items()):
        if (key_a[:3], key_a.role, key_b.role) != (key_b[:3], "SFA", "SFB") or chosen(key_a)[0] != chosen(key_b)[0]:
            continue
        count = chosen(key_a)[0]
        want = [random.integers(1, 9, fragment.dimensions) for fragment in (a, b)]
        held = [random.integers(1, 9, (32, 4)) for _ in want]
        for registers, matrix, fragment in zip(held, want, (a, b), strict=True):
            for e in fragment.records():
                registers[e.lane, e.slot] = matrix[e.row, e.col]
        blocks = random.integers(-4, 5, (16, count, 8))
        by_rows = np.zeros((16, 8), np.int64)
        of_a, of_b = ({(e.row, e.col): (e.lane, e.slot) for e in fragment.records()} for fragment in (a, b))
        for row, n, col in product(range(16), range(count), range(8)):
            by_rows[row, col] += blocks[row, n, col] * held[0][of_a[row, n]] * held[1][of_b[n, col]]
        assert (by_rows == np.einsum("rnc,rn,nc->rc", blocks, *want)).all()


def test_each_element_of_a_and_b_has_a_scale(scales, sources):
    """K falls into as many equal blocks as there are scales, and these have the rows of A and the columns of B."""
    operands = {fragment.key[:4]: fragment for fragment in sources[CORRECTED].fragments}
    for key, scale in scales.items():
        count, _, _ = chosen(key)
        matrix = operands[(*key[:2], "e2m1", key.role[-1])].dimensions
        k, other = matrix[::-1] if key.role == "SFA" else matrix
        assert k % count == 0
        assert other in scale.dimensions
        assert k // count == {1: 32, 2: 32, 4: 16}[count] * (1 + key.instruction.endswith("sp"))


def test_where_they_stand(scales, version):
    chapter, _, _, higher = NUMBERED[version]
    for key, scale in scales.items():
        assert (scale.citation.section, scale.citation.anchor) == (f"{chapter}.3", "warp-level-block-scaling")
        figures = [int(number) - higher for number in re.findall(r"(\d+) #", scale.citation.figures)]
        assert figures == [42, 43 if key.role == "SFA" else 44, 45]
