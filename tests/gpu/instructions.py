"""Instructions of numbers: what each makes of edges of its type, ties, and random bits, and what a card makes of them.

The results of an H100 are recorded beside this file, so that tests compare simulated threads with them anywhere. To
record them again, on two machines, of which the one with the GPU needs no more than this file, the folder, PyCUDA and
numpy:

    pytest -n 0 -m "" tests/gpu/test_instructions.py -k assemble --basetemp FOLDER
    python tests/gpu/instructions.py FOLDER/test_they_assemble0 h100-instructions.npz
"""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: What is tried: an opcode with alternatives in braces, then its result and its sources by width, or immediate values.
#: h, r and d are of 16, 32 and 64 bits, p is a predicate, x a source of 32 bits that is a small number.
INSTRUCTIONS = """
{add|sub}.{u16|u32|u64|s16|s32|s64} = = =
{add|sub}.sat.s32 r r r
add.{u16x2|s16x2} r r r
{mul|mad}.{lo|hi}.{u16|u32|u64|s16|s32|s64} = = = =?
mad.hi.sat.s32 r r r r
mul.wide.{u16|s16} r h h
mul.wide.{u32|s32} d r r
mad.wide.{u16|s16} r h h r
mad.wide.{u32|s32} d r r d
{mul24|mad24}.{lo|hi}.{u32|s32} = = = =?
mad24.hi.sat.s32 r r r r
sad.{u16|u32|u64|s16|s32|s64} = = = =
{div|rem}.{u16|u32|u64|s16|s32|s64} = = =
abs.{s16|s32|s64} = =
neg.{s16|s32|s64} = =
{min|max}.{u16|u32|u64|s16|s32|s64|u16x2|s16x2} = = =
{min|max}.relu.{s32|s16x2} = = =
{popc|clz}.b32 r r
{popc|clz}.b64 r d
bfind{.shiftamt|}.{u32|s32} r r
bfind{.shiftamt|}.{u64|s64} r d
brev.{b32|b64} = =
bfe.{u32|s32} r r x x
bfe.{u64|s64} d d x x
bfe.{u32|s32} r r r r
bfi.b32 r r r x x
bfi.b64 d d d x x
bfi.b32 r r r r r
szext.{wrap|clamp}.{u32|s32} r r x
szext.{wrap|clamp}.{u32|s32} r r r
bmsk.{wrap|clamp}.b32 r x x
bmsk.{wrap|clamp}.b32 r r r
dp4a.{u32|s32}.{u32|s32} r r r r
dp2a.{lo|hi}.{u32|s32}.{u32|s32} r r r r
{and|or|xor}.{b16|b32|b64} = = =
{not|cnot}.{b16|b32|b64} = =
lop3.b32 r r r r {0x1b|0x96|0xe8|0x40|0xfe|0xca}
{shl.b16|shr.u16|shr.s16|shr.b16} h h x
{shl.b32|shr.u32|shr.s32|shr.b32} r r x
{shl.b64|shr.u64|shr.s64|shr.b64} d d x
{shl.b32|shr.u32|shr.s32} r r r
shf.{l|r}.{wrap|clamp}.b32 r r r x
shf.{l|r}.{wrap|clamp}.b32 r r r r
prmt.b32 r r r r
prmt.b32{.f4e|.b4e|.rc8|.ecl|.ecr|.rc16} r r r x
{add|sub|mul}{.rn|.rz|.rm|.rp|}{.ftz|}{.sat|}.f32 r r r
fma.{rn|rz|rm|rp}{.ftz|}{.sat|}.f32 r r r r
{add|sub|mul}{.rn|.rz|.rm|.rp|}.f64 d d d
{fma|mad}.{rn|rz|rm|rp}.f64 d d d d
{add|sub|mul}{.rn|}{.ftz|}{.sat|}.{f16|f16x2} = = =
{add|sub|mul}{.rn|}.{bf16|bf16x2} = = =
fma.rn{.ftz|}{.sat|.relu|}.{f16|f16x2} = = = =
fma.rn{.relu|}.{bf16|bf16x2} = = = =
{abs|neg}{.ftz|}.{f16|f16x2|f32} = =
{abs|neg}.{bf16|bf16x2|f64} = =
{min|max}{.ftz|}{.NaN|}{.xorsign.abs|}.{f16|f16x2|f32} = = =
{min|max}{.NaN|}{.xorsign.abs|}.{bf16|bf16x2} = = =
{min|max}.f64 d d d
div.{rn|rz|rm|rp}{.ftz|}.f32 r r r
{rcp|sqrt}.{rn|rz|rm|rp}{.ftz|}.f32 r r
div.{rn|rz|rm|rp}.f64 d d d
{rcp|sqrt}.{rn|rz|rm|rp}.f64 d d
~ div.{approx|full}{.ftz|}.f32 r r r
~ {rcp|sqrt|rsqrt|ex2|lg2|sin|cos}.approx{.ftz|}.f32 r r
~ {tanh.approx.f32|ex2.approx.ftz.bf16x2|ex2.approx.f16x2|tanh.approx.f16x2|tanh.approx.bf16x2} r r
~ {ex2.approx.f16|ex2.approx.ftz.f16|tanh.approx.f16|tanh.approx.bf16|ex2.approx.ftz.bf16} h h
~ rsqrt.approx.f64 d d
~ {rcp|rsqrt}.approx.ftz.f64 d d
testp.{finite|infinite|number|notanumber|normal|subnormal}.f32 p r
testp.{finite|infinite|number|notanumber|normal|subnormal}.f64 p d
copysign.{f32|f64} = = =
setp.{eq|ne|lt|le|gt|ge}.{s16|s32|s64} p = =
setp.{lo|ls|hi|hs|eq|lt|le|gt|ge}.{u16|u32|u64} p = =
setp.{eq|ne}.{b16|b32|b64} p = =
setp.{eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan}{.ftz|}.{f16|f32} p = =
setp.{eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan}.{bf16|f64} p = =
set.{eq|lt|gtu|num|nan}{.ftz|}.{u32|s32|f32}.f32 r r r
set.{lt|hs|ne}.{u32|s32|f32}.u32 r r r
set.{lt|ge|eq}.{u32|s32|f32}.s64 r d d
set.{lt|gtu|nan}.{u32|s32|f32}.f64 r d d
set.{lt|gtu|nan}{.ftz|}.{f16|u16|s16}.f16 h h h
set.{lt|gtu|nan}.{bf16|u16|s16}.bf16 h h h
set.{lt|gtu|nan}{.ftz|}.f16x2.f16x2 r r r
set.{lt|gtu|nan}.bf16x2.bf16x2 r r r
set.{lt|ge}.{u16|s16}.s32 h r r
slct.{u32|s32|f32|b32}.s32 r r r r
slct{.ftz|}.{u32|f32}.f32 r r r r
slct.{u64|f64}.s32 d d d r
cvt{.sat|}.{u8|s8|u16|s16}.{u16|s16} h h
cvt{.sat|}.{u8|s8|u16|s16}.{u32|s32} h r
cvt{.sat|}.{u8|s8|u16|s16}.{u64|s64} h d
cvt{.sat|}.{u32|s32}.{u8|s8|u16|s16} r h
cvt{.sat|}.{u32|s32}.{u32|s32} r r
cvt{.sat|}.{u32|s32}.{u64|s64} r d
cvt{.sat|}.{u64|s64}.{u8|s8|u16|s16} d h
cvt{.sat|}.{u64|s64}.{u32|s32} d r
cvt{.sat|}.{u64|s64}.{u64|s64} d d
cvt.{rn|rz|rm|rp}{.sat|}.{f16|bf16}.{u8|s8|u16|s16} h h
cvt.{rn|rz|rm|rp}{.sat|}.{f16|bf16}.{u32|s32} h r
cvt.{rn|rz|rm|rp}{.sat|}.{f16|bf16}.{u64|s64} h d
cvt.{rn|rz|rm|rp}{.sat|}.f32.{u8|s8|u16|s16} r h
cvt.{rn|rz|rm|rp}{.sat|}.f32.{u32|s32} r r
cvt.{rn|rz|rm|rp}{.sat|}.f32.{u64|s64} r d
cvt.{rn|rz|rm|rp}{.sat|}.f64.{u8|s8|u16|s16} d h
cvt.{rn|rz|rm|rp}{.sat|}.f64.{u32|s32} d r
cvt.{rn|rz|rm|rp}{.sat|}.f64.{u64|s64} d d
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u8|s8|u16|s16}.{f16|bf16} h h
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u32|s32}.{f16|bf16} r h
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u64|s64}.{f16|bf16} d h
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u8|s8|u16|s16}.f32 h r
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u32|s32}.f32 r r
cvt.{rni|rzi|rmi|rpi}{.ftz|}{.sat|}.{u64|s64}.f32 d r
cvt.{rni|rzi|rmi|rpi}{.sat|}.{u8|s8|u16|s16}.f64 h d
cvt.{rni|rzi|rmi|rpi}{.sat|}.{u32|s32}.f64 r d
cvt.{rni|rzi|rmi|rpi}{.sat|}.{u64|s64}.f64 d d
cvt{.rni|.rzi|.rmi|.rpi|}{.ftz|}{.sat|}.{f16.f16|bf16.bf16} h h
cvt{.rni|.rzi|.rmi|.rpi|}{.ftz|}{.sat|}.f32.f32 r r
cvt{.rni|.rzi|.rmi|.rpi|}{.sat|}.f64.f64 d d
cvt{.ftz|}{.sat|}.{f32.f16|f32.bf16} r h
cvt{.sat|}.{f64.f16|f64.bf16} d h
cvt{.ftz|}{.sat|}.f64.f32 d r
cvt{.rn|.rz|.rm|.rp}{.ftz|}{.sat|}.f32.f64 r d
cvt{.rn|.rz|.rm|.rp}{.ftz|}{.sat|}.f16.f32 h r
cvt{.rn|.rz|.rm|.rp}{.sat|}.f16.f64 h d
cvt{.rn|.rz|.rm|.rp}{.sat|}.bf16.{f32|f64} h =
cvt{.rn|.rz|.rm|.rp}{.sat|}.{bf16.f16|f16.bf16} h h
cvt.{rn|rz}{.relu|}{.satfinite|}.{f16|bf16}.f32 h r
cvt.{rn|rz}{.relu|}{.satfinite|}.{f16x2|bf16x2}.f32 r r r
cvt.{rn|rz|rna}{.relu|}{.satfinite|}.tf32.f32 r r
cvt.rn.satfinite{.relu|}.{e4m3x2|e5m2x2}.f32 h r r
cvt.rn.satfinite{.relu|}.{e4m3x2|e5m2x2}.f16x2 h r
cvt.rn{.relu|}.f16x2.{e4m3x2|e5m2x2} r h
cvt.pack.sat.{u16|s16}.s32 r r r
cvt.pack.sat.{u8|s8}.s32.b32 r r r r
{vadd|vsub|vavrg|vabsdiff|vmin|vmax}{2|4}.{u32|s32}.{u32|s32}.{u32|s32}{.sat|.add|} r r r r
vset{2|4}.{u32|s32}.{u32|s32}.{eq|ne|lt|le|gt|ge}{.add|} r r r r
fns.b32 r r x x
vote.sync.{all|any|uni}.pred p P 0xffffffff
vote.sync.ballot.b32 r P 0xffffffff
match.any.sync.{b32|b64} r = 0xffffffff
redux.sync.{add|min|max}.{u32|s32} r r 0xffffffff
redux.sync.{and|or|xor}.b32 r r 0xffffffff
shfl.sync.{up|down|bfly|idx}.b32 r r x {0|0x1f|0x101f|0x1807} 0xffffffff
atom.global.{add|min|max|exch}.{u32|s32|u64} = @ =
atom.global.{and|or|xor|exch}.{b32|b64} = @ =
atom.global.{inc|dec}.u32 r @ r
atom.global.cas.{b16|b32|b64} = @ = =
atom.global.add.{f32|f64} = @ =
atom.global.add.noftz.{f16|bf16|f16x2|bf16x2} = @ =
atom.global.{min|max}.s64 d @ d
"""

#: Threads, each of which has other numbers, and instructions of one kernel.
BLOCK, BLOCKS, TOGETHER = 256, 2, 100
THREADS = BLOCK * BLOCKS

#: What an H100 made of them.
RECORDED = Path(__file__).parent / "h100-instructions.npz"

_WIDTHS = {"h": 16, "r": 32, "d": 64}


def width(type_):
    """The register of a type, by its letter."""
    bits = 32 if type_.endswith("x2") else int(re.sub(r"\D+", "", type_.replace("bf", "f")))
    return {8: "h", 16: "h", 32: "r", 64: "d"}[bits]


def expanded(text):
    """Every combination of the alternatives in braces."""
    parts = [part.split("|") for part in re.split(r"[{}]", text)]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


class Instruction(NamedTuple):
    """An opcode, its result and sources as INSTRUCTIONS writes them, and whether it is approximate."""

    opcode: str
    result: str
    sources: tuple[str, ...]
    approximate: bool

    @property
    def results(self):
        """How many it has: an atomic one also leaves a number in memory."""
        return 1 + ("@" in self.sources)

    @property
    def lines(self):
        """The lines that write its result to %out, of 64 bits."""
        lines, operands, names = [], [], iter("abcd")
        for source in self.sources:
            if source == "@":
                lines.append(f"st.global.b64 [%slot], %d{next(names)};")
            named = {"@": "[%slot]", "P": "%odd"}.get(source)
            operands.append(named or (f"%{source}{next(names)}" if source in "hrdx" else source))
        return [*lines, f"{self.opcode} %{self.result}o, {', '.join(operands)};", *_WIDENED[self.result]]


#: How a result becomes one of 64 bits.
_WIDENED = {
    "h": ["mov.b32 %ro, {%ho, %zero};", "cvt.u64.u32 %out, %ro;"],
    "r": ["cvt.u64.u32 %out, %ro;"],
    "d": ["mov.b64 %out, %do;"],
    "p": ["selp.b64 %out, 1, 0, %po;"],
}


def instructions():
    """Every instruction that INSTRUCTIONS names, also those that no assembler takes."""
    found = []
    for text in itertools.chain.from_iterable(map(expanded, INSTRUCTIONS.strip().splitlines())):
        opcode, *held = text.removeprefix("~ ").split()
        if "=?" in held:  # a product has two sources, with a sum three
            held = held[:4] if opcode.startswith("mad") else held[:3]
        letter = width(opcode.rpartition(".")[2]) if held[0] == "=" or "=" in held else ""
        result, *sources = (each.replace("=?", "=").replace("=", letter) for each in held)
        found.append(Instruction(opcode, result, tuple(sources), text.startswith("~")))
    return found


def kernel(chosen):
    """A kernel that runs instructions one after another, and stores their results [result][thread]."""
    lines = [".version 8.7\n.target sm_90a\n.address_size 64"]
    lines.append(".visible .entry k(.param .u64 in, .param .u64 out) {")
    lines.append(".reg .pred %po, %odd; .reg .b64 %at, %to, %out, %slot, %do;")
    lines.append(".reg .b32 %t, %ro, %n, %xa, %xb, %xc, %xd; .reg .b16 %ho, %zero;")
    for letter, bits in _WIDTHS.items():
        lines.append(f".reg .b{bits} {', '.join(f'%{letter}{name}' for name in 'abcd')};")
    lines += ["mov.u32 %t, %ctaid.x;", f"mul.lo.u32 %t, %t, {BLOCK};", "mov.u32 %n, %tid.x;", "add.u32 %t, %t, %n;"]
    lines += ["ld.param.u64 %at, [in];", "ld.param.u64 %to, [out];", "mov.b16 %zero, 0;"]
    lines += ["mad.wide.u32 %at, %t, 128, %at;", "mad.wide.u32 %to, %t, 8, %to;"]
    for place, name in enumerate("abcd"):
        for group, (letter, bits) in enumerate({**_WIDTHS, "x": 32}.items()):
            lines.append(f"ld.global.b{bits} %{letter}{name}, [%at+{32 * group + 8 * place}];")
    lines += ["and.b32 %n, %ra, 1;", "setp.eq.u32 %odd, %n, 1;"]
    at = 0
    for each in chosen:
        lines += [f"add.u64 %slot, %to, {at + 8 * THREADS};", *each.lines, f"st.global.b64 [%to+{at}], %out;"]
        at += 8 * THREADS * each.results
    return "\n".join([*lines, "ret;", "}", ""])


#: Whole numbers, and others, at which types end or which lie between two of a narrower one. Each also negative.
_WHOLE = [0, 1, 2, 3, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 32767, 32768, 65535]
_WHOLE += [2**24 - 1, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1]
_OTHERS = [0.5, 1.5, 2.5, 1 / 3, 240, 448, 449, 464, 57344, 61440, 65504, 65520, 1e5, 1e30, 3.4e38, 1e300, np.inf]
_OTHERS += [2.0**31, 2.0**32, 2.0**63, 2.0**64, 6e-8, 6.2e-5, 1e-38, 1e-40, 1e-310, 0.0, np.nan]


@np.errstate(over="ignore", invalid="ignore")
def edges(bits, count, random):
    """Numbers of so many bits as whole ones and as floats: edges, ties between narrower ones, and random ones."""
    type_, whole = f"f{bits // 8}", f"u{bits // 8}"
    few = np.array([*_WHOLE, *(-number for number in _WHOLE)], "i8")
    others = np.array([*_OTHERS, *(-number for number in _OTHERS)])
    spread = (random.standard_normal(count) * 10.0 ** random.uniform(-4, 5, count)).astype(type_)
    # Halfway between two numbers of bf16 or f16, and next to that.
    codes = random.integers(0, 1 << 16, count, "u2")
    of_bf16 = (codes.astype("u4") << 16) + random.choice(np.array([0, 0x7FFF, 0x8000, 0x8001], "u4"), count)
    of_f16 = codes.view("f2") * (1 + random.choice([0, 2.0**-12, 2.0**-11], count))
    ties = np.where(random.random(count) < 0.5, of_bf16.view("f4"), of_f16).astype(type_)
    halves = np.concatenate([few.astype("u2"), others.astype("f2").view("u2")])
    kinds = [
        random.choice(few, count).astype(whole),
        random.choice(others, count).astype(type_).view(whole),
        spread.view(whole),
        np.rint(spread).view(whole),
        ties.view(whole),
        random.choice(halves, (count, bits // 16)).view(whole)[:, 0],
        np.frombuffer(random.bytes(count * bits // 8), whole),
    ]
    return np.choose(random.integers(0, len(kinds), count), kinds)


def inputs(seed=0):
    """What each thread is given, in words of 64 bits: four numbers of 16, of 32 and of 64 bits, and four small ones."""
    random = np.random.default_rng(seed)
    given = np.zeros((THREADS, 4, 4), "u8")
    for group, bits in enumerate(_WIDTHS.values()):
        for name in range(4):
            given[:, group, name] = edges(bits, THREADS, random)
        # Some second numbers are the first, or its negative.
        again = random.random(THREADS)
        given[:, group, 1] = np.where(again < 0.1, given[:, group, 0], given[:, group, 1])
        given[:, group, 1] = np.where(again > 0.9, given[:, group, 0] ^ np.uint64(1 << bits - 1), given[:, group, 1])
    given[:, 3] = random.integers(0, 80, (THREADS, 4))
    # A product, and a quotient, which are subnormal until they are rounded.
    of_f16, of_f32 = np.array([0.5, 2]).astype("f2").view("u2"), np.array([0.5, 2]).astype("f4").view("u4")
    given[0, :2, :3] = [[of_f16[0], 0x07FF, 0], [of_f32[0], 0x00FFFFFF, 0]]
    given[1, :2, :3] = [[0x07FF, of_f16[1], 0], [0x00FFFFFF, of_f32[1], 0]]
    return given.reshape(THREADS, 16)


def assembled(text, file):
    """Assembles a kernel; the numbers of its lines that are refused."""
    from ..toolchain import program

    source = file.with_suffix(".ptx")
    source.write_text(text)
    command = [program("ptxas"), "-arch=sm_90a", source, "-o", file]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return {int(line) for line in re.findall(r"line (\d+); error", said)}


def build(folder):
    """Writes kernels of all instructions that the assembler takes; returns how many there are."""
    every = instructions()
    text = kernel(every)
    lines, refused = text.splitlines(), assembled(text, folder / "all.cubin")
    opcodes = {lines[at - 1].split()[0] for at in refused}
    every = [each for each in every if each.opcode not in opcodes]
    np.save(folder / "inputs.npy", inputs())
    for number, first in enumerate(range(0, len(every), TOGETHER)):
        chosen = every[first : first + TOGETHER]
        assert not assembled(kernel(chosen), folder / f"{number}.cubin")
        (folder / f"{number}.json").write_text(json.dumps(chosen))
    return len(every)


def record(folder, file):
    """Runs every kernel on a GPU, and writes what the instructions make of the inputs."""
    from pycuda import autoinit, driver

    numbers, every, results = np.load(folder / "inputs.npy"), [], []
    given = driver.to_device(numbers)
    for chosen_by in sorted(folder.glob("*.json"), key=lambda file: int(file.stem)):
        chosen = [Instruction(*each) for each in json.loads(chosen_by.read_text())]
        left = driver.to_device(np.zeros(sum(each.results for each in chosen) * THREADS, "u8"))
        module = driver.module_from_file(str(chosen_by.with_suffix(".cubin")))
        module.get_function("k")(given, left, block=(BLOCK, 1, 1), grid=(BLOCKS, 1))
        results.append(driver.from_device(left, (sum(each.results for each in chosen), THREADS), "u8"))
        every += chosen
    found = np.concatenate(results)
    np.savez_compressed(file, inputs=numbers, results=found, instructions=json.dumps(every))
    return f"{len(every)} instructions, on {autoinit.device.name()}"


def recorded(file=RECORDED):
    """The inputs, and each instruction with what a card made of them [result][thread]."""
    with np.load(file) as kept:
        every = [Instruction(*each) for each in json.loads(str(kept["instructions"]))]
        ends = list(itertools.accumulate(each.results for each in every))
        return kept["inputs"], list(zip(every, np.split(kept["results"], ends[:-1]), strict=True))


def traced(chosen, numbers):
    """What instructions make of inputs on simulated threads [result][thread]."""
    from ..machine.conftest import run as trace

    size = sum(each.results for each in chosen) * THREADS
    given = {"in": numbers.reshape(-1), "out": np.zeros(size, "u8")}
    found = trace(kernel(chosen), given, block=BLOCK, grid=BLOCKS, limit=1_000_000)
    assert found.ok, found
    return found.outputs["out"].reshape(-1, THREADS)


if __name__ == "__main__":
    print(record(Path(sys.argv[1]), Path(sys.argv[2])))
