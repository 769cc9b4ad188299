"""A capture: every instruction measured, labelled and checked, as a source of layouts with its provenance."""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from ..db.compare.difference import difference
from ..db.errors import LanemapError
from ..db.isa.forms import Form, every
from ..db.isa.instructions import WARPGROUP, Key
from ..db.isa.listing import grouped
from ..db.layout.fragment import Fragment, Source, merge
from ..db.processes import Processes
from .device import Bench, Contradiction, Device, NotLoaded
from .from_memory import measure_move, measure_warpgroup
from .kernels import kernels, module_text, ptx_version
from .product import label, measure
from .verify import AGREES, Verification, verify

CAPTURED, UNSUPPORTED, FAILED = "captured", "unsupported", "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of one instruction: CAPTURED, UNSUPPORTED or FAILED, and for the last two a message that says why.

    ``documented`` and ``measured`` are the verdicts on random products by the documented and the measured layout.
    """

    instruction: str
    status: str
    message: str = ""
    anchor: str = ""
    probes: int = 0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    documented: Verification | None = None
    measured: Verification | None = None
    ptx_sha256: str = ""


Measured = tuple[Outcome, list[Fragment]]

#: The seconds of loading some forms together, and what was found.
Module = tuple[float, list[Measured]]


def capture(
    device: Device,
    documented: Mapping[Key, Fragment],
    forms: Iterable[Form] | None = None,
    progress: Callable[[Outcome], object] | None = None,
    name: str | None = None,
    version: str = "",
    processes: Processes[Device, Module] | None = None,
) -> Source:
    """Measures forms on a device, and gives all captured fragments as a source.

    ``documented`` has the fragments of the anchor by Fragment.key. ``forms`` are all if they are not given.
    ``progress`` is called with each outcome. ``processes`` measure a part of these forms. Provenance has ``device``,
    ``time``, ``tool``, ``seconds``, ``load_seconds`` (the driver's compiler, in all processes), ``gpu_seconds``,
    ``instructions`` (an Outcome each) and ``disagreements``: in words, each operand of which two forms gave different
    measurements. The ``ptx_version`` of the device is the latest that a captured form asked for.
    """
    started, description = time.perf_counter(), device.describe()
    asked = list(every() if forms is None else forms)
    together = _modules(asked)
    done: dict[int, Module] = {}

    alone = ((at, _measure_module(documented, together, device, at)) for at in range(len(together)))
    for at, done[at] in processes.results(device) if processes else alone:
        for outcome, _ in done[at][1]:
            if progress is not None:
                progress(outcome)
    everything = [each for at in sorted(done) for each in done[at][1]]
    results = {outcome.instruction: outcome for outcome, _ in everything}
    kept, repeated = merge(fragment for _, fragments in everything for fragment in fragments)
    form_of = {id(fragment): outcome.instruction for outcome, fragments in everything for fragment in fragments}
    disagreements = []
    for one, other in repeated:
        if one.digest != other.digest:
            differ = difference(one, other)
            said = f"{differ.count} of {differ.total} elements: {differ.words}"
            disagreements.append(f"{one} differs between {form_of[id(one)]} and {form_of[id(other)]}: {said}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    captured = (form for form in asked if results[str(form)].status == CAPTURED)
    provenance = {
        "device": {**asdict(description), "ptx_version": ptx_version(captured)},
        "time": now,
        "tool": f"lanemap {version}".strip(),
        "seconds": round(time.perf_counter() - started, 6),
        "load_seconds": round(sum(seconds for seconds, _ in done.values()), 6),
        "gpu_seconds": round(sum(result.gpu_seconds for result in results.values()), 6),
        "instructions": [asdict(results[str(form)]) for form in asked],
        "disagreements": disagreements,
    }
    title = f"{description.name}, measured {now[:10]}"
    return Source(name or source_name(description.name, description.target), "capture", title, kept, provenance)


def _modules(forms: Iterable[Form]) -> list[list[Form]]:
    """The forms whose kernels are loaded together: those of a family; of wgmma, whose kernels are long, by types too.

    A driver that is too old for some forms refuses no others with them.
    """

    def alike(form: Form) -> tuple[object, ...]:
        types = (form.a, form.d) if form.threads == WARPGROUP else ()
        return form.name, form.version, *types

    return list(grouped(forms, alike).values())


def measuring(
    open_device: Callable[[], AbstractContextManager[Device]],
    documented: Callable[[], Mapping[Key, Fragment]],
    forms: Iterable[Form],
    count: int,
) -> Processes[Device, Module]:
    """So many processes that measure forms, each with a context in which the driver compiles at the same time.

    The largest modules come first, so that nobody still measures one when the others are done. This process must not
    have opened a device before.
    """
    together = _modules(forms)
    largest_first = sorted(range(len(together)), key=lambda at: len(together[at]), reverse=True)

    def measured(device: Device, at: int) -> Module:
        return _measure_module(documented(), together, device, at)

    return Processes(open_device, measured, largest_first, count)


def _measure_module(
    documented: Mapping[Key, Fragment], together: Sequence[Sequence[Form]], device: Device, at: int
) -> Module:
    """Loads the kernels of forms as one module, then measures them."""
    started, target, forms = time.perf_counter(), device.describe().target, together[at]
    # All at once takes the driver less time. Where it refuses one, each is loaded when it runs, and says so itself.
    with suppress(LanemapError):
        device.load([kernel for form in forms if form.supports(target) for kernel in kernels(form)])
    seconds, known, found = time.perf_counter() - started, dict[Key, Fragment](), []
    for form in forms:
        found.append(_capture_one(Bench(device, form), documented, target, known))
        known = {fragment.key: fragment for fragment in found[-1][1]} | known
    return seconds, found


def _capture_one(
    bench: Bench, documented: Mapping[Key, Fragment], target: str, known: MutableMapping[Key, Fragment]
) -> Measured:
    """Measures, labels and checks one form. What fails is told in the result, with no fragments.

    ``known`` has what was measured before, on which the products of wmma and wgmma build.
    """
    started, form, fragments = time.perf_counter(), bench.form, list[Fragment]()
    told: dict[str, Any] = {"status": CAPTURED}
    try:
        if not form.supports(target):
            raise NotLoaded(f"needs {form.target}, and this device is {target}")
        text = module_text(bench.kernels.values(), target)
        told["ptx_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        found, told["anchor"] = _measure(bench, documented, known)
        measured = {fragment.key: fragment for fragment in found}
        by_measurement = told["measured"] = verify(bench, {**known, **measured})
        if by_measurement.verdict != AGREES:
            raise Contradiction(f"random numbers by the measured layout: {by_measurement.detail}")
        metadata = {key: fragment for key, fragment in measured.items() if fragment.role == "E"}
        same = bool(measured) and all(
            key in documented and documented[key].digest == fragment.digest for key, fragment in measured.items()
        )
        told["documented"] = by_measurement if same else verify(bench, {**documented, **metadata})
        fragments = found
    except LanemapError as error:
        told |= {"status": UNSUPPORTED if isinstance(error, NotLoaded) else FAILED, "message": f"{form}: {error}"}
    seconds, on_gpu = round(time.perf_counter() - started, 6), round(bench.gpu_seconds, 9)
    return Outcome(str(form), probes=bench.probes, seconds=seconds, gpu_seconds=on_gpu, **told), fragments


def _measure(
    bench: Bench, documented: Mapping[Key, Fragment], known: MutableMapping[Key, Fragment]
) -> tuple[list[Fragment], str]:
    """The fragments of a form by the way of its family, and in words what their labels are from."""
    form = bench.form
    if form.role:
        return measure_move(bench, form)
    if form.threads == WARPGROUP:
        return measure_warpgroup(bench, form, known)
    if form.instruction.move_spelling:
        return [], "operands as wmma.load and wmma.store move them"
    return label(form, measure(bench, form), documented)


def source_name(card: str, target: str) -> str:
    """A name for captures from a device: h200-sm_90a for an NVIDIA H200."""
    words = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    return f"{words}-{target}"
