"""Processes that work on a list of tasks beside this one, each with what it opens for itself.

They are forked, because a process that is started anew would run the user's program again and take a second for it. A
driver does not survive a fork, nor does a connection: this process must not have begun to use the one, and those who
are forked do not use the other.
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

from .errors import LanemapError

Opened = TypeVar("Opened")
Result = TypeVar("Result")


class Processes(Generic[Opened, Result]):
    """So many processes, none where there is no fork, and fewer where the system has no room for more.

    Whoever is free takes the next of ``tasks``, which are numbers. A process opens what it needs with ``begin``, and
    does a task with that by ``do``. Leaving the ``with`` statement ends those that are still there. A signal to the
    whole group, as of Ctrl-C, is for this process to say something of.
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
        # Reading a number takes a task, which nobody does twice, and which a process that dies cannot block: those who
        # are forked share one place in a file.
        self._tasks = TemporaryFile(buffering=0)  # noqa: SIM115 - it stays open as long as they work
        self._tasks.write(array("I", tasks))
        self._tasks.seek(0)
        self._processes, threads = [], []
        for _ in range(count if "fork" in get_all_start_methods() else 0):
            context = get_context("fork")
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=self._work, args=(begin, sender), daemon=True)
            # Until the process knows what to do with them.
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
        for thread in threads:  # not before: a fork takes no threads with it
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
        """Every task with its result, as they come.

        This process takes part with what it has opened, and does what others took and could not do. Raises what a
        process raised, but for a LanemapError. Nobody waits until the others have closed what they opened.
        """
        missing = {*self._every}
        received = (found for _ in self._processes for found in iter(self._results.get, None))
        for found in chain(((task, self._do(opened, task)) for task in self._taken()), received):
            if isinstance(found, Exception):
                raise found
            missing.remove(found[0])
            yield found
            if not missing:
                return
        for task in missing:
            yield task, self._do(opened, task)

    def _taken(self) -> Iterator[int]:
        """The tasks that nobody has taken yet; each is taken as it comes."""
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
        with suppress(Exception):  # the end, or an error that cannot be made again here
            while True:
                self._results.put(receiver.recv())
        self._results.put(None)


_OURS = {signal.SIGINT, signal.SIGTERM}
