"""``lanemap report``: what is wrong in a document that ships, as each format, and what it refuses."""

import json
import re

import pytest

import lanemap


@pytest.mark.slow
def test_the_defects_of_the_printed_document(run):
    result = run("report", "ptx-isa-9.4")
    assert result.code == 1
    assert re.findall(r"^\| Parallel[^|]* \| ([^|]*) \| ([^|]*) \|", result.out, re.MULTILINE) == [
        ("A of mma m16n8k256 b1", "wrong product"),
        ("A of mma m16n8k16 f64", "editorial"),
        ("D of movmatrix m8n8 b16 trans", "editorial"),
    ]
    assert len([line for line in result.out.splitlines() if line.startswith("## ")]) == 3
    assert "- **effect**: 64 of 128 elements of D are wrong, in rows 8-15\n" in result.out
    assert "added the closing bracket" in result.out


@pytest.mark.slow
def test_the_corrected_document_and_the_capture_have_none(run):
    for source in ("ptx-isa-9.4+errata", "h200-sm_90a"):
        result = run("report", source, "--format", "json")
        assert (result.code, json.loads(result.out)["defects"]) == (0, [])
        read = run("report", source)
        assert (read.code, read.out.splitlines()[-1], "|" in read.out) == (0, "Nothing wrong was found.", False)
        page = run("report", source, "--format", "html").out
        assert "<p>Nothing wrong was found.</p>" in page
        assert "<table" not in page


@pytest.mark.slow
def test_one_operand_to_a_file(run, tmp_path):
    file = tmp_path / "defect.html"
    result = run("report", "PTX-ISA-9.4", "m16n8k256", "b1", "A", "--format", "HTML", "--output", file)
    assert (result.code, result.out) == (1, "")
    page = file.read_text()
    assert page.count("<h2>") == page.count("<img") == 1


@pytest.mark.slow
def test_an_issue_for_each_defect(run):
    result = run("report", "ptx-isa-9.4", "--format", "issue")
    issues = result.out.split("\n---\n")
    assert (result.code, len(issues)) == (1, 3)
    assert all(text.lstrip().startswith("# ") and "- **where**: " in text for text in issues)
    (one,) = run("report", "ptx-isa-9.4", "m16n8k256", "b1", "A", "--format", "issue").out.split("\n---\n")
    assert one.strip() == issues[0].strip()


@pytest.mark.slow
def test_database_reports_the_same(run, built):
    with lanemap.open(str(built)) as database:
        assert database.report("ptx-isa-9.4").report() == run("report", "ptx-isa-9.4").out


@pytest.mark.slow
def test_bad_usage(refused):
    refused("report", "nothing", words=("no source 'nothing'", "ptx-isa-9.4"))
    refused("report", "ptx-isa-9.4", "--format", "table", words=("defects are reported as markdown, html, json",))
    refused("report", "ptx-isa-9.4", "m16n8k77", "f16", "A", words=("m16n8k77",))
