"""The pages: what they say is what Database says, whoever reads them, with scripts and without."""

import gc
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
import pytest
from starlette.testclient import TestClient

import lanemap
from lanemap.cli.web.app import create_app
from lanemap.cli.web.links import Page, _file_name, operand_page, page
from lanemap.cli.web.search import aliases, find
from lanemap.cli.web.views import _notations
from lanemap.db.errors import LanemapError
from lanemap.db.fragment import Source
from lanemap.db.names import operand
from lanemap.db.notation import NOTATIONS, notation
from lanemap.db.notation.export import express
from lanemap.db.picture.grid import by_element, sheets
from lanemap.db.picture.html import stylesheet, table
from lanemap.db.picture.palette import shade
from lanemap.db.picture.view import View
from lanemap.db.report.html import STYLE
from lanemap.db.survey import Known, Product, forms_of, survey

from .conftest import serving

OPERAND = "/mma/m16n8k16/bf16/A"
PAGES = [
    *("/", "/check", "/defects", "/sources", "/fleet", "/compare", "/sql", "/api", "/search?q=m16n8k16"),
    *(
        "/mma/m16n8k16/bf16",
        "/mma/m8n8k4/f16",
        "/mma.sp/m16n8k32/f16",
        "/wgmma/m64n256k16/f16",
        "/wgmma.sp/m64n64k64/e4m3",
    ),
    *("/wmma/m16n16k16/f16", "/ldmatrix/m8n8/b16", "/movmatrix/m8n8/b16", "/mma.sp/m16n8k64/e2m1"),
    *(OPERAND, f"{OPERAND}?lane=13&source=ptx-isa-9.1", "/mma/m16n8k16/f32/D", "/wgmma/m64n256k16/f32/D?lane=77"),
    *("/mma/m16n8k256/b1/A", "/mma.sp/m16n8k64/e2m1/B", "/ldmatrix/m8n8/b16/r?qualifiers=x4.trans"),
    "/compare?left=ptx-isa-9.1&right=h200-sm_90a",
]


@pytest.fixture(scope="module")
def reader(database):
    """Reads pages without a browser."""
    with TestClient(create_app(database), "http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def known(database):
    return survey(database.reader)


class _Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of each."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def links(self, *tags):
        names = ("href", "src", "action")
        return [
            value for tag, each in self.found for name in names if (value := each.get(name)) and tag in (tags or (tag,))
        ]


@pytest.mark.parametrize("address", PAGES)
def test_a_page_has_no_script_or_style_of_its_own_and_loads_little(reader, address):
    """The policy of the server forbids both, and a page with all that it loads has less than 300 kB."""
    answer = reader.get(address)
    assert answer.status_code == 200, answer.text
    elements = _Elements(answer.text)
    assert not [
        tag
        for tag, each in elements.found
        if tag == "style" or "style" in each or (tag == "script" and "src" not in each)
    ]
    assert not [name for _, each in elements.found for name in each if name.startswith("on")]
    loaded = {each for tag in ("script", "link", "img") for each in elements.links(tag) if not each.startswith("data:")}
    assert all(urlsplit(each).netloc == "" for each in loaded)
    weights = [len(reader.get(each).raise_for_status().content) for each in loaded]
    assert len(answer.content) + sum(weights) < 300_000


@pytest.mark.parametrize(
    "address", ["/", "/mma/m16n8k16/bf16", OPERAND, "/mma.sp/m16n8k32/f16", "/tcgen05.ld/32x32b/b32/r", "/sql"]
)
def test_every_link_leads_somewhere(reader, address):
    """Also downloads and pictures; those of the table of coverage are all tried by the test of the site."""
    links = dict.fromkeys(each.partition("#")[0] for each in _Elements(reader.get(address).text).links("a", "form"))
    for each in list(links)[:60]:
        answer = reader.get(urljoin("http://localhost" + address, each))
        assert answer.status_code == 200, (each, answer.text)


def test_the_matrix_in_a_page_is_what_find_says(reader, database):
    """Each cell of each table, read as the script reads it, against the elements."""
    for names in (
        ("m16n8k16", "bf16", "A"),
        ("m16n8k8", "tf32", "B"),
        ("m16n8k16", "f32", "D"),
        ("m16n8k32", "s8", "B"),
    ):
        fragment = database.fragment(*names)
        made = _tables(reader.get(f"/mma/{'/'.join(names)}").text)
        expected = {tuple(map(int, each)) for each in fragment.elements.tolist()}
        for by_lane, cells in made.items():
            assert {(*each, each[-1], 1) for each in cells} == expected, (names, by_lane)


def _tables(text):
    """The elements that the matrix, and those that the register file of a page says: lane, reg, slot, row, col."""
    found = {}
    for attributes, body in re.findall(r'<table class="grid([^>]*)>(.*?)</table>', text, re.DOTALL):
        columns = re.findall(r'<th scope="col">([^<\n]*)', body)
        by_lane = 'data-by="lane"' in attributes
        for name, row in re.findall(r'<tr><th scope="row">([^<\n]*)(.*)', body):
            for column, label in zip(columns, re.findall(r"<td[^>]*>([^<\n]*)", row), strict=True):
                found.setdefault(by_lane, set()).update(
                    _by_lane(name, column, label) if by_lane else _cell(name, column, label)
                )
    return found


def _cell(row, column, label):
    lane, reg, first, last = re.fullmatch(r"(\d+):(\d+)\.(\d+)(?:-(\d+))?", label).groups()
    slots, rows, cols = range(int(first), int(last or first) + 1), _span(row), _span(column)
    return [(int(lane), int(reg), slot, row, col) for slot, (row, col) in zip(slots, _pairs(rows, cols), strict=True)]


def _by_lane(lane, column, label):
    reg, slots = column.split(".")
    rows, cols = map(_span, label.split(","))
    return [
        (int(lane), int(reg), slot, row, col) for slot, (row, col) in zip(_span(slots), _pairs(rows, cols), strict=True)
    ]


def _span(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _pairs(rows, cols):
    return [(row, col) for row in rows for col in cols]


def test_a_lane_in_the_address_is_shown_without_scripts(reader):
    plain, picked = (reader.get(OPERAND + more).text for more in ("", "?lane=13"))
    assert "Lane 13 holds" not in plain
    assert "Lane 13 holds" in picked
    assert len(re.findall(r'class="lane13 on"', picked)) == 8
    assert ' aria-current="true">13</a>' in picked


def test_a_lane_beyond_the_first_warp_is_told_in_words(reader, database):
    text = reader.get("/wgmma/m64n16k16/f32/D?lane=77").text
    held = re.search(r'<section class="held".*?</section>', text, re.DOTALL)[0]
    told = re.findall(r"<code>(\d+)\.0</code> <span[^>]*>→</span> <code>(\d+),(\d+)</code>", held)
    found = database.find("m64n16k16", "f32", "D", instruction="wgmma", lane=77)
    assert [tuple(map(int, each)) for each in told] == list(zip(found.reg, found.row, found.col, strict=True))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/mma/m16n8k17/f16/A", "did you mean m16n8k16?"),
        ("/mma/m16n8k16/f17", "there is no mma m16n8k16 f17: A of m16n8k16 is bf16"),
        ("/nonsense", "no instruction nonsense"),
        (f"{OPERAND}?source=nobody", "nobody has no A of mma m16n8k16 bf16"),
        ("/mma/m16n8k16/bf16/A?major=col", "no major col"),
        ("/picture/mma/m16n8k16/f16/E.svg", "mma has no E: it has A, B, C, D"),
        (f"/picture{OPERAND}.svg?source=nobody", "nobody has no A of mma m16n8k16 bf16"),
        (f"/picture{OPERAND}.gif", "no picture format 'gif': choose from svg, png, pdf"),
    ],
)
def test_a_page_that_is_not_there_says_why_and_what_is_near(reader, address, words):
    answer = reader.get(address, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert words in answer.text.replace("&#39;", "'")
    assert not ("m16" in address and 'href="/mma/m16n8k16' not in answer.text and "?" not in address)


def test_a_source_may_be_named_in_any_case(reader):
    answer = reader.get(f"{OPERAND}?source=H200-SM_90A")
    assert (answer.status_code, "Source: h200-sm_90a." in answer.text) == (200, True)


@pytest.mark.parametrize("address", [f"{OPERAND}?lane=32", f"{OPERAND}?lane=x", "/mma/m16n8k16/bf16?accumulator=s32"])
def test_a_wrong_parameter_is_refused_in_words(reader, address):
    answer = reader.get(address)
    assert answer.status_code == 400
    assert "Not understood" in answer.text


def test_the_api_still_refuses_as_an_api(reader):
    answer = reader.get("/api/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_the_search_knows_the_names_that_the_command_line_knows(reader):
    for name, path in {
        "HMMA.16816.F32.BF16": "/mma/m16n8k16/bf16",
        "SM80_16x8x16_F32BF16BF16F32_TN": "/mma/m16n8k16/bf16",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1}, {%2}": "/mma/m16n8k16/bf16",
        "16x8x16 half A": "/mma/m16n8k16/f16/A",
        "wgmma m64n128k16 f16 A": "/wgmma/m64n128k16/f16/A",
        "m16n8k16 bf16 D": "/mma/m16n8k16/f32/D",
        "ldmatrix m8n8 b16": "/ldmatrix/m8n8/b16",
    }.items():
        answer = reader.get("/search", params={"q": name}, follow_redirects=False)
        assert (answer.status_code, answer.headers.get("location")) == (303, path), (name, answer.text)
    assert "no type f17" in reader.get("/search", params={"q": "m16n8k16 f17 A"}).text
    first = reader.get("/search", params={"q": "m16n8"}, headers={"Accept": "application/json"}).json()
    assert 1 < len(first) <= 12
    assert all("m16n8" in each["name"] for each in first)


def test_other_names_of_an_instruction_name_it(known):
    """What a search without a server looks through is read by the command line, too, as a name of that instruction."""
    for product in known.products:
        for alias in aliases(product):
            try:
                found = operand([alias]).parameters()
            except LanemapError as error:
                pytest.fail(f"{alias} of {product}: {error}")
            assert found["shape"] == product.shape, alias
            assert found["instruction"] in (None, product.instruction), alias


def test_what_is_known_follows_from_the_fragments(known):
    assert known.of_operand(operand_key(known, "mma", "m16n8k16", "f16", "A")) is Known.AGREED
    assert known.of_operand(operand_key(known, "mma", "m16n8k256", "b1", "A")) is Known.ERROR
    assert known.of_operand(operand_key(known, "wgmma", "m64n8k16", "f16", "A")) is Known.MEASURED
    assert known.of_operand(operand_key(known, "mma.sp", "m16n8k64", "e2m1", "E")) is Known.DRAWN
    assert known.of_operand(operand_key(known, "mma", "m16n8k32", "e2m1", "A")) is Known.DOCUMENTED
    assert {each for operands in known.products.values() for each in operands} == set(known.operands)
    assert Product("mma", "m16n8k16", "bf16") in known.products


def operand_key(known, *names):
    return next(each for each in known.operands if each[:4] == names)


def test_an_import_that_differs_contradicts(file):
    with lanemap.open(str(file)) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        wrong = fragment.elements.copy()
        wrong["col"] = wrong["col_last"] = wrong["col"][::-1]
        database.add(
            [Source("theirs", "import", "A wrong one", [_replaced(fragment, elements=wrong, source="theirs")])]
        )
        found = survey(database.reader)
        assert found.known[fragment.key] is Known.CONTRADICTED
        with TestClient(create_app(database), "http://localhost") as client:
            assert "contradicted" in client.get("/").text
            text = client.get("/mma/m16n8k16/f16/A").text
            assert re.search(r"different: [^<]", text)
            assert "left=theirs" in text


def _replaced(fragment, **more):
    from dataclasses import replace

    return replace(fragment, **more)


def test_what_a_document_says_in_words_is_no_defect(reader):
    said = reader.get("/defects").text.partition('class="prose"')[0]
    assert "A of mma m16n8k256 b1" in said
    assert "SFA" not in said


def test_the_page_on_the_api_names_every_route_and_parameter(reader):
    said = reader.get("/api").text
    for path, methods in reader.get("/openapi.json").json()["paths"].items():
        for method, route in methods.items():
            assert f"{method.upper()} {path}</code>" in said
            section = said.split(f"{method.upper()} {path}</code>")[1].partition("</section>")[0]
            assert all(f"<code>{each['name']}</code>" in section for each in route.get("parameters", []))


def test_pages_follow_what_is_written(file):
    with lanemap.open(str(file)) as database, TestClient(create_app(database), "http://localhost") as client:
        assert "mine-too" not in client.get("/sources").text
        fragment = database.fragment("m16n8k16", "f16", "A")
        with lanemap.open(str(file)) as other:
            other.add([Source("mine-too", "import", "Mine", [_replaced(fragment, source="mine-too")])])
        assert "mine-too" in client.get("/sources").text
        assert "mine-too" in client.get("/mma/m16n8k16/f16/A").text


def test_equal_layouts_share_the_texts_of_notations_under_their_own_names(known):
    """What a page shows is to the letter what export writes."""
    some = [known.shown(keys[0]) for keys in known.operands.values()]
    distinct = {(each.digest, each.role, each.instruction): each for each in some if each.has_rows}
    alike = [each for each in some if each.has_rows and each.shape in ("m16n8k16", "m16n8k8", "m64n8k16")]
    for fragment in [*distinct.values()][::9] + alike[:20]:
        for shown in _notations(fragment):
            if shown["text"]:
                assert shown["text"] == express(notation(shown["entry"].name), fragment), (
                    str(fragment),
                    shown["entry"],
                )
            elif shown["reason"]:
                with pytest.raises(LanemapError) as refused:
                    express(notation(shown["entry"].name), fragment)
                assert shown["reason"] == str(refused.value)
    assert len(_notations(some[0])) == len(NOTATIONS)


def test_the_colours_of_lanes_are_those_of_pictures():
    text = stylesheet()
    light, _, dark = text.partition("@media")
    for lane in range(32):
        assert f".lane{lane}{{--fill:#{shade(lane)};" in light
        assert f".lane{lane}{{--fill:" in dark


def test_the_report_uses_only_classes_that_the_style_sheet_has(reader):
    classes = {name for _, each in _Elements(reader.get("/check").text).found for name in each.get("class", "").split()}
    assert {"verdict", "wide", "kind"} <= classes
    assert all(f".{name}" in STYLE for name in ("verdict", "wide", "kind"))


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def test_names_from_outside_are_text(file):
    """A source with tags for a name, a title and an origin, everywhere that they are shown."""
    with lanemap.open(str(file)) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        wrong = fragment.elements.copy()
        wrong["row"] = wrong["row"][::-1]
        mine = _replaced(fragment, elements=wrong, source=HOSTILE, origin=HOSTILE, erratum=HOSTILE, formula=HOSTILE)
        database.add([Source(HOSTILE, "import", HOSTILE, [mine], {"made": HOSTILE, "parts": {HOSTILE: HOSTILE}})])
        with TestClient(create_app(database), "http://localhost") as client:
            asked = {
                "source": HOSTILE,
                "left": HOSTILE,
                "right": lanemap.DEFAULT_SOURCE,
                "q": HOSTILE,
                "query": HOSTILE,
            }
            paths = {
                "/mma/m16n8k16/f16/A": ("source",),
                "/compare": ("left", "right"),
                "/search": ("q",),
                "/sql": ("query",),
            }
            plain = dict.fromkeys(("/", "/sources", "/check", "/defects", "/mma/m16n8k16/f16", f"/{HOSTILE}"), ())
            for path, names in (paths | plain).items():
                text = client.get(path, params={name: asked[name] for name in names}).text
                elements = _Elements(text).found
                assert not [each for tag, each in elements if tag == "script" and "src" not in each], path
                assert not [each for _, each in elements if "onerror" in each], path
                assert path in ("/", "/mma/m16n8k16/f16") or "&lt;script&gt;" in text or "%3Cscript" in text, path


def test_a_query_shows_its_rows_or_why_not(reader):
    shown = reader.get(
        "/sql", params={"query": "SELECT lane, row FROM layout WHERE shape = 'm16n8k8' AND lane = 3 LIMIT 2"}
    )
    assert "<h2>2 rows</h2>" in shown.text
    refused = reader.get("/sql", params={"query": "DELETE FROM element"})
    assert refused.status_code == 400
    assert re.search(r'role="alert">[^<]+', refused.text)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    assert reader.get("/sql", params={"query": endless}).status_code == 400


def test_the_examples_of_queries_work(reader):
    text = reader.get("/sql").text
    for link in [each for each in _Elements(text).links("a") if each.startswith("/sql?")]:
        answer = reader.get(link)
        assert answer.status_code == 200
        assert "<h2>0 rows" not in answer.text


def test_a_file_is_compared_and_not_kept(reader, database, tmp_path):
    before = len(database.sources())
    table = database.layout("m16n8k16", "f16", "A").drop(columns="source")
    table.to_csv(tmp_path / "good.csv", index=False)
    table["col"] = table["col"] ^ 8
    table["col_last"] = table["col"]
    table.to_csv(tmp_path / "bad.csv", index=False)
    good, bad = (reader.post("/compare", content=(tmp_path / f"{name}.csv").read_bytes()) for name in ("good", "bad"))
    assert 'class="verdict agreed"' in good.text
    assert 'class="verdict disagreed"' in bad.text
    assert 'src="data:image/svg+xml' in bad.text
    wrong = reader.post("/compare", content=b"\x00\x01 no table")
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert str(tmp_path) not in wrong.text
    assert len(database.sources()) == before


def test_a_preview_of_a_link_has_a_picture(reader):
    text = reader.get(f"{OPERAND}?lane=13").text
    properties = {each["property"]: each["content"] for tag, each in _Elements(text).found if "property" in each}
    assert properties["og:title"] == "A of mma m16n8k16 bf16"
    picture = reader.get(properties["og:image"])
    assert (picture.headers["content-type"], picture.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")


# --- A folder of files


@pytest.fixture(scope="module")
def site(built, tmp_path_factory):
    """A site of a database with few instructions, of all kinds, and a source that differs."""
    folder = tmp_path_factory.mktemp("site")
    with lanemap.open(str(built)) as database:
        chosen = [
            each
            for shape in ("m16n8k16", "m8n8k4", "m64n8k16", "m8n8")
            for each in lookup_all(database, shape)
            if each.type in ("f16", "f32", "b16") and each.instruction != "wmma"
        ]
        wrong = chosen[0].elements.copy()
        wrong["row"] = wrong["row"][::-1]
        small = folder / "small.db"
    with lanemap.Database(_empty(small)) as database:
        ours = [_replaced(each, source="ours") for each in chosen]
        theirs = [_replaced(chosen[0], elements=wrong, source="../the?irs#%2e", major="row")]
        database.add([Source("ours", "document", "Ours", ours), Source("../the?irs#%2e", "capture", "Theirs", theirs)])
        from lanemap.cli.web.site import write

        seen = []
        count = write(database, folder / "public", lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, count)
    assert seen[-1] == (count, count)
    return folder / "public"


def lookup_all(database, shape):
    from lanemap.db.lookup import Query, read_fragments

    return [each for each in read_fragments(database.reader, Query(shape=shape, source="h200-sm_90a")) if each.has_rows]


def _empty(file):
    from lanemap.db.location import locate
    from lanemap.db.store import ship

    location = locate(str(file))
    ship(location, list, "nothing")
    return location


def test_every_link_of_the_site_resolves(site):
    """From each file, by relative links alone, so that it works in any folder and from a disk; anchors, too."""
    files = sorted(site.rglob("*.html"))
    assert len(files) > 30
    ids = {each: {facts["id"] for _, facts in _Elements(each.read_text()).found if "id" in facts} for each in files}
    linked = set()
    for each in files:
        text = each.read_text()
        assert str(site.parent) not in text
        for link in _Elements(text).links():
            if link.startswith(("data:", "?lane=")):
                continue
            parts = urlsplit(link)
            assert not parts.scheme, (each, link)
            assert not parts.netloc, (each, link)
            assert not parts.path.startswith("/"), (each, link)
            target = (each.parent / unquote(parts.path)).resolve() if parts.path else each
            assert target.is_relative_to(site), (each, link)
            assert target.is_file(), (each, link)
            assert not parts.fragment or parts.fragment in ids[target], (each, link)
            linked.add(target)
    assert set(files) <= linked
    assert list(site.rglob("*irs*.html"))


def test_the_site_replaces_its_own_files_only(site, tmp_path, run):
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    for folder in (other, tmp_path / "other" / "mine.txt"):
        result = run("site", folder)
        assert (result.code, result.out) == (2, ""), result
        assert result.err.count("\n") == 1
    assert (other / "mine.txt").read_text() == "mine"
    assert [each.name for each in other.iterdir()] == ["mine.txt"]


def test_a_site_is_of_one_state_of_the_database(file, tmp_path):
    from lanemap.cli.web import site as module

    with lanemap.open(str(file)) as database:
        module._begin(database.location, b"of another state", tmp_path)
        with pytest.raises(LanemapError, match="changed meanwhile: run lanemap site again"):
            module._write(range(1))
    module._work.clear()
    gc.enable()


def test_names_of_files_are_unlike_and_stay_in_the_folder():
    names = ["", ".", "..", "a/b", "a\\b", "a:b", "a=3Ab", "a,b", "A", "con", "%2e", "..%2f", "é", "+errata"]
    files = [page("mma", each or "x", "f16").file for each in names]
    assert len(set(files)) == len(names)
    for each in files:
        assert ".." not in each.split("/")
        assert re.fullmatch(r"[A-Za-z0-9+=._/,-]+", each), each
        assert Path("/site", each).resolve().is_relative_to("/site")
    assert Page(("a b",), (("source", "x&y"),)).address == "/a%20b?source=x%26y"
    assert _file_name("scale_vec::2X") == "scale_vec=3A=3A2X"


# --- In a browser


@pytest.fixture(scope="module")
def address(database):
    with serving(database) as address:
        yield address


_CHROMIUM = next(
    filter(Path.exists, map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"))), None
)
_QUIET = """--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync
--no-first-run"""


@pytest.fixture(scope="module")
def chromium():
    if _CHROMIUM is None:
        pytest.skip("there is no Chromium: the pages are not tried in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(_CHROMIUM), args=_QUIET.split())
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, address):
    """Open a page as somebody; afterwards nothing was asked of anybody else, and nothing went wrong."""
    contexts, wrong = [], []

    def visit(path, **how):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}} | how)
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "request",
            lambda request: (
                wrong.append(request.url) if not request.url.startswith((address, "data:", "file:")) else None
            ),
        )
        tab.on(
            "console",
            lambda said: wrong.append(said.text) if said.type == "error" and "status of 40" not in said.text else None,
        )
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(path if ":" in path else address + path)
        return tab

    yield visit
    for context in contexts:
        context.close()
    assert not wrong


def test_search_with_the_keyboard(visit):
    tab = visit("/")
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


def test_pointing_at_a_lane_lights_all_that_it_holds(visit, database):
    tab = visit("/mma/m16n8k16/bf16")
    tab.locator("a[data-lane='13']").hover()
    for role, type_ in {"A": "bf16", "B": "bf16", "D": "f32"}.items():
        rows = database.find("m16n8k16", type_, role, lane=13)
        texts = tab.locator(f".at-{role} td.on").all_text_contents()
        assert {each.split(".")[0] for each in texts} == {f"13:{reg}" for reg in rows.reg}
        assert not tab.locator(f".at-{role} td.meets").count()


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
    expected = express(notation("linear"), database.fragment("m16n8k16", "bf16", "A"))
    assert tab.evaluate("navigator.clipboard.readText()") == expected


def test_a_dropped_file_is_judged(visit, database, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>.csv"
    hostile.write_text("shape,type\nm16n8k16")
    table = database.layout("m16n8k16", "f16", "A")
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


_COLOURED = ["home", f"{OPERAND}?lane=13", "/check", "/compare", "/sql?query=SELECT+1+AS+one"]
_SHOWN = [
    *(*_COLOURED, "/mma/m16n8k16/bf16?lane=13", "/mma.sp/m16n8k16/f16/A", "/fleet", "/sources", "/defects", "/api"),
    *("/search?q=m16n8k16", "/nonsense", "/wgmma/m64n64k16/f32/D"),
]
_RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]}
_CONTRAST = {"type": "rule", "values": ["color-contrast"]}


@pytest.mark.parametrize(
    ("scheme", "paths", "rules"), [("light", _SHOWN, _RULES), ("dark", _COLOURED, _CONTRAST)], ids=["light", "dark"]
)
def test_axe_finds_nothing(visit, site, scheme, paths, rules):
    """All rules in light; in dark only that on contrast can say something else. The site has a short table."""
    from axe_playwright_python.sync_playwright import Axe

    axe, told = Axe(), []
    for path in paths:
        tab = visit((site / "index.html").as_uri() if path == "home" else path, color_scheme=scheme)
        found = axe.run(tab, options={"runOnly": rules, "resultTypes": ["violations"], "preload": False}).response[
            "violations"
        ]
        told += [(path, one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in found]
        tab.context.close()
    assert not told


@pytest.mark.parametrize(
    "path", ["/", "/mma/m16n8k16/bf16", OPERAND, "/wgmma.sp/m64n64k64/e4m3", "/compare", "/sql", "/check"]
)
def test_a_phone_scrolls_only_what_is_wide(visit, path):
    tab = visit(path, viewport={"width": 390, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_the_site_from_a_disk(visit, site):
    tab = visit((site / "index.html").as_uri())
    tab.locator("#q").fill("HMMA.16816.F16")
    tab.wait_for_selector("#found li")
    tab.keyboard.press("ArrowDown")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert tab.url == (site / "mma" / "m16n8k16" / "f16.html").as_uri()
    tab.locator(".at-D tbody td").first.hover()
    assert tab.locator(".at-A td.meets").count() == 8
    tab.locator("a[data-lane='3']").click()
    assert tab.url.endswith("f16.html?lane=3")


def test_a_table_marks_what_differs_and_where_windows_end(database):
    """The classes of cells are those facts of the grid."""
    fragment = database.fragment("m16n8k32", "f16", "A", instruction="mma.sp")
    (sheet,) = sheets([fragment])
    (grid,) = by_element(sheet, View())
    text = table(grid, {}, "A")
    cells = list(grid.cells)
    for name in ("opens", "closes"):
        assert len(re.findall(rf'<td class="[^"]*\b{name}\b', text)) == sum(getattr(each, name) for each in cells) > 0
    assert np.all([f">{each.label}" in text for each in cells])
    assert forms_of(Product("mma.sp", "m16n8k32", "f16"))


def test_search_gives_addresses_that_there_are(known, reader, database):
    from lanemap.cli.web.pages import links

    found, _ = find(known, database.reader, "m16n8k16 f16", links())
    for each in found[:8]:
        assert reader.get(each.href).status_code == 200
    assert operand_page(known, operand_key(known, "mma", "m16n8k16", "f16", "A")).address == "/mma/m16n8k16/f16/A"
