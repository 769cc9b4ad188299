"""A document written out as files of the catalogue, which ``catalogue`` can read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...db.store.files import folder_atomically
from . import Entry, Section


def write(folder: Path, version: str, sheets: Mapping[str, Section], borrowed: Mapping[str, Section]) -> int:
    """Write one file for each section and one for the document; the number of sections.

    What is laid out as in a section that was not read is written out where it is referred to. The folder appears whole
    or not at all, in the place of an older catalogue if there is one.

    Raises:
        LanemapError: the folder cannot be made or written, or holds something else.
    """
    document = {"title": "Parallel Thread Execution ISA", "version": version, "publisher": "NVIDIA"}
    with folder_atomically(folder, "catalogue") as made:
        texts = {name: _sheet(sheet, borrowed) for name, sheet in sheets.items()}
        texts["document"] = (f"{key} = {json.dumps(value)}" for key, value in document.items())
        for name, lines in texts.items():
            _write(made / f"{name}.toml", lines)
    return len(sheets)


def _write(path: Path, lines: Iterator[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def _sheet(sheet: Section, borrowed: Mapping[str, Section]) -> Iterator[str]:
    for key in ("section", "anchor", "instruction", "shape"):
        if key in sheet:
            yield f"{key} = {json.dumps(sheet[key])}"
    if "computations" in sheet:
        yield ""
        yield "# A warp does several products; each line gives the lanes that take part in one of them."
        yield from ("computations = [", *(f"    {lanes}," for lanes in sheet["computations"]), "]")
    for entry in sheet["fragment"]:
        there = borrowed.get(entry.get("same_as"))
        if there is None:
            yield from ("", "[[fragment]]", *_entry(entry))
            continue
        # What it refers to is written out for its own roles and types.
        for stated in there["fragment"]:
            types = [type_ for type_ in entry["types"] if type_ in stated["types"]]
            if types and {*entry["roles"]} <= {*stated["roles"]}:
                own = {**stated, "roles": entry["roles"], "types": types}
                yield from ("", "[[fragment]]", f"# As in {there['section']}.", *_entry(own))


def _entry(entry: Entry) -> Iterator[str]:
    for key in ("roles", "types", "registers", "slots", "major", "selectors", "same_as", "mended"):
        if key in entry:
            yield f"{key} = {json.dumps(entry[key])}"
    if "figures" in entry:
        figures = ", ".join(f"{number} = {json.dumps(anchor)}" for number, anchor in entry["figures"].items())
        yield f"figures = {{ {figures} }}" if figures else "figures = {}"
    if "formula" in entry:
        yield from ("formula = '''", entry["formula"].strip("\n"), "'''")
