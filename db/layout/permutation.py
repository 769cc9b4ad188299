"""Permutations of rows, columns or depth: found from pairs that belong together, and described in a few words.

A permutation is a tuple: index i becomes ``permutation[i]``.
"""

from collections.abc import Iterable, Mapping, Sequence

Span = tuple[int, int]
Permutation = tuple[int, ...]


def fitting(size: int, pairs: Iterable[tuple[Span, Span]]) -> Permutation | None:
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
            source, target = left + step, right + step
            if forward.setdefault(source, target) != target or backward.setdefault(target, source) != source:
                return None
    if max(forward, default=0) >= size or max(backward, default=0) >= size:
        return None
    free = iter(sorted(set(range(size)) - set(backward)))
    return tuple(forward[index] if index in forward else next(free) for index in range(size))


def keeps(permutation: Permutation, pairs: Iterable[tuple[Span, Span]], together: int = 1) -> str | None:
    """The side whose windows, renumbered, lie within those of the other in order: ``left`` or ``right``.

    So many columns that belong ``together`` have no order among themselves. None: neither side's do.
    """
    inverse = tuple(sorted(range(len(permutation)), key=permutation.__getitem__))
    listed = list(pairs)
    if all(_within(permutation, ours, theirs, together) for ours, theirs in listed):
        return "left"
    return "right" if all(_within(inverse, theirs, mine, together) for mine, theirs in listed) else None


def _within(permutation: Permutation, narrow: Span, wide: Span, together: int) -> bool:
    width = narrow[1] - narrow[0] + 1
    moved = permutation[narrow[0] : narrow[1] + 1]
    moved = tuple(sorted(moved)) if width == together else moved
    first = (moved or (0,))[0]
    return moved == tuple(range(first, first + width)) and wide[0] <= first and first + width - 1 <= wide[1]


def is_identity(permutation: Permutation) -> bool:
    """Whether nothing moves."""
    return permutation == tuple(range(len(permutation)))


def describe(permutation: Permutation, first: int = 0) -> str:
    """A permutation in words: by the bits of the index if possible, else by its cycles.

    ``first`` is the number of the first index.

    >>> describe((0, 2, 1, 3))
    'swap bits 0 and 1'
    >>> describe((1, 0, 2))
    '0 and 1 swap'
    """
    if first == 0 and (words := _in_bits(permutation)):
        return words
    cycles = list(_cycles({index: to + first for index, to in enumerate(permutation, first)}))
    shown = [
        f"{cycle[0]} and {cycle[1]} swap" if len(cycle) == 2 else " to ".join(map(str, (*cycle, cycle[0])))
        for cycle in cycles[:4]
    ]
    return ", ".join(shown) + (f" and {len(cycles) - 4} more cycles" if len(cycles) > 4 else "")


def _in_bits(permutation: Permutation) -> str | None:
    """A permutation that exchanges bits of the index, flips them, or both, in words; None for any other."""
    flipped = permutation[0]
    width = len(permutation).bit_length() - 1
    moved = [permutation[1 << bit] ^ flipped for bit in range(width)]
    images = [flipped]
    for basis in moved:
        images += [image ^ basis for image in images]
    if tuple(images) != permutation or any(value.bit_count() != 1 for value in moved):
        return None
    cycles = _cycles({bit: value.bit_length() - 1 for bit, value in enumerate(moved)})
    words = [
        f"swap bits {first} and {rest[0]}" if len(rest) == 1 else f"bits {' to '.join(map(str, (first, *rest, first)))}"
        for first, *rest in cycles
    ]
    if flipped:
        bits = [str(bit) for bit in range(width) if flipped >> bit & 1]
        words.append(f"flip bit{'s' * (len(bits) > 1)} {' and '.join(bits)}")
    return ", ".join(words) or "nothing moves"


def _cycles(moves: Mapping[int, int]) -> Iterable[Sequence[int]]:
    seen: set[int] = set()
    for start in moves:
        cycle = [start]
        while (following := moves[cycle[-1]]) != start:
            cycle.append(following)
        if len(cycle) > 1 and start not in seen:
            seen |= set(cycle)
            yield cycle
