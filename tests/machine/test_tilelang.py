"""What TileLang makes of products, from its generated code alone: right ones are, and its defects are named."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from ..modes import LONG
from ..toolchain import program
from ..wild.run import environment

KINDS = {"float16": "f16", "bfloat16": "bf16", "int8": "s8", "int4": "s4", "float32": "f32", "int32": "s32"}
KINDS |= {"float8_e4m3fn": "e4m3", "float64": "f64", "int16": "u16"}

USUAL = {"target": "sm_80", "m": 64, "n": 64, "k": 64, "types": ["float16", "float32"], "threads": 128}
USUAL |= {"policy": "Square", "transposed": "", "fragments": "", "metadata": None}
BYTES, NIBBLES, HOPPER = {"types": ["int8", "int32"]}, {"types": ["int4", "int32"], "transposed": "B"}, "sm_90a"
SMALL = {"m": 16, "n": 16, "threads": 32}
SPARSE = {"m": 32, "n": 32, "threads": 32, "metadata": ["int16", 16]}
SPARSE_GROUPS = {"target": HOPPER, "m": 128, "k": 128, "threads": 256, "metadata": ["uint8", 8]}
TWO_GROUPS = {"target": HOPPER, "m": 256, "threads": 256, "policy": "FullRow", "transposed": "B"}

#: By what is said, a part of a finding or nothing.
CASES = [
    *[({"transposed": each}, "") for each in ("", "A", "B", "AB")],
    *[({"fragments": each, "transposed": "B"}, "") for each in ("A", "B", "AB")],
    *[({**BYTES, "transposed": each}, "") for each in ("", "A", "B", "AB")],
    *[({"types": [each, each if each == "float64" else "float32"]}, "") for each in ("bfloat16", "float32", "float64")],
    *[({"target": HOPPER, "transposed": each}, "") for each in ("", "A", "B")],
    ({"target": "sm_89", "types": ["float8_e4m3fn", "float32"], "transposed": "B"}, ""),
    ({"target": HOPPER, **BYTES, "transposed": "B", "fragments": "A"}, ""),
    (NIBBLES | SMALL, ""),
    (NIBBLES | SMALL | {"fragments": "A"}, "registers 1 and 2 are exchanged"),
    (NIBBLES | SMALL | {"fragments": "B"}, "elements are made of what nobody wrote the first is C[0][8]"),
    (TWO_GROUPS, ""),
    (TWO_GROUPS | {"fragments": "A"}, "C[64][0] has the sum of C[128][0]"),
    (SPARSE, ""),
    *[(SPARSE_GROUPS | {"policy": each}, "") for each in ("FullRow", "FullCol")],
    (SPARSE | {"types": ["float32", "float32"]}, ""),
    (SPARSE | {"types": ["float32", "float32"], "metadata": ["int8", 8]}, "metadata of other elements"),
]

PIPELINED = {"target": HOPPER, "m": 256, "n": 256, "k": 192, "types": ["float16", "float32"], "threads": 128}
PIPELINED |= {"transposed": "", "stages": 3, "block": [128, 128, 64], "column": 0}

#: The same of pipelines. TileLang stores a box from any column on: issue 2527 of it.
PIPELINES = [
    *[({"transposed": each}, "") for each in ("", "A", "B", "AB")],
    ({"types": ["float8_e4m3fn", "float32"], "transposed": "B", "block": [64, 128, 64]}, ""),
    ({"types": ["bfloat16", "float32"], "threads": 256, "block": [128, 64, 32], "stages": 2}, ""),
    ({"types": ["int8", "int32"], "transposed": "B", "block": [64, 64, 64], "stages": 2}, ""),
    ({"column": 4}, ""),
    ({"column": 1}, "its first coordinate is 1, which is 4 bytes: write a multiple of 16"),
]
EVERY = [(base | how, said) for base, cases in ((USUAL, CASES), (PIPELINED, PIPELINES)) for how, said in cases]
MODES = ("none", "32B", "64B", "128B")


@pytest.fixture(scope="module")
def lowered():
    """The answers of TileLang to all cases, and its folder."""
    python = environment("tilelang")
    folder = Path(__file__).parent.parent / "wild"
    asked = json.dumps([how for how, _ in EVERY])
    done = subprocess.run([python, folder / "tilelang_kernels.py"], input=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    where = [python, "-c", "import tilelang; print(tilelang.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True).stdout
    return json.loads(done.stdout.splitlines()[-1]), Path(found.split()[-1]).parent


@pytest.mark.skipif(not LONG, reason="TileLang has an environment of its own, and nvcc takes minutes for its kernels")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EVERY)))
def test_what_tilelang_makes_of_a_product(lowered, database, tmp_path, number):
    how, words = EVERY[number]
    made, folder = lowered[0][number], lowered[1]
    (tmp_path / "kernel.cu").write_text(made["source"])
    include = [f"-I{folder / each}" for each in ("src", "3rdparty/cutlass/include")]
    flags = [f"-arch={how['target']}", "-std=c++17", "-lineinfo", "-DENABLE_BF16", "-ptx", *include]
    compile_ = [program("nvcc"), *flags, tmp_path / "kernel.cu", "-o", tmp_path / "kernel.ptx"]
    subprocess.run(compile_, check=True, capture_output=True)
    m, n, k = (how[name] for name in "mnk")
    stored, column = k // 2 if how.get("metadata") else k, how.get("column", 0)
    element, total = (KINDS[each] for each in how["types"])
    a, b = "A" in how["transposed"], "B" in how["transposed"]
    given = {"A": f"{element}[{stored},{m}]" if a else f"{element}[{m},{stored}]"}
    given |= {"B": f"{element}[{n},{k}]" if b else f"{element}[{k},{n}]", "C": f"{total}[{m},{n + 8 * bool(column)}]"}
    left = "A[k,m]" if a else "A[m,k]"
    if how.get("metadata"):
        width = how["metadata"][1]
        given["E"] = f"u{width}[{m},{k * (2 if element == 'f32' else 1) // width}]"
        left = "sparse(A,E)[m,k]"
    for name, (array, box, swizzle) in made["maps"].items():
        given[name.upper()] = f"map({array.upper()},box={'x'.join(map(str, box))},swizzle={MODES[swizzle]})"
    names = [*map(str.upper, made["parameters"])]
    arguments = [f"{name}={given[name]}" for name in (*names, *(given.keys() - names))]
    formula = None if column else f"C[m,n] = {left} {'B[n,k]' if b else 'B[k,n]'}"
    rows, columns, _ = how.get("block", (m, n, k))
    launch = {"block": int(re.findall(r"__launch_bounds__\((\d+)", made["source"])[-1]), "shared": made["shared"]}
    found = database.trace(tmp_path / "kernel.ptx", arguments, formula, grid=(n // columns, m // rows), **launch)
    said = " ".join(found.text().split())
    assert words in said
    assert found.ok == (not words), said
