"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import LanemapError


@contextmanager
def atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    A device or a pipe has no whole to wait for and is written directly. Of a link, the file that it points to is
    replaced.

    Raises:
        LanemapError: the folder is not there, cannot be written, or the disk is full.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        with _beside(_resolved(path)) as stream:
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
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o666 & ~_mask())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@contextmanager
def folder_atomically(path: Path, replaceable: Callable[[Path], bool], what: str) -> Iterator[Path]:
    """A folder to fill, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    Args:
        path: nothing, an empty folder, or one that may be replaced.
        replaceable: whether a folder that is there may be.
        what: those that may, in words.

    Raises:
        LanemapError: something else is there, or the folder cannot be written.
    """
    try:
        path = _resolved(path)
        if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or replaceable(path))):
            raise LanemapError(f"{path} is not {what}: name a new folder, or an empty one")
        made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            yield made
            made.chmod(path.stat().st_mode if path.exists() else 0o777 & ~_mask())
            _exchange(made, path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise LanemapError(f"cannot write {path}: {error.strerror or error}") from None


def _exchange(made: Path, path: Path) -> None:
    """Put a folder in the place of another one, which comes back if that fails."""
    if not path.exists():
        made.rename(path)
        return
    old = made.with_name(f"{made.name}.old")
    path.rename(old)
    try:
        made.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _resolved(path: Path) -> Path:
    """The path without links."""
    with suppress(RuntimeError):  # links in a circle, up to Python 3.12
        resolved = path.resolve()
        if not resolved.is_symlink():
            return resolved
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
