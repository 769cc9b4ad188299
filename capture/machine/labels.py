"""What elements are called: an origin becomes a label, an array with an index along each of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...db.layout.algebra import Array
from .arguments import Argument
from .product import Factor, Formula
from .values import NONE, Join, Tape

#: An index, or an array, that is not known.
ANY = -1


class Labels(NamedTuple):
    """The array that each of some values is an element of, and its place (values, axes) in it; ANY where not known."""

    array: Array
    place: Array

    def of(self, chosen: Any) -> Labels:
        """Some of them."""
        return Labels(self.array[chosen], self.place[chosen])

    def one(self, at: Any) -> tuple[int, list[int]]:
        """The number of the array of one of them, and its place in it."""
        return int(self.array[at]), list(map(int, self.place[at]))


class Stored(NamedTuple):
    """An array that a kernel leaves, by its name, and the origins of its elements."""

    name: str
    ids: Array


class Labelling:
    """The labels of all that a run has recorded, by the names of its arguments and of what a product computes.

    ``chosen`` are the columns of the stored elements of sparse matrices, by their names, and ``stored`` is what the
    last step computes, or without a product what sums are stored in.
    """

    def __init__(
        self,
        tape: Tape,
        arguments: Sequence[Argument],
        steps: Sequence[Formula],
        extents: Mapping[str, int],
        chosen: Mapping[str, Array],
        stored: Stored | None,
    ) -> None:
        self.tape, self.steps, self.extents, self.chosen, self.stored = tape, steps, extents, chosen, stored
        self.arguments = [argument for argument in arguments if argument.pointer]
        made = [step.left for step in steps]
        self.names = [*(argument.name for argument in self.arguments)]
        self.names += [factor.name for factor in made if factor.name not in self.names]
        self.shapes = [argument.shape for argument in self.arguments]
        self.shapes += [
            tuple(extents.get(name, 1) for name in factor.indices)
            for factor in made
            if factor.name not in {argument.name for argument in self.arguments}
        ]
        self.axes = max([len(shape) for shape in self.shapes], default=1)
        #: What a step makes of one array alone has the elements of that array.
        self.same = {
            step.left.name: step.terms[0].factors[0].name
            for step in steps
            if len(step.terms) == 1 and len(step.terms[0].factors) == 1
        }
        #: The labels of all origins, by their numbers; that of what has none is not known.
        self.known = Labels(
            np.full(tape.starts[-1], ANY, np.int16), np.full((tape.starts[-1], self.axes), ANY, np.int32)
        )
        for number, argument in enumerate(self.arguments):
            at = slice(argument.first, argument.first + argument.count)
            self.known.array[at] = number
            places = np.indices(argument.shape, np.int32).reshape(len(argument.shape), -1)
            if argument.name in chosen:  # elements of a sparse matrix are called by their place in it
                places[1] = chosen[argument.name].reshape(-1)
            places = np.tile(places, argument.count // places.shape[1])
            self.known.place[at, : len(argument.shape)] = places.T

    def labels(self, ids: Array) -> Labels:
        """The labels of origins."""
        known = np.maximum(ids, NONE)
        return Labels(self.known.array.take(known), self.known.place.take(known, axis=0))

    def destinations(self, ids: Array) -> Labels:
        """The element of what is stored that a sum ends in; not known where it is none, or several."""
        if self.stored is None:
            return Labels(np.full(ids.shape, ANY, np.int16), np.full((*ids.shape, self.axes), ANY, np.int32))
        element = self._destinations[ids]
        name = self.stored.name
        shape = self.shapes[self.names.index(name)]
        place = np.stack(np.unravel_index(np.maximum(element, 0), shape), axis=-1)
        place = np.pad(place, [(0, 0)] * ids.ndim + [(0, self.axes - len(shape))], constant_values=ANY)
        return Labels(np.where(element == ANY, ANY, self.origin(name)), place)

    @cached_property
    def _destinations(self) -> Array:
        """The number of the element of what is stored that each origin ends in, also as a part of a sum."""
        assert self.stored is not None
        count, ids = self.tape.starts[-1], self.stored.ids
        least, most = np.full(count, len(ids), np.int32), np.full(count, ANY, np.int32)

        def ends(ids: Array, low: Array, high: Array) -> None:
            known = ids > NONE
            np.minimum.at(least, ids[known], low[known])
            np.maximum.at(most, ids[known], high[known])

        ends(ids, *[np.arange(len(ids), dtype=np.int32)] * 2)
        for number, event in reversed([*enumerate(self.tape.events)]):
            low, high = (ends_[self.tape.starts[number] : self.tape.starts[number + 1]] for ends_ in (least, most))
            if isinstance(event, Join):
                ends(event.left, low, high)
                ends(event.right, low, high)
            else:
                c, d = event.layouts["C"], event.layouts["D"]
                ends(event.held["C"][:, c.slot[d.computation, d.row, d.col]].ravel(), low, high)
        return np.where(least == most, most, ANY)

    def joined(self, event: Join) -> Labels:
        """The label of a value that two make: where only one of them knows an index, it is that."""
        left, right = self.labels(event.left), self.labels(event.right)
        unknown = left.array == ANY
        array = np.where(unknown, right.array, left.array)
        # Of two arrays, the one whose element is known in all of its axes: a sum is scaled by what a row has in common.
        other = (left.array != right.array) & ~unknown & (right.array != ANY)
        missing = (left.place == ANY).sum(axis=-1) > (right.place == ANY).sum(axis=-1)
        array = np.where(other & missing, right.array, array)
        both = np.where(left.place == ANY, right.place, np.where(right.place == ANY, left.place, ANY))
        agreed = np.where(left.place == right.place, left.place, both)
        index = np.where((other & missing | unknown)[:, None], right.place, left.place)
        alike = (left.array == right.array)[:, None]
        return Labels(array, np.where(alike, agreed, index))

    def element(self, number: int, index: Sequence[int]) -> str:
        """An element in words."""
        shape = self.shapes[number]
        places = "".join("[.]" if value == ANY else f"[{value}]" for value in list(index)[: len(shape)])
        return f"{self.names[number]}{places}"

    def like(self, name: str) -> list[str]:
        """An array and those that it was made of alone, whose elements it has."""
        found = [name]
        while found[-1] in self.same:
            found.append(self.same[found[-1]])
        return found

    def origin(self, name: str) -> int:
        """The number of the array whose elements an array has."""
        return self.names.index(self.like(name)[-1])

    def flat(self, labels: Labels, factor: Factor, names: Sequence[str]) -> Array:
        """One number for the indices of these names; ANY where one of them is not known."""
        found = np.zeros(labels.array.shape, np.int64)
        known = labels.array != ANY
        for name in names:
            values = labels.place[..., factor.indices.index(name)]
            found = found * self.extents[name] + values
            known &= values != ANY
        return np.where(known, found, ANY)
