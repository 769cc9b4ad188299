"""Comparing sources with each other or with the best evidence, and the whole cross-check of a database."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar

from .. import lookup
from ..errors import AbsentError, LanemapError
from ..isa.instructions import INSTRUCTIONS, Key, instruction
from ..isa.not_found import choose_from
from ..isa.tiling import Tiling
from ..layout.fragment import IMPOSSIBLE, Fragment, Source
from ..layout.tile import claimed, tiled
from ..lookup import ERRATA, Query, choose, in_order, read_fragments
from ..rows import Rows, Tabular
from ..store.reader import Reader
from ..text import brief, grouped
from .verdict import Result, Verdict, compare, counts_alike

#: Kinds of sources, the most trusted last: where two differ, the left one is taken to be wrong.
_TRUST = ("import", "document", "capture")
#: Kinds that are compared with each other.
_COMPARED = {("import", "document"), ("import", "capture"), ("document", "capture"), ("capture", "capture")}

_ALONE = "no other source has any of its fragments: its instructions, shapes or types may be misspelt"
UNCONFIRMED = "a document comes before what confirms it: a capture, a table or a library"


@dataclass(frozen=True)
class Comparison:
    """Two sources, fragment by fragment."""

    left: Source
    right: Source
    results: Sequence[Result] = field(repr=False)

    @property
    def compared(self) -> int:
        """How many fragments both sides have elements of."""
        return sum(result.compared for result in self.results)


@dataclass(frozen=True)
class Finding:
    """Something wrong in a source by itself: in a fragment, or in the whole source if ``key`` is None.

    ``known`` is why it is no fault, such as an erratum. ``origin`` is where an import found it.
    """

    source: str
    key: Key | None
    words: str
    known: str | None = None
    origin: str | None = None


@dataclass(frozen=True, repr=False)
class Check(Tabular):
    """The result of ``diff`` or ``check``: comparisons, and for ``check`` every source with the findings in it.

    ``claiming`` are the imports to be judged, ``others``, for ``diff``, imports that judge nothing. ``made`` says for
    reports how it was made: the command, versions, date.
    """

    comparisons: Sequence[Comparison]
    sources: Sequence[Source] = ()
    findings: Sequence[Finding] = ()
    claiming: Collection[str] = ()
    others: Sequence[Source] = ()
    made: Mapping[str, str] = field(default_factory=dict)

    #: ``report(form="table", *, everything=False)`` returns the report as text, ``_repr_html_`` shows it
    #: in a notebook. ``render.report`` adds both.
    report: ClassVar[Callable[..., str]]
    _repr_html_: ClassVar[Callable[..., str]]

    def __repr__(self) -> str:
        return brief(self.report(), "report() is all of it, frame() has it as rows")

    @cached_property
    def pairs(self) -> list[tuple[Comparison, Result]]:
        """The results of all comparisons, each with its comparison."""
        return [(comparison, result) for comparison in self.comparisons for result in comparison.results]

    @cached_property
    def results(self) -> list[Result]:
        """The results of all comparisons."""
        return [result for _, result in self.pairs]

    @cached_property
    def compared(self) -> int:
        """How many fragments were compared, in all comparisons together."""
        return sum(result.compared for result in self.results)

    @cached_property
    def unplaced(self) -> Collection[tuple[str, Key]]:
        """Fragments for which a source does not claim the bits of slots, so that these were not compared."""
        return dict.fromkeys(
            (source.name, result.key)
            for comparison, result in self.pairs
            for source, fragment in ((comparison.left, result.left), (comparison.right, result.right))
            if fragment and fragment.first_bit is None and result.compared
        )

    @property
    def stated(self) -> Mapping[str, int]:
        """How many fragments each source states, also those that put two elements in one place: they are compared."""
        return {
            source.name: sum(one.has_rows or one.status == IMPOSSIBLE for one in source.fragments)
            for source in self.sources
        }

    @cached_property
    def unexplained(self) -> int:
        """How many differences and findings no erratum explains."""
        unsound = sum(finding.known is None for finding in self.findings)
        return unsound + sum(result.disagrees for result in self.results)

    @property
    def exit_code(self) -> int:
        """What the command exits with: 1 where something disagrees, or in ``diff`` where something is unjudged."""
        return int(bool(self.unexplained or (self.unjudged and not self.sources)))

    @property
    def known(self) -> int:
        """How many differences and findings an erratum explains."""
        return sum(item.known is not None for items in (self.results, self.findings) for item in items)

    @cached_property
    def unjudged(self) -> Mapping[str, Sequence[Result]]:
        """The fragments of each source, by its name, that nothing it was compared with can judge.

        Nothing has elements of them, or they or those on the right claim nothing.
        In a check these are fragments of imports alone: documents and captures judge imports, and an import judges
        nothing.
        """
        claims = [
            (comparison.left.name, result)
            for comparison, result in self.pairs
            if not self.sources or (comparison.left.name in self.claiming and comparison.right.kind != "import")
        ]
        judged = {(name, result.key) for name, result in claims if result.compared}
        lacking = [
            (source.name, Result(fragment.key, Verdict.LEFT_ONLY, fragment, None))
            for source in self.sources
            if source.name in self.claiming
            for fragment in source.with_rows
        ]
        lacking += [pair for pair in claims if pair[1].verdict in (Verdict.LEFT_ONLY, Verdict.UNJUDGED)]
        unjudged = {(name, result.key): result for name, result in lacking if (name, result.key) not in judged}
        return {name: [unjudged[key] for key in keys] for name, keys in grouped(unjudged, lambda pair: pair[0]).items()}

    def rows(self) -> Rows:
        """One row for each fragment of each comparison: left, right, the fragment's key, verdict, words, known."""
        rows = [
            (comparison.left.name, comparison.right.name, *result.key, str(result.verdict), result.words, result.known)
            for comparison, result in self.pairs
        ]
        return Rows(("left", "right", *Key._fields, "verdict", "words", "known"), rows)


def diff(lefts: Sequence[Source], rights: Sequence[Source], query: Query | None = None) -> Check:
    """Compare sources: all fragments, or those that match a query.

    A side may have several sources of one library: sources with the same name within their library are compared, or if
    there are none, each with each.

    Raises:
        LanemapError: no fragment that matches is on both sides, so there is nothing to compare.
    """
    pairs = list(product(apart(lefts), apart(rights)))
    namesakes = [(left, right) for left, right in pairs if left.name.partition(":")[2] == right.name.partition(":")[2]]
    comparisons = [_compared(*pair) for pair in (namesakes if len(lefts) > 1 < len(rights) and namesakes else pairs)]
    found = _only(comparisons, query)
    if not found.compared:
        request = _named(query) if query else ""
        sides = " and ".join(" ".join(source.name for source in side) for side in (lefts, rights))
        examples = "; ".join(
            f"{source.name} has " + (f"{source.with_rows[0]}, ..." if source.with_rows else "no elements")
            for source in (lefts[0], rights[0])
        )
        shared = f"of {request} in common" if request else f"in common ({examples})"
        raise AbsentError(f"nothing to compare: {sides} have no fragment {shared}")
    return found


def _named(query: Query) -> str:
    """What a query asks for, as somebody wrote it: also a type alone, which is that of A and so of no one operand."""
    more = (query.asked.get(name) for name in ("role", "major", "qualifiers", "vendor") if getattr(query, name))
    return " ".join(filter(None, (query.title, *more)))


def apart(sources: Iterable[Source]) -> list[Source]:
    """Sources in which each member of a fragment is one of its own, as in a file: it has a verdict and is counted."""
    return [replace(source, fragments=[one for each in source.fragments for one in each.every]) for source in sources]


def in_tiles(lefts: Sequence[Source], rights: Sequence[Source], tiling: Tiling) -> tuple[list[Source], list[Source]]:
    """Sources that claim tiles on the left, and tiles of what others have of the same operands.

    Raises:
        LanemapError: an operand has no such tiles.
    """
    keys = {fragment.key for source in lefts for fragment in source.fragments}
    claiming = [replace(left, fragments=[claimed(each, tiling) for each in left.fragments]) for left in lefts]
    of = [[tiled(each, tiling) for each in right.fragments if each.key in keys] for right in rights]
    return claiming, [replace(right, fragments=its) for right, its in zip(rights, of, strict=True)]


def judge(
    lefts: Sequence[Source], sources: Sequence[Source], query: Query | None = None, *, shipped: Collection[str] = ()
) -> Check:
    """Compare each fragment of some sources with the best evidence for it among ``sources``, see ``evidence``.

    A fragment without evidence is ``left only``.

    Raises:
        LanemapError: the query matches no fragment that has elements.
    """
    lefts, sources = apart(lefts), apart(sources)
    if query and not any(query.matches(fragment.key) for left in lefts for fragment in left.with_rows):
        raise AbsentError(f"nothing to compare: {lefts[0].name} has no elements of {_named(query) or 'any operand'}")
    comparisons = []
    for left in lefts:
        truth = evidence(left, sources, shipped)
        results = compare(left.fragments, truth.fragments)
        claims = [result for result in results if result.verdict is not Verdict.RIGHT_ONLY]
        comparisons.append(Comparison(left, truth, claims))
    others = [source for source in sources if source.kind == "import"]
    return replace(_only(comparisons, query), others=others)


def judges(sources: Iterable[Source], left: Source, shipped: Collection[str] = ()) -> list[Source]:
    """The sources that judge another one, in the order in which they answer: documents, then captures.

    A source does not judge itself, and a document as printed does not judge if its correction is there.
    """
    by_name = {source.name: source for source in sources}
    trusted = {
        source.name: source.kind
        for source in by_name.values()
        if source.kind in ("document", "capture") and source.name + ERRATA not in by_name and source.name != left.name
    }
    return [by_name[name] for name in in_order(trusted, shipped)]


def evidence(left: Source, sources: Iterable[Source], shipped: Collection[str] = ()) -> Source:
    """The best evidence for each fragment of a source, see ``lookup.choose``.

    Of an instruction and shape a judge is heard that contradicts no earlier one, and that counts rows, columns and
    depth as they do, see ``verdict.counts_alike``. Where each architecture has layouts of its own (9.7.16.4.1), one
    capture judges the whole instruction: of an import, which may be of any architecture, the capture that has most of
    its layouts, and of a capture another one of its architecture.
    """
    own = {fragment.key: fragment.digest for fragment in left.fragments}
    judging = judges(sources, left, shipped)
    heard: dict[str, list[Fragment]] = {source.name: [] for source in judging}
    every = [(source, fragment) for source in judging for fragment in source.with_rows]
    for name, group in grouped(every, lambda pair: pair[1].instruction).items():
        if instruction(name).per_architecture:
            beside = [pair for pair in group if left.kind != "capture" or _target(pair[0]) == _target(left)]
            alike = Counter(source.name for source, one in beside if one.digest == own.get(one.key))
            judge = max((source.name for source, _ in beside), key=alike.__getitem__, default=None)
            group = [pair for pair in beside if pair[0].name == judge]
        for said in grouped(group, lambda pair: pair[1].shape).values():
            agreed: dict[Key, Fragment] = {}
            for judge, pairs in grouped(said, lambda pair: pair[0].name).items():
                its = [fragment for _, fragment in pairs]
                known = [(one, agreed[one.key]) for one in its if one.key in agreed]
                agree = all(one.same_layout(first) or one.refines(first) or first.refines(one) for one, first in known)
                if agree and counts_alike([one.key for one in its], agreed):
                    heard[judge] += its
                    agreed = {one.key: one for one in its} | agreed
    truth = choose([replace(source, fragments=heard[source.name]) for source in judging])
    return Source("the best evidence", "evidence", "documents, corrected, and captures", [*truth.values()])


def _only(comparisons: Sequence[Comparison], query: Query | None) -> Check:
    """The comparisons reduced to the fragments that match a query, if there is one."""
    wanted = query.matches if query else lambda _: True
    return Check([replace(pair, results=[one for one in pair.results if wanted(one.key)]) for pair in comparisons])


def check(
    sources: Sequence[Source], findings: Iterable[Finding], against: Sequence[str] = (), shipped: Collection[str] = ()
) -> Check:
    """Compare documents with captures, imports with both, and captures with each other, where they share instructions.

    Args:
        sources: all sources.
        findings: what the structural checks found in them.
        against: only comparisons with one of these sources, see ``named``. Default: all.
        shipped: sources that come with Lanemap, which nobody claims unless ``against`` names them.

    Returns:
        All results. A difference from a document is known where an erratum corrects that very layout and the other
        side agrees with the correction; a finding in a document is known where the corrected layout has none.

    Raises:
        LanemapError: ``against`` names no source, or there is nothing to compare and nothing was found.
    """
    chosen = {source.name for source in named(sources, against)} if against else set()
    # A trace is of a kernel, which nobody takes for a source of layouts unless it is named.
    unasked = {source.name for source in sources if source.kind == "trace"} - chosen
    sources = apart(source for source in sources if source.name not in unasked)
    findings = [finding for finding in findings if finding.source not in unasked]
    trust = sorted(sources, key=lambda source: _TRUST.index(source.kind) if source.kind in _TRUST else 0)

    def asked(left: Source, right: Source) -> bool:
        return bool({left.name, right.name} & chosen if chosen else (left.kind, right.kind) in _COMPARED)

    pairs = [pair for pair in combinations(trust, 2) if asked(*pair)]
    instructions = {source.name: {fragment.instruction for fragment in source.with_rows} for source in sources}
    shares = (pair for pair in pairs if instructions[pair[0].name] & instructions[pair[1].name])
    comparisons = {(left.name, right.name): _compared(left, right) for left, right in shares}
    errata = _errata(sources)

    def reason(comparison: Comparison, result: Result) -> str | None:
        """The erratum that corrects a document, where the other side agrees with the correction."""
        for source, before, corrected in errata.get(result.key, []):
            for document, own, opposite, pair in (
                (comparison.left, result.left, result.right, (source, comparison.right.name)),
                (comparison.right, result.right, result.left, (comparison.left.name, source)),
            ):
                if document.kind == "document" and own and opposite and own.digest == before.digest:
                    known = comparisons.get(pair)
                    corrections = known.results if known else compare([opposite], [corrected])
                    if any(other.key == result.key and other.agrees for other in corrections):
                        return corrected.citation.erratum
        return None

    explained = [
        replace(pair, results=[replace(one, known=reason(pair, one)) if one.disagrees else one for one in pair.results])
        for pair in comparisons.values()
    ]
    documents, imports = (
        {source.name: source.fragments for source in sources if source.kind == kind} for kind in ("document", "import")
    )
    printed = {(name, one.key): one.digest for name, fragments in documents.items() for one in fragments}
    unsound = {(finding.source, finding.key) for finding in findings}

    def mended(finding: Finding) -> str | None:
        """The erratum that corrects what a finding is about, where the corrected layout has none."""
        for source, before, corrected in errata.get(finding.key, []):
            if (source, finding.key) not in unsound and printed.get((finding.source, before.key), "") == before.digest:
                return corrected.citation.erratum
        return None

    found = [replace(finding, known=mended(finding)) for finding in findings]
    found += [finding for source in sources for finding in failures(source)]
    shared = {side.name for pair in explained if pair.compared for side in (pair.left, pair.right)}
    # A figure-only fragment is not misspelt.
    documented = {key for _, key in printed}
    shared |= {name for name, fragments in imports.items() if not documented.isdisjoint(one.key for one in fragments)}
    wanted = chosen or {side.name for pair in pairs for side in pair}
    # If Lanemap does not know an instruction either, it is no fault that no other source has it.
    alone = [name for name in instructions if name in wanted - shared and instructions[name] & INSTRUCTIONS.keys()]
    found += [Finding(name, None, _ALONE, UNCONFIRMED if name in documents else None) for name in alone]
    if not chosen and not found and not any(pair.compared for pair in explained):
        names = ", ".join(source.name for source in sources)
        raise AbsentError(f"nothing to compare: no two of the sources {names} have a fragment in common")
    return Check(explained, sources, found, imports.keys() & chosen or imports.keys() - shipped)


def checked(reader: Reader, against: Sequence[str] = ()) -> Check:
    """The check of a whole database, see ``check``."""
    with reader.snapshot():
        sources, findings = read_sources(reader), read_findings(reader)
    return check(sources, findings, against, reader.shipped())


def read_sources(reader: Reader, *names: str) -> list[Source]:
    """The sources of a database, or those with the given names, with all their fragments."""
    with reader.snapshot():
        queries = [Query(source=name) for name in names] or [Query()]
        fragments = read_fragments(reader, *queries, families=True)
        records = lookup.sources(reader).rows
    of_source = grouped(fragments, lambda fragment: fragment.source)
    return [
        Source(name, kind, title, of_source.get(name, []), json.loads(provenance))
        for name, kind, title, provenance, *_ in records
        if not names or name in names
    ]


def with_name(sources: Iterable[str], name: str) -> list[str]:
    """The sources that a name stands for: that of a library, ``tilelang-0.1.15``, for all that was imported from it.

    Without a version it stands for all versions.
    """
    stands = re.compile(rf"{re.escape(name)}(-\d[^:]*)?(:.*)?", re.IGNORECASE)
    return [source for source in sources if stands.fullmatch(source)]


def named(sources: Iterable[Source], names: Iterable[str]) -> list[Source]:
    """The sources that some names stand for, see ``with_name``, each once.

    Raises:
        LanemapError: there are no names, or a name stands for no source.
    """
    by_name = {source.name: source for source in sources}
    chosen: dict[str, Source] = {}
    for name in names:
        if not (matches := with_name(by_name, name)):
            libraries = list(dict.fromkeys(source.partition(":")[0] for source in by_name))
            raise LanemapError(f"no source {name!r}: {choose_from(name, libraries)}")
        chosen |= {source: by_name[source] for source in matches}
    if not chosen:
        raise LanemapError("name a source")
    return list(chosen.values())


def read_findings(reader: Reader) -> list[Finding]:
    """What the structural checks found when the sources were loaded."""
    found = lookup.findings(reader, Query()).rows
    return [Finding(source, Key(*key), words) for source, *key, _, words in found]


def _target(source: Source) -> str | None:
    target: str | None = source.provenance.get("device", {}).get("target")
    return target


def _compared(left: Source, right: Source) -> Comparison:
    """Two sources compared, without wmma if they were measured on different architectures.

    PTX leaves those layouts to each architecture (9.7.16.4.1): two that differ are both right.
    """
    apart = len({_target(side) for side in (left, right) if side.kind == "capture"}) > 1
    sides = (
        [fragment for fragment in side.fragments if not (apart and instruction(fragment.instruction).per_architecture)]
        for side in (left, right)
    )
    return Comparison(left, right, compare(*sides))


def _errata(sources: Sequence[Source]) -> dict[Key | None, list[tuple[str, Fragment, Fragment]]]:
    """The corrections of each fragment: the source that makes one, and the fragment as printed and as corrected."""
    printed = {(source.name + ERRATA, fragment.key): fragment for source in sources for fragment in source.fragments}
    corrections = (
        (source.name, printed[source.name, fragment.key], fragment)
        for source in sources
        for fragment in source.fragments
        if fragment.citation.erratum is not None and (source.name, fragment.key) in printed
    )
    return grouped(corrections, lambda correction: correction[2].key)


def failures(source: Source) -> Iterator[Finding]:
    """What a source itself reports as wrong: a capture failed instructions, wrong products and forms that differ, an
    import elements that are undefined or outside the matrix.
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
