"""Which products a sum has added, and which of them it must not have."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .labels import ANY, Labelling
from .product import Term
from .ptx import SourceLine
from .values import NONE, Join, Tape

#: What is said of a sum that has the terms of the product.
RIGHT = "it adds the right products"

#: More terms than this of one sum are not followed.
_MOST_TERMS = 1 << 17


def terms(tape: Tape, origin: int) -> dict[tuple[int, ...], list[SourceLine | None]] | None:
    """The products that were added, by the origins of their factors; None where that cannot be followed.

    Each has the places of the tensor instructions that added it, the last first, and None for another one.
    """
    found: dict[tuple[int, ...], list[SourceLine | None]] = defaultdict(list)
    open_ = [origin]
    while open_:
        node = open_.pop()
        if node == NONE:
            continue
        if node < 0 or len(found) > _MOST_TERMS:
            return None
        if node < tape.starts[0]:
            found[node,].append(None)
            continue
        event, place = tape.event(node)
        if isinstance(event, Join):
            left, right = int(event.left[place]), int(event.right[place])
            if event.kind == "add":
                open_ += [left, right]
            elif event.kind == "mul":
                found[tuple(sorted((left, right)))].append(None)
            else:
                return None
            continue
        layout = event.layouts
        warp, slot = divmod(place, len(layout["D"].row))
        cell = (int(layout["D"].computation[slot]), int(layout["D"].row[slot]), int(layout["D"].col[slot]))
        open_.append(int(event.held["C"][warp, layout["C"].slot[cell]]))
        for factors in event.factors(warp, cell).tolist():
            if NONE not in factors[:2]:
                if min(factors) < NONE:
                    return None
                found[tuple(sorted(each for each in factors if each != NONE))].append(event.place)
    return found


def words(of: Labelling, output: int, index: Sequence[int], origin: int) -> str:
    """What is wrong with the terms of an element of the last step, in words; empty where that cannot be known."""
    step = of.steps[-1]
    found = terms(of.tape, origin)
    if found is None or step.functions:
        return ""
    keys: Counter[tuple[tuple[int, tuple[int, ...]], ...]] = Counter()
    places: dict[tuple[tuple[int, tuple[int, ...]], ...], SourceLine | None] = {}
    for ids, added in found.items():
        labels = of.labels(np.array(ids))
        key = tuple(sorted((int(n), tuple(i.tolist())) for n, i in zip(labels.array, labels.place, strict=True)))
        keys[key] += len(added)
        places.setdefault(key, added[0])
    wanted = Counter(
        key for term in step.terms for key in _wanted(of, term, dict(zip(step.left.indices, index, strict=False)))
    )
    own = ((output, (*index, *[ANY] * (of.axes - len(index)))),)
    begun = of.arguments[output].array if output < len(of.arguments) else None
    if own not in wanted and begun is not None and not begun[tuple(index)]:
        del keys[own]  # the zero to which atomics add
    extra, missing = keys - wanted, wanted - keys
    twice = [key for key in extra if key in wanted]
    foreign = sum(count for key, count in extra.items() if key not in wanted)
    subject = of.element(output, index)

    def product(key: tuple[tuple[int, tuple[int, ...]], ...]) -> str:
        return " x ".join(of.element(number, place) for number, place in key)

    total = sum(keys.values())
    if foreign:
        first = next(key for key in extra if key not in wanted)
        where = f" at {places[first]}" if places[first] else ""
        return f"{subject} adds {product(first)}{where} ({foreign} of {total} products are not its own)"
    if twice:
        return f"{subject} adds {product(twice[0])} {keys[twice[0]]} times ({len(twice)} products are added again)"
    if missing:
        first = next(iter(missing))
        few = f"{missing.total()} of {wanted.total()}"
        return f"{subject} lacks {product(first)} ({few} products are missing)"
    return RIGHT


def _wanted(of: Labelling, term: Term, fixed: Mapping[str, int]) -> Iterator[tuple[tuple[int, tuple[int, ...]], ...]]:
    """The products of a term for an element, by array and indices; of a sparse matrix what it stores."""
    names = [name for name in dict.fromkeys(n for f in term.factors for n in f.indices) if name not in fixed]
    for place in np.ndindex(*(of.extents[name] for name in names)):
        at = {**fixed, **dict(zip(names, place, strict=True))}
        factors = [(factor, factor.place(at)) for factor in term.factors]
        if all(not each.metadata or own[1] in of.chosen[each.name][own[0]] for each, own in factors):
            padded = ((of.origin(each.name), (*own, *[ANY] * (of.axes - len(own)))) for each, own in factors)
            yield tuple(sorted(padded))
