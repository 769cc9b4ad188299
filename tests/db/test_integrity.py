"""A database that was damaged answers as before, or says that it is damaged: never something else."""

import os
import random
import re
import shutil
import sqlite3
import tracemalloc
import zlib
from dataclasses import replace

import pytest

import lanemap
from lanemap.db import errors
from lanemap.db.layout.fragment import Source
from lanemap.db.lookup import Query, by_trust, findings, read_fragments
from lanemap.db.overview import LISTINGS
from lanemap.db.store import integrity, store
from lanemap.db.store.location import locate

from ..shipped import SHIPPED


@pytest.fixture(scope="module")
def small(tmp_path_factory, sources):
    """A database of a few fragments: dense, sparse, wide, with a finding, with rows that are lent, and of a family."""
    chosen = [
        fragment
        for fragment in sources["ptx-isa-9.4"].fragments
        if (fragment.shape, fragment.type)
        in {("m16n8k8", "f16"), ("m16n8k16", "bf16"), ("m8n8k4", "f16"), ("m8n8", "b16")}
    ]
    chosen += [
        fragment
        for fragment in sources["ptx-isa-9.4"].fragments
        if fragment.shape == "m16n8k256" and fragment.role == "A"
    ]
    every = sources["ptx-isa-9.4"].fragments
    family = next(one for one in every if one.members and one.role == "B")
    shapes = [f"m64n{n}k16" for n in (8, 16, 24)]
    some = {shape: family.members[shape] for shape in shapes[:2]}
    chosen.append(replace(family.member(shapes[2], family.members[shapes[2]]), members=some))
    captured = [
        fragment for fragment in lanemap.shipped_captures()["sm_90a"].fragments if fragment.instruction == "wgmma"
    ]
    wide = [fragment for fragment in captured if fragment.shape in ("m64n8k16", "m64n16k16")]
    held = [Source("printed", "document", "a document", chosen), Source("card", "capture", "a card", wide)]
    file = tmp_path_factory.mktemp("small") / "small.db"
    store.ship(locate(str(file)), lambda: held, "shipped")
    return file


def answers(file):
    """What a database says to everything that can be asked of all of it."""
    with lanemap.open(file) as database:
        reader = database.reader
        yield sorted(reader.sql("SELECT * FROM layout").rows, key=repr)
        yield [
            (fragment.key, fragment.source, fragment.digest, fragment.records())
            for fragment in read_fragments(reader, Query())
        ]
        yield (
            LISTINGS["fragments"](reader, Query()).rows,
            findings(reader, Query()).rows,
            database.sources().drop(columns="fragments"),
        )


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_changes_nothing(small, tmp_path, shipped_once, seed):
    """Any bit of the file, whatever it belongs to."""
    chance = random.Random(seed)
    whole, sound = small.read_bytes(), list(map(repr, answers(small)))
    file = tmp_path / "damaged.db"
    refused = 0
    for _ in range(6000 if "LANEMAP_LONG" in os.environ else 40):
        at, bit = chance.randrange(len(whole)), chance.randrange(8)
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            given = list(map(repr, answers(file)))
        except lanemap.LanemapError:
            refused += 1
        else:
            assert given == sound, (at, bit)
    assert refused


#: Only queries in SQL read rows, how often they are there, instructions and forms.
ONLY_SQL = re.compile(
    r"(UPDATE|FROM|INTO) (element|repetition|instruction|form|operand)\b|times .* IS NULL|width = width"
)


def problems(reader):
    return integrity.problems(
        lambda statement: reader.select(statement, {}).rows, file=reader.location.file is not None
    )


def damages():
    """Statements that change one value each, of every table and column that a query can see."""
    where = "WHERE (mapping_id, lane, reg, slot) = (SELECT mapping_id, lane, reg, slot FROM element LIMIT 1)"
    yield from (f"UPDATE element SET {name} = {name} + 1 {where}" for name in ("row", "col", "col_last", "computation"))
    yield f"UPDATE element SET lane = 99 {where}"
    yield f"DELETE FROM element {where}"
    yield "DELETE FROM element WHERE mapping_id = (SELECT MIN(mapping_id) FROM element)"
    for name in ("role", "type", "shape", "instruction", "status"):
        yield f"UPDATE fragment SET {name} = 'x' WHERE id = (SELECT MIN(id) FROM fragment WHERE {name} IS NOT NULL)"
    for name in ("rows", "cols", "threads", "registers", "slots"):
        yield f"UPDATE fragment SET {name} = {name} + 1 WHERE id = (SELECT MIN(id) FROM fragment)"
    yield "UPDATE fragment SET mapping_id = (SELECT MAX(id) FROM mapping) WHERE id = (SELECT MIN(id) FROM fragment)"
    yield "UPDATE fragment SET source_id = (SELECT MAX(id) FROM source) WHERE id = (SELECT MIN(id) FROM fragment)"
    yield "DELETE FROM fragment WHERE id = (SELECT MAX(id) FROM fragment)"
    yield "UPDATE member SET shape = 'm64n16k16' WHERE shape = 'm64n8k16'"
    yield "UPDATE member SET mapping_id = (SELECT MAX(mapping_id) FROM member) WHERE shape = 'm64n8k16'"
    yield "UPDATE member SET fragment_id = 1 WHERE shape = 'm64n8k16'"
    yield "DELETE FROM member WHERE shape = 'm64n16k16'"
    yield "INSERT INTO member (fragment_id, shape, mapping_id) SELECT fragment_id, 'm64n32k16', mapping_id FROM member"
    yield "UPDATE mapping SET registers = registers + 1 WHERE id = (SELECT MAX(id) FROM mapping)"
    yield "UPDATE mapping SET registers = registers - 1 WHERE rows_of IS NOT NULL"
    yield "UPDATE mapping SET cols = cols - 1 WHERE rows_of IS NOT NULL"
    yield "UPDATE mapping SET times = times + 1 WHERE rows_of IS NULL"
    yield "UPDATE mapping SET times = times + 1 WHERE rows_of IS NOT NULL"
    yield "UPDATE mapping SET width = width + 1 WHERE id = (SELECT MIN(id) FROM mapping)"
    yield "DELETE FROM repetition WHERE col = 1"
    yield "UPDATE repetition SET first = first + 1 WHERE col = 1"
    yield "INSERT INTO repetition VALUES (8, -1, 1, 0)"
    yield "UPDATE mapping SET rows_of = NULL WHERE rows_of IS NOT NULL"
    yield "UPDATE element SET row = 'x', col = x'ff'"
    yield "UPDATE element SET computation = CAST(computation AS REAL), col_last = x'' WHERE col_last = 0"
    yield "UPDATE citation SET words = CAST(x'ff' AS TEXT) WHERE id = (SELECT MIN(citation_id) FROM fragment)"
    yield "UPDATE citation SET words = 'x' WHERE id = (SELECT MIN(citation_id) FROM fragment)"
    yield "DELETE FROM citation WHERE id = (SELECT MIN(citation_id) FROM fragment)"
    yield "UPDATE fragment SET citation_id = (SELECT MAX(id) FROM citation) WHERE id = (SELECT MIN(id) FROM fragment)"
    yield "UPDATE source SET title = 'x'"
    yield "UPDATE source SET provenance = '{}', kind = 'import'"
    yield "UPDATE finding SET words = 'x' WHERE id = (SELECT MIN(id) FROM finding)"
    yield "UPDATE instruction SET threads = 64 WHERE name = 'mma'"
    yield "UPDATE form SET target = 'sm_70' WHERE mnemonic = (SELECT MAX(mnemonic) FROM form)"
    yield "DELETE FROM operand WHERE mnemonic = (SELECT MAX(mnemonic) FROM form)"
    yield "DELETE FROM finding WHERE id = (SELECT MIN(id) FROM finding)"


@pytest.mark.few(6)
@pytest.mark.parametrize("damage", list(damages()))
def test_every_change_of_a_value_is_noticed(small, tmp_path, shipped_once, damage):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        assert connection.execute(damage).rowcount > 0
    with lanemap.open(file) as database:
        asks = [database.findings, lambda: database.diff("card", "card"), lambda: database.sql("SELECT 1")]
        if ONLY_SQL.search(damage):
            with lanemap.open(small) as sound:
                held = [read_fragments(opened.reader, Query()) for opened in (database, sound)]
            assert [fragment.records() for fragment in held[0]] == [fragment.records() for fragment in held[1]]
            del asks[:2]
        elif damage.startswith("UPDATE mapping"):  # findings are told without elements
            with lanemap.open(small) as sound:
                assert asks.pop(0)().equals(sound.findings())
        for ask in asks:
            with pytest.raises(lanemap.LanemapError, match="(is damaged|cannot read).*: restore it from a copy"):
                ask()


def test_an_index_that_misses_a_fragment_is_noticed(small, tmp_path, shipped_once):
    """A query by shape would not find it, though the table has it."""
    whole = small.read_bytes()
    # The index has the shape first, the table the instruction.
    at = re.search(rb"(?<!mma)m16n8k8(?=[a-z]+[0-9]+[A-D])", whole).start()
    file = tmp_path / "damaged.db"
    file.write_bytes(whole[:at] + b"m16n8k9" + whole[at + 7 :])
    with lanemap.open(file) as database, pytest.raises(lanemap.LanemapError, match="is damaged"):
        database.diff("printed", "card")


def test_a_changed_view_is_noticed(small, tmp_path, shipped_once):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        (view,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'layout'").fetchone()
        connection.execute("DROP VIEW layout")
        connection.execute(view.replace("element.reg <", "element.reg ="))
    with lanemap.open(file) as database, pytest.raises(lanemap.LanemapError, match="is damaged"):
        database.sql("SELECT COUNT(*) FROM layout")


def test_a_look_up_notices_that_a_source_has_another_kind(small, tmp_path, shipped_once):
    """It asks the sources in the order of their kinds where the document has no rows."""
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE source SET kind = 'import' WHERE name = 'card'")
    with lanemap.open(file) as database, pytest.raises(lanemap.LanemapError, match="is damaged"):
        by_trust(database.reader)


def test_a_look_up_notices_that_a_fragment_has_the_layout_of_another(small, tmp_path, shipped_once):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE fragment SET mapping_id = (SELECT MIN(id) FROM mapping) WHERE role = 'B'")
    with lanemap.open(file) as database, pytest.raises(lanemap.LanemapError, match="is damaged"):
        database.find("m16n8k8", "f16", "B", lane=0, source="printed")


@pytest.mark.slow
def test_what_is_sound_stays_so_when_sources_come_and_go(own, sources):
    printed = sources["ptx-isa-9.4"]
    with lanemap.open(own) as database:
        mine = Source(
            "mine", "import", "mine", [fragment for fragment in printed.fragments if fragment.shape == "m16n8k8"]
        )
        for change in (lambda: database.add([mine]), lambda: database.add([mine]), lambda: database.remove("mine")):
            change()
            assert list(problems(database.reader)) == []
            assert len(database.sql("SELECT name FROM source")) - len(SHIPPED) in (0, 1)


@pytest.mark.slow
def test_a_few_bytes_do_not_become_gigabytes(small, tmp_path, shipped_once):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        assert connection.execute("UPDATE mapping SET elements = ?", [zlib.compress(bytes(1 << 28))]).rowcount
    with lanemap.open(file) as database, pytest.raises(errors.DamagedError, match="the elements of mapping"):
        tracemalloc.start()
        database.find("m16n8k8", "f16", "A", row=0, col=0, source="printed")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 28


@pytest.mark.parametrize("ask", ["find", "fragment"])
def test_a_damaged_layout_of_several_is_not_left_out(small, tmp_path, shipped_once, ask):
    """Half an answer is none: m8n8k4 with f16 has a layout for each major."""
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        (packed,) = connection.execute(
            "SELECT lender.elements FROM mapping JOIN fragment ON mapping.id = mapping_id"
            " JOIN mapping AS lender ON lender.id = COALESCE(mapping.rows_of, mapping.id)"
            " WHERE shape = 'm8n8k4' AND role = 'A' AND major = 'row'"
        ).fetchone()
        flipped = bytes([packed[0] ^ 1]) + packed[1:]
        assert connection.execute("UPDATE mapping SET elements = ? WHERE elements = ?", [flipped, packed]).rowcount
    asked = {"find": {"row": 0, "col": 0}, "fragment": {"major": "row"}}[ask]
    with lanemap.open(file) as database, pytest.raises(errors.DamagedError, match="restore it from a copy"):
        found = getattr(database, ask)("m8n8k4", "f16", "A", source="printed", **asked)
        found.records()


#: What look-ups say of one operand that has a layout for each major. The first reads elements.
LOOK_UPS = (
    lambda database: database.find("m8n8k4", "f16", "A", row=0, col=0, source="printed").to_csv(),
    lambda database: {
        fragment.key: fragment.digest for fragment in read_fragments(database.reader, Query("m8n8k4", "f16", "A"))
    },
    lambda database: LISTINGS["fragments"](database.reader, Query("m8n8k4")).rows,
    lambda database: [operand.fragment.key for operand in database.show("mma m8n8k4 f16").operands],
)


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE fragment SET {name} = 'x' {{where}}" for name in ("shape", "type", "role", "instruction", "major")),
        "DELETE FROM fragment {where}",
        "UPDATE fragment SET source_id = 99 {where}",
        "DELETE FROM source WHERE name = 'printed'",
        "UPDATE source SET name = 'other' WHERE name = 'printed'",
        "UPDATE mapping SET elements = 'text' WHERE id IN (SELECT mapping_id FROM fragment {where})",
    ],
)
def test_no_look_up_leaves_out_what_was_changed(small, tmp_path, shipped_once, change):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        where = "WHERE shape = 'm8n8k4' AND type = 'f16' AND role = 'A' AND major = 'col'"
        assert connection.execute(change.format(where=where)).rowcount
    for look_up in LOOK_UPS[: 1 if "elements" in change else None]:
        with lanemap.open(file) as database, pytest.raises(errors.DamagedError, match="restore it from a copy"):
            look_up(database)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM member WHERE shape = 'm64n16k16'",
        "UPDATE member SET fragment_id = 1 WHERE shape = 'm64n16k16'",
        "UPDATE member SET mapping_id = (SELECT MIN(mapping_id) FROM member) WHERE shape = 'm64n16k16'",
        "UPDATE mapping SET cols = 8 WHERE id = (SELECT mapping_id FROM member WHERE shape = 'm64n16k16')",
        "UPDATE member SET shape = 'm64n16k16' WHERE shape = 'm64n8k16'",
    ],
)
def test_no_look_up_believes_a_changed_member(small, tmp_path, shipped_once, change):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        assert connection.execute(change).rowcount == 1
    with lanemap.open(file) as database, pytest.raises(errors.DamagedError, match="restore it from a copy"):
        database.find("m64n16k16 f16 B none.K", source="printed")


@pytest.mark.slow
def test_a_flipped_bit_of_a_key_leaves_nothing_out_of_a_look_up(small, tmp_path, shipped_once, seed):
    """In the table or in its index."""

    def looked_up(file):
        with lanemap.open(file) as database:
            return [look_up(database) for look_up in LOOK_UPS]

    chance, whole, sound = random.Random(seed), small.read_bytes(), looked_up(small)
    file = tmp_path / "damaged.db"
    keys = [match.start() for match in re.finditer(b"m8n8k4", whole)]
    refused = 0
    for _ in range(4000 if "LANEMAP_LONG" in os.environ else 60):
        at, bit = chance.choice(keys) + chance.randrange(-12, 24), chance.randrange(8)
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            given = looked_up(file)
        except lanemap.LanemapError:
            refused += 1
        else:
            assert given == sound, (at, bit)
    assert refused


@pytest.mark.parametrize("there", [False, True])
def test_seals_of_shapes_that_are_lacking_or_old_are_not_believed(small, tmp_path, shipped_once, there):
    file = shutil.copy(small, tmp_path / "old.db")
    with sqlite3.connect(file) as connection:
        before = connection.execute("SELECT key, value FROM meta WHERE key = ?", [integrity.SHAPES]).fetchall()
    with lanemap.open(file) as database:
        database.remove("card")
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM meta WHERE key = ?", [integrity.SHAPES])
        connection.executemany("INSERT INTO meta VALUES (?, ?)", before * there)
    with lanemap.open(file) as database:
        with pytest.raises(errors.DamagedError, match="of a fragment"):
            database.find("m16n8k16", "f16", "A")
        assert list(problems(database.reader)) == ["the shape of a fragment"]


def test_a_list_of_sources_verifies_what_it_says(small, tmp_path, shipped_once):
    file = shutil.copy(small, tmp_path / "damaged.db")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE source SET title = 'x' WHERE name = 'card'")
    with lanemap.open(file) as database, pytest.raises(errors.DamagedError, match="the table source"):
        database.sources()
