"""Runs of whole numbers, in words: used wherever lanes, elements or cells are named in a message."""

from __future__ import annotations

from collections.abc import Iterable


def spans(numbers: Iterable[int]) -> str:
    """Sorted distinct numbers as runs.

    >>> spans([3, 0, 1, 2, 7])
    '0-3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
