"""Documents are untrusted: what is absurdly large or deep is refused, and nothing in them is followed."""

import pytest

from lanemap.db.errors import LanemapError
from lanemap.ingest import document
from lanemap.ingest.document import blocks, read_documents
from lanemap.ingest.document.files import read_text

from . import pages


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html><body>" + "<div>" * 1000 + "x", "nested deeper than"),
        ("# x\n\n" + "> " * 500 + "x", "nested deeper than"),
        ("# x\n\n" + "".join("  " * depth + "* x\n" for depth in range(100)), "nested deeper than"),
        ("\0\1\2", "no text"),
    ],
)
def test_what_is_absurd_is_refused(text, words):
    with pytest.raises(LanemapError, match=words) as refused:
        read_text("page", text.encode())
    assert str(refused.value).startswith("page: ")
    assert "\n" not in str(refused.value)


def test_a_document_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(blocks, "MAX_CHARACTERS", 1000)
    with pytest.raises(LanemapError, match="limit 1000"):
        read_text("page", pages.markdown().encode())


def test_too_many_sections_are_refused(monkeypatch):
    monkeypatch.setattr(document, "MAX_SECTIONS", 2)
    with pytest.raises(LanemapError, match="limit 2"):
        read_documents([read_text("page", pages.markdown().encode())], "x")


def test_a_formula_that_is_too_long_or_deep_costs_only_itself():
    for wrong in (f"col = {'1 + ' * 5000}groupID", f"col = {'~' * 500}groupID", "col = " + "9" * 5000):
        text = pages.markdown(pages.INTEGER).replace("col = groupID", wrong)
        found = read_documents([read_text("page", text.encode())], "x")
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
    assert read_text("page.dat", pages.FORMS[form].encode()).kind == kind


def test_other_encodings_are_read():
    for encoding in ("utf-16", "utf-8-sig"):
        found = read_documents([read_text("page", pages.markdown().encode(encoding))], "x")
        assert len(found.source.fragments) == 40
