"""The kinds of things that can be imported, and what an importer hands over.

A new kind is a row here, and a module of its name with ``load``. It gives sources, and by name everything that it left
out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, NamedTuple

from ..db.errors import LanemapError
from ..db.isa.instructions import Key
from ..db.layout.fragment import Fragment, Source, count_elements


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
            "B of mma.sp *",
            "E of mma.sp *",
        ),
    ),
    "tensor-layouts": Importer(),
    "python": Importer("a mapping", ("python",)),
    "table": Importer("a CSV, Parquet or Arrow file"),
}


class Skipped(NamedTuple):
    """Something that an importer found and did not import: an atom, one of its operands, a file.

    ``operand`` says of which operand something wrong is claimed, and ``origin`` where, if that is the reason.
    """

    name: str
    reason: str
    operand: Key | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Imported:
    """A source, and what was left out of it. Nothing is left out silently.

    ``findings`` name fragments that came in without some of their elements, and say which. It ``failed`` where what was
    left out is what somebody claims of their own.
    """

    source: Source
    skipped: Sequence[Skipped] = ()
    findings: Sequence[Skipped] = ()
    failed: bool = False

    @property
    def rows(self) -> int:
        """How many elements the source has."""
        return count_elements(self.source.fragments)


def wrong(found: Iterable[Skipped]) -> list[dict[str, Any]]:
    """Wrong claims, as the provenance of a source keeps them."""
    return [
        {"operand": list(skipped.operand), "origin": skipped.origin, "words": skipped.reason}
        for skipped in found
        if skipped.operand
    ]


def claim_sets(
    source: Source, units: Iterable[tuple[str, Sequence[Fragment]]], *, whole: bool = False
) -> Iterator[Source]:
    """The source with the fragments of some units, and one more for each unit that contradicts those before it.

    A unit is what a library keeps together, such as an atom. What contradicts others is compared by itself: pooled with
    them, operands that are only renumbered alike would look wrong.

    Args:
        source: without fragments.
        units: the fragments of each unit, with its name.
        whole: whether a source that a unit begins has the rest of the first one too, for units of a single operand.
    """
    groups: list[tuple[str, dict[Key, Fragment]]] = [(source.name, {})]
    for name, fragments in units:
        own = {fragment.key: fragment for fragment in fragments}
        for _, group in groups:
            if all(key not in group or group[key].same_layout(fragment) for key, fragment in own.items()):
                group.update({key: fragment for key, fragment in own.items() if key not in group})
                break
        else:
            groups.append((f"{source.name}:{name}", own))
    for name, group in groups:
        title = source.title + name.removeprefix(source.name).replace(":", ", ")
        kept = {**groups[0][1], **group} if whole else group
        yield replace(source, name=name, title=title, fragments=list(kept.values()))


def read(kind: str, path: str | None = None, name: str | None = None, **options: Any) -> Sequence[Imported]:
    """Read the layouts of something else than a document, without loading them into a database.

    Args:
        kind: one of IMPORTERS.
        path: the file or folder, for the kinds that need one.
        name: what to call the source, or what comes before the colon where it has parts. Default: as the import says.
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
    names = [imported.source.name for imported in found]
    if len({each.partition(":")[0] for each in names}) > 1:
        raise LanemapError(f"{path} holds the sources {', '.join(names)}: a name of its own is for one source")
    parts = ["".join(each.partition(":")[1:]) for each in names] if len(names) > 1 else [""]
    return [
        replace(imported, source=replace(imported.source, name=name + part))
        for imported, part in zip(found, parts, strict=True)
    ]


def adding(key: Key) -> list[str]:
    """Which commands may add rows of a fragment that no source has, and what each reads, in sentences."""
    return [
        f"lanemap import {kind}" + (f" PATH adds them, from {importer.path}" if importer.path else " adds them")
        for kind, importer in IMPORTERS.items()
        if any(fnmatchcase(str(key), pattern) for pattern in importer.adds)
    ]
