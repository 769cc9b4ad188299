"""Seconds by the clock of what people wait for, the processor time in all processes, and the weight of pages.

python tests/benchmarks/felt.py

Each limit is for a quiet machine. What else is felt has a program of its own: a look-up in startup.py, millions of
places in places.py, a capture in capture.py, a server in serve.py.
"""

import gzip
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratio import processor

folder = Path(tempfile.mkdtemp())
file, site = folder / "layouts.db", folder / "site"


def least(name: str, limit: float, command: str, rounds: int = 5, *, anew: bool = False) -> None:
    """Print the least that a command takes; ``anew``: each time without a database, which it builds first."""
    found = []
    for _ in range(rounds):
        if anew:
            file.unlink(missing_ok=True)
        clock, used = time.perf_counter(), processor()
        subprocess.run(
            [sys.executable, "-m", "lanemap", *command.split()],
            env={**os.environ, "LANEMAP_DB": str(file)},
            capture_output=True,
            check=True,
        )
        found.append((time.perf_counter() - clock, processor() - used))
    seconds, used = map(min, zip(*found, strict=True))
    print(f"{name}: {seconds:.2f} s (limit {limit}), {used:.2f} s of processor time", flush=True)


print(f"{os.cpu_count()} cores")
least("the first command, which builds the database", 3, "list sources", anew=True)
least("show an operand", 0.5, "show m16n8k16 f16 A")
least("show the largest", 2, "show wgmma m64n256k16 f32 D")
for form in ("svg", "png", "pdf"):
    least(f"draw an instruction as {form}", 1, f"draw m16n8k16 bf16 --output {folder}/picture.{form}")
least("write the site", 20, f"site {site}", rounds=2)
pages = {page: page.read_bytes() for page in site.rglob("*.html")}
heaviest = max(pages, key=lambda page: len(pages[page]))
packed = len(gzip.compress(pages[heaviest])) / 1000
print(f"{len(pages)} pages, {sum(map(len, pages.values())) / len(pages) / 1000:.0f} kB each")
print(f"the heaviest: {heaviest.relative_to(site)}, {len(pages[heaviest]) / 1000:.0f} kB, {packed:.0f} kB packed")
