"""The pages in a browser: what a mouse, a finger and a keyboard do, and what a phone and a screen reader get."""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

import pytest

import lanemap
from lanemap.cli.web import guide
from lanemap.cli.web.links import look_up
from lanemap.db.render.notation import express

from ..modes import LONG, some
from .conftest import serving

OPERAND = "/mma/m16n8k16/bf16/A"


@pytest.fixture(scope="module")
def address(database):
    with serving(database) as address:
        yield address


_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_QUIET = """--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync
--no-first-run"""


@pytest.fixture(scope="module")
def chromium():
    if _CHROMIUM is None:
        pytest.skip("there is no Chromium: the pages are not tried in a browser")
    api = pytest.importorskip("playwright.sync_api", reason="needs lanemap[test-browser]")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_QUIET.split())
        yield browser
        browser.close()


def opened(chromium, address, wrong, **how):
    """A tab of its own, which tells what it asked of anybody else, and what went wrong."""
    tab = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}} | how).new_page()
    ours = (address, "data:", "file:", "about:")
    tab.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(ours) else None)
    tab.on(
        "console",
        lambda said: wrong.append(said.text) if said.type == "error" and "status of 40" not in said.text else None,
    )
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    return tab


@pytest.fixture(scope="module")
def shared(chromium, address):
    """The tab of all tests, because each takes a process of its own, and what went wrong in it."""
    wrong = []
    return opened(chromium, address, wrong), wrong


@pytest.fixture
def visit(chromium, address, shared):
    """Open a page as somebody; afterwards nothing was asked of anybody else, and nothing went wrong."""
    first, wrong = shared
    wrong.clear()
    used = []

    def visit(path, **how):
        tab = opened(chromium, address, wrong, **how) if how or used else first
        used.append(tab)
        tab.goto(path if ":" in path else address + path)
        return tab

    yield visit
    for tab in used:
        if tab is first:
            tab.goto("about:blank")
        else:
            tab.context.close()
    assert not wrong


def test_search_with_the_keyboard(visit):
    tab = visit("/sources")
    tab.keyboard.press("/")
    tab.keyboard.type("HMMA.16816.F32.BF16")
    tab.wait_for_selector("#found li")
    tab.keyboard.press("ArrowDown")
    assert tab.locator("#found li[aria-selected=true]").count() == 1
    assert tab.locator("#q").get_attribute("aria-activedescendant") == "found-0"
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert urlsplit(tab.url).path == "/mma/m16n8k16/bf16"


def test_enter_alone_finds_what_the_command_line_would(visit):
    tab = visit("/sql")
    tab.locator("#q").fill("16x8x16 half B")
    with tab.expect_navigation():
        tab.locator("#q").press("Enter")
    assert urlsplit(tab.url).path == "/mma/m16n8k16/f16/B"


def test_pointing_at_d_lights_its_row_of_a_and_its_column_of_b(visit, database):
    tab = visit("/mma/m16n8k16/bf16")
    found = database.find("m16n8k16", "f32", "D", row=11, col=6).iloc[0]
    tab.get_by_role("cell", name=f"{found.lane}:{found.reg}.{found.slot}", exact=True).and_(
        tab.locator(".at-D td")
    ).hover()
    lit = {role: sorted(map(str.strip, tab.locator(f".at-{role} td.meets").all_text_contents())) for role in "AB"}
    for role, where in {"A": {"row": 11}, "B": {"col": 6}}.items():
        rows = database.find("m16n8k16", "bf16", role, **where)
        expected = {f"{lane}:{reg}.0-1" for lane, reg in zip(rows.lane, rows.reg, strict=True)}
        assert lit[role] == sorted(expected)
    assert tab.locator(".at-D td.on").all_inner_texts() == [f"{found.lane}:{found.reg}.{found.slot}"]
    assert (
        tab.locator("[data-say]")
        .text_content()
        .startswith(f"D row 11, column 6: lane {found.lane}, register {found.reg}, slot")
    )


_MEET = """() => [...(document.querySelector(".meeting")?.children ?? [])].map(each => {
    const box = each.getBoundingClientRect();
    return [each.className, box.left, box.top, box.right, box.bottom];
})"""


@pytest.mark.parametrize(("width", "media"), [(1440, "screen"), (794, "print")])
def test_operands_that_meet_are_seen_together(visit, address, known, width, media):
    """Those of the last product of each instruction, in the long mode of all; A left of D, B above it."""
    by_name = {}
    for product in known.products:
        by_name.setdefault(product.instruction, []).append(product)
    tab = visit("/sources", viewport={"width": width, "height": 900})
    tab.emulate_media(media=media)
    seen = set()
    for products in by_name.values():
        for product in products if LONG else products[-1:]:
            tab.goto(f"{address}/{'/'.join(product)}")
            assert tab.evaluate("document.documentElement.scrollWidth") == width, product
            if boxes := tab.evaluate(_MEET):
                assert all(0 <= left < right <= width for _, left, _, right, _ in boxes), (product, boxes)
                assert max(box[4] for box in boxes) - min(box[2] for box in boxes) < 900, (product, boxes)
                at = {name: box for name, *box in boxes}
                assert at["at-A"][2] <= at["at-D"][0] if "at-A" in at and "at-D" in at else True
                assert at["at-B"][3] <= at["at-D"][1] if "at-B" in at and "at-D" in at else True
                seen.add(product.instruction)
    assert {"mma", "mma.sp", "wgmma", "wgmma.sp", "wmma"} <= seen


def test_metadata_lights_with_the_element(visit):
    tab = visit("/mma.sp/m16n8k32/f16", viewport={"width": 1440, "height": 900})
    tab.locator(".at-D tbody td").nth(9).hover()
    assert tab.locator(".at-A td.meets").count() == 24  # its row: of four columns those in the middle are one cell
    seen = tab.locator(".at-E:visible")
    assert seen.count() == 1
    assert seen.locator("td.meets").count() > 0
    small = tab.locator(".at-A tbody td").first.bounding_box()["width"]
    tab.get_by_label("Full size").check()
    assert tab.locator(".at-A tbody td").first.bounding_box()["width"] > small


_CUT = """() => [...document.querySelectorAll("main *")].filter(each =>
    each.checkVisibility() && !["auto", "scroll"].includes(getComputedStyle(each).overflowX) &&
    each.getBoundingClientRect().right > document.documentElement.clientWidth + 1 ||
    ["auto", "scroll"].includes(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth + 1
).map(each => each.outerHTML.slice(0, 100))"""
_COLOURS = "() => [...document.querySelectorAll('body, td, .chip')].map(each => getComputedStyle(each).backgroundColor)"


@pytest.mark.parametrize(
    "path",
    [
        "/mma.sp/m16n8k32/f16",
        "/mma.sp/m16n8k32/f16/E",
        "/wgmma/m64n128k16/f32/D?source=h200-sm_90a",
        "/chain?first=m16n8k16+f32+D&second=m16n8k16+f16+A",
        "/chain?first=m64n128k16+f32+D&second=m64n128k16+f16+A+128B.K&through=128B",
        "/chain?first=m64n128k16+f16+D&second=stmatrix",
        "/defects",
        "/guide/look-up",
        "/check",
        *(pytest.param(path, marks=pytest.mark.slow) for path in ("/", "/trace", "/compare", "/mma/m16n8k64/e2m1")),
    ],
)
def test_paper_has_all_of_a_page_and_nothing_to_press(visit, path):
    """On A4 with margins, in the colours of a light screen."""
    tab = visit(path, viewport={"width": 718, "height": 1046}, color_scheme="light")
    light = tab.evaluate(_COLOURS)
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate(_COLOURS) == light
    assert not tab.evaluate(_CUT)
    assert tab.locator("textarea").evaluate_all("all => all.every(each => each.scrollHeight <= each.clientHeight + 1)")
    assert not [node for node in tab.locator("nav, header, [data-say], [data-drop]").all() if node.is_visible()]
    assert not [node for node in tab.locator(":placeholder-shown").all() if node.is_visible()]
    for node in tab.locator(".choose label:visible").all():  # without the dark ground of a screen
        assert node.evaluate("each => getComputedStyle(each).color") == tab.evaluate(
            "getComputedStyle(document.body).color"
        )
        assert node.evaluate("each => getComputedStyle(each).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert {button.get_attribute("aria-selected") for button in tab.locator("button:visible").all()} <= {"true"}
    for node in tab.locator("td[class*=lane], .chip").all()[:5]:
        assert node.evaluate("each => getComputedStyle(each).printColorAdjust") == "exact"
    seen = "all => all.map(each => each.checkVisibility({ contentVisibilityAuto: true }))"
    assert all(tab.locator("details *:not(.choose, .choose *, .ask *)").evaluate_all(seen))


@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_shows_one_operand_at_a_time(visit, scripts):
    """In letters that can be read, with the names of its rows wherever it is scrolled to; what was lit stays lit."""
    how = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "java_script_enabled": scripts}
    tab = visit("/mma/m16n8k16/f16", **how)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    if scripts:
        tab.locator(".at-D tbody tr").nth(3).locator("td").nth(5).tap()
    for role in "DAB":
        tab.get_by_label(role, exact=True).tap()
        seen = tab.locator(".meeting > div:visible")
        assert seen.count() == 1
        assert seen.get_attribute("class").split()[1] == f"at-{role}"
        size = seen.locator("td").first.evaluate("each => parseFloat(getComputedStyle(each).fontSize)")
        assert size >= 9
        assert seen.locator("td.meets, td.on").count() == {"D": 1, "A": 8, "B": 8}[role] * scripts
        seen.locator("tbody tr").first.locator("td").last.scroll_into_view_if_needed()
        assert seen.locator("tbody th").first.bounding_box()["x"] >= 0


def test_a_link_to_a_hidden_operand_shows_it(visit):
    tab = visit("/mma/m16n8k16/f16?role=B&row=3&col=5", viewport={"width": 390, "height": 800})
    assert tab.locator(".at-B td.cursor").is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_scales_stand_on_the_grid_of_the_product_and_one_is_chosen(visit, database, scripts):
    tab = visit("/mma/m16n8k32/e2m1", viewport={"width": 1440, "height": 900}, java_script_enabled=scripts)
    boxes = {role: tab.locator(f".at-{role}:visible tbody").bounding_box() for role in ("SFA", "SFB", "A", "B", "D")}
    assert boxes["SFA"]["x"] < boxes["A"]["x"] < boxes["D"]["x"]
    assert boxes["SFB"]["y"] < boxes["B"]["y"] < boxes["D"]["y"]
    assert {round(boxes[role]["y"]) for role in ("SFA", "A", "D")} == {round(boxes["D"]["y"])}
    cells = {role: tab.locator(f".at-{role}:visible tbody td").nth(5).bounding_box()["x"] for role in ("SFB", "B", "D")}
    assert len({round(x) for x in cells.values()}) == 1
    for byte, thread in ((0, 0), (2, 3)):
        tab.locator(".choose", has_text="SFB").get_by_label(f"{byte}, {thread}", exact=True).check()
        named = f"scale_vec::1X.byte_id::{byte}.thread_id::{thread}"
        held = database.fragment("m16n8k32", "ue8m0", "SFB", qualifiers=named).table
        assert tab.locator(".at-SFB:visible").count() == 1
        seen = tab.locator(".at-SFB:visible tbody td").all_text_contents()
        expected = {(each["col"]): f"{each['lane']}:{each['reg']}.{each['slot']}" for each in held}
        assert [text.strip() for text in seen] == [expected[at] for at in range(8)]
        if scripts:
            tab.locator(".at-D tbody tr").nth(3).locator("td").nth(6).hover()
            assert tab.locator(".at-SFB:visible td.meets").all_text_contents() == [seen[6]]
            assert f"SFB in lanes {expected[6].split(':')[0]}" in tab.locator("[data-say]").text_content()
    assert tab.locator("tr", has_text="16 variants").count() == 1


def test_an_element_and_a_tab_are_links(visit, address):
    tab = visit("/mma/m16n8k16/bf16")
    tab.locator(".at-D tbody tr").nth(3).locator("td").nth(5).click()
    assert tab.url == f"{address}/mma/m16n8k16/bf16?row=3&col=5"
    said = tab.locator("[data-say]").text_content()
    assert said.startswith("D row 3, column 5:")
    there = visit(tab.url)
    assert there.locator("td.cursor").count() == 1
    assert there.locator("[data-say]").text_content() == said
    tab.locator(".at-A tbody td").nth(9).click()
    there.goto(tab.url)
    assert there.locator(".at-A td.cursor").count() == 1
    tab.goto(address + OPERAND)
    tab.get_by_role("tab", name="python").click()
    there.goto(tab.url)
    assert there.locator("#as-python pre").is_visible()
    assert not there.locator("#as-cute pre").is_visible()


@pytest.mark.parametrize(("shape", "type", "role"), [("m64n128k16", "f32", "D"), ("m64n8k16", "f16", "A")])
def test_an_address_shows_what_it_names_where_the_picture_is_folded(visit, address, database, shape, type, role):
    """A part of the rows and columns stands for all of them, but what is said is true of what was asked."""
    tab = visit(page := f"/wgmma/{shape}/{type}/{role}")
    said = tab.locator("[data-say]")
    rows, cols = database.fragment(shape, type, role).dimensions
    assert tab.locator("table.grid").first.locator("tbody tr").count() < rows
    for row, col in ((0, 0), (37, 21 % cols), (rows - 1, cols - 1)):
        tab.goto(f"{address}{page}?row={row}&col={col}")
        (held,) = database.find(shape, type, role, row=row, col=col).itertuples()
        words = said.text_content()
        assert f"lane {held.lane}, register {held.reg}, slot" in words
        assert words.startswith(f"{role} row {row}, column ")
        assert tab.locator("td.cursor").count() == 1
    for lane in (13, 75, 127):
        tab.goto(f"{address}{page}?lane={lane}")
        mine = {(each.row, each.col) for each in database.find(shape, type, role, lane=lane).itertuples()}
        first, more = re.fullmatch(
            rf"Lane {lane} holds {role} (.*?)(?: and (\d+) more)?\.", said.text_content()
        ).groups()
        shown = [(int(row), *map(int, cols.split("-"))) for row, cols in re.findall(r"\((\d+), ([\d-]+)\)", first)]
        assert {(row, col) for row, *ends in shown for col in range(ends[0], ends[-1] + 1)} <= mine
        width = len(shown[0]) - 1
        assert (len(shown) + int(more or 0)) * width == len(mine)
        assert tab.locator("td.on").count() > 0
        assert tab.locator(f"a[data-lane='{lane}']").get_attribute("aria-current") == "true"


def test_elements_that_meet_are_those_of_the_address_where_both_pictures_are_folded(visit, database):
    tab = visit("/wgmma/m64n128k16/f16?row=37&col=21")
    lanes = sorted({*database.find("m64n128k16", "f16", "A", row=37).lane})
    words = sorted({*database.find("m64n128k16", "f16", "B none.K", col=21).reg})
    met = f"It meets A in lanes {' '.join(map(str, lanes))}; B in words {' '.join(map(str, words))}."
    assert tab.locator("[data-say]").text_content().endswith(met)


def test_a_query_is_sent_by_the_keyboard(visit):
    tab = visit("/sql")
    tab.locator("#query").fill("SELECT 1 AS one")
    with tab.expect_navigation():
        tab.locator("#query").press("Control+Enter")
    assert tab.locator("h2", has_text="1 row").count() == 1


@pytest.mark.parametrize("more", ["m16n8k16+f16+A", "m16n8k32+e4m3+A&relabel=true", "m16n8k16+f16+B&transpose=true"])
def test_pointing_at_an_element_shows_where_a_chain_takes_it(visit, more):
    """In both tiles, and in these chains nothing moves between lanes, also where K is renumbered."""
    tab = visit(f"/chain?first=m16n8k16+f32+D&second={more}")
    for place in (2, 13, 30):
        tab.locator("table.grid").first.locator("tbody td").nth(place).hover()
        lane = tab.locator("td.on").text_content().split(":")[0]
        met = tab.locator("table.grid").nth(1).locator("td.meets").all_text_contents()
        assert [label.split(":")[0] for label in met] == [lane] * 2


@pytest.mark.parametrize("operand", ["m16n8k16 f16 A", "m16n8k16 f16 B", "m16n8k8 tf32 A"])
def test_the_tile_in_memory_is_drawn_below_the_answer(visit, database, operand):
    """With the lane that passes each address; pointing there lights what the 16 bytes hold."""
    moves = database.chain("ldmatrix", operand)
    tab = visit("/chain?" + urlencode({"first": "ldmatrix", "second": operand}))
    assert tab.locator("#moves").bounding_box()["y"] < tab.locator("[data-picture]").first.bounding_box()["y"]
    for move in moves:
        tile = tab.locator(f"table[data-role='{move.major}-major tile']")
        cells = tile.locator("tbody tr").first.locator("td").count()
        assert (tile.locator("tbody tr").count(), cells) == (move.tile[0], -(-move.tile[1] // 16))
        for address in move.addresses[::5]:
            cell = tile.locator("tbody tr").nth(address.line).locator("td").nth(address.byte // 16)
            lanes = {each.lane for each in move.addresses if (each.line, each.byte) == (address.line, address.byte)}
            cell.hover()
            assert int(re.match(r"lane (\d+)", cell.text_content())[1]) in lanes
            step = 128 // move.operand.slot_bits
            first = address.byte // 16 * step
            line, across = ("row", "col") if move.major == "row" else ("col", "row")
            held = database.find(operand, **{line: address.line}).to_dict("records")
            held = {each["lane"] for each in held if first <= each[across] < first + step}
            said = tab.locator("[data-say]").text_content()
            assert {*map(int, re.search(r"It meets \w in lanes ([\d ]+)", said)[1].split())} == held


def test_pointing_at_a_lane_lights_all_that_it_holds(visit, database):
    tab = visit("/mma/m16n8k16/bf16")
    tab.locator("a[data-lane='13']").hover()
    for role, type_ in {"A": "bf16", "B": "bf16", "D": "f32"}.items():
        rows = database.find("m16n8k16", type_, role, lane=13)
        texts = tab.locator(f".at-{role} td.on").all_text_contents()
        assert {text.split(".")[0] for text in texts} == {f"13:{reg}" for reg in rows.reg}
        assert not tab.locator(f".at-{role} td.meets").count()


def test_the_first_page_answers_pointing_before_any_list(visit, database):
    tab = visit("/", viewport={"width": 1440, "height": 900})
    assert tab.locator(".shown").bounding_box()["y"] < tab.locator(".legend").bounding_box()["y"]
    found = database.find("m16n8k16", "f32", "D", row=3, col=5).iloc[0]
    tab.locator(".at-D tbody tr").nth(3).locator("td").nth(5).hover()
    for role, where in {"A": {"row": 3}, "B": {"col": 5}}.items():
        held = {
            f"{lane}:{reg}.0-1"
            for _, lane, reg in database.find("m16n8k16", "f16", role, **where)[["lane", "reg"]].itertuples()
        }
        assert {*map(str.strip, tab.locator(f".at-{role} td.meets").all_text_contents())} == held
    assert f"lane {found.lane}, register {found.reg}, slot" in tab.locator("[data-say]").text_content()
    picture = tab.locator(".meeting").bounding_box()
    assert picture["y"] + picture["height"] < 900


def test_alike_forms_of_wmma_are_one_entry_that_opens(visit, known):
    """Without scripts, too."""
    products = [product for product in known.products if product.instruction == "wmma"]
    tab = visit("/", java_script_enabled=False)
    entry = tab.locator("details", has_text=f"{len(products)} shapes and types, all")
    links = entry.locator("a")
    assert links.count() == len(products)
    assert not links.first.is_visible()
    assert not tab.locator("tr:not(.widths) a[href^='/wmma/']").count()
    entry.locator("summary").click()
    assert links.first.is_visible()


@pytest.mark.parametrize("path", ["/", "/mma/m16n8k16/f16", OPERAND])
def test_the_right_third_of_a_wide_screen_is_used(visit, path):
    """What is said of a picture stands beside it, not above, and stays in sight; on a narrower screen above it."""
    tab = visit(path, viewport={"width": 1440, "height": 900})
    said, picture = tab.locator("[data-say]"), tab.locator("[data-picture]").first
    beside, drawn = said.bounding_box(), picture.bounding_box()
    assert drawn["x"] + drawn["width"] <= beside["x"] or beside["x"] + beside["width"] <= drawn["x"]
    assert max(each["x"] + each["width"] for each in (beside, drawn)) > 1300
    tab.set_viewport_size({"width": 1000, "height": 900})
    assert said.bounding_box()["y"] < picture.bounding_box()["y"]
    tab.evaluate("scrollTo(0, document.querySelector('[data-picture]').getBoundingClientRect().top + scrollY)")
    assert said.evaluate("each => each.getBoundingClientRect().top") >= 0


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/check", ".lanemap > *"),
        ("/sources", "main section"),
        ("/fleet", "main section"),
        ("/guide", "main dt"),
        ("/defects", "main section > h3"),
    ],
)
def test_what_is_listed_stands_in_two_columns_of_a_wide_screen(visit, path, parts):
    tab = visit(path, viewport={"width": 1440, "height": 900})
    assert max(each.bounding_box()["x"] for each in tab.locator(parts).all()) > 700
    tab.set_viewport_size({"width": 1000, "height": 900})
    assert len({each.bounding_box()["x"] for each in tab.locator(parts).all()}) == 1


def test_nothing_covers_what_a_search_suggests(visit):
    tab = visit("/mma.sp/m16n8k32/f16", viewport={"width": 1440, "height": 900})
    tab.locator("#q").fill("m16n8k16")
    tab.wait_for_selector("#found li")
    on_top = """each => [.1, .5, .9].every(at => {
        const box = each.getBoundingClientRect();
        return each === document.elementFromPoint(box.left + at * box.width, box.top + box.height / 2);
    })"""
    assert all(each.evaluate(on_top) for each in tab.locator("#found li").all())


def test_a_window_is_framed_by_hairlines(visit):
    tab = visit("/mma.sp/m16n8k32/f16")
    for name, side in (("opens", 1), ("closes", -1)):
        shadow = tab.locator(f".at-A td.{name}").first.evaluate("each => getComputedStyle(each).boxShadow")
        assert shadow.endswith(f" {side}px 0px 0px 0px inset"), shadow


@pytest.mark.parametrize(
    "path", ["/", "/check", "/compare?left=ptx-isa-9.4&right=h200-sm_90a", "/wgmma/m64n256k16/f16/D", OPERAND]
)
def test_no_page_speaks_of_options(visit, path):
    text = visit(path).locator("main").inner_text()
    assert not re.findall(r"\(?--[a-z]+", text)


def test_the_picture_by_keyboard_and_a_shared_link(visit, address):
    tab = visit("/mma/m16n8k16/bf16/A")
    tab.locator("[data-picture]").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp"):
        tab.keyboard.press(key)
    # The first key puts the cursor on the first cell.
    assert tab.locator("td.cursor").text_content() == "5:0.0-1"
    assert "lane 5, register 0, slot 0 to 1" in tab.locator("[data-say]").text_content()
    tab.keyboard.press("Enter")
    assert tab.url == f"{address}{OPERAND}?lane=5"
    there = visit(tab.url)
    lit = there.locator("td.on").all_text_contents()
    assert sorted(lit) == sorted(tab.locator("td.on").all_text_contents())
    assert len(lit) == 8
    assert there.locator("a[data-lane='5']").get_attribute("aria-current") == "true"


def test_the_picture_by_touch(visit):
    tab = visit("/mma/m16n8k16/bf16", has_touch=True, viewport={"width": 390, "height": 800})
    assert "tap it" in tab.locator("[data-say]").text_content()
    tab.get_by_label("A", exact=True).tap()
    tab.locator(".at-A tbody td").first.tap()
    assert "A row 0, column 0 to 1: lane 0, register 0, slot 0 to 1" in tab.locator("[data-say]").text_content()
    tab.locator("a[data-lane='7']").tap()
    assert "lane=7" in tab.url


def test_a_notation_is_chosen_and_copied_by_keyboard(visit, database):
    tab = visit(OPERAND)
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("tab").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.get_by_role("tabpanel").count() == 1
    shown = tab.get_by_role("tabpanel")
    shown.get_by_role("button", name="Copy").focus()
    tab.keyboard.press("Enter")
    shown.get_by_role("button", name="Copied").wait_for()
    expected = express("linear", database.fragment("m16n8k16", "bf16", "A"))
    assert tab.evaluate("navigator.clipboard.readText()") == expected


def test_a_dropped_file_is_judged(visit, database, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>.csv"
    hostile.write_text("shape,type\nm16n8k16")
    table = database.find("m16n8k16", "f16", "A")
    table["col"] = table["col"] ^ 8
    table["col_last"] = table["col"]
    table["source"] = "mine"
    table.to_csv(tmp_path / "mine.csv", index=False)
    tab = visit("/compare")
    tab.locator("#file").set_input_files(hostile)
    refused = tab.locator("[data-refused]")
    tab.locator("[data-refused]", has_text="csv: ").wait_for()
    assert refused.text_content().startswith(hostile.name)
    assert not tab.locator("[data-refused] *").count()
    tab.locator("#against").select_option("ptx-isa-9.1")
    tab.locator("#file").set_input_files(tmp_path / "mine.csv")
    tab.wait_for_selector(".verdict")
    assert tab.locator(".verdict").text_content().startswith("disagreed: 1 fragment compared")
    assert tab.locator(".lanemap img").count() == 1


def test_a_file_that_claims_a_tile_is_compared_with_the_fields_of_one(visit, database, tmp_path):
    """Read as one instruction, or in another order of its warps, it is wrong."""
    table = database.find("m16n8k16", "f16", "D", instruction="mma", tile="m64n64", warps="2x2")
    table.to_csv(tmp_path / "mine.csv", index=False)
    tab = visit("/compare")
    tab.locator(".ask summary").click()
    for fields, verdict in (
        ({}, "disagreed"),
        ({"tile": "m64n64", "warps": "2x2", "operand": "m16n8k16"}, "agreed"),
        ({"order": "n"}, "disagreed"),
    ):
        for name, value in fields.items():
            tab.locator(f"[name={name}]").fill(value)
        tab.locator("#file").set_input_files([])
        tab.locator("#file").set_input_files(tmp_path / "mine.csv")
        tab.wait_for_selector(f".verdict.{verdict}")
    assert "lanes are exchanged" in tab.locator("[data-report]").text_content()
    tab.locator("[name=tile]").fill("")
    tab.locator("#file").set_input_files([])
    tab.locator("#file").set_input_files(tmp_path / "mine.csv")
    tab.locator("[data-refused]", has_text="warps are of a tile: name it").wait_for()


def test_dropping_by_mouse(visit):
    tab = visit("/compare")
    tab.evaluate(
        """() => {
            const held = new DataTransfer();
            held.items.add(new File(["nothing"], "wrong.csv"));
            const drop = new DragEvent("drop", {dataTransfer: held, bubbles: true, cancelable: true});
            document.querySelector("[data-drop]").dispatchEvent(drop);
        }"""
    )
    tab.locator("[data-refused]", has_text="wrong.csv: ").wait_for()


def test_pages_without_scripts_are_whole(visit):
    tab = visit("/mma/m16n8k16/bf16/A?lane=13", java_script_enabled=False)
    assert tab.locator("td.on").count() == 8
    assert tab.locator("#as-cute pre").is_visible()
    assert tab.locator("#as-python pre").is_visible()
    tab.locator("a[data-lane='14']").click()
    assert tab.url.endswith("lane=14")


_SHOWN = [
    "/",
    *("/mma/m16n8k16/bf16?lane=13", f"{OPERAND}?lane=13", "/mma/m16n8k32/e2m1", "/wgmma.sp/m64n64k64/e4m3"),
    *(f"{OPERAND}?tile=64x32&warps=2x2", "/wgmma/m64n64k16/f16/B", "/wgmma/m64n64k16/f32/D"),
    *("/chain", "/chain?first=m16n8k16+f32+D&second=m16n8k16+f16+A", "/chain?first=ldmatrix&second=m16n8k16+f16+A"),
    *("/trace", "/compare", "/check", "/defects", "/sources", "/fleet", "/sql?query=SELECT+1+AS+one", "/api"),
    *("/guide", "/guide/fuse", "/guide/query", "/search?q=m16n8k16", "/nonsense"),
    "site",
    *("/tcgen05.mma/m128n256k16/f16/D", "/compare?left=ptx-isa-9.1&right=h200-sm_90a", "/search?q=m16n8k17"),
    *("/chain?first=m16n8k16+f32+D&second=m16n8k16+f16+A&through=32B", "/chain?first=m16n8k16+f16+D"),
    *("/descriptor", "/descriptor?operand=m64n128k16+f16+B+128B.K&tile=n128k64"),
]
#: Each in one width, and in the long mode in both.
_IN_WIDTHS = [(1440 if at % 4 == 3 else 390, path) for at, path in enumerate(_SHOWN)]
_IN_WIDTHS += [(390 if width == 1440 else 1440, path) for width, path in _IN_WIDTHS if LONG]
_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]}
_CONTRAST = {"type": "rule", "values": ["color-contrast"]}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "path"), _IN_WIDTHS)
def test_axe_finds_nothing(visit, site, width, path):
    """All rules in light; in dark only that on contrast can say something else.

    Nothing is wider than the screen but what scrolls by itself.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    address = (site / "index.html").as_uri() if path == "site" else path
    tab = visit(address, viewport={"width": width, "height": 900})
    for scheme, rules in (("light", _RULES), ("dark", _CONTRAST)):
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
        found = axe.run(tab, options=options).response["violations"]
        assert not [(scheme, one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in found]


def test_a_phone_scrolls_only_what_is_wide(visit, address):
    tab = visit("/", viewport={"width": 390, "height": 800})
    for path in (
        "/",
        "/mma/m16n8k16/bf16",
        OPERAND,
        "/wgmma.sp/m64n64k64/e4m3",
        "/compare",
        "/trace",
        "/sql",
        "/check",
        "/defects",
        "/chain",
        "/chain?first=ldmatrix&second=m16n8k16+f16+A",
        "/mma/m16n8k32/e2m1",
        f"{OPERAND}?tile=64x32&warps=2x2",
        "/wgmma/m64n64k16/f16/B",
        "/trace",
    ):
        tab.goto(address + path)
        assert tab.evaluate("document.documentElement.scrollWidth") == 390, path


@pytest.mark.slow
def test_the_words_of_a_chain_wrap_on_a_phone(visit):
    tab = visit("/chain?first=ldmatrix&second=m16n8k16+f16+A", viewport={"width": 390, "height": 800})
    assert tab.locator("pre").first.evaluate("it => it.scrollWidth === it.clientWidth")


@pytest.mark.parametrize(("width", "scheme", "scripts"), [(1280, "dark", True), (390, "light", False)])
def test_a_kernel_is_traced_at_one_click(visit, width, scheme, scripts):
    """The answer is read by everybody, and the kernel can be changed and sent again."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    how = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "java_script_enabled": scripts}
    tab = visit("/trace", **how)
    for changed, words in ((False, "2 findings in gemm"), (True, "nothing is wrong in gemm")):
        if changed:
            kernel = tab.locator("#kernel").input_value()
            tab.locator("#kernel").fill(kernel.replace("{%a0, %a2, %a1, %a3}", "{%a0, %a1, %a2, %a3}"))
        with tab.expect_navigation():
            tab.get_by_role("button", name="Trace").click()
        assert tab.locator(".verdict").text_content() == words
        assert tab.locator("#report").evaluate("each => each.getBoundingClientRect().top") < 900
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        if scripts:
            told = axe.Axe().run(tab, options={"runOnly": _RULES})
            assert not told.response["violations"]
    assert (tab.locator("#report img").count(), tab.locator("#kernel").input_value()[:11]) == (0, "// gemm.ptx")


def test_the_site_from_a_disk(visit, site):
    tab = visit((site / "index.html").as_uri())
    tab.locator("#q").fill("HMMA.16816.F16")
    tab.wait_for_selector("#found li")
    tab.keyboard.press("ArrowDown")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert tab.url == (site / "mma" / "m16n8k16" / "f16.html").as_uri()
    tab.locator(".at-D tbody td").first.hover()
    assert tab.locator(".at-A td.meets").count() == 8  # its row, of which a cell has two columns
    tab.locator("a[data-lane='3']").click()
    assert tab.url.endswith("f16.html?lane=3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "asked", "ends"),
    [
        ("/", "wgmma/m64n8k16/f16/A.html", "wgmma/m64n24k16/f16/A.html"),
        ("/docs/mma/", "mma/m16n8k16/f16/A,wrong.html", "mma/m16n8k16/f16/A.html"),
        ("/docs/", "mma/m16n8k16.html", "search.html?q=mma+m16n8k16"),
        ("/docs/", "guide/trace", "guide/trace.html"),
        ("/docs/", "what/is.html", "what/is.html"),
    ],
)
def test_a_host_leads_from_an_address_without_a_page_to_what_it_names(chromium, site, folder, asked, ends):
    """In any folder of a host, which sends 404.html where there is no file."""

    def answer(route):
        file = site / unquote(urlsplit(route.request.url).path).removeprefix(folder)
        route.fulfill(path=file if file.is_file() else site / "404.html", status=200 if file.is_file() else 404)

    tab = chromium.new_page()
    tab.route("**/*", answer)
    tab.goto(f"http://host.invalid{folder}{asked}")
    tab.wait_for_url(f"http://host.invalid{folder}{ends}", timeout=5000)
    tab.context.close()


_HREFS = "links => links.map(link => link.href)"


def test_the_site_narrows_what_is_found(visit, site):
    """Every choice shows as many as it counts, each of which is a file."""
    tab = visit((site / "mma" / "m16n8k16" / "f16.html").as_uri())
    tab.locator("#q").fill("m16n8k16")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    every = tab.locator(".results li").count()
    choices = tab.locator(".switch a").all_text_contents()
    assert {"f16", "f32"} <= {choice.split()[0] for choice in choices}
    for choice in some(choices, 3):
        with tab.expect_navigation():
            tab.get_by_role("link", name=choice, exact=True).click()
        assert tab.locator(".switch a[aria-current]").text_content() == choice
        assert tab.locator(".results li").count() == int(choice.split()[1]) <= every
        for link in tab.locator(".results a").evaluate_all(_HREFS):
            assert Path(unquote(urlsplit(link).path)).is_file()
        with tab.expect_navigation():
            tab.locator(".switch a[aria-current]").click()


def test_the_site_takes_a_target_among_the_words(visit, site):
    """It finds what its facet leaves."""
    tab = visit((site / "index.html").as_uri())

    def found(**asked):
        tab.goto((site / "search.html").as_uri() + "?" + urlencode(asked))
        return tab.locator(".results a").evaluate_all(_HREFS)

    every = found(q="m16n8k16")
    for target in ("sm_80", "sm_89"):
        assert found(q=f"m16n8k16 {target.upper()}") == found(q="m16n8k16", target=target)
    assert [] != found(q="m16n8k16 sm_80") != every
    assert not found(q="m16n8k16 sm_70")
    assert {*found(q="m16n8k16 sm_80")} <= {*found(q="sm_80")}


@pytest.mark.parametrize("text", ["m16n8k16", "m8n8k4", "wgmma", "sm_80 f16", "128b"])
def test_the_site_finds_what_the_server_finds(visit, site, small, text):
    """Each operand once, also one that several qualifiers tell apart."""
    with lanemap.open(small) as database:
        found, _, _ = look_up(database.survey(), database, text)
    tab = visit((site / "index.html").as_uri())
    tab.goto((site / "search.html").as_uri() + "?" + urlencode({"q": text}))
    names = tab.locator(".results a:not([href*='guide/'])").all_text_contents()
    assert sorted(names) == sorted(" ".join(page.path) for page in found) != []


@pytest.mark.parametrize("text", ["renumbered quad", "Pull REQUEST", "m16n8k16", "xyzzy"])
def test_the_site_finds_in_the_guide_what_the_server_finds(visit, site, text):
    tab = visit((site / "index.html").as_uri())
    tab.goto((site / "search.html").as_uri() + "?" + urlencode({"q": text}))
    read = [Path(unquote(urlsplit(link).path)) for link in tab.locator(".results a").evaluate_all(_HREFS)]
    assert [path.stem for path in read if path.parent.name == "guide"] == [*guide.found(text)]
    assert all(path.is_file() for path in read)
    assert tab.locator("h1").text_content().endswith(f" found for {text}")
    assert ("a PTX mnemonic" in tab.locator("main").text_content()) == (text == "xyzzy")


def test_the_site_suggests_first_what_has_the_words_as_they_were_typed(visit, site):
    """Others have them apart, in their other names."""
    tab = visit((site / "index.html").as_uri())
    for text in ("m16n8k16 f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"):
        tab.locator("#q").fill(text)
        tab.get_by_role("option", name="mma m16n8k16 f16", exact=True).wait_for()
        assert tab.locator("#found li").first.text_content() == "mma m16n8k16 f16"


def test_a_search_for_nothing_says_what_to_type(visit, site):
    for address in ("/search", "/search?q=+", (site / "search.html").as_uri()):
        tab = visit(address)
        assert tab.locator("h1").text_content() == "Search"
        assert "m16n8k16" in tab.locator("main").text_content()


@pytest.mark.parametrize("second", ["128B", "64B"])
def test_pointing_at_an_element_shows_its_lane_and_its_byte_in_a_tile(visit, database, second):
    """As it is written, and as it is read where that differs. Lines that repeat others count as well."""
    chain = database.chain("m64n64k16 f32 D", f"m64n64k16 f16 A {second}.K", through="128B")
    tab = visit(f"/chain?first=m64n64k16+f32+D&second=m64n64k16+f16+A+{second}.K&through=128B")
    row, col = 3, 6
    found = database.find("m64n64k16", "f32", "D", row=row, col=col).iloc[0]
    tab.get_by_role("cell", name=f"{found.lane}:{found.reg}.{found.slot}", exact=True).hover()
    said = tab.locator("[data-say]").text_content()
    assert said.startswith(f"D row {row}, column {col}: lane {found.lane}, register {found.reg}, slot {found.slot}.")
    bits = [chain.written[row, col], chain.read[row, col]][: 1 + chain.moves_values]
    words = [int(bit) // 32 for bit in bits]
    assert re.findall(r"word (\d+), byte (\d+), bank (\d+)", said) == [
        (str(word), str(4 * word), str(word % 32)) for word in words
    ]
    tables = tab.locator("table[data-by=bank]")
    assert tables.count() == len(words)
    for at, word in enumerate(words):
        lit = tables.nth(at).locator("td.meets")
        assert lit.all_inner_texts() == [f"{row},{col}-{col + 1}"]
        assert lit.evaluate("cell => [cell.parentElement.cells[0].textContent, cell.cellIndex - 1]") == [
            str(word // 32 % 8),
            word % 32,
        ]


def test_pointing_at_a_bank_shows_the_word_of_the_matrix(visit):
    tab = visit("/wgmma/m64n64k16/f16/B?qualifiers=128B.K")
    tab.locator("table[data-by=bank] tbody tr").nth(1).locator("td").nth(4).hover()
    assert tab.locator("table.grid:not([data-by]) td.on").all_inner_texts()[0] == "36.0-1"
    assert tab.locator("[data-say]").text_content().startswith("B row 0 to 1, column 1: word 36, byte 144, bank 4.")
    tab.locator("table[data-by=bank] tbody tr").nth(2).locator("td").nth(1).click()  # which no element is in
