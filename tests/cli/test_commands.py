"""The commands as people use them: what they print, in which format, and how they fail."""

import csv
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap.cli import application
from lanemap.cli.app import open_database
from lanemap.db.lookup import COLUMNS

from ..shipped import CORRECTED
from ..test_readme import write_kernels

LANEMAP = Path(sysconfig.get_path("scripts")) / "lanemap"
COMMANDS = sorted(command.name or command.callback.__name__ for command in application().registered_commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits_80_columns(run, command):
    result = run(command, "--help")
    assert result.code == 0
    words = " ".join(result.out.split())
    assert f"Example: lanemap {command}" in words
    assert words.count(" May be repeated.") == words.count(". May be repeated.")
    assert max(map(len, result.out.splitlines())) <= 80
    assert run(command, "-h").out == result.out


@pytest.mark.slow
def test_every_example_in_the_help_runs(few, run, tmp_path, monkeypatch, built, file):
    monkeypatch.chdir(tmp_path)
    write_kernels(tmp_path)
    for name, shape in {"a": (16, 16), "b": (16, 8), "d": (16, 8)}.items():
        np.save(tmp_path / f"{name}.npy", np.zeros(shape))
    # A server would answer until it is stopped.
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    # All pages take a while; tests of the pages write a few.
    monkeypatch.setattr("lanemap.cli.web.site.write", lambda *_: 0)
    for command in application().registered_commands:
        example = shlex.split(command.epilog.removeprefix("Example: lanemap "))
        result = run(*example, db=file if example[0] in ("capture", "import", "ingest", "remove") else built)
        excused = ("PyCUDA is not installed", "no NVIDIA driver", "no source ", "No module named 'triton'")
        assert result.code == 0 or any(words in result.err for words in excused), example


def test_the_list_of_commands_has_a_whole_sentence_for_each(run):
    listed = run("--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_what_a_library_warns_of_is_not_said(run, monkeypatch):
    def noisy(db):
        warnings.warn_explicit("a newer one is needed", UserWarning, "library.py", 1, "library")
        return open_database(db)

    monkeypatch.setattr("lanemap.cli.look.open_database", noisy)
    assert run("find", "m16n8k16", "f16", "A", "--row", "9").err == ""


def test_no_command_at_all_is_help(run):
    assert run().out == run("--help").out
    assert set(COMMANDS) <= set(run().out.split())


def test_version(run):
    assert run("--version").out == f"lanemap {lanemap.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("m16n8k16", "f16", "A"),
        ("m16n8k16", "f16", "B"),
        ("m16n8k16", "f64", "A"),
        ("m16n8k256", "b1", "A"),
        ("m8n8k4", "f16", "C"),
        ("m16n8k16", "f16", "A", "--instruction", "mma.sp"),
        ("m16n8k64", "e2m1", "A", "--by", "lane"),
        ("m8n8k4", "f16", "A", "--by", "lane", "--major", "col"),
        ("m16n8k32", "f16", "E", "--selector", "1"),
        ("m16n8k256", "b1", "A", "--source", "ptx-isa-9.4"),
    ],
    ids=" ".join,
)
def test_show(run, snapshot, arguments):
    result = run("show", *arguments)
    assert result.code == 0
    assert result.out == snapshot


@pytest.mark.few(2)
@pytest.mark.parametrize("by", ["element", "lane"])
def test_show_draws_every_element(run, some, by):
    """What is drawn, read back, is what is stored: each slot with all cells that it can stand for."""
    for operand, options, stored in some:
        drawn = read_back(run("show", *operand, "--by", by, "--whole", *options).out, by)
        assert drawn == stored, (operand, options)


def span(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def read_back(drawn, by):
    """The cells of each slot that a drawing shows, by undoing its runs."""
    corners = [f"{down}\\{across}" for down, across in ("MK", "KN", "MN")] if by == "element" else ["lane\\reg.slot"]
    held, header = {}, None
    for line in re.sub(r" \(computation \d\)", "", drawn).splitlines():
        words = line.split()
        if words[:1] and words[0] in corners:
            header = words[1:]
        elif header and words and words[0][0].isdigit():
            for column, label in zip(header, re.split(r"\s+", line.strip())[1:], strict=True):
                read = read_cell if by == "element" else read_slot
                for part in label.split("+") if label != "-" else []:
                    read(held, words[0], column, part)
        else:
            header = None
    return held


def read_cell(held, rows, cols, label):
    lane, reg, slots = re.fullmatch(r"(\d+):(\d+)\.(\S+)", label).groups()
    cells = [(row, col) for row in span(rows) for col in span(cols)]
    alternatives = "|" in slots
    slots = span(re.sub(r"\|(\.\.\|)?", "-", slots))
    for index, slot in enumerate(slots):
        its = cells if alternatives or len(slots) == 1 else [cells[index]]
        held.setdefault((int(lane), int(reg), slot), set()).update(its)


def read_slot(held, lane, column, label):
    reg, _, slots = column.partition(".")
    rows, _, cols = label.partition(",")
    cells, slots = [(row, col) for row in span(rows) for col in span(cols)], span(slots)
    for index, slot in enumerate(slots):
        held[int(lane), int(reg), slot] = {cells[index]} if len(cells) == len(slots) else set(cells)


FIND = ("find", "m16n8k16", "f16", "A", "--row", "9", "--col", "3")


def test_find_as_a_table(run):
    assert run(*FIND).out.splitlines() == [
        "shape     type  role  lane  reg  slot  row  col  instruction  source",
        "m16n8k16  f16   A        5    1     1    9    3  mma          ptx-isa-9.4+errata",
    ]


def test_find_says_what_nothing_has(run):
    """Lane 3 holds rows 0 and 8 of it."""
    found = run("find", "m16n8k16", "f16", "A", "--lane", "3", "--row", "1")
    assert (found.code, found.out) == (0, "")
    assert "no element of A of mma m16n8k16 f16" in found.err
    assert "lane 3" in found.err
    assert "row 1" in found.err
    assert "no element" not in run("find", "m16n8k16", "f16", "A", "--lane", "3", "--row", "8").err


def test_find_in_every_format(run):
    values = ("m16n8k16", "f16", "A", 5, 1, 1, 9, 3, 3, "mma", "row", 1, None, None, "ptx-isa-9.4+errata", 0)
    record = dict(zip(COLUMNS, values, strict=True))
    assert list(csv.reader(io.StringIO(run(*FIND, "-f", "csv").out))) == [
        list(COLUMNS),
        ["" if value is None else str(value) for value in values],
    ]
    assert json.loads(run(*FIND, "-f", "JSON").out) == [record]
    assert json.loads(run(*FIND, "-f", "jsonl").out) == record
    assert pq.read_table(io.BytesIO(run(*FIND, "-f", "parquet").bytes)).to_pylist() == [record]
    import pyarrow as pa

    assert pa.ipc.open_file(run(*FIND, "-f", "arrow").bytes).read_all().to_pylist() == [record]


@pytest.mark.slow
def test_arrow_in_a_pipe_is_a_stream(run, built):
    """And in a file none: the output of ``run`` is one."""
    import pyarrow as pa

    place = ("--db", str(built))
    of_a = ("--instruction", "mma", "--shape", "m16n8k16", "--type", "f16", "--role", "A")
    for command, count in (((*FIND[:4], "--row", "0"), 16), (("export", *of_a), 256)):
        asked = [*command, *place, "--format", "arrow"]
        with subprocess.Popen([sys.executable, "-m", "lanemap", *asked], stdout=subprocess.PIPE) as piped:
            assert len(pa.ipc.open_stream(piped.stdout).read_all()) == count
        assert len(pa.ipc.open_file(run(*asked).bytes).read_all()) == count


def test_find_shows_what_tells_elements_apart(run):
    assert "computation" in run("find", "m8n8k4", "f16", "A", "--lane", "5").out
    assert "major" in run("find", "m8n8k4", "f16", "A", "--lane", "5").out
    assert "col_last" in run("find", "m16n8k16", "f16", "A", "-i", "mma.sp", "--lane", "5").out


@pytest.mark.slow
def test_list_of_all_sources(run, snapshot, whole):
    assert run("list", "sources", db=whole).out == snapshot


def test_list(run, snapshot):
    assert run("list", "--shape", "m16n8k32").out == snapshot
    assert run("list", "findings").out == snapshot
    errata = json.loads(run("list", "errata", "--format", "json").out)
    assert [(erratum["shape"], erratum["role"]) for erratum in errata] == [("m16n8k256", "A"), ("m8n8", "D")]


def test_list_begins_with_a_line_per_instruction(run, database):
    """What it counts is all that there is; filters and other formats have a row per operand, block scales last."""
    result = run("list")
    head, *lines = re.split(r"\n(?=\S)", result.out)
    assert head.split() == ["instruction", "roles", "shapes", "types", "fragments", "without_rows"]
    assert "--shape" in result.err
    groups = dict(list(database.fragments().groupby("instruction")))
    assert sorted(line.split()[0] for line in lines) == sorted(groups)
    for name, *words in map(str.split, lines):
        group = groups[name]
        assert {word for word in words if not word.isdigit()} == {*group["role"], *group["type"]}
        numbers = [group["shape"].nunique(), len(group), (group["has_rows"] == 0).sum()]
        assert [int(word) for word in words if word.isdigit()] == numbers
    rows = run("list", "--shape", "m16n8k64", "--instruction", "mma").out.splitlines()[1:]
    roles = [line.split()[2] for line in rows if not line.startswith(" ")]
    assert roles == sorted(roles, key=lambda role: role.startswith("SF"))
    assert {"A", "SFA"} < {*roles}
    assert len(json.loads(run("list", "-f", "json").out)) > 100


@pytest.mark.slow
def test_lists_heed_filters(run):
    assert run("list", "sources", "--source", "PTX-isa-9.1", "-f", "csv").out.count("\n") == 2
    assert run("list", "findings", "-f", "csv").out.count("\n") == 5
    findings = run("list", "findings", "--source", "ptx-isa-9.4", "-f", "csv").out
    assert findings.count("\n") == 3
    assert run("list", "findings", "--source", "ptx-isa-9.4", "--role", "A", "-f", "csv").out == findings
    assert run("list", "findings", "--source", "ptx-isa-9.4", "--role", "B", "-f", "csv").out.count("\n") == 1
    assert run("list", "findings", "--source", "ptx-isa-9.4+errata", "-f", "csv").out.count("\n") == 1


@pytest.mark.slow
def test_a_type_may_be_repeated_wherever_it_filters(run):
    def types(*words):
        rows = list(csv.DictReader(io.StringIO(run(*words, "-f", "csv").out)))
        return {row["type"] if "type" in row else row["types"] for row in rows}

    both = ("--type", "tf32", "--type", ".BF16")
    assert types("list", "--role", "A", *both) == {"tf32", "bf16"}
    assert types("capture", "--list", *both) == {"tf32", "bf16"}
    assert types("export", "--shape", "m16n8k8", "--role", "B", *both) == {"tf32", "bf16"}
    assert run("export", "--shape", "m16n8k8", *both, "-f", "cute").out.count("\nusing mma_m16n8k8_") == 4


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["list", "export", "capture --list"])
def test_none_of_several_types_is_passed_over(refused, command):
    refused(*command.split(), "--type", "f16", "--type", "f17", words=("f17",))


@pytest.mark.slow
def test_one_rule_for_sources(run, refused, shipped):
    """The source of look-ups unless another one is named, and all is every source."""

    def sources(*words):
        return {row["source"] for row in csv.DictReader(io.StringIO(run(*words, "-f", "csv").out))}

    a = ("m16n8k16", "f16", "A")
    commands = (
        ("find", *a, "--lane", "0"),
        ("show", *a, "--lane", "0"),
        ("export", *a),
        ("export", "--role", "A", "--type", "tf32", "--instruction", "mma"),
    )
    for words in commands:
        assert sources(*words) == {CORRECTED}
        assert sources(*words, "--source", "h200-sm_90a") == {"h200-sm_90a"}
        assert sources(*words, "--source", "ALL") == {*shipped} - {"cutlass-4.2.0"}  # of Tensor Memory alone
    # What the document only draws or leaves open is measured, in a table as in an answer.
    for words in (("find", "m16n8k64", "s8", "A", "--lane", "0"), ("export", "m16n8k64", "s8", "A")):
        assert sources(*words) == {"h200-sm_90a"}
        assert sources(*words, "--source", CORRECTED) == {CORRECTED}
    assert sources("export", "--role", "A", "--type", "tf32") == {CORRECTED, "h200-sm_90a", "cutlass-4.2.0"}
    assert run("list", "--source", "all", "--shape", "m16n8k16").out.count("\n") > 3
    refused("import", "capture", lanemap._recordings()[0], "--name", "All", words=("every source",))


def test_sql_says_that_layout_has_every_source(run, shipped):
    query = "SELECT COUNT(*) FROM Layout WHERE shape = 'm8n8k16' AND role = 'A'"
    assert all(name in run("sql", query).err for name in shipped)
    assert run("sql", query + " AND source = 'h200-sm_90a'").err == ""
    assert run("sql", "SELECT COUNT(*) FROM mapping").err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "list",
        "list sources",
        "list errata",
        "list findings",
        "find m16n8k32 f16 A --lane 13",
        "find wmma m16n16k16 f16 A --lane 1",
        "show mma.sp m16n8k64 e4m3",
        "check",
        "import python --list",
        "decode m16n8k16 f16 0xE4E4E4E4 --selector 0",
        "chain m16n8k16 f32 D",
        "sql 'SELECT * FROM fragment LIMIT 3'",
    ],
)
def test_tables_fit_80_columns(run, words):
    lines = run(*shlex.split(words)).out.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 80 and not line.lstrip().startswith(("mma", "wgmma"))] == []


@pytest.mark.slow
def test_a_source_is_found_in_any_case(run):
    names = ("H200-SM_90A", "h200-sm_90a")
    assert run("diff", "PTX-ISA-9.4", "H200-SM_90A").out == run("diff", "ptx-isa-9.4", "h200-sm_90a").out
    assert run("check", "--against", "H200-SM_90A").out == run("check", "--against", "h200-sm_90a").out
    for form in ("csv", "cpp"):
        shouted, said = (run("export", "--source", name, "--shape", "m16n8k8", "-f", form).out for name in names)
        assert shouted == said != ""


def test_sql(run):
    query = "SELECT role, COUNT(*) AS n FROM layout WHERE shape = 'm8n8k4' AND source = 'ptx-isa-9.4' GROUP BY role"
    assert run("sql", query, "--format", "csv").out == "role,n\nA,288\nB,288\nC,576\nD,576\n"
    assert run("sql", "-", "--format", "csv", stdin=query.encode()).out == "role,n\nA,288\nB,288\nC,576\nD,576\n"


def test_values_of_every_kind_are_written(run):
    query = "SELECT X'00ff' AS bytes, 9e999 AS much, NULL AS none, 0.5 AS half, 'ü' AS text"
    record = {"bytes": "00ff", "much": "inf", "none": None, "half": 0.5, "text": "ü"}
    assert json.loads(run("sql", query, "-f", "jsonl").out) == record
    assert json.loads(run("sql", query, "-f", "json").out) == [record]
    assert run("sql", query, "-f", "csv").out.splitlines()[1] == "00ff,inf,,0.5,ü"
    assert run("sql", query).out.split()[5:] == ["00ff", "inf", "0.5", "ü"]


@pytest.mark.slow
def test_values_of_a_server_are_written(run, server):
    query = "SELECT 3::numeric AS whole, 2.5::numeric AS half, DATE '2026-01-02' AS day"
    record = {"whole": 3, "half": 2.5, "day": "2026-01-02"}
    assert json.loads(run("sql", query, "-f", "jsonl", db=server).out) == record
    assert run("sql", query, "-f", "csv", db=server).out.splitlines()[1] == "3,2.5,2026-01-02"
    for many in ("SELECT 1; SELECT 2", "SELECT %s", "SELECT ?"):
        result = run("sql", many, db=server)
        assert (result.code, result.out) == (2, ""), result
        assert "one SELECT" in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sql 'SELECT 1' >&-", "stdout is closed"),
        ("sql - <&-", "stdin is closed"),
        ("sql \"SELECT 1 AS a UNION ALL SELECT 'ü'\" -f csv | cat", r"cannot write '\xfc' in ascii"),
        ("sql \"SELECT 1 AS a UNION ALL SELECT 'ü'\" | cat", r"cannot write '\xfc' in ascii"),
        ("list --source $'\\xff'", r"no source \udcff"),
    ],
)
def test_streams_that_cannot_be_used(built, command, words):
    environment = os.environ | {"LANEMAP_DB": str(built), "PYTHONIOENCODING": "ascii"}
    script = f"set -o pipefail; {LANEMAP} {command}"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert words in done.stderr


def test_without_stderr_the_exit_code_is_left(built):
    environment = os.environ | {"LANEMAP_DB": str(built)}
    assert subprocess.run(["bash", "-c", f"{LANEMAP} fnd 2>&-"], env=environment).returncode == 2


@pytest.mark.slow
def test_a_command_does_not_look_for_garbage_at_its_end(built):
    script = (
        "import atexit, gc, sys\natexit.register(lambda: print(len(gc.get_objects()) < 999))"
        "\nfrom lanemap.cli import main\nsys.argv = ['lanemap', 'find', 'm8n8k4', 'f64', 'A']\nmain()"
    )
    environment = os.environ | {"LANEMAP_DB": str(built)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.endswith("True\n"), done


@pytest.mark.slow
def test_whoever_is_told_to_end_clears_up(built, tmp_path):
    """SIGTERM in the middle of an export leaves what was there before."""
    script = (
        "import os, signal, sys\nfrom lanemap.cli import main\nfrom lanemap.db.store import export\n"
        "def write(table, stream):\n    stream.write(b'half')\n    os.kill(os.getpid(), signal.SIGTERM)\n"
        "export.WRITERS['csv'] = write\nsys.argv = ['lanemap', 'export', '-o', 'x.csv']\nmain()"
    )
    environment = os.environ | {"LANEMAP_DB": str(built)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "")
    assert list(tmp_path.iterdir()) == []


def test_ingest_says_what_it_loaded(few, run, tmp_path, shipped):
    result = run("ingest", "--db", str(tmp_path / "new.db"), "--format", "json")
    assert [source["name"] for source in json.loads(result.out)] == shipped


@pytest.mark.parametrize(
    ("option", "value", "column", "operand"),
    [
        ("--major", "col", "major", ("--shape", "m8n8k4", "--type", "f16", "--role", "A")),
        ("--selector", "1", "selector", ("--shape", "m16n8k32", "--type", "f16", "--role", "E")),
    ],
)
def test_export_takes_one_of_what_only_major_or_selector_tells_apart(run, option, value, column, operand):
    operand = ("export", *operand, "--source", "h200-sm_90a")
    every = list(csv.DictReader(io.StringIO(run(*operand).out)))
    one = list(csv.DictReader(io.StringIO(run(*operand, option, value).out)))
    assert one == [row for row in every if row[column] == value]
    assert 0 < len(one) < len(every)


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow", "jsonl"])
def test_export_to_a_file_and_to_stdout(run, tmp_path, form):
    path = tmp_path / f"layouts.{form}"
    path.write_text("old")
    selection = ("--shape", "m16n8k8", "--type", "tf32", "--source", "ptx-isa-9.4")
    assert run("export", "--output", path, *selection).out == ""
    assert path.read_bytes() == run("export", "--format", form, *selection).bytes
    assert list(tmp_path.iterdir()) == [path]


def test_a_stale_database_is_read_but_named(run, file, monkeypatch):
    monkeypatch.setattr(lanemap, "program_digest", lambda: "another")
    result = run(*FIND, "--db", file)
    assert (result.code, result.err.count("\n")) == (0, 1)
    assert f"Lanemap has changed since {file} was built: lanemap ingest --db {file} updates it" in result.err


@pytest.mark.slow
def test_a_reader_that_stops_early_ends_it_quietly(built):
    """As in ``lanemap export | head -1``."""
    environment = os.environ | {"LANEMAP_DB": str(built)}
    process = subprocess.Popen([LANEMAP, "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout.readline().startswith(b"shape,")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == -13


def on_a_terminal(arguments, built, **variables):
    """What a command writes to a terminal of 80 columns."""
    main_end, terminal = pty.openpty()
    environment = os.environ | {"LANEMAP_DB": str(built), "COLUMNS": "80", "TERM": "xterm-256color"} | variables
    process = subprocess.Popen([LANEMAP, *arguments], stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    written = b""
    while True:
        try:
            part = os.read(main_end, 65536)
        except OSError:
            break
        written += part
        if not part:
            break
    return process.wait(), written.decode()


def test_show_is_coloured_by_lane_on_a_terminal_only(built, run):
    code, drawn = on_a_terminal(["show", "m16n8k16", "f16", "A"], built, COLORTERM="truecolor")
    assert code == 0
    assert len({part.split("m")[0] for part in drawn.split("\x1b[")[1:] if "48;2" in part}) == 32
    assert "\x1b" not in on_a_terminal(["show", "m16n8k16", "f16", "A"], built, NO_COLOR="1", TERM="dumb")[1]
    assert "\x1b" not in run("show", "m16n8k16", "f16", "A").out


@pytest.mark.slow
def test_building_is_announced_on_a_terminal_only(few, tmp_path, run):
    _, drawn = on_a_terminal(["list", "sources"], tmp_path / "new.db")
    assert drawn.startswith("lanemap: loading ptx-isa-9.4\r\n")
    assert run("list", "sources", db=tmp_path / "other.db").err == ""


@pytest.mark.slow
def test_what_cannot_be_captured_is_said_without_a_bar(built):
    code, written = on_a_terminal(["capture", "--device", "99"], built, CUDA_VISIBLE_DEVICES="")
    assert code == 2
    assert " of " not in written.partition("lanemap: ")[0]
    assert "\x1b" not in written


def test_bytes_are_not_for_a_terminal(built):
    code, drawn = on_a_terminal(["export", "--format", "parquet"], built)
    assert code == 2
    said = "lanemap: parquet is not for a terminal: send it to a file or a pipe, as in ... > layouts.parquet"
    assert " ".join(drawn.split()) == said


@pytest.mark.parametrize(
    "words",
    [
        "find wmma m16n16k16 f32 D --row 0 --col 0",
        "show mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
    ],
)
def test_what_is_said_on_a_terminal_is_cut_between_words(built, words, run):
    """It is the same line that programs read."""
    _, drawn = on_a_terminal(words.split(), built)
    said = [line.rstrip() for line in drawn.splitlines() if line.startswith(("lanemap: ", "  "))]
    plain = run(*words.split()).err
    assert max(map(len, plain.splitlines())) > 80
    assert max(map(len, said)) <= 80
    assert " ".join(" ".join(said).split()) == " ".join(plain.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [("show m16n8k2", "m16n8k256"), ("show m16n8k16 t", "tf32"), ("find m8n8k4 f16 ", "A")],
)
def test_completion_knows_the_names(completed, words, expected):
    assert expected in completed(words)


def test_a_shell_asks_the_program_what_to_offer(completed, built):
    asked = {"_LANEMAP_COMPLETE": "complete_bash", "COMP_WORDS": "lanemap show m16n8k16 ", "COMP_CWORD": "3"}
    environment = os.environ | asked | {"LANEMAP_DB": str(built)}
    done = subprocess.run([LANEMAP], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == completed("show m16n8k16 ") != []


def test_completion_offers_only_what_the_shape_has(completed):
    assert {"bf16", "f64"} <= set(completed("list --type "))
    assert completed("list --shape m16n8k256 --type ") == ["b1", "s32"]
    assert completed("export --shape m16n8k256 --role ") == ["A", "B", "C", "D"]
    assert "E" in completed("diff ptx-isa-9.4 h200-sm_90a M16N8K64 s8 ")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["-m", "lanemap"], ["-mlanemap"], ["-X", "dev", "-m", "lanemap"]])
def test_the_module_does_not_load_what_lies_in_the_current_folder(built, words, tmp_path):
    for name in ("copy", "csv", "dataclasses", "hashlib", "typer", "numpy", "json", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not yours')")
    command = [sys.executable, *words, "find", "m16n8k16", "f16", "A", "--lane", "0", "--db", str(built)]
    # Where processes are started, it is in the environment of this one.
    started = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=started, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # A program of somebody else's that is run in the same way keeps its folder.
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("import lanemap, sys; print(sys.path[0])")
    (tmp_path / "theirs" / "__main__.py").write_text("")
    for path in tmp_path.glob("*.py"):
        path.unlink()
    theirs = [sys.executable, "-m", "theirs"]
    done = subprocess.run(theirs, cwd=tmp_path, env=started, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == tmp_path


def test_the_module_runs_as_the_command_does(built):
    environment = os.environ | {"LANEMAP_DB": str(built)}
    command = [sys.executable, "-m", "lanemap", *FIND]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout.count("\n") == 2


@pytest.mark.parametrize(
    "command",
    ["check", "diff h200-sm_90a", "report h200-sm_90a", "sql 'SELECT 1'", "export -f csv", "export -f cute"],
)
def test_where_nothing_may_be_written_nobody_works_first(refused, monkeypatch, tmp_path, command):
    def worked(*_, **__):
        raise AssertionError("it worked before it refused the place")

    for name in ("check", "diff", "report", "select"):
        monkeypatch.setattr(lanemap.Database, name, worked)
    monkeypatch.setattr(lanemap.db.lookup, "read_fragments", worked)
    refused(
        *shlex.split(command), "--output", str(tmp_path / "none" / "file"), words=("cannot write", "does not exist")
    )


def test_progress_is_said_on_a_terminal_only_and_gone_at_the_end(capsys, monkeypatch):
    from lanemap.cli.app import progress_line

    for terminal, written in ((True, "\r1 of 2 pages\r2 of 2 pages\r\033[K"), (False, "")):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal, raising=False)
        with progress_line("pages") as progress:
            progress(1, 2)
            progress(2, 2)
        assert capsys.readouterr().err == written
