"""A second check, independent of probes: random matrices through a layout table, compared exactly with numpy.

Matrices of small integers are scattered into registers by the table's A, B and C, multiplied by one instruction, and
gathered by its D. For a sparse A the metadata is random too, and the table's E says which columns it selects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db import metadata
from ..db.errors import LanemapError
from ..db.fragment import Fragment
from ..db.instructions import WARP, Form
from . import values
from .matrices import gather, multiply, scatter
from .probe import Bench, describe_slot

AGREES, DISAGREES, NOT_DOCUMENTED = "agrees", "disagrees", "not documented"

_ROUNDS = 8


@dataclass(frozen=True)
class Verdict:
    """Whether products by a layout table are right (AGREES, DISAGREES or NOT_DOCUMENTED), and in words what is not."""

    verdict: str
    detail: str = ""


def verify(bench: Bench, table: Mapping[Any, Fragment], seed: int = 0) -> Verdict:
    """Multiplies random matrices by the fragments of ``table``, by Fragment.key, with every selector."""
    instruction = bench.instruction
    random = np.random.default_rng(seed)
    for selector in instruction.selectors:
        roles = "ABCDE" if instruction.sparse else "ABCD"
        fragments = {role: table.get(instruction.key(role, selector)) for role in roles}
        missing = [role for role, fragment in fragments.items() if not _complete(instruction, role, fragment)]
        if missing:
            return Verdict(NOT_DOCUMENTED, f"no elements of {' and '.join(missing)}")
        known = {role: fragment for role, fragment in fragments.items() if fragment is not None}
        try:
            patterns, expected = _products(instruction, known, random)
        except LanemapError as error:
            return Verdict(DISAGREES, str(error))
        picks = np.repeat(np.arange(_ROUNDS, dtype=np.uint32)[:, None], 4, axis=1)
        found = bench.values(patterns, picks, selector)
        if (wrong := found != expected).any():
            at = tuple(np.argwhere(wrong)[0])
            chosen = "" if selector is None else f" with selector {selector}"
            return Verdict(
                DISAGREES,
                f"{np.count_nonzero(wrong)} of {wrong.size} elements{chosen} are wrong, the first in "
                f"{describe_slot(bench.output, at[1])}: {found[at]:g}, expected {expected[at]:g}",
            )
    return Verdict(AGREES)


def _complete(instruction: Form, role: str, fragment: Fragment | None) -> bool:
    if fragment is None or fragment.elements is None:
        return False
    return role == "E" or len(fragment.elements) == instruction.operand(role).size


def _products(
    instruction: Form, fragments: Mapping[str, Fragment], random: np.random.Generator
) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Registers that hold random matrices, and the values of D's slots that they must give."""
    count, rule = instruction.computations, instruction.sparsity
    patterns: dict[str, NDArray[Any]] = {}
    slots: dict[str, NDArray[Any]] = {}
    matrices: dict[str, NDArray[Any]] = {}
    for role in "ABC":
        low, high = values.integers(instruction.operand(role).type)
        shape = (_ROUNDS, count, *fragments[role].dimensions)
        matrices[role] = random.integers(low, high, shape, endpoint=True).astype(np.float32)
        slots[role] = gather(matrices[role], fragments[role])
    if rule is not None:
        words = metadata.pack_vectors(random.choice(list(rule.indices), (_ROUNDS, WARP, 8)))
        patterns["E"] = words[:, None]
        columns = metadata.decode(words, fragments["A"], fragments["E"])
        low, high = values.integers(instruction.a)
        slots["A"] = random.integers(low, high, columns.shape, endpoint=True).astype(np.float32)
        matrices["A"] = scatter(slots["A"], fragments["A"], count, columns)
    for role, held in slots.items():
        operand = instruction.operand(role)
        patterns[role] = values.pack(values.encode(operand.type, operand.slot_bits, held), operand)
    expected = gather(multiply(instruction, matrices["A"], matrices["B"]) + matrices["C"], fragments["D"])
    return patterns, expected
