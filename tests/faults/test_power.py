"""The power fails: of what was not on the disk by fsync, some is lost, and some is there in any order.

strace says what a process asks of the system. From that, disks are made as they may be after a failure at any call:
data of a file that were synced are there, and names of a folder that was; of what came later, nothing, all, or some.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from lanemap import LanemapError
from lanemap.db.store.files import MANIFEST, written

from . import works

CALLS = (
    "openat,open,creat,write,pwrite64,lseek,ftruncate,fsync,fdatasync,close,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_CALL = re.compile(r"(\w+)\((.*)\) += (\d+)(?:<.*>)?$")
_THREAD, _UNFINISHED, _RESUMED = r"(\d+) +(.*)", " <unfinished ...>", r"<\.\.\. \w+ resumed>(.*)"
_TEXT, _OPENED = r'"((?:\\x[0-9a-f]{2})*)"', r"<((?:\\x[0-9a-f]{2})+)>"


@dataclass
class Disk:
    """Folders and files by number; number 0 is the root. Numbers are never used again, as those of files may be."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    files: dict[int, bytearray] = field(default_factory=dict)

    def do(self, change):
        """A change: of names in a folder, or of the data of a file."""
        match change:
            case "name", folder, name, number:
                self.folders[folder][name] = number
            case "forget", folder, name:
                self.folders[folder].pop(name, None)
            case "write", number, offset, data:
                held = self.files[number]
                held.extend(bytes(max(0, offset + len(data) - len(held))))
                held[offset : offset + len(data)] = data
            case "cut", number, size:
                held = self.files[number]
                held.extend(bytes(max(0, size - len(held))))
                del held[size:]

    def put(self, place, folder=0):
        """Make real files of it."""
        place.mkdir()
        for name, number in self.folders[folder].items():
            if number in self.folders:
                self.put(place / name, number)
            else:
                (place / name).write_bytes(self.files[number])


class Trace:
    """What a process did to the files of a folder: changes, each with what must be synced for it, and syncs."""

    def __init__(self, root, lines):
        self.root, self.numbers = Path(root), count(1)
        self.first = Disk()
        self._take(self.root, 0)
        self.disk = Disk({n: dict(names) for n, names in self.first.folders.items()}, dict(self.first.files))
        self.steps = []
        self.offsets = {}
        begun = {}
        for line in lines:
            thread, said = re.fullmatch(_THREAD, line).groups()
            if rest := re.fullmatch(_RESUMED, said):
                said = begun.pop(thread) + rest[1]
            if said.endswith(_UNFINISHED):
                begun[thread] = said.removesuffix(_UNFINISHED)
            elif found := _CALL.match(said):
                self._call(*found.groups())

    def _take(self, place, folder):
        for path in sorted(place.iterdir()):
            number = self.first.folders[folder][path.name] = next(self.numbers)
            if path.is_dir():
                self.first.folders[number] = {}
                self._take(path, number)
            else:
                self.first.files[number] = bytearray(path.read_bytes())

    def _number(self, path):
        """The number of a path in the folder; None where it is elsewhere or not there."""
        number = 0
        with suppress(ValueError):
            for name in path.relative_to(self.root).parts:
                number = self.disk.folders.get(number, {}).get(name)
                if number is None:
                    return None
            return number
        return None

    def _change(self, where, *change):
        self.steps.append((where, change))
        if change[0] in ("name", "forget"):
            self.disk.do(change)

    def _call(self, call, arguments, result):
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in re.findall(_TEXT, arguments)]
        opened = [
            bytes.fromhex(text.replace("\\x", "")).decode()
            for text in re.findall(r"<((?:\\x[0-9a-f]{2})+)>", arguments)
        ]
        if call in ("write", "pwrite64", "lseek", "ftruncate", "fsync", "fdatasync", "close"):
            descriptor, path = int(arguments.split("<")[0]), Path(opened[0] if opened else "/nowhere")
            number = self._number(path)
            if number is None:
                return
            if call in ("fsync", "fdatasync"):
                self.steps.append((number, None))
            elif call == "lseek":
                self.offsets[descriptor] = int(result)
            elif call == "ftruncate":
                self._change(number, "cut", number, int(arguments.rpartition(", ")[2]))
            elif call != "close":
                end = call == "pwrite64"
                offset = int(arguments.rpartition(", ")[2]) if end else self.offsets.get(descriptor, 0)
                self.offsets[descriptor] = offset + int(result) * (not end)
                self._change(number, "write", number, offset, texts[0][: int(result)])
            return
        paths = [Path(*(opened[:1] if "at" in call else []), text.decode()) for text in texts]
        paths = [Path(os.path.normpath(path if path.is_absolute() else Path.cwd() / path)) for path in paths]
        parents = [self._number(path.parent) for path in paths]
        if None in parents or not paths:
            return
        if call in ("openat", "open", "creat"):
            self.offsets[int(result)] = 0
            number = self._number(paths[0])
            if number is None and "O_CREAT" in arguments:
                number = next(self.numbers)
                self.disk.files[number] = bytearray()
                self._change(parents[0], "name", parents[0], paths[0].name, number)
            elif "O_TRUNC" in arguments:
                self._change(number, "cut", number, 0)
        elif call.startswith("mkdir"):
            number = next(self.numbers)
            self.disk.folders[number] = {}
            self._change(parents[0], "name", parents[0], paths[0].name, number)
        elif call.startswith("rename"):
            number = self._number(paths[0])
            assert parents[0] == parents[1]
            # One step: a file is under one name or the other.
            self.steps.append((parents[0], ("rename", parents[0], paths[0].name, paths[1].name, number)))
            self.disk.do(("forget", parents[0], paths[0].name))
            self.disk.do(("name", parents[0], paths[1].name, number))
        else:
            self._change(parents[0], "forget", parents[0], paths[0].name)

    def after(self, end, keep):
        """A disk after a failure at a step. ``keep`` says how many of some later changes of names of a folder survive,
        and which of those of data.
        """
        synced = {}
        for at, (where, change) in enumerate(self.steps[:end]):
            if change is None:
                synced[where] = at
        disk = Disk({n: dict(names) for n, names in self.first.folders.items()}, {})
        for number in self.disk.folders:
            disk.folders.setdefault(number, {})
        for number in self.disk.files:
            disk.files[number] = bytearray(self.first.files.get(number, b""))
        later = {}
        for at, (where, change) in enumerate(self.steps[:end]):
            if change is None:
                continue
            if at > synced.get(where, -1):
                if where in disk.folders:  # names change in their order
                    later[where] = later.get(where, True) and keep()
                    kept = later[where]
                else:
                    kept = keep()
                if not kept:
                    continue
            if change[0] == "rename":
                _, folder, old, new, number = change
                disk.do(("forget", folder, old))
                disk.do(("name", folder, new, number))
            else:
                disk.do(change)
        return disk


def traced(work, place):
    """What a work does to the folder that a place is in, in a process of its own."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    root = place.parent
    copy = shutil.copytree(root, root.with_name("before"))
    log = root.with_name("log")
    command = ["strace", "-f", "-y", "-xx", "-s", str(1 << 24), "-e", f"trace={CALLS}", "-o", log]
    done = subprocess.run(
        [*command, sys.executable, works.__file__, work, place], capture_output=True, text=True, check=False
    )
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip(f"strace cannot trace here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(root)
    copy.rename(root)
    return Trace(root, log.read_text().splitlines())


def failures(trace, seed, place):
    """The folder after a failure at each step, each time with nothing, all and some of what was not synced."""
    chance = random.Random(seed)
    ways = [lambda: False, lambda: True, lambda: chance.random() < 0.5, lambda: chance.random() < 0.9]
    changes = [change for _, change in trace.steps]
    # Of writes one after the other, some.
    ends = [at for at, change in enumerate(changes) if change is None or change[0] != "write" or chance.random() < 0.05]
    for end in [*ends, len(changes)]:
        for keep in ways:
            shutil.rmtree(place.parent)
            trace.after(end, keep).put(place.parent)
            finished = (place.parent / "done").exists()
            yield finished or end == len(trace.steps)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root" / "place"


@pytest.mark.slow
@pytest.mark.parametrize("work", [pytest.param("build", marks=pytest.mark.slow), "load"])
def test_a_database_is_the_old_or_the_new_one(place, work, seed):
    if work == "load":
        works.build(place)
    old, new = (1, 2) if work == "load" else (0, 1)
    found = set()
    for finished in failures(traced(work, place), seed, place):
        held = works.read(place)
        assert held == new if finished else held in (old, new)
        found.add(held)
    assert found == {old, new}
    works.build(place)
    works.load(place)
    assert works.read(place) == 2


@pytest.mark.slow
@pytest.mark.parametrize("old", [None, b"old" * 9000], ids=["none", "old"])
def test_a_file_is_the_old_or_the_new_one(place, old, seed):
    if old:
        place.write_bytes(old)
    found = set()
    for finished in failures(traced("write", place), seed, place):
        held = place.read_bytes() if place.exists() else None
        assert held == b"new" * 15000 if finished else held in (old, b"new" * 15000)
        found.add(held)
    assert found == {old, b"new" * 15000}


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_a_folder_is_the_old_or_the_new_one(place, old, seed):
    if old:
        works.fill(place)
        (place / "one").unlink()
        manifest = (place / MANIFEST).read_text()
        (place / MANIFEST).write_text(re.sub(r'"one": "\w+",? ?', "", manifest).replace(", }", "}"))
        assert {*written(place, "test")} == {"inner/two"}
    found = set()
    for finished in failures(traced("fill", place), seed, place):
        aside = place.with_name(".place.lanemap-old")
        held = place if place.exists() else aside
        files = {*written(held, "test")} if held.exists() else None
        assert (
            files == {"one", "inner/two"}
            if finished
            else files in ({"inner/two"} if old else None, {"one", "inner/two"})
        )
        found.add(repr(files and len(files)))
        with suppress(LanemapError):
            works.fill(place)
            assert {*written(place, "test")} == {"one", "inner/two"}
    assert found == {repr(1 if old else None), "2"}
