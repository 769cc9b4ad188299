"""The reductions of C++ headers, compiled by nvcc and run on simulated threads, against those of matrices."""

import shutil
import subprocess

import numpy as np
import pytest

from lanemap.db.flow.reduction import reduction
from lanemap.db.render.notation import export

from ..db.test_reduction import HELD, kind
from ..modes import LONG
from .made import unheard_of

KERNEL = """
template <class F, class Reduce> __device__ void reduced(const int* matrix, int* out, Reduce reduce) {{
  int d[F::registers * F::slots];
#pragma unroll
  for (int i = 0; i < F::registers * F::slots; ++i) {{
    const lanemap::cell c = F::at(threadIdx.x, i / F::slots, i % F::slots);
    d[i] = matrix[((c.computation - 1) * F::rows + c.row) * F::cols + c.col];
  }}
  const auto found = reduce(d);
  constexpr int count = sizeof(found) / sizeof(int);
#pragma unroll
  for (int i = 0; i < count; ++i) out[threadIdx.x * count + i] = found[i];
}}
"""

ENTRY = """
extern "C" __global__ void {name}_{along}(const int* matrix, int* out) {{
  using F = lanemap::{name};
  reduced<F>(matrix, out, [](const auto& d) {{ return F::reduce_{along}s(d, [](int a, int b) {{ return {op}; }}); }});
}}
"""


def reducible():
    """The smallest dense layout of each kind that fills its lanes, and a large one; in the long mode of all."""
    few = HELD.values() if LONG else [each for each in HELD.values() if each.instruction in ("mma", "wmma")]
    dense = [each for each in few if each.vendor == "nvidia" and not each.partial and not each.windowed]
    found = {kind(each): each for each in sorted(dense, key=lambda each: len(each.table), reverse=True)}.values()
    held = (each for each in HELD.values() if each.role == "D" and not each.memory)
    large = next(each for each in held if each.shape.startswith("m64n64k"))
    return [fragment for fragment in [*found, large] if len(fragment.table) <= 4096]


def kernels():
    """What all kernels share, and of each its name, text, threads, the matrix that it reduces, what it must leave."""
    fragments, cases = reducible(), []
    for fragment in fragments:
        shape = (fragment.computations, *fragment.dimensions)
        matrix = np.random.default_rng(0).integers(-999, 999, shape).astype(np.int32)
        for along, op, combined in (("row", "a + b", np.sum), ("col", "a < b ? b : a", np.max)):
            name = fragment.key.identifier
            text = ENTRY.format(name=name, along=along, op=op)
            right = of_each_lane(fragment, along, matrix, combined)
            cases.append((f"{name}_{along}", text, fragment.threads, matrix.reshape(-1), right.reshape(-1)))
    return [export(fragments, "cpp", "VERSION").text, KERNEL.format()], cases


def of_each_lane(fragment, along, matrix, combined):
    """What each lane must have of each of its values: of what several warps share, the part of its own."""
    found = reduction(fragment, along)
    right = np.zeros((fragment.threads, len(found.values)), np.int32)
    for lane in range(fragment.threads):
        mine = fragment.table[fragment.table["lane"] == lane]
        warp = fragment.table[fragment.table["lane"] // fragment.group == lane // fragment.group]
        for value, together in enumerate(found.values):
            first = mine[mine["reg"] * fragment.slots + mine["slot"] == together[0]][0]
            same = warp[(warp[along] == first[along]) & (warp["computation"] == first["computation"])]
            cells = np.unique(same[["computation", "row", "col"]])
            right[lane, value] = combined(matrix[cells["computation"] - 1, cells["row"], cells["col"]])
    return right


#: A block of HIP as threads of the host: a shuffle waits until all lanes have given theirs.
HIP = """
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
#define __HIP__ 1
#define __host__
#define __device__
constexpr int most = 256;
int given[most], lanes;
std::atomic<int> arrived;
thread_local int lane, turn = 0;
inline void together() {
  const int all = ++turn * lanes;
  ++arrived;
  while (arrived < all) std::this_thread::yield();
}
inline int __shfl_xor(int value, int mask) {
  given[lane] = value;
  together();
  const int found = given[lane ^ mask];
  together();
  return found;
}
"""

BLOCK = """
int main() {{
  using F = lanemap::{name};
  lanes = {threads};
  static int out[most][F::{along}_values];
  std::vector<std::thread> threads;
  for (int own = 0; own < lanes; ++own) threads.emplace_back([own] {{
    lane = own;
    int d[F::registers * F::slots];
    for (int i = 0; i < F::registers * F::slots; ++i) {{
      const lanemap::cell c = F::at(lane, i / F::slots, i % F::slots);
      d[i] = (((c.computation - 1) * F::rows + c.row) * F::cols + c.col) * 7919 % 1009;
    }}
    const auto found = F::reduce_{along}s(d, [](int a, int b) {{ return a + b; }});
    for (int i = 0; i < F::{along}_values; ++i) out[lane][i] = found[i];
  }});
  for (auto& thread : threads) thread.join();
  for (int own = 0; own < lanes; ++own)
    for (int i = 0; i < F::{along}_values; ++i) std::printf("%d ", out[own][i]);
}}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
@pytest.mark.parametrize("along", ["row", "col"])
@pytest.mark.parametrize("number", range(3))
def test_a_wavefront_reduces_in_hip(tmp_path, along, number):
    fragment = unheard_of("v_mfma_f32_32x32x8_f16")[number]
    count = fragment.computations * np.prod(fragment.dimensions)
    matrix = (np.arange(count) * 7919 % 1009).reshape(fragment.computations, *fragment.dimensions)
    file = tmp_path / "wavefront.cpp"
    name = fragment.key.identifier
    main = BLOCK.format(name=name, along=along, threads=fragment.threads)
    file.write_text(HIP + export([fragment], "cpp", "VERSION").text + main)
    command = ["g++", "-std=c++20", "-Wno-unknown-pragmas", "-pthread", file, "-o", tmp_path / "wavefront"]
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "wavefront"], check=True, capture_output=True, text=True, timeout=100)
    right = of_each_lane(fragment, along, matrix, np.sum)
    assert [*map(int, done.stdout.split())] == right.ravel().tolist()


@pytest.mark.slow
def test_a_warp_reduces_on_simulated_threads(nvcc, database, tmp_path):
    parts, cases = kernels()
    file = tmp_path / "reductions.cu"
    file.write_text("\n".join([*parts, *(text for _, text, *_ in cases)]))
    done = nvcc(file, "-Werror=all-warnings", to=["-arch=sm_80", "-ptx"])
    assert done.returncode == 0, done.stderr[:2000]
    text = file.with_suffix(".out").read_text()
    assert ".local" not in text
    before, *entries = text.split(".visible .entry ")
    alone = {entry.partition("(")[0]: f"{before}.visible .entry {entry}" for entry in entries}
    assert len(cases) > 20
    for name, _, threads, matrix, right in cases:
        run = database.trace(alone[name], {"matrix": matrix, "out": np.zeros_like(right)}, block=threads)
        assert not [each for each in run.findings if each.kind != "operand"], run
        assert np.array_equal(run.outputs["out"], right), name
