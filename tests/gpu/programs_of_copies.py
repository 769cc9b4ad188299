"""Random programs of what is copied asynchronously: consecutive bytes, and boxes of tensors.

An H200 ends a kernel with an illegal instruction where the first coordinate of a box is no whole number of 16 bytes;
where a box that is stored or reduced begins before its tensor, or has corners of im2col outside of it; and where pixels
begin elsewhere than between corners: no case does, and the tracer has findings of all.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from .programs import BLOCK, OWN, Case, Program, batched, own_memory
from .programs_of_threads import Random, expanded

#: Bytes that bulk copies move together.
_UNIT = 16

_COMPLETES = "mbarrier::complete_tx::bytes"

_REDUCTIONS = """
add.{u32|s32|u64}
{min|max}.{u32|s32|u64|s64}
{inc|dec}.u32
{and|or|xor}.{b32|b64}
add.noftz.{f16|bf16}
{min|max}.{f16|bf16}
add.{f32|f64}
"""

#: What reduces boxes of each type; stores of others.
_OF_TENSORS = {
    "u32": ("add", "min", "max", "and", "or", "xor", "inc", "dec"),
    "s32": ("add", "min", "max", "and", "or", "xor"),
    "u64": ("add", "min", "max", "and", "or", "xor"),
    "s64": ("min", "max"),
    "f16": ("add", "min", "max"),
    "f32": ("add",),
}

#: Tensors, whose rows are whole units.
_TENSORS = [
    ("u8", (4096,)),
    ("f32", (1000,)),
    ("f16", (37, 136)),
    ("s32", (30, 52)),
    ("u8", (21, 208)),
    ("f64", (20, 34)),
    ("f16", (5, 19, 72)),
    ("u32", (7, 9, 20)),
    ("u64", (3, 6, 7, 10)),
    ("f16", (3, 4, 5, 40)),
    ("f32", (2, 3, 4, 5, 12)),
    ("u16", (3, 2, 3, 4, 24)),
    ("s64", (11, 5, 6)),
    ("s32", (4, 3, 2, 5, 8)),
    ("u16", (12, 11, 16)),
]

#: Bytes of a line of a box at most, by how it is swizzled.
_MODES = {"none": 1 << 20, "32B": 32, "64B": 64, "128B": 128}

#: Bits that leave floats finite, and not so far from 1.
_FINITE = {
    "f16": 0xBBFFBBFFBBFFBBFF,
    "bf16": 0xBFFFBFFFBFFFBFFF,
    "f32": 0xBFFFFFFFBFFFFFFF,
    "f64": 0xBFFFFFFFFFFFFFFF,
}

_FILL = ["bar.sync 0;"]
_FILL += [f"st.shared.v2.b64 [%sh+{at}], {{%d{at // 16}, %d{7 - at // 16}}};" for at in range(0, OWN, 16)]
_BEGIN = [*_FILL, "@%first mbarrier.init.shared.b64 [common], 1;", "fence.proxy.async;", "bar.sync 0;"]
_WAIT = ["$Wait:", "mbarrier.try_wait.parity.shared.b64 %p5, [common], 0;", "@!%p5 bra $Wait;"]
_END = ["bar.sync 0;", "@%first mbarrier.inval.shared.b64 [common];", "bar.sync 0;"]
_DONE = ["cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;", "$Skip:", "bar.sync 0;"]


def copies() -> Iterator[Program]:
    """cp.async, and bulk copies and reductions of consecutive bytes."""
    random = Random(2)
    yield from map(Program, batched([*_small(random), *_loaded(random), *_stored(random)]))


def _small(random: Random) -> Iterator[Case]:
    for size, how, _ in itertools.product((4, 8, 16), ("ca", "cg"), range(4)):
        if how == "ca" or size == 16:
            to, source = size * random.below(OWN // size), 16 * random.below(8)
            lines = [f"st.shared.v2.b64 [%sh+{at}], {{%d0, %d1}};" for at in range(0, OWN, 16)]
            more = random.one(["", f", {random.below(size + 1)}", ", %r0", ", %p0"])
            lines += [f"and.b32 %r0, %r0, {size - 1};"]
            lines += [f"cp.async.{how}.shared.global [%sh+{to}], [%row+{source}], {size}{more};"]
            lines += random.one([["cp.async.wait_all;"], ["cp.async.commit_group;", "cp.async.wait_group 0;"]])
            yield Case("copies", [*lines, *own_memory()])


def _loaded(random: Random) -> Iterator[Case]:
    for _ in range(16):
        size = _UNIT * (1 + random.below(128))
        to = _UNIT * random.below((BLOCK * OWN - size) // _UNIT)
        lines = [*_BEGIN, "ld.param.u64 %d7, [in];", *_expects(size)]
        source, name = f"[%d7+{16 * random.below(512)}]", "cp.async.bulk.shared::cluster.global"
        lines.append(f"{name}.{_COMPLETES} [%room+{to}], {source}, {size}, [common];")
        yield Case("copies", [*lines, *_WAIT, *own_memory(), *_END])


def _stored(random: Random) -> Iterator[Case]:
    reset = [f"st.global.v2.b64 [%own+{at}], {{%d{4 + at // 32}, %d0}};" for at in range(0, OWN, 16)]
    for operation in ("", *expanded(_REDUCTIONS)):
        size = _UNIT * (1 + random.below(256))
        source, to = (_UNIT * random.below((BLOCK * OWN - size) // _UNIT) for _ in range(2))
        kind, name = "cp.reduce" if operation else "cp", f".{operation}" * bool(operation)
        lines = [*_finite(operation.rpartition(".")[2]), *_FILL, *reset, "fence.proxy.async;", "bar.sync 0;"]
        lines += ["@!%first bra $Skip;"]
        lines += [f"{kind}.async.bulk.global.shared::cta.bulk_group{name} [%mine+{to}], [%room+{source}], {size};"]
        lines += _DONE
        for at in range(0, OWN, 16):
            lines += [f"ld.global.v2.b64 {{%d0, %d1}}, [%own+{at}];", "OUT %d0", "OUT %d1"]
        yield Case("copies", [*lines, "bar.sync 0;"])


def boxes() -> Iterator[Program]:
    """Boxes of tensors of one to five dimensions that are loaded, stored, and reduced, also beyond edges."""
    random = Random(3)
    for type_, shape in _TENSORS:
        cases, maps = [], {}
        for number in range(6):
            box, mode = _box(type_, shape, random)
            maps[f"map{number}"] = {"array": "tensor", "box": box, "swizzle": mode}
            for _ in range(4):
                place = _place(type_, shape, box, random, before=True)
                cases.append(_load(f"map{number}", type_, shape, box, place))
        for number in range(4):
            box, mode = _box(type_, shape, random)
            maps[f"to{number}"] = {"array": "other", "box": box, "swizzle": mode}
            ways = random.some(["", "", *_OF_TENSORS.get(type_, ())], 4)
            for way in ways:
                place = _place(type_, shape, box, random, before=False)
                cases.append(_store(f"to{number}", type_, shape, place, way))
        yield Program(cases, arrays={"tensor": (type_, shape), "other": (type_, shape)}, maps=maps)


def maps() -> Iterator[Program]:
    """Boxes of which not every line is copied, and pixels of im2col; also what is filled with NaN."""
    random = Random(5)
    for type_, shape in _TENSORS:
        cases, maps, rank = [], {}, len(shape)
        for number in range(12):
            box, mode = _box(type_, shape, random)
            own = maps[f"map{number}"] = {"array": "tensor" if number < 8 else "other", "box": box, "swizzle": mode}
            if "f" in type_ and random.below(2):
                own["fill"] = "nan"
            if number % 2 and rank > 2:
                own |= _corners(shape, random, outside=number < 8)
                own["every"] = [1, *(1 + random.below(3) for _ in shape[2:]), 1]
                lines = _MODES[mode] if mode != "none" else box[-1] * _width(type_)
                own["box"] = box = [1 + random.below(min(64, BLOCK * OWN // lines)), box[-1]]
                place = _corner(type_, shape, own, random)
                offsets = ", ".join(str(random.below(4)) for _ in shape[2:])
                ways = [("im2col", f", {{{offsets}}}"), ("im2col_no_offs", "")]
            else:
                own["every"] = [*(1 + random.below(4) for _ in shape[1:]), 1]
                copied = [-(-extent // step) for extent, step in zip(box, own["every"], strict=True)]
                place = _place(type_, shape, box, random, before=number < 8)
                box, ways = copied, [("tile", ""), ("tile", "")]
            if number < 8:
                cases.append(_load(f"map{number}", type_, shape, box, place, *ways[0]))
            else:
                way = random.one(["", "", *_OF_TENSORS.get(type_, ())])
                cases.append(_store(f"map{number}", type_, shape, place, way, ways[1][0]))
        yield Program(cases, arrays={"tensor": (type_, shape), "other": (type_, shape)}, maps=maps)


def _corners(shape: Sequence[int], random: Random, *, outside: bool) -> dict[str, list[int]]:
    """Corners of a box of im2col that has pixels, also ``outside`` of the tensor."""
    lower = [random.below(4) - 2 * outside for _ in shape[2:]]
    upper = [-random.below(3) + outside for _ in shape[2:]]
    bounds = [(min(low, extent - 1), high) for low, extent, high in zip(lower, shape[1:], upper, strict=False)]
    lower = [low for low, _ in bounds]
    upper = [max(high, low + 1 - extent) for (low, high), extent in zip(bounds, shape[1:], strict=False)]
    return {"lower": lower, "upper": upper}


def _corner(type_: str, shape: Sequence[int], of: Mapping[str, Sequence[int]], random: Random) -> str:
    """Coordinates of a pixel between corners, innermost first."""
    ends = [extent + upper for extent, upper in zip(shape[1:], of["upper"], strict=False)]
    at = [low + random.below(end - low) for low, end in zip(of["lower"], ends, strict=True)]
    unit = _UNIT // _width(type_)
    at = [random.below(shape[0] + 1), *at, random.below(shape[-1]) // unit * unit]
    return f"{{{', '.join(map(str, reversed(at)))}}}"


def _load(
    name: str, type_: str, shape: Sequence[int], box: Sequence[int], place: str, how: str = "tile", offsets: str = ""
) -> Case:
    copy = f"cp.async.bulk.tensor.{len(shape)}d.shared::cluster.global.{how}.{_COMPLETES}"
    size = prod(box) * _width(type_)
    lines = [*_BEGIN, *_named(name), *_expects(size), f"{copy} [%room], [%d7, {place}], [common]{offsets};"]
    return Case("boxes", [*lines, *_WAIT, *own_memory(), *_END])


def _store(name: str, type_: str, shape: Sequence[int], place: str, way: str, how: str = "tile") -> Case:
    """A store or a reduction, after which each thread hashes its part of the tensor."""
    total = prod(shape) * _width(type_)
    copy = f"cp{'.reduce' * bool(way)}.async.bulk.tensor.{len(shape)}d.global.shared::cta{'.' * bool(way)}{way}"
    lines = [*_finite(type_), *_BEGIN, *_named(name), "@!%first bra $Skip;"]
    lines += [f"{copy}.{how}.bulk_group [%d7, {place}], [%room];", *_DONE]
    lines += ["ld.param.u64 %d7, [other];", "mad.wide.u32 %d7, %t, 8, %d7;", "mov.b64 %d6, 0;"]
    for at in range(0, total, 8 * BLOCK):
        lines += [f"setp.lt.u32 %p1, %t, {(total - at) // 8};", f"@%p1 ld.global.b64 %d5, [%d7+{at}];"]
        lines += ["@%p1 mad.lo.u64 %d6, %d6, 0x9e3779b97f4a7c15, %d5;"]
    return Case("boxes", [*lines, "OUT %d6", *_END])


def _expects(size: int) -> list[str]:
    """Lines by which one thread expects bytes, and goes on alone."""
    return ["@!%first bra $Wait;", f"mbarrier.arrive.expect_tx.shared.b64 _, [common], {size};"]


def _finite(type_: str) -> list[str]:
    """Lines that make numbers of a type finite."""
    return (
        [f"and.b64 %d{number}, %d{number}, {hex(_FINITE[type_])};" for number in range(8)] if type_ in _FINITE else []
    )


def _width(type_: str) -> int:
    return int("".join(filter(str.isdigit, type_))) // 8


def _box(type_: str, shape: Sequence[int], random: Random) -> tuple[list[int], str]:
    """A box of up to 8 kB, whose line is of whole units, and how it is swizzled."""
    width = _width(type_)
    while True:
        mode = random.one([*_MODES])
        box = [1 + random.below(min(2 * extent, 256)) for extent in shape[:-1]]
        box.append(_UNIT // width * (1 + random.below(8)))
        line = box[-1] * width
        lies = line if mode == "none" else _MODES[mode]
        if line <= _MODES[mode] and prod(box[:-1]) * lies <= BLOCK * OWN:
            return box, mode


def _named(name: str) -> list[str]:
    """Lines that leave the address of a tensor map in a register."""
    return [f"mov.b64 %d7, {name};", "cvta.param.u64 %d7, %d7;"]


def _place(type_: str, shape: Sequence[int], box: Sequence[int], random: Random, *, before: bool) -> str:
    """Coordinates, innermost first: within a tensor, beyond it, or ``before`` it."""
    units, at = [*[1] * (len(shape) - 1), _UNIT // _width(type_)], []
    for extent, length, unit in zip(reversed(shape), reversed(box), reversed(units), strict=True):
        start = random.one([0, random.below(extent), random.below(extent + 2 * length) - length * before])
        at.append(start // unit * unit)
    return f"{{{', '.join(map(str, at))}}}"
