"""CuTe's atoms, from the headers of a CUTLASS release, read as text.

An atom's instruction is the one in its operation's assembly, its registers are the operation's arrays, and its layouts
are those of its MMA_Traits or Copy_Traits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError
from ...db.layout.fragment import Fragment, Source
from ..importing import Imported, Skipped, claim_sets, wrong
from .atoms import atom
from .header import Header, parse_header
from .traits import Library, written

#: No header of CUTLASS has a tenth of this; what is larger is not one.
MAX_BYTES = 32 << 20

_HEADERS = ("cute/atom/mma_traits", "cute/atom/copy_traits", "cute/arch/mma", "cute/arch/copy", "cute/arch/tmem")
_INSIDE = ("", "include", "source/include", "cutlass_library/source/include")
_VERSION = re.compile(r"^#define CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


def load(path: str | Path) -> list[Imported]:
    """Every atom of CuTe's headers: one source, and one more for each atom that contradicts others.

    Args:
        path: a CUTLASS source tree, its include folder, or one header, whose includes are followed.

    Raises:
        LanemapError: nothing there can be read as CuTe's.
    """
    tree = Tree(Path(path))
    units = list(tree.atoms())
    skipped = tree.skipped
    if not any(fragments for _, fragments in units):
        why = f"{skipped[0].name}: {skipped[0].reason}" if skipped else "it has no struct MMA_Traits<...>"
        raise LanemapError(f"{path} has no CuTe atom: {why}")
    declared = tree.root / "cutlass" / "version.h"
    parts = dict(_VERSION.findall(_read(declared))) if declared.is_file() else {}
    version = ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(parts) == 3 else None
    provenance: dict[str, Any] = {"library": "CUTLASS", "version": version, "notation": "cute"}
    provenance |= {"files": tree.files, "wrong": wrong(skipped)}
    title = f"CuTe of CUTLASS {version}" if version else "CuTe"
    source = Source(f"cute-{version}" if version else "cute", "import", title, (), provenance)
    first, *others = claim_sets(source, units)
    return [Imported(first, skipped), *map(Imported, others)]


class Tree:
    """The headers with traits at a path, what they and their includes declare, and what was left out."""

    def __init__(self, path: Path) -> None:
        """Read them, from the oldest architecture to the newest.

        Raises:
            LanemapError: there is no such path, it holds no such header, or one cannot be read.
        """
        self.root, headers = _located(path)
        self.library = Library()
        self.files: dict[str, str] = {}
        self.skipped: list[Skipped] = []
        self.headers = [header for header in map(self._header, headers) if header]
        waiting = list(self.headers)
        while waiting:
            header = waiting.pop()
            folder = Path(header.file).parent
            names = [name if "/" in name else (folder / name).as_posix() for name in header.includes]
            names = [name for name in names if name.startswith(_HEADERS) and ".." not in name]
            found = [self._header(self.root / name) for name in names if (self.root / name).is_file()]
            waiting += filter(None, found)

    def _header(self, path: Path) -> Header | None:
        """Read a header and make its declarations known; None where it was read already, or cannot be."""
        name = path.relative_to(self.root).as_posix()
        if name in self.files:
            return None
        text = _read(path)
        self.files[name] = hashlib.sha256(text.encode()).hexdigest()
        try:
            header = parse_header(text, name)
            self.library.add(header)
        except LanemapError as error:
            self.skipped.append(Skipped(name, str(error)))
            return None
        return header

    def atoms(self) -> Iterator[tuple[str, list[Fragment]]]:
        """The fragments of each operation that the traits are for, with its name."""
        for struct in (struct for header in self.headers for struct in header.structs):
            if self.library.pattern(struct) is None:
                continue
            operations = self.library.operations(struct)
            if not operations:
                reason = "its operation, a struct of this name, is not there, or has other traits"
                self.skipped.append(Skipped(written(struct), reason))
            for name, operation in operations:
                called = str(name) if struct.parameters else written(struct)
                made = list(atom(self.library, name, operation, called))
                self.skipped += [each for each in made if isinstance(each, Skipped)]
                yield called, [each for each in made if isinstance(each, Fragment)]
        self.skipped += (Skipped(str(name), "there are no traits for it") for name in self.library.lonely())


def _located(path: Path) -> tuple[Path, list[Path]]:
    """The include folder and the headers with traits at a path."""
    known = "name a CUTLASS source tree, its include folder, or a header of it"
    if not path.exists():
        raise LanemapError(f"{path} does not exist: {known}")
    if path.is_file():
        root = next((parent for parent in path.resolve().parents if (parent / "cute").is_dir()), None)
        return root or path.resolve().parent, [path.resolve()]
    for inside in _INSIDE:
        found = [*(path / inside / "cute" / "atom").glob("mma_traits*.hpp")]
        found += (path / inside / "cute" / "atom").glob("copy_traits*.hpp") if found else ()
        if found:
            by_number = sorted(found, key=lambda each: ([*map(int, re.findall(r"\d+", each.name))], each.name))
            return path / inside, by_number
    raise LanemapError(f"{path} holds no cute/atom/mma_traits*.hpp: {known}")


def _read(header: Path) -> str:
    """The text of a header.

    Raises:
        LanemapError: it cannot be read, is too large for a header, or is not text.
    """
    if header.exists() and not header.is_file():
        raise LanemapError(f"{header} is not a file: a pipe or a device might never end")
    try:
        with header.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise LanemapError(f"cannot read {header}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise LanemapError(f"{header} has more than {MAX_BYTES >> 20} MiB: too much for a C++ header")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise LanemapError(f"{header} is not text: name a C++ header") from None
