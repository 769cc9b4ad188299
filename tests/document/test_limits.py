"""Documents are untrusted: what is absurdly large or deep is refused, and nothing in them is followed."""

import time
from dataclasses import replace

import pytest

from lanemap.db.errors import LanemapError
from lanemap.ingest import document
from lanemap.ingest.document import format_of, read_documents, read_text
from lanemap.ingest.document.blocks import clean
from lanemap.ingest.document.sections import Kind

from ..modes import LONG
from . import pages

#: Seconds of this process. Without the limits each takes minutes; with them at most a few.
PATIENCE = 20
TITLE = "7.3.1. Matrix Fragments for mma.m16n8k16"
MARKDOWN = f"##### {TITLE}\n\n"
TEXT = f"{TITLE}\nMultiplicand A:\n"
TOO_LONG = "characters.* are more than any PTX document has .limit 20000000"


def attributes(form):
    return f"<html><p {' '.join(form.format(n) for n in range(30_000))}>x</p></html>"


def lines(form, count):
    return "\n".join(form.format(n) for n in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: "<html><body>" + "<div>" * 1000 + "x", "nested deeper than 250 levels"),
        (lambda: "<html><p>" + "x " * 5_000_001, "longer than 10 million characters"),
        (lambda: "# x\n\n" + "> " * 500 + "x", "nested deeper than 60 levels"),
        (lambda: "# x\n\n" + "".join("  " * depth + "* x\n" for depth in range(100)), "nested deeper than 60 levels"),
        (lambda: "\0\1\2", "not a text"),
        (lambda: attributes("a{0}=1"), "HTML tag is longer than 5000 characters"),
        (lambda: attributes("a{0}='>'"), "HTML tag is longer than 5000 characters"),
        (lambda: MARKDOWN + attributes("a{0}")[6:], "HTML tag is longer than 5000 characters"),
        (lambda: "x" * 20_000_001, f"20000001 {TOO_LONG}"),
        (lambda: "\n" * 1_000_000, f"21000000 {TOO_LONG}"),
        (lambda: "\r" * 1_000_000, f"21000000 {TOO_LONG}"),
        (lambda: "<html>" + "<h1>x</h1>" * 700_000, f"21000016 {TOO_LONG}"),
        (lambda: "# x\n" * 200_000, f"20800000 {TOO_LONG}"),
        (lambda: MARKDOWN + "[" * 800_000, TOO_LONG),
        (lambda: MARKDOWN + "*a**b" * 500_000, TOO_LONG),
        (lambda: MARKDOWN + "_a " * 2_000_000, TOO_LONG),
        (lambda: MARKDOWN + "|a" * 500_000, TOO_LONG),
        (lambda: TEXT + "x.|" * 2_000_000, TOO_LONG),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_absurd_is_refused_at_once(make, words):
    text = make()
    start = time.process_time()
    with pytest.raises(LanemapError, match=words) as refused:
        read_text("page", text.encode())
    assert time.process_time() - start < PATIENCE
    assert str(refused.value).startswith("page: ")
    assert "\n" not in str(refused.value)


MANY = " / ".join(f".f{n}" for n in range(1, 21))
REGISTERS = f"{MANY} | 200 .b32 registers, holding 200 .f1 elements | a0 |\nrow = %laneid col = i\n"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT + "the same as " * 50_000, "characters in fragment sections are more.*limit 300000"),
        (
            lines(TITLE.replace("7.3.1", "7.3.{0}") + "\n" + "x" * 40, 8000),
            "in fragment sections are more.*limit 300000",
        ),
        (TEXT + REGISTERS * 30, "elements in each lane are more.*limit 20000"),
    ],
)
def test_sections_that_would_take_forever_are_refused_at_once(text, words):
    start = time.process_time()
    documents = [read_text("page", text.encode())]
    with pytest.raises(LanemapError, match=words):
        read_documents(documents, "x")
    assert time.process_time() - start < PATIENCE


#: What part of what is just allowed is read, and in what part of the time, with as much again for what other tests have
#: left in memory: what takes the square of its length is told.
PART, SHARE = (1, 1) if LONG else (6, 3)


@pytest.mark.parametrize(
    "text",
    [
        "<html>" + "<p>x</p>" * (700_000 // PART),
        "# x\n" * (190_000 // PART),
        MARKDOWN.replace("Fragments", "Shapes") + "![" * (99_000 // PART),
        TEXT.replace("Fragments", "Shapes") + "-- --\n" * (700_000 // PART),
        TEXT + "Figure 1 " * (33_000 // PART),
        TEXT + ".f16 | " * (40_000 // PART),
        "\n".join(
            TITLE.replace("3.1", f"{n // 900}.{n % 900}") + "\nMultiplicand A: row = i" for n in range(10_000 // PART)
        ),
    ],
    ids=["HTML", "Markdown", "brackets", "text", "figures", "rows", "sections"],
)
@pytest.mark.slow
def test_what_is_just_allowed_is_read_in_time(text):
    start = time.process_time()
    read_documents([read_text("page", text.encode())], "x")
    assert time.process_time() - start < PATIENCE / SHARE


@pytest.mark.parametrize("text", ["<html><h1>{0}</h1><p>Multiplicand A: row = {1}", "{0}\nMultiplicand A: row = {1}"])
def test_brackets_in_a_formula_cost_only_the_formula(text):
    found = read_documents([read_text("page", text.format(TITLE, "(" * 250_000).encode())], "x")
    assert any("is longer than the limit" in remark.reason or "no table" in remark.reason for remark in found.remarks)


def test_only_few_formulas_are_mended():
    """To try all places for a bracket takes long: a document that needs it often is not worth it."""
    page = pages.INTEGER
    sections = [replace(page[0], number=f"7.3.{n}", anchor=f"other-{n}") for n in range(1, 8)]
    text = "".join(pages.markdown((head, *page[1:])) for head in sections)
    found = read_documents([read_text("page", text.replace("{0,..,7}", "{0,..,7").encode())], "x")
    kinds = [remark.kind for remark in found.remarks if remark.kind in (Kind.MENDED, Kind.UNREAD)]
    assert kinds == [Kind.MENDED] * 5 + [Kind.UNREAD] * 2


DEFINED = [f"x{n + 1} = x{n} + x{n}" for n in range(59)]
REFERRED = [f"x{n + 1} = x{n}" for n in range(200)]


@pytest.mark.parametrize(
    "wrong",
    [
        f"col = {'1 + ' * 5000}groupID",
        f"col = {'~' * 500}groupID",
        f"col = groupID for bi where {'-' * 2000}i < 4",
        "col = " + "9" * 5000,
        "col = x59\nx0 = %laneid\n" + "\n".join(DEFINED),
        "col = x200\nx0 = %laneid\n" + "\n".join(REFERRED),
        "col = x12\nx0 = %laneid\n" + "\n".join(DEFINED[:12]),
    ],
    ids=["long", "deep", "signs", "digits", "doubled", "referred", "doubled often"],
)
def test_a_formula_that_is_too_long_or_deep_costs_only_itself(wrong):
    text = pages.markdown(pages.INTEGER).replace("col = groupID", wrong.replace("\n", "\n  "))
    start = time.process_time()
    found = read_documents([read_text("page", text.encode())], "x")
    assert time.process_time() - start < PATIENCE
    assert not found.complete
    assert {fragment.role for fragment in found.source.fragments} == {"A", "C", "D"}


def test_links_out_of_a_folder_are_not_followed(tmp_path):
    (tmp_path / "secret.md").write_text(pages.markdown(pages.INTEGER))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "page.md").write_text(pages.markdown(pages.FLOAT))
    (tmp_path / "folder" / "link.md").symlink_to(tmp_path / "secret.md")
    (found,) = document.read([tmp_path / "folder"], "x")
    assert {fragment.shape for fragment in found.source.fragments} == {"m16n8k8"}


@pytest.mark.parametrize("form", pages.FORMS)
def test_the_kind_is_told_by_the_contents(form):
    kind = next(kind for word, kind in (("HTML", "html"), ("text", "text"), ("", "markdown")) if word in form)
    assert format_of(clean(pages.FORMS[form])) == kind


def test_other_encodings_are_read():
    for encoding in ("utf-16", "utf-8-sig"):
        found = read_documents([read_text("page", pages.markdown().encode(encoding))], "x")
        assert len(found.source.fragments) == 40


def test_a_file_without_a_version_among_those_of_several_is_named_with_them(tmp_path):
    for name, version in {"old": "9.4", "new": "9.5"}.items():
        (tmp_path / f"{name}.md").write_text(f'---\nversion: "{version}"\n---\n\n# 9.7.16. Matrices\n')
    (tmp_path / "notes.md").write_text("# Notes\n")
    with pytest.raises(LanemapError, match="notes.md does not say which .* others are of 9.[45] and 9.[45]: give"):
        document.read([tmp_path])
