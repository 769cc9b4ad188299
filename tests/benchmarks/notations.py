"""Every fragment of every source in each notation: composed and compared with its rows, in processor time.

python tests/benchmarks/notations.py
"""

import tempfile
import time
from pathlib import Path

import lanemap
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.render.notation import NOTATIONS, express
from lanemap.db.render.notation.table import RefusedError

with lanemap.open(str(Path(tempfile.mkdtemp()) / "layouts.db")) as database:
    found = [fragment for fragment in read_fragments(database.reader, Query()) if fragment.has_rows]
print(f"{len(found)} fragments, {sum(len(fragment.elements) for fragment in found)} elements")
for name in NOTATIONS:
    refused = 0
    start = time.process_time()
    for fragment in found:
        try:
            express(name, fragment)
        except RefusedError:
            refused += 1
    seconds = time.process_time() - start
    print(f"{name:<12}{len(found) / seconds:>7.0f} fragments per second, {refused} refused")
