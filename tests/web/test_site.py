"""The site: pages as files, which need no server."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import lanemap
from lanemap.cli.web import site as pages
from lanemap.cli.web.links import Page, _file_name, page, page_of
from lanemap.db.errors import LanemapError

from .elements import Elements


def test_every_link_of_the_site_resolves(site):
    """From each file, by relative links alone, so that it works in any folder and from a disk; anchors, too."""
    files = sorted(site.rglob("*.html"))
    assert len(files) > 30
    ids = {file: {facts["id"] for _, facts in Elements(file.read_text()).found if "id" in facts} for file in files}
    linked = set()
    for file in files:
        text = file.read_text()
        assert str(site.parent) not in text
        for link in Elements(text).links():
            if link.startswith(("data:", "?lane=")):
                continue
            parts = urlsplit(link)
            assert not parts.scheme, (file, link)
            assert not parts.netloc, (file, link)
            assert not parts.path.startswith("/"), (file, link)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.is_relative_to(site), (file, link)
            assert target.is_file(), (file, link)
            assert not parts.fragment or parts.fragment in ids[target], (file, link)
            linked.add(target)
    assert set(files) <= linked
    assert list(site.rglob("*irs*.html"))


@pytest.mark.slow
def test_operands_that_differ_in_n_share_the_page_of_the_widest(database):
    """Which has all their elements in the same places, by brute force; the search goes there.

    Those in registers only where N does not count them: a wider D has more registers.
    """
    known = database.survey()
    same = pages._same(known)
    shared = [(wide, key) for wide, keys in known.narrower.items() for key in keys]
    assert len(shared) > 450
    assert {key.role for _, key in shared if not known.shown(key).tile} == {"A", "E"}
    for wide, key in shared[::40]:
        whole, part = known.shown(wide), known.shown(key)
        assert (wide.instruction, wide.type, wide.qualifiers) == (key.instruction, key.type, key.qualifiers)
        first = [each for each in whole.tuples() if each[4] < part.dimensions[1]]
        assert sorted(first) == sorted(part.tuples())
        assert same[page_of(known, key)] == page_of(known, wide)
    assert not {*same.values()} & {*same}
    names = json.loads(pages._names(known, same).partition("=")[2].strip(" ;\n"))["names"]
    assert {name: rest for name, _, _, *rest in names}["wgmma m64n64k16 f16 B"] == ["wgmma m64n256k16 f16 B"]


def test_what_lies_elsewhere_is_no_first_part_of_another(database):
    narrow, wide = (database.fragment(f"m64n{n}k16", "f16", "B", qualifiers="128B.K") for n in (64, 128))
    assert narrow.begins(wide)
    assert not wide.begins(narrow)
    assert not narrow.begins(database.fragment("m64n128k16", "f16", "B", qualifiers="64B.K"))


def test_the_site_replaces_its_own_files_only(site, tmp_path, run):
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    for folder in (other, tmp_path / "other" / "mine.txt"):
        result = run("site", folder)
        assert (result.code, result.out) == (2, ""), result
        assert result.err.count("\n") == 1
    assert (other / "mine.txt").read_text() == "mine"
    assert [path.name for path in other.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_site_is_of_one_state_of_the_database(small, tmp_path):
    with lanemap.open(shutil.copy2(small, tmp_path)) as database:

        def change(done, _):
            if done:
                database.add([replace(database.source("ours"), name="later", kind="import")])

        with pytest.raises(LanemapError, match="changed meanwhile: run lanemap site again"):
            pages.write(database, tmp_path / "public", change)
    assert not (tmp_path / "public").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_whole_group_ends_it_quietly(small, tmp_path, ending, code):
    """As Ctrl-C and the end of a service send it: to the processes that write pages, too."""
    command = [sys.executable, "-m", "lanemap", "site", "--db", small, "public"]
    pipes = {"stderr": subprocess.PIPE, "start_new_session": True, "cwd": tmp_path, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        while process.poll() is None and not any(tmp_path.rglob("*.html")):
            time.sleep(0.01)
        os.killpg(process.pid, ending)
        said = process.communicate(timeout=60)[1]
    assert [line for line in said.splitlines() if "was built from other shipped sources" not in line] == []
    assert process.returncode == code
    assert not [*tmp_path.iterdir()]


def test_names_of_files_are_unlike_and_stay_in_the_folder():
    names = ["", ".", "..", "a/b", "a\\b", "a:b", "a=3Ab", "a,b", "A", "con", "%2e", "..%2f", "é", "+errata"]
    files = [page("mma", name or "x", "f16").file for name in names]
    assert len(set(files)) == len(names)
    for file in files:
        assert ".." not in file.split("/")
        assert re.fullmatch(r"[A-Za-z0-9+=._/,-]+", file), file
        assert Path("/site", file).resolve().is_relative_to("/site")
    assert Page(("a b",), (("source", "x&y"),)).address == "/a%20b?source=x%26y"
    assert _file_name("scale_vec::2X") == "scale_vec=3A=3A2X"
