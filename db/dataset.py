"""The ``layout`` table as a Parquet dataset: a folder with a file for each source and instruction, named hive style.

DuckDB, Spark and pandas read it as one table and skip the files of sources that a query does not ask for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from .errors import LanemapError
from .export import layout_table, write_parquet
from .files import folder_atomically
from .lookup import Query, fragments
from .reader import Reader

#: The columns that are in the names of the folders, not in the files.
PARTITIONS = ("source", "instruction")

_FILE = "part-0.parquet"


def write_dataset(reader: Reader, query: Query, folder: Path, version: str) -> None:
    """Write the fragments that match. A dataset that is there is replaced when the new one is whole.

    Raises:
        LanemapError: nothing matches, the folder holds something else, or it cannot be written.
    """
    with reader.snapshot():
        parts = dict.fromkeys(
            tuple(getattr(each, name) for name in PARTITIONS) for each in fragments(reader, query) if each.has_rows
        )
        if not parts:
            raise LanemapError("what matches has no rows: the source only names it (lanemap list says why)")
        with folder_atomically(folder, "dataset") as made:
            for source, instruction in parts:
                chosen = replace(query, source=source, instruction=instruction)
                table = layout_table(reader, chosen, version).drop_columns(list(PARTITIONS))
                values = zip(PARTITIONS, (source, instruction), strict=True)
                # Names are percent-encoded, + too, which is how every reader decodes them.
                file = made.joinpath(*(f"{name}={quote(value, safe='')}" for name, value in values), _FILE)
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb") as stream:
                    write_parquet(table, stream)
