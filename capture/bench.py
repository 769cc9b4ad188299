"""A bench: runs the probes of one form on a device, checks what comes out, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.forms import Move
from ..db.fragment import Fragment, elements
from ..db.instructions import Form, Key, Operand, operand
from . import memory, values
from .device import Device, Probes
from .kernels import kernels
from .ptx import POISON, Kernel
from .relations import Contradiction, Side


class Bench:
    """Runs the kernels of ``form`` on ``device``, and adds up probes and the time of the GPU."""

    def __init__(self, device: Device, form: Form | Move) -> None:
        self.device = device
        self.form = form
        self.kernels = {kernel.selector: kernel for kernel in kernels(form)}
        self.probes = 0
        self.gpu_seconds = 0.0

    @property
    def output(self) -> Operand:
        """The operand that comes out."""
        return operand(self.form.key("D" if isinstance(self.form, Form) else self.form.role))

    def values(
        self, patterns: Mapping[str, NDArray[Any]], picks: NDArray[Any], selector: int | None = None
    ) -> NDArray[Any]:
        """Values of the output: of its slots, or in its memory. Raises Contradiction where a register is not written.

        ``picks`` may have more columns than the kernel has inputs.
        """
        kernel = self.kernels[selector]
        output = self.device.run(kernel, Probes(patterns, picks[:, : len(kernel.inputs)]))
        self.probes += len(picks)
        self.gpu_seconds += output.gpu_seconds
        poison = POISON << 32 | POISON if output.words.dtype.itemsize == 8 else POISON
        if not kernel.output.bytes and (unwritten := output.words == poison).any():
            probe, reg, lane = np.argwhere(unwritten)[0]
            raise Contradiction(f"probe {probe} did not write {self.output.role} in lane {lane}, reg {reg}")
        return self.read(kernel, output.words)

    def read(self, kernel: Kernel, words: NDArray[Any]) -> NDArray[Any]:
        """Values (probes, slots or places in memory) of what a kernel gave."""
        if kernel.output.bytes:
            return memory.read(self.form, self.output.role, words).reshape(len(words), -1)
        return values.read(self.output, words)

    def place(self, number: Any) -> str:
        """A slot of the output, or a place in its memory, in words."""
        kernel = next(iter(self.kernels.values()))
        return f"element {number} in memory" if kernel.output.bytes else describe_slot(self.output, number)

    def checked(self, what: str, found: NDArray[Any]) -> NDArray[Any]:
        """``found`` as 0 and 1. Raises Contradiction naming the first other value."""
        one = found == 1
        if not (one | (found == 0)).all():
            probe, slot = np.argwhere(~one & (found != 0))[0]
            place = self.place(slot)
            raise Contradiction(f"probe {probe} of the {what} gives {found[probe, slot]:g} in {place}: not 0 or 1")
        return np.asarray(one)


def captured(
    key: Key,
    slot: NDArray[Any],
    row: NDArray[Any],
    column: NDArray[Any],
    last: NDArray[Any] | None = None,
    computation: NDArray[Any] | int = 1,
) -> Fragment:
    """A fragment from what was measured of its slots, which are numbered as in its elements."""
    held = operand(key)
    lane, reg, place = values.coordinates(held, slot)
    columns = {"lane": lane, "reg": reg, "slot": place, "row": row, "col": column}
    columns |= {"col_last": column if last is None else last, "computation": np.broadcast_to(computation, lane.shape)}
    name, shape, type_, role, major, selector, qualifiers = key
    return Fragment(
        name, shape, type_, role, held.registers, held.slots, elements(columns), major, selector, qualifiers,
        status="captured",
    )  # fmt: skip


def describe_slot(operand: Operand, slot: Any) -> str:
    """A slot number in words."""
    lane, reg, place = (int(each) for each in values.coordinates(operand, np.asarray(slot)))
    return f"{operand.role} lane {lane}, reg {reg}, slot {place}"


def side(operand: Operand) -> Side:
    """The slots of an operand as a side of a relation."""
    return Side(operand.size, lambda slot: describe_slot(operand, slot))


def numbers(count: int) -> NDArray[Any]:
    """None of them, all of them, then the bits of the numbers 0 to ``count`` - 1, as rows."""
    bits = np.arange(count) >> np.arange((count - 1).bit_length())[:, None] & 1
    return np.concatenate([np.zeros((1, count), int), np.ones((1, count), int), bits]).astype(bool)


def numbered(operand: Operand) -> NDArray[Any]:
    """Words of the patterns of ``numbers``, for the slots of an operand."""
    return values.write(operand, numbers(operand.size).astype(np.float32))


def number(bits: NDArray[Any]) -> NDArray[Any]:
    """Numbers from their bits, low bits first along the first axis."""
    return np.asarray(np.tensordot(1 << np.arange(len(bits)), bits, axes=1))
