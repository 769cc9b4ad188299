"""The tables. ``layout`` is the view that users query; underneath, each distinct layout is stored once.

source    where layouts come from
fragment  one row per layout of a source, with what its source says of it
mapping   a distinct set of elements, by fingerprint; fragments with equal layouts share one. It holds them packed, for
          reading many at once, and ``digest`` is their sha256; ``element`` holds the same, for SQL. A mapping that is
          the first registers of a larger one, as D of wgmma is, has no rows of its own there: ``rows_of`` says whose.
          ``rows_sum`` is what they add up to
element   its (lane, reg, slot) -> (row, col), clustered by slot and indexed by cell
finding   what the structural checks found when a fragment was loaded
meta      the version of this schema, what the shipped sources were built from, and a fingerprint of the tables

``seal`` is a fingerprint of what is said of a source or fragment, see ``integrity``.

The number of a source, fragment or mapping is never used again for another one.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    func,
    text,
)

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", String, nullable=False),
)

source = Table(
    "source",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("title", String, nullable=False),
    Column("provenance", String, nullable=False),
    Column("seal", String, nullable=False),
    sqlite_autoincrement=True,
)

mapping = Table(
    "mapping",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", String, nullable=False, unique=True),
    Column("elements", LargeBinary, nullable=False),
    Column("registers", SmallInteger, nullable=False),
    Column("rows_of", ForeignKey("mapping.id")),
    Column("rows_sum", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

fragment = Table(
    "fragment",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source_id", ForeignKey("source.id", ondelete="CASCADE"), nullable=False),
    Column("mapping_id", ForeignKey("mapping.id"), index=True),
    *(Column(name, String, nullable=False) for name in ("instruction", "shape", "type", "role")),
    Column("major", String),
    Column("selector", SmallInteger),
    Column("qualifiers", String),
    *(
        Column(name, SmallInteger, nullable=False)
        for name in ("rows", "cols", "registers", "register_bits", "slots", "slot_bits")
    ),
    Column("status", String, nullable=False),
    *(Column(name, String) for name in ("section", "anchor", "same_as", "also", "figures", "formula")),
    *(Column(name, String) for name in ("mended", "erratum", "evidence", "origin")),
    Column("seal", String, nullable=False),
    sqlite_autoincrement=True,
)
Index(
    "fragment_key",
    fragment.c.shape,
    fragment.c.type,
    fragment.c.role,
    fragment.c.source_id,
    fragment.c.instruction,
    func.coalesce(fragment.c.major, text("''")),
    func.coalesce(fragment.c.selector, text("-1")),
    func.coalesce(fragment.c.qualifiers, text("''")),
    unique=True,
)

element = Table(
    "element",
    metadata,
    Column("mapping_id", ForeignKey("mapping.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    *(Column(name, SmallInteger, primary_key=True, autoincrement=False) for name in ("lane", "reg", "slot")),
    *(Column(name, SmallInteger, nullable=False) for name in ("row", "col", "col_last", "computation")),
    sqlite_with_rowid=False,
)
Index("element_cell", element.c.mapping_id, element.c.row, element.c.col)

finding = Table(
    "finding",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("fragment_id", ForeignKey("fragment.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("words", String, nullable=False),
    UniqueConstraint("fragment_id", "words"),
)

LAYOUT = """
CREATE VIEW layout AS
SELECT fragment.shape, fragment.type, fragment.role,
       element.lane, element.reg, element.slot, element.row, element.col, element.col_last,
       fragment.instruction, fragment.major, element.computation, fragment.selector,
       fragment.qualifiers, source.name AS source
FROM source
JOIN fragment ON fragment.source_id = source.id
JOIN mapping ON mapping.id = fragment.mapping_id
JOIN element ON element.mapping_id = COALESCE(mapping.rows_of, mapping.id) AND element.reg < mapping.registers
"""
