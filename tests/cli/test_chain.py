"""What ``chain`` prints, and its exit codes."""

import csv
import io
import re

import pytest

from lanemap.db.chain import Transfer


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
        (("m16n8k16", "f32", "D", "m16n8k16", "f16", "B", "--first", "mma.sp", "--second", "mma.sp", "-t"), 0),
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
        "m64n40k16 f16 D m8n8 b16 r --major row",
        "m8n8 b16 r m16n8k16 f16 B --count 2",
    ],
)
def test_a_recipe_says_what_each_lane_passes(run, snapshot, arguments):
    result = run("chain", *arguments.split())
    assert (result.code, result.err) == (0, "")
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
    assert result.err.startswith("lanemap: ldmatrix m8n8 b16 cannot move A of mma m16n8k32 e4m3 in a col-major tile")


def test_every_element_in_other_formats(run):
    rows = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D m16n8k16 f16 A -f csv".split()).out)))
    assert tuple(rows[0]) == Transfer._fields
    assert len(rows) == 256
    assert all(row["lane"] == row["from_lane"] for row in rows)


def numbered(text):
    """The numbers of spans such as 0-3,8."""
    ends = [list(map(int, part.split("-"))) for part in text.split(",")]
    return [lane for first, *last in ends for lane in range(first, (last or [first])[0] + 1)]


@pytest.mark.parametrize(
    "arguments",
    [
        "m16n8k8 f32 D m16n8k8 tf32 A",
        "m16n8k16 f32 D m16n8k16 f16 A --transpose",
        "m64n64k16 f32 D m64n64k32 e4m3 A",
        "m64n32k16 f32 D m64n32k16 f16 A",
        "m8n8k4 f32 D m8n8k4 f16 A --major row --relabel",
    ],
)
def test_the_table_and_what_it_says_to_repeat_are_all_elements(run, arguments):
    rows = list(csv.DictReader(io.StringIO(run("chain", *arguments.split(), "-f", "csv").out)))
    text = run("chain", *arguments.split()).out
    header = re.search(r"^(.*\S) +lanes +from_lanes$", text, re.MULTILINE)
    lines, names = text[header.start() :].splitlines(), header[1].split()
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
    assert bool(again) == ("movement within the quad" in text)
    assert max(map(len, lines)) <= 80 or not again


def test_every_operand_that_a_d_can_be_is_listed(run):
    """Those, and no others, of which the verdict on the two alone is that nothing moves."""
    listed = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D -f csv".split()).out)))
    keys = {tuple(row[name] for name in ("instruction", "shape", "type", "role", "transposed")) for row in listed}
    assert ("mma", "m16n8k16", "f16", "A", "0") in keys
    assert ("mma", "m16n8k16", "f16", "B", "1") in keys
    for instruction, shape, type_, role in {key[:4] for key in keys} | {("mma", "m16n8k8", "tf32", "A")}:
        for transposed in ("0", "1"):
            words = ["m16n8k16", "f32", "D", shape, type_, role, "--second", instruction, *["-t"] * int(transposed)]
            still = run("chain", *words).code == 0
            assert still == ((instruction, shape, type_, role, transposed) in keys)
    more = list(csv.DictReader(io.StringIO(run("chain", *"m16n8k16 f32 D --relabel -f csv".split()).out)))
    assert [row for row in more if row["K"] == "as it is"] == listed
    assert len(more) > len(listed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("m16n8k16 f16 A m16n8k16 f16 A", ("A", "from D", "A or B")),
        ("m16n8k16 f16 D m16n8k16 f16 C", ("C", "A or B")),
        ("m16n8k16 f17 D m16n8k16 f16 A", ("no type f17", "f16")),
        ("m16n8k16 f16 D m16n8k17 f16 A", ("no shape m16n8k17", "m16n8k16")),
        ("m16n8k16 f16 D m16n8k16 f16 A --second mma.sp", ("metadata", "dense A")),
        ("m8n8k4 f16 D m8n8k4 f16 A", ("majors row and col", "name one")),
        ("m8n8k4 f16 D m16n8k16 f16 A", ("4 computations", "of 1")),
        ("m8n8 b16 r m16n8k32 e4m3 A --major col", ("ldmatrix", "col-major", "2 elements")),
        ("m8n8 b16 r m8n8k4 f64 B", ("ldmatrix", "not side by side")),
        ("m8n8 b16 r m16n8k64 s8 A --second mma.sp", ("chunk of 4 columns", "another source")),
        ("m8n8 b16 r m16n8k16 f16 A --major both", ("invalid major 'both'", "row or col")),
        ("m8n8 b16 r m16n8k16 f16 B --count 0", ("invalid count 0", "1 to 16")),
        ("m16n8k16 f32 D m16n8k16 f16 A --count 2", ("--count", "m8n8 b16 r")),
        ("m8n8 b16 r", ("ldmatrix needs a recipe", "name r with the operand")),
        ("m8n8 b16 r m8n8 b16 r", ("r of ldmatrix m8n8", "name an A, B, C or D")),
        ("m16n8k16 f16 D m16n8k16 f16", ("say which role of m16n8k16 f16",)),
    ],
)
def test_bad_input_is_one_line_and_exit_2(refused, arguments, words):
    refused("chain", *arguments.split(), words=words)
