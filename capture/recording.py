"""Capture files: one self-contained Parquet file with the rows of all fragments and the provenance."""

import json
import os
from collections.abc import Hashable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet

from ..db.errors import LanemapError
from ..db.isa.instructions import Key
from ..db.layout.algebra import Array
from ..db.layout.fragment import Element, Fragment, Source, element_type, packed, place_numbers
from ..db.layout.structure import expect_ranges
from ..db.store import export
from ..db.store.files import atomically
from ..db.text import in_one_line

#: Earlier versions wrote the header, with a digest in it, under this key.
_EARLIER = b"lanemap.capture"

#: The most elements: those of several times all instructions.
_MOST = 10_000_000

#: Limits beyond every name, and of the registers of every operand, words of shared memory among them, and of slots.
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Registers = Annotated[int, msgspec.Meta(gt=0, le=1 << 13)]
_Slots = Annotated[int, msgspec.Meta(gt=0, le=256)]


class _Listed(msgspec.Struct, array_like=True):
    """A fragment; ``layout`` is the number of its layout. Earlier versions wrote no first bit."""

    key: tuple[_Name, _Name, _Name, _Name, _Name | None, int | None, _Name | None]
    registers: _Registers
    slots: _Slots
    layout: int
    first_bit: int | None = None


class _Header(msgspec.Struct):
    """A capture without its elements."""

    name: str
    title: str
    provenance: dict[str, Any]
    fragments: list[_Listed]
    kind: Literal["capture"] = "capture"


def write(source: Source, path: str | os.PathLike[str]) -> None:
    """Write a capture as a file that appears complete or not at all."""
    table = export.packed_table(source)
    with atomically(Path(path)) as file:
        export.write_parquet(table, file)


def is_capture(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a Parquet file that a capture wrote."""
    try:
        file = pyarrow.parquet.read_metadata(path)
    except (OSError, UnicodeError, pyarrow.ArrowException):
        return False
    metadata = file.metadata or {}
    return _EARLIER in metadata or (export.METADATA_KEY in metadata and "layout" in file.schema.names)


def read(path: str | os.PathLike[str], name: str | None = None) -> Source:
    """The source in a capture file, under its own name or another one. Raises LanemapError for any other file."""
    described, digest, columns = _contents(path)
    try:
        header = msgspec.json.decode(described, type=_Header)
        earlier = {} if digest else json.loads(described)
        expected = digest or earlier.pop("digest")
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        raise LanemapError(f"{path} is not a capture: its provenance is not as lanemap writes it") from None
    if expected != (_earlier_digest(earlier, columns) if earlier else _digest(described, columns)):
        raise LanemapError(f"{path} was changed after it was written: its digest does not match")
    try:
        fragments = _fragments(columns, header)
    except LanemapError as error:
        raise LanemapError(f"{path}: {error}") from None
    return Source(header.name if name is None else name, header.kind, header.title, fragments, header.provenance)


def _contents(path: str | os.PathLike[str]) -> tuple[bytes, str, dict[str, Array]]:
    """The header, the digest and the columns of a capture file; an empty digest if the header contains it."""
    try:
        with Path(path).open("rb") as file:
            parquet = pyarrow.parquet.ParquetFile(file)
            schema, rows_in, metadata = parquet.schema_arrow, parquet.metadata.num_rows, parquet.metadata.metadata or {}
            # Other files are not read: a small one may hold billions of rows.
            fits = schema.remove_metadata().equals(export.PACKED) and rows_in <= _MOST
            # One after another, as all together would take twice the memory.
            columns = {name: parquet.read([name], use_threads=False)[name] for name in export.PACKED.names if fits}
    except (pyarrow.ArrowException, UnicodeError, MemoryError) as error:
        raise LanemapError(f"{path} is not a complete Parquet file: {in_one_line(error)}") from None
    except OSError as error:
        raise LanemapError(f"{path} cannot be read: {error.strerror or in_one_line(error)}") from None
    described = metadata.get(_EARLIER, metadata.get(export.METADATA_KEY))
    if described is None:
        raise LanemapError(f"{path} is not a capture: it is a Parquet file without lanemap's provenance")
    if rows_in > _MOST:
        raise LanemapError(f"{path} has {rows_in} rows: no capture has more than {_MOST}")
    if not fits:
        present = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise LanemapError(
            f"{path} has columns {present}: a capture has {', '.join(export.PACKED.names)}, as lanemap writes them"
        )
    if gaps := [name for name, column in columns.items() if column.null_count]:
        raise LanemapError(f"{path} has empty values of {gaps[0]}: a capture has none")
    digest = "" if _EARLIER in metadata else metadata.get(export.DIGEST_KEY, b"none").decode("ascii", "replace")
    return described, digest, {name: export.numbers(column) for name, column in columns.items()}


def _digest(header: bytes, columns: dict[str, Array]) -> str:
    return export.digest({}, {name: np.ma.asarray(values) for name, values in columns.items()}, header)


def _earlier_digest(header: dict[str, Any], columns: dict[str, Array]) -> str:
    hasher = sha256(json.dumps(header, sort_keys=True).encode())
    for values in columns.values():
        hasher.update(np.ascontiguousarray(values).tobytes())
    return hasher.hexdigest()


def _fragments(columns: dict[str, Array], header: _Header) -> list[Fragment]:
    """The fragments that the header lists, each with the elements of its layout."""
    layout = columns["layout"]
    if (last := int(layout.max(initial=-1))) >= len(header.fragments):
        raise LanemapError(f"elements are of layout {last}, but there are only {len(header.fragments)} fragments")
    starts = np.searchsorted(layout, np.arange(last + 2))
    table = np.empty(len(layout), element_type())
    for name in Element._fields:
        table[name] = columns[name]
    further = np.diff(layout)
    if ((further < 0) | ((further == 0) & (np.diff(place_numbers(columns)) <= 0))).any():
        raise LanemapError("elements are not sorted by lane, register and slot, or a slot has two")
    layouts = [packed(rows) for rows in np.split(table, starts[1:-1])]
    checked, fragments = set[Hashable](), list[Fragment]()
    for listed in header.fragments:
        key, number = Key(*listed.key), listed.layout
        if not 0 <= number < len(starts) - 1:
            raise LanemapError(f"{key} has layout {number}, but there are only {len(starts) - 1}")
        sizes: Any = {"registers": listed.registers, "slots": listed.slots, "first_bit": listed.first_bit}
        fragment = Fragment.of(key, layouts[number], "captured", **sizes)
        if (alike := (number, fragment.expected)) not in checked:
            expect_ranges(fragment)
            checked.add(alike)
        fragments.append(fragment)
    return fragments
