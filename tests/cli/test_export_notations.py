"""``export`` in other toolchains' notations, as people use it."""

import pytest

import lanemap
from lanemap.db.notation import NOTATIONS

F16 = ("--shape", "m16n8k16", "--type", "f16", "--instruction", "mma")
FORMS = tuple(NOTATIONS)


@pytest.mark.parametrize("form", FORMS)
def test_one_operand_in_every_notation(run, snapshot, form):
    result = run("export", "--format", form, "--shape", "m16n8k8", "--type", "f16", "--role", "B")
    assert (result.code, result.err) == (0, "")
    assert result.out.replace(f"Lanemap {lanemap.__version__}", "Lanemap VERSION") == snapshot


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
    assert len(structs("--shape", "m8n8k4")) == 9


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
    sparse = "A of mma.sp m16n8k16 f16: lane 0 reg 0 slot 0 can stand for any column from 0 to 3"
    assert result.err == f"lanemap: cute cannot express {sparse}\n"
    assert "mma_sp_m16n8k16_f16_b = " in result.out


def test_notations_take_one_source_by_default_the_one_of_look_ups(run):
    assert "ptx-isa-9.1+errata, section 9.7.14.5.8" in run("export", "--format", "ptx-formula", *F16).out
    other = run("export", "--format", "ptx-formula", *F16, "--source", "h200-sm_90a").out
    assert "// h200-sm_90a, Lanemap" in other
    assert "errata" not in other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-f", "cute", "--instruction", "mma.sp", "--role", "A", "--shape", "m16n8k8"), ("cute cannot express A of",)),
        (("-f", "linear", "--role", "A", "--instruction", "mma.sp"), ("any column from", "more likewise")),
        (("-f", "cute", "--role", "E"), ("figure-only", "ask the source h200-sm_90a")),
        (("-f", "affine", "--shape", "m16n8k17"), ("no shape m16n8k17", "m16n8k16")),
        (
            ("-f", "cpp", "-o", "/no/such/folder/x.hpp"),
            ("/no/such/folder/x.hpp", "the folder /no/such/folder does not exist"),
        ),
        (
            (
                "-f",
                "cutee",
            ),
            ("cutee", "cute", "ptx-formula"),
        ),
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
