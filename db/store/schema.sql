-- The tables. ``layout`` is the view that users query; underneath, each distinct layout is stored once.
-- In braces stands what SQLite and PostgreSQL write differently. The number of a row is never reused.

-- The version of this schema, the digest of the program that built the shipped sources, and a seal of each table: see
-- ``integrity``.
CREATE TABLE meta (
    key VARCHAR NOT NULL PRIMARY KEY,
    value VARCHAR NOT NULL
);

-- Where layouts come from.
CREATE TABLE source (
    id {number},
    name VARCHAR NOT NULL UNIQUE,
    kind VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    provenance VARCHAR NOT NULL
);

-- A distinct set of elements, by digest; fragments with equal layouts share one. It holds them packed, for reading many
-- at once, and ``digest`` is their sha256; ``element`` holds the same, for SQL. A mapping that is the first registers of
-- a larger one, as D of wgmma is, has no rows of its own there: ``rows_of`` says whose it shares. ``rows_sum`` is their
-- sum.
CREATE TABLE mapping (
    id {number},
    digest VARCHAR NOT NULL UNIQUE,
    elements {bytes} NOT NULL,
    registers SMALLINT NOT NULL,
    rows_of INTEGER REFERENCES mapping (id),
    rows_sum BIGINT NOT NULL
);

-- One row per layout of a source; ``citation`` is JSON with what else its source says about it.
CREATE TABLE fragment (
    id {number},
    source_id INTEGER NOT NULL REFERENCES source (id) ON DELETE CASCADE,
    mapping_id INTEGER REFERENCES mapping (id),
    instruction VARCHAR NOT NULL,
    shape VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    major VARCHAR,
    selector SMALLINT,
    qualifiers VARCHAR,
    rows SMALLINT NOT NULL,
    cols SMALLINT NOT NULL,
    threads SMALLINT NOT NULL,
    registers SMALLINT NOT NULL,
    register_bits SMALLINT NOT NULL,
    slots SMALLINT NOT NULL,
    slot_bits SMALLINT NOT NULL,
    first_bit SMALLINT,
    status VARCHAR NOT NULL,
    citation VARCHAR NOT NULL,
    seal VARCHAR NOT NULL
);
CREATE INDEX ix_fragment_mapping_id ON fragment (mapping_id);
CREATE UNIQUE INDEX fragment_key ON fragment (
    shape, type, role, source_id, instruction, coalesce(major, ''), coalesce(selector, -1), coalesce(qualifiers, '')
);

-- The (lane, reg, slot) -> (row, col) of a mapping, clustered by slot and indexed by cell.
CREATE TABLE element (
    mapping_id INTEGER NOT NULL REFERENCES mapping (id) ON DELETE CASCADE,
    lane SMALLINT NOT NULL,
    reg SMALLINT NOT NULL,
    slot SMALLINT NOT NULL,
    row SMALLINT NOT NULL,
    col SMALLINT NOT NULL,
    col_last SMALLINT NOT NULL,
    computation SMALLINT NOT NULL,
    PRIMARY KEY (mapping_id, lane, reg, slot)
) {clustered};
CREATE INDEX element_cell ON element (mapping_id, row, col);

-- What the structural checks found when a fragment was loaded.
CREATE TABLE finding (
    id {number},
    fragment_id INTEGER NOT NULL REFERENCES fragment (id) ON DELETE CASCADE,
    words VARCHAR NOT NULL,
    UNIQUE (fragment_id, words)
);
CREATE INDEX ix_finding_fragment_id ON finding (fragment_id);

-- One row per instruction: those that Lanemap knows, and every other one that a source has layouts of.
CREATE TABLE instruction (
    name VARCHAR NOT NULL PRIMARY KEY,
    vendor VARCHAR NOT NULL,
    threads SMALLINT NOT NULL,
    moves VARCHAR NOT NULL,
    sparse SMALLINT NOT NULL
);

-- One row per mnemonic of an instruction, with other spellings of it and what it requires.
CREATE TABLE form (
    mnemonic VARCHAR NOT NULL PRIMARY KEY,
    instruction VARCHAR NOT NULL REFERENCES instruction (name),
    shape VARCHAR NOT NULL,
    opcode VARCHAR,
    atom VARCHAR,
    target VARCHAR NOT NULL,
    ptx VARCHAR
);
CREATE INDEX ix_form_opcode ON form (opcode);
CREATE INDEX ix_form_atom ON form (atom);

-- One row per operand of a form in registers, with the columns that name its fragments.
CREATE TABLE operand (
    mnemonic VARCHAR NOT NULL REFERENCES form (mnemonic),
    role VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    major VARCHAR,
    qualifiers VARCHAR,
    PRIMARY KEY (mnemonic, role)
);

CREATE VIEW layout AS
SELECT fragment.shape, fragment.type, fragment.role,
       element.lane, element.reg, element.slot, element.row, element.col, element.col_last,
       fragment.instruction, fragment.major, element.computation, fragment.selector,
       fragment.qualifiers, source.name AS source, fragment.first_bit
FROM source
JOIN fragment ON fragment.source_id = source.id
JOIN mapping ON mapping.id = fragment.mapping_id
JOIN element ON element.mapping_id = COALESCE(mapping.rows_of, mapping.id) AND element.reg < mapping.registers;
