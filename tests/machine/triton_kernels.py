"""Kernels in Triton, which reads them from their file."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, width, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    rm = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    rn = tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    rk = tl.arange(0, tile_k)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for k in range(0, depth, tile_k):
        x = tl.load(a + rm[:, None] * depth + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * width + rn[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rm[:, None] * width + rn[None, :], total)


@triton.jit
def attention(
    q, k, v, o, width, scale, tile_m: tl.constexpr, tile_n: tl.constexpr, size: tl.constexpr, causal: tl.constexpr
):
    rm = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    rd = tl.arange(0, size)
    rn = tl.arange(0, tile_n)
    rows = tl.load(q + rm[:, None] * size + rd[None, :])
    most = tl.full((tile_m,), float("-inf"), tl.float32)
    weight = tl.zeros((tile_m,), tl.float32)
    total = tl.zeros((tile_m, size), tl.float32)
    for n in range(0, width, tile_n):
        keys = tl.load(k + (n + rn)[:, None] * size + rd[None, :])
        scores = tl.dot(rows, tl.trans(keys)) * scale
        if causal:
            scores = tl.where(rm[:, None] >= (n + rn)[None, :], scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp2((scores - higher[:, None]) * 1.4426950408889634)
        shrunk = tl.exp2((most - higher) * 1.4426950408889634)
        weight = weight * shrunk + tl.sum(powers, 1)
        most = higher
        values = tl.load(v + (n + rn)[:, None] * size + rd[None, :])
        total = tl.dot(powers.to(tl.float16), values, total * shrunk[:, None])
    tl.store(o + rm[:, None] * size + rd[None, :], total / weight[:, None])
