"""A warp that multiplies by any layout table, also a wrong one: captures run on it without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db import metadata
from ..db.fragment import Fragment
from ..db.instructions import Form
from . import values
from .device import Description, NotLoaded, Output, Probes
from .matrices import gather, multiply, scatter


class SimulatedWarp:
    """Runs instructions whose fragments are in ``table``, by Fragment.key; a sparse one needs those of E too."""

    def __init__(self, table: Mapping[Any, Fragment], target: str = "sm_90a") -> None:
        self._table = table
        self._target = target

    def describe(self) -> Description:
        """Says that nothing was measured."""
        return Description("simulated warp", "0.0", "none", "none", self._target, "none")

    def close(self) -> None:
        """There is nothing to give back."""

    def run(self, instruction: Form, selector: int | None, probes: Probes) -> Output:
        """Multiplies every pair of patterns that occurs, then picks the probes' products."""
        if not instruction.supports(self._target):
            raise NotLoaded(f"{instruction} needs {instruction.target}: this warp is {self._target}")
        fragments = {role: self._fragment(instruction, role, selector) for role in "ABCD"}
        picks = probes.picks.astype(np.intp)
        left, left_of = np.unique(picks[:, [0, 3]], axis=0, return_inverse=True)
        right, right_of = np.unique(picks[:, 1], return_inverse=True)
        a = self._slot_values(instruction, probes, "A")[left[:, 0]]
        columns = None
        if instruction.sparse:
            words = probes.patterns["E"][left[:, 1], 0]
            columns = metadata.decode(words, fragments["A"], self._fragment(instruction, "E", selector))
        b = self._slot_values(instruction, probes, "B")[right]
        c = self._slot_values(instruction, probes, "C")[picks[:, 2]]
        count = instruction.computations
        a_matrices = scatter(a, fragments["A"], count, columns)
        b_matrices = scatter(b, fragments["B"], count)
        products = multiply(instruction, a_matrices[:, None], b_matrices[None])[left_of, right_of]
        result = gather(products + scatter(c, fragments["C"], count), fragments["D"])
        return Output(self._words(instruction, result), 0.0)

    def _fragment(self, instruction: Form, role: str, selector: int | None) -> Fragment:
        key = instruction.key(role, selector)
        if key not in self._table:
            raise NotLoaded(f"{instruction}: the table has no {role}")
        return self._table[key]

    def _slot_values(self, instruction: Form, probes: Probes, role: str) -> NDArray[Any]:
        operand = instruction.operand(role)
        codes = values.unpack(probes.patterns[role], operand.slots)
        return values.decode(operand.type, operand.slot_bits, codes)

    def _words(self, instruction: Form, result: NDArray[Any]) -> NDArray[Any]:
        operand = instruction.operand("D")
        return values.pack(values.encode(operand.type, operand.slot_bits, result), operand)
