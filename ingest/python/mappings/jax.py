"""The tiled layouts of JAX's Mosaic GPU, evaluated as its own code generator does."""

from importlib import import_module
from itertools import product
from math import prod
from operator import add, eq, floordiv, mod, mul, ne, xor

import numpy as np
from jax.experimental.mosaic.gpu import fragmented_array, utils
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import builtin

mma = import_module("jax.experimental.mosaic.gpu.mma")  # the package has a function of this name


def place(layout, shape, type=None):
    """The function (lane, value) -> pair of a layout of ``fragmented_array``, or of an operand of ``mma``.

    Registers count the dimensions of the tiled shape that are not spread over warps, lanes or a vector, last fastest.
    """
    if type is None:
        tiled = getattr(fragmented_array, layout)
    else:
        with ir.Context():
            tiled = getattr(mma.MMALayouts(ir.Type.parse(type)), layout)
    registers = list(product(*map(range, tiled.registers_shape(tuple(shape)))))

    def function(lane, value):
        at = list(registers[value // tiled.vector_length])
        at[tiled.vector_dim] = value % tiled.vector_length
        for rest, dimensions in ((lane % 32, tiled.lane_dims), (lane // 32, tiled.warp_dims)):
            for dimension in reversed(dimensions):
                extent = getattr(dimension, "times", None) or tiled.tiled_tiling_shape[dimension]
                if isinstance(dimension, int):
                    at[dimension] = rest % extent
                rest //= extent
        return tiled.tiling.untile_indices(tuple(at))

    return function


def shared(layout, type, swizzle, shape):
    """The function (row, column) -> offset of a tile in shared memory to which registers of a layout are stored.

    The tile has blocks of 8 rows that are as wide as the swizzle. What is generated for it is evaluated for the threads
    of a warpgroup: each register that they store, and its pointer.
    """
    tiled, shape = getattr(fragmented_array, layout), tuple(shape)
    cell, count = place(layout, shape), tiled.registers_shape(shape)
    threads, offsets = np.arange(128), {}
    with make_ir_context(), ir.Location.unknown(), ir.InsertionPoint(ir.Module.create().body):
        element, number = ir.Type.parse(type), ir.IntegerType.get_signless(32)
        blocks = utils.tile_shape(shape, (8, 8 * swizzle // element.width))
        tile = builtin.unrealized_conversion_cast([ir.MemRefType.get(blocks, element, memory_space=utils.smem())], [])
        registers = np.array([utils.c(at, number) for at in range(prod(count))]).reshape(count)
        for chosen, *_, pointer in fragmented_array.FragmentedArray.transfer_tiled(tile, swizzle, tiled, shape):
            register, vector = _value(chosen(registers), threads), _value(pointer, threads)
            for thread, slot in product(threads.tolist(), range(tiled.vector_length)):
                value, offset = (int(first[thread]) * tiled.vector_length + slot for first in (register, vector))
                offsets[cell(thread, value)] = offset
    return lambda row, column: offsets[row, column]


_OPERATIONS = {
    "arith.addi": add,
    "arith.muli": mul,
    "arith.divui": floordiv,
    "arith.remui": mod,
    "arith.xori": xor,
    "arith.select": np.where,
    "arith.index_cast": np.asarray,
    "llvm.getelementptr": add,
}

#: By the number that arith.cmpi has of its predicate. Another one is an error, as another operation is.
_COMPARISONS = {0: eq, 1: ne}


def _value(value, thread):
    """What a value of MLIR is in each thread; a pointer counts vectors from the start of the tile."""
    operation = value.owner
    match operation.name:
        case "arith.constant":
            return 0 * thread + operation.attributes["value"].value
        case "gpu.thread_id":
            return thread * (str(operation.attributes["dimension"]) == "#gpu<dim x>")
        case "gpu.block_dim" | "llvm.inttoptr":
            return 0 * thread
    compares = operation.name == "arith.cmpi"
    function = _COMPARISONS[operation.attributes["predicate"].value] if compares else _OPERATIONS[operation.name]
    return function(*(_value(operand, thread) for operand in operation.operands))
