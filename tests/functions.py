"""Kernels that call generated device functions, and what numpy says that these leave: of chains and of recipes.

What runs them, the simulated threads or a card, gets PTX, words, and the words that must come out.
"""

import re
import subprocess
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lanemap.capture.values import decode, to_bytes
from lanemap.db.isa.types import TYPES
from lanemap.db.layout.shared import swizzle

from .toolchain import program

#: Of each register how many words it is, by what it is in C++.
WORDS = {"float": 1, "int": 1, "unsigned": 1, "double": 2}


class Case(NamedTuple):
    """A kernel, the words of each register or of a tile that it is given, and those that it must leave."""

    name: str
    text: str
    function: str
    threads: int
    given: np.ndarray
    right: np.ndarray


def compiled(texts, target, folder, *more, warnings=True):
    """A file of machine code, which nvcc makes of C++ without a warning and local memory, with its PTX beside."""
    source, out = Path(folder, f"functions_{target}.cu"), Path(folder, f"functions_{target}.cubin")
    source.write_text("\n".join(dict.fromkeys(texts)))
    flags = [f"-arch={target}", "-std=c++17", "-Werror", "all-warnings", "-Xptxas", "-warn-spills,-v", "-cubin"]
    flags = flags if warnings else [flag for flag in flags if flag not in ("-Werror", "all-warnings")]
    command = [program("nvcc"), *flags, "-keep", "-keep-dir", folder, *more, source, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stacks = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    assert {*stacks} == {("0", "0", "0")}, done.stderr
    return out


def array(said):
    """What an argument says of an array: its type, its name and its extents."""
    kind, name, sizes = re.fullmatch(r"(?:const )?(\w+) \(&(\w+)\)((?:\[\d+\])+)", said).groups()
    return kind, name, [int(size) for size in re.findall(r"\d+", sizes)]


def kernel(function, threads, tile=0, template=""):
    """The name and the text of a kernel that fills registers or a tile from memory, calls the function, and stores."""
    name, listed = re.search(r"void (\w+)\(([^{]*)\) \{", function).groups()
    listed = [" ".join(argument.split()) for argument in listed.split(", ")]
    before, after, called = [], [], []
    for argument in listed:
        if argument == "int lane":
            called.append("threadIdx.x")
        elif argument.endswith("void* tile"):
            copy = [f"for (int at = threadIdx.x; at < {tile // 4}; at += {threads})"]
            if argument.startswith("const"):
                before += [*copy, "  words[at] = given[at];", "__syncthreads();"]
            else:
                before += [*copy, "  words[at] = 0;  // lines may be longer than what is stored", "__syncthreads();"]
                after += ["__syncthreads();", *copy, "  made[at] = words[at];"]
            called.append("words")
        else:
            kind, variable, sizes = array(argument)
            before.insert(0, f"{kind} {variable}{''.join(f'[{size}]' for size in sizes)};")
            for number, place in enumerate(product(*map(range, sizes))):
                at = f"{number * threads} + threadIdx.x"
                element = variable + "".join(f"[{one}]" for one in place)
                if argument.startswith("const"):
                    before.append(f"{element} = reinterpret_cast<const {kind}*>(given)[{at}];")
                else:
                    after.append(f"reinterpret_cast<{kind}*>(made)[{at}] = {element};")
            called.append(variable)
    shared = f"  __shared__ alignas(1024) unsigned words[{tile // 4}];\n" if tile else ""
    body = "".join(f"  {line}\n" for line in [*before, f"{name}{template}({', '.join(called)});", *after])
    text = f'extern "C" __global__ void call_{name}(const unsigned* given, unsigned* made) {{\n{shared}{body}}}\n'
    return f"call_{name}", text


def numbers(of, to, slot_bits):
    """Numbers that both types have, and the code of each in a slot of the second."""
    row = TYPES[to]
    if row.native or to == "bf16":
        values = np.arange(-200, 201).astype("f8")
        codes = bits(values, to)
    else:
        codes = np.arange(1 << row.bits) << (row.below if slot_bits > row.bits else 0)
        values = decode(to, slot_bits, codes.astype("u1")).astype("f8")
        # Neither those that are no numbers, nor a second zero.
        there = (values != 0) | (codes == 0)
        there &= {"e4m3": codes & 0x7F != 0x7F, "e5m2": codes & 0x7C != 0x7C}.get(to, True)
        values, codes = values[there], codes[there]
    whole = values == np.rint(values) if of == "s32" else values == values.astype({"f16": "f2"}.get(of, "f4"))
    return values[whole], codes[whole]


def bits(values, type_):
    """Numbers in the bits of a type of 16 bits or more."""
    if type_ == "bf16":
        return values.astype("f4").view("u4") >> 16
    kind = TYPES[type_].native
    return values.astype(kind).view(f"u{kind[1]}")


def words(fragment, codes, tiles):
    """The registers of every lane, (tiles x registers, lanes), that hold a matrix of tiles."""
    down, across = tiles
    rows, cols = fragment.dimensions
    table = fragment.elements.astype([(name, "i8") for name in fragment.elements.dtype.names])
    found = np.zeros((down * across, fragment.registers, fragment.threads), f"u{fragment.register_bits // 8}")
    for number, (row, col) in enumerate(product(range(down), range(across))):
        held = codes[table["computation"] - 1, row * rows + table["row"], col * cols + table["col"]]
        shifted = held.astype(found.dtype) << (table["slot"] * fragment.slot_bits).astype(found.dtype)
        np.bitwise_or.at(found, (number, table["reg"], table["lane"]), shifted)
    return found.reshape(-1, fragment.threads)


def of_chain(chain, seed=0):
    """The case of a chain: D of random numbers, and the operand that they make."""
    first, second = chain.ends
    of, to = ("f16" if TYPES[end.type].bits == 16 and not chain.converts else end.type for end in chain.ends)
    values, codes = numbers(of, to, second.slot_bits)
    (down, across), needed = chain.tiles
    height, width = (size * count for size, count in zip(second.dimensions, needed, strict=True))
    chosen = np.random.default_rng(seed).integers(0, len(values), (second.computations, height, width))
    given = chosen.swapaxes(1, 2) if chain.transposed else chosen
    tiles = (across, down) if chain.transposed else (down, across)
    before = words(first, bits(values, of)[given], tiles)
    if chain.transposed:  # tiles are counted along the rows of the transpose
        before = before.reshape(across, down, first.registers, -1).swapaxes(0, 1).reshape(before.shape)
    if chain.order:
        chosen = chosen[:, :, list(chain.order)] if second.role == "A" else chosen[:, list(chain.order)]
    function = chain.cpp()
    name, text = kernel(function, first.threads)
    return Case(name, text, function, first.threads, before, words(second, codes[chosen], needed))


def of_recipe(recipe, type_="f16", seed=0):
    """The case of a recipe: a tile of random elements and the operands that it becomes, or the other way about."""
    operand, count = recipe.operand, recipe.count
    load = recipe.moves[0].instruction.startswith("ld")
    bits_ = 16 if recipe.packed else operand.slot_bits
    down, across = (count, 1) if operand.role == "A" else (1, count)
    rows, cols = (size * many for size, many in zip(operand.dimensions, (down, across), strict=True))
    random = np.random.default_rng(seed)
    if recipe.packed:
        values, codes = numbers("f32", type_, 16)
        chosen = random.integers(0, len(values), (rows, cols))
        held, kept = bits(values, "f32")[chosen], codes[chosen]
    else:
        held = kept = random.integers(0, 1 << min(bits_, 32), (rows, cols))
        first = operand.occupied_bits
        if len(first) < bits_:
            held = kept = (held & (1 << len(first)) - 1) << first.start
    registers = words(operand, held[None].astype("u8"), (down, across))
    tile = to_bytes(kept if recipe.major == "row" else kept.T, bits_)
    lines, width = recipe.tile
    pitch = recipe.pitch or width
    memory = np.zeros(-(-lines * pitch // 128) * 128, "u1")
    at = swizzle(recipe.mode)(np.arange(lines)[:, None] * pitch + np.arange(width))
    memory[at] = tile
    function = recipe.cpp()
    template = f"<{str(type_ == 'bf16').lower()}>" if recipe.packed else ""
    name, text = kernel(function, operand.threads, len(memory), template)
    given, right = (memory.view("u4"), registers) if load else (registers, memory.view("u4"))
    return Case(name, text, function, operand.threads, given, right)


def of_pair(store, load, barrier="__syncthreads();", seed=0):
    """The case of what warps exchange: D is stored, and what else is held loaded, both rows of memory or its columns.

    The functions are called as a chain between warps says, with a ``barrier`` between them.
    """
    first, second = store.operand, load.operand
    assert (store.tile, store.pitch, store.mode) == (load.tile, load.pitch, load.mode)
    values, codes = numbers(first.type, second.type, second.slot_bits)
    chosen = np.random.default_rng(seed).integers(0, len(values), (1, *first.dimensions))
    taken = chosen if store.major == load.major else chosen.swapaxes(1, 2)
    named = [re.search(r"void (\w+)", function.cpp())[1] for function in (store, load)]
    template = f"<{str(second.type == 'bf16').lower()}>" if store.packed else ""
    kinds = "float" if first.type == "f32" else "unsigned"
    role = second.role.lower()
    text = f"""
__device__ __forceinline__ void pair_{"_".join(named)}(
    int lane, const {kinds} (&d)[{first.registers}], unsigned (&{role})[{second.registers}]) {{
  __shared__ alignas(1024) unsigned tile[{store.tile[0] * (store.pitch or store.tile[1]) // 4}];
  {named[0]}{template}(lane, d, tile);
  {barrier}
  {named[1]}(lane, tile, {role});
}}
"""
    name, called = kernel(text, first.threads)
    before, right = words(first, bits(values, first.type)[chosen], (1, 1)), words(second, codes[taken], (1, 1))
    return Case(name, called, "\n".join([store.cpp(), load.cpp(), text]), first.threads, before, right)


def of_through(answer, seed=0):
    """The cases of a tile in memory: D stored to it, and each operand that is loaded from it, by the bits it says."""
    functions = [text for text in answer.cpp().split("\n\n") if "void" in text]
    moves = [(one, start) for one in (answer.stores, answer.loads) if one for start in answer.starts(one)]
    size = -(-answer.size // 128) * 128
    for function, (one, start) in zip(functions, moves, strict=True):
        operand, bits_ = one.operand, answer.tile.bits
        rows, cols = operand.dimensions
        turned = answer.turned if operand is answer.first else operand.role == "B"
        shape = (cols, rows) if turned else (rows, cols)
        at = np.asarray(answer.written[start[0] : start[0] + shape[0], start[1] : start[1] + shape[1]])
        at = at.T if turned else at
        assert at.shape == (rows, cols)
        if one.packed:
            values, codes = numbers("f32", "f16", 16)
            chosen = np.random.default_rng(seed).integers(0, len(values), (rows, cols))
            held, kept = bits(values, "f32")[chosen], codes[chosen]
        else:
            held = kept = np.random.default_rng(seed).integers(0, 1 << min(bits_, 31), (rows, cols))
        memory = np.zeros(size * 8 // bits_, f"u{bits_ // 8}")
        memory[at // bits_] = kept
        registers = words(operand, held[None].astype("u8"), (1, 1))
        load = one is answer.loads
        name, text = kernel(function, operand.threads, size, "<false>" if one.packed else "")
        given, right = (memory.view("u4"), registers) if load else (registers, memory.view("u4"))
        yield Case(name, text, function, operand.threads, given, right)
