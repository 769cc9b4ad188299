"""Defects of a source, each with what its maintainer needs: where, what is true, the proof, an example, the effect."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np

from ..errors import LanemapError
from ..isa.forms import FORMS
from ..isa.instructions import Key, instruction, name_of
from ..isa.listing import grouped, naturally, spans
from ..layout.fragment import NOT_CITED, PLACE, Fragment, Source
from ..layout.permutation import is_identity
from ..lookup import Query
from ..store.reader import Rows, Tabular
from . import crosscheck
from .crosscheck import ERRATA, Finding, failures, judges
from .difference import Cell, Difference, Place, difference, wrong_results
from .evidence import NOTHING, REACHES, Evidence, EvidenceFile, LibraryRecord, facts
from .verdict import Result, Verdict, axes_of, common_permutations, compare

#: Instructions of which every form is known.
_LISTED = {form.name for form in FORMS}
#: Up to this many remarks are listed.
_FEW = 6
_AGREE = (Verdict.IDENTICAL, Verdict.REFINED)


@dataclass(frozen=True)
class WrongOperand:
    """An operand that a source says wrongly.

    ``result`` compares it with what is true; either side may be missing. ``remarks`` are what is unsound in it by
    itself, ``others`` the operands of its instruction that share an axis with it, and ``agreeing`` the sources that
    have the true layout.
    """

    source: Source
    result: Result
    origin: str
    remarks: Sequence[str]
    others: Sequence[Result]
    agreeing: Sequence[tuple[Source, Fragment]]

    @property
    def key(self) -> Key:
        """The operand."""
        return self.result.key

    @property
    def library(self) -> tuple[str, str, object]:
        """The library, its version and the claim set."""
        said = self.source.provenance
        return str(said.get("library") or self.source.name), str(said.get("version") or ""), said.get("set")

    @property
    def words(self) -> str:
        """What is wrong: the claim is the left side of the result."""
        left, right, found = self.result.left, self.result.right, self.result.difference
        if left is None:
            return "none of its elements is where it must be"
        if right is None and not _unknown(self.key):
            return "it is unsound by itself, and no other source can judge it"
        if right is None:
            return f"PTX has none with {self.key.role} of {self.key.type}"
        if found is None and left.citation.mended:
            return f"its formula cannot be read as printed: {left.citation.mended}"
        if found is None:
            return "one part of the tile is right, and others are not where they must be"
        same = [f"it is {self.result.same_as}"] if self.result.same_as else []
        said = found.words.replace("on the left", "in the claim").replace("on the right", "in truth")
        return "; ".join([*same, said.replace("left row", "claimed row").replace("left col", "claimed col")])


@dataclass(frozen=True)
class Defect:
    """One root cause: what is wrong of one operand, or of several in which it shows.

    ``versions`` says of each version of the library that is in the database whether it has the defect. ``evidence`` is
    what is known of it beside what a comparison finds, if anybody has looked.
    """

    wrong: Sequence[WrongOperand]
    versions: Mapping[str, str]
    evidence: Evidence = NOTHING

    @cached_property
    def first(self) -> WrongOperand:
        """The one that stands for all: one whose elements can be compared, if there is any."""
        return next((operand for operand in self.wrong if operand.result.difference), self.wrong[0])

    @property
    def source(self) -> Source:
        """What claims it."""
        return self.first.source

    @property
    def result(self) -> Result:
        """The first operand compared with what is true."""
        return self.first.result

    @cached_property
    def keys(self) -> Sequence[Key]:
        """The operands."""
        return list(dict.fromkeys(operand.key for operand in self.wrong))

    @property
    def name(self) -> str:
        """The operands, or the instruction of those that differ in more than their type and selector."""
        if len({key._replace(type="", selector=None) for key in self.keys}) > 1:
            return "; ".join(dict.fromkeys(f"{key.instruction} {key.shape}" for key in self.keys))
        alike = {key._replace(selector=None): key for key in self.keys}
        return name_of(alike.values() if len(alike) == len(self.keys) else alike)

    @property
    def library(self) -> str:
        """The library with its version; where nobody has looked for the cause, the claim set, too."""
        name, version, _ = self.first.library
        known = self.evidence.name and self.source.kind == "import"
        return f"{name} {version}".strip() if known else self.source.title

    @property
    def title(self) -> str:
        """What an issue about it would be called."""
        return f"{self.library}: {self.evidence.title or self.name}"

    @property
    def fixed(self) -> bool:
        """Whether the newest release no longer has it."""
        return bool(self.evidence.until)

    @property
    def words(self) -> str:
        """What is wrong, of operands of the same type once."""
        alike = [
            operand for operand in self.wrong if operand.key.type == self.first.key.type or operand.result.right is None
        ]
        return self.evidence.words or "; ".join(dict.fromkeys(operand.words for operand in alike))

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a report says of it, in order, as labels and sentences."""
        known, said = self.evidence, self.source.provenance
        made_by = said.get("package") or said.get("library")
        place = f"{made_by} {said.get('version') or ''}".strip() if made_by else self.source.name
        remarks = list(dict.fromkeys(words for operand in self.wrong for words in operand.remarks))
        more = [f"and {len(remarks) - _FEW} more"] if len(remarks) > _FEW else []
        found = {
            "fixed": known.until and f"in {known.fixed}",
            "reach": known.reach and f"{known.reach}: {known.reason}",
            "root cause": known.root,
            "where": "; ".join(self._shown) if known.name else ", ".join(filter(None, (place, self.first.origin))),
            "claim set": "" if known.name else said.get("set"),
            "wrong": self.words,
            "in detail": "" if known.words else "; ".join([*remarks[:_FEW], *more]),
            "example": self.example,
            "proof": self.proof,
            "not a renumbering": self.renumbering,
            "agreement": known.agreement or self.agreement,
            "effect": self.effect if known.reach in ("", "wrong product") else "",
            "confirmed": known.run,
            "releases": known.versions,
            "versions": "" if known.since else "; ".join(map(": ".join, self.versions.items())),
            "use": "" if known.name else said.get("unreached", {}).get(str(self.first.key)),
            "reported": ", ".join(known.reports),
            "copied from": known.copied,
            "correction": ". ".join(filter(None, (known.correction, known.tried))),
        }
        return [(label, str(words)) for label, words in found.items() if words]

    @property
    def _shown(self) -> list[str]:
        """The operands in which it shows, those of one place together."""
        places = grouped(
            self.wrong, lambda operand: (operand.origin, operand.library[2], operand.key._replace(type=""))
        )
        return [
            f"{name_of({operand.key: None for operand in alike})} ({f'{claim_set}, ' if claim_set else ''}{origin})"
            for (origin, claim_set, _), alike in places.items()
        ]

    @property
    def example(self) -> str:
        """The first place whose claimed cell is not the true one."""
        for place, claimed, true in self.examples[:1]:
            where = "lane {}, register {}, slot {}".format(*place)
            return f"{where} is said to hold {cell_words(claimed)}, and holds {cell_words(true)}"
        return ""

    @property
    def examples(self) -> list[tuple[Place, Cell | None, Cell | None]]:
        """The places that are wrong, with the claimed cell and the true one, first those that have both."""
        listed = self.result.difference.elements if self.result.difference else []
        return sorted(listed, key=lambda each: None in each[1:])

    @property
    def proof(self) -> str:
        """Where the true layout is written, and on what it was measured."""
        said = []
        for source, fragment in self.first.agreeing:
            cited = fragment.citation
            section = f"section {cited.section} (#{cited.anchor}) of " if cited.section else ""
            said.append(f"{section}{source.name}" + ("" if section else f" ({source.title})"))
            if cited.erratum:
                said.append(f"{cited.erratum} ({cited.evidence})")
        return "; ".join(said)

    @cached_property
    def renumbering(self) -> str:
        """Why no renumbering of rows, columns or depth, which a product would not notice, explains the difference."""
        found, left = self.result.difference, self.result.left
        if found is None or left is None:
            return ""
        if not found.same_slots:
            return "a renumbering moves cells, and here slots hold none"
        return _conflict(found, instruction(left.instruction).axes[left.role])

    @cached_property
    def agreement(self) -> str:
        """Of each axis that may be renumbered whether the other operands that count it, as claimed, do it alike."""
        if not self.result.difference or self.result.left is None:
            return ""
        said = []
        for axis in axes_of(self.first.key)[:2]:
            alone = common_permutations(axis, [self.result], difference)
            sharing = [result for result in self.first.others if axis in axes_of(result.key)]
            if not alone or all(map(is_identity, alone)):
                continue
            alike = [result for result in sharing if common_permutations(axis, [self.result, result], difference)]
            apart = [str(result.key) for result in sharing if result not in alike]
            words = f"and not alike in {', '.join(apart)}" if apart else "and alike in the others"
            said.append(f"{axis.upper()} is renumbered, {words if sharing else 'and no other operand is claimed'}")
        return "; ".join(said)

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

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {
            "source": self.source.name,
            "title": self.title,
            "evidence": msgspec.to_builtins(self.evidence) if self.evidence.name else None,
            "operands": [key._asdict() for key in self.keys],
            **{label.replace(" ", "_"): words for label, words in self.facts},
            "versions": dict(self.versions),
            "elements": [
                {**dict(zip(PLACE, place, strict=True)), "claimed": claimed, "true": true}
                for place, claimed, true in (self.result.difference.elements if self.result.difference else ())
            ],
        }


@dataclass(frozen=True)
class Report(Tabular):
    """The defects of some sources. ``made`` says how it was made: the command, the version.

    ``looked`` are libraries that were looked at, with what was found.
    """

    defects: Sequence[Defect]
    made: Mapping[str, str] = field(default_factory=dict)
    looked: Sequence[LibraryRecord] = ()

    #: ``report(form="markdown")`` is the report as text: ``markdown``, ``html``, ``json`` or ``issue``. ``_repr_html_``
    #: is what a notebook shows. ``render.report`` adds them.
    report: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]

    def summary(self) -> Rows:
        """One row for each: what claims it, the operands, how far it reaches, and what is wrong."""
        rows = [
            (defect.library, defect.name, f"{'fixed: ' * defect.fixed}{defect.evidence.reach}", defect.words)
            for defect in self.defects
        ]
        found = Rows(("source", "operand", "reach", "wrong"), rows)
        return found.only(lambda name, values: name != "reach" or any(values))

    rows = summary


def defects(
    asked: Sequence[Source],
    sources: Sequence[Source],
    findings: Sequence[Finding] = (),
    query: Query | None = None,
    evidence: EvidenceFile | None = None,
) -> list[Defect]:
    """The defects of some sources, by what the others have.

    Args:
        asked: the sources to report on.
        sources: everything there is. Corrected documents and captures are taken for true.
        findings: what the structural checks found.
        query: only the operands that match.
        evidence: what is known of defects beside. Default: what ships.

    Raises:
        LanemapError: no operand matches.
    """
    shipped = evidence or facts()
    there = [one.key for source in asked for one in source.fragments]
    there += [one.key for source in asked for one in failures(source) if one.key]
    if query and not any(map(query.matches, there)):
        words = " ".join(map(str, query.asked.values()))
        names = ", ".join(source.name for source in asked)
        raise LanemapError(f"{names} has no such operand: {words}", "fragment")
    wrong = [operand for source in asked for operand in _wrong(source, sources, [*findings, *failures(source)])]

    def cause(each: WrongOperand) -> tuple[object, ...]:
        library, version, claim_set = each.library
        known = shipped.of(library, version, each.key, each.origin, claim_set)
        if known.name:
            return library, version, known.name
        same = each.key[:2] if _unknown(each.key) else (each.origin, each.key._replace(type="", selector=None))
        return library, version, claim_set, same

    causes = {each.name: each for each in shipped.defect}
    groups = grouped((operand for operand in wrong if query is None or query.matches(operand.key)), cause)
    found = [
        Defect(group, _versions(group, sources), causes.get(str(cause[2]), NOTHING)) for cause, group in groups.items()
    ]
    order = [*REACHES, ""]
    return sorted(found, key=lambda defect: (defect.fixed, order.index(defect.evidence.reach)))


def _wrong(source: Source, sources: Sequence[Source], findings: Iterable[Finding]) -> Iterator[WrongOperand]:
    """What a source says wrongly."""
    truth = {fragment.key: fragment for fragment in crosscheck.evidence(source, sources).fragments}
    trusted = [(judge, fragment) for judge in judges(sources, source) for fragment in judge.with_rows]
    having = grouped(trusted, lambda pair: pair[1].key)
    own = grouped((finding for finding in findings if finding.source == source.name), lambda finding: finding.key)
    results = compare(source.fragments, list(truth.values()))
    there: dict[Key | None, Result] = {each.key: each for each in results if each.left is not None}
    for key in filter(None, dict.fromkeys([*there, *own])):
        result = there.get(key) or Result(key, Verdict.RIGHT_ONLY, None, truth.get(key))
        if result.verdict in _AGREE:  # what is wrong is elsewhere in its tile
            result = replace(result, difference=None)
        found, left, true = own.get(key, []), result.left, result.right
        slip = left is not None and left.citation.slip and not source.name.endswith(ERRATA)
        if not (result.verdict is Verdict.DIFFERENT or found or slip or _unknown(key)):
            continue
        axes = instruction(key.instruction).axes
        shared = [
            each
            for each in results
            if each.compared and each.key[:2] == key[:2] and each.key.role != key.role
            if {*axes[key.role]} & {*axes[each.key.role]}
        ]
        agreeing = [pair for pair in having.get(key, ()) if true and compare([pair[1]], [true])[0].verdict in _AGREE]
        cited = left.citation if left else NOT_CITED
        section = f"section {cited.section} (#{cited.anchor})" if cited.section else ""
        origins = [*(finding.origin for finding in found), cited.origin, section]
        remarks = list(dict.fromkeys(finding.words for finding in found))
        yield WrongOperand(source, result, next(filter(None, origins), ""), remarks, shared, agreeing)


def _unknown(key: Key) -> bool:
    """Whether PTX has no instruction with such an operand, of those instructions of which every form is known."""
    if key.instruction not in _LISTED or key.role not in "ABCD":
        return False
    return all((form.name, form.shape, form.types.get(key.role)) != (*key[:2], key.type) for form in FORMS)


def _conflict(found: Difference, axes: str) -> str:
    """A row or column that a renumbering would have to take to two, or two to one."""
    for axis, first, last in ((axes[0], "row", "row"), (axes[1], "col", "col_last")):
        sides = ((side[first].tolist(), side[last].tolist()) for side in (found.left, found.right))
        claimed, true = (list(zip(*side, strict=True)) for side in sides)
        for one, other, words in (
            (claimed, true, "what is claimed to be {axis} {} is {axis} {} in one place and {} in another"),
            (true, claimed, "what is {axis} {} is claimed to be {axis} {} in one place and {} in another"),
        ):
            seen: dict[tuple[int, int], tuple[int, int]] = {}
            for here, there in zip(one, other, strict=True):
                if seen.setdefault(here, there) != there:
                    ends = (spans(range(first, last + 1)) for first, last in (here, seen[here], there))
                    return words.format(*ends, axis=axis.upper())
    return ""


def cell_words(cell: Sequence[int] | None) -> str:
    """A cell in words."""
    if cell is None:
        return "nothing"
    row, col, last, computation = cell
    column = f"column {col}" if col == last else f"columns {col}-{last}"
    return f"row {row}, {column}" + (f" of product {computation}" if computation > 1 else "")


_SAID = ("the same", "wrong in another way", "right", "not there")


def _versions(group: Sequence[WrongOperand], sources: Sequence[Source]) -> Mapping[str, str]:
    """Of each version of the library in the database whether its claim set has the same, something else, or neither."""
    library, _, claim_set = group[0].library
    found: dict[str, str] = {}
    for source in sources:
        said = source.provenance
        version = str(said.get("version") or "")
        if source.kind == "import" and version and (said.get("library"), said.get("set")) == (library, claim_set):
            known = [found.get(version, "not there"), *(_said(source, claim) for claim in group)]
            found[version] = min(known, key=_SAID.index)
    return dict(sorted(found.items(), key=lambda item: naturally(item[0]))) if len(found) > 1 else {}


def _said(source: Source, claim: WrongOperand) -> str:
    """What another version says of a claim."""
    key, left, right = claim.key, claim.result.left, claim.result.right
    there = next((fragment for fragment in source.fragments if fragment.key == key), None)
    if claim.result.difference is None and right is not None:
        if {finding.words for finding in failures(source) if finding.key == key} & set(claim.remarks):
            return "the same"
    elif there and left and there.same_layout(left):
        return "the same"
    if there is None:
        return "not there"
    agrees = right is not None and compare([there], [right])[0].verdict in _AGREE
    return "right" if agrees else "wrong in another way"
