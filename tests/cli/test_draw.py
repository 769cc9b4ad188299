"""Pictures: every element is in them, legible in both modes, and the file is whole or not there."""

import io
import re
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import lanemap
from lanemap.db.render.picture.formats import BLACK, WHITE, ink, shade

from ..shipped import CORRECTED, SHIPPED

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg, kind):
    """The words of a kind with their places; labels also with the colour of their lane."""
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        first, *rest = group.get("class").split()
        if first == kind:
            for node in group.iter(f"{SVG}text"):
                yield float(node.get("x")), float(node.get("y")), node.text, node.get("text-anchor"), *rest


def span(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def near(one, other):
    return abs(one - other) < 2


def held(svg):
    """The cells of each slot that a picture shows: each label, with the nearest names above and beside it."""
    axes, found = list(texts(svg, "axis")), {}
    for x, y, label, _, lane in texts(svg, "label"):
        above = max((top, name) for left, top, name, anchor in axes if (anchor, left) == ("middle", x) and top < y)
        beside = max((left, name) for left, top, name, anchor in axes if anchor == "end" and near(top, y) and left < x)
        cells = [(row, col) for row in span(beside[1]) for col in span(above[1])]
        for part in label.split("+") if label != "-" else []:
            held_by, reg, slots = re.fullmatch(r"(\d+):(\d+)\.(\S+)", part).groups()
            assert lane in (f"lane{held_by}", "none")
            window, slots = "|" in slots, span(re.sub(r"\|(\.\.\|)?", "-", slots))
            for index, slot in enumerate(slots):
                its = cells if window or len(slots) == 1 else [cells[index]]
                found.setdefault((int(held_by), int(reg), slot), set()).update(its)
    return found


def test_every_element_is_in_a_picture(run, some):
    for operand, options, stored in some:
        result = run("draw", *operand, "--whole", *options)
        assert result.code == 0, result.err
        assert held(result.out) == stored, (operand, options)


@pytest.mark.parametrize(
    "arguments",
    [
        "m8n8k4 f64 B",
        "m16n8k8 tf32 A --instruction mma.sp",
        "m8n8k4 f16 A --major row",
    ],
)
def test_svg(run, snapshot, arguments):
    result = run("draw", *arguments.split())
    assert (result.code, result.err) == (0, "")
    assert result.out == snapshot


def test_a_whole_instruction_is_drawn_as_a_product(run):
    svg = run("draw", "m16n8k16", "f16", "--accumulator", "f16").out
    names = {name: (x, y) for x, y, name, _ in texts(svg, "name")}
    a, b, d = (
        names[name] for name in ("A f16, 16 (M) x 16 (K)", "B f16, 16 (K) x 8 (N)", "C and D f16, 16 (M) x 8 (N)")
    )
    assert a[1] == d[1] > b[1]
    assert b[0] == d[0] > a[0]
    labels = {label: (x, y) for x, y, label, *_ in texts(svg, "label") if y > d[1] and x > d[0]}
    above = {x for x, y, *_ in texts(svg, "label") if y < a[1]}
    beside = {y for x, y, *_ in texts(svg, "label") if x < d[0]}
    assert {x for x, _ in labels.values()} == above
    assert {y for _, y in labels.values()} == beside


@pytest.mark.parametrize("name", ["ldmatrix x4", "ldmatrix x2.trans", "stmatrix x1", "stmatrix x4.trans"])
def test_a_move_is_drawn_with_the_lane_that_passes_the_address_of_each_row(run, database, name):
    """The address stands to the left of its row."""
    words = "{} m8n8.{} b16".format(*name.split())
    r, p = (database.fragment(words, role=role).records() for role in "rp")
    rows, lines, width = {}, {}, 9 if "trans" in words else 5
    for element in r:
        rows.setdefault((element.computation, element.row), set()).add(element[:3])
    for x, y, label, *_ in texts(run("draw", *words.split()).out, "label"):
        lines.setdefault(y, []).append((x, label))
    found = {}
    for line in map(sorted, lines.values()):
        for at in range(0, len(line), width):
            places = [x for x, _ in line[at : at + width]]
            assert all(right - left > 30 for left, right in pairwise(places)), "they stand in each other"
            (lane, *_), *cells = [re.split("[:.]", label) for _, label in line[at : at + width]]
            found[int(lane)] = {(int(cell[0]), int(cell[1]), slot) for cell in cells for slot in span(cell[2])}
    assert found == {element.lane: rows[element.computation, element.row] for element in p}


def test_movmatrix_is_drawn_whole(run):
    svg = run("draw", "movmatrix").out
    assert [name for *_, name, _ in texts(svg, "name")] == ["A b16, 8 (M) x 8 (N)", "D b16, 8 (N) x 8 (M)"]
    assert "<title>movmatrix m8n8 trans: A b16, D b16" in svg


def test_the_title_says_which_majors_are_drawn(run):
    assert "<title>mma m8n8k4: A f16 row major, B f16 col major, C and D f32" in run("draw", "m8n8k4", "f16").out


def test_a_sparse_instruction_is_drawn_whole_with_its_metadata(run):
    """What the document only draws is measured, and the picture says so."""
    svg = run("draw", "m16n8k32", "f16", "--instruction", "mma.sp", "--selector", "1").out
    names = {name: y for _, y, name, _ in texts(svg, "name")}
    assert list(names) == [
        "A f16, 16 (M) x 32 (K)",
        "B f16, 32 (K) x 8 (N)",
        "C and D f32, 16 (M) x 8 (N)",
        "E f16, selector 1, 16 (M) x 32 (K)",
    ]
    below = [label for _, y, label, *_ in texts(svg, "label") if y > names["E f16, selector 1, 16 (M) x 32 (K)"]]
    assert {label.split(":")[0] for label in below} == {str(lane) for lane in range(32) if lane % 4 >= 2}
    notes = [note for _, _, note, _ in texts(svg, "note") if note.startswith("Source of")]
    assert notes[0] == "Source of A, B, E: h200-sm_90a"
    assert notes[1].startswith(f"Source of D: {CORRECTED}, section")


def test_four_computations_are_four_products(run):
    names = [name for _, _, name, _ in texts(run("draw", "m8n8k4", "f16").out, "name")]
    assert [name for name in names if name.startswith("computation")] == [f"computation {n}" for n in (1, 2, 3, 4)]
    assert names.count("C and D f32, 8 (M) x 8 (N)") == 4


def test_what_differs_keeps_its_colour_in_a_frame(run):
    svg = run("draw", "m16n8k256", "b1", "A", "--diff", "ptx-isa-9.4", "h200-sm_90a").out
    assert "1024 of 4096 elements differ" in svg
    coloured = [label for _, _, label, _, lane in texts(svg, "label") if lane != "none"]
    shared = [label for _, _, label, _, lane in texts(svg, "label") if lane == "none" and "+" in label]
    empty = [label for _, _, label, *_ in texts(svg, "label") if label == "-"]
    frames = re.search(r'class="frame" d="([^"]*)"', svg)[1].count("M")
    assert len(coloured) + len(shared) + len(empty) == frames == 2 * 8 * 5
    same = run("draw", "m16n8k16", "f16", "A", "--diff", "ptx-isa-9.4", "h200-sm_90a").out
    assert "Nothing differs" in same
    assert 'class="frame"' not in same


def test_it_says_where_it_comes_from(run):
    notes = [words for _, _, words, _ in texts(run("draw", "m16n8k256", "b1", "A").out, "note")]
    assert any("ptx-isa-9.4+errata" in note and "section 9.7.16.5.13" in note for note in notes)
    assert any(f"lanemap {lanemap.__version__}" in note for note in notes)


def test_every_label_is_legible_on_its_colour():
    """A contrast of 4.5, as accessibility guidelines ask for small text, on paper and in the dark."""

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.05 + 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ground in (WHITE, "1b1b1f"):
        fills = [shade(lane, ground) for lane in range(128)]
        assert len(set(fills)) == 128
        for fill in fills:
            pair = sorted((light(fill), light(ink(fill))))
            assert pair[1] / pair[0] > 4.5, (fill, ground)
    assert {ink(shade(lane)) for lane in range(32)} == {BLACK, WHITE}


@pytest.mark.few(3)
@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_file_and_stdout_are_the_same(run, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_text("old")
    assert run("draw", "m16n8k16", "f16", "A", "--output", path).out == ""
    assert path.read_bytes() == run("draw", "m16n8k16", "f16", "A", "--format", ending).bytes
    assert path.read_bytes().startswith({"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    assert list(tmp_path.iterdir()) == [path]


def test_png_has_the_colour_of_every_lane(run):
    from PIL import Image

    image = Image.open(io.BytesIO(run("draw", "m16n8k16", "f16", "A", "-f", "png").bytes)).convert("RGB")
    seen = {f"{r:02x}{g:02x}{b:02x}" for count, (r, g, b) in image.getcolors(1 << 20) if count > 500}
    assert {shade(lane) for lane in range(32)} <= seen


@pytest.mark.parametrize(
    "arguments",
    [
        ("m16n8k32", "f16", "A", "--instruction", "mma.sp"),
        ("m16n8k256", "b1", "A", "--diff", "ptx-isa-9.4", "ptx-isa-9.4+errata"),
    ],
    ids=["brackets", "frames"],
)
def test_pdf_has_every_label_and_line_where_svg_has_it(run, arguments):
    import base64
    import zlib

    pdf = run("draw", *arguments, "-f", "pdf").bytes
    page = re.search(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)[1].strip()
    drawn = zlib.decompress(base64.a85decode(page.removesuffix(b"~>"))).decode("latin-1")
    svg = run("draw", *arguments).out
    assert all(f"({label})" in drawn for _, _, label, *_ in texts(svg, "label"))

    def points(text):
        return [(round(float(x), 2), round(float(y), 2)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", text)]

    marks = re.findall(r'class="(?:window|frame)" d="M([^"]*)"', svg)
    expected = sorted(points(line) for mark in marks for line in mark.split("M"))
    assert sorted(map(points, re.findall(r"\bn ((?:[\d.]+ [\d.]+ [ml]\s)+)S", drawn))) == expected != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "how"),
    [
        (("m16n8k16", "f16"), {}),
        (("m16n8k32", "f16", "A"), {"instruction": "mma.sp"}),
        (("m16n8k32", "f16", "A"), {"instruction": "mma.sp", "ptx": True}),
        (("m8n8k4", "f16", "A"), {"lanes": [3]}),
        (("m16n16k16", "f16", "A"), {"instruction": "wmma", "qualifiers": "row"}),
        (("m64n8k16", "f16", "D"), {"instruction": "wgmma", "whole": True}),
    ],
)
def test_png_has_the_dots_that_pillow_draws(database, words, how):
    """Boxes and labels, in the colours of lanes, are where the picture has them."""
    from PIL import Image, ImageChops, ImageDraw, ImageFont

    picture = database.draw(*words, **how)
    drawn = Image.open(io.BytesIO(picture.png()))
    assert drawn.info["Title"] == picture.title
    assert tuple(map(round, drawn.info["dpi"])) == (192, 192)
    plain = Image.new("RGB", drawn.size, "#ffffff")
    draw, font = ImageDraw.Draw(plain), ImageFont.load_default(24)
    for box in picture.body.boxes:
        fill, edge = ("ffffff", "555555") if box.cell.lane is None else (shade(box.cell.lane), WHITE)
        edges = (box.x, box.y, box.x + box.width, box.y + box.height)
        draw.rectangle([round(edge * 2) for edge in edges], f"#{fill}", f"#{edge}")
        colour = "555555" if box.cell.lane is None else ink(fill)
        draw.text((2 * box.x + box.width, 2 * box.baseline), box.cell.label, f"#{colour}", font, "ms")
        inside = (edges[0] * 2 + 16, edges[1] * 2 + 4, edges[2] * 2 - 16, edges[3] * 2 - 4)  # between its brackets
        area = tuple(map(round, inside))
        assert ImageChops.difference(drawn.crop(area), plain.crop(area)).getbbox() is None, box.cell.label


@pytest.mark.parametrize(("ending", "module"), [("png", "PIL"), ("pdf", "reportlab.pdfgen.canvas")])
def test_a_missing_library_is_one_line(refused, tmp_path, monkeypatch, ending, module):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / f"a.{ending}"
    path.write_text("old")
    refused("draw", "m8n8k4", "f64", "A", "-o", path, words=(ending.upper(), "pip install pillow reportlab"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("m16n8k16 f16 A -o a.gif", ("a.gif", ".svg, .png, .pdf")),
        ("m16n8k16 f16 A -o a", ("'a'", "name a format")),
        ("m16n8k16 f16 A --format gif", ("gif", "svg")),
        ("m16n8k16 f16 A -o no/such/a.svg", ("no/such/a.svg", "the folder no/such does not exist")),
        ("m16n8k16 f16 X", ("no role X",)),
        ("m16n8k16", ("m16n8k16 has the types of A f64, f16, bf16, s8, u8, e4m3, e5m2: name one",)),
        ("mma.sp m16n8k32", ("mma.sp m16n8k32 has the types of A f16, bf16, s8, u8: name one",)),
        ("wgmma", ("wgmma has the shapes m64n8k16, m64n16k16,", ", ...: name one")),
        ("mma A", ("mma has the shapes m8n8k4,",)),
        ("m8n8 b16", ("the instructions cp.async.bulk.tensor, ldmatrix, stmatrix, movmatrix: name one",)),
        ("ldmatrix m8n8", ("the qualifiers x1, x2, x4, x1.trans, x2.trans, x4.trans: name one",)),
        ("ldmatrix r", ("the shapes m8n8, m8n16, m16n16: name one",)),
        ("m16n8k256 b1 --source all", (f"has the sources {', '.join(SHIPPED[:4] + SHIPPED[-2:])}: name one",)),
        ("m16n8k256 b1 A --source all", ("A of m16n8k256 b1 has the sources ptx-isa-9.4,", ": name one")),
        ("movmatrix --source all", ("A of movmatrix has the sources", ": name one")),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32", ("figure-only",)),
        ("m16n8k17 f16", ("no m16n8k17 f16", "m16n8k16")),
        ("m16n8k32 f16 B --source ptx-isa-9.4", ("figure-only", "ask the source")),
        ("m16n8k16 f16 A --accumulator f16", ("whole instruction: name no role (--accumulator)",)),
        ("movmatrix --accumulator f16", ("movmatrix accumulates nothing", "(--accumulator)")),
        ("m16n8k16 bf16 --accumulator f16", ("no accumulator f16", "f32")),
        ("m16n8k16 f16 --diff ptx-isa-9.4 h200-sm_90a", ("name the operand",)),
        ("m16n8k16 f16 A --diff ptx-isa-9.4 nobody", ("no source nobody",)),
        ("m16n8k16 f16 A --diff ptx-isa-9.4", ("--diff", "2 arguments")),
    ],
)
def test_bad_input_is_one_line_and_exit_2(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refused("draw", *arguments.split(), words=words)
    assert list(tmp_path.iterdir()) == []
