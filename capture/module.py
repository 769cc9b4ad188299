"""Kernels that are loaded together, and what measuring, labelling and checking their instructions gives."""

import hashlib
import time
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..db.errors import LanemapError
from ..db.isa.forms import Form
from ..db.isa.instructions import WARPGROUP, Key, box
from ..db.layout.fragment import Fragment
from ..db.text import grouped
from . import conflict, shared
from .box import measure_box
from .device import Bench, Contradiction, Description, Device, NotLoaded
from .from_memory import measure_move, measure_warpgroup
from .kernels import Kernel, kernels, module_text
from .product import label, measure
from .verify import AGREES, Verification, verify

CAPTURED, UNSUPPORTED, FAILED = "captured", "unsupported", "failed"


@dataclass(frozen=True)
class Outcome:
    """The outcome for one instruction: CAPTURED, UNSUPPORTED or FAILED, and for the last two a message with the reason.

    ``documented`` and ``measured`` are the verdicts on random products with the documented and the measured layout.
    ``conflicts`` are what accesses cost whose rows are at some pitch. So many ``descriptors`` of other than packed
    tiles were read as Lanemap says, or boxes written at other lines. ``compiler`` is named where not the driver's.
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
    descriptors: int = 0
    conflicts: Sequence[conflict.Conflict] = ()
    compiler: str = ""


Measured = tuple[Outcome, list[Fragment]]


class Measurements(NamedTuple):
    """What measuring the forms of a module on ``device`` gave, and the seconds that loading it took."""

    device: Description
    load_seconds: float
    results: list[Measured]


def modules(forms: Iterable[Form]) -> list[list[Form]]:
    """The forms whose kernels are loaded together: those of a type of A, and for wgmma, whose kernels are long, of D.

    All of wmma are together, as its products build on the moves of their operands. Forms of different PTX versions are
    kept apart, so that an old driver refuses only those that it does not know.
    """

    def alike(form: Form) -> tuple[object, ...]:
        types = () if form.instruction.move_spelling else (form.a, form.d if form.threads == WARPGROUP else "")
        return form.name, form.version, *types

    return list(grouped(forms, alike).values())


def longest_first(modules: Sequence[Sequence[Form]]) -> list[int]:
    """The numbers of modules, so that none is still being measured when all others are done."""

    def cost(form: Form) -> int:
        """About how long it takes: a product of one warp in proportion to K, along which slots are numbered."""
        if form.role or form.threads == WARPGROUP:
            return 8 if form.role else 20
        return form.dimensions[2] * (2 if form.sparse else 1)

    costs = [sum(map(cost, module)) for module in modules]
    return sorted(range(len(modules)), key=costs.__getitem__, reverse=True)


def measure_module(documented: Mapping[Key, Fragment], forms: Sequence[Form], device: Device) -> Measurements:
    """Loads the kernels of forms as one module, then measures them."""
    started, described = time.perf_counter(), device.describe()
    target = described.target
    # The driver loads all together faster. If it refuses one, each is loaded when it runs, and fails by itself.
    with suppress(LanemapError):
        device.load([kernel for form in forms if form.supports(target) for kernel in _kernels(form)])
    seconds, known, measured = time.perf_counter() - started, dict[Key, Fragment](), []
    for form in sorted(forms, key=lambda form: not form.role):  # products build on the moves of their operands
        measured.append(_capture_one(Bench(device, form), documented, target, known))
        known = {fragment.key: fragment for fragment in measured[-1][1]} | known
    return Measurements(described, seconds, measured)


def _capture_one(
    bench: Bench, documented: Mapping[Key, Fragment], target: str, known: MutableMapping[Key, Fragment]
) -> Measured:
    """Measures, labels and checks one form. The outcome says what failed; then there are no fragments.

    ``known`` has the fragments measured so far, on which the products of wmma and wgmma build.
    """
    started, form, fragments = time.perf_counter(), bench.form, list[Fragment]()
    outcome: dict[str, Any] = {"status": CAPTURED}
    try:
        if not form.supports(target):
            raise NotLoaded(f"needs {form.target}, but this device is {target}")
        text = module_text(_kernels(form), target)
        outcome["ptx_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        if form.role and box(form.key(form.role)):
            written, outcome["descriptors"] = measure_box(bench)
            measurements, outcome["anchor"] = [written], "places are addresses in shared memory"
        else:
            measurements, outcome["anchor"] = _measure(bench, documented, known)
        if shared.kernels(form):
            d = next(fragment for fragment in measurements if fragment.role == "D")
            measurements += shared.measure_shared(bench, d)
            outcome["descriptors"] = shared.measure_descriptors(bench, d) if shared.varies(form) else 0
        measured = {fragment.key: fragment for fragment in measurements}
        outcome["conflicts"] = conflict.measure_conflicts(bench)
        # Kernels also use what they do not measure: scales, which are all one, and ldmatrix.
        by_measurement = outcome["measured"] = verify(bench, {**documented, **known, **measured})
        if by_measurement.verdict != AGREES:
            raise Contradiction(f"random numbers by the measured layout: {by_measurement.detail}")
        metadata = {key: fragment for key, fragment in measured.items() if fragment.role == "E"}
        same = bool(measured) and all(
            key in documented and documented[key].digest == fragment.digest for key, fragment in measured.items()
        )
        if not same:
            by_measurement = verify(bench, {**documented, **metadata})
        outcome["documented"] = by_measurement
        fragments = measurements
    except LanemapError as error:
        outcome |= {"status": UNSUPPORTED if isinstance(error, NotLoaded) else FAILED, "message": f"{form}: {error}"}
    outcome["compiler"] = bench.compiler
    seconds, on_gpu = round(time.perf_counter() - started, 6), round(bench.gpu_seconds, 9)
    return Outcome(str(form), probes=bench.probes, seconds=seconds, gpu_seconds=on_gpu, **outcome), fragments


def _kernels(form: Form) -> list[Kernel]:
    """Every kernel that measures a form."""
    return [*kernels(form), *shared.kernels(form), *conflict.kernels(form)]


def _measure(
    bench: Bench, documented: Mapping[Key, Fragment], known: MutableMapping[Key, Fragment]
) -> tuple[list[Fragment], str]:
    """The fragments of a form, measured as its family requires, and in words where their labels come from."""
    form = bench.form
    if form.role:
        return measure_move(bench, form)
    if form.threads == WARPGROUP:
        return measure_warpgroup(bench, form, known)
    if form.instruction.move_spelling:
        return [], "operands as wmma.load and wmma.store move them"
    return label(form, measure(bench, form), documented)
