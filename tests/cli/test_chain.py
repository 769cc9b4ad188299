"""What ``chain`` prints, and its exit codes."""

import csv
import html
import io
import re
from itertools import product

import pytest

import lanemap
from lanemap.db import lookup
from lanemap.db.flow import recipe
from lanemap.db.flow.chain import Transfer

from ..shipped import CORRECTED


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("m16n8k16", "f32", "D", "m16n8k16", "f16", "A"), 0),
        (("m16n8k16", "f16", "D", "m16n8k16", "f16", "B", "--transpose"), 0),
        (("m16n8k8", "f32", "D", "m16n8k8", "tf32", "A"), 1),
        (("m16n8k8", "f32", "D", "m16n8k8", "tf32", "A", "--relabel"), 0),
        (("M16N8K16", ".F16", "d", "m16n8k8", "bf16", "b"), 1),
        (("m16n8k16", "f32", "D", "m16n8k16", "f16", "A", "--transpose"), 1),
        (("m8n8k4", "f32", "D", "m8n8k4", "f16", "A", "--major", "row", "--relabel"), 1),
        (("mma.sp", "m16n8k16", "f32", "D", "mma.sp", "m16n8k16", "f16", "B", "-t"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_the_verdict_is_printed_and_is_the_exit_code(run, snapshot, arguments, code):
    result = run("chain", *arguments)
    assert (result.code, result.err) == (code, "")
    assert result.out == snapshot


@pytest.mark.parametrize(
    "arguments",
    [
        "m8n8 b16 r m16n8k16 f16 A",
        "m8n8 b16 r m16n8k32 e4m3 B",
        "m8n8 b16 r m64n64k8 tf32 A --major row",
        "m16n8k16 f32 D m8n8 b16 r --major col",
        "m64n24k16 f16 D m8n8 b16 r --major row",
        "m8n8 b16 r m16n8k16 f16 B --count 2",
        "ldmatrix movmatrix A --major row",
        "ldmatrix m8n16 b8x16 r m16n8k32 e2m1 A --major row",
    ],
)
def test_a_recipe_says_what_each_lane_passes(run, snapshot, arguments):
    result = run("chain", *arguments.split())
    assert result.code == 0
    assert ("these are from h200-sm_90a" in result.err) == ("m64" in arguments)
    assert result.out == snapshot


def test_every_address_in_other_formats(run):
    """Those of both majors, each with what its expression says."""
    rows = list(csv.DictReader(io.StringIO(run("chain", *"m8n8 b16 r m16n8k16 f16 A -f csv".split()).out)))
    assert [row["major"] for row in rows] == ["row"] * 32 + ["col"] * 32
    for row in rows:
        lane = int(row["lane"])
        line, byte = (lane & 15, lane & 16) if row["major"] == "row" else ((lane & 7) + (lane >> 4) * 8, lane * 2 & 16)
        assert (int(row["line"]), int(row["byte"])) == (line, byte)


def test_in_other_formats_a_remark_says_what_there_is_no_recipe_for(run):
    result = run("chain", *"m8n8 b16 r m16n8k32 e4m3 A -f jsonl".split())
    assert (result.code, result.out.count("\n"), result.out.count('"row"')) == (0, 32, 32)
    assert result.err.startswith("lanemap: ldmatrix m8n8 b16 cannot move A of mma m16n8k32 e4m3 in a column-major tile")


def test_every_element_in_other_formats(run):
    rows = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D m16n8k16 f16 A -f csv".split()).out)))
    assert tuple(rows[0]) == Transfer._fields
    assert len(rows) == 256
    assert all(row["lane"] == row["from_lane"] for row in rows)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "how", "code"),
    [
        ("m16n8k16 f32 D m16n8k16 f16 A", {}, 0),
        ("m16n8k16 f32 D m16n8k32 e4m3 A", {}, 1),
        ("m16n8k16 f32 D m16n8k32 e4m3 A --relabel", {"relabel": True}, 0),
        ("ldmatrix m16n8k16 f16 B", {}, 0),
        ("ldmatrix m16n8k32 e4m3 A", {}, 0),
    ],
)
def test_a_device_function_is_that_of_the_answer(run, database, arguments, how, code):
    result = run("chain", *arguments.split(), "-f", "cpp")
    ends = re.fullmatch(r"(.* D|ldmatrix) (\S+ \S+ [AB]).*", arguments).groups()
    answer = database.chain(*ends, **how)
    assert (result.code, result.out) == (code, answer.cpp())
    assert result.err == "".join(f"lanemap: {line}\n" for line in answer.failed)


def test_no_device_function_is_one_line(run):
    result = run("chain", *"m16n8k16 f32 D -f cpp".split())
    assert (result.code, result.out) == (2, "")
    assert "or a recipe: write m16n8k16 f32 D m16n8k16 f16 A, or" in result.err
    assert "not one of 'table', 'csv'" in run("find", *"m16n8k16 f16 A -f cpp".split()).err


def numbered(text):
    """The numbers of spans such as 0-3,8."""
    ends = [list(map(int, part.split("-"))) for part in text.split(",")]
    return [lane for first, *last in ends for lane in range(first, (last or [first])[0] + 1)]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "arguments",
    [
        "m16n8k8 f32 D m16n8k8 tf32 A",
        "m16n8k16 f32 D m16n8k16 f16 A --transpose",
        "m64n64k16 f32 D m64n64k32 e4m3 A",
        "m64n64k16 f32 D m64n64k16 f16 A",
        "m8n8k4 f32 D m8n8k4 f16 A --major row --relabel",
    ],
)
def test_the_table_and_what_it_says_to_repeat_are_all_elements(run, arguments):
    rows = list(csv.DictReader(io.StringIO(run("chain", *arguments.split(), "-f", "csv").out)))
    text = run("chain", *arguments.split()).out
    header = re.search(r"^(.*\S) +lanes +from_lanes$", text, re.MULTILINE)
    further = " " * header.group().index("from_lanes")
    lines, names = text[header.start() :].replace("\n" + further, " ").splitlines(), header[1].split()
    again = re.search(r"Lanes (\d+)-(\d+) repeat lanes 0-", text)
    step, last = map(int, again.groups()) if again else (1 << 10, 1)
    found = []
    for line in lines[1:]:
        words = line.split()
        if not words or words[0] == "Lanes":
            break
        place, lanes = tuple(map(int, words[: len(names)])), numbered(words[len(names)])
        origins = lanes if words[-1] == "same" else list(map(int, words[len(names) + 1 :]))
        for lane, origin in zip(lanes, origins, strict=True):
            found += [(*place, lane + more, origin + more) for more in range(0, last + 1 - lane, step)] or [
                (*place, lane, origin)
            ]
    columns = [*names, "lane", "from_lane"]
    assert sorted(found) == sorted(tuple(int(row[name]) for name in columns) for row in rows)
    assert bool(again) == ("movement within the quad" in " ".join(text.split()))


@pytest.mark.slow
def test_every_operand_that_a_d_can_be_is_listed(run):
    """Those, and no others, of which the verdict on the two alone is that nothing moves."""
    listed = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D -f csv".split()).out)))
    keys = {tuple(row[name] for name in ("instruction", "shape", "type", "role", "transposed")) for row in listed}
    assert ("mma", "m16n8k16", "f16", "A", "0") in keys
    assert ("mma", "m16n8k16", "f16", "B", "1") in keys
    for instruction, shape, type_, role in {key[:4] for key in keys} | {("mma", "m16n8k8", "tf32", "A")}:
        for transposed in ("0", "1"):
            words = ["m16n8k16", "f32", "D", instruction, shape, type_, role, *["-t"] * int(transposed)]
            still = run("chain", *words).code == 0
            assert still == ((instruction, shape, type_, role, transposed) in keys)
    more = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D --relabel -f csv".split()).out)))
    assert [row for row in more if row["K"] == "as it is"] == listed
    assert len(more) > len(listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        "m64n128k16 f32 D m64n128k32 e4m3 A --relabel",
        "m16n8k16 f16 D m16n8k16 f16 B",
        "m16n8k16 f32 D stmatrix",
        "m64n64k16 f32 D stmatrix.x4.trans",
        "tcgen05.ld 16x256b x32 r stmatrix --count 2",
        "ldmatrix m16n8k32 e4m3 B",
        "m16n8k16 f16 A",
        "m64n8k32 e4m3 A --relabel",
    ],
)
def test_lines_fit_80_columns(run, arguments):
    lines = run("chain", *arguments.split()).out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80


def test_an_order_that_goes_on_in_the_same_way_is_said_once(run):
    text = run("chain", *"m64n128k16 f32 D m64n128k32 e4m3 A --relabel".split()).out
    assert " 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15 and so on, 16 higher with every 16\n" in text
    text = run("chain", *"m16n8k8 f32 D m16n8k8 tf32 A --relabel".split()).out
    assert "        0 2 4 6 1 3 5 7\n" in text
    nothing = [run("chain", *"m16n8k16 f32 D m16n8k16 f16 A".split(), *more).out for more in ([], ["--relabel"])]
    assert nothing[0] == nothing[1]


def listed(run, *words):
    result = run("chain", *words, "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    return result, {tuple(row[name] for name in ("instruction", "shape", "type", "role", "transposed")) for row in rows}


@pytest.mark.slow
def test_what_costs_no_more_than_an_order_of_k_is_listed_apart(run):
    """As if --relabel had been said, and not among what needs nothing."""
    above, below = run("chain", *"m16n8k16 f32 D".split()).out.split(
        "With relabel, which renumbers K and costs nothing:"
    )
    assert "e4m3 e5m2" in " ".join(below.split())
    assert ("tf32" in above, "tf32" in below) == (False, True)


def test_a_d_is_the_c_of_the_next(run):
    result = run("chain", *"wmma m16n16k16 f32 D wmma m32n8k16 f32 C --source h200-sm_90a".split())
    assert result.code == 0
    assert "2 x 1 D make 1 x 2 C" in result.out
    assert "registers: taken as they are" in result.out
    assert "D of mma m16n8k4 m16n8k8" in run("chain", *"m16n8k16 f32 C".split()).out


@pytest.mark.slow
@pytest.mark.parametrize("words", ["m16n8k16 f16 A", "HMMA.16816.F32 B", "m8n8k4 f64 A --relabel", "m64n8k16 f16 A"])
def test_of_an_operand_that_takes_every_d_that_can_be_it_is_listed(run, words):
    """Those, and no others, of which the chain from a D to it says so."""
    operand, *more = words.split(" --")
    result, found = listed(run, *words.split())
    assert (result.code, len(found) > 3) == (0, True)
    assert "every D that can feed this operand without moving data between lanes. Put ldmatrix first" in result.err
    assert {row[3] for row in found} == {"D"}
    threads = (
        "m64n16k16 f16 D",
        "m64n16k8 f32 D",
        "m16n8k16 f32 D",
        "m16n8k8 f16 D",
        "wmma m8n32k16 f32 D",
        "m8n8k4 f64 D",
    )
    for d, transposed in product(threads, ("0", "1")):
        shape, type_, role = d.split()[-3:]
        said = run(
            "chain", *d.split(), *operand.split(), *["-t"] * int(transposed), *[f"--{option}" for option in more]
        )
        assert (said.code == 0) == any(row[1:] == (shape, type_, role, transposed) for row in found), d


@pytest.mark.slow
def test_the_major_of_an_operand_alone_is_its_own(run):
    """Of a D alone it is that of what it can be."""
    for major, there in (("row", True), ("col", False)):
        result, found = listed(run, *f"m8n8k4 f16 A --major {major}".split())
        assert (result.code == 0) == (("mma", "m8n8k4", "f16", "D", "0") in found) == there
    assert {row[3] for row in listed(run, *"m8n8k4 f16 D --major row".split())[1]} == {"A"}


@pytest.mark.slow
def test_rows_that_the_document_lacks_are_in_the_list(run):
    """B of a sparse product is only drawn, and wmma is open: both were measured."""
    _, found = listed(run, *"m16n8k16 f32 D".split())
    assert {("mma.sp", "m16n8k32", "f16", "B", "1"), ("wmma", "m16n16k16", "f16", "A", "0")} <= found
    result, own = listed(run, *"m16n8k16 f32 D --source ptx-isa-9.4".split())
    assert {row[0] for row in own} == {"mma", "mma.sp", "movmatrix"}
    assert own < found
    assert "h200" not in result.out
    assert {row for row in own if row[-1] == "1"} == listed(run, *"m16n8k16 f32 D -t --source ptx-isa-9.4".split())[1]
    remarks = [run("chain", *words.split()).err for words in ("m16n8k16 f32 D", "m64n8k16 f32 D --source H200-sm_90a")]
    assert run("chain", *"m16n8k32 s8 D".split()).err.startswith("lanemap: D of mma m16n8k32 s8 has the type s32\n")
    lacking = "lanemap: rows that the document lacks or leaves open are from h200-sm_90a\n"
    assert remarks == [lacking, ""]
    for measured in ("m64n64k16 f16 A", "m16n16k16 f16 A"):
        assert run("chain", *measured.split()).err.endswith(lacking), measured


@pytest.mark.slow
@pytest.mark.parametrize("operand", ["m16n8k16 f32 D", "m64n8k16 f16 A"])
def test_the_default_source_may_be_in_capitals(run, operand):
    assert run("chain", *operand.split(), "-s", "BEST").out == run("chain", *operand.split()).out != ""


@pytest.mark.slow
def test_where_nothing_is_to_be_listed_it_says_so(run):
    result = run("chain", *"mma.sp m16n8k16 tf32 B".split())
    assert (result.code, result.out) == (1, "")
    assert "no D can feed this operand without moving data between lanes: name a second operand" in result.err
    assert "lies in shared memory: lanemap descriptor" in run("chain", "wgmma", "m64n64k16", "f16", "B", "128B.K").err
    assert "or stmatrix behind it (--pitch)" in run("chain", *"m64n64k16 f32 D --pitch 256".split()).err
    result = run("chain", *"m16n8k8 tf32 A".split())
    assert (result.code, result.out[:13]) == (1, "With relabel,")
    assert "no D can feed this operand without moving data between lanes or an order of K" in result.err


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "words",
    [
        "wmma m16n16k16 f16 {}",
        "m16n16k16 f16 {}",
        "wmma.row m16n16k16 f16 {}",
        "wmma m16n16k16 row f16 {}",
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {}",
        "wmma m16n16k16 f16 {} --major col",
    ],
)
@pytest.mark.parametrize("role", ["A", "B"])
def test_wmma_has_the_names_that_show_takes(run, words, role):
    """Its row and col have one layout on this architecture, so that no word needs to choose."""
    loads, moves = (
        run("chain", *first, *words.format(role).split()) for first in (["ldmatrix"], ["m16n8k16", "f16", "D"])
    )
    assert loads.code == 0
    assert "8 0-7 16-31" in " ".join(loads.out.split()) or "x4" in loads.out
    assert moves.code == (role == "B")
    assert f"as {role} of wmma m16n16k16 f16" in moves.out
    assert "None" not in loads.out + loads.err + moves.out + moves.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("ldmatrix m16n8k16 f16 A", "ldmatrix m8n8 b16 r m16n8k16 f16 A"),
        ("ldmatrix HMMA.16816.F32 A", "m8n8 b16 r m16n8k16 f16 A"),
        ("LDMATRIX.x4.trans m16n8k16 f16 A", "ldmatrix m8n8.x4.trans b16 r m16n8k16 f16 A"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 m16n8k16 f16 A", "m8n8.x2 b16 r m16n8k16 f16 A"),
        ("m16n8k16 f32 D stmatrix", "m16n8k16 f32 D m8n8 b16 r"),
        ("m16n8k16 f32 D stmatrix.x1", "m16n8k16 f32 D stmatrix m8n8.x1 b16 r"),
        ("tcgen05.ld 16x256b x2 stmatrix", "tcgen05.ld 16x256b x2 r stmatrix m8n8 b16 r"),
        ("tcgen05.ld.sync.aligned.16x256b.x2.b32 stmatrix", "r tcgen05.ld 16x256b x2 r stmatrix"),
        ("ldmatrix tcgen05.st 16x128b x2 -m row", "ldmatrix m8n8 b16 r tcgen05.st 16x128b.x2 r -m row"),
    ],
)
def test_the_name_of_the_move_is_enough(run, short, long):
    one, other = (run("chain", *words.split()) for words in (short, long))
    assert (one.code, one.out, one.err) == (0, other.out, other.err)
    assert one.out
    assert "None" not in one.out


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("m16n8k16 f16 A m16n8k16 f16 A", ("A", "from D", "A, B or C")),
        ("mma.sp.m16n8k64.s8 E --source h200-sm_90a", ("E of mma.sp m16n8k64 s8", "neither a D nor an A, B or C")),
        ("mma.sp m16n8k32 f16 A", ("metadata", "dense A")),
        ("m16n8k16 f16 C m16n8k16 f16 D", ("C", "from D", "A, B or C")),
        ("m16n8k16 f17 D m16n8k16 f16 A", ("no type f17", "f16")),
        ("m16n8k16 f16 D m16n8k17 f16 A", ("no shape m16n8k17", "m16n8k16")),
        ("m16n8k16 f16 D mma.sp m16n8k16 f16 A", ("metadata", "dense A")),
        ("m8n8k4 f16 D m8n8k4 f16 A", ("majors row and col", "name one")),
        ("m8n8k4 f16 D m16n8k16 f16 A", ("have 4 and 1 computations",)),
        ("m16n8k16 f32 D m64n8k16 f16 A --major row", ("A of wgmma m64n8k16 f16 has no major row (--major)",)),
        ("m16n8k16 f32 D m16n8k16 f16 A --major col", ("no major col", "it has row")),
        ("m8n8 b16 r m16n8k32 e4m3 A --major col", ("ldmatrix", "column-major", "2 elements")),
        (
            "ldmatrix m64n8k32 e4m3 A --major col",
            ("2 elements", "m16n16 b8: it needs sm_100f sm_110f sm_120f, and wgmma needs sm_90a"),
        ),
        ("m8n8 b16 r m8n8k4 f64 B", ("ldmatrix", "32 bits of each row", "an element has 64")),
        ("ldmatrix.x4 m16n8k16 f16 B", ("ldmatrix m8n8 b16 x4 cannot", "4 registers at once, and there are 2")),
        ("ldmatrix.x4.trans m16n8k16 f16 A --major row", ("m8n8 b16 x4.trans cannot", "row-major", "side by side")),
        ("ldmatrix m16n8k8 tf32 B --major row", ("not side by side", "with .trans, it transposes 16 bits", "has 32")),
        (f"m8n8 b16 r mma.sp m16n8k64 s8 A -s {CORRECTED}", ("chunk of 4 columns", "measured it (--source)")),
        ("m8n8 b16 r m16n8k16 f16 A --major both", ("invalid major 'both'", "row or col")),
        ("m8n8 b16 r m16n8k16 f16 B --count 0", ("invalid count 0", "1 to 16")),
        ("m16n8k16 f32 D m16n8k16 f16 A --count 2", ("--count", "ldmatrix before")),
        ("m8n8 b16 r", ("ldmatrix", "also name what it loads, such as m16n8k16 f16 A")),
        ("stmatrix m8n8 b16 r", ("stmatrix", "also name what it stores")),
        ("m16n8k16 f32 D stmatrix p", ("stmatrix", "also name what it stores")),
        ("tcgen05.ld stmatrix", ("r of tcgen05.ld has the shapes 32x32b,", "name one")),
        ("tcgen05.ld 16x256b stmatrix", ("r of tcgen05.ld 16x256b has the qualifiers x1,", "name one")),
        ("tcgen05.ld 16x32bx2 x2 stmatrix", ("holds 2 matrices",)),
        ("tcgen05.ld 32x32b x8 stmatrix --major row", ("row-major", "not side by side")),
        ("tcgen05.st 16x256b x1 stmatrix", ("one move must load the registers and the other store them",)),
        ("ldmatrix tcgen05.ld 16x256b x1", ("one move must load the registers and the other store them",)),
        ("tcgen05.ld 16x256b x1 tcgen05.st 16x256b x1", ("tcgen05.ld is not for shared memory",)),
        ("ldmatrix", ("also name what it loads",)),
        ("m8n8 b16 r m8n8 b16 r", ("both are matrix moves", "A, B, C or D")),
        ("stmatrix r m16n8k16 f16 A", ("ldmatrix before what it loads", "stmatrix after what it stores")),
        ("m16n8k16 f32 D ldmatrix r", ("ldmatrix before what it loads", "stmatrix after what it stores")),
        ("m16n8k16 f32 D tcgen05.st 32x32b r", ("tcgen05.st is not for shared memory", "ldmatrix")),
        ("m16n8k16 f32 D ldmatrix", ("ldmatrix before what it loads", "stmatrix after what it stores")),
        ("m16n8k16 f16 D movmatrix m16n8k16 f16 B", ("leave movmatrix out",)),
        ("m16n8k16 f16 D movmatrix m16n8k16 f16 A", ("leave movmatrix out",)),
        ("m16n8k16 f16 D movmatrix", ("say which role of movmatrix",)),
        ("stmatrix m16n8k16 f32 D", ("ldmatrix before what it loads", "stmatrix after what it stores")),
        ("ldmatrix m16n8k16 f16 A --transpose", ("transpose and relabel are for a D", "--major")),
        ("m16n8k16 f32 D stmatrix --relabel", ("transpose and relabel are for a D", "--major")),
        ("m16n8k16 D m16n8k16 f16 A", ("D of m16n8k16 has the types f64, f32, f16, s32: name one",)),
        ("mma D", ("D of mma has the shapes m8n8k4,",)),
        ("m16n8k16 f16 D m16n8k16 f16", ("say which role of m16n8k16 f16",)),
        ("m16n8k256 s32 D m16n8k256 b1 A --source all", ("D of m16n8k256 s32 has the sources", ": name one")),
        ("m16n8k256 b1 A --source all", ("A of m16n8k256 b1 has the sources", ": name one")),
        ("ldmatrix m16n8k256 b1 A --source all", ("A of m16n8k256 b1 has the sources", ": name one")),
    ],
)
def test_bad_input_is_one_line_and_exit_2(refused, arguments, words):
    refused("chain", *arguments.split(), words=words)


@pytest.mark.slow
@pytest.mark.parametrize(("type_", "bits"), [("e2m1", "2-5"), ("e3m2", "0-5"), ("e4m3", "")])
def test_elements_that_do_not_fill_their_slot_are_said_to(run, type_, bits):
    """What converts its own values, and what lies in memory as in registers, must know where in a byte they go."""
    packs = run("chain", *f"m16n8k32 f32 D m16n8k32 {type_} A --relabel".split()).out
    loads = run("chain", *f"ldmatrix m16n8k32 {type_} A".split()).out
    shows = run("show", *f"m16n8k32 {type_} A".split()).out
    assert (f"{type_} into bits {bits} of each 8" in " ".join(packs.split())) == bool(bits)
    assert (f"{type_} in bits {bits} of each byte, as in the registers" in " ".join(loads.split())) == bool(bits)
    assert (f"in each, of which {type_} has bits {bits}" in " ".join(shows.split())) == bool(bits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("m16n8k16 f32 D m16n8k16 f16 B", lambda db: db.chain("m16n8k16 f32 D", "m16n8k16 f16 B")),
        ("m16n8k16 f32 D", lambda db: db.chain("m16n8k16 f32 D")),
        ("m16n8k16 f16 A --relabel", lambda db: db.chain("m16n8k16 f16 A", relabel=True)),
        ("ldmatrix m16n8k32 e4m3 A", lambda db: db.chain("ldmatrix", "m16n8k32 e4m3 A")),
        ("ldmatrix m16n8k16 f16 A", lambda db: db.chain("ldmatrix", "m16n8k16 f16 A")),
        ("ldmatrix m16n8k8 f16 B --major col", lambda db: db.chain("ldmatrix", "m16n8k8 f16 B", major="col")),
    ],
)
def test_in_python_and_in_a_notebook_an_answer_says_the_same(run, database, arguments, answer):
    found = answer(database)
    assert run("chain", *arguments.split()).out == found.text(80) + "\n"
    assert html.unescape(found._repr_html_()) == f"<pre>{found}</pre>"
    assert len(found.frame()) == len(found.rows().rows) > 0


def test_a_database_that_fails_is_no_reason_against_a_recipe(database, monkeypatch):
    """It is raised as it is, and read before any major is tried: no recipe is left out because of it."""

    def fails(*_):
        raise lanemap.UnavailableError("the server went away")

    for module, name in (recipe, "pairs"), (lookup, "operand_with_rows"):
        with monkeypatch.context() as patched, pytest.raises(lanemap.UnavailableError, match="went away"):
            patched.setattr(module, name, fails)
            database.chain("ldmatrix", "m16n8k16 f16 A")
