"""DEFECTS.md is the report on these sources, made here again; ``--snapshot-update`` writes it.

They are the document, the packages that are installed, and recorded answers of those that are large. Older versions,
which date a defect, are recordings of the operands that are wrong in the newest (``tests/wild/past.py``).
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap.db.compare.crosscheck import Finding
from lanemap.db.compare.defect import Report, defects
from lanemap.db.compare.evidence import facts
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Citation, Fragment, Source, element_type
from lanemap.db.layout.structure import check
from lanemap.db.render.report import corrected

from .shipped import recorded

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "DEFECTS.md"
PAST = sorted((ROOT / "tests" / "importers" / "past").glob("*.json.gz"))


def past(file):
    """The sources in a recording of an older version."""
    for source in json.loads(gzip.decompress(file.read_bytes()))["sources"]:
        fragments = [
            Fragment.of(
                Key(*key),
                np.array(list(map(tuple, elements)), element_type()),
                "imported",
                Citation(origin=said.pop("origin")),
                **said,
            )
            for key, said, elements in source.pop("fragments")
        ]
        yield Source(**source, fragments=fragments)


@pytest.fixture(scope="module")
def report(sources, release, transcribed, replay):
    """The report that the page is."""
    asked = [
        sources["ptx-isa-9.1"],
        release.source,
        transcribed.source,
        *(each.source for name in ("tvm", "tilelang", "hidet") for each in replay(name)),
    ]
    everything = [*sources.values(), recorded(), *asked[1:], *(each for file in PAST for each in past(file))]
    findings = [
        Finding(source.name, each.key, words) for source in asked for each in source.fragments for words in check(each)
    ]
    names = dict.fromkeys(each.name.partition(":")[0] for each in asked)
    made = {"Sources": ", ".join(names), "Made by": f"lanemap report, version {lanemap.__version__}"}
    return Report(defects(asked, everything, findings), made, facts().library)


def test_the_page_is_the_report(report, request):
    if request.config.option.update_snapshots:
        PAGE.write_text(report.report())
    assert PAGE.read_text() == report.report()


def test_every_defect_of_a_layout_is_shown_by_an_element(report):
    for each in report.defects:
        said = dict(each.facts)
        if each.result.verdict == "different":
            assert said["example"]
            assert "not a renumbering" in said or "agreement" in said
            assert ("effect" in said) == (each.evidence.reach in ("", "wrong product"))
            assert corrected(each)
        else:  # what is wrong is elsewhere in its tile
            assert not {"example", "not a renumbering", "effect"} & said.keys()
        assert each.first.agreeing or each.result.right is None


def test_the_command_reports_the_same(run, file, replay, report):
    """Through a database, of one library."""
    with lanemap.open(str(file)) as database:
        database.add([each.source for each in replay("tvm")])
    out = run("report", "tvm-0.27.0.post1", db=file).out
    for section in [part for part in report.report().split("\n## ")[1:] if part.startswith("TVM")]:
        assert section.strip() in out


@pytest.mark.parametrize("file", PAST, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_a_recording_of_the_past_says_how_it_was_made(file):
    assert json.loads(gzip.decompress(file.read_bytes()))["made"].startswith("python tests/wild/past.py ")


def test_each_fact_is_shown_by_an_operand_of_the_report(report):
    """A fact that nothing shows is of a release that nobody has looked at, or has words that match nothing."""
    assert {each.evidence.name for each in report.defects} - {""} == {each.name for each in facts().defect}
    assert all(each.evidence.name for each in report.defects)
