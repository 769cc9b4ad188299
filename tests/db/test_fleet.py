"""Captures side by side: what became of each form, and on which fragments two differ."""

import shutil
from dataclasses import replace

import pytest

import lanemap
from lanemap.db.compare.survey import Known
from lanemap.db.layout.fragment import NOT_CITED, Citation, Source

from ..shipped import SHIPPED


@pytest.fixture(scope="module")
def captured(built):
    with lanemap.open(built) as database:
        return database.source("h200-sm_90a")


def named(source, name, **provenance):
    """A capture of a few operands, under another name."""
    some = [
        replace(fragment, elements=fragment.elements.copy()) for fragment in source.fragments if fragment.type == "b1"
    ]
    return replace(source, name=name, fragments=some, provenance={**source.provenance, **provenance})


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_where_captures_differ_is_told_with_those_that_agree_together(captured, built, tmp_path, request, shared):
    place = shutil.copy(built, tmp_path / "own.db")
    if shared:
        place = request.getfixturevalue("new_database")(request.getfixturevalue("built_on_server"))
    wrong = named(captured, "wrong")
    for fragment in wrong.fragments[:2]:
        fragment.elements["row"] = fragment.dimensions[0] - 1 - fragment.elements["row"]
    with lanemap.open(place) as database:
        assert database.fleet().disagreements == []
        database.add([wrong, named(captured, "same")])
        found = database.fleet()
        assert [captured.source for captured in found.captures] == [*SHIPPED[-2:], "wrong", "same"]
        assert {disagreement.key for disagreement in found.disagreements} == {
            fragment.key for fragment in wrong.fragments[:2]
        }
        assert [disagreement.groups for disagreement in found.disagreements] == [
            [[*SHIPPED[-2:], "same"], ["wrong"]]
        ] * 2


@pytest.mark.slow
def test_what_contradicts_is_said_before_a_known_error(captured, built, tmp_path):
    """A of m16n8k256 is wrong as printed, and corrected; of one that nobody else has, the import is all there is."""
    key = next(fragment.key for fragment in captured.fragments if fragment.key[:4] == ("mma", "m16n8k256", "b1", "A"))
    right = next(fragment for fragment in captured.fragments if fragment.key == key)
    table = right.elements.copy()
    table["row"] = 15 - table["row"]
    wrong = replace(right, elements=table, source=None)
    alone = replace(right, type="b2", source=None)
    with lanemap.open(shutil.copy(built, tmp_path / "own.db")) as database:
        assert database.survey().known[key] is Known.ERROR
        database.add([Source("mine", "import", "mine", [wrong, alone])])
        known = database.survey().known
    assert known[key] is Known.CONTRADICTED
    assert known[alone.key] is Known.IMPORTED
    assert known[key._replace(role="B", major="col")] is Known.AGREED
    measured = next(fragment for fragment in captured.fragments if fragment.instruction == "wmma")
    assert known[measured.key] is Known.MEASURED


@pytest.mark.slow
def test_an_erratum_that_no_comparison_covers_is_a_known_error(captured, built, tmp_path):
    """A new document has no capture beside it, and what it only draws as printed cannot be compared."""
    corrected = replace(captured.fragments[0], type="b2", source=None, citation=Citation(erratum="the figure is wrong"))
    drawn = replace(corrected, elements=None, status="figure-only", citation=NOT_CITED)
    with lanemap.open(shutil.copy(built, tmp_path / "own.db")) as database:
        database.add([Source("new", "document", "new", [drawn]), Source("new+errata", "document", "new", [corrected])])
        assert database.survey().known[corrected.key] is Known.ERROR


def test_forms_and_cards_are_those_of_the_provenance(captured, built, tmp_path):
    one = [{"instruction": "one", "status": "unsupported", "message": "no", "documented": None}]
    with lanemap.open(shutil.copy(built, tmp_path / "own.db")) as database:
        database.add([named(captured, "other", device={"name": "A card"}, instructions=one, time="now")])
        database.add([named(captured, "silent", device="none", instructions=[])])
        fleet = database.fleet()
    *_, shipped, other, silent = fleet.captures
    assert [each.device for each in fleet.captures[:2]] == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    assert shipped.driver_version
    assert (other.device, other.driver_version, other.time, other.forms) == (
        "A card",
        "",
        "now",
        {"one": "unsupported"},
    )
    assert (silent.device, silent.forms) == ("", {})
    assert fleet.forms == [*shipped.forms, "one"]
    rows = fleet.frame().set_index("source").loc["other"]
    assert (rows.instruction, rows.status, rows.device) == ("one", "unsupported", "A card")
    assert len(fleet.frame()) == 2 * len(shipped.forms) + 1
