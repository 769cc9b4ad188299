"""What each page says, as a dictionary for its template: the same for the server and for a folder of files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markdown_it import MarkdownIt
from markupsafe import Markup

from ... import Database, LanemapError
from ...db import summary
from ...db.chain import Movement, chain
from ...db.fleet import Fleet
from ...db.fragment import Fragment, Source
from ...db.grouped import grouped
from ...db.instructions import INSTRUCTIONS, Key
from ...db.lookup import DEFAULT_SOURCE, Query
from ...db.notation import NOTATIONS, RefusedError, identifier, notation
from ...db.notation.export import express
from ...db.picture.grid import size
from ...db.reader import Rows
from ...db.recipe import MAJORS, pairs, recipe
from ...db.report.words import provenance
from ...db.survey import Known, Product, Survey, forms_of, operand_of
from . import drawing
from .examples import EXAMPLES
from .links import Links, operand_page, product_page

_ROOT = Path(__file__).parents[2]

_MEANING = {
    Known.AGREED: "a formula in the document, and a measurement that agrees with it",
    Known.DOCUMENTED: "a formula in the document; nobody has measured it",
    Known.MEASURED: "measured on hardware; the document says nothing, or only draws it",
    Known.IMPORTED: "only another toolchain says it",
    Known.DRAWN: "a figure in the document; nothing here has its elements",
    Known.CONTRADICTED: "sources disagree, and no listed error explains it",
    Known.ERROR: "an error in the document that is proved and corrected",
}

#: Shapes that differ in N alone are one line of the table where they are more than these.
_FEW = 4
#: Longer texts, and those of larger operands, are downloads.
_TEXT, _ELEMENTS = 5000, 4096


def home(survey: Survey, links: Links) -> dict[str, Any]:
    """The coverage of each instruction, a line for a shape and type."""
    families = [
        {
            "name": name,
            "columns": _columns(products),
            "lines": [_line(survey, links, several, _columns(products)) for several in _alike(products)],
        }
        for name, products in grouped(survey.products, lambda product: product.instruction).items()
    ]
    every = [survey.of_operand(each) for each in survey.operands]
    legend = [
        {"known": known, "meaning": meaning, "count": every.count(known)}
        for known, meaning in _MEANING.items()
        if known in every
    ]
    return {
        "title": "Fragment layouts of tensor-core instructions",
        "columns": max((len(each["columns"]) for each in families), default=0),
        "families": families,
        "legend": legend,
        "operands": len(every),
        "sources": len(survey.sources),
    }


def _columns(products: Sequence[Product]) -> list[str]:
    """The roles of an instruction; those of all products are in the same columns."""
    axes = INSTRUCTIONS.get(products[0].instruction, INSTRUCTIONS["mma.sp"]).axes
    every = INSTRUCTIONS["mma.sp"].axes
    return [*(every if axes.keys() <= every.keys() else axes)]


def _alike(products: Sequence[Product]) -> list[list[Product]]:
    """Products that differ in N alone together, where they are many."""
    groups = grouped(products, lambda each: (each.type, re.sub(r"n\d+", "n", each.shape)))
    apart = [[each] for group in groups.values() if len(group) <= _FEW for each in group]
    together = [group for group in groups.values() if len(group) > _FEW]
    return sorted(apart + together, key=lambda group: products.index(group[0]))


def _line(survey: Survey, links: Links, products: Sequence[Product], columns: Sequence[str]) -> dict[str, Any]:
    """One line of the table: its instruction, and what is known of each operand."""
    first = products[0]
    cells: dict[str, list[dict[str, Any]]] = {role: [] for role in columns}
    for at, operand in enumerate(survey.products[first]):
        states = {survey.of_operand(survey.products[each][at]) for each in products}
        known = min(states, key=[*Known].index)
        name = operand.role if operand.type == first.type else f"{operand.role} {operand.type}"
        href = links.page(operand_page(survey, survey.operands[operand][0]))
        cells.setdefault(operand.role, []).append({"name": name, "known": known, "href": href})
    widths = [(each.shape.partition("n")[2].partition("k")[0], links.page(product_page(each))) for each in products]
    return {
        "shape": re.sub(r"n\d+", "nN", first.shape) if len(products) > 1 else first.shape,
        "type": first.type,
        "href": links.page(product_page(first)),
        "cells": list(cells.values()),
        "widths": widths if len(products) > 1 else [],
    }


def instruction(
    survey: Survey, product: Product, links: Links, *, accumulator: str | None = None, lane: int | None = None
) -> dict[str, Any]:
    """A, B and D where they meet, the forms, and what each source has of each operand."""
    operands = survey.products[product]
    forms = forms_of(product)
    accumulators = list(dict.fromkeys(form.d for form in forms))
    chosen = accumulator or next(iter(accumulators), None)
    if accumulator is not None and accumulator not in accumulators:
        raise LanemapError(f"no accumulator {accumulator} for {product}: there is {', '.join(accumulators) or 'none'}")
    shown = [_best(survey, each) for each in operands if each.role not in ("C", "D") or chosen in (None, each.type)]
    there = [each for each in shown if each.has_rows]
    of = {each.role: each for each in there}
    both = "C" in of and "D" in of and of["C"].same_layout(of["D"])
    drawn = [each for each in there if not (both and each.role == "C") and each.role in ("A", "B", "C", "D", "E")]
    said = said_of(survey, operands)
    return _lanes(product, there, lane, lambda number: links.page(product_page(product, accumulator, number))) | {
        "product": product,
        "title": str(product),
        "forms": [form for form in forms if form.d == chosen] or forms,
        "accumulators": [(each, links.page(product_page(product, each))) for each in accumulators],
        "accumulator": chosen,
        "pictures": drawing.product(tuple(map(drawing.Alike, drawn)), lane) if drawn else [],
        "both": both,
        "operands": [_operand_line(survey, links, key, said) for each in operands for key in survey.operands[each]],
        "sources": [name for name in survey.sources if any(name in there for there in said.values())],
        "missing": [each for each in shown if not each.has_rows],
        "from": sorted({str(each.source) for each in there if each.source != DEFAULT_SOURCE}),
    }


def _lanes(
    of: object, fragments: Sequence[Fragment], lane: int | None, page: Callable[[int], str | None]
) -> dict[str, Any]:
    """The lanes to choose from, each with its page, and what the chosen one holds.

    Raises:
        LanemapError: there is no such lane.
    """
    threads = max((each.threads for each in fragments), default=0)
    if lane is not None and not 0 <= lane < threads:
        raise LanemapError(f"lane {lane} is outside {of}: it goes from 0 to {threads - 1}")
    held = [(each, drawing.held(each, lane)) for each in fragments if each.has_rows] if lane is not None else []
    return {"lane": lane, "lanes": range(min(threads, 32)), "threads": threads, "lane_page": page, "held": held}


def _operand_line(
    survey: Survey, links: Links, key: Key, said: Mapping[Key, Mapping[str, summary.Said]]
) -> dict[str, Any]:
    fragment = survey.shown(key)
    return {
        "key": key,
        "name": key.role,
        "apart": variant(key) if len(survey.operands[operand_of(key)]) > 1 else "",
        "size": size(fragment),
        "fragment": fragment,
        "known": survey.known[key],
        "said": said[key],
        "href": links.page(operand_page(survey, key)),
    }


def variant(key: Key) -> str:
    """What tells a fragment from others of its operand, in words."""
    parts = [f"{key.major} major" if key.major else "", key.qualifiers or ""]
    parts += [f"selector {key.selector}"] if key.selector is not None else []
    return ", ".join(filter(None, parts))


def _best(survey: Survey, operand: Key) -> Fragment:
    """Of several majors the row of A and the column of B; of several sources one with rows."""
    wanted = "col" if operand.role == "B" else "row"
    keys = sorted(survey.operands[operand], key=lambda key: wanted not in (key.major, key.qualifiers))
    return survey.shown(keys[0])


def said_of(survey: Survey, operands: Sequence[Key]) -> dict[Key, dict[str, summary.Said]]:
    """The verdict on what each source has of each fragment of an instruction."""
    keys = [key for each in operands for key in survey.operands[each]]
    shown = {key: survey.shown(key) for key in keys}
    found: dict[Key, dict[str, summary.Said]] = {key: {} for key in keys}
    for source in survey.sources:
        theirs = {key: survey.fragments[key][source] for key in keys if source in survey.fragments[key]}
        for key, words in summary.verdicts(shown, theirs, source).items():
            found[key][source] = words
    return found


def operand(
    survey: Survey, database: Database, key: Key, links: Links, *, source: str | None = None, lane: int | None = None
) -> dict[str, Any]:
    """Matrix and register file, the formula, the sources, the notations, and where values come from and go to."""
    fragment = survey.shown(key, source)
    product = next(each for each, operands in survey.products.items() if operand_of(key) in operands)
    said = said_of(survey, survey.products[product])[key]
    rows = fragment.has_rows
    return _lanes(fragment, [fragment], lane, lambda number: links.page(operand_page(survey, key, source, number))) | {
        "key": key,
        "product": product,
        "product_page": links.page(product_page(product)),
        "title": str(key),
        "fragment": fragment,
        "size": size(fragment),
        "known": survey.known[key],
        "variants": [
            (variant(each), links.page(operand_page(survey, each)), each == key)
            for each in survey.operands[operand_of(key)]
        ],
        "matrices": drawing.matrix(drawing.Alike(fragment), lane) if rows else [],
        "registers": drawing.register_file(drawing.Alike(fragment), lane) if rows else "",
        "said": [
            {
                "source": name,
                "said": said[name],
                "fragment": survey.fragments[key][name],
                "href": links.page(operand_page(survey, key, name)),
                "diff": None
                if not rows or name == fragment.source or said[name].verdict in ("identical", "rows")
                else links("compare", left=name, right=fragment.source, shape=key.shape, type=key.type, role=key.role),
            }
            for name in survey.sources
            if name in said
        ],
        "notations": _notations(fragment) if rows else [],
        "recipes": _recipes(database, fragment) if rows else [],
        "feeds": _feeds(survey, fragment, links) if rows and key.role == "D" else [],
    }


def _notations(fragment: Fragment) -> list[dict[str, Any]]:
    """The fragment in each notation, or why it is not in one."""
    found = []
    mine = identifier(fragment)
    stands = "lanemap_".ljust(len(mine), "x")  # as long, because texts are aligned
    names = {stands: mine, stands.upper(): mine.upper(), _NAME: str(fragment)}
    for entry in NOTATIONS.values():
        # A notation of Triton's also names the instruction's shape.
        alike = drawing.Alike(fragment, fragment.source, fragment.shape if entry.name == "triton" else None)
        text, reason = _notation(entry.name, alike, stands)
        for general, own in names.items():
            text, reason = text.replace(general, own), reason.replace(general, own)
        found.append({"entry": entry, "text": text, "reason": reason})
    return found


#: What stands for the name of a fragment in texts that fragments of the same layout share.
_NAME = "(fragment)"


@lru_cache(4096)
def _notation(name: str, alike: drawing.Alike, identifier: str) -> tuple[str, str]:
    """The text, or the reason why there is none. A picture of many elements is not shown as text."""
    fragment = alike.fragment
    if name == "tikz" and len(fragment.records()) > _ELEMENTS:
        return "", ""
    try:
        text = express(notation(name), fragment, identifier)
    except RefusedError as error:
        return "", str(error).replace(str(fragment), _NAME)
    return (text, "") if len(text) <= _TEXT else ("", "")


def _recipes(database: Database, fragment: Fragment) -> list[str]:
    """How ldmatrix loads an operand from a tile in shared memory, or how stmatrix stores a D there, for both majors."""
    if fragment.role not in ("A", "B", "C", "D") or fragment.instruction == "movmatrix":
        return []
    if len(fragment.records()) > _ELEMENTS:
        return []
    alike = drawing.Alike(fragment, fragment.source)
    return [_recipe(database, alike, major).replace(_NAME, str(fragment)) for major in MAJORS]


@lru_cache(1024)
def _recipe(database: Database, alike: drawing.Alike, major: str) -> str:
    """The recipe in words, or why there is none."""
    fragment = alike.fragment
    move = "stmatrix" if fragment.role == "D" else "ldmatrix"
    try:
        moves = pairs(database.reader, Query("m8n8", "b16", "r", move, source=DEFAULT_SOURCE))
        text = str(recipe(moves, fragment, major))
    except LanemapError as error:
        text = str(error)
    return text.replace(str(fragment), _NAME)


def _feeds(survey: Survey, fragment: Fragment, links: Links) -> list[dict[str, Any]]:
    """The operands that tiles of a D make without a value moving to another lane; those of one layout together."""

    def can_be_fed(key: Key) -> bool:
        taken = survey.shown(key)
        alike = taken.has_rows and taken.threads == fragment.threads and not taken.windowed
        return alike and key.role in ("A", "B")

    keys = filter(can_be_fed, survey.fragments)
    alike = grouped(keys, lambda key: drawing.Alike(survey.shown(key), key.instruction))
    return [
        {
            "role": keys[0].role,
            "instruction": keys[0].instruction,
            "size": size(each.fragment),
            "transposed": transposed,
            "operands": [(_told_apart(survey, key), links.page(operand_page(survey, key))) for key in keys],
        }
        for each, keys in alike.items()
        for transposed in (False, True)
        if _stays(drawing.Alike(fragment), each, transposed)
    ]


def _told_apart(survey: Survey, key: Key) -> str:
    several = len(survey.operands[operand_of(key)]) > 1
    return f"{key.shape} {key.type}" + (f" {variant(key)}" if several else "")


@lru_cache(1 << 16)
def _stays(first: drawing.Alike, second: drawing.Alike, transposed: bool) -> bool:
    try:
        return chain(first.fragment, second.fragment, transposed=transposed).movement is Movement.NONE
    except LanemapError:
        return False


def report(title: str, html: str) -> dict[str, Any]:
    """A report that is made already, and escaped."""
    return {"title": title, "report": Markup(html)}  # noqa: S704 - by db.report.html


def sql(query: str, rows: Sequence[Mapping[str, Any]] | None, refused: str, links: Links) -> dict[str, Any]:
    """A query and its result, with examples."""
    return {
        "title": "SQL",
        "query": query,
        "rows": None if rows is None else Rows(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows]),
        "refused": refused,
        "examples": [(words, links("sql", query=each), each) for words, each in EXAMPLES.items()],
        "downloads": [
            (form, f"/api/sql?{urlencode({'query': query, 'format': form})}")
            for form in ("csv", "json", "parquet", "arrow")
        ],
    }


def defects(survey: Survey, links: Links) -> dict[str, Any]:
    """Every listed error in a document, and what was found in released libraries."""
    errata = []
    for key, there in survey.fragments.items():
        errata += [
            {"name": str(key), "href": links.page(operand_page(survey, key)), "fragment": each}
            for each in there.values()
            if each.erratum or (each.slip and each.source == DEFAULT_SOURCE)
        ]
    page = MarkdownIt("js-default").enable("table").render((_ROOT / "DEFECTS.md").read_text("utf-8"))
    libraries = Markup(page.partition("</h1>")[2])  # noqa: S704 - HTML in it is escaped
    return {"title": "Defects", "errata": errata, "libraries": libraries}


def fleet(found: Fleet, survey: Survey, links: Links) -> dict[str, Any]:
    """What became of each form in each capture, and where captures differ. Forms that fared alike stand together."""
    alike = grouped(found.forms, lambda form: tuple(each.forms.get(form) for each in found.captures))
    differ = [
        {"name": str(each.key), "href": links.page(operand_page(survey, each.key)), "groups": each.groups}
        for each in found.disagreements
        if each.key in survey.fragments
    ]
    return {"title": "Fleet", "captures": found.captures, "alike": alike, "differ": differ}


def api(description: Mapping[str, Any]) -> dict[str, Any]:
    """Every route of an OpenAPI description, with its parameters, those first that it needs."""
    routes = []
    for path, methods in description["paths"].items():
        for method, said in methods.items():
            parameters = [
                (each["name"], "needed" if each["required"] else each["schema"].get("default"), each.get("description"))
                for each in sorted(said.get("parameters", []), key=lambda each: not each["required"])
            ]
            body = " or ".join(said.get("requestBody", {}).get("content", {}))
            words = {"path": path, "method": method.upper(), "words": said["description"], "body": body}
            routes.append(words | {"parameters": [[_shown(each) for each in row] for row in parameters]})
    return {"title": "API", "routes": routes}


def _shown(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def sources(survey: Survey) -> dict[str, Any]:
    """Every source with its provenance."""
    found = []
    for record in survey.sources.values():
        source = Source(record["name"], record["kind"], record["title"], (), json.loads(record["provenance"] or "{}"))
        facts = [(name, value) for name, value in provenance(source) if name not in ("source", "kind", "title")]
        found.append({**record, "facts": facts})
    return {"title": "Sources", "sources": found}
