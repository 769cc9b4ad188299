"""Floats as instructions make them: computed exactly, rounded once, and clamped (9.7.3 to 9.7.5, 9.7.10.22).

What is exact is a number of f64 and what it lacks, ``rest``, of which only the sign counts where the number is rounded
to f64 itself.
"""

import operator
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ...db.layout.algebra import Array
from .ptx import bits_of
from .values import round_bf16

#: Where numbers go that lie between two of a type, if not to the nearest.
_TOWARDS = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}

#: The only NaN that instructions make of f16, and of f32 and bf16. Of f64 any may come out.
_NAN: Mapping[int, Array] = {2: np.array(0x7FFF, "u2").view("f2"), 4: np.array(0x7FFFFFFF, "u4").view("f4")}

_EXACT: Mapping[str, Callable[..., Fraction]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "fma": lambda a, b, c: a * b + c,
}


def flushed(words: Collection[str], numbers: Array) -> Array:
    """Numbers of f16 or f32, with zeros of the same sign for subnormal ones where an instruction says ftz."""
    if "ftz" not in words or numbers.dtype.kind != "f":
        return numbers
    return np.where(
        np.abs(numbers) < np.finfo(numbers.dtype).tiny, np.copysign(numbers.dtype.type(0), numbers), numbers
    )


def clamped(words: Collection[str], numbers: Array) -> Array:
    """A result with what an instruction says of its range: flushed, between 0 and 1, or not negative."""
    numbers = flushed(words, numbers)
    nan = np.isnan(numbers)
    if "sat" in words:
        numbers = np.where(numbers > 0, np.minimum(numbers, numbers.dtype.type(1)), numbers.dtype.type(0))
    elif "relu" in words:
        numbers = np.where(nan | (numbers > 0), numbers, numbers.dtype.type(0))
    if numbers.itemsize in _NAN and "sat" not in words and nan.any():
        numbers = np.where(nan, _NAN[numbers.itemsize], numbers)
    return numbers


def sum_exactly(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum of numbers of f64, and what it lacks."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(rest), rest, 0)


def round_to_odd(near: Array, rest: Array) -> Array:
    """What near + rest are cut off to, with its last bit set where that is not all.

    Rounded to fewer digits, this becomes what the exact number would.
    """
    if not rest.any():
        return near
    cut = np.where(np.signbit(rest) != np.signbit(near), np.nextafter(near, near.dtype.type(0)), near)
    bits = np.where(rest == 0, near, cut).view(f"u{near.itemsize}")
    return np.asarray((bits | (rest != 0)).view(near.dtype))


def rounded(type_: str, words: Collection[str], near: Array, rest: Any = 0.0) -> Array:
    """The numbers of a float type nearest to near + rest, or with a word the next ones towards zero, down or up.

    Those of bf16 are numbers of f32. With satfinite, what is too large is the largest.
    """
    name, rest = type_.removesuffix("x2"), np.broadcast_to(rest, near.shape)
    towards = next((_TOWARDS[word] for word in words if word in _TOWARDS), None)
    if name == "f64":
        found, past = near, -rest
    else:
        exact = round_to_odd(near.astype("f8"), rest)
        given = exact.astype("f4") if name == "bf16" else exact
        if name == "bf16":
            given = round_to_odd(given, np.where(np.isfinite(exact), exact - given, 0))
            found = (round_bf16(given).astype("u4") << 16).view("f4")
        else:
            found = given.astype(f"f{bits_of(name) // 8}")
        past = found.astype("f8") - given
        if "ftz" in words and name != "bf16":  # before it is rounded
            found = np.where(np.abs(exact) < np.finfo(found.dtype).tiny, np.copysign(0, exact), found).astype(
                found.dtype
            )
            past = np.where(found == 0, 0, past)
    if towards is not None:
        far = past * np.copysign(1, near) > 0 if not towards else past > 0 if towards < 0 else past < 0
        if name == "bf16":  # a bf16 is the upper half of an f32
            codes = found.view("u4")
            away = np.signbit(found) == (towards < 0) if towards else np.zeros(found.shape, bool)
            found = np.where(far, np.where(away, codes + (1 << 16), codes - (1 << 16)), codes).astype("u4").view("f4")
        else:
            found = np.where(far, np.nextafter(found, found.dtype.type(towards)), found)
    if "satfinite" in words:
        largest = {"f16": 65504.0, "bf16": float(2**128 - 2**120)}.get(name, np.inf)
        found = np.clip(found, found.dtype.type(-largest), found.dtype.type(largest))
    return np.asarray(found)


def computed(name: str, type_: str, words: Collection[str], *of: Array) -> Array:
    """What an operation makes of numbers of a type: add, sub, mul, div, sqrt, rcp or fma, rounded as its words say."""
    if name == "rcp":
        return computed("div", type_, words, np.ones_like(of[0]), *of)
    near, rest = (_in_f64 if type_ == "f64" else _in_more_digits)(name, *(each.astype("f8") for each in of))
    if name in ("add", "sub", "fma") and "rm" in words:  # a sum that is zero is so from below, but of zeros above it
        first, last = (of[0] * of[1], of[2]) if name == "fma" else (of[0], -of[1] if name == "sub" else of[1])
        near = np.where((near == 0) & (rest == 0) & (np.signbit(first) | np.signbit(last)), -0.0, near)
    return rounded(type_, words, near, rest)


def _in_more_digits(name: str, *of: Array) -> tuple[Array, Any]:
    """Of numbers of f32 or less. A quotient or a root that f64 does not have lies between no two neighbours there."""
    if name == "fma":
        return sum_exactly(of[0] * of[1], of[2])
    if name in ("add", "sub"):
        return sum_exactly(of[0], -of[1] if name == "sub" else of[1])
    return {"mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[name](*of), 0.0


def _in_f64(name: str, *of: Array) -> tuple[Array, Any]:
    """Of numbers of f64, by fractions where f64 does not have what is exact."""
    needed = np.isfinite(of).all(axis=0)
    if name in ("add", "sub", "fma"):
        first, last = (of[0] * of[1], of[2]) if name == "fma" else (of[0], -of[1] if name == "sub" else of[1])
        near, rest = sum_exactly(first, last)
        needed &= ~np.isfinite(near) | (name == "fma" and ~_exact_product(*of[:2]))
    else:
        near = {"mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[name](*of)
        rest = np.zeros(near.shape)
    for at in np.flatnonzero(needed):
        numbers = [Fraction(float(each[at])) for each in of]
        if name == "sqrt":
            if numbers[0] > 0:
                rest[at] = _sign(numbers[0] - Fraction(float(near[at])) ** 2)
        elif (name != "div" or numbers[1]) and (exact := _EXACT[name](*numbers)):
            try:
                near[at] = float(exact)
            except OverflowError:
                near[at], rest[at] = np.inf * _sign(exact), -_sign(exact)
            else:
                rest[at] = _sign(exact - Fraction(float(near[at])))
    return near, rest


def _exact_product(a: Array, b: Array) -> Array:
    """Whether f64 has the products of numbers, as it has those of whole numbers below 2**26."""
    short = (a.view("u8") | b.view("u8")) & (1 << 27) - 1 == 0
    return np.asarray(short & ((np.abs(a * b) >= np.finfo("f8").tiny) | (a == 0) | (b == 0)))


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)
