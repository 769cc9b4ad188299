"""A layout as formulas both ways: from a slot to its cell, and from a cell to its slot."""

from collections.abc import Sequence

from ..layout.digits import sums
from ..layout.fragment import PLACE, Fragment
from .facts import unit

_CELL = ("computation", "row", "col")


def to_cell(fragment: Fragment) -> list[str]:
    """The row and column that a lane, register and slot hold, as formulas; none where they are no sums of digits."""
    return _solved(fragment, PLACE, ("row", "col", "col_last") if fragment.windowed else ("row", "col"))


def in_cases(fragment: Fragment) -> list[str]:
    """What ``to_cell`` has, or else the notation of the PTX ISA; none where that cannot say it, either."""
    if (lines := to_cell(fragment)) or not fragment.has_rows:
        return lines
    from .notation.closed_forms import ptx_formula
    from .notation.table import RefusedError

    try:
        return ptx_formula(fragment, "").splitlines()
    except RefusedError:
        return []


def to_slot(fragment: Fragment) -> list[str]:
    """The lane, register and slot that hold a cell, as formulas; none where several do, or see ``to_cell``.

    Of an operand in shared memory it is the word, and the slot in it.
    """
    return [] if fragment.windowed else _solved(fragment, _CELL, PLACE[1:] if fragment.tile else PLACE)


def _solved(fragment: Fragment, given: Sequence[str], wanted: Sequence[str]) -> list[str]:
    if not fragment.has_rows:
        return []
    columns = fragment.columns()
    varying = [name for name in given if columns[name].count(columns[name][0]) < len(columns[name])] or [*given[:1]]
    axes: dict[str, Sequence[int]] = {name: columns[name] for name in varying}
    if "computation" in axes:
        axes = {"(computation - 1)": [number - 1 for number in axes.pop("computation")], **axes}
    texts = sums(axes, (columns[name] for name in wanted)) or []
    names = (unit(fragment) if name == "reg" and fragment.tile else name for name in wanted)
    return [f"{name} = {text}" for name, text in zip(names, texts, strict=False)]
