"""The documentation itself, wherever its pages are at hand: none of them is part of the project."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from lanemap.ingest import catalogue
from lanemap.ingest.document import read
from lanemap.ingest.document.sections import Kind

from ..shipped import NUMBERED

PAGES = Path(os.environ.get("LANEMAP_PTX_DOCS") or os.devnull)

#: Anchors of the sections that are read whole, those of mma and mma.sp; the catalogue has more.
READ = ("warp-level-matrix-fragment-mma", "warp-level-matrix-fragment-sparse-mma")

#: What the anchors of sections begin with that the pages at hand lack.
NOT_AT_HAND = (
    "tcgen05-data-path-layout",
    "tcgen05-mma-scale-factor",
    "tcgen05-packing-formats",
    "tcgen05-sparse-matrices",
)

#: Ends of the anchors of sections of which addresses are read, and what threads hold of some shapes.
MOVES = ("ldmatrix", "stmatrix", "movmatrix")


def is_moved(fragment):
    """Whether it is of a move, and a table or words say it; the others are drawn."""
    held = fragment.role == "r" and fragment.instruction in MOVES and fragment.shape in ("m8n8", "m8n16")
    return fragment.role == "p" or held or fragment.instruction == "movmatrix"


pytestmark = pytest.mark.skipif(
    not (PAGES / "9.1").is_dir(),
    reason="LANEMAP_PTX_DOCS names no folder with pages of PTX ISA 9.1 and 9.4 in 9.1/ and 9.4/, and excerpts/",
)


@pytest.fixture(scope="module", params=NUMBERED)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def whole(version):
    (found,) = read([PAGES / version], "given")
    return found


def content(sheets: Mapping[str, catalogue.Section]):
    """What sheets say: by section, role, type and major, without white space, spelling of case, and errata."""
    found = {}
    for name, sheet in sheets.items():
        head = {key: sheet.get(key) for key in ("section", "anchor", "instruction", "shape")}
        for entry in sheet["fragment"]:
            said = {key: entry.get(key) for key in ("registers", "slots", "figures", "mended", "same_as")}
            said["formula"] = " ".join(entry.get("formula", "").casefold().split())
            for role in entry["roles"]:
                for type_ in entry["types"]:
                    key = (name, role, type_, entry.get("major"))
                    assert key not in found
                    found[key] = head | said
    return found


def test_the_pages_say_what_the_catalogue_says(whole, version):
    shipped = catalogue.sheets()[f"ptx-isa-{version}"]
    assert content({name: sheet for name, sheet in whole.sheets.items() if not name.endswith(MOVES)}) == content(
        {name: fragment for name, fragment in shipped.items() if fragment["anchor"].startswith(READ)}
    )


def test_written_out_they_are_the_catalogue(whole, version, written, tmp_path, sources):
    assert whole.write(tmp_path) == 24
    printed = sources[f"ptx-isa-{version}"].fragments
    shipped = [fragment for fragment in printed if fragment.citation.anchor.startswith(READ) or is_moved(fragment)]
    assert {fragment.key: fragment.digest for fragment in written(tmp_path)} == {
        fragment.key: fragment.digest for fragment in shipped
    }


@pytest.mark.slow
def test_a_page_says_its_version_in_front():
    (found,) = read([PAGES / "9.4"])
    assert (found.version, found.source.name) == ("9.4", "ptx-isa-9.4-document")


def test_all_of_it_is_read(whole):
    assert whole.complete
    products = [fragment for fragment in whole.source.fragments if not is_moved(fragment)]
    assert (len(whole.counts), len(products)) == (24, 212)


def test_what_is_only_drawn_is_what_the_catalogue_cites_figures_of(whole, version):
    cited = {}
    for sheet in catalogue.sheets()[f"ptx-isa-{version}"].values():
        if not sheet["anchor"].startswith((*READ, *NOT_AT_HAND)):
            figures = {figure for entry in sheet["fragment"] for figure in entry.get("figures", ())}
            cited.setdefault(sheet["section"], set()).update(figures)
    drawn = {
        remark.section: {*re.findall(r"\d+", remark.reason)} for remark in whole.remarks if remark.kind is Kind.DRAWN
    }
    assert drawn == {section: figures for section, figures in cited.items() if figures}


def test_the_numbers_of_registers_of_what_is_drawn_are_those_of_the_forms(whole):
    counted = [remark for remark in whole.remarks if remark.kind is Kind.COUNTED]
    assert [int(remark.reason.split()[0]) for remark in sorted(counted, key=lambda remark: remark.section)] == [
        *(4, 2, 7, 2),
        *(3, 2, 5),
        *(21, 21),
    ]
    assert not any("the table of forms has" in remark.reason for remark in whole.remarks if remark.kind is Kind.NOTE)


@pytest.mark.parametrize(
    ("words", "section"),
    [
        ("c1 is listed twice", "5.9"),
        ("c3 is missing", "5.9"),
        ("a comma is missing", "5.9"),
        ("cells are held too often: rows 8-15 cols 128-159", "5.13"),
        ("registers hold 8 elements, but 4 are listed", "6.2.2"),
        ("registers hold 16 elements, but 4 are listed", "6.2.3"),
        ("a case without an upper bound", "5.8"),
    ],
)
def test_its_slips_are_found(words, section, whole, version):
    number = f"{NUMBERED[version][0]}.{section}"
    assert [remark for remark in whole.remarks if words in remark.reason and remark.section == number]


def test_every_excerpt_is_read_in_full(sources):
    shipped = {fragment.key: fragment for fragment in sources["ptx-isa-9.4"].fragments}
    for path in sorted((PAGES / "excerpts").iterdir()):
        (found,) = read([path], "given")
        assert found.complete, path
        assert found.source.fragments
        for fragment in found.source.fragments:
            assert fragment.digest == shipped[fragment.key].digest


def test_the_flattened_excerpt_has_all_of_its_formulas():
    (path,) = [path for path in (PAGES / "excerpts").iterdir() if path.name.startswith("003_")]
    (found,) = read([path], "given")
    formulas = [
        (name, "".join(entry["roles"]), entry["formula"])
        for name, sheet in found.sheets.items()
        for entry in sheet["fragment"]
    ]
    assert len({(name, roles, formula) for name, roles, formula in formulas}) == 8
    assert all("row =" in formula and "col =" in formula for _, _, formula in formulas)


def in_code(text):
    """Each line with whether it is code; None of a line that opens or closes some."""
    code = False
    for line in text.split("\n"):
        fence = re.match(r"[> ]*```", line)
        yield line, None if fence else code
        code ^= bool(fence)


#: What other programs make of the same text, line by line.
CONVERSIONS = {
    "bold words for heads": lambda line, code: re.sub(r"^#+\s+(.*)", r"**\1**", line) if code is False else line,
    "one level of heads": lambda line, code: re.sub(r"^#+", "#", line) if code is False else line,
    "underlined heads": lambda line, code: re.sub(r"^#+\s+(.*)", r"\1\n-----", line) if code is False else line,
    "indented code": lambda line, code: "" if code is None else "    " * code + line,
    "no anchors": lambda line, _: re.sub(r'<a id="[^"]*"></a>', "", line),
    "other ends of lines": lambda line, _: line + "\r",
}


@pytest.mark.slow
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_what_other_programs_make_of_the_pages_is_read_alike(conversion, tmp_path):
    """Of each fragment the same elements."""
    pages = [*(PAGES / "9.4").glob("9.7.16.[56]-*.md")]
    for page in pages:
        lines = (CONVERSIONS[conversion](*each) for each in in_code(page.read_text()))
        (tmp_path / page.name).write_text("\n".join(lines), newline="")
    (plain,), (found,) = read(pages, "plain"), read([tmp_path], "converted")
    assert plain.complete
    assert found.complete
    shown = {fragment.key: fragment for fragment in found.source.fragments}
    assert {fragment.key for fragment in plain.source.fragments} == shown.keys()
    assert all(fragment.same_layout(shown[fragment.key]) for fragment in plain.source.fragments)
