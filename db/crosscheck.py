"""Comparisons with what there is to say of them, and the whole cross-check of a database."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, and_, func, select

from .compare import Pair, Verdict, compare, differing
from .difference import summarise
from .errors import LanemapError
from .instructions import Key
from .lookup import Query
from .permutation import describe
from .schema import finding, fragment, source

#: What a source is called that corrects another one.
ERRATA = "+errata"

#: The kind of source that errata correct.
DOCUMENT = "document"


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
    """What is wrong in a source by itself: with a fragment, or, without a key, with a capture as it says of itself.

    ``known`` is the erratum that explains it.
    """

    source: str
    key: Key | None
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


def diff(connection: Connection, left: str, right: str, query: Query | None = None) -> Comparison:
    """Compare two sources and say of each fragment what a person would.

    Raises:
        LanemapError: a source is not there, or nothing matches.
    """
    return Comparison(left, right, [_tell(connection, pair) for pair in compare(connection, left, right, query)])


def check(connection: Connection, against: Sequence[str] = ()) -> Check:
    """Findings on every source, every document against every capture and import, every import against every capture.

    With ``against``, only what is compared with one of these sources. What a document has wrong is known where a
    catalogued erratum corrects that very layout and the other side agrees with the correction, or where the finding is
    structural and the correction is sound.

    Raises:
        LanemapError: a source in ``against`` is not there.
    """
    sources = connection.execute(_SOURCES).all()
    kinds = {row.name: row.kind for row in sources}
    if unknown := [name for name in against if name not in kinds]:
        raise LanemapError(f"no source {unknown[0]}: there is {', '.join(kinds)}")
    comparisons = {each: diff(connection, *each) for each in _sides(kinds, against)}
    errata = _errata(connection)
    explained = [_explain(each, kinds, errata, comparisons) for each in comparisons.values()]
    found = _findings(connection)
    unsound = {mapping for _, mapping in found}
    structural = [
        replace(each, known=_why(each.key, mapping, errata, unsound) if kinds[each.source] == DOCUMENT else None)
        for each, mapping in found
    ]
    own = [each for row in sources if row.kind == "capture" for each in _of_itself(row.name, row.provenance)]
    return Check(explained, {row.name: row.fragments for row in sources}, [*structural, *own])


def _sides(kinds: Mapping[str, str], against: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is compared with what. The right one is trusted more: the left one is what is said to be off."""
    trust = ["import", DOCUMENT, "capture"]
    names = sorted(kinds, key=lambda name: trust.index(kinds[name]) if kinds[name] in trust else 0)
    for at, left in enumerate(names):
        for right in names[at + 1 :]:
            if kinds[left] != kinds[right] if not against else left in against or right in against:
                yield left, right


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
    select(source.c.name, source.c.kind, source.c.provenance, func.count(fragment.c.mapping_id).label("fragments"))
    .select_from(source.outerjoin(fragment))
    .group_by(source.c.id, source.c.name, source.c.kind, source.c.provenance)
    .order_by(source.c.id)
)
_KEY = [fragment.c[name] for name in Key._fields]


@dataclass(frozen=True)
class _Erratum:
    """A correction: why, and the mappings of what is printed and of what is right."""

    reason: str
    printed: int | None
    corrected: int | None


def _errata(connection: Connection) -> dict[Key | None, list[_Erratum]]:
    """The corrections of every fragment that a document and its errata have."""
    printed, document = fragment.alias(), source.alias()
    same = [fragment.c[name] == printed.c[name] for name in ("instruction", "shape", "type", "role")]
    major = func.coalesce(fragment.c.major, "") == func.coalesce(printed.c.major, "")
    chosen = (
        select(fragment.c.erratum, printed.c.mapping_id.label("printed"), fragment.c.mapping_id, *_KEY)
        .join(source, source.c.id == fragment.c.source_id)
        .join(document, source.c.name == document.c.name + ERRATA)
        .join(printed, and_(printed.c.source_id == document.c.id, *same, major))
        .where(fragment.c.erratum.is_not(None))
    )
    errata: dict[Key | None, list[_Erratum]] = {}
    for row in connection.execute(chosen):
        errata.setdefault(_key(row), []).append(_Erratum(row.erratum, row.printed, row.mapping_id))
    return errata


def _key(row: Any) -> Key:
    return Key(*(getattr(row, name) for name in Key._fields))


def _explain(
    one: Comparison,
    kinds: Mapping[str, str],
    errata: Mapping[Key | None, Sequence[_Erratum]],
    comparisons: Mapping[tuple[str, str], Comparison],
) -> Comparison:
    """Mark as known where a document has what an erratum corrects, and the other side agrees with the correction."""
    sides = [
        (one.left, "left_mapping", "right_mapping", comparisons.get((one.left + ERRATA, one.right))),
        (one.right, "right_mapping", "left_mapping", comparisons.get((one.left, one.right + ERRATA))),
    ]
    told = []
    for each in one.told:
        reasons = [
            erratum.reason
            for document, mine, theirs, corrected in sides
            if each.disagrees and kinds[document] == DOCUMENT
            for erratum in errata.get(each.pair.key, [])
            if getattr(each.pair, mine) == erratum.printed
            and (getattr(each.pair, theirs) == erratum.corrected or _agrees(corrected, each.pair.key))
        ]
        told.append(replace(each, known=reasons[0]) if reasons else each)
    return replace(one, told=told)


def _agrees(comparison: Comparison | None, key: Key) -> bool:
    agreeing = {Verdict.IDENTICAL, Verdict.RELABELLED, Verdict.REFINED}
    return comparison is not None and any(
        told.pair.key == key and told.pair.verdict in agreeing for told in comparison.told
    )


def _why(
    key: Key | None, mapping: int, errata: Mapping[Key | None, Sequence[_Erratum]], unsound: Container[int | None]
) -> str | None:
    """The erratum that mends what a structural check found."""
    for erratum in errata.get(key, []):
        if mapping == erratum.printed and erratum.corrected not in unsound:
            return erratum.reason
    return None


def _findings(connection: Connection) -> list[tuple[Finding, int]]:
    """What the structural checks found, each with the mapping that it was found in."""
    chosen = (
        select(source.c.name, finding.c.words, fragment.c.mapping_id, *_KEY)
        .join(fragment, fragment.c.id == finding.c.fragment_id)
        .join(source, source.c.id == fragment.c.source_id)
        .order_by(finding.c.id)
    )
    return [(Finding(row.name, _key(row), row.words), row.mapping_id) for row in connection.execute(chosen)]


def _of_itself(name: str, provenance: str) -> Iterator[Finding]:
    """What a capture says went wrong in it: instructions that failed, products that were wrong, forms at odds."""
    said = json.loads(provenance)
    for result in said.get("instructions", []):
        if result["status"] == "failed":
            yield Finding(name, None, result["message"])
        documented = result.get("documented") or {}
        if documented.get("verdict") == "disagrees":
            yield Finding(name, None, f"{result['instruction']}: products by the document: {documented['detail']}")
    yield from (Finding(name, None, words) for words in said.get("disagreements", []))
