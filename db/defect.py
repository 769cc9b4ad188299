"""Defects of a source, each with what its maintainer needs: where, what is true, the proof, an example, the effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .compare import Result, Verdict, compare
from .crosscheck import ERRATA, Finding, failures
from .difference import Difference
from .effect import wrong_results
from .errors import LanemapError
from .fragment import Fragment, Source
from .grouped import grouped
from .instructions import FORMS, Key, instruction, name_of, products
from .lookup import Query
from .names import naturally
from .notation import NOTATIONS, notation
from .notation.export import express
from .reader import Rows
from .spans import spans

if TYPE_CHECKING:
    import pandas as pd

#: What a corrected layout is written in where the library's own notation is not known or cannot express it.
_NOTATIONS = ("python", "ptx-formula")
#: Up to this many remarks are listed.
_FEW = 6
_AGREE = (Verdict.IDENTICAL, Verdict.REFINED)


@dataclass(frozen=True)
class Defect:
    """What a source says wrongly of an operand, or of several that differ in type, selector or part of a tile.

    ``result`` compares the first of them with what is true; either side may be missing. ``remarks`` are what is unsound
    in it by itself. ``agreeing`` are the sources that have the true layout. ``versions`` says of each version of the
    library that is in the database whether it has the defect. ``confirmed`` says what a kernel of the library gave on a
    GPU, and ``unreached`` why nothing depends on the claim, where that is so.
    """

    source: Source
    keys: Sequence[Key]
    origin: str
    words: str
    result: Result
    others: Sequence[Result]
    remarks: Sequence[str]
    agreeing: Sequence[tuple[Source, Fragment]]
    versions: Mapping[str, str]
    confirmed: str
    unreached: str

    @property
    def name(self) -> str:
        """The operands, or the instruction of those that PTX does not have."""
        if len({key.role for key in self.keys}) > 1:
            return f"{self.keys[0].instruction} {self.keys[0].shape}"
        alike = {key._replace(selector=None): key for key in self.keys}
        several = len(alike) < len(self.keys)
        return name_of(key._replace(selector=None) if several else key for key in alike.values())

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a report says of it, in order, as labels and sentences."""
        said = {
            "where": self.origin,
            "claim set": str(self.source.provenance.get("set") or ""),
            "wrong": self.words,
            "in detail": "; ".join(_first(self.remarks)),
            "example": self.example,
            "proof": self.proof,
            "not a renumbering": self.renumbering,
            "effect": self.effect,
            "confirmed": self.confirmed,
            "versions": "; ".join(f"{version}: {words}" for version, words in self.versions.items()),
            "use": self.unreached,
        }
        return [(label, words) for label, words in said.items() if words]

    @cached_property
    def example(self) -> str:
        """The first place whose claimed cell is not the true one."""
        listed = self.result.difference.elements if self.result.difference else []
        for (lane, reg, slot), claimed, true in sorted(listed, key=lambda each: None in each[1:]):
            place = f"lane {lane}, register {reg}, slot {slot}"
            return f"{place} is said to hold {_cell(claimed)}, and holds {_cell(true)}"
        return ""

    @property
    def proof(self) -> str:
        """Where the true layout is written, and on what it was measured."""
        said = []
        for source, fragment in self.agreeing:
            section = f"section {fragment.section} (#{fragment.anchor}) of " if fragment.section else ""
            said.append(f"{section}{source.name}" + ("" if section else f" ({source.title})"))
            if fragment.erratum:
                said.append(f"{fragment.erratum} ({fragment.evidence})")
        return "; ".join(said)

    @cached_property
    def renumbering(self) -> str:
        """Why no renumbering of rows, columns or depth, which a product would not notice, explains the difference."""
        found, left = self.result.difference, self.result.left
        if found is None or left is None:
            return ""
        if not found.same_slots:
            return "a renumbering moves cells, and here slots hold none"
        return _conflict(found, instruction(left.instruction).axes[left.role]) or self._alone()

    def _alone(self) -> str:
        """The operands that share a dimension, and that are not renumbered alike."""
        alike = [str(each.key) for each in self.others if each.verdict in _AGREE]
        if alike:
            return f"by itself it may be one, but {alike[0]} is not renumbered alike"
        return "by itself it may be one, but no other operand is renumbered alike"

    @cached_property
    def effect(self) -> str:
        """Which elements of D come out wrong, or of the matrix that is moved."""
        claimed, true = self.result.left, self.result.right
        if claimed is None or true is None or self.result.difference is None:
            return ""
        wrong = wrong_results(claimed, true)
        multiplies = instruction(true.instruction).multiplies
        what = "elements of D are wrong" if multiplies else "elements of the matrix arrive elsewhere"
        count = f"all {wrong.size}" if wrong.all() else f"{wrong.sum()} of {wrong.size}"
        lines = [("rows", wrong.any(axis=(0, 2))), ("columns", wrong.any(axis=(0, 1)))]
        where = [f"{name} {spans(np.flatnonzero(some).tolist())}" for name, some in lines if not some.all()]
        return f"{count} {what}" + (f", in {' and '.join(where)}" if where else "")

    @cached_property
    def corrected(self) -> tuple[str, str] | None:
        """The true layout as the library writes layouts, if it can: the name of the notation, and the text."""
        true = self.result.right
        own = "ptx-formula" if self.source.kind == "document" else str(self.source.provenance.get("notation"))
        for name in (own, *_NOTATIONS):
            if true is not None and name in NOTATIONS:
                try:
                    return name, express(notation(name), true)
                except LanemapError:
                    continue
        return None

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        notation_, text = self.corrected or (None, None)
        return {
            "source": self.source.name,
            "title": self.source.title,
            "operands": [key._asdict() for key in self.keys],
            **{label.replace(" ", "_"): words for label, words in self.facts},
            "versions": dict(self.versions),
            "corrected": {"notation": notation_, "text": text} if text else None,
            "elements": [
                {**dict(zip(("lane", "reg", "slot"), place, strict=True)), "claimed": claimed, "true": true}
                for place, claimed, true in (self.result.difference.elements if self.result.difference else ())
            ],
        }


@dataclass(frozen=True)
class Report:
    """The defects of some sources. ``made`` says how it was made: the command, the version."""

    defects: Sequence[Defect]
    made: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> Rows:
        """One row for each: what claims it, the operands, and what is wrong."""
        return Rows(_SUMMARY, [(each.source.title, each.name, each.words) for each in self.defects])

    def frame(self) -> pd.DataFrame:
        """The same as a frame."""
        return self.summary().frame()

    def report(self, form: str = "markdown") -> str:
        """The report as text: ``markdown``, ``html`` or ``json``."""
        from .report import render_defects

        return render_defects(self, form)

    def _repr_html_(self) -> str:
        from .report.html import defects_body

        return defects_body(self)


_SUMMARY = ("source", "operand", "wrong")


def defects(
    asked: Sequence[Source], sources: Sequence[Source], findings: Sequence[Finding] = (), query: Query | None = None
) -> list[Defect]:
    """The defects of some sources, by what the others have.

    Args:
        asked: the sources to report on.
        sources: everything there is. Corrected documents and captures are taken for true.
        findings: what the structural checks found.
        query: only the operands that match.

    Raises:
        LanemapError: no operand matches.
    """
    named = {each.name for each in sources}
    judges = [each for each in sources if each.kind in ("document", "capture") and each.name + ERRATA not in named]
    judges.sort(key=lambda each: each.kind, reverse=True)
    there = [one.key for each in asked for one in each.fragments]
    there += [one.key for each in asked for one in failures(each) if one.key]
    if query and not any(map(query.matches, there)):
        words = " ".join(map(str, query.asked.values()))
        names = ", ".join(each.name for each in asked)
        raise LanemapError(f"{names} has no such operand: {words}", "fragment")
    wrong: list[_Wrong] = []
    for source in asked:
        trusted = [each for each in judges if each.name != source.name]
        found = _wrong(source, trusted, [*findings, *failures(source)])
        wrong += (each for each in found if query is None or query.matches(each.result.key))

    def alike(each: _Wrong) -> tuple[object, ...]:
        key, source = each.result.key, each.source
        operands = key[:2] if _unknown(key) else (each.origin, key._replace(type="", selector=None))
        return _library(source), _version(source), source.provenance.get("set"), operands

    return [_defect(group, sources) for group in grouped(wrong, alike).values()]


@dataclass(frozen=True)
class _Wrong:
    """One operand that a source says wrongly, before those that are alike are put together."""

    source: Source
    result: Result
    origin: str
    remarks: Sequence[str]
    others: Sequence[Result]
    agreeing: Sequence[tuple[Source, Fragment]]


def _wrong(source: Source, trusted: Sequence[Source], findings: Iterable[Finding]) -> Iterator[_Wrong]:
    truth: dict[Key, Fragment] = {}
    for each in (fragment for judge in trusted for fragment in judge.fragments if fragment.has_rows):
        truth.setdefault(each.key, replace(each, source=None))
    own = [each for each in findings if each.source == source.name and each.key is not None]
    results = compare(source.fragments, list(truth.values()))
    there = {each.key: each for each in results if each.left is not None}
    for key in dict.fromkeys([*there, *(each.key for each in own if each.key is not None)]):
        result = there.get(key) or Result(key, Verdict.RIGHT_ONLY, None, truth.get(key))
        remarks = list(dict.fromkeys(each.words for each in own if each.key == key))
        slip = result.left is not None and result.left.slip and not source.name.endswith(ERRATA)
        if not (result.verdict is Verdict.DIFFERENT or remarks or slip or _unknown(key)):
            continue
        axes = set(instruction(key.instruction).axes[key.role])
        shared = [
            each
            for each in results
            if each.key[:2] == key[:2] and each.key.role != key.role and each.compared
            if axes & set(instruction(key.instruction).axes[each.key.role])
        ]
        origin = next((each.origin for each in own if each.key == key and each.origin), None) or _where(result.left)
        yield _Wrong(source, result, origin, remarks, shared, list(_agreeing(trusted, truth.get(key))))


def _agreeing(trusted: Sequence[Source], true: Fragment | None) -> Iterator[tuple[Source, Fragment]]:
    for source in trusted if true else ():
        for each in source.fragments:
            if true and each.key == true.key and each.has_rows and compare([each], [true])[0].verdict in _AGREE:
                yield source, each


def _unknown(key: Key) -> bool:
    """Whether PTX has no instruction with such an operand, of those instructions of which every form is known."""
    if key.instruction not in {form.name for form in FORMS} or key.role not in "ABCD":
        return False
    return all(types.get(key.role) != key.type for types in products(key.instruction, key.shape))


def _where(fragment: Fragment | None) -> str:
    if fragment is None:
        return ""
    return fragment.origin or (f"section {fragment.section} (#{fragment.anchor})" if fragment.section else "")


def _defect(group: Sequence[_Wrong], sources: Sequence[Source]) -> Defect:
    first = next((each for each in group if each.result.difference), group[0])
    said = first.source.provenance
    library = said.get("package") or said.get("library")
    made_by = f"{library} {said.get('version') or ''}".strip() if library else first.source.name

    def alike(each: _Wrong) -> bool:
        return each.result.key.type == first.result.key.type or each.result.right is None

    return Defect(
        source=first.source,
        keys=list(dict.fromkeys(each.result.key for each in group)),
        origin=", ".join(filter(None, (made_by, first.origin))),
        words="; ".join(dict.fromkeys(_words(each.result) for each in group if alike(each))),
        result=first.result,
        others=first.others,
        remarks=list(dict.fromkeys(words for each in group for words in each.remarks)),
        agreeing=first.agreeing,
        versions=_versions(group, sources),
        **{each: str(said.get(each, {}).get(str(first.result.key), "")) for each in ("confirmed", "unreached")},
    )


def _words(result: Result) -> str:
    """What is wrong, in words: the claim is the left side of the result."""
    if result.left is None:
        return "none of its elements is where it must be"
    if result.right is None:
        return f"PTX has none with {result.key.role} of {result.key.type}"
    if result.difference is None and result.left.mended:
        return f"its formula cannot be read as printed: {result.left.mended}"
    if result.difference is None:
        return "one part of the tile is right, and others are not where they must be"
    same = [f"it is {result.same_as}"] if result.same_as else []
    words = result.difference.words.replace("on the left", "in the claim").replace("on the right", "in truth")
    return "; ".join([*same, words.replace("left row", "claimed row").replace("left col", "claimed col")])


def _conflict(found: Difference, axes: str) -> str:
    """A row or column that a renumbering would have to take to two, or two to one."""
    for axis, first, last in ((axes[0], "row", "row"), (axes[1], "col", "col_last")):
        sides = ((side[first].tolist(), side[last].tolist()) for side in (found.left, found.right))
        claimed, true = (list(zip(*side, strict=True)) for side in sides)
        for one, other, words in (
            (claimed, true, "what is claimed to be {axis} {one} is {axis} {two} in one place and {three} in another"),
            (true, claimed, "what is {axis} {one} is claimed to be {axis} {two} in one place and {three} in another"),
        ):
            seen: dict[tuple[int, int], tuple[int, int]] = {}
            for here, there in zip(one, other, strict=True):
                if seen.setdefault(here, there) != there:
                    ends = (spans(range(first, last + 1)) for first, last in (here, seen[here], there))
                    return words.format(axis=axis.upper(), **dict(zip(("one", "two", "three"), ends, strict=True)))
    return ""


def _first(remarks: Sequence[str]) -> Sequence[str]:
    more = len(remarks) - _FEW
    return [*remarks[:_FEW], f"and {more} more"] if more > 0 else remarks


def _cell(cell: Sequence[int] | None) -> str:
    if cell is None:
        return "nothing"
    row, col, last, computation = cell
    column = f"column {col}" if col == last else f"columns {col}-{last}"
    return f"row {row}, {column}" + (f" of product {computation}" if computation > 1 else "")


def _library(source: Source) -> str:
    return str(source.provenance.get("library") or source.name)


def _version(source: Source) -> str:
    return str(source.provenance.get("version") or "")


def _versions(group: Sequence[_Wrong], sources: Sequence[Source]) -> Mapping[str, str]:
    """Of each version of the library in the database whether its claim set has the same, something else, or neither."""
    mine = group[0].source
    found: dict[str, str] = {}
    for each in sources:
        alike = _library(each) == _library(mine) and each.provenance.get("set") == mine.provenance.get("set")
        if each.kind == "import" and alike and _version(each):
            said = {_said(each, wrong) for wrong in group}
            known = found.get(_version(each), "not there")
            found[_version(each)] = min([known, *said], key=_SAID.index)
    return dict(sorted(found.items(), key=lambda item: naturally(item[0]))) if len(found) > 1 else {}


_SAID = ("the same", "wrong in another way", "right", "not there")


def _said(source: Source, wrong: _Wrong) -> str:
    key, left, right = wrong.result.key, wrong.result.left, wrong.result.right
    there = next((each for each in source.fragments if each.key == key), None)
    if wrong.result.difference is None and right is not None:
        if {each.words for each in failures(source) if each.key == key} & set(wrong.remarks):
            return "the same"
    elif there and left and there.digest == left.digest:
        return "the same"
    if there is None:
        return "not there"
    agrees = right is not None and compare([there], [right])[0].verdict in _AGREE
    return "right" if agrees else "wrong in another way"
