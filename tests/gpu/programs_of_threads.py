"""Random programs of what threads do alone: moves, loads, stores and atomics.

Of a line of a table the alternatives in braces are chosen at random, and a letter stands for a register: R, D and H of
32, 64 and 16 bits, = of the last type of the opcode, P a predicate. X is a small number, I any of 32 bits.
"""

import itertools
import re
from collections.abc import Iterator

import numpy as np

from .programs import BITS, KINDS, OWN, Case

MOVES = """
mov.b32 R, {H, H}
mov.b32 {H, H}, R
mov.b64 D, {R, R}
mov.b64 {R, R}, D
mov.b64 D, {H, H, H, H}
mov.b64 {H, H, H, H}, D
mov.b64 {_, R}, D
mov.{u32|s32|b32|f32} R, R
mov.{b64|f64} D, D
mov.b16 H, H
mov.pred P, P
mov.{u32|s32|b32} R, I
add.cc.{u32|s32} R, R, R; addc.cc.{u32|s32} R, R, R; addc.{u32|s32} R, R, R
sub.cc.{u32|s32} R, R, R; subc.cc.{u32|s32} R, R, R; subc.{u32|s32} R, R, R
add.cc.{u64|s64} D, D, D; addc.cc.{u64|s64} D, D, D; addc.u32 R, 0, 0
sub.cc.{u64|s64} D, D, D; subc.cc.{u64|s64} D, D, D; subc.u32 R, 0, 0
mad.lo.cc.u32 R, R, R, R; madc.hi.cc.u32 R, R, R, R; madc.lo.u32 R, R, R, R
mad.hi.cc.s32 R, R, R, R; madc.lo.cc.s32 R, R, R, R; madc.hi.s32 R, R, R, R
mad.lo.cc.u64 D, D, D, D; madc.hi.cc.u64 D, D, D, D; addc.u32 R, R, 0
add.cc.u32 R, R, I; addc.u32 R, R, 0
{add|sub|mul.lo|mul.hi|min|max}.{u32|s32} R, R, {R|I}
{add|sub|mul.lo|mul.hi|min|max}.{u64|s64|u16|s16} =, =, =
{mul.wide.u32|mul.wide.s32} D, R, R
{mul.wide.u16|mul.wide.s16} R, H, H
mad.{lo|hi}.{u32|s32} R, R, R, R
{div|rem}.{u32|s32} R, R, {R|I}
{and|or|xor}.{b32|b64|b16} =, =, =
{and|or|xor}.pred P, P, {P|!P}
{not|cnot}.{b32|b64|b16} =, =
not.pred P, P
lop3.b32 R, R, R, R, {0x1b|0x96|0xe8|0x40|0xd8|0x35}
lop3.{and|or}.b32 R|P, R, R, R, {0x1b|0x96|0x80|0x01}, {P|!P}
prmt.b32 R, R, R, {R|I}
prmt.b32.{f4e|b4e|rc8|ecl|ecr|rc16} R, R, R, R
shf.{l|r}.{wrap|clamp}.b32 R, R, R, {R|X}
{shl.b32|shr.u32|shr.s32} R, R, {R|X}
{shl.b64|shr.u64|shr.s64} D, D, {R|X}
bfe.{u32|s32} R, R, {R|X}, {R|X}
bfe.{u64|s64} D, D, X, X
bfi.b32 R, R, R, {R|X}, {R|X}
bfi.b64 D, D, D, X, X
szext.{wrap|clamp}.{u32|s32} R, R, {R|X}
bmsk.{wrap|clamp}.b32 R, {R|X}, {R|X}
fns.b32 R, R, {0|7|31}, {1|2|-1|-3|0}
{popc|clz|brev}.b32 R, R
{popc|clz}.b64 R, D
bfind{.shiftamt|}.{u32|s32} R, R
dp4a.{u32|s32}.{u32|s32} R, R, R, R
dp2a.{lo|hi}.{u32|s32}.{u32|s32} R, R, R, R
sad.{u32|s32|u64|s64|u16|s16} =, =, =, =
mul24.{lo|hi}.{u32|s32} R, R, R
mad24.{lo|hi}.{u32|s32} R, R, R, R
{vadd|vsub|vmin|vmax|vabsdiff|vavrg}{2|4}.{u32|s32}.{u32|s32}.{u32|s32} R, R, R, R
setp.{eq|ne|lt|le|gt|ge}.{s32|s16|s64} P|P, =, =
setp.{lo|ls|hi|hs|eq|ne}.{u32|u16|u64} P|P, =, =
setp.{eq|ne|lt|le|gt|ge}.{and|or|xor}.{s32|s16|s64} P|P, =, =, {P|!P}
setp.{lo|ls|hi|hs|eq|ne}.{and|or|xor}.{u32|u16|u64} P, =, =, {P|!P}
setp.{eq|lt|gtu|num|nan|leu|neu|ge}{.ftz|}.f32 P|P, R, R
setp.{eq|lt|gtu|num|nan|leu|neu|ge}.{and|or|xor}.{f32|f64} P|P, =, =, {P|!P}
setp.{eq|lt|gtu|num|nan|leu|neu|ge}.{f16x2|bf16x2} P|P, R, R
setp.{eq|lt|gtu|num|nan|leu|neu|ge}.{and|or|xor}.{f16x2|bf16x2} P|P, R, R, {P|!P}
setp.{eq|lt|gtu|num|nan|leu|neu|ge}.{and|or|xor}.{f16|bf16} P, H, H, {P|!P}
set.{lt|ge|eq}.{and|or|xor}.{u32|s32|f32}.{u32|s32} R, R, R, {P|!P}
set.{lt|gtu|num|nan}.{and|or|xor}.{u32|f32}.f32 R, R, R, {P|!P}
set.{lt|gtu|num|nan}.{and|or|xor}.{f16x2|u32}.f16x2 R, R, R, {P|!P}
selp.{b32|s32} R, R, {R|I}, P
selp.f32 R, R, R, P
selp.{b64|f64|b16|u16} =, =, =, P
slct.{b32|u32|f32}.s32 R, R, R, R
slct.{b64|f64}.{s32|f32} D, D, D, R
cvt.u64.u32 D, R
cvt.s64.s32 D, R
cvt.{u32|s32}.{u16|s16|u8|s8} R, H
cvt{.sat|}.{u16|s16|u8|s8}.{u32|s32} H, R
cvt{.sat|}.{u32|s32}.{u64|s64} R, D
mov.u32 R, {%laneid|%tid.x|%tid.y|%tid.z|%ntid.x|%ntid.y|%ctaid.x|%nctaid.x|%nctaid.z|%warpid}
mov.u32 R, {%lanemask_eq|%lanemask_lt|%lanemask_le|%lanemask_gt|%lanemask_ge|%cluster_ctarank|%cluster_nctarank}
mov.u32 R, {%clusterid.x|%nclusterid.x|%cluster_ctaid.y|%cluster_nctaid.x|%dynamic_smem_size|%total_smem_size}
mov.pred P, %is_explicit_cluster
"""


class Random:
    """Choices by a seed."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)
        self.names = itertools.count()

    def below(self, end: int) -> int:
        return int(self.numbers.integers(end))

    def one(self, of):
        return of[self.below(len(of))]

    def some(self, of, count):
        return [of[at] for at in self.numbers.permutation(len(of))[:count]]

    def chance(self, share: float) -> bool:
        return bool(self.numbers.random() < share)

    def label(self) -> str:
        return f"$L{next(self.names)}"

    def register(self, kind: str) -> str:
        return f"%{kind}{self.below(KINDS[kind][1])}"

    def immediate(self) -> str:
        few = (0, 1, 2, 0x1F, 0x20, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000, 0x3210, 0x7654, 0x0123, 0xFEDC)
        return hex(self.one(few) if self.chance(0.5) else self.below(1 << 32))

    def _operand(self, letter: str) -> str:
        if letter == "X":
            return str(self.below(80))
        return self.immediate() if letter == "I" else self.register(letter.lower())

    def instructions(self, text: str) -> list[str]:
        """The instructions of a line of a table, each with a store of its results."""
        text = re.sub(r"\{([^{},]*\|[^{},]*)\}", lambda found: self.one(found[1].split("|")), text)
        lines, stores = [], []
        for each in text.split("; "):
            opcode, _, operands = each.partition(" ")
            letter = {"16": "H", "64": "D"}.get(re.findall(r"\d*$", opcode)[0], "R")
            while True:
                written = re.sub(r"\b[RDHPXI]\b", lambda found: self._operand(found[0]), operands.replace("=", letter))
                results = re.findall(r"%\w+", re.match(r"\{.*?\}|[^,]*", written)[0])
                if len({*results}) == len(results):
                    break
            lines.append(f"{opcode} {written};")
            stores += [f"OUT {each}" for each in results]
        # What becomes of a guarded set of f32 is up to the assembler, which converts the result also where it has none.
        if len(lines) == 1 and not lines[0].startswith("set.") and self.chance(0.15):
            lines = [f"@{self.one(['', '!'])}{self.register('p')} {lines[0]}"]
        return [*lines, *stores]


def moves(random: Random) -> Iterator[Case]:
    """Instructions of the table, one after the other, and each line of it at least once."""
    table = MOVES.strip().splitlines()
    for _ in range(8):
        order = random.some(table, len(table))
        for first in range(0, len(order), 30):
            lines = [line for text in order[first : first + 30] for line in random.instructions(text)]
            yield Case("moves", lines)


#: Types that memory has, and those of them that may become a wider register.
_TYPES = [f"{letter}{bits}" for bits in (8, 16, 32, 64) for letter in ("bus" if bits < 32 else "busf")]

#: What may stand behind a load or a store of each space, beside nothing.
_LOADS = {
    "global": ".ca .cg .cs .cv .lu .nc .volatile .relaxed.gpu .acquire.sys .relaxed.cta .acquire.gpu .weak".split(),
    "shared": ".volatile .relaxed.cta .acquire.cta .weak".split(),
    "local": ".ca .cg .cs .lu .weak".split(),
    "": ".volatile .relaxed.sys .acquire.gpu .weak .ca".split(),
}
_STORES = {
    "global": ".wb .cg .cs .wt .volatile .relaxed.gpu .release.sys .relaxed.cta".split(),
    "shared": ".volatile .relaxed.cta .release.cta".split(),
    "local": ".wb .cg .cs .wt".split(),
    "": ".volatile .relaxed.sys .release.gpu .wb".split(),
}

#: Where a thread's own memory is, in each space by its name and generically.
_PLACES = {
    "global": ("global", "%own"),
    "shared": ("shared", "%sh"),
    "local": ("local", "%loc"),
    "generic global": ("", "%own"),
    "generic shared": ("", "%gsh"),
    "generic local": ("", "%gloc"),
}


def _vector(random: Random, type_: str, count: int, *, distinct: bool) -> str:
    """As many registers as a vector has, which may be wider than its type."""
    bits = int(type_[1:])
    wide = [kind for kind, own in BITS.items() if own >= bits and (type_[0] != "f" or own == bits)]
    kind = random.one(wide)
    numbers = random.some(range(KINDS[kind][1]), count)
    items = [f"%{kind}{number if distinct else random.below(KINDS[kind][1])}" for number in numbers]
    return items[0] if count == 1 else f"{{{', '.join(items)}}}"


def _sizes() -> Iterator[tuple[str, int]]:
    """The types and vectors that memory is accessed by."""
    return ((type_, count) for type_ in _TYPES for count in (1, 2, 4) if int(type_[1:]) * count <= 128)


def _access(space: str, how: str, count: int, type_: str, name: str) -> str:
    words = [name + how, *([space] if space else []), *([f"v{count}"] if count > 1 else []), type_]
    return ".".join(words)


def _address(random: Random, base: str, size: int, room: int) -> str:
    return f"[{base}+{random.below(room // size) * size}]"


def loads(random: Random) -> Iterator[Case]:
    """Loads of each type and vector out of each space."""
    places = {**_PLACES, "global": ("global", "%row"), "generic global": ("", "%row")}
    places |= {"const": ("const", "%tab"), "param": ("param", "given"), "generic const": ("", "%gtab")}
    for (space, base), (type_, count) in itertools.product(places.values(), _sizes()):
        size = int(type_[1:]) // 8 * count
        how = random.one(["", *_LOADS.get(space, [])])
        target = _vector(random, type_, count, distinct=True)
        line = f"{_access(space, how, count, type_, 'ld')} {target}, {_address(random, base, size, OWN)};"
        yield Case("loads", [line, *(f"OUT {each}" for each in re.findall(r"%\w+", target))])
    for type_, count in _sizes():
        target = _vector(random, type_, count, distinct=True)
        line = f"{_access('global', '', count, type_, 'ldu')} {target}, [%row+{16 * random.below(8)}];"
        yield Case("loads", [line, *(f"OUT {each}" for each in re.findall(r"%\w+", target))])


def stores(random: Random) -> Iterator[Case]:
    """Stores of each type and vector to each space, some over others, and what then is there."""
    for (space, base), (type_, count) in itertools.product(_PLACES.values(), _sizes()):
        named = f".{space}" if space else ""
        lines = [f"st{named}.v2.b64 [{base}+{at}], {{%d0, %d1}};" for at in (0, 16)]
        for own, several in [(type_, count), *random.some([*_sizes()], random.below(4))]:
            source = _vector(random, own, several, distinct=False)
            how, size = random.one(["", *_STORES[space]]), int(own[1:]) // 8 * several
            line = f"{_access(space, how, several, own, 'st')} {_address(random, base, size, 32)}, {source};"
            lines.append(line if random.chance(0.8) else f"@{random.register('p')} {line}")
        for at in range(0, 32, 16):
            lines += [f"ld{named}.v2.b64 {{%d0, %d1}}, [{base}+{at}];", "OUT %d0", "OUT %d1"]
        yield Case("stores", lines)


def spaces(_: Random) -> Iterator[Case]:
    """Addresses from one space to another, and back."""
    generic = {"global": "%own", "shared": "%gsh", "local": "%gloc"}
    for space, address in generic.items():
        lines = [f"isspacep.{each} %p{at}, {address};" for at, each in enumerate((*generic, "const", "shared::cta"))]
        lines += [f"OUT %p{at}" for at in range(5)]
        lines += [
            f"cvta.to.{space}.u64 %d0, {address};",
            f"cvta.{space}.u64 %d1, %d0;",
            f"sub.u64 %d1, %d1, {address};",
        ]
        yield Case("spaces", [*lines, "OUT %d1"])
    yield Case(
        "spaces", ["cvta.to.shared.u64 %d0, %gsh;", "cvt.u32.u64 %r0, %d0;", "sub.u32 %r0, %r0, %sh;", "OUT %r0"]
    )


_ATOMS = """
{add|min|max}.{u32|s32|u64}
{min|max}.s64
{and|or|xor|exch}.{b32|b64}
{inc|dec}.u32
cas.{b16|b32|b64}
add.{f32|f64}
add.noftz.{f16|bf16|f16x2|bf16x2}
"""


def expanded(text: str) -> list[str]:
    """Every combination of the alternatives in braces of each line."""
    lines = [[part.split("|") for part in re.split(r"[{}]", line)] for line in text.strip().splitlines()]
    return ["".join(chosen) for parts in lines for chosen in itertools.product(*parts)]


def width(type_: str) -> str:
    """The kind of register of a type."""
    bits = int(re.findall(r"\d+", type_)[0]) * (2 if type_.endswith("x2") else 1)
    return {16: "h", 32: "r", 64: "d"}[bits]


def atomics(random: Random) -> Iterator[Case]:
    """Atomics of each operation on a thread's own memory, and on one place that all threads share."""
    places = [(space, base) for space, base in _PLACES.values() if base not in ("%loc", "%gloc")]
    for operation, (space, base), name in itertools.product(expanded(_ATOMS), places, ("atom", "red")):
        type_ = operation.rpartition(".")[2]
        kind, named = width(type_), f".{space}" if space else ""
        if name == "red" and operation.startswith(("exch", "cas")):
            continue
        order = random.one(["", ".relaxed.cta", ".release.sys", ".relaxed.gpu", ".gpu"])
        if name == "atom":
            order = random.one([order, ".acquire.gpu", ".acq_rel.cta"])
        held = f"%{kind}{random.below(2)}"  # which cas often finds
        given = f"%{kind}1, %{kind}2" if operation.startswith("cas") else f"%{kind}1"
        result = f"%{kind}3, " if name == "atom" else ""
        finite = (
            [f"and.b64 %d{number}, %d{number}, 0xbfffffffffffffff;" for number in range(3)] if "f64" in type_ else []
        )
        lines = [*finite, f"st{named}.b64 [{base}+8], 0;", f"st{named}.b{BITS[kind]} [{base}+8], {held};"]
        lines += [f"{name}{order}{named}.{operation} {result}[{base}+8], {given};", f"ld{named}.b64 %d0, [{base}+8];"]
        yield Case("atomics", [*lines, *([f"OUT %{kind}3"] if name == "atom" else []), "OUT %d0"])
        if operation.partition(".")[0] in ("exch", "cas") or "f" in type_:
            continue
        at = {"%own": "%scratch", "%sh": "common", "%gsh": "%gcommon"}[base]
        lines = ["bar.sync 0;", f"@%first st{named}.b64 [{at}], %d2;", "bar.sync 0;"]
        if operation.startswith(("inc", "dec")):
            lines.append("mov.b32 %r1, 100;")
        lines += [f"red{named}.{operation} [{at}], %{kind}1;", "bar.sync 0;", f"ld{named}.b64 %d0, [{at}];", "OUT %d0"]
        yield Case("atomics", lines)
    for name, operation, type_, count in itertools.product(
        ("atom", "red"), ("add", "min", "max"), ("f32", "f16", "bf16", "f16x2", "bf16x2"), (2, 4, 8)
    ):
        kind = width(type_)
        if count * BITS[kind] > 128 or (type_ == "f32" and operation != "add"):
            continue
        given = ", ".join(f"%{kind}{number}" for number in range(count))
        results = [f"%{kind}{number + count % 8}" for number in range(count)]
        to = f"{{{', '.join(results)}}}, " if name == "atom" else ""
        lines = ["st.global.v2.b64 [%own], {%d4, %d5};"]
        words = "" if type_ == "f32" else ".noftz"
        lines += [f"{name}.global.{operation}{words}.v{count}.{type_} {to}[%own], {{{given}}};"]
        lines += ["ld.global.v2.b64 {%d4, %d5}, [%own];", "OUT %d4", "OUT %d5"]
        yield Case("atomics", [*lines, *(f"OUT {each}" for each in (results if to else []))])
