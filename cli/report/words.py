"""What every report says, whatever its format: names, counts, and groups of fragments that are told alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...db.compare import Verdict
from ...db.crosscheck import Check, Comparison, Finding, Told
from ...db.instructions import name_of
from ...db.reader import Rows

#: How many elements a report lists of a fragment that differs, unless it is asked for all.
FIRST = 8

SUMMARY = (
    *("left", "right", "identical", "refined", "relabelled", "known", "different"),
    *("left only", "right only"),
)


@dataclass(frozen=True)
class Group:
    """Fragments of one verdict of which the same is said, with their types joined."""

    name: str
    verdict: Verdict
    words: str
    known: str | None
    told: Sequence[Told]


def subject(finding: Finding) -> str:
    """What a finding is about, in words."""
    return str(finding.key) if finding.key else "the capture"


def summary(comparisons: Sequence[Comparison]) -> Rows:
    """One row per two sources: how many fragments have each verdict."""
    rows = []
    for each in comparisons:
        counts = [each.count(verdict) for verdict in (Verdict.IDENTICAL, Verdict.REFINED, Verdict.RELABELLED)]
        differ = [each.count(Verdict.DIFFERENT, known=True), each.count(Verdict.DIFFERENT)]
        only = [each.count(verdict) for verdict in (Verdict.LEFT_ONLY, Verdict.RIGHT_ONLY)]
        rows.append((each.left, each.right, *counts, *differ, *only))
    return Rows(SUMMARY, rows)


def groups(comparison: Comparison, verdicts: Sequence[Verdict]) -> list[Group]:
    """The fragments of some verdicts; those that differ only in type and are told alike together."""
    alike: dict[tuple[object, ...], list[Told]] = {}
    for each in comparison.told:
        if each.pair.verdict in verdicts:
            alike_key = each.pair.key._replace(type="")
            key = (each.pair.verdict, alike_key, each.words, each.known)
            alike.setdefault(key, []).append(each)
    return [
        Group(
            name_of(each.pair.key for each in told),
            told[0].pair.verdict,
            told[0].words,
            told[0].known,
            told,
        )
        for told in alike.values()
    ]


def elements(told: Told, *, everything: bool) -> tuple[Rows, int]:
    """The elements that differ, the first few or all, side by side; and how many are left out."""
    rows = told.rows if everything else told.rows[:FIRST]
    windows = any(row[f"{side}_col"] != row[f"{side}_col_last"] for row in rows for side in ("left", "right"))
    columns = ("lane", "reg", "slot", "left row", "left col", "right row", "right col")
    listed = [
        (
            *(row[place] for place in ("lane", "reg", "slot")),
            *(value for side in ("left", "right") for value in (row[f"{side}_row"], _col(row, side, windows))),
        )
        for row in rows
    ]
    return Rows(columns, listed), len(told.rows) - len(rows)


def verdict(check: Check) -> str:
    """The whole check in one line."""
    agreed = "agreed" if not check.unexplained else "disagreed"
    return f"{agreed}: {check.unexplained} unexplained, {check.known} known"


def _col(row: Mapping[str, Any], side: str, windows: bool) -> int | str | None:
    first, last = row[f"{side}_col"], row[f"{side}_col_last"]
    return first if not windows or first is None else f"{first}-{last}"
