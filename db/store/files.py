"""Files and folders that appear complete or not at all, and never replace what Lanemap did not write."""

import errno
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from glob import escape
from hashlib import file_digest
from pathlib import Path
from secrets import token_hex
from typing import IO

from ..errors import LanemapError

#: The file with the digests of all files in a folder that Lanemap wrote, so that it knows its own.
MANIFEST = ".lanemap.json"
#: How many files are flushed to the disk at a time.
_AT_ONCE = 16


@contextmanager
def atomically(path: Path, reads: Iterable[Path] = ()) -> Iterator[IO[bytes]]:
    """A file to write, which replaces ``path`` when the block succeeds and is deleted when it fails.

    A device or a pipe is written directly. For a link, the file that it points to is replaced.

    Args:
        path: what to write.
        reads: the files that are read meanwhile.

    Raises:
        LanemapError: it is one of ``reads`` or a database; the folder does not exist or cannot be written, or the disk
            is full.
    """
    with _in_words(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = _resolved(path)
        _refuse_precious(target, path, reads)
        for left in target.parent.glob(f".{escape(target.name)}.*.lanemap~"):
            with _claimed(left, unknown=False) as ours:
                if ours:
                    left.unlink()
        temporary = target.with_name(f".{target.name}.{token_hex(4)}.lanemap~")
        try:
            with temporary.open("xb") as stream, _claimed(temporary, unknown=True):
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                if target.exists():
                    temporary.chmod(target.stat().st_mode)
                temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)


def opened(output: str | os.PathLike[str] | IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """A file that appears complete or not at all, see ``atomically``, or a stream unchanged."""
    return atomically(Path(output)) if isinstance(output, str | os.PathLike) else nullcontext(output)


@contextmanager
def folder_atomically(path: Path, kind: str) -> Iterator[Path]:
    """A folder to fill, which replaces ``path`` when the block succeeds and is deleted when it fails.

    It is filled next to its target. An older one is first moved aside and removed last: wherever the process is killed,
    one of the two is complete. The next writer removes what is left over, or the error says where the old folder is.

    Args:
        path: nothing, an empty folder, or one of the same kind with all its files unchanged.
        kind: what it holds, as in ``dataset``.

    Raises:
        LanemapError: something else is there, or the folder cannot be written.
    """
    with _in_words(path), ExitStack() as claims:
        target = _resolved(path)
        _refuse_precious(target, path)
        _refuse_others(target, path, kind)
        new, old = (target.with_name(f".{target.name}.lanemap-{age}") for age in ("new", "old"))
        busy = f"cannot write {path}: another command is writing it; if not, one was killed: then remove {new}"
        for place in (new, target):
            if place.exists() and not claims.enter_context(_claimed(place, unknown=place is target)):
                raise LanemapError(busy)
        if old.exists() and not _manifest(target, kind):
            raise LanemapError(f"cannot write {path}: its old contents are in {old}: move that back, or remove it")
        for leftover in (old, new):
            if leftover.exists():
                shutil.rmtree(leftover)
        new.mkdir()
        if not claims.enter_context(_claimed(new, unknown=True)):
            raise LanemapError(busy)
        try:
            yield new
            _write_manifest(new, kind)
            if target.exists():
                new.chmod(target.stat().st_mode)
                target.rename(old)
            try:
                if old.exists():
                    _refuse_others(old, path, kind)  # something may have been put into it meanwhile
                new.rename(target)
            except BaseException:
                if old.exists():
                    old.rename(target)
                raise
            _sync(target.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(new, ignore_errors=True)


@contextmanager
def _claimed(path: Path, *, unknown: bool) -> Iterator[bool]:
    """Lock a file or folder for the block, and say whether that succeeded. A killed process holds no lock.

    ``unknown``: the answer where files cannot be locked: on Windows, and on some network drives.
    """
    handle = os.open(path, os.O_RDONLY) if os.name == "posix" else -1
    try:
        ours = unknown
        if handle >= 0:
            from fcntl import LOCK_EX, LOCK_NB, flock

            try:
                flock(handle, LOCK_EX | LOCK_NB)
                ours = path.exists() and os.path.samestat(os.fstat(handle), path.stat())
            except BlockingIOError:
                ours = False
            except OSError:
                ours = unknown
        yield ours
    finally:
        if handle >= 0:
            os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder to write into, unless it exists.

    Raises:
        LanemapError: its parent folder does not exist, or it cannot be made.
    """
    with _in_words(path):
        _refuse_precious(_resolved(path), path)
        path.mkdir(exist_ok=True)


def written(folder: Path, kind: str) -> Collection[str]:
    """The paths of all files in a folder that Lanemap wrote, if it is unchanged.

    Raises:
        LanemapError: it is not such a folder, or something in it was damaged, removed or added.
    """
    digests = _manifest(folder, kind)
    if not digests:
        raise LanemapError(f"{folder} is a folder, but not a {kind} that Lanemap wrote: name a file")
    try:
        _refuse_others(folder, folder, kind)
    except OSError as error:
        raise LanemapError(f"cannot read {folder}: {error.strerror or error}") from None
    if lacking := [name for name in digests if not (folder / name).exists()]:
        raise LanemapError(f"{folder} lacks {lacking[0]}, which Lanemap wrote: export the {kind} again")
    return digests


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Turn an error of the system into one line that names the path."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason: object = error.strerror or error
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            reason = f"the folder {path.parent} does not exist: make it, or name another"
        raise LanemapError(f"cannot write {path}: {reason}") from None


def _refuse_precious(target: Path, path: Path, reads: Iterable[Path] = ()) -> None:
    """Refuse to replace a file that is read, or part of a database. The message calls the target ``path``."""
    if any(target == _resolved(source) or (target.exists() and target.samefile(source)) for source in reads):
        raise LanemapError(f"cannot write {path}: it is also the input: name another file")
    for end in ("", "-journal", "-wal", "-shm"):
        database = Path(str(target).removesuffix(end))
        if database.is_file():
            with database.open("rb") as stream:
                if stream.read(16) == b"SQLite format 3\0":
                    raise LanemapError(f"cannot write {path}: it is a database, or part of one: name another file")


def _refuse_others(folder: Path, path: Path, kind: str) -> None:
    """Refuse to replace a folder that holds anything that Lanemap did not write. The message calls it ``path``."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    digests = _manifest(folder, kind)
    if not digests:
        raise LanemapError(f"{path} is not a {kind} that Lanemap wrote: name a new folder, or an empty one")
    parents = {parent.as_posix() for name in digests for parent in Path(name).parents}
    for root, folders, files in os.walk(folder, onerror=_fail):
        inside = Path(root).relative_to(folder)
        for name in sorted(folders + files):
            part = (inside / name).as_posix()
            if part == MANIFEST or (name in folders and part in parents):
                continue
            file = folder / part
            if part not in digests or file.is_symlink() or not file.is_file() or sha256_of(file) != digests[part]:
                raise LanemapError(f"{path} holds {part}, which is not as Lanemap wrote it: name another folder")


def is_whole(folder: Path, kind: str) -> bool:
    """Whether a folder holds just the files that Lanemap wrote there, as they were."""
    with suppress(LanemapError):
        return bool(written(folder, kind))
    return False


def _manifest(folder: Path, kind: str) -> dict[str, str]:
    """The digests of the files that Lanemap wrote into a folder, by their paths in it; empty if it wrote none."""
    try:
        with (folder / MANIFEST).open("rb") as stream:
            manifest = json.loads(stream.read(1 << 24))
            files = manifest["files"] if manifest["kind"] == kind else {}
            return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _write_manifest(folder: Path, kind: str) -> None:
    """Write the manifest of a folder, and flush everything in it to the disk."""
    from concurrent.futures import ThreadPoolExecutor  # not needed by a look-up

    folders = {Path(root): names for root, _, names in os.walk(folder, topdown=False, onerror=_fail)}
    files = [root / name for root, names in folders.items() for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        hashes = threads.map(sha256_of, files)
        [*threads.map(_sync, [*files, *(path for path in folders if path != folder)])]
        digests = {file.relative_to(folder).as_posix(): digest for file, digest in zip(files, hashes, strict=True)}
    (folder / MANIFEST).write_text(json.dumps({"kind": kind, "files": digests}))
    _sync(folder / MANIFEST)
    _sync(folder)


def sha256_of(file: Path) -> str:
    """The digest of a file."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _fail(error: OSError) -> None:
    """A folder that cannot be listed must not pass for an empty one."""
    raise error


def _resolved(path: Path) -> Path:
    """The path without links."""
    with suppress(RuntimeError):  # links in a circle, up to Python 3.12
        resolved = path.resolve()
        if not resolved.is_symlink():
            return resolved
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk. Only POSIX can open a folder for that."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
