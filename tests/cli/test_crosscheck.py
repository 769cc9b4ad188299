"""``diff`` and ``check``: exit codes, sides of every kind, every report, and every bad input."""

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import lanemap
from lanemap.db.fragment import Source
from lanemap.db.location import locate
from lanemap.db.store import load

PRINTED, CORRECTED, CARD = "ptx-isa-9.1", "ptx-isa-9.1+errata", "h200-sm_90a"
FORMATS = ["table", "markdown", "json", "html", "junit"]


@pytest.fixture
def wrong(file, fragments) -> Path:
    """A database with an import that has one register of one operand wrong."""
    from dataclasses import replace

    chosen = [
        each for each in fragments if (each.shape, each.type) == ("m16n8k16", "bf16") and each.instruction == "mma"
    ]
    table = chosen[0].elements.copy()
    table["col"][table["reg"] == 2] -= 8
    table["col_last"] = table["col"]
    load(locate(str(file)), [Source("theirs", "import", "theirs", [replace(chosen[0], elements=table), chosen[1]])])
    return file


def test_check_on_what_ships(run, snapshot):
    result = run("check")
    assert (result.code, result.err) == (0, "")
    assert result.out == snapshot
    assert max(len(line) for line in result.out.splitlines() if "known:" not in line) <= 80


def test_strict_counts_what_is_known(run):
    assert run("check", "--strict").code == 1


def test_check_finds_an_import_that_is_wrong(run, wrong, snapshot):
    result = run("check", "--against", "theirs", db=wrong)
    assert result.code == 1
    assert result.out == snapshot
    assert run("check", "--against", CARD, db=wrong).code == 1
    assert json.loads(run("check", "--against", CARD, "--format", "json", db=wrong).out)["unexplained"] == 3


def test_a_correction_explains_itself(run):
    result = run("check", "--against", CORRECTED)
    assert (result.code, result.err) == (0, "")
    assert "0 unexplained, 3 known" in result.out


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
def test_a_capture_that_went_wrong_is_a_finding(run, file, provenance):
    load(locate(str(file)), [Source("card", "capture", "a card", [], provenance)])
    result = run("check", db=file)
    assert result.code == 1
    assert "it did not come back" in result.out


def stable(text):
    """A report without what changes from run to run, and without style and pictures."""
    text = re.sub(r"\d{4}-\d\d-\d\d|lanemap \d+\.\d+\.\d+| --output [^\s<\"]+", "...", text)
    return re.sub(r"<(style|svg).*?</\1>", r"<\1/>", text, flags=re.DOTALL)


@pytest.mark.parametrize("form", FORMATS)
def test_reports(run, snapshot, form):
    result = run("diff", PRINTED, CARD, "--shape", "m16n8k256", "--format", form)
    assert result.code == 1
    text = result.out
    if form == "json":
        text = re.sub(r'"elements": \[\s+\{.*?\}\s+\]', '"elements": [...]', text, flags=re.DOTALL)
    assert stable(text) == snapshot


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_goes_to_a_file_as_to_stdout(run, tmp_path, form):
    path = tmp_path / "report"
    arguments = ("diff", PRINTED, CARD, "--shape", "m16n8k8", "--format", form)
    assert run(*arguments, "--output", path).out == ""
    assert stable(path.read_text()).replace("...", "") == stable(run(*arguments).out).replace("...", "")
    assert list(tmp_path.iterdir()) == [path]


def test_json_has_every_element(run):
    report = json.loads(run("diff", PRINTED, CARD, "--shape", "m16n8k256", "--format", "json").out)
    told = {each["role"]: each for each in report["comparisons"][0]["fragments"]}
    assert [len(told[role]["elements"]) for role in "ABCD"] == [1024, 0, 0, 0]
    assert all(each["left_col"] == each["right_col"] + 32 for each in told["A"]["elements"])
    assert not report["agree"]


def test_all_lists_every_element(run):
    arguments = ("diff", PRINTED, CARD, "--shape", "m16n8k256")
    assert len(run(*arguments, "--all").out.splitlines()) > 1024
    assert "and 1016 more elements" in run(*arguments).out


def test_html_needs_nothing_else(run):
    page = run("check", "--format", "html").out
    assert not re.search(r"<script|<link|<img|https?:|url\(|@import|src=", page)
    assert page.startswith("<!doctype html>")


def test_junit_is_read_by_junitparser(run):
    junitparser = pytest.importorskip("junitparser")
    report = junitparser.JUnitXml.fromstring(run("check", "--format", "junit").out.encode())
    suites = {suite.name: suite for suite in report}
    suite = suites[f"{PRINTED} against {CARD}"]
    assert (suite.tests, suite.failures, suite.skipped) == (204, 0, 59)
    report = junitparser.JUnitXml.fromstring(run("diff", PRINTED, CARD, "--format", "junit").out.encode())
    failed = [
        case for suite in report for case in suite if any(type(each).__name__ == "Failure" for each in case.result)
    ]
    assert [case.name for case in failed] == ["A of mma m16n8k256 b1"]
    assert "reg 1: col is 32 too high" in failed[0].result[0].message


@pytest.mark.parametrize("command", [("check",), ("diff", PRINTED, CARD)])
def test_junit_is_what_jenkins_accepts(run, command):
    """Against the schema that Jenkins' xUnit plugin checks its input with."""
    if not (schema := os.environ.get("LANEMAP_JUNIT_XSD")):
        pytest.skip("LANEMAP_JUNIT_XSD does not name the schema of Jenkins' xUnit plugin (junit-10.xsd)")
    import xmlschema

    xmlschema.XMLSchema(schema).validate(ElementTree.fromstring(run(*command, "--format", "junit").out.encode()))


def test_a_side_may_be_a_capture_or_an_export(run, tmp_path):
    recording = str(lanemap._recordings()[0])
    assert run("diff", CARD, recording).code == 0
    for form in ("csv", "parquet", "arrow"):
        exported = tmp_path / f"printed.{form}"
        run("export", "--source", PRINTED, "--output", exported)
        assert run("diff", PRINTED, exported).code == 0
        assert run("diff", exported, CARD).code == 1
        assert run("diff", exported, exported).code == 0


def test_a_side_may_be_anyones_table(run, tmp_path):
    """Eight columns are enough, in any order."""
    exported = tmp_path / "theirs.csv"
    query = (
        "SELECT col, row, slot, reg, lane, role, type, shape FROM layout WHERE shape = 'm16n8k16' AND type = 'f16' "
        f"AND instruction = 'mma' AND source = '{CORRECTED}'"
    )
    exported.write_text(run("sql", query, "--format", "csv").out)
    result = run("diff", exported, CARD, "--shape", "m16n8k16", "--type", "f16", "--instruction", "mma")
    assert result.code == 0
    assert "4 identical" in result.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"shape,type,role,lane,reg,slot,row\nm8n8k4,f64,A,0,0,0,0\n", "col"),
        (b"shape,type,role,lane,reg,slot,row,col\n" + b"m8n8k4,f64,A,0,0,0,0,0\n" * 2, "two rows"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,x,0,0,0,0\n", "lane"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,32,0,0,0,0\n", "lane"),
        (b"shape,type,role,lane,reg,slot,row,col\nm8n8k4,f64,A,0,0,0,8,0\n", "row"),
        (b"", "empty"),
        (b"PAR1 and then nothing that is Parquet PAR1", "Parquet"),
    ],
)
def test_a_bad_file_is_one_line(refused, tmp_path, content, words):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    refused("diff", PRINTED, path, words=(words,))


def test_a_truncated_file_is_one_line(refused, run, tmp_path):
    whole = tmp_path / "whole.parquet"
    run("export", "--source", PRINTED, "--output", whole)
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-100])
    refused("diff", PRINTED, tmp_path / "cut.parquet", words=("cut.parquet",))
    (tmp_path / "cut.parquet").write_bytes(lanemap._recordings()[0].read_bytes()[:-100])
    refused("diff", PRINTED, tmp_path / "cut.parquet", words=("cut.parquet",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("diff", PRINTED, "nobody"), ("nobody is neither a source nor a file", CARD)),
        (("diff", PRINTED), ("Missing argument", "RIGHT")),
        (("diff", PRINTED, CARD, "--shape", "m1n1k1"), ("nothing to compare", "of m1n1k1 in common")),
        (("diff", PRINTED, CARD, "--format", "xml"), ("xml", "junit")),
        (("diff", PRINTED, CARD, "--output", "/no/such/report"), ("/no/such/report",)),
        (("check", "--against", "nobody"), ("no source 'nobody'", CARD)),
    ],
)
def test_bad_input_is_one_line(refused, arguments, words):
    refused(*arguments, words=words)


def test_several_sources_in_one_file_must_be_told_apart(refused, run, tmp_path):
    run("export", "--output", tmp_path / "all.parquet")
    refused("diff", PRINTED, tmp_path / "all.parquet", words=(PRINTED, CARD, "--source"))


def test_import_a_capture_and_compare_it(run, refused, file):
    recording = str(lanemap._recordings()[0])
    refused("import", "capture", recording, db=file, words=("h200-sm_90a", "--name"))
    assert run("import", "capture", recording, "--name", "mine", db=file).code == 0
    assert run("diff", "mine", CARD, db=file).code == 0
    assert "mine" in run("check", db=file).out


def test_a_table_of_windows_says_where_they_end(run):
    """A capture's sparse A against the document: refined, in both directions."""
    for left, right in ((CORRECTED, CARD), (CARD, CORRECTED)):
        report = json.loads(run("diff", left, right, "--instruction", "mma.sp", "--role", "A", "--format", "json").out)
        told = report["comparisons"][0]["fragments"]
        narrower = {each["narrower"] for each in told if each["verdict"] == "refined"}
        assert narrower == {"right" if right == CARD else "left"}


def test_a_relabelled_import_is_told_with_its_permutation(run, file, fragments):
    from dataclasses import replace

    import numpy as np

    swapped = np.asarray([(i & 5) | (i & 2) << 2 | (i & 8) >> 2 for i in range(16)])
    right = []
    for each in fragments:
        if each.instruction == "mma" and each.shape == "m16n8k16" and each.type in ("f16", "f32"):
            table = each.elements.copy()
            name = {"A": "col", "B": "row"}.get(each.role)
            if name:
                table[name] = swapped[table[name]]
                table["col_last"] = table["col"]
            right.append(replace(each, elements=table))
    load(locate(str(file)), [Source("theirs", "import", "theirs", right)])
    result = run("diff", "theirs", CORRECTED, "--instruction", "mma", "--shape", "m16n8k16", db=file)
    assert result.code == 0
    assert "A of mma m16n8k16 f16: k: swap bits 1 and 3" in result.out
    assert "B of mma m16n8k16 f16: k: swap bits 1 and 3" in result.out
