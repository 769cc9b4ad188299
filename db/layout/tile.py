"""Tiles: the operand of many instructions over several warps, as a fragment of a larger group of threads."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..errors import LanemapError
from ..isa.instructions import AXES, instruction
from ..isa.types import shape_name
from ..text import grouped
from .fragment import Fragment, packed

#: The threads of a block, and the elements of a tile with all its copies: more are a mistake.
_THREADS, _ELEMENTS = 1024, 1 << 20
_SHAPE = re.compile(r"(?=.)(?:m[0-9]{1,5})?(?:n[0-9]{1,5})?(?:k[0-9]{1,5})?")
_WARPS = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")


class Tiling(NamedTuple):
    """How instructions of several warps make a tile.

    ``shape`` has the extents of the tile, as in ``m64n64k32``; an axis that it leaves out is as long as one instruction
    of each warp. ``warps`` are how many along M and N: groups of as many threads as execute one instruction, which of
    wgmma are warpgroups. Warps that differ only along N hold the same A, and those that differ only along M the same B.

    The first letter of ``order`` is the axis along which warps are numbered first, m or n. The letters that follow are
    the axes along which the instructions of a warp are, and with them its registers: by default M, N, K. The
    instructions of the warps alternate, as in CuTe and Triton; ``contiguous`` are those of a warp neighbours.
    """

    shape: str
    warps: tuple[int, int] = (1, 1)
    order: str = "m"
    contiguous: bool = False

    @classmethod
    def of(
        cls, tile: str | None = None, warps: str | None = None, order: str | None = None, contiguous: bool | None = None
    ) -> "Tiling | None":
        """The tiling that a request describes; None where it names no tile, or an empty one as a form does.

        >>> Tiling.of("64x64", "2x2")
        Tiling(shape='m64n64', warps=(2, 2), order='m', contiguous=False)

        Raises:
            LanemapError: a word is not understood, or says something of a tile that is not named.
        """
        if not tile:
            for name, given in (("warps", warps), ("order", order), ("contiguous", contiguous)):
                if given:
                    raise LanemapError(f"{name} are of a tile: name it, as in m64n64k32", "tile")
            return None
        shape, counts, axes = shape_name(str(tile)), _WARPS.fullmatch(str(warps or "1x1")), str(order or "m").lower()
        if not _SHAPE.fullmatch(shape):
            raise LanemapError(f"{tile!r} is no tile: write it like m64n64k32", "tile")
        if not counts:
            raise LanemapError(f"warps {warps!r}: write how many along M and N, as in 2x2", "warps")
        if axes[:1] not in ("m", "n") or len(axes) != len({*axes[1:]}) + 1 or not {*axes} <= {*"mnk"}:
            words = "write m or n, along which warps count first, and maybe the axes of their instructions, as in nkn"
            raise LanemapError(f"order {order!r}: {words}", "order")
        return cls(shape, (int(counts[1]), int(counts[2])), axes, bool(contiguous))

    @property
    def identifier(self) -> str:
        """A name that is a part of one in C++, Python and MLIR.

        >>> Tiling("m64n64", (2, 2), "n").identifier
        'm64n64_2x2_n'
        """
        order = [self.order] if self.order != "m" else []
        return "_".join([self.shape, "x".join(map(str, self.warps)), *order, *["contiguous"] * self.contiguous])

    def __str__(self) -> str:
        order = f", in the order {self.order}" if self.order != "m" else ""
        return f"tile {self.shape} of {'x'.join(map(str, self.warps))} warps{order}{', contiguous' * self.contiguous}"

    @property
    def along(self) -> Mapping[str, int]:
        """How many warps there are along each axis that has several."""
        return dict(zip("mn", self.warps, strict=True))

    def dimensions(self, shape: str, axes: str, dimensions: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of an operand of the tile, whose ``dimensions`` in one instruction are these."""
        counts = grid(self, shape)
        rows, cols = (size * prod(counts[axis]) for size, axis in zip(dimensions, _axes(axes), strict=True))
        return rows, cols

    def copies(self, axes: str) -> int:
        """How many warps hold the same element of an operand: those that differ along no axis that it counts."""
        return prod(count for axis, count in self.along.items() if axis not in axes)

    def warp(self, number: Any) -> Mapping[str, Any]:
        """Where a warp, or each of an array of them, is along M and N."""
        first = sorted(self.along, key=f"{self.order[0]}mn".index)
        return _digits(number, {axis: self.along[axis] for axis in first})

    def repetition(self, number: Any, shape: str, axes: str) -> Mapping[str, Any]:
        """Which instruction of its warp one is along the axes of an operand, or each of an array of them.

        ``number`` is that of its registers: the first instruction has the first registers.
        """
        counts = grid(self, shape)
        first = sorted(_axes(axes), key=f"{self.order[1:]}mnk".index)
        return _digits(number, {axis: counts[axis][1] for axis in first})


@lru_cache(256)
def grid(tiling: Tiling, shape: str) -> Mapping[str, tuple[int, int]]:
    """How many warps and how many instructions of each there are along each axis, for a shape of these.

    >>> grid(Tiling("m64n64", (2, 2)), "m16n8k16")
    {'m': (2, 2), 'n': (2, 4), 'k': (1, 1)}

    Raises:
        LanemapError: the tile is no multiple of what the warps hold.
    """
    extents = {axis: int(extent) for axis, extent in AXES.findall(tiling.shape)}
    counts = {}
    for axis, size in AXES.findall(shape):
        warps = tiling.along.get(axis, 1)
        least = warps * int(size)
        extent = extents.get(axis, least)
        if least == 0 or extent == 0 or extent % least:
            made = f"{warps} warps of {size}" if warps > 1 else f"instructions of {size}"
            words = f"{axis} must be a multiple of {least}, for {made}" if least else "name one warp at least"
            raise LanemapError(f"tile {tiling.shape} of {shape}: {words}", "tile" if least else "warps")
        counts[axis] = warps, extent // least
    return counts


class Piece(NamedTuple):
    """What one instruction holds: its warp, which one of the warp's it is, and the cell of the tile where it begins."""

    warp: int
    number: int
    row: int
    col: int


def pieces(tiling: Tiling, shape: str, axes: str, dimensions: tuple[int, int]) -> Iterator[Piece]:
    """The pieces of a tile, by warp and number. ``dimensions`` are those of one operand with these axes.

    >>> list(pieces(Tiling("m32k16", (1, 2)), "m16n8k16", "mk", (16, 16)))[:2]
    [Piece(warp=0, number=0, row=0, col=0), Piece(warp=0, number=1, row=16, col=0)]
    """
    counts = grid(tiling, shape)
    for warp in range(prod(tiling.warps)):
        of_warp = tiling.warp(warp)
        for number in range(prod(counts[axis][1] for axis in _axes(axes))):
            at = tiling.repetition(number, shape, axes)
            steps = []
            for axis in _axes(axes):
                (warps, times), its = counts[axis], of_warp.get(axis, 0)
                steps.append(its * times + at[axis] if tiling.contiguous else at[axis] * warps + its)
            row, col = (step * size for step, size in zip(steps, dimensions, strict=True))
            yield Piece(warp, number, row, col)


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
    times = [counts[axis][1] for axis in _axes(axes)]
    if (threads := warps * atom.threads) > _THREADS:
        raise LanemapError(f"{warps} warps of {atom} are {threads} threads: a block has {_THREADS}", "warps")
    if threads * prod(times) * atom.per_thread > _ELEMENTS:
        raise LanemapError(f"{atom} in a {tiling} has more than {_ELEMENTS} elements: name a smaller one", "tile")
    elements = None
    if atom.has_rows:
        elements = packed(_placed(atom, pieces(tiling, atom.shape, axes, atom.dimensions)))
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
    repetitions = {f"rep_{axis}": at[axis] for axis in _axes(fragment.key.axes)}
    return {"lane": lane, "thread": thread, "warp": warp, **repetitions}


def _axes(axes: str) -> str:
    """The axes of a shape that an operand counts: block scales are along K."""
    return axes.replace("s", "k")


def _digits(number: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A number, or an array of them, as digits of these sizes, the first one fastest."""
    digits = {}
    for axis, size in sizes.items():
        number, digits[axis] = number // size, number % size
    return digits
