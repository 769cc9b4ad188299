"""The kinds of things that can be imported, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..db.errors import LanemapError
from .imported import Imported


def read(kind: str, path: str | None = None, name: str | None = None) -> Sequence[Imported]:
    """Read the layouts of something else than a document, without loading them into a database.

    Args:
        kind: one of KINDS.
        path: the file or folder, for the kinds that need one.
        name: what to call the source. Default: as the import says.

    Raises:
        LanemapError: the kind is unknown, the path is missing or not one of that kind, or it cannot be read.
    """
    if kind not in KINDS:
        raise LanemapError(f"cannot import {kind!r}: there is {', '.join(KINDS)}")
    read_kind, needs = KINDS[kind]
    if needs and path is None:
        raise LanemapError(f"name {needs}: lanemap import {kind} PATH")
    if not needs and path is not None:
        raise LanemapError(f"{kind} is read from where it is installed: leave out {path}")
    found = read_kind(Path(path or ""))
    if name is None:
        return found
    if len(found) > 1:
        names = ", ".join(each.source.name for each in found)
        raise LanemapError(f"{path} holds the sources {names}: a name of its own is for a table of one")
    return [replace(each, source=replace(each.source, name=name)) for each in found]


def _cute(path: Path) -> list[Imported]:
    from .cute import load

    return [load(path)]


def _tensor_layouts(_: Path) -> list[Imported]:
    from .tensor_layouts import load

    return [load()]


def _table(path: Path) -> list[Imported]:
    from .table import read_table

    return [Imported(source) for source in read_table(path)]


#: How each kind is read, and what its path is where it needs one.
KINDS: Mapping[str, tuple[Callable[[Path], list[Imported]], str | None]] = {
    "cute": (_cute, "a CUTLASS source tree, its include folder, or a header of it"),
    "tensor-layouts": (_tensor_layouts, None),
    "table": (_table, "a CSV, Parquet or Arrow file"),
}
