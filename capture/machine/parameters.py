"""What an entry is given for its parameters: arguments with their values, and the bytes of the parameters."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.shared import BoundingBox
from ...db.text import counted
from .. import values
from .arguments import INTEGERS, Argument, number_bytes
from .memory import MAP_SIZE, UNIT, Allocated, MappedTensor, map_bytes
from .ptx import Function, MemoryOperand, Name, Number, Operand, Variable, bits_of, items_of

#: What compilers call a parameter by its number.
_NAMELESS = re.compile(r"_param_\d+$")

#: Bytes of a pointer, and what a tensor map in a struct is aligned to.
_POINTER, _MAP_ALIGNMENT = 8, 64

#: How far the corners of a box of im2col may be from those of its tensor, by its dimensions (5.5.4.1).
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}

#: What an H200 fills elements with outside of a tensor, of 16, 32 and 64 bits alike.
_NAN = b"\xf7\x7f"

#: Fields of a struct that are named where parameters are listed.
_FEW_FIELDS = 12


def given(arguments: Sequence[Argument], entry: Function, outputs: Collection[str], seed: int) -> list[Argument]:
    """The arguments with names and values, as many as the entry has parameters.

    Those without values are small random integers, but what is only an output begins uninitialised. Parameters that a
    compiler adds behind those of the source, as Triton does, are null where they are pointers.

    Raises:
        LanemapError: they are not those of the entry; lists its parameters with their types.
    """
    arrays = [argument.name for argument in arguments if argument.pointer]
    maps = [argument.name for argument in arguments if argument.map]
    mapped = {argument.map.array for argument in arguments if argument.map}
    fields = {each.name for argument in arguments for each in argument.fields if each.name}
    if missing := mapped.difference(arrays):
        raise LanemapError(f"a map of {missing.pop()}: the arrays are {', '.join(arrays) or 'none'}", "arg")
    if missing := fields.difference(arrays, maps):
        known = ", ".join([*arrays, *maps]) or "none"
        raise LanemapError(f"a struct with {missing.pop()}: the arrays and tensor maps are {known}", "arg")
    if len(arguments) > len(entry.parameters):
        arguments = [replace(argument, passed=argument.name not in mapped | fields) for argument in arguments]
    contents = dict.fromkeys(arrays, bytes(_POINTER)) | dict.fromkeys(maps, bytes(MAP_SIZE))
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
            _expect_fitting(argument, name, parameter, entry, contents)
        array = argument.array
        if argument.pointer and array is None and name not in outputs:
            low, high = (0, 2) if argument.type in INTEGERS else values.integers(argument.type)
            array = random.integers(low, high, argument.shape, endpoint=True).astype("f8")
        found.append(replace(argument, name=name, array=array, first=first))
        first += argument.count
    return found


def _tensor_map(argument: Argument, arrays: Mapping[str, Argument], places: Mapping[str, Allocated]) -> MappedTensor:
    """The tensor map of an argument. Raises LanemapError where a driver makes none such of its array (5.5)."""
    assert argument.map is not None
    name, box, mode, shape, strides, every, fill, lower, upper = argument.map
    of = arrays[name]
    shape = shape or of.shape
    rank, size = len(shape), max(of.bits // 8, 1)
    strides = strides or tuple(prod(shape[axis + 1 :]) for axis in range(rank))
    every = every or (1,) * rank
    lies = BoundingBox(mode, of.bits, prod(box[:-1]), box[-1])
    line, end = box[-1] * of.bits // 8, sum((extent - 1) * step for extent, step in zip(shape, strides, strict=False))
    corners = tuple((low, extent + high) for low, extent, high in zip(lower, shape[1:], upper, strict=False))
    im2col = bool(lower or upper)
    most = (1024, 256) if im2col else (256,) * rank
    if im2col:
        far, sizes = _CORNERS.get(rank, 0), {len(lower) + 2, len(upper) + 2, len(strides), len(every)}
        rules = {
            f"of 3 to 5 dimensions, its box has 2 numbers, strides and every {rank}, lower and upper {rank - 2}": (
                rank in _CORNERS and len(box) == 2 and sizes == {rank}
            ),
            f"its corners are from {-far} to {far - 1}, and there are pixels between them": (
                all(-far <= corner < far for corner in (*lower, *upper)) and all(low < high for low, high in corners)
            ),
            "every has 1 for the first dimension": every[0] == 1,
        }
    else:
        rules = {
            f"box, strides and every have {rank} numbers, and at most 5": (
                {len(box), len(strides), len(every)} == {rank} and rank <= 5
            )
        }
    rules |= {
        f"lines of its box are multiples of {UNIT} bytes, and extents at most {most[0]}": (
            line % UNIT == 0 and all(1 <= extent <= top for extent, top in zip(box, most, strict=False))
        ),
        f"a line of its box has {line} bytes: swizzle={mode} takes {lies.span}": lies.fits,
        "all extents are above 0, and a line has whole bytes": all(shape) and shape[-1] * of.bits % 8 == 0,
        f"strides are multiples of {UNIT} bytes, and the last is 1": (
            strides[-1] == 1 and all(stride * of.bits % (8 * UNIT) == 0 for stride in strides[:-1])
        ),
        "every has numbers from 1 to 8, and the last is 1": every[-1] == 1 and all(1 <= step <= 8 for step in every),
        f"it reaches element {end}, and {name} has {prod(of.shape)}": end < prod(of.shape),
        f"fill=nan: {of.type} has no such number": not fill or (of.floating and of.bits > 8),
    }
    if broken := [words for words, kept in rules.items() if not kept]:
        raise LanemapError(f"{argument.name}, a map of {name}: {broken[0]}", "arg")
    if not im2col:
        box = tuple(-(-extent // step) for extent, step in zip(box, every, strict=True))
    filled = (_NAN * size)[:size] if fill else bytes(size)
    return MappedTensor(places[name].address, shape, strides, of.bits, box, every, mode, of.type, filled, corners)


def _expect_fitting(
    argument: Argument, name: str, parameter: Variable, entry: Function, contents: Mapping[str, bytes]
) -> None:
    """Raises LanemapError where an argument is not what a parameter takes; lists the parameters."""
    size = MAP_SIZE if argument.map else _POINTER if argument.pointer else len(argument.data) or parameter.size
    if argument.fields:
        size = max(len(_struct(argument, contents)), parameter.size)  # the rest of it is zero
    if size != parameter.size:
        kind = "a tensor map" if argument.map else "an array" if argument.pointer else f"of {size} bytes"
        raise LanemapError(f"{name} is {kind}, which is not what it is given for: {_parameters(entry)}", "arg")


def _parameters(entry: Function) -> str:
    """The parameters of an entry with their types, in one line, by name where they have one."""
    if not entry.parameters:
        return f"{entry.name} takes none"
    names = [
        f"argument {number}" if _NAMELESS.search(each.name) else each.name
        for number, each in enumerate(entry.parameters, 1)
    ]
    listed = ", ".join(f"{name}: {_described(each, entry)}" for name, each in zip(names, entry.parameters, strict=True))
    return f"{entry.name} takes {len(names)}, {listed}"


def _described(parameter: Variable, entry: Function) -> str:
    kind = "pointer" if parameter.pointer else parameter.type
    if bits_of(parameter.type) // 8 == parameter.size:
        return kind
    fields = [f"{type_}@{offset}" for offset, type_ in sorted(_fields(parameter, entry).items())]
    more = [f"{len(fields) - _FEW_FIELDS} more"] if len(fields) > _FEW_FIELDS else []
    read = f", of which it reads struct({', '.join(fields[:_FEW_FIELDS] + more)})" if fields else ""
    return f"{parameter.size} bytes{read}"


def _fields(parameter: Variable, entry: Function) -> dict[int, str]:
    """What an entry reads of a struct, by offset: types, or ``pointer`` where it takes a global address of it."""
    addresses = {operand for each in entry.body if each.parts[0] == "cvta" for operand in each.operands[1:]}
    starts: dict[Operand | None, int] = {Name(parameter.name): 0}  # what has its address, with the offset in it
    found = {}
    for statement in entry.body:
        match statement.parts[0], statement.operands:
            case "mov" | "cvta", (to, source) if source in starts:
                starts[to] = starts[source]
            case "add", (to, source, Number(number)) if source in starts:
                starts[to] = starts[source] + number
            case "ld", (to, MemoryOperand(base, offset)) if base in starts:
                for number, register in enumerate(items_of(to)):
                    at = starts[base] + offset + number * bits_of(statement.type) // 8
                    found[at] = "pointer" if register in addresses else statement.type
    return found


def packed(
    arguments: Sequence[Argument], parameters: Sequence[Variable], places: Mapping[str, Allocated]
) -> tuple[bytes, list[MappedTensor]]:
    """The bytes of the parameters one after the other, without the padding between them, and the tensor maps."""
    by_name = {argument.name: argument for argument in arguments if argument.pointer}
    maps = [argument for argument in arguments if argument.map]
    contents = {name: place.address.to_bytes(_POINTER, "little") for name, place in places.items()}
    contents |= {argument.name: map_bytes(number) for number, argument in enumerate(maps)}
    parts = []
    passed = iter([argument for argument in arguments if argument.passed])
    for parameter in parameters:
        argument = next(passed, None)
        if argument is None:
            parts.append(bytes(parameter.size))
        elif argument.fields:
            parts.append(_struct(argument, contents).ljust(parameter.size, b"\0"))
        else:
            parts.append(contents.get(argument.name) or argument.data or _scalar(argument, parameter))
    return b"".join(parts), [_tensor_map(argument, by_name, places) for argument in maps]


def _struct(argument: Argument, contents: Mapping[str, bytes]) -> bytes:
    """The bytes of a struct, of which named fields and numbers may lie on what is given as bytes, and on no other.

    Raises:
        LanemapError: two of them overlap.
    """
    data, end, taken = bytearray(), 0, set[int]()
    for each in argument.fields:
        part = contents[each.name] if each.name else each.data
        align = min(len(part), _MAP_ALIGNMENT) if each.name else max(each.align, 1)
        at = -(-end // align) * align if each.at is None else each.at
        end = at + len(part)
        data = data.ljust(end, b"\0")
        data[at:end] = part
        if each.name or each.align:
            if taken.intersection(range(at, end)):
                raise LanemapError(f"{argument.name}: two fields of the struct overlap at byte {at}", "arg")
            taken.update(range(at, end))
    return bytes(data)


def _scalar(argument: Argument, parameter: Variable) -> bytes:
    number = argument.number
    assert number is not None
    if parameter.type[0] in "us" and isinstance(number, float):
        if not number.is_integer():
            raise LanemapError(f"{argument.name} = {number} is no {parameter.type}: write a whole number", "arg")
        number = int(number)
    floating = parameter.type[0] == "f" or isinstance(number, float)
    kind = "f" if floating else "s" if number < 0 else "u"  # the bits of a whole number may be of either
    if (data := number_bytes(number, f"{kind}{8 * parameter.size}")) is None:
        raise LanemapError(f"{argument.name} = {number} does not fit {parameter.size} bytes", "arg")
    return data
