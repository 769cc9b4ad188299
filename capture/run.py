"""A capture: every instruction measured, labelled and checked, as a source of layouts with its provenance."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from ..db.isa.forms import Form, select
from ..db.isa.instructions import Key
from ..db.layout.fragment import Fragment, Source, merge
from .processes import Processes

if TYPE_CHECKING:
    from .device import Device
    from .module import Measurements, Outcome


def capture(
    open_device: Callable[[], "AbstractContextManager[Device]"],
    documented: Callable[[], Mapping[Key, Fragment]],
    forms: Iterable[Form] | None = None,
    progress: "Callable[[Outcome], object] | None" = None,
    name: str | None = None,
    version: str = "",
    count: int = 0,
) -> Source:
    """Measures forms on a device, and returns all captured fragments as a source.

    ``open_device`` may begin what entering waits for.
    ``documented`` returns the fragments of the anchor by Fragment.key. ``forms`` are all by default. ``progress`` is
    called with each outcome. ``count`` processes measure for this one, each with a context of its own so that the
    driver compiles in parallel: with any, this process must not have opened a device before. Provenance has ``device``,
    ``time``, ``tool``, ``seconds``, ``load_seconds`` (the driver's compiler, in all processes), ``gpu_seconds``,
    ``instructions`` (an Outcome each) and ``disagreements``: in words, each operand that two forms measured
    differently. The ``ptx_version`` of the device is the latest that a captured form needs.
    """
    started = time.perf_counter()
    requested = select() if forms is None else list(forms)
    done: dict[int, Measurements] = {}

    @cache
    def together() -> list[list[Form]]:
        from .module import modules

        return modules(requested)

    @contextmanager
    def begin() -> "Iterator[Device]":
        opening = open_device()  # and meanwhile this process imports what measures
        together(), documented()
        with opening as device:
            yield device

    def measured(device: "Device", at: int) -> "Measurements":
        from .module import measure_module

        return measure_module(documented(), together()[at], device)

    with Processes(begin, measured, count) as processes:
        # Only now, while they open the device: numpy takes as long to import.
        from ..db.compare.difference import difference
        from .kernels import ptx_version
        from .module import CAPTURED, longest_first

        for at, done[at] in processes.results(longest_first(together())):
            for outcome, _ in done[at].results:
                if progress is not None:
                    progress(outcome)
    if done:
        description = done[0].device
    else:
        with open_device() as device:
            description = device.describe()
    everything = [result for at in sorted(done) for result in done[at].results]
    outcomes = {outcome.instruction: outcome for outcome, _ in everything}
    fragments, repeated = merge(fragment for _, fragments in everything for fragment in fragments)
    form_of = {id(fragment): outcome.instruction for outcome, fragments in everything for fragment in fragments}
    disagreements = []
    for first, second in repeated:
        if first.digest != second.digest:
            differ = difference(first, second)
            words = f"{differ.count} of {differ.total} elements: {differ.words}"
            disagreements.append(f"{first} differs between {form_of[id(first)]} and {form_of[id(second)]}: {words}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    captured = (form for form in requested if outcomes[str(form)].status == CAPTURED)
    provenance = {
        "device": {**asdict(description), "ptx_version": ptx_version(captured)},
        "time": now,
        "tool": f"lanemap {version}".strip(),
        "seconds": round(time.perf_counter() - started, 6),
        "load_seconds": round(sum(measurements.load_seconds for measurements in done.values()), 6),
        "gpu_seconds": round(sum(result.gpu_seconds for result in outcomes.values()), 6),
        "instructions": [asdict(outcomes[str(form)]) for form in requested],
        "disagreements": disagreements,
    }
    title = f"{description.name}, measured {now[:10]}"
    return Source(name or source_name(description.name, description.target), "capture", title, fragments, provenance)


def source_name(card: str, target: str) -> str:
    """A name for captures from a device: h200-sm_90a for an NVIDIA H200."""
    words = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    return f"{words}-{target}"
