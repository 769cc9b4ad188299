"""Comparisons with what there is to say of them, and the whole cross-check of a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, select

from .compare import Key, Pair, Verdict, compare, differing
from .difference import summarise
from .errors import LanemapError
from .lookup import Wanted
from .permutation import describe
from .schema import finding, fragment, source

#: What a source is called that corrects another one.
ERRATA = "+errata"


@dataclass(frozen=True)
class Told:
    """One fragment of a comparison: in words, the elements that differ, and the erratum that explains them."""

    pair: Pair
    words: str = ""
    rows: Sequence[Mapping[str, Any]] = ()
    known: str | None = None

    @property
    def disagrees(self) -> bool:
        """Different, and not explained by an erratum."""
        return self.pair.verdict is Verdict.DIFFERENT and self.known is None


@dataclass(frozen=True)
class Comparison:
    """Two sources, fragment by fragment."""

    left: str
    right: str
    told: Sequence[Told]

    def count(self, verdict: Verdict, *, known: bool = False) -> int:
        """How many fragments have a verdict; of those that differ, only the known or only the unexplained ones."""
        return sum(each.pair.verdict is verdict and (each.known is not None) is known for each in self.told)


@dataclass(frozen=True)
class Finding:
    """What a structural check found in a fragment of a source; ``known`` is the erratum that explains it."""

    source: str
    key: Key
    words: str
    known: str | None = None


@dataclass(frozen=True)
class Check:
    """Everything: how many fragments each source has, what is unsound in them, and how they compare."""

    comparisons: Sequence[Comparison]
    fragments: Mapping[str, int] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    @property
    def unexplained(self) -> int:
        """How many fragments and findings no erratum explains."""
        differ = sum(told.disagrees for comparison in self.comparisons for told in comparison.told)
        return differ + sum(each.known is None for each in self.findings)

    @property
    def known(self) -> int:
        """How many fragments and findings an erratum explains."""
        differ = sum(told.known is not None for comparison in self.comparisons for told in comparison.told)
        return differ + sum(each.known is not None for each in self.findings)


def diff(connection: Connection, left: str, right: str, wanted: Wanted | None = None) -> Comparison:
    """Compare two sources and say of each fragment what a person would.

    Raises:
        LanemapError: a source is not there, or nothing matches.
    """
    return Comparison(left, right, [_tell(connection, pair) for pair in compare(connection, left, right, wanted)])


def check(connection: Connection, against: Sequence[str] = ()) -> Check:
    """Structural findings on every source, and every document against every capture and import (or just ``against``).

    A document is known to be wrong where its errata (the source of its name and ``+errata``) correct the fragment and
    what they say agrees with the other side, or is sound where the finding is structural.

    Raises:
        LanemapError: a source in ``against`` is not there.
    """
    sources = connection.execute(_SOURCES).all()
    kinds = {row.name: row.kind for row in sources}
    if unknown := [name for name in against if name not in kinds]:
        raise LanemapError(f"no source {unknown[0]}: there is {', '.join(kinds)}")
    documents = [name for name, kind in kinds.items() if kind == "document"]
    others = list(against) or [name for name, kind in kinds.items() if kind != "document"]
    errata = _errata(connection)
    # What is trusted more stands on the right: the left one is what is said to be off.
    sides = [
        (other, document) if kinds[other] == "import" else (document, other)
        for other in others
        for document in documents
        if other != document
    ]
    comparisons = {each: diff(connection, *each) for each in sides}
    explained = [_explain(each, errata, comparisons) for each in comparisons.values()]
    found = _findings(connection)
    unsound = {(each.source, each.key) for each in found}
    return Check(
        explained,
        {row.name: row.fragments for row in sources},
        [_explain_finding(each, errata.get(each.source, {}), unsound) for each in found],
    )


def _tell(connection: Connection, pair: Pair) -> Told:
    if pair.verdict is Verdict.DIFFERENT:
        rows = differing(connection, pair)
        return Told(pair, summarise(rows, pair.registers, pair.slots), rows)
    if pair.verdict is Verdict.RELABELLED:
        words = [f"{axis}: {describe(permutation)}" for axis, permutation in pair.permutations.items()]
        return Told(pair, "; ".join(words))
    if pair.verdict is Verdict.REFINED:
        return Told(pair, f"the {pair.narrower} names columns within the windows of the other")
    return Told(pair, pair.status or "")


_SOURCES = (
    select(source.c.name, source.c.kind, func.count(fragment.c.mapping_id).label("fragments"))
    .select_from(source.outerjoin(fragment))
    .group_by(source.c.id, source.c.name, source.c.kind)
    .order_by(source.c.id)
)
_KEY = [fragment.c[name] for name in ("instruction", "shape", "type", "role", "major", "selector")]


def _errata(connection: Connection) -> dict[str, dict[Key, str]]:
    """The reason for each correction, by the document that it corrects."""
    chosen = select(source.c.name, fragment.c.erratum, *_KEY).join(fragment, fragment.c.source_id == source.c.id)
    errata: dict[str, dict[Key, str]] = {}
    for row in connection.execute(chosen.where(fragment.c.erratum.is_not(None))):
        errata.setdefault(row.name.removesuffix(ERRATA), {})[_key(row)] = row.erratum
    return errata


def _key(row: Any) -> Key:
    return row.instruction, row.shape, row.type, row.role, row.major, row.selector


def _explain(
    one: Comparison, errata: Mapping[str, Mapping[Key, str]], comparisons: Mapping[tuple[str, str], Comparison]
) -> Comparison:
    """Mark as known what differs from a document as printed, but not from its errata."""
    for document, corrected in (
        (one.left, comparisons.get((one.left + ERRATA, one.right))),
        (one.right, comparisons.get((one.left, one.right + ERRATA))),
    ):
        if corrected is not None:
            differs = {told.pair.key for told in corrected.told if told.pair.verdict is Verdict.DIFFERENT}
            reasons = {key: why for key, why in errata.get(document, {}).items() if key not in differs}
            told = [replace(each, known=reasons.get(each.pair.key)) if each.disagrees else each for each in one.told]
            return replace(one, told=told)
    return one


def _explain_finding(one: Finding, errata: Mapping[Key, str], unsound: set[tuple[str, Key]]) -> Finding:
    if (one.source + ERRATA, one.key) in unsound:
        return one
    return replace(one, known=errata.get(one.key))


def _findings(connection: Connection) -> list[Finding]:
    chosen = (
        select(source.c.name, finding.c.words, *_KEY)
        .join(fragment, fragment.c.id == finding.c.fragment_id)
        .join(source, source.c.id == fragment.c.source_id)
        .order_by(finding.c.id)
    )
    return [Finding(row.name, _key(row), row.words) for row in connection.execute(chosen)]
