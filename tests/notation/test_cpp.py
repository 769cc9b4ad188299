"""C++ compilers take the header: g++ with every warning an error, nvcc for host and device."""

import shutil
import subprocess

import pytest


def assertions(name, fragment):
    """A static_assert for each element, forward and, where there is one cell for each slot, back."""
    several = fragment.elements["computation"].max() > 1
    for lane, reg, slot, row, col, col_last, computation in fragment.elements.tolist():
        call = f"lanemap::{name}::at({lane}, {reg}, {slot})"
        yield f"static_assert(is({call}, {row}, {col}, {col_last}, {computation}));"
        if col == col_last:
            place = f"lanemap::{name}::find({row}, {col}{f', {computation}' if several else ''})"
            yield f"static_assert(is({place}, {lane}, {reg}, {slot}));"


CHECKS = """
constexpr bool is(lanemap::cell it, int row, int col, int col_last, int computation) {
  return it.row == row && it.col == col && it.col_last == col_last && it.computation == computation;
}
constexpr bool is(lanemap::place it, int lane, int reg, int slot) {
  return it.lane == lane && it.reg == reg && it.slot == slot;
}
"""


@pytest.fixture
def source(exported, tmp_path):
    """Writes the header of the whole corrected document, and a source that uses it."""
    (tmp_path / "layouts.hpp").write_text(exported("cpp"))

    def source(name, *lines):
        file = tmp_path / name
        file.write_text("\n".join(['#include "layouts.hpp"', CHECKS, *lines]) + "\n")
        return file

    return source


def compiled_by_gxx(file):
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_gxx_compiles_the_header_and_asserts_every_element(source, one_per_width, corrected):
    sparse = {name: corrected[name] for name in ("mma_sp_m16n8k16_f16_a",)}
    lines = [line for name, each in (one_per_width | sparse).items() for line in assertions(name, each)]
    done = compiled_by_gxx(source("elements.cpp", *lines))
    assert done.returncode == 0, done.stderr[:2000]


def test_gxx_sees_which_lanes_hold_metadata(run, everything, tmp_path):
    selection = ("--source", "h200-sm_90a", "--role", "E", "--shape", "m16n8k16", "--type", "f16")
    (tmp_path / "layouts.hpp").write_text(run("export", "--format", "cpp", *selection).out)
    lines = ['#include "layouts.hpp"', CHECKS]
    for fragment in (each for _, each in everything if each.role == "E" and each.shape == "m16n8k16"):
        if fragment.type == "f16":
            name = f"mma_sp_m16n8k16_f16_e_selector{fragment.selector}"
            lines += assertions(name, fragment)
            held = set(fragment.elements["lane"].tolist())
            lines += [f"static_assert(lanemap::{name}::holds({lane}) == {int(lane in held)});" for lane in range(32)]
    file = tmp_path / "metadata.cpp"
    file.write_text("\n".join(lines))
    done = compiled_by_gxx(file)
    assert done.returncode == 0, done.stderr[:2000]


def test_gxx_takes_several_headers_together(exported, tmp_path):
    for role in "AB":
        (tmp_path / f"{role}.hpp").write_text(exported("cpp", "--shape", "m16n8k16", "--type", "f16", "--role", role))
    file = tmp_path / "both.cpp"
    file.write_text('#include "A.hpp"\n#include "B.hpp"\n')
    done = compiled_by_gxx(file)
    assert done.returncode == 0, done.stderr[:2000]


def test_gxx_sees_a_wrong_element(source):
    wrong = "static_assert(is(lanemap::mma_m16n8k16_f16_a::at(5, 1, 1), 9, 2, 2, 1));"
    done = compiled_by_gxx(source("wrong.cpp", wrong))
    assert done.returncode != 0
    assert "static assertion failed" in done.stderr


def test_nvcc_compiles_the_header_for_host_and_device(source, one_per_width, nvcc):
    kernel = """
__global__ void kernel(int* out) {
  const lanemap::cell cell = lanemap::mma_m16n8k16_f16_a::at(threadIdx.x, out[0], out[1]);
  const lanemap::place place = lanemap::mma_m16n8k16_f16_a::find(cell.row, cell.col);
  out[threadIdx.x] = place.lane;
}
"""
    lines = [line for name, each in one_per_width.items() for line in assertions(name, each)]
    done = nvcc(source("elements.cu", *lines, kernel), "-Werror", "all-warnings")
    assert done.returncode == 0, done.stderr[:2000]
