"""A kernel that a library makes is traced, and claims what its registers hold."""

import re
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

import lanemap
from lanemap import LanemapError
from lanemap.ingest.python import load

from ...machine.kernels import PRODUCT
from ...modes import LONG
from ...wild.run import environment

EXCHANGED = PRODUCT.replace("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}")
LIBRARY = f"""
RIGHT, WRONG = {PRODUCT!r}, {EXCHANGED!r}


def gemm(wrong=False):
    return {{"ptx": WRONG if wrong else RIGHT, "block": 64}}


def no_kernel():
    return {{"ptx": RIGHT}}


def unread():
    return {{"ptx": "{{", "block": 64}}


def idle():
    return {{"ptx": ".visible .entry idle() {{ ret; }}", "block": 32}}
"""
TRACE = 'trace = { product = "C[m,n] = A[m,k] B[n,k]", args = { A = "f16[16,16]", B = "f16[8,16]", C = "f32[16,8]" } }'


def entry(name, more="", trace=TRACE):
    return f'\n[[entry]]\nmodule = "kernels"\nname = "{name}"\nform = "kernel"\nmake = {{ {more} }}\n{trace}\n'


@pytest.fixture
def imported(tmp_path, built_for_a_warp, monkeypatch):
    """A function that imports a mapping of these entries into a database of its own."""
    (tmp_path / "kernels.py").write_text(LIBRARY)
    monkeypatch.chdir(tmp_path)
    with lanemap.open(shutil.copy2(built_for_a_warp, tmp_path / "own.db")) as database:

        def imported(*entries):
            head = 'library = "mine"\npackage = "mine-is-not-installed"\n'
            (tmp_path / "kernels.toml").write_text(head + "".join(entries))
            return database, database.import_layouts("python", "kernels.toml")

        yield imported


@pytest.mark.slow
def test_a_right_kernel_agrees(imported):
    database, (found,) = imported(entry("gemm"))
    assert (found.source.kind, found.failed) == ("import", False)
    assert {(fragment.shape, fragment.role) for fragment in found.source.fragments} == {
        ("m16n8k16", "A"),
        ("m16n8k16", "B"),
        ("m16n8k16", "D"),
    }
    compared = database.diff("mine")
    assert (compared.exit_code, compared.compared) == (0, 3)
    assert database.check(["mine"]).exit_code == 0
    origins = {fragment.citation.origin for fragment in database.source("mine").fragments}
    assert origins == {"kernels.py:5 gemm"}


@pytest.mark.slow
def test_a_wrong_kernel_differs_and_says_what_it_computes(imported):
    database, _ = imported(entry("gemm", "wrong = true"))
    (wrong,) = [result for result in database.diff("mine").results if result.disagrees]
    assert (wrong.key.role, wrong.words) == ("A", "regs 1 and 2 are exchanged")
    said = [finding.words for finding in database.check(["mine"]).findings]
    assert "gemm(wrong=True): C: 118 of 128 elements are wrong" in said
    assert database.find("m16n8k16", "f16", "A").source.iloc[0] == "ptx-isa-9.4+errata"


@pytest.mark.slow
def test_kernels_that_contradict_each_other_are_sets_of_their_own(imported):
    database, found = imported(entry("gemm"), entry("gemm", "wrong = true"))
    assert [each.source.name for each in found] == ["mine", "mine:gemm"]
    assert [len(database.source(name).fragments) for name in ("mine", "mine:gemm")] == [3, 3]
    assert database.diff("mine").unexplained == 1


@pytest.mark.slow
def test_what_is_no_kernel_is_named(imported):
    bad = [entry("no_kernel"), entry("unread"), entry("idle", trace="trace = {}"), entry("gone")]
    _, (found,) = imported(entry("gemm"), *bad, entry("gemm", trace=""))
    reasons = {skipped.name: skipped.reason for skipped in found.skipped}
    assert found.failed
    assert "it has no `block`" in reasons["no_kernel"].replace("'", "`")
    assert "unread" in reasons
    assert "no tensor instruction" in reasons["idle"]
    assert "has no attribute 'gone'" in reasons["gone"]
    assert "is traced: write trace" in reasons["entry 6 (gemm)"]


@pytest.mark.slow
def test_without_a_database_it_is_not_run(imported, tmp_path):
    imported(entry("gemm"))
    with pytest.raises(LanemapError, match="import the mapping into a database"):
        load(str(tmp_path / "kernels.toml"))


@pytest.fixture(scope="module")
def traced(built, tmp_path_factory):
    """A function that gives a database with what a shipped mapping makes of its library, and what is left out."""

    def traced(name, python=None):
        path = shutil.copy2(built, tmp_path_factory.mktemp(name) / "own.db")
        database = lanemap.open(path)
        return database, database.import_layouts("python", name, python=python)

    return traced


@pytest.mark.slow
def test_kernels_of_triton_are_right(traced):
    pytest.importorskip("triton.backends.nvidia", reason="needs lanemap[test-toolchains]")
    database, imports = traced("triton")
    with database:
        (found,) = (each.source for each in imports if each.source.name.endswith(":kernels"))
        assert imports[0].skipped == []
        assert "disagreements" not in found.provenance
        assert {fragment.role for fragment in found.fragments} == {"A", "B", "C", "D"}
        assert len({fragment.key for fragment in found.fragments if fragment.role == "A"}) == 5
        assert database.diff(found.name).exit_code == 0


@pytest.mark.skipif(not LONG, reason="TileLang has an environment of its own")
@pytest.mark.slow
def test_kernels_of_tilelang_are_right_but_for_its_defects(traced):
    database, imports = traced("tilelang", environment("tilelang"))
    with database:
        found = {each.source.name.partition(":")[2]: each.source for each in imports}
        assert "disagreements" not in found["kernels"].provenance
        assert database.diff(found["kernels"].name).exit_code == 0
        said = " ".join(found["kernels, int4 of a fragment"].provenance["disagreements"])
        assert "held='A'): A of mma 1 (mma_sm80.hpp:" in said
        assert "registers 1 and 2 are exchanged" in said
        assert "held='B'): C: 124 of 256 elements are wrong" in said
        (said,) = found["kernels, A of two warpgroups"].provenance["disagreements"]
        assert "C: 8046 of 16384 elements are wrong" in said


def test_triton_lowers_the_one_of_the_guide(imported, tmp_path):
    pytest.importorskip("triton.backends.nvidia", reason="needs lanemap[test-toolchains]")
    (tmp_path / "kernels.py").write_text(
        dedent("""
        import triton
        import triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource


        @triton.jit
        def matmul(a, b, c, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
            rm, rn, rk = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
            x = tl.load(a + rm[:, None] * k + rk[None, :])
            y = tl.load(b + rk[:, None] * n + rn[None, :])
            tl.store(c + rm[:, None] * n + rn[None, :], tl.dot(x, y))


        def lowered(tile):
            signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "constexpr", "n": "constexpr", "k": "constexpr"}
            source = ASTSource(matmul, signature=signature, constexprs={(3,): tile, (4,): tile, (5,): tile})
            made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
            return {"ptx": made.asm["ptx"], "block": 128, "shared": made.metadata.shared}
        """)
    )
    guide = (Path(lanemap.__file__).parent / "cli" / "web" / "guide" / "check.md").read_text()
    _, block = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    database, (found,) = imported(block)
    assert {fragment.role for fragment in found.source.fragments} == {"A", "B", "C", "D"}
    assert database.diff("mine").exit_code == 0
    assert database.check(["mine"]).exit_code == 0
