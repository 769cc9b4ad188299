"""Kernels that compilers wrote are right, without a false finding; with a mistake planted they are explained."""

import re

import numpy as np
import pytest

import lanemap

from ..modes import LONG
from .conftest import Stored, run

GEMM = ["A=f16[64,128]", "B=f16[32,128]", "C=f32[64,32]", "K=128"]
FORMULA = "C[m,n] = A[m,k] B[n,k]"


def gemm(text, **how):
    return run(text, GEMM, FORMULA, block=64, grid=(1, 2, 1), **how)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_what_nvcc_makes_is_right(nvcc, target):
    found = gemm(nvcc("gemm", target))
    assert found.ok, found
    race = gemm(nvcc("gemm", target).replace("cp.async.wait_group 0;", "")).findings[0]
    assert race.words.startswith("race: ldmatrix reads what cp of gemm.cu:")


def test_blocks_that_add_up_their_sums_are_right(nvcc):
    given = ["A=f16[64,128]", "B=f16[32,128]", "C=f32[64,32]=0", "K=128"]
    found = run(nvcc("gemm", "sm_80", "SPLIT"), given, FORMULA, block=64, grid=(1, 2, 2))
    assert found.ok, found


WGMMA = ["A=f16[128,128]", "B=f16[64,128]", "C=f32[128,64]", "K=128"]


def wgmma(database, text):
    return database.trace(text, WGMMA, FORMULA, block=128, grid=(1, 2))


def test_a_warpgroup_that_reads_shared_memory_is_right(nvcc, database):
    found = wgmma(database, nvcc("wgmma", "sm_90a"))
    assert found.ok, found
    assert "16 wgmma (m64n64k16 f16)" in found.counts


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fence.proxy.async;", "", "race: wgmma reads what st of wgmma.cu:19 writes, and nothing orders the two"),
        ("bar.sync", "nanosleep", "race: wgmma reads what st of wgmma.cu:19 writes, and nothing orders the two"),
        ("wgmma.fence.sync.aligned;", "", "race: wgmma begins before any wgmma.fence orders its registers"),
        ("wgmma.wait_group.sync.aligned 0;", "", "race: st touches a register that wgmma of wgmma.cu:26 still uses"),
        ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", "st writes what wgmma of wgmma.cu:26 still uses"),
        (", 1, 1, 1, 0, 0;", ", %p0, 1, 1, 0, 0;", "uninitialised: whether D is added is uninitialised"),
        ("4611686293305360384", "4611686293305393152", "no descriptor: the descriptor of B: bit 15 must be 0"),
        ("4611686293305360384", "4611686155866406912", "C[0][8] has the sum of C[0][4]; so for 7952"),
    ],
)
def test_a_mistake_with_wgmma_is_named(nvcc, database, old, new, words):
    text = nvcc("wgmma", "sm_90a")
    assert old in text
    found = wgmma(database, text.replace(old, new))
    assert words in " ".join(found.text().split())


def test_registers_that_change_behind_a_fence_are_named(nvcc, database):
    text = nvcc("wgmma", "sm_90a")
    register = re.search(r"wgmma.mma_async[^{]*{(%\w+),", text)[1]
    behind = text.replace("wgmma.fence.sync.aligned;", f"wgmma.fence.sync.aligned; neg.f32 {register}, {register};", 1)
    found = [each for each in wgmma(database, behind).findings if each.kind == "race"]
    assert "wgmma begins before any wgmma.fence orders its registers" in found[0].words
    before = text.replace("wgmma.fence.sync.aligned;", f"mov.b32 {register}, {register}; wgmma.fence.sync.aligned;", 1)
    assert wgmma(database, before).ok


TMA = ["A=f16[128,256]", "B=f16[64,256]", "C=f32[128,64]", "mA=map(A,box=64x64,swizzle=128B)"]
TMA += ["mB=map(B,box=64x64,swizzle=128B)", "mC=map(C,box=64x64)", "K=256"]


def tma(database, text, given=TMA):
    return database.trace(text, given, FORMULA, block=160, grid=(1, 2))


def test_a_warp_that_copies_for_others_is_right(nvcc, database):
    found = tma(database, nvcc("tma", "sm_90a"))
    assert found.ok, found


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "fence.proxy.async.shared::cta;",
            "",
            "race: cp reads what st of tma.cu:79 writes, and nothing orders the two",
        ),
        ("bar.sync 1, 128;", "", "race: cp reads what st of tma.cu:79 writes, and nothing orders the two"),
        (", 16384;", ", 16386;", "for ever: phase 0 of the mbarrier lacks 0 arrivals and 2 bytes"),
        (", 16384;", ", 8192;", "race: wgmma reads what cp of tma.cu:22 writes, and nothing orders the two"),
        ("@done bra.uni over", "bra.uni over", "race: wgmma reads what cp of tma.cu:22 writes"),
        ("mbarrier.init", "mbarrier.inval", "mbarrier that nobody has initialised"),
        ("wgmma.wait_group.sync.aligned 0;", "", "race: cp writes what wgmma of tma.cu:63 still uses"),
        ("], 128;", "], 64;", "barrier: more threads arrive than the 64 of the mbarrier"),
    ],
)
def test_a_mistake_with_copies_in_bulk_is_named(nvcc, database, old, new, words):
    text = nvcc("tma", "sm_90a")
    assert old in text
    assert words in " ".join(tma(database, text.replace(old, new)).text().split())


def test_a_map_that_sees_an_array_in_another_shape_is_right(nvcc, database):
    arrays = ["A=f16[128,4,64]", "B=f16[64,4,64]", "C=f32[128,64]"]
    maps = [each.replace("box", f"shape={rows}x256,box") for each, rows in zip(TMA[3:5], (128, 64), strict=True)]
    product = "C[m,n] = A[m,j,k] B[n,j,k]"
    found = database.trace(nvcc("tma", "sm_90a"), [*arrays, *maps, *TMA[5:]], product, block=160, grid=(1, 2))
    assert found.ok, found


def test_a_tensor_map_that_does_not_fit_is_named(nvcc, database):
    text = nvcc("tma", "sm_90a")
    other = [each.replace("swizzle=128B", "swizzle=64B").replace("64x64,", "64x32,") for each in TMA]
    assert not tma(database, text, other).ok
    for old, new, words in [
        ("map(A,", "map(X,", "a map of X: the arrays are A, B, C"),
        ("box=64x64,", "box=64,", "mA, a map of A: box, strides and every have 2 numbers, and at most 5"),
        ("128B", "64B", "a line of its box has 128 bytes: swizzle=64B takes 64"),
        ("64x64", "64x65", "lines of its box are multiples of 16 bytes"),
        ("box", "boxes", "is no tensor map: write tA=map(A,box=64x64,swizzle=128B)"),
    ]:
        with pytest.raises(lanemap.LanemapError) as refused:
            tma(database, text, [each.replace(old, new) for each in TMA])
        assert words in str(refused.value)


ATTENTION = ["Q=f16[64,64]", "K=f16[256,64]", "V=f16[256,64]", "O=f32[64,64]", "keys=256", "scale=0.125"]
STEPS = "S[m,n] = 0.125 Q[m,d] K[n,d]; P = softmax(S); O[m,e] = P[m,n] V[n,e]"


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_attention_is_right(nvcc, target):
    found = run(nvcc("attention", target), ATTENTION, STEPS, block=128)
    assert found.ok, found
    assert "1024 mma (m16n8k16 f16)" in found.counts


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (".x4.trans.", ".x4.", "operand"),  # V is read as if it were K
        ("cp.async.wait_group 0;", "", "race"),
        ("bar.sync \t0;", "", "race"),
        ("shfl.sync.bfly.b32", "shfl.sync.down.b32", "sum"),  # lanes of a row have other sums
    ],
)
def test_a_mistake_with_attention_is_named(nvcc, old, new, kind):
    text = nvcc("attention")
    assert old in text
    found = run(text.replace(old, new), ATTENTION, STEPS, block=128)
    assert kind in {each.kind for each in found.findings}, found


@pytest.mark.slow
def test_a_tile_of_several_warps_is_right(nvcc):
    values = np.random.default_rng(0).integers(0, 1000, 128, "i4")
    text = nvcc("tiles", "sm_90a")
    found = run(text, {"A": values, "C": "s32[128]"}, block=128)
    assert found.ok, found
    tiles = values.reshape(-1, 64)
    expected = (tiles == values[40]).any(axis=1)[:, None] + 2 * tiles[:, 40:41]
    assert (found.outputs["C"].reshape(-1, 64) == expected).all()
    early = run(text.replace("ld.acquire.cta", "ld.relaxed.cta"), {"A": values, "C": "s32[128]"}, block=128)
    assert "race" in {each.kind for each in early.findings}


STREAM = ["A=f16[32,96]", "B=f16[8,96]", "C=f32[32,8]", "parts=f32[4,4,32]=0", "ready=u32[4]=0"]
STREAM += ["N=8", "K=96", "tiles=2"]


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_blocks_that_wait_for_the_parts_of_others_are_right(nvcc, blocks):
    found = run(nvcc("stream"), STREAM, FORMULA, block=32, grid=blocks)
    assert found.ok, found


def test_many_blocks_that_wait_for_each_other_run_together(nvcc):
    given = ["A=f16[800,96]", "B=f16[8,96]", "C=f32[800,8]", "parts=f32[150,4,32]=0", "ready=u32[150]=0"]
    found = run(nvcc("stream"), [*given, "N=8", "K=96", "tiles=50"], FORMULA, block=32, grid=150)
    assert found.ok, found


def test_a_block_that_waits_for_ever_is_named(nvcc):
    text = nvcc("stream")
    silent = re.sub(r"atom.global.exch.b32.*;", "", text)
    assert silent != text
    found = run(silent, STREAM, FORMULA, block=32, grid=3, limit=5000)
    assert "deadlock: warp 0 waits for ever: ld reads 0 in global memory at ready+4 of 16 bytes" in " ".join(
        found.text().split()
    )


def test_a_part_that_is_taken_from_another_block_is_named(nvcc):
    text = nvcc("stream")
    wrong = re.sub(r"(ld.global.f32\s+%\w+, \[%rd\d+)\+128\]", r"\1+256]", text)
    assert wrong != text
    found = run(wrong, STREAM, FORMULA, block=32, grid=3)
    assert "sum" in {each.kind for each in found.findings}, found


WAITS = r"bar\.sync|wait_group|fence|try_wait"
UNWRITTEN = "are made of what nobody wrote"
UNSURE = ("bounds", "alignment", "unset", "descriptor")


def mutants(text, random, count):
    """The kernel with a number, an offset or a bit of a descriptor changed, registers exchanged, or a wait left out."""
    lines = text.splitlines()

    def matching(pattern):
        return [at for at, line in enumerate(lines) if re.search(pattern, line)]

    def flipped(found):
        bits = 64 if len(found[1]) > 12 else 6
        return f"{int(found[1]) ^ 1 << int(random.integers(0, bits))}{found[2]}"

    def number(line):
        return re.sub(r"(\d+)(;)", flipped, line)

    def offset(line):
        return re.sub(r"(?<=\+)(\d+)(\])", flipped, line)

    def exchanged(line):
        names = [*re.finditer(r"%(?:r|f|rs)\d+(?=[,}])", line)]
        if len(names) < 2:
            return line
        (a, b), (c, d) = (names[at].span() for at in sorted(random.choice(len(names), 2, replace=False).tolist()))
        return line[:a] + line[c:d] + line[b:c] + line[a:b] + line[d:]

    kinds = [
        (matching(r"\b(mma|ldmatrix|ld\.global|st\.global|cp\.async)"), exchanged),
        (matching(r"^\s+(shl|and|add|xor|or)\S+\s.*, \d+;"), number),
        (matching(r"\b(ld|st|ldmatrix|cp)\b.*\+\d+\]"), offset),
        (matching(WAITS), lambda line: ""),
    ]
    kinds = [(places, change) for places, change in kinds if places]
    for turn in range(count):
        places, change = kinds[turn % len(kinds)]
        at = int(random.choice(places))
        if (line := change(lines[at])) != lines[at]:
            yield at, "\n".join([*lines[:at], line, *lines[at + 1 :]])


SPARSE = ["A=f16[32,32]", "E=u16[32,4]", "B=f16[16,64]", "C=f32[32,16]", "K=64"]
SCALED = ["A=e4m3[32,96]", "SFA=ue8m0[32,3]", "B=e4m3[16,96]", "SFB=ue8m0[16,3]", "C=f32[32,16]", "K=96"]
SMALL = ["A=f16[32,64]", "B=f16[32,64]", "C=f32[32,32]", "K=64"]
MUTATED = {
    "gemm": ("sm_80", SMALL, FORMULA, {"block": 64}, 20),
    "sparse": ("sm_80", SPARSE, "C[m,n] = sparse(A,E)[m,k] B[n,k]", {"block": 32, "grid": (2, 2, 1)}, 20),
    "scaled": (
        "sm_120a",
        SCALED,
        "C[m,n] = A[m,k] SFA[m,k/32] B[n,k] SFB[n,k/32]",
        {"block": 32, "grid": (2, 2, 1)},
        20,
    ),
    "wgmma": ("sm_90a", ["A=f16[64,128]", "B=f16[64,128]", "C=f32[64,64]", "K=128"], FORMULA, {"block": 128}, 20),
    "tma": ("sm_90a", ["A=f16[64,256]", "B=f16[64,256]", "C=f32[64,64]", *TMA[3:]], FORMULA, {"block": 160}, 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10 if LONG else 1))
@pytest.mark.parametrize("name", MUTATED)
def test_every_wrong_product_is_explained(nvcc, database, seed, name, part):
    target, given, formula, how, count = MUTATED[name]
    text = re.sub(r"\n\s*\.loc\b.*", "", nvcc(name, target))  # so that each line of PTX is named by itself
    wrong, own, table = 0, 0, Stored(database)
    for at, mutant in mutants(text, np.random.default_rng([seed, part]), count):
        found = run(mutant, given, formula, limit=5000, table=table, **how)
        output = [
            each for each in found.findings if each.kind in ("sum", "store", "unwritten") or UNWRITTEN in each.words
        ]
        others = [finding for finding in found.findings if finding not in output]
        if output and not found.notes:
            wrong += 1
            own += re.search(rf"\bline {at + 1}\b", str(found)) is not None
            because = any(len(finding.details) > 1 or finding.kind != "sum" for finding in output)
            assert others or because, (text.splitlines()[at], mutant.splitlines()[at], str(found))
        elif not found.notes:  # only what a card may do otherwise the next time is wrong with a right product
            kinds = {"race"} if re.search(WAITS, text.splitlines()[at]) else {*UNSURE, "race"}
            assert {finding.kind for finding in others} <= kinds, (text.splitlines()[at], str(found))
    print(f"{own} of {wrong} wrong products are named at the line that was changed")
    assert wrong > count // 20


#: What leaves a register with two numbers as it is.
SAME = (
    "xor.b32 {0}, {0}, 0;",
    "lop3.b32 {0}, {0}, 0, 0, 0xF0;",
    "mov.b64 %same_w, {{{0}, %same_z}}; mov.b64 {{{0}, %same_z}}, %same_w;",
    "mov.b32 {{%same_h, %same_g}}, {0}; mov.b32 {0}, {{%same_h, %same_g}};",
    "shfl.sync.bfly.b32 {0}, {0}, 5, 31, -1; shfl.sync.bfly.b32 {0}, {0}, 5, 31, -1;",
    "prmt.b32 {0}, {0}, 0, 0x1032; prmt.b32 {0}, {0}, 0, 0x1032;",
    "shf.l.wrap.b32 {0}, {0}, {0}, 16; shf.l.wrap.b32 {0}, {0}, {0}, 16;",
    "st.local.b32 [same_kept], {0}; ld.local.b32 {0}, [same_kept];",
    "bfe.u32 %same_y, {0}, 16, 16; bfi.b32 {0}, %same_y, {0}, 16, 16;",
    """mov.b32 {{%same_h, %same_g}}, {0}; cvt.f32.f16 %same_f, %same_h; cvt.rn.f16.f32 %same_h, %same_f;
    mov.b32 {0}, {{%same_h, %same_g}};""",
    "setp.lt.s32 %same_p, {0}, 0; selp.b32 %same_y, {0}, {0}, %same_p; @%same_p mov.b32 {0}, %same_y;",
    "movmatrix.sync.aligned.m8n8.trans.b16 {0}, {0}; movmatrix.sync.aligned.m8n8.trans.b16 {0}, {0};",
    "mov.b32 %same_y, 0x3C003C00; mul.rn.f16x2 {0}, {0}, %same_y;",
)
HELD = """    .reg .b64 %same_w; .reg .b32 %same_z, %same_y; .reg .b16 %same_h, %same_g; .reg .f32 %same_f;
    .reg .pred %same_p; .local .align 4 .b8 same_kept[4]; mov.b32 %same_z, 0;
"""


def rewritten(text, random):
    """The kernel with what leaves operands as they are before each mma, and K renumbered alike in some of them."""
    head, entry, body = text.partition("{\n")
    lines = []
    for line in body.splitlines():
        if (found := re.search(r"mma\.\S+\s+{.*?},\s*{(.*?)},\s*{(.*?)}", line)) is not None:
            a, b = ([name.strip() for name in group.split(",")] for group in found.groups())
            lines += [SAME[random.integers(len(SAME))].format(name) for name in a + b]
            if random.integers(2):
                (start, _), (_, end) = found.span(1), found.span(2)
                line = f"{line[:start]}{', '.join(a[2:] + a[:2])}}}, {{{', '.join(b[::-1])}{line[end:]}"
        lines.append(line)
    return head + entry + HELD + "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_a_kernel_that_is_written_otherwise_is_right(nvcc, seed, name):
    given, formula, block = {"gemm": (SMALL, FORMULA, 64), "attention": (ATTENTION, STEPS, 128)}[name]
    random = np.random.default_rng(seed)
    for _ in range(20 if LONG else 3 if name == "gemm" else 1):
        text = rewritten(nvcc(name), random)
        found = run(text, given, formula, block=block)
        assert found.ok, found


@pytest.fixture(scope="module")
def triton():
    found = pytest.importorskip("triton", reason="needs lanemap[test-toolchains]")
    pytest.importorskip("triton.backends.nvidia")
    return found


def compiled(name, types, constants, capability, **options):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from . import triton_kernels

    names = [*types, *constants]
    attributes = {
        (number,): [["tt.divisibility", 16]] for number, type_ in enumerate(types.values()) if type_ != "fp32"
    }
    source = ASTSource(
        getattr(triton_kernels, name),
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs={(names.index(key),): value for key, value in constants.items()},
        attrs=attributes,
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4} | options)


@pytest.mark.parametrize("capability", [80, 90, 120])
def test_what_triton_makes_of_a_product_is_right(triton, capability, database):
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "width": "i32", "depth": "i32"}
    kernel = compiled("matmul", types, {"tile_m": 64, "tile_n": 64, "tile_k": 32}, capability)
    given = {"a": (64, 64), "b": (64, 128), "c": (64, 128), "width": 128, "depth": 64}
    found = database.trace(kernel, given, "c[m,n] = a[m,k] b[k,n]", grid=(1, 2))
    assert found.ok, found
    assert ("wgmma (m64n64k16 f16)" in found.counts) == (capability == 90), found.counts


@pytest.mark.slow
def test_a_program_of_triton_may_be_a_cluster(triton, database):
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "width": "i32", "depth": "i32"}
    kernel = compiled("matmul", types, {"tile_m": 128, "tile_n": 64, "tile_k": 32}, 90, num_ctas=2)
    given = {"a": (128, 64), "b": (64, 64), "c": (128, 64), "width": 64, "depth": 64}
    found = database.trace(kernel, given, "c[m,n] = a[m,k] b[k,n]")
    assert found.ok, found


@pytest.mark.few(2)
@pytest.mark.parametrize("capability", [80, 90, 120])
@pytest.mark.parametrize("causal", [True, False])
def test_what_triton_makes_of_attention_is_right(triton, causal, capability, database):
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32", "width": "i32", "scale": "fp32"}
    kernel = compiled("attention", types, {"tile_m": 64, "tile_n": 64, "size": 64, "causal": causal}, capability)
    given = {"q": (64, 64), "k": (128, 64), "v": (128, 64), "o": (64, 64), "width": 128, "scale": 0.125}
    steps = f"S[m,n] = 0.125 q[m,d] k[n,d]; P = softmax({'causal(S)' if causal else 'S'}); o[m,e] = P[m,n] v[n,e]"
    found = database.trace(kernel, given, steps)
    assert found.ok, found
    with pytest.raises(lanemap.LanemapError, match="the kernel takes q, k, v, o, width, scale: x does not fit"):
        database.trace(kernel, given | {"x": 1}, steps)
