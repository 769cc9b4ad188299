"""Moves of matrices between memory and registers, from CuTe's layouts of copies.

A layout takes (thread, bit) to a bit of the tile. On the side of memory each thread names 16 bytes of it, a row; lane
R i + j names row j of matrix i + 1, where a matrix has R rows (PTX ISA 9.7.14.5.15). So the row and the column of what
a register holds are those of the bytes that its bits come from, whatever order the tile is in. Tensor Memory has an
address for each bit instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.fragment import Fragment, by_rule, elements
from ..db.instructions import Key, computations, dimensions, operand
from .shape_stride import LANE_BITS, Layout, indices, thread_value

_ROW_BITS = 128
_COLUMN_BITS = 32


def fragments(key: Key, source: Layout, target: Layout, origin: str) -> Iterator[Fragment]:
    """The fragments of a move: registers ``r`` and addresses ``p``, or A and D of movmatrix.

    The addresses are left out where the tile has an order of its own, which says nothing about the instruction.

    Raises:
        LanemapError: the layouts are not those of the instruction.
    """
    sides = thread_value(source), thread_value(target)
    if key.instruction == "movmatrix":
        for role, bits in zip("AD", sides, strict=True):
            yield _held(key._replace(role=role), bits, origin)
        return
    held, memory = reversed(sides) if key.instruction == "ldmatrix" else sides
    yield _held(key, held, origin, memory)
    if (memory[:8, 0] == _ROW_BITS * np.arange(8)).all():
        (rows, _), count = _tile(key)
        lanes = np.arange(rows * count)
        row = memory[lanes, 0] // _ROW_BITS
        columns = {"lane": lanes, "row": row % rows, "computation": row // rows + 1}
        zero = dict.fromkeys(("reg", "slot", "col"), 0 * lanes)
        yield _made(key._replace(role="p"), elements({**columns, **zero}), origin)


def tensor_memory(key: Key, held: Layout, values: Layout, origin: str) -> Fragment:
    """The registers of a load or a store of Tensor Memory, with its lanes as rows and its columns as columns.

    Where an instruction makes two accesses, CuTe puts the second right behind the first; here they are two matrices.
    Two columns that are packed into one register are its two slots.

    Args:
        key: names the registers.
        held: takes (thread, bit) to a bit of all that is moved.
        values: takes a bit of all that is moved to its bit in Tensor Memory.
        origin: where the layouts were found.

    Raises:
        LanemapError: the layouts are not those of the instruction.
    """
    start = _starts(key, indices(values)[thread_value(held)])
    if (start % _COLUMN_BITS).any():
        raise LanemapError("its layout does not keep the bits of a column together")
    (_, columns), _ = _tile(key)
    column = start % LANE_BITS // _COLUMN_BITS
    slots = operand(key).slots
    made = by_rule(slots, start // LANE_BITS, column % columns, computation=column // columns + 1)
    return _made(key, made, origin)


def _held(key: Key, held: NDArray[Any], origin: str, memory: NDArray[Any] | None = None) -> Fragment:
    """What the registers hold, where memory's bytes are in the order of the tile, or each thread names its own."""
    ((rows, columns), _), of = _tile(key), operand(key)
    if (size := columns * of.slot_bits) != _ROW_BITS:
        raise LanemapError(f"a row of {key.shape} has {size // 8} bytes, and an address is that of 16")
    start = _starts(key, held)
    named = _ROW_BITS * np.arange(held.size // _ROW_BITS) if memory is None else memory[: held.size // _ROW_BITS, 0]
    giver = np.argsort(named)[np.searchsorted(np.sort(named), start, side="right") - 1]
    row, col = giver % rows, (start - named[giver]) // of.slot_bits
    if key.role == "D":
        row, col = col, row
    return _made(key, by_rule(of.slots, row, col, computation=giver // rows + 1), origin)


def _starts(key: Key, bits: NDArray[Any]) -> NDArray[Any]:
    """Where the first bit of each element is; the others follow it. Both are arrays (threads, ...)."""
    of = operand(key)
    if bits.shape != (of.threads, of.registers * of.register_bits):
        raise LanemapError(f"its layout is for {bits.shape[1]} bits of {len(bits)} threads, not for {key}")
    start = bits[:, :: of.slot_bits]
    if (bits != np.repeat(start, of.slot_bits, axis=1) + np.tile(np.arange(of.slot_bits), start.shape[1])).any():
        raise LanemapError(f"its layout does not keep the {of.slot_bits} bits of an element together")
    return start


def _made(key: Key, made: NDArray[Any], origin: str) -> Fragment:
    of = operand(key)
    return Fragment(
        **key._asdict(), registers=of.registers, slots=of.slots, elements=made, status="imported", origin=origin
    )


def _tile(key: Key) -> tuple[tuple[int, int], int]:
    """Rows and columns of a matrix, and how many there are."""
    extents = dimensions(key.shape, key.role, key.instruction, key.qualifiers)
    return extents, computations(key.instruction, key.shape, key.type, key.qualifiers)
