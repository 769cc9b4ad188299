"""``export`` in other toolchains' notations, as people use it."""

import re

import pytest

import lanemap
from lanemap.db.render.notation import NOTATIONS

F16 = ("--shape", "m16n8k16", "--type", "f16", "--instruction", "mma")
FORMS = tuple(NOTATIONS)


@pytest.mark.parametrize("form", FORMS)
def test_one_operand_in_every_notation(run, snapshot, form):
    result = run("export", "--format", form, "--shape", "m16n8k8", "--type", "f16", "--role", "B")
    assert (result.code, result.err) == (0, "")
    assert result.out.replace(f"Lanemap {lanemap.__version__}", "Lanemap VERSION") == snapshot


@pytest.mark.few(3)
@pytest.mark.parametrize("form", FORMS)
def test_a_file_and_stdout_hold_the_same_and_leave_nothing_else(run, tmp_path, form):
    path = tmp_path / "layouts"
    path.write_text("old")
    assert run("export", "--format", form.upper(), "--output", path, *F16).out == ""
    assert path.read_text() == run("export", "--format", form, *F16).out
    assert list(tmp_path.iterdir()) == [path]


def test_an_instruction_gets_its_traits_only_where_all_its_operands_are(run):
    def structs(*selection):
        text = run("export", "--format", "cute", *selection).out
        return [line.split()[1] for line in text.splitlines() if line.startswith("struct ")]

    assert structs(*F16) == ["mma_m16n8k16_row_col_f16_f16_f16_f16"]
    assert structs(*F16, "--role", "A") == []
    assert "mma_m16n8k16_row_col_f32_bf16_bf16_f32" in structs("--shape", "m16n8k16")
    assert [name.startswith("wmma") for name in structs("--shape", "m8n8k4")] == [False] * 9 + [True] * 4


def test_words_name_the_dense_instruction_and_options_select_from_all(run):
    words = run("export", "--format", "linear", "m16n8k16", "f16", "A")
    assert (words.code, words.err, words.out.count("#ttg.linear<")) == (0, "", 1)
    assert "struct mma_m16n8k16_row_col_f32_bf16_bf16_f32" in run("export", "--format", "cute", "m16n8k16 bf16").out
    assert ",mma.sp," not in run("export", "m16n8k16", "f16", "A").out
    assert ",mma.sp," in run("export", "m16n8k32", "f16", "A").out
    assert ",mma.sp," in run("export", "mma.sp", "m16n8k16", "f16", "A").out
    assert ",mma.sp," in run("export", "--shape", "m16n8k16", "--type", "f16", "--role", "A").out


def test_what_is_refused_is_named_and_the_rest_is_written(run):
    result = run("export", "--format", "cute", "--shape", "m16n8k16", "--type", "f16")
    assert result.code == 1
    sparse = "A of mma.sp m16n8k16 f16: lane 0 reg 0 slot 0 can stand for any column from 0 to 2"
    first, *metadata = result.err.splitlines()
    assert first == f"lanemap: cute cannot express {sparse}"
    assert all(f"E of mma.sp m16n8k16 f16 selector {n}: lane {n}" in line for n, line in enumerate(metadata))
    assert "mma_sp_m16n8k16_f16_b = " in result.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "roles"),
    [("mma.sp m16n8k32 f16", "ABCDE"), ("wgmma m64n8k16 f16", "AD"), ("wmma m16n16k16 f16 D", "D")],
)
def test_what_the_document_only_draws_is_of_the_best_evidence_which_is_named(run, words, roles):
    """As show has it: nothing is left out without a word."""
    result = run("export", *words.split(), "--format", "cpp")
    lines = result.out.splitlines()
    heads = (at for at, line in enumerate(lines) if re.match(r"// [A-E] of \S+ m\d", line) and "in memory" not in line)
    named = {lines[at][3]: lines[at + 1] for at in heads}
    assert set(named) == set(roles)
    assert result.code == 0
    for role in roles:
        shown = run("show", *words.split()[:3], role).out
        assert named[role].split()[1].strip(",") == re.search(r"source: +(\S+)", shown)[1]
    refused = run("export", *words.split(), "--format", "cpp", "--source", "ptx-isa-9.4")
    assert refused.code == (2 if "wmma" in words else 1)


def test_notations_take_one_source_by_default_the_one_of_look_ups(run):
    assert "ptx-isa-9.4+errata, section 9.7.16.5.8" in run("export", "--format", "ptx-formula", *F16).out
    other = run("export", "--format", "ptx-formula", *F16, "--source", "h200-sm_90a").out
    assert "// h200-sm_90a, Lanemap" in other
    assert "errata" not in other


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-f", "cute", "--instruction", "mma.sp", "--role", "A", "--shape", "m16n8k8"), ("cute cannot express A of",)),
        (("-f", "linear", "--role", "A", "--instruction", "mma.sp"), ("any column from", "more likewise")),
        (("-f", "cute", "--role", "E"), ("cute cannot express E of mma.sp", "any column from 0 to 2")),
        (("-f", "affine", "--shape", "m16n8k17"), ("no shape m16n8k17", "m16n8k16")),
        (
            ("-f", "cpp", "--shape", "m16n8k8", "-o", "/no/such/folder/x.hpp"),
            ("/no/such/folder/x.hpp", "the folder /no/such/folder does not exist"),
        ),
        (("-f", "cutee"), ("cutee", "cute", "ptx-formula")),
    ],
    ids=lambda value: " ".join(value)[:50],
)
def test_bad_input_is_one_line_and_exit_2(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused("export", *arguments, words=words)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_everything_is_refused(run, tmp_path):
    path = tmp_path / "layouts.hpp"
    path.write_text("old")
    result = run("export", "-f", "cute", "--instruction", "mma.sp", "--role", "A", "--output", path)
    assert (result.code, path.read_text()) == (2, "old")


@pytest.mark.slow
def test_an_imported_table_of_64_lanes_is_exported_in_every_notation_and_drawn(run, file, tmp_path):
    """An instruction that nobody has heard of: only Triton's encodings of mma cannot be it."""
    cells = [(lane, i, i // 4 * 8 + lane // 32 * 4 + i % 4, lane % 32) for lane in range(64) for i in range(16)]
    lines = [f"m32n32k8,f32,D,{lane},{reg},0,{row},{col},x.matmul" for lane, reg, row, col in cells]
    (tmp_path / "table.csv").write_text("\n".join(["shape,type,role,lane,reg,slot,row,col,instruction", *lines]) + "\n")
    assert run("import", "table", tmp_path / "table.csv", "--name", "theirs", "--db", file).code == 0
    for form in FORMS:
        result = run("export", "--format", form, "--source", "theirs", "--db", file)
        assert result.code == (2 if form == "triton" else 0), result.err
        assert ("x_matmul" in result.out) == (form not in ("triton", "ptx-formula"))
    drawn = run("draw", "m32n32k8", "f32", "D", "--source", "theirs", "--lane", "63", "--db", file)
    assert drawn.code == 0, drawn.err
    assert "lane63" in drawn.out
