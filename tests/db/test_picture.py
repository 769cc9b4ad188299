"""Grids and pictures: what is drawn, with what is said to repeat, is the whole fragment."""

import base64
import re
from dataclasses import replace
from operator import attrgetter
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.errors import LanemapError
from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.lookup import Query, read_fragments
from lanemap.db.render.facts import heading
from lanemap.db.render.picture import compose
from lanemap.db.render.picture.formats import FORMATS, format_of, table
from lanemap.db.render.picture.grid import PLAIN, Cell, Grid, View, by_bank, by_element, by_lane
from lanemap.db.render.picture.runs import Run, joined_columns, joined_rows, repeat, single

from ..modes import one_of_each
from ..shared_memory import SPANS, memory


def accumulator(n, slots=1):
    """D of wgmma: 9.7.17.5.1.1."""
    lane, i = np.indices((128, n // 2))
    row, col = 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2
    return fragment("wgmma", f"m64n{n}k16", "f16" if slots == 2 else "f32", "D", slots, by_rule(slots, row, col))


def backwards(n):
    """An accumulator whose registers count down along the columns."""
    lane, i = np.indices((128, n // 2))
    row, col = 16 * (3 - lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2), n - 8 - 8 * (i // 4) + 2 * (lane % 4) + i % 2
    return fragment("wgmma", f"m64n{n}k16", "f32", "D", 1, by_rule(1, row, col))


def multiplicand(type_, bits):
    """A of wgmma in registers: 9.7.17.5.1.2."""
    per = 32 // bits
    lane, i = np.indices((128, 4 * per))
    row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // per % 2)
    col = per * (lane % 4) + i % per + 4 * per * (i // (2 * per))
    return fragment("wgmma", f"m64n8k{256 // bits}", type_, "A", per, by_rule(per, row, col))


def windowed():
    """A sparse A: each pair of elements can stand for any of four columns."""
    lane, i = np.indices((128, 8))
    row, first = 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2), 4 * (lane % 4) + 16 * (i // 4)
    return fragment("wgmma.sp", "m64n8k32", "f16", "A", 2, by_rule(2, row, first, first + 3))


def matrices(count):
    """r of ldmatrix: 9.7.16.5.15."""
    lane, i = np.indices((32, 2 * count))
    elements = by_rule(2, lane // 4, 2 * (lane % 4) + i % 2, computation=i // 2 + 1)
    return fragment("ldmatrix", "m8n8", "b16", "r", 2, elements)


def lanes_down(n):
    """Each lane has a row of its own, and each register a column, as in Tensor Memory."""
    lane, i = np.indices((128, n))
    return fragment("wgmma", f"m128n{n}k16", "f32", "D", 1, by_rule(1, lane, i))


def fragment(instruction, shape, type_, role, slots, elements):
    registers = int(elements["reg"].max()) + 1
    return Fragment(instruction, shape, type_, role, registers, slots, elements, source="rule")


LARGE = [
    *(accumulator(n, slots) for n in (8, 24, 64, 256) for slots in (1, 2)),
    *(multiplicand(*type_) for type_ in (("f16", 16), ("s8", 8), ("b1", 1))),
    windowed(),
    backwards(64),
    lanes_down(32),
    matrices(1),
    matrices(4),
]
LABELS = re.compile(r"(?:T(\d+):\{([^}]*)\}|(?:(\d+):)?(\d+)\.(\S+))")  # words of memory have no lane


def span(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def elements_of(label, slots):
    """Lane, reg and slots of each part of a label, and whether they stand for any of its cells."""
    for part in label.split("+") if label != "-" else []:
        thread, names, lane, reg, within = LABELS.fullmatch(part).groups()
        if names:
            found = [int(number) for number in re.findall(r"[a-z](\d+)", names)]
            places = [divmod(at, slots) for at in range(found[0], found[-1] + 1)]
        else:
            places = [(int(reg), slot) for slot in span(re.sub(r"\|(\.\.\|)?", "-", within))]
        yield [(int(thread or lane or 0), *place) for place in places], "|" in part


def read_cells(grid, slots):
    held = {}
    for rows, line in grid.rows:
        for cols, cell in zip(grid.columns, line, strict=True):
            cells = [(row, col) for row in span(rows) for col in span(cols)]
            for places, anywhere in elements_of(cell.label, slots):
                for index, place in enumerate(places):
                    mine = cells if anywhere or len(places) == 1 else [cells[index]]
                    held.setdefault(place, set()).update(mine)
    return held


def read_lanes(grid):
    held = {}
    for name, line in grid.rows:
        for column, cell in zip(grid.columns, line, strict=True):
            reg, _, slots = column.split()[0].partition(".")
            for part in cell.label.split("+") if cell.label != "-" else []:
                rows, cols = map(span, part.split(","))
                cells = [(row, col) for row in rows for col in cols]
                for index, slot in enumerate(span(slots)):
                    mine = cells if len(cells) != len(span(slots)) else [cells[index]]
                    held.setdefault((int(name.split()[0]), int(reg), slot), set()).update(mine)
    return held


def expanded(held, repeats):
    """All of it, from what is drawn and the sentences on what repeats."""
    names = ("lane", "register", "slot", "row", "column")
    for words in repeats:
        words = words.replace("Word", "Register").replace("word", "register")  # which memory has in their place
        kind, last = re.match(r"(\w+)s \d+-(\d+) repeat", words).groups()
        step = int((re.search(r"with every (\d+)", words) or [0, 1])[1])
        shift = dict.fromkeys(names, 0) | {kind.lower(): step}
        for name, by, way in re.findall(r"the (\w+) is (\d+) (higher|lower)", words):
            shift[name] = int(by) * (1 if way == "higher" else -1)
        lane, reg, slot, row, col = shift.values()
        held = {
            (place[0] + n * lane, place[1] + n * reg, place[2] + n * slot): {
                (r + n * row, c + n * col) for r, c in cells
            }
            for place, cells in held.items()
            for n in range((int(last) + 1) // step)
        }
    return held


def stored(fragment, number=None):
    return {
        element[:3]: {(element.row, col) for col in range(element.col, element.col_last + 1)}
        for element in fragment.records()
        if number in (None, element.computation)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "view"),
    [
        (fragment, view)
        for fragment in LARGE
        for view in (PLAIN, View(whole=True), View(ptx=True))
        if view == PLAIN or fragment.dimensions[1] < 256  # wide ones go on like narrow ones
    ],
    ids=str,
)
def test_what_is_drawn_and_what_is_said_to_repeat_is_all(drawn, view):
    for number, (grid,) in enumerate(by_element([drawn], view), 1):
        repeats = [note for note in grid.notes if " repeat " in note]
        assert expanded(read_cells(grid, drawn.slots), repeats) == stored(drawn, number)
        assert not (view.whole and repeats)
        assert drawn.windowed == any(note.startswith("0|1: ") for note in grid.notes)
        if drawn.threads > 32 and not view.whole:
            assert len({cell.lane for cell in grid.cells}) == 32
            assert len(grid.columns) <= 16
    grid = by_lane(drawn, view)
    assert expanded(read_lanes(grid), grid.notes) == stored(drawn)
    assert view.whole or len(grid.rows) == 32


@pytest.mark.slow
def test_every_layout_is_drawn_whole(database):
    every = [fragment for fragment in read_fragments(database.reader, Query()) if fragment.has_rows]
    # Wider accumulators go on like narrow ones, and the largest A is one of those above.
    narrow = [
        fragment
        for fragment in every
        if len(fragment.elements) < 8192 and (fragment.role != "D" or fragment.dimensions[1] < 33)
    ]
    kind = attrgetter("instruction", "role", "slots", "windowed", "computations")
    distinct = {fragment.digest: fragment for fragment in narrow}.values()
    for fragment in one_of_each(kind, distinct, lambda fragment: len(fragment.elements)):
        for view in (View(whole=True), View(whole=True, ptx=True)):
            for number, (grid,) in enumerate(by_element([fragment], view), 1):
                assert read_cells(grid, fragment.slots) == stored(fragment, number), fragment
        assert read_lanes(by_lane(fragment, View(whole=True))) == stored(fragment), fragment


def test_elements_outside_the_matrix_are_counted():
    moved = matrices(1).elements.copy()
    moved["row"][:2] = 8
    moved["col"][2] = moved["col_last"][2] = -1
    ((grid,),) = by_element([fragment("ldmatrix", "m8n8", "b16", "r", 2, moved)], PLAIN)
    assert grid.notes == ("3 elements outside the matrix cannot be drawn.",)
    assert len(read_cells(grid, 2)) == 61
    assert by_element([matrices(1)], PLAIN)[0][0].notes == ()


@pytest.mark.parametrize(
    "words",
    [
        "wgmma m64n64k16 f16 B 128B.K",
        "wgmma m64n64k16 f16 B none.MN",
        "wgmma.sp m64n8k32 f16 A 64B.K",
        "wgmma.sp m64n8k64 e4m3 A none.K",
        "cp.async.bulk.tensor m64n64 b16 t 128B",
        "tcgen05.ld 16x256b b32 r x32",
        "tcgen05.st 32x32b b32 r x128.unpack::16b",
    ],
)
def test_memory_and_many_registers_are_drawn_once_where_they_repeat(database, words):
    (drawn,) = database.operand(words)
    ((matrix,),) = by_element([drawn], PLAIN)
    lanes = by_lane(drawn, PLAIN)
    for grid, held in ((matrix, read_cells(matrix, drawn.slots)), (lanes, read_lanes(lanes))):
        repeats = [note for note in grid.notes if " repeat " in note]
        assert 4 * len(held) <= len(drawn.records())
        assert all(len({*cell.held}) == len(cell.held) for cell in grid.cells)
        assert ("word" in " ".join(repeats)) == ("register" not in " ".join(repeats)) == (drawn.tile is not None)
        assert expanded(held, repeats) == stored(drawn)


def test_what_repeats_divides_all_lines_of_every_table():
    def lines(count):
        return [[(n % 2, n // 2, 0, n, 0, 0, 1)] for n in range(count)]

    def lanes(step):
        return [[(n * step, 0, 0, n, 0, 0, 1)] for n in range(6)]

    def columns(element):
        return range(element[4], element[5] + 1)

    assert repeat([lines(6)], columns) == (2, [(0, 1, 0, 2, 0)])
    assert repeat([lines(5)], columns) is None
    assert repeat([lanes(1)], columns) == (1, [(1, 0, 0, 1, 0)])
    assert repeat([lanes(32), lanes(64)], columns, 32)[1] == [(32, 0, 0, 1, 0), (64, 0, 0, 1, 0)]
    assert repeat([lanes(32), lanes(1)], columns, 32) is None
    assert repeat([[[(0, n, 0, n, 0, n, 1)] for n in range(4)]], columns) is None, "windows that grow"
    assert repeat([[[(0, n, 0, n, n, n, 1)] for n in range(4)]], columns) is None, "elements in other columns"
    assert repeat([[[(0, n, 0, n, 0, 0, 1)] * (n + 1) for n in range(4)]], columns) is None, "more and more elements"
    assert repeat([[[(0, n, 0, n, 0, 0, 1)] * (n % 3 < 2) for n in range(4)]], columns) is None, "a line without any"
    assert repeat([[[]] * 4], columns) is None, "nothing"


def test_matrices_of_one_move_are_told_apart():
    moved = matrices(4)
    titles = [f"matrix {number}" for number in (1, 2, 3, 4)]
    assert [grid.title for (grid,) in by_element([moved], PLAIN)] == titles
    assert by_lane(moved, PLAIN).columns == [f"{reg}.0-1 ({title})" for reg, title in enumerate(titles)]


def in_tensor_memory(name):
    """r of tcgen05.ld and tcgen05.st 32x32b: each lane has a lane of Tensor Memory (9.7.18.2.3.1)."""
    lane, i = np.indices((32, 4))
    return replace(fragment(name, "32x32b", "b32", "r", 1, by_rule(1, lane, i)), qualifiers="x4")


@pytest.mark.parametrize(
    ("drawn", "down", "across"),
    [
        (in_tensor_memory("tcgen05.ld"), "memory lane", "column"),
        (in_tensor_memory("tcgen05.st"), "memory lane", "column"),
        (accumulator(8), "M", "N"),
        (multiplicand("f16", 16), "M", "K"),
        (matrices(1), "M", "N"),
    ],
    ids=str,
)
def test_axes_are_called_what_they_are_wherever_they_are_named(drawn, down, across):
    rows, columns = drawn.dimensions
    ((grid,),) = by_element([drawn], PLAIN)
    assert grid.corner == f"{down}\\{across}"
    assert heading(drawn).endswith(f": {rows} ({down}) x {columns} ({across})")
    svg, page = drawn.draw().svg(), table(grid, {}, "")
    for text in (svg, page):
        assert f">{down}\\{across}<" in text
    assert f"{rows} ({down}) x {columns} ({across})" in svg


@pytest.mark.parametrize(
    ("words", "title", "panels"),
    [
        (("m16n8k64", "nvfp4", "SFB"), "SFB of mma m16n8k64 ue8m0 ue4m3", 8),
        (("m16n8k64", "mxfp4", "SFA"), "SFA of mma m16n8k64 ue8m0", 4),
        (("ldmatrix m8n8", "b16", "r"), "r of ldmatrix m8n8 b16", 14),
        (("m8n8k4", "f16", "A"), "A of mma m8n8k4 f16", 8),
        (("mma.sp m16n8k16", "f16", "E"), "E of mma.sp m16n8k16 f16", 4),
    ],
)
def test_the_title_is_of_all_fragments_and_each_panel_has_a_name_of_its_own(database, words, title, panels):
    picture = database.draw(*words)
    names = [text.text for text in picture.body.captions if text.style == "name"]
    assert picture.title == title
    assert len(names) == len(set(names)) == panels


@pytest.mark.parametrize("name", ["x.matmul", "v_mfma_f32_32x32x8_f16"])
def test_each_of_64_lanes_has_a_place_and_a_colour_of_its_own_whatever_the_instruction(name):
    lane, i = np.indices((64, 16))
    elements = by_rule(1, i // 4 * 8 + lane // 32 * 4 + i % 4, lane % 32)
    drawn = fragment(name, "m32n32k8", "f32", "D", 1, elements)
    ((grid,),) = by_element([drawn], PLAIN)
    assert grid.notes == ()
    assert read_cells(grid, 1) == stored(drawn)
    assert read_lanes(by_lane(drawn, PLAIN)) == stored(drawn)
    assert set(re.findall(r"class=lane(\d+)", table(grid, {}, ""))) == {str(lane) for lane in range(64)}
    fills = dict(re.findall(r"\.lane(\d+) path\{fill:#(\w+)\}", drawn.draw().svg().partition("@media")[0]))
    assert len(fills) == len(set(fills.values())) == 64
    assert coloured(drawn.draw(lanes=[40])) == {f"40:{at}.0" for at in range(16)}


def test_each_computation_of_a_block_instruction_is_a_panel():
    lane, i = np.indices((64, 4))
    drawn = fragment("x.blocks", "m4n4k4", "f32", "D", 1, by_rule(1, i, lane % 4, computation=lane // 4 + 1))
    names = [text.text for text in drawn.draw().body.captions if text.style == "name"]
    assert names == [f"computation {number}" for number in range(1, 17)]


def test_what_does_not_repeat_is_drawn_whole():
    """One element of another warp is elsewhere: nothing may be left out."""
    right = accumulator(64)
    moved = right.elements.copy()
    moved["col"][moved["lane"] == 70] = moved["col_last"][moved["lane"] == 70] = 3
    right = fragment("wgmma", "m64n64k16", "f32", "D", 1, moved)
    ((grid,),) = by_element([right], PLAIN)
    assert (len(grid.rows), len(grid.columns)) == (64, 64)
    assert not any(" repeat " in note for note in grid.notes)
    drawn = compose.difference([accumulator(64)], [right])
    framed = [box.cell for box in drawn.body.boxes if box.cell.differs]
    assert {run.lane for cell in framed for run in cell.held} >= {70}
    assert "elements differ" in drawn.body.captions[1].text
    with pytest.raises(LanemapError, match="do not both have D of wgmma m64n64k16 f32"):
        compose.difference([right], [accumulator(32)])


@given(
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=40),
    room=st.integers(9, 60),
    units=st.tuples(st.integers(1, 16), st.integers(1, 4)).map(lambda pair: (pair[0] * pair[1], pair[1])),
)
def test_strips_hold_every_column_once_and_begin_in_the_best_places_that_fit(widths, room, units):
    starts = [[at for at in range(len(widths)) if at % unit == 0] for unit in units]
    grid = Grid("", "", [""] * len(widths), [("", [Cell("-", [])] * len(widths))], starts=lambda: starts)
    strips = grid.cut(widths, room)
    assert [at for strip in strips for at in strip] == list(range(len(widths)))
    assert all(sum(widths[at] for at in strip) <= room for strip in strips)
    for unit in units:
        if all(sum(widths[at : at + unit]) <= room for at in range(0, len(widths), unit)):
            assert all(strip.start % unit == 0 for strip in strips)
            parts = [sum(widths[strip.start : min(strip.stop + unit, len(widths))]) for strip in strips[:-1]]
            assert all(part > room for part in parts), "a strip ends before it has to"
            break


def coloured(picture):
    return {box.cell.label for box in picture.body.boxes if box.cell.lane is not None}


def test_only_what_was_picked_keeps_its_colour(fragments):
    a = next(fragment for fragment in fragments if str(fragment) == "A of mma m16n8k16 f16")
    labels = coloured(a.draw())
    assert coloured(a.draw(lanes=[13])) == {label for label in labels if label.startswith("13:")}
    assert coloured(a.draw(values="T0:{a0,a1}")) == {"0:0.0-1"}
    assert coloured(a.draw(values="T0 : { a1 }  T3:{a4,..,a7}")) == {"0:0.0-1", "3:2.0-1", "3:3.0-1"}
    assert coloured(a.draw(values="T0:{a0}", lanes=[1], ptx=True)) == {
        "T0:{a0,a1}",
        *(f"T1:{{a{at},a{at + 1}}}" for at in (0, 2, 4, 6)),
    }


def test_what_was_picked_is_drawn_even_if_it_repeats():
    d = accumulator(64)
    assert coloured(d.draw(lanes=[70])) == {f"70:{reg}.0" for reg in range(32)}
    assert coloured(d.draw(values="T3:{d20}")) == {"3:20.0"}
    assert coloured(d.draw(values="T3:{d1}")) == {"3:1.0"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"lanes": [32]}, ("lane 32", "0 to 31")),
        ({"lanes": [-1]}, ("lane -1", "0 to 31")),
        ({"values": "T40:{a0}"}, ("lane 40", "0 to 31")),
        ({"values": "T0:{a8}"}, ("a8", "a0 to a7")),
        ({"values": "T0:{b0}"}, ("b0", "a0 to a7")),
        ({"values": "T0:{a5..a2}"}, ("a2", "a0 to a7")),
        ({"values": "T0:{a0,a1"}, ("T0:{a0,a1",)),
        ({"values": "T0:{a}"}, ("'a'", "a0..a3")),
        ({"values": "a0"}, ("a0", "T0:{a0,a1}")),
    ],
)
def test_what_cannot_stand_out_is_said(fragments, how, words):
    a = next(fragment for fragment in fragments if str(fragment) == "A of mma m16n8k16 f16")
    with pytest.raises(LanemapError) as raised:
        a.draw(**how)
    assert all(word in str(raised.value) for word in words), raised.value


def test_a_picture_without_title_is_its_grid_alone(fragments):
    a = next(fragment for fragment in fragments if str(fragment) == "A of mma m16n8k16 f16")
    bare = a.draw(title=False)
    assert {text.style for text in bare.body.captions} == {"axis"}
    assert bare.title == a.draw().title


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("m16n8k32", "e2m1", "A"), {"A slot of A has 8 bits, of which e2m1 has bits 2-5."}),
        (("m16n8k32", "e3m2", "B"), {"A slot of B has 8 bits, of which e3m2 has bits 0-5."}),
        (("m16n8k64", "e2m1", "A"), set()),
        (("m16n8k32", "e4m3", "A"), set()),
        (
            ("m16n8k32", "e2m1"),
            {f"A slot of {role} has 8 bits, of which e2m1 has bits 2-5." for role in "AB"},
        ),
    ],
)
def test_an_element_that_does_not_fill_its_slot_is_said_to(database, words, expected):
    found = {text.text for text in database.draw(*words).body.captions if text.text.startswith("A slot")}
    assert found == expected
    assert all(number in str(database.draw(*words).svg()) for number in expected)


def test_a_fragment_shows_its_picture_in_a_notebook(fragments):
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', fragments[0]._repr_html_())[1]
    svg = base64.b64decode(data).decode()
    assert svg == fragments[0].draw().svg()
    assert "prefers-color-scheme:dark" in svg
    ElementTree.fromstring(svg)


def test_a_fragment_without_rows_has_no_picture():
    drawn = Fragment("mma", "m16n8k16", "f16", "A", 4, 2, None, source="page", status="figure-only")
    assert drawn._repr_html_() is None
    with pytest.raises(LanemapError, match="page has no rows for A of mma m16n8k16 f16: figure-only"):
        drawn.draw()


def test_a_format_is_the_ending_of_a_file(tmp_path, fragments):
    picture = fragments[0].draw()
    starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
    for form in FORMATS:
        picture.save(tmp_path / f"a.{form.upper()}")
        assert (tmp_path / f"a.{form.upper()}").read_bytes().startswith(starts[form])
    with pytest.raises(LanemapError, match="'a.gif': end it in one of .svg"):
        format_of("a.gif")
    with pytest.raises(LanemapError, match="no picture format 'gif': choose from svg"):
        picture.save(tmp_path / "a.svg", "gif")


@pytest.mark.parametrize("mode", SPANS)
@pytest.mark.parametrize(("name", "major", "bits"), [("f16", "K", 16), ("f16", "MN", 16), ("e4m3", "K", 8)])
def test_banks_hold_what_a_model_of_memory_has_there(database, mode, name, major, bits):
    """Lines that are left out are made again from what the note says."""
    shape = f"m64n64k{256 // bits}"
    drawn = database.operand(f"{shape} {name} B {mode}.{major}")[0]
    grid = by_bank(drawn.tuples())
    said = re.search(r"-(\d+) repeat.*with every (?:(\d+) )?line", " ".join(grid.notes))
    lines = int(said[1]) + 1 if said else len(grid.rows)
    step = int(said[2] or 1) if said else lines
    moved = dict(re.findall(r"the (row|column) is (\d+) higher", " ".join(grid.notes)))
    held = {}
    for line in range(lines):
        for bank, cell in enumerate(grid.rows[line % step][1]):
            for run in cell.held:
                by = [line // step * int(moved.get(axis, 0)) for axis in ("row", "column")]
                cells = [(row, col) for row in range(run.rows[0], run.rows[1] + 1) for col in range(*_upto(run.cols))]
                for slot, (row, col) in zip(range(*_upto(run.slots)), cells, strict=True):
                    held[col + by[1], row + by[0]] = (32 * line + bank) * 32 + slot * bits
    assert held == memory(mode, major, bits, 64, 256 // bits)[0]


def _upto(span):
    return span[0], span[1] + 1


@pytest.mark.parametrize(
    ("step", "spans"),
    [
        ((1, 0, 1), [(0, 2)]),  # slots hold columns one by one
        ((1, 0, 0), [(0, 2)]),  # all hold one cell
        ((1, 1, 0), [(0, 2)]),  # rows one by one
        ((1, 2, 0), single(3)),
        ((1, 1, 1), single(3)),
        ((1, 0, 2), single(3)),
        ((0, 0, 0), [(0, 2)]),  # one element of a window
        ((2, 0, 1), single(3)),
    ],
)
def test_columns_are_joined_where_slots_hold_them_in_one_direction(step, spans):
    slot, row, col = step
    line = [[(5, 2, slot * at, 3 + row * at, 4 + col * at, 4 + col * at, 1)] for at in range(3)]
    assert joined_columns([[line]]) == spans
    assert joined_columns([[line], [[[], [], []]]]) == spans, "beside what is empty"
    assert joined_columns([[line, [[], line[1], []]]]) == single(3), "beside what does not go on"
    if len(spans) == 1:
        assert Run.of(line[0][0], line[-1][0]).slots == (0, 2 * slot)
        assert joined_columns([[line]], [0, 0, 1]) == [(0, 1), (2, 2)]


def test_rows_are_joined_where_no_columns_are():
    """Rows hold the same slots of a lane, which go on along each."""
    table = [[[(0, 0, 2 * row + col, row, col, col, 1)] for col in range(2)] for row in range(2)]
    columns = joined_columns([table])
    assert columns == [(0, 1)]
    assert joined_rows([table], [columns]) == single(2)
    down = [[[(0, col, row, row, col, col, 1)] for col in range(2)] for row in range(2)]
    assert joined_rows([down], [single(2)]) == [(0, 1)]
    across = [[[(0, col, row, 0, 2 * col + row, 2 * col + row, 1)] for col in range(2)] for row in range(2)]
    assert joined_rows([across, down], [[(0, 1)], single(2)]) == single(2), "where columns of another are joined"


def test_a_cell_says_where_a_window_opens_and_closes():
    cells = [Cell("0", []), Cell("1", [], opens=True), Cell("2", [], closes=True), Cell("3", [], walls=(True, False))]
    shown = table(Grid("", "", ["0"] * 4, [("0", cells)]), {}, "")
    assert re.findall(r"<td([^>]*)>\d", shown) == ["", " class=opens", " class=closes", " class=left"]
