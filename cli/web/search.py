"""The search box: pages by the names that people have for instructions and operands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from ... import LanemapError
from ...db.forms import moves
from ...db.instructions import WARPGROUP, Key, instruction
from ...db.lookup import fragments
from ...db.names import Query, operand
from ...db.reader import Reader
from ...db.spelling.sass import opcode_name
from ...db.survey import Product, Survey, forms_of
from .links import Links, Page, operand_page, product_page

_WORDS = re.compile(r"[a-z0-9.:_]+")
_MOST = 60


class Hit(NamedTuple):
    """A page, and whether the name that was asked for says just that."""

    name: str
    href: str
    exact: bool = False


def find(survey: Survey, reader: Reader, text: str, links: Links) -> tuple[list[Hit], str]:
    """The pages that a name stands for, those that it names to the letter first; and why there are none."""
    if not text.strip():
        return [], ""
    words = ""
    named: list[Page] = []
    try:
        query = operand(text.split())
        named = list(dict.fromkeys(_named(survey, query)))
        if not named:
            fragments(reader, query)
    except LanemapError as error:
        words = str(error)
    every = _every(survey)
    asked = _WORDS.findall(text.lower())
    like = [page for page, name in every.items() if asked and all(word in name for word in asked)]
    pages = list(dict.fromkeys([*named, *like]))[:_MOST]
    # Of a dense and a sparse instruction, a name is that of the dense one.
    exact = named[0] if len({page.path for page in named if page.path[0] == named[0].path[0]}) == 1 else None
    found = [
        Hit(" ".join((*page.path, *(value for _, value in page.parameters))), href, page == exact)
        for page in pages
        if (href := links.page(page)) is not None
    ]
    return found, words or ("" if found else f"nothing is called {text.strip()!r}")


def near(survey: Survey, path: str, links: Links) -> list[Hit]:
    """The pages whose addresses are most like one that there is not."""
    addresses = {page.address.lower(): page for page in _every(survey)}
    close = get_close_matches(path.lower(), addresses, n=6, cutoff=0.6)
    return [Hit(" ".join(addresses[each].path), links.page(addresses[each]) or "") for each in close]


def _named(survey: Survey, query: Query) -> Iterator[Page]:
    """The pages of what a query names: operands where it says a role, else instructions."""
    for each in filter(None, (query, query.of_accumulator())):
        keys = list(filter(each.matches, survey.fragments))
        if keys and "role" in each.asked:
            keys.sort(key=lambda key: instruction(key.instruction).sparse)
            yield from (operand_page(survey, key) for key in keys)
        elif keys:
            yield from (product_page(product) for product in _products(survey, each, set(keys)))
        if keys:
            return


def _products(survey: Survey, query: Query, keys: set[Key]) -> Iterator[Product]:
    """The instructions that have one of the fragments: of a type the one whose A it is, the dense ones first."""
    type_ = query.name.types.get("A") or query.name.type or query.parameters()["type"]
    shape = query.parameters()["shape"]
    for product in sorted(survey.products, key=lambda each: instruction(each.instruction).sparse):
        of_it = {key for each in survey.products[product] for key in survey.operands[each]}
        if type_ in (None, product.type) and shape in (None, product.shape) and not of_it.isdisjoint(keys):
            yield product


@lru_cache(2)
def _every(survey: Survey) -> dict[Page, str]:
    """Every page of an instruction or operand, with its name in small letters; instructions come first."""
    found = {product_page(product): str(product).lower() for product in survey.products}
    for keys in survey.operands.values():
        for key in keys:
            found[operand_page(survey, key)] = " ".join(str(part) for part in key if part is not None).lower()
    return found


def aliases(product: Product) -> Sequence[str]:
    """What an instruction is called besides its name: its mnemonics, its opcodes, its atoms."""
    names = [form.mnemonic for form in forms_of(product)]
    names += [move.mnemonic for move in moves() if (move.name, move.shape, move.type) == tuple(product)]
    for form in forms_of(product) if product.instruction != "wmma" else ():
        names.append(opcode_name(form))
        types, ends = ("DAB", "SS") if form.threads == WARPGROUP else ("DABC", "TN")
        spelt = "".join(form.types[role] for role in types).upper().replace("B1", "U1")
        shape = "x".join(map(str, form.dimensions))
        names.append(f"SM{form.target[3:5]}_{'SPARSE_' * form.sparse}{shape}_{spelt}_{ends}")
    return list(dict.fromkeys(names))
