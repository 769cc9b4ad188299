"""PTX text of kernels that run one instruction once in each of many groups of threads.

A kernel knows nothing of layouts. Each block of threads is a group, a warp or a warpgroup, and runs one probe: it loads
the patterns of its inputs into registers or shared memory, runs the instruction, and stores the output.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from ..db.forms import Move
from ..db.instructions import VERSION, Form, Operand

#: What the output holds before the instruction, in each 32 bits. No probe yields it.
POISON = 0xDEADBEEF

#: Bytes that a thread copies to or from shared memory at once.
_CHUNK = 16
_WORDS = "{%word0, %word1, %word2, %word3}"


@dataclass(frozen=True)
class Port:
    """An input or the output of a kernel: registers of each thread, or bytes in memory that the group shares.

    A pattern is an array [register][thread], or the bytes in their order. As output, registers are an array
    [register // together][thread][register % together]. In the kernel, ``%name0`` is the first register, and ``%name``
    the address of shared memory.
    """

    name: str
    registers: int = 0
    bits: int = 32
    bytes: int = 0

    @property
    def together(self) -> int:
        """Registers that a thread stores at once, up to 16 bytes."""
        return next(count for count in (4, 2, 1) if self.registers % count == 0 and count * self.bits <= 8 * _CHUNK)

    def size(self, threads: int) -> int:
        """Bytes of one pattern. Shared memory is filled up to what all threads copy at once."""
        if self.bytes:
            return ceil(self.bytes / (_CHUNK * threads)) * _CHUNK * threads
        return self.registers * self.bits // 8 * threads


def port(operand: Operand, name: str | None = None) -> Port:
    """The registers of an operand as a port, which has the name of the role if it is not given one."""
    return Port(name or operand.role, operand.registers, operand.register_bits)


@dataclass(frozen=True)
class Kernel:
    """A kernel: ``body`` is the PTX between the loads and the stores, ``form`` what it is for."""

    entry: str
    form: Form | Move
    threads: int
    inputs: tuple[Port, ...]
    output: Port
    body: str
    selector: int | None = None


def module(kernels: Iterable[Kernel], target: str) -> str:
    """A module of kernels.

    The parameters of a kernel are addresses: of the patterns of each input, of the probes (a 32-bit pattern number for
    each input), and of the output. Block i runs probe i.
    """
    every = list(kernels)
    return f".version {version(kernel.form for kernel in every)}\n.target {target}\n.address_size 64\n" + "".join(
        map(text, every)
    )


def version(forms: Iterable[Form | Move]) -> str:
    """The lowest PTX ISA version that has all forms, at least that of most forms.

    A driver refuses a module of a later version than its own.
    """
    major, minor = max((each.version for each in forms), default=VERSION)
    return f"{major}.{minor}"


def text(kernel: Kernel) -> str:
    """One kernel. Registers are untyped (.b32, .b64), which every operand type accepts."""
    ports = (*kernel.inputs, kernel.output)
    parameters = [
        f".param .u64 {each}" for each in (*(f"of_{port.name}" for port in kernel.inputs), "probes", "output")
    ]
    lines = [line for number, each in enumerate(kernel.inputs) for line in _load(kernel, number, each)]
    return "\n".join(
        (
            f".visible .entry {kernel.entry}({', '.join(parameters)})",
            "{",
            "    .reg .b32 %lane, %probe, %pick, %place, %word<4>;",
            "    .reg .b64 %address, %row;",
            *(_declare(each, kernel.threads) for each in ports),
            "    mov.u32 %lane, %tid.x;",
            "    mov.u32 %probe, %ctaid.x;",
            "    ld.param.u64 %row, [probes];",
            f"    mad.wide.u32 %row, %probe, {4 * len(kernel.inputs)}, %row;",
            *lines,
            *_poison(kernel),
            kernel.body,
            *_store(kernel),
            "    ret;",
            "}\n",
        )
    )


def _declare(each: Port, threads: int) -> str:
    if each.bytes:
        return f"    .shared .align 128 .b8 memory_{each.name}[{each.size(threads)}];\n    .reg .b32 %{each.name};"
    return f"    .reg .b{each.bits} %{each.name}<{each.registers}>;"


def _load(kernel: Kernel, number: int, each: Port) -> list[str]:
    wide, width = _CHUNK * kernel.threads, each.bits // 8
    lines = [
        f"ld.global.u32 %pick, [%row + {4 * number}];",
        f"ld.param.u64 %address, [of_{each.name}];",
        f"mad.wide.u32 %address, %pick, {each.size(kernel.threads)}, %address;",
        f"mad.wide.u32 %address, %lane, {_CHUNK if each.bytes else width}, %address;",
        *_place(each),
    ]
    for offset in range(0, each.size(kernel.threads) if each.bytes else 0, wide):
        lines.append(f"ld.global.v4.b32 {_WORDS}, [%address + {offset}];")
        lines.append(f"st.shared.v4.b32 [%place + {offset}], {_WORDS};")
    for register in range(each.registers):
        offset = register * width * kernel.threads
        lines.append(f"ld.global.b{each.bits} %{each.name}{register}, [%address + {offset}];")
    return ["    " + line for line in lines]


def _store(kernel: Kernel) -> list[str]:
    each = kernel.output
    count = 0 if each.bytes else each.together
    width = _CHUNK if each.bytes else count * each.bits // 8
    lines = [
        *(["bar.sync 0;"] if each.bytes else []),
        "ld.param.u64 %address, [output];",
        f"mad.wide.u32 %address, %probe, {each.size(kernel.threads)}, %address;",
        f"mad.wide.u32 %address, %lane, {width}, %address;",
        *_place(each),
    ]
    for number, offset in enumerate(range(0, each.size(kernel.threads), width * kernel.threads)):
        if each.bytes:
            lines.append(f"ld.shared.v4.b32 {_WORDS}, [%place + {offset}];")
            lines.append(f"st.global.v4.b32 [%address + {offset}], {_WORDS};")
        else:
            registers = ", ".join(f"%{each.name}{number * count + place}" for place in range(count))
            vector, operand = ("", registers) if count == 1 else (f".v{count}", f"{{{registers}}}")
            lines.append(f"st.global{vector}.b{each.bits} [%address + {offset}], {operand};")
    return ["    " + line for line in lines]


def _place(each: Port) -> list[str]:
    """For shared memory, sets %place to the thread's first chunk."""
    if not each.bytes:
        return []
    return [f"mov.u32 %{each.name}, memory_{each.name};", f"mad.lo.u32 %place, %lane, {_CHUNK}, %{each.name};"]


def _poison(kernel: Kernel) -> list[str]:
    """Fills the shared memory of the output with POISON, so that what the instruction leaves out shows."""
    each = kernel.output
    offsets = range(0, each.size(kernel.threads) if each.bytes else 0, _CHUNK * kernel.threads)
    fill = [f"st.shared.v4.b32 [%place + {offset}], {{%pick, %pick, %pick, %pick}};" for offset in offsets]
    return ["    " + line for line in (*_place(each), f"mov.u32 %pick, 0x{POISON:x};", *fill)] if fill else []
