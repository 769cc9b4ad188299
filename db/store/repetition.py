"""Which rows of a layout are stored: those of a part are rows of a larger layout, and what repeats is stored once."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..layout.fragment import chosen

#: How often the rows of a layout are taken at most.
_MOST = 32

#: Of fewer elements all are stored: it takes longer to look for a repetition.
_FEWEST = 2048


class Extent(NamedTuple):
    """The elements below so many registers and columns, ``times``.

    Each time they are so many registers and ``width`` columns further. Where nothing repeats, it is no less than the
    columns, and negative where some are below 0, as in a layout that is wrong.
    """

    registers: int
    cols: int
    times: int
    width: int

    def within(self, table: Any) -> Any:
        """The elements of a table that are stored."""
        return chosen(table, (table["reg"] < self.registers) & (table["col"] < self.cols))

    def part(self, whole: "Extent", count: int, held: int) -> "Extent | None":
        """That of a part of the table which has this extent; None if it ends within a repetition.

        ``whole`` is the extent of all that the part has, ``count`` how many elements that is, and ``held`` how many are
        stored of the table.
        """
        if whole.registers <= self.registers and whole.cols <= self.cols:
            return whole
        times = whole.cols // self.width
        return self._replace(times=times) if count == times * held else None


def extents(tables: Mapping[str, Any], shared: Mapping[str, str], wholes: Mapping[str, Extent]) -> dict[str, Extent]:
    """The extent of each table, by digest. ``shared`` has the digest of the larger one of those that are a part.

    ``wholes`` are the extents of all that they have, see ``whole``.
    """
    parts = defaultdict[str, list[str]](list)
    for digest, lender in shared.items():
        parts[lender].append(digest)
    found: dict[str, Extent] = {}
    for lender in tables.keys() - shared.keys():
        for extent in (_period(tables[lender], wholes[lender]), wholes[lender]):
            held = len(extent.within(tables[lender]))
            of_parts = {part: extent.part(wholes[part], len(tables[part]), held) for part in parts[lender]}
            if all(of_parts.values()):
                break
        found |= {lender: extent} | {digest: of for digest, of in of_parts.items() if of}
    return found


def lenders(tables: Mapping[str, Any], families: Mapping[str, str], wholes: Mapping[str, Extent]) -> dict[str, str]:
    """For each table that is the part of a larger one in its registers and columns, the digest of that, by digest.

    ``families`` has, by the digest of each member, that of the table of which it has the first columns.
    """
    largest = defaultdict[bytes, list[str]](list)
    shared: dict[str, str] = {}
    for digest, table in sorted(tables.items(), key=lambda item: -len(item[1])):
        family = families.get(digest, digest)
        if family != digest and family in tables:
            shared[digest] = shared.get(family, family)
            continue

        def holds(larger: str, part: Any = table, extent: Extent = wholes[digest]) -> bool:
            return np.array_equal(extent.within(tables[larger]).view("<i2"), part.view("<i2"))

        # Either is the same in a part, whose columns are fewer, or whose registers are.
        alike = [chosen(table, table[name] == 0).tobytes() for name in ("col", "reg")]
        found = filter(holds, dict.fromkeys(chain.from_iterable(largest[begin] for begin in alike)))
        if (larger := next(found, None)) is not None:
            shared[digest] = larger
            continue
        for begin in alike:
            largest[begin].append(digest)
    return shared


def whole(table: Any) -> Extent:
    """The extent of all that a table has."""
    registers, cols = (int(table[name].max(initial=-1)) + 1 for name in ("reg", "col"))
    least = int(table["col"].min(initial=0))
    width = 1 << max(cols - 1, -least).bit_length()  # a power of two, so that there are few repetitions
    return Extent(registers, cols, 1, -width if least < 0 else width)


def _period(table: Any, whole: Extent) -> Extent:
    """The smallest extent of which the table is a repetition."""
    registers, cols, *_ = whole
    if len(table) < _FEWEST:
        return whole
    reg, col = (np.ascontiguousarray(table[name]) for name in ("reg", "col"))
    for times in range(min(_MOST, cols), 1, -1):
        if cols % times or len(table) % times:
            continue
        width = cols // times
        number = col // width
        first, second = (reg[number == at].min(initial=registers) for at in (0, 1))
        extent = Extent(int(second) - int(first), width, times, width)
        if extent.registers <= 0 or (reg // extent.registers != number).any():
            continue
        moved = table.copy()
        moved["reg"] -= number * extent.registers
        for name in ("col", "col_last"):
            moved[name] -= number * width
        repetitions = chosen(moved, np.argsort(number, kind="stable")).reshape(times, -1)
        if (repetitions == repetitions[0]).all():
            return extent
    return whole
