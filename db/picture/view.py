"""How fragments are drawn: in full or in part, with which labels, and what stands out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..errors import LanemapError
from ..fragment import Fragment
from .runs import Run

_VALUES = re.compile(r"T(\d{1,4}):\{([^{}]+)\}")
_VALUE = re.compile(r"([a-z]+)(\d{1,4})(?:\.\.\1(\d{1,4}))?")


@dataclass(frozen=True)
class View:
    """How to draw.

    Args:
        lanes: only these lanes keep their colour. Default: all.
        values: as PTX writes elements, ``T0:{a0,a1} T1:{a0..a3}``: only these keep their colour.
        ptx: write ``T5:{a2,a3}``, the thread and its elements, rather than ``5:1.0-1``, lane, register and slots.
        whole: draw all lanes and columns of an operand of several warps. Default: what repeats only once.
        title: say above and below the picture what it shows.
    """

    lanes: Sequence[int] = ()
    values: str | None = None
    ptx: bool = False
    whole: bool = False
    title: bool = True

    @property
    def picks(self) -> bool:
        """Whether some elements stand out."""
        return bool(self.lanes or self.values)

    def shows(self, fragment: Fragment, run: Run) -> bool:
        """Whether one of the elements of a run keeps its colour."""
        if run.lane in self.lanes:
            return True
        first, last = (run.reg * fragment.slots + slot for slot in run.slots)
        mine = run.lane, letter(fragment)
        return any(value[:2] == mine and first <= value.last and value.first <= last for value in self._values)

    def sees(self, seen: Iterable[tuple[Fragment, Run]]) -> bool:
        """Whether all that is to stand out is among these elements."""
        lanes = set(self.lanes)
        values = {(each.lane, each.letter, at) for each in self._values for at in range(each.first, each.last + 1)}
        for fragment, run in seen:
            lanes.discard(run.lane)
            first = run.reg * fragment.slots
            values -= {(run.lane, letter(fragment), first + slot) for slot in range(run.slots[0], run.slots[1] + 1)}
        return not lanes and not values

    def check(self, fragments: Sequence[Fragment]) -> None:
        """Refuse to pick what no fragment has.

        Raises:
            LanemapError: names it, and the range.
        """
        threads = max(each.threads for each in fragments)
        for lane in (*self.lanes, *(value.lane for value in self._values)):
            if not 0 <= lane < threads:
                raise LanemapError(f"lane {lane} is outside {fragments[0]}: it goes from 0 to {threads - 1}")
        most = {letter(each): each.registers * each.slots - 1 for each in fragments}
        for value in self._values:
            if not value.first <= value.last <= most.get(value.letter, -1):
                known = ", ".join(f"{each}0 to {each}{last}" for each, last in most.items())
                raise LanemapError(f"{value.letter}{value.last} is not an element of {fragments[0]}: there is {known}")

    @cached_property
    def _values(self) -> Sequence[_Values]:
        text = "".join((self.values or "").split()).replace(",..,", "..")
        if _VALUES.sub("", text).strip(","):
            raise LanemapError(f"cannot read the values {self.values!r}: write them like 'T0:{{a0,a1}} T1:{{a0..a3}}'")
        found = []
        for lane, names in _VALUES.findall(text):
            for each in names.split(","):
                name, first, last = _matched(each).groups()
                found.append(_Values(int(lane), name, int(first), int(last or first)))
        return found


#: All in colour, with a title.
PLAIN = View()


class _Values(NamedTuple):
    """Elements ``letter`` ``first`` to ``last`` of a lane."""

    lane: int
    letter: str
    first: int
    last: int


def letter(fragment: Fragment) -> str:
    """What PTX calls the elements of a fragment: a0, a1, ..."""
    return fragment.role.lower()


def _matched(value: str) -> re.Match[str]:
    if matched := _VALUE.fullmatch(value):
        return matched
    raise LanemapError(f"cannot read the value {value!r}: write it like a0, or a0..a3")
