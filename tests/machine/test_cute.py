"""A kernel that CuTe's tutorial makes of its own layouts, copies and atoms, compiled from the package's sources."""

import functools
import importlib.util
import struct
import subprocess
from pathlib import Path

import pytest

from ..modes import LONG
from ..toolchain import program

M = N = 128
K = 128


@functools.cache
def tutorial(name: str, target: str, folder: Path) -> str:
    """The PTX of a file of the tutorial."""
    spec = importlib.util.find_spec("cutlass_library")
    source = Path(spec.origin).parent / "source" if spec and spec.origin else Path()
    file = source / "examples" / "cute" / "tutorial" / f"{name}.cu"
    if not file.exists():
        pytest.skip("needs lanemap[test-toolchains]: the sources of nvidia-cutlass")
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
