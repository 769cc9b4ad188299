"""The tables. ``layout`` is the view that users query; underneath, each distinct layout is stored once.

source       where layouts come from
fragment     one row per layout of a source
member       another shape of the operand of a fragment, whose layout is the first part of the fragment's. The view
             ``named`` has each fragment under each of its shapes
citation     what else a source says about a layout, ``words`` in JSON, once for all of which it says the same
mapping      a distinct set of elements, by digest; fragments with equal layouts share one. It holds them packed and
             compressed, for reading many at once, and ``digest`` is their sha256 as they are packed; ``element`` holds
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

import re
from collections.abc import Sequence

#: How a file and a server spell a number that is given to each row, packed elements, and rows kept in order.
_SPELT = {
    False: {"NUMBERED": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "PACKED": "BLOB", "CLUSTERED": "WITHOUT ROWID"},
    True: {"NUMBERED": "SERIAL PRIMARY KEY", "PACKED": "BYTEA", "CLUSTERED": ""},
}

_TABLES = """
CREATE TABLE meta (key VARCHAR NOT NULL PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE source (
    id NUMBERED,
    name VARCHAR NOT NULL UNIQUE,
    kind VARCHAR NOT NULL, title VARCHAR NOT NULL, provenance VARCHAR NOT NULL
);
CREATE TABLE mapping (
    id NUMBERED,
    digest VARCHAR NOT NULL UNIQUE,
    elements PACKED NOT NULL,
    registers INTEGER NOT NULL, cols INTEGER NOT NULL, times INTEGER NOT NULL, width INTEGER NOT NULL,
    rows_of INTEGER REFERENCES mapping (id),
    rows_sum BIGINT NOT NULL
);
CREATE TABLE repetition (
    width INTEGER NOT NULL, col INTEGER NOT NULL, first INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (width, col)
) CLUSTERED;
CREATE INDEX repetition_first ON repetition (width, first, number, col);
CREATE TABLE citation (id NUMBERED, words VARCHAR NOT NULL UNIQUE);
CREATE TABLE fragment (
    id NUMBERED,
    source_id INTEGER NOT NULL REFERENCES source (id) ON DELETE CASCADE,
    mapping_id INTEGER REFERENCES mapping (id),
    citation_id INTEGER NOT NULL REFERENCES citation (id),
    instruction VARCHAR NOT NULL, shape VARCHAR NOT NULL, type VARCHAR NOT NULL, role VARCHAR NOT NULL,
    major VARCHAR, selector SMALLINT, qualifiers VARCHAR,
    rows SMALLINT NOT NULL, cols SMALLINT NOT NULL,
    threads SMALLINT NOT NULL, registers SMALLINT NOT NULL, register_bits SMALLINT NOT NULL,
    slots SMALLINT NOT NULL, slot_bits SMALLINT NOT NULL, first_bit SMALLINT,
    status VARCHAR NOT NULL, seal VARCHAR NOT NULL
);
CREATE TABLE member (
    id NUMBERED,
    fragment_id INTEGER NOT NULL REFERENCES fragment (id) ON DELETE CASCADE,
    shape VARCHAR NOT NULL,
    mapping_id INTEGER REFERENCES mapping (id)
);
CREATE TABLE element (
    mapping_id INTEGER NOT NULL,
    lane SMALLINT NOT NULL, reg SMALLINT NOT NULL, slot SMALLINT NOT NULL,
    row SMALLINT NOT NULL, col SMALLINT NOT NULL, col_last SMALLINT NOT NULL, computation SMALLINT NOT NULL,
    PRIMARY KEY (mapping_id, lane, reg, slot)
) CLUSTERED;
CREATE TABLE finding (
    id NUMBERED,
    fragment_id INTEGER NOT NULL REFERENCES fragment (id) ON DELETE CASCADE,
    words VARCHAR NOT NULL,
    UNIQUE (fragment_id, words)
);
CREATE INDEX ix_finding_fragment_id ON finding (fragment_id);
CREATE TABLE instruction (
    name VARCHAR NOT NULL PRIMARY KEY,
    vendor VARCHAR NOT NULL, threads SMALLINT NOT NULL, moves VARCHAR NOT NULL, sparse SMALLINT NOT NULL
);
CREATE TABLE form (
    mnemonic VARCHAR NOT NULL PRIMARY KEY,
    instruction VARCHAR NOT NULL REFERENCES instruction (name),
    shape VARCHAR NOT NULL, opcode VARCHAR, atom VARCHAR, target VARCHAR NOT NULL, ptx VARCHAR
);
CREATE INDEX ix_form_opcode ON form (opcode);
CREATE INDEX ix_form_atom ON form (atom);
CREATE TABLE operand (
    mnemonic VARCHAR NOT NULL REFERENCES form (mnemonic),
    role VARCHAR NOT NULL, type VARCHAR NOT NULL, major VARCHAR, qualifiers VARCHAR,
    PRIMARY KEY (mnemonic, role)
);
CREATE VIEW named AS
SELECT id AS fragment_id, shape, mapping_id, NULL AS member FROM fragment
UNION ALL SELECT fragment_id, shape, mapping_id, id FROM member;
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

#: Indexes of the largest tables, which are made faster of all rows than row by row.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS element_cell ON element (mapping_id, row, col)",
    "CREATE INDEX IF NOT EXISTS ix_member_shape ON member (shape)",
    "CREATE INDEX IF NOT EXISTS ix_member_fragment_id ON member (fragment_id)",
    "CREATE INDEX IF NOT EXISTS ix_fragment_mapping_id ON fragment (mapping_id)",
    """CREATE UNIQUE INDEX IF NOT EXISTS fragment_key ON fragment (shape, type, role, source_id, instruction,
    coalesce(major, ''), coalesce(selector, -1), coalesce(qualifiers, ''))""",
)


def definitions(*, server: bool) -> Sequence[str]:
    """The statements that define all tables and views, and the indexes of the small ones."""
    spelt = _SPELT[server]
    text = re.sub("|".join(spelt), lambda word: spelt[word[0]], _TABLES)
    return [statement.strip() for statement in text.split(";")]
