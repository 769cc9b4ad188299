"""Permutations of rows, columns or depth: found from pairs that must go together, and told in few words.

A permutation is a tuple: index i becomes ``permutation[i]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Span = tuple[int, int]
Permutation = tuple[int, ...]


def find(size: int, pairs: Iterable[tuple[Span, Span]]) -> Permutation | None:
    """The permutation of ``range(size)`` that takes the first window of every pair to the second, index by index.

    An exact index is a window of one. A window of a sparse operand keeps its order, because metadata counts inside it.
    Indices that no pair names keep their order, too. None: there is no such permutation.
    """
    forward: dict[int, int] = {}
    backward: dict[int, int] = {}
    for (left, left_last), (right, right_last) in pairs:
        if left_last - left != right_last - right:
            return None
        for step in range(left_last - left + 1):
            one, other = left + step, right + step
            if forward.setdefault(one, other) != other or backward.setdefault(other, one) != one:
                return None
    if max(forward, default=0) >= size or max(backward, default=0) >= size:
        return None
    free = iter(sorted(set(range(size)) - set(backward)))
    return tuple(forward[index] if index in forward else next(free) for index in range(size))


def keeps(permutation: Permutation, pairs: Iterable[tuple[Span, Span]]) -> bool:
    """Whether every window, renumbered, is in order and lies in its partner or around it, all the same way."""
    inside = outside = True
    for (left, left_last), (right, right_last) in pairs:
        first, last = permutation[left], permutation[left_last]
        if permutation[left : left_last + 1] != tuple(range(first, last + 1)):
            return False
        inside &= right <= first and last <= right_last
        outside &= first <= right and right_last <= last
    return inside or outside


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
