"""The PTX documentation itself, read into sources: HTML, Markdown, or plain text in which all structure is lost.

One module per kind of file turns it into blocks; from there on all are alike. The blocks of a fragment section become
marks (``marks``), these become operands (``operands``, ``fragments``), and these the same sheets that the shipped
catalogue consists of (``assembly``), so that a document and the catalogue are evaluated, and can be compared, as one.

Nothing in a document is executed, fetched or followed. Whatever of a fragment section cannot be read is said out loud.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...db.errors import LanemapError
from ...db.fragment import Source
from .. import catalogue
from .assembly import assemble
from .evaluation import evaluate
from .files import Document, read_files
from .fragments import Section, read_section
from .remarks import Kind, Remark
from .sections import Place, is_later, is_storage, sections, subject, title
from .selectors import Selectors, selectors
from .writing import write

#: The manual has some twenty; a document made of nothing else is refused rather than tried.
MAX_SECTIONS = 2_000


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
    counts: Sequence[tuple[Place, int, int]]
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
            raise LanemapError(f"{name!r} is the name of a source that Lanemap ships: choose another with --name")
        return [(name, versions[0] if len(versions) == 1 else None, list(documents))]
    unsaid = [each.name for each in documents if each.version is None]
    if not versions or (unsaid and len(versions) > 1):
        raise LanemapError(f"{unsaid[0]} does not say which version of PTX it is of: name the source with --name")
    return [
        (f"ptx-isa-{version}-document", version, [each for each in documents if each.version in (version, None)])
        for version in versions
    ]


def read_documents(documents: Sequence[Document], name: str, version: str | None = None) -> Reading:
    """Read documents that were already turned into blocks as one source."""
    places = [place for each in documents for place in sections(each.name, each.blocks)]
    found = [(place, about) for place in places if (about := subject(place.heading.title))]
    if len(found) > MAX_SECTIONS:
        raise LanemapError(f"{len(found)} fragment sections are more than any PTX document has (limit {MAX_SECTIONS})")
    stored: Selectors = {key: value for place in places if is_storage(place) for key, value in selectors(place).items()}
    parts = _without_contents([read_section(place, about) for place, about in found])
    parts.sort(key=lambda part: [int(figure) for figure in (part.place.heading.number or "999").split(".")])
    assembly = assemble(parts, stored)
    evaluated = evaluate(assembly)
    remarks = [remark for part in parts for remark in part.remarks] + assembly.remarks + evaluated.remarks
    remarks += [remark for place in places if not subject(place.heading.title) for remark in _beside(place)]
    order = {each.name: index for index, each in enumerate(documents)}
    remarks.sort(key=lambda remark: (order[remark.file], remark.line))
    counts = [(part.place, *evaluated.counts[key]) for key, part in assembly.sections.items()]
    what = f"Parallel Thread Execution ISA {version}" if version else "PTX documentation"
    what += f", read from {len(documents)} file{'s' if len(documents) > 1 else ''}"
    provenance = {"version": version, "documents": {each.name: each.sha256 for each in documents}}
    source = Source(name, "document", what, list(evaluated.fragments.values()), provenance)
    return Reading(source, version, assembly.sheets, assembly.borrowed, counts, remarks)


def _without_contents(parts: list[Section]) -> list[Section]:
    """Without lines of a table of contents that passed for headings: the section that they name stands elsewhere."""
    full = {number for part in parts if part.entries and (number := part.place.heading.number)}
    return [part for part in parts if part.entries or part.place.heading.number not in full]


def _beside(place: Place) -> Iterator[Remark]:
    """What is to be said of a section that is not about fragments of mma and mma.sp."""
    head = place.heading
    if is_later(head.title):
        yield Remark(Kind.LATER, place.file, head.line, place.name, title(place), "")
    elif _FORMULA.search(place.text):
        reason = "formulas under a heading that names no shape of mma"
        yield Remark(Kind.UNREAD, place.file, head.line, place.name, title(place), reason)


_FORMULA = re.compile(r"(?<![\w.%])row\s{0,40}=(?!=)[^=]{1,400}%laneid|%laneid[^=]{1,400}(?<![\w.%])row\s{0,40}=(?!=)")
