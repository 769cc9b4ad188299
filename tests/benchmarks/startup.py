"""The start-up of ``find``, against an empty typer program on the same Python.

python tests/benchmarks/startup.py
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


compare(
    "start-up of find against an empty typer program",
    lambda: run("-m", "lanemap", *"find m16n8k16 f16 A --row 9 --col 3".split()),
    lambda: run(str(empty)),
    1.25,
    rounds=25,
)
