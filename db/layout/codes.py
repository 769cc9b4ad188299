"""The values that bits stand for in every type."""

from functools import lru_cache

import numpy as np

from ..isa.types import TYPES
from .algebra import Array


def decode(of_type: str, bits: int, codes: Array) -> Array:
    """Values of codes of a PTX type in slots of ``bits`` bits."""
    if native := TYPES[of_type].native:
        return np.asarray(codes.view(native))
    if of_type == "bf16":
        return np.asarray((codes.astype("u4") << 16).view("f4"))
    return np.asarray(table(of_type, bits)[codes])


@lru_cache
def table(of_type: str, bits: int) -> Array:
    """The value of every code of a type of at most 8 bits, in slots of ``bits`` bits."""
    codes, row = np.arange(1 << bits), TYPES[of_type]
    if not row.parts:
        return np.where((of_type[0] == "s") & (codes >> (bits - 1) == 1), codes - (1 << bits), codes).astype("f4")
    exponent_bits, mantissa_bits = row.parts
    if mantissa_bits == 0:  # powers of two
        return np.where(codes > row.largest, np.nan, np.ldexp(np.float32(1), np.minimum(codes, row.largest) - 127))
    codes = codes >> (row.below if bits == row.container else 0) & (1 << row.bits) - 1
    sign = np.where(codes >> exponent_bits + mantissa_bits, -1.0, 1.0)
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (codes & (1 << mantissa_bits) - 1) + np.where(exponent > 0, 1 << mantissa_bits, 0)
    bias = (1 << exponent_bits - 1) - 1
    magnitude = np.ldexp(mantissa.astype("f4"), np.maximum(exponent, 1) - bias - mantissa_bits)
    if row.largest:
        infinite = np.where(codes & (1 << mantissa_bits) - 1 == 0, np.inf, np.nan)
        magnitude = np.where(codes & (1 << exponent_bits + mantissa_bits) - 1 > row.largest, infinite, magnitude)
    return np.asarray(sign * magnitude, "f4")
