"""Element types and shapes, by all names that people have for them: one row of ``TYPES`` says all of a type."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import LanemapError


class Type(NamedTuple):
    """A type as PTX spells it.

    ``bits`` is its own width and ``container`` how much of a register one takes where nothing packs it. ``others``
    are its names in CUDA, CuTe, numpy, PyTorch and Triton, ``cute`` its value type in CuTe, ``native`` that of numpy.
    ``letter`` begins the opcodes of SASS that multiply it, and ``parts`` are exponent and mantissa bits of a small
    float. ``below`` it are as many bits of padding in a container that it does not fill (9.7.14.5.14, 9.7.14.6.3).
    """

    name: str
    bits: int
    others: str = ""
    cute: str = ""
    native: str = ""
    letter: str = ""
    parts: tuple[int, int] | None = None
    below: int = 0

    @property
    def container(self) -> int:
        """Bits of a register that an element takes: floats narrower than 8 bits sit in 8-bit containers."""
        return max(self.bits, 8) if self.parts else self.bits


TYPES: Mapping[str, Type] = {
    row.name: row
    for row in (
        Type("f64", 64, "fp64 float64 double", "double", "f8", "D"),
        Type("f32", 32, "fp32 float32 float single", "float", "f4"),
        Type("f16", 16, "fp16 float16 half half_t __half", "half_t", "f2", "H"),
        Type("bf16", 16, "bfloat bfloat16 bfloat16_t __nv_bfloat16", "bfloat16_t", letter="H"),
        Type("tf32", 32, "tfloat32 tfloat32_t", "tfloat32_t", "f4", "H"),
        Type("e4m3", 8, "fp8e4nv", "float_e4m3_t", letter="Q", parts=(4, 3)),
        Type("e5m2", 8, "fp8e5", "float_e5m2_t", letter="Q", parts=(5, 2)),
        Type("e3m2", 6, "", "float_e3m2_t", letter="Q", parts=(3, 2)),
        Type("e2m3", 6, "", "float_e2m3_t", letter="Q", parts=(2, 3)),
        Type("e2m1", 4, "fp4 float4 f4", "float_e2m1_t", letter="Q", parts=(2, 1), below=2),
        Type("s32", 32, "i32 int32 int32_t int", "int32_t", "i4"),
        Type("s8", 8, "i8 int8 int8_t", "int8_t", letter="I"),
        Type("u8", 8, "uint8 uint8_t", "uint8_t", letter="I"),
        Type("s4", 4, "i4 int4 int4_t int4b_t", "int4_t", letter="I"),
        Type("u4", 4, "uint4 uint4_t uint4b_t", "uint4_t", letter="I"),
        Type("b1", 1, "u1 i1 int1 uint1 uint1b_t bool", "uint1_t", letter="B"),
        Type("b8", 8),
        Type("b8x16", 8),
        Type("b16", 16, native="u2"),
        Type("b32", 32),
        Type("ue8m0", 8),
        Type("ue4m3", 8),
    )
}

#: Types of block scales: people name them beside the type of A.
SCALE_TYPES = ("ue8m0", "ue4m3")

_NAMES = {name: row.name for row in TYPES.values() for name in (row.name, *row.others.split())}

#: Names such as float8_e4m3fn, __nv_fp8_e5m2, f6E3M2FN and float_e2m1_t hold the type itself.
_NARROW = re.compile(r"(?:__nv_)?(?:fp|float|f)?[864]?_?(e4m3|e5m2|e3m2|e2m3|e2m1)(?:fn)?(?:_t|_?x[24])?")

_SEVERAL = {
    **dict.fromkeys(("fp8", "float8", "f8", "mxfp8", "mxf8"), ("e4m3", "e5m2")),
    **dict.fromkeys(("fp6", "float6", "f6", "mxfp6", "mxf6"), ("e3m2", "e2m3")),
}

#: Types that come with block scales, and the qualifier by which mnemonics say so (9.7.14.3).
_SCALED = {
    **dict.fromkeys(("nvfp4", "nvf4"), ("e2m1", "scale_vec::4x")),
    **dict.fromkeys(("mxfp4", "mxf4"), ("e2m1", "scale_vec::2x")),
    "mxf4nvf4": ("e2m1", "kind::mxf4nvf4"),
}

#: Of a matrix, with letters or crosses, and of Tensor Memory.
SHAPE = r"(?a:m(\d+)n(\d+)(?:k(\d+))?|(\d+)[x\u00d7](\d+)(?:[x\u00d7](\d+))?|\d{1,3}x\d{1,3}b(?:x2)?)"
_SHAPE = re.compile(SHAPE)

#: The most rows, columns, or depth of a matrix.
LARGEST = (1 << 15) - 1


def type_bits(name: str) -> int:
    """Bits that an element of a type takes in its register where nothing packs it.

    Raises:
        LanemapError: the type is not known; names those that are.
    """
    if name not in TYPES:
        raise LanemapError(f"{name!r} is not a type with a known width: known are {', '.join(TYPES)}")
    return TYPES[name].container


def type_name(word: str) -> tuple[str, str | None]:
    """The PTX type that a word names, and the qualifier of an instruction that the word implies. Others stay.

    >>> type_name("bfloat16")
    ('bf16', None)

    Raises:
        LanemapError: it stands for several types; says which.
    """
    word = plain(word)
    if word in _SEVERAL:
        raise LanemapError(f"{word} is {' or '.join(_SEVERAL[word])}: say which")
    if word in _SCALED:
        return _SCALED[word]
    narrow = _NARROW.fullmatch(word)
    return (narrow[1] if narrow else _NAMES.get(word, word)), None


def types_named(word: str) -> tuple[str, ...]:
    """The types that a word may stand for; none where it is no name of a type.

    >>> types_named("fp8"), types_named("half"), types_named("mma")
    (('e4m3', 'e5m2'), ('f16',), ())
    """
    names = _SEVERAL.get(plain(word)) or (type_name(word)[0],)
    return names if names[0] in TYPES else ()


def scaled(word: str) -> bool:
    """Whether a word names types that come with block scales."""
    return plain(word) in {*_SCALED, "mxfp8", "mxf8", "mxfp6", "mxf6"}


def known_type(word: str, others: Iterable[str] = ()) -> tuple[str, str | None]:
    """The same, of a word that must be a type; ``others`` are what else it might have been.

    Raises:
        LanemapError: also where it is not a type; names the nearest word.
    """
    known = type_name(word)
    if known[0] in TYPES:
        return known
    from difflib import get_close_matches

    bare = plain(word)
    close = [name for name in others if bare.startswith(name)]
    close += [name for name in get_close_matches(bare, (*TYPES, *others), 3) if name[0] == bare[0]]
    problem, otherwise = (
        ("neither a type nor a qualifier", "leave it out") if others else ("not a type", "write it like f16")
    )
    raise LanemapError(f"{word!r} is {problem}: {f'did you mean {close[0]}?' if close else otherwise}")


def shape_name(word: str) -> str:
    """A shape as PTX spells it. Other words stay.

    >>> shape_name("16x8x16")
    'm16n8k16'

    Raises:
        LanemapError: it is a shape, but no matrix is so large.
    """
    word = plain(word)
    matched = _SHAPE.fullmatch(word)
    numbers = [number for number in matched.groups() if number] if matched else []
    if not numbers:
        return word
    if any(len(number) > 5 or int(number) > LARGEST for number in numbers):
        shown = word if len(word) <= 40 else f"{word[:40]}..."
        raise LanemapError(f"invalid shape {shown}: each dimension is 1 to {LARGEST}")
    return "".join(f"{axis}{number}" for axis, number in zip("mnk", numbers, strict=False))


def is_shape(word: str) -> bool:
    """Whether a word names a shape: m16n8k16, 16x8x16, or one of Tensor Memory, such as 16x256b."""
    return _SHAPE.fullmatch(plain(word)) is not None


def same_name(left: object, right: object) -> bool:
    """Whether two values are equal, text in any case."""
    return left.lower() == right.lower() if isinstance(left, str) and isinstance(right, str) else left == right


def plain(word: str) -> str:
    """A word in small letters, without spaces around it and without a leading dot."""
    return word.strip().lower().removeprefix(".")
