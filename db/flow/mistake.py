"""Single mistakes in an operand: what is exchanged, transposed or off, and what each cell has instead."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..layout.algebra import Array
from ..layout.fragment import Fragment
from ..text import counted

#: The rows and columns of a matrix that ldmatrix and movmatrix transpose.
_BLOCK = 8


@dataclass(frozen=True, eq=False)
class Given:
    """An operand: its values (computations, rows, columns), and the fragment that says what holds it."""

    role: str
    values: Array
    fragment: Fragment

    @property
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

    def moves(self) -> Iterator[tuple[str, Array]]:
        """The single mistakes in it: in words, and for each of its cells the one whose value is there instead."""
        grid = np.arange(self.values.size).reshape(self.values.shape)
        cells, role, (_, rows, cols) = self.cells, self.role, self.values.shape
        axes = [("warp", 0, cells), ("lane", 1, cells), ("register", 2, cells), ("slot", 3, cells)]
        if (atom := self.fragment.atom) and atom.registers < cells.shape[2]:
            each = cells.reshape(*cells.shape[:2], -1, atom.registers, cells.shape[3])
            axes += [("instruction", 2, each), ("register", 3, each)]
        for name, axis, held in axes:
            of = f" of each instruction of {role}" if name == "register" and held is not cells else f" of {role}"
            for words, moved in exchanges(held.shape[axis]):
                new = held.take(moved, axis)
                if (new[held >= 0] >= 0).all():
                    index = grid.ravel().copy()
                    index[held[held >= 0]] = new[held >= 0]
                    yield words.format(f"{name}s", of), index
        for axis, name in ((1, "rows"), (2, "columns")):
            count = self.values.shape[axis]
            depth = self.fragment.key.axes[axis - 1] == "k"
            for words, moved in exchanges(count):
                named = words.format(name, f" of {role}")
                yield named.replace(f"halves of the {name}", "halves of K") if depth else named, grid.take(moved, axis)
            for by in (each for each in range(1, count) if 2 * each != count):
                words = f"{name} of {role} were {by} too high, and wrapped around"
                yield words, grid.take((np.arange(count) + by) % count, axis)
        if rows > 1 < cols:
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
                words = (
                    f"{role} were read {counted(abs(by), 'element')} too {'far' if by > 0 else 'early'} along its rows"
                )
                yield f"{words}, and wrapped around", np.roll(grid.reshape(len(grid), -1), -by, axis=1)

    def moves_in(self, warp: int) -> Iterator[tuple[str, Array]]:
        """The exchanges of two lanes of one warp, as that warp alone has them."""
        held = self.cells[warp] if warp < len(self.cells) else np.zeros((0, 0, 0), np.int64)
        for one, other in combinations(range(len(held)), 2):
            first, second = held[one], held[other]
            if ((first >= 0) == (second >= 0)).all():
                index = np.arange(self.values.size)
                index[first[first >= 0]], index[second[second >= 0]] = second[second >= 0], first[first >= 0]
                words = f"lanes {one} and {other} of {self.role} were exchanged in warp {warp} alone"
                yield words, index.reshape(self.values.shape)

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


def exchanges(count: int) -> Iterator[tuple[str, Array]]:
    """Single exchanges of numbers below a count: of halves, of two, by a bit and of two bits.

    >>> [words.format("rows", " of A") for words, _ in exchanges(4)][:2]
    ['the halves of the rows of A were exchanged', 'rows 0 and 1 of A were exchanged']
    """
    every = np.arange(count)
    found: list[tuple[str, Array]] = []
    if count % 2 == 0 and count > 2:
        found.append(("the halves of the {}{} were exchanged", np.roll(every, count // 2)))
    for one, other in combinations(range(count), 2):
        moved = np.where(every == one, other, np.where(every == other, one, every))
        found.append((f"{{}} {one} and {other}{{}} were exchanged", moved))
    width = max(count.bit_length() - 1, 0)
    if count == 1 << width:
        found += [(f"{{}}{{}} that differ in bit {bit} were exchanged", every ^ 1 << bit) for bit in range(width)]
        for low, high in combinations(range(width), 2):
            differ = (every >> low ^ every >> high) & 1
            moved = every ^ (differ << low | differ << high)
            found.append((f"bits {low} and {high} of the {{}}{{}} were exchanged", moved))
    seen = set()
    for words, moved in found:
        if (key := moved.tobytes()) not in seen:
            seen.add(key)
            yield words, moved
