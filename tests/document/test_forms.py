"""Every form that a document comes in says the same: the layouts of the shipped catalogue, which are facts."""

from dataclasses import replace
from functools import cache

import pytest

from lanemap.ingest.document import read, read_documents, read_text
from lanemap.ingest.document.sections import Kind

from . import pages

KEYS = [
    *(("mma", "m16n8k16", type_, role) for type_ in ("u8", "s8", "e4m3", "e5m2") for role in "AB"),
    *(("mma", "m16n8k16", type_, role) for type_ in ("s32", "f32", "f16") for role in "CD"),
    *(("mma", "m16n8k8", type_, role) for type_ in ("f16", "bf16", "tf32") for role in "AB"),
    *(("mma", "m16n8k8", type_, role) for type_ in ("f16", "f32") for role in "CD"),
    *(("mma", "m8n8k4", "f16", role) for role in "AABBCD"),
    *(("mma", "m8n8k4", "f32", role) for role in "CD"),
    *(("mma.sp", "m16n8k8", type_, role) for type_, role in (("tf32", "A"), ("tf32", "B"), ("f32", "C"), ("f32", "D"))),
    *[("mma.sp", "m16n8k8", "tf32", "E")] * 4,
]


@pytest.fixture(scope="module")
def of_form():
    """What a form of the document is read as."""
    return cache(lambda form: read_documents([read_text("page", pages.FORMS[form].encode())], "made-up"))


@pytest.mark.slow
def test_every_form_gives_the_layouts_of_the_catalogue(of_form, printed):
    for form in pages.FORMS:
        found = of_form(form)
        assert [remark for remark in found.remarks if remark.kind in (Kind.UNREAD, Kind.MENDED, Kind.NOTE)] == []
        assert sorted(fragment.key[:4] for fragment in found.source.fragments) == sorted(KEYS)
        for fragment in found.source.fragments:
            known = printed[fragment.key]
            assert fragment.digest == known.digest, fragment
            assert (fragment.registers, fragment.slots, fragment.status) == (known.registers, known.slots, known.status)


@pytest.mark.slow
def test_every_form_says_where_it_has_it_from(of_form, printed):
    for form in pages.FORMS:
        for fragment in of_form(form).source.fragments:
            told, known = fragment.citation, printed[fragment.key].citation
            assert told.section.startswith("7.")
            same = told.same_as or (fragment.shape, fragment.role, fragment.type) == ("m16n8k16", "C", "f16")
            if same or told.also or known.also:
                continue
            if form in pages.WITHOUT_ANCHORS:
                first, second = (
                    [figure.split()[0] for figure in citation.figures.split(", ")] for citation in (told, known)
                )
                assert first == second
            else:
                assert (told.figures, told.anchor) == (known.figures, known.anchor)


@pytest.mark.slow
def test_what_is_only_drawn_is_named_with_its_figures(of_form):
    for form in pages.FORMS:
        drawn = [(remark.text, remark.reason) for remark in of_form(form).remarks if remark.kind is Kind.DRAWN]
        assert drawn == [("7.5.1. Matrix Fragments for wgmma.mma_async.m64nNk32", "figure 152")]


def test_the_lines_are_those_of_the_document(reading):
    text = pages.markdown(pages.INTEGER)
    found = reading(text)
    for place, _, _ in found.counts:
        assert "7.3.1" in text.split("\n")[place.heading.line - 1]


def test_a_reference_is_resolved_against_the_catalogue_and_said_so(reading, printed):
    found = reading(pages.markdown(pages.SPARSE))
    assert found.complete
    notes = [remark.reason for remark in found.remarks if remark.kind is Kind.NOTE]
    assert notes == [
        "B: not in this document: taken from ptx-isa-9.4 9.7.16.5.7",
        "C: not in this document: taken from ptx-isa-9.4 9.7.16.5.7",
    ]
    borrowed = [fragment for fragment in found.source.fragments if fragment.role in "BCD"]
    assert {fragment.citation.same_as for fragment in borrowed} == {"ptx-isa-9.4 9.7.16.5.7"}
    assert all(fragment.digest == printed[fragment.key].digest for fragment in borrowed)


@pytest.mark.parametrize(
    ("version", "section"),
    [("9.1", "ptx-isa-9.1 9.7.14.5.7"), ("9.4", "ptx-isa-9.4 9.7.16.5.7"), ("7.7", "ptx-isa-9.4 9.7.16.5.7")],
)
def test_a_reference_goes_to_the_version_of_the_document_itself(version, section, reading):
    found = reading(f'---\nversion: "{version}"\n---\n{pages.markdown(pages.SPARSE)}')
    assert {fragment.citation.same_as for fragment in found.source.fragments if fragment.role in "BCD"} == {section}


def test_a_reference_without_a_link_is_found_by_its_title(reading):
    found = reading(pages.markdown(pages.FLOAT + pages.SPARSE, links=False))
    assert {
        fragment.citation.same_as
        for fragment in found.source.fragments
        if fragment.instruction == "mma.sp" and fragment.role in "BCD"
    } == {"7.3.2"}


@pytest.mark.parametrize(("parts", "section"), [(pages.FLOAT, "7.3.2"), ((), "ptx-isa-9.4 9.7.16.5.7")])
def test_a_reference_may_be_a_link_alone(parts, section, reading):
    text = pages.markdown(parts + pages.SPARSE)
    text = text.replace("in [Matrix Fragments for mma.m16n8k8](#warp", "in [what is said elsewhere](#warp")
    found = reading(text).source.fragments
    assert {
        fragment.citation.same_as for fragment in found if fragment.instruction == "mma.sp" and fragment.role in "BCD"
    } == {section}


FLOATING = pages.Head("7.3.4", "Matrix Fragments for `mma.m16n8k16` with floating point type", "made-up-float")


def referring(parts, kind):
    """A sparse section behind others, whose accumulators are as in the section for a kind of type."""
    to = "Matrix Fragments for mma.m16n8k"
    return pages.markdown(parts + pages.SPARSE, links=False).replace(f"{to}8 for", f"{to}16 with {kind} type for")


@pytest.mark.parametrize("number", ["7.3.0", "7.3.4"])
@pytest.mark.parametrize("kind", ["integer", "floating point"])
def test_of_two_sections_of_a_shape_the_one_with_the_nearest_title_is_meant(kind, number, reading):
    floating = (replace(FLOATING, number=number), *pages.FLOAT[2:])
    found = reading(referring(pages.INTEGER + floating, kind)).source.fragments
    (same_as,) = {
        fragment.citation.same_as for fragment in found if fragment.instruction == "mma.sp" and fragment.role in "CD"
    }
    assert same_as == {"integer": "7.3.1", "floating point": number}[kind]


@pytest.mark.parametrize(("kind", "section"), [("integer", "9.7.16.5.9"), ("floating point", "9.7.16.5.8")])
def test_the_nearest_title_is_meant_in_the_catalogue_too(kind, section, reading):
    found = reading(referring((), kind)).source.fragments
    assert {fragment.citation.same_as for fragment in found if fragment.role in "CD"} == {f"ptx-isa-9.4 {section}"}


def test_accumulators_are_not_referred_to_where_the_types_of_a_are_lost(reading):
    """Which accumulators a section has follows from the types of A: without them none may be claimed."""
    text = pages.markdown(pages.FLOAT + pages.SPARSE)
    begin = text.index("Matrix Fragments for sparse")
    lost = text[:begin] + text[begin:].replace("| `.tf32` |", "| |")
    found = reading(lost)
    assert not found.complete
    assert {fragment.instruction for fragment in found.source.fragments} == {"mma"}
    assert {fragment.instruction for fragment in reading(text).source.fragments} == {"mma", "mma.sp"}


def test_one_file_or_many_is_all_the_same(tmp_path):
    (tmp_path / "whole.md").write_text(pages.markdown())
    (tmp_path / "parts").mkdir()
    for number, section in enumerate(pages.SECTIONS):
        (tmp_path / "parts" / f"{number}.md").write_text(pages.markdown(section))
    (whole,) = read([tmp_path / "whole.md"], "x")
    (parts,) = read([tmp_path / "parts"], "x")
    assert [(fragment.key, fragment.digest) for fragment in whole.source.fragments] == [
        (fragment.key, fragment.digest) for fragment in parts.source.fragments
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", [name for name in pages.FORMS if "HTML" in name])
@pytest.mark.parametrize("between", ["\n", "\n<p>Another one.</p>\n\n", " "])
def test_pages_of_html_in_one_file_are_all_read(form, between):
    """The parser reads one document, and nothing behind its end."""
    page = pages.FORMS[form].replace("\r\n", "\n")
    one, both = read_text("page", page.encode()), read_text("pages", f"{page}{between}{page}".encode())
    lines = page.count("\n") + between.count("\n")
    assert both.blocks[: len(one.blocks)] == one.blocks
    again = both.blocks[-len(one.blocks) :]
    assert again == tuple(block._replace(line=block.line + lines) for block in one.blocks)
    assert len(both.blocks) == 2 * len(one.blocks) + ("<p>" in between)


def test_a_section_given_twice_counts_once_if_it_says_the_same(tmp_path):
    (tmp_path / "a.txt").write_text(pages.flat(pages.INTEGER))
    (tmp_path / "b.md").write_text(pages.markdown(pages.INTEGER))
    (found,) = read([tmp_path], "x")
    assert found.complete
    assert list(found.sheets) == ["mma-16816-i8-f8"]
    (tmp_path / "c.md").write_text(pages.markdown(pages.INTEGER).replace("* 4) + (i & 0x3)", "* 4) + (i & 0x2)"))
    (found,) = read([tmp_path], "x")
    assert not found.complete


def test_sections_of_one_anchor_are_two(reading):
    text = pages.markdown(pages.INTEGER)
    found = reading(text + text.replace("7.3.1", "7.3.9"))
    assert list(found.sheets) == ["mma-16816-i8-f8", "mma-16816-i8-f8-again"]
    assert all("7.3.9" in fragment.citation.also for fragment in found.source.fragments)


def test_a_table_after_a_figure_begins_another_group_where_there_is_no_formula(reading):
    """B without formulas and without lines that name its types, as in sparse sections."""
    parts = [part for part in pages.FLOAT if not (isinstance(part, pages.Words) and part.depth == 2)]
    parts = [part for part in parts if not (isinstance(part, pages.Formula) and " for b" in part.text)]
    found = reading(pages.markdown(parts)).source.fragments
    figures = {fragment.type: fragment.citation.figures for fragment in found if fragment.role == "B"}
    assert figures == dict.fromkeys(("f16", "bf16"), "74 #mma-1688-b-f16") | {"tf32": "75 #mma-1688-b-tf32"}
