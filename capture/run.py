"""A capture: every instruction measured, labelled and checked, as a source of layouts with its provenance."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ..db.difference import difference
from ..db.errors import LanemapError
from ..db.forms import Move, every
from ..db.fragment import Fragment, Source, merge
from ..db.grouped import grouped
from ..db.instructions import WARPGROUP, Form, Key
from . import moves, ptx, warpgroup
from .bench import Bench
from .device import Description, Device, NotLoaded
from .kernels import kernels
from .label import label
from .probe import measure
from .relations import Contradiction
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


def capture(  # over 40 lines with its arguments and what provenance holds
    device: Device,
    documented: Mapping[Key, Fragment],
    forms: Iterable[Form | Move] | None = None,
    progress: Callable[[Outcome], object] | None = None,
    name: str | None = None,
    version: str = "",
) -> Source:
    """Measures forms on a device, and gives all captured fragments as a source.

    ``documented`` has the fragments of the anchor by Fragment.key. ``forms`` are all if they are not given.
    ``progress`` is called after each form. Provenance has ``device``, ``time``, ``tool``, ``seconds``, ``load_seconds``
    (the driver's compiler), ``gpu_seconds``, ``instructions`` (an Outcome each) and ``disagreements``: in words, each
    operand of which two forms gave different measurements. The ``ptx_version`` of the device is the latest that a
    captured form asked for.
    """
    started, description = time.perf_counter(), device.describe()
    asked = list(every() if forms is None else forms)
    known: dict[Key, Fragment] = {}
    measured: list[tuple[Fragment, Form | Move]] = []
    results: dict[str, Outcome] = {}
    loading = 0.0
    for together in _modules(asked):
        loading += _load(device, together, description)
        for form in together:
            result, fragments = capture_one(device, documented, form, description, known)
            results[str(form)] = result
            measured += [(fragment, form) for fragment in fragments]
            known |= {fragment.key: fragment for fragment in fragments if fragment.key not in known}
            if progress is not None:
                progress(result)
    kept, disagreements = _merged(measured)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    captured = (form for form in asked if results[str(form)].status == CAPTURED)
    provenance = {
        "device": {**asdict(description), "ptx_version": ptx.version(captured)},
        "time": now,
        "tool": f"lanemap {version}".strip(),
        "seconds": round(time.perf_counter() - started, 6),
        "load_seconds": round(loading, 6),
        "gpu_seconds": round(sum(result.gpu_seconds for result in results.values()), 6),
        "instructions": [asdict(results[str(form)]) for form in asked],
        "disagreements": disagreements,
    }
    title = f"{description.name}, measured {now[:10]}"
    return Source(name or source_name(description), "capture", title, kept, provenance)


def _load(device: Device, forms: Sequence[Form | Move], description: Description) -> float:
    """Loads the kernels of several forms at once, which takes the driver less time than each alone. Gives the seconds.

    Where the driver refuses one of them, each is loaded alone when it runs, and says so itself.
    """
    started = time.perf_counter()
    with suppress(LanemapError):
        device.load([kernel for form in forms if form.supports(description.target) for kernel in kernels(form)])
    return time.perf_counter() - started


def _modules(forms: Iterable[Form | Move]) -> list[list[Form | Move]]:
    """The forms whose kernels are loaded together: those of a family; of wgmma, whose kernels are long, by types too.

    A driver that is too old for some forms refuses no others with them.
    """

    def alike(form: Form | Move) -> tuple[object, ...]:
        types = (form.a, form.d) if isinstance(form, Form) and form.threads == WARPGROUP else ()
        return form.name, form.version, *types

    return list(grouped(forms, alike).values())


def capture_one(  # over 40 lines with its arguments and what the outcome holds
    device: Device,
    documented: Mapping[Key, Fragment],
    form: Form | Move,
    description: Description,
    known: MutableMapping[Key, Fragment],
) -> tuple[Outcome, list[Fragment]]:
    """Measures, labels and checks one form. What fails is told in the result, with no fragments.

    ``known`` has what was measured before, on which wmma.mma and wgmma build.
    """
    started, bench = time.perf_counter(), Bench(device, form)
    fragments: list[Fragment] = []
    anchor, message, status = "", "", CAPTURED
    by_document = by_measurement = None
    try:
        if not form.supports(description.target):
            raise NotLoaded(f"needs {form.target}, and this device is {description.target}")
        fragments, anchor = _measure(bench, form, documented, known)
        measured = {fragment.key: fragment for fragment in fragments}
        by_measurement = verify(bench, {**known, **measured})
        if by_measurement.verdict != AGREES:
            raise Contradiction(f"random numbers by the measured layout: {by_measurement.detail}")
        metadata = {key: fragment for key, fragment in measured.items() if fragment.role == "E"}
        by_document = by_measurement if _same(measured, documented) else verify(bench, {**documented, **metadata})
    except LanemapError as error:
        status = UNSUPPORTED if isinstance(error, NotLoaded) else FAILED
        message, fragments = f"{form}: {error}", []
    text = ptx.module(bench.kernels.values(), description.target) if form.supports(description.target) else ""
    result = Outcome(
        instruction=str(form),
        status=status,
        message=message,
        anchor=anchor,
        probes=bench.probes,
        seconds=round(time.perf_counter() - started, 6),
        gpu_seconds=round(bench.gpu_seconds, 9),
        documented=by_document,
        measured=by_measurement,
        ptx_sha256=hashlib.sha256(text.encode()).hexdigest() if text else "",
    )
    return result, fragments


def _measure(
    bench: Bench, form: Form | Move, documented: Mapping[Key, Fragment], known: MutableMapping[Key, Fragment]
) -> tuple[list[Fragment], str]:
    """The fragments of a form by the way of its family, and in words what their labels are from."""
    if isinstance(form, Move):
        return moves.measure(bench, form)
    if form.threads == WARPGROUP:
        return warpgroup.measure(bench, form, known)
    if form.name == "wmma":
        return [], "operands as wmma.load and wmma.store move them"
    return label(form, measure(bench, form), documented)


def _same(measured: Mapping[Key, Fragment], documented: Mapping[Key, Fragment]) -> bool:
    """Whether the document has every measured fragment, and none of them differs."""
    return bool(measured) and all(
        key in documented and documented[key].digest == fragment.digest for key, fragment in measured.items()
    )


def _merged(measured: Sequence[tuple[Fragment, Form | Move]]) -> tuple[list[Fragment], list[str]]:
    """The first measurement of each operand, and in words what differs from it."""
    kept, repeated = merge(fragment for fragment, _ in measured)
    form_of = {id(fragment): form for fragment, form in measured}
    disagreements = []
    for one, other in repeated:
        if one.digest != other.digest:
            found = difference(one, other)
            said = f"{found.count} of {found.total} elements: {found.words}"
            disagreements.append(f"{one} differs between {form_of[id(one)]} and {form_of[id(other)]}: {said}")
    return kept, disagreements


def source_name(description: Description) -> str:
    """A name for captures from a device: h200-sm_90a for an NVIDIA H200."""
    words = re.sub(r"[^a-z0-9]+", "-", description.name.lower().replace("nvidia", "")).strip("-")
    return f"{words}-{description.target}"
