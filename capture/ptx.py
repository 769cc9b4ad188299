"""PTX text of the kernel that runs one instruction once in each of many warps.

The kernel knows nothing of layouts. Each warp takes its probe's four pattern numbers, loads one pattern of registers
for each operand, runs the instruction, and stores all registers of D. A pattern is an array [register][lane], and so is
the output of a probe: all accesses are coalesced.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.instructions import WARP, Form, Operand

#: PTX ISA version that the kernels ask for: the first that has every instruction of the table.
VERSION = "8.7"


#: What kernels are written for where no GPU says otherwise.
_TARGET = "sm_90a"


def write_kernels(forms: Sequence[Form], folder: Path) -> int:
    """Write the module of each form to a file of its own, and count them.

    Raises:
        LanemapError: the folder or a file in it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LanemapError(f"cannot make the folder {folder}: {error.strerror}") from None
    for form in forms:
        target = _TARGET if form.supports(_TARGET) else form.target
        with atomically(folder / f"{form.mnemonic.replace('::', '-')}.ptx") as stream:
            stream.write(module(form, target).encode())
    return len(forms)


def entry(selector: int | None) -> str:
    """Name of the kernel for a sparsity selector, None for dense instructions."""
    return "probe" if selector is None else f"probe_{selector}"


def module(instruction: Form, target: str, version: str = VERSION) -> str:
    """A module with one kernel for each valid selector of the instruction.

    Kernel parameters, in order: addresses of the patterns of A, B, C and E, of the probes (four 32-bit pattern numbers
    each, for A, B, C and E) and of the output, then the number of probes as 32 bits. One warp runs one probe.
    """
    header = f".version {version}\n.target {target}\n.address_size 64\n"
    return header + "".join(kernel(instruction, selector) for selector in instruction.selectors)


def kernel(instruction: Form, selector: int | None, name: str | None = None) -> str:
    """One kernel. Registers are untyped (.b32, .b64), which every operand type accepts."""
    inputs = [instruction.operand(role) for role in ("ABCE" if instruction.sparse else "ABC")]
    output = instruction.operand("D")
    declarations = "\n".join(
        f"    .reg .b{each.register_bits} %{each.role.lower()}<{each.registers}>;" for each in (*inputs, output)
    )
    loads = "\n".join(_load(operand) for operand in inputs)
    vectors = ", ".join(map(_vector, (output, *inputs[:3])))
    metadata = "" if selector is None else f", %e0, {selector}"
    scales = "" if instruction.scale is None else ", %scale, {0, 0}, %scale, {0, 0}"
    return f"""
.visible .entry {name or entry(selector)}(
    .param .u64 patterns_a, .param .u64 patterns_b, .param .u64 patterns_c, .param .u64 patterns_e,
    .param .u64 probes, .param .u64 output, .param .u32 count)
{{
    .reg .pred %beyond;
    .reg .b32 %thread, %lane, %block, %width, %probe, %count, %scale;
    .reg .b32 %pick_a, %pick_b, %pick_c, %pick_e;
    .reg .b64 %address;
{declarations}
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    and.b32 %lane, %thread, {WARP - 1};
    mad.lo.u32 %probe, %block, %width, %thread;
    shr.u32 %probe, %probe, {WARP.bit_length() - 1};
    ld.param.u32 %count, [count];
    setp.ge.u32 %beyond, %probe, %count;
    @%beyond ret;
    ld.param.u64 %address, [probes];
    mad.wide.u32 %address, %probe, 16, %address;
    ld.global.v4.u32 {{%pick_a, %pick_b, %pick_c, %pick_e}}, [%address];
{loads}
    mov.b32 %scale, 0x{instruction.scale or 0:08x};
    {instruction.mnemonic} {vectors}{metadata}{scales};
    ld.param.u64 %address, [output];
{_place(output, "%probe")}
{_each(output, "st.global.b{bits} [%address + {offset}], {register};")}
    ret;
}}
"""


def _load(operand: Operand) -> str:
    role = operand.role.lower()
    return "\n".join(
        (
            f"    ld.param.u64 %address, [patterns_{role}];",
            _place(operand, f"%pick_{role}"),
            _each(operand, "ld.global.b{bits} {register}, [%address + {offset}];"),
        )
    )


def _place(operand: Operand, pattern: str) -> str:
    """Advances %address to this lane's first register in a pattern."""
    size = operand.register_bits // 8
    return (
        f"    mad.wide.u32 %address, {pattern}, {operand.registers * WARP * size}, %address;\n"
        f"    mad.wide.u32 %address, %lane, {size}, %address;"
    )


def _each(operand: Operand, line: str) -> str:
    role, bits = operand.role.lower(), operand.register_bits
    return "\n".join(
        "    " + line.format(bits=bits, register=f"%{role}{reg}", offset=reg * WARP * bits // 8)
        for reg in range(operand.registers)
    )


def _vector(operand: Operand) -> str:
    return "{" + ", ".join(f"%{operand.role.lower()}{reg}" for reg in range(operand.registers)) + "}"
