"""Two ways of doing one thing, done in turn in one run, because a time alone means nothing on a shared machine."""

from __future__ import annotations

import resource
from collections.abc import Callable


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float, rounds: int = 15
) -> None:
    """Print the least processor time of ours over that of theirs, and the limit that it should stay under.

    Unlike the clock, processor time does not count what other programs do meanwhile, nor waiting for the disk.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for run in (ours, theirs):
        run()
    for _ in range(rounds):
        for run, taken in zip((ours, theirs), times, strict=True):
            start = processor()
            run()
            taken.append(processor() - start)
    mine, other = map(min, times)
    print(f"{name}: {mine / other:.2f} times (limit {limit}), {mine * 1000:.1f} ms against {other * 1000:.1f} ms")


def processor() -> float:
    """Seconds of processor time that this process and those that it has waited for have taken."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
