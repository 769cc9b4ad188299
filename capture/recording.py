"""Capture files: one Parquet file that stands alone, with the rows of all fragments and the provenance."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Element, Fragment, Source, check_slots, element_type, elements

COLUMNS = (
    *("shape", "type", "role", "lane", "reg", "slot", "row", "col", "col_last"),
    *("instruction", "major", "computation", "selector"),
)

#: Columns that name a fragment, in the order of Fragment.key.
_KEY = ("instruction", "shape", "type", "role", "major", "selector")
_TEXT = {"instruction", "shape", "type", "role", "major"}
_FORMAT = b"lanemap.capture"


def shipped() -> frozenset[str]:
    """The names of the captures that Lanemap ships: each is the name of its file."""
    return frozenset(path.stem for path in (Path(__file__).parent / "recordings").glob("*.parquet"))


def write(source: Source, path: str | os.PathLike[str]) -> None:
    """Writes a capture as a file that appears whole or not at all.

    Raises LanemapError where the file cannot be written; nothing is left behind then.
    """
    import pyarrow.parquet

    table = _table(source)
    with atomically(Path(path)) as file:
        pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=19)


def is_capture(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a Parquet file that a capture wrote."""
    import pyarrow
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_schema(path).metadata
    except (OSError, pyarrow.ArrowException):
        return False
    return _FORMAT in (metadata or {})


def read(path: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source in a capture file, under its own name or another one.

    Raises LanemapError where the file is not a whole capture.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with Path(path).open("rb") as file:
            table = pyarrow.parquet.ParquetFile(file).read().combine_chunks()
    except OSError as error:
        raise LanemapError(f"{path} cannot be read: {_reason(error)}") from None
    except pyarrow.ArrowException as error:
        raise LanemapError(f"{path} is not a whole Parquet file: {_reason(error)}") from None
    described = (table.schema.metadata or {}).get(_FORMAT)
    if described is None:
        raise LanemapError(f"{path} is not a capture: it is a Parquet file without lanemap's provenance")
    if not table.schema.equals(_schema()):
        found = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        raise LanemapError(f"{path} has columns {found}: a capture has {', '.join(COLUMNS)}, as lanemap writes them")
    try:
        header = json.loads(described)
        own_name, title, provenance = header["name"], header["title"], header["provenance"]
    except (ValueError, KeyError, TypeError):
        raise LanemapError(f"{path} is not a capture: its provenance is not as lanemap writes it") from None
    return Source(own_name if name is None else name, "capture", title, _fragments(path, table), provenance)


def _schema() -> Any:
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    narrow = {"lane", "reg", "slot", "computation", "selector"}
    types = {name: text if name in _TEXT else pyarrow.int8() if name in narrow else pyarrow.int16() for name in COLUMNS}
    return pyarrow.schema(list(types.items()))


def _table(source: Source) -> Any:
    import pyarrow

    fragments = [fragment for fragment in source.fragments if fragment.elements is not None]
    sizes = [len(fragment.elements) for fragment in fragments if fragment.elements is not None]
    empty = np.empty(0, element_type())
    rows = np.concatenate([empty, *(fragment.elements for fragment in fragments if fragment.elements is not None)])
    schema, arrays = _schema(), []
    for field in schema:
        if field.name in _KEY:
            values = [fragment.key[_KEY.index(field.name)] for fragment in fragments]
            plain = pyarrow.array(values, pyarrow.string() if field.name in _TEXT else field.type)
            column = plain.take(pyarrow.array(np.repeat(np.arange(len(fragments)), sizes)))
            arrays.append(column.dictionary_encode() if field.name in _TEXT else column)
        else:
            arrays.append(pyarrow.array(rows[field.name], field.type))
    header = {"name": source.name, "title": source.title, "provenance": source.provenance}
    return pyarrow.Table.from_arrays(arrays, schema=schema.with_metadata({_FORMAT: json.dumps(header).encode()}))


def _fragments(path: str | os.PathLike[str], table: Any) -> list[Fragment]:
    """The fragments of a table in the order of their first rows."""
    codes, names = [], []
    for name in _KEY:
        column = table[name].combine_chunks()
        column = (column.dictionary_decode() if name in _TEXT else column).dictionary_encode("encode")
        codes.append(column.indices.to_numpy(zero_copy_only=False))
        names.append(column.dictionary.to_pylist())
    keys, first, which = np.unique(np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True)
    columns = {name: table[name].to_numpy() for name in Element._fields}
    fragments = []
    for number in np.argsort(first):
        rows = np.flatnonzero(which.ravel() == number)
        key = [values[code] for values, code in zip(names, keys[number], strict=True)]
        try:
            cells = elements({name: column[rows] for name, column in columns.items()})
        except LanemapError as error:
            raise LanemapError(f"{path}: {' '.join(map(str, key[:4]))}: {error}") from None
        fragments.append(_fragment(path, key, cells))
    return fragments


def _fragment(path: str | os.PathLike[str], key: Any, table: Any) -> Fragment:
    instruction, shape, of_type, role, major, selector = key
    fragment = Fragment(
        instruction=instruction,
        shape=shape,
        type=of_type,
        role=role,
        registers=int(table["reg"].max()) + 1,
        slots=int(table["slot"].max()) + 1,
        elements=table,
        major=major,
        selector=selector,
        status="captured",
    )
    try:
        rows, columns = fragment.dimensions
    except (KeyError, TypeError):
        raise LanemapError(f"{path} has role {role!r} of shape {shape!r}: roles are A, B, C, D and E") from None
    bounds = {
        "lane": fragment.threads,
        "reg": 1 << 15,
        "slot": 1 << 15,
        "row": rows,
        "col": columns,
        "col_last": columns,
    }
    for name, bound in bounds.items():
        outside = (table[name] < 0) | (table[name] >= bound)
        if outside.any():
            value = table[name][np.argmax(outside)]
            raise LanemapError(f"{path} has {name} {value} in {fragment}: it must be 0 to {bound - 1}")
    try:
        check_slots(fragment)
    except LanemapError as error:
        raise LanemapError(f"{path}: {error}") from None
    if (table["computation"] < 1).any():
        raise LanemapError(f"{path} has a computation below 1 in {fragment}: they count from 1")
    if (table["col_last"] < table["col"]).any():
        raise LanemapError(f"{path} has a window of columns in {fragment} that ends before it begins")
    return fragment


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())
