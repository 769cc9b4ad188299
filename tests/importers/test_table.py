"""Anyone's table: what it may leave out, what comes back unchanged, and everything that is refused."""

import io
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap import LanemapError
from lanemap.db.export import WRITERS, layout_table
from lanemap.db.lookup import Query
from lanemap.ingest.table import columns, read_table

HEADER = "shape,type,role,lane,reg,slot,row,col"
EIGHT = HEADER.split(",")
ROW = "m16n8k16,f16,A,5,1,0,9,2"


@pytest.fixture
def table(tmp_path):
    """Read a table with these lines, or bytes."""

    def table(*lines, name="mine.csv"):
        file = tmp_path / name
        file.write_bytes(lines[0] if isinstance(lines[0], bytes) else ("\n".join(lines) + "\n").encode())
        return read_table(file)

    return table


@pytest.fixture(scope="session")
def exported(built):
    """The whole database as Arrow."""
    with lanemap.open(str(built)) as database:
        return layout_table(database.reader, Query(), "0")


def digests(sources):
    return [
        (source.name, *each.key, each.registers, each.slots, each.digest)
        for source in sources
        for each in source.fragments
        if each.elements is not None
    ]


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_an_export_comes_back_unchanged(exported, form, tmp_path):
    file = tmp_path / "a file"
    with file.open("wb") as stream:
        WRITERS[form](exported, stream)
    found = read_table(file)
    assert digests(found) == digests(lanemap._shipped())
    assert {source.kind for source in found} == {"import"}


def test_rows_and_columns_in_any_order_and_case(exported, tmp_path):
    frame = exported.to_pandas().sample(frac=1, random_state=3)
    names = list(frame.columns)
    random.Random(3).shuffle(names)
    frame = frame[names].rename(columns=lambda name: f" {name.title()}").assign(extra="ignored")
    frame.to_csv(tmp_path / "shuffled", index=False)
    assert sorted(map(str, digests(read_table(tmp_path / "shuffled")))) == sorted(map(str, digests(lanemap._shipped())))


@pytest.mark.parametrize("write", ["to_csv", "to_parquet", "to_feather"])
def test_what_pandas_writes_is_read(fragments, tmp_path, write):
    fragment = next(each for each in fragments if each.shape == "m16n8k16" and each.type == "f16")
    frame = pd.DataFrame(fragment.elements).assign(shape="m16n8k16", type="f16", role=fragment.role)
    frame["selector"] = np.nan
    getattr(frame, write)(tmp_path / "frame", **({"index": False} if write == "to_csv" else {}))
    (source,) = read_table(tmp_path / "frame")
    assert source.fragments[0].key == fragment.key
    assert source.fragments[0].digest == fragment.digest


def test_the_eight_columns_are_enough(fragments, tmp_path):
    """The rest has defaults, and these are the document's wherever an element is no window."""
    for fragment in fragments:
        if fragment.instruction != "mma":
            continue
        frame = pd.DataFrame(fragment.elements).assign(shape=fragment.shape, type=fragment.type, role=fragment.role)
        frame[EIGHT].to_csv(tmp_path / "eight.csv", index=False)
        (source,) = read_table(tmp_path / "eight.csv")
        assert source.name == "eight"
        (found,) = source.fragments
        assert (found.digest, found.registers, found.slots) == (fragment.digest, fragment.registers, fragment.slots)
        if not (fragment.shape == "m8n8k4" and fragment.type == "f16"):
            assert found.key == fragment.key


def test_names_are_read_in_any_case_and_with_ptx_dots(table):
    (source,) = table(HEADER + ",instruction,major", " M16N8K16 ,.F16,a,5,1,0,9,2,MMA,ROW")
    assert source.fragments[0].key == ("mma", "m16n8k16", "f16", "A", "row", None, None)


def test_slots_are_a_power_of_two_and_registers_those_seen(table):
    (source,) = table(HEADER, "m16n8k16,f16,A,0,2,2,0,2")
    assert (source.fragments[0].registers, source.fragments[0].slots) == (3, 4)


def test_one_source_for_each_name(table):
    found = table(HEADER + ",source", ROW + ",here", ROW + ",there", ROW + ",")
    assert [source.name for source in found] == ["here", "there", "mine"]


def test_a_gap_is_an_empty_field_and_nothing_else(table):
    found = table(HEADER + ",source", ROW + ",NA", ROW + ",null")
    assert [source.name for source in found] == ["NA", "null"]


def test_selectors_tell_fragments_apart(table):
    row = "m16n8k16,f16,E,5,0,0,9,2"
    (source,) = table(
        HEADER + ",col_last,instruction,selector", row + ",3,mma.sp,1", row + ",3,mma.sp,0.0", ROW + ",,,"
    )
    assert [each.selector for each in source.fragments] == [1, 0, None]


def test_byte_order_mark_windows_ends_and_quotes(table):
    (source,) = table(b"\xef\xbb\xbf" + HEADER.encode() + b'\r\n"m16n8k16","f16","A",5,1,0,9,2\r\n')
    assert source.fragments[0].elements[["lane", "row", "col"]].tolist() == [(5, 9, 2)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((HEADER,), "has no rows"),
        ((b"",), "is empty"),
        ((b"\n",), "lacks shape, type, role, lane, reg, slot, row, col"),
        (("shape,type,role,lane,reg,row", "x"), "lacks slot, col"),
        ((HEADER.replace(",", ";"), ROW.replace(",", ";")), "lacks shape"),
        ((HEADER + ",ROW", ROW + ",9"), "two columns row"),
        ((HEADER, ROW, ROW), "lane 5 reg 1 slot 0 stands in two rows"),
        ((HEADER, ROW, ROW.replace("9,2", "9,3")), "stands in two rows"),
        ((HEADER, "m16n8k16,f16,A,five,1,0,9,2"), "'five'"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,2.5"), "'2.5'"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,99999999999"), "99999999999"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9"), "Expected 8 columns, got 7"),
        ((HEADER, ROW, "m16n8k16,f16,A,,1,0,9,2"), "row 2 has no lane"),
        ((HEADER, ",f16,A,5,1,0,9,2"), "row 1 has no shape"),
        ((HEADER, "m16n8k16,f16,A,32,1,0,9,2"), "lane 32 is outside 0..31"),
        ((HEADER, "m16n8k16,f16,A,-1,1,0,9,2"), "lane -1 is outside 0..31"),
        ((HEADER, "m16n8k16,f16,A,5,256,0,9,2"), "reg 256 is outside 0..255"),
        ((HEADER, "m16n8k16,f16,A,5,1,32,9,2"), "slot 32 is outside 0..31"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,16,2"), "row 16 is outside 0..15"),
        ((HEADER, "m16n8k16,f16,B,5,1,0,9,8"), "B of mma m16n8k16 f16: col 8 is outside 0..7"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,-2147483648"), "col"),
        ((HEADER + ",col_last", ROW + ",1"), "col_last before col"),
        ((HEADER + ",col_last", ROW + ",16"), "col_last 16 is outside 0..15"),
        ((HEADER + ",computation", ROW + ",5"), "computation 5 is outside 1..4"),
        ((HEADER + ",selector", ROW + ",4"), "selector 4 is outside 0..3"),
        ((HEADER + ",major", ROW + ",diagonal"), "'diagonal' is neither row nor col"),
        ((HEADER, "16x8x16,f16,A,5,1,0,9,2"), "write m16n8k16"),
        ((HEADER, "m16n8k0,f16,C,5,1,0,9,2"), "each dimension is 1 to"),
        ((HEADER, "m99999n8k16,f16,A,5,1,0,9,2"), "each dimension is 1 to"),
        ((HEADER, "m16n8k16,f16,X,5,1,0,9,2"), "invalid role 'X': mma has A, B, C, D"),
        ((b"\x00\x01\x02" * 99,), "not a table"),
        ((b"\xff\xfe" + (HEADER + "\n" + ROW).encode("utf-16-le"),), "not a table"),
        ((b"a" * 100_000,), "not a table"),
        (((HEADER + "\n" + ROW).encode() + b"\xff\n",), "CSV"),
        ((b"PAR1 and then nothing",), "as Parquet"),
        ((b"ARROW1\0\0 and then nothing",), "as Arrow"),
    ],
    ids=str,
)
def test_what_is_no_table_is_refused_in_one_line(table, lines, words):
    with pytest.raises(LanemapError) as error:
        table(*lines)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert "mine.csv" in str(error.value)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_truncated_file_is_refused(exported, form, tmp_path):
    whole = io.BytesIO()
    WRITERS[form](exported.slice(0, 2000), whole)
    content = whole.getvalue()
    for length in (len(content) - 1, len(content) - 9, len(content) // 2, 100):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(LanemapError) as error:
            read_table(tmp_path / "cut")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_damaged_file_is_refused_or_read(exported, form, tmp_path):
    """Never a crash, a traceback or more memory than its rows."""
    whole = io.BytesIO()
    WRITERS[form](exported.slice(0, 500), whole)
    content = bytearray(whole.getvalue())
    chance = random.Random(11)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(8, len(damaged))] = chance.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            read_table(tmp_path / "damaged")
        except LanemapError as error:
            assert "\n" not in str(error)


def test_text_that_is_none_is_refused(tmp_path):
    named = {name: pa.array([0]) for name in EIGHT}
    named |= {name: pa.array([b"\xff\xfe"]).view(pa.string()) for name in ("shape", "type", "role")}
    pq.write_table(pa.table(named), tmp_path / "bytes")
    with pytest.raises(LanemapError, match="UTF"):
        read_table(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("lane", pa.array(["5"]), "column lane holds string: it must hold whole numbers"),
        ("lane", pa.array([5.5]), "not whole"),
        ("lane", pa.array([1 << 40]), "too large"),
        ("lane", pa.array([True]), "column lane holds bool"),
        ("lane", pa.array([None], pa.int32()), "row 1 has no lane"),
        ("shape", pa.array([16]), "column shape holds int64: it must hold text"),
        ("row", pa.array([[9]]), "column row holds list"),
    ],
    ids=str,
)
def test_columns_of_another_type_are_refused(tmp_path, column, values, words):
    named = dict(
        zip(EIGHT, (pa.array([int(part) if part.isdigit() else part]) for part in ROW.split(",")), strict=True)
    )
    pq.write_table(pa.table(named | {column: values}), tmp_path / "typed")
    with pytest.raises(LanemapError, match=words):
        read_table(tmp_path / "typed")


def test_a_folder_and_nothing_are_refused(tmp_path):
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "gone", "cannot read")):
        with pytest.raises(LanemapError, match=f"{words}.*name a CSV, Parquet or Arrow file"):
            read_table(path)


def test_a_gigabyte_of_garbage_is_refused_at_once(tmp_path):
    """A sparse file, so that only a reader that takes it whole would notice its size."""
    for head in (b"", b"x" * 99, HEADER.encode() + b"\n"):
        with (tmp_path / "huge").open("wb") as stream:
            stream.write(head)
            stream.truncate(1 << 30)
        with pytest.raises(LanemapError):
            read_table(tmp_path / "huge")


def test_more_rows_than_any_table_has_are_refused(monkeypatch, exported, tmp_path):
    monkeypatch.setattr(columns, "MAX_ROWS", 1000)
    for form, write in WRITERS.items():
        if form == "jsonl":
            continue
        with (tmp_path / "long").open("wb") as stream:
            write(exported.slice(0, 1001), stream)
        with pytest.raises(LanemapError, match="more than 1000 rows"):
            read_table(tmp_path / "long")
