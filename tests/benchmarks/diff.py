"""The diff of two sources of 250 thousand rows, against the same comparison written by hand as a FULL JOIN in SQL.

python tests/benchmarks/diff.py
"""

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from ratio import compare

import lanemap
from lanemap.db.compare import crosscheck
from lanemap.db.layout.fragment import Fragment, Source
from lanemap.db.store.connection import connect
from lanemap.db.store.location import Location
from lanemap.db.store.store import ship
from lanemap.ingest import catalogue

ROWS = 250_000
SIDE = """
CREATE TEMP TABLE "{side}" AS
SELECT instruction, shape, type, role,
       COALESCE(major, '') || COALESCE(selector, '') || COALESCE(qualifiers, '') AS major,
       lane, reg, slot, row, col, col_last, computation
FROM layout WHERE source = '{source}';
CREATE UNIQUE INDEX temp.{side}_key ON "{side}" (instruction, shape, type, role, major, lane, reg, slot);
"""
FULL_JOIN = """
SELECT COALESCE(l.instruction, r.instruction), COALESCE(l.shape, r.shape), COALESCE(l.type, r.type),
       COALESCE(l.role, r.role), COALESCE(l.major, r.major), COUNT(l.lane), COUNT(r.lane),
       SUM(l.row = r.row AND l.col = r.col AND l.col_last = r.col_last AND l.computation = r.computation)
FROM "left" AS l FULL JOIN "right" AS r USING (instruction, shape, type, role, major, lane, reg, slot)
GROUP BY 1, 2, 3, 4, 5
"""


def many(changed: bool) -> list[Fragment]:
    """The documented fragments again and again under types of their own, up to the number of rows.

    In a changed copy every tenth fragment has one element of its own off, so that nothing can be shared.
    """
    documented = [
        fragment for fragment in catalogue.document("ptx-isa-9.4+errata").fragments if fragment.elements is not None
    ]
    fragments: list[Fragment] = []
    rows = copy = 0
    while rows < ROWS:
        for number, fragment in enumerate(documented):
            assert fragment.elements is not None
            table = fragment.elements
            if changed and number % 10 == 0:
                table = table.copy()
                table["col"][copy % len(table)] ^= 1
            fragments.append(replace(fragment, type=f"{fragment.type}x{copy}", elements=table))
            rows += len(table)
        copy += 1
    return fragments


folder = Path(tempfile.mkdtemp())
location = Location(folder / "diff.db")
sides = [Source("left", "import", "left", many(False)), Source("right", "import", "right", many(True))]
ship(location, lambda: sides, "benchmark")
count = sum(len(fragment.elements) for fragment in sides[0].fragments if fragment.elements is not None)
print(f"{count} rows on each side")


def ours() -> None:
    reader = connect(location)
    crosscheck.diff(*(crosscheck.read_sources(reader, name) for name in ("left", "right")))
    reader.close()


def by_hand(file: Path | None, *pairs: tuple[str, str]) -> None:
    """Every two sources side by side, in tables made for it."""
    for pair in pairs:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            for side, source in zip(("left", "right"), pair, strict=True):
                connection.executescript(SIDE.format(side=side, source=source))
            connection.execute(FULL_JOIN).fetchall()


joined = partial(by_hand, location.file, ("left", "right"))
compare("diff of two sources against a FULL JOIN by hand", ours, joined, 0.2, rounds=2)

shipped = Location(folder / "shipped.db")
lanemap.open(str(shipped.file)).close()


def check() -> None:
    reader = connect(shipped)
    crosscheck.check(crosscheck.read_sources(reader), crosscheck.read_findings(reader))
    reader.close()


card = "h200-sm_90a"
joined = partial(by_hand, shipped.file, ("ptx-isa-9.4", card), ("ptx-isa-9.4+errata", card))
compare("check of what ships against two FULL JOINs by hand", check, joined, 0.2, rounds=2)
