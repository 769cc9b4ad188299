"""Random programs of what moves and multiplies matrices.

Each form has numbers of its own, which its name alone chooses. All products are exact.
"""

import itertools
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from .programs import BLOCK, OWN, Case, Program, batched, own_memory
from .programs_of_threads import Random

#: Bytes of shared memory that descriptors read.
_BIG = 48 * 1024

#: How far the whole numbers of a type go, so that sums of their products are exact.
_REACH = {"f16": 3, "bf16": 100, "tf32": 400, "f32": 1000, "f64": 1 << 20}


def matrices() -> Iterator[Program]:
    """ldmatrix, stmatrix and movmatrix, with random lines."""
    yield from map(Program, batched([*_moves()]))


def _moves() -> Iterator[Case]:
    from lanemap.db.isa.forms import forms

    random = Random(1)
    for form in itertools.chain(forms("ldmatrix"), forms("stmatrix")):
        count = form.operand(form.role).registers
        for _ in range(3):
            own = [f"%r{4 + number}" for number in range(count)]
            vector = f"{{{', '.join(own)}}}"
            if form.stores:
                by, first = 2 * random.below(64) + 1, random.below(128)
                lines = [
                    "bar.sync 0;",
                    *(f"st.shared.v2.b64 [%sh+{at}], {{0, 0}};" for at in range(0, OWN, 16)),
                    "bar.sync 0;",
                ]
                lines += [
                    f"mul.lo.u32 %r0, %lane, {16 * by};",
                    f"add.u32 %r0, %r0, {16 * first};",
                    "and.b32 %r0, %r0, 0x7f0;",
                ]
                lines += [
                    "and.b32 %r1, %t, 0x60;",
                    f"mul.lo.u32 %r1, %r1, {OWN};",
                    "mov.u32 %r2, room;",
                    "add.u32 %r1, %r1, %r2;",
                ]
                lines += ["add.u32 %r0, %r0, %r1;", f"{form.mnemonic} [%r0], {vector};", "bar.sync 0;"]
                yield Case("matrices", [*lines, *own_memory()])
            else:
                lines = ["and.b32 %r0, %r0, 0x1ff0;", "mov.u32 %r1, room;", "add.u32 %r0, %r0, %r1;"]
                yield Case("matrices", [*lines, f"{form.mnemonic} {vector}, [%r0];", *(f"OUT {each}" for each in own)])
    yield Case("matrices", ["movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;", "OUT %r1"])


def _numbers(type_: str, shape: Sequence[int], random: np.random.Generator):
    """Whole numbers of a type."""
    from lanemap.capture import values
    from lanemap.db.isa.types import TYPES

    if type_ in ("s32",):
        return random.integers(-(1 << 20), 1 << 20, shape)
    if TYPES[type_].native and type_ not in _REACH:
        row = np.iinfo(TYPES[type_].native)
        return random.integers(row.min, row.max + 1, shape)
    low, high = (-_REACH[type_], _REACH[type_]) if type_ in _REACH else values.integers(type_)
    return random.integers(low, high, shape, endpoint=True)


def _registers(form, role: str, random: np.random.Generator, *, special: bool = False):
    """What the registers of an operand hold, for each thread of the block [register][thread].

    ``special``: a few numbers are infinite, or none.
    """
    from lanemap.capture import values

    operand = form.operand(role)
    groups = BLOCK // operand.threads
    numbers = _numbers(form.types[role], (groups, operand.slots * operand.registers * operand.threads), random)
    if special and form.types[role] in ("f16", "f32", "f64"):
        few = random.choice([np.inf, -np.inf, np.nan], numbers.shape)
        numbers = np.where(random.random(numbers.shape) < 0.01, few, numbers)
    words = values.write_registers(operand, numbers)
    return words.transpose(1, 0, 2).reshape(operand.registers, BLOCK)


class _Data:
    """Bytes that a program reads, and lines that load registers from them."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def loads(self, name: str, words) -> list[str]:
        """Lines that declare and load registers, of which there are words [register][thread]."""
        width = words.dtype.itemsize
        lines = [f".reg .b{8 * width} {name}<{len(words)}>;", f"mad.wide.u32 %w, %t, {width}, %dat;"]
        for number, row in enumerate(words):
            lines.append(f"ld.global.b{8 * width} {name}{number}, [%w+{self.size}];")
            self.parts.append(np.ascontiguousarray(row).tobytes())
            self.size += width * BLOCK
        return lines


def _vector(name: str, count: int) -> str:
    return f"{{{', '.join(f'{name}{number}' for number in range(count))}}}"


def _metadata(form, random: np.random.Generator):
    """Words of metadata, of which every four bits choose columns."""
    vectors = random.choice(list(form.sparsity.indices), (1, BLOCK, 8)).astype("u4")
    return np.bitwise_or.reduce(vectors << np.arange(0, 32, 4, dtype="u4"), axis=2)


def products() -> Iterator[Program]:
    """mma and mma.sp of each form, with numbers for A, B and C, and D in registers of its own."""
    from lanemap.db.isa.forms import forms

    made, data = [], _Data()
    for form in itertools.chain(forms("mma"), forms("mma.sp")):
        if form.tier or not _on_sm_90(form) or form.scale is not None:
            continue
        for selector, special in itertools.product(form.selectors, (False, True)):
            if special and form.d == "s32":
                continue
            random = np.random.default_rng(zlib.crc32(f"{form.mnemonic} {selector} {special}".encode()))
            lines = []
            for role in "ABC":
                lines += data.loads(f"%{role}", _registers(form, role, random, special=special))
            count, bits = form.operand("D").registers, form.operand("D").register_bits
            more = ""
            if form.sparse:
                lines += data.loads("%E", _metadata(form, random))
                more = f", %E0, {selector}"
            mnemonic = form.mnemonic.replace("sp::ordered_metadata", "sp") if random.random() < 0.3 else form.mnemonic
            operands = ", ".join(_vector(f"%{role}", form.operand(role).registers) for role in "ABC")
            kind = "d" if bits == 64 else "r"
            lines.append(f"{mnemonic} {_vector(f'%{kind}', count)}, {operands}{more};")
            made.append(Case("products", [*lines, *(f"OUT %{kind}{number}" for number in range(count))]))
        if data.size > 1 << 20:
            yield Program(made, b"".join(data.parts))
            made, data = [], _Data()
    yield Program(made, b"".join(data.parts))


def _on_sm_90(form) -> bool:
    return int("".join(filter(str.isdigit, form.target))) <= 90


def _memory(type_: str, random: np.random.Generator) -> bytes:
    """Numbers of a type in shared memory; those of 8 bits with a point are exact in both types."""
    size = _BIG * 8
    if type_ in ("f16", "bf16", "tf32"):
        numbers = random.integers(-2, 3, size // (32 if type_ == "tf32" else 16)).astype("f4")
        return (
            (numbers.astype("f2") if type_ == "f16" else numbers if type_ == "tf32" else numbers.view("u4") >> 16)
            .astype({"f16": "f2", "bf16": "u2", "tf32": "f4"}[type_])
            .tobytes()
        )
    if type_ in ("e4m3", "e5m2"):
        return random.choice(np.array([0, 0x38, 0x40, 0xB8, 0xC0], "u1"), _BIG).tobytes()
    return random.bytes(_BIG)


def _descriptor(key, random: np.random.Generator) -> tuple[int, int]:
    """A descriptor of an operand, without its start, and its start; all that it reads is there."""
    from lanemap.db.isa.instructions import tile
    from lanemap.db.isa.shared import Fields, descriptor
    from lanemap.db.layout.shared import read

    while True:
        mode = str(random.choice(["none", "32B", "64B", "128B"]))
        major = key.qualifiers if key.qualifiers == "K" else str(random.choice(["K", "MN"]))
        of = tile(key._replace(qualifiers=f"{mode}.{major}"))
        leading, stride = (16 * int(random.integers(1, 2 ** random.integers(1, 8))) for _ in range(2))
        start = 16 * int(random.integers(0, 256))
        fields = Fields(mode, leading, stride, start, int(random.choice([0, 0, 0, *range(8)])))
        if read(of, fields).max() // 8 < _BIG - 4:
            return descriptor(fields._replace(start=0)), start, major


def warpgroups() -> Iterator[Program]:
    """wgmma and wgmma.sp: random descriptors, signs, and registers; D is folded into eight numbers."""
    from lanemap.db.isa.forms import forms

    by_type: dict[str, list] = {}
    for form in itertools.chain(forms("wgmma"), forms("wgmma.sp")):
        kind = "f8" if form.a in ("e4m3", "e5m2") else "bytes" if form.a in ("s8", "u8", "b1") else form.a
        by_type.setdefault(kind, []).append(form)
    for kind, every in by_type.items():
        random = np.random.default_rng(zlib.crc32(kind.encode()))
        memory = _memory("e4m3" if kind == "f8" else kind, random)
        combinations: dict[tuple, list] = {}
        for form in every:
            combinations.setdefault((form.name, form.types["D"], form.a, form.b), []).append(form)
        cases, data = [], _Data()
        data.parts, data.size = [memory], len(memory)
        for own in combinations.values():
            for _ in range(20):
                form = own[int(random.integers(len(own)))]
                cases.append(_warpgroup(form, random, data))
        program = b"".join(data.parts)
        for some in batched(cases):
            yield Program(some, program, _BIG)


def _warpgroup(form, random: np.random.Generator, data: _Data) -> Case:
    count = form.operand("D").registers
    lines = data.loads("%C", _registers_of_d(form, random))
    lines += [f".reg .b32 %D<{count}>; .reg .pred %adds; .reg .b64 %da, %db; .reg .b32 %place;"]
    lines += [f"mov.b32 %D{number}, %C{number % 2};" for number in range(count)]
    inner = random.random() < 0.3
    turned = form.a in ("f16", "bf16")
    sides = []
    if inner:
        lines += data.loads("%A", _registers(form, "A", random) if kind_exact(form.a) else _codes_of_a(form, random))
    for role in "B" if inner else "AB":
        key = form.key(role)._replace(qualifiers="" if turned else "K")
        word, start, major = _descriptor(key, random)
        sides.append(int(major == "MN"))
        lines += [f"add.u32 %place, %big, {start};", "and.b32 %place, %place, 0x3ffff;", "shr.u32 %place, %place, 4;"]
        lines += [f"cvt.u64.u32 %d{role.lower()}, %place;", f"or.b64 %d{role.lower()}, %d{role.lower()}, {hex(word)};"]
    more = ""
    if form.sparse:
        lines += data.loads("%E", _metadata(form, random))
        more = f", %E0, {int(random.choice(form.selectors))}"
    turns = "".join(f", {side}" for side in sides) if turned else ""
    lines += [f"setp.ne.u32 %adds, 0, {int(random.random() < 0.7)};", "wgmma.fence.sync.aligned;"]
    a = _vector("%A", form.operand("A").registers) if inner else "%da"
    times = int(random.integers(1, 4))
    if form.dimensions[1] == 8:
        times = 1  # ptxas 13.5 makes one instruction of two that are alike
    for signs in (("1", "1"), ("-1", "1"), ("1", "-1"))[:times]:
        sign = "" if form.d == "s32" else f", {', '.join(signs)}"
        lines.append(f"{form.mnemonic} {_vector('%D', count)}, {a}, %db{more}, %adds{sign}{turns};")
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    lines += [f"mov.b32 %r{number}, 0;" for number in range(8)]
    lines += [f"mad.lo.u32 %r{number % 8}, %r{number % 8}, 0x9e3779b1, %D{number};" for number in range(count)]
    return Case("warpgroups", [*lines, *(f"OUT %r{number}" for number in range(8))])


def kind_exact(type_: str) -> bool:
    """Whether registers of A may hold any of the numbers of a type."""
    return type_ not in ("e4m3", "e5m2")


def _codes_of_a(form, random: np.random.Generator):
    """Registers of A with numbers of 8 bits, as in memory."""
    codes = random.choice(np.array([0, 0x38, 0x40, 0xB8, 0xC0], "u1"), (form.operand("A").registers, BLOCK, 4))
    return np.ascontiguousarray(codes).view("u4")[..., 0]


def _registers_of_d(form, random: np.random.Generator):
    """Two registers of D, with small numbers."""
    numbers = random.integers(-8, 8, (2, BLOCK, 2))
    if form.d == "f16":
        return np.ascontiguousarray(numbers.astype("f2")).view("u4")[..., 0]
    return numbers[..., 0].astype("f4" if form.d == "f32" else "i4").view("u4")
