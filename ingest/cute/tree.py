"""Where CuTe's headers are: a CUTLASS source tree, its include folder, or one header."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ...db.errors import LanemapError

#: No header of CUTLASS has a tenth of this; what is larger is not one.
MAX_BYTES = 32 << 20

_INSIDE = ("", "include", "source/include", "cutlass_library/source/include")
_VERSION = re.compile(r"^#define CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


def locate(path: Path) -> Tree:
    """The headers with traits at a path, from the oldest architecture to the newest.

    Raises:
        LanemapError: there is no such path, or it holds none.
    """
    if not path.exists():
        raise LanemapError(f"{path} does not exist: name a CUTLASS source tree, its include folder, or a header of it")
    if path.is_file():
        root = next((parent for parent in path.resolve().parents if (parent / "cute").is_dir()), None)
        return Tree(root or path.resolve().parent, [path.resolve()])
    for inside in _INSIDE:
        found = [*(path / inside / "cute" / "atom").glob("mma_traits*.hpp")]
        found += (path / inside / "cute" / "atom").glob("copy_traits*.hpp") if found else ()
        if found:
            return Tree(path / inside, sorted(found, key=_age))
    raise LanemapError(
        f"{path} holds no cute/atom/mma_traits*.hpp: name a CUTLASS source tree, its include folder, or a header of it"
    )


@dataclass(frozen=True)
class Tree:
    """An include folder, and the headers of it that were asked for."""

    root: Path
    headers: list[Path]

    def version(self) -> str | None:
        """CUTLASS's version, where its header is there."""
        header = self.root / "cutlass" / "version.h"
        parts = dict(_VERSION.findall(read(header))) if header.is_file() else {}
        return ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(parts) == 3 else None


def read(header: Path) -> str:
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


def fingerprint(text: str) -> str:
    """SHA-256 of a header's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _age(header: Path) -> tuple[list[int], str]:
    """Sort key that counts: sm90 before sm100."""
    return [int(number) for number in re.findall(r"\d+", header.name)], header.name
