"""Processes that work on a list of tasks for this one, each with resources that it opens itself.

They are forked, because a new process would run the user's program again and take a second for it. Neither a driver nor
a connection survives a fork: this process must not have used a driver before, and forked ones use no connection of it.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Self, TypeVar

from ..db.errors import LanemapError

Opened = TypeVar("Opened")
Result = TypeVar("Result")


class Processes(Generic[Opened, Result]):
    """``count`` processes, none without fork, and fewer if the system has no room for more.

    Each opens what it needs with ``begin``, and passes that and one task after another to ``do``. Leaving the ``with``
    statement ends those that still run. Only this process reacts to a signal for the whole group, such as Ctrl-C.
    """

    def __init__(
        self, begin: Callable[[], AbstractContextManager[Opened]], do: Callable[[Opened, int], Result], count: int
    ) -> None:
        self._begin, self._do = begin, do
        self._processes, self._connections = [], []
        for _ in range(count if "fork" in get_all_start_methods() else 0):
            context = get_context("fork")
            here, there = context.Pipe()
            process = context.Process(target=self._work, args=(there,), daemon=True)
            # Signals wait until the process has set its handlers.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
            try:
                process.start()
            except OSError:
                here.close()
                break
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                there.close()
            self._processes.append(process)
            self._connections.append(here)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()

    def results(self, tasks: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """Every one of ``tasks``, which are numbers, with its result, in the order of completion.

        This process does the tasks that the others did not, which are all if there are none: it opens what it needs
        only then. Raises what a process raised, except a LanemapError. Does not wait until the others have closed what
        they opened.
        """
        missing, free, results = {*tasks}, iter(tasks), SimpleQueue[Any]()
        for connection in self._connections:
            Thread(target=_give, args=(connection, free, results), daemon=True).start()
        for result in (result for _ in self._connections for result in iter(results.get, None)):
            if isinstance(result, Exception):
                raise result
            missing.remove(result[0])
            yield result
            if not missing:
                return
        if missing:
            with self._begin() as opened:
                for task in tasks:
                    if task in missing:
                        yield task, self._do(opened, task)

    def _work(self, connection: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
        try:
            with self._begin() as opened:
                for task in iter(connection.recv, None):
                    connection.send((task, self._do(opened, task)))
        except Exception as error:
            if not isinstance(error, LanemapError):
                connection.send(error)
        finally:
            connection.close()  # whatever else keeps this process from ending


def _give(connection: "Connection[Any, Any]", tasks: Iterator[int], results: "SimpleQueue[Any]") -> None:
    """Gives a process one free task after another, and passes on its results, then None."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})  # whose default action commands have
    with suppress(Exception), connection:  # it ended, or sent an error that cannot be unpickled here
        for task in tasks:
            connection.send(task)
            results.put(connection.recv())
        connection.send(None)
    results.put(None)


_OURS = {signal.SIGINT, signal.SIGTERM}
