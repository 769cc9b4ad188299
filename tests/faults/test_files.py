"""Files and folders: wherever a command fails or is killed, the old or the new is there, and litter is swept."""

import os

import pytest

from lanemap.db import files
from lanemap.db.files import MANIFEST, atomically, folder_atomically

from .conftest import Fault, each_fault, in_child

CALLS = (
    "open",
    "close",
    "fsync",
    "rename",
    "replace",
    "unlink",
    "rmdir",
    "mkdir",
    "chmod",
    "scandir",
    "walk",
    "fdopen",
)


@pytest.fixture
def fault(monkeypatch):
    fault = Fault()
    for name in CALLS:
        monkeypatch.setattr(os, name, fault.wrapped(getattr(os, name)))
    monkeypatch.setattr(files, "_exchange", fault.wrapped(files._exchange))
    return fault


def write(path, text):
    with atomically(path) as stream:
        stream.write(text.encode())


def fill(folder, text):
    with folder_atomically(folder, "test") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_text(text)
        (made / text).write_text(text)


def clear(folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("old", [None, "old"])
def test_a_file_is_the_old_or_the_new_one(tmp_path, fault, old):
    path = tmp_path / "file"

    def prepare():
        clear(tmp_path)
        if old:
            write(path, old)

    def check():
        assert (path.read_text() if path.exists() else None) in (old, "new")
        write(path, "next")
        assert path.read_text() == "next"
        assert list(tmp_path.iterdir()) == [path]

    assert each_fault(fault, prepare, lambda: write(path, "new"), check) > 12


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("old", [None, "old"])
def test_a_folder_is_the_old_or_the_new_one(tmp_path, monkeypatch, fault, old, exchange):
    if not exchange:
        monkeypatch.setattr(files, "_exchange", fault.wrapped(lambda one, other: False))
    path, other = tmp_path / "folder", tmp_path / "other"

    def prepare():
        clear(tmp_path)
        if old:
            fill(path, old)

    def held():
        if not path.exists():
            return None
        names = {each.name for each in path.iterdir()} - {"inner", MANIFEST}
        assert names == {(path / "inner" / "file").read_text()}
        return names.pop()

    def check():
        if exchange:
            assert held() in (old, "new")
        write(other, "anything")
        assert held() in (old, "new")
        fill(path, "next")
        assert held() == "next"
        assert {each.name for each in tmp_path.iterdir()} == {"folder", "other"}

    assert each_fault(fault, prepare, lambda: fill(path, "new"), check) > 30


def test_what_another_command_still_writes_is_not_swept(tmp_path):
    with atomically(tmp_path / "one") as stream:
        stream.write(b"one")
        assert in_child(lambda: (write(tmp_path / "two", "two"), fill(tmp_path / "three", "three"))) == 0
    with folder_atomically(tmp_path / "four", "test") as made:
        (made / "file").touch()
        assert in_child(lambda: write(tmp_path / "two", "two")) == 0
    assert {each.name for each in tmp_path.iterdir()} == {"one", "two", "three", "four"}
    assert (tmp_path / "one").read_text() == "one"


@pytest.mark.parametrize(
    "name", [".one.lanemap~", "one.0123abcd.lanemap~", ".one.0123abcx.lanemap~", ".one.csv.0123abcd"]
)
def test_nothing_else_is_swept(tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / ".link.0123abcd.lanemap~").symlink_to(tmp_path)
    write(tmp_path / "one", "one")
    assert {each.name for each in tmp_path.iterdir()} == {"one", name, ".link.0123abcd.lanemap~"}
