"""What NVIDIA's assembler takes: many instructions in one file, of which it names every line that it refuses."""

import re
import subprocess
from math import ceil
from pathlib import Path

from .toolchain import program

#: Bits of an element in its register, where that is not a byte.
_BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "u32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}
_BITS |= {"b16": 16, "b32": 32}
_TYPES = re.compile(r"[fsub]\d+(x16)?|bf16|tf32|e\dm\d")
_VECTORS = ("mdata", "cdata", "data")
_HEAD = """.version 9.5
.target {target}
.address_size 64
.visible .entry forms() {{
.reg .b64 %at; .reg .pred %p; .reg .b32 %r<256>; .reg .f32 %f<256>; .reg .f64 %d<32>;
"""


def _registers(type_: str, bits: int, first: int = 0) -> str:
    """A vector of registers of a thread that hold some bits."""
    letter, width = {"f32": ("f", 32), "f64": ("d", 64)}.get(type_, ("r", 32))
    return "{" + ", ".join(f"%{letter}{first + index}" for index in range(max(1, bits // width))) + "}"


def instruction(mnemonic: str) -> str:
    """An instruction with operands as its name asks for them, whether or not there is such an instruction."""
    head, *words = mnemonic.split(".")
    types = [word for word in words if _TYPES.fullmatch(word)] or ["b32"]
    count = next((int(word[1:]) for word in words if re.fullmatch(r"x\d+", word)), 1)
    if head in ("spcompress", "spdecompress"):
        return f"{mnemonic} {_of_vectors(head, words, count)};"
    shape = next(word for word in words if re.fullmatch(r"m\d+n\d+(k\d+)?|\d+x\d+b(x2)?", word))
    if head == "tcgen05":
        return f"{mnemonic} {_of_tensor_memory(words, shape, types, count)};"
    numbers = [int(number) for number in re.findall(r"\d+", shape)]
    if head in ("ldmatrix", "stmatrix", "movmatrix"):
        held = _registers("b32", 32 * count * (2 if shape == "m16n16" else 1))
        operands = {"ldmatrix": f"{held}, [%at]", "stmatrix": f"[%at], {held}", "movmatrix": "%r0, %r1"}
        return f"{mnemonic} {operands[head]};"
    m, n, k = numbers
    sparse = any(word.startswith("sp") for word in words[:2])
    packed = any(word.startswith("kind::mxf4") for word in words)
    bits = {type_: 4 if packed and type_ == "e2m1" else _BITS.get(type_, 8) for type_ in types}
    if words[0] in ("load", "store"):
        cells = {"a": m * k, "b": k * n}.get(words[1], m * n)
        doubled = 2 if words[1] in "ab" and types[0] == "f16" else 1
        held = _registers(types[0], cells * bits[types[0]] // 32 if doubled == 1 else 256)
        return f"{mnemonic} {held}, [%at], %r0;" if words[0] == "load" else f"{mnemonic} [%at], {held}, %r0;"
    if head == "wmma":
        d, c = (types[0], types[-1])
        a = types[1] if len(types) == 4 else "f16"
        of_a, of_b = (256, 256) if a == "f16" else (m * k * bits[a] // 32, k * n * bits[a] // 32)
        held = [(d, m * n * bits[d] // 32), (a, of_a), (a, of_b), (c, m * n * bits[c] // 32)]
        return f"{mnemonic} {', '.join(_registers(*each) for each in held)};"
    if head == "wgmma":
        d, a, *_ = types
        ends = {"f16": ", 1, 1, 0, 0", "bf16": ", 1, 1, 0, 0"}.get(a, "" if a in ("s8", "u8", "b1") else ", 1, 1")
        metadata = ", %r0, 0" * sparse
        return f"{mnemonic} {_registers(d, m * n * bits[d] // 128)}, %at, %at{metadata}, %p{ends};"
    d, a, b, c = types[:4]
    products = 4 if (shape, a) == ("m8n8k4", "f16") else 1
    held = [(d, m * n * bits[d]), (a, m * k * bits[a] // (1 + sparse)), (b, k * n * bits[b]), (c, m * n * bits[c])]
    operands = [_registers(type_, products * size // 32) for type_, size in held]
    operands += ["%r0", "0"] * sparse
    operands += ["%r0", "{0, 0}", "%r0", "{0, 0}"] * any(word == "block_scale" for word in words)
    return f"{mnemonic} {', '.join(operands)};"


def _of_tensor_memory(words: list[str], shape: str, types: list[str], count: int) -> str:
    bits = 32 * count * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    apart = ", 0" if shape == "16x32bx2" else ""
    type_ = types[0] if "red" in words else "b32"
    if "spcompress" in words:
        held = f"{_registers('b32', max(32, count), 200)}, {_registers('b32', bits // 2)}"
        return f"{held}{', %f250' if 'red' in words else ''}, [%r255]"
    reduced = f", {'%f' if type_ == 'f32' else '%r'}250" if "red" in words else ""
    held = _registers(type_, bits) + reduced
    return f"[%r255]{apart}, {held}" if words[0] == "st" else f"{held}, [%r255]{apart}"


def _of_vectors(head: str, words: list[str], count: int) -> str:
    """Operands of the sizes that tables 37 and 39 give; what does not fill a register takes one."""
    element, index = [*(int(word[1:]) for word in words if re.fullmatch(r"b\d+", word)), 8, 2][:2]
    factors = [word.removeprefix("sp::").split(":") for word in words if re.fullmatch(r"sp::\d+:\d+", word)]
    kept, of = map(int, [*factors, ("2", "4")][0])
    if head == "spcompress":
        sizes = {"mdata": count * index / element, "cdata": count, "data": 2 * count}
    else:
        bits = (kept * index, kept * element, of * element)
        sizes = {name: count * size / 32 for name, size in zip(_VECTORS, bits, strict=True)}
    first = dict(zip(_VECTORS, (0, 40, 120), strict=True))
    vectors = {name: _registers("b32", 32 * ceil(size), first[name]) for name, size in sizes.items()}
    if head == "spcompress":
        return ", ".join([*(vectors[name] for name in _VECTORS), "%r255"])
    return ", ".join(vectors[name] for name in ("data", "mdata", "cdata"))


def assembled(lines: list[str], target: str, folder: Path) -> bytes:
    """The program that the assembler makes of lines."""
    source, output = folder / "program.ptx", folder / "program.cubin"
    source.write_text(_HEAD.format(target=target) + "\n".join([*lines, "ret;", "}", ""]))
    subprocess.run([program("ptxas"), "-arch", target, source, "-o", output], check=True, capture_output=True)
    return output.read_bytes()


def refused(instructions: list[str], target: str, folder: Path) -> dict[str, str]:
    """Of instructions with their operands those that the assembler refuses for a target, with its first reason.

    It names no more than some hundred lines, and some only when all others are right: it is asked again about what it
    did not name. An architecture beginning with compute is only parsed for: no code is made.
    """
    reasons: dict[str, str] = {}
    while left := [line for line in instructions if line not in reasons]:
        head = _HEAD.format(target=target)
        source = folder / "forms.ptx"
        source.write_text(head + "\n".join([*left, "ret;", "}", ""]))
        command = [program("ptxas"), "-arch", target.replace("sm_", "compute_"), source, "-o", folder / "out"]
        with (folder / "errors").open("w+") as errors:  # a pipe of this many lines takes longer than the assembler
            done = subprocess.run(command, stdout=errors, stderr=subprocess.STDOUT, check=False)
            errors.seek(0)
            said = errors.read()
        if not done.returncode:
            break
        errors_at = re.findall(r"line (\d+); error\s*: (.*)", said)
        places = [(int(line) - head.count("\n") - 1, reason) for line, reason in reversed(errors_at)]
        named = {left[at]: reason for at, reason in places if at < len(left)}
        if not named and len(left) == 1:
            named = {left[0]: said}
        if not named:  # it gave up, which one line may have caused
            middle = len(left) // 2
            return reasons | refused(left[:middle], target, folder) | refused(left[middle:], target, folder)
        reasons |= named
    return reasons
