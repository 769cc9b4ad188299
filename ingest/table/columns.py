"""The columns of a CSV, Parquet or Arrow file, read in pieces, so that no file can fill the memory."""

import codecs
import csv
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from struct import unpack_from
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...db.errors import LanemapError
from ...db.store.export import DIGEST_KEY, digest
from ...db.text import either, enumerated, in_one_line

REQUIRED = ("shape", "type", "role", "lane", "reg", "slot", "row", "col")
TEXTS = ("source", "instruction", "shape", "type", "role", "major", "qualifiers", "origin", "move")
NUMBERS = (
    *("lane", "reg", "slot", "row", "col", "col_last", "computation", "selector"),
    *("bits", "slots", "value", "first_bit"),
    *("thread", "warp", "rep_m", "rep_n", "rep_k"),
)
#: The columns that a table may have instead of registers and slots.
_PLACES = ("value", "move")

#: More rows and bytes than all shipped sources together.
MAX_ROWS = 5_000_000
MAX_BYTES = 1 << 29
#: How many distinct values a column of text may have, and how long each may be.
MAX_NAMES = 10_000
MAX_LENGTH = 1000
_COLUMNS = 1000

_HEAD = 1 << 16
_TEXT = pa.dictionary(pa.int32(), pa.string())

#: A column of numbers, with a mask for missing values.
Numbers = np.ma.MaskedArray[Any, np.dtype[np.int32]]


class Text(NamedTuple):
    """A column of text: for each row the index of its value in ``values``, or -1 if it has none."""

    codes: NDArray[np.int32]
    values: Sequence[str]

    def mapped(self, change: Callable[[str], str], default: str | None = None) -> "Text":
        """The column with its values changed, equal ones merged, and missing ones filled."""
        changed = [*map(change, self.values), *([] if default is None else [default])]
        distinct = list(dict.fromkeys(changed))
        places = {value: place for place, value in enumerate(distinct)}
        table = np.asarray([places[value] for value in changed] + [-1] * (default is None), np.int32)
        return Text(table[self.codes], distinct)


class Columns(NamedTuple):
    """All columns of ``layout``, each as long as the table; those that the file lacks have no values.

    ``sealed``: the file carries a digest, and these values match it.
    """

    texts: Mapping[str, Text]
    numbers: Mapping[str, Numbers]
    sealed: bool


def read_columns(path: Path) -> Columns:
    """The columns of a file, recognised by its content, not by its ending.

    Raises:
        LanemapError: it is no file, no table, too large, damaged, or lacks a required column or value.
    """
    names: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
    codes: dict[str, list[NDArray[np.int32]]] = {name: [] for name in TEXTS}
    numbers: dict[str, list[Numbers]] = {name: [] for name in NUMBERS}
    rows, seal = 0, None
    for batch in _batches(path):
        rows += batch.num_rows
        at_most(MAX_ROWS, rows, "rows", path)
        seal = (batch.schema.metadata or {}).get(DIGEST_KEY, seal)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in TEXTS:
                codes[name].append(_codes(column, names[name], name, path))
            else:
                numbers[name].append(_whole(column, name, path))
    if not rows:
        raise LanemapError(f"{path} has no rows")
    texts = {name: Text(np.concatenate(parts), list(names[name])) for name, parts in codes.items() if parts}
    joined: Any = np.ma.concatenate
    complete: dict[str, Numbers] = {name: joined(parts) for name, parts in numbers.items() if parts}
    if seal and seal.decode("ascii", "replace") != digest({n: (t.codes, t.values) for n, t in texts.items()}, complete):
        advice = "export it again, or drop the schema metadata if the change was on purpose"
        why = "its values do not match their digest"
        raise LanemapError(f"{path} was damaged or changed after Lanemap wrote it: {why}: {advice}")
    for name in _required({**texts, **complete}):
        missing = texts[name].codes < 0 if name in texts else np.ma.getmaskarray(complete[name])
        if missing.any():
            raise LanemapError(f"{path}: row {int(missing.argmax()) + 1} has no {name}")
    lacking = Text(np.full(rows, -1, np.int32), [])
    gaps: Numbers = np.ma.MaskedArray(np.zeros(rows, np.int32), mask=True)
    everything = dict.fromkeys(TEXTS, lacking) | texts, dict.fromkeys(NUMBERS, gaps) | complete
    return Columns(*everything, bool(seal))


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 1))
            last = stream.read(1)
    except OSError as error:
        raise LanemapError(f"cannot read {path}: {error.strerror}: name a CSV, Parquet or Arrow file") from None
    if size > MAX_BYTES:
        raise LanemapError(f"{path} has more than {MAX_BYTES >> 20} MB: no table of layouts is so large")
    if not head:
        raise LanemapError(f"{path} is empty: a table has the columns {', '.join(REQUIRED)}")
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if head.startswith((_MAGIC, _STREAM)):
        return _arrow(path)
    first = head.splitlines()[0]
    line = codecs.decode(first, "utf-8-sig", "replace")
    if len(first) >= _HEAD or "\0" in line or "\ufffd" in line:
        raise LanemapError(f"{path} is not a table: name a CSV, Parquet or Arrow file")
    if line.lstrip().startswith(("{", "[")):
        raise LanemapError(f"{path} is JSON: name a CSV, Parquet or Arrow file")
    try:
        names = _names(next(csv.reader([line]), []), path)
    except csv.Error as error:
        raise LanemapError(f"{path} is not a table: {error}: name a CSV, Parquet or Arrow file") from None
    if last not in (b"\n", b"\r"):
        raise LanemapError(f"{path} does not end with a line feed, so it may be cut off: add one if it is complete")
    return _csv(path, names)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with _in_words(path, "Parquet"):
        limits = {"thrift_string_size_limit": 1 << 24, "thrift_container_size_limit": 1 << 20}
        with pq.ParquetFile(path, **limits) as file:
            at_most(_COLUMNS, file.metadata.num_columns, "columns", path)
            at_most(MAX_ROWS, file.metadata.num_rows, "rows", path)
            names = _names(file.schema_arrow.names, path)
            # The sizes of single columns are not read: in a damaged file, that would end the process.
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            if sum(group.total_byte_size for group in groups) > MAX_BYTES:
                raise LanemapError(f"{path} holds more than {MAX_BYTES >> 20} MB: no table of layouts is so large")
        # Text is read as it is stored, each value once; repeated, it could take any amount of memory.
        texts = [name for name, column in names.items() if column in TEXTS]
        with pq.ParquetFile(path, read_dictionary=texts, **limits) as file:
            for batch in file.iter_batches(columns=list(names)):
                batch.validate(full=True)
                batch = batch.rename_columns([names[name] for name in batch.schema.names])
                yield batch.replace_schema_metadata(file.schema_arrow.metadata)


def _arrow(path: Path) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow stream, or of the stream that an Arrow file has between its magic bytes."""
    with _in_words(path, "Arrow"), pa.memory_map(str(path)) as file:
        start, end = (8, _MAGIC) if file.read(len(_MAGIC)) == _MAGIC else (0, _END)
        file.seek(max(0, file.size() - len(end)))
        if file.read() != end:
            raise LanemapError(f"{path} cannot be read as Arrow: it is cut off")
        file.seek(start)
        rows, size = _arrow_sizes(pa.ipc.MessageReader.open_stream(file))
        at_most(MAX_ROWS, rows, "rows", path)
        if size > MAX_BYTES:
            raise LanemapError(f"{path} holds more than {MAX_BYTES >> 20} MB: no table of layouts is so large")
        file.seek(start)
        with pa.ipc.open_stream(file) as reader:
            names = _names(reader.schema.names, path)
            for batch in reader:
                batch.validate(full=True)
                chosen = batch.select(list(names)).rename_columns(list(names.values()))
                yield chosen.replace_schema_metadata(reader.schema.metadata)


#: The bytes at both ends of a file; those at the start of a stream, before the length of a message, and at its end.
_MAGIC, _STREAM, _END = b"ARROW1", bytes([255] * 4), bytes([255] * 4 + [0] * 4)
_DICTIONARY, _BATCH = 2, 3
#: The numbers of the fields in their tables, as in Arrow's Message.fbs.
_KIND, _HEADER = 1, 2
_OF_DICTIONARY = 1
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3


def _arrow_sizes(messages: Iterable[Any]) -> tuple[int, int]:
    """How many rows the batches of a stream have, and how many bytes they and its dictionaries take in memory.

    Nothing is decompressed: a few bytes may expand to any amount of memory. A message of Arrow is a flatbuffer and a
    body. Each compressed buffer in the body begins with its uncompressed size.
    """
    rows = size = 0
    for message in messages:
        head, body = bytes(message.metadata), message.body
        table = _follow(head, 0)
        kind = _field(head, table, _KIND)
        if kind is None or head[kind] not in (_DICTIONARY, _BATCH):
            continue
        batch = _follow(head, _field(head, table, _HEADER))
        if head[kind] == _DICTIONARY:
            batch = _follow(head, _field(head, batch, _OF_DICTIONARY))
        elif (length := _field(head, batch, _LENGTH)) is not None:
            rows += unpack_from("<q", head, length)[0]
        if _field(head, batch, _COMPRESSION) is None:
            size += len(body)
        else:
            vector = _follow(head, _field(head, batch, _BUFFERS))
            (count,) = unpack_from("<I", head, vector)
            for at in range(min(count, len(head) // 16)):
                offset, length = unpack_from("<qq", head, vector + 4 + 16 * at)
                uncompressed = unpack_from("<q", body[offset : offset + 8])[0] if length >= 8 else -1
                size += length if uncompressed == -1 else max(0, uncompressed)
    return rows, size


def _follow(head: bytes, place: int | None) -> int:
    """The position of the table or vector that the offset at a place refers to."""
    place = place or 0
    return int(place + unpack_from("<I", head, place)[0])


def _field(head: bytes, table: int, number: int) -> int | None:
    """The position of a field of a table; None if the table lacks it."""
    entries = table - unpack_from("<i", head, table)[0]
    (size,) = unpack_from("<H", head, entries)
    offset = unpack_from("<H", head, entries + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
    return table + offset if offset else None


def _csv(path: Path, names: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as pacsv

    # pandas writes columns with missing values with a decimal point.
    numbers = {name: pa.int32() if name in REQUIRED else pa.float64() for name in NUMBERS}
    types = {name: _TEXT if column in TEXTS else numbers[column] for name, column in names.items()}
    convert = pacsv.ConvertOptions(
        column_types=types, include_columns=list(names), null_values=[""], strings_can_be_null=True
    )
    with _in_words(path, "CSV"):
        try:
            with pacsv.open_csv(path, convert_options=convert) as reader:
                for batch in reader:
                    yield batch.rename_columns(list(names.values()))
        except pa.ArrowInvalid:
            # Find the row of the value that is not an integer, which Arrow does not name.
            with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream, suppress(csv.Error):
                for row, record in enumerate(islice(csv.DictReader(stream), MAX_ROWS), start=1):
                    for name in (name for name, column in names.items() if column in NUMBERS):
                        value = (record[name] or "").strip()
                        if value and not _WHOLE.fullmatch(value):
                            problem = f"{names[name]} {value[:40]!r} is not a whole number"
                            raise LanemapError(f"{path}: row {row}: {problem}: write it like 5") from None
            raise


_WHOLE = re.compile(r"[+-]?\d+(?:\.0*)?")


def _names(names: Sequence[str], path: Path) -> dict[str, str]:
    """The columns of ``layout`` by their names in the file. Warns of others, which may be misspelt."""
    columns: dict[str, str] = {}
    for name in names:
        column = name.strip().lower()
        if column in columns.values():
            raise LanemapError(f"{path} has two columns named {column}, ignoring case: remove or rename one")
        if column in TEXTS + NUMBERS:
            columns[name] = column
    lacking = [name for name in _required(columns.values()) if name not in columns.values()]
    if lacking:
        if len(names) == 1 and (separator := next((mark for mark in ";\t" if mark in names[0]), None)):
            raise LanemapError(f"{path} separates columns by {separator!r}: write commas between them")
        raise LanemapError(f"{path} lacks {', '.join(lacking)}: a table has the columns {', '.join(REQUIRED)}")
    if unknown := [name.strip() for name in names if name.strip() and name not in columns]:
        near = [like for name in unknown for like in get_close_matches(name.lower(), TEXTS + NUMBERS, 1, 0.8)]
        meant = f": did you mean {either(near)}?" if near else ""
        warn(f"unknown columns of {path} are passed over: {enumerated(unknown)}{meant}", stacklevel=2)
    return columns


def _required(names: Collection[str]) -> list[str]:
    return [name for name in REQUIRED if name not in ("reg", "slot") or not {*names} & {*_PLACES}]


def at_most(limit: int, number: int, things: str, path: Path) -> None:
    """Refuse a table that has more of something than any table of layouts.

    Raises:
        LanemapError: names the limit.
    """
    if number > limit:
        raise LanemapError(f"{path} has more than {limit} {things}: no table of layouts has so many")


def _codes(column: pa.Array, places_of: dict[str, int], name: str, path: Path) -> NDArray[np.int32]:
    """The places of the values of a column in ``places_of``, to which new ones are added."""
    stored = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_one(stored) for is_one in kinds):
        raise LanemapError(f"{path}: column {name} holds {column.type}: it must hold text")
    longest = pc.max(pc.binary_length(column.dictionary if pa.types.is_dictionary(column.type) else column)).as_py()
    if longest is not None and longest > 4 * MAX_LENGTH:  # in UTF-8
        raise LanemapError(f"{path}: column {name} has a value of more than {MAX_LENGTH} characters")
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    values = column.dictionary.to_pylist()
    new = [value for value in dict.fromkeys(values) if value is not None and value not in places_of]
    at_most(MAX_NAMES, len(places_of) + len(new), f"values in column {name}", path)
    if any(len(value) > MAX_LENGTH for value in new):
        raise LanemapError(f"{path}: column {name} has a value of more than {MAX_LENGTH} characters")
    for value in new:
        places_of[value] = len(places_of)
    places = np.asarray([-1 if value is None else places_of[value] for value in values] + [-1], np.int32)
    rows: NDArray[np.int64] = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return places[rows]


def _whole(column: pa.Array, name: str, path: Path) -> Numbers:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
        raise LanemapError(f"{path}: column {name} holds {column.type}: it must hold whole numbers")
    try:
        integers = column.cast(pa.int32())
    except pa.ArrowException:
        raise LanemapError(f"{path}: column {name} holds numbers that are not whole, or too large") from None
    arrays = (part.to_numpy(zero_copy_only=False) for part in (integers.fill_null(0), integers.is_null()))
    return np.ma.MaskedArray(*arrays)


@contextmanager
def _in_words(path: Path, kind: str) -> Iterator[None]:
    """Turn Arrow's errors into one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError, MemoryError, struct.error) as error:
        words = re.sub(r"In CSV column #(\d+)", lambda found: f"column {int(found[1]) + 1}", in_one_line(error))
        raise LanemapError(f"{path} cannot be read as {kind}: {words}") from None
