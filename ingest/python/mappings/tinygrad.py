"""tinygrad's tensor cores: axes of size 2, and for A and B which axis of D or K takes the place of each."""

from math import log2

from tinygrad.codegen.opt import tc


def place(dims, dtype_in, dtype_out, operand):
    """The function (lane, value) -> (m, k), (k, n) or (m, n) of the operand 0, 1 or 2 of a core."""
    lists = [cores for name, cores in vars(tc).items() if name.startswith("cuda_") and isinstance(cores, list)]
    cores = {(core.dims, core.dtype_in.name, core.dtype_out.name): core for group in lists for core in group}
    core = cores[tuple(dims), dtype_in, dtype_out]
    sizes = {"n": 1, "m": 1, "k": 1}
    axes = {}
    for kind, digit in [*core.opts, *(("r", "2") for _ in core.get_reduce_axes())]:
        name, axis = f"{kind}{sum(earlier[0] == kind for earlier in axes)}", "nmk"[int(digit)]
        axes[name] = axis, sizes[axis]
        sizes[axis] *= 2
    moved = core._remaps()[operand] if operand < 2 else {name: name for name in axes}
    values = core.base_upcast_axes()[: int(log2(core.elements_per_thread[operand]))][::-1]

    def function(lane, value):
        at = {"n": 0, "m": 0, "k": 0}
        bits = [(f"l{bit}", lane >> bit & 1) for bit in range(5)]
        for name, set_ in bits + [(name, value >> bit & 1) for bit, name in enumerate(values)]:
            axis, step = axes[moved[name]]
            at[axis] += step * set_
        return [at[axis] for axis in ("mk", "kn", "mn")[operand]]

    return function
