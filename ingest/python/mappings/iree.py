"""IREE's layout of each fragment of an intrinsic: outer tiles, threads with their strides, and elements."""

from itertools import product

from iree.compiler import ir
from iree.compiler.dialects import iree_gpu


def place(intrinsic, fragment):
    """The function (lane, value) -> pair.

    Values count elements first, then outer tiles down the first axis: so IREE transposes A before nvgpu.mma.sync.
    """
    with ir.Context():
        attribute = iree_gpu.MMAIntrinsicAttr.get(getattr(iree_gpu.MMAIntrinsic, intrinsic))
        layout = iree_gpu.get_single_subgroup_layout(attribute, fragment)
    thread, strides, element = layout.thread, layout.tstrides, layout.element
    values = [
        [(tile * threads, elements, step) for tile, threads, elements, step in zip(outer[::-1], thread, element, inner)]
        for outer in product(*map(range, layout.outer[::-1]))
        for inner in product(*map(range, element))
    ]

    def function(lane, value):
        digits = [lane // stride % threads for stride, threads in zip(strides, thread)]
        return [(start + at) * elements + step for (start, elements, step), at in zip(values[value], digits)]

    return function
