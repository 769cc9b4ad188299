import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lanemap.capture.machine import arguments, trace
from lanemap.capture.machine.trace import Trace

from ..shipped import corrected
from ..toolchain import program

KERNELS = Path(__file__).parent / "kernels"


@functools.cache
def documented():
    """The fragments of the corrected document by key."""
    return {fragment.key: fragment for fragment in corrected()}


class Stored:
    """The fragments of a database by key: of each the most trusted."""

    def __init__(self, database):
        self.database = database

    @functools.cache  # noqa: B019
    def __getitem__(self, key):
        which = {name: value for name, value in key._asdict().items() if name not in ("shape", "type", "role")}
        return self.database.fragment(*key[1:4], **which)


def run(
    text: str, given=(), formula=None, *, block=32, grid=1, shared=0, entry=None, seed=0, limit=100_000, table=None
) -> Trace:
    """Trace a kernel with the layouts of a table, by default of the corrected document."""
    return trace.trace(
        text,
        (table or documented()).__getitem__,
        arguments.named(given),
        block=(block, 1, 1),
        grid=grid if isinstance(grid, tuple) else (grid, 1, 1),
        shared=shared,
        entry=entry,
        formula=formula,
        seed=seed,
        limit=limit,
    )


def computed(instruction: str, result: str, sources: dict[str, np.ndarray]) -> np.ndarray:
    """What one instruction computes of arrays, whose names it has as its operands: each thread of one element.

    The names are %a, %b, and so on, of the types of the arrays, and %d is the result.
    """
    sizes = {name: array.dtype.itemsize * 8 for name, array in sources.items()}
    width = {"u16": 16, "u32": 32, "u64": 64, "s32": 32, "f32": 32, "s64": 64, "f64": 64, "f16": 16, "s16": 16}[result]
    count = len(next(iter(sources.values())))
    lines = [f".visible .entry one({', '.join(f'.param .u64 p{name}' for name in (*sources, 'd'))}) {{"]
    lines += [".reg .b64 %at, %far; .reg .b32 %t, %c; .reg .pred %p, %q;", f".reg .b{width} %d;"]
    lines += [f".reg .b{size} %{name};" for name, size in sizes.items()]
    lines += ["mov.u32 %t, %tid.x;"]
    for name, size in sizes.items():
        lines += [f"ld.param.u64 %at, [p{name}];", f"mad.wide.u32 %far, %t, {size // 8}, %at;"]
        lines += [f"ld.global.b{size} %{name}, [%far];"]
    lines += [instruction, "ld.param.u64 %at, [pd];", f"mad.wide.u32 %far, %t, {width // 8}, %at;"]
    lines += [f"st.global.b{width} [%far], %d;", "ret;", "}", ""]
    given = {**sources, "d": f"{result}[{count}]=0"}
    found = run("\n".join(lines), given, block=count)
    assert found.ok, found
    return found.outputs["d"]


@functools.cache
def compiled_by_nvcc(name: str, target: str = "sm_80", *defines: str) -> str:
    """A kernel of the corpus as PTX."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "kernel.ptx")
        flags = [f"-arch={target}", "-std=c++17", "-lineinfo", "-ptx", *(f"-D{define}" for define in defines)]
        command = [program("nvcc"), *flags, KERNELS / f"{name}.cu", "-o", out]
        subprocess.run(command, check=True, capture_output=True)
        return out.read_text()


@pytest.fixture(scope="session")
def nvcc() -> Callable[..., str]:
    """Compiles a kernel of the corpus to PTX."""
    return compiled_by_nvcc
