"""Kernels of CuTe's tutorial and of CUTLASS, compiled from the package's sources."""

import functools
import importlib.util
import re
import struct
import subprocess
from pathlib import Path

import pytest

from ..modes import LONG
from ..toolchain import program

M = N = 128
K = 128


def sources() -> Path:
    """The folder of CUTLASS."""
    spec = importlib.util.find_spec("cutlass_library")
    if spec is None or spec.origin is None:
        pytest.skip("needs lanemap[test-toolchains]: the sources of nvidia-cutlass")
    return Path(spec.origin).parent / "source"


@functools.cache
def tutorial(name: str, target: str, folder: Path) -> str:
    """The PTX of a file of the tutorial."""
    source = sources()
    file = source / "examples" / "cute" / "tutorial" / f"{name}.cu"
    include = [f"-I{source / each}" for each in ("include", "tools/util/include", "examples/common")]
    flags = [f"-arch={target}", "-std=c++17", "--expt-relaxed-constexpr", "-ptx", *include]
    subprocess.run([program("nvcc"), *flags, file, "-o", folder / "kernel.ptx"], check=True, capture_output=True)
    return (folder / "kernel.ptx").read_text()


def of_bytes(layout: str, *numbers: float) -> str:
    """A struct by value."""
    return "bytes:" + struct.pack(layout, *numbers).hex()


@pytest.mark.skipif(not LONG, reason="a compiler takes a minute for it, and CI has kernels of nvcc and of Triton")
@pytest.mark.slow
def test_the_tutorial_of_sm_80_is_right(database, tmp_path):
    text = tutorial("sgemm_sm80", "sm_80", tmp_path)
    empty = of_bytes("<B", 0)  # a layout or an atom without numbers of its own
    given = [of_bytes("<iii", M, N, K), empty]
    given += [f"A=f16[{M},{K}]", of_bytes("<i", K), empty, empty, empty]
    given += [f"B=f16[{N},{K}]", of_bytes("<i", K), empty, empty, empty]
    given += [f"C=f16[{N},{M}]=0", of_bytes("<i", M), empty, empty, of_bytes("<e", 1), of_bytes("<e", 0)]
    given = [each if "=" in each else f"p{number}={each}" for number, each in enumerate(given)]

    def traced(kernel):
        return database.trace(kernel, given, "C[n,m] = A[m,k] B[n,k]", block=128, shared=3 * 2 * 2 * 128 * 64)

    found = traced(text)
    assert found.ok, found
    assert "1024 mma (m16n8k16 f16)" in found.counts
    assert "race" in {each.kind for each in traced(text.replace("cp.async.wait_group 1;", "")).findings}
    assert "operand" in {each.kind for each in traced(text.replace(".x4.m8n8", ".x4.trans.m8n8", 1)).findings}


#: What the programs that write a struct have in place of pointers.
_POINTERS = {"A": 0x111111110000, "B": 0x222222220000, "C": 0x333333330000}


def of_cutlass(name: str, target: str, folder: Path) -> tuple[str, str]:
    """The PTX of a kernel of CUTLASS, and the struct that it takes: its bytes with arrays and tensor maps in them."""
    include = sources() / "include"
    nvcc = program("nvcc")
    library = Path(nvcc).parent.parent / "lib"
    flags = ["-gencode", f"arch=compute_{target},code=compute_{target}", "-std=c++17", "--expt-relaxed-constexpr"]
    flags += ["-DNDEBUG", "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL", "-keep", "-keep-dir", folder, f"-I{include}"]
    file = Path(__file__).parent / "kernels" / f"{name}.cu"
    made = [nvcc, *flags, file, f"-L{library}", "-o", folder / "params"]
    done = subprocess.run(made, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    data = subprocess.run([folder / "params"], check=True, capture_output=True).stdout
    fields = [f"bytes:{data.hex()}"]
    for array, pointer in _POINTERS.items():
        for found in re.finditer(re.escape(pointer.to_bytes(8, "little")), data):
            mapped = data[found.end() : found.end() + 120] == 120 * b"\xee"
            fields.append(f"{'t' * mapped}{array}@{found.start()}")
    (ptx,) = folder.glob("*.ptx")
    return ptx.read_text(), f"p=struct({', '.join(fields)})"


@pytest.mark.slow
def test_a_product_of_cutlass_that_takes_a_struct_is_right(database, tmp_path):
    text, struct_ = of_cutlass("cutlass_sm80", "80", tmp_path)

    def traced(kernel, struct_=struct_):
        given = [struct_, "A=f16[64,64]", "B=f16[64,64]", "C=f32[64,64]"]
        return database.trace(kernel, given, "C[m,n] = A[m,k] B[n,k]", block=128, shared=24576)

    found = traced(text)
    assert found.ok, found
    assert "128 mma (m16n8k16 f16)" in found.counts
    assert not traced(text, re.sub(r"\b([AB])@", lambda name: f"{'BA'['AB'.index(name[1])]}@", struct_)).ok
    assert "operand" in {each.kind for each in traced(text.replace(".x4.m8n8", ".x4.trans.m8n8", 1)).findings}


@pytest.mark.skipif(not LONG, reason="a compiler takes minutes for it")
@pytest.mark.slow
def test_a_warp_specialised_product_of_cutlass_is_right(database, tmp_path):
    text, struct_ = of_cutlass("cutlass_sm90", "90a", tmp_path)
    given = [struct_, "A=f16[1,128,128]", "B=f16[1,64,128]", "C=f32[1,128,64]"]
    given += [f"t{name}=map({name},box=1x64x{row},swizzle=128B)" for name, row in (("A", 64), ("B", 64), ("C", 32))]

    def traced(kernel):
        product = "C[l,m,n] = A[l,m,k] B[l,n,k]"
        return database.trace(kernel, given, product, block=256, grid=2, shared=197632)

    found = traced(text)
    assert found.ok, found
    assert "16 wgmma (m64n64k16 f16) in 8 places" in found.counts
    assert not traced(text.replace("wgmma.wait_group.sync.aligned", "// wgmma.wait_group.sync.aligned")).ok
