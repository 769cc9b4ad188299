"""What CuTe's 4-bit atoms compute on a GPU: the one whose B Lanemap calls wrong gives just the wrong product it says.

A tile is cut by the atom's own layouts, loaded, multiplied and stored, without a layout of ours. An atom whose layouts
are right gives what numpy does. Built with the package nvidia-cutlass and run as functions.py is.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

ATOMS = {"k32": ("SM80_16x8x32_S32S4S4S32_TN", 32), "k64": ("SM80_16x8x64_S32S4S4S32_TN", 64)}

SOURCE = """
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
using namespace cute;

template <class Atom, int K>
__device__ void tile(uint8_t const* a, uint8_t const* b, int32_t* d) {
  auto mma = make_tiled_mma(MMA_Atom<Atom>{});
  auto slice = mma.get_slice(threadIdx.x);
  auto A = slice.partition_A(make_tensor(make_gmem_ptr<int4b_t>(a), Layout<Shape<_16, Int<K>>, Stride<Int<K>, _1>>{}));
  auto B = slice.partition_B(make_tensor(make_gmem_ptr<int4b_t>(b), Layout<Shape<_8, Int<K>>, Stride<Int<K>, _1>>{}));
  auto D = slice.partition_C(make_tensor(make_gmem_ptr(d), Layout<Shape<_16, _8>, Stride<_8, _1>>{}));
  auto a_held = make_fragment_like(A);
  auto b_held = make_fragment_like(B);
  auto d_held = make_fragment_like(D);
  for (int i = 0; i < size(A); ++i) a_held(i) = A(i);
  for (int i = 0; i < size(B); ++i) b_held(i) = B(i);
  clear(d_held);
  gemm(mma, a_held, b_held, d_held);
  copy(d_held, D);
}
"""

KERNEL = """
extern "C" __global__ void {name}(uint8_t const* a, uint8_t const* b, int32_t* d) {{ tile<{atom}, {depth}>(a, b, d); }}
"""


def packages():
    """The folders of NVIDIA's packages, and the headers of CUTLASS."""
    nvidia, cutlass = (importlib.util.find_spec(name) for name in ("nvidia", "cutlass_library"))
    if not nvidia or not cutlass:
        return [], None
    folders = [path for place in nvidia.submodule_search_locations for path in sorted(Path(place).iterdir())]
    return folders, Path(cutlass.origin).parent / "source" / "include"


def claimed_product(database, release, form, a, b):
    """The product where each slot of B is loaded from the cell that CuTe claims."""
    key = {"shape": form[0], "type": form[1], "role": "B"}
    (claim,) = (
        fragment for fragment in release.fragments if (fragment.shape, fragment.type, fragment.role) == (*form, "B")
    )
    true = database.fragment(**key).elements
    loaded = np.empty_like(b)
    loaded[true["row"], true["col"]] = b[claim.elements["row"], claim.elements["col"]]
    return a @ loaded


def build(folder, file=None):
    """Compiles the kernels; what each is given, what numpy says it must give, and what CuTe's layouts say it gives."""
    import lanemap
    from lanemap.ingest import cute

    folder.mkdir(parents=True, exist_ok=True)
    folders, headers = packages()
    program = next(found for folder in folders for found in folder.glob("bin/nvcc"))
    (release,) = (imported.source for imported in cute.load(headers))
    random, kept = np.random.default_rng(0), {}
    with lanemap.open(file or folder / "layouts.db") as database:
        for name, (_, depth) in ATOMS.items():
            a, b = random.integers(-8, 8, (16, depth)), random.integers(-8, 8, (depth, 8))
            claimed = claimed_product(database, release, (f"m16n8k{depth}", "s4"), a, b)
            packed = [matrix[:, ::2] & 15 | (matrix[:, 1::2] & 15) << 4 for matrix in (a, b.T)]
            kept |= {f"{name}-a": packed[0].astype(np.uint8), f"{name}-b": packed[1].astype(np.uint8)}
            kept |= {f"{name}-right": a @ b, f"{name}-claimed": claimed}
    np.savez(folder / "atoms.npz", **kept)
    kernels = (KERNEL.format(name=name, atom=atom, depth=depth) for name, (atom, depth) in ATOMS.items())
    (folder / "atoms.cu").write_text(SOURCE + "".join(kernels))
    includes = [f"-I{folder}" for folder in (headers, *(folder / "include" for folder in folders))]
    options = ["-std=c++17", "-arch=sm_90a", "-cubin", "--expt-relaxed-constexpr", "-w"]
    subprocess.run([program, *options, *includes, folder / "atoms.cu", "-o", folder / "atoms.cubin"], check=True)


def run(folder):
    """Runs every kernel; how many elements of each product are not what numpy says.

    Raises:
        AssertionError: a product is not what the atom's layouts say.
    """
    from pycuda import autoinit, driver

    module, kept, words = driver.module_from_file(str(folder / "atoms.cubin")), np.load(folder / "atoms.npz"), []
    for name, (atom, _) in ATOMS.items():
        found = np.zeros((16, 8), np.int32)
        given = (driver.In(np.ascontiguousarray(kept[f"{name}-{role}"])) for role in "ab")
        module.get_function(name)(*given, driver.Out(found), block=(32, 1, 1))
        assert np.array_equal(found, kept[f"{name}-claimed"]), f"{atom} gives {found}"
        words.append(f"{atom}: {np.count_nonzero(found != kept[f'{name}-right'])} of {found.size} elements are wrong")
    return f"{'; '.join(words)}, on {autoinit.device.name()}"


def test_an_atom_computes_what_its_layouts_say(tmp_path, built, needs):
    needs((9, 0), (9, 0), cutlass_and_nvcc=packages()[1])
    build(tmp_path, built)
    assert "TN: 0 of 128" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
