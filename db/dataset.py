"""The ``layout`` table as a Parquet dataset: a folder with a file for each source and instruction, named hive style.

DuckDB, Spark and pandas read it as one table and skip the files of sources that a query does not ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from .export import layout_table, write_parquet
from .files import folder_atomically
from .fragment import Fragment
from .grouped import grouped
from .reader import Reader

#: The columns that are in the names of the folders, not in the files.
PARTITIONS = ("source", "instruction")

_FILE = "part-0.parquet"


def write_dataset(reader: Reader, fragments: Sequence[Fragment], folder: Path, version: str) -> None:
    """Write fragments that have rows. A dataset that is there is replaced when the new one is whole.

    Raises:
        LanemapError: the folder holds something else, or it cannot be written.
    """
    parts = grouped(fragments, lambda each: tuple(str(getattr(each, name)) for name in PARTITIONS))
    with folder_atomically(folder, "dataset") as made:
        for values, part in parts.items():
            table = layout_table(reader, part, version).drop_columns(list(PARTITIONS))
            # Names are percent-encoded, + too, which is how every reader decodes them.
            names = (f"{name}={quote(value, safe='')}" for name, value in zip(PARTITIONS, values, strict=True))
            file = made.joinpath(*names, _FILE)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                write_parquet(table, stream)
