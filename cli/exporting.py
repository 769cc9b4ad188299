"""What ``export`` writes."""

from __future__ import annotations

from pathlib import Path

from .. import __version__
from ..db.errors import LanemapError
from ..db.export import WRITERS, layout_table
from ..db.files import atomically
from ..db.lookup import Query
from ..db.reader import Reader
from .output import binary_stdout

_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".jsonl": "jsonl"}


def export(reader: Reader, query: Query, form: str | None, output: str) -> None:
    """Write the rows that match to a file, or to stdout for ``-``; a dataset to a folder."""
    if form == "dataset":
        from ..db.dataset import write_dataset

        if output == "-":
            raise LanemapError("a dataset is a folder: name it with --output, as in --output layouts")
        write_dataset(reader, query, Path(output), __version__)
        return
    name = form or _form(output)
    table = layout_table(reader, query, __version__)
    if output == "-":
        import sys

        stream = binary_stdout(name) if name in ("parquet", "arrow") else sys.stdout.buffer
        WRITERS[name](table, stream)
        stream.flush()
        return
    with atomically(Path(output)) as stream:
        WRITERS[name](table, stream)


def _form(output: str) -> str:
    if output == "-":
        return "csv"
    ending = Path(output).suffix.lower()
    if ending not in _ENDINGS:
        raise LanemapError(f"cannot tell the format of {output!r}: say --format parquet, csv, arrow or jsonl")
    return _ENDINGS[ending]
