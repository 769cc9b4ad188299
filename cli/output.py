"""Rows on stdout, in every format that commands offer."""

from __future__ import annotations

import csv
import json
import sys
from typing import IO

from ..db.errors import LanemapError
from ..db.reader import Rows
from .options import Format


def write_rows(rows: Rows, form: Format) -> None:
    """Print rows. A table is for reading; the other formats are for programs."""
    if form in (Format.PARQUET, Format.ARROW):
        _write_binary(rows, form)
    elif form is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(rows.rows)
    elif form is Format.JSON:
        lines = ",\n ".join(json.dumps(record) for record in rows.records())
        sys.stdout.write(f"[{lines}]\n")
    elif form is Format.JSONL:
        sys.stdout.writelines(json.dumps(record) + "\n" for record in rows.records())
    else:
        sys.stdout.write(table(rows))


def table(rows: Rows) -> str:
    """Columns under their names, two spaces apart, numbers to the right. A missing value is empty."""
    texts = [["" if value is None else str(value) for value in row] for row in rows.rows]
    widths = [max(map(len, column)) for column in zip(rows.columns, *texts, strict=True)]
    numeric = [all(isinstance(row[index], int | float | None) for row in rows.rows) for index in range(len(widths))]
    right = [number and bool(rows.rows) for number in numeric]
    lines = []
    for line in (rows.columns, *texts):
        cells = zip(line, widths, right, strict=True)
        lines.append("  ".join(text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in cells))
    return "".join(line.rstrip() + "\n" for line in lines)


def telling(found: Rows) -> Rows:
    """Elements for reading: without the columns that tell nothing there, so that a line fits a terminal."""
    if not found.rows:
        return found
    columns = dict(zip(found.columns, zip(*found.rows, strict=True), strict=True))
    silent = {name for name in ("major", "selector") if len(set(columns[name])) == 1}
    silent |= {"col_last"} if columns["col_last"] == columns["col"] else set()
    silent |= {"computation"} if set(columns["computation"]) == {1} else set()
    kept = [name for name in found.columns if name not in silent]
    return Rows(tuple(kept), list(zip(*(columns[name] for name in kept), strict=True)))


def binary_stdout(what: str) -> IO[bytes]:
    """Stdout for bytes, unless somebody would have to look at them."""
    if sys.stdout.isatty():
        raise LanemapError(f"{what} is not for a terminal: send it to a file or a pipe, as in ... > layouts.{what}")
    return sys.stdout.buffer


def _write_binary(rows: Rows, form: Format) -> None:
    import pyarrow as pa

    from ..db.export import write_arrow, write_parquet

    stream = binary_stdout(form.value)
    columns = list(zip(*rows.rows, strict=True)) or [()] * len(rows.columns)
    arrays = [pa.array(column) for column in columns]
    written = pa.Table.from_arrays(arrays, names=list(rows.columns))
    (write_parquet if form is Format.PARQUET else write_arrow)(written, stream)
