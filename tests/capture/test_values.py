import numpy as np
import pytest

from lanemap.capture import values
from lanemap.db.instructions import FORMS

OPERANDS = {(each.operand(role).type, each.operand(role).slots): each.operand(role) for each in FORMS for role in "ABC"}


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


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=lambda operand: f"{operand.type}-{operand.slots}")
def test_small_integers_survive_registers(operand):
    low, high = values.integers(operand.type)
    held = np.random.default_rng(0).integers(low, high, (5, operand.size), endpoint=True)
    words = values.pack(values.encode(operand.type, operand.slot_bits, held), operand)
    assert words.shape == (5, operand.registers, 32)
    assert (values.decode(operand.type, operand.slot_bits, values.unpack(words, operand.slots)) == held).all()


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=lambda operand: f"{operand.type}-{operand.slots}")
def test_ones_are_where_they_are_asked_for(operand):
    slot = np.arange(operand.size)
    words = values.ones(operand, operand.size, slot, slot)
    found = values.decode(operand.type, operand.slot_bits, values.unpack(words, operand.slots))
    assert (found == np.eye(operand.size)).all()


def test_negative_numbers_and_fractions():
    assert list(values.decode("s4", 4, np.array([15, 8, 7]))) == [-1, -8, 7]
    assert list(values.decode("e2m1", 4, np.arange(8))) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert list(values.decode("e3m2", 8, np.array([0b100001, 0b011111]))) == [-0.0625, 28]
