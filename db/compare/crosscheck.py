"""Sources compared with each other or with the best evidence there is, and the whole cross-check of a database."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar, NamedTuple

from .. import lookup
from ..errors import AbsentError, LanemapError
from ..isa.instructions import INSTRUCTIONS, Key, instruction
from ..isa.listing import grouped
from ..isa.not_found import source_names
from ..layout.fragment import Fragment, Source
from ..lookup import Query, read_fragments
from ..store.reader import Reader, Rows, Tabular
from .verdict import Result, Verdict, compare

#: What a source is called that corrects another one.
ERRATA = "+errata"

#: Kinds of sources, the most trusted last: of two that differ, the left one is said to be off.
_TRUST = ("import", "document", "capture")
#: Kinds that are compared with each other.
_COMPARED = {("import", "document"), ("import", "capture"), ("document", "capture"), ("capture", "capture")}

_ALONE = "no other source has any fragment of it: its instructions, shapes or types may be misspelt"


@dataclass(frozen=True)
class Comparison:
    """Two sources, fragment by fragment."""

    left: Source
    right: Source
    results: Sequence[Result]

    @property
    def compared(self) -> int:
        """How many fragments both sides have elements of."""
        return sum(result.compared for result in self.results)


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
class Check(Tabular):
    """The result of ``diff`` or ``check``: comparisons, and for ``check`` every source with what is unsound in it.

    ``claiming`` are the imports among them that are to be judged. ``made`` says how it was made, for reports: the
    command, versions, the date.
    """

    comparisons: Sequence[Comparison]
    sources: Sequence[Source] = ()
    findings: Sequence[Finding] = ()
    claiming: Collection[str] = ()
    made: Mapping[str, str] = field(default_factory=dict)

    #: ``report(form="table", *, everything=False, matrix=False)`` is the report as text, and ``_repr_html_`` what a
    #: notebook shows. ``render.report``, which knows how a check looks, adds them.
    report: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]

    @property
    def pairs(self) -> list[tuple[Comparison, Result]]:
        """The results of all comparisons, each with its comparison."""
        return [(comparison, result) for comparison in self.comparisons for result in comparison.results]

    @property
    def results(self) -> list[Result]:
        """Those of all comparisons."""
        return [result for _, result in self.pairs]

    @property
    def compared(self) -> int:
        """How many fragments were compared, in all comparisons together."""
        return sum(result.compared for result in self.results)

    @cached_property
    def unplaced(self) -> Collection[tuple[str, Key]]:
        """What was compared, but not in the bits that elements have of their slots, which a source does not claim."""
        return dict.fromkeys(
            (source.name, result.key)
            for comparison, result in self.pairs
            for source, fragment in ((comparison.left, result.left), (comparison.right, result.right))
            if result.compared and fragment and fragment.first_bit is None
        )

    @property
    def unexplained(self) -> int:
        """How many fragments and findings no erratum explains."""
        unsound = sum(finding.known is None for finding in self.findings)
        return unsound + sum(result.disagrees for result in self.results)

    @property
    def known(self) -> int:
        """How many fragments and findings an erratum explains."""
        return sum(each.known is not None for found in (self.results, self.findings) for each in found)

    @cached_property
    def unjudged(self) -> Mapping[str, Sequence[Result]]:
        """What nothing that a source was compared with has elements of, by the name of the source.

        In a check those are fragments of imports alone: documents and captures are what imports are judged by, and an
        import judges none.
        """
        claimed = [source for source in self.sources if source.name in self.claiming]
        asked = [
            (comparison.left.name, result)
            for comparison, result in self.pairs
            if not self.sources or (comparison.left.name in self.claiming and comparison.right.kind != "import")
        ]
        judged = {(name, result.key) for name, result in asked if result.compared}
        lacking = [
            (one.name, Result(fragment.key, Verdict.LEFT_ONLY, fragment, None))
            for one in claimed
            for fragment in one.with_rows
        ]
        lacking += [pair for pair in asked if pair[1].verdict is Verdict.LEFT_ONLY]
        found = {(name, result.key): result for name, result in lacking if (name, result.key) not in judged}
        return {name: [found[key] for key in keys] for name, keys in grouped(found, lambda pair: pair[0]).items()}

    def rows(self) -> Rows:
        """One row for each fragment of each comparison: left, right, the fragment's key, verdict, words, known."""
        rows = [
            (one.left.name, one.right.name, *result.key, str(result.verdict), result.words, result.known)
            for one, result in self.pairs
        ]
        return Rows(("left", "right", *Key._fields, "verdict", "words", "known"), rows)


def diff(lefts: Sequence[Source], rights: Sequence[Source], *queries: Query) -> Check:
    """Compare sources: all fragments, or those that match any of the queries.

    Of a library several sources may be on a side: those of the same name within their library are compared, or else
    each with each.

    Raises:
        LanemapError: no fragment that matches a query is on both sides, so there is nothing to compare.
    """
    pairs = list(product(lefts, rights))
    namesakes = [(one, other) for one, other in pairs if one.name.partition(":")[2] == other.name.partition(":")[2]]
    found = [_compared(*pair) for pair in (namesakes if len(lefts) > 1 < len(rights) and namesakes else pairs)]
    for query in queries or [Query()]:
        if not any(result.compared and query.matches(result.key) for one in found for result in one.results):
            asked = " ".join(map(str, query.asked.values()))
            sides = " and ".join(" ".join(source.name for source in side) for side in (lefts, rights))
            there = "; ".join(
                f"{source.name} has " + (f"{source.with_rows[0]}, ..." if source.with_rows else "no elements")
                for source in (lefts[0], rights[0])
            )
            which = f"of {asked}" if asked else f"({there})"
            raise AbsentError(f"nothing to compare: {sides} have no fragment {which} in common")
    return _only(found, queries)


def judge(lefts: Sequence[Source], sources: Sequence[Source], *queries: Query) -> Check:
    """Compare each fragment of some sources with the best evidence there is of it among ``sources``.

    That is the corrected document where it has elements, else what was measured. Imports judge nothing. What nothing
    judges is ``left only``.

    Raises:
        LanemapError: a query matches no fragment that has elements.
    """
    for query in queries:
        if not any(query.matches(fragment.key) for left in lefts for fragment in left.with_rows):
            asked = " ".join(map(str, query.asked.values()))
            raise AbsentError(f"nothing to compare: {lefts[0].name} has no elements of {asked}")
    found = []
    for left in lefts:
        truth = evidence(left, sources)
        results = compare(left.fragments, truth.fragments)
        found.append(Comparison(left, truth, [each for each in results if each.verdict is not Verdict.RIGHT_ONLY]))
    return _only(found, queries)


def judges(sources: Iterable[Source], left: Source) -> list[Source]:
    """What a source is judged by, the most trusted first: documents but for those that are corrected, then captures.

    A source does not judge itself, and a document as printed not its correction.
    """
    known = {source.name: source for source in sources}
    found = [
        source
        for source in known.values()
        if source.kind in ("document", "capture") and source.name + ERRATA not in known and source.name != left.name
    ]
    return sorted(found, key=lambda source: source.kind, reverse=True)


def evidence(left: Source, sources: Sequence[Source]) -> Source:
    """The best evidence of each fragment: of those that a judge of a source has elements of, the first one."""
    truth: dict[Key, Fragment] = {}
    mine = {fragment.key: fragment.digest for fragment in left.fragments}
    for source in judges(sources, left):
        for fragment in source.with_rows:
            # Each architecture has a layout of its own (9.7.14.4.1): an import is of any of them, a capture of one.
            alone = instruction(fragment.instruction).per_architecture
            if alone and left.kind == source.kind == "capture" and _target(source) != _target(left):
                continue
            if fragment.key not in truth or (alone and fragment.digest == mine.get(fragment.key)):
                truth[fragment.key] = fragment
    return Source("the best evidence", "evidence", "documents, corrected, and captures", list(truth.values()))


def _only(comparisons: Sequence[Comparison], queries: Sequence[Query]) -> Check:
    """The comparisons with those fragments alone that match one of the queries, if there are any."""

    def wanted(results: Sequence[Result]) -> list[Result]:
        return [result for result in results if not queries or any(query.matches(result.key) for query in queries)]

    return Check([replace(one, results=wanted(one.results)) for one in comparisons])


def check(
    sources: Sequence[Source], findings: Iterable[Finding], against: Sequence[str] = (), given: Collection[str] = ()
) -> Check:
    """Compare documents with captures, imports with both, and captures with each other, where they share instructions.

    Args:
        sources: everything there is.
        findings: what the structural checks found in them.
        against: only comparisons with one of these sources, see ``named``. Default: all.
        given: sources that are nobody's claim, unless ``against`` names them: those that ship.

    Returns:
        All results. A difference from a document is known where an erratum corrects that very layout and the other
        side agrees with the correction; a finding in a document is known where the corrected layout has none.

    Raises:
        LanemapError: a source in ``against`` is not there, or there is nothing to compare and nothing was found.
    """
    chosen = {source.name for source in named(sources, against)} if against else set()
    trust = sorted(sources, key=lambda source: _TRUST.index(source.kind) if source.kind in _TRUST else 0)
    pairs = [
        (left, right)
        for left, right in combinations(trust, 2)
        if ({left.name, right.name} & chosen if chosen else (left.kind, right.kind) in _COMPARED)
    ]
    instructions = {source.name: {fragment.instruction for fragment in source.with_rows} for source in sources}
    comparisons = {
        (left.name, right.name): _compared(left, right)
        for left, right in pairs
        if instructions[left.name] & instructions[right.name]
    }
    errata = _errata(sources)

    def reason(one: Comparison, each: Result) -> str | None:
        """The erratum for what a document has, where the other side agrees with the correction."""
        for erratum in errata.get(each.key, []) if each.disagrees else ():
            for document, mine, theirs, pair in (
                (one.left, each.left, each.right, (erratum.source, one.right.name)),
                (one.right, each.right, each.left, (one.left.name, erratum.source)),
            ):
                if document.kind == "document" and mine and theirs and mine.digest == erratum.printed:
                    whole = comparisons[pair].results if pair in comparisons else compare([theirs], [erratum.corrected])
                    if any(other.key == each.key and other.agrees for other in whole):
                        return erratum.reason
        return None

    explained = [
        replace(one, results=[replace(result, known=reason(one, result)) for result in one.results])
        for one in comparisons.values()
    ]
    documents = [source for source in sources if source.kind == "document"]
    printed: dict[tuple[str, Key | None], str | None] = {
        (source.name, fragment.key): fragment.digest for source in documents for fragment in source.fragments
    }
    listed = list(findings)
    unsound = {(finding.source, finding.key) for finding in listed}
    found = []
    for finding in listed:
        corrected = (
            erratum.reason
            for erratum in errata.get(finding.key, [])
            if printed.get((finding.source, finding.key), "") == erratum.printed
            and (erratum.source, finding.key) not in unsound
        )
        found.append(replace(finding, known=next(corrected, None)))
    found += [finding for source in sources for finding in failures(source)]
    shared = {
        side.name for comparison in explained if comparison.compared for side in (comparison.left, comparison.right)
    }
    # What a document only draws is not misspelt.
    named_there = {fragment.key for source in documents for fragment in source.fragments}
    imported = [source for source in sources if source.kind == "import"]
    shared |= {source.name for source in imported if any(one.key in named_there for one in source.fragments)}
    wanted = chosen or {side.name for pair in pairs for side in pair}
    # That nobody else knows an instruction is no fault where it is not one that Lanemap knows.
    alone = [name for name in instructions if name in wanted - shared and instructions[name] & INSTRUCTIONS.keys()]
    found += [Finding(name, None, _ALONE) for name in alone]
    if not chosen and not found and not any(comparison.compared for comparison in explained):
        there = ", ".join(source.name for source in sources)
        raise AbsentError(f"nothing to compare: no two of the sources {there} have a fragment in common")
    imports = {source.name for source in imported}
    return Check(explained, sources, found, imports & chosen or imports.difference(given))


def read_sources(reader: Reader, *names: str) -> list[Source]:
    """The sources of a database with all their fragments, or those of some names."""
    with reader.snapshot():
        fragments = read_fragments(reader, *([Query(source=name) for name in names] or [Query()]))
        records = lookup.sources(reader).rows
    of_source = grouped(fragments, lambda fragment: fragment.source)
    return [
        Source(name, kind, title, of_source.get(name, []), json.loads(provenance))
        for name, kind, title, provenance, *_ in records
        if not names or name in names
    ]


def with_name(known: Iterable[str], name: str) -> list[str]:
    """The sources that a name stands for; that of a library, ``tilelang-0.1.15``, for all that was imported of it.

    Without a version it stands for every version.
    """
    stands = re.compile(rf"{re.escape(name)}(-\d[^:]*)?(:.*)?", re.IGNORECASE)
    return [each for each in known if stands.fullmatch(each)]


def named(sources: Iterable[Source], names: Iterable[str]) -> list[Source]:
    """The sources that some names stand for, see ``with_name``, each once.

    Raises:
        LanemapError: no name is given, or there is none of a name.
    """
    known = {source.name: source for source in sources}
    found: dict[str, Source] = {}
    for name in names:
        if not (there := with_name(known, name)):
            libraries = list(dict.fromkeys(each.partition(":")[0] for each in known))
            raise LanemapError(f"no source {name!r}: {source_names(name, libraries)}")
        found |= {each: known[each] for each in there}
    if not found:
        raise LanemapError("name a source")
    return list(found.values())


def read_findings(reader: Reader) -> list[Finding]:
    """What the structural checks found when the sources were loaded."""
    records = lookup.findings(reader, Query()).records()
    return [
        Finding(record["source"], Key(*(record[name] for name in Key._fields)), record["finding"]) for record in records
    ]


def _target(source: Source) -> str | None:
    target: str | None = source.provenance.get("device", {}).get("target")
    return target


def _compared(left: Source, right: Source) -> Comparison:
    """All that two sources have in common, but for wmma where they were measured on different architectures.

    PTX leaves those layouts to each architecture (9.7.14.4.1): two that differ are both right.
    """
    apart = len({_target(side) for side in (left, right) if side.kind == "capture"}) > 1
    sides = (
        [fragment for fragment in side.fragments if not (apart and instruction(fragment.instruction).per_architecture)]
        for side in (left, right)
    )
    return Comparison(left, right, compare(*sides))


class _Erratum(NamedTuple):
    """A correction: why, the layout before by its digest, the one after, and the source that makes it."""

    reason: str
    printed: str | None
    corrected: Fragment
    source: str


def _errata(sources: Sequence[Source]) -> dict[Key | None, list[_Erratum]]:
    """The corrections of every fragment that a document and its errata have."""
    printed = {
        (source.name + ERRATA, fragment.key): fragment.digest for source in sources for fragment in source.fragments
    }
    errata: dict[Key | None, list[_Erratum]] = {}
    for source in sources:
        for fragment in source.fragments:
            reason, before = fragment.citation.erratum, (source.name, fragment.key)
            if reason is not None and before in printed:
                erratum = _Erratum(reason, printed[before], fragment, source.name)
                errata.setdefault(fragment.key, []).append(erratum)
    return errata


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
    for record in source.provenance.get("wrong", []):
        yield Finding(source.name, Key(*record["operand"]), record["words"], origin=record["origin"])
