"""Triton's layouts of tensor-core operands as bases, and products as kernels: it makes both without a GPU."""

import triton
from triton import language
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gluon
from triton.experimental.gluon.language.nvidia import blackwell

_context = libtriton.ir.context()
libtriton.ir.load_dialects(_context)
_builder = libtriton.gluon_ir.GluonOpBuilder(_context)


def bases(shape, version, warps, instruction, operand=None, width=0):
    """The bases of an accumulator, or of the operand 0 (A) or 1 (B) with ``width`` elements in a register."""
    layout = gluon.NVMMADistributedLayout(version=[version, 0], warps_per_cta=warps, instr_shape=instruction)
    if operand is not None:
        layout = gluon.DotOperandLayout(operand, layout, width)
    linear = _builder.to_linear_layout(layout._to_ir(_builder), shape)
    return {"register": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases}


def tensor_memory(atom, columns):
    """The bases of the registers that an atom moves between Tensor Memory of 128 lanes and four warps."""
    layout = blackwell.TensorMemoryLayout((128, columns), 1)
    shape = [128, columns]
    linear = libtriton.gluon_ir.compute_tmem_reg_layout(language.float32, shape, shape, layout, 4, atom)
    return {"register": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases}


def shared(shape, swizzle, bits, transposed=False):
    """The function (row, column) -> offset of a tile in shared memory, ``nvmma_shared`` as a linear layout."""
    layout = gluon.NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=bits, rank=2, transposed=transposed)
    bases = _builder.to_linear_layout(layout._to_ir(_builder), shape).offset_bases
    cells = [(0, 0)]
    for row, column in bases:
        cells += [(down ^ row, along ^ column) for down, along in cells]
    offsets = {cell: offset for offset, cell in enumerate(cells)}
    return lambda row, column: offsets[row, column]


@triton.jit
def _product(a, b, c, m: language.constexpr, n: language.constexpr, k: language.constexpr):
    rows, columns, depth = language.arange(0, m), language.arange(0, n), language.arange(0, k)
    left = language.load(a + rows[:, None] * k + depth[None, :])
    right = language.load(b + depth[:, None] * n + columns[None, :])
    kind: language.constexpr = language.int32 if left.dtype == language.int8 else language.float32
    language.store(c + rows[:, None] * n + columns[None, :], language.dot(left, right, out_dtype=kind))


def product(capability, type_, shape, warps=4):
    """What Triton compiles for a product of one block, with the shared memory that it takes."""
    total = "i32" if type_ == "i8" else "fp32"
    signature = {"a": f"*{type_}", "b": f"*{type_}", "c": f"*{total}", **dict.fromkeys("mnk", "constexpr")}
    source = ASTSource(_product, signature=signature, constexprs={(3 + at,): size for at, size in enumerate(shape)})
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    return {"ptx": made.asm["ptx"], "block": 32 * warps, "shared": made.metadata.shared}
