"""Kernels that run one instruction once in each of many groups of threads, in PTX.

A kernel knows nothing about layouts. Each block of threads is a group, a warp or a warpgroup, and runs one probe: it
loads the patterns of its inputs into registers or shared memory, runs the instruction, and stores the output.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import numpy as np

from ..db.isa.forms import Form
from ..db.isa.instructions import WARPGROUP, Operand, box
from ..db.isa.shared import BoundingBox
from ..db.isa.vendors import NVIDIA
from ..db.layout.algebra import Array
from ..db.store.files import folder_atomically
from .values import descriptor_offsets, extents, memory_size

#: The output holds this in every 32 bits before the instruction runs. No probe yields it.
POISON = 0xDEADBEEF

#: Bytes that a thread copies to or from shared memory at once.
_CHUNK = 16

#: Bytes of a line of shared memory, and after how many lines every pattern of swizzling repeats (5.5.7).
LINE, LINES = 128, 8
_WORDS = "{%word0, %word1, %word2, %word3}"


class Port(NamedTuple):
    """An input or the output of a kernel: registers of each thread, bytes in shared memory of the group, or a tensor.

    A pattern is an array [register][thread], or the bytes in their order. As output, registers are an array
    [register // together][thread][register % together]. In the kernel, ``%name0`` is the first register, and ``%name``
    the address in shared memory, a multiple of ``align``. A pattern of a tensor is one ``box`` of it, row by row; in
    the kernel, ``%name`` is the address of the tensor map, and ``%name_row`` the first row of the pattern.
    """

    name: str
    registers: int = 0
    bits: int = 32
    bytes: int = 0
    align: int = 128
    box: BoundingBox | None = None

    @property
    def together(self) -> int:
        """How many registers a thread stores at once, up to 16 bytes."""
        return next(count for count in (4, 2, 1) if self.registers % count == 0 and count * self.bits <= 8 * _CHUNK)

    @property
    def vector(self) -> str:
        """The registers as an operand."""
        return "{" + ", ".join(f"%{self.name}{number}" for number in range(self.registers)) + "}"

    def size(self, threads: int) -> int:
        """Bytes of one pattern, for shared memory rounded up to what all threads copy at once."""
        if self.box:
            return self.box.mn * self.box.k * self.box.bits // 8
        if self.bytes:
            return ceil(self.bytes / (_CHUNK * threads)) * _CHUNK * threads
        return self.registers * self.bits // 8 * threads

    def zeros(self, threads: int) -> Array:
        """One pattern of zeros."""
        if self.bytes:
            return np.zeros((1, self.bytes), np.uint8)
        return np.zeros((1, self.registers, threads), f"u{self.bits // 8}")


def operand_port(operand: Operand, name: str | None = None) -> Port:
    """The registers of an operand as a port, by default with the name of the role."""
    return Port(name or operand.role, operand.registers, operand.register_bits)


@dataclass(frozen=True)
class Kernel:
    """A kernel for ``form``: ``body`` is the PTX between the loads and the stores."""

    form: Form
    inputs: tuple[Port, ...]
    output: Port
    body: str
    selector: int | None = None
    called: str = ""

    @property
    def threads(self) -> int:
        """Threads of the group."""
        return self.form.threads

    @cached_property
    def entry(self) -> str:
        """The mnemonic as a name that PTX accepts, with the selector and what else it is called."""
        more = [str(part) for part in (self.selector, self.called) if part not in (None, "")]
        return "_".join([re.sub(r"\W+", "_", self.form.mnemonic), *more])


def module_text(kernels: Iterable[Kernel], target: str) -> str:
    """A module of kernels.

    The parameters of a kernel are addresses: of the patterns of each input, of the probes (a 32-bit pattern number for
    each input), and of the output. Block i runs probe i.
    """
    every = list(kernels)
    head = f".version {ptx_version(kernel.form for kernel in every)}\n.target {target}\n.address_size 64\n"
    return head + "".join(map(text, every))


def ptx_version(forms: Iterable[Form]) -> str:
    """The lowest PTX ISA version that has all the forms, but at least that of NVIDIA's row.

    A driver refuses a module of a later version than its own.
    """
    major, minor = max((form.version for form in forms), default=NVIDIA.version)
    return f"{major}.{minor}"


@cache
def text(kernel: Kernel) -> str:
    """The text of a kernel. Registers are untyped (.b32, .b64), which every operand type accepts."""
    lines = [".reg .b32 %lane, %probe, %pick, %place, %word<4>;", ".reg .b64 %address, %row;"]
    for port in (*kernel.inputs, kernel.output):
        if port.box:
            lines += [f".reg .b64 %{port.name};", f".reg .b32 %{port.name}_row;"]
        elif port.bytes:
            lines.append(f".shared .align {port.align} .b8 memory_{port.name}[{port.size(kernel.threads)}];")
            lines.append(f".reg .b32 %{port.name};")
        else:
            lines.append(f".reg .b{port.bits} %{port.name}<{port.registers}>;")
    lines += [
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %probe, %ctaid.x;",
        "ld.param.u64 %row, [probes];",
        f"mad.wide.u32 %row, %probe, {4 * len(kernel.inputs)}, %row;",
        *_loads(kernel),
    ]
    if kernel.output.bytes:  # so that bytes that the instruction does not write are noticed
        lines += [*_place(kernel.output), f"mov.u32 %pick, 0x{POISON:x};"]
        poison = "{%pick, %pick, %pick, %pick}"
        lines += [f"st.shared.v4.b32 [%place + {at}], {poison};" for at in _chunks(kernel, kernel.output)]
    named = (*(f"of_{port.name}" for port in kernel.inputs), "probes", "output")
    parameters = ", ".join(f".param .u64 {name}" for name in named)
    body = indent("\n".join([*lines, kernel.body, *_stores(kernel), "ret;"]), " " * 4)
    return f".visible .entry {kernel.entry}({parameters})\n{{\n{body}\n}}\n"


def _loads(kernel: Kernel) -> Iterator[str]:
    for number, port in enumerate(kernel.inputs):
        width = port.bits // 8
        yield f"ld.global.u32 %pick, [%row + {4 * number}];"
        if port.box:
            yield f"ld.param.u64 %{port.name}, [of_{port.name}];"
            yield f"mul.lo.u32 %{port.name}_row, %pick, {port.box.mn};"
            continue
        yield from _address(kernel, port, f"of_{port.name}", "%pick", width)
        for at in _chunks(kernel, port):
            yield f"ld.global.v4.b32 {_WORDS}, [%address + {at}];"
            yield f"st.shared.v4.b32 [%place + {at}], {_WORDS};"
        for register in range(port.registers):
            at = register * width * kernel.threads
            yield f"ld.global.b{port.bits} %{port.name}{register}, [%address + {at}];"


def _stores(kernel: Kernel) -> Iterator[str]:
    output = kernel.output
    if output.bytes:
        yield "bar.sync 0;"
    count = output.together
    width = count * output.bits // 8
    yield from _address(kernel, output, "output", "%probe", width)
    for at in _chunks(kernel, output):
        yield f"ld.shared.v4.b32 {_WORDS}, [%place + {at}];"
        yield f"st.global.v4.b32 [%address + {at}], {_WORDS};"
    for first in range(0, output.registers, count):
        registers = ", ".join(f"%{output.name}{first + place}" for place in range(count))
        vector, operand = ("", registers) if count == 1 else (f".v{count}", f"{{{registers}}}")
        at = first // count * width * kernel.threads
        yield f"st.global{vector}.b{output.bits} [%address + {at}], {operand};"


def _address(kernel: Kernel, port: Port, parameter: str, number: str, width: int) -> Iterator[str]:
    """Sets %address to the thread's part, of ``width`` bytes, of one pattern of a parameter."""
    yield f"ld.param.u64 %address, [{parameter}];"
    yield f"mad.wide.u32 %address, {number}, {port.size(kernel.threads)}, %address;"
    yield f"mad.wide.u32 %address, %lane, {_CHUNK if port.bytes else width}, %address;"
    yield from _place(port)


def _place(port: Port) -> list[str]:
    """For shared memory, sets %place to the thread's first chunk."""
    if not port.bytes:
        return []
    return [f"mov.u32 %{port.name}, memory_{port.name};", f"mad.lo.u32 %place, %lane, {_CHUNK}, %{port.name};"]


def _chunks(kernel: Kernel, port: Port) -> range:
    """The offsets of a thread's chunks in shared memory from its first one."""
    return range(0, port.size(kernel.threads) if port.bytes else 0, _CHUNK * kernel.threads)


def write_kernels(forms: Sequence[Form], folder: Path) -> int:
    """Write the module of each form to a file of its own, for sm_90a if that has it; returns their number."""
    with folder_atomically(folder, "kernels") as new:
        for form in forms:
            target = "sm_90a" if form.supports("sm_90a") else form.target
            (new / f"{form.mnemonic.replace('::', '-')}.ptx").write_text(module_text(kernels(form), target), "utf-8")
    return len(forms)


@cache
def kernels(form: Form) -> list[Kernel]:
    """The kernels of a form: one for each sparsity selector of a product of a warp, else just one."""
    if form.role:
        return [_move(form)]
    if form.threads == WARPGROUP:
        return [_warpgroup(form)]
    return [_product(form, selector) for selector in form.selectors]


def _product(form: Form, selector: int | None) -> Kernel:
    """One product of a warp: A, B, C, E if A is sparse, and D, the output, are in registers."""
    inputs = tuple(operand_port(form.operand(role)) for role in ("ABCE" if form.sparse else "ABC"))
    output = operand_port(form.operand("D"))
    metadata = "" if selector is None else f", %E0, {selector}"
    scales = scale = ""
    if form.scale is not None:
        scales = ", %scale, {0, 0}, %scale, {0, 0}"
        scale = f".reg .b32 %scale;\nmov.b32 %scale, 0x{form.scale:08x};\n"
    operands = ", ".join(port.vector for port in (output, *inputs[:3]))
    return Kernel(form, inputs, output, f"{scale}{form.mnemonic} {operands}{metadata}{scales};", selector)


def _warpgroup(form: Form) -> Kernel:
    """The sum of products of a warpgroup with one B, which is in shared memory.

    The first A is also in shared memory, and uses the first selector for its metadata. The others are in registers: one
    for each selector if A is measured with this shape, else one for the last. A product of zeros adds nothing, so one
    kernel serves to measure either kind of A alone.
    """
    shared = tuple(Port(f"shared_{role}", bytes=memory_size(form, role)) for role in "AB")
    selectors = in_registers(form)
    registers = tuple(operand_port(form.operand("A"), name) for name in selectors)
    metadata = (operand_port(form.operand("E")),) if form.sparse else ()
    output = operand_port(form.operand("D"))
    scales = "" if form.d == "s32" else ", 1, 1"
    turned = ", 0" if form.a in ("f16", "bf16") else ""
    # The first A is in shared memory, and can be transposed like B. The others are added to it.
    sources = [("%descriptor_A", form.selectors[0], "%starts", turned * 2)]
    sources += [(a.vector, selectors[a.name], "%adds", turned) for a in registers]
    products = []
    for a, selector, adds, turns in sources:
        chosen = "" if selector is None else f", %E0, {selector}"
        products.append(f"{form.mnemonic} {output.vector}, {a}, %descriptor_B{chosen}, {adds}{scales}{turns};")
    lines = [
        ".reg .pred %starts, %adds;",
        ".reg .b64 %descriptor_A, %descriptor_B;",
        "setp.ne.u32 %starts, 0, 0;",
        "setp.eq.u32 %adds, 0, 0;",
        *descriptor_lines(form, "A", "%descriptor_A", "%shared_A"),
        *descriptor_lines(form, "B", "%descriptor_B", "%shared_B"),
        "fence.proxy.async;",
        "bar.sync 0;",
        "wgmma.fence.sync.aligned;",
        *products,
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]
    return Kernel(form, (*shared, *registers, *metadata), output, "\n".join(lines))


def in_registers(form: Form) -> dict[str, int | None]:
    """The inputs of a warpgroup's kernel that are an A in registers, with their selectors."""
    _, n, k = form.dimensions
    return {f"A_{selector or 0}_": selector for selector in (form.selectors if n == k else form.selectors[-1:])}


def descriptor_lines(form: Form, role: str, name: str, address: str) -> list[str]:
    """The matrix descriptor of an operand in shared memory, with K innermost and no swizzle (9.7.17.5.1.2.2)."""
    offsets = descriptor_offsets(form, role)
    return [
        f"shr.u32 %pick, {address}, 4;",
        "and.b32 %pick, %pick, 0x3fff;",
        f"mov.b64 {name}, {{%pick, 0x{offsets >> 32:x}}};",
        f"or.b64 {name}, {name}, 0x{offsets & 0xFFFFFFFF:x};",
    ]


def _move(form: Form) -> Kernel:
    """One move between memory and the registers of a warp; for one between registers, ldmatrix loads its source."""
    if of := box(form.key(form.role)):
        return _box(form, of)
    memory = Port("memory", bytes=memory_size(form, form.role))
    registers = operand_port(form.operand(form.role), "r")
    if form.moves == "transpose":
        lines = [
            "mad.lo.u32 %place, %lane, 16, %memory;",
            "bar.sync 0;",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%place];",
            f"{form.mnemonic} %r1, %r0;",
        ]
        return Kernel(form, (memory,), Port("r", 2), "\n".join(lines))
    # A matrix with a stride in memory needs one address, any other the addresses of its rows.
    stride = f", {extents(form, form.role)[1]}" if form.layout else ""
    address, inputs = ("[%memory]", ()) if form.layout else ("[%place]", (Port("p", 1),))
    operands = f"{address}, {registers.vector}" if form.stores else f"{registers.vector}, {address}"
    place = "add.u32 %place, %p0, %memory;\n" if inputs else ""
    source, output = (registers, memory) if form.stores else (memory, registers)
    body = f"{place}bar.sync 0;\n{form.mnemonic} {operands}{stride};"
    return Kernel(form, (source, *inputs), output, body)


#: The instruction that copies what a tensor map describes. Which box it is stands in the map.
TMA = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def _box(form: Form, of: BoundingBox) -> Kernel:
    """One copy of a box from a tensor to shared memory, so many bytes after an address at which its pattern begins."""
    memory = Port("memory", bytes=of.size + (LINES - 1) * LINE, align=LINES * LINE)
    lines = [
        ".shared .align 8 .b8 copied[8];",
        ".reg .pred %first, %done;",
        ".reg .b32 %copied, %column;",
        "mov.u32 %copied, copied;",
        "mov.u32 %column, 0;",
        "add.u32 %place, %memory, %offset0;",
        "setp.eq.u32 %first, %lane, 0;",
        "@%first mbarrier.init.shared.b64 [%copied], 1;",
        "fence.proxy.async;",
        "bar.sync 0;",
        "@%first fence.proxy.tensormap::generic.acquire.gpu [%tensor], 128;",
        f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%copied], {of.mn * of.k * of.bits // 8};",
        f"@%first {TMA} [%place], [%tensor, {{%column, %tensor_row}}], [%copied];",
        "wait:",
        "mbarrier.try_wait.parity.shared.b64 %done, [%copied], 0;",
        "@!%done bra wait;",
    ]
    return Kernel(form, (Port("tensor", box=of), Port("offset", 1)), memory, "\n".join(lines))
