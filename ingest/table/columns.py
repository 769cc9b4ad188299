"""The columns of a CSV, Parquet or Arrow file, read in pieces, so that what is no table cannot fill the memory."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...db.errors import LanemapError

REQUIRED = ("shape", "type", "role", "lane", "reg", "slot", "row", "col")
TEXTS = ("source", "instruction", "shape", "type", "role", "major")
NUMBERS = ("lane", "reg", "slot", "row", "col", "col_last", "computation", "selector")

#: Stands for a number that a row does not give.
MISSING = int(np.iinfo(np.int32).min)

#: Three times what every instruction of a device, the warpgroup ones too, comes to.
MAX_ROWS = 10_000_000

_HEAD = 1 << 16
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Text:
    """A column of text: for each row the place of its value in ``values``, or -1 where it has none."""

    codes: NDArray[np.int32]
    values: Sequence[str]

    def mapped(self, change: Callable[[str], str], default: str | None = None) -> Text:
        """The column with its values changed, equal ones made one, and gaps filled."""
        changed = [*map(change, self.values), *([] if default is None else [default])]
        distinct = list(dict.fromkeys(changed))
        place = np.asarray([distinct.index(value) for value in changed] + [-1] * (default is None), np.int32)
        return Text(place[self.codes], distinct)


@dataclass(frozen=True)
class Columns:
    """All columns of ``layout``, each as long as the table; those that the file lacks are all gaps."""

    texts: Mapping[str, Text]
    numbers: Mapping[str, NDArray[np.int32]]


def read_columns(path: Path) -> Columns:
    """The columns of a file, by its content and not by its ending.

    Raises:
        LanemapError: it is no file, no table, or lacks a required column or value.
    """
    batches = [_checked(batch, path) for batch in _bounded(_batches(path), path)]
    if not batches:
        raise LanemapError(f"{path} has no rows")
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    numbers = {name: _number(table, name, path) for name in NUMBERS}
    return Columns({name: _text(table, name, path) for name in TEXTS}, numbers)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.is_dir():
        raise LanemapError(f"{path} is a folder: name a CSV, Parquet or Arrow file")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        raise LanemapError(f"cannot read {path}: {error.strerror}: name a CSV, Parquet or Arrow file") from None
    if not head:
        raise LanemapError(f"{path} is empty: a table has the columns {', '.join(REQUIRED)}")
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if head.startswith(b"ARROW1"):
        return _arrow(path)
    return _csv(path, head)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with _in_words(path, "Parquet"), pq.ParquetFile(path) as file:
        names = _names(file.schema_arrow.names, path)
        for batch in file.iter_batches(columns=list(names)):
            batch.validate(full=True)
            yield batch.rename_columns([names[name] for name in batch.schema.names])


def _arrow(path: Path) -> Iterator[pa.RecordBatch]:
    with _in_words(path, "Arrow"), pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        names = _names(reader.schema.names, path)
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            batch.validate(full=True)
            yield batch.select(list(names)).rename_columns(list(names.values()))


def _csv(path: Path, head: bytes) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as pc

    names = _names(_csv_names(head, path), path)
    # What may have gaps, pandas writes with a decimal point.
    numbers = {name: pa.int32() if name in REQUIRED else pa.float64() for name in NUMBERS}
    types = {name: _TEXT if known in TEXTS else numbers[known] for name, known in names.items()}
    convert = pc.ConvertOptions(
        column_types=types, include_columns=list(names), null_values=[""], strings_can_be_null=True
    )
    with _in_words(path, "CSV"), pc.open_csv(path, convert_options=convert) as reader:
        for batch in reader:
            yield batch.rename_columns(list(names.values()))


def _csv_names(head: bytes, path: Path) -> list[str]:
    line, ended, _ = head.partition(b"\n")
    whole = bool(ended) or len(head) < _HEAD
    text = codecs.decode(line, "utf-8-sig", "replace")
    if not whole or "\0" in text or "\ufffd" in text:
        raise LanemapError(f"{path} is not a table: name a CSV, Parquet or Arrow file")
    return next(csv.reader([text.rstrip("\r")]), [])


def _names(names: Sequence[str], path: Path) -> dict[str, str]:
    """The file's own names of the columns that ``layout`` has, and how ``layout`` calls them."""
    known: dict[str, str] = {}
    for name in names:
        column = name.strip().lower()
        if column in known.values():
            raise LanemapError(f"{path} has two columns {column}: a table has each once, in upper or lower case")
        if column in TEXTS + NUMBERS:
            known[name] = column
    lacking = [name for name in REQUIRED if name not in known.values()]
    if lacking:
        raise LanemapError(f"{path} lacks {', '.join(lacking)}: a table has the columns {', '.join(REQUIRED)}")
    return known


def _bounded(batches: Iterator[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows > MAX_ROWS:
            raise LanemapError(f"{path} has more than {MAX_ROWS} rows: no table of layouts is so long")
        yield batch


def _checked(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """The batch with its columns in the types that the rest expects."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        query = _TEXT if name in TEXTS else pa.int32()
        text = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        fits = _is_text(text) if name in TEXTS else pa.types.is_integer(text) or pa.types.is_floating(text)
        if not (fits or pa.types.is_null(text)):
            kind = "text" if name in TEXTS else "whole numbers"
            raise LanemapError(f"{path}: column {name} holds {column.type}: it must hold {kind}")
        try:
            columns[name] = column.cast(pa.string()).dictionary_encode() if name in TEXTS else column.cast(query)
        except pa.ArrowException:
            raise LanemapError(f"{path}: column {name} holds numbers that are not whole, or too large") from None
    return pa.record_batch(columns)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _text(table: pa.Table, name: str, path: Path) -> Text:
    if name not in table.column_names:
        return Text(np.full(table.num_rows, -1, np.int32), [])
    column = table[name].combine_chunks()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    _demand(name, codes < 0, path)
    return Text(codes, column.dictionary.to_pylist())


def _number(table: pa.Table, name: str, path: Path) -> NDArray[np.int32]:
    if name not in table.column_names:
        return np.full(table.num_rows, MISSING, np.int32)
    values: NDArray[np.int32] = table[name].fill_null(MISSING).to_numpy()
    _demand(name, values == MISSING, path)
    return values


def _demand(name: str, gaps: NDArray[np.bool_], path: Path) -> None:
    if name in REQUIRED and gaps.any():
        raise LanemapError(f"{path}: row {int(gaps.argmax()) + 1} has no {name}")


@contextmanager
def _in_words(path: Path, kind: str) -> Iterator[None]:
    """Arrow's errors in one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        words = " ".join(str(error).split())
        raise LanemapError(f"{path} cannot be read as {kind}: {words[:200]}") from None
