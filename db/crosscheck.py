"""Sources compared with each other, and the whole cross-check of a database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from . import lookup
from .compare import Result, Verdict, compare
from .errors import LanemapError
from .fragment import Fragment, Source
from .instructions import Key
from .lookup import Query, read_fragments
from .reader import Reader, Rows

if TYPE_CHECKING:
    import pandas as pd

#: What a source is called that corrects another one.
ERRATA = "+errata"

#: Kinds of sources, the most trusted last: of two that differ, the left one is said to be off.
_TRUST = ("import", "document", "capture")
#: Kinds that are compared with each other.
_COMPARED = {("import", "document"), ("import", "capture"), ("document", "capture"), ("capture", "capture")}


@dataclass(frozen=True)
class Comparison:
    """Two sources, fragment by fragment."""

    left: Source
    right: Source
    results: Sequence[Result]

    @property
    def compared(self) -> int:
        """How many fragments both sides have elements of."""
        return sum(each.compared for each in self.results)

    def count(self, verdict: Verdict, *, known: bool = False) -> int:
        """How many fragments have a verdict: only those that an erratum explains, or only the others."""
        return sum(each.verdict is verdict and (each.known is not None) is known for each in self.results)


@dataclass(frozen=True)
class Finding:
    """What is wrong in a source by itself, with a fragment or (``key`` is None) as a whole.

    ``known`` is the erratum that explains it. ``origin`` is where an import found it.
    """

    source: str
    key: Key | None
    words: str
    known: str | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Check:
    """The result of ``diff`` or ``check``: comparisons, and for ``check`` every source with what is unsound in it.

    ``made`` says how it was made, for reports: the command, versions, the date.
    """

    comparisons: Sequence[Comparison]
    sources: Sequence[Source] = ()
    findings: Sequence[Finding] = ()
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def both_sides(self) -> list[Source]:
        """Every source that is compared, once."""
        sides = {side.name: side for each in self.comparisons for side in (each.left, each.right)}
        return list(sides.values())

    @property
    def compared(self) -> int:
        """How many fragments were compared, in all comparisons together."""
        return sum(each.compared for each in self.comparisons)

    @property
    def unexplained(self) -> int:
        """How many fragments and findings no erratum explains."""
        differ = sum(each.disagrees for comparison in self.comparisons for each in comparison.results)
        return differ + sum(each.known is None for each in self.findings)

    @property
    def known(self) -> int:
        """How many fragments and findings an erratum explains."""
        differ = sum(each.known is not None for comparison in self.comparisons for each in comparison.results)
        return differ + sum(each.known is not None for each in self.findings)

    def rows(self) -> Rows:
        """One row for each fragment of each comparison: left, right, the fragment's key, verdict, words, known."""
        return Rows(
            ("left", "right", *Key._fields, "verdict", "words", "known"),
            [
                (one.left.name, one.right.name, *each.key, str(each.verdict), each.words, each.known)
                for one in self.comparisons
                for each in one.results
            ],
        )

    def frame(self) -> pd.DataFrame:
        """The same as a frame."""
        return self.rows().frame()

    def report(self, form: str = "table", *, everything: bool = False) -> str:
        """The report as text: ``table``, ``markdown``, ``json``, ``html`` or ``junit``. See ``db.report.render``."""
        from .report import render

        return render(self, form, everything=everything)

    def _repr_html_(self) -> str:
        from .report.html import body

        return body(self)


def diff(left: Source, right: Source, *queries: Query) -> Check:
    """Compare two sources: all fragments, or those that match any of the queries.

    Raises:
        LanemapError: no fragment that matches a query is in both sources, so there is nothing to compare.
    """
    found = _compared(left, right)
    wanted: set[Key] = set()
    for query in queries or [Query()]:
        matching = [each for each in found.results if query.matches(each.key)]
        if not any(each.compared for each in matching):
            asked = " ".join(map(str, query.asked.values()))
            which = f"of {asked} " if asked else f"({_first(left)}; {_first(right)}) "
            raise LanemapError(f"nothing to compare: {left.name} and {right.name} have no fragment {which}in common")
        wanted |= {each.key for each in matching}
    return Check([replace(found, results=[each for each in found.results if each.key in wanted])])


def check(sources: Sequence[Source], findings: Iterable[Finding], against: Sequence[str] = ()) -> Check:
    """Compare documents with captures, imports with both, and captures with each other.

    Args:
        sources: everything there is.
        findings: what the structural checks found in them.
        against: only comparisons with one of these sources. Default: all.

    Returns:
        All results. A difference from a document is known where an erratum corrects that very layout and the other
        side agrees with the correction; a finding in a document is known where the corrected layout has none.

    Raises:
        LanemapError: a source in ``against`` is not there, or there is nothing to compare.
    """
    names = {each.name.lower(): each.name for each in sources}
    if unknown := [name for name in against if name.lower() not in names]:
        raise LanemapError(f"no source {unknown[0]!r}: choose from {', '.join(names.values())}")
    against = [names[name.lower()] for name in against]
    comparisons = {(left.name, right.name): _compared(left, right) for left, right in _pairs(sources, against)}
    if not any(each.compared for each in comparisons.values()):
        there = ", ".join(names.values())
        raise LanemapError(f"nothing to compare: no two of the sources {there} have a fragment in common")
    errata = _errata(sources)
    explained = [_explained(each, errata, comparisons) for each in comparisons.values()]
    documents = {each.name: each for each in sources if each.kind == "document"}
    listed = list(findings)
    unsound = {(each.source, each.key) for each in listed}
    found = [replace(each, known=_correction(each, documents, errata, unsound)) for each in listed]
    found += [each for source in sources for each in failures(source)]
    found += [Finding(name, None, _ALONE) for name in _alone(sources, explained, against)]
    return Check(explained, sources, found)


_ALONE = "no other source has any fragment of it: its instructions, shapes or types may be misspelt"


def read_sources(reader: Reader, name: str | None = None) -> list[Source]:
    """The sources of a database with all their fragments, or the one of a name."""
    with reader.snapshot():
        fragments = read_fragments(reader, Query(source=name))
        records = lookup.sources(reader).records()
    return [
        Source(
            each["name"],
            each["kind"],
            each["title"],
            [fragment for fragment in fragments if fragment.source == each["name"]],
            json.loads(each["provenance"]),
        )
        for each in records
        if name in (None, each["name"])
    ]


def named(sources: Iterable[Source], names: Iterable[str]) -> list[Source]:
    """The sources of these names. A library's, such as ``tilelang-0.1.15``, stands for all that was imported of it.

    Raises:
        LanemapError: no name is given, or there is none of a name.
    """
    known = {f"{each.name}:".lower(): each for each in sources}
    asked: dict[str, Source] = {}
    for name in names:
        found = {each: source for each, source in known.items() if each.startswith(f"{name}:".lower())}
        if not found:
            libraries = dict.fromkeys(each.name.partition(":")[0] for each in known.values())
            raise LanemapError(f"no source {name!r}: choose from {', '.join(libraries)}")
        asked |= found
    if not asked:
        raise LanemapError("name a source")
    return list(asked.values())


def read_findings(reader: Reader) -> list[Finding]:
    """What the structural checks found when the sources were loaded."""
    records = lookup.findings(reader, Query()).records()
    return [Finding(each["source"], Key(*(each[name] for name in Key._fields)), each["finding"]) for each in records]


def _first(source: Source) -> str:
    return f"{source.name} has " + (f"{source.with_rows[0]}, ..." if source.with_rows else "no elements")


def _compared(left: Source, right: Source) -> Comparison:
    """All that two sources have in common, but for wmma where they were measured on different architectures.

    PTX leaves those layouts to each architecture (9.7.14.4.1): two that differ are both right.
    """
    targets = [side.provenance.get("device", {}).get("target") for side in (left, right) if side.kind == "capture"]
    apart = len(set(targets)) > 1
    sides = ([each for each in side.fragments if not (apart and each.instruction == "wmma")] for side in (left, right))
    return Comparison(left, right, compare(*sides))


def _pairs(sources: Sequence[Source], against: Sequence[str]) -> Iterator[tuple[Source, Source]]:
    trust = sorted(sources, key=lambda each: _TRUST.index(each.kind) if each.kind in _TRUST else 0)
    for left, right in combinations(trust, 2):
        if (left.name in against or right.name in against) if against else (left.kind, right.kind) in _COMPARED:
            yield left, right


def _alone(sources: Sequence[Source], comparisons: Sequence[Comparison], against: Sequence[str]) -> Iterator[str]:
    """The sources that have fragments, of which no comparison found one on the other side."""
    shared = {side.name for each in comparisons if each.compared for side in (each.left, each.right)}
    asked = {side.name for each in comparisons for side in (each.left, each.right)}
    for each in sources:
        wanted = each.name in (against or asked)
        if wanted and each.name not in shared and each.with_rows:
            yield each.name


@dataclass(frozen=True)
class _Erratum:
    """A correction: why, the layouts before and after, and the source that makes it."""

    reason: str
    printed: str | None
    corrected: Fragment
    source: str


def _errata(sources: Sequence[Source]) -> dict[Key | None, list[_Erratum]]:
    """The corrections of every fragment that a document and its errata have."""
    named = {each.name: each for each in sources}
    errata: dict[Key | None, list[_Erratum]] = {}
    for source in sources:
        document = named.get(source.name.removesuffix(ERRATA))
        if document is None or document is source:
            continue
        printed = {each.key: each.digest for each in document.fragments}
        for each in source.fragments:
            if each.erratum is not None and each.key in printed:
                erratum = _Erratum(each.erratum, printed[each.key], each, source.name)
                errata.setdefault(each.key, []).append(erratum)
    return errata


def _explained(
    one: Comparison,
    errata: Mapping[Key | None, Sequence[_Erratum]],
    comparisons: Mapping[tuple[str, str], Comparison],
) -> Comparison:
    """Mark as known where a document has what an erratum corrects, and the other side agrees with the correction."""
    results = []
    for each in one.results:
        reasons = [
            erratum.reason
            for erratum in errata.get(each.key, [])
            for document, mine, theirs, pair in (
                (one.left, each.left, each.right, (erratum.source, one.right.name)),
                (one.right, each.right, each.left, (one.left.name, erratum.source)),
            )
            if each.disagrees and document.kind == "document" and mine and mine.digest == erratum.printed
            if theirs and (theirs.digest == erratum.corrected.digest or _agree(comparisons.get(pair), each.key))
        ]
        results.append(replace(each, known=reasons[0]) if reasons else each)
    return replace(one, results=results)


def _agree(comparison: Comparison | None, key: Key) -> bool:
    results = comparison.results if comparison else []
    return any(each.key == key and each.compared and each.verdict is not Verdict.DIFFERENT for each in results)


def _correction(
    finding: Finding,
    documents: Mapping[str, Source],
    errata: Mapping[Key | None, Sequence[_Erratum]],
    unsound: set[tuple[str, Key | None]],
) -> str | None:
    """The erratum that corrects the layout in which a structural check found something, if it leaves nothing."""
    if finding.source not in documents:
        return None
    fragment = next((each for each in documents[finding.source].fragments if each.key == finding.key), None)
    for erratum in errata.get(finding.key, []):
        if fragment and fragment.digest == erratum.printed and (erratum.source, finding.key) not in unsound:
            return erratum.reason
    return None


def failures(source: Source) -> Iterator[Finding]:
    """What a source says is wrong in it: of a capture instructions that failed, products that were wrong, forms that
    differ; of an import elements that are not defined or outside of the matrix.
    """
    for result in source.provenance.get("instructions", []) if source.kind == "capture" else []:
        if result["status"] == "failed":
            yield Finding(source.name, None, result["message"])
        documented = result.get("documented") or {}
        if documented.get("verdict") == "disagrees":
            words = f"{result['instruction']}: products by the documented layout: {documented['detail']}"
            yield Finding(source.name, None, words)
    yield from (Finding(source.name, None, words) for words in source.provenance.get("disagreements", []))
    for each in source.provenance.get("wrong", []):
        yield Finding(source.name, Key(*each["operand"]), each["words"], origin=each["origin"])
