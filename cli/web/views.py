"""What each page says, as a dictionary for its template: the same for the server and for a folder of files.

The parameters of a function are what the address of its page names.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Unpack, cast
from weakref import ref

from anyio.to_thread import run_sync
from fastapi import Depends, Request
from markupsafe import Markup
from starlette.exceptions import HTTPException

from ... import (
    DEFAULT_SOURCE,
    NOTATIONS,
    Chains,
    Database,
    Fragment,
    Key,
    Known,
    LanemapError,
    Product,
    Query,
    Rows,
    Source,
    Survey,
    Tiles,
    refusal,
)
from ...db.render import formulas, notation, report
from ...db.render.facts import selector
from ...db.rows import report as written
from ...db.text import but_for_n, grouped, printable
from ..flow import Along
from ..options import Format
from . import guide, work
from .api import Compared, explained
from .links import Links
from .render import CHOSEN, alike, matrix, product, register_file, server_links
from .work import Opened, Surveyed, remembered

Facts = dict[str, Any]


class Context(NamedTuple):
    """What pages are made of: what is known, the database, and how they link to each other.

    On a server ``work`` calls a function of ``work`` with the database, in a process of its own, and ``address`` and
    ``base`` are the page's own and the server's. No page of a site needs them.
    """

    survey: Survey
    database: Database
    links: Links
    work: Any = None
    address: str = ""
    base: str = ""


def _context(request: Request, survey: Surveyed, database: Opened, working: work.Working) -> Context:
    return Context(survey, database, server_links(survey), working, str(request.url), str(request.base_url))


At = Annotated[Context, Depends(_context)]


def _product(survey: Surveyed, database: Opened, instruction: str, shape: str, type: str) -> Product:
    """The instruction that an address names.

    Raises:
        HTTPException: there is none.
    """
    named = Product(instruction, shape, type)
    if named not in survey.products:
        raise HTTPException(404, not_there(database, *named))
    return named


def _operand(
    survey: Surveyed,
    database: Opened,
    instruction: str,
    shape: str,
    type: str,
    role: str,
    major: str | None = None,
    selector: int | None = None,
    qualifiers: str | None = None,
    source: str | None = None,
) -> tuple[Key, str | None]:
    """The fragment that an address names, the first of an operand where it does not say which, and the source.

    Raises:
        HTTPException: there is none.
    """
    names, apart = (instruction, shape, type, role), {"major": major, "selector": selector, "qualifiers": qualifiers}
    of_operand = survey.operands.get(Key(*names), ())
    alike = (key for key in of_operand if all(value in (None, getattr(key, name)) for name, value in apart.items()))
    if (key := next(alike, None)) is None:
        raise HTTPException(404, not_there(database, *names, **apart))
    if source is None:
        return key, None
    there = {name.lower(): name for name in survey.fragments[key]}
    if source.lower() not in there:
        raise HTTPException(404, f"{source} has no {key}: there is {', '.join(there.values())}")
    return key, there[source.lower()]


@explained
def _tiles(**tiles: Unpack[Tiles]) -> Tiles:
    """A tile of many instructions. A form also sends the fields that are empty."""
    return cast("Tiles", {name: value or None for name, value in tiles.items()})


NamedProduct = Annotated[Product, Depends(_product)]
NamedOperand = Annotated[tuple[Key, str | None], Depends(_operand)]
Tiled = Annotated[Tiles, Depends(_tiles)]


def not_there(database: Database, *names: str, **more: Any) -> str:
    """Why there is no page of these names, in the words of a look-up."""
    instruction, shape, type_, role = (*names, None, None, None, None)[:4]
    try:
        of_vendor = Query.parse(" ".join(filter(None, names)) or "/", **more)
        database.matching(of_vendor if of_vendor.vendor else Query(shape, type_, role, instruction, **more))
    except LanemapError as error:
        return refusal(error)
    return f"there is no page {printable('/'.join(names[:4]))}"


#: A family of more lines, of which the same is known, is folded.
_FEW = 8

#: Longer texts, and those of larger operands, are downloads.
_TEXT, _ELEMENTS = 5000, 4096


def home(at: At) -> Facts:
    """The coverage of each instruction, a line for a shape and type."""
    survey = at.survey
    every = Counter(map(survey.of_operand, survey.operands))

    def known(line: Sequence[Product], operand: Key) -> Known:
        """What is known of an operand of a line, of whose widths some may not have it."""
        every = (operand._replace(shape=product.shape) for product in line)
        return min(map(survey.of_operand, filter(survey.operands.__contains__, every)), key=[*Known].index)

    families = {}
    for name, products in grouped(survey.products, lambda product: product.instruction).items():
        states = {survey.of_operand(operand) for product in products for operand in survey.products[product]}
        lines = but_for_n(products)
        alone = states.pop() if len(states) == 1 and len(lines) > _FEW else None
        families[name] = survey.roles(products), lines, alone
    live = Product("mma", "m16n8k16", "f16")
    return {
        "title": "Fragment layouts of tensor-core instructions",
        "families": families,
        "live": live,
        "known": known,
        "every": every,
    } | (_meeting(survey, live) if live in survey.products else {"pictures": []})


def instruction(
    at: At,
    named: NamedProduct,
    accumulator: str | None = None,
    lane: int | None = None,
    role: str = "D",
    row: int | None = None,
    col: int | None = None,
) -> Facts:
    """A, B and D where they meet, the forms, and what each source has of each operand.

    ``row`` and ``col`` are those of an element of the operand ``role``.
    """
    accumulators, forms = named.accumulators, named.forms
    chosen = accumulator or next(iter(accumulators), None)
    if accumulator is not None and accumulator not in accumulators:
        raise LanemapError(f"no accumulator {accumulator} for {named}: there is {', '.join(accumulators) or 'none'}")
    met = _meeting(survey := at.survey, named, chosen, lane)
    said, static = survey.said(named), at.links.static

    def alike_in_all(key: Key) -> tuple[object, ...]:
        fragment = survey.shown(key)
        its = fragment.type, fragment.dimensions, fragment.registers, fragment.register_bits, fragment.slots
        return key.role, survey.known[key], its, tuple((name, of.verdict) for name, of in said[key].items())

    return met | {
        "said": said,
        "sources": [name for name in survey.sources if any(name in its for its in said.values())],
        "verdicts": {each.verdict for its in said.values() for each in its.values()},
        "operands": grouped(said, alike_in_all).values(),
        "narrower": [each.shape for each, wide in survey.widest_product.items() if wide == named] if static else [],
        "title": str(named),
        "product": named,
        "forms": [form for form in forms if form.d == chosen] or forms,
        "accumulators": accumulators,
        "accumulator": chosen,
        "others": sorted({str(fragment.source) for fragment in met["there"] if fragment.note}),
        "lane_page": lambda number: at.links.of(named, accumulator=accumulator, lane=number),
        **_asked([*filter(lambda each: each.role == role, met["there"]), *met["there"]], lane, row, col),
    }


def _meeting(survey: Survey, named: Product, accumulator: str | None = None, lane: int | None = None) -> Facts:
    """The operands of an instruction with this accumulator, or the first, placed as in a product."""
    operands = survey.products[named]
    chosen = accumulator or next(iter(named.accumulators), None)
    shown = [_best(survey, key) for key in operands if key.role not in ("C", "D") or chosen in (None, key.type)]
    there = [fragment for fragment in shown if fragment.has_rows]
    of = {fragment.role: fragment for fragment in there}
    both = "C" in of and "D" in of and of["C"].same_layout(of["D"])
    drawn = []
    for fragment in there:
        if fragment.role in CHOSEN:
            every = map(survey.shown, survey.operands[fragment.key.operand])
            drawn += [fragment, *(other for other in every if other.has_rows and other.key != fragment.key)]
        elif fragment.role in _DRAWN and fragment is of[fragment.role] and not (fragment.role == "C" and both):
            drawn.append(fragment)
    by_role = grouped(drawn, lambda fragment: fragment.role)
    like = tuple((alike(fragment), fragment.qualifiers) for fragment in drawn)
    return {
        "pictures": remembered(product, (like, lane), drawn, lane) if drawn else [],
        "choices": {role: _apart(fragments) for role, fragments in by_role.items() if len(fragments) > 1},
        "both": both,
        "moved": of.get("r"),
        "missing": [fragment for fragment in shown if not fragment.has_rows],
        "there": there,
    }


def _apart(fragments: Sequence[Fragment]) -> tuple[str, list[str]]:
    """By what the fragments of an operand are told apart, and what each of them has of it."""
    each = ((one.type, selector(one).replace(" ", "::"), *(one.qualifiers or "").split(".")) for one in fragments)
    names = [*each]
    common = set.intersection(*map(set, names))
    apart = [[part.rpartition("::") for part in name if part not in common] for name in names]
    by = dict.fromkeys(what for parts in apart for what, *_ in parts if what)
    return ", ".join(by), [", ".join(value for *_, value in parts) for parts in apart]


_DRAWN = ("A", "B", "C", "D", "r")


def _asked(fragments: Sequence[Fragment], lane: int | None, row: int | None, col: int | None) -> Facts:
    """The lane, which some fragment has, and the element, which is of the first.

    Raises:
        LanemapError: one of them is outside; says what range there is.
    """
    for fragment in fragments[:1]:
        counts = max(each.threads for each in fragments), *fragment.dimensions
        for name, value, count in zip(("lane", "row", "col"), (lane, row, col), counts, strict=True):
            if value is not None and not 0 <= value < count:
                raise LanemapError(f"{name} {value} is outside {fragment}: it goes from 0 to {count - 1}")
    return {"lane": lane, "element": fragments and None not in (row, col) and (fragments[0], row, col)}


def _best(survey: Survey, operand: Key) -> Fragment:
    """Of several majors the row of A and the column of B; of several sources one with rows."""
    wanted = "col" if operand.role == "B" else "row"
    return survey.shown(min(survey.operands[operand], key=lambda key: wanted not in (key.major, key.qualifiers)))


def operand(
    at: At,
    named: NamedOperand,
    tiles: Tiled,
    lane: int | None = None,
    row: int | None = None,
    col: int | None = None,
) -> Facts:
    """Matrix and register file, the formula, the sources, the notations, and where values come from and go to.

    Of a tile of many instructions it is the operand of the tile.
    """
    (key, source), survey, links = named, at.survey, at.links
    atom = survey.shown(key, source)
    fragment = atom.tiled(**tiles)
    rows = fragment.has_rows
    like = alike(fragment)
    drawn = remembered(matrix, (like, fragment.qualifiers, lane), fragment, lane) if rows else []
    said = "" if fragment.tiling else fragment.citation.formula
    there = said or "\n".join(remembered(formulas.in_cases, like, fragment))
    back = "\n".join(remembered(formulas.to_slot, like, fragment))
    return {
        "title": str(fragment),
        "key": key,
        "tiles": tiles,
        "product": survey.product_of[key.operand],
        "fragment": fragment,
        "matrices": drawn,
        "registers": remembered(register_file, (like, lane), fragment, lane) if rows else "",
        "represented": _represented(survey, key) if links.static else ([], []),
        "variants": {links.of(each): each for each in survey.operands[key.operand]},
        "notations": remembered(_notations, (like, key, fragment.source), fragment) if rows else [],
        "reductions": remembered(_reductions, (like, fragment.vendor), fragment) if rows else [],
        "formulas": [*filter(None, (there, back))],
        "recipes": remembered(_recipes, (alike(atom), key, fragment.source), at.database, atom) if rows else [],
        "feeds": remembered(_feeds, (ref(survey), alike(atom)), survey, atom) if rows and key.role == "D" else [],
        "address": at.address,
        "preview": at.base + links.picture(key, source, "png")[1:] if at.base and drawn else "",
        "source": source,
        "lane_page": lambda number: links.of(key, source=source, lane=number, **tiles),
        **_asked([fragment], lane, row, col),
    }


def _represented(survey: Survey, key: Key) -> tuple[list[str], list[str]]:
    """What is said on the page of an operand in a site besides it: what has all of its columns, and the first ones."""
    alike: list[str] = []
    narrower: list[str] = []
    for each in survey.representing.get(key, ()):
        whole = survey.shown(each).dimensions == survey.shown(key).dimensions
        if each.type != key.type:
            alike += [each.type] if whole and each.type not in alike else []
        else:
            (alike if whole else narrower).append(each.shape if each.shape != key.shape else each.qualifiers or "")
    return alike, narrower


def _notations(fragment: Fragment) -> list[dict[str, Any]]:
    """The fragment in each notation, or why it is not in one."""
    exports = []
    for name, entry in NOTATIONS.items():
        text = reason = ""
        try:
            written = notation.express(name, fragment)
            text = written if len(written) <= _TEXT else ""
        except LanemapError as error:
            reason = str(error)
        exports.append({"name": name, "audience": entry.audience, "text": text, "reason": reason})
    return exports


def _reductions(fragment: Fragment) -> list[str]:
    """How lanes reduce its rows and its columns, where they hold it; its name and source are on the page already."""
    texts = []
    for along in () if fragment.tile else Along:
        with suppress(LanemapError):
            found = fragment.reduced(along)
            texts.append(written([f"each {found.word}: {found.verdict}", *found.details()]))
    return [text for text in texts if len(text) <= _TEXT]


def _recipes(database: Database, fragment: Fragment) -> list[str]:
    """How ldmatrix loads an operand from a tile in shared memory, or how stmatrix stores a D there, for both majors."""
    movable = fragment.role in ("A", "B", "C", "D") and fragment.instruction != "movmatrix"
    movable &= fragment.vendor in ("", "nvidia") and not fragment.memory
    if not movable or len(fragment.table) > _ELEMENTS:
        return []
    recipes = []
    for major in ("row", "col"):
        try:
            recipes.append(str(database.move(fragment, major)))
        except LanemapError as error:
            recipes.append(refusal(error))
    return recipes


def _feeds(survey: Survey, first: Fragment) -> list[tuple[list[Key], bool]]:
    """The operands that tiles of a D make without a value moving to another lane, as it stands and transposed.

    Those of one layout are together.
    """
    fed = {keys[0]: keys for keys in remembered(_fed, (ref(survey), first.threads), survey, first.threads)}
    with suppress(LanemapError):  # a D with windows of columns feeds nothing
        chains = Chains.of(first, map(survey.shown, fed))
        return [(fed[entry.second.key], entry.transposed) for entry in chains if not entry.moves_values]
    return []


def _fed(survey: Survey, threads: int) -> list[list[Key]]:
    """The operands A and B that so many threads hold, those of one layout together."""

    def can_be_fed(key: Key) -> bool:
        taken = survey.shown(key)
        return taken.has_rows and taken.threads == threads and not taken.windowed and key.role in ("A", "B")

    keys = filter(can_be_fed, survey.fragments)
    return [*grouped(keys, lambda key: alike(survey.shown(key), key.instruction)).values()]


def check(at: At) -> Facts:
    """The cross-check of everything."""
    check, made = at.survey.check, "<h1>Check</h1><p>There are no two sources to compare.</p>"
    if check:
        made = remembered(report.contents, ref(at.survey), check)
    return {"title": "Check", "report": Markup(made)}  # noqa: S704 - escaped where it was made


async def _answered(at: Context, function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """What a function of ``work`` gives, and why it is empty."""
    try:
        return await at.work(function, *args, **kwargs), ""
    except LanemapError as error:
        return "", refusal(error)


async def compare(at: At, only: Compared, left: str | None = None, right: str | None = None) -> Facts:
    """A source, or a dropped file, and another source or the best evidence."""
    report, right = "", right or DEFAULT_SOURCE
    refused = "Only a file claims tiles: drop one here, or choose it." if only["tile"] else ""
    if left:
        report, refused = await _answered(at, work.diff, "page", left, right, only)
    chosen = {"left": left, "right": right, "rights": [DEFAULT_SOURCE, *at.survey.sources], "which": only}
    made = Markup(report)  # noqa: S704 - escaped where it was made
    return {"title": "Compare", "report": made, "refused": refused, **chosen}


async def chains(
    at: At,
    tiles: Tiled,
    first: str = "",
    second: str = "",
    major: str = "",
    through: str = "",
    vendor: str = "",
    transpose: bool = False,
    relabel: bool = False,
) -> Facts:
    """How one operand becomes another, or is loaded or stored, with the layouts of both; or what one can become.

    With a tile of many instructions both are of that.
    """
    first, second = (first, second) if first.strip() else (second, "")
    named = {"second": second.strip(), "major": major, "through": through, "vendor": vendor}
    # A form also sends the fields that are empty.
    asked: Facts = {name: value or None for name, value in named.items()}
    asked |= {**tiles, "first": first, "transpose": transpose, "relabel": relabel}
    facts: Facts = {"title": "Chain", "verdict": "", "refused": "", "described": tiles, **asked}
    if not first.strip():
        return facts
    answer, refused = await _answered(at, work.shown, **asked)
    if refused:
        return facts | {"refused": refused}
    ends, shown = answer
    # An element of D is at the same row and column of what is made of it, or the other way about.
    axes = ("MN", "NM" if transpose else "MN")
    pictures = []
    for (named, its, tiled), axis in zip(ends, axes, strict=False):
        # An end that is alike in both majors stands for the first of them.
        key, source = _operand(at.survey, at.database, **named._asdict(), source=its)
        end = at.survey.shown(key, source)
        end = end.tiled(**tiles) if tiled else end
        pictures.append((key, await run_sync(remembered, matrix, (alike(end), end.qualifiers, axis), end, None, axis)))
    return {**facts, **shown, "pictures": pictures, "parameters": asked}


async def descriptor(at: At, operand: str = "", tile: str = "", decode: str = "") -> Facts:
    """Which descriptor reads a tile in shared memory, or what one reads of it."""
    given = {"operand": operand.strip(), "tile": tile.strip() or None, "decode": decode.strip() or None}
    answer, refused = await _answered(at, work.descriptor, Format.JSON, **given) if given["operand"] else ("", "")
    return {"title": "Descriptor", "given": given, "answer": answer and json.loads(answer), "refused": refused}


#: What the page of a trace has fields for, and what the kernels of the guide are given.
_GIVEN = {"kernel": "", "arguments": "", "product": "", "block": "32", "grid": "1", "shared": "0", "entry": ""}
_EXAMPLE = {
    "arguments": "A=f16[16,16]\nB=f16[8,16]\nC=f32[16,8]",
    "product": "C[m,n] = A[m,k] B[n,k]",
    "block": "64",
}


def trace(at: At, example: str = "exchanged") -> Facts:  # noqa: ARG001 - a page
    """A form for a kernel, at first with one of the guide."""
    kernels = guide.kernels()
    if example not in kernels:
        raise LanemapError(f"no example {example}: there is {', '.join(kernels)}", "example")
    return _traced(_GIVEN | _EXAMPLE | {"kernel": kernels[example]}, example=example)


def _traced(given: Mapping[str, str], report: str = "", refused: str = "", example: str = "") -> Facts:
    made = Markup(report)  # noqa: S704 - escaped where it was made
    facts = {"report": made, "refused": refused, "example": example, "examples": [*guide.kernels()], "given": given}
    return {"title": "Trace", "most": work.LARGEST_KERNEL, "seconds": work.KERNEL_SECONDS, **facts}


async def run(at: Context, sent: Mapping[str, str]) -> Facts:
    """The same form as it was sent, with the report of the kernel."""
    given = {name: sent.get(name, usual).replace("\r\n", "\n") for name, usual in _GIVEN.items()}
    if words := work.too_large(given["kernel"]):
        return _traced(given, refused=words)
    report, refused = await _answered(
        at,
        work.trace,
        "page",
        given["kernel"],
        [line for line in given["arguments"].split("\n") if line.strip()],
        product=given["product"].strip() or None,
        block=given["block"],
        grid=given["grid"],
        shared=given["shared"] or 0,
        entry=given["entry"].strip() or None,
    )
    return _traced(given, report, refused)


#: How many rows a page shows.
_ROWS = 500


async def sql(at: At, query: str = "") -> Facts:
    """A query and its result, with examples."""
    rows, answer, refused = None, "", ""
    if query.strip():
        answer, refused = await _answered(at, work.sql, Format.JSON, query, work.SECONDS / 2, _ROWS)
    if answer:
        records = json.loads(answer)
        rows = Rows(tuple(records[0]) if records else (), [tuple(row.values()) for row in records])
    shown = {"query": query, "rows": rows, "refused": refused}
    return {"title": "SQL", "limit": _ROWS, "seconds": work.SECONDS / 2, **shown}


def defects(at: At) -> Facts:
    """Every listed error in a document, and what was found in released libraries."""
    every = [fragment for there in at.survey.fragments.values() for fragment in there.values()]
    cited = [(fragment, fragment.citation) for fragment in every]
    first = at.survey.documents
    errata = [fragment for fragment, its in cited if its.erratum or (its.slip and fragment.source in first)]
    _, _, libraries = guide.content((_ROOT / "DEFECTS.md").read_text("utf-8"), at.links).partition("</h1>")
    return {"title": "Defects", "errata": errata, "libraries": libraries}


_ROOT = Path(__file__).parents[2]


def guide_index(at: At) -> Facts:  # noqa: ARG001 - as every page
    """The pages of the guide."""
    return {"title": "Guide", "pages": guide.guide(), "content": None}


def guide_page(at: At, name: str) -> Facts:
    """A page of the guide, with the others beside it."""
    if name not in guide.guide():
        raise HTTPException(404, f"the guide has no page {printable(name)}: it has {', '.join(guide.guide())}")
    shown = guide.guide()[name]
    return guide_index(at) | {"title": shown.title, "content": partial(guide.content, shown.text)}


def fleet(at: At) -> Facts:
    """What became of each form in each capture, and where captures differ. Forms that fared alike stand together."""
    fleet = at.database.fleet()
    alike = grouped(fleet.forms, lambda form: tuple(capture.forms.get(form) for capture in fleet.captures))
    differ = [disagreement for disagreement in fleet.disagreements if disagreement.key in at.survey.fragments]
    return {"title": "Fleet", "captures": fleet.captures, "alike": alike, "differ": differ}


def api(at: At, request: Request) -> Facts:  # noqa: ARG001
    """Every route of the OpenAPI description, with its parameters, those first that it needs."""
    return {"title": "API", "paths": request.app.openapi()["paths"]}


def sources(at: At) -> Facts:
    """Every source with its provenance."""
    listed = []
    for record in at.survey.sources.values():
        source = Source(record["name"], record["kind"], record["title"], (), json.loads(record["provenance"] or "{}"))
        facts = [(name, value) for name, value in report.provenance(source) if name not in ("source", "kind", "title")]
        listed.append({**record, "facts": facts})
    return {"title": "Sources", "sources": listed}
