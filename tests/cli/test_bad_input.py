"""What cannot be done: one line that says what would be right, exit 2, and nothing written."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("find", "m16n8k17", "f16", "A", "-r", "0"), ("no shape m16n8k17", "did you mean m16n8k16?")),
        (("find", "m16n8k16", "f17", "A", "-r", "0"), ("no type f17 in m16n8k16", "f16")),
        (("show", "m16n8k16", "f16", "X"), ("no role X", "A, B, C, D")),
        (("show", f"m{'9' * 3000}n8k16", "f16", "A"), ("invalid shape m999", "...: each dimension is 1 to 32767")),
        (("show", f"{'9' * 3000}x8x16", "f16", "A"), ("invalid shape 999", "...: each dimension is 1 to 32767")),
        (("show", "m16n8k16", "f16", "A", "--source", "nobody"), ("no source nobody", "ptx-isa-9.4")),
        (("find", "m16n8k16", "f16", "A"), ("say where to look", "--row")),
        (
            ("show", "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", "SFA"),
            ("has no SFA: it has A, B, C, D",),
        ),
        (("find", "m16n8k16", "f16", "A", "--row", "16"), ("row 16", "from 0 to 15")),
        (("find", "m16n8k16", "f16", "A", "--row", "-1"), ("row -1", "from 0 to 15")),
        (("find", "m16n8k16", "f16", "A", "--row", "1_0"), ("--row", "'1_0' is not a valid integer")),
        (("find", "m16n8k16", "f16", "A", "--lane", "\u0661"), ("--lane", "valid integer")),
        (("find", "m16n8k16", "f16", "A", "--lane", "9" * 5000), ("--lane", "valid integer")),
        (("check", "--against", ""), ("no source ''", "h200-sm_90a")),
        (("show", "m16n8k16", ""), ("no type '' in m16n8k16",)),
        (("remove", ""), ("no source '': choose from",)),
        (("export", "m16n8k16", "f16", "A", "--output", "no/such/a.csv"), ("the folder no/such does not exist: make",)),
        (
            ("export", "m16n8k16", "f16", "A", "-f", "dataset", "--output", "no/such/a"),
            ("the folder no/such does not",),
        ),
        (("export", "m16n8k16", "f16", "A", "-f", "cute", "--output", "no/such/a"), ("the folder no/such does not",)),
        (("draw", "m16n8k16", "f16", "A", "--output", "no/such/a.svg"), ("the folder no/such does not exist: make",)),
        (("capture", "--ptx", "no/such/kernels"), ("the folder no/such does not exist: make",)),
        (("sql", "SELECT 1", "--output", "no/such/a.csv"), ("the folder no/such does not exist: make",)),
        (("find", "m16n8k16", "f16", "A", "--row", "x"), ("--row", "valid integer", "lanemap find --help")),
        (("find", "m8n8k4", "f16", "A", "--computation", "5"), ("computation 5", "from 1 to 4")),
        (("find", "m8n8k4", "f16", "A", "--computation", "1_0"), ("--computation", "1_0")),
        (("find", "m16n8k16", "f16", "A", "--computation", "2"), ("computation 2", "there is only 1")),
        (("find", "m16n8k32", "f16", "E", "--row", "0", "--selector", str(10**20)), (f"no selector {10**20} in",)),
        (("show", "m16n8k32", "f16", "E", "--selector", str(10**20)), ("choose from 0, 1",)),
        (("draw", "m16n8k32", "f16", "E", "--selector", str(-(10**20))), ("choose from 0, 1",)),
        (("show", "", "", ""), ("no shape ''", "m16n8k16")),
        (
            ("chain", "m64n128k16", "f32", "D", "--through", "m64n128k16", "f16", "A", "128B.K"),
            ("names no swizzle: write --through 128B m64n128k16",),
        ),
        (
            ("descriptor", "m64n128k16", "f16", "B", "128B.K", "--decode", "4000004000400000"),
            ("'4000004000400000' is not a descriptor", "write 0x4000004000400000"),
        ),
        (("descriptor", "m64n128k16", "f16", "B", "128B"), ("128b is a mode without the axis", "128B.K, none.MN")),
        (("list", "--role", ""), ("no role '': choose from A, B",)),
        (("list", "--source", ""), ("no source ''", "ptx-isa-9.4")),
        (("list", "sources", "--source", "nobody"), ("no source nobody", "ptx-isa-9.4")),
        (("list", "sources", "--shape", "m16n8k16"), ("--shape is not for sources", "list fragments")),
        (("list", "sources", "--type", "f16", "--type", "f32"), ("--type is not for sources", "list fragments")),
        (("list", "findings", "--shape", "m16n8k17"), ("no shape m16n8k17", "did you mean")),
        (("ingest", ""), ("'' names no file", "PTX documentation")),
        (("ingest", "x.html", "--name", ""), ("source name ''", "printable")),
        (("ingest", "x.html", "--catalogue", ""), ("'' names no file", "a folder")),
        (("capture", "--ptx", ""), ("'' names no file", "a folder")),
        (("capture", "--output", ""), ("'' names no file", "a capture file")),
        (("capture", "--name", "\n"), ("source name", "printable")),
        (("capture", "--list", "--shape", ""), ("no instruction matches shape ''", "--list")),
        (("capture", "--list", "--output", "x.parquet"), ("--output", "leave it out, or --list")),
        (("capture", "--ptx", "x", "--output", "x.parquet"), ("--output", "leave it out, or --ptx")),
        (("diff", "", "ptx-isa-9.4"), ("'' names no file", "a source or a file")),
        (("diff", "/dev/zero", "ptx-isa-9.4"), ("/dev/zero is neither a file", "a source or a file")),
        (("find", "m16n8k32", "f16", "B", "--row", "0", "--source", "ptx-isa-9.4"), ("figure-only", "figure 124")),
        (("find",), ("missing argument 'SHAPE TYPE ROLE', as in lanemap find m16n8k16", "(see lanemap find --help)")),
        (("descriptor", "--decode", "0x1"), ("missing argument", "as in lanemap descriptor m64n128k16 f16 B 128B.K")),
        (("serve", "--port", "x"), ("'x' is not a valid integer",)),
        (("fnd",), ("no command fnd: did you mean 'find'?",)),
        (("find", "--rwo", "1"), ("no option --rwo: did you mean --row",)),
        (("check", "one", "two"), ("unexpected argument: one two (see",)),
        (("find", "m16n8k16", "f16", "A", "--row", "x"), ("'x' is not a valid integer (see",)),
        (("list", "--format", "xml"), ("xml", "csv")),
        (("sql", "SELECT 1", "--seconds", "0"), ("rows must be at least 1", "more than 0")),
        (("sql", "SELECT 1", "--seconds", "nan"), ("rows must be at least 1",)),
        (("sql", "SELECT 1", "--rows", "0"), ("rows must be at least 1",)),
        (("sql", "SELECT * FROM layout", "--rows", "10"), ("more than 10 rows", "LIMIT")),
        (("decode", "m16n8k32", "f16", "--columns", "/dev/zero", "--selector", "0"), ("/dev/zero is neither",)),
        (("sql", "SELEC 1"), ("syntax error", "SELEC")),
        (("sql", "DELETE FROM element"), ("sql only reads",)),
        (("sql", "SELECT 1; DROP TABLE source"), ("it takes one SELECT",)),
        (("sql", "SELEC 1"), ("syntax error", "it takes one SELECT")),
        (("sql", "SELECT lanes FROM layout"), ("no such column: lanes", "lane, reg, slot")),
        (("sql", "SELECT section FROM layout"), ("no such column: section", "citation has it in words, as JSON")),
        (("sql", "SELECT ?"), ("it takes one SELECT, without placeholders",)),
        (("sql", "SELECT '\udcff'"), ("not UTF-8 text", "write a SELECT")),
        (("sql", "SELECT 1 AS a, 2 AS a", "-f", "json"), ("two columns are called 'a'", "AS")),
        (("sql", "SELECT 1 AS a, 2 AS a", "-f", "parquet"), ("two columns are called 'a'", "AS")),
        (("sql", "SELECT 1 AS a UNION ALL SELECT 'x'", "-f", "parquet"), ("'a'", "parquet", "int, str", "CAST")),
        (("show", "\udcff", "f16", "A"), (r"no shape or instruction \udcff",)),
        (("sql", "SELECT * FROM layouts"), ("no such table", "layout")),
        (("export", "--output", "layouts.xls"), ("layouts.xls", "parquet, csv, arrow, jsonl")),
        (("export", "--role", "E", "--source", "ptx-isa-9.4", "-o", "e.csv"), ("no rows",)),
        (
            ("export", "--output", "/no/such/folder/x.csv"),
            ("/no/such/folder/x.csv", "the folder /no/such/folder does not exist"),
        ),
        (("export", "--output", "/dev/full", "--format", "csv"), ("/dev/full", "No space left")),
        (("list", "--db", "mysql://x/y"), ("mysql", "postgresql://")),
        (("list", "--db", "/proc/no/x.db"), ("/proc/no", "name another database")),
        (("list", "--db", __file__), ("not a database", "name another")),
        (("list", "--db", "."), ("is a folder", "layouts.db")),
        (("list", "--db", ""), ("'' names no file", "layouts.db")),
        (("list", "--db", ":memory:"), ("':memory:' names no file", "layouts.db")),
        (("list", "--db", "sqlite:///:memory:"), ("names no file", "layouts.db")),
        (("list", "--db", "file:x.db?mode=memory"), ("'file'", "sqlite:///FILE")),
        (("list", "--db", "x" * 300), ("File name too long", "layouts.db")),
        (("list", "--db", "/dev/null"), ("/dev/null is neither a file", "layouts.db")),
        (("list", "--db", "postgresql://u@h:abc/x"), ("cannot read the database address", "postgresql://")),
    ],
    ids=lambda value: " ".join(map(str, value))[:50],
)
def test_bad_input_is_one_line_and_exit_2(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused(*arguments, words=words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lane,reg,slot,col\n0,0,0,0\n0,0,0,0\n", "line 3: lane 0 reg 0 slot 0 is given twice"),
        ("lane,reg,slot,col\n0,0,0,0\n0,0,0,1\n", "is given twice"),
        ("lane,reg,slot,col\n0,0,0,1", "may be cut off"),
        ("lane,reg,slot,col\n0,0,0,x\n", "line 2: cannot read lane"),
        ("lane,reg,slot,col\n0,0,0," + "1" * 140_000 + "\n", "cannot read lane"),
        ("lane,reg,slot,col\n0,0,0," + "1" * 5_000 + "\n", "cannot read lane"),
        ('lane,reg,slot,col\n0,0,"0\n' + "0,0,0,0\n" * 20_000, "cannot read lane"),
        ("lane,reg,slot,col\r0,0,0,0\r", "no column for 127 of 128"),
        ("x" * 5_000_000, "more than"),
    ],
    ids=lambda value: value[:30],
)
def test_columns_that_cannot_be_read_are_one_line(refused, tmp_path, text, words):
    (tmp_path / "columns.csv").write_text(text, newline="")
    for name, stdin in ((tmp_path / "columns.csv", b""), ("-", text.encode())):
        command = ("decode", "m16n8k16", "f16", "--columns", name, "--selector", "0", "--source", "h200-sm_90a")
        refused(*command, words=(words,), stdin=stdin)


def test_what_comes_from_outside_does_not_reach_the_terminal_or_a_formula(run):
    odd = "SELECT '=1+1' AS a, char(27) || '[2J' || char(155) || char(8238) || 'x' AS b, char(10) AS c"
    assert run("sql", odd).out.splitlines()[1] == "=1+1  \\x1b[2J\\x9b\\u202ex  \\n"
    assert run("sql", odd, "-f", "csv").out.splitlines()[1].startswith("'=1+1,")
    result = run("find", "m16n8k16\x1b[2J\u202e", "f16", "A", "--row", "0")
    assert result.code == 2
    assert result.err.rstrip("\n").isprintable()
    assert run("sql", "SELECT 1 AS a, '-1' AS b, 'x' AS c", "-f", "csv").out.splitlines()[1] == "1,'-1,x"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("check --source x", "no option --source: did you mean --against? (see "),
        ("draw m16n8k16 f16 A --lanes 3", "no option --lanes: did you mean --lane? "),
        ("find m16n8k16 f16 A --register 1", "no option --register: did you mean --reg? "),
        ("export --accumulator f16", "no option --accumulator (see "),
        ("m16n8k16 f16 A", "lanemap show m16n8k16 f16 A draws it, and lanemap find looks up an element"),
        ("HMMA.16816.F32.BF16 --lane 3", "lanemap show HMMA.16816.F32.BF16 draws it"),
        ("frobnicate", "no command frobnicate (see "),
        ("sources", "no command sources: did you mean lanemap list sources? (see "),
        ("errata --shape m16n8k16", "no command errata: did you mean lanemap list errata? (see "),
        ("find m16n8k16 f16 A", "say where to look: --row and --col"),
        ("find m16n8k16 f16", "say which role of m16n8k16 f16: A, B, C, D"),
        ("diff -", "stdin is no side of a comparison: write the table to a file"),
        ("diff kernels.toml", "kernels.toml is a mapping: load it with lanemap import python kernels.toml"),
    ],
)
def test_a_hint_is_what_was_meant_or_there_is_none(refused, command, hint):
    refused(*command.split(), words=(hint,))


@pytest.mark.parametrize(
    "command",
    [
        *("find tcgen05.cp", "find tcgen05.cp f16 A", "find UTCHMMA A", "show tcgen05.cp", "draw tcgen05.cp A"),
        *(
            "chain tcgen05.cp D m16n8k16 f16 A",
            "chain m16n8k16 f32 D tcgen05.cp f16 A",
        ),
        *(
            "decode tcgen05.cp f16",
            "export tcgen05.cp",
            "list --instruction tcgen05.cp",
            "find cp.async",
            "find dp4a",
        ),
        *("tcgen05.cp f16 A", "find tcgen05.mma.cta_group::1.kind::f16"),
    ],
)
def test_what_is_not_covered_is_said_before_anything_is_asked(refused, command):
    refused(*command.split(), words=(" is not covered: it",) if "dp4a" not in command else (" is not covered: ",))


def test_a_column_of_a_csv_is_counted_from_1(refused, tmp_path):
    table = tmp_path / "table.csv"
    table.write_bytes(b"shape,type,role,lane,reg,slot,row,col\nm16n8k16,f16,\xff,0,0,0,0,0\n")
    refused("diff", table, words=("table.csv cannot be read as CSV: column 3:", "UTF8"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_columns_that_commas_do_not_separate_are_named(refused, tmp_path, separator):
    (tmp_path / "mine.csv").write_text(separator.join("shape type role lane reg slot row col".split()) + "\n")
    refused("diff", str(tmp_path / "mine.csv"), words=(f"separates columns by {separator!r}: write commas",))


INTERRUPTING = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["dataclasses", "sqlite3", "lanemap.db.lookup", "lanemap.cli", "typer", "lanemap.cli.look"]
)
def test_an_interruption_of_the_start_is_no_traceback(built, tmp_path, module):
    """Wherever it comes while the command is being loaded; in Python it is a KeyboardInterrupt."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "INTERRUPT_AT": module, "LANEMAP_DB": str(built)}
    script = Path(sysconfig.get_path("scripts")) / "lanemap"
    runs = ([sys.executable, "-m", "lanemap"], [sys.executable, "-u", "-mlanemap"], [script])
    for command in ([*run, "list"] for run in runs):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    if module != "lanemap.cli.look":
        code = f"import lanemap, {module}"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert "KeyboardInterrupt" in done.stderr


def test_an_extension_that_is_interrupted_while_it_is_imported_is_no_traceback(built, tmp_path):
    """It makes an error of its own of it, as numpy does."""
    raising = INTERRUPTING.replace("os.kill(", "self.kill(") + (
        "\ndef kill(*arguments):\n    try:\n        os.kill(*arguments)\n    except KeyboardInterrupt:\n"
        "        raise ImportError('Error importing numpy') from None\n\nInterrupt.kill = staticmethod(kill)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(raising)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "INTERRUPT_AT": "numpy", "LANEMAP_DB": str(built)}
    command = [Path(sysconfig.get_path("scripts")) / "lanemap", *"chain m16n8k16 f32 D m16n8k16 f16 A".split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_stays_ignored_where_the_shell_says_so(built):
    """As for a command in the background."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv[0] = 'lanemap'; import lanemap; "
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "right"),
    [
        (("find", "m16n8k16", "f16", "A", "--row", "9" * 100_000), "is not a valid integer (see"),
        (("show", "m16n8k16", "f16", "A", "--source", "x" * 3_900), ": choose from "),
        (("show", "m16n8k16", "x" * 3_900, "A"), " in m16n8k16: choose from bf16, "),
        (("show", "HMMA." + "9" * 3_900, "A"), "did you mean HMMA."),
        (("show", "x y " * 900), "did you mean "),
        (("fnd" * 5_000,), "--help)"),
        (("show", "m16n8k16", "x" * 100_000, "A"), "a name has at most 4000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_repeated_in_short_and_what_would_be_right_in_full(run, words, right):
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert right in result.err
    assert len(result.err) < 2_500
