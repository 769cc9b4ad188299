"""What bank conflicts cost: the cycles of loads and stores whose rows in shared memory are so many bytes apart.

An access takes as many turns as the conflict degrees of its phases add up to (``db.layout.banks``).
"""

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..db.isa.forms import Form
from ..db.isa.instructions import WARP
from ..db.layout.algebra import Array
from ..db.layout.banks import degrees
from ..db.layout.shared import swizzle
from .device import Bench, Contradiction, Probes
from .kernels import Kernel, Port

#: How often an access is repeated, and bytes of the memory that lanes reach.
REPEATS, AREA = 16, 32 << 10

#: How much longer an access may take than another with the same turns.
_TOLERANCE = 1.25

#: Bytes between the rows that two lanes name, with the mode that moves them.
_ROWS = [(16 * units, "none") for units in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33)]
_ROWS += [(32, "32B"), (64, "64B"), (128, "128B"), (256, "128B"), (128, "128B.atom32"), (128, "128B.atom64")]


class Conflict(NamedTuple):
    """An access of all lanes to rows at a pitch in bytes: the turns that it takes by rule, and its cycles."""

    access: str
    pitch: int
    swizzle: str
    turns: int
    cycles: float


@cache
def kernels(form: Form) -> list[Kernel]:
    """The kernels that clock ldmatrix or stmatrix, and plain accesses that move as much; none of other forms."""
    if form.name not in ("ldmatrix", "stmatrix") or form.shape != "m8n8" or form.qualifiers not in ("x1", "x2", "x4"):
        return []
    count = form.operand("r").registers
    vector = "" if count == 1 else f".v{count}"
    plain = f"st.volatile.shared{vector}.b32" if form.stores else f"ld.volatile.shared{vector}.b32"
    return [_kernel(form, count, form.mnemonic, "clock"), _kernel(form, count, plain, "clock_plain")]


def _kernel(form: Form, count: int, opcode: str, called: str) -> Kernel:
    def held(access: int) -> str:
        first = 0 if form.stores else access * count
        registers = [f"%held{first + number}" for number in range(count)]
        braces = count > 1 or opcode == form.mnemonic
        return f"{{{', '.join(registers)}}}" if braces else registers[0]

    every = [f"%held{number}" for number in range(count if form.stores else REPEATS * count)]
    # Each reaches other memory, through the same banks, so that no assembler joins them.
    places = [f"[%place + {1024 * access}]" for access in range(REPEATS)]
    pairs = [(place, held(access)) for access, place in enumerate(places)]
    accesses = [f"{opcode} {', '.join(pair if form.stores else pair[::-1])};" for pair in pairs]
    # The branch waits for all that was loaded, or for a load behind all stores. It keeps every register in use.
    ends = ["ld.volatile.shared.b32 %sum, [%place];"] if form.stores else ["mov.u32 %sum, 0;"]
    ends += [] if form.stores else [f"xor.b32 %sum, %sum, {register};" for register in every]
    lines = [
        f".shared .align 1024 .b8 area[{AREA}];",
        f".reg .b32 %held<{len(every)}>, %start, %end, %sum, %left;",
        ".reg .pred %odd, %again;",
        *(f"mov.u32 {register}, %lane;" for register in every if form.stores),
        "mov.u32 %place, area;",
        "add.u32 %place, %place, %p0;",
        "mov.u32 %left, 2;",
        "repeat:",  # first for the caches
        "bar.sync 0;",
        "mov.u32 %start, %clock;",
        *accesses,
        *ends,
        "setp.eq.u32 %odd, %sum, 0x9e3779b9;",
        "@!%odd bra usual;",
        *(f"st.volatile.shared.b32 [%place], {register};" for register in every),
        "usual:",
        "mov.u32 %end, %clock;",
        "sub.u32 %left, %left, 1;",
        "setp.ne.u32 %again, %left, 0;",
        "@%again bra repeat;",
        "sub.u32 %cycles0, %end, %start;",
    ]
    return Kernel(form, (Port("p", 1),), Port("cycles", 1), "\n".join(lines), called=called)


def expected(kernel: Kernel, addresses: Array) -> int:
    """The turns that an access takes at the address of each lane: of ldmatrix and stmatrix only some are used."""
    registers = kernel.form.operand("r").registers
    if kernel.called == "clock":
        return int(degrees(addresses[: 8 * registers], 16).sum())
    return int(degrees(addresses, 4 * registers).sum())


def measure_conflicts(bench: Bench) -> list[Conflict]:
    """The cycles of each access of a form at each pitch and swizzle.

    Raises:
        Contradiction: one takes longer than another that has to wait for its banks as often, or more often.
    """
    found = []
    for kernel in kernels(bench.form):
        rows = np.array([swizzle(mode)(np.arange(WARP) * pitch) for pitch, mode in _ROWS], np.uint32)
        output = bench.device.run(kernel, Probes({"p": rows[:, None]}, np.arange(len(rows), dtype=np.uint32)[:, None]))
        bench.probes += len(rows)
        bench.gpu_seconds += output.gpu_seconds
        access = kernel.body[kernel.body.index("%clock;") :].split()[1]
        for row, addresses, cycles in zip(_ROWS, rows, output.data[:, 0, 0].tolist(), strict=True):
            found.append(Conflict(access, *row, expected(kernel, addresses), cycles / REPEATS))
        same = sorted(found[-len(rows) :], key=lambda conflict: (conflict.turns, -conflict.cycles))
        for faster, slower in pairwise(same):
            if faster.cycles > _TOLERANCE * slower.cycles:
                raise Contradiction(f"{faster} takes longer than {slower}")
    return found
