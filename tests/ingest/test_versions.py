"""A version of a document: a folder with what it changed, beside the versions that have all else."""

import csv
import io
import json
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap import ingest
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue

from ..shipped import NUMBERED, PRINTED
from ..test_readme import write_kernels
from .copies import asked, copied

FOLDER = Path(lanemap.__file__).parent / "ingest" / "catalogue"
DOCUMENT = f"""
title = "Parallel Thread Execution ISA"
version = "9.9"
publisher = "NVIDIA"
as_in = "{PRINTED}"
sections = {{ "9.7.16" = "9.7.17", "9.7.17" = "9.7.18", "9.7.16.6" = "9.7.17.7" }}
figures = {{ 45 = 2, 60 = 1 }}
"""
NEW = """
section = "9.7.17.5.18"
anchor = "warp-level-matrix-fragment-mma-16832-float"
instruction = "mma"
shape = "m16n8k32"

[[fragment]]
roles = ["A"]
types = ["f16"]
registers = 8
slots = 2
figures = { 108 = "mma-16832-a-f16" }
formula = '''
groupID = %laneid >> 2
threadID_in_group = %laneid % 4
row = groupID + (i >> 1 & 0x1) * 8
col = (threadID_in_group * 2) + (i & 0x1) + (i >> 2) * 8
'''
"""


def changed(folder, name, *replaced):
    """A section of an earlier version in a later one: with the later one's numbers, some words replaced."""
    text = (FOLDER / "ptx-isa-9.1" / name).read_text().replace('"9.7.14.', '"9.7.17.')
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text)


@pytest.fixture
def version(tmp_path):
    """A copy of the package with version 9.9: a formula changed, a section added, an erratum less."""
    package = copied(tmp_path)
    folder = package / "ingest" / "catalogue" / "ptx-isa-9.9"
    folder.mkdir()
    (folder / "document.toml").write_text(DOCUMENT)
    (folder / "mma-16832-float.toml").write_text(NEW)
    changed(folder, "mma-8816.toml", ("col = (threadID_in_group * 4) + i", "col = threadID_in_group + (i * 4)"))
    a = tomllib.loads((FOLDER / "ptx-isa-9.1" / "mma-168256.toml").read_text())["fragment"][0]
    text = (FOLDER / "ptx-isa-9.1" / "mma-168256.toml").read_text()
    erratum = text[text.index("[fragment.erratum]") : text.index("[[fragment]]", text.index("[fragment.erratum]"))]
    changed(folder, "mma-168256.toml", (erratum, ""), (a["formula"], a["erratum"]["formula"]))
    return package


@pytest.fixture
def read(version, monkeypatch):
    """The sources of the copy, read in this process."""
    monkeypatch.setattr(ingest, "__file__", str(version / "ingest" / "__init__.py"))
    monkeypatch.setattr(catalogue, "files", lambda _: version / "ingest" / "catalogue")
    for kept in (catalogue._read, catalogue._printed, catalogue.sheets):
        kept.cache_clear()
    yield catalogue.document
    for kept in (catalogue._read, catalogue._printed, catalogue.sheets):
        kept.cache_clear()


def by_key(source):
    return {fragment.key: fragment for fragment in source.fragments}


@pytest.mark.slow
def test_what_did_not_change_is_as_it_was_with_numbers_of_its_own(read):
    before, after = by_key(read("ptx-isa-9.4")), by_key(read("ptx-isa-9.9"))
    assert {str(after[key]) for key in after.keys() - before.keys()} == {"A of mma m16n8k32 f16"}
    assert not before.keys() - after.keys()
    differing = {str(one) for key, one in after.items() if key in before and one.digest != before[key].digest}
    assert differing == {"A of mma m8n8k16 s8", "A of mma m8n8k16 u8", "A of mma m16n8k256 b1"}
    numbers = {key: (one.citation.section, one.citation.figures) for key, one in after.items()}
    scale = next(numbers[key] for key in after if key.role == "SFA")
    assert scale == (
        "9.7.17.3",
        "47 #mma-block-scaling, 48 #mma-scaling-thread-id-a-selection, 50 #mma-scaling-byte-id-selection",
    )
    assert numbers["mma", "m8n8k128", "b1", "A", "row", None, None] == ("9.7.17.5.5", "68 #mma-88128-a")
    sparse = after["mma.sp", "m16n8k8", "tf32", "B", "col", None, None].citation
    assert (sparse.section, sparse.same_as) == ("9.7.17.7.2.4", "9.7.17.5.7")


@pytest.mark.slow
def test_an_erratum_is_stated_once_and_is_of_each_version_that_prints_it(read):
    errata = {
        name: {str(one) for one in read(f"{name}+errata").fragments if one.citation.erratum}
        for name in ("ptx-isa-9.1", "ptx-isa-9.4", "ptx-isa-9.9")
    }
    assert errata["ptx-isa-9.4"] == errata["ptx-isa-9.9"] | {"A of mma m16n8k256 b1"}
    assert errata["ptx-isa-9.1"] == errata["ptx-isa-9.4"] | {"B of wgmma m64n16k8 tf32 32B.K"}
    texts = [file.read_text() for file in FOLDER.glob("ptx-isa-*/*.toml")]
    assert sum(text.count("[fragment.erratum]") for text in texts) == len(errata["ptx-isa-9.1"])
    assert [one for one in read("ptx-isa-9.9").fragments if one.shape == "m16n8k256" and check(one)] == []


def test_a_section_that_is_stated_again_has_the_errata_of_what_it_still_prints(version, read):
    changed(version / "ingest" / "catalogue" / "ptx-isa-9.9", "mma-168256.toml", ('"9.7.17.5.13"', '"9.7.17.5.14"'))
    text = version / "ingest" / "catalogue" / "ptx-isa-9.9" / "mma-168256.toml"
    text.write_text(re.sub(r"\[fragment\.erratum\].*?(?=\[\[fragment)", "", text.read_text(), flags=re.DOTALL))
    (a,) = [one for one in read("ptx-isa-9.9+errata").fragments if str(one) == "A of mma m16n8k256 b1"]
    assert (a.citation.section, check(a)) == ("9.7.17.5.14", [])
    assert a.citation.erratum


@pytest.mark.slow
def test_a_section_that_is_gone_has_a_file_without_fragments(version, read):
    (version / "ingest" / "catalogue" / "ptx-isa-9.9" / "mma-884-f16.toml").write_text("fragment = []\n")
    gone = by_key(read("ptx-isa-9.4")).keys() - by_key(read("ptx-isa-9.9")).keys()
    assert {key[:3] for key in gone} == {("mma", "m8n8k4", "f16"), ("mma", "m8n8k4", "f32")}


def test_a_version_in_which_no_number_moved_says_none():
    sheet = catalogue.sheets()[PRINTED]["mma-8816"]
    assert catalogue._renumbered(sheet, {}) == sheet


def test_versions_compare_as_numbers(version, read):
    folder = version / "ingest" / "catalogue"
    shutil.copytree(folder / "ptx-isa-9.9", folder / "ptx-isa-9.10")
    documents = [name for name in ingest.names() if name.startswith("ptx-isa")]
    assert documents[::2] == ["ptx-isa-9.10", "ptx-isa-9.9", *(f"ptx-isa-{name}" for name in reversed(NUMBERED))]


def test_what_is_neither_said_nor_drawn_is_unstated(version, read):
    folder = version / "ingest" / "catalogue" / "ptx-isa-9.9"
    (folder / "new.toml").write_text(NEW[: NEW.index("figures")].replace("m16n8k32", "m16n8k96"))
    (one,) = [one for one in read("ptx-isa-9.9").fragments if one.shape == "m16n8k96"]
    assert (one.status, one.has_rows, one.citation.section) == ("unstated", False, "9.7.17.5.18")


@pytest.mark.slow
def test_every_command_of_a_copy_knows_the_version(version):
    """As somebody who adds it would ask: files alone, and the row of the vendor."""
    vendors = version / "db" / "isa" / "vendors.json"
    vendors.write_text(vendors.read_text().replace(f'"{PRINTED}+errata"', '"ptx-isa-9.9+errata"'))
    added = ("m16n8k32", "f16", "A", "--instruction", "mma")
    commands = [
        ("list", "sources", "-f", "csv"),
        ("find", *added, "--row", "9", "--col", "18", "-f", "csv"),
        ("list", "errata", "-s", "ptx-isa-9.9+errata", "-f", "csv"),
        ("show", *added),
        ("show", "m16n8k4", "tf32", "A"),
        ("export", *added, "-f", "csv"),
        ("draw", *added, "--output", "added.svg"),
        ("chain", "m16n8k16", "f32", "D", "m16n8k16", "f16", "A"),
        ("sql", "SELECT DISTINCT source FROM layout WHERE shape = 'm16n8k32' AND type = 'f16'"),
        ("diff", PRINTED, "ptx-isa-9.9", "-f", "json"),
        ("diff", "ptx-isa-9.1", PRINTED),  # for the example that 9.1 prints wrong
        ("check",),
        ("report", "ptx-isa-9.9"),
    ]
    answers = asked(version, *commands)
    assert [code for code, *_ in answers] == [0] * 9 + [1] * 4, answers
    said = [out for _, out, _ in answers]
    sources, (row,), errata = (list(csv.DictReader(io.StringIO(out))) for out in said[:3])
    assert [source["name"] for source in sources][:2] == ["ptx-isa-9.9", "ptx-isa-9.9+errata"]
    assert (row["lane"], row["reg"], row["slot"]) == ("5", "5", "0")
    assert {erratum["instruction"] for erratum in errata} == {"movmatrix"}
    shown, other, exported, _, chained, selected, differing, _, checked, report = said[3:]
    assert ("9.7.17.5.18" in shown, "9.7.17.5.6" in other, bool(chained)) == (True, True, True)
    assert [name in text for name, text in (("ptx-isa-9.9", exported), ("ptx-isa-9.9", checked))] == [True, True]
    assert ["9.9" in text for text in (selected, report)] == [True, True]
    verdicts = {
        (one["role"], one["shape"], one["type"]): one["verdict"]
        for one in json.loads(differing)["comparisons"][0]["fragments"]
        if one["verdict"] != "identical"
    }
    assert verdicts == {
        ("A", "m8n8k16", "s8"): "different",
        ("A", "m8n8k16", "u8"): "different",
        ("A", "m16n8k256", "b1"): "different",
        ("A", "m16n8k32", "f16"): "right only",
    }


@pytest.mark.slow
def test_what_does_not_compare_documents_works_in_a_copy_with_the_version(version):
    vendors = version / "db" / "isa" / "vendors.json"
    vendors.write_text(vendors.read_text().replace(f'"{PRINTED}+errata"', '"ptx-isa-9.9+errata"'))
    added, random = ("m16n8k32", "f16", "A", "--instruction", "mma"), np.random.default_rng(0)
    matrices = {"a": random.integers(-4, 4, (16, 16)), "b": random.integers(-4, 4, (16, 8))}
    for name, matrix in (matrices | {"d": matrices["a"] @ matrices["b"]}).items():
        np.save(version.parent / f"{name}.npy", matrix.astype("f4"))
    write_kernels(version.parent)
    traced = ("gemm.trace.toml", "--source", "ptx-isa-9.9+errata")
    commands = [
        ("reduce", *added, "--along", "row"),
        ("blame", "m16n8k16", "f16", "--a", "a.npy", "--b", "b.npy", "--actual", "d.npy"),
        ("decode", "m16n8k32", "f16", "0x44444444", "--selector", "0"),
        ("descriptor", "m64n128k16", "f16", "B", "128B.K", "--tile", "n128k64"),
        ("trace", "gemm.ptx", "--args", *traced),
        ("trace", "exchanged.ptx", "--args", *traced),
        ("export", "m8n8k16", "s8", "A", "-f", "csv", "--output", "a.csv"),
        ("import", "table", "a.csv", "--name", "mine"),
        ("diff", "mine"),
        ("remove", "mine"),
        ("list", "sources", "-f", "csv"),
        ("ingest",),
    ]
    pages = (
        "/",
        "/mma/m16n8k32/f16/A",
        "/compare?left=ptx-isa-9.4&right=ptx-isa-9.9",
        "/check",
        "/search?q=m16n8k32",
    )
    answers = asked(version, *commands, pages=pages)
    assert [code for code, *_ in answers] == [0] * 5 + [1] + [0] * 6 + [200] * len(pages), answers
    said = [" ".join(out.split()) for _, out, _ in answers]
    assert "registers 1 and 2 are exchanged" in said[5]
    assert "1 identical" in said[8]
    assert "mine" not in said[10]
    assert "9.7.17.5.18" in answers[len(commands) + 1][2]
    assert "ptx-isa-9.9" in answers[len(commands) + 2][2]
