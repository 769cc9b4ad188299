"""CuTe's atoms, from the headers of a CUTLASS release, read as text.

An atom's instruction is the one in its operation's assembly, its registers are the operation's arrays, and its layouts
are those of its MMA_Traits or Copy_Traits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError
from ...db.fragment import Fragment, Source
from ..imported import Imported, Skipped, claim_sets, wrong
from .copy import copy
from .header import Header, Struct, parse_header
from .operation import atom
from .traits import Library, written
from .tree import fingerprint, locate, read

#: What kernels gave on a GPU that load and multiply by CuTe's own layouts alone, by the operand that is wrong there.
_CONFIRMED = {
    "B of mma m16n8k32 s4": "a kernel through SM80_16x8x32_S32S4S4S32_TN of CUTLASS 4.2.0 computed 127 of 128 elements "
    "wrong on an NVIDIA H200, each of them as this layout predicts"
}


def load(path: str | Path) -> list[Imported]:
    """Every atom of CuTe's headers: one source, and one more for each atom that contradicts others.

    Args:
        path: a CUTLASS source tree, its include folder, or one header, whose includes are followed.

    Raises:
        LanemapError: nothing there can be read as CuTe's.
    """
    tree = locate(Path(path))
    reading = _Reading(tree.root)
    asked = [header for header in map(reading.header, tree.headers) if header]
    waiting = list(asked)
    while waiting:
        waiting += reading.included(waiting.pop())
    units = list(reading.atoms(struct for header in asked for struct in header.structs))
    skipped = reading.skipped
    if not any(fragments for _, fragments in units):
        why = f"{skipped[0].name}: {skipped[0].reason}" if skipped else "it has no struct MMA_Traits<...>"
        raise LanemapError(f"{path} has no CuTe atom: {why}")
    version = tree.version()
    provenance: dict[str, Any] = {"library": "CUTLASS", "version": version, "notation": "cute"}
    provenance |= {"files": reading.files, "wrong": wrong(skipped), "confirmed": _CONFIRMED}
    title = f"CuTe of CUTLASS {version}" if version else "CuTe"
    source = Source(f"cute-{version}" if version else "cute", "import", title, (), provenance)
    first, *others = claim_sets(source, units)
    return [Imported(first, skipped), *map(Imported, others)]


_HEADERS = ("cute/atom/mma_traits", "cute/atom/copy_traits", "cute/arch/mma", "cute/arch/copy", "cute/arch/tmem")


class _Reading:
    """The headers read so far, what they declare, and what was left out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.library = Library()
        self.files: dict[str, str] = {}
        self.skipped: list[Skipped] = []

    def header(self, path: Path) -> Header | None:
        """Read a header and make its declarations known; None where it was read already, or cannot be."""
        name = path.relative_to(self.root).as_posix()
        if name in self.files:
            return None
        text = read(path)
        self.files[name] = fingerprint(text)
        try:
            header = parse_header(text, name)
            self.library.add(header)
        except LanemapError as error:
            self.skipped.append(Skipped(name, str(error)))
            return None
        return header

    def included(self, header: Header) -> list[Header]:
        """Read the headers of traits and of operations that one includes."""
        folder = Path(header.file).parent
        names = [name if "/" in name else (folder / name).as_posix() for name in header.includes]
        names = [name for name in names if name.startswith(_HEADERS) and ".." not in name]
        return [found for name in names if (self.root / name).is_file() and (found := self.header(self.root / name))]

    def atoms(self, structs: Iterable[Struct]) -> Iterator[tuple[str, list[Fragment]]]:
        """The fragments of each operation that the traits are for, with its name."""
        for struct in structs:
            if self.library.pattern(struct) is None:
                continue
            operations = self.library.operations(struct)
            if not operations:
                reason = "its operation, a struct of this name, is not there, or has other traits"
                self.skipped.append(Skipped(written(struct), reason))
            read = copy if struct.name.last.name == "Copy_Traits" else atom
            for name, operation in operations:
                called = str(name) if struct.parameters else written(struct)
                made = list(read(self.library, name, operation, called))
                self.skipped += [each for each in made if isinstance(each, Skipped)]
                yield called, [each for each in made if not isinstance(each, Skipped)]
        lonely = (Skipped(str(name), "there are no traits for it") for name in self.library.lonely())
        self.skipped += lonely
