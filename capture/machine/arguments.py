"""What a kernel is given: arguments as people write them, as bytes in global memory and in parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.shared import BOX_MODES, BoundingBox
from ...db.isa.types import TYPES, plain, type_name
from ...db.layout.algebra import Array
from ...db.text import counted
from .. import values
from .convert import narrow_values, to_narrow
from .memory import MAP_SIZE, UNIT, Allocated, MappedTensor, map_bytes
from .ptx import Function, Variable, bits_of
from .values import round_bf16

_MODES = "|".join(re.escape(mode) for mode in BOX_MODES if "flip" not in mode)  # which tears units apart
_MAP = re.compile(rf"map\(\s*(\w+)\s*,\s*box=(\d+(?:x\d+)*)\s*(?:,\s*swizzle=({_MODES}))?\s*\)")
_ARRAY = re.compile(r"([\w.]+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\](?:\s*=\s*(\S+))?")

#: What compilers call a parameter by its number.
_NAMELESS = re.compile(r"_param_\d+$")

#: Integers that pointers may lead to and that no instruction multiplies.
_INTEGERS = {"s16": "i2", "u16": "u2", "u32": "u4", "s64": "i8", "u64": "u8"}
_INTEGERS |= {"int16": "i2", "uint16": "u2", "uint32": "u4", "int64": "i8", "uint64": "u8", "i16": "i2", "i64": "i8"}


class MapOf(NamedTuple):
    """A tensor map as people write it: of an array, with the extents of a box in the order of the array's."""

    array: str
    box: tuple[int, ...]
    swizzle: str


@dataclass(frozen=True)
class Argument:
    """An array in global memory, a number, a tensor map, or the bytes of a struct.

    ``array`` has the values of what is given; None begins uninitialised. ``first`` is the origin of the first element.
    What is not ``passed`` is no parameter, but the array of a tensor map that is one.
    """

    name: str
    type: str = ""
    shape: tuple[int, ...] = ()
    array: Array | None = None
    number: float | None = None
    data: bytes = b""
    map: MapOf | None = None
    passed: bool = True
    first: int = field(default=0, compare=False)

    @property
    def pointer(self) -> bool:
        """Whether it is an array."""
        return bool(self.shape)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * np.dtype(_INTEGERS[self.type]).itemsize if self.type in _INTEGERS else TYPES[self.type].bits

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
        if self.type in _INTEGERS:
            return np.ascontiguousarray(flat.astype(_INTEGERS[self.type])).view("u1")
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
        if self.type in _INTEGERS:
            return np.asarray(data.view(_INTEGERS[self.type]).reshape(self.shape))
        codes = values.from_bytes(data, self.bits)
        if TYPES[self.type].parts:
            return narrow_values(self.type)[codes].reshape(self.shape)
        return values.decode(self.type, self.bits, codes).reshape(self.shape)


def parse(text: str, folder: Path | None = Path()) -> Argument:
    """An argument as people write it. Raises LanemapError, which says how one is written.

    Files that it names are those of a folder; without one it may name none.
    """
    matched = re.fullmatch(r"\s*(?:([A-Za-z_]\w*)\s*=)?\s*(.*?)\s*", text, re.DOTALL)
    name, value = (matched[1] or "", matched[2]) if matched else ("", text)
    if value.startswith("bytes:"):
        given = value.removeprefix("bytes:")
        try:
            data = _file(given[1:], folder).read_bytes() if given.startswith("@") else bytes.fromhex(given)
        except (OSError, ValueError):
            raise LanemapError(f"{text!r}: bytes are hexadecimal digits, or @ and a file", "arg") from None
        return Argument(name, data=data)
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


def _map(value: str, written: str) -> MapOf:
    matched = _MAP.fullmatch(value)
    if matched is None:
        raise LanemapError(f"{written!r} is no tensor map: write tA=map(A,box=64x64,swizzle=128B)", "arg")
    name, box, mode = matched.groups()
    return MapOf(name, tuple(map(int, box.split("x"))), mode or "none")


def tensor_map(argument: Argument, arrays: Mapping[str, Argument], places: Mapping[str, Allocated]) -> MappedTensor:
    """The tensor map of an argument. Raises LanemapError where there is none such of its array (5.5)."""
    assert argument.map is not None
    name, box, mode = argument.map
    of = arrays[name]
    row = of.shape[-1] * of.bits // 8
    if len(box) != len(of.shape) or len(box) > 5:
        raise LanemapError(f"a box of {name} has {len(of.shape)} extents, not {len(box)}, and at most 5", "arg")
    if box[-1] * of.bits % (8 * UNIT) or row % UNIT or not all(1 <= extent <= 256 for extent in box):
        raise LanemapError(f"lines of a box of {name} are multiples of {UNIT} bytes, and extents at most 256", "arg")
    lies = BoundingBox(mode, of.bits, prod(box[:-1]), box[-1])
    if not lies.fits:
        line = box[-1] * of.bits // 8
        raise LanemapError(f"a line of a box of {name} has {line} bytes: swizzle={mode} takes {lies.span}", "arg")
    return MappedTensor(places[name].address, of.shape, of.bits, box, mode, of.type)


def _float(text: str, written: str) -> float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise LanemapError(
            f"{written!r} is no argument: write A=f16[32,64], A=@a.npy, n=64 or p=bytes:0c00", "arg"
        ) from None


def _type(word: str, written: str) -> str:
    name = plain(word)
    name = name if name in _INTEGERS else type_name(name)[0]
    if name not in _INTEGERS and (name not in TYPES or name == "b8x16"):
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
        texts = [parse(text, folder) for text in arguments]
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
    if isinstance(value, int | float):
        return Argument(name, number=value)
    if isinstance(value, tuple) and type_.startswith("*"):
        return Argument(name, _type(type_[1:], name), value)
    return of_array(name, np.asarray(value))


#: Types by what numpy calls them, also where ml_dtypes has them.
_NATIVE = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "s8", "uint8": "u8", "int32": "s32"}
_NATIVE |= {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int16": "s16", "uint16": "u16"}
_NATIVE |= {"uint32": "u32", "int64": "s64", "uint64": "u64"}


def of_array(name: str, array: Array) -> Argument:
    """An argument that has the values of an array."""
    type_ = _NATIVE.get(str(array.dtype))
    if type_ is None:
        raise LanemapError(f"{name}: an array of {array.dtype} is none that a kernel takes", "arg")
    return Argument(name, type_, array.shape or (1,), np.asarray(array).reshape(array.shape or (1,)))


def given(arguments: Sequence[Argument], entry: Function, outputs: Collection[str], seed: int) -> list[Argument]:
    """The arguments with names and values, as many as the entry has parameters.

    Those without values are small random integers, but what is only an output begins uninitialised. Parameters that a
    compiler adds behind those of the source, as Triton does, are null where they are pointers.

    Raises:
        LanemapError: they are not those of the entry; lists its parameters with their types.
    """
    mapped = {argument.map.array for argument in arguments if argument.map}
    arrays = [argument.name for argument in arguments if argument.pointer]
    if missing := mapped.difference(arrays):
        raise LanemapError(f"a map of {missing.pop()}: the arrays are {', '.join(arrays) or 'none'}", "arg")
    if len(arguments) > len(entry.parameters):
        arguments = [replace(argument, passed=argument.name not in mapped) for argument in arguments]
    passed = sum(argument.passed for argument in arguments)
    if passed > len(entry.parameters) or any(not each.pointer for each in entry.parameters[passed:]):
        raise LanemapError(
            f"{counted(passed, 'argument')} {'is' if passed == 1 else 'are'} given: {_parameters(entry)}", "arg"
        )
    random, parameters, found = np.random.default_rng(seed), iter(entry.parameters), list[Argument]()
    first = 1
    for number, argument in enumerate(arguments):
        parameter = next(parameters) if argument.passed else None
        name = argument.name or (f"arg{number}" if argument.pointer or parameter is None else parameter.name)
        if any(each.name == name for each in found):
            raise LanemapError(f"two arguments are called {name}: give each its own name", "arg")
        if parameter is not None:
            _expect_fitting(argument, name, parameter, entry)
        array = argument.array
        if argument.pointer and array is None and name not in outputs:
            low, high = (0, 2) if argument.type in _INTEGERS else values.integers(argument.type)
            array = random.integers(low, high, argument.shape, endpoint=True).astype("f8")
        found.append(replace(argument, name=name, array=array, first=first))
        first += argument.count
    return found


def _expect_fitting(argument: Argument, name: str, parameter: Variable, entry: Function) -> None:
    """Raises LanemapError where an argument is not what a parameter takes; lists the parameters."""
    size = MAP_SIZE if argument.map else 8 if argument.pointer else len(argument.data) or parameter.size
    if size != parameter.size:
        kind = "a tensor map" if argument.map else "an array" if argument.pointer else f"of {size} bytes"
        raise LanemapError(f"{name} is {kind}, which is not what it is given for: {_parameters(entry)}", "arg")


def _parameters(entry: Function) -> str:
    """The parameters of an entry with their types, in one line, by name where they have one."""
    if not entry.parameters:
        return f"{entry.name} takes none"
    names = [
        f"{number}" if _NAMELESS.search(each.name) else each.name for number, each in enumerate(entry.parameters, 1)
    ]
    listed = ", ".join(f"{name}: {_described(each)}" for name, each in zip(names, entry.parameters, strict=True))
    return f"{entry.name} takes {len(names)}, {listed}"


def _described(parameter: Variable) -> str:
    kind = "pointer" if parameter.pointer else parameter.type
    return kind if bits_of(parameter.type) // 8 == parameter.size else f"{parameter.size} bytes"


def packed(arguments: Sequence[Argument], parameters: Sequence[Variable], places: Mapping[str, Allocated]) -> bytes:
    """The bytes of the parameters one after the other, without the padding between them."""
    parts, maps = [], 0
    arguments = [argument for argument in arguments if argument.passed]
    for number, parameter in enumerate(parameters):
        if number >= len(arguments):
            parts.append(bytes(parameter.size))
            continue
        argument = arguments[number]
        if argument.pointer:
            parts.append(places[argument.name].address.to_bytes(8, "little"))
        elif argument.map:
            parts.append(map_bytes(maps))
            maps += 1
        elif argument.data:
            parts.append(argument.data)
        else:
            parts.append(_scalar(argument, parameter))
    return b"".join(parts)


def _scalar(argument: Argument, parameter: Variable) -> bytes:
    number: Any = argument.number
    if parameter.type[0] == "f" or isinstance(number, float):
        return np.array(number, f"f{parameter.size}").tobytes()
    if not -(1 << 8 * parameter.size - 1) <= number < 1 << 8 * parameter.size:
        raise LanemapError(f"{argument.name} = {number} does not fit {parameter.size} bytes", "arg")
    return int(number & (1 << 8 * parameter.size) - 1).to_bytes(parameter.size, "little")
