"""The pages: what they say is what Database says, whoever reads them, with scripts and without."""

import re
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import cache
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx
import numpy as np
import pytest

import lanemap
from lanemap.cli.web import guide, render
from lanemap.cli.web.links import look_up, page, page_of, site_links
from lanemap.cli.web.render import environment, server_links
from lanemap.cli.web.views import Context, _feeds, _notations, _recipes, instruction
from lanemap.db.compare.survey import Known, Product, survey
from lanemap.db.errors import LanemapError
from lanemap.db.flow.recipe import MAJORS
from lanemap.db.isa.forms import forms
from lanemap.db.isa.names import Query
from lanemap.db.isa.vendors import NVIDIA
from lanemap.db.layout.fragment import Source
from lanemap.db.render.blocks import STYLE
from lanemap.db.render.notation import NOTATIONS, express
from lanemap.db.render.picture.formats import shade, stylesheet, table
from lanemap.db.render.picture.grid import View, by_element

from ..modes import LONG
from .conftest import asking
from .elements import Elements

OPERAND = "/mma/m16n8k16/bf16/A"
PAGES = [
    *(
        "/",
        "/check",
        "/defects",
        "/sources",
        "/fleet",
        "/compare",
        "/sql",
        "/descriptor",
        "/trace",
        "/api",
        "/guide",
        "/guide/fuse",
        "/search?q=m16n8k16",
    ),
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
    *("/chain", "/chain?first=m16n8k16+f32+D&second=m16n8k16+f16+A"),
]


@pytest.fixture(scope="module")
def reader(database):
    """Reads pages without a browser."""
    with asking(database) as client:
        client.follow_redirects = True
        yield client


@pytest.fixture(scope="module")
def known(database):
    return survey(database.reader)


@pytest.mark.slow
@pytest.mark.parametrize("address", PAGES)
def test_a_page_has_no_script_or_style_of_its_own_and_loads_little(reader, address):
    """The policy of the server forbids both, and a page with all that it loads has less than 300 kB."""
    answer = reader.get(address)
    assert answer.status_code == 200, answer.text
    elements = Elements(answer.text)
    assert not [
        tag
        for tag, attributes in elements.found
        if tag == "style" or "style" in attributes or (tag == "script" and "src" not in attributes)
    ]
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]
    loaded = {link for tag in ("script", "link", "img") for link in elements.links(tag) if not link.startswith("data:")}
    assert all(urlsplit(link).netloc == "" for link in loaded)
    weights = [len(reader.get(link).raise_for_status().content) for link in loaded]
    assert len(answer.content) + sum(weights) < 300_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    [
        OPERAND,
        *(
            pytest.param(path, marks=pytest.mark.slow)
            for path in ("/", "/mma/m16n8k16/bf16", "/mma.sp/m16n8k32/f16", "/tcgen05.ld/32x32b/b32/r", "/sql")
        ),
    ],
)
def test_every_link_leads_somewhere(reader, address):
    """Also downloads and pictures. Of many links some are tried; those of the site are all tried by its test."""
    links = dict.fromkeys(link.partition("#")[0] for link in Elements(reader.get(address).text).links("a", "form"))
    for link in list(links)[:: 1 + len(links) // 30]:
        answer = reader.get(urljoin(address, link))
        assert answer.status_code == 200, (link, answer.text)


@pytest.mark.slow
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
        expected = {tuple(map(int, element)) for element in fragment.elements.tolist()}
        for by_lane, cells in made.items():
            assert {(*cell, cell[-1], 1) for cell in cells} == expected, (names, by_lane)


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


@pytest.mark.slow
def test_a_lane_in_the_address_is_shown_without_scripts(reader):
    plain, picked = (reader.get(OPERAND + more).text for more in ("", "?lane=13"))
    assert "Lane 13 holds" not in plain
    assert "Lane 13 holds" in picked
    assert len(re.findall(r'class="lane13 on"', picked)) == 8
    assert ' aria-current="true">13</a>' in picked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operand", "row", "col"),
    [("wgmma m64n128k16 f32 D", 37, 21), ("mma.sp m16n8k64 e4m3 A", 1, 5), ("wgmma m64n8k16 f16 B 128B.K", 3, 5)],
)
def test_an_element_in_the_address_is_told_without_scripts(reader, database, operand, row, col):
    """Also where the picture is folded, and where several places may hold it."""
    key = database.fragment(operand).key
    asked = {"row": row, "col": col} | ({"qualifiers": key.qualifiers} if key.qualifiers else {})
    page = reader.get(f"/{key.instruction}/{key.shape}/{key.type}/{key.role}", params=asked).text
    found = database.find(operand, row=row, col=col).itertuples()
    unit = ["lane {}, register", "word"][key.role == "B"]
    places = "; ".join(f"{unit.format(each.lane)} {each.reg}, slot {each.slot}" for each in found)
    assert f"<noscript><p>{key.role} row {row}, column {col}: {places}</p></noscript>" in page


@pytest.mark.slow
def test_a_lane_beyond_the_first_warp_is_told_in_words(reader, database):
    text = reader.get("/wgmma/m64n24k16/f32/D?lane=77").text
    held = re.search(r'<section class="held".*?</section>', text, re.DOTALL)[0]
    told = re.findall(r"<code>(\d+)\.0</code> <span[^>]*>→</span> <code>(\d+),(\d+)</code>", held)
    found = database.find("m64n24k16", "f32", "D", instruction="wgmma", lane=77)
    assert [tuple(map(int, line)) for line in told] == list(zip(found.reg, found.row, found.col, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/mma/m16n8k17/f16/A", "did you mean m16n8k16?"),
        ("/mma/m16n8k16/f17", "there is no mma m16n8k16 f17: A of m16n8k16 is bf16"),
        ("/nonsense", "no shape or instruction nonsense"),
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


@pytest.mark.slow
def test_a_source_may_be_named_in_any_case(reader):
    answer = reader.get(f"{OPERAND}?source=H200-SM_90A")
    assert (answer.status_code, "<dd>h200-sm_90a</dd>" in answer.text) == (200, True)


@pytest.mark.parametrize("address", [f"{OPERAND}?lane=32", f"{OPERAND}?lane=x", "/mma/m16n8k16/bf16?accumulator=s32"])
def test_a_wrong_parameter_is_refused_in_words(reader, address):
    answer = reader.get(address)
    assert answer.status_code == 400
    assert "Not understood" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/wgmma/m64n128k16/f32/D?row=64&col=5", "row 64 is outside D of wgmma m64n128k16 f32: it goes from 0 to 63"),
        ("/mma/m16n8k16/f16/A?row=99", "row 99 is outside A of mma m16n8k16 f16: it goes from 0 to 15"),
        ("/mma/m16n8k16/bf16?role=A&row=-1&col=0", "row -1 is outside A of mma m16n8k16 bf16: it goes from 0 to 15"),
        (f"/mma/m16n8k16/bf16?row=0&col={'9' * 15}", "is outside D of mma m16n8k16 f32: it goes from 0 to 7"),
        ("/mma/m16n8k16/bf16?lane=32", "lane 32 is outside D of mma m16n8k16 f32: it goes from 0 to 31"),
        ("/mma/m16n8k16/f16/D?tile=m32n32&warps=2x2&col=32", "of 2x2 warps: it goes from 0 to 31"),
    ],
)
def test_a_link_to_no_element_says_what_there_is(reader, address, words):
    answer = reader.get(address)
    assert (answer.status_code, words in unescape(answer.text)) == (400, True)


def test_an_address_names_a_tile(reader, database):
    """The page, its picture and its lanes; a form without a tile shows one instruction, and a wrong one says why."""
    tile = "tile=m32n32&warps=2x2&order=n"
    text = unescape(reader.get(f"/mma/m16n8k16/f16/D?{tile}&lane=69").text)
    assert "D of mma m16n8k16 f16, tile m32n32 of 2x2 warps, in the order n" in text
    found = database.find("m16n8k16", "f16", "D", tile="m32n32", warps="2x2", order="n", thread=69)
    held = re.search(r'<section class="held".*?</section>', text, re.DOTALL)
    assert found.warp.unique().tolist() == [2]
    assert all(f"{row}," in (held[0] if held else text) for row in found.row)
    assert len(re.findall(r'<td class="[^"]*left[^"]*"', text)) == 3 * 32
    assert f"/picture/mma/m16n8k16/f16/D.svg?{tile}" in text
    assert "32 (M) x 32 (N)" in reader.get(f"/picture/mma/m16n8k16/f16/D.svg?{tile}").text
    assert "<h1>D of mma m16n8k16 f16 <" in reader.get("/mma/m16n8k16/f16/D?tile=&warps=&order=").text
    wrong = reader.get("/mma/m16n8k16/f16/D?tile=m33n32&warps=2x2")
    assert (wrong.status_code, "m must be a multiple of 32" in wrong.text) == (400, True)


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
    assert all("m16n8" in name["name"] for name in first)


def test_a_name_with_thousands_of_digits_is_refused_in_words(reader):
    number = "9" * 3000
    for address in (f"/search?q=m{number}n8k16", f"/m{number}n8k16", f"/mma/m{number}n8k16/f16/A"):
        answer = reader.get(address)
        assert answer.status_code in (200, 404)
        assert "invalid shape" in answer.text, address


@pytest.mark.slow
def test_other_names_of_an_instruction_name_it(known):
    """What a search without a server looks through is read by the command line, too, as a name of that instruction."""
    for product in [*known.products][:: 1 if LONG else 5]:
        for alias in product.aliases:
            try:
                found = Query.parse([alias]).parameters()
            except LanemapError as error:
                pytest.fail(f"{alias} of {product}: {error}")
            assert found["shape"] == product.shape, alias
            assert found["instruction"] in (None, product.instruction), alias


def test_what_is_known_follows_from_the_fragments(known):
    assert known.of_operand(operand_key(known, "mma", "m16n8k16", "f16", "A")) is Known.AGREED
    assert known.of_operand(operand_key(known, "mma", "m16n8k256", "b1", "A")) is Known.ERROR
    assert known.of_operand(operand_key(known, "wgmma", "m64n8k16", "f16", "D")) is Known.MEASURED
    assert known.of_operand(operand_key(known, "mma.sp", "m16n8k64", "e2m1", "E")) is Known.DRAWN
    assert known.of_operand(operand_key(known, "mma", "m16n8k32", "e2m1", "A")) is Known.DOCUMENTED
    assert {operand for operands in known.products.values() for operand in operands} == set(known.operands)
    assert Product("mma", "m16n8k16", "bf16") in known.products


def operand_key(known, *names):
    return next(operand for operand in known.operands if operand[:4] == names)


@pytest.mark.slow
def test_an_import_that_differs_contradicts(file):
    with lanemap.open(str(file)) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        wrong = fragment.elements.copy()
        wrong["col"] = wrong["col_last"] = wrong["col"][::-1]
        database.add([Source("theirs", "import", "A wrong one", [replace(fragment, elements=wrong, source="theirs")])])
        found = survey(database.reader)
        assert found.known[fragment.key] is Known.CONTRADICTED
        with asking(database) as client:
            assert "contradicted" in client.get("/").text
            text = client.get("/mma/m16n8k16/f16/A").text
            assert re.search(r"different: [^<]", text)
            assert "left=theirs" in text


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
            assert all(f"<code>{parameter['name']}</code>" in section for parameter in route.get("parameters", []))


@pytest.mark.slow
def test_pages_follow_what_is_written(built_for_a_warp, tmp_path):
    file = shutil.copy2(built_for_a_warp, tmp_path)
    with lanemap.open(str(file)) as database, asking(database) as client:
        assert "mine-too" not in client.get("/sources").text
        fragment = database.fragment("m16n8k16", "f16", "A")
        with lanemap.open(str(file)) as other:
            other.add([Source("mine-too", "import", "Mine", [replace(fragment, source="mine-too")])])
        assert "mine-too" in client.get("/sources").text
        assert "mine-too" in client.get("/mma/m16n8k16/f16/A").text


@pytest.mark.slow
def test_equal_layouts_share_the_texts_of_notations_under_their_own_names(known):
    """What a page shows is to the letter what export writes."""
    some = [known.shown(keys[0]) for keys in known.operands.values()]
    distinct = {
        (fragment.digest, fragment.role, fragment.instruction): fragment for fragment in some if fragment.has_rows
    }
    alike = [
        fragment for fragment in some if fragment.has_rows and fragment.shape in ("m16n8k16", "m16n8k8", "m64n8k16")
    ]
    wide_and_narrow = [
        fragment for fragment in some if fragment.has_rows and (fragment.shape, fragment.role) == ("m16n8k32", "A")
    ]
    assert len({fragment.occupied_bits for fragment in wide_and_narrow if fragment.slot_bits == 8}) > 2
    for fragment in [*distinct.values()][::9] + alike[:20] + wide_and_narrow:
        for shown in _notations(fragment):
            if shown["text"]:
                assert shown["text"] == express(shown["name"], fragment), (str(fragment), shown["name"])
            elif shown["reason"]:
                with pytest.raises(LanemapError) as refused:
                    express(shown["name"], fragment)
                assert shown["reason"] == str(refused.value)
    assert len(_notations(some[0])) == len(NOTATIONS)


def test_a_page_has_the_recipe_of_its_own_operand(database, known):
    """Also where another of the same layout fills its slots, or has a name of another length."""
    alike = [operand for operand in known.operands if operand[:2] == ("mma", "m16n8k32") and operand.role == "B"]
    assert {"s8", "e2m1", "e3m2"} <= {fragment.type for fragment in alike}
    for fragment in alike:
        shown = _recipes(database, known.shown(known.operands[fragment][0]))[MAJORS.index("col")]
        name = f"mma {fragment.shape} {fragment.type} B"
        assert shown == str(database.chain("ldmatrix", name, major="col")), name


@pytest.mark.parametrize(
    ("address", "there"),
    [
        ("/MMA/M16N8K16/FP16/a", "/mma/m16n8k16/f16/A"),
        ("/mma/m16n8k16/half?lane=3", "/mma/m16n8k16/f16?lane=3"),
        ("/HMMA.16816.F32.BF16", "/mma/m16n8k16/bf16"),
        ("/mma/16x8x16/bfloat16/B?source=h200-sm_90a", "/mma/m16n8k16/bf16/B?source=h200-sm_90a"),
    ],
)
def test_an_address_in_other_letters_leads_to_the_page(reader, address, there):
    answer = reader.get(address, follow_redirects=False)
    assert (answer.status_code, answer.headers.get("location")) == (307, there), answer.text
    assert reader.get(there).status_code == 200


@pytest.mark.slow
def test_what_somebody_meant_is_a_link(reader):
    for address in ("/search?q=m16n8k16 f17 A", "/mma/m16n8k16/f17/A"):
        links = [link for link in Elements(reader.get(address).text).links("a") if "f16" in link and "search" in link]
        assert links, address
        assert reader.get(links[0]).url.path == "/mma/m16n8k16/f16/A"


@pytest.mark.parametrize(("type_", "product"), [("f16", "f16"), ("f32", "bf16")])
def test_an_operand_belongs_to_the_product_of_its_own_type_where_there_is_one(reader, type_, product):
    crumbs = re.search('<nav class="crumbs".*?</nav>', reader.get(f"/mma/m16n8k16/{type_}/D").text)[0]
    assert f'<a href="/mma/m16n8k16/{product}">m16n8k16 {product}</a>' in crumbs


def test_a_picture_says_which_of_several_forms_it_is_of(reader):
    """Also where two of them have one layout."""
    scales = [("mma.sp/m16n8k128/ue8m0/SFA", f"scale_vec::{count}X.byte_id::0.thread_id::1") for count in (2, 4)]
    for path, qualifiers in (*scales, *(("wmma/m16n16k16/f16/A", major) for major in ("row", "col"))):
        page = reader.get(f"/{path}", params={"qualifiers": qualifiers}).text
        assert re.search(rf"<caption>[^<]*\), {qualifiers}</caption>", page), qualifiers
    assert "scale_vec, byte_id, thread_id" in reader.get("/mma.sp/m16n8k128/e2m1").text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"first": "m16n8k16 f32 D"}, {}),
        ({"first": "m16n8k16 f32 D", "relabel": "true"}, {"relabel": True}),
        ({"first": " ", "second": "m8n8k4 f64 A"}, {}),
    ],
)
def test_one_operand_alone_shows_what_it_can_be_chained_with(reader, database, asked, options):
    operand = asked["first"].strip() or asked["second"]
    still = database.chain(operand, **options)
    answer = reader.get("/chain", params=asked)
    assert answer.status_code == 200
    assert f'<p class="remark">{still.verdict}</p>' in answer.text
    assert unescape(re.search("<pre[^>]*>(.*?)</pre>", answer.text, re.DOTALL)[1]) == still.text()
    (link,) = [link for link in Elements(answer.text).links("a") if link.startswith("/api/chain") and "json" in link]
    assert reader.get(link).json()["rows"] == still.rows().records()
    (link,) = [link for link in Elements(answer.text).links("a") if link.startswith("/api/chain") and "csv" in link]
    assert len(reader.get(link).text.splitlines()) == 1 + len(still)


@pytest.mark.slow
@pytest.mark.parametrize("warps", ["4x1", "2x2"])
@pytest.mark.parametrize("first", ["m16n8k16 f32 D", "ldmatrix"])
def test_a_chain_of_tiles_is_that_of_database(reader, database, first, warps):
    second, tile = "m16n8k16 f16 A", {"tile": "m64n32k32", "warps": warps, "order": "nkn", "contiguous": "true"}
    answer = reader.get("/chain", params={"first": first, "second": second} | tile)
    expected = database.chain(first, second, **tile | {"contiguous": True})
    page = unescape(answer.text)
    assert str(expected).splitlines()[-1] in page
    assert "tile m64n32k32 of" in page
    assert warps == "2x2" or re.search(r"<td class=lane127>127:\d+\.\d", page)
    links = [link for link in Elements(answer.text).links("a") if f"tile=m64n32k32&warps={warps}&order=nkn" in link]
    assert {urlsplit(link).path for link in links} >= {"/api/chain", "/mma/m16n8k16/f16/A"}
    assert all(reader.get(link).status_code == 200 for link in links)
    for name in ("tile", "warps", "order"):
        assert f'name="{name}" value="{tile[name]}"' in answer.text
    refused = reader.get("/chain", params={"first": first, "second": second, "tile": "m65"})
    assert "m must be a multiple of 16" in refused.text


def test_a_chain_is_refused_in_words_and_only_then(reader):
    assert 'role="alert"' not in reader.get("/chain").text
    assert 'role="alert"' not in reader.get("/chain?first=m16n8k16+f32+D").text
    for asked in ("first=junk", "second=junk", "first=ldmatrix"):
        answer = reader.get(f"/chain?{asked}")
        assert answer.status_code == 400
        assert re.search(r'role="alert">[^<]+', answer.text)


@pytest.mark.slow
def test_a_chain_without_a_function_says_why(reader):
    page = reader.get("/chain", params={"first": "m8n8k128 s32 D", "second": "m8n8k128 b1 A"}).text
    assert "There is no function: no conversion makes b1 of s32" in page
    assert "As C++" not in reader.get("/chain", params={"first": "m16n8k16 f32 D"}).text


def test_a_chain_has_a_page_with_both_layouts(reader, database):
    ends = {"first": "m16n8k16 f32 D", "second": "m16n8k32 e4m3 A"}
    for relabel in (False, True):
        answer = reader.get("/chain", params=ends | {"relabel": relabel})
        chain = database.chain(*ends.values(), relabel=relabel)
        assert answer.status_code == 200
        assert f'<p class="remark">{chain.verdict}</p>' in answer.text
        told, code = map(unescape, re.findall("<pre[^>]*data-copy>(.*?)</pre>", answer.text, re.DOTALL))
        assert (told, code) == (chain.text(), chain.cpp())
        assert answer.text.count('<table class="grid') == 2
    wmma = [
        reader.get("/chain", params=ends | {"second": f"wmma m16n16k16 {end}"}) for end in ("f16 A", "bf16 B", "f32 C")
    ]
    assert [(page.status_code, page.text.count('<table class="grid')) for page in wmma] == [(200, 2)] * 3
    wrong = reader.get("/chain", params=ends | {"second": "m16n8k32 e4m3 X"})
    assert wrong.status_code == 400
    assert re.search(r'role="alert">[^<]+', wrong.text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ldmatrix", "m16n8k16 f16 A"),
        ("m16n8k16 f16 D", "stmatrix"),
        ("ldmatrix.x2", "m16n8k16 f16 A"),
        ("ldmatrix", "wmma m16n16k16 f16 A"),
        ("tcgen05.ld 16x256b x2 r", "stmatrix"),
    ],
)
def test_a_recipe_has_a_page_too(reader, database, first, second):
    answer = reader.get("/chain", params={"first": first, "second": second, "major": "row"})
    expected = database.chain(first, second, major="row").text()
    assert unescape(re.search("<pre[^>]*>(.*?)</pre>", answer.text, re.DOTALL)[1]) == expected


def test_the_colours_of_lanes_are_those_of_pictures():
    text = stylesheet()
    light, _, dark = text.partition("@media")
    for lane in range(32):
        assert f".lane{lane}{{--fill:#{shade(lane)};" in light
        assert f".lane{lane}{{--fill:" in dark


@pytest.mark.slow
def test_the_report_uses_only_classes_that_the_style_sheet_has(reader):
    classes = {
        name
        for _, attributes in Elements(reader.get("/check").text).found
        for name in attributes.get("class", "").split()
    }
    assert {"verdict", "wide", "number"} <= classes
    assert all(f".{name}" in STYLE for name in ("verdict", "wide", "number"))


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.mark.slow
def test_names_from_outside_are_text(built_for_a_warp, tmp_path):
    """A source with tags for a name, a title and an origin, everywhere that they are shown."""
    file = shutil.copy2(built_for_a_warp, tmp_path)
    with lanemap.open(str(file)) as database:
        fragment = database.fragment("m16n8k16", "f16", "A")
        wrong = fragment.elements.copy()
        wrong["row"] = wrong["row"][::-1]
        said = fragment.citation._replace(origin=HOSTILE, erratum=HOSTILE, formula=HOSTILE)
        mine = replace(fragment, elements=wrong, source=HOSTILE, citation=said)
        database.add([Source(HOSTILE, "import", HOSTILE, [mine], {"made": HOSTILE, "parts": {HOSTILE: HOSTILE}})])
        with asking(database) as client:
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
                elements = Elements(text).found
                assert not [element for tag, element in elements if tag == "script" and "src" not in element], path
                assert not [element for _, element in elements if "onerror" in element], path
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
    for link in [link for link in Elements(text).links("a") if link.startswith("/sql?")]:
        answer = reader.get(link)
        assert answer.status_code == 200
        assert "<h2>0 rows" not in answer.text


@pytest.mark.slow
def test_a_page_compares_the_operand_that_it_shows(reader):
    """An address of before, which named its shape, type and role apart, is told what there is."""
    (link,) = (
        link for link in Elements(reader.get("/mma/m16n8k256/b1/A").text).links("a") if "left=ptx-isa-9.4&" in link
    )
    compared = reader.get(link).text
    assert "A of mma m16n8k256 b1" in compared
    assert "1 fragment compared" in compared
    before = reader.get("/compare?left=ptx-isa-9.4&shape=m16n8k256&type=b1&role=A")
    assert before.status_code == 400
    assert "there is no parameter shape: choose from" in before.text
    assert "operand" in before.text


def test_a_tile_between_two_operands_is_drawn_whole(reader):
    answer = reader.get("/chain?first=m16n8k16+f32+D&second=m16n8k16+f16+A&through=32B")
    assert answer.status_code == 200
    assert answer.text.count("128 bytes a line") == 1
    assert "repeat lines" not in answer.text


@pytest.mark.slow
def test_a_file_is_compared_and_not_kept(reader, database, tmp_path):
    before = len(database.sources())
    table = database.find("m16n8k16", "f16", "A").drop(columns="source")
    table.to_csv(tmp_path / "good.csv", index=False)
    table["col"] = table["col"] ^ 8
    table["col_last"] = table["col"]
    table.to_csv(tmp_path / "bad.csv", index=False)
    good, bad = (reader.post("/compare", content=(tmp_path / f"{name}.csv").read_bytes()) for name in ("good", "bad"))
    assert 'class="verdict agreed"' in good.text
    assert 'class="verdict disagreed"' in bad.text
    assert 'src="data:image/svg+xml' in bad.text
    wrong = reader.post("/compare", content=b"\x00\x01 no table")
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/problem+json")
    assert wrong.json()["detail"].startswith("upload")
    assert str(tmp_path) not in wrong.text
    assert len(database.sources()) == before


def test_a_preview_of_a_link_has_a_picture(reader):
    text = reader.get(f"{OPERAND}?lane=13").text
    properties = {
        attributes["property"]: attributes["content"]
        for tag, attributes in Elements(text).found
        if "property" in attributes
    }
    assert properties["og:title"] == "A of mma m16n8k16 bf16"
    picture = reader.get(properties["og:image"])
    assert (picture.headers["content-type"], picture.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")


def test_instructions_that_only_tables_have_are_in_one_order_in_every_process(known):
    """Several processes write a site: each has to mean the same page by its number."""
    key, there = next(iter(known.fragments.items()))
    names = [f"v_{name}" for name in "grape fig apple date cherry banana elderberry".split()]
    unknown = replace(known, fragments={key._replace(instruction=name): there for name in names})
    assert [product.instruction for product in unknown.products] == names


def test_a_d_with_windows_of_columns_has_a_page_and_feeds_nothing(database, known):
    first = database.fragment("m16n8k16", "f32", "D")
    elements = first.elements.copy()
    elements["col"], elements["col_last"] = 0, 7
    assert _feeds(known, first)
    assert _feeds(known, replace(first, elements=elements)) == []


def test_a_table_marks_what_differs_and_where_windows_end(database):
    """The classes of cells are those facts of the grid."""
    fragment = database.fragment("m16n8k32", "f16", "A", instruction="mma.sp")
    ((grid,),) = by_element([fragment], View())
    text = table(grid, {}, "A")
    cells = list(grid.cells)
    for name in ("opens", "closes"):
        assert len(re.findall(rf'<td class="[^"]*\b{name}\b', text)) == sum(getattr(cell, name) for cell in cells) > 0
    assert np.all([f">{cell.label}" in text for cell in cells])
    assert Product("mma.sp", "m16n8k32", "f16").forms


def test_search_gives_addresses_that_there_are(known, reader, database):
    found, *_ = look_up(known, database, "m16n8k16 f16")
    for hit in found[:8]:
        assert reader.get(hit.address).status_code == 200
    assert page_of(known, operand_key(known, "mma", "m16n8k16", "f16", "A")).address == "/mma/m16n8k16/f16/A"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            'asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1}, {%2};\\n" : "=f"(d));',
            ["mma m16n8k16 bf16"],
        ),
        ("hmma 16816", ["mma m16n8k16 bf16", "mma m16n8k16 f16"]),
        ("bf16", ["mma m16n8k8 bf16", "mma m16n8k16 bf16"]),
        ("m16n8k32 fp8", ["mma m16n8k32 e4m3", "mma m16n8k32 e5m2"]),
        ("nvfp4", ["mma m16n8k64 e2m1"]),
        ("#ttg.nvidia_mma", ["mma m8n8k4 f16", "mma m8n8k4 f64"]),
        ("m16n8k16 f32 D m16n8k16 f16 A", ["chain m16n8k16 f32 D m16n8k16 f16 A"]),
        ("guide sparse", ["guide sparse"]),
        ("tensor core", ["guide glossary"]),
    ],
)
def test_search_finds_what_people_paste(reader, text, names):
    found = reader.get("/search", params={"q": text}, headers={"Accept": "application/json"}).json()
    assert [hit["name"] for hit in found][: len(names)] == names


def test_a_pasted_chain_leads_to_its_page(reader):
    answer = reader.get("/search?q=m16n8k16+f32+D+m16n8k16+f16+A")
    assert answer.url.path == "/chain"
    assert dict(answer.url.params) == {"first": "m16n8k16 f32 D", "second": "m16n8k16 f16 A"}
    assert reader.get("/search?q=m16n8k16+f16+A+m16n8k16+f16+B").url.path == "/search"


@pytest.mark.parametrize("text", ["mxfp8", "mxf6", "mxfp4", "nvfp4", "m16n8k32 mxfp8"])
def test_a_type_with_block_scales_finds_instructions_that_have_them(known, database, text):
    found, *_ = look_up(known, database, text)
    scaled = {product for product, keys in known.products.items() if any(key.role == "SFA" for key in keys)}
    assert found
    assert {page.path[:3] for page in found} <= scaled


@pytest.mark.slow
@pytest.mark.parametrize("text", ["f16 A", "f32", "m16n8k16", "nothing like this"])
def test_facets_of_a_search_count_what_they_lead_to(reader, known, database, text):
    """Each link gives as many as it says, all of which have its value, and the one that is chosen takes it back."""

    def shown(address):
        answer = reader.get(address, follow_redirects=False)
        assert answer.status_code == 200, (address, answer.headers)
        links = re.findall(
            r'<a href="([^"]*)"( aria-current="true"[^>]*)?>([^<]*) <span class="count">(\d+)', answer.text
        )
        return int(re.search(r"<h1>(\d+) found", answer.text)[1]), [
            (unescape(link), bool(chosen), value, int(count)) for link, chosen, value, count in links
        ]

    total, facets = shown(httpx.URL("/search", params={"q": text}))
    found, *_ = look_up(known, database, text)
    assert total == len(found or guide.found(text))
    assert bool(facets) == bool(found)
    for link, _, value, count in facets[::6]:
        named, said = list(httpx.URL(link).params.items())[-1]
        assert said == value
        there, again = shown(link)
        assert there == count > 0
        ((back, *_),) = [hit for hit in again if hit[1]]
        assert shown(back)[0] == total
        assert dict(httpx.URL(back).params) == {"q": text}
        assert shown(httpx.URL(link).copy_merge_params({named: value.upper()}))[0] == count
        # By brute force: what the forms say.
        expected = [hit for hit in found if value in of_facet(named, hit.path)]
        assert count == len(expected), (named, value)
        further = [hit for hit in again if not hit[1]][:2]
        assert [shown(address)[0] for address, *_ in further] == [count for *_, count in further]


def of_facet(name, path):
    return {"vendor": ["NVIDIA"], "instruction": [path[0]], "type": [path[2]], "target": targets()[path]}[name]


@cache
def targets():
    """Of each instruction and operand, the targets that have a form of it."""
    found = defaultdict(set)
    for form in forms():
        for path in {(form.name, form.shape, form.a), *(form.key(role)[:4] for role in form.types)}:
            found[path] |= {*filter(form.supports, NVIDIA.targets)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_100a", "sm_107a", "sm_120f", "SM_89"])
def test_a_target_among_the_words_of_a_search_is_what_runs_on_it(reader, target):
    """Alone, it is all that does; with an instruction, that of it which does."""
    runs = {path for path, of in targets().items() if target.lower() in of}
    for name in ("stmatrix", "tcgen05.ld.red", "spcompress", "wgmma", ""):
        text = f"{target} {name}".strip()
        answer = reader.get("/search", params={"q": text}, follow_redirects=True).text
        found = {tuple(path.split("/")) for path in re.findall(r'<li><a href="/([^"/]+/[^"?]+)"', answer)}
        wanted = {path for path in runs if all(word in " ".join(path) for word in name.split())}
        assert found <= runs
        assert bool(found) == bool(wanted), text
    answer = reader.get("/search", params={"q": f"m16n8k16 f16 {target}"}, follow_redirects=False)
    assert answer.headers["location"] == "/mma/m16n8k16/f16"


def test_a_facet_that_nothing_has_can_be_taken_back(reader):
    answer = reader.get("/search", params={"q": "m32n8k16", "type": HOSTILE, "vendor": ""})
    assert "<h1>0 found" in answer.text
    assert HOSTILE not in answer.text
    assert 'href="/search?q=m32n8k16"' in answer.text


def test_the_words_of_a_table_are_explained_below_it(reader):
    """Each word that stands there, and no other."""
    words = {*environment().get_template("parts.html").module.meanings}
    for address in (OPERAND, "/mma/m16n8k16/bf16", "/mma.sp/m16n8k32/f16", "/wgmma/m64n8k16/f16"):
        text = reader.get(address).text
        shown = {re.split("[:(<]", cell)[0].strip() for cell in re.findall(r"<td>(.*?)</td>", text)}
        legend = re.findall(r"<dt>([^<]*)</dt><dd>[^<]+</dd>", text.rpartition('<dl class="legend">')[2])
        assert legend
        assert words & shown == set(legend) & words


@pytest.mark.slow
def test_the_words_of_reports_are_explained_below_them(reader):
    for address, words in {
        "/check": {"agree", "known", "different", "findings"},
        "/compare": {"identical", "left only", "unjudged"},
        "/fleet": {"captured", "unsupported"},
    }.items():
        text = reader.get(address).text
        assert words <= {*re.findall(r"<dt>([^<]*)</dt><dd>[^<]+</dd>", text.rpartition('<dl class="legend">')[2])}


def test_what_rows_are_true_of_stands_beside_them(reader):
    """Those of wmma differ between architectures, whatever else has the instruction."""
    true = "the architecture of h200-sm_90a alone: documents leave it open"
    assert f"The rows are true of {true}." in reader.get("/wmma/m16n16k16/f16").text
    assert f"<dt>true of</dt><dd>{true}</dd>" in reader.get("/wmma/m16n16k16/f16/A").text
    for address in ("/mma/m16n8k16/f16", "/mma/m16n8k16/f16/A", "/wgmma/m64n8k16/f16"):
        assert "true of" not in reader.get(address).text


def test_the_guide_is_found_by_its_words(reader):
    found = reader.get("/search?q=renumbered quad", headers={"Accept": "application/json"}).json()
    assert found == [{"name": "guide fuse", "href": "/guide/fuse"}]
    shown = reader.get("/search?q=renumbered quad").text
    assert "/guide/fuse" in shown
    assert "no shape or instruction" not in shown
    assert "<h1>1 found" in shown
    assert reader.get("/guide/nothing").status_code == 404


@pytest.mark.slow
def test_what_the_guide_shows_runs_at_one_click(reader):
    """Beneath a command is the page that answers it; that of a query has what the guide says comes out."""
    there = {name: unescape(reader.get(f"/guide/{name}").text) for name in guide.guide()}
    shown = {name: re.findall(r'<a href="([^"]+)">The same on a page</a>', text) for name, text in there.items()}
    links = {link for found in shown.values() for link in found}
    assert {link.partition("?")[0] for link in links} == {"/search", "/chain", "/sql", "/descriptor"}
    for link in links:
        answer = reader.get(link)
        assert answer.status_code == 200, link
        assert not re.search(r'role="alert">[^<]', answer.text), link
    assert "<td>sm_80</td>" in reader.get(shown["query"][-1]).text.replace(' class="number"', "")
    assert "no data movement between lanes" in reader.get(shown["fuse"][-1]).text


def test_links_of_the_guide_lead_to_pages(reader):
    pages = [*dict.fromkeys(re.findall(r'"(/guide/[^"#]+)"', reader.get("/guide").text))]
    assert len(pages) == len(list(guide.guide()))
    texts = {page: reader.get(page).raise_for_status().text for page in ["/guide", *pages]}
    for text in map(texts.get, pages):
        assert "http" not in "".join(re.findall(r' href="([^"]*)"', text))
        for target, place in re.findall(r' href="(/guide[^"#]*)#?([^"]*)"', text):
            assert f'id="{place}"' in texts[target] or not place


def test_a_server_goes_on_where_its_templates_are_replaced(small, tmp_path, monkeypatch):
    """As by an upgrade in the folder that it runs from."""
    shutil.copytree(render._FOLDER / "templates", tmp_path / "templates")
    monkeypatch.setattr(render, "_FOLDER", tmp_path)
    environment.cache_clear()
    try:
        with lanemap.open(small) as database, asking(database) as client:
            shutil.rmtree(tmp_path / "templates")
            for page in ("/", "/mma/m16n8k16/f16", "/sources", "/nothing"):
                answer = client.get(page, follow_redirects=True, headers={"Accept": "text/html"})
                assert answer.status_code == (404 if page == "/nothing" else 200), answer.text
    finally:
        environment.cache_clear()


@pytest.mark.parametrize(("address", "moved"), [("/ldmatrix/m8n8/b16", "x1"), ("/tcgen05.st/32x32b/b32", "x1")])
def test_a_move_has_the_picture_of_what_it_moves_on_its_page(reader, address, moved):
    text = reader.get(address).text
    assert f"What {moved} moves" in text
    assert 'data-role="r"' in text
    assert "Where the operands meet" not in text


def test_pages_of_tensor_memory_say_what_rows_count_from_and_its_moves_are_found_by_target(reader):
    page = reader.get("/tcgen05.ld/16x64b/b32/r", params={"qualifiers": "x2"}, follow_redirects=True).text
    assert "Rows count from the first of the warp's own 32 lanes" in page
    assert "own 32 lanes" not in reader.get("/mma/m16n8k16/f16/A").text
    assert "own 32 lanes" in reader.get("/tcgen05.ld/16x64b/b32").text
    assert "own 32 lanes" not in reader.get("/mma/m16n8k16/f16").text
    for name in ("stmatrix", "tcgen05.ld"):
        assert "<h1>0 found" not in reader.get("/search", params={"q": name, "target": "sm_100a"}).text


def test_a_page_of_a_server_looks_for_no_wider_instruction(small):
    """Only a folder of pages says what it leaves out, for which every element is read."""
    with lanemap.open(small) as database:
        known = database.survey()
        named = next(iter(known.products))
        for links, read in ((server_links(known), False), (site_links(known, page(), (), {}), True)):
            instruction(Context(known, database, links, None), named)
            assert ("widest_product" in vars(known)) == read


def test_the_page_of_the_api_has_words_and_no_marks(client):
    assert "`" not in client.get("/api").text


def test_a_vendor_in_a_search_is_whose_what_is_found_is(known):
    every = [*known.like("m16n8k16 f16")]
    assert every
    assert [*known.like("NVIDIA m16n8k16 f16")] == every
    assert [*known.like("amd m16n8k16 f16")] == []


def test_an_operand_in_memory_leads_to_its_descriptor(client):
    page = unescape(client.get("/wgmma/m64n64k16/f16/B?qualifiers=128B.K").text)
    (href,) = re.findall(r'href="([^"]+)">Its descriptor', page)
    assert "descriptor without address: 0x" in client.get(href).text
    assert "Its descriptor" not in client.get("/wgmma/m64n64k16/f16/A?qualifiers=").text


@pytest.mark.slow
def test_what_a_form_leaves_empty_is_not_asked(reader):
    """Nor is it in the links of the page."""
    plain = reader.get("/mma/m16n8k16/f16/A").text
    empty = reader.get("/mma/m16n8k16/f16/A?tile=&warps=&order=").text
    assert re.findall(r'href="([^"]+)"', empty) == re.findall(r'href="([^"]+)"', plain)
