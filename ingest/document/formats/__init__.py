"""Files and folders as blocks. What format a file has shows in its contents; its name is nothing to go by."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ....db.errors import LanemapError
from ..blocks import MAX_CHARACTERS, MAX_LINES, Block, Heading, Paragraph, at_most, clean, heading, plain
from . import html, markdown, text

FORMATS = {"html": html.blocks, "markdown": markdown.blocks, "text": text.blocks}
#: The manual has some 1,500; a document made of nothing else is refused.
MAX_HEADINGS = 20_000


@dataclass(frozen=True)
class Document:
    """One file: its name for messages, its format, the version of PTX that it gives for itself, and its digest."""

    name: str
    format: str
    blocks: tuple[Block, ...]
    version: str | None
    sha256: str


def read_files(paths: Iterable[Path]) -> list[Document]:
    """Every file, and every text file of every folder.

    Raises:
        LanemapError: one is not there, cannot be read, is not a text, or is too large for a page of the documentation.
    """
    return [read_text(name, data) for name, data in _contents(paths)]


def read_text(name: str, data: bytes) -> Document:
    """The blocks of one document.

    Raises:
        LanemapError: as for ``read_files``; the message begins with the name.
    """
    try:
        content = _decode(data)
        at_most(MAX_CHARACTERS, len(content), "characters")
        at_most(MAX_LINES, content.count("\n") + content.count("\r"), "lines")
        content = clean(content)
        format_ = format_of(content)
        blocks = _with_headings(list(FORMATS[format_](content)))
        at_most(MAX_HEADINGS, sum(isinstance(block, Heading) for block in blocks), "headings")
    except LanemapError as error:
        raise LanemapError(f"{name}: {error}") from None
    return Document(name, format_, tuple(blocks), _version(blocks), hashlib.sha256(data).hexdigest())


def format_of(content: str) -> str:
    """``html``, ``markdown`` or ``text``, by what stands in the document."""
    head = content[:_LOOK].lstrip()
    marked_up = head.startswith("<") and len(_CLOSING_TAG.findall(content)) > _FEW
    if _DOCTYPE.search(head) or (marked_up and not _MARKED_LINE.search(content)):
        return "html"
    marked_down = (_MARKED_LINE.search(content) or _MARKED_WORDS.search(content)) and not _DIRECTIVE.search(content)
    return "markdown" if marked_down else "text"


def _contents(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        try:
            if path.is_dir():
                yield from _folder(path)
            else:
                yield path.name, _bytes(path)
        except OSError as error:
            raise LanemapError(f"cannot read {path}: {error.strerror or error}: name files or folders") from None


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if len(found) > _MOST_FILES:
        raise LanemapError(f"{folder} holds {len(found)} files (limit {_MOST_FILES}): name the pages themselves")
    names = {path: path.relative_to(folder) for path in found if path.suffix.lower() in _ENDINGS}
    texts = [path for path, name in names.items() if not any(part.startswith(".") for part in name.parts)]
    if not texts:
        raise LanemapError(f"{folder} holds no documents: their names end in {', '.join(_ENDINGS)}")
    for path in texts:
        yield names[path].as_posix(), _bytes(path)


def _bytes(path: Path) -> bytes:
    size = path.stat().st_size
    if size > 4 * MAX_CHARACTERS:
        raise LanemapError(f"{path.name}: {size} bytes are more than any PTX document has (limit {4 * MAX_CHARACTERS})")
    if not path.is_file():
        raise LanemapError(f"cannot read {path}: it is neither a file nor a folder")
    return path.read_bytes()


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_LOOK]:
        raise LanemapError("this is not a text: give HTML, Markdown or plain text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _with_headings(blocks: list[Block]) -> list[Block]:
    """Where no heading survived as one, lines that begin with a section number are the headings."""
    if any(isinstance(block, Heading) and block.number for block in blocks):
        return blocks
    return [
        heading(block.line, block.text)
        if isinstance(block, Paragraph) and len(block.text) < _LONGEST_HEADING and _NUMBERED.match(plain(block.text))
        else block
        for block in blocks
    ]


def _version(blocks: Iterable[Block]) -> str | None:
    """The version that a title near the beginning gives."""
    for block, _ in zip(blocks, range(_NEAR), strict=False):
        words = block.title if isinstance(block, Heading) else block.text if isinstance(block, Paragraph) else ""
        for line in words.split("\n"):
            if "ISA" in line and len(line) < _LONGEST_HEADING and (found := _VERSION.fullmatch(plain(line))):
                return found[1]
    return None


_MOST_FILES = 20_000
_LOOK = 4096
_NEAR = 200
_LONGEST_HEADING = 240
_ENDINGS = (".html", ".htm", ".xhtml", ".md", ".markdown", ".mdx", ".rst", ".txt", ".text")
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
