"""A capture: every instruction measured, labelled and checked, as a source of layouts with its provenance."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from .. import __version__
from ..db.difference import difference
from ..db.errors import LanemapError
from ..db.fragment import Fragment, Source
from ..db.instructions import FORMS, Form, Key
from . import ptx
from .device import Description, Device, NotLoaded
from .label import label
from .probe import Bench, measure
from .relations import Contradiction
from .verify import AGREES, Verdict, verify

CAPTURED, UNSUPPORTED, FAILED = "captured", "unsupported", "failed"


@dataclass(frozen=True)
class Result:
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
    documented: Verdict | None = None
    measured: Verdict | None = None
    ptx_sha256: str = ""


def capture(
    device: Device,
    documented: Mapping[Any, Fragment],
    instructions: Iterable[Form] = FORMS,
    progress: Callable[[Result], object] | None = None,
    name: str | None = None,
) -> Source:
    """Measures instructions on a device, and gives all captured fragments as a source.

    ``documented`` has the fragments of the anchor by Fragment.key. ``progress`` is called after each instruction.
    Provenance has ``device``, ``time``, ``tool``, ``seconds``, ``gpu_seconds``, ``instructions`` (a Result each) and
    ``disagreements``: in words, each operand of which two instructions gave different measurements.
    """
    started, description = time.perf_counter(), device.describe()
    fragments: dict[Key, tuple[Fragment, Form]] = {}
    results, disagreements = [], []
    for instruction in instructions:
        result, measured = capture_one(device, documented, instruction, description)
        results.append(result)
        for fragment in measured:
            known, first = fragments.setdefault(fragment.key, (fragment, instruction))
            if known.digest != fragment.digest:
                found = difference(known, fragment)
                said = f"{found.count} of {found.total} elements: {found.words}"
                disagreements.append(f"{fragment} differs between {first} and {instruction}: {said}")
        if progress is not None:
            progress(result)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    provenance = {
        "device": asdict(description),
        "time": now,
        "tool": f"lanemap {__version__}",
        "seconds": round(time.perf_counter() - started, 6),
        "gpu_seconds": round(sum(result.gpu_seconds for result in results), 6),
        "instructions": [asdict(result) for result in results],
        "disagreements": disagreements,
    }
    kept = [fragment for fragment, _ in fragments.values()]
    title = f"{description.name}, measured {now[:10]}"
    return Source(name or source_name(description), "capture", title, kept, provenance)


def capture_one(
    device: Device, documented: Mapping[Any, Fragment], instruction: Form, description: Description
) -> tuple[Result, list[Fragment]]:
    """Measures, labels and checks one instruction. What fails is told in the result, with no fragments."""
    started, bench = time.perf_counter(), Bench(device, instruction)
    fragments: list[Fragment] = []
    anchor, message, status = "", "", CAPTURED
    by_document = by_measurement = None
    try:
        if not instruction.supports(description.target):
            raise NotLoaded(f"needs {instruction.target}, and this device is {description.target}")  # noqa: TRY301
        fragments, anchor = label(instruction, measure(bench), documented)
        measured = {fragment.key: fragment for fragment in fragments}
        metadata = {key: fragment for key, fragment in measured.items() if fragment.role == "E"}
        by_measurement = verify(bench, measured)
        if by_measurement.verdict != AGREES:
            raise Contradiction(f"random products by the measured layout: {by_measurement.detail}")
        by_document = verify(bench, {**documented, **metadata})
    except NotLoaded as error:
        status, message = UNSUPPORTED, f"{instruction}: {error}"
    except LanemapError as error:
        status, message = FAILED, f"{instruction}: {error}"
        fragments = []
    text = ptx.module(instruction, description.target) if instruction.supports(description.target) else ""
    result = Result(
        instruction=str(instruction),
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


def source_name(description: Description) -> str:
    """A name for captures from a device: h200-sm_90a for an NVIDIA H200."""
    words = re.sub(r"[^a-z0-9]+", "-", description.name.lower().replace("nvidia", "")).strip("-")
    return f"{words}-{description.target}"
