"""Exports: every row, in every format, and the file whole or not at all."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap.db.lookup import COLUMNS, Query, read_fragments
from lanemap.db.render.notation import express
from lanemap.db.store.export import METADATA_KEY, WRITERS, digest, layout_table
from lanemap.db.store.files import atomically

from ..shipped import CORRECTED, PRINTED


def written(table, form):
    stream = io.BytesIO()
    WRITERS[form](table, stream)
    return stream.getvalue()


def read(form, data):
    """The rows as tuples of text, read back by somebody else's reader where there is one."""
    if form == "parquet":
        records = pq.read_table(io.BytesIO(data)).to_pylist()
    elif form == "arrow":
        records = pa.ipc.open_file(data).read_all().to_pylist()
    elif form == "jsonl":
        records = [json.loads(line) for line in data.decode().splitlines()]
    else:
        return [tuple(row[name] for name in COLUMNS) for row in csv.DictReader(io.StringIO(data.decode()))]
    assert all(tuple(record) == COLUMNS for record in records)
    return [tuple("" if value is None else str(value) for value in record.values()) for record in records]


def table_of(database, query):
    return layout_table(database.reader, read_fragments(database.reader, query), "9.9")


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(WRITERS))
def test_every_format_holds_every_row(database, form):
    which = "instruction = 'mma.sp' AND shape = 'm16n8k32'"
    stored = database.reader.sql(f"SELECT {', '.join(COLUMNS)} FROM layout WHERE {which}").rows
    expected = sorted(tuple("" if value is None else str(value) for value in row) for row in stored)
    data = written(table_of(database, Query("m16n8k32", instruction="mma.sp")), form)
    assert sorted(read(form, data)) == expected


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_a_selection_holds_just_what_was_asked_for(database, form):
    query = Query(shape="M16N8K16", type=".F16", role="a", source=CORRECTED)
    rows = read(form, written(table_of(database, query), form))
    assert len(rows) == 32 * (8 + 4)
    assert {row[:3] for row in rows} == {("m16n8k16", "f16", "A")}


@pytest.mark.slow
def test_parquet_is_small_typed_and_says_where_it_comes_from(built, shipped):
    with lanemap.open(str(built)) as database:
        data = written(table_of(database, Query()), "parquet")
    parquet = pq.ParquetFile(io.BytesIO(data))
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
    assert len(data) < 1.25 * parquet.metadata.num_rows
    schema = parquet.schema_arrow
    assert tuple(schema.names) == COLUMNS
    for name in COLUMNS:
        text = name in ("shape", "type", "role", "instruction", "major", "qualifiers", "source")
        assert pa.types.is_dictionary(schema.field(name).type) == text
        assert text or schema.field(name).type == pa.int32()
    described = json.loads(schema.metadata[METADATA_KEY])
    assert described["lanemap"] == "9.9"
    assert [source["name"] for source in described["sources"]] == shipped
    assert "ptx-isa-" + described["sources"][0]["version"] == PRINTED


def test_csv_starts_with_its_header_and_quotes_what_needs_it(database):
    table = table_of(database, Query(shape="m8n8k4"))
    assert written(table, "csv").decode().splitlines()[:2] == [
        ",".join(COLUMNS),
        "m8n8k4,f16,A,0,0,0,0,0,0,mma,row,1,,,ptx-isa-9.4,0",
    ]
    odd = pa.array(['a "b", c'] * table.num_rows).dictionary_encode()
    quoted = table.set_column(COLUMNS.index("source"), "source", odd)
    assert {row[-2] for row in read("csv", written(quoted, "csv"))} == {'a "b", c'}


def test_nothing_to_write_is_an_error(database):
    with pytest.raises(lanemap.LanemapError, match="has no rows"):
        database.export(io.BytesIO(), format="csv", query=Query(role="E", source="ptx-isa-9.4"))


def test_only_whole_numbers_have_a_digest():
    """Of any type that holds them; what would have to be cut to one is refused, and not given its digest."""
    whole = [digest({}, {"row": np.ma.asarray(np.array([1, 2], type_))}) for type_ in (np.int16, np.int32, np.int64)]
    assert len(set(whole)) == 1
    for number in (1.5, np.nan):
        with pytest.raises(TypeError):
            digest({}, {"row": np.ma.asarray([number, 2.0])})


def test_words_are_queries_for_the_dense_instruction(database):
    def instructions(query):
        stream = io.BytesIO()
        database.export(stream, format="csv", query=query)
        return set(pd.read_csv(io.BytesIO(stream.getvalue())).instruction)

    assert instructions("m16n8k16 f16 A") == {"mma"}
    assert instructions(["m16n8k16 f16 A", "m16n8k32 f16 A"]) == {"mma", "mma.sp"}
    assert instructions(Query("m16n8k16", "f16", "A")) == {"mma", "mma.sp"}


def test_pandas_and_the_database_agree(database):
    frame = database.find("m16n8k16", "f16", "A")
    table = table_of(database, Query("m16n8k16", "f16", "A", "mma", source=CORRECTED))
    exported = table.to_pandas().astype(dict.fromkeys(("lane", "reg", "slot", "row", "col"), "int64"))
    cells = ["lane", "reg", "slot", "row", "col"]
    pd.testing.assert_frame_equal(frame[cells], exported[cells])


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "layouts.csv"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(KeyboardInterrupt), atomically(path) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with atomically(path) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "layouts.csv", tmp_path / "link.csv"
    link.symlink_to(path)
    for words in (b"new", b"newer"):
        with atomically(link) as stream:
            stream.write(words)
        assert link.is_symlink()
        assert path.read_bytes() == words
        assert not path.is_symlink()
    assert list(path.parent.iterdir()) == [path]


def test_a_link_to_itself_is_one_line(tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(link)
    with pytest.raises(lanemap.LanemapError, match="link.csv: Too many levels of symbolic links"), atomically(link):
        pass


_DRAW = ("draw", "m16n8k16", "f16", "A", "--format", "svg", "--output")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "link"),
    [
        (("check", "--output"), None),
        (("diff", "ptx-isa-9.4", "ptx-isa-9.4+errata", "--output"), None),
        (("export", "--format", "csv", "--shape", "m16n8k8", "--output"), None),
        (("export", "--format", "cute", "--shape", "m16n8k8", "--type", "f16", "--output"), None),
        *((_DRAW, link) for link in (None, os.symlink, os.link)),
    ],
)
def test_no_output_replaces_a_database(refused, file, tmp_path, command, link):
    before, output = file.read_bytes(), file
    if link:
        output = tmp_path / "link"
        link(file, output)
    refused(*command, output, db=file, words=("cannot write", "it is a database"))
    for end in () if link else ("-journal", "-wal", "-shm"):
        refused(*command, f"{file}{end}", db=file, words=("cannot write", "part of one"))
    assert file.read_bytes() == before


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_no_report_replaces_what_it_compares(run, refused, tmp_path, link):
    side = tmp_path / "mine.csv"
    run("export", "--source", "ptx-isa-9.4", "--shape", "m16n8k8", "--output", side)
    before, output = side.read_bytes(), side
    if link:
        output = tmp_path / "link"
        link(side, output)
    refused("diff", side, "ptx-isa-9.4", "--output", output, words=("cannot write", "it is also the input"))
    assert side.read_bytes() == before


def test_a_full_disk_leaves_no_file(tmp_path):
    export = (
        "import resource\n"
        "from pathlib import Path\n"
        "from lanemap import LanemapError\n"
        "from lanemap.db.store.files import atomically\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"  # what is compiled by then is written whole
        "try:\n"
        "    with atomically(Path('out.csv')) as stream: stream.write(b'x' * 100_000)\n"
        "except LanemapError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", export], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "cannot write out.csv: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with (
        pytest.raises(lanemap.LanemapError, match="the folder .* does not exist"),
        atomically(tmp_path / "no" / "x.csv"),
    ):
        pass


@pytest.mark.slow
def test_what_the_document_only_draws_is_of_the_most_trusted_source_that_has_it(built, tmp_path):
    """What was measured, though an import was there first by its name; and what only an import has."""
    with lanemap.open(shutil.copy(built, tmp_path / "own.db")) as database:
        (measured,) = database.operand("mma.sp m16n8k32 f16 B")
        assert measured.source == "h200-sm_90a"
        table = measured.elements.copy()
        table["row"] = 31 - table["row"]
        database.add([lanemap.Source("a", "import", "a", [replace(measured, elements=table, source=None)])])
        text = database.export(format="cpp", query="mma.sp m16n8k32 f16 B").text
        database.export(rows := io.BytesIO(), format="jsonl", query="mma.sp m16n8k32 f16 B")
    assert {json.loads(line)["source"] for line in rows.getvalue().splitlines()} == {"h200-sm_90a"}
    assert "// h200-sm_90a, Lanemap" in text
    assert express("cpp", measured) in text
