"""Single mistakes in an operand: what is exchanged, transposed or off, and what each cell has instead."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..layout.algebra import Array
from ..layout.fragment import Fragment
from ..text import counted

#: The rows and columns of a matrix that ldmatrix and movmatrix transpose.
_BLOCK = 8


class Mistake(NamedTuple):
    """A single mistake, in words: ``cells`` have the values of others ``instead``, maybe for some ``warps`` alone."""

    words: str
    cells: Array
    instead: Array
    warps: tuple[int, ...] | None = None


class Sieve(NamedTuple):
    """What refuses most mistakes at once: a sum over D, to which each cell of an operand adds its value times a weight.

    A mistake that explains D changes the sum by what is ``off``, but for ``limit``, and for multiples of ``wraps``.
    """

    weights: Array
    off: float
    limit: float
    wraps: int

    def passes(self, changes: Array) -> Array:
        """Which of these changes may be right."""
        apart = changes - self.off
        apart = apart - np.rint(apart / self.wraps) * self.wraps if self.wraps else apart
        return ~(np.abs(apart) > self.limit)  # what is no number may be


@dataclass(frozen=True, eq=False)
class Given:
    """An operand: its values (computations, rows, columns), and the fragment that says what holds it."""

    role: str
    values: Array
    fragment: Fragment

    @cached_property
    def cells(self) -> Array:
        """The cell, counted in ``values``, that each warp, lane, register and slot holds; -1 where it is none."""
        of = self.fragment
        if of.tile:
            return np.zeros((0, 0, 0, 0), np.int64)
        table, (_, rows, cols) = of.table, self.values.shape
        row, col = table["row"].astype(np.int64), table["col"].astype(np.int64)
        if of.windowed:  # what is stored of a chunk of columns follows each other there
            order = np.lexsort((table["slot"], table["reg"], table["lane"], table["col_last"], col, row))
            kept = cols * of.chunk // of.dimensions[1]
            chunk = row[order] * of.dimensions[1] + col[order] // of.chunk
            nth = np.arange(len(order)) - np.searchsorted(chunk, chunk)
            col[order] = col[order] // of.chunk * kept + nth
        found = np.full((of.threads, of.registers, of.slots), -1)
        found[table["lane"], table["reg"], table["slot"]] = (table["computation"] - 1) * rows * cols + row * cols + col
        return found.reshape(-1, of.group, of.registers, of.slots)

    def mistakes(self, sieve: Sieve | None, alone: Iterable[int]) -> Iterator[Mistake]:
        """The single mistakes in it that pass, also those that one of some warps ``alone`` may have."""
        grid, flat = np.arange(self.values.size).reshape(self.values.shape), self.values.ravel()
        weights = sieve.weights.ravel() / self.fragment.copies if sieve else np.zeros(flat.shape)
        held, role, atom = self.cells, self.role, self.fragment.atom
        axes = [("warp", 0, held), ("lane", 1, held), ("register", 2, held), ("slot", 3, held)]
        if atom and atom.registers < held.shape[2]:
            each = held.reshape(*held.shape[:2], -1, atom.registers, held.shape[3])
            axes += [("instruction", 2, each), ("register", 3, each)]
        axes += [("row", 1, grid), ("column", 2, grid)]
        for name, axis, places in axes if held.size else axes[-2:]:
            of = f" of each instruction of {role}" if places.ndim == 5 > axis > 2 else f" of {role}"
            lines = np.moveaxis(places, axis, 0).reshape(places.shape[axis], -1)
            # The sum with the values of each line where those of another one are.
            sums = np.where(lines < 0, 0, flat[lines]) @ np.where(lines < 0, 0, weights[lines]).T
            sums *= self.fragment.copies if places is grid else 1
            depth = places is grid and self.fragment.key.axes[axis - 1] == "k"
            for words, at, moved in exchanges(len(lines)):
                likely = [*range(len(at))]
                if sieve and name != "warp":
                    likely = np.flatnonzero(sieve.passes((sums[moved, at] - sums[at, at]).sum(axis=1))).tolist()
                for one in likely:
                    named = words.format(*at[one].tolist()[:2], names=f"{name}s", of=of)
                    named = named.replace(f"halves of the {name}s", "halves of K") if depth else named
                    warps = tuple(at[one].tolist()) if name == "warp" else None
                    cells, instead = lines[at[one]].ravel(), lines[moved[one]].ravel()
                    if places is grid:
                        yield Mistake(named, cells, instead)
                    else:
                        yield from self._told(named, cells, instead, warps)
        for warp in alone if len(held) > 1 else ():
            lines = held[warp].reshape(held.shape[1], -1)
            for one, other in combinations(range(len(lines)), 2):
                words = f"lanes {one} and {other} of {role} were exchanged in warp {warp} alone"
                yield from self._told(words, lines[[one, other]].ravel(), lines[[other, one]].ravel(), (warp,))
        for words, index in self._whole(grid):
            if sieve is None or sieve.passes(((flat[index] - self.values) * sieve.weights).sum()):
                cells = np.flatnonzero(index != grid)
                yield Mistake(words, cells, index.ravel()[cells])

    def _told(self, words: str, cells: Array, instead: Array, warps: tuple[int, ...] | None) -> Iterator[Mistake]:
        """An exchange of what places hold, where each of them holds something and all copies of a cell agree."""
        some = cells >= 0
        if (instead[some] < 0).any():
            return
        cells, instead = cells[some], instead[some]
        if self.fragment.copies > 1:
            (cells, instead), counts = np.unique(np.stack([cells, instead]), axis=1, return_counts=True)
            if len(np.unique(cells)) < len(cells) or (warps is None and counts.min() < self.fragment.copies):
                return
        yield Mistake(words, cells, instead, warps)

    def _whole(self, grid: Array) -> Iterator[tuple[str, Array]]:
        """Offsets and transpositions: in words, and the cell whose value each one has instead."""
        role, (_, rows, cols) = self.role, grid.shape
        for axis, name in ((1, "rows"), (2, "columns")):
            count = grid.shape[axis]
            for by in (each for each in range(1, count) if 2 * each != count):
                words = f"{name} of {role} were {by} too high, and wrapped around"
                yield words, np.roll(grid, -by, axis)
        if rows == 1 or cols == 1:
            return
        if rows == cols:
            yield f"{role} were transposed", grid.swapaxes(1, 2)
        else:
            other = f"{role} were stored by the other of rows and columns"
            yield f"{other}, and read along rows", grid.swapaxes(1, 2).reshape(grid.shape)
            yield f"{other}, and read along columns", grid.reshape(-1, cols, rows).swapaxes(1, 2)
        if not rows % _BLOCK and not cols % _BLOCK and rows * cols > _BLOCK**2:
            blocks = grid.reshape(-1, rows // _BLOCK, _BLOCK, cols // _BLOCK, _BLOCK).swapaxes(2, 4)
            yield f"blocks of 8 x 8 of {role} were transposed", blocks.reshape(grid.shape)
        for by in (each for distance in range(1, cols) for each in (distance, -distance)):
            words = f"{role} were read {counted(abs(by), 'element')} too {'far' if by > 0 else 'early'} along its rows"
            yield f"{words}, and wrapped around", np.roll(grid.reshape(len(grid), -1), -by, 1).reshape(grid.shape)

    def swapped(self, other: "Given") -> tuple[Array, Array] | None:
        """The values of both with the registers of each other, where both fill as many; else None."""
        if self.cells.shape != other.cells.shape or not self.cells.size or ((self.cells | other.cells) < 0).any():
            return None
        made = []
        for to, source in ((self, other), (other, self)):
            values = np.empty(to.values.size)
            values[to.cells.ravel()] = source.values.ravel()[source.cells.ravel()]
            made.append(values.reshape(to.values.shape))
        return made[0], made[1]


def exchanges(count: int) -> Iterator[tuple[str, Array, Array]]:
    """Single exchanges of numbers below a count: of halves, of two, by a bit and of two bits.

    In words, with the numbers that change and those that are there instead: a line for each that the words are of.

    >>> [words.format(0, 1, names="rows", of=" of A") for words, *_ in exchanges(4)][:2]
    ['the halves of the rows of A were exchanged', 'rows 0 and 1 of A were exchanged']
    """
    every, bits = np.arange(count)[None], count.bit_length() - 1
    if count % 2 == 0 and count > 2:
        yield "the halves of the {names}{of} were exchanged", every, np.roll(every, count // 2)
    pairs = np.stack(np.triu_indices(count, 1), axis=1)
    yield "{names} {0} and {1}{of} were exchanged", pairs, pairs[:, ::-1]
    if count == 1 << bits > 2:  # those that differ in the highest bit are the halves
        for bit in range(bits - 1):
            yield f"{{names}}{{of}} that differ in bit {bit} were exchanged", every, every ^ 1 << bit
        for low, high in combinations(range(bits), 2) if count > 4 else ():
            differ = every[(every >> low ^ every >> high) & 1 > 0][None]
            words = f"bits {low} and {high} of the {{names}}{{of}} were exchanged"
            yield words, differ, differ ^ (1 << low | 1 << high)
