"""The reductions of C++ headers, compiled by nvcc and run on simulated threads, against those of matrices."""

import numpy as np
import pytest

from lanemap.db.flow.reduction import reduction
from lanemap.db.render.notation import export

from ..db.test_reduction import HELD, kind
from ..modes import LONG, one_of_each

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


@pytest.fixture(scope="module")
def reducible():
    """The smallest dense layout of each kind that fills its lanes."""
    few = HELD.values() if LONG else [each for each in HELD.values() if each.instruction in ("mma", "wmma")]
    dense = [each for each in few if each.vendor == "nvidia" and not each.partial and not each.windowed]
    found = one_of_each(kind, dense, lambda fragment: len(fragment.table))
    large = next(each for each in HELD.values() if each.role == "D" and each.shape.startswith("m64n64k"))
    return {fragment.key.identifier: fragment for fragment in [*found, large] if len(fragment.table) <= 4096}


@pytest.mark.slow
def test_a_warp_reduces_on_simulated_threads(reducible, nvcc, database, tmp_path):
    parts = [export(reducible.values(), "cpp", "VERSION").text, KERNEL.format()]
    asked = [(name, along, op) for name in reducible for along, op in (("row", "a + b"), ("col", "a < b ? b : a"))]
    parts += [ENTRY.format(name=name, along=along, op=op) for name, along, op in asked]
    file = tmp_path / "reductions.cu"
    file.write_text("\n".join(parts))
    done = nvcc(file, "-Werror=all-warnings", to=["-arch=sm_80", "-ptx"])
    assert done.returncode == 0, done.stderr[:2000]
    text = file.with_suffix(".out").read_text()
    assert ".local" not in text
    before, *entries = text.split(".visible .entry ")
    alone = {entry.partition("(")[0]: f"{before}.visible .entry {entry}" for entry in entries}
    assert len(asked) > 20
    for name, along, op in asked:
        fragment, found = reducible[name], reduction(reducible[name], along)
        shape = (fragment.computations, *fragment.dimensions)
        matrix = np.random.default_rng(0).integers(-999, 999, shape).astype(np.int32)
        out = np.zeros((fragment.threads, len(found.values)), np.int32)
        run = database.trace(
            alone[f"{name}_{along}"], {"matrix": matrix.reshape(-1), "out": out}, block=fragment.threads
        )
        assert not [each for each in run.findings if each.kind != "operand"], run
        # Of what several warps share each has its own part.
        for lane in range(fragment.threads):
            mine = fragment.table[fragment.table["lane"] == lane]
            warp = fragment.table[fragment.table["lane"] // fragment.group == lane // fragment.group]
            for value, together in enumerate(found.values):
                first = mine[mine["reg"] * fragment.slots + mine["slot"] == together[0]][0]
                same = warp[(warp[along] == first[along]) & (warp["computation"] == first["computation"])]
                cells = np.unique(same[["computation", "row", "col"]])
                expected = matrix[cells["computation"] - 1, cells["row"], cells["col"]]
                assert run.outputs["out"].reshape(out.shape)[lane, value] == (
                    expected.sum() if "+" in op else expected.max()
                )
