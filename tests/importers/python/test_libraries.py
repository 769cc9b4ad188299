"""The mappings that ship, on recorded answers of their libraries (``tests/wild/run.py`` makes them from the real ones).

Every claim is compared with the corrected document, and every other operand in its set with it. What is wrong is named
here, with the reason; nothing else may be.
"""

import gzip
import json
from pathlib import Path

import pytest

from lanemap.db.structure import check
from lanemap.ingest import python as mappings

NAMES = [each.path.stem for each in mappings.shipped()]

#: By source: the operands that are not what the document says.
WRONG = {
    # B is said to lie as A does. What loads it and multiplies it does otherwise, and nothing asks where it lies.
    "tvm-0.27.0.post1:mma": {"B of mma m16n8k16 f16"},
    "tvm-0.27.0.post1:mma_trans_a": {"A of mma m16n8k16 f16"},
    # The two halves of N are said to share registers with the halves of K; the loads give each N its own.
    **{
        f"tvm-0.27.0.post1:mma_trans_b{variant}": {"B of mma m16n8k16 f16"}
        | {f"B of mma m16n8k32 {type_}" for type_ in ("s8", "e4m3", "e5m2")}
        for variant in ("", ":shared_16x16_to_ldmatrix_32x8_layout")
    },
}


@pytest.fixture(scope="session")
def replayed():
    """What each mapping makes of the recorded answers of its library."""
    real, found = mappings.answers, {}
    for name in NAMES:
        recorded = json.loads(gzip.decompress((Path(__file__).parent / "recordings" / f"{name}.json.gz").read_bytes()))

        def answers(tasks, package, path, python, recorded=recorded):
            assert recorded["package"] == package
            return recorded["version"], [recorded["answers"][mappings.called(task)] for task in tasks]

        mappings.answers = answers
        found[name] = mappings.load(name)
    mappings.answers = real
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_what_the_document_says_but_for_these(replayed, documented, name):
    wrong = {
        each.source.name: {
            str(fragment)
            for fragment in each.source.fragments
            if fragment.key in documented and not documented[fragment.key].same_layout(fragment)
        }
        for each in replayed[name]
    }
    assert {source: found for source, found in wrong.items() if found} == {
        source: found for source, found in WRONG.items() if source.startswith(f"{name}-")
    }


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_out_and_what_is_found_is_named(replayed, name):
    for each in replayed[name]:
        assert list(each.skipped) == []
        unsound = {str(fragment) for fragment in each.source.fragments if check(fragment)}
        assert unsound <= WRONG.get(each.source.name, set())
        assert {finding.name.split(",")[0] for finding in each.findings} == unsound
        assert all(fragment.origin for fragment in each.source.fragments)


@pytest.mark.parametrize("name", NAMES)
def test_a_mapping_says_which_version_it_was_seen_with(replayed, name):
    mapping = next(each for each in mappings.shipped() if each.path.stem == name)
    assert mapping.refused == ()
    assert replayed[name][0].source.provenance["version"] in mapping.seen
