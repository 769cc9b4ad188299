"""A second check, independent of probes: random numbers through a layout table, compared exactly.

A form must compute from random registers and memory exactly what simulated threads compute that run the same kernel by
the table. Numbers are small integers, so that every result is exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..db.errors import LanemapError
from ..db.flow.metadata import pack_vectors
from ..db.isa.instructions import PARTIAL_ROLES, WARP, WORD, Key, box, operand
from ..db.isa.shared import BoundingBox
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment
from ..db.layout.shared import swizzle
from . import values
from .device import Bench, Contradiction
from .kernels import LINE as SHARED_LINE
from .kernels import LINES, POISON, Kernel, Port, module_text
from .machine.arguments import Argument
from .machine.report import Trace
from .machine.trace import trace
from .values import LINE, extents, gather, write_memory, write_registers

AGREES, DISAGREES, NOT_DOCUMENTED = "agrees", "disagrees", "not documented"

#: Random products of a warp. A quarter of them has as many random numbers for a warpgroup.
_ROUNDS = 8


@dataclass(frozen=True)
class Verification:
    """Whether results by a layout table are right (AGREES, DISAGREES or NOT_DOCUMENTED), and in words which are not."""

    verdict: str
    detail: str = ""


def verify(bench: Bench, table: Mapping[Key, Fragment]) -> Verification:
    """Compares every kernel of a form on random numbers with simulated threads by the fragments of ``table``."""
    random = np.random.default_rng(0)
    for selector, kernel in bench.kernels.items():
        missing = [key.role for key in keys(kernel) if not _complete(table.get(key))]
        if missing:
            return Verification(NOT_DOCUMENTED, f"no elements of {' and '.join(missing)}")
        rounds = _ROUNDS * WARP // kernel.threads
        try:
            patterns = {port.name: _random(kernel, port, table, random, rounds) for port in kernel.inputs}
            key = kernel.form.key(kernel.form.role or "D")
            if of := box(key):
                left = _written(kernel, of, patterns, table[key])
            else:
                found, left = simulate(kernel, patterns, table, module_text([kernel], kernel.form.target))
                if not found.checked:
                    raise Contradiction(" ".join(found.notes))
            expected = bench.read(kernel, left)
        except LanemapError as error:
            return Verification(DISAGREES, str(error))
        outputs = bench.values(patterns, selector, in_turn=True)
        if (wrong := outputs != expected).any():
            at = tuple(np.argwhere(wrong)[0])
            chosen = "" if selector is None else f" with selector {selector}"
            return Verification(
                DISAGREES,
                f"{np.count_nonzero(wrong)} of {wrong.size} elements{chosen} are wrong, the first in "
                f"{bench.place(at[1])}: {outputs[at]:g}, expected {expected[at]:g}",
            )
    return Verification(AGREES)


def simulate(
    kernel: Kernel, patterns: Mapping[str, Array], table: Mapping[Key, Fragment], text: str
) -> tuple[Trace, Array]:
    """A run of a kernel, whose PTX is ``text``, on simulated threads, and what it leaves of the output."""
    count, given = len(next(iter(patterns.values()))), []
    for port in kernel.inputs:
        data = np.zeros((count, port.size(kernel.threads)), np.uint8)
        held = np.ascontiguousarray(patterns[port.name]).reshape(count, -1).view(np.uint8)
        data[:, : held.shape[1]] = held
        given.append(_words(port.name, data))
    given.append(_words("probes", np.repeat(np.arange(count, dtype=np.uint32), len(kernel.inputs))))
    output = kernel.output
    given.append(_words("output", np.full((count, output.size(kernel.threads) // 4), POISON, np.uint32)))

    def layouts(key: Key) -> Fragment:
        if key not in table:
            raise Contradiction(f"there is no layout of {key}")
        return table[key]

    found = trace(text, layouts, given, block=(kernel.threads, 1, 1), grid=(count, 1, 1))
    left = found.outputs["output"].view(np.uint8).reshape(count, -1)
    if output.bytes:
        return found, left
    by_thread = left.view(f"u{output.bits // 8}").reshape(count, -1, kernel.threads, output.together)
    return found, by_thread.swapaxes(2, 3).reshape(count, output.registers, kernel.threads)


def _words(name: str, data: Array) -> Argument:
    """An array in global memory with these bytes."""
    words = data.reshape(-1).view(np.uint32)
    return Argument(name, "u32", words.shape, words)


def _written(kernel: Kernel, of: BoundingBox, patterns: Mapping[str, Array], held: Fragment) -> Array:
    """What memory holds after a box was written, so many bytes after its pattern begins."""
    moved, width, elements = swizzle(of.mode), of.bits // 8, held.table
    count = len(patterns["offset"])
    memory = np.full((count, kernel.output.size(kernel.threads) // 4), POISON, np.uint32).view(np.uint8)
    start = patterns["offset"][:, 0, :1].astype(np.intp)
    at = moved(start + moved(elements["reg"].astype(np.intp) * WORD // 8 + elements["slot"].astype(np.intp) * width))
    element = elements["row"].astype(np.intp) * of.k + elements["col"]
    for byte in range(width):
        memory[np.arange(count)[:, None], at + byte] = patterns["tensor"][:, element * width + byte]
    return memory


def keys(kernel: Kernel) -> list[Key]:
    """The keys of the fragments that define what a kernel computes."""
    form = kernel.form
    if form.role:
        return [form.key(role) for role in form.types]
    selectors = form.selectors if kernel.selector is None else (kernel.selector,)
    metadata = [form.key("E", selector) for selector in selectors if selector is not None]
    held = (role for role in form.instruction.register_roles if role not in PARTIAL_ROLES)
    return [*(form.key(role) for role in held), *metadata]


def _complete(fragment: Fragment | None) -> bool:
    if fragment is None or fragment.elements is None:
        return False
    return fragment.role in "Ep" or fragment.partial or len(fragment.elements) == operand(fragment.key).size


def _random(
    kernel: Kernel, port: Port, table: Mapping[Key, Fragment], random: np.random.Generator, rounds: int
) -> Array:
    """``rounds`` random patterns of an input; those of an operand are consistent with a matrix."""
    form = kernel.form
    if port.name == "E":
        vectors = random.choice(list(form.sparsity.indices), (rounds, kernel.threads, 8))
        return pack_vectors(vectors)[:, None]
    if port.name == "p":
        rows = np.tile(np.arange(kernel.threads, dtype=np.uint32), (rounds, 1))
        return random.permuted(rows, axis=1)[:, None] * np.uint32(LINE)
    if port.box:
        return random.integers(0, 256, (rounds, port.size(kernel.threads)), np.uint8)
    if port.name == "offset":
        lines = random.integers(0, LINES, rounds, np.uint32)
        return np.tile(SHARED_LINE * lines[:, None, None], kernel.threads)
    role = form.role or port.name.removeprefix("shared_")[0]
    low, high = values.integers(form.types.get(role, form.a))
    narrow = np.min_scalar_type(-high)
    if port.bytes:
        lines = random.integers(low, high, (rounds, *extents(form, role)), narrow, endpoint=True)
        return write_memory(form, role, lines)
    fragment = table[form.key(role)]
    if fragment.windowed:
        slots = random.integers(low, high, (rounds, operand(fragment.key).size), narrow, endpoint=True)
    else:
        shape = (rounds, fragment.computations, *fragment.dimensions)
        slots = gather(random.integers(low, high, shape, narrow, endpoint=True), fragment)
    return write_registers(operand(fragment.key), slots)
