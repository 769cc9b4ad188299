"""How much is tried: with ``LANEMAP_LONG`` in the environment, twice as many examples, and every case."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

#: The step through cases of which a few are tried quickly, and all by a slow test.
SOME_AND_ALL = pytest.mark.parametrize(
    "step", [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)

LONG = "LANEMAP_LONG" in os.environ


def examples(many: int) -> settings:
    """So many examples in the long mode, and half of them otherwise."""
    return settings(max_examples=many if LONG else many // 2)


def one_of_each(kind: Callable[[T], Any], cases: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """Every case in the long mode, and the smallest one of each kind otherwise."""
    ordered = sorted(cases, key=size, reverse=True)
    return ordered if LONG else [*{kind(each): each for each in ordered}.values()]
