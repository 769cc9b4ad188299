"""From slots to matrices and back: products as numpy sees them, by the elements of fragments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.fragment import Fragment
from ..db.instructions import Form


def scatter(
    values: NDArray[Any], fragment: Fragment, computations: int, columns: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Matrices (n, computations, rows, columns) from values (n, slots), zero where nothing is stored.

    ``columns`` (n, slots) replaces the fragment's own where metadata selects them.
    """
    computation, row, column = places(fragment)
    matrices = np.zeros((len(values), computations, *fragment.dimensions), np.float32)
    column = column if columns is None else columns
    matrices[np.arange(len(values))[:, None], computation, row, column] = values
    return matrices


def gather(matrices: NDArray[Any], fragment: Fragment) -> NDArray[Any]:
    """Values (n, slots) that a fragment holds of matrices (n, computations, rows, columns)."""
    return matrices[(slice(None), *places(fragment))]


def places(fragment: Fragment) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Computation from 0, row and column of each slot. Raises LanemapError where a slot has none in the matrix."""
    table = fragment.elements
    if table is None:
        raise LanemapError(f"{fragment} is {fragment.status}: it has no elements")
    rows, columns = fragment.dimensions
    outside = (table["row"] < 0) | (table["row"] >= rows) | (table["col"] < 0) | (table["col_last"] >= columns)
    if outside.any():
        slot = table[np.argmax(outside)]
        raise LanemapError(
            f"{fragment} puts lane {slot['lane']}, reg {slot['reg']}, slot {slot['slot']} in row {slot['row']}, "
            f"column {slot['col']}: the matrix is {rows} x {columns}"
        )
    return table["computation"].astype(np.intp) - 1, table["row"].astype(np.intp), table["col"].astype(np.intp)


def multiply(form: Form, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The product of (..., M, K) and (..., K, N) that an instruction computes: for .xor.popc, bits that differ."""
    product = a @ b
    if form.suffix == ".xor.popc":
        return np.asarray(a.sum(axis=-1)[..., :, None] + b.sum(axis=-2)[..., None, :] - 2 * product)
    return np.asarray(product)
