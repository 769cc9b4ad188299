"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import LanemapError


@contextmanager
def atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    A device or a pipe has no whole to wait for and is written directly.

    Raises:
        LanemapError: the folder is not there, cannot be written, or the disk is full.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        with _beside(path) as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LanemapError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
