"""Layouts that Python libraries have as functions, bases or text, claimed by a mapping (``mapping.py``).

The library is enumerated in a process and, if asked, a Python of its own (``process.py``), so Lanemap need not be
installed there. Each claim set becomes a source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from collections.abc import Mapping as Table
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError
from ...db.fragment import Fragment, Source
from ..imported import Imported, Skipped, claim_sets
from .layout import domain, fragment, places
from .mapping import Entry, Mapping, read_mapping, shipped
from .process import answers

__all__ = ["called", "load", "shipped"]


def load(mapping: str, python: str | None = None) -> list[Imported]:
    """What a library claims, one source for each claim set.

    Args:
        mapping: the name of one that ships, or a TOML file.
        python: the Python in whose environment the library is installed. Default: this one.

    Raises:
        LanemapError: there is no such mapping, or it gives nothing.
    """
    read = read_mapping(_file(mapping))
    usable, tasks, refused = [], [], [Skipped(*each) for each in read.refused]
    for entry in read.entries:
        try:
            tasks.append(_task(entry, read.path))
            usable.append(entry)
        except LanemapError as error:
            refused.append(Skipped(entry.name, str(error)))
    path = [str(Path.cwd())]
    version, answered = answers(tasks, read.package, path, python or sys.executable)
    claimed: dict[str, list[tuple[str, Fragment]]] = {}
    remarks: dict[int, list[str]] = {}
    for entry, task, answer in zip(usable, tasks, answered, strict=True):
        if "error" in answer:
            refused.append(Skipped(called(task), answer["error"]))
            continue
        for name, made, words in _fragments(entry, answer):
            if isinstance(made, Skipped):
                refused.append(made)
            else:
                claimed.setdefault(name, []).append((entry.name, made))
                remarks[id(made)] = words
    sources = list(_sources(read, version, claimed, remarks))
    if not sources:
        why = f"{refused[0].name}: {refused[0].reason}" if refused else "it has no claims"
        raise LanemapError(f"{mapping} gives nothing: {why}")
    return [replace(sources[0], skipped=refused), *sources[1:]]


def _file(mapping: str) -> Path:
    named = Path(__file__).parent / "mappings" / f"{mapping}.toml"
    if named.is_file():
        return named
    if not Path(mapping).is_file():
        names = ", ".join(each.path.stem for each in shipped())
        raise LanemapError(f"no mapping {mapping!r}: name a TOML file, or one that ships: {names}")
    return Path(mapping)


def _task(entry: Entry, path: Path) -> dict[str, Any]:
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


def called(task: Table[str, Any]) -> str:
    """What a task is called: the function and the arguments that it is made with."""
    made = ", ".join(f"{name}={value!r}" for name, value in {**(task["make"] or {}), **task["with"]}.items())
    return f"{task['name']}({made})" if made else str(task["name"])


def _fragments(entry: Entry, answer: Table[str, Any]) -> Iterator[tuple[str, Skipped | Fragment, list[str]]]:
    """The operands of an entry, each with its claim set and what is wrong with it."""
    for claim in entry.claims:
        for type_ in claim.types.split():
            name = claim.set or entry.set
            try:
                found = places(entry, claim, type_, answer)
                yield name, *fragment(entry, claim, type_, found, answer["origin"])
            except LanemapError as error:
                operand = f"{claim.role} of {claim.instruction} {claim.shape} {type_}"
                yield name, Skipped(f"{operand} {entry.name}", str(error)), []


def _sources(
    read: Mapping,
    version: str | None,
    claimed: Table[str, list[tuple[str, Fragment]]],
    remarks: Table[int, list[str]],
) -> Iterator[Imported]:
    """A source for each claim set, and for what contradicts another claim of its set."""
    base = f"{read.path.stem}-{version}" if version else read.path.stem
    for name, units in claimed.items():
        title = " ".join(part for part in (read.library, version, name) if part)
        provenance: dict[str, Any] = {"library": read.library, "version": version, "set": name}
        source = Source(f"{base}:{name}" if name else base, "import", title, (), provenance)
        for each in claim_sets(source, [(entry, [made]) for entry, made in units], whole=True):
            findings = [
                Skipped(f"{made}, {made.origin}", words) for made in each.fragments for words in remarks[id(made)]
            ]
            said = {**provenance, "remarks": [f"{found.name}: {found.reason}" for found in findings]}
            yield Imported(replace(each, provenance=said), findings=findings)
