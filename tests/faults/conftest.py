"""Faults, one at each place in turn: a call that fails, and a process that is killed there."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from lanemap import LanemapError

from ..modes import LONG

os_close = os.close


class Fault:
    """Counts calls, and fails or kills at the one whose turn it is."""

    def __init__(self) -> None:
        self.turn = -1
        self.kills = False
        self.calls = 0

    def __call__(self, *_: object, **__: object) -> None:
        self.calls += 1
        if self.calls - 1 == self.turn:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(5, "Input/output error")

    def wrapped(self, function: Callable) -> Callable:
        def call(*arguments, **options):
            if function is os_close:  # what cannot be closed is no longer open, either
                function(*arguments, **options)
                return self()
            self()
            return function(*arguments, **options)

        return call


def in_child(work: Callable[[], object]) -> int:
    """Do it in a process of its own: 0 where it went well, 1 where it failed, -9 where it was killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # what hangs is killed, and fails
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def each_fault(
    fault: Fault,
    prepare: Callable[[], object],
    work: Callable[[], object],
    check: Callable[[], object],
    every: int = 1,
) -> int:
    """Prepare, work and check with a fault at each call in turn, first all that fail, then all that are killed.

    Returns how many cases there were. ``every``: at the last call and each so many before it, except in the long mode.
    """
    fault.turn = -1
    prepare()
    fault.calls = 0
    work()
    turns = range(fault.calls - 1, -1, -1 if LONG else -every)
    killed = 0
    for kills in (False, True):
        for turn in turns:
            prepare()
            fault.turn, fault.kills, fault.calls = turn, kills, 0
            if kills:
                killed += in_child(work) == -9
            else:
                # What fails without harm, such as the removal of litter, may go on.
                with suppress(LanemapError):
                    work()
            fault.turn = -1
            check()
    assert killed > 0.9 * len(turns)
    return len(turns) + killed
