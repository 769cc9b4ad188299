import numpy as np
import pytest

from lanemap.capture import values

from ..forms import FORMS

OPERANDS = {(form.operand(role).type, form.operand(role).slots): form.operand(role) for form in FORMS for role in "ABC"}


@pytest.mark.parametrize(
    ("of_type", "bits", "one"),
    [
        ("f64", 64, 0x3FF0000000000000),
        ("f32", 32, 0x3F800000),
        ("tf32", 32, 0x3F800000),
        ("f16", 16, 0x3C00),
        ("bf16", 16, 0x3F80),
        ("e4m3", 8, 0x38),
        ("e5m2", 8, 0x3C),
        ("e3m2", 8, 0x0C),
        ("e2m3", 8, 0x08),
        ("e2m1", 8, 0x08),
        ("e2m1", 4, 0x2),
        ("s8", 8, 1),
        ("u4", 4, 1),
        ("b1", 1, 1),
    ],
)
def test_one_is_written_as_the_type_writes_it(of_type, bits, one):
    assert values.encode(of_type, bits, np.array([1])) == one


def test_small_integers_survive_registers():
    for operand in OPERANDS.values():
        low, high = values.integers(operand.type)
        held = np.random.default_rng(0).integers(low, high, (5, operand.size), endpoint=True)
        words = values.write_registers(operand, held)
        assert words.shape == (5, operand.registers, 32)
        assert words.dtype.itemsize * 8 == operand.register_bits
        assert (values.read_registers(operand, words) == held).all()


def test_a_slot_is_in_the_lane_and_the_bits_of_a_register_that_its_number_says():
    for operand in OPERANDS.values():
        slot = np.arange(operand.size)
        words = values.write_registers(operand, np.eye(operand.size, dtype=np.int8))
        lane, reg, place = operand.place(slot)
        assert [indices.tolist() for indices in np.nonzero(words)] == [slot.tolist(), reg.tolist(), lane.tolist()]
        one = int(values.encode(operand.type, operand.slot_bits, np.array([1]))[0])
        assert words[slot, reg, lane].tolist() == [one << int(number) * operand.slot_bits for number in place]


def test_negative_numbers_and_fractions():
    assert list(values.decode("s4", 4, np.array([15, 8, 7]))) == [-1, -8, 7]
    assert list(values.decode("e2m1", 4, np.arange(8))) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert list(values.decode("e3m2", 8, np.array([0b100001, 0b011111]))) == [-0.0625, 28]
