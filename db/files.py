"""Files and folders that appear whole or not at all, and never in the place of what somebody else wrote."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from secrets import token_hex
from typing import IO

from .errors import LanemapError

try:
    import fcntl
except ImportError:  # where files cannot be locked, nothing is swept away
    fcntl = None  # type: ignore[assignment]

#: In every folder that Lanemap writes: the digests of the files, so that it knows its own.
MANIFEST = ".lanemap.json"

_LITTER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.lanemap~(old)?", re.DOTALL)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def atomically(path: Path, reads: Iterable[Path] = ()) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    A device or a pipe has no whole to wait for and is written directly. Of a link, the file that it points to is
    replaced.

    Args:
        path: what to write.
        reads: the files that are read for it.

    Raises:
        LanemapError: it is one of ``reads`` or a database; the folder is not there, cannot be written, or the disk is
            full.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = _resolved(path)
        _refuse_precious(target, path, reads)
        made, handle = _new(target, lambda made: os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(handle)
                if target.exists():
                    made.chmod(target.stat().st_mode)
                made.replace(target)
        except BaseException:
            with suppress(OSError):
                made.unlink()
            raise
        _sync(target.parent)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _not_written(path, error) from None


@contextmanager
def folder_atomically(path: Path, kind: str) -> Iterator[Path]:
    """A folder to fill, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    Args:
        path: nothing, an empty folder, or one of the same kind with all files as they were written.
        kind: what it holds, as in ``dataset``.

    Raises:
        LanemapError: something else is there, or the folder cannot be written.
    """
    try:
        target = _resolved(path)
        _refuse_others(target, path, kind)
        made, handle = _new(target, _make_folder)
        try:
            yield made
            _seal(made, kind)
            if target.exists():
                made.chmod(target.stat().st_mode)
            _take_place(made, target, path, kind)
        finally:
            shutil.rmtree(made, ignore_errors=True)
            os.close(handle)
        _sync(target.parent)
    except OSError as error:
        raise _not_written(path, error) from None


def make_folder(path: Path) -> None:
    """Make a folder to write into, unless it is there.

    Raises:
        LanemapError: the folder that it is to be in does not exist, or it cannot be made.
    """
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise _not_written(path, error) from None


def _not_written(path: Path, error: OSError) -> LanemapError:
    if isinstance(error, FileNotFoundError) and not path.parent.exists():
        return LanemapError(f"cannot write {path}: the folder {path.parent} does not exist: make it, or name another")
    return LanemapError(f"cannot write {path}: {error.strerror or error}")


def _refuse_precious(target: Path, path: Path, reads: Iterable[Path]) -> None:
    """Refuse to replace what is read, or a database. The message calls the target ``path``."""
    if any(target == _resolved(each) or (target.exists() and target.samefile(each)) for each in reads):
        raise LanemapError(f"cannot write {path}: it is read for what is to be written: name another file")
    if any(_is_database(Path(str(target).removesuffix(end))) for end in ("", "-journal", "-wal", "-shm")):
        raise LanemapError(f"cannot write {path}: it is a database, or part of one: name another file")


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(16) == b"SQLite format 3\0"


def _make_folder(path: Path) -> int:
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _new(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """A new name beside a path, locked as long as this process lives, so that no other process removes it."""
    _sweep(path.parent)
    while True:
        made = path.with_name(f".{path.name}.{token_hex(4)}.lanemap~")
        handle = create(made)
        if _lock(handle) and made.exists():
            return made, handle
        os.close(handle)


def _lock(handle: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
    return True


def _sweep(folder: Path) -> None:
    """Remove what commands that were killed left in a folder; bring back what they were about to replace."""
    for each in os.scandir(folder) if fcntl is not None else ():
        if not (named := _LITTER.fullmatch(each.name)) or each.is_symlink():
            continue
        with suppress(OSError):
            handle = os.open(each.path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if named[2] and not (folder / named[1]).exists():
                    Path(each.path).rename(folder / named[1])
                elif each.is_dir():
                    shutil.rmtree(each.path)
                else:
                    Path(each.path).unlink()
            finally:
                os.close(handle)


def _seal(folder: Path, kind: str) -> None:
    """Write the manifest of a folder, and have everything in it on the disk."""
    digests = {}
    for root, _, names in os.walk(folder, topdown=False, onerror=_fail):
        for name in names:
            file = Path(root, name)
            with file.open("rb") as stream:
                digests[file.relative_to(folder).as_posix()] = file_digest(stream, "sha256").hexdigest()
                os.fsync(stream.fileno())
        if Path(root) != folder:
            _sync(Path(root))
    with (folder / MANIFEST).open("w") as manifest:
        json.dump({"kind": kind, "files": digests}, manifest)
        manifest.flush()
        os.fsync(manifest.fileno())
    _sync(folder)


def _fail(error: OSError) -> None:
    """What cannot be listed is not empty."""
    raise error


def manifest(folder: Path, kind: str) -> dict[str, str]:
    """The digests of the files that Lanemap wrote into a folder, by their paths in it; empty where it wrote none."""
    try:
        with (folder / MANIFEST).open("rb") as stream:
            said = json.loads(stream.read(1 << 24))
            files = said["files"] if said["kind"] == kind else {}
            return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _refuse_others(folder: Path, path: Path, kind: str) -> None:
    """Refuse to replace a folder that holds anything but what Lanemap wrote. The message calls it ``path``."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    known = manifest(folder, kind)
    if not known:
        raise LanemapError(f"{path} is not a {kind} that Lanemap wrote: name a new folder, or an empty one")
    parents = {parent.as_posix() for name in known for parent in Path(name).parents}
    for root, folders, files in os.walk(folder, onerror=_fail):
        inside = Path(root).relative_to(folder)
        for name in sorted(folders + files):
            each = (inside / name).as_posix()
            if each == MANIFEST or (name in folders and each in parents):
                continue
            if each not in known or not _as_written(folder / each, known[each]):
                raise LanemapError(f"{path} holds {each}, which is not as Lanemap wrote it: name another folder")


def written(folder: Path, kind: str) -> Collection[str]:
    """The files of a folder that Lanemap wrote, by their paths in it, all there and as they were written.

    Raises:
        LanemapError: it is not such a folder, or something in it was damaged, removed or added.
    """
    known = manifest(folder, kind)
    if not known:
        raise LanemapError(f"{folder} is a folder, and not a {kind} that Lanemap wrote: name a file")
    try:
        _refuse_others(folder, folder, kind)
    except OSError as error:
        raise LanemapError(f"cannot read {folder}: {error.strerror or error}") from None
    if lacking := [name for name in known if not (folder / name).exists()]:
        raise LanemapError(f"{folder} lacks {lacking[0]}, which Lanemap wrote: export the {kind} again")
    return known


def _as_written(file: Path, digest: str) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest() == digest


def _take_place(made: Path, target: Path, path: Path, kind: str) -> None:
    """Put a folder in the place of another one, which is left under the name of the first."""
    if not target.exists() or not any(target.iterdir()):
        made.rename(target)
    elif _exchange(made, target):
        try:
            _refuse_others(made, path, kind)  # what was put into it meanwhile
        except LanemapError:
            _exchange(made, target)
            raise
    else:
        _in_turn(made, target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step. False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(code, os.strerror(code))


def _in_turn(made: Path, path: Path) -> None:
    """The same in two steps. The name that the old folder has between them tells the next command where it belongs."""
    old = made.with_name(f"{made.name}old")
    handle = os.open(path, os.O_RDONLY)
    try:
        _lock(handle)
        path.rename(old)
        try:
            made.rename(path)
        except BaseException:
            old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(handle)


def _resolved(path: Path) -> Path:
    """The path without links."""
    with suppress(RuntimeError):  # links in a circle, up to Python 3.12
        resolved = path.resolve()
        if not resolved.is_symlink():
            return resolved
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
