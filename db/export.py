"""The ``layout`` table as Arrow, and its files: Parquet, CSV, Arrow IPC and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from .errors import LanemapError
from .files import atomically
from .fragment import Element, Fragment
from .lookup import COLUMNS, sources
from .reader import Reader
from .seal import sealed

#: Key of the Parquet and Arrow schema metadata: JSON with the Lanemap version and the provenance of each source.
METADATA_KEY = b"lanemap"

_NUMBERS = Element._fields
_TEXT = ("shape", "type", "role", "instruction", "major", "qualifiers", "source")


def layout_table(reader: Reader, fragments: Sequence[Fragment], version: str) -> pa.Table:
    """The rows of fragments, at least one of which has some: text as dictionaries, numbers as int32."""
    metadata = {METADATA_KEY: _provenance(reader, {str(fragment.source) for fragment in fragments}, version)}
    fragments = [each for each in fragments if each.has_rows]
    parts = [each.elements.view("<i2").reshape(-1, len(_NUMBERS)) for each in fragments if each.elements is not None]
    counts = list(map(len, parts))
    numbers = np.empty((len(_NUMBERS), sum(counts)), np.int32)
    np.concatenate(parts, out=numbers.T)
    columns = {name: pa.array(values) for name, values in zip(_NUMBERS, numbers, strict=True)}
    columns |= {name: _dictionary([getattr(fragment, name) for fragment in fragments], counts) for name in _TEXT}
    columns["selector"] = _repeated([fragment.selector for fragment in fragments], counts)
    return pa.table({name: columns[name] for name in COLUMNS}, metadata=metadata)


def _dictionary(values: Sequence[str | None], counts: Sequence[int]) -> pa.DictionaryArray:
    """Each value repeated ``counts`` times, stored once."""
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    place = {value: index for index, value in enumerate(distinct)} | {None: -1}
    codes = np.repeat(np.asarray([place[value] for value in values], np.int16), counts)
    mask = codes < 0 if None in values else None
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), pa.array(distinct, pa.string()))


def _repeated(values: Sequence[int | None], counts: Sequence[int]) -> pa.Array:
    missing = np.repeat([value is None for value in values], counts)
    return pa.array(np.repeat(np.asarray([value or 0 for value in values], np.int32), counts), mask=missing)


def _provenance(reader: Reader, used: set[str], version: str) -> bytes:
    records = [record for record in sources(reader).records() if record["name"] in used]
    described = [
        {"name": record["name"], "kind": record["kind"], "title": record["title"], **json.loads(record["provenance"])}
        for record in records
    ]
    return json.dumps({"lanemap": version, "sources": described}).encode()


def write_parquet(table: pa.Table, stream: IO[bytes]) -> None:
    """Parquet, compressed with zstd, text as dictionaries, provenance in the schema metadata."""
    import pyarrow.parquet as pq

    # Coordinates take their whole range in every row group, so their statistics could never rule one out, and zstd
    # finds their repetitions without a dictionary. Statistics of text are made again for each batch of values.
    text = [field.name for field in table.schema if not pa.types.is_integer(field.type)]
    how: dict[str, Any] = {"use_dictionary": text, "write_statistics": text, "write_batch_size": 1 << 20}
    pq.write_table(_sealed(table), stream, compression="zstd", **how)


def write_arrow(table: pa.Table, stream: IO[bytes]) -> None:
    """Arrow IPC, the file format (Feather version 2)."""
    table = _sealed(table)
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)


def _sealed(table: pa.Table) -> pa.Table:
    """A table of layouts with its digest; any other one as it is."""
    return sealed(table) if METADATA_KEY in (table.schema.metadata or {}) else table


def write_csv(table: pa.Table, stream: IO[bytes]) -> None:
    """CSV with a header and nothing else; quotes only where a name needs them."""
    import pyarrow.csv as csv

    names = pa.concat_arrays([table[name].combine_chunks().dictionary for name in _TEXT]).to_pylist()
    quoting = "needed" if any(set(name) & set(',"\r\n') for name in names) else "none"
    stream.write((",".join(table.column_names) + "\n").encode())
    csv.write_csv(table, stream, csv.WriteOptions(include_header=False, quoting_style=quoting))


def write_jsonl(table: pa.Table, stream: IO[bytes]) -> None:
    """JSON lines: one object per row."""
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


def write(
    reader: Reader,
    fragments: Sequence[Fragment],
    output: str | PathLike[str] | IO[bytes] | None,
    form: str | None,
    version: str,
) -> None:
    """Write the rows of fragments to a file, by its ending if no format is named, a stream, or a dataset's folder.

    Raises:
        LanemapError: there is no such format, or it cannot be written.
    """
    if isinstance(output, str | PathLike):
        if form == "dataset":
            from .dataset import write_dataset

            write_dataset(reader, fragments, Path(output), version)
            return
        writer = _writer(form or _ENDINGS.get(Path(output).suffix.lower()), str(output))
        table = layout_table(reader, fragments, version)
        with atomically(Path(output)) as stream:
            writer(table, stream)
        return
    if output is None or form == "dataset":
        raise LanemapError("a dataset is a folder: name it" if form == "dataset" else "name a file to write", "output")
    _writer(form, "a stream")(layout_table(reader, fragments, version), output)


def _writer(form: str | None, output: str) -> Callable[[pa.Table, IO[bytes]], None]:
    if form is None or form not in WRITERS:
        said = f"no format {form!r}" if form else f"cannot tell the format of {output!r}"
        raise LanemapError(f"{said}: choose from {', '.join(WRITERS)}", "format")
    return WRITERS[form]


_ENDINGS = {f".{name}": name for name in WRITERS} | {".feather": "arrow"}
