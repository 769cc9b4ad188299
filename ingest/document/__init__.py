"""The PTX documentation itself, read into sources: HTML, Markdown, or plain text in which all structure is lost.

A document goes through four steps:

1. ``html``, ``markup``: a file becomes the same stream of ``blocks``: headings, paragraphs, table rows;
2. ``sections``: blocks become sections, and the titles say which of them are about fragments;
3. ``statements``, ``formulas``, ``addresses``, ``entries``: a section becomes entries as in the shipped catalogue, one
   for each operand and its types; of sections that draw their layouts, ``counts`` compares the numbers of registers;
4. ``sheets``: references from one section to another are resolved, and the entries evaluated as the catalogue is.

Nothing in a document is executed, fetched or followed. A remark is made on whatever of a fragment section cannot be
read, and a document that is larger or deeper than any of PTX is refused.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ...db.errors import LanemapError
from ...db.layout.fragment import Source, count_elements
from ...db.rows import Rows, table
from ...db.text import counted
from .. import catalogue
from . import html, markup
from .blocks import Block, Heading, Paragraph, at_most, clean, heading, plain
from .counts import compare_counts
from .entries import FragmentSection
from .sections import Kind, Remark, Remarks, Section, draws, sections, subject
from .sheets import Sheets, evaluate
from .statements import operands

#: Documents are untrusted. The manual has 1.2 million characters as text, 110,000 of them in fragment sections, and a
#: wrong bracket.
MAX_CHARACTERS = 20_000_000
MAX_SECTION_CHARACTERS = 300_000
MAX_MENDED = 5

FORMATS = {"html": html.blocks, "markdown": markup.markdown, "text": markup.plain_text}
#: For how many characters a sign counts that takes the reader of a format longer than others.
WEIGHTS = {
    "html": {"<": 10},
    "markdown": {"\n": 100, "[": 200, "|": 50, "*": 20, "_": 20},
    "text": {"\n": 20, ".": 5, "|": 5},
}


class Document(NamedTuple):
    """One file: its name for messages, its blocks, the version of PTX that it gives for itself, and its digest."""

    name: str
    blocks: tuple[Block, ...]
    version: str | None
    sha256: str


class Reading(NamedTuple):
    """What reading a document came to.

    ``sheets`` have the form of the catalogue's files. ``counts`` gives the fragments and rows of each section read.
    """

    source: Source
    version: str | None
    sheets: Mapping[str, catalogue.Section]
    counts: Sequence[tuple[Section, int, int]]
    remarks: Sequence[Remark]

    @property
    def complete(self) -> bool:
        """True where every fragment section was read whole."""
        return not any(remark.kind is Kind.UNREAD for remark in self.remarks)

    def text(self, *, slips: bool = False) -> str:
        """The sections and the remarks, for reading; what is wrong in the text itself only with ``slips``."""
        fragments = self.source.fragments
        sections = [(place.name, count, elements, place.heading.title) for place, count, elements in self.counts]
        held = (len(sections), "section"), (len(fragments), "fragment"), (count_elements(fragments), "row")
        lines = [f"{self.source.name}: {', '.join(counted(*total) for total in held)}", ""]
        if sections:
            lines += [table(Rows(("section", "fragments", "rows", "title"), sections))]
        unseen = 0
        for remark in sorted(self.remarks, key=lambda remark: [*Kind].index(remark.kind)):
            where = f"{remark.file}:{remark.line}"
            if remark.kind in (Kind.DRAWN, Kind.COUNTED):
                lines.append(f"{remark.kind.value}: {remark.text} ({where}): {remark.reason}")
            elif slips or remark.kind is not Kind.SLIP:
                lines.append(f"{remark.kind.value}: {remark.section} ({where}): {remark.reason}: {remark.text}")
            else:
                unseen += 1
        if unseen:
            lines.append(f"{unseen} slips and doubts in the text: --slips lists them")
        return "\n".join(lines).rstrip() + "\n"

    def rows(self, *, slips: bool = False) -> Rows:
        """The same as one row per section and remark."""
        rows: list[tuple[Any, ...]] = []
        for place, count, elements in self.counts:
            line, title = place.heading.line, place.heading.title
            rows.append(("section", self.source.name, place.name, place.file, line, count, elements, title, None))
        for kind, file, line, section, text, reason in self.remarks:
            if slips or kind is not Kind.SLIP:
                rows.append((kind.value, self.source.name, section, file, line, None, None, text, reason or None))
        return Rows(("kind", "source", "section", "document", "line", "fragments", "rows", "text", "reason"), rows)

    def write(self, folder: Path) -> int:
        """Write the sheets as files of the catalogue; how many sections there are.

        Raises:
            LanemapError: the folder cannot be made or written.
        """
        return catalogue.write(folder, self.version or self.source.name, self.sheets)


def read(paths: Iterable[Path], name: str | None = None) -> list[Reading]:
    """Read documents: with a name all of them as one source, else one source for each version that they say they are.

    Raises:
        LanemapError: a file cannot be read, no version is given and no name, or the name is a shipped source's.
    """
    documents = [read_text(called, data) for called, data in _contents(paths)]
    versions = list(dict.fromkeys(document.version for document in documents if document.version))
    if name is not None:
        if name.removesuffix("+errata") in catalogue.sheets() or not name.strip():
            raise LanemapError(f"{name!r} is the name of a source that Lanemap ships: choose another name")
        return [read_documents(documents, name, versions[0] if len(versions) == 1 else None)]
    unknown = [document.name for document in documents if document.version is None]
    if not versions or (unknown and len(versions) > 1):
        others = f", and others are of {' and '.join(versions)}" if versions else ""
        raise LanemapError(f"{unknown[0]} does not say which version of PTX it is of{others}: give the source a name")
    of_version = {
        version: [document for document in documents if document.version in (version, None)] for version in versions
    }
    return [read_documents(group, f"ptx-isa-{version}-document", version) for version, group in of_version.items()]


def read_documents(documents: Sequence[Document], name: str, version: str | None = None) -> Reading:
    """Read documents that were already turned into blocks as one source.

    Raises:
        LanemapError: the fragment sections are longer, or have more elements, than in any PTX document.
    """
    places = [place for document in documents for place in sections(document.name, document.blocks)]
    about_fragments = [(place, about) for place in places if (about := subject(place.heading.title))]
    drawing = [place for place in places if draws(place.heading.title)]
    size = sum(len(place.text) for place in places if subject(place.heading.title) or draws(place.heading.title))
    at_most(MAX_SECTION_CHARACTERS, size, "characters in fragment sections")
    mendings = iter(range(MAX_MENDED))
    parts = [FragmentSection(place, about, mendings) for place, about in about_fragments]
    # In the order of their numbers, without headings over nothing whose section stands elsewhere: repeated headings,
    # lines of a table of contents, and the parents of sections.
    full = {name for part in parts if part.entries for name in part.place.names}
    parents = {(part.place.heading.number or "").rpartition(".")[0] for part in parts}
    parts = [part for part in parts if part.entries or not part.place.names & (full | parents)]
    parts.sort(key=lambda part: [int(figure) for figure in (part.place.heading.number or "999").split(".")])
    remarks = Remarks(remark for part in parts for remark in part.remarks)
    sheets = Sheets(parts, remarks, version)
    fragments, counted = evaluate(sheets)
    for place in drawing:
        layouts = chain.from_iterable(operand.layouts for operand in operands(place.blocks))
        if figures := dict.fromkeys(figure for layout in layouts for figure in layout.figures):
            remarks.add(Kind.DRAWN, place, place.heading.line, place.title, f"figure {' and '.join(figures)}")
        compare_counts(place, remarks)
    for place in places:
        about = subject(place.heading.title)
        if not (about and about.shape) and _has_formula(place.text):
            reason = "formulas under a heading that names no shape of mma"
            remarks.add(Kind.UNREAD, place, place.heading.line, place.title, reason)
    order = {document.name: index for index, document in enumerate(documents)}
    remarks.sort(key=lambda remark: (order[remark.file], remark.line))
    counts = [(part.place, *counted[key]) for key, part in sheets.sections.items()]
    title = f"Parallel Thread Execution ISA {version}" if version else "PTX documentation"
    title += f", read from {len(documents)} file{'s' if len(documents) > 1 else ''}"
    provenance = {"version": version, "documents": {document.name: document.sha256 for document in documents}}
    source = Source(name, "document", title, fragments, provenance)
    return Reading(source, version, sheets.sheets, counts, remarks)


def _has_formula(text: str) -> bool:
    """True where ``row`` is defined near a lane's number, with no other definition between them."""
    for row in _ROW.finditer(text):
        before, after = text[max(0, row.start() - _NEAR_LANE) : row.start()], text[row.end() : row.end() + _NEAR_LANE]
        if any("=" not in gap for gap in (*before.split("%laneid")[1:][-1:], *after.split("%laneid")[:-1][:1])):
            return True
    return False


def _contents(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """The name and contents of every file, and of every text file of every folder."""
    for path in paths:
        try:
            for file, name in (_texts(path) if path.is_dir() else {path: path.name}).items():
                if (size := file.stat().st_size) > 4 * MAX_CHARACTERS:
                    limit = f"more than any PTX document has (limit {4 * MAX_CHARACTERS})"
                    raise LanemapError(f"{file.name}: {size} bytes are {limit}")
                if not file.is_file():
                    raise LanemapError(f"cannot read {file}: it is neither a file nor a folder")
                yield name, file.read_bytes()
        except OSError as error:
            raise LanemapError(f"cannot read {path}: {error.strerror or error}: name files or folders") from None


def _texts(folder: Path) -> dict[Path, str]:
    """The documents in a folder and in those inside it, with their names; neither links nor what is hidden."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = {path: path.relative_to(folder).as_posix() for path in files if path.suffix.lower() in _ENDINGS}
    texts = {path: name for path, name in names.items() if "/." not in f"/{name}"}
    if not texts:
        raise LanemapError(f"{folder} holds no documents: their names end in {', '.join(_ENDINGS)}")
    return texts


def read_text(name: str, data: bytes) -> Document:
    """The blocks of one document.

    Raises:
        LanemapError: it is not a text, or too large for a page of the documentation; the message begins with the name.
    """
    try:
        content = _decode(data)
        at_most(MAX_CHARACTERS, len(content), "characters")
        content = clean(content)
        # What a converter writes in front of a page: lines such as "version: 9.4", between two lines of dashes.
        front = _FRONT.match(content)
        said = {name: value.strip("\"'") for name, value in _SAID.findall(front[0])} if front else {}
        content = "\n" * front[0].count("\n") + content[front.end() :] if front else content
        form = format_of(content)
        size = len(content) + sum(weight * content.count(sign) for sign, weight in WEIGHTS[form].items())
        at_most(MAX_CHARACTERS, size, "characters, of which signs of markup and ends of lines count as several,")
        blocks = list(FORMATS[form](content))
        if not any(isinstance(block, Heading) and block.number for block in blocks):
            # No heading survived as one: lines that begin with a section number are the headings.
            blocks = [heading(block.line, block.text) if _is_numbered(block) else block for block in blocks]
    except LanemapError as error:
        raise LanemapError(f"{name}: {error}") from None
    first = next(((at, block) for at, block in enumerate(blocks) if isinstance(block, Heading)), None)
    if first and "section" in said:
        at, head = first
        blocks[at] = head._replace(number=head.number or said["section"])
    # The version is the one in front, else the one that a title near the beginning gives.
    near = (block.text.split("\n") for block in blocks[:_NEAR] if isinstance(block, Heading | Paragraph))
    titles = (plain(line) for line in chain.from_iterable(near) if "ISA" in line and len(line) < _LONGEST_HEADING)
    version = next((match[1] for title in titles if (match := _VERSION.fullmatch(title))), None)
    return Document(name, tuple(blocks), said.get("version", version), hashlib.sha256(data).hexdigest())


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_LOOK]:
        raise LanemapError("this is not a text: give HTML, Markdown or plain text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _is_numbered(block: Block) -> bool:
    is_short = isinstance(block, Paragraph) and len(block.text) < _LONGEST_HEADING
    return is_short and _NUMBERED.match(plain(block.text)) is not None


def format_of(content: str) -> str:
    """``html``, ``markdown`` or ``text``, by what stands in the document: its name is nothing to go by."""
    head = content[:_LOOK].lstrip()
    marked_up = head.startswith("<") and len(_CLOSING_TAG.findall(content)) > _FEW
    if _DOCTYPE.search(head) or (marked_up and not _MARKED_LINE.search(content)):
        return "html"
    marked_down = (_MARKED_LINE.search(content) or _MARKED_WORDS.search(content)) and not _DIRECTIVE.search(content)
    return "markdown" if marked_down else "text"


_LOOK = 4096
_NEAR = 200
_LONGEST_HEADING = 240
_ENDINGS = (".html", ".htm", ".xhtml", ".md", ".markdown", ".mdx", ".rst", ".txt", ".text")
_FRONT = re.compile(r"---[ \t]*\n(?:[^\n]{0,999}\n){1,50}?---[ \t]*\n")
_SAID = re.compile(r"^(version|section):[ \t]*([\"']?\d{1,3}(?:\.\d{1,3}){0,9}[\"']?)[ \t]*$", re.MULTILINE)
_DOCTYPE = re.compile(r"<!doctype html|<html\b", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"</(?:h[1-6]|p|div|section|table|ul|body|pre)>", re.IGNORECASE)
_FEW = 3
_MARKED_LINE = re.compile(r"^[ \t>]{0,8}(?:#{1,6}[ \t]+\S|```|~~~)", re.MULTILINE)
_MARKED_WORDS = re.compile(r"\]\(|(?<!`)`\.[a-z]\w{1,4}`(?!`)")
_DIRECTIVE = re.compile(r"^[ \t]{0,40}\.\. [a-z][\w\-]{1,20}::(?:[ \t]|$)", re.MULTILINE)
_NUMBERED = re.compile(r"\d{1,3}(?:\.\d{1,3}){2,9}\.?\s+[A-Z]")
_VERSION = re.compile(
    r"(?:.{0,80}[\-:|]\s{0,3})?(?:NVIDIA\s)?(?:PTX\sISA|Parallel\sThread\sExecution\sISA)(?:\s\(PTX\))?"
    r"[\s,:\-]{1,4}(?:version\s|release\s|v)?(\d{1,2}\.\d{1,2})(?:\s(?:documentation|manual|guide))?\W{0,3}",
    re.IGNORECASE,
)
_NEAR_LANE = 400
_ROW = re.compile(r"(?<![\w.%])row\s{0,40}=(?!=)")
