"""Runs the tasks of a mapping in another Python: whatever a library does, only the task that it does it in is lost."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...db.errors import LanemapError

#: Seconds that one task may take, with the import of its library.
LIMIT = 60.0

_WORKER = Path(__file__).with_name("worker.py")


def answers(
    tasks: Sequence[Any], package: str, path: Sequence[str], python: str
) -> tuple[str | None, list[dict[str, Any]]]:
    """The version of a package, and an answer to each task: values, or an error in words.

    A task that ends its process, or takes longer than LIMIT seconds, is answered with an error; the tasks after it
    go on in a new process.

    Raises:
        LanemapError: ``python`` cannot be started.
    """
    version: str | None = None
    answered: list[dict[str, Any]] = []
    while len(answered) < len(tasks):
        request = {"path": list(path), "package": package, "tasks": tasks[len(answered) :]}
        with _Worker(request, python) as worker:
            lines = worker.lines()
            first = next(lines, None)
            version = first["version"] if first else version
            answered += lines
        if first is None and worker.ending == "ended with exit code 0":
            raise LanemapError(f"{python} is not a Python 3.8 or newer")
        if len(answered) < len(tasks):
            answered.append({"error": f"its process {worker.ending}"})
    return version, answered


class _Worker:
    """One process, and the lines that it writes."""

    def __init__(self, request: object, python: str) -> None:
        self.ending = ""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._reading, writing = os.pipe()
        # A file and not a pipe: a program that does not read it could end us, where SIGPIPE has its default action.
        asked = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, once the process has it
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user names the Python
                [python, str(_WORKER), str(writing)],
                stdin=asked,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[writing],
            )
        except OSError as error:
            os.close(self._reading)
            raise LanemapError(f"cannot start {python}: {error.strerror}: name a Python program") from None
        finally:
            os.close(writing)
            asked.close()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._reading)
        self._errors.close()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Each line as it comes; ends with the process, or when it says nothing for LIMIT seconds."""
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            while selector.select(LIMIT):
                read = os.read(self._reading, 1 << 16)
                if not read:
                    self.ending = self._how_it_ended()
                    return
                *complete, rest = (rest + read).split(b"\n")
                yield from map(json.loads, complete)
        self.ending = f"took longer than {LIMIT:g} s"

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read()[-2000:].decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(last) if line.strip()), "")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{how}: {said[:200]}" if said else how
