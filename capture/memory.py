"""Matrices in shared memory, as the instructions that read and write it want them.

A matrix in memory is a fragment too: one whose slots are the places in memory. So matrices go into memory, and out of
it, by the functions that put them into registers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.forms import Move
from ..db.fragment import Fragment, by_rule
from ..db.instructions import DENSE, Form, dimensions, element_bits
from . import values

#: Rows, and bytes of each row, of a core matrix (9.7.15.5.1.2).
_CORE = 8, 16


#: Rows that the addresses of a warp can name.
_LINES = 32

#: Bytes of a row of an 8 x 8 matrix of 16-bit elements, which one address names.
LINE = 16


def extents(form: Form | Move, role: str) -> tuple[int, int]:
    """Lines and elements of a line that memory holds of a matrix.

    A line is a row of A and a column of B for wgmma, a row of all matrices for ldmatrix and stmatrix, and what the
    layout names for wmma. Of a sparse A only what is stored counts.
    """
    if isinstance(form, Move):
        if form.name != "wmma":
            return _LINES, 8
        rows, columns = dimensions(form.shape, form.role, form.name)
        return (rows, columns) if form.layout == "row" else (columns, rows)
    m, n, k = form.dimensions
    return (m, k // 2 if form.sparse else k) if role == "A" else (n, k)


def bits(form: Form | Move) -> int:
    """Bits of one element in memory."""
    if isinstance(form, Move):
        return element_bits(form.name, form.shape, form.type)
    return element_bits(form.name, form.shape, form.a)


def size(form: Form | Move, role: str) -> int:
    """Bytes of a matrix in memory."""
    return prod(extents(form, role)) * bits(form) // 8


def stride(form: Move) -> int:
    """Elements from one line to the next, as wmma is told."""
    return extents(form, form.role)[1]


def descriptor_offsets(form: Form, role: str) -> int:
    """The byte offsets of a matrix descriptor: of core matrices next to each other along K, and along rows."""
    core, cores = prod(_CORE), _cores(form, role)
    return (core >> 4) << 16 | (core * cores >> 4) << 32


def stored_a(form: Form) -> Fragment:
    """A of wgmma in memory as a fragment: what is stored of each row, in its order, each with its window of columns."""
    return _stored_a(replace(form, shape=f"m64n8k{form.dimensions[2]}"))


@lru_cache
def _stored_a(form: Form) -> Fragment:
    rule = form.sparsity or DENSE
    lines, length = extents(form, "A")
    row, place = np.indices((lines, length))
    stored = rule.fields * rule.group
    col = place // stored * rule.width + place % stored
    elements = by_rule(1, row, col, col + rule.width - stored)
    return Fragment(form.name, form.shape, form.a, "A", length, 1, elements)


def write(form: Form | Move, role: str, lines: NDArray[Any]) -> NDArray[Any]:
    """Bytes (patterns, bytes) of values (patterns, lines, elements of a line)."""
    width = bits(form)
    type_ = form.type if isinstance(form, Move) else form.a
    data = values.to_bytes(values.encode(type_, width, lines), width)
    if isinstance(form, Form):
        rows, length = _CORE
        data = data.reshape(len(data), -1, rows, _cores(form, role), length).swapaxes(2, 3)
    return np.ascontiguousarray(data).reshape(len(data), -1)


def read(form: Form | Move, role: str, data: NDArray[Any]) -> NDArray[Any]:
    """Values (patterns, lines, elements of a line) of bytes (patterns, bytes): the inverse of ``write``."""
    width, (lines, _) = bits(form), extents(form, role)
    type_ = form.type if isinstance(form, Move) else form.a
    data = data[:, : size(form, role)]
    if isinstance(form, Form):
        rows, length = _CORE
        data = data.reshape(len(data), -1, _cores(form, role), rows, length).swapaxes(2, 3)
    by_line = np.ascontiguousarray(data).reshape(len(data), lines, -1)
    return values.decode(type_, width, values.from_bytes(by_line, width))


def _cores(form: Form, role: str) -> int:
    """Core matrices along K."""
    return extents(form, role)[1] * bits(form) // 8 // _CORE[1]
