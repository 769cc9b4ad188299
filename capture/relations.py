"""Relations between numbered things: blocks, strands, and the assignment of labels that agrees most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError


class Contradiction(LanemapError):  # noqa: N818
    """What was measured is not a matrix product, or not the one that its anchor says."""


@dataclass(frozen=True)
class Side:
    """One side of a relation: how many things there are, and what to call one."""

    size: int
    name: Callable[[int], str]


def blocks(left: NDArray[Any], right: NDArray[Any], lefts: Side, rights: Side) -> tuple[NDArray[Any], NDArray[Any]]:
    """Block numbers of all lefts and rights of a relation where any two lefts meet the same rights or none in common.

    The relation is given as pairs, in any order and with repetitions. Raises Contradiction for any other relation, and
    where something meets nothing.
    """
    met = np.zeros((lefts.size, rights.size), bool)
    met[left, right] = True
    left, right = np.nonzero(met)
    first = np.full(lefts.size, rights.size)
    np.minimum.at(first, left, right)
    of_right = np.full(rights.size, rights.size)
    np.minimum.at(of_right, right, first[left])
    for side, found in ((lefts, first), (rights, of_right)):
        if (found == rights.size).any():
            raise Contradiction(f"{side.name(int(np.argmax(found)))} meets nothing")
    names, block = np.unique(first, return_inverse=True)
    right_block = np.searchsorted(names, of_right)
    pairs = np.bincount(block) * np.bincount(right_block, minlength=len(names))
    whole = (block[left] == right_block[right]) & (np.bincount(block[left], minlength=len(names)) == pairs)[block[left]]
    if not whole.all():
        at = int(np.argmin(whole))
        raise Contradiction(
            f"{lefts.name(int(left[at]))} meets {rights.name(int(right[at]))} but not all that others which meet it do"
        )
    return block, right_block


def strands(left: NDArray[Any], right: NDArray[Any], lefts: int, rights: int) -> NDArray[Any]:
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


def common(labels: NDArray[Any], block: NDArray[Any], names: Side, what: str) -> NDArray[Any]:
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


def assignment(votes: NDArray[Any]) -> NDArray[Any]:
    """The label (column) of each row of a square matrix of votes such that the votes for them sum to the most.

    The Hungarian method, with one shortest augmenting path for each row; ties go to low labels.
    """
    size = len(votes)
    cost = -votes.astype(np.int64)
    row_price, column_price = np.zeros(size, np.int64), np.zeros(size, np.int64)
    row_of = np.full(size, -1)
    for row in range(size):
        slack, reached_from = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        done = np.zeros(size, bool)
        at, column = row, -1
        while at >= 0:
            reduced = cost[at] - row_price[at] - column_price
            better = ~done & (reduced < slack)
            slack[better], reached_from[better] = reduced[better], column
            nearest = int(np.argmin(np.where(done, np.iinfo(np.int64).max, slack)))
            step = slack[nearest]
            row_price[[row, *row_of[done]]] += step
            column_price[done] -= step
            slack[~done] -= step
            done[nearest] = True
            at, column = int(row_of[nearest]), nearest
        while column >= 0:
            before = int(reached_from[column])
            row_of[column] = row if before < 0 else row_of[before]
            column = before
    label = np.empty(size, np.intp)
    label[row_of] = np.arange(size)
    return label
