"""The pages as a folder of files, for any web host or none: all that needs no server, with links between files."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ... import Database, Fragment, LanemapError, Survey, program_digest
from ...capture.processes import Processes
from ...db.heap import uncollected
from ...db.store import files
from .guide import guide
from .links import Page, page, page_of, site_links
from .pages import PAGES, text
from .render import STATIC, layouts_css
from .views import Context

#: In how many parts a process writes its pages, some before others: those that follow each other share much work.
_PARTS = 4

#: The file that says what a site was made of, by which program, and how many pages it has.
_MADE = "static/made.txt"


def write(database: Database, folder: Path, progress: Callable[[int, int], object]) -> int:
    """Write all pages into a folder, in the place of those that were written there before.

    Where these are as they were written, of the same database by the same program, they stay.

    Args:
        database: what they say.
        folder: nothing, an empty folder, or one that an earlier site was written to.
        progress: called with how many pages are written, and how many there are.

    Returns:
        How many pages there are.

    Raises:
        LanemapError: the folder holds something else, or it cannot be written.
    """
    made = f"{program_digest()} {database.digest().hex()}"
    with suppress(OSError, ValueError):  # there is none, or it is not as it was written
        *before, many = (folder / _MADE).read_text("utf-8").split()
        if " ".join(before) == made and files.is_whole(folder, "site"):
            return int(many)
    with uncollected(), files.folder_atomically(folder, "site") as new_folder:
        shutil.copytree(STATIC, new_folder / "static")
        (new_folder / "static" / "layouts.css").write_text(layouts_css(), "utf-8")
        pages = _Pages(database)
        (new_folder / "static" / "names.js").write_text(_names(pages.known, pages.same), "utf-8")
        folders = sorted({shown.path[0] for shown in pages.there if len(shown.path) > 1})
        missing = text("missing", site_links(pages.known, page(), pages.there, pages.same), {"folders": folders})
        (new_folder / "404.html").write_text(missing, "utf-8")  # where hosts look for what to send
        count, done = len(pages.every), 0
        progress(done, count)
        processes = os.cpu_count() or 1
        part = -(-count // (_PARTS * processes))
        with Processes(pages.beside, partial(_Pages.write, many=part, folder=new_folder), processes) as beside:
            for _, written in beside.results(range(0, count, part)):
                done += written
                progress(done, count)
        (new_folder / _MADE).write_text(f"{made} {count}\n", "utf-8")
        if database.digest() != pages.digest:
            raise LanemapError("the database was changed meanwhile: run lanemap site again")
    return count


class _Pages:
    """All pages of a database, each with its template and what makes its facts."""

    def __init__(self, database: Database) -> None:
        with database.reader.snapshot():
            self.digest = database.digest()
            self.known = database.survey()
            for there in self.known.fragments.values():
                for fragment in there.values():
                    _ = fragment.packed  # reads it: a forked process has no connection to read it with
        self.same = _same(self.known)
        self.database = database
        every: list[tuple[Page, str, Callable[[Context], Any]]] = [
            (page, kind.name, partial(kind.facts, **asked))
            for kind in PAGES
            if kind.every
            for page, asked in kind.every(self.known)
            if page not in self.same
        ]
        every.append((page("search"), "search", lambda _: {"title": "Search"}))  # which the script fills
        # An instruction is followed by its operands, whose matrices are drawn on both.
        at = {tuple(product): number for number, product in enumerate(self.known.products)}
        self.every = sorted(every, key=lambda each: at.get(each[0].path[:3], -1))
        self.there = frozenset(page for page, _, _ in self.every)

    @contextmanager
    def beside(self) -> Iterator["_Pages"]:
        """The same in a forked process, which opens the database again."""
        with Database(self.database.location) as self.database:
            yield self

    def write(self, start: int, many: int, folder: Path) -> int:
        """Write so many of the pages, the last ones maybe fewer, and say how many those are."""
        every = self.every[start : start + many]
        for shown, template, facts in every:
            links = site_links(self.known, shown, self.there, self.same)
            file = folder / shown.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text(template, links, facts(Context(self.known, self.database, links))).encode())
        return len(every)


def _same(known: Survey) -> dict[Page, Page]:
    """The page of an operand in a source, and that of the operand, where they would say the same; and so on."""
    same: dict[Page, Page] = {}
    for product in known.products:
        wide = known.widest_product.get(product, product)
        same[page_of(known, product)] = page_of(known, wide)
        for at, accumulator in enumerate(product.accumulators):
            asked = {"accumulator": accumulator} if at else {}
            same[page_of(known, product, accumulator=accumulator)] = page_of(known, wide, **asked)
    for key, there in known.fragments.items():
        by = known.represented.get(key, key)
        shown = page_of(known, by if known.shown(key).has_rows else known.product_of[key.operand])
        same[page_of(known, key)] = shown
        for source, fragment in there.items():
            own = fragment.has_rows and not _says_no_more(fragment, known.shown(key))
            same[page_of(known, key, source=source)] = page_of(known, by, source=source) if own else shown
    return {page: same.get(shown, shown) for page, shown in same.items() if page != same.get(shown, shown)}


def _says_no_more(fragment: Fragment, shown: Fragment) -> bool:
    """Whether the page of an operand says all of what one source has of it."""
    its, said = fragment.citation, shown.citation
    return fragment.same_layout(shown) and its.formula in (None, said.formula) and its.erratum in (None, said.erratum)


def _names(known: Survey, same: Mapping[Page, Page]) -> str:
    """What the search box looks through: of each name what else it is called, the numbers of its kind and its file.

    A kind is a vendor and the targets, a file that of the page that shows it. Pages of the guide have a title and the
    words of their text.
    """
    called: dict[Page, tuple[str, ...]] = {page_of(known, one): (*one.aliases,) for one in known.products}
    for operand, keys in known.operands.items():
        apart = {word: None for key in keys for word in (key.major, key.qualifiers) if word}
        called[page(*operand[:4])] = (*apart,)
    kinds: dict[tuple[str, ...], int] = {}
    shown: dict[str, int] = {}
    names: list[list[object]] = []
    for entry, more in called.items():
        of = Survey.facets(*entry.path)
        kind = kinds.setdefault((*of["vendor"], *sorted(of["target"])), len(kinds))
        names.append([entry.name, " ".join(more), kind, shown.setdefault(same.get(entry, entry).file, len(shown))])
    read = [[f"guide {name}", article.title, article.words] for name, article in guide().items()]
    every = {"kinds": [*kinds], "files": [*shown], "names": names, "guide": read}
    return f"window.lanemapNames = {json.dumps(every, ensure_ascii=True, separators=(',', ':'))};\n"
