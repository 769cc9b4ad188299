"""Files and folders: wherever a command fails or is killed, the old or the new is there."""

import io
import os
import sqlite3
from contextlib import closing

import pytest

from lanemap import LanemapError
from lanemap.db.store.files import MANIFEST, atomically, folder_atomically, make_folder

from .conftest import Fault, each_fault

CALLS = ("open", "close", "fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "chmod", "scandir", "walk")


@pytest.fixture
def fault(monkeypatch):
    fault = Fault()
    for name in CALLS:
        monkeypatch.setattr(os, name, fault.wrapped(getattr(os, name)))
    monkeypatch.setattr(io, "open", fault.wrapped(io.open))
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


@pytest.mark.few(2)
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
        assert {entry.name for entry in tmp_path.iterdir()} == {path.name}

    assert each_fault(fault, prepare, lambda: write(path, "new"), check) > 10


@pytest.mark.slow
@pytest.mark.parametrize("old", [None, "old"])
def test_a_folder_is_the_old_or_the_new_one(tmp_path, fault, old):
    """One of both is whole, and where it is not in its place the next command says so, and what to do."""
    path = tmp_path / "folder"
    aside = tmp_path / ".folder.lanemap-old"
    said = set()

    def prepare():
        clear(tmp_path)
        if old:
            fill(path, old)

    def held(folder):
        if not folder.exists():
            return None
        names = {path.name for path in folder.iterdir()} - {"inner", MANIFEST}
        assert names == {(folder / "inner" / "file").read_text()}
        return names.pop()

    def check():
        whole = held(path) if path.exists() else held(aside)
        assert whole in (old, "new")
        if not fault.kills:
            assert path.exists() == (whole is not None)
        if not path.exists() and aside.exists():
            with pytest.raises(LanemapError, match=f"its old contents are in {aside}: move that back, or remove it"):
                fill(path, "next")
            said.add(held(aside))
            aside.rename(path)
        fill(path, "next")
        assert held(path) == "next"
        assert {path.name for path in tmp_path.iterdir()} == {"folder"}

    assert each_fault(fault, prepare, lambda: fill(path, "new"), check) > 30
    assert said == ({old} if old else set())


def test_a_file_that_another_command_writes_is_left_alone(tmp_path):
    with atomically(tmp_path / "file") as stream:
        stream.write(b"mine")
        write(tmp_path / "file", "theirs")
        write(tmp_path / "other", "theirs")
        assert (tmp_path / "file").read_text() == "theirs"
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "other"}


def test_two_commands_do_not_write_the_same_folder(tmp_path):
    with folder_atomically(tmp_path / "one", "test") as made:
        (made / "file").write_text("mine")
        with pytest.raises(LanemapError, match="another command is writing it; if not, one was killed: then remove"):
            fill(tmp_path / "one", "theirs")
    assert {path.name for path in tmp_path.iterdir()} == {"one"}
    assert (tmp_path / "one" / "file").read_text() == "mine"


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("how", [lambda path: fill(path, "new"), make_folder])
def test_no_folder_takes_the_place_of_a_part_of_a_database(tmp_path, end, how):
    with closing(sqlite3.connect(tmp_path / "layouts.db")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(LanemapError, match="it is a database, or part of one"):
        how(tmp_path / f"layouts.db{end}")
    assert [path.name for path in tmp_path.iterdir()] == ["layouts.db"]
