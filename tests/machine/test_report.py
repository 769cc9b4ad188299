"""What a run says in each format, and what a kernel is launched with from a file."""

import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest

import lanemap
from lanemap import LanemapError

from .kernels import ARGUMENTS, FORMULA, PRODUCT

EXCHANGED = PRODUCT.replace("{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}")
UNKNOWN = PRODUCT.replace("    mma.sync", "    wondrous.b32 %a0, %a1;\n    mma.sync")
SETTINGS = f"""block = 64
product = "{FORMULA}"

[args]
A = "f16[16,16]"
B = "f16[8,16]"
C = "f32[16,8]"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, built):
    """A folder with kernels and what they are launched with, in the current one."""
    (tmp_path / "kernels").mkdir()
    for name, text in (("gemm", PRODUCT), ("exchanged", EXCHANGED), ("unknown", UNKNOWN)):
        (tmp_path / "kernels" / f"{name}.ptx").write_text(text)
    (tmp_path / "kernels" / "gemm.trace.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANEMAP_DB", str(built))
    return tmp_path / "kernels"


@pytest.fixture
def traced(run, folder):
    """A function that runs the command on a kernel of the folder, with the settings beside it."""

    def traced(name, *words):
        return run("trace", f"kernels/{name}.ptx", "--args", "kernels/gemm.trace.toml", *words)

    return traced


def test_a_file_says_what_options_say(run, traced):
    words = [word for argument in ARGUMENTS for word in ("--arg", argument)]
    for name, code in (("gemm", 0), ("exchanged", 1)):
        told = run("trace", f"kernels/{name}.ptx", "--block", "64", *words, "--product", FORMULA)
        written = traced(name)
        assert written.code == told.code == code
        assert written.out.rpartition(",")[0] == told.out.rpartition(",")[0]  # behind it is the time
        assert all(len(line) <= 80 for line in written.out.splitlines())


def test_what_a_command_says_takes_the_place_of_what_a_file_says(traced):
    assert traced("gemm", "--block", "32").code == 1  # nobody loads B
    assert traced("gemm", "--product", "C[m,n] = 2 A[m,k] B[n,k]").code == 1
    assert traced("gemm", "--arg", "A=f16[16,16]=0").code == 0
    assert "k is 8 of A" in traced("gemm", "--arg", "A=f16[16,8]").err


def test_files_that_it_names_lie_beside_it(traced, folder):
    given = np.arange(256, dtype="f2").reshape(16, 16) % 5
    np.save(folder / "a.npy", given)
    (folder / "gemm.trace.toml").write_text(SETTINGS.replace('"f16[16,16]"', '"@a.npy"'))
    assert traced("gemm").code == 0
    found = lanemap.trace(folder / "gemm.ptx", args=folder / "gemm.trace.toml")
    assert found.ok
    assert np.array_equal(found.outputs["A"], given)


def test_files_may_begin_with_a_mark(traced, folder):
    for name in ("gemm.ptx", "gemm.trace.toml"):
        (folder / name).write_text((folder / name).read_text(), encoding="utf-8-sig")
    assert traced("gemm").code == 0


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("block = ", "gemm.trace.toml is no TOML"),
        ('block = "64"', "gemm.trace.toml: block: expected a whole number or a list or nothing, got text"),
        ("blocks = 64", "gemm.trace.toml: unknown key 'blocks': did you mean 'block'?"),
        ("args = 3", "gemm.trace.toml: args: expected a table, got a whole number"),
        ("block = 64\n[args]\nA = [16, 16]", "args[...]: expected"),
        ("block = 64\n[args]\nA = true", "args[...]: expected"),
        ("block = 64\n[args]\nA = 'f17[16]'", "f17 is no type of elements"),
        ("block = [1, 2, 3, 4]\n[args]\nA = 1", "block [1, 2, 3, 4]: give one to three numbers"),
        ("product = 'C[m,n] = A[m,k]'", "say how many threads a block has"),
        ("[args]\nA = 1\nA = 2", "is no TOML"),
    ],
)
def test_what_is_no_setting_is_refused_in_one_line(traced, folder, written, words):
    (folder / "gemm.trace.toml").write_text(written)
    said = traced("gemm")
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1


IDLE = ".visible .entry idle(.param .u64 a, .param .u32 n) { ret; }"


@pytest.mark.parametrize(
    "how",
    [
        *({"block": each} for each in (64.0, "64", "32,2", (32, 2.0), np.int64(64), np.array([32, 2]), ["32", "2"])),
        *({name: each} for name in ("grid", "shared", "seed") for each in (2.0, "2", np.int32(2))),
        *({"arguments": {"A": "f16[4]", "n": each}} for each in (3, np.int32(3), np.float32(3), "3")),
        {"arguments": ("A=f16[4]", "n=3")},
    ],
    ids=repr,
)
def test_numbers_may_be_of_any_type_that_has_them(database, how):
    assert database.trace(IDLE, **{"block": 32, "arguments": {"A": "f16[4]", "n": 3}} | how).ok


@pytest.mark.parametrize(
    "how",
    [
        *({name: each} for name in ("block", "grid") for each in (6.5, True, b"2", {}, [[]], "x", "9" * 5000, {1})),
        *({"block": each} for each in (float("nan"), float("inf"), [1, 2, 3, 4], {32}, (each for each in (32, 2)))),
        *({name: each} for name in ("shared", "seed") for each in (2.5, True, [], "x")),
        *({name: each} for name in ("product", "entry", "source", "args", "save") for each in (7, b"x", ["x"])),
        *({"kernel": each} for each in (7, None, b"x", [], "a\0b", "")),
        *({"arguments": each} for each in (7, None, ["A=f16[4]", 7], b"xx", {"A": None, "n": 3}, {"A": b"x", "n": 3})),
        *({"arguments": {"A": each, "n": 3}} for each in ([[1], [2, 3]], np.zeros(0, "f4"), np.array(["x"]), {})),
        *({"arguments": {"A": "f16[4]", "n": each}} for each in (3j, 10**400)),
    ],
    ids=lambda how: repr(how)[:40],
)
def test_what_is_of_no_use_is_refused_in_one_line(database, how):
    with pytest.raises(LanemapError, match=r"^[^\n]+$"):
        database.trace(**{"kernel": IDLE, "block": 32, "arguments": {"A": "f16[4]", "n": 3}} | how)


def test_a_file_that_is_not_there_is_refused(run, folder):
    assert "cannot read none.toml: No such file" in run("trace", "kernels/gemm.ptx", "--args", "none.toml").err
    unnamed = run("trace", "kernels/gemm.ptx", "--args", "kernels/gemm.trace.toml", "--arg", "f16[16,16]")
    assert "say which argument of the file it takes the place of" in unnamed.err


def test_every_format_says_what_is_wrong(traced):
    registers = "registers 1 and 2 are exchanged"
    for form in ("table", "markdown", "html", "json", "junit", "github"):
        said = traced("exchanged", "--format", form)
        assert said.code == 1
        assert registers in said.out, form
        assert registers not in traced("gemm", "--format", form).out
    record = json.loads(traced("exchanged", "--format", "json").out)
    assert (record["ok"], record["exit_code"], record["kernel"]) == (False, 1, "gemm")
    assert [finding["kind"] for finding in record["findings"]] == ["operand", "sum"]


def cases(text):
    """The outcome of each case of a report in JUnit XML, by name; counts are those of the cases."""
    (suite,) = ElementTree.fromstring(text.encode())
    found = {case.get("name"): case[0].tag if len(case) else "passed" for case in suite}
    counted = {name: [*found.values()].count(tag) for name, tag in (("failures", "failure"), ("skipped", "skipped"))}
    assert {name: int(suite.get(name)) for name in counted} == counted
    assert int(suite.get("tests")) == len(found)
    return found


def test_junit_has_the_same_cases_of_every_kernel(traced, run):
    right, wrong = (cases(traced(name, "--format", "junit").out) for name in ("gemm", "exchanged"))
    assert {*right.values()} == {"passed"}
    assert {name for name, outcome in wrong.items() if outcome == "failure"} == {"operand", "product"}
    assert [*right] == [*wrong]
    stopped = cases(traced("unknown", "--format", "junit").out)
    assert stopped == {**dict.fromkeys(right, "skipped"), "run": "failure"}
    words = ["trace", "kernels/gemm.ptx", "--block", "64", "--arg", "A=f16[16,16]", "--arg", "B=f16[8,16]"]
    assert cases(run(*words, "--arg", "C=f32[16,8]=0", "-f", "junit").out) == right | {"product": "skipped"}


def test_junit_is_what_jenkins_accepts(traced):
    """Against the schema that Jenkins' xUnit plugin checks its input with."""
    if not (schema := os.environ.get("LANEMAP_JUNIT_XSD")):
        pytest.skip("LANEMAP_JUNIT_XSD does not name the schema of Jenkins' xUnit plugin (junit-10.xsd)")
    import xmlschema

    for name in ("gemm", "exchanged", "unknown"):
        written = traced(name, "--format", "junit").out
        xmlschema.XMLSchema(schema).validate(ElementTree.fromstring(written.encode()))


def test_annotations_are_of_the_kernel_or_its_source(traced, folder):
    first, second = traced("exchanged", "--format", "github").out.splitlines()
    line = next(number for number, text in enumerate(EXCHANGED.splitlines(), 1) if "mma.sync" in text)
    assert first.startswith(f"::error file=kernels/exchanged.ptx,line={line},title=gemm::A of mma 1")
    assert second.startswith("::error file=kernels/exchanged.ptx,title=gemm::C: ")
    text = EXCHANGED.replace("    mma.sync", "    .loc 1 7 0\n    mma.sync") + '\n.file 1 "src/gemm.cu"\n'
    (folder / "exchanged.ptx").write_text(text)
    assert traced("exchanged", "-f", "github").out.startswith("::error file=gemm.cu,line=7,title=gemm::A of mma 1")
    inlined = ".loc 1 7 0\n.loc 2 9 0, function_name $name, inlined_at 1 7 0\n    mma.sync"
    text = EXCHANGED.replace("    mma.sync", inlined) + '\n.file 1 "src/gemm.cu"\n.file 2 "mma.h"\n'
    (folder / "exchanged.ptx").write_text(text)
    said = traced("exchanged", "-f", "github").out
    assert said.startswith("::error file=gemm.cu,line=7,title=gemm::A of mma 1 (gemm.cu:7 via mma.h:9), warp 0:")
    assert json.loads(traced("exchanged", "-f", "json").out)["findings"][0]["place"] == "gemm.cu:7"
    assert "stopped: line" in traced("unknown", "--format", "github").out


def test_a_report_is_written_to_a_file(traced, folder):
    assert traced("exchanged", "-f", "markdown", "-o", "report.md").out == ""
    assert (folder.parent / "report.md").read_text().startswith("# Trace of gemm\n\n**2 findings in gemm**\n")
    for name in ("exchanged.ptx", "gemm.trace.toml"):
        assert "it is also the input" in traced("exchanged", "-o", f"kernels/{name}").err


def test_a_notebook_shows_the_operand_that_is_wrong(folder):
    wrong, right = (
        lanemap.trace(folder / f"{name}.ptx", args=folder / "gemm.trace.toml") for name in ("exchanged", "gemm")
    )
    assert wrong._repr_html_().count("<img") == 1
    assert "<img" not in right._repr_html_()
    assert "128 of 256 elements differ" in wrong.draw("A").svg()
    assert "Nothing differs" in right.draw("A").svg()
    assert repr(wrong).startswith("A of mma 1")
    with pytest.raises(LanemapError, match="not as 'csv'"):
        wrong.report("csv")


def test_no_file_is_read_where_none_may_be(folder):
    with lanemap.open() as database:
        for given in ("A=@kernels/a.npy", "A=bytes:@kernels/gemm.ptx"):
            with pytest.raises(LanemapError, match="no file can be read here"):
                database.trace(PRODUCT, [given, *ARGUMENTS[1:]], block=64, files=False)
        with pytest.raises(LanemapError, match="this is no PTX"):
            database.trace("kernels/gemm.ptx", ARGUMENTS, block=64, files=False)


def test_a_product_that_is_right_is_said_to_be(run, traced):
    """And no other: not one that is wrong, not checked, or not given."""
    assert traced("gemm").out.startswith("C: all 128 elements are right\n")
    words = [word for argument in ARGUMENTS for word in ("--arg", argument)]
    unasked = run("trace", "kernels/gemm.ptx", "--block", "64", *words)
    assert unasked.code == 0
    for other in (traced("exchanged"), traced("unknown"), unasked):
        assert "are right" not in other.out
