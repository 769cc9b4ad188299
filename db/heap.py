"""The heap of this process: when Python looks for garbage, and when glibc gives back what was freed."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_C = ctypes.CDLL(None) if sys.platform == "linux" else None


def share_heap() -> None:
    """Have all threads of this process allocate from one heap, and nothing large from any.

    glibc gives each thread one of its own, and what is free there after an answer is of no use to the others. It also
    allocates from it whatever is no larger than the largest that was ever freed, which leaves holes.
    """
    if set_option := getattr(_C, "mallopt", None):
        set_option(-8, 1)  # M_ARENA_MAX of malloc.h
        set_option(-3, 128 << 10)  # M_MMAP_THRESHOLD


def settle_heap() -> None:
    """After a change: free what is left of the state before, give that back to the system, and keep the new state.

    What is known of a database is some 500,000 objects. Python would look through them for garbage during one request
    in some fifty, for a fifth of a second or more: it does so once for each state.
    """
    gc.unfreeze()
    gc.collect()
    if trim := getattr(_C, "malloc_trim", None):
        trim(0)
    gc.freeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: where many objects are made and all stay, it takes a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
