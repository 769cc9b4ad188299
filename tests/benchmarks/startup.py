"""The start-up of ``find``, against an empty typer program on the same Python, and against AMD's calculator.

python tests/benchmarks/startup.py [matrix_calculator.py]

The calculator is that of github.com/ROCm/amd_matrix_instruction_calculator, and needs tabulate.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ratio import compare

import lanemap

folder = Path(tempfile.mkdtemp())
file = folder / "layouts.db"
lanemap.open(str(file)).close()
empty = folder / "empty.py"
empty.write_text(
    "import typer\n"
    "app = typer.Typer(rich_markup_mode=None)\n"
    "@app.command()\n"
    "def main(x: int = 0) -> None: pass\n"
    "app()\n"
)


def run(*command: str) -> None:
    # What is installed has its modules compiled.
    environment = {**os.environ, "LANEMAP_DB": str(file), "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, check=True)


def find() -> None:
    run("-m", "lanemap", *"find m16n8k16 f16 A --row 9 --col 3".split())


def calculator() -> None:
    run(sys.argv[1], *"-a cdna3 -i v_mfma_f32_16x16x16_f16 -g -I 3 -J 2 -A".split())


compare("start-up of find against an empty typer program", find, lambda: run(str(empty)), 2.0, rounds=25)
if sys.argv[1:]:
    compare("a look-up against AMD's calculator", find, calculator, 1.0, rounds=25)
