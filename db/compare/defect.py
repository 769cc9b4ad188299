"""The defects of a source with what its maintainer needs: where, what is true, the proof, an example, the effect."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np

from ..errors import LanemapError
from ..isa.forms import forms
from ..isa.instructions import Key, instruction, name_of
from ..layout.fragment import NOT_CITED, PLACE, Fragment, Source
from ..layout.permutation import is_identity
from ..lookup import ERRATA, Query
from ..rows import Rows, Tabular
from ..text import grouped, spans
from . import crosscheck
from .crosscheck import Finding, failures, judges
from .difference import Cell, Difference, Place, difference, wrong_results
from .evidence import NOTHING, REACHES, Evidence, EvidenceFile, LibraryRecord, examined
from .verdict import Result, Verdict, axes_of, common_permutations, compare

#: Instructions all of whose forms are known.
_LISTED = {form.name for form in forms()}
#: Up to this many remarks are listed.
_FEW = 6
_AGREE = (Verdict.IDENTICAL, Verdict.REFINED)


@dataclass(frozen=True)
class WrongOperand:
    """An operand that a source has wrong.

    ``result`` compares it with the truth; either side may be missing. ``remarks`` are findings in it by itself,
    ``others`` the operands of its instruction that share an axis with it, and ``agreeing`` the sources that have the
    true layout.
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
        library, version, claim_set = map(self.source.provenance.get, ("library", "version", "set"))
        return str(library or self.source.name), str(version or ""), claim_set

    @property
    def words(self) -> str:
        """What is wrong: the claim is the left side of the result."""
        left, right, compared = self.result.left, self.result.right, self.result.difference
        if left is None:
            return "none of its elements is where it should be"
        if right is None and not _unknown(self.key):
            return "it is inconsistent by itself, and no other source can judge it"
        if right is None:
            return f"there is no form with {self.key.role} of {self.key.type}"
        if compared is None and left.citation.mended:
            return f"its formula cannot be read as printed: {left.citation.mended}"
        if compared is None and self.result.reason:
            return self.result.reason.replace("the left", "the claim").replace("the right", "the truth")
        if compared is None:
            return "one part of the tile is right, and others are not where they should be"
        same = [f"it is {self.result.same_as}"] if self.result.same_as else []
        text = compared.words.replace("on the left", "in the claim").replace("on the right", "in truth")
        return "; ".join([*same, text.replace("left row", "claimed row").replace("left col", "claimed col")])


@dataclass(frozen=True)
class Defect:
    """One root cause, which shows in one operand or in several.

    ``evidence`` is what is known about it beyond the comparison, if anybody has examined it.
    """

    wrong: Sequence[WrongOperand]
    evidence: Evidence = NOTHING

    @cached_property
    def first(self) -> WrongOperand:
        """The operand that stands for all: one whose elements can be compared, if there is any."""
        return next((operand for operand in self.wrong if operand.result.difference), self.wrong[0])

    @property
    def source(self) -> Source:
        """The source that has it."""
        return self.first.source

    @property
    def result(self) -> Result:
        """The first operand compared with the truth."""
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
        without_selector = {key._replace(selector=None): key for key in self.keys}
        return name_of(without_selector.values() if len(without_selector) == len(self.keys) else without_selector)

    @property
    def library(self) -> str:
        """The library with its version, or the title of the source if nobody has examined the cause."""
        name, version, _ = self.first.library
        examined = self.evidence.name and self.source.kind == "import"
        return f"{name} {version}".strip() if examined else self.source.title

    @property
    def title(self) -> str:
        """The title for an issue about it."""
        return f"{self.library}: {self.evidence.title or self.name}"

    @property
    def fixed(self) -> bool:
        """Whether the newest release no longer has it."""
        return bool(self.evidence.until)

    @property
    def words(self) -> str:
        """What is wrong in the operands of one type each, each thing once, and in which if they differ in it."""
        kinds = {
            key if operand.result.right is None else key._replace(type="", selector=None): operand
            for operand in reversed(self.wrong)
            for key in [operand.key]
        }
        said = grouped(reversed(kinds.values()), lambda operand: operand.words)
        if self.evidence.words or len(said) == 1:
            return self.evidence.words or next(iter(said))
        return "; ".join(f"{name_of([operand.key for operand in alike])}: {words}" for words, alike in said.items())

    @property
    def labelled(self) -> list[tuple[str, str]]:
        """What a report says about it, in order, as labels and sentences."""
        evidence, provenance = self.evidence, self.source.provenance
        made_by = provenance.get("package") or provenance.get("library")
        place = f"{made_by} {provenance.get('version') or ''}".strip() if made_by else self.source.name
        remarks = list(dict.fromkeys(words for operand in self.wrong for words in operand.remarks))
        more = [f"and {len(remarks) - _FEW} more"] if len(remarks) > _FEW else []
        sets = [operand.library[2] for operand in self.wrong]
        texts = {
            "fixed": evidence.until and f"in {evidence.fixed}",
            "reach": evidence.reach and f"{evidence.reach}: {evidence.reason}",
            "root cause": evidence.root,
            "where": "; ".join(self.shown()) if evidence.name else ", ".join(filter(None, (place, self.first.origin))),
            "claim set": "" if evidence.name else ", ".join(dict.fromkeys(map(str, filter(None, sets)))),
            "wrong": self.words,
            "in detail": "" if evidence.words else "; ".join([*remarks[:_FEW], *more]),
            "example": self.example,
            "proof": self.proof,
            "not a renumbering": self.renumbering,
            "agreement": evidence.agreement or self.agreement,
            "effect": self.effect if evidence.reach == "wrong product" else "",
            "confirmed": evidence.run,
            "releases": evidence.versions,
            "reported": ", ".join(evidence.reports),
            "copied from": evidence.copied,
            "correction": ". ".join(filter(None, (evidence.correction, evidence.tried))),
        }
        return [(label, str(words)) for label, words in texts.items() if words]

    def shown(self, *, sets: bool = True) -> list[str]:
        """The operands in which it shows, grouped by place, with or without the claim sets."""
        places = grouped(
            self.wrong,
            lambda operand: (operand.origin, operand.library[2] if sets else None, operand.key._replace(type="")),
        )
        return [
            f"{name_of({operand.key: None for operand in alike})} ({f'{claim_set}, ' if claim_set else ''}{origin})"
            for (origin, claim_set, _), alike in places.items()
        ]

    @property
    def example(self) -> str:
        """The first place whose claimed cell is wrong."""
        for place, claimed, true in self.examples[:1]:
            where = "lane {}, register {}, slot {}".format(*place)
            return f"{where} is claimed to hold {cell_words(claimed)}, but holds {cell_words(true)}"
        return ""

    @property
    def examples(self) -> list[tuple[Place, Cell | None, Cell | None]]:
        """The places that are wrong, with the claimed and the true cell, first those that have both."""
        elements = self.result.difference.elements if self.result.difference else []
        return sorted(elements, key=lambda element: None in element[1:])

    @property
    def proof(self) -> str:
        """Where the true layout is documented, and on what it was measured."""
        return "; ".join(self.proofs(lambda source: source.name))

    def proofs(self, called: Callable[[Source], str]) -> list[str]:
        """The proofs, with the sources called by their names or titles."""
        proofs = []
        for source, fragment in self.first.agreeing:
            cited = fragment.citation
            section = f"section {cited.section} (#{cited.anchor}) of " if cited.section else ""
            title = "" if section or called(source) == source.title else f" ({source.title})"
            proofs.append(f"{section}{called(source)}{title}")
            if cited.erratum:
                proofs.append(f"{cited.erratum} ({cited.evidence})")
        return proofs

    @cached_property
    def renumbering(self) -> str:
        """Why no renumbering of rows, columns or depth, which does not change a product, explains the difference."""
        compared, left = self.result.difference, self.result.left
        if compared is None or left is None:
            return ""
        if not compared.same_slots:
            return "a renumbering moves cells, but here some slots hold none"
        return _conflict(compared, left.key.axes)

    @cached_property
    def agreement(self) -> str:
        """For each renumbered axis, whether the other claimed operands that count it are renumbered alike."""
        if not self.result.difference or self.result.left is None:
            return ""
        sentences = []
        for axis in axes_of(self.first.key)[:2]:
            alone = common_permutations(axis, [self.result], difference)
            sharing = [result for result in self.first.others if axis in axes_of(result.key)]
            if not alone or all(map(is_identity, alone)):
                continue
            alike = [result for result in sharing if common_permutations(axis, [self.result, result], difference)]
            apart = [str(result.key) for result in sharing if result not in alike]
            words = f"but not in the same way in {', '.join(apart)}" if apart else "in the same way in the others"
            sentences.append(f"{axis.upper()} is renumbered, {words if sharing else 'and no other operand is claimed'}")
        return "; ".join(sentences)

    @cached_property
    def effect(self) -> str:
        """Which elements of D, or of the matrix that is moved, come out wrong."""
        claimed, true = self.result.left, self.result.right
        if claimed is None or true is None or self.result.difference is None:
            return ""
        wrong = wrong_results(claimed, true)
        multiplies = instruction(true.instruction).multiplies
        consequence = "elements of D are wrong" if multiplies else "elements of the matrix arrive elsewhere"
        count = f"all {wrong.size}" if wrong.all() else f"{wrong.sum()} of {wrong.size}"
        lines = [("rows", wrong.any(axis=(0, 2))), ("columns", wrong.any(axis=(0, 1)))]
        where = [f"{name} {spans(np.flatnonzero(affected).tolist())}" for name, affected in lines if not affected.all()]
        return f"{count} {consequence}" + (f", in {' and '.join(where)}" if where else "")

    def record(self) -> dict[str, Any]:
        """The defect for JSON."""
        return {
            "source": self.source.name,
            "title": self.title,
            "evidence": msgspec.to_builtins(self.evidence) if self.evidence.name else None,
            "operands": [key._asdict() for key in self.keys],
            **{label.replace(" ", "_"): words for label, words in self.labelled},
            "elements": [
                {**dict(zip(PLACE, place, strict=True)), "claimed": claimed, "true": true}
                for place, claimed, true in (self.result.difference.elements if self.result.difference else ())
            ],
        }


@dataclass(frozen=True, repr=False)
class Report(Tabular):
    """The defects of some sources. ``made`` says how the report was made: the command, the version.

    ``looked`` are the libraries that were examined, and what was found.
    """

    defects: Sequence[Defect]
    made: Mapping[str, str] = field(default_factory=dict)
    looked: Sequence[LibraryRecord] = ()

    #: ``report(form="markdown")`` returns the report as ``markdown``, ``html``, ``json`` or ``issue``, ``_repr_html_``
    #: that for a notebook. ``render.report`` adds both.
    report: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]

    def summary(self) -> Rows:
        """One row for each defect: the library, the operands, how far it reaches, and what is wrong."""
        rows = [
            (defect.library, defect.name, f"{'fixed: ' * defect.fixed}{defect.evidence.reach}", defect.words)
            for defect in self.defects
        ]
        table = Rows(("source", "operand", "reach", "wrong"), rows)
        return table.only(lambda name, values: name != "reach" or any(values))

    rows = summary


def defects(
    reported: Sequence[Source],
    sources: Sequence[Source],
    findings: Sequence[Finding] = (),
    query: Query | None = None,
    evidence: EvidenceFile | None = None,
    shipped: Collection[str] = (),
) -> list[Defect]:
    """The defects of some sources, judged by others.

    Args:
        reported: the sources to report on.
        sources: all sources. Corrected documents and captures are taken for the truth.
        findings: what the structural checks found.
        query: only the operands that match.
        evidence: what else is known about defects. Default: the file that comes with Lanemap.
        shipped: the sources that come with Lanemap.

    Raises:
        LanemapError: no operand matches.
    """
    known_defects = evidence or examined()
    own = [finding for source in reported for finding in failures(source)]
    keys = [fragment.key for source in reported for fragment in source.fragments]
    keys += [finding.key for finding in own if finding.key]
    if query and not any(map(query.matches, keys)):
        words = " ".join(map(str, query.asked.values()))
        names = ", ".join(source.name for source in reported)
        raise LanemapError(f"{names}: no operand matches {words}", "fragment")
    wrong = [one for source in reported for one in _wrong(source, sources, [*findings, *own], shipped)]

    def cause(operand: WrongOperand) -> tuple[object, ...]:
        library, version, claim_set = operand.library
        known = known_defects.of(library, version, operand.key, operand.origin, claim_set)
        if known.name:
            return library, version, known.name
        key = operand.key
        if not _unknown(key) and operand.origin:
            return library, version, operand.origin
        return library, version, claim_set, key[:2] if _unknown(key) else key._replace(type="", selector=None)

    causes = {defect.name: defect for defect in known_defects.defect}
    groups = grouped((operand for operand in wrong if query is None or query.matches(operand.key)), cause)
    unsorted = [Defect(group, causes.get(str(cause[2]), NOTHING)) for cause, group in groups.items()]
    order = [*REACHES, ""]
    return sorted(unsorted, key=lambda defect: (defect.fixed, order.index(defect.evidence.reach)))


def _wrong(
    source: Source, sources: Sequence[Source], findings: Iterable[Finding], shipped: Collection[str]
) -> Iterator[WrongOperand]:
    """The operands that a source has wrong."""
    truth = {fragment.key: fragment for fragment in crosscheck.evidence(source, sources, shipped).fragments}
    trusted = [(judge, fragment) for judge in judges(sources, source, shipped) for fragment in judge.with_rows]
    having = grouped(trusted, lambda pair: pair[1].key)
    own = grouped((finding for finding in findings if finding.source == source.name), lambda finding: finding.key)
    results = compare(source.fragments, list(truth.values()))
    by_key: dict[Key | None, Result] = {result.key: result for result in results if result.left is not None}
    for key in filter(None, dict.fromkeys([*by_key, *own])):
        result = by_key.get(key) or Result(key, Verdict.RIGHT_ONLY, None, truth.get(key))
        if result.verdict in _AGREE:  # the mistake is elsewhere in its tile
            result = replace(result, difference=None)
        unsound, left, true = own.get(key, []), result.left, result.right
        slip = left is not None and left.citation.slip and not source.name.endswith(ERRATA)
        if not (result.verdict is Verdict.DIFFERENT or unsound or slip or _unknown(key)):
            continue
        axes = instruction(key.instruction).axes
        shared = [
            other
            for other in results
            if other.compared and other.key[:2] == key[:2] and other.key.role != key.role
            if {*axes[key.role]} & {*axes[other.key.role]}
        ]
        agreeing = [pair for pair in having.get(key, ()) if true and compare([pair[1]], [true])[0].verdict in _AGREE]
        cited = left.citation if left else NOT_CITED
        section = f"section {cited.section} (#{cited.anchor})" if cited.section else ""
        origins = [*(finding.origin for finding in unsound), cited.origin, section]
        remarks = list(dict.fromkeys(finding.words for finding in unsound))
        yield WrongOperand(source, result, next(filter(None, origins), ""), remarks, shared, agreeing)


def _unknown(key: Key) -> bool:
    """Whether all forms of the instruction are known and none has such an operand."""
    if key.instruction not in _LISTED or key.role not in "ABCD":
        return False
    return all((form.name, form.shape, form.types.get(key.role)) != (*key[:2], key.type) for form in forms())


def _conflict(compared: Difference, axes: str) -> str:
    """A row or column that a renumbering would have to take to two numbers, or two that it would take to one."""
    for axis, first, last in ((axes[0], "row", "row"), (axes[1], "col", "col_last")):
        sides = ((side[first].tolist(), side[last].tolist()) for side in (compared.left, compared.right))
        claimed, true = (list(zip(*side, strict=True)) for side in sides)
        for origins, targets, words in (
            (claimed, true, "claimed {axis} {} is {axis} {} in one place and {} in another"),
            (true, claimed, "{axis} {} is claimed to be {axis} {} in one place and {} in another"),
        ):
            seen: dict[tuple[int, int], tuple[int, int]] = {}
            for origin, target in zip(origins, targets, strict=True):
                if seen.setdefault(origin, target) != target:
                    ends = (spans(range(first, last + 1)) for first, last in (origin, seen[origin], target))
                    return words.format(*ends, axis=axis.upper())
    return ""


def cell_words(cell: Sequence[int] | None) -> str:
    """A cell in words."""
    if cell is None:
        return "nothing"
    row, col, last, computation = cell
    column = f"column {col}" if col == last else f"columns {col}-{last}"
    return f"row {row}, {column}" + (f" of product {computation}" if computation > 1 else "")
