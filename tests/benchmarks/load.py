"""Loading the whole catalogue into a fresh SQLite file, against sqlite3's executemany on the same rows.

python tests/benchmarks/load.py
"""

import sqlite3
import tempfile
from pathlib import Path

from ratio import compare

import lanemap
from lanemap.db.lookup import COLUMNS
from lanemap.db.store.location import locate
from lanemap.db.store.store import ship
from lanemap.ingest import catalogue, names

folder = Path(tempfile.mkdtemp())


def fresh() -> Path:
    file = folder / "fresh.db"
    file.unlink(missing_ok=True)
    return file


def build() -> None:
    """From the catalogue's text to the finished file: what the first command does."""
    catalogue._elements.cache_clear()
    ship(locate(str(fresh())), lambda: map(catalogue.document, names()), "benchmark")


build()
with lanemap.open(str(folder / "fresh.db")) as database:
    rows = database.reader.sql(f"SELECT {', '.join(COLUMNS)} FROM layout").rows


def executemany() -> None:
    """The same rows, already in memory, into one plain table with the same key and the same index."""
    connection = sqlite3.connect(fresh())
    key = "source, instruction, shape, type, role, major, lane, reg, slot"
    connection.execute(f"CREATE TABLE layout ({', '.join(COLUMNS)}, PRIMARY KEY ({key}))")
    connection.execute("CREATE INDEX cell ON layout (source, instruction, shape, type, role, row, col)")
    connection.executemany(f"INSERT INTO layout VALUES ({', '.join('?' * len(COLUMNS))})", rows)
    connection.commit()
    connection.close()


def executemany_bare() -> None:
    """The same rows into a table without any key or index."""
    connection = sqlite3.connect(fresh())
    connection.execute(f"CREATE TABLE layout ({', '.join(COLUMNS)})")
    connection.executemany(f"INSERT INTO layout VALUES ({', '.join('?' * len(COLUMNS))})", rows)
    connection.commit()
    connection.close()


print(f"{len(rows)} rows")
compare("load the catalogue against executemany, key and index", build, executemany, 1.5, rounds=5)
compare("load the catalogue against executemany, bare table", build, executemany_bare, 1.5, rounds=5)
