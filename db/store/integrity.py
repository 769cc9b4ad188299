"""Whether a database still holds what was written into it. Damaged data is refused, never returned.

Elements are stored twice: packed, under their sha256, and as rows, whose sum their mapping has; those of a part of a
larger mapping are read out of that. Every fragment has a
seal, because a look-up reads those of one shape alone; all that have a shape have another, so that none is missed.
For every table, ``meta`` has a seal of what a statement selects from it. A change of a single value is always noticed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..isa.instructions import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Runs a statement.
Run = Callable[[str], Sequence[tuple[Any, ...]]]

#: Keeps sums within 64 bits. _SUMS has it, too.
_PRIME = 1_000_000_007

#: The columns of a fragment.
OWN = (
    *Key._fields,
    *("rows", "cols", "threads", "registers", "register_bits", "slots", "slot_bits", "first_bit", "status"),
)
#: What the seal of a fragment covers: its columns, its citation, the name of its source and the digest of its layout.
SEALED = (*OWN, "citation", "source", "digest")

#: The key in ``meta`` of the seals of shapes.
SHAPES = "seals of shapes"

#: What the seals of the tables cover. Provenance, of which a capture has much, is apart from what a look-up reads.
TABLES = {
    "source": "SELECT name, kind, title FROM source ORDER BY id",
    "provenance": "SELECT provenance FROM source ORDER BY id",
    "fragment": "SELECT seal FROM fragment ORDER BY id",
    "finding": "SELECT seal, words FROM finding JOIN fragment ON fragment.id = fragment_id ORDER BY finding.id",
}
#: The same for the tables that only SQL queries read.
_ROWS = {
    "mapping": "SELECT mapping.digest, mapping.registers, mapping.cols, mapping.times, mapping.width,"
    " mapping.rows_sum, lender.digest FROM mapping LEFT JOIN mapping AS lender ON lender.id = mapping.rows_of"
    " ORDER BY mapping.id",
    "repetition": "SELECT width, col, first, number FROM repetition ORDER BY width, col",
    "citation": "SELECT words FROM citation ORDER BY id",
    "instruction": "SELECT * FROM instruction ORDER BY name",
    "form": "SELECT * FROM form ORDER BY mnemonic",
    "operand": "SELECT * FROM operand ORDER BY mnemonic, role",
}
#: What the seals of shapes cover.
_NAMED = (
    "SELECT named.shape, seal, digest FROM named JOIN fragment ON fragment.id = fragment_id"
    " LEFT JOIN mapping ON mapping.id = named.mapping_id ORDER BY fragment.id"
)
#: The same for an SQLite file: the definitions of all tables, views and indexes.
_FILE = {"definitions": "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name"}


def seal(values: Iterable[Any]) -> str:
    """The seal of a fragment, over its values in the order of ``SEALED``."""
    return sha256(repr([*values]).encode()).hexdigest()


def seal_of_table(rows: Iterable[Sequence[Any]]) -> str:
    """The seal of a table, over the rows that a statement selects from it."""
    return sha256(repr(list(map(tuple, rows))).encode()).hexdigest()


def seals_of_shapes(named: Iterable[Sequence[Any]]) -> dict[str, str]:
    """The seal of each shape, from a shape, a fragment's seal and the digest of its layout there, in their order."""
    hashers = defaultdict[str, Any](sha256)
    for shape, *sealed in named:
        hashers[shape].update(repr(sealed).encode())
    return {shape: hasher.hexdigest() for shape, hasher in hashers.items()}


def seals(run: Run, *, file: bool, rows: bool = True) -> dict[str, str]:
    """The seals of what the tables hold now, by their keys in ``meta``.

    Args:
        run: runs a statement.
        file: whether it is an SQLite file.
        rows: whether to include the tables that only SQL queries read.
    """
    statements = TABLES | (_ROWS if rows else {}) | (_FILE if file else {})
    of_tables = {f"seal of {name}": seal_of_table(run(statement)) for name, statement in statements.items()}
    of_shapes = seals_of_shapes(run(_NAMED))
    return of_tables | {SHAPES: json.dumps(of_shapes, sort_keys=True)}


def rows_sum(elements: NDArray[Any]) -> int:
    """The sum of the rows of a layout in ``element``."""
    import numpy as np

    wide: dict[str, NDArray[np.int64]] = {name: elements[name].astype(np.int64) for name in elements.dtype.names or ()}
    place = 65536 * wide["lane"] + 256 * wide["reg"] + wide["slot"] + 1
    cell = 65536 * wide["row"] + wide["col"] + 257 * wide["col_last"] + 31 * wide["computation"] + 1
    return int(np.fmod(place * cell, _PRIME).sum())


def problems(run: Run, *, file: bool, rows: bool = True) -> Iterator[str]:
    """The damaged parts of a database, in words.

    Packed elements are left out: they are compared with their digest when they are read.

    Args:
        run: runs a statement.
        file: whether it is an SQLite file.
        rows: whether to include the tables that only SQL queries read.
    """
    # What a fragment says, and its seal.
    for *values, stored in run(_FRAGMENTS):
        if stored != seal(values):
            record = dict(zip(SEALED, values, strict=True))
            yield f"the record of {record['role']} of {record['instruction']} {record['shape']} {record['type']}"
    # What tables and shapes hold, and their seals, which notice also a record that is missing.
    stored_seals: dict[str, str] = dict(run("SELECT key, value FROM meta"))
    for name, current in seals(run, file=file, rows=rows).items():
        if stored_seals.get(name) != current:
            yield "the shape of a fragment" if name == SHAPES else name.replace("seal of", "the table")
    # The file itself, of which an index may no longer fit its table.
    if file:
        look_ups = [f"({table})" for table in ("source", "fragment", "finding", "citation", "mapping")]
        for part in [""] if rows else look_ups:
            if (words := str(run(f"PRAGMA integrity_check{part}")[0][0])) != "ok":
                yield " ".join(words.split())
        if rows and run(_MISTYPED):
            yield "the type of a row"
    # The rows of each mapping, and their sum.
    if rows:
        sums = {mapping: int(total) for mapping, total in run(_SUMS)}
        for number, expected in run(_MAPPINGS):
            if sums.get(number, 0) != expected:
                yield f"the rows of mapping {number}"


_FRAGMENTS = f"""
SELECT {", ".join(f"fragment.{name}" for name in OWN)}, words, source.name, digest, fragment.seal
FROM fragment JOIN source ON source.id = source_id LEFT JOIN citation ON citation.id = citation_id
LEFT JOIN mapping ON mapping.id = mapping_id ORDER BY fragment.id
"""  # noqa: S608 - the columns are those above
_MAPPINGS = "SELECT id, rows_sum FROM mapping"
_SUMS = """
SELECT mapping_id, SUM((65536 * CAST(lane AS BIGINT) + 256 * reg + slot + 1)
    * (65536 * CAST(row AS BIGINT) + col + 257 * col_last + 31 * computation + 1) % 1000000007)
FROM element GROUP BY mapping_id
"""
#: SQLite lets a column hold anything, and adds a value that is not a number as 0.
_MISTYPED = """
SELECT 1 FROM element WHERE typeof(lane) <> 'integer' OR typeof(reg) <> 'integer' OR typeof(slot) <> 'integer'
    OR typeof(row) <> 'integer' OR typeof(col) <> 'integer' OR typeof(col_last) <> 'integer'
    OR typeof(computation) <> 'integer' LIMIT 1
"""
