"""The kinds of things that can be imported. A new one is a row here, and a module of its name with ``load``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ..db.errors import LanemapError

if TYPE_CHECKING:
    from ..db.isa.instructions import Key
    from .imported import Imported


class Importer(NamedTuple):
    """One kind: what its path is where it needs one, and the other arguments that it takes.

    ``adds`` are patterns of the names of fragments that only an import of this kind has rows of.
    """

    path: str | None = None
    options: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()


#: The kinds by name.
IMPORTERS: Mapping[str, Importer] = {
    "cute": Importer(
        "a CUTLASS source tree, its include folder, or a header of it",
        adds=(
            "r of tcgen05.*",
            "r of ldmatrix m16n16 b8 *",
            "r of stmatrix m16n8 b8 *",
            "B of mma.sp *",
            "E of mma.sp *",
        ),
    ),
    "tensor-layouts": Importer(),
    "python": Importer("a mapping", ("python",)),
    "table": Importer("a CSV, Parquet or Arrow file"),
}


def read(kind: str, path: str | None = None, name: str | None = None, **options: Any) -> Sequence[Imported]:
    """Read the layouts of something else than a document, without loading them into a database.

    Args:
        kind: one of IMPORTERS.
        path: the file or folder, for the kinds that need one.
        name: what to call the source. Default: as the import says.
        options: of the kind; None counts as not given.

    Raises:
        LanemapError: the kind is unknown, the path is missing or not one of that kind, or it cannot be read.
    """
    if not isinstance(kind, str) or kind not in IMPORTERS:
        raise LanemapError(f"cannot import {kind!r}: choose from capture, {', '.join(IMPORTERS)}")
    importer = IMPORTERS[kind]
    if importer.path and path is None:
        raise LanemapError(f"name {importer.path}: lanemap import {kind} PATH")
    if not importer.path and path is not None:
        raise LanemapError(f"{kind} is read from where it is installed: leave out {path}")
    given = {option: value for option, value in options.items() if value is not None}
    if unknown := [option for option in given if option not in importer.options]:
        raise LanemapError(f"{kind} takes no {unknown[0]}: leave it out")
    module = import_module(f".{kind.replace('-', '_')}", __package__)
    found: Sequence[Imported] = module.load(*([path] if importer.path else []), **given)
    if name is None:
        return found
    if len(found) > 1:
        names = ", ".join(each.source.name for each in found)
        raise LanemapError(f"{path} holds the sources {names}: a name of its own is for one source")
    return [replace(each, source=replace(each.source, name=name)) for each in found]


def adding(key: Key) -> list[str]:
    """Which commands may add rows of a fragment that no source has, and what each reads, in sentences."""
    return [
        f"lanemap import {kind}" + (f" PATH adds them, from {importer.path}" if importer.path else " adds them")
        for kind, importer in IMPORTERS.items()
        if any(fnmatchcase(str(key), pattern) for pattern in importer.adds)
    ]
