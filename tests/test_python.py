"""The Python API, and what importing it costs."""

import ast
import html
import re
import shutil
import subprocess
import sys
import tomllib
import weakref
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest

import lanemap

PACKAGES = {"capture", "cli", "db", "ingest"}
HEAVY = {"pandas", "pyarrow", "sqlalchemy", "numpy", "lark", "PIL", "reportlab"}
if tuple(map(int, version("typer").split(".")[:2])) < (0, 29):  # as pyproject.toml says
    HEAVY.add("pydantic")


def test_layout_is_a_frame(database):
    frame = database.find("m16n8k16", "f16", "A")
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(lanemap.db.lookup.COLUMNS)
    assert len(frame) == 32 * 8
    assert {str(frame[name].dtype) for name in ("lane", "reg", "slot", "row", "col")} == {"int64"}
    assert set(frame.instruction) == {"mma"}
    assert list(frame.sort_values(["lane", "reg", "slot"]).index) == list(frame.index)


def test_names_are_case_insensitive(database):
    assert database.find("M16N8K16", ".F16", "a").equals(database.find("m16n8k16", "f16", "A"))


def test_find_goes_both_ways(database):
    """For every element of a fragment: from its slot to its cell, and from its cell to its slot."""
    frame = database.find("m16n8k8", "f16", "B")
    for element in frame.itertuples():
        by_slot = database.find("m16n8k8", "f16", "B", lane=element.lane, reg=element.reg, slot=element.slot)
        by_cell = database.find("m16n8k8", "f16", "B", row=element.row, col=element.col)
        assert by_slot[["row", "col"]].to_numpy().tolist() == [[element.row, element.col]]
        assert by_cell[["lane", "reg", "slot"]].to_numpy().tolist() == [[element.lane, element.reg, element.slot]]


def test_find_knows_the_computations(database):
    frame = database.find("m8n8k4", "f16", "C", row=5, col=2)
    assert frame[["computation", "lane"]].to_numpy().tolist() == [[1, 17], [2, 21], [3, 25], [4, 29]]
    assert database.find("m8n8k4", "f16", "C", row=5, col=2, computation=3).lane.tolist() == [25]
    assert len(database.find("m8n8k4", "f16", "A", row=0, col=0, computation=1)) == 2
    assert len(database.find("m8n8k4", "f16", "A", row=0, col=0, computation=1, major="col")) == 1


def test_words_of_an_instruction_mean_the_same_in_parts(database):
    whole = database.find("m16n8k64.scale_vec::2X.byte_id::2 ue8m0", "SFA", row=9, col=1)
    assert whole.equals(database.find("m16n8k64.scale_vec::2X.byte_id::2", "ue8m0", "SFA", row=9, col=1))
    assert len(whole) == 2


def test_numbers_out_of_a_frame_are_numbers(database):
    element = database.find("m16n8k8", "f16", "A").iloc[7]
    assert len(database.find("m16n8k8", "f16", "A", row=element.row, col=element.col)) == 1


def test_find_knows_windows(database):
    frame = database.find("m16n8k16", "f16", "A", row=9, col=6, instruction="mma.sp")
    assert frame[["lane", "reg", "slot", "col", "col_last"]].to_numpy().tolist() == [[5, 1, 0, 4, 6], [5, 1, 1, 5, 7]]


def test_the_dense_instruction_comes_first(database):
    assert set(database.find("m16n8k16", "bf16", "B").instruction) == {"mma"}
    assert set(database.find("m16n8k16", "bf16", "B", instruction="mma.sp").instruction) == {"mma.sp"}
    assert set(database.find("m16n8k64", "u8", "A").instruction) == {"mma.sp"}


def test_sql_gives_a_frame(database):
    frame = database.sql("SELECT role, COUNT(*) AS n FROM layout WHERE shape = 'm16n8k16' GROUP BY role ORDER BY role")
    assert frame.role.tolist() == list("ABCDE")


def test_fragments_and_sources(database, shipped):
    assert database.sources().name.tolist() == shipped
    assert len(database.fragments(None)) == sum(len(database.fragments(name)) for name in shipped)


@pytest.mark.slow
def test_a_fragment_in_hand_is_moved_and_reduced_as_by_its_name(database):
    for words, ends in {
        "m16n8k16 f16 A": ("ldmatrix", "m16n8k16 f16 A"),
        "m16n8k16 f16 D": ("m16n8k16 f16 D", "stmatrix"),
    }.items():
        (fragment,) = database.operand(words)
        for along in ("row", "col"):
            assert str(database.move(fragment, along)) == str(database.chain(*ends, major=along)), words
            assert str(fragment.reduced(along)) == str(database.reduce(words, along)), words


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"shape": "m16n8k17"}, "did you mean m16n8k16?"),
        ({"type": "f17"}, "did you mean f16?"),
        ({"role": "F"}, "choose from A, B, C, D, E"),
        ({"source": "ptx-isa-9"}, "did you mean ptx-isa-9.4?"),
        ({"instruction": "mma.sparse"}, "'sparse' is neither a type nor a qualifier: did you mean sp?"),
        ({"row": 16}, "it goes from 0 to 15"),
        ({"lane": 32}, "it goes from 0 to 31"),
        ({"slot": -1}, "it goes from 0 to 1"),
        ({"shape": None}, "A of f16 has the shapes m8n8k4, m16n8k8, m16n8k16: name one"),
        ({"type": None}, "A of m16n8k16 has the types f16, "),
        ({"role": None}, "say which role of m16n8k16 f16: A, B, C, D"),
        (
            {"shape": "m16n8k32", "type": "e4m3", "role": "SFA", "qualifiers": "scale_vec::1X.byte_id::1.thread_id::7"},
            "they go from byte_id::0 to 3 and from thread_id::0 to 3",
        ),
        ({"shape": "m16n16k16", "source": "ptx-isa-9.4"}, "no shape m16n16k16 in ptx-isa-9.4: ask the source h200"),
        ({"shape": ""}, "no shape '': choose from m"),
        ({"type": " "}, "no type '' in"),
        ({"role": ""}, "no role '' in"),
        ({"source": ""}, "no source '': choose from"),
        ({"major": ""}, "no major '' in"),
        ({"instruction": ""}, "no instruction '': choose"),
        ({"type": "f16\0"}, r"no type f16\x00 in"),
        ({"source": "\udcff"}, r"no source \udcff: choose from"),
        ({"shape": 16}, "shape 16 is not text: write it like 'm16n8k16'"),
        ({"row": 9.0}, "row 9.0 is not a whole number"),
        ({"row": True}, "row True is not a whole number"),
        ({"selector": False}, "selector False is not a whole number"),
        ({"row": "9"}, "row '9' is not a whole number"),
        ({"selector": "x"}, "selector 'x' is not a whole number"),
        ({"row": [1, 2]}, "row is one whole number here: find and at of a Fragment take arrays"),
        ({"lane": range(3)}, "lane is one whole number here: find and at of a Fragment take arrays"),
        ({"selector": 10**20}, "no selector 100000000000000000000"),
        ({"lane": 10**20}, "it goes from 0 to 31"),
        ({"computation": 2}, "computation 2 is outside A of mma m16n8k16 f16: there is only 1"),
        ({"computation": 10**20}, "there is only 1"),
        ({"shape": "m8n8k4", "computation": 0}, "it goes from 1 to 4"),
        ({"shape": "m16n8k32", "role": "B", "source": "ptx-isa-9.4"}, "figure-only, figure 124"),
        ({"shape": "m16n8k32", "role": "E", "source": "ptx-isa-9.4"}, "ask the source h200-sm_90a"),
    ],
)
def test_a_request_for_what_is_not_there_says_what_is(database, request_, words):
    arguments = {"shape": "m16n8k16", "type": "f16", "role": "A", "row": 0} | request_
    with pytest.raises(lanemap.LanemapError) as error:
        database.find(**arguments)
    assert words in str(error.value)


@pytest.mark.parametrize("url", [3, "", "a\0b", "a\ud800b", b"layouts.db", ":memory:"])
def test_what_names_no_database_is_refused(url):
    with pytest.raises(lanemap.LanemapError, match="names no file: .*layouts.db"):
        lanemap.open(url)


def test_a_source_is_found_in_any_case(database):
    found = database.find("m16n8k16", "f16", "A", source="PTX-ISA-9.4")
    assert set(found.source) == {"ptx-isa-9.4"}
    assert found.equals(database.find("m16n8k16", "f16", "A", source="ptx-isa-9.4"))


def test_no_source_is_all_of_them(database):
    assert database.find("m16n8k16", "f16", "A", source=None).equals(
        database.find("m16n8k16", "f16", "A", source="all")
    )


def test_what_is_empty_has_the_same_columns(database):
    whole = database.find("m16n8k16", "f16", "A")
    empty = database.find("m16n8k16", "f16", "A", lane=5, row=0)
    assert len(empty) == 0
    numbers = ["lane", "reg", "slot", "row", "col", "col_last", "computation", "selector"]
    assert empty[numbers].dtypes.equals(whole[numbers].dtypes)


def test_a_column_of_ones_own_may_be_called_selector(database):
    assert database.sql("SELECT 'x' AS selector").selector.tolist() == ["x"]


@pytest.mark.parametrize("query", [None, 3, "", "SELECT 1\0", "SELECT '\udcff'", "SELECT ?", "SELECT 1 AS a, 2 AS a"])
def test_a_query_that_cannot_be_answered_is_refused(database, query):
    with pytest.raises(lanemap.LanemapError, match="SELECT"):
        database.sql(query)


def test_a_closed_database_says_so(built):
    with lanemap.open(built) as database:
        pass
    database.close()
    for ask in (database.sources, database.fragments, lambda: database.sql("SELECT 1")):
        with pytest.raises(lanemap.LanemapError, match=r"is closed: open it again with lanemap\.open"):
            ask()


def test_a_closed_database_keeps_no_fragments(built):
    """They would wait for a collection of garbage, which takes longer than many look-ups."""
    with lanemap.open(built) as database:
        fragment = weakref.ref(database.fragment("m16n8k16", "f16", "A"))
        assert fragment()
    assert fragment() is None


def test_what_names_nothing_is_refused(database, shipped, tmp_path):
    with pytest.raises(lanemap.LanemapError, match="name the documents"):
        database.ingest()
    with pytest.raises(lanemap.LanemapError, match="3 is not a source"):
        database.add([3])
    for kind in ("nope", None, ["table"]):
        with pytest.raises(lanemap.LanemapError, match="choose from capture, cute"):
            database.import_layouts(kind)
    for operand in (3, ["m16n8k16"]):
        with pytest.raises(lanemap.LanemapError, match="names no operand: write it like 'm16n8k16 f32 D'"):
            database.chain("m16n8k16 f32 D", operand)
    with pytest.raises(lanemap.LanemapError, match="3 names no operand"):
        database.diff("ptx-isa-9.4", "h200-sm_90a", 3)
    for diff in (shipped[:1], shipped):
        with pytest.raises(lanemap.LanemapError, match="name the operand to compare, .* and two sources"):
            database.draw("m16n8k16", "f16", "A", diff=diff)
    with pytest.raises(lanemap.LanemapError, match="name a source"):
        database.report(operand="m16n8k16 f16 A")
    with pytest.raises(lanemap.LanemapError, match="name a capture file"):
        database.import_layouts("capture")
    with pytest.raises(lanemap.LanemapError, match="count '2' is not a whole number"):
        database.chain("ldmatrix", "m16n8k16 f16 B", count="2")
    for word in (-1, 1 << 32, "x"):
        with pytest.raises(lanemap.LanemapError, match="is not a word of metadata: write 32 bits"):
            database.decode("m16n8k16 f16", [word], selector=0)
    for path in ("", "a\0b", 3, None):
        with pytest.raises(lanemap.LanemapError, match="names no file"):
            lanemap.read_file(path)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda db: db.draw("m16n8k16", "f16", "A", diff=5), "source 5 is not text"),
        (lambda db: db.draw("m16n8k16", "f16", "A", lanes=["a"]), "lane 'a' is not a whole number"),
        (lambda db: db.draw("m16n8k16", "f16", "A", values=5), "values 5 is not text"),
        (lambda db: db.export(format="cute", query=5), "5 names no operand"),
        (lambda db: db.export("m16n8k16 f16 A", format="cpp"), "no file to write: query='m16n8k16 f16 A' exports it"),
        (lambda db: db.export("m16n8k16 f16 A"), "choose from parquet, csv, arrow, jsonl, dataset, cute, "),
        (lambda db: db.export(query="m16n8k16 f16 A"), "name a format: choose from parquet, "),
        (lambda db: db.show("xyzzy"), "no source has it: lanemap list "),
        (lambda db: db.show("AMD m16n16k16 f32"), "no source has instructions of AMD: import a table"),
        (
            lambda db: db.list("fragments", lanemap.Query(vendor="AMD")),
            "no source has instructions of AMD: import a table",
        ),
        (lambda db: db.check(5), "source 5 is not text"),
        (lambda db: db.check([5]), "source 5 is not text"),
        (lambda db: db.report(5), "source 5 is not text"),
        (lambda db: db.report("ptx-isa-9.4", operand=5), "5 names no operand"),
        (lambda db: db.source(5), "source 5 is not text"),
        (lambda db: db.source(""), "no source '': choose from"),
        (lambda db: db.remove(5), "source 5 is not text"),
        (lambda db: db.remove(" "), "no source '': choose from"),
        (lambda db: db.add(5), "5 is not a source"),
        (lambda db: db.chain("m16n8k16 f32 D", 5), "5 names no operand"),
        (lambda db: db.decode("m16n8k16 f16", "x", selector=0), "'x' is not a word of metadata: write 32 bits"),
        (lambda db: db.descriptor("m64n128k16 f16 B 128B.K", 64), "tile 64 is not text: write it like 'n128k64'"),
        (lambda db: db.descriptor("m64n128k16 f16 B 128B.K", decode=1.5), "1.5 is not a descriptor: write 64 bits"),
        (lambda db: db.decode("m16n8k16 f16", [0], selector="0"), "selector '0' is not a whole number"),
        (lambda db: db.encode("m16n8k16 f16", 5, selector=0), "columns 5 is no dictionary"),
        (lambda db: db.sql("SELECT 1", seconds="a"), "rows must be at least 1"),
        (lambda db: db.sql("SELECT 1", rows="a"), "rows must be at least 1"),
        (lambda db: db.import_layouts("python", "triton", python=5), "python 5 is not text"),
        (lambda db: db.import_layouts("capture", "x.parquet", python="python3"), "capture takes no python"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_in_words(database, call, words):
    with pytest.raises(lanemap.LanemapError) as error:
        call(database)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        ("find", {"rwo": 1}, "'row'"),
        ("find", {"lanes": 1}, "'lane'"),
        ("fragment", {"majro": "row"}, "'major'"),
        ("draw", {"sourec": "all"}, "'source'"),
        ("fragment", {"row": 1}, " or ".join(map(repr, lanemap.Which.__annotations__))),
        *((call, {"tlie": "m64n64"}, "'tile'") for call in ("operand", "show", "reduce", "blame", "export", "diff")),
    ],
)
def test_a_mistyped_keyword_is_named_with_the_right_one(database, call, given, meant):
    words = {"find": ("m16n8k16", "f16", "A"), "export": (None,), "blame": ("m16n8k16", None)}
    words |= {"fragment": words["find"], "draw": words["find"]}
    given = given | ({"format": "cute"} if call == "export" else {})
    with pytest.raises(lanemap.LanemapError) as error:
        getattr(database, call)(*words.get(call, ("m16n8k16 f16 A",)), **given)
    assert str(error.value) == f"there is no argument {next(iter(given))!r}: did you mean {meant}?"


def test_a_shape_is_no_keyword_beside_words(database):
    with pytest.raises(
        lanemap.LanemapError, match="no argument 'shape': it is a word of the query, as in 'm16n8k16 f16"
    ):
        database.export(format="cute", shape="m16n8k16")


def test_one_argument_may_stand_for_several(database):
    assert database.check("h200-sm_90a").unexplained == 0
    drawn = [database.draw("m16n8k16", "f16", "A", lanes=lanes).svg() for lanes in (5, [5], (5,))]
    assert drawn[0] == drawn[1] == drawn[2]
    chosen = [database.decode("m16n8k16 f16", words, selector=0).columns for words in (0x44444444, [0x44444444])]
    assert (chosen[0] == chosen[1]).all()


def loaded_by(code, tmp_path):
    """The heavy modules that some code imports in a fresh interpreter."""
    script = f"import sys\nsys.argv = ['lanemap']\n{code}\nprint('\\n' + ' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    return HEAVY & set(done.stdout.splitlines()[-1].split())


LOOK_UPS = [
    "find m16n8k16 f16 A --row 1 --col 2",
    "show m16n8k16 f16 A",
    "show m16n8k16 f16 A --by lane",
    "list",
    "list sources",
    "sql SELECT+1",
    "draw m16n8k16 f16 A",
    "--help",
    "find --help",
]


def test_look_ups_import_nothing_heavy(built, tmp_path):
    """One after the other in one process, in which stays what any of them imports."""
    run = (
        f"import os; os.environ['LANEMAP_DB'] = {str(built)!r}\n"
        "from lanemap.cli import main\n"
        f"for command in {LOOK_UPS}:\n"
        "    sys.argv[1:] = [part.replace('+', ' ') for part in command.split()]\n"
        "    try: main()\n"
        "    except SystemExit as ended: assert not ended.code, command"
    )
    assert loaded_by(run, tmp_path) == set()


def test_a_chain_imports_numpy_alone(built, tmp_path):
    command = f"os.environ['LANEMAP_DB'] = {str(built)!r}; sys.argv += 'chain m16n8k16 f32 D m16n8k16 f16 A'.split()"
    run = f"import os; {command}\nfrom lanemap.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert loaded_by(run, tmp_path) == {"numpy"}


def test_import_lanemap_imports_nothing_heavy(tmp_path):
    assert loaded_by("import lanemap", tmp_path) == set()


@pytest.mark.slow
def test_captures_are_read_and_written_without_pandas(tmp_path):
    run = "import lanemap; lanemap.write_capture(lanemap.shipped_captures()['sm_90a'], 'own.parquet')"
    assert "pandas" not in loaded_by(run, tmp_path)


@pytest.mark.slow
def test_folders_of_the_user_break_nothing(tmp_path, built):
    """A db/, cli/ or ingest/ in the current directory is not ours, and ours is not theirs."""
    for name in ("db", "cli", "ingest", "capture"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not yours')")
    script = f"import lanemap; print(len(lanemap.open({str(built)!r}).find('m16n8k16', 'f16', 'A')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "256\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("chain m16n8k16 f32 D m16n8k32 e4m3 A", lambda db: db.chain("m16n8k16 f32 D", "m16n8k32 e4m3 A")),
        ("chain m16n8k8 f32 D", lambda db: db.chain("m16n8k8 f32 D")),
        ("chain ldmatrix m16n8k16 f16 B --major row", lambda db: db.chain("ldmatrix", "m16n8k16 f16 B", major="row")),
        ("export m16n8k16 f16 B --format cute", lambda db: db.export(format="cute", query="m16n8k16 f16 B")),
    ],
)
def test_answers_print_and_show_themselves_as_the_command_does(database, run, command, answer):
    found = answer(database)
    said = found.text(80) if hasattr(found, "parts") else str(found)
    assert said.rstrip() == run(*command.split()).out.rstrip()
    assert found._repr_html_() == f"<pre>{html.escape(str(found))}</pre>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("m16n8k16 f16 A", {}),
        ("m8n8k4 f16 A", {"by": "lane"}),
        ("m64n256k16 f32 D", {"whole": True}),
        ("wmma m16n16k16", {}),
    ],
)
def test_show_is_what_the_command_shows(database, run, words, how):
    """Of an operand its facts and picture, of an instruction its operands; also of what is figure-only."""
    options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in how.items()]
    found = database.show(words)
    assert found.text(80, **how).strip() == run("show", *words.split(), *options).out.strip()
    if not how:
        assert str(found) == found.text()
    drawn = database.show(lanemap.Query("m16n8k256", "b1", "A", source="ptx-isa-9.4"))
    assert [fragment.draw()._repr_html_() for fragment in drawn] == [drawn._repr_html_()]
    figure_only = database.show(lanemap.Query("m16n8k64", "e2m1", "SFA", source="ptx-isa-9.4"))
    assert figure_only.text(80)


#: Answers of every kind, many of them with more than a screen shows.
ANSWERS = [
    checked := cache(lambda db: db.check()),
    lambda db: checked(db).comparisons[0],
    lambda db: checked(db).results[0],
    compared := cache(lambda db: db.diff("h200-sm_90a", "ptx-isa-9.1")),
    lambda db: compared(db).rows(),
    lambda db: db.fragment("m64n256k16", "f32", "D"),
    lambda db: db.operand("m8n8k4 f16 A"),
    lambda db: db.operand(lanemap.Query("m16n8k16", "f16", "A", source="all")),
    lambda db: db.list("fragments"),
    lambda db: db.list("sources"),
    lambda db: db.select("SELECT * FROM layout LIMIT 5000"),
    lambda db: db.show("wgmma"),
    lambda db: db.survey(),
    lambda db: db.fleet(),
    lambda db: db.report("mine-0"),
    lambda db: db.source("h200-sm_90a"),
    lambda db: db.source("mine-0"),
    lambda db: db.chain("m64n256k16 f32 D", "m64n256k16 f16 A"),
    lambda db: db.chain("m16n8k16 f32 D"),
    lambda db: db.chain("ldmatrix", "m16n8k16 f16 A")[0],
    lambda db: db.chain("m64n256k16 f32 D", "stmatrix"),
    lambda db: db.draw("m64n256k16 f32 D"),
    lambda db: db.decode("m16n8k32 f16", [0x44444444], selector=0),
]


@pytest.fixture(scope="module")
def with_many_sources(built, tmp_path_factory):
    """A database with sources of somebody's own, whose titles are long."""
    file = shutil.copy2(built, tmp_path_factory.mktemp("reprs") / "own.db")
    with lanemap.open(file) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        wrong = replace(fragment, elements=fragment.elements[:-1])
        mine = [lanemap.Source(f"mine-{at}", "import", "né" * 150, [[fragment, wrong][at % 2]]) for at in range(30)]
        database.add(mine)
        yield database


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_a_repr_has_at_most_4_kb_and_says_how_to_get_all(with_many_sources, answer):
    found = answer(with_many_sources)
    said = repr(found)
    assert 0 < len(said.encode()) <= 4096
    if isinstance(found, lanemap.Rows | lanemap.Chains | lanemap.Recipes | lanemap.Check | lanemap.Fleet):
        assert said.splitlines()[-1].startswith("... (") == ("frame()" in said)
    if isinstance(found, lanemap.Rows) and len(found.rows) > 40:
        assert f"all {len(found.rows)}" in said


@pytest.mark.slow
def test_a_check_in_a_notebook_is_of_modest_size_and_says_how_to_get_all(with_many_sources):
    shown = checked(with_many_sources)._repr_html_()
    assert len(shown) < 70_000 < len(checked(with_many_sources).report("html"))
    assert shown.count("report(&quot;html&quot;) is all of it") == 1
    assert shown.count("<div") == shown.count("</div>")
    small = with_many_sources.diff("ptx-isa-9.1", "ptx-isa-9.4")
    assert small._repr_html_() in small.report("html")
    survey = with_many_sources.survey()
    assert repr(survey).startswith(f"Survey of {len(survey.operands)} operands in ptx-isa-9.4, ")


def test_a_repr_that_fits_is_whole(database):
    found = database.chain("m16n8k16 f32 D", "m16n8k16 f16 A")
    assert repr(found) == str(found) == found.text()
    few = database.select("SELECT name FROM source")
    assert len(repr(few).splitlines()) == 1 + len(few.rows)


def test_an_export_shows_what_it_refuses(database):
    found = database.export(format="triton", query=[lanemap.Query("m16n8k8", "tf32"), lanemap.Query("m8n8k4", "f64")])
    assert found.text
    assert found.refused
    assert all(f"cannot express {fragment}" in str(found) for fragment in found.refused)


def test_what_is_public_is_there_and_typed():
    """Each name is what the type checker is told that it is, and is loaded only when somebody asks for it."""
    tree = ast.parse(Path(lanemap.__file__).read_text("utf-8"))
    (told,) = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    typed = {
        name.asname or name.name: (node.module, name.name)
        for node in told.body
        if isinstance(node, ast.ImportFrom) and node.level
        for name in node.names
    }
    lazy = {name: (place.removeprefix("."), name) for name, place in lanemap._MODULES.items()}
    assert lazy == typed
    for name in (*lanemap.__all__, *lazy):
        assert getattr(lanemap, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        lanemap.__getattr__("nothing")


#: What modules of ``cli`` take from below the root: nothing that answers a question about layouts.
BELOW = {
    "text": {"db.rows", "db.text"},
    "pictures, reports and notations": {
        *("db.render.blocks", "db.render.facts", "db.render.formulas", "db.render.notation", "db.render.report"),
        *("db.render.terminal", "db.render.picture.formats", "db.render.picture.grid"),
    },
    "captures that are sent": {"capture.recording"},
    "files that appear whole, and tables in them": {"db.store.files", "db.store.export"},
    "processes and memory": {"capture.processes", "db.heap"},
}


def test_the_command_line_takes_of_the_root_what_is_public():
    """Commands and pages parse, call ``Database``, print. All else comes from where it is, listed above."""
    taken, below, root = set(), set(), Path(lanemap.__file__).parent
    for file in (root / "cli").rglob("*.py"):
        depth = len(file.relative_to(root).parts)
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.level >= depth or str(node.module).startswith("lanemap")):
                names = {alias.name for alias in node.names}
                taken |= set() if node.module else names
                # A module may be imported by name, or something of it.
                modules = {f"{node.module}.{name}" for name in names if _is_module(root, f"{node.module}.{name}")}
                below |= (modules or {node.module}) - {None}
    assert taken - {*lanemap.__all__} == {
        *("IMPORTERS", "Imported", "Run", "adding", "diff", "existing", "failures", "interruption"),
        *("named_file", "program_digest", "refusal", "span_words"),
    }
    assert below == set().union(*BELOW.values())


def _is_module(root, name):
    path = root.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_a_name_stands_for_one_class():
    """Two classes of one name would be one word for two things."""
    package = Path(lanemap.__file__).parent
    files = [file for file in package.rglob("*.py") if file.relative_to(package).parts[0] in PACKAGES]
    named = [name for file in files for name in re.findall(r"^ *class (\w+)\b", file.read_text("utf-8"), re.MULTILINE)]
    assert len(named) > 100
    assert sorted(named) == sorted(set(named))


def test_every_package_is_installed():
    """Setuptools is told each of them, because the folders of the project are not below one called lanemap."""
    root = Path(lanemap.__file__).parent
    told = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {file.parent for name in PACKAGES for file in (root / name).rglob("__init__.py")}
    assert set(told) == {"lanemap", *(".".join(("lanemap", *folder.relative_to(root).parts)) for folder in folders)}


def test_what_cannot_be_listed_is_refused(database):
    with pytest.raises(lanemap.LanemapError, match="cannot list 'layouts': choose from sources, fragments, findings"):
        database.list("layouts")
