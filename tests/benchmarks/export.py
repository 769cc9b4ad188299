"""Exporting the whole database to Parquet, against pyarrow writing the same table from memory.

python tests/benchmarks/export.py
"""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from ratio import compare

import lanemap
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.store.export import layout_table, write_parquet
from lanemap.db.store.files import atomically

folder = Path(tempfile.mkdtemp())
database = lanemap.open(str(folder / "layouts.db"))
table = layout_table(database.reader, read_fragments(database.reader, Query()), lanemap.__version__)


def ours() -> None:
    with atomically(folder / "ours.parquet") as stream:
        write_parquet(
            layout_table(database.reader, read_fragments(database.reader, Query()), lanemap.__version__), stream
        )


def pyarrow() -> None:
    pq.write_table(table, folder / "theirs.parquet", compression="zstd")


print(f"{table.num_rows} rows")
compare("export to Parquet against pyarrow", ours, pyarrow, 1.3, rounds=10)
