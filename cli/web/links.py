"""The address of every page: on the server absolute, in a folder of files relative to the page that links there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from os.path import relpath
from typing import NamedTuple
from urllib.parse import quote, urlencode

from ...db.instructions import Key
from ...db.survey import Product, Survey, operand_of

#: What tells the fragments of an operand apart.
_VARIANTS = ("major", "selector", "qualifiers")


class Page(NamedTuple):
    """What an address says: the parts of its path, and its parameters."""

    path: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def address(self) -> str:
        """On the server, from its root."""
        path = "/" + "/".join(quote(part, safe=":") for part in self.path)
        return path + ("?" + urlencode(self.parameters, safe=":") if self.parameters else "")

    @property
    def file(self) -> str:
        """In a folder of files. Whatever a part is called, it names no other folder."""
        parts = [_file_name(part) for part in self.path] or ["index"]
        return "/".join(parts) + "".join(f",{_file_name(value)}" for _, value in self.parameters) + ".html"


@dataclass(frozen=True)
class Links:
    """How pages refer to each other, and to style, script and pictures.

    ``static``: there is no server, so what only it can do is left out.
    """

    page: Callable[[Page], str | None]
    asset: Callable[[str], str]
    static: bool = False

    def __call__(self, *path: str, **parameters: object) -> str | None:
        """The address of a page; None where there is no such page."""
        return self.page(page(*path, **parameters))


def page(*path: str, **parameters: object) -> Page:
    """The page of a path, with the parameters that are given."""
    return Page(path, tuple((name, str(value)) for name, value in parameters.items() if value is not None))


def operand_page(survey: Survey, key: Key, source: str | None = None, lane: int | None = None) -> Page:
    """The page of a fragment. It says which of an operand's, unless that is the first."""
    first = survey.operands[operand_of(key)][0]
    apart = {name: getattr(key, name) for name in _VARIANTS if getattr(key, name) != getattr(first, name)}
    return page(*key[:4], **apart, source=source, lane=lane)


def product_page(product: Product, accumulator: str | None = None, lane: int | None = None) -> Page:
    """The page of an instruction."""
    return page(*product, accumulator=accumulator, lane=lane)


def site_links(here: Page, there: Collection[Page], same: Mapping[Page, Page]) -> Links:
    """Links between files, from one page.

    Args:
        here: the page that links.
        there: all pages that are files.
        same: pages that are not, and which of those says the same.
    """
    folder = here.file.rpartition("/")[0] or "."

    def to(file: str) -> str:
        return quote(relpath(file, folder), safe="/,")

    def linked(each: Page) -> str | None:
        shown = same.get(each, each)
        return to(shown.file) if shown in there else None

    return Links(linked, lambda name: to(f"static/{name}"), static=True)


def _file_name(part: str) -> str:
    """A part of an address as the name of a file, on every system, that no other part has."""
    return quote(part, safe="+").replace("%", "=") if part.strip(".") else part.replace(".", "=2E")
