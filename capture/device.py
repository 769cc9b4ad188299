"""The protocol for running kernels, which a GPU implements, and a bench that runs probes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..db.errors import LanemapError
from ..db.isa.forms import Form
from ..db.isa.instructions import Key, Operand, occupied_bits, operand
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment, elements
from .kernels import POISON, Kernel, kernels
from .values import read_memory, read_registers, write_registers


class NotLoaded(LanemapError):  # noqa: N818
    """The driver or the target does not accept the instruction."""


class Contradiction(LanemapError):  # noqa: N818
    """The measurement is not a matrix product, or not the one of its anchor."""


class LaunchFailed(LanemapError):  # noqa: N818
    """The instruction was loaded but its launch failed."""


@dataclass(frozen=True)
class Description:
    """The device that a capture was made on. ``target`` is the PTX target, such as sm_90a."""

    name: str
    compute_capability: str
    driver_version: str
    cuda_version: str
    target: str


class Probes(NamedTuple):
    """Inputs of one launch: patterns of each input by the name of its port, and which of them each group takes.

    Patterns of registers are arrays (patterns, registers, threads), those of shared memory bytes (patterns, bytes).
    ``picks`` (probes, inputs) has pattern numbers.
    """

    patterns: Mapping[str, Array]
    picks: Array


class Output(NamedTuple):
    """The output of one launch, an array like a pattern for each probe, the time of the GPU, and what compiled it.

    No name of a compiler stands for that of the driver.
    """

    data: Array
    gpu_seconds: float
    compiler: str = ""


class Device(Protocol):
    """Runs a kernel once in each of many groups of threads."""

    def describe(self) -> Description:
        """The description of the device."""

    def load(self, kernels: Sequence[Kernel]) -> None:
        """Makes kernels ready to run, instead of earlier ones. Raises NotLoaded if one of them is refused."""

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """Runs each probe in a group of its own. A kernel that was not loaded is loaded alone.

        Raises NotLoaded if the device does not accept the instruction, and LaunchFailed if it does not finish.
        """


class Bench:
    """Runs the kernels of ``form`` on ``device``, and counts probes and the time of the GPU."""

    def __init__(self, device: Device, form: Form) -> None:
        self.device = device
        self.form = form
        self.kernels = {kernel.selector: kernel for kernel in kernels(form)}
        self.probes = 0
        self.gpu_seconds = 0.0
        self.compiler = ""

    @property
    def output(self) -> Operand:
        """The operand that is the output."""
        return operand(self.form.key(self.form.role or "D"))

    def values(self, patterns: Mapping[str, Array], selector: int | None = None, *, in_turn: bool = False) -> Array:
        """Values of the output (probes, slots or places in memory). Raises Contradiction if a register is unwritten.

        The probes are all combinations of the patterns of the inputs, the last varying fastest, or ``in_turn`` the
        first of all, the second of all, and so on. Inputs without patterns are zero; patterns without an input are
        ignored.
        """
        kernel = self.kernels[selector]
        chosen = {port.name: patterns.get(port.name, port.zeros(kernel.threads)) for port in kernel.inputs}
        counts = [len(values) for values in chosen.values()]
        picks = np.indices(counts).reshape(len(counts), -1)
        if in_turn:
            picks = np.tile(np.arange(counts[0]), (len(counts), 1))
        output = self.device.run(kernel, Probes(chosen, picks.T.astype(np.uint32)))
        self.probes += len(output.data)
        self.gpu_seconds += output.gpu_seconds
        self.compiler = output.compiler
        return self.read(kernel, output.data)

    def read(self, kernel: Kernel, data: Array) -> Array:
        """Values of an output of a kernel, as ``values`` gives them."""
        if any(port.box for port in kernel.inputs):
            return data
        if kernel.output.bytes:
            return read_memory(self.form, self.output.role, data).reshape(len(data), -1)
        expect_written(data, self.output.role)
        return read_registers(self.output, data)

    def place(self, number: Any) -> str:
        """A slot of the output, or a place in its memory, in words."""
        return f"element {number} in memory" if self.form.stores else describe_slot(self.output, number)

    def checked(self, subject: str, outputs: Array) -> Array:
        """``found`` as 0 and 1. Raises Contradiction naming the first other value."""
        ones = outputs == 1
        if not (ones | (outputs == 0)).all():
            probe, slot = np.argwhere(~ones & (outputs != 0))[0]
            place = self.place(slot)
            raise Contradiction(f"probe {probe} of the {subject} gives {outputs[probe, slot]:g} in {place}: not 0 or 1")
        return np.asarray(ones)


def expect_written(data: Array, role: str) -> None:
    """Refuse registers (probes, registers, threads) of an output that an instruction did not write."""
    if (unwritten := data == (POISON << 32 | POISON if data.dtype.itemsize == 8 else POISON)).any():
        probe, reg, lane = np.argwhere(unwritten)[0]
        raise Contradiction(f"probe {probe} did not write {role} in lane {lane}, reg {reg}")


def captured(
    key: Key, slot: Array, row: Array, column: Array, last: Array | None = None, computation: Array | int = 1
) -> Fragment:
    """A fragment from measurements of its slots, which are numbered as in its elements."""
    held = operand(key)
    lane, reg, place = held.place(slot)
    columns = {"lane": lane, "reg": reg, "slot": place, "row": row, "col": column}
    columns |= {"col_last": column if last is None else last, "computation": np.broadcast_to(computation, lane.shape)}
    # Probes write numbers into these bits and read products from them: with other bits the products would be wrong.
    first_bit = occupied_bits(key.instruction, key.type, held.slot_bits).start
    return Fragment.of(key, elements(columns), "captured", first_bit=first_bit)


def describe_slot(operand: Operand, slot: Any) -> str:
    """A slot number in words."""
    lane, reg, place = (int(coordinate) for coordinate in operand.place(slot))
    return f"{operand.role} lane {lane}, reg {reg}, slot {place}"


class Side(NamedTuple):
    """One side of a relation: how many items it has, and a function that names one."""

    size: int
    name: Callable[[int], str]


def side(operand: Operand) -> Side:
    """The slots of an operand as a side of a relation."""
    return Side(operand.size, lambda slot: describe_slot(operand, slot))


def expect_all(held: Array, operand: Operand, where: str) -> None:
    """Refuse numbers that are not those of all slots of an operand, each once."""
    if not np.array_equal(np.sort(held), np.arange(operand.size)):
        missing = np.setdiff1d(np.arange(operand.size), held)
        missed = describe_slot(operand, missing[0]) if len(missing) else f"a slot of {operand.role}"
        raise Contradiction(f"{missed} does not appear in {where} exactly once")


def index_patterns(count: int) -> Array:
    """As rows: all zeros, all ones, then the bits of the numbers 0 to ``count`` - 1."""
    bits = np.arange(count) >> np.arange((count - 1).bit_length())[:, None] & 1
    return np.concatenate([np.zeros((1, count), int), np.ones((1, count), int), bits]).astype(bool)


def index_registers(operand: Operand) -> Array:
    """The patterns of ``index_patterns`` for the slots of an operand, as registers."""
    return write_registers(operand, index_patterns(operand.size))


def decode_index(bits: Array) -> Array:
    """Numbers from their bits, low bits first along the first axis."""
    weights = (1 << np.arange(len(bits))).astype(np.float32)  # exact, and BLAS multiplies nothing else
    return (weights @ bits.reshape(len(bits), -1).astype(np.float32)).reshape(bits.shape[1:]).astype(np.intp)


def which(bits: Array) -> Array:
    """The numbers in outputs for all ones and then the bits of numbers; -1 where there was no output."""
    return np.where(bits[0], decode_index(bits[1:]), -1)


def uniform_metadata(form: Form) -> Array:
    """Registers of E that hold one vector everywhere, a pattern for each valid vector."""
    words = 0x11111111 * np.array(list(form.sparsity.indices), np.uint32)
    return np.tile(words[:, None, None], form.threads)
