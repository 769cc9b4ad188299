"""Registers that what runs beside warps uses until they wait: of wgmma, and of loads from Tensor Memory."""

from dataclasses import dataclass, field

import numpy as np

from ...db.isa.instructions import WARP
from ...db.layout.algebra import Array
from .ptx import SourceLine
from .values import Register


@dataclass
class Flights:
    """Registers that what runs beside warps still reads or writes, until they wait (9.7.17.4, 9.7.18.8).

    Of ``waits`` are the instructions that may name them before. ``watched`` are those whose changes since the last
    fence count, and ``fenced`` the warps that have ever fenced.
    """

    warps: int
    waits: str
    registers: dict[Register, Array] = field(default_factory=dict)
    places: dict[Register, SourceLine] = field(default_factory=dict)
    watched: list[Register] = field(default_factory=list)
    fenced: set[int] = field(default_factory=set)

    def watch(self, registers: list[Register]) -> None:
        """Note changes of registers from now on."""
        for register in registers:
            if register.changed is None:
                register.changed = np.zeros(len(register.bits), bool)
                self.watched.append(register)

    def fence(self, warps: Array) -> None:
        """What warps have written to registers is there for wgmma."""
        self.fenced |= {*warps.tolist()}
        for register in self.watched:
            self.settle(register, warps)

    def settle(self, register: Register, warps: Array) -> None:
        """Forget changes of a register of warps."""
        if register.changed is not None:
            register.changed.reshape(-1, WARP)[warps] = False

    def unfenced(self, registers: list[Register], warps: Array) -> Array:
        """Those of some warps that have changed registers, or never fenced, since they last did."""
        late = np.array([warp not in self.fenced for warp in warps.tolist()])
        for register in registers:
            if register.changed is not None:
                late |= register.changed.reshape(-1, WARP)[warps].any(axis=1)
        return np.asarray(warps[late])

    def start(self, registers: list[Register], warps: Array, group: Array, place: SourceLine) -> None:
        """wgmma uses registers of warps, until it has waited for a group of each."""
        for register in registers:
            of = self.registers.setdefault(register, np.zeros(self.warps, np.int64))
            of[warps] = group
            self.places[register] = place

    def land(self, warps: Array, group: Array) -> None:
        """Warps have waited for a group and those before it."""
        for register, of in [*self.registers.items()]:
            of[warps] = np.where(of[warps] <= group, 0, of[warps])
            if not of.any():
                del self.registers[register], self.places[register]

    def touched(self, registers: list[Register], warps: Array) -> Register | None:
        """One of some registers that is still in flight in some warps."""
        return next((each for each in registers if each in self.registers and self.registers[each][warps].any()), None)

    def copy(self, source: Register, target: Register) -> None:
        """A register that holds a copy of another one is in flight like it: both are one when they are allocated."""
        self.registers[target], self.places[target] = self.registers[source].copy(), self.places[source]
