"""Instructions on bytes and halves are computed as they are defined, one part after the other."""

import operator

import numpy as np
import pytest

from .conftest import computed

RULES = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vset.lt": operator.lt,
    "vset.ge": operator.ge,
}
WORDS = dict(zip("abc", np.random.default_rng(1).integers(0, 1 << 32, (3, 16)).astype("u4"), strict=True))


def parts(word, count, kind):
    """The bytes or halves of a word as numbers of a kind."""
    bits = 32 // count
    numbers = [word >> bits * at & (1 << bits) - 1 for at in range(count)]
    return [number - (number >> bits - 1 << bits) if kind == "s32" else number for number in numbers]


def defined(rule, count, kinds, last, a, b, c):
    """What an instruction makes of three words."""
    to, *of = kinds
    bits = 32 // count
    numbers = [int(rule(*pair)) for pair in zip(parts(a, count, of[0]), parts(b, count, of[1]), strict=True)]
    if last == "add":
        return (sum(numbers) + c) % (1 << 32)
    least = -(1 << bits - 1) if to == "s32" else 0
    if last == "sat":
        numbers = [max(least, min(number, least + (1 << bits) - 1)) for number in numbers]
    return sum((number % (1 << bits)) << bits * at for at, number in enumerate(numbers))


@pytest.mark.parametrize("kinds", [("u32", "s32", "u32"), ("s32", "u32", "s32")])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", RULES)
def test_parts_are_computed_by_themselves(name, count, kinds):
    head, _, comparison = name.partition(".")
    for last in ("", "add") if comparison else ("", "sat", "add"):
        of = ("u32", *kinds[1:]) if comparison else kinds
        words = [f"{head}{count}", *(of[1:] if comparison else of), comparison, last]
        found = computed(f"{'.'.join(filter(None, words))} %d, %a, %b, %c;", "u32", WORDS).tolist()
        given = zip(*(word.tolist() for word in WORDS.values()), strict=True)
        assert found == [defined(RULES[name], count, of, last, *each) for each in given]
