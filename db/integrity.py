"""Whether a database still holds what was written into it. What is damaged is refused, not answered from.

Elements are stored twice: packed, under their sha256, and as rows, of which each mapping has the sum. What is said of
fragments and sources has a seal. A change of a single value is always noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .fragment import Fragment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .reader import Reader

#: Keeps sums within 64 bits. It stands in _SUMS, too.
_PRIME = 1_000_000_007


_SEALED = itemgetter(*(each.name for each in fields(Fragment) if each.name != "elements"), "rows", "cols", "digest")


def seal(record: Mapping[str, Any]) -> str:
    """Fingerprint of what is stored of a fragment, with the name of its source and the digest of its layout."""
    return sha256("\0".join(map(str, _SEALED(record))).encode()).hexdigest()


def source_seal(record: Mapping[str, Any], seals: Iterable[str], findings: Iterable[Sequence[object]]) -> str:
    """Fingerprint of a source: its columns, the seals of its fragments in their order, and what was found in them."""
    names = ("name", "kind", "title", "provenance")
    held = [*(record[name] for name in names), *seals, *sorted(map(tuple, findings), key=repr)]
    return sha256(repr(held).encode()).hexdigest()


def rows_sum(elements: NDArray[Any]) -> int:
    """The sum that the rows of a layout have in ``element``."""
    import numpy as np

    wide: dict[str, NDArray[np.int64]] = {name: elements[name].astype(np.int64) for name in elements.dtype.names or ()}
    place = 65536 * wide["lane"] + 256 * wide["reg"] + wide["slot"] + 1
    cell = 65536 * wide["row"] + wide["col"] + 257 * wide["col_last"] + 31 * wide["computation"] + 1
    return int(np.fmod(place * cell, _PRIME).sum())


def problems(reader: Reader, *, rows: bool = True) -> Iterator[str]:
    """What is damaged in a database, in words.

    Packed elements are not read: whoever reads them compares them with their digest. With ``rows``, the table
    ``element`` is read too, which only queries in SQL read otherwise.
    """
    seals: dict[str, list[str]] = {}
    for record in reader.select(_FRAGMENTS, {}).records():
        seals.setdefault(record["source"], []).append(record["seal"])
        if record["seal"] != seal(record):
            yield f"what is said of {record['role']} of {record['instruction']} {record['shape']} {record['type']}"
    found = {
        name: [each[1:] for each in several]
        for name, several in groupby(reader.select(_FINDINGS, {}).rows, itemgetter(0))
    }
    for record in reader.select("SELECT * FROM source", {}).records():
        name = record["name"]
        if record["seal"] != source_seal(record, seals.get(name, ()), found.get(name, ())):
            yield f"the source {name}"
    if reader.location.file is not None:
        yield from _of_file(reader, rows=rows)
    if rows:
        yield from _of_rows(reader)


def _of_rows(reader: Reader) -> Iterator[str]:
    """What is damaged in ``element``."""
    sums: dict[int, dict[int, int]] = {}
    for mapping, register, total in reader.select(_SUMS, {}).rows:
        sums.setdefault(mapping, {})[register] = int(total)
    for number, registers, rows_of, expected in reader.select(_MAPPINGS, {}).rows:
        by_register = sums.get(number if rows_of is None else rows_of, {})
        if sum(total for register, total in by_register.items() if register < registers) != expected:
            yield f"the rows of mapping {number}"


def _of_file(reader: Reader, *, rows: bool) -> Iterator[str]:
    """What is damaged in a file of SQLite: its structure, its indexes, the text of its tables and of ``layout``."""
    for part in [""] if rows else ["(source)", "(fragment)", "(finding)", "(mapping)"]:
        if (words := str(reader.select(f"PRAGMA integrity_check{part}", {}).rows[0][0])) != "ok":
            yield " ".join(words.split())
    if rows and reader.select(_MISTYPED, {}).rows:
        yield "the type of a row"
    if reader.select("SELECT value FROM meta WHERE key = 'tables'", {}).rows != [
        (tables(reader.select(TABLES, {}).rows),)
    ]:
        yield "what says which tables there are"


def tables(definitions: Iterable[Sequence[object]]) -> str:
    """Fingerprint of the definitions that ``TABLES`` selects."""
    return sha256(repr(list(map(tuple, definitions))).encode()).hexdigest()


#: The definitions of all tables, views and indexes of a file.
TABLES = "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name"


_FRAGMENTS = """
SELECT fragment.*, source.name AS source, digest FROM fragment JOIN source ON source.id = source_id
LEFT JOIN mapping ON mapping.id = mapping_id ORDER BY fragment.id
"""
_FINDINGS = """
SELECT source.name, fragment.seal, words FROM finding JOIN fragment ON fragment.id = fragment_id
JOIN source ON source.id = source_id ORDER BY source.name
"""
_MAPPINGS = "SELECT id, registers, rows_of, rows_sum FROM mapping"
_SUMS = """
SELECT mapping_id, reg, SUM((65536 * CAST(lane AS BIGINT) + 256 * reg + slot + 1)
    * (65536 * CAST(row AS BIGINT) + col + 257 * col_last + 31 * computation + 1) % 1000000007)
FROM element GROUP BY mapping_id, reg
"""
#: To SQLite, which lets a column hold anything, a value that is no number adds like 0.
_MISTYPED = """
SELECT 1 FROM element WHERE typeof(lane) <> 'integer' OR typeof(reg) <> 'integer' OR typeof(slot) <> 'integer'
    OR typeof(row) <> 'integer' OR typeof(col) <> 'integer' OR typeof(col_last) <> 'integer'
    OR typeof(computation) <> 'integer' LIMIT 1
"""
