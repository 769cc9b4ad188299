"""Types and shapes by the other names that people have for them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import LanemapError

#: Every type that a mnemonic can name, with its other names in CUDA, CuTe, numpy, PyTorch and Triton.
_OTHER_NAMES = {
    "f64": "fp64 float64 double",
    "f32": "fp32 float32 float single",
    "f16": "fp16 float16 half half_t __half",
    "bf16": "bfloat bfloat16 bfloat16_t __nv_bfloat16",
    "tf32": "tfloat32 tfloat32_t",
    "e4m3": "fp8e4nv",
    "e5m2": "fp8e5",
    "e3m2": "",
    "e2m3": "",
    "e2m1": "fp4 float4 f4",
    "s32": "i32 int32 int32_t int",
    "s8": "i8 int8 int8_t",
    "u8": "uint8 uint8_t",
    "s4": "i4 int4 int4_t int4b_t",
    "u4": "uint4 uint4_t uint4b_t",
    "b1": "u1 i1 int1 uint1 uint1b_t bool",
    "b8": "",
    "b8x16": "",
    "b16": "",
    "b32": "",
}
_TYPES = {name: type_ for type_, others in _OTHER_NAMES.items() for name in (type_, *others.split())}

#: Names such as float8_e4m3fn, __nv_fp8_e5m2, f6E3M2FN and float_e2m1_t hold the type itself.
_NARROW = re.compile(r"(?:__nv_)?(?:fp|float|f)?[864]?_?(e4m3|e5m2|e3m2|e2m3|e2m1)(?:fn)?(?:_t|_?x[24])?")

_SEVERAL = {
    **dict.fromkeys(("fp8", "float8", "f8", "mxfp8", "mxf8"), "e4m3 or e5m2"),
    **dict.fromkeys(("fp6", "float6", "f6", "mxfp6", "mxf6"), "e3m2 or e2m3"),
}

#: Types that come with block scales, and the qualifier by which mnemonics say so (9.7.14.3).
_SCALED = {
    **dict.fromkeys(("nvfp4", "nvf4"), ("e2m1", "scale_vec::4x")),
    **dict.fromkeys(("mxfp4", "mxf4"), ("e2m1", "scale_vec::2x")),
}

_SHAPE = re.compile(r"m\d+n\d+(?:k\d+)?")
_CROSSES = re.compile(r"(\d+)[x\u00d7](\d+)(?:[x\u00d7](\d+))?")
_TENSOR_MEMORY = re.compile(r"\d+x\d+b(?:x2)?")


def type_name(word: str) -> tuple[str, str | None]:
    """The PTX type that a word names, and the qualifier of an instruction that the word implies. Others stay.

    >>> type_name("bfloat16")
    ('bf16', None)

    Raises:
        LanemapError: it stands for several types; says which.
    """
    word = _plain(word)
    if word in _SEVERAL:
        raise LanemapError(f"{word} is {_SEVERAL[word]}: say which")
    if word in _SCALED:
        return _SCALED[word]
    narrow = _NARROW.fullmatch(word)
    return (narrow[1] if narrow else _TYPES.get(word, word)), None


def known_type(word: str, others: Iterable[str] = ()) -> tuple[str, str | None]:
    """The same, of a word that must be a type; ``others`` are what else it might have been.

    Raises:
        LanemapError: also where it is not a type; names the nearest word.
    """
    found = type_name(word)
    if found[0] in _OTHER_NAMES:
        return found
    from difflib import get_close_matches

    plain = _plain(word)
    close = [each for each in others if plain.startswith(each)]
    close += [each for each in get_close_matches(plain, (*_OTHER_NAMES, *others), 3) if each[0] == plain[0]]
    what, otherwise = (
        ("neither a type nor a qualifier", "leave it out") if others else ("not a type", "write it like f16")
    )
    raise LanemapError(f"{word!r} is {what}: {f'did you mean {close[0]}?' if close else otherwise}")


def shape_name(word: str) -> str:
    """A shape as PTX spells it. Other words stay.

    >>> shape_name("16x8x16")
    'm16n8k16'
    """
    word = _plain(word)
    crosses = _CROSSES.fullmatch(word)
    if crosses is None:
        return word
    return "".join(f"{axis}{extent}" for axis, extent in zip("mnk", crosses.groups(), strict=True) if extent)


def is_shape(word: str) -> bool:
    """Whether a word names a shape: m16n8k16, 16x8x16, or one of Tensor Memory, such as 16x256b."""
    return any(pattern.fullmatch(_plain(word)) for pattern in (_SHAPE, _CROSSES, _TENSOR_MEMORY))


def _plain(word: str) -> str:
    return word.strip().lower().removeprefix(".")
