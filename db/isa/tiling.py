"""Tilings: how the instructions of several warps make a tile."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..errors import LanemapError
from .instructions import AXES
from .types import shape_name

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
        shape, axes = shape_name(str(tile)), str(order or "m").lower()
        counts = _WARPS.fullmatch(str(warps or "1x1").lower())
        if not _SHAPE.fullmatch(shape):
            raise LanemapError(f"{tile!r} is no tile: write it like m64n64k32", "tile")
        if not counts:
            raise LanemapError(f"warps {warps!r}: write how many along M and N, as in 2x2", "warps")
        if axes[:1] not in ("m", "n") or len(axes) != len({*axes[1:]}) + 1 or not {*axes} <= {*"mnk"}:
            words = "write m or n, along which warps count first, and maybe the axes of their instructions, as in nkn"
            raise LanemapError(f"order {order!r}: {words}", "order")
        if not isinstance(contiguous, bool | None):
            raise LanemapError(f"contiguous {contiguous!r}: write true or false", "contiguous")
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
        rows, cols = (size * prod(counts[axis]) for size, axis in zip(dimensions, axes_of(axes), strict=True))
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
        first = sorted(axes_of(axes), key=f"{self.order[1:]}mnk".index)
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
        for number in range(prod(counts[axis][1] for axis in axes_of(axes))):
            at = tiling.repetition(number, shape, axes)
            steps = []
            for axis in axes_of(axes):
                (warps, times), its = counts[axis], of_warp.get(axis, 0)
                steps.append(its * times + at[axis] if tiling.contiguous else at[axis] * warps + its)
            row, col = (step * size for step, size in zip(steps, dimensions, strict=True))
            yield Piece(warp, number, row, col)


def axes_of(axes: str) -> str:
    """The axes of a shape that an operand counts: block scales are along K."""
    return axes.replace("s", "k")


def _digits(number: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """A number, or an array of them, as digits of these sizes, the first one fastest."""
    digits = {}
    for axis, size in sizes.items():
        number, digits[axis] = number // size, number % size
    return digits
