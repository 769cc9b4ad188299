"""The report as JSON: everything, element by element."""

from __future__ import annotations

import json
from typing import Any

from ..compare import Result, Verdict
from ..crosscheck import Check
from ..defect import Report
from ..difference import Cell
from ..fragment import Source
from ..instructions import Key

_CELL = ("row", "col", "col_last", "computation")


def render(check: Check, *, everything: bool = True) -> str:  # noqa: ARG001 - it always has everything
    """One object with ``agree``, counts, ``made``, ``sources``, ``findings`` and ``comparisons``."""
    said = {
        "agree": check.unexplained == 0,
        "compared": check.compared,
        "unexplained": check.unexplained,
        "known": check.known,
        "made": dict(check.made),
        "sources": {each.name: len(each.with_rows) for each in check.sources},
        "findings": [
            {"source": each.source, **_named(each.key), "words": each.words, "known": each.known}
            for each in check.findings
        ],
        "comparisons": [
            {
                "left": each.left.name,
                "right": each.right.name,
                "provenance": {"left": _provenance(each.left), "right": _provenance(each.right)},
                "compared": each.compared,
                "fragments": [_result(result) for result in each.results],
            }
            for each in check.comparisons
        ],
    }
    return json.dumps(said, indent=1) + "\n"


def defects(report: Report) -> str:
    """One object with ``made`` and a list ``defects``, each with its facts, the true layout and all its elements."""
    said = {"made": dict(report.made), "defects": [each.record() for each in report.defects]}
    return json.dumps(said, indent=1) + "\n"


def _provenance(source: Source) -> dict[str, Any]:
    """Without the list of every instruction of a capture."""
    short = {name: value for name, value in source.provenance.items() if name != "instructions"}
    return {**short, "kind": source.kind, "title": source.title}


def _result(result: Result) -> dict[str, Any]:
    differs = result.difference if result.verdict is Verdict.DIFFERENT else None
    return {
        **_named(result.key),
        "verdict": result.verdict.value,
        "words": result.words,
        "known": result.known,
        "narrower": result.narrower,
        "permutations": {axis: list(permutation) for axis, permutation in result.permutations.items()},
        "elements": [
            {**dict(zip(("lane", "reg", "slot"), place, strict=True)), **_cell("left", left), **_cell("right", right)}
            for place, left, right in (differs.elements if differs else [])
        ],
    }


def _cell(side: str, cell: Cell | None) -> dict[str, int | None]:
    return {f"{side}_{name}": value for name, value in zip(_CELL, cell or (None,) * len(_CELL), strict=True)}


def _named(key: Key | None) -> dict[str, Any]:
    return key._asdict() if key else dict.fromkeys(Key._fields)
