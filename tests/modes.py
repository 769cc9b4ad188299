"""How much is tried: of random examples half as many in the quick tests, and with ``LANEMAP_LONG`` in the environment
twice as many, and every case.
"""

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
    """So many examples in the long mode, half of them in the complete one, and a quarter in the quick tests."""
    return settings(max_examples=many * settings().max_examples // 200)


def one_of_each(kind: Callable[[T], Any], cases: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """Every case in the long mode, and the smallest one of each kind otherwise."""
    ordered = sorted(cases, key=size, reverse=True)
    return ordered if LONG else [*{kind(case): case for case in ordered}.values()]
