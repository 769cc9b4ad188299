"""A group of threads that runs every form by a layout table, also a wrong one.

It says what comes out where a table is right, so captures are tested on it without a GPU, and a layout that a GPU gave
is verified against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db import metadata
from ..db.forms import Move
from ..db.fragment import Fragment
from ..db.instructions import WARPGROUP, Form, Key, operand
from . import memory, values
from .device import Description, NotLoaded, Output, Probes
from .kernels import in_registers
from .matrices import gather, multiply, places, scatter
from .ptx import POISON, Kernel


class SimulatedGroup:
    """Runs forms whose fragments are in ``table``, by Fragment.key; a sparse one needs those of E too."""

    def __init__(self, table: Mapping[Any, Fragment], target: str = "sm_90a") -> None:
        self._table = table
        self._target = target

    def describe(self) -> Description:
        """Says that nothing was measured."""
        return Description("simulated warp", "0.0", "none", "none", self._target)

    def close(self) -> None:
        """There is nothing to give back."""

    def load(self, kernels: Sequence[Kernel]) -> None:
        """Refuses kernels that the target does not support."""
        for kernel in kernels:
            if not kernel.form.supports(self._target):
                raise NotLoaded(f"{kernel.form} needs {kernel.form.target}: this group is {self._target}")

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """What the kernel gives for each probe, by the table."""
        self.load([kernel])
        picks = probes.picks.astype(np.intp)
        chosen = {port.name: picks[:, number] for number, port in enumerate(kernel.inputs)}
        if isinstance(kernel.form, Move):
            words = self._move(kernel.form, probes.patterns, chosen)
        elif kernel.form.threads == WARPGROUP:
            words = self._warpgroup(kernel.form, probes.patterns, chosen)
        else:
            words = self._product(kernel.form, kernel.selector, probes.patterns, chosen)
        return Output(words, 0.0)

    def fragment(self, key: Key) -> Fragment:
        """The fragment of a key. Raises NotLoaded where the table has none, or none with elements."""
        fragment = self._table.get(key)
        if fragment is None or fragment.elements is None:
            raise NotLoaded(f"the table has no {key}")
        return fragment

    def _product(
        self, form: Form, selector: int | None, patterns: Mapping[str, NDArray[Any]], picks: Mapping[str, NDArray[Any]]
    ) -> NDArray[Any]:
        """Multiplies every pair of patterns that occurs, then picks the probes' products."""
        fragments = {role: self.fragment(form.key(role)) for role in "ABCD"}
        held = {role: values.read(form.operand(role), patterns[role]) for role in "ABC"}
        left, left_of = np.unique(np.stack([picks["A"], picks.get("E", picks["A"])]), axis=1, return_inverse=True)
        right, right_of = np.unique(picks["B"], return_inverse=True)
        columns = None
        if form.sparse:
            words = patterns["E"][left[1], 0]
            columns = metadata.decode(words, fragments["A"], self.fragment(form.key("E", selector)))
        count = form.computations
        a = scatter(held["A"][left[0]], fragments["A"], count, columns)
        b = scatter(held["B"][right], fragments["B"], count)
        products = multiply(form, a[:, None], b[None])[left_of.ravel(), right_of.ravel()]
        result = gather(products + scatter(held["C"][picks["C"]], fragments["C"], count), fragments["D"])
        return values.write(form.operand("D"), result)

    def _warpgroup(
        self, form: Form, patterns: Mapping[str, NDArray[Any]], picks: Mapping[str, NDArray[Any]]
    ) -> NDArray[Any]:
        """Adds up the product of A in memory and those of A in registers."""
        by_column = memory.read(form, "B", patterns["shared_B"])[picks["shared_B"]]
        in_memory = memory.read(form, "A", patterns["shared_A"])
        parts = [(in_memory.reshape(len(in_memory), -1), "shared_A", memory.stored_a(form), form.selectors[0])]
        a = self.fragment(form.key("A"))
        for name, selector in in_registers(form).items():
            parts.append((values.read(form.operand("A"), patterns[name]), name, a, selector))
        total: Any = 0
        for held, name, fragment, selector in parts:
            columns = None
            if form.sparse:
                words = patterns["E"][picks["E"], 0]
                columns = metadata.decode(words, fragment, self.fragment(form.key("E", selector)))
            matrices = scatter(held[picks[name]], fragment, 1, columns)
            total = total + multiply(form, matrices[:, 0], by_column.swapaxes(1, 2))
        return values.write(form.operand("D"), gather(total[:, None], self.fragment(form.key("D"))))

    def _move(
        self, form: Move, patterns: Mapping[str, NDArray[Any]], picks: Mapping[str, NDArray[Any]]
    ) -> NDArray[Any]:
        held = self.fragment(form.key(form.role))
        registers = operand(held.key)
        if form.name == "movmatrix":
            lines = memory.read(form, form.role, patterns["memory"])[picks["memory"]]
            source = self.fragment(form.key("A"))
            both = [gather(lines[:, None], source), gather(lines[:, None].swapaxes(2, 3), held)]
            return np.concatenate([values.write(registers, each) for each in both], axis=1)
        line, place = self._lines(form, held, patterns, picks)
        probe = np.arange(len(line))[:, None]
        if not form.stores:
            lines = memory.read(form, form.role, patterns["memory"])[picks["memory"]]
            return values.write(registers, lines[probe, line, place])
        data = np.full((len(line), memory.size(form, form.role) // 4), POISON, np.uint32)
        lines = np.array(memory.read(form, form.role, data.view(np.uint8)))
        lines[probe, line, place] = values.read(registers, patterns["r"])[picks["r"]]
        return memory.write(form, form.role, lines)

    def _lines(
        self, form: Move, held: Fragment, patterns: Mapping[str, NDArray[Any]], picks: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The line of memory and the place in it of each slot: (probes, slots) and (slots,)."""
        computation, row, column = places(held)
        if form.name == "wmma":
            line, place = (row, column) if form.layout == "row" else (column, row)
            return np.broadcast_to(line, (len(next(iter(picks.values()))), len(line))), place
        given = self.fragment(form.key("p"))
        lane_of = np.zeros((held.computations, held.dimensions[0]), np.intp)
        addressed, addressed_row, _ = places(given)
        assert given.elements is not None
        lane_of[addressed, addressed_row] = given.elements["lane"]
        offsets = patterns["p"][picks["p"], 0]
        return offsets[:, lane_of[computation, row]].astype(np.intp) // memory.LINE, column
