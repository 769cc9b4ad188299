"""Processes that work on a list of tasks along with this one, each with resources that it opens itself.

They are forked, because a new process would run the user's program again and take a second for it. Neither a driver nor
a connection survives a fork: this process must not have used a driver before, and forked ones use no connection of it.
"""

import signal
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, Generic, Self, TypeVar

from ..db.errors import LanemapError

Opened = TypeVar("Opened")
Result = TypeVar("Result")


class Processes(Generic[Opened, Result]):
    """``count`` processes, none without fork, and fewer if the system has no room for more.

    A free process takes the next of ``tasks``, which are numbers. It opens what it needs with ``begin``, and passes
    that and a task to ``do``. Leaving the ``with`` statement ends those that still run. Only this process reacts to a
    signal for the whole group, such as Ctrl-C.
    """

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Opened]],
        do: Callable[[Opened, int], Result],
        tasks: Sequence[int],
        count: int,
    ) -> None:
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._do, self._every = do, tasks
        # Reading a number takes a task. Forked processes share one position in a file, so no task is taken twice, and a
        # process that dies blocks nobody.
        self._tasks = TemporaryFile(buffering=0)  # noqa: SIM115 - it stays open as long as they work
        self._tasks.write(array("I", tasks))
        self._tasks.seek(0)
        self._processes, threads = [], []
        for _ in range(count if "fork" in get_all_start_methods() else 0):
            context = get_context("fork")
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=self._work, args=(begin, sender), daemon=True)
            # Signals wait until the process has set its handlers.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
            try:
                process.start()
            except OSError:
                break
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                sender.close()
            self._processes.append(process)
            threads.append(Thread(target=self._receive, args=(receiver,), daemon=True))
        for thread in threads:  # only now, as a fork does not copy threads
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._tasks.close()

    def results(self, opened: Opened) -> Iterator[tuple[int, Result]]:
        """Every task with its result, in the order of completion.

        This process takes part with what it has opened, and repeats tasks that others took but could not do. Raises
        what a process raised, except a LanemapError. Does not wait until the others have closed what they opened.
        """
        missing = {*self._every}
        received = (result for _ in self._processes for result in iter(self._results.get, None))
        for result in chain(((task, self._do(opened, task)) for task in self._taken()), received):
            if isinstance(result, Exception):
                raise result
            missing.remove(result[0])
            yield result
            if not missing:
                return
        for task in missing:
            yield task, self._do(opened, task)

    def _taken(self) -> Iterator[int]:
        """The tasks that no process has taken yet; iterating takes them."""
        while number := self._tasks.read(array("I").itemsize):
            yield from array("I", number)

    def _work(self, begin: Callable[[], AbstractContextManager[Opened]], sender: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)
        try:
            with begin() as opened:
                for task in self._taken():
                    sender.send((task, self._do(opened, task)))
        except Exception as error:
            if not isinstance(error, LanemapError):
                sender.send(error)
        finally:
            sender.close()  # whatever else keeps this process from ending

    def _receive(self, receiver: Connection) -> None:
        with suppress(Exception):  # the end, or an error that cannot be unpickled here
            while True:
                self._results.put(receiver.recv())
        self._results.put(None)


_OURS = {signal.SIGINT, signal.SIGTERM}
