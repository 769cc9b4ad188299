"""Processes that do tasks beside this one, each with resources that it opens itself.

They are forked, because a new process would run the user's program again and take a second for it. Neither a driver nor
a connection survives a fork: this process must not have used a driver before, and forked ones use no connection of it.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from multiprocessing import active_children, get_all_start_methods, get_context
from typing import Any, TypeVar

from .errors import LanemapError

Opened = TypeVar("Opened")
Result = TypeVar("Result")

#: Does tasks with what this process has opened, and gives the results of all, each with its task, as they come.
Sharing = Callable[[Opened], Iterator[tuple[int, Result]]]


@contextmanager
def sharing(
    begin: Callable[[], AbstractContextManager[Opened]],
    do: Callable[[Opened, int], Result],
    tasks: Sequence[int],
    count: int,
) -> Iterator[Sharing[Opened, Result]]:
    """Share tasks, which are numbers, with ``count`` processes: none without fork, or where the system has no room.

    A free process takes the next task. It opens what it needs with ``begin``, and passes that and a task to ``do``.
    This process does so, too, and repeats what others could not do; it raises what they raised, except a LanemapError.
    Leaving the ``with`` statement ends those that still run, and waits for nothing that they would close. Only this
    process reacts to a signal for the whole group, such as Ctrl-C.
    """
    futures = {Future[Result](): task for task in tasks}

    def results(opened: Opened) -> Iterator[tuple[int, Result]]:
        while futures:
            # One that nobody has begun is cancelled, and done here.
            if (future := next((each for each in futures if each.done() or each.cancel()), None)) is None:
                wait(futures, return_when=FIRST_COMPLETED)
                continue
            task = futures.pop(future)
            try:
                result = future.result()
            except (BrokenProcessPool, CancelledError, LanemapError):
                result = do(opened, task)
            yield task, result

    with ExitStack() as stack:
        if count and "fork" in get_all_start_methods():
            # Signals wait until the processes have set their handlers, and never reach the threads of the pool.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGPIPE})
            with suppress(BrokenProcessPool, OSError):
                pool = stack.enter_context(ProcessPoolExecutor(count, get_context("fork"), _prepare, (begin, do, mask)))
                stack.callback(_end, {*active_children()})
                futures = {pool.submit(_do, task): task for task in tasks}
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield results


def _end(others: set[Any]) -> None:
    """End the processes that were started since there were only others."""
    for process in {*active_children()} - others:
        process.kill()


#: In a process: what does a task, and keeps open what it has opened.
_work: Callable[[int], Any]
_stack = ExitStack()


def _prepare(
    begin: Callable[[], AbstractContextManager[Opened]],
    do: Callable[[Opened, int], Any],
    mask: set[int | signal.Signals],
) -> None:
    global _work
    opened = cache(lambda: _stack.enter_context(begin()))

    def _work(task: int) -> Any:
        return do(opened(), task)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _do(task: int) -> Any:
    return _work(task)
