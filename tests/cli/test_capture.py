"""``capture`` and ``decode`` as commands. The card is a simulated warp; what it measures is not recorded anywhere."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap.capture import cuda, kernels
from lanemap.db.lookup import Query, read_fragments

from ..capture.group import SimulatedGroup
from ..forms import BOXES, CAPTURED, DENSE_FORMS, SPARSE_FORMS
from ..shipped import recorded

LANEMAP = Path(sysconfig.get_path("scripts")) / "lanemap"


@pytest.fixture(scope="module")
def measured():
    return {fragment.key: fragment for fragment in recorded().fragments}


@pytest.fixture
def card(monkeypatch, measured):
    """A machine whose GPU has the layouts that were measured."""

    @contextmanager
    def gpu(*_):
        yield SimulatedGroup(measured)

    monkeypatch.setattr(cuda, "Gpu", gpu)


def test_list_names_every_form_without_a_gpu(run):
    rows = json.loads(run("capture", "--list", "--format", "json").out)
    assert [row["instruction"] for row in rows] == [str(form) for form in CAPTURED]
    assert len(json.loads(run("capture", "--list", "-i", "mma.sp", "--format", "json").out)) > len(SPARSE_FORMS)
    chosen = json.loads(run("capture", "--list", "-i", "*.b1.*and.popc", "--shape", "M8N8K128", "--format", "json").out)
    assert [row["target"] for row in chosen] == ["sm_80"]


@pytest.mark.parametrize("pattern", ["mma.sync*", pytest.param(None, marks=pytest.mark.slow)])
def test_ptx_writes_every_kernel_without_a_gpu(run, tmp_path, pattern):
    chosen = [each for each in CAPTURED if fnmatch(str(each), pattern or "*")]
    options = ["--instruction", pattern] if pattern else []
    assert run("capture", "--ptx", tmp_path / "ptx", *options).out == f"{len(chosen)} kernels in {tmp_path}/ptx\n"
    written = {path.name: path.read_text() for path in (tmp_path / "ptx").glob("*.ptx")}
    one = run("capture", "--ptx", tmp_path / "one", "--instruction", "mma.sync.aligned.m8n8k4.row.col.f64*")
    assert one.out == f"1 kernel in {tmp_path}/one\n"
    assert len(written) == len(chosen)
    for each in chosen:
        text = written[f"{str(each).replace('::', '-')}.ptx"]
        assert each.mnemonic in text or each in BOXES  # a tensor map has the box


def test_kernels_that_are_not_all_written_leave_no_folder(run, tmp_path, monkeypatch):
    def interrupted(form):
        assert any(tmp_path.rglob("*.ptx")) == (form != CAPTURED[0])
        if form == CAPTURED[3]:
            raise KeyboardInterrupt
        return made(form)

    made = kernels.kernels
    monkeypatch.setattr(kernels, "kernels", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernels.write_kernels(CAPTURED[:5], tmp_path / "ptx")
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_a_capture_is_a_file_that_diff_calls_identical(run, card, tmp_path):
    path = tmp_path / "mine.parquet"
    result = run("capture", "--shape", "m16n8k16", "--output", path, "--format", "json")
    assert result.code == 0
    assert {row["status"] for row in json.loads(result.out)} == {"captured"}
    assert f"stored as simulated-warp-sm_90a in {path}" in " ".join(result.err.split())
    assert run("diff", path, "h200-sm_90a", "m16n8k16").code == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_capture_without_a_file_goes_to_the_database(run, card, file):
    assert run("capture", "--shape", "m8n8k16", "--name", "mine", db=file).code == 0
    assert "mine" in run("list", "sources", db=file).out
    assert run("diff", "mine", "h200-sm_90a", "m8n8k16", db=file).code == 0


@pytest.mark.slow
def test_a_card_like_the_one_that_ships_gets_a_source_of_its_own(run, card, file, monkeypatch):
    monkeypatch.setattr("lanemap.capture.run.source_name", lambda *_: "h200-sm_90a")
    said = run("capture", "--shape", "m8n8k16", db=file).out
    assert f"stored as h200-sm_90a-own in {file}" in " ".join(said.split())
    assert run("diff", "h200-sm_90a-own", "h200-sm_90a", "m8n8k16", db=file).code == 0


@pytest.mark.slow
def test_a_capture_ends_with_what_it_found_how_it_compares_and_where_it_is(run, card, tmp_path):
    asked = ("capture", "--shape", "m16n8k32", "-i", "mma", "--type", "e4m3", "--output", tmp_path / "x.parquet")
    result = run(*asked)
    first, _, absent, compared, *stored = result.out.splitlines()
    assert first == "simulated warp, sm_90a: 4 instructions captured, 0 failed"
    assert absent == "this card does not support 15 more: --all lists them"
    assert compared == "compared with h200-sm_90a, which ships: 7 identical"
    assert "".join(stored).startswith("stored as simulated-warp-sm_90a in ")
    listed = run(*asked, "--all").out.partition("\n\n")[2].splitlines()
    assert listed[0].split() == ["status", "instruction"]
    assert [line.split()[0] for line in listed[1:]].count("unsupported") == 15
    assert len(listed) == 1 + 4 + 15


@pytest.mark.slow
def test_a_card_that_differs_from_the_run_that_ships_is_told_so(run, monkeypatch, measured, tmp_path):
    from dataclasses import replace

    key = ("ldmatrix", "m8n8", "b16", "r", None, None, "x1")
    table = measured[key].elements.copy()
    table["col"] = table["col_last"] = 7 - table["col"]
    card = {**measured, key: replace(measured[key], elements=table)}
    monkeypatch.setattr(cuda, "Gpu", lambda *_: nullcontext(SimulatedGroup(card)))
    said = run("capture", "-i", "ldmatrix", "--output", tmp_path / "x.parquet").out
    assert "which ships: 17 identical, 1 different" in said


def test_without_a_run_of_the_architecture_nothing_is_compared(run, monkeypatch, measured, tmp_path):
    group = SimulatedGroup(measured, target="sm_80")
    monkeypatch.setattr(cuda, "Gpu", lambda *_: nullcontext(group))
    said = run("capture", "--shape", "m8n8k16", "--output", tmp_path / "x.parquet").out
    assert "no run of sm_80 ships with Lanemap to compare it with" in said


def test_what_fails_or_disagrees_is_told_and_makes_exit_1(run, monkeypatch, measured, tmp_path):
    from dataclasses import replace

    from lanemap.capture.device import LaunchFailed

    class Broken(SimulatedGroup):
        def run(self, kernel, probes):
            if kernel.form.a == "tf32":
                raise LaunchFailed("the launch failed: an illegal address")
            return super().run(kernel, probes)

    key = ("mma", "m16n8k8", "bf16", "A", "row", None, None)
    table = measured[key].elements.copy()
    table["row"] = np.where(table["reg"] == 0, 15 - table["row"], table["row"] - 8)
    table["row"] = np.where(table["reg"] == 0, measured[key].elements["row"] + 8, table["row"])
    wrong = {**measured, key: replace(measured[key], elements=table)}

    @contextmanager
    def gpu(*_):
        yield Broken(wrong)

    monkeypatch.setattr(cuda, "Gpu", gpu)
    result = run("capture", "--shape", "m16n8k8", "-i", "mma", "--output", tmp_path / "x.parquet", "--format", "json")
    assert result.code == 1
    status = {row["instruction"].split(".")[7]: row["status"] for row in json.loads(result.out)}
    assert status["tf32"] == "failed"
    assert status["f16"] == "captured"
    assert "an illegal address" in result.err
    documented = {row["instruction"].split(".")[7]: row["documented"] for row in json.loads(result.out)}
    assert documented["bf16"] == "disagrees"
    assert "products by the documented layout" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("capture", "-i", "tcgen05.mma"), ("no instruction matches", "--list")),
        (("capture", "--shape", "m1n1k1", "--list"), ("no instruction matches",)),
        (("capture", "--ptx", "/proc/no"), ("/proc/no",)),
        (("capture", "--device", "-1"), ("--device",)),
    ],
)
def test_bad_input_is_one_line(refused, arguments, words):
    refused(*arguments, words=words)


def test_no_pycuda_says_what_to_install(built, tmp_path):
    """A package folder that cannot be imported stands for one that is not there."""
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").write_text("raise ModuleNotFoundError('no pycuda', name='pycuda')")
    environment = os.environ | {"LANEMAP_DB": str(built), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([LANEMAP, "capture"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install pycuda" in done.stderr


def sparse_operands():
    """Every sparse shape and type with each of its selectors, once."""
    seen = {(form.shape, form.a, selector) for form in SPARSE_FORMS for selector in form.selectors}
    return sorted(seen)


def some_words(type_):
    """A word of valid metadata for each lane."""
    vectors = [0x4, 0xE] if type_ == "tf32" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE]
    chosen = np.random.default_rng(7).choice(vectors, (32, 8))
    return [sum(int(vector) << 4 * at for at, vector in enumerate(column)) for column in chosen]


def test_metadata_becomes_columns_and_these_metadata(database):
    """Of the words, the lanes and bits that E names come back: the others are read by nobody."""
    for shape, type_, selector in sparse_operands():
        words = some_words(type_)
        decoded = database.decode(f"{shape} {type_}", words, selector=selector)
        columns = {tuple(place): col for *place, _, col in decoded.columns_by_slot().rows}
        back = database.encode(f"{shape} {type_}", columns, selector=selector)
        assert not (back.words & ~np.array(words, np.uint32)).any()
        assert back.words.any()
        assert (back.columns == decoded.columns).all(), (shape, type_, selector)


@pytest.mark.parametrize(("shape", "type_", "selector"), [("m16n8k8", "tf32", 0), ("m16n8k32", "f16", 1)])
def test_what_decode_prints_is_what_it_takes(run, database, tmp_path, shape, type_, selector):
    words = some_words(type_)
    operand = (shape, type_, "--selector", str(selector), "--format", "csv")
    (tmp_path / "columns.csv").write_text(run("decode", *operand, *map(hex, words)).out)
    back = csv.DictReader(io.StringIO(run("decode", *operand, "--columns", tmp_path / "columns.csv").out))
    decoded = database.decode(f"{shape} {type_}", words, selector=selector)
    columns = {tuple(place): col for *place, _, col in decoded.columns_by_slot().rows}
    assert [int(row["metadata"], 0) for row in back] == database.encode(
        f"{shape} {type_}", columns, selector=selector
    ).words.tolist()


def test_decode_names_each_row_s_columns_once_and_ascending(run, built):
    rows = list(
        csv.DictReader(io.StringIO(run("decode", "m16n8k32", "f16", "0xE4E4E4E4", "--selector", "1", "-f", "csv").out))
    )
    by_row = {}
    for row in rows:
        by_row.setdefault(int(row["row"]), []).append(int(row["col"]))
    assert sorted(by_row) == list(range(16))
    for columns in by_row.values():
        assert sorted(columns) == [8 * n + c for n in range(4) for c in (0, 1, 6, 7)]
    with lanemap.open(str(built)) as database:
        a, *_ = read_fragments(database.reader, Query("m16n8k32", "f16", "A", "mma.sp", source="h200-sm_90a"))
    for row, element in zip(rows, a.elements, strict=True):
        assert element["col"] <= int(row["col"]) <= element["col_last"]


def test_one_word_stands_for_all_lanes_and_stdin_for_many(run):
    operand = ("decode", "m16n8k8", "tf32", "--selector", "0")
    expected = run(*operand, *["0x44444444"] * 32).out
    assert run(*operand, "0x44444444").out == expected
    assert run(*operand, "-", stdin=b"0x44444444\n" * 32).out == expected


def test_metadata_of_a_whole_name_is_that_of_its_shape_and_type(run, database):
    mnemonic = "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    expected = run("decode", *"m16n8k16 f16 0xE4E4E4E4 --selector 0".split())
    for words in (mnemonic, "mma.sp m16n8k16 f16", "f16 m16n8k16"):
        assert run("decode", *words.split(), "0xE4E4E4E4", "--selector", "0") == expected
        found = database.decode(words, [0xE4E4E4E4], selector=0)
        assert found.rows().rows == database.decode("m16n8k16 f16", [0xE4E4E4E4], selector=0).rows().rows


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("m16n8k16", "f16", "0x44444444"), ("selector 0 or 1 or 2 or 3 (--selector)",)),
        (("m16n8k16", "f16", "0x0", "--selector", "0"), ("lane 0", "0x0", "0x4, 0x8, 0x9, 0xC, 0xD, 0xE")),
        (("m16n8k16", "f16", "0x44444444", "--selector", "4"), ("selector 0 or 1 or 2 or 3", "not 4")),
        (("m16n8k16", "f16", "x", "--selector", "0"), ("0 words of metadata: give 32",)),
        (("m16n8k16", "f16", "0x", "--selector", "0"), ("'0x' is not a word of metadata",)),
        (("m16n8k16", "f16", "0x1FFFFFFFF", "--selector", "0"), ("is not a word of metadata",)),
        (("m16n8k16", "f16", "0x4", "0x4", "--selector", "0"), ("2 words", "32")),
        (("m16n8k16", "f16", "--selector", "0"), ("0 words of metadata: give 32",)),
        (("m16n8k16", "f16", "0x4", "--columns", "x", "--selector", "0"), ("--columns FILE", "not both")),
        (("m16n8k16", "f16", "--columns", "/no/such", "--selector", "0"), ("/no/such",)),
        (("m16n8k64", "e2m1", "0x44444444"), ("no source has the elements of E",)),
        (("m16n8k4", "tf32", "0x44444444"), ("m16n8k4",)),
        (("m16n8k16", "f16", "--columns", __file__, "--selector", "0"), ("lane, reg, slot and col",)),
    ],
)
def test_bad_metadata_is_one_line(refused, arguments, words):
    refused("decode", *arguments, words=words)


@pytest.mark.slow
def test_the_shipped_capture_is_preferred_however_old_the_others_are(run, measured, file):
    """E of the others has its rows upside down, so that it shows which one was used."""
    from dataclasses import replace

    from lanemap.db.layout.fragment import Source

    key = ("mma.sp", "m16n8k16", "f16", "E", None, 0, None)
    table = measured[key].elements.copy()
    table["row"] = 15 - table["row"]
    odd = [replace(measured[key], elements=table), measured["mma.sp", "m16n8k16", "f16", "A", "row", None, None]]
    lanemap.open(str(file)).add([Source("a", "import", "a", odd, {}), Source("b", "capture", "b", odd, {})])
    find = ("find", *"m16n8k16 f16 E --selector 0 -f csv".split())
    assert run(*find, db=file).out == run(*find).out
    metadata = ["0xE4E4E4E4" if lane < 16 else "0x44444444" for lane in range(32)]
    words = ("decode", "m16n8k16", "f16", *metadata, "--selector", "0")
    right = run(*words).out
    for again in (False, True):
        if again:
            lanemap.open(str(file)).refresh()
        with lanemap.open(str(file)) as database:
            summary = database.show("mma.sp m16n8k16 f16")
            assert {str(operand.fragment.source) for operand in summary.operands} <= lanemap.shipped_names()
        result = run(*words, db=file)
        assert result.out == right
        assert result.err == "lanemap: metadata as in h200-sm_90a; --source takes another: h100-sm_90a, b, a\n"
    for name in "ab":
        result = run(*words, "--source", name, db=file)
        assert (result.code, result.err) == (0, "")
        assert result.out != right


def test_choices_that_are_no_sparsity_are_refused(refused, run, tmp_path):
    rows = run("decode", "m16n8k16", "f16", "0x44444444", "--selector", "0", "--format", "csv").out.splitlines()
    path = tmp_path / "columns.csv"
    path.write_text("\n".join([rows[0], rows[1].rsplit(",", 1)[0] + ",5", *rows[2:], ""]))
    refused("decode", "m16n8k16", "f16", "--selector", "0", "--columns", path, words=("column 5", "chunk"))
    path.write_text("\n".join([*rows[:-1], ""]))
    refused("decode", "m16n8k16", "f16", "--selector", "0", "--columns", path, words=("no column for 1 of 128",))


def test_every_dense_form_is_in_what_ships(measured):
    assert {form.key(role) for form in (*DENSE_FORMS, *SPARSE_FORMS) for role in "ABCD"} <= set(measured)


_SLOW = """
import sys, time; file = sys.argv.pop()
from contextlib import contextmanager
from lanemap.capture import cuda, kernels, recording
from group import SimulatedGroup

class Slow(SimulatedGroup):
    def run(self, kernel, probes):
        time.sleep(0.2)
        return super().run(kernel, probes)

@contextmanager
def gpu(*_):
    yield Slow({fragment.key: fragment for fragment in recording.read(file).fragments})

cuda.Gpu = gpu
sys.argv[0] = "lanemap"
from lanemap.cli import main
main()
"""


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_a_signal_to_the_whole_group_ends_it_quietly(built, tmp_path, ending, code):
    """As Ctrl-C and the end of a service send it: to the processes that measure, too."""
    measured = next(Path(lanemap.capture.__file__).parent.glob("recordings/*.parquet"))
    command = [sys.executable, "-c", _SLOW, "capture", "--db", str(built), "--output", "mine.parquet"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "capture")}
    pipes = {"stderr": subprocess.PIPE, "start_new_session": True, "cwd": tmp_path, "env": env, "text": True}
    with subprocess.Popen([*command, str(measured)], **pipes) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (beside := children.read_text().split()):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)
        os.killpg(process.pid, ending)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert said.count("\n") <= 1, said
    assert not [pid for pid in beside if Path(f"/proc/{pid}").exists()]
    assert not [*tmp_path.iterdir()]


@pytest.mark.few(4)
@pytest.mark.parametrize("text", ["", "short", "sixteen characters with spaces", "sixteen characters ü"])
def test_a_file_without_a_token_is_refused(refused, tmp_path, text):
    token = tmp_path / "token"
    token.write_text(text)
    refused("serve", "--token-file", token, words=(str(token),))
