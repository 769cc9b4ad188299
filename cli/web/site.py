"""The pages as a folder of files, for any web host or none: all that needs no server, with links between files."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from html import escape
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ... import Database
from ...db import lookup
from ...db.errors import LanemapError
from ...db.files import folder_atomically
from ...db.fragment import Fragment
from ...db.instructions import Key
from ...db.location import Location
from ...db.report.html import contents
from ...db.survey import Survey, forms_of, survey
from . import views
from .links import Links, Page, operand_page, page, product_page, site_links
from .render import describe, layouts_css, render, selection
from .search import aliases

_STATIC = Path(__file__).parent / "static"
#: How many pages a process writes at a time. Pages that follow each other share much of the work.
_PART = 40
_Facts = Callable[[Links], dict[str, Any]]


def write(database: Database, folder: Path, progress: Callable[[int, int], object]) -> int:
    """Write all pages into a folder, in the place of those that were written there before.

    Args:
        database: what they say.
        folder: nothing, an empty folder, or one that an earlier site was written to.
        progress: called with how many pages are written, and how many there are.

    Returns:
        How many pages there are.

    Raises:
        LanemapError: the folder holds something else, or it cannot be written.
    """
    with folder_atomically(folder, "site") as made:
        shutil.copytree(_STATIC, made / "static")
        (made / "static" / "layouts.css").write_text(layouts_css(), "utf-8")
        pages = _Pages(database)
        (made / "static" / "names.js").write_text(_names(pages.known), "utf-8")
        count = len(pages.every)
        parts = [range(first, min(first + _PART, count)) for first in range(0, count, _PART)]
        progress(0, count)
        with ProcessPoolExecutor(
            mp_context=get_context("spawn"), initializer=_begin, initargs=(database.location, pages.digest, made)
        ) as pool:
            for part in pool.map(_write, parts):
                progress(part.stop, count)
    return count


class _Pages:
    """All pages of a database, each with its template and what makes its facts."""

    def __init__(self, database: Database) -> None:
        with database.reader.snapshot():
            self.digest = lookup.digest(database.reader)
            self.known = survey(database.reader)
        self.same = _same(self.known)
        self.every = list(_pages(self.known, database, self.same))
        self.there = frozenset(each for each, _, _ in self.every)


def _begin(location: Location, digest: bytes, folder: Path) -> None:
    """In a process that writes pages: open the database."""
    gc.disable()  # looking through all that is kept would take half of the time
    _work[:] = _Pages(Database(location)), digest, folder


_work: list[Any] = []


def _write(part: range) -> range:
    """Write some of the pages.

    Raises:
        LanemapError: the database is not what it was when the pages were counted.
    """
    pages, digest, folder = _work
    if pages.digest != digest:
        raise LanemapError("the database was changed meanwhile: run lanemap site again")
    for each, template, facts in pages.every[part.start : part.stop]:
        links = site_links(each, pages.there, pages.same)
        target = folder / each.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(render(template, links, facts(links)), "utf-8")
    return part


def _same(known: Survey) -> dict[Page, Page]:
    """The page of an operand in a source, and that of the operand, where they would say the same; and so on."""
    accumulators = {product: next((form.d for form in forms_of(product)), None) for product in known.products}
    same = {product_page(product, each): product_page(product) for product, each in accumulators.items() if each}
    return same | {
        operand_page(known, key, source): operand_page(known, key)
        for key, there in known.fragments.items()
        for source, fragment in there.items()
        if not fragment.has_rows or fragment.source == known.shown(key).source or _alike(fragment, known.shown(key))
    }


def _alike(one: Fragment, other: Fragment) -> bool:
    return one.same_layout(other) and (one.formula, one.erratum) == (other.formula, other.erratum)


def _pages(known: Survey, database: Database, same: Mapping[Page, Page]) -> Iterator[tuple[Page, str, _Facts]]:
    """Each page with its template and what makes its facts."""
    yield page(), "home", partial(views.home, known)
    yield page("check"), "check", lambda _: views.report("Check", _report(database))
    yield page("defects"), "defects", partial(views.defects, known)
    yield page("sources"), "sources", lambda _: views.sources(known)
    for product in known.products:
        for accumulator in (None, *dict.fromkeys(form.d for form in forms_of(product))):
            each = product_page(product, accumulator)
            if each not in same:
                yield each, "instruction", partial(views.instruction, known, product, accumulator=accumulator)
    for key, there in known.fragments.items():
        for source in (None, *there):
            each = operand_page(known, key, source)
            if each not in same:
                yield each, "operand", partial(_operand, known, database, key, source)


def _operand(known: Survey, database: Database, key: Key, source: str | None, links: Links) -> dict[str, Any]:
    facts = views.operand(known, database, key, links, source=source)
    return facts | {"selection": selection(key, source), "downloads": [], "description": describe(facts["fragment"])}


def _report(database: Database) -> str:
    try:
        return contents(database.check())
    except LanemapError as error:  # there are no two sources to compare
        return f"<h1>Check</h1><p>{escape(str(error))}</p>"


def _names(known: Survey) -> str:
    """What the search box looks through: the name of each page, and what else an instruction is called.

    The file of a page is its name with a slash for each space.
    """
    names: list[str | list[str]] = [[str(product), " ".join(aliases(product))] for product in known.products]
    names += [" ".join(operand[:4]) for operand in known.operands]
    return f"window.lanemapNames = {json.dumps(names, ensure_ascii=True, separators=(',', ':'))};\n"
