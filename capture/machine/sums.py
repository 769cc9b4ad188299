"""Which products a sum has added, and which of them it must not have."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .labels import ANY, Labelling
from .product import Term
from .ptx import SourceLine
from .values import NONE, Join

#: What is said of a sum that has the terms of the product.
RIGHT = "it adds the right products"

#: A sum that takes more steps than this is not followed, nor is one with a product of more factors.
_MOST_STEPS, _MOST_FACTORS = 1 << 19, 16


def terms(of: Labelling, origin: int) -> dict[tuple[int, ...], list[SourceLine | None]] | None:
    """The products that were added, by the origins of their factors; None where that cannot be followed.

    A factor that is a sum is multiplied out, but for what an earlier step computes. Each product has the places of the
    tensor instructions that added it, the last first, and None where another instruction did.
    """
    tape, array = of.tape, of.known.array
    made = {of.origin(step.left.name) for step in of.steps[:-1]}
    wanted = {of.origin(factor.name) for term in of.steps[-1].terms for factor in term.factors}
    found: dict[tuple[int, ...], list[SourceLine | None]] = defaultdict(list)
    # What is to be multiplied out yet, the other factors, and where the product was added.
    open_: list[tuple[tuple[int, ...], tuple[int, ...], SourceLine | None]] = [((origin,), (), None)]
    steps = 0
    while open_:
        nodes, factors, where = open_.pop()
        steps += 1
        if steps > _MOST_STEPS or len(nodes) + len(factors) > _MOST_FACTORS:
            return None
        if not nodes:
            found[tuple(sorted(factors))].append(where)
            continue
        *others, node = nodes
        if node == NONE:
            continue
        if node < NONE:
            return None
        event, place = tape.event(node) if node >= tape.starts[0] else (None, 0)
        mixed = isinstance(event, Join) and event.kind not in ("add", "mul")
        if mixed and not others and not factors:
            return None
        sides = [int(each[place]) for each in (event.left, event.right)] if isinstance(event, Join) else []
        # A result of an earlier step keeps its label when a factor of the last step scales it, but is a product then.
        scaled = {int(array[side]) for side in sides} & wanted - {int(array[node])}
        if event is None or mixed or (int(array[node]) in made and not scaled):
            open_.append(((*others,), (*factors, node), where))
        elif isinstance(event, Join):
            if event.kind == "mul":
                open_.append(((*others, *sides), factors, where))
            else:
                open_ += [((*others, side), factors, where) for side in sides]
        else:
            layout = event.layouts
            warp, slot = divmod(place, len(layout["D"].row))
            cell = (int(layout["D"].computation[slot]), int(layout["D"].row[slot]), int(layout["D"].col[slot]))
            held = int(event.held["C"][warp, layout["C"].slot[cell]])
            open_.append(((*others, held), factors, where))
            for product in reversed(event.factors(warp, cell).tolist()):
                if NONE not in product[:2]:
                    own = [each for each in product if each != NONE]
                    open_.append(((*others, *own), factors, event.place))
    return found


def words(of: Labelling, output: int, index: Sequence[int], origin: int) -> str:
    """What is wrong with the terms of an element of the last step, in words; empty where that cannot be known."""
    step = of.steps[-1]
    found = terms(of, origin)
    if found is None or step.functions:
        return ""
    keys: Counter[tuple[tuple[int, tuple[int, ...]], ...]] = Counter()
    places: dict[tuple[tuple[int, tuple[int, ...]], ...], SourceLine | None] = {}
    for ids, added in found.items():
        labels = of.labels(np.array(ids))
        if ANY in labels.array:
            return ""
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
        near = [({*first} - {*key}, {*key} - {*first}) for key in missing]
        near = [(has, needs) for has, needs in near if len(has) == len(needs) == 1]
        if len(near) == 1:
            where += ", {} in place of {}".format(*(of.element(*only) for (only,) in near[0]))
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
