"""Files and folders that appear whole or not at all, and never in the place of what somebody else wrote."""

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
from tempfile import gettempdir, mkdtemp
from typing import IO

from ..errors import LanemapError

#: In every folder that Lanemap writes: the digests of the files, so that it knows its own.
MANIFEST = ".lanemap.json"
#: How many files a disk is asked to write at a time.
_AT_ONCE = 16


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
        made = target.with_name(f".{target.name}.{token_hex(4)}.lanemap~")
        try:
            with made.open("xb") as stream, _claimed(made, unknown=True):
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                if target.exists():
                    made.chmod(target.stat().st_mode)
                made.replace(target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        _sync(target.parent)


def opened(output: str | os.PathLike[str] | IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """A file that appears whole or not at all, see ``atomically``, or a stream as it is."""
    return atomically(Path(output)) if isinstance(output, str | os.PathLike) else nullcontext(output)


@contextmanager
def folder_atomically(path: Path, kind: str) -> Iterator[Path]:
    """A folder to fill, which takes the place of ``path`` when the block ends well and vanishes when it does not.

    It is filled beside its target. An older one is moved aside first and removed last: wherever the process is killed,
    one of both is whole. Who writes there next removes what is left, or is told where what was there is.

    Args:
        path: nothing, an empty folder, or one of the same kind with all files as they were written.
        kind: what it holds, as in ``dataset``.

    Raises:
        LanemapError: something else is there, or the folder cannot be written.
    """
    with _in_words(path), ExitStack() as claims:
        target = _resolved(path)
        _refuse_precious(target, path)
        _refuse_others(target, path, kind)
        made, old = (target.with_name(f".{target.name}.lanemap-{age}") for age in ("new", "old"))
        busy = f"cannot write {path}: {made} is there: another command writes it now, or one was killed: then remove it"
        for each in (made, target):
            if each.exists() and not claims.enter_context(_claimed(each, unknown=each is target)):
                raise LanemapError(busy)
        if old.exists() and not _manifest(target, kind):
            raise LanemapError(f"cannot write {path}: what was there is whole in {old}: move it back, or remove it")
        for left in (old, made):
            if left.exists():
                shutil.rmtree(left)
        made.mkdir()
        if not claims.enter_context(_claimed(made, unknown=True)):
            raise LanemapError(busy)
        try:
            yield made
            _write_manifest(made, kind)
            if target.exists():
                made.chmod(target.stat().st_mode)
                target.rename(old)
            try:
                if old.exists():
                    _refuse_others(old, path, kind)  # what was put into it meanwhile
                made.rename(target)
            except BaseException:
                if old.exists():
                    old.rename(target)
                raise
            _sync(target.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _claimed(path: Path, *, unknown: bool) -> Iterator[bool]:
    """Whether nobody else works on a file or folder; if so, nobody does in the block. A killed process claims nothing.

    ``unknown``: what to say where there are no locks of files: on Windows, and on some network drives.
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


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for a while. Folders of processes that were killed are removed first."""
    for left in Path(gettempdir()).glob("lanemap-work-*"):
        with suppress(OSError), _claimed(left, unknown=False) as ours:
            if ours:
                shutil.rmtree(left)
    with ExitStack() as claim:
        ours = False
        while not ours:
            folder = Path(mkdtemp(prefix="lanemap-work-"))
            # Until it is claimed, others take it for one that was left.
            with suppress(FileNotFoundError):
                ours = claim.enter_context(_claimed(folder, unknown=True))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Make a folder to write into, unless it is there.

    Raises:
        LanemapError: the folder that it is to be in does not exist, or it cannot be made.
    """
    with _in_words(path):
        _refuse_precious(_resolved(path), path)
        path.mkdir(exist_ok=True)


def written(folder: Path, kind: str) -> Collection[str]:
    """The files of a folder that Lanemap wrote, by their paths in it, all there and as they were written.

    Raises:
        LanemapError: it is not such a folder, or something in it was damaged, removed or added.
    """
    known = _manifest(folder, kind)
    if not known:
        raise LanemapError(f"{folder} is a folder, and not a {kind} that Lanemap wrote: name a file")
    try:
        _refuse_others(folder, folder, kind)
    except OSError as error:
        raise LanemapError(f"cannot read {folder}: {error.strerror or error}") from None
    if lacking := [name for name in known if not (folder / name).exists()]:
        raise LanemapError(f"{folder} lacks {lacking[0]}, which Lanemap wrote: export the {kind} again")
    return known


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """An error of the system as one line that names the path."""
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
    """Refuse to replace what is read, or what belongs to a database. The message calls the target ``path``."""
    if any(target == _resolved(each) or (target.exists() and target.samefile(each)) for each in reads):
        raise LanemapError(f"cannot write {path}: it is read for what is to be written: name another file")
    for end in ("", "-journal", "-wal", "-shm"):
        database = Path(str(target).removesuffix(end))
        if database.is_file():
            with database.open("rb") as stream:
                if stream.read(16) == b"SQLite format 3\0":
                    raise LanemapError(f"cannot write {path}: it is a database, or part of one: name another file")


def _refuse_others(folder: Path, path: Path, kind: str) -> None:
    """Refuse to replace a folder that holds anything but what Lanemap wrote. The message calls it ``path``."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    known = _manifest(folder, kind)
    if not known:
        raise LanemapError(f"{path} is not a {kind} that Lanemap wrote: name a new folder, or an empty one")
    parents = {parent.as_posix() for name in known for parent in Path(name).parents}
    for root, folders, files in os.walk(folder, onerror=_fail):
        inside = Path(root).relative_to(folder)
        for name in sorted(folders + files):
            each = (inside / name).as_posix()
            if each == MANIFEST or (name in folders and each in parents):
                continue
            file = folder / each
            if each not in known or file.is_symlink() or not file.is_file() or sha256_of(file) != known[each]:
                raise LanemapError(f"{path} holds {each}, which is not as Lanemap wrote it: name another folder")


def _manifest(folder: Path, kind: str) -> dict[str, str]:
    """The digests of the files that Lanemap wrote into a folder, by their paths in it; empty where it wrote none."""
    try:
        with (folder / MANIFEST).open("rb") as stream:
            manifest = json.loads(stream.read(1 << 24))
            files = manifest["files"] if manifest["kind"] == kind else {}
            return {str(name): str(digest) for name, digest in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _write_manifest(folder: Path, kind: str) -> None:
    """Write the manifest of a folder, and have everything in it on the disk."""
    from concurrent.futures import ThreadPoolExecutor  # a look-up goes without

    folders = {Path(root): names for root, _, names in os.walk(folder, topdown=False, onerror=_fail)}
    files = [root / name for root, names in folders.items() for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(sha256_of, files)
        digests = {file.relative_to(folder).as_posix(): digest for file, digest in zip(files, found, strict=True)}
        for synced in (files, [path for path in folders if path != folder]):
            [*threads.map(_sync, synced)]
    (folder / MANIFEST).write_text(json.dumps({"kind": kind, "files": digests}))
    _sync(folder / MANIFEST)
    _sync(folder)


def sha256_of(file: Path) -> str:
    """The digest of a file."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _fail(error: OSError) -> None:
    """What cannot be listed is not empty."""
    raise error


def _resolved(path: Path) -> Path:
    """The path without links."""
    with suppress(RuntimeError):  # links in a circle, up to Python 3.12
        resolved = path.resolve()
        if not resolved.is_symlink():
            return resolved
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk. Only POSIX can open it for that."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
