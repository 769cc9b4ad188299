"""An untrusted program that works for us in a process of its own and answers in messages.

A message is its length in eight bytes, big-endian, and then that many bytes, on a descriptor of its own. What the
program prints is dropped, except the end of its errors. It is limited in time, bytes and memory, and at the end its
whole session is killed, and whatever it started in other sessions: these processes are recognised by a variable in
their environment, so that only those without it survive. Memory, processes and variables are read from ``/proc``, which
exists on Linux.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import NamedTuple

from ...db.errors import LanemapError


class Limits(NamedTuple):
    """Seconds for a message and for all of them, bytes of a message, and memory and processes of the session."""

    message_seconds: float = 60.0
    seconds: float = 600.0
    message_bytes: int = 64 << 20
    memory_bytes: int = 8 << 30
    processes: int = 256


class ChildError(LanemapError):
    """The program ended or was killed before it answered. The message says how, as in ``took longer than 60 s``."""


_LIMITS = Limits()


class Child:
    """A program that runs until the block ends. Its last argument is the number of the descriptor for its messages."""

    def __init__(
        self, command: Sequence[str], request: bytes, limits: Limits = _LIMITS, end: float | None = None
    ) -> None:
        """Start it with a request as its standard input; Python does not search the current folder for modules.

        Args:
            command: the program and its arguments except the last.
            request: its input.
            limits: what it may use.
            end: when its time is over, by ``time.monotonic``, if it shares the seconds of its limits with others.

        Raises:
            LanemapError: it cannot be started.
        """
        if os.name != "posix":
            raise LanemapError("this system has no sessions of processes, in which libraries are run: use Linux")
        self._limits = limits
        self._end = time.monotonic() + limits.seconds if end is None else end
        self._counted = 0.0
        self._received = bytearray()
        self._errors = b""
        self._mark = f"LANEMAP_CHILD={token_hex(16)}"
        answers, writing = os.pipe()
        # A file, not a pipe: a program that does not read it could kill us where SIGPIPE has its default action.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(request)
            stdin.seek(0)
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the user names the program
                    [*command, str(writing)],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[writing],
                    start_new_session=True,
                    env={**os.environ, "PYTHONSAFEPATH": "1", **dict([self._mark.split("=")])},
                )
            except (OSError, ValueError) as error:
                os.close(answers)
                why = getattr(error, "strerror", None) or error
                raise LanemapError(f"cannot start {command[0]}: {why}: name a Python program") from None
            finally:
                os.close(writing)
        assert self._process.stderr is not None
        self._answers, self._stderr = answers, self._process.stderr.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # While processes are listed, one may start another and end: they are gone when two lists in a row are empty.
        until, left, missing = time.monotonic() + _KILLED, [self._process.pid], 0
        while missing < 2 and time.monotonic() < until:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for process in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            session = _session(self._process.pid, self._mark)
            left = [process for process, (state, _) in session.items() if state not in ("Z", "X")]
            missing = 0 if left else missing + 1
        self._process.wait()
        self._selector.close()
        os.close(self._answers)
        self._process.stderr.close()  # type: ignore[union-attr]

    def receive(self) -> bytes:
        """The next message.

        Raises:
            ChildError: there is none.
        """
        late = time.monotonic() + self._limits.message_seconds
        size = int.from_bytes(self._read(_HEAD, late), "big")
        if size > self._limits.message_bytes:
            raise ChildError(f"answered with more than {self._limits.message_bytes >> 20} MB")
        return self._read(size, late)

    def _read(self, size: int, late: float) -> bytes:
        """The next bytes of its answers; ``late`` is when the message is overdue."""
        while len(self._received) < size:
            now = time.monotonic()
            if now >= self._end:
                raise ChildError(f"was ended after {self._limits.seconds:g} s in all")
            if now >= late:
                raise ChildError(f"took longer than {self._limits.message_seconds:g} s")
            is_over = self._has_exited() if now >= self._counted + _PAUSE else False
            answered = False
            for key, _ in self._selector.select(0 if is_over else _PAUSE):
                data = os.read(key.fd, 1 << 16)
                if key.fd == self._stderr:
                    self._errors = (self._errors + data)[-_LAST_WORDS:]
                    if not data:
                        self._selector.unregister(key.fd)
                else:
                    self._received += data
                    answered = bool(data)
                    is_over = not data
            if is_over and not answered:
                raise self._ended()
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def _has_exited(self) -> bool:
        """Whether the program has exited, though a process that it started may still hold its descriptors.

        Raises:
            ChildError: its session has too many processes, or takes too much memory.
        """
        self._counted = time.monotonic()
        session = _session(self._process.pid, self._mark)
        if len(session) > self._limits.processes:
            raise ChildError(f"started more than {self._limits.processes} processes")
        most = self._limits.memory_bytes
        # This counts shared memory once per process, so only a second, slower look can tell.
        if sum(size for _, size in session.values()) > most and sum(map(_own_memory, session)) > most:
            raise ChildError(f"used more than {most / (1 << 30):g} GB of memory")
        return session.get(self._process.pid, ("", 0))[0] == "Z"

    def _ended(self) -> ChildError:
        """How it ended, with the last line of its errors."""
        with suppress(subprocess.TimeoutExpired):  # it may have closed its descriptors but run on
            self._process.wait(1.0)
        code = self._process.returncode
        if code is None:
            return ChildError("closed its answers")
        for _ in range(_LAST_READS):  # a process that it started may go on writing
            ready = [key.fd for key, _ in self._selector.select(0) if key.fd == self._stderr]
            if not ready or not (data := os.read(self._stderr, _LAST_WORDS)):
                break
            self._errors = (self._errors + data)[-_LAST_WORDS:]
        lines = [line.strip() for line in self._errors.decode(errors="replace").split("\n") if line.strip()]
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ChildError(f"{how}: {lines[-1][:200]}" if lines else how)


def _session(leader: int, mark: str) -> Mapping[int, tuple[str, int]]:
    """State and bytes, with shared memory, of the processes of a session or with a mark in their environment.

    Empty without ``/proc``.
    """
    processes = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end while it is read
            state, _, _, session, *fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(session) == leader or mark.encode() in (process / "environ").read_bytes():
                processes[int(process.name)] = state, int(fields[17]) * os.sysconf("SC_PAGE_SIZE")
    return processes


def _own_memory(process: int) -> int:
    """The bytes of a process, with its part of shared memory."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().split("\n")
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) << 10
    return 0


_HEAD = 8
#: Seconds within which all killed processes must be gone.
_KILLED = 5.0
_PAUSE = 0.2
_LAST_WORDS, _LAST_READS = 2000, 100
