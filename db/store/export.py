"""The ``layout`` table as Arrow, and its files: Parquet, CSV, Arrow IPC and JSON lines, and datasets of Parquet.

A dataset is a folder with a file for each source and instruction, named hive style. DuckDB, Spark and pandas read it as
one table and skip the files that a query does not need. Parquet and Arrow carry a digest of their values in their
schema metadata, so that damage is noticed when they are read.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..isa.types import TYPES
from ..layout.fragment import UNTOLD_WINDOWS, Element, Fragment, Source, element_type
from ..layout.tile import IN_TILE, in_tile
from ..text import grouped
from .files import folder_atomically
from .reader import COLUMNS, Reader

#: Key of the Parquet and Arrow schema metadata: JSON with the Lanemap version and the provenance of each source.
METADATA_KEY = b"lanemap"

#: Key of the schema metadata for the digest. Another way of making the digest needs another key.
DIGEST_KEY = b"lanemap.digest.1"

#: A column of text: for each row the index of its value, or -1 if it has none, and the distinct values.
Codes = tuple[NDArray[np.integer[Any]], Sequence[str]]

#: The columns that a dataset has in the names of its folders, not in its files.
PARTITIONS = ("source", "instruction")

#: The columns of a packed table: the number of a layout, and its elements.
PACKED = pa.schema([("layout", pa.int32()), *((name, pa.int16()) for name in Element._fields)])
_TEXT = ("shape", "type", "role", "instruction", "major", "qualifiers", "source")


def numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of integers without nulls. PyArrow's own conversion would import pandas."""
    return np.from_dlpack(column.combine_chunks())


def layout_table(reader: Reader, fragments: Sequence[Fragment], version: str) -> pa.Table:
    """The rows of fragments, at least one of which has some: text as dictionaries, numbers as int32.

    ``col_last`` is null where a source leaves open whether a column is exact or the first of a window.
    In a tile ``lane`` is that of a warp, and more columns say which thread it is, and which instruction of its warp.
    For types that only imports have, there is a column ``bits`` with their width, and for unknown instructions a column
    ``slots`` with the slots of a register.
    """
    metadata = {METADATA_KEY: _provenance(reader, {str(fragment.source) for fragment in fragments}, version)}
    fragments = [fragment for fragment in fragments if fragment.has_rows]
    parts = [fragment.table.view("<i2").reshape(-1, len(Element._fields)) for fragment in fragments]
    counts = list(map(len, parts))
    numbers = np.empty((len(Element._fields), sum(counts)), np.int32)
    np.concatenate(parts, out=numbers.T)
    columns = {name: pa.array(values) for name, values in zip(Element._fields, numbers, strict=True)}
    of_row = np.repeat(np.arange(len(parts), dtype=np.int32), counts)
    untold = np.repeat([fragment.status == UNTOLD_WINDOWS for fragment in fragments], counts)
    if untold.any():  # what was not claimed to be exact is not claimed now
        col, col_last = (numbers[Element._fields.index(name)] for name in ("col", "col_last"))
        columns["col_last"] = pa.array(np.ma.MaskedArray(col_last, untold & (col == col_last)))
    for name in _TEXT:
        text = pa.array([getattr(fragment, name) for fragment in fragments], pa.string()).dictionary_encode()
        columns[name] = text.cast(pa.dictionary(pa.int16(), pa.string())).take(of_row)
    for name in ("selector", "first_bit"):
        columns[name] = pa.array([getattr(fragment, name) for fragment in fragments], pa.int32()).take(of_row)
    chosen = {name: columns[name] for name in COLUMNS}
    if any(fragment.tiling for fragment in fragments):
        places = [in_tile(one, *(one.table[name].astype(np.int32) for name in ("lane", "reg"))) for one in fragments]
        for name in IN_TILE:
            of = [place.get(name, np.full(count, -1)) for place, count in zip(places, counts, strict=True)]
            values = np.concatenate(of).astype(np.int32)
            if (values >= 0).any():
                chosen[name] = pa.array(np.ma.MaskedArray(values, values < 0))
    if any(fragment.type not in TYPES for fragment in fragments):
        bits = [None if fragment.type in TYPES else len(fragment.occupied_bits) for fragment in fragments]
        chosen["bits"] = pa.array(bits, pa.int32()).take(of_row)
    unknown = [None if instruction(fragment.instruction).known else fragment.slots for fragment in fragments]
    if any(unknown):
        chosen["slots"] = pa.array(unknown, pa.int32()).take(of_row)
    return pa.table(chosen, metadata=metadata)


def packed_table(source: Source) -> pa.Table:
    """A source with each distinct layout once, numbered; the metadata says which fragments have it."""
    layouts: dict[str | None, tuple[int, Any]] = {}
    fragments = []
    for fragment in source.with_rows:
        number, _ = layouts.setdefault(fragment.digest, (len(layouts), fragment.elements))
        fragments.append((fragment.key, fragment.registers, fragment.slots, number, fragment.first_bit))
    tables = [table for _, table in layouts.values()]
    rows = np.concatenate([np.empty(0, element_type()), *tables])
    layout = np.repeat(np.arange(len(tables), dtype=np.int32), [len(table) for table in tables])
    columns = [layout, *(np.ascontiguousarray(rows[name]) for name in Element._fields)]
    # Not by pa.array, which imports pandas.
    buffers = zip(PACKED.types, columns, strict=True)
    packed = [pa.Array.from_buffers(type_, len(rows), [None, pa.py_buffer(values)]) for type_, values in buffers]
    described = {"name": source.name, "kind": source.kind, "title": source.title, "provenance": source.provenance}
    header = json.dumps({**described, "fragments": fragments}, separators=(",", ":")).encode()
    return pa.Table.from_arrays(packed, schema=PACKED.with_metadata({METADATA_KEY: header}))


def _provenance(reader: Reader, used: set[str], version: str) -> bytes:
    described = [
        {"name": name, "kind": kind, "title": title, **json.loads(provenance)}
        for name, kind, title, provenance in reader.sealed("source", "provenance")
        if name in used
    ]
    return json.dumps({"lanemap": version, "sources": described}).encode()


def digest(texts: Mapping[str, Codes], numbers: Mapping[str, np.ma.MaskedArray[Any, Any]], header: bytes = b"") -> str:
    """The digest of a header and the values of columns, whatever the order and types of the columns.

    Text repeats in many consecutive rows: each run of equal values counts once, with the row that it ends before.
    Numbers must be integers: others raise TypeError, because 1.5 cut to 1 would have the digest of 1.
    """
    hasher = sha256(header)
    for name, (codes, values) in sorted(texts.items()):
        short = [sha256(value.encode()).digest()[:8] for value in values]
        table = np.frombuffer(b"".join([*short, bytes(8)]), "<u8")
        ends = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes)).astype("<i8")
        hasher.update(f"{name}\0{len(ends)}\0".encode())
        hasher.update(table[codes[ends - 1]].data)
        hasher.update(ends.data)
    for name, column in sorted(numbers.items()):
        hasher.update(f"{name}\0{len(column)}\0".encode())
        hasher.update(np.packbits(np.ma.getmaskarray(column)).data)
        hasher.update(np.ascontiguousarray(column.filled(0).astype("<i4", casting="same_kind", copy=False)).data)
    return hasher.hexdigest()


def sealed(table: pa.Table) -> pa.Table:
    """A table of text dictionaries and numbers, with its digest, which for a packed one includes the metadata."""
    texts, counted = {}, {}
    header = table.schema.metadata[METADATA_KEY] if "layout" in table.column_names else b""
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            texts[name] = (codes, column.dictionary.to_pylist())
        elif column.null_count:
            gaps = column.is_null().to_numpy(zero_copy_only=False)
            counted[name] = np.ma.MaskedArray(column.fill_null(0).to_numpy(), gaps)
        else:
            counted[name] = np.ma.asarray(numbers(table[name]))
    return table.replace_schema_metadata({**(table.schema.metadata or {}), DIGEST_KEY: digest(texts, counted, header)})


def write_parquet(table: pa.Table, stream: IO[bytes]) -> None:
    """Write Parquet, compressed with zstd, text as dictionaries, provenance in the schema metadata."""
    import pyarrow.parquet as pq

    # Coordinates take their whole range in every row group, so their statistics could never rule one out, and zstd
    # finds their repetitions without a dictionary. Statistics of text are computed once per batch of values.
    text = [field.name for field in table.schema if not pa.types.is_integer(field.type)]
    how: dict[str, Any] = {"use_dictionary": text, "write_statistics": text, "write_batch_size": 1 << 20}
    table = _sealed(table)
    metadata = None
    if "layout" in table.column_names:  # small, and without a second copy of the metadata in the Arrow schema
        how |= {"column_encoding": "DELTA_BINARY_PACKED", "compression_level": 9}
        table, metadata = table.replace_schema_metadata(None), table.schema.metadata
    with pq.ParquetWriter(stream, table.schema, compression="zstd", **how) as writer:
        writer.write_table(table)
        if metadata:
            writer.add_key_value_metadata(metadata)


def write_arrow(table: pa.Table, stream: IO[bytes], *, piped: bool = False) -> None:
    """Write Arrow IPC: the file format (Feather version 2), or the stream format into a pipe."""
    table = _sealed(table)
    make = pa.ipc.new_stream if piped or not stream.seekable() else pa.ipc.new_file
    with make(stream, table.schema) as writer:
        writer.write_table(table)


def _sealed(table: pa.Table) -> pa.Table:
    """A table of layouts with its digest; any other one unchanged."""
    return sealed(table) if METADATA_KEY in (table.schema.metadata or {}) else table


def write_csv(table: pa.Table, stream: IO[bytes]) -> None:
    """Write CSV with a header and nothing else, and quotes only where a name needs them."""
    import pyarrow.csv as csv

    names = pa.concat_arrays([table[name].combine_chunks().dictionary for name in _TEXT]).to_pylist()
    quoting = "needed" if any(set(name) & set(',"\r\n') for name in names) else "none"
    stream.write((",".join(table.column_names) + "\n").encode())
    csv.write_csv(table, stream, csv.WriteOptions(include_header=False, quoting_style=quoting))


def write_jsonl(table: pa.Table, stream: IO[bytes]) -> None:
    """Write JSON lines: one object per row."""
    line = "{" + ", ".join(f'"{name}": %s' for name in table.column_names) + "}\n"
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [_in_json(column) for column in batch.columns]
        stream.write("".join(map(line.__mod__, zip(*columns, strict=True))).encode())


def _in_json(column: pa.Array) -> list[str]:
    if not pa.types.is_dictionary(column.type):
        return ["null" if value is None else str(value) for value in column.to_pylist()]
    names = [json.dumps(name) for name in column.dictionary.to_pylist()]
    return ["null" if code is None else names[code] for code in column.indices.to_pylist()]


WRITERS: Mapping[str, Callable[[pa.Table, IO[bytes]], None]] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "arrow": write_arrow,
    "jsonl": write_jsonl,
}
_ENDINGS = {f".{name}": name for name in WRITERS} | {".feather": "arrow"}


def write_dataset(reader: Reader, fragments: Sequence[Fragment], folder: Path, version: str) -> None:
    """Write fragments that have rows. An existing dataset is replaced once the new one is complete.

    Raises:
        LanemapError: the folder holds something else, or it cannot be written.
    """
    parts = grouped(fragments, lambda fragment: tuple(str(getattr(fragment, name)) for name in PARTITIONS))
    with folder_atomically(folder, "dataset") as new_folder:
        for values, part in parts.items():
            table = layout_table(reader, part, version).drop_columns(list(PARTITIONS))
            # Names are percent-encoded, + too, as every reader expects.
            names = (f"{name}={quote(value, safe='')}" for name, value in zip(PARTITIONS, values, strict=True))
            file = new_folder.joinpath(*names, "part-0.parquet")
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                write_parquet(table, stream)


def table_format(output: str | PathLike[str] | IO[bytes] | None, form: str | None, notations: Collection[str]) -> str:
    """The format in which rows are written, by default that of a file's ending.

    The message for an unknown one also names the ``notations``, which others write.

    Raises:
        LanemapError: there is no such format, or nothing to write to.
    """
    path = Path(output) if isinstance(output, str | PathLike) else None
    form = form or (_ENDINGS.get(path.suffix.lower(), "") if path else "")
    if form not in (*WRITERS, "dataset"):
        unknown = f"cannot tell the format of {str(path)!r}" if path else "name a format"
        known = ", ".join((*WRITERS, "dataset", *notations))
        raise LanemapError(f"{f'no format {form!r}' if form else unknown}: choose from {known}", "format")
    if output is None or (form == "dataset" and not path):
        raise LanemapError("a dataset is a folder: name it" if form == "dataset" else "name a file to write", "output")
    return form
