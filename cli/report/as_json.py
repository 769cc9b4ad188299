"""The report as JSON: everything, element by element."""

from __future__ import annotations

import json
from typing import Any

from ...db.crosscheck import Check, Told
from ...db.instructions import Key


def render(check: Check) -> str:
    """One object with ``agree``, ``sources``, ``findings`` and ``comparisons``."""
    return (
        json.dumps(
            {
                "agree": check.unexplained == 0,
                "unexplained": check.unexplained,
                "known": check.known,
                "sources": dict(check.fragments),
                "findings": [
                    {"source": each.source, **_named(each.key), "words": each.words, "known": each.known}
                    for each in check.findings
                ],
                "comparisons": [
                    {"left": each.left, "right": each.right, "fragments": [_told(told) for told in each.told]}
                    for each in check.comparisons
                ],
            },
            indent=1,
        )
        + "\n"
    )


def _told(told: Told) -> dict[str, Any]:
    pair = told.pair
    return {
        **_named(pair.key),
        "verdict": pair.verdict.value,
        "words": told.words,
        "known": told.known,
        "narrower": pair.narrower,
        "permutations": {axis: list(permutation) for axis, permutation in pair.permutations.items()},
        "elements": [dict(row) for row in told.rows],
    }


def _named(key: Key | None) -> dict[str, Any]:
    return dict(zip(Key._fields, key or [None] * len(Key._fields), strict=True))
