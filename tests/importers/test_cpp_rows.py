"""The C++ header that prints rows: what it prints comes in, and is compared."""

import shutil
import subprocess
from pathlib import Path

import pytest

import lanemap

PROGRAM = """
#include <utility>
#include "lanemap.hpp"

int main() {
    lanemap::header();
    lanemap::rows("m16n8k16", "bf16", "A", 32, 4, 2, [](int lane, int i) {
        return std::pair(lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8);
    });
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(("program", "code"), [(PROGRAM, 0), (PROGRAM.replace("i / 4 * 8", "i / 4 * 4"), 1)])
def test_a_program_prints_what_import_table_reads(run, file, tmp_path, program, code):
    (tmp_path / "rows.cpp").write_text(program)
    include = Path(lanemap.__file__).parent / "ingest"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    subprocess.run(["g++", *flags, "rows.cpp", "-o", "rows"], cwd=tmp_path, check=True)
    rows = subprocess.run(["./rows"], cwd=tmp_path, check=True, capture_output=True).stdout
    (tmp_path / "mine.csv").write_bytes(rows)
    assert run("import", "table", tmp_path / "mine.csv", db=file).out.startswith("mine: 1 fragment, 256 rows")
    assert run("diff", "mine", "ptx-isa-9.4+errata", db=file).code == code
