"""Arguments of a kernel as people write them, and arrays as bytes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.shared import BOX_MODES
from ...db.isa.types import TYPES, plain, type_name
from ...db.layout.algebra import Array
from .. import values
from .convert import narrow_values, to_narrow
from .values import round_bf16

_MODES = "|".join(re.escape(mode) for mode in BOX_MODES if "flip" not in mode)  # which tears units apart
_PART = r"(?:box|shape|strides|every)=\d{1,12}(?:x\d{1,12})*|(?:lower|upper)=-?\d{1,5}(?:x-?\d{1,5})*"
_PART += rf"|swizzle=(?:{_MODES})|fill=nan"
_MAP = re.compile(rf"map\(\s*(\w+)((?:\s*,\s*(?:{_PART}))+)\s*\)")
_ARRAY = re.compile(r"([\w.]+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\](?:\s*=\s*(\S+))?")
_STRUCT = re.compile(r"struct\((.*)\)", re.DOTALL)
_FIELD = re.compile(r"\s*(?:([A-Za-z_]\w*)|(\S.*?))\s*(?:@\s*(\d{1,5}))?\s*", re.DOTALL)

#: Integers that pointers may lead to and that no instruction multiplies.
INTEGERS = {"s16": "i2", "u16": "u2", "u32": "u4", "s64": "i8", "u64": "u8"}


class MapOf(NamedTuple):
    """A tensor map as people write it: of an array, with the extents of a box in the order of the array's.

    The tensor may have another ``shape`` than the array, and its own ``strides``, in elements from one to the next; of
    a box every so many elements are copied (``elementStrides``), and ``fill`` is what lies outside of the tensor.
    One of im2col has ``lower`` and ``upper`` corners, and its ``box`` is pixels and channels.
    """

    array: str
    box: tuple[int, ...]
    swizzle: str = "none"
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    every: tuple[int, ...] = ()
    fill: str = ""
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()


class Field(NamedTuple):
    """A part of a struct by value: an array or a tensor map by name, or bytes.

    It lies ``at`` an offset, or behind the one before it, there aligned to ``align`` bytes: 0 where it is given as
    bytes, on which others may lie.
    """

    name: str
    data: bytes = b""
    align: int = 0
    at: int | None = None


@dataclass(frozen=True)
class Argument:
    """An array in global memory, a number, a tensor map, or a struct by value, as its bytes or its fields.

    ``array`` has the values of what is given; None begins uninitialised. ``first`` is the origin of the first element.
    What is not ``passed`` is no parameter, but what a tensor map or a struct names that is one.
    """

    name: str
    type: str = ""
    shape: tuple[int, ...] = ()
    array: Array | None = None
    number: float | None = None
    data: bytes = b""
    map: MapOf | None = None
    fields: tuple[Field, ...] = ()
    passed: bool = True
    first: int = field(default=0, compare=False)

    @property
    def pointer(self) -> bool:
        """Whether it is an array."""
        return bool(self.shape)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * np.dtype(INTEGERS[self.type]).itemsize if self.type in INTEGERS else TYPES[self.type].bits

    @property
    def floating(self) -> bool:
        """Whether its elements are no integers."""
        row = TYPES.get(self.type)
        return row is not None and (bool(row.parts) or row.native.startswith("f") or self.type == "bf16")

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * self.bits // 8

    @property
    def count(self) -> int:
        """How many origins its elements take: one each, or two where several share a byte, for the byte and alone."""
        return prod(self.shape) * (1 if self.bits >= 8 else 2) if self.pointer else 0

    @property
    def origins(self) -> Array:
        """The origin of each byte: the element that it is a part of, or the first of those in it."""
        return self.first + np.arange(self.size) * 8 // self.bits

    def encode(self) -> Array:
        """Its values as bytes."""
        assert self.array is not None
        flat = np.asarray(self.array).reshape(-1)
        if self.type in INTEGERS:
            return np.ascontiguousarray(flat.astype(INTEGERS[self.type])).view("u1")
        if self.type == "bf16":
            return round_bf16(flat).view("u1")
        row = TYPES[self.type]
        if row.parts:
            return values.to_bytes(to_narrow(self.type, flat), self.bits)
        if row.native:
            return np.ascontiguousarray(flat.astype(row.native)).view("u1")
        return values.to_bytes(flat.astype("i8") & (1 << self.bits) - 1, self.bits)

    @cached_property
    def numbers(self) -> Array:
        """Its values one after the other, as its type has them; none where it begins uninitialised."""
        return np.zeros(0) if self.array is None else self.decode(self.encode()).reshape(-1)

    def decode(self, data: Array) -> Array:
        """The values of bytes."""
        if self.type in INTEGERS:
            return np.asarray(data.view(INTEGERS[self.type]).reshape(self.shape))
        codes = values.from_bytes(data, self.bits)
        if TYPES[self.type].parts:
            return narrow_values(self.type)[codes].reshape(self.shape)
        return values.decode(self.type, self.bits, codes).reshape(self.shape)


def parse(text: str, folder: Path | None = Path()) -> Argument:
    """An argument as people write it. Raises LanemapError, which says how one is written.

    Files that it names are those of a folder; without one it may name none.
    """
    if not isinstance(text, str):
        raise LanemapError(f"{text!r} is no text: write an argument like A=f16[32,64]", "arg")
    matched = re.fullmatch(r"\s*(?:([A-Za-z_]\w*)\s*=)?\s*(.*?)\s*", text, re.DOTALL)
    name, value = (matched[1] or "", matched[2]) if matched else ("", text)
    if value.startswith("bytes:"):
        return Argument(name, data=_bytes(value, text, folder))
    if matched := _STRUCT.fullmatch(value):
        return Argument(name, fields=tuple(_field(part, text, folder) for part in matched[1].split(",")))
    if value.startswith("map("):
        return Argument(name, map=_map(value, text))
    if value.startswith("@"):
        return of_array(name, _read(_file(value[1:], folder)))
    if matched := _ARRAY.fullmatch(value):
        shape = tuple(int(extent) for extent in matched[2].split(","))
        type_ = _type(matched[1], text)
        if prod(shape) > 1 << 28 or not prod(shape):
            raise LanemapError(f"{text!r}: an array has 1 to {1 << 28} elements", "arg")
        fill = None if matched[3] is None else np.full(shape, _float(matched[3], text))
        return Argument(name, type_, shape, fill)
    return Argument(name, number=_float(value, text))


def _bytes(value: str, written: str, folder: Path | None) -> bytes:
    given = value.removeprefix("bytes:")
    try:
        return _file(given[1:], folder).read_bytes() if given.startswith("@") else bytes.fromhex(given)
    except (OSError, ValueError):
        raise LanemapError(f"{written!r}: bytes are hexadecimal digits, or @ and a file", "arg") from None


def _field(text: str, written: str, folder: Path | None) -> Field:
    """A field as people write it: ``A``, ``64``, ``1.5``, ``s64 64`` or ``bytes:0c00``, and ``@16`` behind it."""
    matched = _FIELD.fullmatch(text)
    if matched is None:
        raise LanemapError(f"{written!r} is no struct: write p=struct(A, B@8, 64, f16 1.5)", "arg")
    name, value, offset = matched.groups()
    at = None if offset is None else int(offset)
    if name:
        return Field(name, at=at)
    if value.startswith("bytes:"):
        return Field("", _bytes(value, written, folder), at=at)
    word, _, digits = value.rpartition(" ")
    number = _float(digits, written)
    type_ = _type(word, written) if word else "s32" if isinstance(number, int) else "f32"
    if (data := number_bytes(number, type_)) is None:
        raise LanemapError(
            f"{written!r}: {digits} is no {type_}: write the type of the field before it, as in s64 64", "arg"
        )
    return Field("", data, len(data), at)


def number_bytes(number: float, type_: str) -> bytes | None:
    """The bytes of a number of a type; None where the type has no such number.

    A float may be rounded, but not to zero, to the largest or to infinity.
    """
    if type_ not in INTEGERS and type_ not in TYPES:
        return None
    one = Argument("", type_, (1,))
    whole = isinstance(number, int) and -(1 << 63) <= number < 1 << 64
    if one.bits % 8 or not (one.floating or whole):
        return None
    try:
        one = replace(one, array=np.array([float(number) if one.floating else number]))
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        data = one.encode()
    held = one.decode(data)[0]
    same = np.isclose(float(held), number, 0.5, 0, equal_nan=True) if one.floating else held == number
    return data.tobytes() if same else None


def _map(value: str, written: str) -> MapOf:
    matched = _MAP.fullmatch(value)
    given = dict(re.findall(r"(\w+)=([-\w.]+)", matched[2])) if matched else {}
    if matched is None or "box" not in given:
        words = "write tA=map(A,box=64x64,swizzle=128B), also with shape=, strides= or every= and extents, or fill=nan"
        words += "; of im2col map(A,box=64x32,lower=-1x-1,upper=-1x-1)"
        raise LanemapError(f"{written!r} is no tensor map: {words}; interleaved ones are not run", "arg")
    named: dict[str, Any] = {name: given.pop(name) for name in ("swizzle", "fill") if name in given}
    named |= {name: tuple(map(int, text.split("x"))) for name, text in given.items()}
    return MapOf(matched[1], **named)


def _float(text: str, written: str) -> float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise LanemapError(
            f"{written!r} is no argument: write A=f16[32,64], A=@a.npy, n=64 or p=struct(A, 64)", "arg"
        ) from None


def _type(word: str, written: str) -> str:
    name = re.sub(r"(u?)i(?:nt)?(?=16$|32$|64$)", lambda found: found[1] or "s", plain(word))
    name = name if name in INTEGERS else type_name(name)[0]
    if name not in INTEGERS and (name not in TYPES or name == "b8x16"):
        raise LanemapError(f"{written!r}: {word} is no type of elements: write it like f16", "arg")
    return name


def _file(name: str, folder: Path | None) -> Path:
    if folder is None:
        raise LanemapError(f"@{name}: no file can be read here: give a type and a shape, as in f16[32,64]", "arg")
    return folder / name


def _read(file: Path) -> Array:
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no array of numpy"
        raise LanemapError(f"cannot read {file}: {reason}: write one with numpy.save", "arg") from None


def named(
    arguments: Mapping[str, Any] | Sequence[str],
    types: Mapping[str, str] | None = None,
    written: Mapping[str, Argument] | None = None,
    folder: Path | None = Path(),
) -> list[Argument]:
    """Arguments as Python has them: texts in their order, or by name texts, arrays, numbers, or shapes of known types.

    ``types`` are those of a compiled kernel by name, as in ``*fp16``, in the order of its parameters. ``written`` are
    those of a file, in which others take the place of those of their name. For ``folder`` see ``parse``.
    """
    if not isinstance(arguments, Mapping):
        if not isinstance(arguments, Iterable):
            raise LanemapError(f"{arguments!r} is no list of arguments: write ['A=f16[32,64]', 'n=64']", "arg")
        texts = [parse(text, folder) for text in ([arguments] if isinstance(arguments, str) else arguments)]
        if not written:
            return texts
        arguments = {argument.name: argument for argument in texts}
        if "" in arguments:
            raise LanemapError("say which argument of the file it takes the place of, as in n=64", "arg")
    arguments = {**(written or {}), **arguments}
    missing = [name for name in types or {} if name not in arguments]
    unknown = [name for name in arguments if types is not None and name not in types]
    if missing or unknown:
        raise LanemapError(f"the kernel takes {', '.join(types or {})}: {(missing + unknown)[0]} does not fit", "arg")
    return [_named(name, arguments[name], (types or {}).get(name, ""), folder) for name in types or arguments]


def _named(name: str, value: Any, type_: str, folder: Path | None) -> Argument:
    if isinstance(value, str | Argument):
        return replace(parse(value, folder) if isinstance(value, str) else value, name=name)
    if isinstance(value, Fraction):
        value = float(value) if value.denominator > 1 else int(value)
    if isinstance(value, np.generic | np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, int | float):
        return Argument(name, number=value)
    if isinstance(value, tuple):
        if not type_.startswith("*"):
            raise LanemapError(f"{name}: {value} is a shape of no type: write it like f16[32,64]", "arg")
        return replace(parse(f"{type_[1:]}[{','.join(map(str, value))}]"), name=name)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty((), object)
    if not array.ndim:
        raise LanemapError(f"{name}: a {type(value).__name__} is none that a kernel takes: {_GIVE}", "arg")
    return of_array(name, array)


#: What is right where something else is given.
_GIVE = "give a number, an array, or a text like f16[32,64]"


def of_array(name: str, array: Array) -> Argument:
    """An argument that has the values of an array."""
    try:
        type_ = _type(str(array.dtype), name) if array.dtype != bool else ""
    except LanemapError:
        type_ = ""
    if not type_ or not array.size:
        kind = array.dtype if array.size else "no elements"
        raise LanemapError(f"{name}: an array of {kind} is none that a kernel takes: {_GIVE}", "arg") from None
    return Argument(name, type_, array.shape or (1,), np.asarray(array).reshape(array.shape or (1,)))
