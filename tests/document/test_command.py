"""``lanemap ingest CORRECTED...``: exit codes, the report, names, and every bad input."""

import json
import os

import pytest

import lanemap
from lanemap.db.store.files import MANIFEST, folder_atomically

from . import pages


@pytest.fixture
def page(tmp_path):
    """A file with a text in it."""

    def page(text, name="page.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return page


def test_everything_read_is_exit_code_0(run, file, page):
    result = run("ingest", page(pages.site(), "isa.html"), "--slips", db=file)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("ptx-isa-7.7-document: 4 sections, 40 fragments, 5312 rows\n")
    assert "7.3.2           10  1088  Matrix Fragments for mma.m16n8k8\n" in result.out
    assert "figure-only: 7.5.1. Matrix Fragments for wgmma.mma_async.m64nNk32 (isa.html:" in result.out
    assert "slip: 7.3.1" in result.out
    with lanemap.open(str(file)) as database:
        sources = database.sources().set_index("name")
        assert sources.loc["ptx-isa-7.7-document", "fragments"] == 40
        assert set(json.loads(sources.loc["ptx-isa-7.7-document", "provenance"])) == {"version", "documents"}
        found = database.find("m16n8k16", "u8", "A", row=9, col=3, source="ptx-isa-7.7-document")
        assert found[["lane", "reg", "slot"]].to_numpy().tolist() == [[4, 1, 3]]


def test_something_not_read_is_exit_code_1(run, file, page):
    path = page(pages.markdown().replace("for ai where i >= 4", "for ai where i >= 5"))
    result = run("ingest", path, "--name", "broken", db=file)
    assert (result.code, result.err) == (1, "")
    assert "unread: 7.3.1 (page.md:" in result.out
    assert "no case of row covers a4" in result.out
    assert "slips and doubts in the text: --slips lists them" in result.out
    with lanemap.open(str(file)) as database:
        assert "broken" in set(database.sources()["name"])


def test_nothing_read_is_exit_code_2(run, file, page):
    result = run("ingest", page("# Nothing\n\nof interest.\n"), "--name", "x", db=file)
    assert result.code == 2
    assert result.err.startswith("lanemap: no fragment in ")
    assert result.err.count("\n") == 1
    with lanemap.open(str(file)) as database:
        assert "x" not in set(database.sources()["name"])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "jsonl"])
def test_the_report_comes_as_rows_too(form, run, file, page):
    result = run("ingest", page(pages.markdown()), "--name", "x", "--format", form, db=file)
    assert result.code == 0
    if form == "json":
        records = json.loads(result.out)
        assert [record["section"] for record in records if record["kind"] == "section"] == [
            "7.3.1",
            "7.3.2",
            "7.3.3",
            "7.4.2",
        ]
        assert {record["kind"] for record in records} == {"section", "figure-only"}


def test_bad_input_is_one_line(refused, page, tmp_path, file):
    refused("ingest", tmp_path / "nowhere.md", words=("nowhere.md", "No such file"), db=file)
    refused("ingest", page(pages.markdown()), words=("page.md", "give the source a name"), db=file)
    refused(
        "ingest", page(pages.markdown()), "--name", "ptx-isa-9.4", words=("ptx-isa-9.4", "choose another name"), db=file
    )
    refused("ingest", page(pages.markdown()), "--name", "ptx-isa-9.4+errata", words=("choose another name",), db=file)
    refused("ingest", page(pages.markdown()), "--name", " ", words=("invalid source name",), db=file)
    refused("ingest", "--slips", words=("documents",), db=file)
    (tmp_path / "empty").mkdir()
    refused("ingest", tmp_path / "empty", words=("holds no documents", ".html"), db=file)
    (tmp_path / "picture.md").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\0")
    refused("ingest", tmp_path / "picture.md", "--name", "x", words=("picture.md", "not a text"), db=file)
    os.mkfifo(tmp_path / "pipe")
    refused("ingest", tmp_path / "pipe", "--name", "x", words=("pipe", "neither a file nor a folder"), db=file)


def test_the_name_of_another_kind_of_source_is_refused(refused, page, file):
    with lanemap.open(str(file)) as database:
        captures = [name for name, kind in database.sources()[["name", "kind"]].to_numpy() if kind == "capture"]
    for name in captures:
        refused("ingest", page(pages.markdown()), "--name", name, words=(name, "--name"), db=file)


@pytest.mark.slow
def test_documents_of_two_versions_are_two_sources(run, file, page, tmp_path):
    both = [page(pages.site(title=f"PTX ISA {version} documentation"), f"{version}.html") for version in ("7.7", "7.8")]
    names = {"ptx-isa-7.7-document", "ptx-isa-7.8-document"}
    for _ in range(2):  # the second time into folders that are there
        assert run("ingest", *both, "--catalogue", tmp_path / "read", db=file).code == 0
    with lanemap.open(str(file)) as database:
        assert names <= set(database.sources()["name"])
    assert {path.name for path in (tmp_path / "read").iterdir()} == names
    for documents in (both, both[:1]):
        nowhere = tmp_path / "no" / "such"
        result = run("ingest", *documents, "--catalogue", nowhere, db=file)
        assert result.code == 2
        assert f"the folder {nowhere.parent} does not exist: make it" in result.err
    assert not nowhere.parent.exists()


def test_writing_say_what_the_document_says(run, file, page, written, tmp_path, printed):
    folder = tmp_path / "written"
    result = run("ingest", page(pages.markdown()), "--name", "x", "--catalogue", folder, db=file)
    assert result.code == 0
    assert "4 sections of x in" in result.err
    found = written(folder)
    assert len(found) == 40
    assert all(fragment.digest == printed[fragment.key].digest for fragment in found)


def test_writing_stand_alone(run, file, page, written, tmp_path, printed):
    folder = tmp_path / "written"
    run("ingest", page(pages.markdown(pages.SPARSE)), "--name", "x", "--catalogue", folder, db=file)
    found = written(folder)
    assert {fragment.role for fragment in found if fragment.digest} == set("ABCD")
    assert all(fragment.digest == printed[fragment.key].digest for fragment in found)


@pytest.mark.slow
def test_a_catalogue_appears_whole_or_not_at_all(run, refused, file, page, tmp_path, monkeypatch):
    from lanemap.ingest import catalogue

    folder = tmp_path / "new" / "written"
    folder.parent.mkdir()
    arguments = ("ingest", page(pages.markdown()), "--name", "x", "--catalogue", folder)
    lines, written = catalogue._toml, []

    def full(*given):
        yield from lines(*given)
        written.append(given)
        if len(written) > 2:
            raise OSError(28, "No space left on device")

    for whole in (set(), {"old.toml", MANIFEST}):
        if whole:
            with folder_atomically(folder, "catalogue") as made:
                (made / "old.toml").write_text("title = 'old'\n")
        with monkeypatch.context() as patch:
            patch.setattr(catalogue, "_toml", full)
            written.clear()
            result = run(*arguments, db=file)
            assert result.code == 2
            assert result.err == f"lanemap: cannot write {folder}: No space left on device\n"
        assert {path.name for path in folder.parent.rglob("*")} == (whole and {folder.name, *whole})
    assert run(*arguments, db=file).code == 0
    names = {path.name for path in folder.iterdir()}
    assert len(names) == 6
    assert "old.toml" not in names
    assert run(*arguments, db=file).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("there", ["notes.txt", "document.toml", "mma.toml", "sub/document.toml"])
def test_a_folder_that_is_no_catalogue_stays(run, file, page, tmp_path, there):
    kept = tmp_path / "mine" / there
    kept.parent.mkdir(parents=True)
    kept.write_text("[mine]\n")
    result = run("ingest", page(pages.markdown()), "--name", "x", "--catalogue", tmp_path / "mine", db=file)
    assert result.code == 2
    assert (
        result.err
        == f"lanemap: {tmp_path}/mine is not a catalogue that Lanemap wrote: name a new folder, or an empty one\n"
    )
    assert kept.read_text() == "[mine]\n"


def test_nothing_read_leaves_a_catalogue_as_it_was(run, file, page, tmp_path):
    result = run("ingest", page("# Nothing\n"), "--name", "x", "--catalogue", tmp_path / "written", db=file)
    assert result.code == 2
    assert not (tmp_path / "written").exists()


def test_python_reads_documents_too(page, file):
    (found,) = lanemap.open(str(file)).ingest(page(pages.markdown()), name="mine")
    assert found.complete
    with lanemap.open(str(file)) as database:
        assert len(database.find("m8n8k4", "f16", "C", source="mine")) == 32 * 8
