"""The catalogue: what a document says of each fragment, one TOML file per section, as the sources it amounts to.

A folder is a document and its name is the name of the source. ``document.toml`` says which document it is; every
other file is a section, named by the end of its anchor, which is stable while section numbers drift. A section has
``section``, ``anchor``, ``instruction``, ``shape`` and ``[[fragment]]`` entries; an entry has

- ``roles`` and ``types`` that share the layout, and ``major`` or ``selectors`` where there are several;
- ``registers`` per lane, and ``slots`` per register: wider slots than the type are containers;
- ``formula`` as printed, in PTX's notation, with ``mended`` saying what kept it from being read; or ``same_as``,
  the file whose fragment of the same role and type it refers to; or neither, where the document only draws it;
- ``figures`` by number, with their anchors;
- ``erratum``, where the printed formula is wrong: the corrected ``formula``, the ``reason`` and the ``evidence``.

``computations`` lists, for m8n8k4 with f16, the lanes of each of the four products.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...db.errors import LanemapError
from ...db.formula import evaluate, parse
from ...db.fragment import Fragment, Source, by_rule, merge
from ...db.instructions import WARP, Key

Section = dict[str, Any]
Entry = dict[str, Any]


def load() -> list[Source]:
    """Every document of the catalogue twice: as printed, and with its errata (``NAME+errata``)."""
    return [source for folder in _documents() for source in _sources(folder.name, _read(folder))]


def names() -> list[str]:
    """The names of the sources that ``load`` gives."""
    return [name for folder in _documents() for name in (folder.name, f"{folder.name}+errata")]


@cache
def sheets() -> dict[str, dict[str, Section]]:
    """The sections of every document of the catalogue by the name of their file, by the name of the document."""
    read = {folder.name: _read(folder) for folder in _documents()}
    return {name: {key: sections[key] for key in sections if key != "document"} for name, sections in read.items()}


def _documents() -> list[Traversable]:
    folders = (folder for folder in files(__package__).iterdir() if (folder / "document.toml").is_file())
    return sorted(folders, key=lambda folder: folder.name)


def _files(folder: Traversable) -> list[Traversable]:
    return sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)


def _read(folder: Traversable) -> dict[str, Section]:
    """The files of a document by name, without their ending."""
    return {file.name.removesuffix(".toml"): tomllib.loads(file.read_text("utf-8")) for file in _files(folder)}


def _sources(name: str, sections: dict[str, Section]) -> Iterator[Source]:
    document = sections.pop("document")
    title = f"{document['title']} {document['version']}"
    printed = list(_fragments(sections, corrected=False))
    yield Source(name, "document", f"{title}, as printed", _merge(printed), document)
    corrected = list(_fragments(sections, corrected=True))
    yield Source(f"{name}+errata", "document", f"{title}, corrected where proved wrong", _merge(corrected), document)


def _fragments(sections: dict[str, Section], *, corrected: bool) -> Iterator[Fragment]:
    for section in sorted(sections.values(), key=lambda section: _number(section.get("section", ""))):
        for entry in section["fragment"]:
            for role in entry["roles"]:
                for type_ in entry["types"]:
                    for selector in entry.get("selectors", [None]):
                        yield fragment(sections, section, entry, role, type_, selector, corrected=corrected)


def fragment(
    sections: dict[str, Section],
    section: Section,
    entry: Entry,
    role: str,
    type_: str,
    selector: int | None,
    *,
    corrected: bool = False,
) -> Fragment:
    """The fragment that an entry of a section describes for one role, type and selector, with its elements.

    Raises:
        LanemapError: its formula does not say where every element goes, or it refers to what is not there.
    """
    same_as = sections[entry["same_as"]] if "same_as" in entry else None
    stated = _referred(same_as, role, type_) if same_as else entry
    erratum = stated.get("erratum", {}) if corrected else {}
    formula = erratum.get("formula", stated.get("formula"))
    majors = {"A": "row", "B": "col"}
    described = Fragment(
        instruction=section["instruction"],
        shape=section["shape"],
        type=type_,
        role=role,
        registers=stated["registers"],
        slots=stated["slots"],
        elements=None,
        major=stated.get("major", majors.get(role)),
        selector=selector,
        status="documented" if formula else "figure-only",
        section=section.get("section"),
        anchor=section.get("anchor"),
        same_as=same_as.get("section") if same_as else None,
        figures=", ".join(f"{number} #{anchor}".rstrip(" #") for number, anchor in stated["figures"].items()) or None,
        formula=formula.strip() if formula else None,
        mended=None if erratum else stated.get("mended"),
        erratum=erratum.get("reason"),
        evidence=erratum.get("evidence"),
    )
    if formula is None:
        return described
    try:
        cells = _elements(formula, _LETTER[role], described.registers, described.slots, _computation(section))
    except LanemapError as error:
        raise LanemapError(f"section {described.section}, {described}: {error}") from None
    return replace(described, elements=cells)


def _referred(section: Section, role: str, type_: str) -> Entry:
    for entry in section["fragment"]:
        if role in entry["roles"] and type_ in entry["types"]:
            found: Entry = entry
            return found
    raise LanemapError(f"section {section['section']} has no {role} of {type_} to refer to")


@cache
def _elements(formula: str, letter: str, registers: int, slots: int, computation: tuple[int, ...]) -> NDArray[Any]:
    cells = evaluate(parse(formula), letter, registers * slots)
    return by_rule(slots, *cells, computation=np.asarray(computation)[:, None])


_LETTER = {"A": "a", "B": "b", "C": "c", "D": "c"}


def _computation(section: Section) -> tuple[int, ...]:
    """The computation that each lane takes part in, counted from 1."""
    numbers = {lane: number for number, lanes in enumerate(section.get("computations", []), start=1) for lane in lanes}
    return tuple(numbers.get(lane, 1) for lane in range(WARP))


def _merge(fragments: Iterable[Fragment]) -> list[Fragment]:
    """One fragment per key: where sections state the same one again, the first keeps it and names the others.

    The document gives the accumulators of m16n8k16 twice, for example. Sections that contradict each other are an
    error of the catalogue: neither may silently win.
    """
    kept, repeated = merge(fragments)
    also: dict[Key, list[str]] = {}
    for first, other in repeated:
        if first.digest != other.digest:
            raise LanemapError(f"sections {first.section} and {other.section} disagree on {other}")
        also.setdefault(first.key, []).append(str(other.section))
    return [replace(each, also=", ".join(also[each.key])) if each.key in also else each for each in kept]


def _number(section: str) -> list[int]:
    return [int(part) for part in section.split(".") if part]
