"""The kernels of each family of instructions: what they are given, and the instruction in PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from ..db.files import atomically, make_folder
from ..db.forms import Move
from ..db.instructions import WARP, WARPGROUP, Form
from ..db.instructions import operand as operand_of
from . import memory, ptx
from .ptx import Kernel, Port, port

#: What kernels are written for where no GPU says otherwise.
_TARGET = "sm_90a"


def write_kernels(forms: Sequence[Form | Move], folder: Path) -> int:
    """Write the module of each form to a file of its own, and count them.

    Raises:
        LanemapError: the folder or a file in it cannot be written.
    """
    make_folder(folder)
    for form in forms:
        target = _TARGET if form.supports(_TARGET) else form.target
        with atomically(folder / f"{form.mnemonic.replace('::', '-')}.ptx") as stream:
            stream.write(ptx.module(kernels(form), target).encode())
    return len(forms)


@cache
def kernels(form: Form | Move) -> list[Kernel]:
    """All kernels of a form: a product of a warp has one for each sparsity selector, everything else has one."""
    if isinstance(form, Move):
        return [move(form)]
    if form.threads == WARPGROUP:
        return [warpgroup(form)]
    return [product(form, selector) for selector in form.selectors]


def product(form: Form, selector: int | None) -> Kernel:
    """One product of a warp: A, B, C, and E where A is sparse, are registers. So is D, the output."""
    inputs = tuple(port(form.operand(role)) for role in ("ABCE" if form.sparse else "ABC"))
    output = port(form.operand("D"))
    metadata = "" if selector is None else f", %E0, {selector}"
    scales = "" if form.scale is None else ", %scale, {0, 0}, %scale, {0, 0}"
    scale = "" if form.scale is None else f"    .reg .b32 %scale;\n    mov.b32 %scale, 0x{form.scale:08x};\n"
    operands = ", ".join(map(_vector, (output, *inputs[:3])))
    body = f"{scale}    {form.mnemonic} {operands}{metadata}{scales};"
    return Kernel(_entry(form, selector), form, WARP, inputs, output, body, selector)


def warpgroup(form: Form) -> Kernel:
    """The sum of products of a warpgroup with one B, which is in shared memory.

    The first A is in shared memory too, and takes its metadata with the first selector. The others are registers: one
    for each selector where A is measured, elsewhere one for the last. A product of zeros adds nothing, so one kernel
    serves to measure either kind of A alone.
    """
    shared = tuple(Port(f"shared_{role}", bytes=memory.size(form, role)) for role in "AB")
    selectors = in_registers(form)
    registers = tuple(port(form.operand("A"), name) for name in selectors)
    metadata = (port(form.operand("E")),) if form.sparse else ()
    output = port(form.operand("D"))
    vectors = ["%descriptor_A", *map(_vector, registers)]
    products = _products(
        form, _vector(output), dict(zip(vectors, [form.selectors[0], *selectors.values()], strict=True))
    )
    body = "\n".join(
        (
            "    .reg .pred %starts, %adds;",
            "    .reg .b64 %descriptor_A, %descriptor_B;",
            "    setp.ne.u32 %starts, 0, 0;",
            "    setp.eq.u32 %adds, 0, 0;",
            *_descriptor(form, "A"),
            *_descriptor(form, "B"),
            "    fence.proxy.async;",
            "    bar.sync 0;",
            "    wgmma.fence.sync.aligned;",
            *products,
            "    wgmma.commit_group.sync.aligned;",
            "    wgmma.wait_group.sync.aligned 0;",
        )
    )
    return Kernel(_entry(form), form, WARPGROUP, (*shared, *registers, *metadata), output, body)


def _products(form: Form, output: str, sources: Mapping[str, int | None]) -> Iterator[str]:
    """An instruction for each A, the first of which is in shared memory, with its selector. The others add to it."""
    scales = ", 1, 1" if form.d != "s32" else ""
    transposed = form.a in ("f16", "bf16")
    for number, (a, selector) in enumerate(sources.items()):
        chosen = "" if selector is None else f", %E0, {selector}"
        turned = "" if not transposed else ", 0" if number else ", 0, 0"
        adds = "%adds" if number else "%starts"
        yield f"    {form.mnemonic} {output}, {a}, %descriptor_B{chosen}, {adds}{scales}{turned};"


def in_registers(form: Form) -> dict[str, int | None]:
    """The inputs of a warpgroup's kernel that are A in registers, each with its selector."""
    _, n, k = form.dimensions
    return {f"A_{selector or 0}_": selector for selector in (form.selectors if n == k else form.selectors[-1:])}


def _descriptor(form: Form, role: str) -> list[str]:
    """The matrix descriptor of an operand in shared memory, with K innermost and no swizzle (9.7.15.5.1.2.2)."""
    name, offsets = f"%descriptor_{role}", memory.descriptor_offsets(form, role)
    return [
        f"    shr.u32 %pick, %shared_{role}, 4;",
        "    and.b32 %pick, %pick, 0x3fff;",
        f"    mov.b64 {name}, {{%pick, 0x{offsets >> 32:x}}};",
        f"    or.b64 {name}, {name}, 0x{offsets & 0xFFFFFFFF:x};",
    ]


def move(form: Move) -> Kernel:
    """One move between memory and the registers of a warp; movmatrix is given its source by ldmatrix."""
    memory_port = Port("memory", bytes=memory.size(form, form.role))
    registers = port(operand_of(form.key(form.role)), "r")
    if form.name == "movmatrix":
        return Kernel(
            _entry(form), form, WARP, (memory_port,), Port("r", 2),
            "    mad.lo.u32 %place, %lane, 16, %memory;\n"
            "    bar.sync 0;\n"
            "    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%place];\n"
            f"    {form.mnemonic} %r1, %r0;",
        )  # fmt: skip
    whole = form.name == "wmma"
    stride = f", {memory.stride(form)}" if whole else ""
    address, given = ("[%memory]", ()) if whole else ("[%place]", (Port("p", 1),))
    operands = f"{address}, {_vector(registers)}" if form.stores else f"{_vector(registers)}, {address}"
    place = "    add.u32 %place, %p0, %memory;\n" if given else ""
    body = f"{place}    bar.sync 0;\n    {form.mnemonic} {operands}{stride};"
    inputs, output = ((registers,), memory_port) if form.stores else ((memory_port,), registers)
    return Kernel(_entry(form), form, WARP, (*inputs, *given), output, body)


def _entry(form: Form | Move, selector: int | None = None) -> str:
    """The mnemonic as a name that PTX accepts, with the selector."""
    return re.sub(r"\W+", "_", form.mnemonic) + ("" if selector is None else f"_{selector}")


def _vector(each: Port) -> str:
    return "{" + ", ".join(f"%{each.name}{number}" for number in range(each.registers)) + "}"
