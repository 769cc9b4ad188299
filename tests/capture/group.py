"""A device that is a model in numpy: it computes what forms do by any layout table, even a wrong one.

It shares the arithmetic of values with the tracer's simulated threads, and takes a hundredth of their time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lanemap.capture import conflict, values
from lanemap.capture.device import Description, Output, Probes
from lanemap.capture.kernels import POISON, Kernel, in_registers
from lanemap.capture.values import (
    LINE,
    gather,
    places,
    read_memory,
    read_registers,
    scatter,
    write_memory,
    write_registers,
)
from lanemap.db.flow.metadata import decode
from lanemap.db.isa.forms import Form
from lanemap.db.isa.instructions import WARPGROUP, WORD, box, tile
from lanemap.db.isa.shared import BoundingBox, Fields
from lanemap.db.layout.algebra import Array
from lanemap.db.layout.fragment import Fragment, address_lanes
from lanemap.db.layout.shared import read, swizzle

Patterns = Mapping[str, Array]


class SimulatedGroup:
    """Runs forms whose fragments are in ``table``, by Fragment.key; a sparse one also needs those of E."""

    def __init__(self, table: Mapping[Any, Fragment], target: str = "sm_90a") -> None:
        self._table = table
        self._target = target

    def describe(self) -> Description:
        """A description that shows that nothing was measured."""
        return Description("simulated warp", "0.0", "none", "none", self._target)

    def load(self, kernels: Sequence[Kernel]) -> None:
        """There is nothing to load."""

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """The output of the kernel for each probe, by the table."""
        chosen = dict(zip((port.name for port in kernel.inputs), probes.picks.astype(np.intp).T, strict=True))
        if kernel in conflict.kernels(kernel.form):
            return Output(_clocked(kernel, probes), 0.0)
        multiply = self._product
        if kernel.threads == WARPGROUP:
            multiply = self._shared if kernel.called else self._warpgroup
        run = self._move if kernel.form.role else multiply
        return Output(run(kernel, probes.patterns, chosen), 0.0)

    def _a(self, form: Form, held: Array, a: Fragment, selector: int | None, words: Any) -> Array:
        """Matrices A from values (n, slots), for a sparse one in the columns that words of metadata choose."""
        chosen = decode(words, a, self._table[form.key("E", selector)]) if form.sparse else None
        return scatter(held, a, chosen)

    def _product(self, kernel: Kernel, patterns: Patterns, picks: Patterns) -> Array:
        """Multiplies every pair of patterns that occurs, then picks the products of the probes."""
        form = kernel.form
        fragments = {role: self._table[form.key(role)] for role in "ABCD"}
        held = {role: read_registers(form.operand(role), patterns[role]) for role in "ABC"}
        left, left_of = np.unique(np.stack([picks["A"], picks.get("E", picks["A"])]), axis=1, return_inverse=True)
        right, right_of = np.unique(picks["B"], return_inverse=True)
        words = patterns["E"][left[1], 0] if form.sparse else None
        a = self._a(form, held["A"][left[0]], fragments["A"], kernel.selector, words)
        b = scatter(held["B"][right], fragments["B"])
        products = values.multiply(form, a[:, None], b[None])[left_of.ravel(), right_of.ravel()]
        result = gather(products + scatter(held["C"][picks["C"]], fragments["C"]), fragments["D"])
        return write_registers(form.operand("D"), result)

    def _warpgroup(self, kernel: Kernel, patterns: Patterns, picks: Patterns) -> Array:
        """Adds up the product of A in memory and those of A in registers."""
        form = kernel.form
        by_column = read_memory(form, "B", patterns["shared_B"])[picks["shared_B"]]
        in_memory = read_memory(form, "A", patterns["shared_A"])
        parts = [(in_memory.reshape(len(in_memory), -1), "shared_A", values.stored_a(form), form.selectors[0])]
        for name, selector in in_registers(form).items():
            held = read_registers(form.operand("A"), patterns[name])
            parts.append((held, name, self._table[form.key("A")], selector))
        words = patterns["E"][picks["E"], 0] if form.sparse else None
        total: Any = 0
        for held, name, fragment, selector in parts:
            matrices = self._a(form, held[picks[name]], fragment, selector, words)
            total = total + values.multiply(form, matrices[:, 0], by_column.swapaxes(1, 2))
        return write_registers(form.operand("D"), gather(total[:, None], self._table[form.key("D")]))

    def _shared(self, kernel: Kernel, patterns: Patterns, picks: Patterns) -> Array:
        """The product of an operand that descriptors read from memory and of an identity."""
        form, (role, major) = kernel.form, kernel.called.split("_")
        bits, words = values.memory_bits(form), patterns["descriptor"][:, :, 0].tolist()
        at = []
        for fields in (Fields.of(low | high << 32) for low, high in words):
            of = tile(form.key(role)._replace(qualifiers=f"{fields.mode}.{major}"))
            assert of is not None
            at.append(read(of, fields) // bits)
        codes = values.from_bytes(patterns["memory"], bits)
        numbers = np.concatenate([values.decode(form.a, bits, codes), np.zeros((len(codes), 1))], axis=1)
        places = np.minimum(np.stack(at), numbers.shape[1] - 1)  # beyond the area is nothing
        held = numbers[picks["memory"][:, None, None], places[picks["descriptor"]]]
        other = read_memory(form, "BA"["AB".index(role)], patterns["identity"])[picks["identity"]]
        stored, by_column = (held, other) if role == "A" else (other, held)
        metadata = patterns["E"][picks["E"], 0] if form.sparse else None
        a = self._a(form, stored.reshape(len(stored), -1), values.stored_a(form), form.selectors[0], metadata)
        product = values.multiply(form, a[:, 0], by_column.swapaxes(1, 2))
        return write_registers(form.operand("D"), gather(product[:, None], self._table[form.key("D")]))

    def _move(self, kernel: Kernel, patterns: Patterns, picks: Patterns) -> Array:
        form, count = kernel.form, len(next(iter(picks.values())))
        if of := box(form.key(form.role)):
            return self._box(kernel, of, patterns, picks)
        held, registers = self._table[form.key(form.role)], form.operand(form.role)
        if form.stores:
            poison = np.full((count, values.memory_size(form, form.role) // 4), POISON, np.uint32)
            lines = np.array(read_memory(form, form.role, poison.view(np.uint8)))
        else:
            lines = read_memory(form, form.role, patterns["memory"])[picks["memory"]]
        if form.moves == "transpose":
            source = self._table[form.key("A")]
            both = [gather(lines[:, None], source), gather(lines[:, None].swapaxes(2, 3), held)]
            return np.concatenate([write_registers(registers, array) for array in both], axis=1)
        _, line, place = places(held)
        if form.layout == "col":
            line, place = place, line
        elif not form.layout:
            offsets = patterns["p"][picks["p"], 0]
            line = offsets[:, address_lanes(held, self._table[form.key("p")])].astype(np.intp) // LINE
        probe = np.arange(count)[:, None]
        if not form.stores:
            return write_registers(registers, lines[probe, line, place])
        lines[probe, line, place] = read_registers(registers, patterns["r"])[picks["r"]]
        return write_memory(form, form.role, lines)

    def _box(self, kernel: Kernel, of: BoundingBox, patterns: Patterns, picks: Patterns) -> Array:
        """What memory holds after a box was written, so many bytes after its pattern begins."""
        held, moved, width = self._table[kernel.form.key(kernel.form.role)].table, swizzle(of.mode), of.bits // 8
        count = len(picks["offset"])
        memory = np.full((count, kernel.output.size(kernel.threads) // 4), POISON, np.uint32).view(np.uint8)
        start = patterns["offset"][picks["offset"], 0, 0].astype(np.intp)[:, None]
        at = moved(start + moved(held["reg"].astype(np.intp) * WORD // 8 + held["slot"].astype(np.intp) * width))
        element = held["row"].astype(np.intp) * of.k + held["col"]
        for byte in range(width):
            memory[np.arange(count)[:, None], at + byte] = patterns["tensor"][picks["tensor"]][
                :, element * width + byte
            ]
        return memory


def _clocked(kernel: Kernel, probes: Probes) -> Array:
    """The cycles of a memory that takes one for each turn."""
    each = [conflict.expected(kernel, rows[0]) * conflict.REPEATS for rows in probes.patterns["p"][probes.picks[:, 0]]]
    return np.tile(np.array(each, np.uint32)[:, None, None], kernel.threads)
