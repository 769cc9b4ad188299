"""Permutations of rows, columns or depth: found from pairs that must go together, and told in few words.

A permutation is a tuple: index i becomes ``permutation[i]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Span = tuple[int, int]
Permutation = tuple[int, ...]


def find(size: int, pairs: Iterable[tuple[Span, Span]]) -> Permutation | None:
    """The permutation of ``range(size)`` that takes the first window of every pair to the second, as sets.

    An exact index is a window of one. Where windows leave a choice, indices keep their order. None: there is none.

    A permutation takes every window to its partner just when each index lies in the same windows before as after, so
    the indices are matched by the windows that they lie in, and nothing is tried.
    """
    windows = sorted(set(pairs))
    before = _inside(size, [left for left, _ in windows])
    after = _inside(size, [right for _, right in windows])
    places: dict[frozenset[int], list[int]] = {}
    for index in reversed(range(size)):
        places.setdefault(after[index], []).append(index)
    found = [places[inside].pop() if places.get(inside) else -1 for inside in before]
    return None if -1 in found else tuple(found)


def _inside(size: int, windows: Sequence[Span]) -> list[frozenset[int]]:
    """For each index, the numbers of the windows that it lies in."""
    inside: list[set[int]] = [set() for _ in range(size)]
    for number, (first, last) in enumerate(windows):
        for index in range(first, last + 1):
            inside[index].add(number)
    return [frozenset(numbers) for numbers in inside]


def is_identity(permutation: Permutation) -> bool:
    """Whether nothing moves."""
    return permutation == tuple(range(len(permutation)))


def describe(permutation: Permutation) -> str:
    """A permutation in words: by the bits of the index where it has such a form, else by its cycles.

    >>> describe((0, 2, 1, 3))
    'swap bits 0 and 1'
    >>> describe((1, 0, 2))
    '0 and 1 swap'
    """
    return _in_bits(permutation) or _in_cycles(permutation)


def _in_bits(permutation: Permutation) -> str | None:
    """Bits of the index exchanged, flipped, or both; None where it is not of that form."""
    size = len(permutation)
    width = size.bit_length() - 1
    if size != 1 << width:
        return None
    flipped = permutation[0]
    moved = {bit: permutation[1 << bit] ^ flipped for bit in range(width)}
    if any(value.bit_count() != 1 for value in moved.values()):
        return None
    target = {bit: value.bit_length() - 1 for bit, value in moved.items()}
    for index in range(size):
        image = sum(1 << target[bit] for bit in range(width) if index >> bit & 1) ^ flipped
        if image != permutation[index]:
            return None
    words = []
    for cycle in _cycles(target):
        if len(cycle) == 2:
            words.append(f"swap bits {cycle[0]} and {cycle[1]}")
        else:
            words.append(f"bits {' to '.join(map(str, (*cycle, cycle[0])))}")
    if flipped:
        bits = [str(bit) for bit in range(width) if flipped >> bit & 1]
        words.append(f"flip bit{'s' * (len(bits) > 1)} {' and '.join(bits)}")
    return ", ".join(words) or "nothing moves"


def _in_cycles(permutation: Permutation) -> str:
    cycles = list(_cycles(dict(enumerate(permutation))))
    words = [
        f"{cycle[0]} and {cycle[1]} swap" if len(cycle) == 2 else " to ".join(map(str, (*cycle, cycle[0])))
        for cycle in cycles[:4]
    ]
    return ", ".join(words) + (f" and {len(cycles) - 4} more cycles" if len(cycles) > 4 else "")


def _cycles(moves: Mapping[int, int]) -> Iterable[Sequence[int]]:
    seen: set[int] = set()
    for start in moves:
        cycle = [start]
        while (following := moves[cycle[-1]]) != start:
            cycle.append(following)
        if len(cycle) > 1 and start not in seen:
            seen |= set(cycle)
            yield cycle
