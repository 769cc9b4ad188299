"""The site: pages as files, which need no server."""

import gc
import json
import os
import re
import shlex
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
from lanemap import Key, Query
from lanemap.cli.web import site as pages
from lanemap.cli.web import views
from lanemap.cli.web.links import Page, _file_name, page, page_of, site_links
from lanemap.cli.web.pages import text
from lanemap.cli.web.render import selection
from lanemap.db.errors import LanemapError
from lanemap.db.heap import uncollected
from lanemap.db.text import naturally

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
    assert {*files} - linked == {site / "404.html"}
    assert list(site.rglob("*irs*.html"))


@pytest.mark.slow
def test_operands_that_differ_in_width_share_the_page_of_the_widest(known):
    """Which has all their elements in the same places, by brute force."""
    same = pages._same(known)
    assert len(known.widest) > 400
    for key, wide in [*known.widest.items()][::20]:
        assert (wide.instruction, wide.type, wide.role) == (key.instruction, key.type, key.role)
        for source, part in known.fragments[key].items():
            if part.has_rows:
                first = [each for each in known.shown(wide, source).tuples() if each[5] < part.dimensions[1]]
                assert sorted(first) == sorted(part.tuples())
        assert same[page_of(known, key)] == page_of(known, known.represented[key])
    for product, wide in known.widest_product.items():
        assert (wide.instruction, wide.type, wide.accumulators) == (*product[::2], product.accumulators)
        assert [key._replace(shape=wide.shape) for key in known.products[product]] == known.products[wide]
        assert same[page_of(known, product)] == page_of(known, wide)
    assert not {*same.values()} & {*same}


def test_operands_of_several_types_share_a_page_that_says_the_same_of_them(known):
    """The page of each by itself, as a server has it, says what the other does but for names."""
    same = pages._same(known)
    pairs = [(key, by) for key, by in known.represented.items() if key.type != by.type and key not in known.widest]
    assert len({key.instruction for key, _ in pairs}) > 2
    assert Key("mma", "m16n8k16", "f16", "A", "row") in known.represented.values()
    for key, by in pairs:
        assert (*key[:2], *key[3:]) == (*by[:2], *by[3:])
        assert known.known[key] is known.known[by]
        assert known.fragments[key].keys() == known.fragments[by].keys()
        for source, its in known.fragments[key].items():
            other = known.shown(by, source)
            assert its.citation == other.citation
            assert its.same_layout(other)
        said = [known.said(known.product_of[each.operand])[each] for each in (key, by)]
        assert said[0] == said[1]
        assert same[page_of(known, key)] == page_of(known, by)


def test_a_page_names_what_shares_it(database, known):
    wide = Key("wgmma", "m64n256k16", "f32", "D")
    shapes = sorted((key.shape for key, by in known.widest.items() if by == wide), key=naturally)
    assert len(shapes) > 3
    narrower = f"The first of these columns are those of {shapes[0]} to {shapes[-1]}, {len(shapes)} in all."
    remarks = {
        Key("mma", "m16n8k16", "f16", "A", "row"): ["The same is true of bf16."],
        Key("mma", "m16n8k16", "f32", "D"): [],
        wide: [narrower],
    }
    for key, said in remarks.items():
        links = site_links(known, page_of(known, key), (), {})
        at = views.Context(known, database, links, None)
        shown = text("operand", links, views.operand(at, (key, None), {"tile": None}))
        assert re.findall(r'<p class="remark">(The (?:same|first).*)</p>', shown) == said


def test_the_command_of_a_page_selects_its_operand_alone(database, known):
    of_kind = {key._replace(shape="", type=""): key for key in known.fragments}
    for key in of_kind.values():
        words = shlex.split(selection(key, "all"))
        asked = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2], strict=True))
        assert {found.key for found in database.matching(Query(**asked | {"selector": key.selector}))} == {key}


def test_a_name_leads_to_the_page_that_shows_it(site, small):
    """Of every name of the search to a file, which many share; what another page shows has no file."""
    there = json.loads((site / "static" / "names.js").read_text().partition("=")[2].strip(" ;\n"))
    with lanemap.open(small) as database:
        known = database.survey()
    same = pages._same(known)
    for name, _, _, at in there["names"]:
        named = page(*name.split())
        assert there["files"][at] == same.get(named, named).file
        assert (site / there["files"][at]).is_file()
    assert len(there["names"]) > len(there["files"]) > 5
    assert not [moved for moved in same if (site / moved.file).exists()]


def test_what_lies_elsewhere_is_no_first_part_of_another(database):
    narrow, wide = (database.fragment(f"m64n{n}k16", "f16", "B", qualifiers="128B.K") for n in (64, 128))
    assert narrow.begins(wide)
    assert not wide.begins(narrow)
    assert not narrow.begins(database.fragment("m64n128k16", "f16", "B", qualifiers="64B.K"))
    for other in ({"slots": 4}, {"register_bits": 64}):
        assert not replace(narrow, **other).begins(wide)


@pytest.mark.slow
def test_products_that_share_a_page_differ_in_their_width_alone(known):
    assert known.widest_product
    for product, wide in known.widest_product.items():
        assert (wide.instruction, wide.type) == (product.instruction, product.type)


@pytest.mark.slow
def test_a_site_of_which_nothing_changed_stays(site, small, tmp_path):
    """And is written again where a page is gone, or the database has another source."""
    folder = tmp_path / "public"
    shutil.copytree(site, folder)

    def written():
        with lanemap.open(small) as database:
            seen = []
            count = pages.write(database, folder, lambda done, _: seen.append(done))
        assert count > 30
        return bool(seen)

    assert not written()
    (folder / "index.html").unlink()
    assert written()
    assert (folder / "index.html").read_bytes() == (site / "index.html").read_bytes()
    (folder / "static" / "made.txt").write_text("")
    with pytest.raises(LanemapError, match="not as Lanemap wrote it"):
        written()


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
    assert [line for line in said.splitlines() if "has changed since" not in line] == []
    assert process.returncode == code
    assert not [*tmp_path.iterdir()]


def test_garbage_is_looked_for_as_before_where_pages_were_written():
    for change in (gc.disable, gc.enable):
        change()
        before = gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == before


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
