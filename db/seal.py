"""The digest that an exported file carries in its schema metadata, so that damage is noticed when it comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Key of the schema metadata. It names the way the digest is made: one made in another way needs another key.
DIGEST_KEY = b"lanemap.digest.1"

#: A column of text: for each row the place of its value, or -1 where it has none. No value stands there twice.
Codes = tuple[NDArray[np.integer[Any]], Sequence[str]]


def digest(texts: Mapping[str, Codes], numbers: Mapping[str, np.ma.MaskedArray[Any, Any]]) -> str:
    """Fingerprint of the values of columns, in whatever order and types the columns are.

    Text is the same for many rows in turn: each run of equal values counts as one, with the row that it ends before.
    """
    found = sha256()
    for name, (codes, values) in sorted(texts.items()):
        short = [sha256(value.encode()).digest()[:8] for value in values]
        table = np.frombuffer(b"".join([*short, bytes(8)]), "<u8")
        ends = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes)).astype("<i8")
        found.update(f"{name}\0{len(ends)}\0".encode())
        found.update(table[codes[ends - 1]].data)
        found.update(ends.data)
    for name, column in sorted(numbers.items()):
        found.update(f"{name}\0{len(column)}\0".encode())
        found.update(np.packbits(np.ma.getmaskarray(column)).data)
        found.update(np.ascontiguousarray(column.filled(0), "<i4").data)
    return found.hexdigest()


def sealed(table: pa.Table) -> pa.Table:
    """A table of dictionaries of text and of numbers, with its digest."""
    texts, numbers = {}, {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            texts[name] = (codes, column.dictionary.to_pylist())
        else:
            gaps = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else np.ma.nomask
            numbers[name] = np.ma.MaskedArray(column.fill_null(0).to_numpy(zero_copy_only=False), gaps)
    return table.replace_schema_metadata({**(table.schema.metadata or {}), DIGEST_KEY: digest(texts, numbers)})
