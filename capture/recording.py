"""Capture files: one Parquet file that stands alone, with the rows of all fragments and the provenance."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Element, Fragment, Source, element_type
from ..db.instructions import Key

_FORMAT = b"lanemap.capture"

#: As many elements as all operands of several times the instructions that there are.
_MOST = 10_000_000
#: More characters in a name, registers of an operand, and slots of a register, than there are.
_LONGEST = 256
#: Columns of the file: the number of a layout, and its elements.
_COLUMNS = ("layout", *Element._fields)


def shipped() -> frozenset[str]:
    """The names of the captures that Lanemap ships: each is the name of its file."""
    return frozenset(path.stem for path in (Path(__file__).parent / "recordings").glob("*.parquet"))


def write(source: Source, path: str | os.PathLike[str]) -> None:
    """Writes a capture as a file that appears whole or not at all.

    Raises LanemapError where the file cannot be written; nothing is left behind then.
    """
    import pyarrow.parquet

    table, header = _table(source)
    with (
        atomically(Path(path)) as file,
        pyarrow.parquet.ParquetWriter(file, table.schema, compression="zstd", compression_level=9) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata({_FORMAT: header})


def is_capture(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a Parquet file that a capture wrote."""
    import pyarrow
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_metadata(path).metadata
    except (OSError, UnicodeError, pyarrow.ArrowException):
        return False
    return _FORMAT in (metadata or {})


def read(path: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source in a capture file, under its own name or another one.

    Raises LanemapError where the file is not a whole capture.
    """
    described, columns = _contents(path)
    try:
        header = json.loads(described)
        own_name, title, provenance = header["name"], header["title"], header["provenance"]
        digest, rows = header.pop("digest"), [_row(each) for each in header["fragments"]]
        fits = isinstance(own_name, str) and isinstance(title, str) and isinstance(provenance, dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        fits = False
    if not fits:
        raise LanemapError(f"{path} is not a capture: its provenance is not as lanemap writes it")
    if digest != _digest(header, columns):
        raise LanemapError(f"{path} was changed after it was written: its digest does not match")
    try:
        fragments = _fragments(columns, rows)
    except LanemapError as error:
        raise LanemapError(f"{path}: {error}") from None
    return Source(own_name if name is None else name, "capture", title, fragments, provenance)


def _contents(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """The metadata and the columns of a capture file. Raises LanemapError where it has others."""
    import pyarrow
    import pyarrow.parquet

    try:
        with Path(path).open("rb") as file:
            parquet = pyarrow.parquet.ParquetFile(file)
            schema, rows_in, metadata = parquet.schema_arrow, parquet.metadata.num_rows, parquet.metadata.metadata or {}
            # What is not a capture is not read: a small file may hold billions of rows.
            fits = schema.remove_metadata().equals(_schema()) and rows_in <= _MOST
            table = parquet.read().combine_chunks() if fits else None
    except (pyarrow.ArrowException, UnicodeError, MemoryError) as error:
        raise LanemapError(f"{path} is not a whole Parquet file: {_reason(error)}") from None
    except OSError as error:
        raise LanemapError(f"{path} cannot be read: {_reason(error)}") from None
    described = metadata.get(_FORMAT)
    if described is None:
        raise LanemapError(f"{path} is not a capture: it is a Parquet file without lanemap's provenance")
    if rows_in > _MOST:
        raise LanemapError(f"{path} has {rows_in} rows: no capture has more than {_MOST}")
    if table is None:
        found = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise LanemapError(f"{path} has columns {found}: a capture has {', '.join(_COLUMNS)}, as lanemap writes them")
    if gaps := [each for each in _COLUMNS if table[each].null_count]:
        raise LanemapError(f"{path} lacks values of {gaps[0]}: a capture has all")
    return described, {each: table[each].to_numpy() for each in _COLUMNS}


def _row(said: Any) -> tuple[Key, int, int, int]:
    """What the metadata says of a fragment: its key, how many registers and slots, and the number of its layout.

    Raises TypeError or ValueError where it is something else.
    """
    key, *numbers = said
    registers, slots, layout = numbers
    *names, major, selector, qualifiers = Key(*key)
    texts = [*names, *(each for each in (major, qualifiers) if each is not None)]
    whole = [registers, slots, layout, *([] if selector is None else [selector])]
    if not (all(type(each) is str for each in texts) and all(type(each) is int for each in whole)):
        raise TypeError(str(said)[:80])
    if max(map(len, texts)) > _LONGEST or not (0 < registers <= _LONGEST and 0 < slots <= _LONGEST):
        raise ValueError(str(said)[:80])
    return Key(*key), registers, slots, layout


def _schema() -> Any:
    import pyarrow

    return pyarrow.schema([("layout", pyarrow.int32()), *((name, pyarrow.int16()) for name in Element._fields)])


def _table(source: Source) -> tuple[Any, bytes]:
    """The elements of each distinct layout, and for the metadata which fragments have it."""
    import pyarrow

    layouts: dict[str | None, tuple[int, Any]] = {}
    fragments = []
    for each in source.fragments:
        if each.elements is not None:
            number, _ = layouts.setdefault(each.digest, (len(layouts), each.elements))
            fragments.append((each.key, each.registers, each.slots, number))
    tables = [table for _, table in layouts.values()]
    rows = np.concatenate([np.empty(0, element_type()), *tables])
    columns = {"layout": np.repeat(np.arange(len(tables), dtype=np.int32), [len(table) for table in tables])}
    columns |= {name: rows[name] for name in Element._fields}
    header = {
        "name": source.name,
        "title": source.title,
        "provenance": source.provenance,
        "fragments": fragments,
    }
    header = json.loads(json.dumps(header))
    text = json.dumps({**header, "digest": _digest(header, columns)}, separators=(",", ":"))
    return pyarrow.Table.from_arrays(list(map(pyarrow.array, columns.values())), schema=_schema()), text.encode()


def _digest(header: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """Fingerprint of everything in a capture file."""
    found = sha256(json.dumps(header, sort_keys=True).encode())
    for name in _COLUMNS:
        found.update(np.ascontiguousarray(columns[name]).tobytes())
    return found.hexdigest()


def _fragments(columns: Mapping[str, NDArray[Any]], rows: Sequence[tuple[Key, int, int, int]]) -> list[Fragment]:
    """The fragments that the metadata lists, each with the elements of its layout."""
    layout = columns["layout"]
    starts = np.searchsorted(layout, np.arange(1 + int(layout.max(initial=-1)) + 1))
    table = np.empty(len(layout), element_type())
    for name in Element._fields:
        table[name] = columns[name]
    place = (table["lane"].astype(np.int64) << 32) + (table["reg"].astype(np.int64) << 16) + table["slot"]
    if ((np.diff(place) <= 0) & (np.diff(layout) == 0)).any() or (np.diff(layout) < 0).any():
        raise LanemapError("elements are not in the order of lanes, registers and slots, each slot once")
    greatest = {name: np.maximum.reduceat(table[name], starts[:-1]) for name in Element._fields} if len(table) else {}
    least = {name: np.minimum.reduceat(table[name], starts[:-1]) for name in Element._fields} if len(table) else {}
    fragments = []
    for key, registers, slots, number in rows:
        if not 0 <= number < len(starts) - 1:
            raise LanemapError(f"{key} has layout {number}: there are {len(starts) - 1}")
        found = table[starts[number] : starts[number + 1]]
        each = Fragment(**key._asdict(), registers=registers, slots=slots, elements=found, status="captured")
        for name, known in each.ranges.items():
            for value in (least[name][number], greatest[name][number]):
                if value not in known:
                    raise LanemapError(f"{name} {value} of {each} is outside {known.start}..{known.stop - 1}")
        if (found["col_last"] < found["col"]).any():
            raise LanemapError(f"a window of columns of {each} ends before it begins")
        fragments.append(each)
    return fragments


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200]
