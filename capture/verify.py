"""A second check, independent of probes: random numbers through a layout table, compared exactly.

What a form gives for random registers and memory must be what the simulated group gives by the table. Numbers are small
integers, so that every result is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.forms import Move
from ..db.fragment import Fragment
from ..db.instructions import WARP, Form, Key, operand
from ..db.metadata import pack_vectors
from . import memory, values
from .bench import Bench
from .device import Probes
from .matrices import gather
from .ptx import Kernel, Port
from .simulate import SimulatedGroup

AGREES, DISAGREES, NOT_DOCUMENTED = "agrees", "disagrees", "not documented"

#: Random products of a warp. A warpgroup has as many random numbers in a quarter of them.
_ROUNDS = 8


@dataclass(frozen=True)
class Verification:
    """Whether results by a layout table are right (AGREES, DISAGREES or NOT_DOCUMENTED), and in words what is not."""

    verdict: str
    detail: str = ""


def verify(bench: Bench, table: Mapping[Key, Fragment], seed: int = 0) -> Verification:
    """Runs every kernel of a form on random numbers, and the simulated group by the fragments of ``table``."""
    random, group = np.random.default_rng(seed), SimulatedGroup(table, bench.form.target)
    for kernel in bench.kernels.values():
        missing = [key.role for key in keys(kernel) if not _complete(table.get(key))]
        if missing:
            return Verification(NOT_DOCUMENTED, f"no elements of {' and '.join(missing)}")
        rounds = _ROUNDS * WARP // kernel.threads
        picks = np.repeat(np.arange(rounds, dtype=np.uint32)[:, None], len(kernel.inputs), axis=1)
        try:
            patterns = {each.name: _random(kernel, each, table, random, rounds) for each in kernel.inputs}
            expected = bench.read(kernel, group.run(kernel, Probes(patterns, picks)).words)
        except LanemapError as error:
            return Verification(DISAGREES, str(error))
        found = bench.values(patterns, picks, kernel.selector)
        if (wrong := found != expected).any():
            at = tuple(np.argwhere(wrong)[0])
            chosen = "" if kernel.selector is None else f" with selector {kernel.selector}"
            return Verification(
                DISAGREES,
                f"{np.count_nonzero(wrong)} of {wrong.size} elements{chosen} are wrong, the first in "
                f"{bench.place(at[1])}: {found[at]:g}, expected {expected[at]:g}",
            )
    return Verification(AGREES)


def keys(kernel: Kernel) -> list[Key]:
    """The fragments that say what a kernel does."""
    form = kernel.form
    if isinstance(form, Move):
        other = {"movmatrix": "A", "wmma": ""}.get(form.name, "p")
        return [form.key(role) for role in (form.role, *other)]
    selectors = form.selectors if kernel.selector is None else (kernel.selector,)
    metadata = [form.key("E", selector) for selector in selectors if selector is not None]
    return [*(form.key(role) for role in form.roles), *metadata]


def _complete(fragment: Fragment | None) -> bool:
    if fragment is None or fragment.elements is None:
        return False
    return fragment.role in "Ep" or len(fragment.elements) == operand(fragment.key).size


def _random(
    kernel: Kernel, port: Port, table: Mapping[Key, Fragment], random: np.random.Generator, rounds: int
) -> NDArray[Any]:
    """``rounds`` patterns of an input: what fits a matrix where it must hold one, else anything."""
    form = kernel.form
    if port.name == "E":
        assert isinstance(form, Form)
        assert form.sparsity is not None
        vectors = random.choice(list(form.sparsity.indices), (rounds, kernel.threads, 8))
        return pack_vectors(vectors)[:, None]
    if port.name == "p":
        rows = np.tile(np.arange(kernel.threads, dtype=np.uint32), (rounds, 1))
        return random.permuted(rows, axis=1)[:, None] * np.uint32(memory.LINE)
    role = form.role if isinstance(form, Move) else port.name.removeprefix("shared_")[0]
    low, high = values.integers(form.type if isinstance(form, Move) else form.types[role])
    if port.bytes:
        lines = random.integers(low, high, (rounds, *memory.extents(form, role)), endpoint=True)
        return memory.write(form, role, lines)
    fragment = table[form.key(role)]
    if fragment.windowed:
        slots = random.integers(low, high, (rounds, operand(fragment.key).size), endpoint=True)
    else:
        shape = (rounds, fragment.computations, *fragment.dimensions)
        slots = gather(random.integers(low, high, shape, endpoint=True), fragment)
    return values.write(operand(fragment.key), slots)
