"""What tensor maps write and what conflicts cost, measured on simulated shared memory that no formula describes."""

import numpy as np
import pytest

from lanemap.capture import conflict, cuda
from lanemap.capture.box import measure_box
from lanemap.capture.device import Bench, Contradiction, NotLoaded, Output
from lanemap.capture.kernels import POISON, kernels, module_text
from lanemap.db.isa.forms import forms
from lanemap.db.isa.shared import BoundingBox

from .. import forms as tables
from ..shared_memory import box
from .test_ptx import ptxas

#: One of each mode and type, with narrow rows and with full ones.
SOME = [form for form in tables.BOXES if form.shape in ("m8n8", "m8n16", "m8n32", "m8n64", "m64n24")]
(FULL,) = (form for form in SOME if str(form).endswith("m8n64.128B.b16"))


class SharedMemory:
    """Writes boxes byte by byte where ``wrong`` says, which is given the right place."""

    def __init__(self, wrong=lambda at, start, byte: at):
        self.wrong = wrong

    def run(self, kernel, probes):
        form, memories = kernel.form, []
        rows, elements = (int(number) for number in form.shape[1:].split("n"))
        width = int(form.a[1:]) // 8
        for pattern, offset in probes.picks:
            start = int(probes.patterns["offset"][offset, 0, 0])
            memory = np.full(kernel.output.size(kernel.threads) // 4, POISON, np.uint32).view(np.uint8)
            for byte, at in enumerate(box(form.qualifiers, rows, elements * width, start)):
                memory[self.wrong(at, start, byte)] = probes.patterns["tensor"][pattern, byte]
            memories.append(memory)
        return Output(np.stack(memories), 0.0)


@pytest.mark.few(3)
@pytest.mark.parametrize("form", SOME, ids=str)
def test_the_box_comes_out_that_the_memory_has(form):
    fragment, lines = measure_box(Bench(SharedMemory(), form))
    rows, elements = (int(number) for number in form.shape[1:].split("n"))
    width = int(form.a[1:]) // 8
    held = box(form.qualifiers, rows, elements * width, 0)
    found = {(row, col): reg * 4 + slot * width for _, reg, slot, row, col, _, _ in fragment.tuples()}
    assert found == {(row, col): held[(row * elements + col) * width] for row in range(rows) for col in range(elements)}
    assert lines == 7


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda at, start, byte: at ^ 1, "tears elements apart"),
        (lambda at, start, byte: 0 if byte < 2 else at, "bytes of memory hold the 1024 of"),
        (
            lambda at, start, byte: at if start < 512 else at ^ 64,
            "lies in another way 512 bytes after its pattern begins",
        ),
    ],
)
def test_a_box_that_is_not_written_by_its_address_is_refused(wrong, said):
    with pytest.raises(Contradiction, match=said):
        measure_box(Bench(SharedMemory(wrong), FULL))


def test_another_swizzle_is_measured_and_not_believed():
    """A wrong map gives the layout that memory has, which differs from the document."""
    fragment, _ = measure_box(Bench(SharedMemory(lambda at, start, byte: at ^ 16), FULL))
    right, _ = measure_box(Bench(SharedMemory(), FULL))
    assert fragment.digest != right.digest


def test_every_kernel_assembles(tmp_path):
    plain = [kernel for form in forms("ldmatrix") + forms("stmatrix") for kernel in conflict.kernels(form)]
    every = [kernel for form in SOME for kernel in kernels(form)] + plain
    assert len(plain) == 12
    done = ptxas(module_text(every, "sm_90a"), "sm_90a", tmp_path)
    assert done.returncode == 0, done.stderr[:2000]


def test_a_map_that_the_driver_does_not_have_is_unsupported(monkeypatch):
    class Driver:
        def cuTensorMapEncodeTiled(self, where, kind, rank, address, *_):  # noqa: N802
            assert where.value % 64 == 0
            assert (kind, rank, address.value) == (1, 2, 256)
            return 1

    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: Driver())
    with pytest.raises(NotLoaded, match="the driver has no tensor map of 8 rows of 64 elements of 16 bits in 128B"):
        cuda.tensor_map(BoundingBox("128B", 16, 8, 64), 256, 2)


class Banks:
    """Takes as many cycles as a bank has words to give, counted word by word."""

    def __init__(self, wrong=lambda cycles, at: cycles):
        self.wrong = wrong

    def run(self, kernel, probes):
        registers = kernel.form.operand("r").registers
        matrices = kernel.called == "clock"
        width, lanes = (16, 8 * registers) if matrices else (4 * registers, 32)
        taken = []
        for at, rows in enumerate(probes.patterns["p"][:, 0]):
            turns = 0
            for first in range(0, lanes, 128 // width):
                words = {
                    int(row) // 4 + word for row in rows[first : first + 128 // width] for word in range(width // 4)
                }
                banks = [word % 32 for word in words]
                turns += max(map(banks.count, banks))
            taken.append(self.wrong(16 * turns, at))
        return Output(np.tile(np.array(taken, np.uint32)[:, None, None], 32), 0.0)


@pytest.mark.parametrize("form", forms("ldmatrix", "m8n8") + forms("stmatrix", "m8n8"), ids=str)
def test_an_access_takes_as_many_turns_as_its_banks_need(form):
    found = conflict.measure_conflicts(Bench(Banks(), form))
    assert all(each.cycles == each.turns for each in found)
    assert len(found) == (0 if "trans" in form.qualifiers else 38)


def test_stores_of_a_tile_in_rows_of_256_bytes_have_an_eightfold_conflict():
    (form,) = (form for form in forms("stmatrix", "m8n8") if form.qualifiers == "x4")
    turns = {(each.pitch, each.swizzle): each.turns for each in conflict.measure_conflicts(Bench(Banks(), form))[:19]}
    assert (turns[256, "none"], turns[272, "none"], turns[128, "128B"]) == (32, 4, 4)


def test_cycles_that_no_rule_of_banks_gives_are_refused():
    form = forms("ldmatrix", "m8n8")[0]
    with pytest.raises(Contradiction, match="takes longer than"):
        conflict.measure_conflicts(Bench(Banks(lambda cycles, at: 500 if at == 2 else cycles), form))
