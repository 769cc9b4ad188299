"""Tiles: the operand of many instructions over several warps, as a fragment of a larger group of threads."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..isa.tiling import Piece, Tiling, axes_of, grid, pieces
from ..text import grouped
from .fragment import Element, Fragment, Packed, pack, packed

#: The threads of a block, and the elements of a tile with all its copies: more are a mistake.
_THREADS, _ELEMENTS = 1024, 1 << 20


def tiled(atom: Fragment, tiling: Tiling) -> Fragment:
    """The operand of a tile whose instructions have an operand each: threads, registers and cells are the tile's.

    Its threads are those of warp 0, then those of warp 1; its registers those of a warp's first instruction, then those
    of its second.

    Raises:
        LanemapError: the operand has no tiles or is one, the tile is no multiple of the warps', or it is too large.
    """
    axes = atom.key.axes
    if atom.tiling:
        raise LanemapError(f"{atom} is a tile already: name that of its instruction, {atom.atom}", "tile")
    if atom.tile or not instruction(atom.instruction).multiplies or not {*axes} <= {*"mnks"}:
        where = "is in shared memory" if atom.tile else "is no operand of a product in registers"
        raise LanemapError(f"{atom} {where}: tiles are of A, B, C, D, E, SFA and SFB in registers", "tile")
    counts, warps = grid(tiling, atom.shape), prod(tiling.warps)
    times = [counts[axis][1] for axis in axes_of(axes)]
    if (threads := warps * atom.threads) > _THREADS:
        raise LanemapError(f"{warps} warps of {atom} are {threads} threads: a block has {_THREADS}", "warps")
    if threads * prod(times) * atom.per_thread > _ELEMENTS:
        raise LanemapError(f"{atom} in a {tiling} has more than {_ELEMENTS} elements: name a smaller one", "tile")
    elements = None
    if atom.has_rows:
        elements = _placed(atom, pieces(tiling, atom.shape, axes, atom.dimensions))
    return replace(
        atom,
        elements=elements,  # type: ignore[arg-type] # the attribute unpacks it
        threads=threads,
        registers=atom.registers * prod(times),
        tiling=tiling,
        atom=atom,
    )


def joined(operand: Fragment, down: int, across: int) -> Fragment:
    """Equal operands as one matrix, row by row: the registers of each follow those of the one before."""
    if down == across == 1:
        return operand
    rows, cols = operand.dimensions
    held = pieces(Tiling(f"m{down * rows}n{across * cols}", order="mn"), f"m{rows}n{cols}", "mn", (rows, cols))
    return replace(operand, registers=down * across * operand.registers, elements=_placed(operand, held))  # type: ignore[arg-type]


def _placed(atom: Fragment, held: Iterable[Piece]) -> Packed:
    """The elements of all pieces, by thread and register."""
    data, size = atom.packed, 2 * len(Element._fields)
    lanes = memoryview(data).cast("h")[:: size // 2].tolist()
    starts = [bisect_left(lanes, lane) * size for lane in dict.fromkeys(lanes)]
    runs = [slice(*ends) for ends in pairwise([*starts, len(data)])]
    # All numbers of 16 bits are added at once: without their highest bits, so that nothing is carried to the next.
    whole, signs, ones = (
        int.from_bytes(each, "little")
        for each in (data, b"\0\x80" * (len(data) // 2), (1).to_bytes(size, "little") * len(lanes))
    )
    highest, others = whole & signs, whole & ~signs

    def moved(piece: Piece) -> bytes:
        first = Element(piece.warp * atom.threads, piece.number * atom.registers, 0, *piece[2:], piece.col, 0)
        added = int.from_bytes(pack([first]), "little") * ones
        return (others + added ^ highest).to_bytes(len(data), "little")

    of_warps = ([*map(moved, its)] for its in grouped(held, lambda piece: piece.warp).values())
    return packed(b"".join(one[run] for its in of_warps for run in runs for one in its))


def claimed(fragment: Fragment, tiling: Tiling) -> Fragment:
    """What claims to be the operand of a tile, such as a table whose lanes count the threads of all warps."""
    atom = Fragment.of(fragment.key, None, fragment.status)
    grid(tiling, atom.shape)
    return replace(fragment, threads=prod(tiling.warps) * atom.threads, tiling=tiling, atom=atom)


def of_threads(fragment: Fragment) -> dict[str, range]:
    """The ranges of what names threads: ``thread`` in the group of all, its ``warp``, and its ``lane`` in the warp."""
    lanes = (fragment.atom or fragment).threads
    return {"thread": range(fragment.threads), "warp": range(fragment.threads // lanes), "lane": range(lanes)}


def threads_at(fragment: Fragment, **named: int) -> list[int]:
    """The threads that have these numbers, any of ``thread``, ``warp`` and ``lane``."""
    lanes = (fragment.atom or fragment).threads
    numbers = (
        (thread, {"thread": thread, "warp": thread // lanes, "lane": thread % lanes})
        for thread in range(fragment.threads)
    )
    return [thread for thread, its in numbers if named.items() <= its.items()]


#: What is said of a place in a tile.
IN_TILE = ("lane", "thread", "warp", "rep_m", "rep_n", "rep_k")


def in_tile(fragment: Fragment, thread: Any, reg: Any) -> dict[str, Any]:
    """Where registers, or arrays of them, are in a tile: lane, thread, warp, and ``rep_m`` and so on.

    These count the instructions of the warp along each axis: with ``rep_n`` 1 one is its second along N.
    """
    if not fragment.tiling or not fragment.atom:
        return {}
    warp, lane = divmod(thread, fragment.atom.threads)
    at = fragment.tiling.repetition(reg // fragment.atom.registers, fragment.shape, fragment.key.axes)
    repetitions = {f"rep_{axis}": at[axis] for axis in axes_of(fragment.key.axes)}
    return {"lane": lane, "thread": thread, "warp": warp, **repetitions}
