"""Relations between numbered things: their blocks and strands, and labels that all of a block share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..db.errors import LanemapError
from ..db.layout.algebra import Array


class Contradiction(LanemapError):  # noqa: N818
    """What was measured is not a matrix product, or not the one that its anchor says."""


@dataclass(frozen=True)
class Side:
    """One side of a relation: how many things there are, and what to call one."""

    size: int
    name: Callable[[int], str]


def blocks(left: Array, right: Array, lefts: Side, rights: Side) -> tuple[Array, Array]:
    """Block numbers of all lefts and rights of a relation where any two lefts meet the same rights or none in common.

    The relation is given as pairs, in any order and with repetitions. Raises Contradiction for any other relation, and
    where something meets nothing.
    """
    met = np.zeros((lefts.size, rights.size), bool)
    met[left, right] = True
    for side, meets in ((lefts, met.any(axis=1)), (rights, met.any(axis=0))):
        if not meets.all():
            raise Contradiction(f"{side.name(int(np.argmin(meets)))} meets nothing")
    names, block = np.unique(met.argmax(axis=1), return_inverse=True)
    right_block = np.full(rights.size, len(names))
    np.minimum.at(right_block, right, block[left])
    pairs = np.bincount(block) * np.bincount(right_block, minlength=len(names))
    if (block[left] == right_block[right]).all() and np.count_nonzero(met) == pairs.sum():
        return block, right_block
    left, right = np.nonzero(met)
    whole = (block[left] == right_block[right]) & (np.bincount(block[left], minlength=len(names)) == pairs)[block[left]]
    at = int(np.argmin(whole))
    raise Contradiction(
        f"{lefts.name(int(left[at]))} meets {rights.name(int(right[at]))} but not all that others which meet it do"
    )


def strands(left: Array, right: Array, lefts: int, rights: int) -> Array:
    """Numbers of the connected parts of a relation given as pairs, for each right."""
    part = np.arange(rights)
    while True:
        least = np.full(lefts, rights)
        np.minimum.at(least, left, part[right])
        joined = part.copy()
        np.minimum.at(joined, right, least[left])
        if (joined == part).all():
            return np.unique(part, return_inverse=True)[1]
        part = joined


def common(labels: Array, block: Array, names: Side, what: str) -> Array:
    """The label of each block, where all of its members have one and no other block has it; else a Contradiction."""
    _, first = np.unique(block, return_index=True)
    of_block = labels[first]
    differs = of_block[block] != labels
    if differs.any():
        odd = int(np.argmax(differs))
        raise Contradiction(
            f"{names.name(int(first[block[odd]]))} and {names.name(odd)} are in one {what} as measured, "
            f"in two by the documented D"
        )
    values, repeats = np.unique(of_block, return_counts=True)
    if (repeats > 1).any():
        one, other = np.flatnonzero(of_block == values[np.argmax(repeats)])[:2]
        raise Contradiction(
            f"{names.name(int(first[one]))} and {names.name(int(first[other]))} are in two {what}s as measured, "
            f"in one by the documented D"
        )
    return of_block
