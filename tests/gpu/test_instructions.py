"""Simulated threads make of numbers what a card made of them, to the last bit where an instruction is exact."""

import re

import numpy as np
import pytest

from .instructions import TOGETHER, build, record, recorded, traced

#: How far approximate results may be off, relative to themselves, and as much of the least number that is normal.
_OFF = {"f16": 2**-9, "f16x2": 2**-9, "bf16": 2**-6, "bf16x2": 2**-6, "f32": 2**-16, "f64": 2**-19}


@np.errstate(invalid="ignore")
def floats(results, type_):
    """Numbers of a type in words of 64 bits, as those of f64 [number][thread]."""
    bits = np.ascontiguousarray(results)
    if type_.startswith("bf16"):
        halves = bits.view("u2").reshape(-1, 4)[:, : 2 if type_.endswith("x2") else 1]
        return (halves.astype("u4") << 16).view("f4").astype("f8").T
    kind, count = {"f16": ("f2", 1), "f16x2": ("f2", 2), "f32": ("f4", 1), "f64": ("f8", 1)}[type_]
    return bits.view(kind).reshape(len(bits), -1)[:, :count].astype("f8").T


def types(opcode):
    """The types in an opcode, of which the first is that of what a conversion makes."""
    return [part for part in opcode.split(".") if re.fullmatch(r"(b?f|tf)\d+(x2)?", part)]


@np.errstate(invalid="ignore", over="ignore")
def same(instruction, found, meant, numbers):
    """Which threads have the right result."""
    opcode = instruction.opcode
    if found.shape != meant.shape:
        return np.zeros(1, bool)
    of = types(opcode)
    equal = found == meant
    if instruction.approximate:
        a, b = floats(found, of[-1]), floats(meant, of[-1])
        close = np.abs(a - b) <= _OFF[of[-1]] * np.maximum(np.abs(b), np.finfo("f4").tiny)
        if opcode.startswith(("sin", "cos")):  # the bound is absolute, and for a few turns only
            argument = floats(numbers[:, 4], "f32")
            close = (np.abs(a - b) < 2**-20) | (np.abs(argument) > np.pi)
        if of[-1].startswith("f16"):  # what is subnormal may become zero
            close |= np.abs(a - b) < np.finfo("f2").tiny
        equal |= (close | (a == b) | (np.isnan(a) & np.isnan(b))).all(axis=0)
    elif of and instruction.result != "p" and (opcode.startswith(("cvt", "abs", "neg")) or "f64" in of):
        type_ = (of[0] if opcode.startswith("cvt") else of[-1]).replace("tf32", "f32")
        # Which bits it has that is no number is open there.
        equal |= np.isnan(floats(found, type_)).all(axis=0) & np.isnan(floats(meant, type_)).all(axis=0)
    return equal


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, len(recorded()[1]), TOGETHER))
def test_simulated_threads_make_of_numbers_what_a_card_does(first):
    numbers, every = recorded()
    chosen = every[first : first + TOGETHER]
    found = iter(traced([instruction for instruction, _ in chosen], numbers))
    right = [
        (instruction.opcode, same(instruction, next(found), meant, numbers))
        for instruction, results in chosen
        for meant in results
    ]
    assert not {opcode: np.flatnonzero(~threads) for opcode, threads in right if not threads.all()}


@pytest.mark.slow
def test_they_assemble(tmp_path):
    assert build(tmp_path) == len(recorded()[1])


def test_a_card_makes_of_numbers_what_is_recorded(tmp_path, needs):
    needs((9, 0), (9, 0))
    build(tmp_path)
    record(tmp_path, tmp_path / "again.npz")
    assert all(map(np.array_equal, recorded(tmp_path / "again.npz")[1], recorded()[1]))
