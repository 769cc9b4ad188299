"""Random programs of what threads do together: what lanes tell each other, branches and calls, and barriers."""

import itertools
from collections.abc import Iterator

from .programs import BLOCK, KINDS, OWN, Case
from .programs_of_threads import Random, expanded, width


def warps(random: Random) -> Iterator[Case]:
    """What lanes of a whole warp tell each other."""
    every = "0xffffffff"
    for mode, _ in itertools.product(("up", "down", "bfly", "idx"), range(12)):
        by = random.one([str(random.below(32)), "%r1", "%r2"])
        clamp = random.one([hex(random.below(32) | random.below(32) << 8), "%r3", "0x1f", "0", "0x181f", "0x1800"])
        lines = [
            "and.b32 %r2, %r2, 7;",
            f"shfl.sync.{mode}.b32 %r4|%p1, %r5, {by}, {clamp}, {every};",
            "OUT %r4",
            "OUT %p1",
        ]
        yield Case("warps", lines)
    for kind, negated in itertools.product(("all", "any", "uni", "ballot"), ("", "!")):
        target = "%r0" if kind == "ballot" else "%p1"
        line = f"vote.sync.{kind}.{'b32' if kind == 'ballot' else 'pred'} {target}, {negated}{{}}, {every};"
        lines = ["setp.lt.u32 %p4, %t, 64;", "setp.ne.u32 %p5, %t, 40;"]
        for source in ("%p0", "%p4", "%p5"):
            lines += [line.format(source), f"OUT {target}"]
        yield Case("warps", lines)
    for type_, few in itertools.product(("b32", "b64"), (0, 1, 3, 7)):
        kind = width(type_)
        lines = [
            f"and.{type_} %{kind}0, %{kind}0, {few};",
            f"match.any.sync.{type_} %r4, %{kind}0, {every};",
            "OUT %r4",
        ]
        lines += ["setp.lt.u32 %p1, %t, 64;", f"@%p1 mov.{type_} %{kind}0, 5;"]
        lines += [f"match.all.sync.{type_} %r4|%p2, %{kind}0, {every};", "OUT %r4", "OUT %p2"]
        yield Case("warps", lines)
    for operation in expanded("{add|min|max}.{u32|s32}\n{and|or|xor}.b32"):
        yield Case("warps", [f"redux.sync.{operation} %r4, %r5, {every};", "OUT %r4"])
    yield Case("warps", [f"elect.sync %r4|%p2, {every};", "OUT %r4", "OUT %p2", "activemask.b32 %r4;", "OUT %r4"])
    for mask in ("0x0ff0", "0xffff0000", "0x80000000"):
        within = [
            "mov.b32 %r6, 1;",
            "shl.b32 %r6, %r6, %lane;",
            f"and.b32 %r6, %r6, {mask};",
            "setp.ne.u32 %p3, %r6, 0;",
        ]
        lines = [*within, "@!%p3 bra $Skip;", f"elect.sync %r4|%p2, {mask};", "OUT %r4", "OUT %p2"]
        lines += [f"redux.sync.add.s32 %r4, %r5, {mask};", "OUT %r4", "activemask.b32 %r7;"]
        yield Case("warps", [*lines, "$Skip:", f"bar.warp.sync {every};"])


#: What lanes do that execute it together, to the registers r0 to r3; M is the mask of these lanes.
_TOGETHER = """
vote.sync.ballot.b32 R, P, M
vote.sync.{any|all|uni}.pred P, {P|!P}, M
match.any.sync.b32 R, R, M
redux.sync.{add|min|max}.{u32|s32} R, R, M
redux.sync.{and|or|xor}.b32 R, R, M
elect.sync R|P, M
"""

#: What each does for itself.
_ALONE = """
{add|sub|mul.lo|min|max}.{u32|s32} R, R, {R|I}
{and|or|xor}.b32 R, R, {R|I}
prmt.b32 R, R, R, {R|I}
shf.{l|r}.{wrap|clamp}.b32 R, R, R, {R|X}
lop3.b32 R, R, R, R, {0x1b|0x96|0xe8}
bfe.{u32|s32} R, R, {R|X}, {R|X}
setp.{lt|ge|eq}.{u32|s32} P, R, {R|I}
selp.b32 R, R, R, P
{popc|clz|brev}.b32 R, R
"""


class _Flow:
    """A random program of branches, loops, switches and calls; each part knows the lanes that execute it together."""

    def __init__(self, random: Random) -> None:
        self.random, self.lines, self.masks = random, [], itertools.count()
        self.functions: list[str] = []

    def mask(self) -> str:
        """A new register for the mask of lanes."""
        name = f"%m{next(self.masks)}"
        self.lines.append(f".reg .b32 {name};")
        return name

    def say(self, *lines: str) -> None:
        self.lines += lines

    def condition(self, mask: str) -> tuple[str, str]:
        """A predicate that some lanes have, and the mask of these."""
        name, own = f"%q{next(self.masks)}", self.mask()
        tested, bit = f"%r{self.random.below(4)}", 1 << self.random.below(4)
        source = self.random.one([tested, tested, "%t", "%lane"])
        self.say(f".reg .pred {name};", f"and.b32 %r8, {source}, {bit};", f"setp.ne.u32 {name}, %r8, 0;")
        self.say(f"vote.sync.ballot.b32 {own}, {name}, {mask};")
        return name, own

    def statement(self, mask: str) -> None:
        random = self.random
        if random.chance(0.25):
            source, other = random.below(4), random.below(4)
            # The n-th of the lanes that are here gives its number.
            self.say(f"popc.b32 %r8, {mask};", f"rem.u32 %r8, %r{other}, %r8;", "add.u32 %r8, %r8, 1;")
            self.say(f"fns.b32 %r8, {mask}, 0, %r8;")
            self.say(
                f"shfl.sync.idx.b32 %r{other}|%p{random.below(6)}, %r{source}, %r8, 0x1f, {mask};", f"OUT %r{other}"
            )
            return
        table = lines_of(_TOGETHER) if random.chance(0.3) else lines_of(_ALONE)
        for line in random.instructions(random.one(table).replace("M", mask)):
            if "sync" in line and line.startswith("@"):  # all of the mask must execute it
                line = line.partition(" ")[2]
            self.say(line)

    def block(self, mask: str, depth: int, leaves: str = "") -> None:
        """Some statements; lanes of a loop may leave it by its label."""
        random = self.random
        for _ in range(2 + random.below(4)):
            kind = random.below(10)
            if depth == 0 or kind < 4:
                self.statement(mask)
            elif kind < 6:
                self.branch(mask, depth - 1)
            elif kind < 7:
                self.loop(mask, depth - 1)
            elif kind < 8:
                self.switch(mask, depth - 1)
            else:
                self.call()

    def branch(self, mask: str, depth: int) -> None:
        other, end = self.random.label(), self.random.label()
        name, own = self.condition(mask)
        self.say(f"@!{name} bra {other};")
        self.block(own, depth)
        self.say(f"bra {end};", f"{other}:")
        rest = self.mask()
        self.say(f"not.b32 {rest}, {own};", f"and.b32 {rest}, {rest}, {mask};")
        self.block(rest, depth)
        self.say(f"{end}:")

    def loop(self, mask: str, depth: int) -> None:
        """As many rounds as each lane has; in some lanes go on with the next one, or leave."""
        top, end = self.random.label(), self.random.label()
        count, here, name = self.mask(), self.mask(), f"%q{next(self.masks)}"
        self.say(f".reg .pred {name};", f"and.b32 {count}, %r{self.random.below(4)}, 3;", f"mov.b32 {here}, {mask};")
        self.say(f"{top}:", f"setp.ne.u32 {name}, {count}, 0;", f"vote.sync.ballot.b32 {here}, {name}, {here};")
        self.say(f"@!{name} bra {end};", f"sub.u32 {count}, {count}, 1;")
        self.block(here, depth)
        rest = here
        if self.random.chance(0.5):
            leaving, lanes = self.condition(here)
            self.say(f"not.b32 {lanes}, {lanes};", f"and.b32 {here}, {here}, {lanes};", f"@{leaving} bra {end};")
        if self.random.chance(0.5):
            skipping, lanes = self.condition(here)
            rest = self.mask()
            self.say(f"not.b32 {lanes}, {lanes};", f"and.b32 {rest}, {here}, {lanes};", f"@{skipping} bra {top};")
        self.block(rest, 0)
        self.say(f"bra {top};", f"{end}:")

    def switch(self, mask: str, depth: int) -> None:
        """One of several ways, by a number; lanes with the same number go together."""
        table, end = self.random.label(), self.random.label()
        ways, own = [self.random.label() for _ in range(3)], self.mask()
        self.say(f"rem.u32 %r8, %r{self.random.below(4)}, {len(ways)};", f"match.any.sync.b32 {own}, %r8, {mask};")
        self.say(f"{table}: .branchtargets {', '.join(ways)};", f"brx.idx %r8, {table};")
        for way in ways:
            self.say(f"{way}:")
            self.block(own, depth)
            self.say(f"bra {end};")
        self.say(f"{end}:")

    def call(self) -> None:
        """A function of numbers, which some lanes leave early; called by its name or its address."""
        random = self.random
        if len(self.functions) < 2:
            self.functions.append(_function(random, f"f{len(self.functions)}"))
        name = f"f{random.below(len(self.functions))}"
        given = [f"%r{random.below(4)}", f"%r{random.below(4)}", "%h0"]
        to, wide = f"%r{random.below(4)}", f"%d{random.below(4)}"
        held = [f"v{next(self.masks)}" for _ in range(4)]
        self.say(
            "{",
            f".param .b32 {held[0]}, {held[1]};",
            f".param .align 8 .b8 {held[2]}[24];",
            f".param .align 8 .b8 {held[3]}[16];",
        )
        self.say(f"st.param.b32 [{held[0]}], {given[0]};", f"st.param.b32 [{held[1]}], {given[1]};")
        self.say(f"st.param.b64 [{held[2]}+8], %d0;", f"st.param.v4.b16 [{held[2]}], {{%h0, %h1, %h2, %h3}};")
        self.say(f"st.param.b32 [{held[2]}+16], {given[1]};", f"st.param.b8 [{held[2]}+20], %h1;")
        self.say(f"st.param.b8 [{held[2]}+21], %h2;", f"st.param.b16 [{held[2]}+22], %h3;")
        arguments = f"({held[3]}), {name}, ({', '.join(held[:3])})"
        self.say(f"call.uni {arguments};" if random.chance(0.3) else f"call {arguments};")
        self.say(
            f"ld.param.b32 {to}, [{held[3]}+8];", f"ld.param.b64 {wide}, [{held[3]}];", "}", f"OUT {to}", f"OUT {wide}"
        )


def _function(random: Random, name: str) -> str:
    """A function of two numbers and a struct, which returns two numbers."""
    lines = [f".func (.param .align 8 .b8 back[16]) {name}(.param .b32 a, .param .b32 b, .param .align 8 .b8 s[24]) {{"]
    lines += [f".reg .{type_} %{kind}<{count}>;" for kind, (type_, count) in KINDS.items()]
    lines += [
        "ld.param.b32 %r0, [a];",
        "ld.param.b32 %r1, [b];",
        "ld.param.b64 %d0, [s+8];",
        "ld.param.u16 %r2, [s+22];",
    ]
    lines += ["ld.param.v2.b32 {%r3, %r4}, [s];", "ld.param.s8 %r5, [s+21];", "ld.param.u8 %r6, [s+20];"]
    lines += ["ld.param.b32 %r7, [s+16];", "xor.b32 %r8, %r0, %r3;", "add.u32 %r9, %r1, %r5;", "mov.b32 %r10, %r6;"]
    lines += ["sub.u32 %r11, %r7, %r2;"]
    lines += [f"setp.lt.s32 %p{at}, %r{at}, %r{at + 4};" for at in range(6)]
    lines += ["st.param.b32 [back+8], %r5;", "st.param.b64 [back], %d0;"]
    for _ in range(3):
        for _ in range(4):
            lines += [line for line in random.instructions(random.one(lines_of(_ALONE))) if "OUT" not in line]
        lines += [f"@{random.register('p')} ret;", f"st.param.b32 [back+8], {random.register('r')};"]
        lines += [f"cvt.u64.u32 %d0, {random.register('r')};", "st.param.b64 [back], %d0;"]
    return "\n".join([*lines, "ret;", "}", ""])


def lines_of(text: str) -> list[str]:
    """The lines of a table."""
    return text.strip().splitlines()


def flows(random: Random) -> Iterator[Case]:
    """Random programs of branches."""
    for _ in range(24):
        flow = _Flow(random)
        flow.block("0xffffffff", 3)
        flow.say("bar.warp.sync 0xffffffff;", *(f"OUT %r{number}" for number in range(4)))
        yield Case("flows", [*flow.lines], [*flow.functions])


def barriers(random: Random) -> Iterator[Case]:
    """Barriers of some warps, with what they count, and what one warp has stored for another."""
    for operation, name in itertools.product(
        ("popc.u32", "and.pred", "or.pred"), ("bar.red", "barrier.cta.red", "barrier.red.aligned")
    ):
        opcode = f"{name}.{operation}"
        result = "%r4" if "popc" in operation else "%p4"
        lines = []
        for source in ("%p0", "!%p1", "%p2"):
            lines += [
                f"{opcode} {result}, {random.below(16)}, {random.one([str(BLOCK), BLOCK])}, {source};",
                f"OUT {result}",
            ]
        lines += [
            "setp.lt.u32 %p5, %t, 64;",
            "selp.b32 %r5, 3, 4, %p5;",
            f"{opcode} {result}, %r5, 64, %p0;",
            f"OUT {result}",
        ]
        yield Case("barriers", lines)
    for first, second in (
        ("bar.arrive", "bar.sync"),
        ("barrier.arrive", "barrier.sync"),
        ("barrier.cta.arrive.aligned", "barrier.cta.sync.aligned"),
    ):
        number = random.below(15) + 1
        lines = [
            "setp.lt.u32 %p4, %t, 64;",
            "@!%p4 bra $Reads;",
            "st.shared.b32 [%sh], %r0;",
            f"{first} {number}, {BLOCK};",
            "bra $End;",
        ]
        lines += [
            "$Reads:",
            f"{second} {number}, {BLOCK};",
            f"ld.shared.b32 %r1, [%sh+-{64 * OWN}];",
            "OUT %r1",
            "$End:",
            "bar.sync 0;",
        ]
        yield Case("barriers", lines)
    yield Case(
        "barriers",
        [
            "st.shared.b32 [%sh], %r0;",
            "barrier.sync 0;",
            "xor.b32 %r1, %sh, 0x40;",
            "ld.shared.b32 %r2, [%r1];",
            "OUT %r2",
            "bar.sync 0;",
        ],
    )


def mbarriers(random: Random) -> Iterator[Case]:
    """One thread makes a mbarrier go through phases, as far as its count and its bytes allow."""
    for _ in range(40):
        count = 1 + random.below(6)
        lines = ["bar.sync 0;", "@!%first bra $End;", f"mbarrier.init.shared.b64 [common], {count};"]
        pending, due, phase, states, expected = count, 0, 0, [], count
        for _ in range(12):
            kind = random.one(
                ["arrive", "arrive", "arrive", "many", "noComplete", "drop", "expect", "complete", "both"]
            )
            if not pending:  # but bytes are due
                kind = "complete"
            number, size, state = 1 + random.below(max(pending, 1)), 16 * (1 + random.below(4)), f"%s{len(states)}"
            if kind == "noComplete" and (number >= pending or due < 0):
                continue
            if kind == "drop" and expected == 1:
                continue
            if kind == "complete" and due <= 0:
                continue
            if kind in ("arrive", "many", "noComplete", "drop", "both"):
                states.append((state, phase))
                lines.append(f".reg .b64 {state};")
            number = number if kind in ("many", "noComplete") else 1
            size = due if kind == "complete" and random.chance(0.6) else min(size, due) if kind == "complete" else size
            lines.append(
                {
                    "arrive": f"mbarrier.arrive.shared.b64 {state}, [common];",
                    "many": f"mbarrier.arrive.shared::cta.b64 {state}, [common], {number};",
                    "noComplete": f"mbarrier.arrive.noComplete.shared.b64 {state}, [common], {number};",
                    "drop": f"mbarrier.arrive_drop.shared.b64 {state}, [common];",
                    "expect": f"mbarrier.expect_tx.relaxed.cta.shared.b64 [common], {size};",
                    "complete": f"mbarrier.complete_tx.relaxed.cta.shared.b64 [common], {size};",
                    "both": f"mbarrier.arrive.expect_tx.shared.b64 {state}, [common], {size};",
                }[kind]
            )
            due += {"expect": size, "both": size, "complete": -size}.get(kind, 0)
            if kind in ("arrive", "many", "noComplete", "drop", "both"):
                pending -= number
                expected -= kind == "drop"
                lines += [f"mbarrier.pending_count.b64 %r0, {state};", "OUT %r0"]
            if not pending and not due:
                phase, pending = phase + 1, expected
            lines += [f"mbarrier.test_wait.parity.shared.b64 %p{at}, [common], {at};" for at in range(2)]
            lines += ["OUT %p0", "OUT %p1"]
            for held, of in states[-2:]:
                if phase - of <= 1:
                    lines += [f"mbarrier.test_wait.shared.b64 %p2, [common], {held};", "OUT %p2"]
        yield Case("mbarriers", [*lines, "mbarrier.inval.shared.b64 [common];", "$End:", "bar.sync 0;"])
