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
from lanemap.db.compare.evidence import examined
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Citation, Fragment, Source, element_type
from lanemap.db.layout.structure import check
from lanemap.db.render.report import corrected
from lanemap.ingest import table

from .shipped import everything as shipped

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
        sources["ptx-isa-9.4"],
        release.source,
        transcribed.source,
        *(imported.source for name in ("tvm", "tilelang", "hidet") for imported in replay(name)),
        *(imported.source for imported in table.load(ROOT / "tests" / "importers" / "mlir.csv")),
    ]
    everything = [
        *sources.values(),
        *(source for source in reversed(shipped()) if source.kind == "capture"),
        *asked[1:],
        *(source for file in PAST for source in past(file)),
    ]
    findings = [
        Finding(source.name, fragment.key, words)
        for source in asked
        for fragment in source.fragments
        for words in check(fragment)
    ]
    names = dict.fromkeys(request.name.partition(":")[0] for request in asked)
    made = {"Sources": ", ".join(names), "Made by": f"lanemap report, version {lanemap.__version__}"}
    return Report(defects(asked, everything, findings), made, examined().library)


def test_the_page_is_the_report(report, request):
    if request.config.option.update_snapshots:
        PAGE.write_text(report.report())
    assert PAGE.read_text() == report.report()


def test_every_defect_of_a_layout_is_shown_by_an_element(report):
    for defect in report.defects:
        said = dict(defect.labelled)
        if defect.result.verdict == "different":
            assert said["example"]
            assert "not a renumbering" in said or "agreement" in said
            assert ("effect" in said) == (defect.evidence.reach == "wrong product")
            assert corrected(defect)
        else:  # what is wrong is elsewhere in its tile
            assert not {"example", "not a renumbering", "effect"} & said.keys()
        assert defect.first.agreeing or defect.result.right is None


def test_the_command_reports_the_same(run, file, replay, report):
    """Through a database, of one library."""
    with lanemap.open(str(file)) as database:
        database.add([imported.source for imported in replay("tvm")])
    out = run("report", "tvm-0.27.0.post1", db=file).out
    for section in [part for part in report.report().split("\n## ")[1:] if part.startswith("TVM")]:
        assert section.strip() in out


@pytest.mark.parametrize("file", PAST, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_a_recording_of_the_past_says_how_it_was_made(file):
    assert json.loads(gzip.decompress(file.read_bytes()))["made"].startswith("python tests/wild/past.py ")


def test_each_fact_is_shown_by_an_operand_of_the_report(report):
    """A fact that nothing shows is of a release that nobody has looked at, or has words that match nothing."""
    shown = {defect.evidence.name for defect in report.defects} - {""}
    assert shown == {evidence.name for evidence in examined().defect}
    assert all(defect.evidence.name for defect in report.defects)
