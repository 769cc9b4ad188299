"""The tiled layouts of JAX's Mosaic GPU, evaluated as its own code generator does."""

from importlib import import_module
from itertools import product

from jax.experimental.mosaic.gpu import fragmented_array
from jaxlib.mlir import ir

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
