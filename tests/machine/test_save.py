"""What a kernel holds as a source: it is compared like any other, and never answers or judges."""

import shutil
from dataclasses import replace

import pytest

import lanemap
from lanemap import LanemapError, Source
from lanemap.db.lookup import choose

from ..shipped import corrected
from .conftest import documented
from .kernels import ARGUMENTS, FORMULA, PRODUCT

EXCHANGED = PRODUCT.replace("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}")
#: The product once more, with its registers exchanged the second time alone.
MMA = "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
TWICE = PRODUCT.replace(
    MMA,
    f"{MMA}        {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c0, %c0, %c0}};\n"
    "    mov.f32 %c0, 0f00000000;\n" + MMA,
    1,
)
TWICE = TWICE.replace("{%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c0", "{%a0, %a2, %a1, %a3}, {%b0, %b1}, {%c0, %c0", 2)
TWICE = TWICE.replace("{%a0, %a2, %a1, %a3}", "{%a0, %a1, %a2, %a3}", 1)
HOW = {"arguments": ARGUMENTS, "product": FORMULA, "block": 64}


@pytest.fixture
def own_database(built_for_a_warp, tmp_path):
    with lanemap.open(shutil.copy2(built_for_a_warp, tmp_path / "own.db")) as database:
        yield database


@pytest.mark.slow
def test_a_right_kernel_is_stored_as_what_the_document_says(own_database):
    found = own_database.trace(PRODUCT, **HOW, save="gemm")
    assert "saved: gemm" in found.notes
    source = own_database.source("gemm")
    assert source.kind == "trace"
    assert {fragment.role for fragment in source.fragments} == {"A", "B", "D"}
    for fragment in source.fragments:
        assert fragment.same_layout(documented()[fragment.key])
    assert own_database.diff("gemm").exit_code == 0
    assert own_database.check().exit_code == 0


@pytest.mark.slow
def test_a_wrong_one_differs_and_is_replaced(own_database):
    own_database.trace(EXCHANGED, **HOW, save="gemm")
    compared = own_database.diff("gemm")
    assert compared.exit_code == 1
    (wrong,) = [result for result in compared.results if result.disagrees]
    assert (wrong.key.role, wrong.words) == ("A", "regs 1 and 2 are exchanged")
    assert own_database.find("m16n8k16", "f16", "A", source="gemm", lane=0, reg=1, slot=0)[
        ["row", "col"]
    ].values.tolist() == [[0, 8]]
    exported = own_database.export(None, format="python", query=lanemap.Query("m16n8k16", "f16", "A", source="gemm"))
    assert exported.text
    own_database.trace(PRODUCT, **HOW, save="GEMM")
    assert [name for name in own_database.names("source") if "gemm" in name.lower()] == ["GEMM"]


@pytest.mark.slow
def test_executions_that_contradict_each_other_are_told_apart(own_database):
    found = own_database.trace(TWICE, **HOW, save="gemm")
    assert "saved: gemm, gemm:mma 2 warp 0" in found.notes
    compared = own_database.diff("gemm")
    assert [comparison.left.name for comparison in compared.comparisons if comparison.results] == [
        "gemm",
        "gemm:mma 2 warp 0",
    ]
    assert [result.disagrees for result in compared.results if result.key.role == "A"] == [False, True]
    own_database.trace(PRODUCT, **HOW, save="gemm")
    assert own_database.names("source").count("gemm") == 1
    assert "gemm:mma 2 warp 0" not in own_database.names("source")


@pytest.mark.slow
def test_it_never_answers_or_judges(own_database):
    """Not where it came first, and not where nothing else has rows."""
    before = own_database.fragment("m16n8k16", "f16", "A")
    checked = own_database.check()
    card = own_database.diff("h200-sm_90a")
    own_database.trace(EXCHANGED, **HOW, save="a")
    assert own_database.fragment("m16n8k16", "f16", "A").same_layout(before)
    assert own_database.fragment("m16n8k16", "f16", "A").source == before.source
    for one, other in ((checked, own_database.check()), (card, own_database.diff("h200-sm_90a"))):
        assert one.rows().rows == other.rows().rows
    fragment = replace(before, source="alone", shape="m16n8k16")
    traced = Source("alone", "trace", "", [fragment])
    assert choose([traced]) == {}
    empty = replace(before, elements=None, source="document")
    (answer,) = choose([Source("document", "document", "", [empty]), traced]).values()
    assert not answer.has_rows
    (named,) = choose([replace(traced, kind="named")]).values()
    assert named.same_layout(fragment)


@pytest.mark.slow
def test_what_only_a_trace_has_breaks_no_page(own_database):
    first = next(fragment for fragment in corrected() if fragment.role == "A" and fragment.instruction == "mma")
    key = first.key._replace(instruction="mmanew")
    fragment = replace(first, instruction="mmanew", source="alone")
    own_database.add([Source("alone", "trace", "alone", [fragment])])
    survey = own_database.survey()
    assert key not in survey.fragments
    assert "alone" in survey.sources
    with pytest.raises(LanemapError):
        own_database.fragment(key.shape, key.type, key.role, instruction="mmanew")
    assert own_database.fragment(key.shape, key.type, key.role, instruction="mmanew", source="alone").has_rows
    assert own_database.check().exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("h200-sm_90a", "ships"),
        ("mine", "is no trace"),
        ("best", "it stands for"),
        ("=1", "must not begin"),
        ("", "invalid source name"),
    ],
)
def test_it_replaces_nothing_else(own_database, name, words):
    own_database.add([replace(own_database.source("cutlass-4.2.0"), name="mine", fragments=corrected()[:1])])
    with pytest.raises(LanemapError, match=words):
        own_database.trace("this is not even read", save=name)


def test_what_cannot_be_followed_is_not_stored(own_database):
    found = own_database.trace(".visible .entry idle() { ret; }", block=32, save="idle")
    assert found.notes == ("saved: nothing, as no operand could be followed",)
    assert "idle" not in own_database.names("source")


@pytest.mark.slow
def test_the_command_says_what_it_stored(run, own, tmp_path):
    (tmp_path / "gemm.ptx").write_text(EXCHANGED)
    words = ["trace", str(tmp_path / "gemm.ptx"), "--block", "64", "--product", FORMULA, "--save", "mine"]
    done = run(*words, *(word for given in ARGUMENTS for word in ("--arg", given)), db=own)
    assert (done.code, "saved: mine" in done.out) == (1, True)
    assert run("diff", "mine", db=own).code == 1
    assert run("remove", "mine", db=own).code in (0, None)
