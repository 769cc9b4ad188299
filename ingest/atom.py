"""Atoms: an instruction with CuTe's thread-value layouts, and the fragments that they amount to.

A layout takes (thread, value) to an index into the operand, leftmost fastest: A and E are M x K, C is M x N, and B is
N x K, which is PTX's K x N turned over. Values fill a thread's registers in order, low bits first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db import instructions as table
from ..db.errors import LanemapError
from ..db.fragment import Fragment, elements
from ..db.instructions import WARP, Key
from .mnemonic import Mnemonic
from .shape_stride import Layout, indices, thread_value


@cache
def lanes(threads: Layout, group: int = WARP) -> NDArray[np.int64]:
    """The lanes of a warp, or of another group, that an atom's threads are: an array (computations, threads).

    An atom of eight threads is done four times by a warp: the threads' lanes are shifted until they fill the warp.

    Raises:
        LanemapError: the atom is not the work of one group.
    """
    first = indices(threads)
    if len(first) not in (8, group):
        plural = "s do" if len(first) > 1 else " does"
        raise LanemapError(f"{len(first)} thread{plural} it, and its instruction takes {group}")
    shifts: list[NDArray[np.int64]] = []
    for shift in range(group):
        shifted = first + shift
        if shifted.max() < group and not np.isin(shifted, shifts).any():
            shifts.append(shifted)
    if sorted(np.ravel(shifts).tolist()) != list(range(group)):
        raise LanemapError(f"its threads {threads} do not fill a group of {group}")
    return np.stack(shifts)


def fragment(
    of: Mnemonic,
    role: str,
    operand: AtomLayout,
    threads: Layout,
    selector: int | None = None,
    *,
    origin: str | None = None,
    supplies: Sequence[int] = (0, 1, 2, 3),
) -> Fragment:
    """One operand of an atom; ``supplies`` are the lanes of each four that hold it.

    Raises:
        LanemapError: the layout does not fit the atom's threads or registers.
    """
    return Fragment(
        **of.key(role, selector)._asdict(),
        registers=operand.registers,
        slots=operand.slots,
        elements=_elements(of.name, of.shape, role, operand, threads, tuple(supplies)),
        status="imported",
        origin=origin,
        formula=f"(thread, value) -> {_ORDER[role]}: {operand.layout}",
    )


def scales(of: Mnemonic, role: str, layout: Layout, chosen: Sequence[int | None], origin: str) -> Fragment:
    """The block scales of an operand, from a layout in which a thread has its scale once for each element along K.

    Args:
        of: the instruction.
        role: SFA or SFB.
        layout: takes (thread, k) to an index into M x K, or N x K.
        chosen: byte-id and thread-id, which say where of the four bytes and four lanes the scales are (9.7.14.3).
        origin: where the layout was found.

    Raises:
        LanemapError: the layout is not of this form, or the selectors are missing.
    """
    byte, thread = chosen
    if of.scales is None or byte is None or thread is None:
        raise LanemapError("its mma has no block scales, or its byte-id and thread-id are not constants")
    count, type_ = of.scales
    lines, depth = table.dimensions(of.shape, role[-1], of.name)[:: 1 if role == "SFA" else -1]
    index = thread_value(layout)
    line = index % lines
    if index.shape != (WARP, depth) or (line != line[:, :1]).any() or (index // lines != np.arange(depth)).any():
        raise LanemapError(f"{layout} does not give each of {WARP} threads one row or column of {depth} elements")
    supplied = np.arange(WARP) % 4 // 2 == thread if role == "SFA" else np.arange(WARP) % 4 == thread
    lane, chunk = (each.ravel() for each in np.meshgrid(np.flatnonzero(supplied), np.arange(count), indexing="ij"))
    row, col = (line[lane, 0], chunk) if role == "SFA" else (chunk, line[lane, 0])
    qualifiers = f"scale_vec::{count}X.byte_id::{byte}.thread_id::{thread}"
    return Fragment(
        **Key(of.name, of.shape, type_, role, qualifiers=qualifiers)._asdict(),
        registers=1,
        slots=4,
        elements=elements({"lane": lane, "reg": 0 * lane, "slot": byte + chunk, "row": row, "col": col}),
        status="imported",
        origin=origin,
        formula=f"(thread, k) -> ({'m' if role == 'SFA' else 'n'}, k): {layout}",
    )


@dataclass(frozen=True)
class AtomLayout:
    """The layout of an operand, and how a lane's registers hold its values.

    Dense operands have a slot per value. In sparse A and E, ``chunk`` consecutive values share the slots of what is
    kept of them, so that a slot can stand for any column of its chunk.
    """

    layout: Layout
    registers: int
    slots: int
    chunk: int = 1

    @property
    def count(self) -> int:
        """Elements per lane."""
        return self.registers * self.slots


@cache
def _elements(
    name: str, shape: str, role: str, operand: AtomLayout, threads: Layout, supplies: tuple[int, ...]
) -> NDArray[Any]:
    """The elements of an operand: atoms that differ in nothing else share them."""
    index = thread_value(operand.layout)
    where = lanes(threads, table.instruction(name).threads)
    if len(index) != where.shape[1]:
        raise LanemapError(f"{operand.layout} is for {len(index)} threads, and {where.shape[1]} do the atom")
    first, last = _ends(index, operand, table.dimensions(shape, role, name), transposed=role == "B")
    computation, thread, element = np.indices((*where.shape, operand.count))
    columns = {
        "lane": where[computation, thread],
        "reg": element // operand.slots,
        "slot": element % operand.slots,
        "row": first[0][thread, element],
        "col": first[1][thread, element],
        "col_last": last[1][thread, element],
        "computation": computation + 1,
    }
    held = np.isin(columns["lane"].ravel() % 4, supplies)
    return elements({name: values.ravel()[held] for name, values in columns.items()})


_ORDER = {"A": "(m, k)", "B": "(n, k)", "C": "(m, n)", "D": "(m, n)", "E": "(m, k)"}
_Cells = tuple[NDArray[np.int64], NDArray[np.int64]]


def _ends(
    index: NDArray[np.int64], operand: AtomLayout, matrix: tuple[int, int], *, transposed: bool
) -> tuple[_Cells, _Cells]:
    """Rows and columns of the first and of the last cell that each element stands for: arrays (threads, elements)."""
    values, chunk = index.shape[1], operand.chunk
    if values != operand.count and chunk == 1:
        raise LanemapError(f"{operand.layout} has {values} values for {operand.count} slots")
    if values % operand.count or values % chunk:
        raise LanemapError(f"{values} values in chunks of {chunk} do not fill {operand.count} slots")
    start = np.arange(operand.count) * (values // operand.count) // chunk * chunk
    height = matrix[1] if transposed else matrix[0]
    inner, outer = index % height, index // height
    row, col = (outer, inner) if transposed else (inner, outer)
    steps = np.arange(chunk)
    chunks = start[:, None] + steps
    if (row[:, chunks] != row[:, start, None]).any() or (col[:, chunks] != col[:, start, None] + steps).any():
        raise LanemapError(f"{operand.layout} does not keep the {chunk} columns of a chunk together")
    end = start + chunk - 1
    return (row[:, start], col[:, start]), (row[:, end], col[:, end])
