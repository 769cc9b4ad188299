"""Hidet's task mappings: the pairs of each thread, in the order of its registers."""

import hidet  # noqa: F401 - it fills the tables
from hidet.ir.primitives.cuda import mma, wgmma


def place(configs, name):
    """The function (thread, value) -> pair of a task mapping that several configurations have alike."""
    tables = {**mma.mma_configs, **wgmma.wgmma_configs}
    mappings = [getattr(tables[config], name) for config in configs.split()]
    pairs, *others = ([mapping(thread) for thread in range(mapping.num_workers)] for mapping in mappings)
    if any(other != pairs for other in others):
        raise ValueError(f"{configs} differ")
    return lambda thread, value: pairs[thread][value]
