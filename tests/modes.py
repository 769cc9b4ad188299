"""How much is tried: with ``LANEMAP_LONG`` in the environment every case, and four times as many random ones."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

LONG = "LANEMAP_LONG" in os.environ

#: The step through cases of which a few are tried, and in the long mode all.
SOME_OR_ALL = pytest.mark.parametrize("step", [1 if LONG else 5])


def some(cases: Iterable[T], step: int) -> list[T]:
    """Every case in the long mode, and otherwise the first of so many."""
    return [*cases][:: 1 if LONG else step]


def examples(many: int) -> settings:
    """So many examples in the long mode, and otherwise a quarter of them."""
    return settings(max_examples=many * settings().max_examples // 200)


def one_of_each(kind: Callable[[T], Any], cases: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """Every case in the long mode, and the smallest one of each kind otherwise."""
    ordered = sorted(cases, key=size, reverse=True)
    return ordered if LONG else [*{kind(case): case for case in ordered}.values()]
