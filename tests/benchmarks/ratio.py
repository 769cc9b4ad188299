"""Two ways of doing one thing, timed in turn in one run, because a time alone means nothing on a shared machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float, rounds: int = 15
) -> None:
    """Print the median of ours over the median of theirs, and the limit that it should stay under."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in (ours, theirs):
        run()
    for _ in range(rounds):
        for run, taken in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    mine, other = (statistics.median(taken) for taken in times)
    print(f"{name}: {mine / other:.2f} times (limit {limit}), {mine * 1000:.1f} ms against {other * 1000:.1f} ms")
