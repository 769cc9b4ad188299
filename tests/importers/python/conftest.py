import sys
from textwrap import dedent

import pytest

from lanemap.ingest.catalogue import document
from lanemap.ingest.python import load

#: A library with layout functions of its own: right ones, and one of every way to be wrong.
LIBRARY = """
    import os, sys, time

    print("a library may print")

    def a_place(lane, value):
        return lane // 4 + value % 4 // 2 * 8, lane % 4 * 2 + value % 2 + value // 4 * 8

    def an_array(lane, value):
        import numpy

        return numpy.array(a_place(lane, value))

    def a_cell(m, k):
        return m % 8 * 4 + k % 8 // 2, k % 2 + m // 8 * 2 + k // 8 * 4

    def b_place(lane, value):
        return lane % 4 * 2 + value % 2 + value // 2 * 8, lane // 4

    def c_place(lane, value):
        return lane // 4 + value // 2 * 8, lane % 4 * 2 + value % 2

    def ends(lane, value):
        return [c_place(lane, at) for at in range(4)][value]

    def turned(lane, value):
        return a_place(lane, value)[::-1]

    def wide_b(lane, value):  # two instructions side by side
        k, n = b_place(lane, value % 4)
        return k, n + value // 4 * 8

    def two_warps(lane, value):
        m, n = c_place(lane % 32, value)
        return m + lane // 32 * 16, n

    def address(lane):
        return lane % 16, lane // 16 * 8

    def offset(lane, stride):
        return lane % 8 * stride + lane // 8 * 8

    def swizzled(n, k):  # rows of 128 bytes
        return n * 64 + (k // 8 ^ n % 8) * 8 + k % 8

    def askew(lane):
        return lane % 16, lane // 16 * 8 + (lane == 3) * 4

    def makes(shift):
        return lambda lane, value: (a_place(lane, value)[0] + shift, a_place(lane, value)[1])

    def holes(lane, value):
        if lane == 3:
            raise ValueError("no lane 3")
        return a_place(lane, value)

    def leaves(lane, value):
        m, k = a_place(lane, value)
        return (16 if (lane, value) == (5, 1) else m), k

    def doubled(m, k):
        return a_cell(m & ~1, k)

    def half(lane, value):
        return lane / 2, value

    def one(lane):
        return lane, 0

    def dies(lane, value):
        os.abort()

    def leaves_the_process(lane, value):
        sys.exit(3)

    def hangs(lane, value):
        time.sleep(1000)

    # What a hostile or a careless library does beside its work, once.

    def once(deed):
        def function(lane, value):
            if (lane, value) == (0, 0):
                deed()
            return a_place(lane, value)

        return function

    def everywhere(data):
        for descriptor in range(3, 4096):
            try:
                os.write(descriptor, data)
            except OSError:
                pass

    def write_for_ever(descriptor):
        while True:
            os.write(descriptor, b"x" * (1 << 16))

    def trickle():
        everywhere((1000).to_bytes(8, "big"))
        while True:
            everywhere(b"\\0")
            time.sleep(0.1)

    def patch_json():
        import json

        json.dumps = json.JSONEncoder.encode = json.JSONEncoder.iterencode = None

    def leave_a_child(seconds=100):
        if os.fork() == 0:
            time.sleep(seconds)

    def leave_a_session():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(100)
            os._exit(0)

    def breed_sessions():
        for _ in range(40):
            leave_a_session()
        time.sleep(100)

    def leave_a_child_and_die():
        leave_a_child()
        os.abort()

    def breed():
        for _ in range(40):
            leave_a_child()
        time.sleep(100)

    def eat():
        held = []
        while True:
            held.append(bytearray(1 << 24))

    floods_stdout = once(lambda: write_for_ever(1))
    floods_stderr = once(lambda: write_for_ever(2))
    trickles = once(trickle)
    patches_json = once(patch_json)
    forks = once(leave_a_child)
    forks_and_dies = once(leave_a_child_and_die)
    comes_back_twice = once(os.fork)
    breeds = once(breed)
    escapes = once(leave_a_session)
    breeds_sessions = once(breed_sessions)
    eats = once(eat)
    claims_much = once(lambda: everywhere(bytes([255] * 8)))
    babbles = once(lambda: everywhere((5).to_bytes(8, "big") + b"{{{{{"))
    falsifies = once(lambda: everywhere((2).to_bytes(8, "big") + b"[]"))
    closes_all = once(lambda: os.closerange(3, 4096))

    def is_deep(lane, value):
        found = a_place(lane, value)
        for _ in range(5_000 if (lane, value) == (0, 0) else 0):
            found = [found]
        return found

    def is_endless(lane, value):
        import itertools

        return itertools.repeat(0)

    def is_huge(lane, value):
        return 10**30, value

    MANY_BASES = {"register": [[0, 1]] * 60, "lane": [[0, 2]] * 5}
    DEEP_TEXT = "(" * 100_000

    TEXT = "((4,8),(2,2,2)):((32,1),(16,8,128))"
    BASES = {"register": [[0, 1], [8, 0], [0, 8]], "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}

    class Atom:
        @staticmethod
        def place(lane, value):
            return a_place(lane, value)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A folder with the library, in which the tests run: the folder that modules are imported from."""
    (tmp_path / "mylib.py").write_text(dedent(LIBRARY))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def imported(library):
    """A function that imports entries, given as TOML, and returns what came in."""

    def imported(*entries, python=sys.executable, head='library = "Mine"\npackage = "mine"\n'):
        mapping = library / "mine.toml"
        module = 'module = "mylib"\n'
        tables = ("[[entry]]\n" + ("" if "module =" in entry else module) + dedent(entry) for entry in entries)
        mapping.write_text(head + "\n".join(tables))
        return load(str(mapping), python)

    return imported


@pytest.fixture(scope="session")
def documented():
    """The corrected document's fragments by key."""
    return {fragment.key: fragment for fragment in document("ptx-isa-9.4+errata").fragments}


@pytest.fixture(scope="session")
def right(documented):
    """Whether a fragment is what the document says."""
    return lambda fragment: documented[fragment.key].same_layout(fragment)
