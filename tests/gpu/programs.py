"""Random programs, of which a card and simulated threads store the same results.

A case is lines in a scope of their own, in which ``OUT register`` stands for a store of a result; a program is a kernel
of many. What an H200 stores is recorded beside this file, of each case a digest, so that simulated threads are compared
with it anywhere. To record it again, on two machines, of which the one with the GPU needs no more than the folder gpu
with this file and those that it imports, the folder of kernels, PyCUDA and numpy:

    LANEMAP_LONG=1 pytest -n 0 -m "" tests/gpu/test_programs.py -k assemble --basetemp FOLDER
    python -m gpu.programs FOLDER/test_they_assemble0 h200-programs.npz
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from math import prod
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .corpus import launch_kernel, tensor_map
from .instructions import assembled, edges

#: Threads of a block, and bytes of inputs that each has.
BLOCK, ROW = 128, 256

#: Bytes of memory that each thread has in each state space, of constants, and of the last parameter.
OWN, TABLE, GIVEN = 64, 256, 64

#: The registers of a case, which begin with inputs.
KINDS = {"p": ("pred", 6), "h": ("b16", 8), "r": ("b32", 12), "d": ("b64", 8)}

#: Bits of a register of numbers, by its kind.
BITS = {"h": 16, "r": 32, "d": 64}

#: Cases of one kernel.
TOGETHER = 60

#: What an H200 made of them.
RECORDED = Path(__file__).parent / "h200-programs.npz"


class Case(NamedTuple):
    """Lines of a family of cases, and functions that they call."""

    family: str
    lines: Sequence[str]
    functions: Sequence[str] = ()

    @property
    def results(self) -> list[str]:
        """The registers that it stores."""
        return [found for line in self.lines for found in re.findall(r"OUT (%\w+)", line)]


class Program(NamedTuple):
    """Cases of one kernel, bytes that it reads, of which so many are in shared memory, too, arrays, and maps of these.

    Of an array there are its type and shape, of a map its array and what is written of it as an argument.
    """

    cases: Sequence[Case]
    data: bytes = b""
    shared: int = 0
    arrays: Mapping[str, tuple[str, Sequence[int]]] = {}
    maps: Mapping[str, Mapping[str, str | Sequence[int]]] = {}

    @property
    def results(self) -> int:
        """How many its cases store."""
        return sum(len(case.results) for case in self.cases)


def _stored(register: str, at: int) -> str:
    """The lines that store a register."""
    if register[1] in "pq":
        return f"selp.b32 %po, 1, 0, {register}; st.global.b32 [%to+{at}], %po;"
    bits = 64 if register[1] == "d" else 16 if register[1] == "h" else 32
    return f"st.global.b{bits} [%to+{at}], {register};"


_SETUP = """
.reg .b32 %t, %lane, %room, %sh, %po, %big;
.reg .b64 %row, %to, %mine, %own, %scratch, %gsh, %loc, %gloc, %tab, %gtab, %gcommon, %dat, %w, %v<2>;
.reg .pred %first;
mov.u32 %t, %tid.x;
mov.u32 %lane, %laneid;
setp.eq.u32 %first, %t, 0;
ld.param.u64 %row, [in];
mad.wide.u32 %row, %t, ROW, %row;
ld.param.u64 %to, [out];
mad.wide.u32 %to, %t, 8, %to;
ld.param.u64 %mine, [own];
mad.wide.u32 %own, %t, OWN, %mine;
add.u64 %scratch, %mine, ALL;
mov.u32 %room, room;
mad.lo.u32 %sh, %t, OWN, %room;
cvt.u64.u32 %w, %sh;
cvta.shared.u64 %gsh, %w;
mov.u64 %loc, mine;
cvta.local.u64 %gloc, %loc;
mov.u64 %w, common;
cvta.shared.u64 %gcommon, %w;
mov.u64 %tab, table;
and.b32 %po, %t, 7;
mad.wide.u32 %tab, %po, 16, %tab;
cvta.const.u64 %gtab, %tab;
ld.param.u64 %dat, [data];
mov.u32 %big, big;
"""


def kernel(program: Program, table: bytes) -> str:
    """A kernel that runs cases one after the other, and stores their results [result][thread], 64 bits each."""
    cases = program.cases
    lines = [".version 8.7", ".target sm_90a", ".address_size 64"]
    # What a case names has its number behind it.
    for number, case in enumerate(cases):
        lines += [re.sub(r"\bf(\d)\b", rf"f\1_{number}", each) for each in case.functions]
    given = [".param .u64 in", ".param .u64 out", ".param .u64 own", f".param .align 16 .b8 given[{GIVEN}]"]
    given += [f".param .u64 {name}" for name in ("data", *program.arrays)]
    given += [f".param .align 64 .b8 {name}[128]" for name in program.maps]
    lines += [f".const .align 16 .b8 table[{TABLE}] = {{{', '.join(map(str, table))}}};"]
    lines += [".extern .shared .align 1024 .b8 big[];", f".visible .entry k({', '.join(given)}) {{"]
    lines += [f".shared .align 1024 .b8 room[{BLOCK * OWN}];", ".shared .align 8 .b64 common;"]
    lines += [f".local .align 16 .b8 mine[{OWN}];"]
    setup = _SETUP.replace("ROW", str(ROW)).replace("OWN", str(OWN)).replace("ALL", str(BLOCK * OWN))
    lines += setup.strip().splitlines()
    for at in range(0, OWN, 16):
        lines += [f"ld.global.v2.b64 {{%v0, %v1}}, [%row+{at}];"]
        lines += [
            f"st.{space}.v2.b64 [{base}+{at}], {{%v0, %v1}};" for space, base in [("shared", "%sh"), ("local", "%loc")]
        ]
    lines += ["mad.wide.u32 %w, %t, 16, %dat;", "mad.lo.u32 %po, %t, 16, %big;"] if program.shared else []
    for at in range(0, program.shared, 16 * BLOCK):
        lines += [f"ld.global.v2.b64 {{%v0, %v1}}, [%w+{at}];", f"st.shared.v2.b64 [%po+{at}], {{%v0, %v1}};"]
    lines += ["fence.proxy.async;", "bar.sync 0;"]
    at = 0
    for number, case in enumerate(cases):
        lines.append(f"{{ // {number}")
        lines += [f".reg .{type_} %{kind}<{count}>;" for kind, (type_, count) in KINDS.items()]
        start = f"%row+{16 * (number % 8)}"
        for kind, first, count, place in (("r", 12, 4, 0), ("d", 8, 2, 48), ("h", 8, 4, 112)):
            for each in range(0, first, count):
                items = ", ".join(f"%{kind}{each + item}" for item in range(count))
                offset = place + each * BITS[kind] // 8
                lines.append(f"ld.global.v{count}.b{BITS[kind]} {{{items}}}, [{start}+{offset}];")
        lines += [f"setp.lt.s32 %p{each}, %r{each}, %r{each + 6};" for each in range(KINDS["p"][1])]
        for line in case.lines:
            named = re.sub(r"\b(f\d)(?=, \()", rf"\1_{number}", re.sub(r"\$(\w+)", rf"$\1_{number}", line))
            if named.startswith("OUT "):
                named, at = _stored(named[4:], at), at + 8 * BLOCK
            lines.append(named)
        lines.append("}")
    return "\n".join([*lines, "ret;", "}", ""])


def _refused(text: str, cubin: Path) -> set[int]:
    """Assembles a kernel; the numbers of the cases that the assembler does not take."""
    lines, found = text.splitlines(), set[int]()
    for line in assembled(text, cubin):
        marks = (re.fullmatch(r"\{ // (\d+)", each) for each in reversed(lines[:line]))
        found.add(next(int(mark[1]) for mark in marks if mark))
    return found


def inputs(seed: int = 0):
    """What each thread is given, as bytes."""
    random = np.random.default_rng(seed)
    parts = [edges(bits, BLOCK * ROW * 2 // bits, random).view("u1").reshape(BLOCK, -1) for bits in (32, 64, 16)]
    parts.append(np.frombuffer(random.bytes(BLOCK * ROW), "u1").reshape(BLOCK, -1)[:, : ROW // 4])
    return np.concatenate(parts, axis=1)[:, np.argsort(np.arange(ROW) // 16 % 4, kind="stable")].copy()


def batched(cases: Sequence[Case]) -> list[Sequence[Case]]:
    """As many of them as one kernel has, and so on."""
    return [cases[first : first + TOGETHER] for first in range(0, len(cases), TOGETHER)]


def own_memory() -> list[str]:
    """Stores of all of a thread's own shared memory."""
    lines = []
    for at in range(0, OWN, 16):
        lines += [f"ld.shared.v2.b64 {{%d0, %d1}}, [%sh+{at}];", "OUT %d0", "OUT %d1"]
    return lines


def contents(name: str, type_: str, shape: Sequence[int]):
    """The bytes with which an array of a program begins: of whole numbers, or of edges of its type."""
    bits = int(re.findall(r"\d+", type_)[0])
    random = np.random.default_rng([len(name), *shape])
    if "f" in type_:
        return random.integers(-100, 100, shape).astype(f"f{bits // 8}")
    return np.frombuffer(
        random.bytes(int(np.prod(shape)) * bits // 8), f"{'i' if type_[0] == 's' else 'u'}{bits // 8}"
    ).reshape(shape)


def build(folder: Path, made: Iterable[Program]) -> int:
    """Writes kernels of all cases that the assembler takes; returns how many there are."""
    count, given = 0, inputs()
    np.save(folder / "inputs.npy", given)
    for number, program in enumerate(made):
        cubin, table = folder / f"{number}.cubin", given[0].tobytes()
        refused = _refused(kernel(program, table), cubin)
        program = program._replace(cases=[case for at, case in enumerate(program.cases) if at not in refused])
        assert not _refused(kernel(program, table), cubin)
        np.save(folder / f"{number}.npy", np.frombuffer(program.data, "u1"))
        (folder / f"{number}.json").write_text(json.dumps(program._replace(data="")))
        count += len(program.cases)
    return count


def read(folder: Path, number: int) -> Program:
    """A program that was written."""
    cases, _, *more = json.loads((folder / f"{number}.json").read_text())
    return Program([Case(*each) for each in cases], np.load(folder / f"{number}.npy").tobytes(), *more)


def run(folder: Path, number: int):
    """What a card makes of the cases of a program [result][thread]."""
    from pycuda import autoinit, driver  # noqa: F401

    program, given = read(folder, number), np.load(folder / "inputs.npy")
    left = driver.to_device(np.zeros((program.results, BLOCK), "u8"))
    data = np.frombuffer(program.data or bytes(1), "u1")
    held = [driver.to_device(each) for each in (given, np.zeros(BLOCK * OWN + 256, "u1"), data)]
    arrays = {name: driver.to_device(contents(name, *each)) for name, each in program.arrays.items()}
    parameters = [np.array([int(each)], "u8") for each in (held[0], left, held[1])] + [given[1, :GIVEN].copy()]
    parameters += [np.array([int(each)], "u8") for each in (held[2], *arrays.values())]
    for map_ in program.maps.values():
        of = {"swizzle": "none", "fill": "", "lower": [], "upper": [], **map_}
        of["type"], of["shape"] = type_, shape = program.arrays[map_["array"]]
        of["bits"] = int(re.findall(r"\d+", type_)[0])
        of["strides"] = [prod(shape[at + 1 :]) for at in range(len(shape))]
        of["every"] = every = map_.get("every", [1] * len(shape))
        of["corners"] = list(zip(of["lower"], map(add, shape[1:], of["upper"]), strict=True))
        if not of["corners"]:
            of["box"] = [-(-extent // step) for extent, step in zip(of["box"], every, strict=True)]
        parameters.append(tensor_map(of, int(arrays[map_["array"]])))
    launch = {"name": number, "entry": "k", "block": BLOCK, "grid": [1, 1, 1], "shared": program.shared}
    launch_kernel(folder / f"{number}.cubin", launch, parameters)
    return driver.from_device(left, (program.results, BLOCK), "u8")


def traced(program: Program, given):
    """What simulated threads make of cases [result][thread]."""
    from ..machine.conftest import run as trace

    arguments = {
        "in": given.reshape(-1),
        "out": np.zeros(program.results * BLOCK, "u8"),
        "own": np.zeros(BLOCK * OWN + 256, "u1"),
        "given": "bytes:" + given[1, :GIVEN].tobytes().hex(),
        "data": np.frombuffer(program.data or bytes(1), "u1"),
    }
    arguments |= {name: contents(name, *each) for name, each in program.arrays.items()}
    for name, map_ in program.maps.items():
        parts = {part: each if isinstance(each, str) else "x".join(map(str, each)) for part, each in map_.items()}
        arguments[name] = f"map({parts.pop('array')},{','.join(map('='.join, parts.items()))})"
    text = kernel(program, given[0].tobytes())
    return trace(
        text, arguments, block=BLOCK, shared=program.shared, limit=1_000_000, table=_layouts() if program.data else None
    )


@cache
def _layouts():
    """What the corrected document says, and where that has figures alone, as of metadata, what a card does."""
    from ..machine.conftest import documented
    from ..shipped import recorded

    every = [one for fragment in recorded().fragments for one in fragment.every if fragment.elements is not None]
    return {one.key: one for one in every} | documented()


def digests(program: Program, results=None) -> list[int]:
    """A number of each case: of what it is, or of its results."""
    if results is not None:
        ends = np.cumsum([len(case.results) for case in program.cases])[:-1]
        return [_digest(np.ascontiguousarray(own).tobytes()) for own in np.split(results, ends)]
    shared = [_digest(program.data), *program[2:]]
    return [_digest(json.dumps([case, shared]).encode()) for case in program.cases]


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def record(folder: Path, file: Path) -> str:
    """Runs every kernel on a GPU, and writes the digests of the cases and of their results."""
    cases, results = [], []
    for number in range(len([*folder.glob("*.cubin")])):
        program = read(folder, number)
        cases += digests(program)
        results += digests(program, run(folder, number))
    np.savez_compressed(file, cases=np.array(cases, "u8"), results=np.array(results, "u8"))
    return f"{len(cases)} cases"


def recorded(file: Path = RECORDED) -> dict[int, list[int]]:
    """The digests of the results of each case by that of the case, which may occur again with other inputs."""
    found: dict[int, list[int]] = {}
    with np.load(file) as kept:
        for case, result in zip(kept["cases"].tolist(), kept["results"].tolist(), strict=True):
            found.setdefault(case, []).append(result)
    return found


if __name__ == "__main__":
    print(record(Path(sys.argv[1]), Path(sys.argv[2])))
