"""Fragments that no source has: with mistakes, held in part, and of machines that Lanemap has never heard of."""

import numpy as np
from hypothesis import strategies as st

from lanemap.db.layout.fragment import Fragment, by_rule, elements


@st.composite
def corrupted(draw):
    """A small fragment of which elements may be wrong, out of range, of another product, missing or double."""
    rows = [[lane, reg, lane // 4, lane % 4 * 2 + reg, 0, 1] for lane in range(32) for reg in (0, 1)]
    number = st.integers(-2, 9)
    cell = st.tuples(number, number, st.integers(0, 3), st.integers(0, 4))
    for place, wrong in draw(st.dictionaries(st.integers(0, 63), cell, max_size=3)).items():
        rows[place][2:] = wrong
    rows = rows[draw(st.sampled_from([0, 0, 0, 1])) :] + rows[: draw(st.sampled_from([0, 0, 0, 1]))]
    lane, reg, row, col, window, computation = np.array(rows).T
    places = {"lane": lane, "reg": reg, "slot": np.zeros_like(lane)}
    cells = {"row": row, "col": col, "col_last": col + window, "computation": computation}
    return Fragment("mma", "m8n8k4", "f64", "C", 2, 1, elements(places | cells))


@st.composite
def supplied(draw):
    """A of m16n8k16 f16, of which some lanes or all hold some elements or all."""
    lane, i = np.indices((32, 8))
    rows = by_rule(2, lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8)
    lanes, those = (draw(st.just(range(count)) | st.sets(st.integers(0, count - 1), min_size=1)) for count in (32, 8))
    held = np.isin(rows["lane"], list(lanes)) & np.isin(rows["reg"] * 2 + rows["slot"], list(those))
    return Fragment("mma", "m16n8k16", "f16", "A", 4, 2, rows[held])


def warpgroup():
    """D of 128 threads."""
    thread, i = np.indices((128, 8))
    row, col = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, thread % 4 * 2 + i % 2 + i // 4 * 8
    return Fragment("wgmma", "m64n16k16", "f32", "D", 8, 1, by_rule(1, row, col))


def matrices():
    """Four matrices, of each of which every lane holds a register, as ldmatrix.x4 loads them."""
    lane, i = np.indices((32, 8))
    rows = by_rule(2, lane // 4, lane % 4 * 2 + i % 2, computation=i // 2 + 1)
    return Fragment("ldmatrix", "m8n8", "b16", "r", 4, 2, rows, qualifiers="x4")


def unheard_of(name="x.matmul"):
    """C of 32 x 32 that 64 lanes hold, 4 x 4 ones as 16 computations, and one of 256 lanes, of any instruction."""
    lane, i = np.indices((64, 16))
    large = by_rule(1, i // 4 * 8 + lane // 32 * 4 + i % 4, lane % 32)
    lane, i = np.indices((64, 4))
    blocks = by_rule(1, i, lane % 4, computation=lane // 4 + 1)
    lane, i = np.indices((256, 4))
    long = by_rule(1, lane // 8, lane % 8 * 4 + i)
    return [
        Fragment(name, "m32n32k8", "f32", "C", 16, 1, large, source="table"),
        Fragment(name, "m4n4k4", "f32", "C", 4, 1, blocks, source="table"),
        Fragment(name, "m32n32k32", "f32", "C", 4, 1, long, source="table"),
    ]
