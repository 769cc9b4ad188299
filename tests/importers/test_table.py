"""Anyone's table: what it may leave out, what comes back unchanged, and everything that is refused."""

import io
import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap import LanemapError
from lanemap.db import lookup
from lanemap.db.layout.fragment import UNTOLD_WINDOWS
from lanemap.db.layout.structure import check
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.store import files
from lanemap.db.store.export import WRITERS, layout_table, sealed
from lanemap.ingest.table import columns, load

#: Columns that no table has are of interest in one test only.
pytestmark = pytest.mark.filterwarnings("ignore:unknown columns of ")

HEADER = "shape,type,role,lane,reg,slot,row,col"
EIGHT = HEADER.split(",")
ROW = "m16n8k16,f16,A,5,1,0,9,2"


def read_table(path):
    """The sources of a table, of which nothing is left out."""
    found = load(path)
    assert not any(imported.skipped or imported.findings for imported in found)
    return [imported.source for imported in found]


@pytest.fixture
def table(tmp_path):
    """Read a table with these lines, or bytes."""

    def table(*lines, name="mine.csv"):
        file = tmp_path / name
        file.write_bytes(lines[0] if isinstance(lines[0], bytes) else ("\n".join(lines) + "\n").encode())
        return read_table(file)

    return table


@pytest.fixture(scope="session")
def everything():
    """All sources that ship."""
    return list(lanemap._shipped())


@pytest.fixture(scope="session")
def exported(built):
    """Every row of mma as Arrow."""
    with lanemap.open(str(built)) as database:
        return layout_table(database.reader, read_fragments(database.reader, Query(instruction="mma")), "0")


def digests(sources, query=None):
    return [
        (source.name, *fragment.key, fragment.registers, fragment.slots, fragment.first_bit, fragment.digest)
        for source in sources
        for family in source.fragments
        for fragment in family.every
        if fragment.elements is not None
        and (query is None or (fragment.instruction == query.instruction and query.shape in (None, fragment.shape)))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize(
    "query",
    [
        *(Query(instruction=name) for name in ("ldmatrix", "stmatrix", "movmatrix")),
        *(Query(shape, instruction="mma") for shape in ("m8n8k4", "m16n8k32")),
        Query("m16n8k32", instruction="mma.sp"),
        Query("m16n16k16", instruction="wmma"),
        Query("m64n24k16", instruction="wgmma"),
        Query("m64n8k32", instruction="wgmma.sp"),
    ],
    ids=str,
)
def test_an_export_comes_back_unchanged(built, everything, query, form, tmp_path):
    file = tmp_path / "a file"
    with lanemap.open(str(built)) as database, file.open("wb") as stream:
        WRITERS[form](layout_table(database.reader, read_fragments(database.reader, query), "0"), stream)
    found = read_table(file)
    expected = digests(everything, query)
    assert expected
    assert digests(found) == expected
    assert {source.kind for source in found} == {"import"}


@pytest.fixture(scope="module")
def dataset(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset") / "layouts"
    queries = [Query(instruction=name, source="all") for name in ("mma", "mma.sp", "movmatrix")]
    with lanemap.open(built) as database:
        database.export(folder, format="dataset", query=queries)
    return folder


@pytest.mark.slow
def test_a_dataset_comes_back_unchanged(dataset, everything):
    found = {source.name: source for source in read_table(dataset)}
    written = ("mma", "mma.sp", "movmatrix")

    def layouts(fragments):
        return {
            fragment.key: (fragment.digest, fragment.first_bit)
            for fragment in fragments
            if fragment.instruction in written
        }

    expected = {source.name: layouts(source.with_rows) for source in everything}
    kept = {name: layouts(source.fragments) for name, source in found.items()}
    assert kept == {name: there for name, there in expected.items() if there}
    assert {source.title for source in found.values()} == {"dataset layouts"}


@pytest.mark.slow
def test_one_source_of_a_dataset_is_compared_without_importing_it(built, dataset, tmp_path):
    with lanemap.open(built) as database:
        one = Query(instruction="mma", source="ptx-isa-9.4")
        database.export(tmp_path / "one", format="dataset", query=one)
        found = database.diff(tmp_path / "one", "ptx-isa-9.4")
        assert found.compared == len(lookup.with_rows(database.reader, lookup.fragments(database.reader, one)))
        assert not found.unexplained
        with pytest.raises(LanemapError, match="holds the sources"):
            database.diff(dataset, "ptx-isa-9.4")


def a_part(folder):
    return sorted(folder.rglob("*.parquet"))[0]


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: flip(a_part(folder)), "not as Lanemap wrote it"),
        (lambda folder: a_part(folder).unlink(), "lacks source="),
        (lambda folder: (folder / "more.parquet").write_bytes(a_part(folder).read_bytes()), "more.parquet"),
        (lambda folder: a_part(folder).rename(folder / "part-0.parquet"), "not as Lanemap wrote it"),
        (lambda folder: (folder / files.MANIFEST).unlink(), "not a dataset that Lanemap wrote"),
        (lambda folder: (folder / files.MANIFEST).write_text("{}"), "not a dataset that Lanemap wrote"),
    ],
)
def test_a_dataset_that_was_changed_is_refused(dataset, tmp_path, change, words):
    folder = shutil.copytree(dataset, tmp_path / "copy")
    change(folder)
    with pytest.raises(LanemapError, match=words):
        read_table(folder)


def test_a_dataset_has_folders_for_what_its_files_do_not_say(dataset, tmp_path):
    with files.folder_atomically(tmp_path / "flat", "dataset") as made:
        shutil.copy(a_part(dataset), made / "part.parquet")
    with pytest.raises(LanemapError, match="holds part.parquet: a dataset has folders for source and instruction"):
        read_table(tmp_path / "flat")


@pytest.mark.slow
def test_rows_and_columns_in_any_order_and_case(exported, everything, tmp_path):
    frame = exported.to_pandas().sample(frac=1, random_state=3)
    names = list(frame.columns)
    random.Random(3).shuffle(names)
    frame = frame[names].rename(columns=lambda name: f" {name.title()}").assign(extra="ignored")
    frame.to_csv(tmp_path / "shuffled", index=False)
    assert sorted(map(str, digests(read_table(tmp_path / "shuffled")))) == sorted(
        map(str, digests(everything, Query(instruction="mma")))
    )


@pytest.mark.parametrize("write", ["to_csv", "to_parquet", "to_feather"])
def test_what_pandas_writes_is_read(fragments, tmp_path, write):
    fragment = next(fragment for fragment in fragments if fragment.shape == "m16n8k16" and fragment.type == "f16")
    frame = pd.DataFrame(fragment.elements).assign(shape="m16n8k16", type="f16", role=fragment.role)
    frame["selector"] = np.nan
    getattr(frame, write)(tmp_path / "frame", **({"index": False} if write == "to_csv" else {}))
    (source,) = read_table(tmp_path / "frame")
    assert source.fragments[0].key == fragment.key
    assert source.fragments[0].digest == fragment.digest


@pytest.mark.slow
def test_the_eight_columns_are_enough(fragments, tmp_path):
    """The rest has defaults, and these are the document's wherever an element is no window."""
    for fragment in fragments:
        if fragment.instruction != "mma" or fragment.qualifiers:
            continue
        frame = pd.DataFrame(fragment.elements).assign(shape=fragment.shape, type=fragment.type, role=fragment.role)
        frame[EIGHT].to_csv(tmp_path / "eight.csv", index=False)
        (source,) = read_table(tmp_path / "eight.csv")
        assert source.name == "eight"
        (found,) = source.fragments
        assert (found.digest, found.registers, found.slots) == (fragment.digest, fragment.registers, fragment.slots)
        if not (fragment.shape == "m8n8k4" and fragment.type == "f16"):
            assert found.key == fragment.key


def mma_fragment(fragments, role, type_="f16", shape="m16n8k16"):
    return next(
        fragment
        for fragment in fragments
        if (fragment.instruction, *fragment.key[1:4]) == ("mma", shape, type_, role) and fragment.has_rows
    )


@pytest.mark.parametrize(
    ("shape", "type_", "role"), [("m16n8k16", "f16", "A"), ("m16n8k32", "s8", "B"), ("m8n8k4", "f64", "D")]
)
def test_a_value_counts_the_slots_of_the_registers_of_a_lane(table, fragments, shape, type_, role):
    one = mma_fragment(fragments, role, type_, shape)
    rows = (f"{shape},{type_},{role},{e.lane},{e.reg * one.slots + e.slot},{e.row},{e.col}" for e in one.records())
    ((found,),) = (source.fragments for source in table("shape,type,role,lane,value,row,col", *rows))
    assert found.same_layout(one)


@pytest.mark.parametrize(
    ("role", "move", "cell"),
    [
        ("A", "ldmatrix.x4", lambda lane: (lane % 16, lane // 16 * 8)),
        ("A", "ldmatrix.x4.trans", lambda lane: (lane // 8 % 2 * 8, lane % 8 + lane // 16 * 8)),
        ("B", "ldmatrix.x2", lambda lane: (lane // 8 * 8, lane % 8)),
        ("B", "ldmatrix.x2.trans", lambda lane: (lane, 0)),
        ("D", "stmatrix.x2", lambda lane: (lane, 0)),
    ],
)
def test_addresses_become_the_registers_that_are_loaded_from_them(table, fragments, role, move, cell):
    """The warp's matrices by hand: rows of eight from its lanes, in the order of the registers."""
    lanes = range(32 if "x4" in move else 16)
    rows = (f"m16n8k16,f16,{role},{lane},{','.join(map(str, cell(lane)))},{move}" for lane in lanes)
    ((found,),) = (source.fragments for source in table("shape,type,role,lane,row,col,move", *rows))
    assert found.same_layout(mma_fragment(fragments, role))


def test_a_column_says_where_rows_come_from(table):
    rows = [f"m8n8k16,s8,A,{lane},0,0,{lane // 4},{lane % 4},tile.cu:{7 + lane % 2}" for lane in range(4)]
    ((found,),) = (source.fragments for source in table("shape,type,role,lane,reg,slot,row,col,origin", *rows))
    assert found.citation.origin == "tile.cu:7; tile.cu:8"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("shape,type,role,lane,row,col,move", "m16n8k16,f16,A,0,0,0,ldmatrix.x3"), "invalid move 'ldmatrix.x3'"),
        (("shape,type,role,lane,row,col,move", "m16n8k16,f16,A,0,0,4,ldmatrix.x4"), "not a multiple of 16 bytes"),
        (
            ("shape,type,role,lane,row,col,move", *["m16n8k16,f16,A,0,0,0,ldmatrix.x4"] * 2),
            "each lane from 0 to 31 passes at most one address",
        ),
        (
            ("shape,type,role,lane,row,col,move", "m16n8k16,f16,A,32,0,0,ldmatrix.x4"),
            "each lane from 0 to 31 passes at most one address",
        ),
        (("shape,type,role,lane,row,col,move", "m16n8k8,tf32,A,0,0,0,ldmatrix.x4.trans"), "moves units of 16 bits"),
        (("instruction,shape,type,role,lane,row,col,move", "v_x,m4n4k4,f16,A,0,0,0,ldmatrix.x4"), "that Lanemap knows"),
        (("shape,type,role,lane,value,row,col", "m16n8k16,f16,A,0,,0,0"), "neither reg and slot nor a value"),
        (("shape,type,role,lane,value,row,col", "m16n8k16,f16,A,0,-1,0,0"), "reg -1 is outside"),
        (("shape,type,role,lane,row,col", "m16n8k16,f16,A,0,0,0"), "lacks reg, slot"),
    ],
)
def test_places_that_are_none_are_refused(table, lines, words):
    with pytest.raises(LanemapError, match=words):
        table(*lines)


def test_names_are_read_in_any_case_and_with_ptx_dots(table):
    (source,) = table(HEADER + ",instruction,major", " M16N8K16 ,.F16,a,5,1,0,9,2,MMA,ROW")
    assert source.fragments[0].key == ("mma", "m16n8k16", "f16", "A", "row", None, None)


def test_slots_are_a_power_of_two_and_registers_those_seen(table):
    (source,) = table(HEADER, "m16n8k16,f16,A,0,2,2,0,2")
    assert (source.fragments[0].registers, source.fragments[0].slots) == (3, 4)


@pytest.mark.parametrize(
    ("row", "slots"),
    [(ROW.replace("1,0,9", "0,0,9"), 2), ("m16n8k32,s8,B,0,0,1,0,0", 4), ("m16n8k16,f32,D,0,0,0,0,0", 1)],
)
def test_a_register_has_the_slots_of_its_operand_though_few_are_given(table, row, slots):
    (source,) = table(HEADER, row)
    assert source.fragments[0].slots == slots


def test_one_source_for_each_name(table):
    found = table(HEADER + ",source", ROW + ",here", ROW + ",there", ROW + ",")
    assert [source.name for source in found] == ["here", "there", "mine"]


def test_a_gap_is_an_empty_field_and_nothing_else(table):
    found = table(HEADER + ",source", ROW + ",NA", ROW + ",null")
    assert [source.name for source in found] == ["NA", "null"]


UNKNOWN = HEADER + ",instruction"


def test_an_instruction_that_lanemap_has_never_heard_of_has_types_of_its_own(table):
    row = "m32n32k4,xf32,A,63,0,0,31,3,v_mfma_f32_32x32x4_xf32"
    (source,) = table(UNKNOWN + ",bits", row + ",32", row.replace("xf32,A", "i8,B").replace("31,3", "3,31") + ",8")
    assert [(fragment.type, fragment.registers, fragment.slots) for fragment in source.fragments] == [
        ("xf32", 1, 1),
        ("i8", 1, 4),
    ]
    assert {fragment.threads for fragment in source.fragments} == {64}
    assert not any("outside" in words for fragment in source.fragments for words in check(fragment))


def test_a_type_keeps_its_name_and_width_where_the_instruction_is_unknown(table):
    for name, slots in (("i8", 4), ("half", 2), ("f16", 2), ("s4", 8)):
        (source,) = table(UNKNOWN, ROW.replace("f16", name) + ",somebodys")
        assert [(fragment.type, fragment.slots) for fragment in source.fragments] == [(name, slots)]
    both = table(UNKNOWN, ROW.replace("f16", "half") + ",somebodys", ROW.replace("f16", "half") + ",mma")
    assert [fragment.type for fragment in both[0].fragments] == ["half", "f16"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((UNKNOWN, ROW.replace("f16", "xf32") + ",x"), "Lanemap does not know the type xf32: give its width"),
        ((UNKNOWN, ROW.replace("f16", "fp8") + ",x"), "give its width in a column bits"),
        (
            (UNKNOWN + ",bits", ROW + ",x,16", ROW.replace(",5,", ",6,") + ",x,8"),
            "bits 8, 16: give one width from 1 to",
        ),
        ((UNKNOWN + ",bits", ROW + ",x,129"), "bits 129: give one width from 1 to 128"),
        ((UNKNOWN + ",bits", ROW + ",x,0"), "bits 0: give one width from 1 to 128"),
        (
            (UNKNOWN, ROW.replace("m16n8k16", "m16n8k1025") + ",x"),
            "invalid shape 'm16n8k1025': each dimension is 1 to 1024",
        ),
        (
            (UNKNOWN + ",first_bit", ROW + ",mma,0", ROW.replace(",5,", ",6,") + ",mma,8"),
            "first_bit 0 and 8: give one",
        ),
        ((UNKNOWN + ",bits,first_bit", ROW.replace("f16", "i5") + ",x,5,4"), "first_bit 4 is outside 0..3"),
        ((UNKNOWN + ",bits", "m16n8k16,i7,A,5,1,4,9,2,x,7"), "32 bits of a register have no 8 slots of 7"),
        ((HEADER, "m16n16k16,f16,A,5,1,0,9,2"), "mma has no m16n16k16: it has m8n8k4, m8n8k16, "),
        ((HEADER, "m16n8k8,s8,A,5,1,0,5,2"), "mma m16n8k8 has no A of s8: its types are bf16, f16, f64, tf32"),
        ((HEADER, "m16n8k16,f32,A,5,1,0,5,2"), "mma m16n8k16 has no A of f32: its types are "),
        ((HEADER, "m8n8k4,s32,C,5,1,0,5,2"), "mma m8n8k4 has no C of s32: its types are f16, f32, f64"),
    ],
)
def test_what_an_instruction_does_not_have_is_refused_with_what_there_is(table, lines, words):
    with pytest.raises(LanemapError) as error:
        table(*lines)
    assert words in str(error.value)


def test_all_operands_of_an_instruction_have_the_lanes_of_the_widest(table):
    rows = [f"m8n8k8,f16,{role},{lane},0,0,{lane % 8},{lane // 8},mine" for role, lane in (("A", 63), ("B", 0))]
    (source,) = table(HEADER + ",instruction", *rows)
    assert [fragment.threads for fragment in source.fragments] == [64, 64]


def test_a_sparse_operand_without_windows_is_said_aloud(tmp_path):
    row = "m16n8k32,f16,{},{},0,0,0,2,mma.sp,{}"
    header = UNKNOWN + ",col_last\n"
    rows = [row.format(*key) for key in (("A", 0, ""), ("A", 1, 3), ("E", 0, ""), ("B", 0, ""))]
    (tmp_path / "mine.csv").write_text(header + "\n".join(rows) + "\n")
    (found,) = load(tmp_path / "mine.csv")
    assert [(finding.name, finding.reason) for finding in found.findings] == [
        (
            f"{role} of mma.sp m16n8k32 f16",
            f"1 of {count} rows have no col_last: is col exact, or the first of a window?",
        )
        for role, count in (("A", 2), ("E", 1))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", [*WRITERS, "dataset"])
def test_a_column_that_may_be_a_window_is_not_exact_on_the_way_out(built, tmp_path, form):
    """A source without ``col_last`` claims as little after an export as before it."""
    row = "m16n8k32,f16,A,{},0,0,0,2,mma.sp,{}"
    lines = [row.format(0, ""), row.format(1, 3), row.format(2, 2), row.format(0, 3).replace("A", "E")]
    (tmp_path / "mine.csv").write_text("\n".join([f"{UNKNOWN},col_last", *lines]) + "\n")
    (found,) = load(tmp_path / "mine.csv")
    with lanemap.open(shutil.copy(built, tmp_path / "a.db")) as database:
        database.add([found.source])
        before = database.source("mine")
        database.export(tmp_path / "out", format=form, query=Query(source="mine"))
    if form == "jsonl":
        rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
        assert [row["col_last"] for row in rows] == [None, 3, None, 3]
    else:
        (after,) = (found.source for found in load(tmp_path / "out"))
        assert [(one.key, one.digest, one.status) for one in after.fragments] == [
            (one.key, one.digest, one.status) for one in before.fragments
        ]
        assert [one.status == UNTOLD_WINDOWS for one in after.fragments] == [True, False]


def test_selectors_tell_fragments_apart(table):
    row = "m16n8k16,f16,E,5,0,0,9,2"
    (source,) = table(
        HEADER + ",col_last,instruction,selector", row + ",3,mma.sp,1", row + ",3,mma.sp,0.0", ROW + ",,,"
    )
    assert [fragment.selector for fragment in source.fragments] == [1, 0, None]


def test_byte_order_mark_windows_ends_and_quotes(table):
    (source,) = table(b"\xef\xbb\xbf" + HEADER.encode() + b'\r\n"m16n8k16","f16","A",5,1,0,9,2\r\n')
    assert source.fragments[0].elements[["lane", "row", "col"]].tolist() == [(5, 9, 2)]


def test_a_column_that_is_passed_over_is_named(table, run, tmp_path):
    written = f"{HEADER},qualifer,Comment,\n{ROW},x4,mine,0\n"
    with pytest.warns(UserWarning, match=r"are passed over: qualifer, Comment: did you mean qualifiers\?$"):
        table(written.encode())
    with pytest.warns(UserWarning, match="are passed over: Comment$"):
        table(written.replace("qualifer", "qualifiers").replace("x4", "").encode())
    (tmp_path / "mine.csv").write_text(written)
    said = f"unknown columns of {tmp_path}/mine.csv are passed over: qualifer, Comment: did you mean qualifiers?"
    assert run("diff", tmp_path / "mine.csv").err == f"lanemap: {said}\n"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((HEADER,), "has no rows"),
        ((b"",), "is empty"),
        ((b"\n",), "lacks shape, type, role, lane, reg, slot, row, col"),
        (("shape,type,role,lane,reg,row", "x"), "lacks slot, col"),
        ((HEADER.replace(",", ";"), ROW.replace(",", ";")), "separates columns by ';': write commas"),
        ((HEADER + ",ROW", ROW + ",9"), "two columns named row"),
        ((HEADER, ROW, ROW), "lane 5 reg 1 slot 0 is in two rows"),
        ((HEADER, ROW, ROW.replace("9,2", "9,3")), "is in two rows"),
        ((HEADER, ROW, "m16n8k16,f16,A,five,1,0,9,2"), "row 2: lane 'five' is not a whole number: write it like 5"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,2.5"), "row 1: col '2.5' is not a whole number"),
        ((HEADER + ",selector", ROW + ",1", ROW + ",x"), "row 2: selector 'x' is not a whole number"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,99999999999"), "99999999999"),
        ((HEADER, ROW, "m16n8k16,f17,A,5,1,0,9,2"), "row 2: 'f17' is not a type: did you mean f16?"),
        ((HEADER, "m16n8k16,quarter,A,5,1,0,9,2"), "row 1: 'quarter' is not a type: write it like f16"),
        ((HEADER, ROW, "m16n8k16,half,A,5,1,1,9,3"), "row 2: A of mma m16n8k16 f16 has another spelling"),
        ((HEADER, "m16n8k16,fp8,A,5,1,0,9,2"), "row 1: fp8 is e4m3 or e5m2: say which"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9"), "Expected 8 columns, got 7"),
        ((HEADER, ROW, "m16n8k16,f16,A,,1,0,9,2"), "row 2 has no lane"),
        ((HEADER, ",f16,A,5,1,0,9,2"), "row 1 has no shape"),
        ((HEADER, "m16n8k16,f16,A,1025,1,0,9,2"), "lane 1025 is outside 0..1024"),
        ((HEADER, "m16n8k16,f16,A,-1,1,0,9,2"), "lane -1 is outside 0..1024"),
        ((HEADER, "m16n8k16,f16,A,5,256,0,9,2"), "reg 256 is outside 0..255"),
        ((HEADER, "m16n8k16,f16,A,5,1,32,9,2"), "slot 32 is outside 0..31"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,1025,2"), "row 1025 is outside 0..1024"),
        ((HEADER, "m16n8k16,f16,B,5,1,0,9,-8"), "B of mma m16n8k16 f16: col -8 is outside 0..1024"),
        ((HEADER, "m16n8k16,f16,A,5,1,0,9,-2147483648"), "col"),
        ((HEADER + ",col_last", ROW.replace("A,5", "A,6") + ",2", ROW + ",1"), "col_last is less than col"),
        ((HEADER + ",col_last", ROW + ",1600"), "col_last 1600 is outside 0..1024"),
        ((HEADER + ",computation", ROW + ",0"), "computation 0 is outside 1..1024"),
        ((HEADER + ",selector", ROW + ",4"), "selector 4 is outside 0..3"),
        ((HEADER + ",major", ROW + ",diagonal"), "'diagonal' is neither row nor col"),
        ((HEADER, "16x8x16,f16,A,5,1,0,9,2"), "write m16n8k16"),
        ((HEADER, "m16n8k0,f16,C,5,1,0,9,2"), "each dimension is 1 to"),
        ((HEADER, "m99999n8k16,f16,A,5,1,0,9,2"), "each dimension is 1 to"),
        ((HEADER, "m16n8k16,f16,X,5,1,0,9,2"), "invalid role 'X': mma has A, B, C, D"),
        ((b"\x00\x01\x02" * 99,), "not a table"),
        (('[{"shape": "m16n8k16"}]',), "is JSON: name a CSV, Parquet or Arrow file"),
        ((' {"shape": ["m16n8k16"]}',), "is JSON: name a CSV, Parquet or Arrow file"),
        ((b"\xff\xfe" + (HEADER + "\n" + ROW).encode("utf-16-le"),), "not a table"),
        ((b"a" * 100_000,), "not a table"),
        (((HEADER + "\n" + ROW).encode() + b"\xff\n",), "row 1: col '2\ufffd' is not a whole number"),
        ((HEADER, ROW.replace("9,2", "9,x"), "y" * 200_000), "row 1: col 'x'"),
        ((HEADER, ROW, "y" * 200_000), "as CSV"),
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


def test_a_stream_of_arrow_is_read_as_a_file_is(exported, tmp_path):
    whole, piped = io.BytesIO(), io.BytesIO()
    WRITERS["arrow"](exported.slice(0, 500), whole)
    WRITERS["arrow"](exported.slice(0, 500), piped, piped=True)
    for name, stream in (("file", whole), ("stream", piped)):
        (tmp_path / name).write_bytes(stream.getvalue())
    assert digests(read_table(tmp_path / "stream")) == digests(read_table(tmp_path / "file"))
    for length in (len(piped.getvalue()) - 1, len(piped.getvalue()) - 8, len(piped.getvalue()) // 2, 100, 4):
        (tmp_path / "cut").write_bytes(piped.getvalue()[:length])
        with pytest.raises(LanemapError, match="cut off|Arrow"):
            read_table(tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_damaged_file_is_refused_or_says_the_same(exported, form, tmp_path, seed):
    """A flipped bit never changes a layout unnoticed, and is never a crash."""
    whole = io.BytesIO()
    WRITERS[form](sealed(exported.slice(0, 500).replace_schema_metadata({})), whole)
    (tmp_path / "damaged").write_bytes(whole.getvalue())
    expected = digests(read_table(tmp_path / "damaged"))
    assert all("unsealed" not in source.title for source in read_table(tmp_path / "damaged"))
    chance, refused = random.Random(seed), 0
    for _ in range(5000 if "LANEMAP_LONG" in os.environ else 250):
        damaged = bytearray(whole.getvalue())
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            damaged[chance.randrange(8, len(damaged))] ^= 1 << chance.randrange(8)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            found = read_table(tmp_path / "damaged")
        except LanemapError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            whole_ones = [source for source in found if "unsealed" not in source.title]
            assert not whole_ones or digests(found) == expected
    assert refused > 50


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize(("column", "value"), [("col", 3), ("type", "bf16"), ("selector", 0), ("computation", None)])
def test_a_changed_value_is_noticed(exported, form, tmp_path, column, value):
    """Whatever was changed, if the digest stayed; the order of columns and what else is there do not matter."""
    part = sealed(exported.slice(0, 64))
    index = part.column_names.index(column)
    values = part[column].to_pylist()
    changed = part.set_column(index, part.schema.field(index), pa.array([value, *values[1:]], part[column].type))
    names = [*reversed(part.column_names)]
    for table, fine in ((part.select(names).append_column("more", pa.nulls(64)), True), (changed, False)):
        with (tmp_path / "file").open("wb") as stream:
            if form == "parquet":
                pq.write_table(table, stream)
            else:
                with pa.ipc.new_file(stream, table.schema) as writer:
                    writer.write_table(table)
        if fine:
            assert all("unsealed" not in source.title for source in read_table(tmp_path / "file"))
        else:
            with pytest.raises(LanemapError, match="file was damaged or changed"):
                read_table(tmp_path / "file")


def test_a_type_may_have_another_name_but_not_in_what_lanemap_wrote(exported, table, tmp_path):
    assert [fragment.type for fragment in table(HEADER, ROW.replace("f16", "half"))[0].fragments] == ["f16"]
    for name in ("half", "f17"):
        part = exported.slice(0, 2)
        index = part.column_names.index("type")
        new = sealed(part.set_column(index, "type", pa.array([name] * 2).dictionary_encode()))
        pq.write_table(new, tmp_path / "odd")
        assert [fragment.type for fragment in read_table(tmp_path / "odd")[0].fragments] == [name]


@pytest.mark.slow
def test_a_file_without_a_digest_is_called_unsealed(exported, table, tmp_path):
    assert table(HEADER, ROW)[0].title == "table mine.csv, unsealed"
    pq.write_table(exported.replace_schema_metadata({}), tmp_path / "plain")
    assert {source.title for source in read_table(tmp_path / "plain")} == {"table plain, unsealed"}


@pytest.mark.parametrize("name", ["lane", "reg", "slot", "row", "col", "col_last", "computation", "selector"])
def test_a_missing_number_is_a_gap_and_no_number_is_one(tmp_path, name):
    """Gaps in required columns are refused; the least number that a column can hold is out of range, not a gap."""
    rows = {"shape": ["m16n8k16"] * 2, "type": ["f16"] * 2, "role": ["A"] * 2, "lane": [0, 1], "computation": [1, 1]}
    rows |= {name: [0, 0] for name in ("reg", "slot", "row", "col", "col_last", "selector")}
    for value in (None, -(1 << 31), -(1 << 15), -1):
        pq.write_table(pa.table(rows | {name: pa.array([0 if name != "computation" else 1, value])}), tmp_path / "file")
        if value is None and name in columns.REQUIRED:
            with pytest.raises(LanemapError, match=f"row 2 has no {name}"):
                read_table(tmp_path / "file")
        elif value is None:
            found = [fragment for source in read_table(tmp_path / "file") for fragment in source.fragments]
            assert [fragment.selector for fragment in found] == ([0, None] if name == "selector" else [0])
        else:
            with pytest.raises(LanemapError, match=f"{name} {value} is outside"):
                read_table(tmp_path / "file")


def test_line_ends_of_every_kind(table):
    for end in (b"\n", b"\r\n", b"\r"):
        (source,) = table(end.join([HEADER.encode(), ROW.encode(), b""]))
        assert len(source.fragments[0].elements) == 1


@pytest.mark.parametrize("cut", range(1, len(ROW) + 1))
def test_a_table_that_is_cut_off_is_refused(table, cut):
    with pytest.raises(LanemapError):
        table((HEADER + "\n" + ROW + "\n" + ROW.replace(",5,", ",15,")).encode()[:-cut])


def repeated(value, count):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


def numbered(count, prefix):
    return pa.DictionaryArray.from_arrays(
        pa.array(np.arange(count, dtype=np.int32)), pa.array([f"{prefix}{index}" for index in range(count)])
    )


def bomb(count, **other):
    named = {"shape": repeated("m16n8k16", count), "type": repeated("f16", count), "role": repeated("A", count)}
    zeros = pa.array(np.zeros(count, np.int32))
    return pa.table(named | dict.fromkeys(("lane", "reg", "slot", "row", "col"), zeros) | other)


BOMBS = {
    "a long text": lambda: bomb(65_536, shape=repeated("x" * 60_000, 65_536)),
    "many rows": lambda: bomb(3_500_001),
    "many types": lambda: bomb(300_000, type=numbered(300_000, "t")),
    "many fragments": lambda: bomb(
        30_000,
        type=pa.array([f"t{index % 200}" for index in range(30_000)]).dictionary_encode(),
        source=pa.array([f"s{index // 300}" for index in range(30_000)]).dictionary_encode(),
    ),
    "many sources": lambda: bomb(5_000, source=numbered(5_000, "s")),
    "many columns": lambda: pa.table({f"c{index}": pa.array([1]) for index in range(5_000)}),
    "many slots that are the same": lambda: bomb(500_000),
}


@pytest.mark.slow
def test_a_bomb_is_refused_in_little_time_and_memory(tmp_path):
    """Small files of large content, each read within 20 s of computing and 1 GB, in a process of its own.

    The peak is read from /proc: ru_maxrss of a new process includes the memory of the one that started it.
    """
    for name, table in BOMBS.items():
        pq.write_table(made := table(), tmp_path / name, compression="zstd", store_schema=False)
        if name == "many rows":
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_file(str(tmp_path / "arrow"), made.schema, options=options) as writer:
                writer.write_table(made)
    (tmp_path / "empty lines").write_text(HEADER + "\n" * 3_000_000)
    (tmp_path / "a long line").write_bytes(HEADER.encode() + b"\n" + b"x" * 20_000_000 + b"\n")
    read = (
        "import re, sys, time\n"
        "from pathlib import Path\n"
        "from lanemap import LanemapError\n"
        "from lanemap.ingest.table import load\n"
        "for file in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    began = time.process_time()\n"
        "    try: load(file)\n"
        "    except LanemapError as error: assert '\\n' not in str(error)\n"
        "    else: raise SystemExit(f'{file} is read')\n"
        "    assert time.process_time() - began < 20, file\n"
        "    peak = re.search(r'VmHWM:\\s*(\\d+) kB', Path('/proc/self/status').read_text())\n"
        "    assert peak is None or int(peak[1]) < 1 << 20, file\n"
    )
    done = subprocess.run([sys.executable, "-c", read, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
@pytest.mark.parametrize("column", ["shape", "note", "coded"])
def test_an_arrow_file_is_measured_before_it_is_decompressed(tmp_path, monkeypatch, compression, column):
    """A few rows of long text; also in a column that is not read, and as the values of a dictionary."""
    texts = pa.array(["x" * 300_000] * 5, pa.large_string())
    made = bomb(5).append_column("note", pa.nulls(5, pa.large_string()))
    if column == "coded":
        made = made.append_column("coded", pa.array([f"{at}" * 300_000 for at in range(5)]).dictionary_encode())
    else:
        made = made.set_column(made.column_names.index(column), column, texts)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(str(tmp_path / "arrow"), made.schema, options=options) as writer:
        writer.write_table(made)
    monkeypatch.setattr(columns, "MAX_BYTES", 2_000_000)
    with pytest.raises(LanemapError, match="characters" if column == "shape" else "is given twice|in two rows"):
        read_table(tmp_path / "arrow")
    monkeypatch.setattr(columns, "MAX_BYTES", 1_400_000)
    with pytest.raises(LanemapError, match="more than 1 MB"):
        read_table(tmp_path / "arrow")


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
    gone = "cannot read .*: name a CSV, Parquet or Arrow file"
    for path, words in ((tmp_path, "is a folder, but not a dataset .*: name a file"), (tmp_path / "gone", gone)):
        with pytest.raises(LanemapError, match=words):
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
