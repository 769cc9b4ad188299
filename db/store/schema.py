"""The tables. ``layout`` is the view that users query; underneath, each distinct layout is stored once.

source       where layouts come from
fragment     one row per layout of a source
member       another shape of the operand of a fragment, whose layout is the first part of the fragment's. The view
             ``named`` has each fragment under each of its shapes
citation     what else a source says about a layout, ``words`` in JSON, once for all of which it says the same
mapping      a distinct set of elements, by digest; fragments with equal layouts share one. It holds them packed and
             compressed by field, for reading many at once, and ``digest`` is their sha256 by element; ``element`` holds
             the first of ``times`` repetitions, for SQL: what is in registers below ``registers`` and columns below
             ``cols``. Each one more is so many registers and ``width`` columns further. A mapping that is part of a
             larger one, as D and B of wgmma are of those with the largest N, has neither of its own, but those of
             ``rows_of``. ``rows_sum`` is the sum of the rows of one that has them
repetition   for each ``width``, which column of ``element`` and of which repetition each column is: a product would
             do, but from a sum no index finds the elements of a cell
element      its (lane, reg, slot) -> (row, col), clustered by slot and indexed by cell
finding      what the structural checks found when a fragment was loaded
instruction  one row per instruction: those that Lanemap knows, and every other one that a source has layouts of
form         one row per mnemonic of an instruction, with other spellings of it and what it requires
operand      one row per operand of a form in registers, with the columns that name its fragments
meta         the version of this schema, the digest of the program that built the shipped sources, and a seal of each
             table

For ``seal`` see ``integrity``.

The number of a source, fragment or mapping is never reused.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()


def _required(kind: type[sa.types.TypeEngine[Any]], *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False, **options) for name in names]


def _numbered(name: str, *columns: Any) -> sa.Table:
    """A table of rows with numbers that are never reused."""
    return sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), *columns, sqlite_autoincrement=True)


meta = sa.Table("meta", metadata, sa.Column("key", sa.String, primary_key=True), *_required(sa.String, "value"))

source = _numbered(
    "source", *_required(sa.String, "name", unique=True), *_required(sa.String, "kind", "title", "provenance")
)

mapping = _numbered(
    "mapping",
    *_required(sa.String, "digest", unique=True),
    *_required(sa.LargeBinary, "elements"),
    *_required(sa.Integer, "registers", "cols", "times", "width"),
    sa.Column("rows_of", sa.ForeignKey("mapping.id")),
    *_required(sa.BigInteger, "rows_sum"),
)

repetition = sa.Table(
    "repetition",
    metadata,
    *_required(sa.Integer, "width", "col", primary_key=True, autoincrement=False),
    *_required(sa.Integer, "first", "number"),
    sqlite_with_rowid=False,
)
sa.Index("repetition_first", *(repetition.c[name] for name in ("width", "first", "number", "col")))

citation = _numbered("citation", *_required(sa.String, "words", unique=True))

fragment = _numbered(
    "fragment",
    sa.Column("source_id", sa.ForeignKey("source.id", ondelete="CASCADE"), nullable=False),
    sa.Column("mapping_id", sa.ForeignKey("mapping.id"), index=True),
    sa.Column("citation_id", sa.ForeignKey("citation.id"), nullable=False),
    *_required(sa.String, "instruction", "shape", "type", "role"),
    sa.Column("major", sa.String),
    sa.Column("selector", sa.SmallInteger),
    sa.Column("qualifiers", sa.String),
    *_required(sa.SmallInteger, "rows", "cols", "threads", "registers", "register_bits", "slots", "slot_bits"),
    sa.Column("first_bit", sa.SmallInteger),
    *_required(sa.String, "status", "seal"),
)
sa.Index(
    "fragment_key",
    *(fragment.c[name] for name in ("shape", "type", "role", "source_id", "instruction")),
    sa.func.coalesce(fragment.c.major, sa.text("''")),
    sa.func.coalesce(fragment.c.selector, sa.text("-1")),
    sa.func.coalesce(fragment.c.qualifiers, sa.text("''")),
    unique=True,
)

member = _numbered(
    "member",
    sa.Column("fragment_id", sa.ForeignKey("fragment.id", ondelete="CASCADE"), nullable=False, index=True),
    *_required(sa.String, "shape", index=True),
    sa.Column("mapping_id", sa.ForeignKey("mapping.id")),
)

element = sa.Table(
    "element",
    metadata,
    sa.Column("mapping_id", sa.Integer, primary_key=True, autoincrement=False),  # unchecked, as there are so many
    *_required(sa.SmallInteger, "lane", "reg", "slot", primary_key=True, autoincrement=False),
    *_required(sa.SmallInteger, "row", "col", "col_last", "computation"),
    sqlite_with_rowid=False,
)
element_cell = sa.Index("element_cell", element.c.mapping_id, element.c.row, element.c.col)

finding = sa.Table(
    "finding",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("fragment_id", sa.ForeignKey("fragment.id", ondelete="CASCADE"), nullable=False, index=True),
    *_required(sa.String, "words"),
    sa.UniqueConstraint("fragment_id", "words"),
)

instruction = sa.Table(
    "instruction",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    *_required(sa.String, "vendor"),
    *_required(sa.SmallInteger, "threads"),
    *_required(sa.String, "moves"),
    *_required(sa.SmallInteger, "sparse"),
)

form = sa.Table(
    "form",
    metadata,
    sa.Column("mnemonic", sa.String, primary_key=True),
    sa.Column("instruction", sa.ForeignKey("instruction.name"), nullable=False),
    *_required(sa.String, "shape"),
    sa.Column("opcode", sa.String, index=True),
    sa.Column("atom", sa.String, index=True),
    *_required(sa.String, "target"),
    sa.Column("ptx", sa.String),
)

operand = sa.Table(
    "operand",
    metadata,
    sa.Column("mnemonic", sa.ForeignKey("form.mnemonic"), primary_key=True),
    sa.Column("role", sa.String, primary_key=True),
    *_required(sa.String, "type"),
    sa.Column("major", sa.String),
    sa.Column("qualifiers", sa.String),
)

NAMED = """
CREATE VIEW named AS
SELECT id AS fragment_id, shape, mapping_id, NULL AS member FROM fragment
UNION ALL SELECT fragment_id, shape, mapping_id, id FROM member
"""
LAYOUT = """
CREATE VIEW layout AS
SELECT named.shape, fragment.type, fragment.role,
       element.lane, element.reg + number * mapping.registers AS reg, element.slot,
       element.row, repetition.col, element.col_last + number * mapping.width AS col_last,
       fragment.instruction, fragment.major, element.computation, fragment.selector,
       fragment.qualifiers, source.name AS source, fragment.first_bit
FROM source
JOIN fragment ON fragment.source_id = source.id
JOIN named ON named.fragment_id = fragment.id
JOIN mapping ON mapping.id = named.mapping_id
JOIN element ON element.mapping_id = COALESCE(mapping.rows_of, mapping.id)
    AND element.reg < mapping.registers AND element.col < mapping.cols
JOIN repetition ON repetition.width = mapping.width AND first = element.col AND number < mapping.times
"""
