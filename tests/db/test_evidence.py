"""What is known of defects is joined with what a comparison finds: one entry for one root cause, and what ships."""

from dataclasses import replace

import msgspec
import pytest

from lanemap.db.compare.defect import Report, defects
from lanemap.db.compare.evidence import NOTHING, REACHES, Evidence, EvidenceFile, examined
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Citation, Source
from lanemap.db.render import report  # noqa: F401 - attaches the formats

FACTS = """
[[defect]]
name = "mine-rows"
library = "Mine"
title = "rows 1 and 9 of A are exchanged"
release = "2"
file = "mine/maps.py"
line = 3
function = "map_a"
shows = [{function = "map_a"}, {set = "emitter", operand = "mma m16n8k16 A"}]
reach = "wrong product"
reason = "every kernel loads A with it"
since = "1"
newest = "3 (2026-01-01)"
reports = ["https://example.org/1"]
words = "rows 1 and 9 of the tile are exchanged"
correction = "count rows by 8"
before = "row = 9"
after = "row = 1"
language = "python"
reproduction = "print(map_a(4, 0))"
prints = "9, and right is 1"
[defect.confirmed]
card = "NVIDIA H200"
date = "2026-01-02"
wrong = 16
of = 128
control = "the same kernel with bf16"

[[library]]
name = "Mine"
version = "3"
looked = "read and run"
found = "one defect"
"""
KNOWN = msgspec.toml.decode(FACTS.encode(), type=EvidenceFile)


@pytest.fixture(scope="module")
def claimed(corrected):
    """Sources of a library in which rows 1 and 9 of A are exchanged, by the claim set: its types and functions."""

    def source(name, type_, origin):
        fragment = corrected[f"mma_m16n8k16_{type_}_a"]
        table = fragment.elements.copy()
        rows = fragment.elements["row"]
        table["row"][rows == 1], table["row"][rows == 9] = 9, 1
        wrong = replace(fragment, elements=table, source=None, citation=Citation(origin=f"mine/{origin}"))
        said = {"library": "Mine", "version": "2", "set": name}
        return Source(f"mine-2:{name}", "import", f"Mine 2 {name}", [wrong], said)

    return [
        source("maps", "f16", "maps.py:3 map_a"),
        source("emitter", "bf16", "emit.py:7 make_load"),
        source("other", "tf32", "x.py:1 f")
        if "mma_m16n8k16_tf32_a" in corrected
        else source("other", "s8", "x.py:1 f"),
    ]


@pytest.fixture(scope="module")
def corrected(sources):
    """The fragments of the corrected document by a short name."""
    return {
        f"{fragment.instruction}_{fragment.shape}_{fragment.type}_{fragment.role.lower()}": fragment
        for fragment in sources["ptx-isa-9.4+errata"].fragments
    }


def reported(sources, claimed, known=KNOWN):
    return defects(claimed, [sources["ptx-isa-9.4+errata"], *claimed], evidence=known)


def changed(**fields):
    return msgspec.structs.replace(KNOWN, defect=(msgspec.structs.replace(KNOWN.defect[0], **fields),))


def test_one_root_cause_is_one_entry_with_all_that_shows_it(sources, claimed):
    known, unknown = reported(sources, claimed)
    said = dict(known.labelled)
    assert said["where"] == (
        "A of mma m16n8k16 f16 (maps, mine/maps.py:3 map_a); A of mma m16n8k16 bf16 (emitter, mine/emit.py:7 make_load)"
    )
    assert said["root cause"] == "mine/maps.py:3 map_a, in 2"
    assert said["reach"] == "wrong product: every kernel loads A with it"
    assert said["effect"] == "16 of 128 elements of D are wrong, in rows 1, 9"
    assert said["confirmed"] == (
        "on an NVIDIA H200, 2026-01-02: 16 of 128 elements wrong; right: the same kernel with bf16"
    )
    assert said["releases"] == "since 1, not fixed, newest examined: 3 (2026-01-01)"
    assert known.title == "Mine 2: rows 1 and 9 of A are exchanged"
    assert (unknown.evidence, len(unknown.wrong)) == (NOTHING, 1)
    assert len(reported(sources, claimed, EvidenceFile())) == 3


@pytest.mark.parametrize("other", [{"library": "Others"}, {"shows": [{"operand": "m16n8k8 A"}, {"set": "mapping"}]}])
def test_what_is_known_of_another_library_operand_or_set_is_not_taken_for_it(sources, claimed, other):
    fields = msgspec.convert({**msgspec.to_builtins(KNOWN.defect[0]), **other}, Evidence)
    found = reported(sources, claimed, EvidenceFile((fields,)))
    assert [defect.evidence for defect in found] == [NOTHING] * 3


@pytest.mark.parametrize(
    ("library", "version", "known"),
    [
        ("Mine", "2", True),
        ("Mine-2", "2", True),  # a document, whose name has its version
        ("Mine-2+errata", "2", True),
        ("Mine-extra", "2", False),
        ("Mine-extra-2", "2", False),
        ("Mine2", "2", False),
    ],
)
def test_a_library_is_not_taken_for_one_whose_name_begins_alike(library, version, known):
    key = Key("mma", "m16n8k16", "f16", "A", "row")
    assert bool(KNOWN.of(library, version, key, "mine/maps.py:3 map_a", "maps").name) is known


def test_a_release_has_a_defect_from_the_first_to_the_last_that_have_it():
    known = msgspec.structs.replace(KNOWN.defect[0], since="1.9", until="1.11")
    assert [known.is_in(version) for version in ("1.8.7", "1.9", "1.10", "1.11", "1.11.1", "1.12", "")] == [
        *(False, True, True, True, False, False),
        True,  # one that is not named may have anything
    ]
    assert msgspec.structs.replace(known, until="").is_in("1.12")


@pytest.mark.slow
@pytest.mark.parametrize("reach", REACHES)
def test_only_what_reaches_a_product_has_an_effect_on_one(sources, claimed, reach):
    found = next(defect for defect in reported(sources, claimed, changed(reach=reach)) if defect.evidence.name)
    assert ("effect" in dict(found.labelled)) == (reach == "wrong product")


def test_what_is_fixed_comes_last_and_says_so_first(sources, claimed):
    found = reported(sources, claimed, changed(until="2", fixed="3"))
    assert [defect.fixed for defect in found] == [False, True]
    assert found[-1].labelled[0] == ("fixed", "in 3")
    text = Report(found, {}, KNOWN.library).report()
    assert text.index("## Fixed") < text.index("### Mine 2: rows 1 and 9") < text.index("## Libraries examined")
    assert "| Mine | 3 | read and run | one defect |" in text
    assert (
        "| Mine 2 | A of mma m16n8k16 f16 bf16 | fixed: wrong product | rows 1 and 9 of the tile are exchanged |"
        in text
    )


def test_an_issue_can_be_sent_as_it_is(sources, claimed):
    text = Report(reported(sources, claimed)[:1]).report("issue")
    assert text.startswith(
        "# rows 1 and 9 of A are exchanged\n\n- **where**: A of mma m16n8k16 f16 (mine/maps.py:3 map_a)"
    )
    wrong = "Rows 1 and 9 of the tile are exchanged. Every kernel loads A with it. "
    assert wrong + "16 of 128 elements of D are wrong, in rows 1, 9.\n" in text
    assert "| 4 | 0 | 0 | row 9, column 0 | row 1, column 0 |" in text
    for part in (
        "```python\nprint(map_a(4, 0))\n```",
        "9, and right is 1",
        "```python\nrow = 1\n```",
        "count rows by 8",
    ):
        assert part in text
    assert Report(reported(sources, claimed)).report("issue").count("\n---\n") == 1


def test_an_issue_has_no_words_of_our_own(sources, claimed):
    """Its title is no Markdown; a maintainer knows neither claim sets nor the names of our sources."""
    text = Report(reported(sources, claimed, changed(title="8 * row // 4 is `2 * row` <here>"))[:1]).report("issue")
    assert text.startswith("# 8 * row // 4 is `2 * row` <here>\n\n")
    (proof,) = [line for line in text.splitlines() if line.startswith("True by: ")]
    assert " of Parallel Thread Execution ISA 9." in proof
    assert not [word for word in ("maps,", "emitter,", "ptx-isa-9.1", "+errata") if word in text]
    for evidence in examined().defect:
        said = " ".join(str(value) for value in msgspec.structs.astuple(evidence)[5:])
        said = said.replace(evidence.reproduction, "")
        assert not [word for word in (" import is", " import of", " imports of", "errata") if word in said]


def test_a_key_that_no_fact_has_is_an_error():
    with pytest.raises(msgspec.ValidationError, match="unknown field `reasons`"):
        msgspec.toml.decode(FACTS.replace("reason =", "reasons =").encode(), type=EvidenceFile)
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value"):
        msgspec.toml.decode(FACTS.replace("wrong product", "wrong").encode(), type=EvidenceFile)


def test_what_ships_is_whole():
    """Each defect has a name of its own, says whether it was run where a product is wrong, and what fixed it."""
    names = [evidence.name for evidence in examined().defect]
    assert len(set(names)) == len(names)
    for evidence in examined().defect:
        assert isinstance(evidence, Evidence)
        assert evidence.reach in REACHES
        assert not evidence.copied or evidence.copied in {f"{it.library}: {it.title}" for it in examined().defect}
        assert evidence.reach != "wrong product" or evidence.confirmed or evidence.not_run, evidence.name
        assert bool(evidence.until) == bool(evidence.fixed), evidence.name
        assert bool(evidence.before) == bool(evidence.after), evidence.name
        assert not evidence.confirmed or 0 < evidence.confirmed.wrong <= evidence.confirmed.of
