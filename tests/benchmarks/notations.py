"""Every fragment of mma and mma.sp of every source in each notation: composed, read back, compared with its rows.

python tests/benchmarks/notations.py
"""

import tempfile
import time
from pathlib import Path

import lanemap
from lanemap.cli.notating import NOTATIONS
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.notation.selection import select

with lanemap.open(str(Path(tempfile.mkdtemp()) / "layouts.db")) as database:
    found = [each for _, each in read_fragments(database.reader, Query()) if each.elements is not None]
print(f"{len(found)} fragments, {sum(len(each.elements) for each in found)} elements")
for form, notation in NOTATIONS.items():
    start = time.perf_counter()
    selection = select(notation, found)
    seconds = time.perf_counter() - start
    print(f"{form:<12}{len(found) / seconds:>7.0f} fragments per second, {len(selection.refused)} refused")
