"""The kinds of imports, and what an importer returns.

A new kind is a row here, and a module of its name with ``load``, which returns sources and the names of everything that
it left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..db.errors import LanemapError
from ..db.isa.instructions import Key
from ..db.layout.fragment import Source, count_elements

#: The mappings of Python libraries that ship.
MAPPINGS = Path(__file__).parent / "python" / "mappings"

#: The kinds by name, and what the path of each is.
IMPORTERS: Mapping[str, str] = {
    "cute": "a CUTLASS source tree, its include folder, or a header of it",
    "python": "a mapping, your own or one that lanemap import python --list names",
    "table": "a CSV, Parquet or Arrow file",
}


class Skipped(NamedTuple):
    """Something that an importer found but did not import: an atom, one of its operands, a file.

    If the reason is a wrong claim, ``operand`` and ``origin`` say about which operand and where.
    """

    name: str
    reason: str
    operand: Key | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Imported:
    """A source, and everything that was left out of it: nothing is left out silently.

    ``findings`` name fragments that were imported without some of their elements, and say which. It ``failed`` if what
    was left out is the user's own claim.
    """

    source: Source
    skipped: Sequence[Skipped] = ()
    findings: Sequence[Skipped] = ()
    failed: bool = False

    @property
    def rows(self) -> int:
        """How many elements the source has."""
        return count_elements(self.source.fragments)


def wrong(remarks: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Wrong claims in the form that the provenance of a source has them."""
    return [
        {"operand": list(skipped.operand), "origin": skipped.origin, "words": skipped.reason}
        for skipped in remarks
        if skipped.operand
    ]


def read(
    kind: str,
    path: str | None = None,
    name: str | None = None,
    python: str | None = None,
    tracer: Callable[..., Any] | None = None,
) -> Sequence[Imported]:
    """Read the layouts of anything but a document, without loading them into a database.

    Args:
        kind: one of IMPORTERS.
        path: the file, folder or mapping.
        name: the name of the source, or the part before the colon if there are several. Default: that of the import.
        python: the Python that has the library of a mapping. Default: this one.
        tracer: what runs the kernels of a mapping.

    Raises:
        LanemapError: the kind is unknown, the path is missing or not of that kind, or it cannot be read.
    """
    if not isinstance(kind, str) or kind not in IMPORTERS:
        known = isinstance(kind, str) and (MAPPINGS / f"{kind}.toml").is_file()
        advice = f"say lanemap import python {kind}" if known else f"choose from capture, {', '.join(IMPORTERS)}"
        raise LanemapError(f"cannot import {kind!r}: {advice}")
    if path is None:
        raise LanemapError(f"name {IMPORTERS[kind]}: lanemap import {kind} PATH")
    if python is not None and kind != "python":
        raise LanemapError(f"{kind} takes no python: leave it out")
    load = import_module(f".{kind}", __package__).load
    imports: Sequence[Imported] = load(path, python, tracer) if kind == "python" else load(path)
    if name is None:
        return imports
    names = [imported.source.name for imported in imports]
    if len({source_name.partition(":")[0] for source_name in names}) > 1:
        raise LanemapError(f"{path} holds the sources {', '.join(names)}: a name of its own is for one source")
    parts = ["".join(source_name.partition(":")[1:]) for source_name in names] if len(names) > 1 else [""]
    return [
        replace(imported, source=replace(imported.source, name=name + part))
        for imported, part in zip(imports, parts, strict=True)
    ]


def adding(key: Key) -> str:
    """What may add rows of a fragment that no source has, if anything: only CuTe has B and E of sparse products."""
    missing = key.instruction == "mma.sp" and key.role in "BE"
    return f"lanemap import cute PATH adds them, from {IMPORTERS['cute']}" if missing else ""
