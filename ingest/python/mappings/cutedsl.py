"""The layouts of the atoms of CUTLASS's CuTe DSL, which its compiler computes without a GPU."""

import os

os.environ.setdefault("CUTE_DSL_ARCH", "sm_120a")  # it has every operation of a warp

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp


def strides(operation, operand, types, shape=None, warps=None, tile=None):
    """The shape:stride text of operand A, B or C of an operation on types such as Float16, or of its tile by warps."""
    texts = []

    def layout(instruction):
        if tile is None:
            return getattr(cute.make_mma_atom(instruction), f"tv_layout_{operand}")
        product = cute.make_tiled_mma(instruction, tuple(warps), permutation_mnk=tuple(tile))
        return getattr(product, f"tv_layout_{operand}_tiled")

    @cute.jit
    def trace():
        arguments = [*(getattr(cutlass, name) for name in types), *([tuple(shape)] if shape else [])]
        texts.append(str(layout(getattr(warp, operation)(*arguments))))

    cute.compile(trace)
    return texts[0]
