"""Element types and shapes, by all names that people have for them: one row of ``TYPES`` says all of a type."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import LanemapError
from . import by_word, data


class Type(NamedTuple):
    """A type as PTX spells it.

    ``bits`` is its own width and ``container`` how much of a register one takes where nothing packs it. ``others``
    are its names in CUDA, CuTe, numpy, PyTorch and Triton, ``cute`` its value type in CuTe, ``native`` that of numpy.
    ``letter`` begins the opcodes of SASS that multiply it, and ``parts`` are exponent and mantissa bits of a small
    float. ``below`` it are as many bits of padding in a container that it does not fill (9.7.16.5.14, 9.7.16.6.3).
    ``largest`` is the code of the largest number of a small float of which some codes are infinite or no number.
    """

    name: str
    bits: int
    others: str = ""
    cute: str = ""
    native: str = ""
    letter: str = ""
    parts: Sequence[int] = ()
    below: int = 0
    largest: int = 0

    @property
    def container(self) -> int:
        """Bits of a register that an element takes: floats narrower than 8 bits sit in 8-bit containers."""
        return max(self.bits, 8) if self.parts else self.bits


TYPES: Mapping[str, Type] = {row["name"]: Type(**row) for row in data("types")}

#: Types of block scales: people name them beside the type of A.
SCALE_TYPES = ("ue8m0", "ue4m3", "ue5m3")

_NAMES = {name: row.name for row in TYPES.values() for name in (row.name, *row.others.split())}

#: Names such as float8_e4m3fn, __nv_fp8_e5m2, f6E3M2FN and float_e2m1_t hold the type itself.
_NARROW = re.compile(r"(?:__nv_)?(?:fp|float|f)?[864]?_?(e4m3|e5m2|e3m2|e2m3|e2m1)(?:fn)?(?:_t|_?x[24])?")

#: Names of several types, and names of types that come with block scales, with the word of mnemonics that says so.
_SEVERAL, _SCALED = by_word("several types"), by_word("scaled types")

#: Of a matrix, with letters or crosses, of Tensor Memory, and of a vector: elements kept of so many in a group.
SHAPE = r"(?a:m(\d+)n(\d+)(?:k(\d+))?|(\d+)[x\u00d7](\d+)(?:[x\u00d7](\d+))?|\d{1,3}x\d{1,3}b(?:x2)?|\d:\d{1,2})"
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
        raise LanemapError(f"{word} is {_SEVERAL[word].replace(' ', ' or ')}: say which")
    if word in _SCALED:
        name, qualifier = _SCALED[word].split()
        return name, qualifier
    narrow = _NARROW.fullmatch(word)
    return (narrow[1] if narrow else _NAMES.get(word, word)), None


def types_named(word: str) -> tuple[str, ...]:
    """The types that a word may stand for; none where it is no name of a type.

    >>> types_named("fp8"), types_named("half"), types_named("mma")
    (('e4m3', 'e5m2'), ('f16',), ())
    """
    names = _SEVERAL.get(plain(word), "").split() or [type_name(word)[0]]
    return tuple(name for name in names if name in TYPES)


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
    for pattern, instead in data("words")["instead"].items():
        if re.fullmatch(pattern, bare.partition(".")[0]):
            raise LanemapError(instead.format(bare.partition(".")[0].upper()))
    close = [name for name in others if bare.startswith(name)]
    close += [name for name in get_close_matches(bare, (*TYPES, *others), 3) if name[0] == bare[0]]
    problem = "neither a type nor a qualifier" if others else "not a type"
    otherwise = "leave it out" if others else "write it like f16"
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
    return "".join(f"{axis}{int(number)}" for axis, number in zip("mnk", numbers, strict=False))


def is_shape(word: str) -> bool:
    """Whether a word names a shape: m16n8k16, 16x8x16, one of Tensor Memory, such as 16x256b, or 2:4."""
    return _SHAPE.fullmatch(plain(word)) is not None


def same_name(left: object, right: object) -> bool:
    """Whether two values are equal, text in any case."""
    return left == right or (isinstance(left, str) and isinstance(right, str) and left.lower() == right.lower())


def plain(word: str) -> str:
    """A word in small letters, without spaces around it and without a leading dot."""
    return word.strip().lower().removeprefix(".")
