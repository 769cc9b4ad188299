"""Capture files: one Parquet file that stands alone, with the rows of all fragments and the provenance."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..db.fragment import ELEMENT, LANES, Fragment, LanemapError, Source, elements

COLUMNS = (
    *("shape", "type", "role", "lane", "reg", "slot", "row", "col", "col_last"),
    *("instruction", "major", "computation", "selector"),
)

#: Columns that name a fragment, in the order of Fragment.key.
_KEY = ("instruction", "shape", "type", "role", "major", "selector")
_TEXT = {"instruction", "shape", "type", "role", "major"}
_FORMAT = b"lanemap.capture"


def write(source: Source, path: str | os.PathLike[str]) -> None:
    """Writes a capture as a file that appears whole or not at all.

    Raises LanemapError where the file cannot be written; nothing is left behind then.
    """
    import pyarrow.parquet

    path = Path(path)
    table = _table(source)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise LanemapError(f"{path} cannot be written: {_reason(error)}") from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=19)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise LanemapError(f"{path} cannot be written: {_reason(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source in a capture file, under its own name or another one.

    Raises LanemapError where the file is not a whole capture.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except OSError as error:
        raise LanemapError(f"{path} cannot be read: {_reason(error)}") from None
    except pyarrow.ArrowException as error:
        raise LanemapError(f"{path} is not a whole Parquet file: {_reason(error)}") from None
    described = (table.schema.metadata or {}).get(_FORMAT)
    if described is None:
        raise LanemapError(f"{path} is not a capture: it is a Parquet file without lanemap's provenance")
    if table.column_names != list(COLUMNS):
        raise LanemapError(f"{path} has columns {', '.join(table.column_names)}: a capture has {', '.join(COLUMNS)}")
    try:
        header = json.loads(described)
        own_name, title, provenance = header["name"], header["title"], header["provenance"]
        columns = {each: table[each].to_pylist() if each in _KEY else table[each].to_numpy() for each in COLUMNS}
    except (ValueError, KeyError, TypeError):
        raise LanemapError(f"{path} is not a capture: its provenance is not as lanemap writes it") from None
    return Source(name or own_name, "capture", title, _fragments(path, columns), provenance)


def _table(source: Source) -> Any:
    import pyarrow

    parts: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for fragment in source.fragments:
        if fragment.elements is None:
            continue
        for name, value in zip(_KEY, fragment.key, strict=True):
            parts[name].append(pyarrow.repeat(pyarrow.scalar(value, _type(name)), len(fragment.elements)))
        for name in ELEMENT.names or ():
            parts[name].append(pyarrow.array(fragment.elements[name], _type(name)))
    columns = {
        name: pyarrow.concat_arrays(parts[name]) if parts[name] else pyarrow.array([], _type(name)) for name in COLUMNS
    }
    arrays = [columns[name].dictionary_encode() if name in _TEXT else columns[name] for name in COLUMNS]
    header = {"name": source.name, "title": source.title, "provenance": source.provenance}
    return pyarrow.table(arrays, names=list(COLUMNS)).replace_schema_metadata({_FORMAT: json.dumps(header).encode()})


def _type(name: str) -> Any:
    import pyarrow

    if name in _TEXT:
        return pyarrow.string()
    return pyarrow.int8() if name in ("lane", "reg", "slot", "computation", "selector") else pyarrow.int16()


def _fragments(path: str | os.PathLike[str], columns: dict[str, Any]) -> list[Fragment]:
    rows: dict[Any, list[int]] = {}
    for number, key in enumerate(zip(*(columns[name] for name in _KEY), strict=True)):
        rows.setdefault(key, []).append(number)
    return [
        _fragment(path, key, elements({name: columns[name][numbers] for name in ELEMENT.names or ()}))
        for key, numbers in rows.items()
    ]


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
    bounds = {"lane": LANES, "reg": 1 << 15, "slot": 1 << 15, "row": rows, "col": columns, "col_last": columns}
    for name, bound in bounds.items():
        outside = (table[name] < 0) | (table[name] >= bound)
        if outside.any():
            raise LanemapError(f"{path} has {name} {table[name][np.argmax(outside)]} in {fragment}: it must be 0 to {bound - 1}")
    places = table[["lane", "reg", "slot"]]
    if len(np.unique(places)) != len(places):
        raise LanemapError(f"{path} has a slot of {fragment} twice: each lane, reg and slot holds one element")
    if (table["col_last"] < table["col"]).any() or (table["computation"] < 1).any():
        raise LanemapError(f"{path} has a window of columns in {fragment} that ends before it begins")
    return fragment


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())
