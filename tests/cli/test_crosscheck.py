"""``diff`` and ``check``: exit codes, sides of every kind, every report, and every bad input."""

import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import lanemap
from lanemap.db.layout.fragment import Source
from lanemap.db.store.location import locate
from lanemap.db.store.store import load

from ..shipped import CORRECTED, PRINTED, SHIPPED, documents, recorded

CARD = "h200-sm_90a"
FORMATS = ["table", "markdown", "json", "html", "junit"]


@pytest.fixture(scope="session")
def built(built_for_a_warp):
    return built_for_a_warp


@pytest.fixture
def wrong(file, fragments) -> Path:
    """A database with an import that has one register of one operand wrong."""
    chosen = [
        fragment
        for fragment in fragments
        if (fragment.shape, fragment.type) == ("m16n8k16", "bf16") and fragment.instruction == "mma"
    ]
    table = chosen[0].elements.copy()
    table["col"][table["reg"] == 2] -= 8
    table["col_last"] = table["col"]
    load(locate(str(file)), [Source("theirs", "import", "theirs", [replace(chosen[0], elements=table), chosen[1]])])
    return file


@pytest.fixture
def little(few, tmp_path):
    """A database of a few fragments of each source."""
    place = tmp_path / "little.db"
    lanemap.open(place).close()
    return place


@pytest.mark.slow
def test_check_on_what_ships(run, whole):
    """One line for each source, what is known, and the verdict; the matrix only where it is asked for."""
    result = run("check", db=whole)
    assert (result.code, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    assert head.split()[:5] == ["source", "fragments", "agree", "known", "different"]
    assert [line.split()[0] for line in lines[: len(SHIPPED)]] == SHIPPED
    assert result.out.count("\n  known: ") == 5
    assert lines[-1].endswith(" 0 unexplained, 14 known")
    assert "identical" not in result.out
    assert max(len(line) for line in result.out.splitlines() if "known:" not in line) <= 80


@pytest.mark.slow
def test_strict_counts_what_is_known(run):
    assert run("check", "--strict").code == 1


def test_check_finds_an_import_that_is_wrong(run, wrong):
    result = run("check", "--against", "theirs", db=wrong)
    assert result.code == 1
    assert "h200-sm_90a: A of mma m16n8k16 bf16 reg 2: col is 8 too low 64 elements of 256:" in " ".join(
        result.out.split()
    )
    assert "theirs, A of mma m16n8k16 bf16: 64 cells are held" in result.out
    result = run("check", "--against", CARD, "--format", "json", db=wrong)
    assert result.code == 1
    assert json.loads(result.out)["unexplained"] == 3


def test_what_is_said_alike_of_several_types_and_sources_is_said_once(run, file, fragments):
    chosen = [fragment for fragment in fragments if fragment.key[:2] == ("mma", "m16n8k32") and fragment.role == "A"]
    chosen = [fragment for fragment in chosen if fragment.type in ("s8", "u8")]
    moved = [replace(fragment, elements=fragment.elements.copy()) for fragment in chosen]
    for fragment in moved:
        fragment.elements["row"] ^= 1
    load(locate(str(file)), [Source("theirs", "import", "Theirs", moved)])
    said = " ".join(run("check", "--against", "theirs", db=file).out.split())
    assert said.count("A of mma m16n8k32") == 1
    assert f"theirs against {', '.join(SHIPPED[:4] + SHIPPED[-2:-1])} and {CARD}: A of mma m16n8k32 s8 u8 lanes" in said


def test_a_correction_explains_itself(run):
    result = run("check", "--against", CORRECTED)
    assert (result.code, result.err) == (0, "")
    assert "0 unexplained, 8 known" in result.out


@pytest.mark.slow
def test_the_printed_document_is_known_under_any_name(run, file, sources):
    """An erratum corrects a layout, so a document read in again is as well known as the catalogue's."""
    load(locate(str(file)), [Source("read again", "document", "the document", sources[PRINTED].fragments)])
    assert run("check", db=file).code == 0


@pytest.mark.parametrize(
    "provenance",
    [
        {"instructions": [{"instruction": "mma", "status": "failed", "message": "it did not come back"}]},
        {"disagreements": ["it did not come back"]},
    ],
)
def test_a_capture_that_went_wrong_is_a_finding(run, little, provenance):
    load(locate(str(little)), [Source("card", "capture", "a card", [], provenance)])
    result = run("check", db=little)
    assert result.code == 1
    assert "it did not come back" in result.out


def stable(text):
    """A report without what changes from run to run, and without style and pictures."""
    text = re.sub(r"\d{4}-\d\d-\d\d|lanemap \d+\.\d+\.\d+| --output [^\s<\"]+", "...", text)
    return re.sub(r"<(style).*?</\1>|base64,[^\"]*", r"<\1/>", text, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_report_goes_to_a_file_as_to_stdout(run, tmp_path, form):
    path = tmp_path / "report"
    arguments = ("diff", PRINTED, CARD, "m16n8k8", "--format", form)
    assert run(*arguments, "--output", path).out == ""
    assert stable(path.read_text()).replace("...", "") == stable(run(*arguments).out).replace("...", "")
    assert list(tmp_path.iterdir()) == [path]


def test_json_has_every_element(run):
    report = json.loads(run("diff", PRINTED, CARD, "m16n8k256", "--format", "json").out)
    told = {fragment["role"]: fragment for fragment in report["comparisons"][0]["fragments"]}
    assert [len(told[role]["elements"]) for role in "ABCD"] == [1024, 0, 0, 0]
    assert all(element["left_col"] == element["right_col"] + 32 for element in told["A"]["elements"])
    assert not report["agree"]


def test_all_lists_every_element(run):
    arguments = ("diff", PRINTED, CARD, "m16n8k256")
    assert len(run(*arguments, "--all").out.splitlines()) > 1024
    assert "and 1016 more elements" in run(*arguments).out


def test_html_needs_nothing_else_and_says_where_it_is_from(run):
    page = run("diff", PRINTED, CARD, "--format", "html").out
    assert not re.search(r"<script|<link|https?:|url\(|@import|src=(?!\"data:image/svg)", page)
    assert page.startswith("<!doctype html>")
    assert page.count("<img") == 2
    for words in ("lanemap diff ptx-isa-9.4 h200-sm_90a --format html", "580.159.04", "section 9.7.16.5.13"):
        assert words in page
    parser = HTMLParser()
    parser.feed(page)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_what_comes_from_outside_is_shown_and_not_obeyed(run, little, fragments, form):
    """The reason of an erratum and the title of a source, with all that could steer a page, a table or a terminal."""
    bad = "<script>alert(1)</script> | [x](http://y) `z` *b* \x1b[31m \u202e\u009b & \\"
    wrong = [
        replace(fragment, citation=fragment.citation._replace(erratum=bad), elements=fragment.elements[1:])
        for fragment in fragments[:1]
    ]
    sources = [
        Source("doc", "document", bad.replace("\x1b", "").replace("\u202e\u009b", ""), fragments[:3]),
        Source("doc+errata", "document", "corrected", [*wrong, *fragments[1:3]]),
        Source("theirs", "import", "theirs", [*wrong, *fragments[1:3]]),
    ]
    load(locate(str(little)), sources)
    result = run("check", "--against", "theirs", "--format", form, db=little)
    text = result.out
    assert not {"\x1b", "\u202e", "\u009b"} & set(text)
    if form in ("markdown", "html", "junit"):
        assert "<script>" not in text
    if form == "markdown":
        shown = MarkdownIt("commonmark").enable("table").render(text)
        assert "<" not in text
        assert not re.search("<script|<a href|<code>z|<em>b", shown)
        assert "alert(1)" in shown
    if form == "junit":
        ElementTree.fromstring(text.encode())


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("check", "--all"), ("diff", PRINTED, CARD), ("diff", CARD, CORRECTED, "--all")])
def test_nothing_is_wider_than_80_columns(run, wrong, arguments):
    lines = run(*arguments, db=wrong).out.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_long_names_are_not_broken(run, tmp_path):
    folder = tmp_path / "-".join(["a folder"] * 12)
    folder.mkdir()
    exported = folder / "printed.parquet"
    run("export", "--source", PRINTED, "--output", exported)
    lines = run("diff", exported, CARD).out.splitlines()
    broken = [line for line in lines if len(line) > 80]
    assert all(" " not in line.strip() for line in broken)
    assert any("printed.parquet" in line for line in lines)


def test_a_file_with_a_few_fragments_is_summarised(run, tmp_path):
    exported = tmp_path / "few.csv"
    run("export", "--shape", "m16n8k16", "--type", "f16", "--instruction", "mma", "--source", CORRECTED, "-o", exported)
    lines = run("diff", exported, CORRECTED).out.splitlines()
    there = [one for one in documents()[CORRECTED].with_rows if not one.shape.startswith(("m64n", "m128n"))]
    assert f"{len(there) - 4} fragments are not in" in " ".join(lines)
    assert len(lines) < 12


@pytest.mark.slow
def test_nothing_in_common_is_bad_input(refused, run, file, tmp_path):
    """A table whose type is a wrong one agrees with everything, so it is compared with nothing."""
    exported = tmp_path / "theirs.csv"
    run("export", "--shape", "m16n8k16", "--type", "f16", "--source", CORRECTED, "--output", exported)
    right = exported.read_text()
    exported.write_text(right.replace(",f16,", ",f61,"))
    refused("diff", exported, CARD, words=("row 1: 'f61' is not a type: did you mean f64?",))
    exported.write_text(right.replace(",f16,", ",b8,"))
    refused("diff", exported, CARD, words=("mma m16n8k16 has no A of b8: its types are bf16, ",))
    exported.write_text(right.replace(",mma", ",mmma"))
    refused("diff", exported, CARD, words=("nothing to compare", "mmma"))
    assert run("import", "table", exported, "--name", "theirs", db=file).code == 0
    for arguments in ((), ("--against", "theirs")):
        result = run("check", *arguments, db=file)
        assert result.code == 1
        assert "unjudged" in result.out


@pytest.mark.slow
def test_what_is_out_of_range_is_compared_as_far_as_it_goes(run, file, tmp_path):
    """And shown: no command fails on what a table holds."""
    exported = tmp_path / "theirs.csv"
    operand = ("--shape", "m16n8k16", "--type", "f16", "--role", "A", "--instruction", "mma")
    run("export", *operand, "--source", CORRECTED, "--output", exported)
    head, *rows = exported.read_text().splitlines()
    columns = head.split(",")
    table = [dict(zip(columns, row.split(","), strict=True)) | {"source": "theirs"} for row in rows]
    for row in table:
        row["row"] = str(int(row["row"]) + 20) if row["lane"] == "3" else row["row"]
        row["lane"] = "40" if row["lane"] == "5" else row["lane"]
    exported.write_text("\n".join([head, *(",".join(row[name] for name in columns) for row in table)]) + "\n")
    result = run("diff", exported, CARD)
    words = " ".join(result.out.split())
    assert result.code == 1
    for said in ("absent on the left: lane 5", "absent on the right: lane 40", "outside 0..15 (lane 3)", "20 too high"):
        assert said in words
    assert run("import", "table", exported, "--name", "theirs", db=file).code == 0
    for form in FORMATS:
        assert run("check", "--against", "theirs", "--format", form, db=file).code == 1
    theirs = ("m16n8k16", "f16", "A", "--source", "theirs")
    assert [run("show", *theirs, "--by", by, db=file).code for by in ("element", "lane")] == [0, 0]
    assert run("draw", *theirs, "--output", tmp_path / "theirs.svg", db=file).code == 0


@pytest.mark.slow
def test_two_captures_are_compared(run, file, sources):
    """Another driver, or another card: with one register of one operand wrong."""
    captured = recorded()
    captured = replace(
        captured, fragments=[fragment for fragment in captured.fragments if fragment.instruction == "mma"]
    )
    load(locate(str(file)), [replace(captured, name="other")])
    report = json.loads(run("check", "--format", "json", db=file).out)
    assert (CARD, "other") in {(comparison["left"], comparison["right"]) for comparison in report["comparisons"]}
    assert report["agree"]
    table = captured.fragments[0].elements.copy()
    table["row"][table["lane"] == 3] += 1
    broken = [replace(captured.fragments[0], elements=table), *captured.fragments[1:]]
    load(locate(str(file)), [replace(captured, name="other", fragments=broken)])
    report = json.loads(run("check", "--format", "json", db=file).out)
    (pair,) = (
        comparison
        for comparison in report["comparisons"]
        if (comparison["left"], comparison["right"]) == (CARD, "other")
    )
    assert [fragment["words"] for fragment in pair["fragments"] if fragment["verdict"] == "different"] == [
        "lane 3: row is 1 too low"
    ]


@pytest.mark.slow
def test_junit_is_read_by_junitparser(run, whole):
    junitparser = pytest.importorskip("junitparser")
    report = junitparser.JUnitXml.fromstring(run("check", "--format", "junit", db=whole).out.encode())
    suites = {suite.name: suite for suite in report}
    suite = suites[f"{PRINTED} against {CARD}"]
    assert (suite.tests, suite.failures, suite.skipped) == (6798, 0, 5835)
    report = junitparser.JUnitXml.fromstring(run("diff", PRINTED, CARD, "--format", "junit").out.encode())
    failed = [
        case
        for suite in report
        for case in suite
        if any(type(failure).__name__ == "Failure" for failure in case.result)
    ]
    assert [case.name for case in failed] == ["A of mma m16n8k256 b1", "D of movmatrix m8n8 b16 trans"]
    assert "reg 1: col is 32 too high" in failed[0].result[0].message
    # Of two sources that are compared, the cases are what the first one has.
    sides = ("diff", CARD, PRINTED, "m16n8k32", "--format")
    report = junitparser.JUnitXml.fromstring(run(*sides, "junit").out.encode())
    names = [case.name for suite in report for case in suite]
    there = json.loads(run(*sides, "json").out)["comparisons"][0]["fragments"]
    assert len(names) == sum(fragment["verdict"] != "right only" for fragment in there) < len(there)


@pytest.mark.slow
def test_annotations_are_commands_of_a_workflow(run):
    """Each is one line, and names no file where none is known. In a check, what an erratum explains is none."""
    said = run("diff", PRINTED, CORRECTED, "m16n8k256", "--format", "github").out
    words = f"{PRINTED} against {CORRECTED}: reg 1: col is 32 too high"
    assert said == f"::error title=A of mma m16n8k256 b1::{words}\n"
    assert "::error" not in run("check", "--against", CARD, "--format", "github").out
    lines = run("diff", PRINTED, CARD, "m16n8k64", "--format", "github").out.splitlines()
    assert lines
    assert all(line.startswith("::warning title=") for line in lines)


@pytest.mark.parametrize("command", [("check",), ("diff", PRINTED, CARD)])
def test_junit_is_what_jenkins_accepts(run, command):
    """Against the schema that Jenkins' xUnit plugin checks its input with."""
    if not (schema := os.environ.get("LANEMAP_JUNIT_XSD")):
        pytest.skip("LANEMAP_JUNIT_XSD does not name the schema of Jenkins' xUnit plugin (junit-10.xsd)")
    import xmlschema

    xmlschema.XMLSchema(schema).validate(ElementTree.fromstring(run(*command, "--format", "junit").out.encode()))


@pytest.mark.slow
def test_a_side_may_be_a_capture_or_an_export(run, tmp_path):
    recording = str(lanemap._recordings()[0])
    assert run("diff", CARD, recording).code == 0
    for form in ("csv", "parquet", "arrow"):
        exported = tmp_path / f"printed.{form}"
        run("export", "--source", PRINTED, *("--instruction", "mma"), "--output", exported)
        assert run("diff", PRINTED, exported, "mma").code == 0
    assert run("diff", exported, CARD).code == 1
    assert run("diff", exported, exported).code == 0


@pytest.mark.slow
def test_what_follows_a_source_is_another_one_or_an_operand(run, refused, tmp_path, monkeypatch):
    """Also a file that is called like a role. What is neither is said to be no source."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(lanemap._recordings()[0], "b")
    assert run("diff", PRINTED, "b", "m16n8k256", "b1", "A").out.startswith(f"{PRINTED} against b: 1 different")
    assert run("diff", PRINTED, "B", "m16n8k256", "b1").out.startswith(f"{PRINTED} against the best evidence: 1 ide")
    assert run("diff", PRINTED, CARD.upper(), "m16n8k256", "b1", "B").code == 0
    refused("diff", PRINTED, "ptx-isa-9.7", "m16n8k256", words=("ptx-isa-9.7 is neither a source nor a file",))
    refused("diff", PRINTED, CARD, CORRECTED, words=(f"have no fragment of {CORRECTED} in common",))
    refused("diff", PRINTED, "16816", "A", words=("no elements of 16816 A", "did you mean m16n8k16?"))
    refused("diff", PRINTED, CARD, "amd", words=("have no fragment of amd in common: no source has instructions",))
    assert run("diff", PRINTED, "nvidia", "--allow-unjudged").out == run("diff", PRINTED, "--allow-unjudged").out
    refused("diff", PRINTED, "m16n8k16", "", words=("a word of the operand is empty",))
    refused("diff", PRINTED, CARD, "nobody", words=("have no fragment of nobody in common",))
    refused("diff", PRINTED, "HMMA.16816.F3", words=("did you mean HMMA.16816.F16",))
    refused("diff", PRINTED, "m16n8k77", "f16", words=("nothing to compare",))
    shutil.copy("b", "m16n8k256")
    assert run("diff", PRINTED, "b", "m16n8k256", "b1", "A").out.startswith(f"{PRINTED} against b: 1 different")
    assert "A of mma m16n8k256 b1" in run("report", PRINTED, "m16n8k256", "b1").out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["amd", "A", "dpas", "theirs:shared memory", "theirs:mma f16"])
def test_the_name_of_a_source_is_no_operand(run, wrong, fragments, name):
    """As in Python and HTTP, whatever else it may be the name of."""
    copy = next(one for one in fragments if (one.instruction, one.shape, one.type) == ("mma", "m16n8k16", "bf16"))
    other = replace(copy, instruction="dpas")
    load(locate(str(wrong)), [Source(name, "import", name, [copy, other])])
    compared = run("diff", "theirs", name.upper(), "m16n8k16", db=wrong)
    assert (compared.code, compared.out.partition(":")[0]) == (1, "theirs against " + name.partition(":")[0])
    assert f"theirs against {name}: A of mma m16n8k16 bf16" in compared.out
    assert run("report", "theirs", name, "mma", db=wrong).out.count(f"theirs, {name}\n") == 1


@pytest.mark.slow
def test_a_role_alone_is_that_of_every_instruction(run, database):
    """In registers, as in a look-up."""
    for role in "ABCD":
        found = database.diff(PRINTED, operand=role).frame()
        assert {*found["role"]} == {role}
        assert {"mma", "mma.sp"} <= {*found["instruction"]}
    assert "A of mma m16n8k256 b1" in run("diff", PRINTED, "a").out
    assert "A of mma m16n8k256 b1" in run("report", PRINTED, "A").out


@pytest.mark.slow
def test_what_a_document_has_for_many_shapes_is_compared_for_each(run, refused, whole):
    """Of B of wgmma a document says once for all N where the elements lie."""
    for operand, roles in (("m64n64k16 f16 B 128B.K", "B"), ("m64n8k16 f16 A none.K", "A"), ("m64n64k16 f16", "AB")):
        with lanemap.open(whole) as database:
            found = database.diff(PRINTED, operand=operand).frame()
        assert {*found["shape"]} == {operand.split()[0]}
        assert {*found["role"]} == {*roles}
        assert run("diff", PRINTED, operand, db=whole).code == 0
    refused("diff", PRINTED, "f32", db=whole, words=(f"{PRINTED} has no elements of f32",))
    refused("diff", PRINTED, CARD, "f32", db=whole, words=("have no fragment of f32 in common",))


@pytest.mark.slow
def test_a_side_may_be_anyones_table(run, tmp_path):
    """Eight columns are enough, in any order."""
    exported = tmp_path / "theirs.csv"
    query = (
        "SELECT col, row, slot, reg, lane, role, type, shape FROM layout WHERE shape = 'm16n8k16' AND type = 'f16' "
        f"AND instruction = 'mma' AND source = '{CORRECTED}'"
    )
    exported.write_text(run("sql", query, "--format", "csv").out)
    result = run("diff", exported, CARD, "mma", "m16n8k16", "f16")
    assert result.code == 0
    assert "4 identical" in " ".join(result.out.split())


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"shape,type,role,lane,reg,slot,row\nm8n8k4,f64,A,0,0,0,0\n", "col"),
        (b"shape,type,role,lane,reg,slot,row,col\n" + b"m8n8k4,f64,A,0,0,0,0,0\n" * 2, "two rows"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,x,0,0,0,0\n", "lane"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,3200,0,0,0,0\n", "lane"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,0,0,0,-8,0\n", "row"),
        (b"", "empty"),
        (b"PAR1 and then nothing that is Parquet PAR1", "Parquet"),
    ],
)
def test_a_bad_file_is_one_line(refused, tmp_path, content, words):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    refused("diff", PRINTED, path, words=(words,))


@pytest.mark.slow
def test_a_truncated_file_is_one_line(refused, run, tmp_path):
    whole = tmp_path / "whole.parquet"
    run("export", "--source", PRINTED, "--output", whole)
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-100])
    refused("diff", PRINTED, tmp_path / "cut.parquet", words=("cut.parquet",))
    (tmp_path / "cut.parquet").write_bytes(lanemap._recordings()[0].read_bytes()[:-100])
    refused("diff", PRINTED, tmp_path / "cut.parquet", words=("cut.parquet",))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("diff", PRINTED, "nobody"), ("nobody is neither a source nor a file", CARD)),
        (("diff",), ("missing argument", "LEFT")),
        (("diff", PRINTED, CARD, "m1n1k1"), ("nothing to compare", "of m1n1k1 in common")),
        (("diff", PRINTED, CARD, "--format", "xml"), ("xml", "junit")),
        (("diff", PRINTED, CARD, "--output", "/no/such/report"), ("/no/such/report",)),
        (("check", "--against", "nobody"), ("no source 'nobody'", CARD)),
    ],
)
def test_bad_input_is_one_line(refused, arguments, words):
    refused(*arguments, words=words)


def test_several_sources_in_one_file_must_be_told_apart(refused, run, tmp_path):
    run("export", "--source", "all", "--shape", "m16n8k8", "--output", tmp_path / "all.parquet")
    refused("diff", PRINTED, tmp_path / "all.parquet", words=(PRINTED, CARD, "--source"))


@pytest.mark.slow
def test_import_a_capture_and_compare_it(run, refused, whole, tmp_path):
    file = shutil.copy2(whole, tmp_path)
    recording = str(lanemap._recordings()[0])
    refused("import", "capture", recording, db=file, words=(SHIPPED[-2], "--name"))
    assert run("import", "capture", recording, "--name", "mine", db=file).code == 0
    assert run("diff", "mine", CARD, db=file).code == 0
    assert "mine" in run("check", db=file).out


def test_a_table_of_windows_says_where_they_end(run):
    """A capture's sparse A against the document: refined, in both directions."""
    for left, right in ((CORRECTED, CARD), (CARD, CORRECTED)):
        report = json.loads(run("diff", left, right, "mma.sp", "A", "--format", "json").out)
        told = report["comparisons"][0]["fragments"]
        narrower = {fragment["narrower"] for fragment in told if fragment["verdict"] == "refined"}
        assert narrower == {"right" if right == CARD else "left"}


def test_a_sparse_table_without_windows_is_not_judged(run, tmp_path, fragments):
    """It may name single columns, or the first ones of windows: the report says so, and nothing agrees."""
    a = next(one for one in fragments if one.key[:4] == ("mma.sp", "m16n8k16", "f16", "A") and one.has_rows)
    rows = [f"m16n8k16,f16,A,{e.lane},{e.reg},{e.slot},{e.row},{e.col},mma.sp" for e in a.records()]
    (tmp_path / "mine.csv").write_text("\n".join(["shape,type,role,lane,reg,slot,row,col,instruction", *rows]) + "\n")
    found = run("diff", str(tmp_path / "mine.csv"), "mma.sp", "A")
    assert found.code == 1
    assert "A of mma.sp m16n8k16 f16 (the left has no col_last: each of its columns may" in " ".join(found.out.split())
    annotated = run("diff", str(tmp_path / "mine.csv"), "mma.sp", "A", "--format", "github").out
    assert "the left has no col_last" in annotated


def test_a_relabelled_import_is_told_with_its_permutation(run, file, fragments):
    import numpy as np

    swapped = np.asarray([(i & 5) | (i & 2) << 2 | (i & 8) >> 2 for i in range(16)])
    right = []
    for fragment in fragments:
        if fragment.instruction == "mma" and fragment.shape == "m16n8k16" and fragment.type in ("f16", "f32"):
            table = fragment.elements.copy()
            name = {"A": "col", "B": "row"}.get(fragment.role)
            if name:
                table[name] = swapped[table[name]]
                table["col_last"] = table["col"]
            right.append(replace(fragment, elements=table))
    load(locate(str(file)), [Source("theirs", "import", "theirs", right)])
    result = run("diff", "theirs", CORRECTED, "mma", "m16n8k16", db=file)
    assert result.code == 0
    assert "A of mma m16n8k16 f16: k: swap bits 1 and 3" in result.out
    assert "B of mma m16n8k16 f16: k: swap bits 1 and 3" in result.out
    for form in ("table", "markdown", "html"):
        report = run("diff", "theirs", CORRECTED, "m16n8k16", "--format", form, db=file).out
        numbers = " ".join(map(str, swapped))
        assert f"K 0-15 on the left is on the right: {numbers}" in " ".join(report.split())
