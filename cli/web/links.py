"""The address of every page, and the names that people have for it.

On the server an address is absolute, in a folder of files relative to the page that links there.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlencode

from ... import Database, Key, LanemapError, Product, Query, Survey, refusal
from ...db.text import grouped, naturally

#: What tells the fragments of an operand apart.
_VARIANTS = ("major", "selector", "qualifiers")


class Page(NamedTuple):
    """What an address says: the parts of its path, and its parameters."""

    path: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """In words."""
        return " ".join((*self.path, *(value for _, value in self.parameters)))

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


class Links(NamedTuple):
    """How pages refer to each other, and to style, script and pictures.

    ``page`` gives the address of a page, None where there is no such page. ``static``: there is no server, so what
    only it can do is left out.
    """

    survey: Survey
    page: Callable[[Page], str | None]
    asset: Callable[[str], str]
    static: bool = False

    def __call__(self, *path: str, **parameters: object) -> str | None:
        """The address of a page by its path and parameters."""
        return self.page(page(*path, **parameters))

    def of(self, named: Key | Product, **parameters: object) -> str | None:
        """The address of the page of a fragment or an instruction."""
        return self.page(page_of(self.survey, named, **parameters))

    def picture(self, key: Key, source: str | None, form: str, **parameters: object) -> str:
        """The address of a fragment's picture as a file."""
        *folders, role = (of := page_of(self.survey, key, source=source, **parameters)).path
        return "/picture" + of._replace(path=(*folders, f"{role}.{form}")).address

    def variant(self, key: Key) -> str:
        """What tells a fragment from others of its operand, in words."""
        if len(self.survey.operands[key.operand]) == 1:
            return ""
        selector = None if key.selector is None else f"selector {key.selector}"
        return ", ".join(filter(None, (key.major and f"{key.major} major", key.qualifiers, selector))) or "plain"


def page(*path: str, **parameters: object) -> Page:
    """The page of a path, with the parameters that are given."""
    return Page(path, tuple((name, str(value)) for name, value in parameters.items() if value is not None))


def page_of(survey: Survey, named: Key | Product, **parameters: object) -> Page:
    """The page of an instruction, or of a fragment: which of an operand's it says, unless that is the first."""
    if isinstance(named, Key):
        first = survey.operands[named.operand][0]
        apart = {name: getattr(named, name) for name in _VARIANTS if getattr(named, name) != getattr(first, name)}
        return page(*named[:4], **apart, **parameters)
    return page(*named, **parameters)


def site_links(survey: Survey, here: Page, there: Collection[Page], same: Mapping[Page, Page]) -> Links:
    """Links between files, from one page.

    Args:
        survey: what pages there are of.
        here: the page that links.
        there: all pages that are files.
        same: pages that are not, and which of those says the same.
    """

    def linked(page: Page) -> str | None:
        shown = same.get(page, page)
        return between(here.file, shown.file) if shown in there else None

    return Links(survey, linked, lambda name: between(here.file, f"static/{name}"), static=True)


def between(page: str, file: str) -> str:
    """The address of a file in a page, both by their paths."""
    (*here, _), (*there, name) = page.split("/"), file.split("/")
    shared = next((at for at, part in enumerate(here) if there[at : at + 1] != [part]), len(here))
    return quote("/".join([".."] * (len(here) - shared) + [*there[shared:], name]), safe="/,")


@lru_cache(4096)
def _file_name(part: str) -> str:
    """A part of an address as the name of a file, on every system, that no other part has."""
    return quote(part, safe="+").replace("%", "=") if part.strip(".") else part.replace(".", "=2E")


#: What a search is narrowed by, as its address says it.
FACETS = ("vendor", "instruction", "target", "type")


def look_up(survey: Survey, database: Database, text: str) -> tuple[list[Page], Page | None, str]:
    """The pages that a name stands for, one of each operand, those that it names to the letter first; the one that it
    says just the name of, which of two operands is that of their chain; and why there are none."""
    if not text.strip():
        return [], None, ""
    if chain := _chain(text):
        return [], chain, ""
    words = ""
    named: list[Page] = []
    like = _pages(survey, survey.like(text))
    if untargeted := survey.without_targets(text):
        try:
            query = Query.parse(untargeted)
            named = _pages(survey, survey.named(query))
            if not named:
                database.matching(query)
        except LanemapError as error:
            words = refusal(error)
    asked = {*text.lower().split()} - {*untargeted.lower().split()}
    named = [page for page in named if asked <= {*Survey.facets(*page.path)["target"]}]
    pages = [first for first, *_ in grouped([*named, *like], lambda page: page.path).values()]
    # Of a dense and a sparse instruction, a name is that of the dense one; of several vendors it is nobody's.
    vendors = {title for page in named for title in Survey.facets(*page.path)["vendor"]}
    first = {page.path for page in named if page.path[0] == named[0].path[0]}
    exact = len(first) == len(vendors) == 1 or len(pages) == 1
    return pages, pages[0] if exact else None, words or ("" if pages else f"nothing is called {text.strip()!r}")


def _chain(text: str) -> Page | None:
    """The page of a chain, if a text names a D and what takes it."""
    ends = Query.split(text.split())
    with suppress(LanemapError):
        roles = [Query.parse(end).parameters()["role"] for end in ends]
        if len(ends) == 2 and roles[0] == "D" and roles[1] in ("A", "B", "C"):
            return page("chain", first=" ".join(ends[0]), second=" ".join(ends[1]))
    return None


class Choice(NamedTuple):
    """A value of a facet: how many of the found pages have it, and the search that takes it, or leaves it out."""

    value: str
    hits: int
    page: Page
    chosen: bool


def narrowed(pages: Sequence[Page], asked: str, given: Mapping[str, str]) -> tuple[list[Page], dict[str, list[Choice]]]:
    """The pages that have a value of each facet that is given, and the choices that there are.

    A choice counts the pages that have it and what is given of the other facets. A target counts what runs on it.
    """
    facets = {page: Survey.facets(*page.path) for page in pages}
    chosen: dict[str, str | None] = {}
    for name in FACETS:
        text = given.get(name) or None
        there = (value for of in facets.values() for value in of[name])
        chosen[name] = next((value for value in there if text and value.lower() == text.lower()), text)

    def left(but: str = "") -> list[Page]:
        wanted = [(name, value) for name, value in chosen.items() if value and name != but]
        return [page for page, of in facets.items() if all(value in of[name] for name, value in wanted)]

    choices = {}
    for name, taken in chosen.items():
        counts = Counter(value for page in left(name) for value in facets[page][name])
        if taken is not None:
            counts[taken] += 0
        if len(counts) > 1 or taken:
            choices[name] = [
                Choice(value, counts[value], page("search", q=asked, **chosen | {name: other}), value == taken)
                for value in sorted(counts, key=naturally)
                for other in [None if value == taken else value]
            ]
    return left(), choices


def meant(survey: Survey, path: str) -> Page | None:
    """The page that an address names in capital letters, or by another name of a type."""
    with suppress(LanemapError):
        named = _pages(survey, survey.named(Query.parse(path.replace("/", " "))))
        return named[0] if len({page.path for page in named}) == 1 else None
    return None


def suggested(request: str, words: str) -> list[str]:
    """What to ask instead, by what a refusal says: each guess in the place of the word that is most like it."""
    guesses = re.search(r"did you mean (.+?)\?", words)
    typed = request.split()
    instead = []
    for guess in re.split(", | or ", guesses[1]) if guesses and typed else ():
        (like,) = get_close_matches(guess.lower(), [word.lower() for word in typed], 1, 0)
        instead.append(" ".join(guess if word.lower() == like else word for word in typed))
    return instead


def near(survey: Survey, path: str) -> list[Page]:
    """The pages whose addresses are most like one that there is not."""
    every = _pages(survey, (*survey.products, *(first for first, *_ in survey.operands.values())))
    by_name = grouped(every, lambda page: page.path[0].lower())
    path = path.lower().removeprefix("/picture")
    names = get_close_matches(path.strip("/").partition("/")[0], by_name)
    addresses = {page.address.lower(): page for name in names for page in by_name[name]}
    return [addresses[address] for address in get_close_matches(path, addresses, n=6, cutoff=0.6)]


def _pages(survey: Survey, matches: Iterable[Key | Product]) -> list[Page]:
    """The page of each, once."""
    return list(dict.fromkeys(page_of(survey, match) for match in matches))
