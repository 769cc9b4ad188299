"""``lanemap import``: what it prints, what it loads, and that a refusal leaves the database as it was."""

import csv
import io
import json
import re

import pytest

import lanemap
from lanemap.ingest import cute
from lanemap.ingest.importing import IMPORTERS

TABLE = "shape,type,role,lane,reg,slot,row,col\nm16n8k16,f16,A,5,1,0,9,2\n"


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(TABLE)
    return file


def names(file):
    with lanemap.open(str(file)) as database:
        return dict(database.sources()[["name", "kind"]].values.tolist())


@pytest.mark.slow
def test_a_table_comes_in_and_replaces_itself(run, file, mine):
    for _ in range(2):
        result = run("import", "table", mine, db=file)
        assert (result.code, result.out) == (0, "mine: 1 fragment, 1 row; 0 left out\n")
    assert run("import", "TABLE", mine, "--name", "theirs", db=file).code == 0
    assert list(names(file).items())[-2:] == [("mine", "import"), ("theirs", "import")]
    found = run("find", "m16n8k16", "f16", "A", "--lane", "5", "--source", "mine", "-f", "csv", db=file)
    assert found.out.splitlines()[1:] == ["m16n8k16,f16,A,5,1,0,9,2,2,mma,row,1,,,mine,0"]


def test_cute_comes_in_with_what_it_leaves_out(run, file, cutlass):
    header = cutlass / "cute" / "atom" / "mma_traits_sm80.hpp"
    (release,) = cute.load(header)
    result = run("import", "cute", header, db=file)
    assert result.code == 0
    fragments, left_out = len(release.source.fragments), len(release.skipped)
    assert result.out.startswith(
        f"{release.source.name}: {fragments} fragments, {release.rows} rows; {left_out} left out\n"
    )
    counts = [int(count) for count in re.findall(r"^ +(\d+)  ", result.out, re.MULTILINE)]
    assert sum(counts) == left_out
    assert len(counts) == len({part.reason for part in release.skipped}) > 1
    assert result.out.count(", ...\n") == sum(count > 1 for count in counts) > 0
    assert names(file)[release.source.name] == "import"


def test_other_formats_name_every_atom(run, file, cutlass, release, monkeypatch):
    monkeypatch.setattr(cute, "load", lambda _: [release])
    result = run("import", "cute", cutlass, "--format", "csv", db=file)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [(row["name"], row["reason"]) for row in rows] == [(part.name, part.reason) for part in release.skipped]
    assert result.err.startswith(f"{release.source.name}: ")


@pytest.mark.slow
def test_tensor_layouts_comes_in(run, file, transcribed):
    result = run("import", "python", "tensor-layouts", "--format", "json", db=file)
    assert (result.code, json.loads(result.out)) == (0, [])
    assert transcribed.source.name in names(file)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("import", "cute"), ("a CUTLASS source tree", "lanemap import cute PATH")),
        (("import", "table"), ("a CSV, Parquet or Arrow file",)),
        (("import", "tensor-layouts"), ("say lanemap import python tensor-layouts",)),
        (("import", "tritonn"), ("tritonn", "cute")),
        (("import", "table", "mine.csv", "--python", "python3"), ("table takes no python: leave it out",)),
        (("import", "cute", "/nowhere"), ("does not exist",)),
        (("import", "table", "/nowhere"), ("cannot read",)),
        (("import", "table", ""), ("'' names no file",)),
        (("import", "capture", ""), ("'' names no file",)),
        (("import", "table", "/dev/zero"), ("/dev/zero is neither a file",)),
    ],
)
def test_bad_usage(refused, arguments, words):
    refused(*arguments, words=words)


def test_a_refusal_leaves_the_database_as_it_was(refused, file, mine, tmp_path):
    before = file.read_bytes()
    mine.write_text(TABLE + "m16n8k16,f16,A,9999,1,0,9,2\n")
    refused("import", "table", mine, db=file, words=("lane 9999 is outside",))
    refused("import", "table", tmp_path, db=file, words=("is a folder",))
    header = tmp_path / "never.hpp"
    header.write_text("int main() { return 0; }")
    refused("import", "cute", header, db=file, words=("no struct MMA_Traits",))
    assert file.read_bytes() == before


def test_a_name_is_for_one_source(refused, run, file, mine):
    before = file.read_bytes()
    head, row = TABLE.splitlines()
    mine.write_text(f"{head},source\n{row},one\n{row},other\n")
    refused("import", "table", mine, "--name", "both", db=file, words=("mine.csv holds the sources one, other",))
    assert file.read_bytes() == before
    mine.write_text(f"{head},source\n{row},one\n{row},one:part\n")
    assert run("import", "table", mine, "--name", "ours", db=file).code == 0
    assert [*names(file)][-2:] == ["ours", "ours:part"]


def test_a_name_has_300_characters_at_most(refused, run, file, mine):
    refused("import", "table", mine, "--name", "x" * 301, db=file, words=("it has 301 characters, more than 300",))
    assert run("import", "table", mine, "--name", "x" * 300, db=file).code == 0


@pytest.mark.parametrize("name", ["", " ", " x", "x ", "a\nb", "a\x1b[31mb", "a\u2028b", "\udcff"])
def test_a_name_is_a_line_of_text(refused, file, mine, name):
    before = file.read_bytes()
    refused("import", "table", mine, "--name", name, db=file, words=("source name", "one line of printable characters"))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("type", "zz;x<y", "row 1: 'zz;x<y' is not a type"),
        ("type", ".", "row 1: '' is not a type"),
        ("instruction", "mma sp", "invalid instruction 'mma sp'"),
        ("source", "a\x1bb", "invalid source name 'a\\x1bb'"),
        ("shape", "m\u0661\u0666n8k16", "is not a shape"),
    ],
)
def test_names_in_a_table_are_words(refused, file, mine, column, value, words):
    before = file.read_bytes()
    row = {"instruction": "mma", "source": "mine"} | dict(
        zip(*(line.split(",") for line in TABLE.split()), strict=True)
    )
    row[column] = value
    mine.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    refused("import", "table", mine, db=file, words=(words,))
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_name_is_the_same_in_any_case(run, refused, file, mine):
    refused("import", "table", mine, "--name", "PTX-ISA-9.1", db=file, words=("ships", "another name (--name)"))
    for name in ("mine", "MINE"):
        assert run("import", "table", mine, "--name", name, db=file).code == 0
    assert list(names(file))[-1] == "MINE"
    assert "mine" not in names(file)


def test_what_ships_is_never_replaced(refused, file, mine, tmp_path):
    before = file.read_bytes()
    refused("import", "table", mine, "--name", "ptx-isa-9.4", db=file, words=("ships", "another name (--name)"))
    lines = TABLE.splitlines()
    (tmp_path / "two.csv").write_text(f"{lines[0]},source\n{lines[1]},new\n{lines[1]},ptx-isa-9.4\n")
    refused("import", "table", tmp_path / "two.csv", db=file, words=("ships",))
    refused("import", "table", tmp_path / "two.csv", "--name", "x", db=file, words=("new, ptx-isa-9.4",))
    assert file.read_bytes() == before


def test_from_python(file, mine):
    (imported,) = lanemap.open(str(file)).import_layouts("table", str(mine))
    assert (imported.source.name, imported.rows, list(imported.skipped)) == ("mine", 1, [])
    with pytest.raises(lanemap.LanemapError, match="choose from capture, cute, python, table"):
        lanemap.open(str(file)).import_layouts("tritonn")


def test_the_command_offers_every_kind(run):
    from lanemap.cli import load

    assert load._kinds(None, "") == ["capture", *IMPORTERS]
    assert load._kinds(None, "T") == ["table"]
    shown = " ".join(run("import", "--help").out.split())
    assert ", ".join(["capture", *IMPORTERS]) in shown


@pytest.mark.slow
def test_of_many_sources_an_unknown_name_gets_the_nearest(run, refused, tmp_path, own):
    table = tmp_path / "many.csv"
    rows = (f"m8n8k16,s8,A,0,0,0,0,0,library-{n}" for n in range(20))
    table.write_text("\n".join(["shape,type,role,lane,reg,slot,row,col,source", *rows, ""]))
    run("import", "table", table, db=own)
    for arguments in (
        ("show", "m8n8k16", "s8", "A", "--source", "libary-7"),
        ("remove", "libary-7"),
        ("diff", "libary-7"),
    ):
        result = run(*arguments, db=own)
        assert result.code == 2
        assert "library-7" in result.err
        assert "lanemap list sources" in result.err
        assert "ptx-isa" not in result.err
