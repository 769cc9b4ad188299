"""The layouts of the atoms of CUTLASS's CuTe DSL, which its compiler computes without a GPU."""

import os

os.environ.setdefault("CUTE_DSL_ARCH", "sm_120a")  # it has every operation of a warp

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp


def strides(operation, operand, types, shape=None):
    """The shape:stride text of operand A, B or C of an operation on types such as Float16."""
    texts = []

    @cute.jit
    def trace():
        arguments = [*(getattr(cutlass, name) for name in types), *([tuple(shape)] if shape else [])]
        instruction = getattr(warp, operation)(*arguments)
        texts.append(str(getattr(cute.make_mma_atom(instruction), f"tv_layout_{operand}")))

    cute.compile(trace)
    return texts[0]
