"""Who shares a row or a column of an operand, and how lanes reduce it, as softmax and the amax of scales need it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import numpy as np

from ..errors import LanemapError
from ..isa.instructions import instruction
from ..layout.algebra import Array
from ..layout.fragment import Fragment
from ..layout.structure import expect_ranges
from ..rows import Rows, Told
from ..text import counted, grouped, listed, spans

#: What of a matrix may be reduced to one value, or lie contiguously in memory, and what that is called.
LINES = {"row": "row", "col": "column"}

#: For a line of a fragment the sets of warps that hold the same part of it.
Parts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(Told):
    """How each row, or column, of an operand becomes one value in all lanes that hold some of it.

    A lane first combines what it holds of each: ``values`` has the elements (reg * slots + slot) that belong together,
    in the order of the first of each. Then every value is combined with that of the lane whose number differs by each
    of ``masks``, in this order, as ``shfl.sync.bfly`` does. Both are None where lanes do not agree on them; ``reason``
    says why. ``copies`` are masks that reach the same elements once more, so they are left out. ``warps`` has the warps
    that hold different parts of a line, which only shared memory brings together: under these parts the lines.

    ``line`` and ``lane`` are arrays with an element for each in ``fragment.table``; lines are numbered by computation,
    then row or column.
    """

    fragment: Fragment
    along: str
    line: Array
    values: tuple[tuple[int, ...], ...] | None
    masks: tuple[int, ...] | None
    copies: tuple[int, ...]
    warps: dict[Parts, list[int]]
    reason: str = ""
    remarks: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """What it takes, in a few words."""
        if self.masks is None or self.values is None:
            return "no butterfly of shuffles"
        several = f" of each of {len(self.values)} {self.word}s" * (len(self.values) > 1)
        shuffles = counted(len(self.masks), "shuffle") + several if self.masks else "no shuffle"
        return shuffles + f", then shared memory between {self._group}s" * bool(self.warps)

    @property
    def word(self) -> str:
        """What a row, or a column, is called."""
        return LINES[self.along]

    @property
    def _group(self) -> str:
        return instruction(self.fragment.instruction).vendor.group_name

    @property
    def _holder(self) -> str:
        return "thread" if self.fragment.tiling else "lane"

    def rows(self) -> Rows:
        """Every element, by row or column: the value that its lane combines it into, and the masks."""
        fragment, table = self.fragment, self.fragment.table
        value = {element: at for at, together in enumerate(self.values or ()) for element in together}
        masks = None if self.masks is None else " ".join(map(str, self.masks))
        rows = []
        for at in np.argsort(self.line, kind="stable").tolist():
            lane, reg, slot, _, _, _, computation = table[at].tolist()
            number = value.get(reg * fragment.slots + slot)
            line = int(table[at][self.along])
            rows.append((computation, line, lane // fragment.group, lane, reg, slot, number, masks))
        return Rows(("computation", self.along, "warp", self._holder, "reg", "slot", "value", "masks"), rows)

    def parts(self) -> Iterator[str | Rows]:
        """The verdict, the registers of each value, the masks, what warps share, and the lines of lanes."""
        yield f"{self.fragment} along each {self.word}: {self.verdict}"
        yield f"source: {self.fragment.source}"
        yield from self.details()

    def details(self) -> Iterator[str | Rows]:
        """All of these but the name, the verdict and the source."""
        if self.masks is None or self.values is None:
            yield f"why:    {self.reason}"
            yield self._holders()
            return
        if self.masks:
            shuffle = instruction(self.fragment.instruction).vendor.shuffle
            yield f"masks:  {', '.join(map(str, self.masks))}, in this order: x = op(x, {shuffle})"
        if self.copies:
            yield f"copies: masks {', '.join(map(str, self.copies))} reach the same elements again: leave them out"
        for parts, lines in self.warps.items():
            shared = ", ".join(" or ".join(map(str, part)) for part in parts)
            yield f"{self._group}s:  {shared} share {self.word}{'s' * (len(lines) > 1)} {self._listed(lines)}"
        yield self._combined()
        yield self._holders()

    def _listed(self, lines: Sequence[int]) -> str:
        """Lines in words."""
        if self.fragment.computations == 1:
            return spans(lines)
        return ", ".join(_name(self.fragment, self.along, line) for line in lines)

    def _combined(self) -> Rows:
        """The registers that each lane combines into each of its values."""
        slots = self.fragment.slots
        named = [[divmod(element, slots) for element in together] for together in self.values or ()]
        if slots == 1:
            return Rows(("value", "registers"), [(at, spans(reg for reg, _ in each)) for at, each in enumerate(named)])
        texts = (" ".join(f"{reg}.{slot}" for reg, slot in each) for each in named)
        return Rows(("value", "reg.slot"), [*enumerate(texts)])

    def _holders(self) -> Rows:
        """The lanes that hold the same lines, with these in the order of the values."""
        table = self.fragment.table
        held: dict[int, dict[int, None]] = {}
        for lane, line in zip(table["lane"].tolist(), self.line.tolist(), strict=True):
            held.setdefault(lane, {})[line] = None
        alike = grouped(held, lambda lane: tuple(held[lane]))
        name = partial(_name, self.fragment, self.along)
        rows = [(listed(lanes), " ".join(map(name, lines))) for lines, lanes in alike.items()]
        several = "computation:" if self.fragment.computations > 1 else ""
        return Rows((f"{self._holder}s", f"{several}{self.along} of value 0, 1, ..."), rows)


# A page and the header on it ask for the same.
@lru_cache(4)
def reduction(fragment: Fragment, along: str = "row") -> Reduction:
    """How each row, or with ``col`` each column, of a fragment is reduced.

    What it says is checked element by element: following the masks from any lane meets every element of its line that
    its warp holds, and each once.

    Raises:
        LanemapError: no lanes hold it, elements are outside it, or metadata chooses what a column has.
    """
    table = fragment.table
    if fragment.memory:
        raise LanemapError(f"{fragment} lies in {fragment.memory}: no lane holds a {LINES[along]} of it")
    expect_ranges(fragment)
    windows = bool((table["col"] < table["col_last"]).any())
    if windows and along == "col":
        raise LanemapError(f"metadata chooses the columns of {fragment}: reduce it along row")
    rows, cols = fragment.dimensions
    computation = table["computation"].astype(np.int64) - 1
    line = computation * fragment.ranges[along].stop + table[along]
    # The elements of a window are different ones, whatever columns they stand for; others may be copies.
    cell = np.arange(len(table)) if windows else (computation * rows + table["row"]) * cols + table["col"]
    element = table["reg"].astype(np.int64) * fragment.slots + table["slot"]
    lane = table["lane"].astype(np.int64)
    # A lane counts once what it holds twice.
    count, groups = int(cell.max()) + 1, fragment.threads // fragment.group
    once = np.unique(lane * count + cell, return_index=True)[1]
    of, cells = np.full((2, fragment.threads, fragment.per_thread), -1)
    of[lane[once], element[once]], cells[lane[once], element[once]] = line[once], cell[once]
    at, held = np.divmod(np.unique((line * groups + lane // fragment.group) * count + cell), count)
    sizes = np.bincount(at, minlength=(int(line.max()) + 1) * groups).reshape(-1, groups)
    word = LINES[along]
    warps, torn = _shared(*np.divmod(at, groups), held) if groups > 1 else ({}, [])

    def none(reason: str, values: tuple[tuple[int, ...], ...] | None = None) -> Reduction:
        return Reduction(fragment, along, line, values, None, (), warps, reason)

    if torn:
        return none(f"warps share some elements of {word} {_name(fragment, along, torn[0])}, but not all")
    holding, lanes = np.flatnonzero((of >= 0).any(axis=1)), np.arange(fragment.threads)
    usual = of[holding[0]]
    values = tuple(tuple(np.flatnonzero(usual == its).tolist()) for its in dict.fromkeys(usual[usual >= 0].tolist()))
    expected = np.full_like(of, -1)
    for value in values:
        expected[:, value] = of[:, value[:1]]
    distinct = (np.diff(np.sort(of[:, [value[0] for value in values]])) > 0).all(axis=1)
    alike = (of == expected).all(axis=1) & distinct
    if not alike[holding].all():
        odd = holding[~alike[holding]][0]
        return none(f"lane {odd} has its {word}s in other registers than lane {holding[0]}")
    parts = [np.sort(cells[:, value]) for value in values]
    same = [mask for mask in range(1, fragment.group) if (of == of[lanes ^ mask]).all()]
    copies = [mask for mask in same if all((part == part[lanes ^ mask]).all() for part in parts)]
    reached, masks = [0, *copies], []
    for mask in same:
        if mask not in reached:
            masks.append(mask)
            reached += [mask ^ other for other in reached]
    met = reduce(lambda found, mask: [*found, *(mask ^ other for other in found)], masks, [0])
    for value, part in zip(values, parts, strict=True):
        all_met = np.sort(part[(lanes[:, None] ^ met)[holding]].reshape(len(holding), -1))
        whole = sizes[of[holding, value[0]], holding // fragment.group]
        wrong = (all_met.shape[1] != whole) | (np.diff(all_met) == 0).any(axis=1)
        if wrong.any():
            its = int(of[holding[wrong][0], value[0]])
            sharing = listed(lane[line == its].tolist())
            return none(
                f"no XOR masks take lanes {sharing} to each element of {word} {_name(fragment, along, its)} once",
                values,
            )
    return Reduction(fragment, along, line, values, tuple(masks), tuple(copies), warps)


def _shared(line: Array, warp: Array, cell: Array) -> tuple[dict[Parts, list[int]], list[int]]:
    """The lines of which warps hold different parts, and those whose parts overlap.

    The arrays have the cells that each warp holds of each line, in order of line and warp.
    """
    found: dict[Parts, list[int]] = {}
    torn = []
    starts = np.flatnonzero((np.diff(line, prepend=-1) != 0) | (np.diff(warp, prepend=-1) != 0))
    each = zip(line[starts].tolist(), warp[starts].tolist(), np.split(cell, starts[1:]), strict=True)
    for its, holders in grouped(each, lambda holder: holder[0]).items():
        parts = grouped(holders, lambda holder: holder[2].tobytes()).values()
        if len(parts) > 1:
            found.setdefault(tuple(tuple(place for _, place, _ in part) for part in parts), []).append(its)
            cells = np.concatenate([part[0][2] for part in parts])
            torn += [its] if len(np.unique(cells)) < len(cells) else []
    return found, torn


def _name(fragment: Fragment, along: str, line: int) -> str:
    """What a line is called: its row or column, after its computation where there are several."""
    computation, at = divmod(line, fragment.ranges[along].stop)
    return f"{computation + 1}:{at}" if fragment.computations > 1 else str(at)
