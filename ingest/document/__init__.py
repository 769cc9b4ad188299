"""The PTX documentation itself, read into sources: HTML, Markdown, or plain text in which all structure is lost.

A document goes through four steps:

1. ``formats``: a file of any format becomes the same stream of ``blocks``: headings, paragraphs, table rows, code;
2. ``sections``: blocks become sections, and the titles say which of them are about fragments;
3. ``entries``: a section becomes entries as in the shipped catalogue, one for each operand and its types;
4. ``fragments``: references from one section to another are resolved, and the entries evaluated as the catalogue is.

Nothing in a document is executed, fetched or followed. A remark is made on whatever of a fragment section cannot be
read, and a document that is larger or deeper than any of PTX is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...db.errors import LanemapError
from ...db.fragment import Source
from .. import catalogue
from ..catalogue.write import write
from .blocks import at_most
from .entries import FragmentSection, read_section
from .entries.selectors import Selectors, selectors
from .formats import Document, read_files
from .fragments import evaluate
from .fragments.sheets import Sheets
from .report import Kind, Remark, Remarks
from .sections import Section, is_later, is_storage, sections, subject

#: Documents are untrusted. The manual has 21 fragment sections with 110,000 characters and one wrong bracket.
MAX_SECTIONS = 100
MAX_CHARACTERS = 500_000
MAX_MENDED = 5


@dataclass(frozen=True)
class Reading:
    """What reading a document came to.

    ``sheets`` have the form of the catalogue's files; ``borrowed`` ones are its own, which the document refers to.
    ``counts`` gives the fragments and rows of each section read.
    """

    source: Source
    version: str | None
    sheets: Mapping[str, catalogue.Section]
    borrowed: Mapping[str, catalogue.Section]
    counts: Sequence[tuple[Section, int, int]]
    remarks: Sequence[Remark]

    @property
    def complete(self) -> bool:
        """True where every fragment section was read whole."""
        return not any(remark.kind is Kind.UNREAD for remark in self.remarks)

    def write(self, folder: Path) -> int:
        """Write the sheets as files of the catalogue; how many sections there are.

        Raises:
            LanemapError: the folder cannot be made or written.
        """
        return write(folder, self.version or self.source.name, self.sheets, self.borrowed)


def read(paths: Iterable[Path], name: str | None = None) -> list[Reading]:
    """Read documents: with a name all of them as one source, else one source for each version that they say they are.

    Raises:
        LanemapError: a file cannot be read, no version is given and no name, or the name is a shipped source's.
    """
    return [
        read_documents(documents, source, version) for source, version, documents in _grouped(read_files(paths), name)
    ]


def _grouped(documents: Sequence[Document], name: str | None) -> list[tuple[str, str | None, list[Document]]]:
    versions = list(dict.fromkeys(each.version for each in documents if each.version))
    if name is not None:
        if name.removesuffix("+errata") in catalogue.sheets() or not name.strip():
            raise LanemapError(f"{name!r} is the name of a source that Lanemap ships: choose another name")
        return [(name, versions[0] if len(versions) == 1 else None, list(documents))]
    unknown = [each.name for each in documents if each.version is None]
    if not versions or (unknown and len(versions) > 1):
        raise LanemapError(f"{unknown[0]} does not say which version of PTX it is of: give the source a name")
    return [
        (f"ptx-isa-{version}-document", version, [each for each in documents if each.version in (version, None)])
        for version in versions
    ]


def read_documents(documents: Sequence[Document], name: str, version: str | None = None) -> Reading:
    """Read documents that were already turned into blocks as one source.

    Raises:
        LanemapError: there are more fragment sections, or more elements in them, than any PTX document has.
    """
    places = [place for each in documents for place in sections(each.name, each.blocks)]
    found = [(place, about) for place in places if (about := subject(place.heading.title))]
    at_most(MAX_SECTIONS, len(found), "fragment sections")
    storage = [place for place in places if is_storage(place)]
    read = sum(len(place.text) for place in (*storage, *(place for place, _ in found)))
    at_most(MAX_CHARACTERS, read, "characters in fragment sections")
    stored: Selectors = {key: value for place in storage for key, value in selectors(place).items()}
    mendings = iter(range(MAX_MENDED))
    parts = _without_contents([read_section(place, about, mendings) for place, about in found])
    remarks = Remarks(remark for part in parts for remark in part.remarks)
    sheets = Sheets(parts, stored, remarks)
    fragments, counted = evaluate(sheets, remarks)
    _remark_on_others(places, remarks)
    order = {each.name: index for index, each in enumerate(documents)}
    remarks.sort(key=lambda remark: (order[remark.file], remark.line))
    counts = [(part.place, *counted[key]) for key, part in sheets.sections.items()]
    what = f"Parallel Thread Execution ISA {version}" if version else "PTX documentation"
    what += f", read from {len(documents)} file{'s' if len(documents) > 1 else ''}"
    provenance = {"version": version, "documents": {each.name: each.sha256 for each in documents}}
    source = Source(name, "document", what, fragments, provenance)
    return Reading(source, version, sheets.sheets, sheets.borrowed, counts, remarks)


def _without_contents(parts: Sequence[FragmentSection]) -> list[FragmentSection]:
    """In the order of their numbers, without headings over nothing whose section stands elsewhere.

    Such are repeated headings, lines of a table of contents, and the parents of sections.
    """
    full = {name for part in parts if part.entries for name in part.place.names}
    parents = {(part.place.heading.number or "").rpartition(".")[0] for part in parts}
    kept = [part for part in parts if part.entries or not part.place.names & (full | parents)]
    return sorted(kept, key=lambda part: [int(figure) for figure in (part.place.heading.number or "999").split(".")])


def _remark_on_others(places: Iterable[Section], remarks: Remarks) -> None:
    """Remark on the sections that are not about fragments of mma and mma.sp, where there is something to say."""
    others = [place for place in places if place.blocks and not subject(place.heading.title)]
    # Of two with one title, the first is a line of a table of contents.
    for place in {place.title: place for place in others if is_later(place.heading.title)}.values():
        remarks.add(Kind.LATER, place, place.heading.line, place.title, "")
    for place in others:
        if not is_later(place.heading.title) and _has_formula(place.text):
            reason = "formulas under a heading that names no shape of mma"
            remarks.add(Kind.UNREAD, place, place.heading.line, place.title, reason)


def _has_formula(text: str) -> bool:
    """True where ``row`` is defined near a lane's number, with no other definition between them."""
    for row in _ROW.finditer(text):
        before, after = text[max(0, row.start() - _NEAR) : row.start()], text[row.end() : row.end() + _NEAR]
        if any("=" not in gap for gap in (*before.split("%laneid")[1:][-1:], *after.split("%laneid")[:-1][:1])):
            return True
    return False


_NEAR = 400
_ROW = re.compile(r"(?<![\w.%])row\s{0,40}=(?!=)")
