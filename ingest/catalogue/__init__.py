"""The catalogue: what a document says of each fragment, one TOML file per section, as the sources it amounts to.

A folder is a document and its name is the name of the source. ``document.toml`` says which document it is; every
other file is a section or what was added to one, named by the end of its anchor, which is stable while section numbers
drift. A later version has files for what it changed and added. All else is ``as_in`` the version that its
``document.toml`` names, where ``sections`` maps the first parts of its section numbers to those of the later one, and
``figures`` says how many new ones were put before a number. A section that is gone has a file with ``fragment = []``.

Or it is what a release of a library has, said in formulas of Lanemap's own: ``library.toml`` names the release and the
headers that say it, and ``origin`` in every other file which one does. A section has
``section``, ``anchor``, ``instruction``, ``shape`` and ``[[fragment]]`` entries; an entry has

- ``roles`` and ``types`` that share the layout; ``major`` or ``qualifiers`` where there are several, of which ``{0,2}``
  stands for either number;
- ``shape`` where it is not the section's, or ``shapes`` by instruction where the section is about several, and ``n``,
  ranges of the values (first, last, step) of an N in its name;
- ``first_bit``, by type, where a slot is wider than an element: the lowest bit that an element has of it;
- ``registers`` per lane, and ``slots`` per register: wider slots than the type are containers. Where they depend on N
  or on the number of matrices, the table of instructions has them;
- ``layouts`` of operands in shared memory, by qualifiers, for all entries of a section: canonical layouts in CuTe's
  notation, or of what tensor maps write, tables of the units of each line of 128 bytes. One by which two elements would
  lie in one place leaves open where they do, and of a box that no mode has room for there is none. An example of one
  is the ``formula`` of an entry, with numbers for all letters;
- ``lanes``, how many of them give something for each matrix where not all do;
- ``formula`` as printed, in PTX's notation, with ``mended`` saying what kept it from being read, or that the document
  has it in words; or ``same_as``, the file whose fragment of the same role and type it refers to; or neither, where
  it is figure-only, or without ``figures`` says nothing; ``as_in`` is the section of another document that
  it was taken from;
- ``figures`` by number, with their anchors;
- ``erratum``, where the printed formula is wrong: the corrected ``formula``, the ``reason`` and the ``evidence``. It is
  stated once: each later version has it that prints the same formula.

A formula for ``computation`` says which matrix an element is of, where an instruction moves several, and one for
``supplied`` which elements there are, where not all slots of all lanes are used. It can use the numbers of its
qualifiers by name, and M, N and K.
"""

import json
import re
import tomllib
from collections import Counter, UserDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import (
    AXES,
    Key,
    box,
    computation,
    computations,
    dimensions,
    fold,
    in_tensor_memory,
    majors,
    operand,
    selectors,
    threads,
    tile,
)
from ...db.layout.formula import evaluate_at, parse, value_at
from ...db.layout.fragment import IMPOSSIBLE, Citation, Fragment, Packed, Source, elements, first_columns, merge, packed
from ...db.layout.shared import shared, stated, tabled
from ...db.lookup import documents, in_order
from ...db.store.files import folder_atomically
from .. import folders

Section = dict[str, Any]
Entry = dict[str, Any]


def document(name: str) -> Source:
    """The source of a document, with the elements of every formula: ``NAME+errata`` is the corrected one.

    That of a library has what is figure-only in documents: it is an import that needs no headers.

    Raises:
        LanemapError: sections contradict each other: neither may silently win.
    """
    printed = name.removesuffix("+errata")
    corrected = name != printed
    imported = _read(printed).get("library")
    about = imported or {key: fact for key, fact in _read(printed)["document"].items() if key not in _AS_IN}
    how = "" if imported else ", corrected where proved wrong" if corrected else ", as printed"
    # Where sections state a fragment again, as those of accumulators, the first names the others.
    described = _printed(printed)
    if corrected:
        stated = [
            fragment(*again, corrected=True) if "erratum" in again[2] or "same_as" in again[2] else one
            for again, one in described
        ]
    else:  # what is wrong contradicts other sections: to the letter, it is what the document says
        wrong = {key for (_, _, entry, key), _ in described if "erratum" in entry}
        stated = [one for (_, _, entry, key), one in described if "erratum" in entry or key not in wrong]
    distinct, repeated = merge(stated)
    also: dict[Key, list[str]] = {}
    for first, second in repeated:
        if not first.same_layout(second):
            raise LanemapError(f"sections {first.citation.section} and {second.citation.section} disagree on {second}")
        if first.citation.section != second.citation.section:
            also.setdefault(first.key, []).append(str(second.citation.section))
    fragments = [
        replace(one, citation=one.citation._replace(also=", ".join(also[one.key]))) if one.key in also else one
        for one in distinct
    ]
    title = f"{about['title']} {about['version']}{how}"
    return Source(name, "import" if imported else "document", title, fragments, about)


@lru_cache(1)  # a document and then its corrected form
def _printed(name: str) -> list[tuple[tuple[dict[str, Section], Section, Entry, Key], Fragment]]:
    """Every fragment that the sections of a document describe, as printed, with what describes it."""
    sections = {file: sheet for file, sheet in _read(name).items() if file not in ("document", "library")}
    described = [*_described(sections)]
    families = _families(described)
    members = {key for family in families.values() for key in family}
    return [
        ((sections, section, entry, key), fragment(sections, section, entry, key, families.get(key, ())))
        for section, entry, key in described
        if key not in members
    ]


def _families(described: Sequence[tuple[Section, Entry, Key]]) -> dict[Key, list[Key]]:
    """Those fragments whose elements are the first of that of the largest N, by the key of that.

    One that another section states, too, is no member: it may say something else.
    """
    families = defaultdict[Key, list[Key]](list)
    stated = Counter(map(itemgetter(2), described))
    for section, entry, key in described:
        largest = _largest(section, entry, key)
        if key != largest and stated[key] == 1:
            families[largest].append(key)
    return families


def _largest(section: Section, entry: Entry, key: Key) -> Key:
    """The key of which this one has the first columns: with the largest N for an operand in memory.

    That of B has the last M, too, which it does not count.
    """
    if "n" not in entry or not ((tile(key) and "layouts" in section) or in_tensor_memory(key)) or fold(key) > 1:
        return key
    shapes = entry["shapes"][key.instruction].split()
    shape = shapes[-1] if key.role == "B" else re.sub(r"n\d+", "nN", key.shape)
    return key._replace(shape=shape.replace("N", str(entry["n"][-1][1])))


@cache
def sheets() -> dict[str, dict[str, Section]]:
    """The sections of every document of the catalogue by the name of their file, by the name of the document."""
    read = {name: _read(name) for name in folders("document")}
    return {name: {key: sections[key] for key in sections if key != "document"} for name, sections in read.items()}


@cache
def _read(name: str) -> dict[str, Section]:
    """The files of a document by name, without their ending, with those of an earlier version that it does not have."""
    folder = sorted((files(__package__) / name).iterdir(), key=lambda file: file.name)
    written = (file for file in folder if file.name.endswith(".toml"))
    own = {file.name.removesuffix(".toml"): tomllib.loads(file.read_text("utf-8")) for file in written}
    document = own.get("document", {})
    if "as_in" not in document:
        return own
    earlier = {file: sheet for file, sheet in _read(document["as_in"]).items() if file != "document"}
    for file in own.keys() & earlier.keys():
        for entry, other in product(own[file]["fragment"], earlier[file]["fragment"]):
            same = all({*entry[named]} <= {*other[named]} for named in ("roles", "types"))
            if same and "erratum" in other and entry.get("formula") == other["formula"]:
                entry["erratum"] = other["erratum"]
    return {file: _renumbered(sheet, document) for file, sheet in earlier.items()} | own


def _renumbered(section: Section, document: Section) -> Section:
    """A section of an earlier version, with the numbers that a later one gives it and its figures."""
    sections, figures, number = document.get("sections", {}), document.get("figures", {}), section["section"]
    first = max((first for first in sections if f"{number}.".startswith(f"{first}.")), key=len, default="")

    def figure(number: str) -> str:
        return str(int(number) + sum(new for first, new in figures.items() if int(first) <= int(number)))

    fragments = [
        entry | {"figures": {figure(number): anchor for number, anchor in entry["figures"].items()}}
        if "figures" in entry
        else entry
        for entry in section["fragment"]
    ]
    return section | {"section": sections.get(first, "") + number.removeprefix(first), "fragment": fragments}


def _described(sections: dict[str, Section]) -> Iterator[tuple[Section, Entry, Key]]:
    """Every fragment that sections describe, in the order of their numbers."""

    def number(section: Section) -> list[int]:
        return [int(part) for part in section.get("section", "").split(".") if part]

    for section in sorted(sections.values(), key=number):
        for entry in section["fragment"]:
            for key in keys(section, entry):
                yield section, entry, key


def keys(section: Section, entry: Entry) -> Iterator[Key]:
    """What names each fragment that an entry describes, but for the major."""
    named = entry.get("shapes", {section["instruction"]: (section | entry)["shape"]}).items()
    widths = [n for first, last, step in entry.get("n", []) for n in range(first, last + 1, step)]
    every = [(name, shape) for name, shapes in named for shape in shapes.split()]
    shapes = [(name, shape.replace("N", str(n))) for name, shape in every for n in widths] or every
    qualifiers: list[str | None] = [name for pattern in entry.get("qualifiers", []) for name in _expanded(pattern)]
    for (instruction, shape), role, type_, qualified in product(
        shapes, entry["roles"], entry["types"], qualifiers or [None]
    ):
        for selector in (role == "E" and selectors(instruction, shape, type_)) or [None]:
            key = Key(instruction, shape, type_, role, None, selector, qualified)
            if (of := box(key)) is None or of.fits:
                yield key


def _expanded(pattern: str) -> Iterator[str]:
    """Every text that a pattern stands for.

    >>> list(_expanded("byte_id::{0,2}.thread_id::1"))
    ['byte_id::0.thread_id::1', 'byte_id::2.thread_id::1']
    """
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    return map("".join, product(*parts))


def fragment(
    sections: dict[str, Section],
    section: Section,
    entry: Entry,
    key: Key,
    members: Sequence[Key] = (),
    *,
    corrected: bool = False,
) -> Fragment:
    """The fragment that an entry of a section describes for one of its keys, with its elements and its members.

    Raises:
        LanemapError: its formula does not say where every element goes, or it refers to what is not there.
    """
    same_as, stated = _referred(sections, entry, key)
    erratum = stated.get("erratum", {}) if corrected else {}
    layout = None if "formula" in stated else section.get("layouts", {}).get(key.qualifiers)
    formula = erratum.get("formula", stated.get("formula", layout))
    numbers = ""
    if formula and not layout and not tile(key):
        named = [*_NUMBERED.findall(key.qualifiers or ""), *((axis.upper(), n) for axis, n in AXES.findall(key.shape))]
        numbers = "".join(f"{name} = {n}\n" for name, n in named if name in _words(formula))
        formula = formula.strip()
    sizes = stated if "registers" in stated else vars(operand(key))
    figures = stated.get("figures", {}).items()
    cited = Citation(
        section=section.get("section"),
        anchor=section.get("anchor"),
        same_as=same_as.get("section") if same_as else stated.get("as_in"),
        figures=", ".join(f"{number} #{anchor}".rstrip(" #") for number, anchor in figures) or None,
        formula=formula and numbers + formula,
        mended=None if erratum else stated.get("mended"),
        erratum=erratum.get("reason"),
        evidence=erratum.get("evidence", section.get("evidence") if layout else None),
        origin=section.get("origin"),
    )
    whole, first_bit = _whole(stated, key), stated.get("first_bit", {}).get(key.type)
    status = "imported" if cited.origin else "documented" if formula else "figure-only" if figures else "unstated"
    registers, slots = sizes["registers"], sizes["slots"]
    alike = key._replace(type=entry["types"][0])
    cells = None
    if formula is None:
        pass
    elif box(key):
        cells = _written(alike, formula)
    elif tile(key):
        cells = _shared(alike, _largest(section, entry, alike) if layout else alike, formula)
        if cells is None:
            status = "unstated" if layout else IMPOSSIBLE
    else:
        each = computations(*key[:3], key.qualifiers)
        lanes = stated["lanes"] * each if "lanes" in stated else threads(key)
        products = tuple(computation(*key[:3], np.arange(lanes)).tolist())
        try:
            cells = _elements(numbers, formula, _LETTER[key.role], registers, slots, products)
        except LanemapError as error:
            raise LanemapError(f"section {cited.section}, {whole}: {error}") from None
    sizes = {"registers": sizes["registers"], "slots": sizes["slots"], "first_bit": first_bit}
    held = dict(zip((member.shape for member in members), _first(cells, members), strict=True))
    return Fragment.of(whole, cells, status, cited, **sizes, members=held)


@lru_cache(1 << 8)
def _words(formula: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", formula))


def _referred(sections: dict[str, Section], entry: Entry, key: Key) -> tuple[Section | None, Entry]:
    """The section that an entry refers to for a key, if it does, and the entry that states the layout."""
    if "same_as" not in entry:
        return None, entry
    same_as = sections[entry["same_as"]]
    fitting = (row for row in same_as["fragment"] if key.role in row["roles"] and key.type in row["types"])
    if (stated := next(fitting, None)) is None:
        raise LanemapError(f"section {same_as['section']} has no {key.role} of {key.type} to refer to")
    return same_as, stated


def _whole(stated: Entry, key: Key) -> Key:
    """A key with its major."""
    return key._replace(major=stated.get("major", next(iter(majors(*key[:4])), None)))


class Documented(UserDict[Key, Any]):
    """The fragments of the newest document of each vendor, corrected, by key. Each is evaluated when asked for."""

    def __init__(self) -> None:
        super().__init__()
        for name in documents(in_order(dict.fromkeys(sheets(), "document"))).values():
            sections = sheets()[name]
            for section, entry, key in _described(sections):
                _, stated = _referred(sections, entry, key)
                self.data.setdefault(_whole(stated, key), (sections, section, entry, key))

    def __getitem__(self, key: Key) -> Fragment:
        if not isinstance(self.data[key], Fragment):
            self.data[key] = fragment(*self.data[key], corrected=True)
        found: Fragment = self.data[key]
        return found


@cache
def documented() -> Documented:
    """What ``Documented`` has, indexed once."""
    return Documented()


@lru_cache(1 << 14)
def _shared(key: Key, largest: Key, layout: str) -> Packed | None:
    """The elements of an operand in shared memory, the first of the largest one; None where two lie in one place."""
    if key != largest:
        return _first(_shared(largest, largest, layout), [key])[0]
    of = tile(key)
    assert of is not None
    bits = stated(layout, of)
    apart = np.bincount(bits.ravel() // of.step).max() == 1
    return packed(shared(key, bits)) if apart else None


def _first(cells: Packed | None, keys: Sequence[Key]) -> Sequence[Packed | None]:
    """Of the elements of the largest of a family those of its members: their columns are the first ones."""
    counts = [dimensions(key.shape, key.role, key.instruction, key.qualifiers)[1] for key in keys]
    inside = _columns(cells, frozenset(counts)) if cells else {}
    return [inside.get(count) for count in counts]


_columns = lru_cache(1 << 9)(first_columns)


@lru_cache(1 << 9)
def _written(key: Key, table: str) -> Packed:
    """The elements of a box that a tensor map writes."""
    of = box(key)
    assert of is not None
    return packed(shared(key, tabled(table, of)))


@lru_cache(1 << 8)
def _elements(numbers: str, formula: str, letter: str, registers: int, slots: int, products: tuple[int, ...]) -> Packed:
    # Apart, so that a formula is parsed once for all of its numbers.
    parsed = {**(parse(numbers) if numbers else {}), **parse(formula)}
    lane, element = (index.ravel() for index in np.indices((len(products), registers * slots)))
    if "supplied" in parsed:
        supplied = value_at(parsed, "supplied", letter, lane, element) != 0
        lane, element = lane[supplied], element[supplied]
    columns = evaluate_at(parsed, letter, lane, element)._asdict()
    columns |= {"lane": lane, "slot": element, "computation": np.asarray(products)[lane]}
    if "computation" in parsed:
        columns["computation"] = value_at(parsed, "computation", letter, lane, element)
    return packed(elements(columns, slots))


#: How a document has what an earlier version of it has.
_AS_IN = ("as_in", "sections", "figures")
#: The numbers of qualifiers, such as those of ``scale_vec::2X.byte_id::0``.
_NUMBERED = re.compile(r"(\w+)::(\d+)")
_LETTER = {"A": "a", "B": "b", "C": "c", "D": "c", "E": "e", "r": "r", "p": "p", "SFA": "s", "SFB": "s"}


def write(folder: Path, version: str, sheets: Mapping[str, Section]) -> int:
    """Write a document as files of the catalogue, one for each section and one for itself; the number of sections.

    The folder appears whole or not at all, in the place of an older catalogue if there is one.

    Raises:
        LanemapError: the folder cannot be made or written, or holds something else.
    """
    document = {"title": "Parallel Thread Execution ISA", "version": version, "publisher": "NVIDIA"}
    with folder_atomically(folder, "catalogue") as new_folder:
        for name, sheet in {**sheets, "document": document}.items():
            text = "".join(f"{line}\n" for line in _toml(sheet))
            (new_folder / f"{name}.toml").write_bytes(text.encode())
    return len(sheets)


def _toml(table: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table as TOML, its tables of fragments last."""
    for key, value in table.items():
        match key, value:
            case "fragment", _:
                for entry in value:
                    yield from ("", "[[fragment]]", *_toml(entry))
            case "formula", _:
                yield from ("formula = '''", value.strip("\n"), "'''")
            case _, dict():
                yield f"{key} = {{ {', '.join(f'{name} = {json.dumps(inner)}' for name, inner in value.items())} }}"
            case _ if key not in _UNWRITTEN:
                yield f"{key} = {json.dumps(value)}"


#: What only the reader of a document needs.
_UNWRITTEN = ("heading", "line")
