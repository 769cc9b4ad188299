"""Registers and numbers: how element values are written in the slots of registers.

Words are arrays (patterns, registers, threads) of 32- or 64-bit registers. Codes are arrays (patterns, slots), the bits
of one element each, in the order of a fragment's elements: by lane, then register, then slot from low bits to high.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..db.instructions import Operand

_NATIVE = {"f16": "f2", "f32": "f4", "tf32": "f4", "f64": "f8", "s32": "i4", "b16": "u2"}

#: Exponent and mantissa bits of the floats of 8 bits and fewer.
_SMALL_FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}


def unpack(words: NDArray[Any], slots: int) -> NDArray[Any]:
    """Codes of ``words``, ``slots`` to a register."""
    by_lane = np.ascontiguousarray(words.transpose(0, 2, 1)).reshape(len(words), -1)
    return from_bytes(by_lane.view(np.uint8), words.dtype.itemsize * 8 // slots)


def pack(codes: NDArray[Any], operand: Operand) -> NDArray[Any]:
    """Words of an operand that hold ``codes``."""
    by_lane = to_bytes(codes, operand.slot_bits).view(word_type(operand))
    return np.ascontiguousarray(by_lane.reshape(len(codes), operand.threads, operand.registers).transpose(0, 2, 1))


def from_bytes(data: NDArray[Any], bits: int) -> NDArray[Any]:
    """Codes of ``bits`` bits that follow each other in bytes (..., bytes), low bits first."""
    if bits >= 8:
        return data.view(f"<u{bits // 8}")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray((data[..., None] >> shifts & (1 << bits) - 1).reshape(*data.shape[:-1], -1))


def to_bytes(codes: NDArray[Any], bits: int) -> NDArray[Any]:
    """Bytes of codes, the inverse of ``from_bytes``."""
    if bits >= 8:
        return np.ascontiguousarray(codes.astype(f"<u{bits // 8}")).view(np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    grouped = codes.astype(np.uint8).reshape(*codes.shape[:-1], -1, 8 // bits)
    return np.asarray(np.bitwise_or.reduce(grouped << shifts, axis=-1))


def write(operand: Operand, values: NDArray[Any]) -> NDArray[Any]:
    """Words whose slots hold values (patterns, slots)."""
    return pack(encode(operand.type, operand.slot_bits, values), operand)


def read(operand: Operand, words: NDArray[Any]) -> NDArray[Any]:
    """Values (patterns, slots) of words."""
    return decode(operand.type, operand.slot_bits, unpack(words, operand.slots))


def ones(operand: Operand, patterns: int, pattern: NDArray[Any], slot: NDArray[Any]) -> NDArray[Any]:
    """Words of ``patterns`` patterns that are 1 in the listed slots, ``pattern[i]`` in ``slot[i]``, and 0 elsewhere."""
    words = np.zeros((patterns, operand.registers, operand.threads), word_type(operand))
    lane, reg, place = coordinates(operand, slot)
    one = encode(operand.type, operand.slot_bits, np.array([1])).astype(words.dtype)
    np.bitwise_or.at(words, (pattern, reg, lane), one << (place * operand.slot_bits).astype(words.dtype))
    return words


def coordinates(operand: Operand, slot: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Lane, register and slot in the register of slots numbered as in codes."""
    register, place = np.divmod(slot, operand.slots)
    lane, reg = np.divmod(register, operand.registers)
    return lane, reg, place


def word_type(operand: Operand) -> np.dtype[Any]:
    """Type of the operand's registers as words."""
    return np.dtype(f"u{operand.register_bits // 8}")


def decode(of_type: str, bits: int, codes: NDArray[Any]) -> NDArray[Any]:
    """Values of codes of a PTX type in slots of ``bits`` bits."""
    if of_type in _NATIVE:
        return np.asarray(codes.view(_NATIVE[of_type]))
    if of_type == "bf16":
        return np.asarray((codes.astype("u4") << 16).view("f4"))
    return np.asarray(_table(of_type, bits)[codes])


def encode(of_type: str, bits: int, values: NDArray[Any]) -> NDArray[Any]:
    """Codes of small integers, which every PTX type that has them writes exactly."""
    if of_type in _NATIVE:
        native = np.asarray(values).astype(_NATIVE[of_type])
        return np.asarray(native.view(f"u{native.dtype.itemsize}"))
    if of_type == "bf16":
        return np.asarray(np.asarray(values).astype("f4").view("u4") >> 16)
    return np.asarray(_codes(of_type, bits).take(np.asarray(values).astype(np.int8)))


def integers(of_type: str) -> tuple[int, int]:
    """Least and greatest of the small integers to test a type with."""
    return {"b1": (0, 1), "u8": (0, 2), "u4": (0, 2), "b16": (0, 0xFFFF)}.get(of_type, (-2, 2))


@lru_cache
def _codes(of_type: str, bits: int) -> NDArray[Any]:
    """The code of every integer that ``integers`` allows in a type of 8 bits or fewer; negative ones from the end."""
    low, high = integers(of_type)
    table, codes = _table(of_type, bits), np.zeros(high - low + 1, "u1")
    for value in range(low, high + 1):
        codes[value] = np.argmax(table == value)
    return codes


@lru_cache
def _table(of_type: str, bits: int) -> NDArray[Any]:
    """Value of every code of a type of 8 bits or fewer, in slots of ``bits`` bits."""
    codes = np.arange(1 << bits)
    if of_type not in _SMALL_FLOATS:
        return np.where((of_type[0] == "s") & (codes >> (bits - 1) == 1), codes - (1 << bits), codes).astype("f4")
    exponent_bits, mantissa_bits = _SMALL_FLOATS[of_type]
    centred = 2 if of_type == "e2m1" and bits == 8 else 0
    codes = codes >> centred & (1 << 1 + exponent_bits + mantissa_bits) - 1
    sign = np.where(codes >> exponent_bits + mantissa_bits, -1.0, 1.0)
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (codes & (1 << mantissa_bits) - 1) + np.where(exponent > 0, 1 << mantissa_bits, 0)
    bias = (1 << exponent_bits - 1) - 1
    magnitude = np.ldexp(mantissa.astype("f4"), np.maximum(exponent, 1) - bias - mantissa_bits)
    return np.asarray(sign * magnitude, "f4")
