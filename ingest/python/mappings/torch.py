"""The order in memory of the metadata of PyTorch's semi-structured sparse tensors."""

import torch
from torch.sparse import _semi_structured_conversions as conversions


def offset(rows, columns, dtype):
    """The function (row, column) -> offset of an element of metadata in the reordered matrix."""
    offsets = conversions._calculate_meta_reordering_scatter_offsets(rows, columns, getattr(torch, dtype), "cpu")
    table = offsets.view(rows, columns).tolist()
    return lambda row, column: table[row][column]
