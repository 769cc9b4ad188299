"""Things put together that have something in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Common = TypeVar("Common", bound=Hashable)


def grouped(items: Iterable[Item], common: Callable[[Item], Common]) -> dict[Common, list[Item]]:
    """The items by what they have in common; groups, and the items in each, in the order in which they come.

    >>> grouped(["mma", "wgmma", "mma.sp"], lambda name: name[0])
    {'m': ['mma', 'mma.sp'], 'w': ['wgmma']}
    """
    found: dict[Common, list[Item]] = {}
    for each in items:
        found.setdefault(common(each), []).append(each)
    return found
