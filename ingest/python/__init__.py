"""Layouts that Python libraries have as functions, bases or text, claimed by a mapping (``mapping.py``).

The library is enumerated in a process and, if asked, a Python of its own (``process.py``), so Lanemap need not be
installed there. Each claim set becomes a source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Table
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError
from ...db.fragment import Fragment, Source
from ...db.instructions import Key
from ..imported import Imported, Skipped, claim_sets, wrong
from .layout import domain, fragment, named, places
from .mapping import LibraryEntry, Mapping, read_mapping, shipped
from .process import answers

__all__ = ["called", "load", "shipped"]

_MAPPINGS = Path(__file__).parent / "mappings"


def load(mapping: str, python: str | None = None) -> list[Imported]:
    """What a library claims, one source for each claim set, and what of it cannot be compared.

    Args:
        mapping: the name of one that ships, or a TOML file. Modules are also looked for in the current folder, before
            all others, and beside the file, after them.
        python: the Python in whose environment the library is installed. Default: this one.

    Raises:
        LanemapError: there is no such mapping, or it gives nothing.
    """
    read = read_mapping(_file(mapping))
    tasks, refused = [], [Skipped(*each) for each in read.refused]
    for entry in read.entries:
        try:
            tasks.append((entry, _task(entry, read.path)))
        except LanemapError as error:
            refused.append(Skipped(entry.name, str(error)))
    # The adapters of those that ship have the names of libraries, and must not be taken for them.
    folders = [Path.cwd(), *([] if read.path.parent == _MAPPINGS else [read.path.parent.resolve()])]
    wanted = [task for _, task in tasks]
    version, answered = answers(wanted, read.package, list(map(str, folders)), python or sys.executable)
    operands: list[_Operand] = []
    for (entry, task), answer in zip(tasks, answered, strict=True):
        if "error" in answer:
            refused.append(Skipped(called(task), answer["error"]))
        else:
            operands += _operands(entry, answer)
    refused += [remark for each in operands if each.fragment is None for remark in each.remarks]
    by_set = groupby(sorted(operands, key=lambda each: each.set), key=lambda each: each.set)
    found = [each for name, of_set in by_set for each in _sources(read, version, name, list(of_set))]
    if not found:
        raise LanemapError(f"{mapping} gives nothing: {refused[0].name}: {refused[0].reason}")
    return [replace(found[0], skipped=refused), *found[1:]]


def called(task: Table[str, Any]) -> str:
    """What a task is called: the function and the arguments that it is made and called with."""
    made = ", ".join(f"{name}={value!r}" for name, value in {**(task["make"] or {}), **task["with"]}.items())
    return f"{task['name']}({made})" if made else str(task["name"])


@dataclass(frozen=True)
class _Operand:
    """What became of a claim on one operand: its set and entry, the fragment if there is one, and what is wrong."""

    set: str
    entry: str
    key: Key
    fragment: Fragment | None
    remarks: Sequence[Skipped]
    unreached: str


def _file(mapping: str) -> Path:
    named = _MAPPINGS / f"{mapping}.toml"
    if named.is_file():
        return named
    if not Path(mapping).is_file():
        names = ", ".join(each.path.stem for each in shipped())
        raise LanemapError(f"no mapping {mapping!r}: name a TOML file, or one that ships: {names}")
    return Path(mapping)


def _task(entry: LibraryEntry, path: Path) -> dict[str, Any]:
    """What the other process needs to know of an entry."""
    return {
        "modules": list(entry.module) or [path.stem],
        "adapter": str(path.with_suffix(".py").resolve()) if entry.adapter else None,
        "name": entry.name,
        "make": entry.make,
        "with": dict(entry.with_),
        "domain": domain(entry),
        "origin": entry.origin,
    }


def _operands(entry: LibraryEntry, answer: Table[str, Any]) -> Iterator[_Operand]:
    for claim in entry.claims:
        for type_ in claim.types.split():
            made: Fragment | None = None
            words: list[str] = []
            try:
                made, words = fragment(entry, claim, type_, places(entry, claim, type_, answer), answer["origin"])
            except LanemapError as error:
                words = [str(error)]
            key = named(claim, type_)
            origin = answer["origin"] or entry.name
            remarks = [Skipped(f"{key}, {origin}", each, key, origin) for each in words]
            yield _Operand(claim.set or entry.set, entry.name, key, made, remarks, entry.unreached)


def _sources(read: Mapping, version: str | None, name: str, operands: Sequence[_Operand]) -> Iterator[Imported]:
    """A source for a claim set, and for each entry that contradicts another one of it."""
    library = f"{read.path.stem}-{version}" if version else read.path.stem
    title = " ".join(part for part in (read.library, version, name) if part)
    form = next(each.form for each in read.entries if name in (each.set, *(claim.set for claim in each.claims)))
    provenance = {
        "library": read.library,
        "package": read.package,
        "version": version,
        "set": name,
        "notation": {"bases": "linear", "strides": "cute"}.get(form, "python"),
        "unreached": {str(each.key): each.unreached for each in operands if each.unreached},
    }
    source = Source(f"{library}:{name}" if name else library, "import", title, (), provenance)
    units = [(each.entry.rpartition(".")[2], [each.fragment]) for each in operands if each.fragment]
    lost = [remark for each in operands if each.fragment is None for remark in each.remarks]
    for each in claim_sets(source, units, whole=True) if units else ():
        kept = {id(fragment) for fragment in each.fragments}
        findings = [remark for operand in operands if id(operand.fragment) in kept for remark in operand.remarks]
        claims = wrong([*(lost if each.name == source.name else []), *findings])
        yield Imported(replace(each, provenance={**provenance, "wrong": claims}), findings=findings)
