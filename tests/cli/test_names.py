"""Commands with the names that people have."""

import re
import shutil
from dataclasses import replace

import pytest

import lanemap

from ..shipped import CORRECTED, SHIPPED

BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
PASTED = f'asm volatile("{BF16} "\n "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};\\n")'


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        [BF16],
        [PASTED],
        ["HMMA.16816.F32.BF16"],
        ["SM80_16x8x16_F32BF16BF16F32_TN"],
        ["16x8x16", "bfloat16"],
        ["16x8x16 bfloat16"],
        ["mma", "m16n8k16", "bf16"],
    ],
    ids=" ".join,
)
def test_every_name_of_an_operand_has_the_same_answer(run, name):
    for role in "ABCD":
        expected = run("find", "m16n8k16", "f32" if role in "CD" else "bf16", role, "--lane", "13")
        found = run("find", *name, role, "--lane", "13")
        assert (found.code, found.out) == (0, expected.out)


@pytest.mark.slow
def test_other_commands_take_names_too(run, tmp_path):
    assert run("show", "HMMA.16816.F32.BF16", "A").out == run("show", "m16n8k16", "bf16", "A").out
    assert run("draw", BF16, "A").out == run("draw", "m16n8k16", "bf16", "A").out
    assert run("draw", BF16).out == run("draw", "m16n8k16", "bf16").out
    chained = run("chain", "HMMA.16816.F32", "D", "m16n8k16", "half", "A")
    assert chained.out == run("chain", "m16n8k16", "f32", "D", "m16n8k16", "f16", "A").out
    linear = ("--format", "linear")
    assert (
        run("export", BF16, "B", *linear).out
        == run("export", "--shape", "m16n8k16", "--type", "bf16", "--role", "B", "--instruction", "mma", *linear).out
    )
    assert run("export", BF16, *linear).out.count("#ttg.linear<") == 4
    assert run("list", "--shape", "16x8x16").out == run("list", "--shape", "m16n8k16").out


def test_show_with_a_lane_is_find_with_a_lane(run):
    shown = run("show", "m16n8k16", "f16", "A", "--lane", "13")
    assert shown.out == run("find", "m16n8k16", "f16", "A", "--lane", "13").out
    assert len(shown.out.splitlines()) == 9


def test_show_of_an_instruction(run, built):
    shown = run("show", "HMMA.16816.F32.BF16")
    with lanemap.open(str(built)) as database:
        assert f"{database.show('HMMA.16816.F32.BF16')}\n" == shown.out
    mnemonic, operands, verdicts = (part.splitlines() for part in shown.out.split("\n\n"))
    assert mnemonic == [f"{BF16}  sm_80+"]
    assert [row.split()[:2] for row in operands[1:]] == [["A", "bf16"], ["B", "bf16"], ["C", "f32"], ["D", "f32"]]
    documents = dict.fromkeys(SHIPPED[:4], "identical")
    said = {**documents, CORRECTED: "rows", **dict.fromkeys(SHIPPED[-2:], "identical")}
    assert [row.split() for row in verdicts[1:]] == [[name, verdict, "all"] for name, verdict in said.items()]
    sparse = run("show", "mma.sp", "m16n8k32", "f16", "--format", "csv").out
    assert f"mma.sp,m16n8k32,E,f16,,,16 x 32,1,32,16,0 1,{'figure-only,' * 4}identical,rows" in sparse


def test_remarks_come_wherever_rows_do(run):
    """That an operand is that of mma.sp, and that the layouts of wmma hold for one architecture only."""
    a, wmma = ("m16n8k32", "f16", "A"), ("wmma", "m16n16k16", "f32", "D")
    only = "A of mma.sp m16n8k32 f16: only mma.sp has this operand"
    for words in (("show", *a, "--lane", "1"), ("show", *a), ("find", *a, "--lane", "1"), ("export", *a)):
        assert only in run(*words).err
    assert only in run("draw", *a).out
    architecture = "documents leave wmma open: the layouts of h200-sm_90a hold for its architecture alone"
    for words in (("show", *wmma), ("find", *wmma, "--lane", "1"), ("chain", *wmma, "m16n8k16", "f16", "A")):
        assert architecture in run(*words).err
    assert architecture in run("draw", *wmma).out
    assert architecture in run("export", *wmma, "--source", "h200-sm_90a").err


@pytest.mark.parametrize(
    ("words", "operands"),
    [
        ("m64n128k16 f16", f"{'A f16, ' * 9}{'B f16, ' * 8}D f16, D f32"),
        ("wgmma m64n128k16 bf16", f"{'A bf16, ' * 9}{'B bf16, ' * 8}D f32"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "A f16 row, B f16 col, C f32, D f32"),
        ("movmatrix m8n8 b16", "A b16 trans, D b16 trans"),
        ("m8n8k4 f16", "A f16 row, A f16 col, B f16 row, B f16 col, C f16, C f32, D f16, D f32"),
    ],
)
def test_every_instruction_is_shown_as_a_whole(run, words, operands):
    """Every operand is in the one table, and the last source has rows of all of them."""
    shown = run("show", *words.split()).out
    _, table, verdicts = shown.split("\n\n")
    columns = table.partition("matrix")[0].splitlines()[0].split()
    listed = [line.split()[: len(columns)] for line in table.splitlines()[1:]]
    assert [" ".join(row[:2]) for row in listed] == [" ".join(operand.split()[:2]) for operand in operands.split(", ")]
    of_last = verdicts[verdicts.index("h200-sm_90a") :].split()
    named = [word for word in of_last if re.fullmatch("[A-E],?|all", word)]
    assert (named, "figure-only" in of_last) == (["all"], False) if "m64" not in words else (named, False)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "words",
    [
        "m16n8k16 f16 A",
        "m16n8k32 s8 A",
        "m16n8k256 b1 A",
        "m16n8k32.scale_vec::1X.byte_id::0.thread_id::0 ue8m0 SFA",
        "m16n8k64 e2m1",
        "mma.sp m16n8k64 e3m2",
        "wmma m16n16k16 f16",
        "ldmatrix",
        "tcgen05.ld 16x256b",
    ],
)
def test_lines_fit_a_terminal_unless_they_are_one_word(run, words, database):
    """Nothing of a formula is lost to the width."""
    shown = run("show", *words.split()).out
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in shown.splitlines())
    formula = shown.split("\n\n")[1]
    fragment = database.fragment(*words.split()) if words.endswith(" A") else None
    assert fragment is None or formula.split() == fragment.citation.formula.split()


def test_of_several_shapes_each_operand_has_its_own_and_a_verdict_names_it(run):
    title, table, verdicts = run("show", "stmatrix").out.split("\n\n")
    assert title == "stmatrix"
    assert [line.split()[0] for line in table.splitlines()] == ["shape", *["m8n8"] * 12, *["m16n8"] * 3]
    drawn = next(line for line in verdicts.splitlines() if "figure-only" in line)
    assert drawn.split(maxsplit=2)[2] == "m16n8 r b8 x1.trans x2.trans x4.trans"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("mma.sp m16n8k64 e3m2 B", "figures 135, 136, 137, 138: lanemap import cute PATH adds them, from a CUTLASS"),
        ("ldmatrix m16n16 x1.trans b8x16 r", "figure 108, and no import has them\n"),
    ],
)
def test_what_is_only_drawn_is_described_and_where_its_rows_may_come_from_is_said(run, words, advice):
    shown = run("show", *words.split())
    assert shown.code == 2
    assert shown.err.startswith(f"lanemap: no source has rows for {words[-1]} of ")
    assert advice in shown.err
    assert shown.out.endswith("no rows: figure-only: the document has a figure of it and no formula\n")
    for command in (("find", *words.split(), "--lane", "0"), ("show", *words.split(), "--format", "csv")):
        assert (run(*command).code, run(*command).err) == (2, shown.err)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("words", "mnemonics"),
    [
        ("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16  sm_75+"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.shared.b16  sm_75+"),
        ("stmatrix m16n8.x4.trans b8", "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8  sm_100f sm_110f sm_120f"),
        ("ldmatrix m8n16 x1 b8x16", "b6x16_p32  sm_100f sm_110f sm_120f, b4x16_p64  sm_100f sm_110f sm_120f"),
        ("tcgen05.ld 16x256b x2", "16x256b.x2.b32  sm_100f sm_110f"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4", "x1.shared.s8.s4  sm_90a sm_100f sm_110f sm_120f"),
        ("ldmatrix m8n16 x2 s8", "x2.shared.s8.s4  sm_90a sm_100f sm_110f sm_120f"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.NaN.f32 {%r0}, %r1, [%r2];", "abs.NaN.f32  sm_103f sm_110f"),
        ("tcgen05.ld.red 16x32bx2 x4 u32", "x4.min.u32  sm_103f sm_110f, x4.max.u32  sm_103f sm_110f"),
        ("tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.NaN.f32.b2", "NaN.f32.b2  sm_107a"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32  sm_80+"),
        ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", "m64n8k32.f32.e4m3.e5m2  sm_90a"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "row.col.m16n16k16.f32.f32  sm_70+"),
    ],
)
def test_the_mnemonics_of_what_is_shown_come_first_with_their_targets(run, words, mnemonics):
    shown = run("show", *([words] if "{" in words else words.split())).out.partition("\n\n")[0].splitlines()
    assert len(shown) == len(mnemonics.split(", "))
    assert all(line.endswith(end) for line, end in zip(shown, mnemonics.split(", "), strict=True))


def test_what_was_not_asked_to_the_letter_is_said_on_stderr(run):
    found = run("find", "m16n8k32", "f16", "A", "--lane", "13")
    operand = "A of mma.sp m16n8k32 f16"
    measured = f"{CORRECTED} leaves more columns open for {operand}: these are from h200-sm_90a"
    said = f"lanemap: {operand}: only mma.sp has this operand\nlanemap: {measured}\n"
    assert (found.code, found.err) == (0, said)
    drawn = run("show", "m16n8k32", "f16", "E", "--instruction", "mma.sp", "--selector", "0")
    assert drawn.code == 0
    assert drawn.err.endswith("E of mma.sp m16n8k32 f16 selector 0: these are from h200-sm_90a\n")
    assert "source:   h200-sm_90a" in drawn.out
    assert run("find", "m16n8k16", "f16", "A", "--lane", "13").err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["find", "HMMA.16816.F32.BF16", "--row", "3"], ("say which role of HMMA.16816.F32.BF16: A, B, C, D",)),
        (
            ["find", "tcgen05.mma.cta_group::1.kind::f16", "A", "--row", "3"],
            ("is not covered", "neither shape nor types", "tcgen05.mma m128n128k16 f16 A 128B.K"),
        ),
        (["find", "wgmma m64n128k16 f16", "C", "--row", "3"], ("wgmma accumulates in D",)),
        (["find", "m16n8k32", "fp8", "A", "--row", "3"], ("fp8 is e4m3 or e5m2",)),
        (["show", "m16n8k8", "s4"], ("A of m16n8k8 is bf16, f16, f64, tf32",)),
        (["export", "m16n8k8", "f16", "--type", "f16"], ("either by words or by --shape",)),
        (["chain", "m16n8k8", "f32", "D", "m16n8k8", "f16", "A", "m16n8k8", "f16", "B"], ("name two operands",)),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused(refused, arguments, words):
    refused(*arguments, words=words)


@pytest.mark.parametrize("operand", ["m128n128k16 f16 B", "m128n128k64 e2m1 A", "m128n128k32 e2m1 A"])
def test_a_shape_in_memory_names_its_instruction(run, operand):
    """Also that of one whose mnemonics have no patterns of memory."""
    asked = (*operand.split(), "128B.K", "--row", "3", "--col", "9")
    assert run("find", *asked).out == run("find", "tcgen05.mma", *asked).out != ""


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("find m16n8k2", ["m16n8k256"]),
        ("find m16n8k8 ", ["bf16", "f16", "f32", "f64", "tf32"]),
        ("find 16x8x8 t", ["tf32"]),
        ("find m16n8k8 tf32 ", ["A", "B", "C", "D", "E"]),
        ("find m16n8k4 tf32 ", ["A", "B", "C", "D"]),
        ("find m16n8k8 f32 ", ["C", "D"]),
        ("show HMMA.16816.F32.BF16 ", ["A", "B", "C", "D"]),
        ("show m64n64k32 f16 ", ["A", "B", "D", "E"]),
        ("show wgmma m64n128k16 f16 ", ["A", "B", "D"]),
        ("find movmatrix ", ["m8n8"]),
        ("export m16n8k4 t", ["tf32"]),
        ("chain m16n8k16 f32 D m16n8k128 b", ["b1"]),
        ("chain m16n8k16 f32 D m16n8k25", ["m16n8k256"]),
        ("draw m16n8k4 tf32 A ", []),
        ("decode m16n8k8 t", ["tf32"]),
        ("decode m16n8k12", ["m16n8k128"]),
        ("remove ", []),
        ("find m99n8k8 ", []),
    ],
)
def test_completion_offers_only_what_there_is(completed, words, offered):
    assert completed(words) == offered


@pytest.mark.slow
def test_completion_offers_to_remove_what_was_added_once(completed, built, tmp_path):
    database = lanemap.open(shutil.copy(built, tmp_path / "layouts.db"))
    for name in ("mine", "yours"):
        database.add([replace(database.source("ptx-isa-9.4"), name=name)])
    assert completed("remove ", database.location) == ["mine", "yours"]
    assert completed("remove mine ", database.location) == ["yours"]
