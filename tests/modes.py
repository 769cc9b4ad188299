"""How much is tried: with ``LANEMAP_LONG`` in the environment, twice as many examples."""

import os

from hypothesis import settings

LONG = "LANEMAP_LONG" in os.environ


def examples(many: int) -> settings:
    """So many examples in the long mode, and half of them otherwise."""
    return settings(max_examples=many if LONG else many // 2)
