"""Tiles: the operand of many instructions over several warps, as a fragment of a larger group of threads."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..isa.tiling import Piece, Tiling, axes_of, grid, pieces
from ..text import grouped
from .fragment import Fragment, pack, packed

#: The threads of a block, and the elements of a tile with all its copies: more are a mistake.
_THREADS, _ELEMENTS = 1024, 1 << 20


def tiled(atom: Fragment, tiling: Tiling) -> Fragment:
    """The operand of a tile whose instructions have an operand each: threads, registers and cells are the tile's.

    Its threads are those of warp 0, then those of warp 1; its registers those of a warp's first instruction, then those
    of its second.

    Raises:
        LanemapError: the operand has no tiles, the tile is no multiple of the warps', or it is too large.
    """
    axes = atom.key.axes
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
        elements = packed(pack(_placed(atom, pieces(tiling, atom.shape, axes, atom.dimensions))))
    return replace(
        atom,
        elements=elements,  # type: ignore[arg-type] # the attribute unpacks it
        threads=threads,
        registers=atom.registers * prod(times),
        tiling=tiling,
        atom=atom,
    )


def _placed(atom: Fragment, held: Iterable[Piece]) -> Iterator[tuple[int, ...]]:
    """The elements of all pieces, by thread and register."""
    of_lane = grouped(atom.tuples(), lambda element: element[0])
    for warp, its in grouped(held, lambda piece: piece.warp).items():
        for lane, elements in of_lane.items():
            thread = warp * atom.threads + lane
            for _, number, down, across in its:
                first = number * atom.registers
                for _, reg, slot, row, col, last, computation in elements:
                    yield thread, first + reg, slot, down + row, across + col, across + last, computation


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
