"""What a chain or a recipe says as one C++ device function, ready to paste: PTX, packing, addresses, shuffles.

Registers are ``float``, ``double`` or ``int`` where an element fills one, and else ``unsigned``. A chain has up to
three steps: a lane converts its elements and packs them into words, lanes exchange words, and bytes of these make the
registers that are taken. If the second type is wider, words are exchanged before they are converted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from ...errors import LanemapError
from ...flow.chain import Chain
from ...flow.recipe import Recipe, Recipes, loads, mnemonic
from ...flow.through import Through
from ...isa.forms import forms
from ...isa.instructions import WARP, WORD
from ...isa.names import PLAIN_MOVES
from ...isa.vendors import NVIDIA
from ...layout.algebra import Array, NotASumError, as_sum
from ...layout.fragment import Fragment
from ...layout.shared import Swizzle, swizzle
from ...rows import Rows, Told, report, wrapped
from ...text import counted, grouped
from .conversion import converted, rounds_twice
from .cpp import expression
from .words import Lines, Parts

#: What an element is in C++ that fills a register, and the letter that inline PTX has for each.
_NATIVE = {"f32": "float", "f64": "double", "s32": "int"}
_LETTERS = {"float": "f", "double": "d", "int": "r", "unsigned": "r"}

#: The columns of a comment, and of code.
_WIDTH, _LONGEST = 77, 110

_MOVMATRIX = "movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"


def code(answer: Told) -> str:
    """The function of a chain, or that of each recipe.

    Raises:
        LanemapError: no function does what it says, or it is another answer; says what would be right.
    """
    if isinstance(answer, Chain):
        return _chain(answer)
    if isinstance(answer, Recipe | Recipes):
        return "\n".join(map(_recipe, answer if isinstance(answer, Recipes) else [answer]))
    if isinstance(answer, Through):
        return "\n".join(_through(answer))
    raise LanemapError(
        "C++ is for a chain of two operands, or a recipe: write m16n8k16 f32 D m16n8k16 f16 A, or, to store it,"
        " m16n8k16 f32 D stmatrix"
    )


def _chain(chain: Chain) -> str:
    (first, second), (produced, needed), table = chain.ends, chain.tiles, chain.table
    if foreign := [end for end in chain.ends if end.vendor != NVIDIA.name]:
        raise LanemapError(f"C++ is for instructions of NVIDIA, and {foreign[0]} is of another vendor")
    if (table["lane"] // WARP != table["from_lane"] // WARP).any():
        raise LanemapError(
            "values move between warps, which no shuffle does: chain D stmatrix, then __syncthreads(), then ldmatrix "
            f"{second.role}, for the same tile in memory"
        )
    if not chain.converts and first.slot_bits != second.slot_bits:
        raise LanemapError(
            f"no conversion makes {second.type} of {first.type}: they are bits of any type, and not as many"
        )
    body = Lines(second.threads)
    role, sizes = second.role.lower(), [_sizes(*ends) for ends in zip(chain.tiles, chain.ends, strict=True)]
    given, made = _names("d", sizes[0]), _names(role, sizes[1])
    if chain.converts:
        count = second.slots // first.slots or 1
        statements = converted(first.type, second.type, second.slots, second.slot_bits)
        body.written += _lambda("pack", [_type(first)] * count, _type(second), [statements])
    if chain.moves_values and second.slot_bits == 16 and (crossing := chain.through_movmatrix()):
        body.written += _lambda("turn", ["unsigned"], "unsigned", [[_MOVMATRIX]], "volatile")
        per = 3 - first.slots  # registers of D that one holds in 16 bits
        for *to, reg, down, across, from_reg in crossing:
            at = (down * produced[1] + across) * first.registers + from_reg * per
            word = f"pack({', '.join(given[at : at + per])})" if chain.converts else given[at]
            body.written.append(f"{made[(to[0] * needed[1] + to[1]) * second.registers + reg]} = turn({word});")
    else:
        texts = _registers(chain, body, given)
        body.written += [f"{name} = {text};" for name, text in zip(made, texts, strict=True)]
    form = next(form for form in forms(*second.key[:2]) if form.types.get(second.role) == second.type)
    facts = [*chain.facts(), f"target: {form.needs}"]
    facts += [f"cost:   {counted(body.shuffles, 'shuffle')}"] if body.shuffles else []
    facts += [f"rounds: to f32, then to {second.type}"] if rounds_twice(first.type, second.type) else []
    name = f"{first.identifier}_as_{second.identifier}"
    name += "_transposed" * chain.transposed + "_relabelled" * bool(chain.order)
    arguments = [_argument(f"const {_type(first)}", "d", sizes[0]), _argument(_type(second), role, sizes[1])]
    return _function(facts, name, arguments, body.written)


def _registers(chain: Chain, body: Lines, given: Sequence[str]) -> list[str]:
    """What each register of the second operand is made of, after the lines that this needs."""
    (first, second), (produced, needed), table = chain.ends, chain.tiles, chain.table
    at = second.number(table["tile_row"] * needed[1] + table["tile_col"], table["reg"], table["slot"])
    origin = table["from_tile_row"] * produced[1] + table["from_tile_col"]
    place = np.full((second.threads, needed[0] * needed[1] * second.per_thread), -1)
    lanes = place.copy()
    place[table["lane"], at] = first.number(origin, table["from_reg"], table["from_slot"])
    lanes[table["lane"], at] = table["from_lane"]
    size, bits = second.slots * first.slot_bits // 8, second.slot_bits

    def made(words: Sequence[str], parts: Parts) -> list[str]:
        """Registers of the second type of words of the first."""
        every = ([body.gathered(words, part) for part in one.cut(first.register_bits // 8)] for one in parts.cut(size))
        if chain.converts:
            return [f"pack({', '.join(texts)})" for texts in every]
        same = _type(first) == _type(second)
        return [text if same else f"__float_as_uint({text})" for (text,) in every]

    if not chain.moves_values:
        return made(given, Parts.of(place, first.slots, first.slot_bits))
    early = chain.converts and bits <= first.slot_bits
    groups, held = _together(place, lanes, second.slots if early else first.slots)
    if early and bits < 8:
        # Two of 4 bits go together, or are exchanged before they are converted.
        pairs = np.stack([held, lanes]).reshape(2, len(held), -1, 2)
        if (pairs[0, ..., 0] % 2).any() or (pairs[..., 1] - pairs[..., 0] != [[[1]], [[0]]]).any():
            early, (groups, held) = False, _together(place, lanes, first.slots)
        else:
            held, lanes, bits = held[:, ::2] // 2, lanes[:, ::2], 8
    sources = Parts.of(groups[None], first.slots, first.slot_bits)
    if early:
        words, width = made(given, sources), bits
    else:
        words, width = [body.gathered(given, part) for part in sources.cut(first.register_bits // 8)], first.slot_bits
    kind = _type(second if early else first)
    words = [word if word in given else body.named("word", kind, word) for word in words]
    parts = Parts.of(held, (second if early else first).register_bits // width, width)
    received, moved = body.exchanged(words, kind, parts, lanes.repeat(width // 8, axis=1))
    if early:
        return [body.gathered(received, part) for part in moved.cut(second.register_bits // 8)]
    return made(received, moved)


def _together(place: Array, lanes: Array, slots: int) -> tuple[Array, Array]:
    """Elements that fill words of so many slots, those together that go from the same lanes to the same, and where
    in the words each element of ``place`` is."""
    lane, size = np.indices(place.shape)[0], len(place)
    order = [one for one in dict.fromkeys(place.T.ravel().tolist()) if one >= 0]
    ways = {one: np.unique(lanes[place == one] * size + lane[place == one]).tobytes() for one in order}
    groups: list[int] = []
    for same in sorted(grouped(order, ways.__getitem__).values(), key=lambda same: len(same) < slots):
        lacking = -len(groups) % slots if len(same) >= slots else 0
        groups += groups[-1:] * lacking + same
    groups += groups[-1:] * (-len(groups) % slots)
    held = np.full(max(order) + 2, -1)
    held[groups[::-1]] = range(len(groups) - 1, -1, -1)
    return np.array(groups), held[place]


def _through(answer: Through) -> Iterator[str]:
    """The function of each operand that lanes store or load, and the constants of a descriptor that reads.

    Raises:
        LanemapError: one is not read where it is written.
    """
    if answer.moves_values:
        raise LanemapError(f"no function makes it right: {answer.verdict}")
    for moves in filter(None, (answer.stores, answer.loads)):
        for start in answer.starts(moves):
            yield _recipe(moves, answer, start)
    if answer.descriptor:
        name = f"{answer.second.identifier}_in_{answer.extents}"
        advances = wrapped(", ".join(str(row[-1]) for row in answer.descriptor.steps.rows), _LONGEST, "    ", "    ")
        yield "\n".join(
            [
                f"// {answer.second} in {answer.extents}: add the encoded start address, address >> 4,",
                "// and for each product what the start advances, encoded, first along K.",
                f"constexpr unsigned long long {name} = 0x{answer.descriptor.word:016x}ull;",
                f"constexpr unsigned {name}_advance[] = {{",
                *advances,
                "};",
                "",
            ]
        )


def _recipe(made: Recipe, through: Through | None = None, start: tuple[int, int] = (0, 0)) -> str:
    """The function of a recipe, in a tile of its own, or where its operand begins in one that others read or write."""
    operand, used = made.operand, made.moves[0].instruction
    mode = swizzle(through.tile.mode if through else made.mode)
    if operand.register_bits > WORD:
        raise LanemapError(f"C++ moves registers of {WORD} bits, and those of {operand} have {operand.register_bits}")
    role, sizes, body = operand.role.lower(), _sizes([made.count], operand), Lines(operand.threads)
    packed = operand.type if operand.type in _NATIVE else "f32"
    kind = _NATIVE[packed] if made.packed else _type(operand)
    registers, load = _names(role, sizes), loads(made.moves[0])
    if made.packed:
        ways = [converted(packed, to, 2, 16) for to in ("bf16", "f16")]
        body.written += _lambda("pack", [kind] * 2, "unsigned", ways)
        registers = [f"pack({', '.join(pair)})" for pair in zip(registers[::2], registers[1::2], strict=True)]
    pitch, first = made.pitch or made.tile[1], 0
    places = through.addresses(made, start) if through else made.places(pitch, made.mode)
    places = places.reshape(-1, operand.threads)
    plain = mode(places)  # where they lie without a swizzle, which undoes itself
    body.named("start", "unsigned", "static_cast<unsigned>(__cvta_generic_to_shared(tile))")
    known: list[tuple[Array, str]] = []
    for step, (move, place) in enumerate(zip(made.moves, places, strict=True)):
        taken = [registers[reg] for reg in made.registers[first : first + move.registers]]
        first += move.registers
        near = [(text, int(place[0] - other[0])) for other, text in known if len({*(place - other).tolist()}) == 1]
        flip = [f"{text} ^ {place[0] ^ other[0]}" for other, text in known if len({*(place ^ other).tolist()}) == 1]
        if not near:
            text = flip[0] if flip else _offset(body, plain[step], place, mode)
            known.append((place, body.named("offset", "unsigned", text)))
        offset, more = near[0] if near else (known[-1][1], 0)
        address, number = f"[%{len(taken) if load else 0}{f' + {more}' * bool(more)}]", int(not load)
        vector = ", ".join(f"%{at + number}" for at in range(len(taken)))
        vector = vector if used in PLAIN_MOVES and len(taken) == 1 else f"{{{vector}}}"
        ends = [vector, address] if load else [address, vector]
        statement = f"{mnemonic(move, operand)} {', '.join(ends)};"
        inputs = [
            ("unsigned", f"start0 + {offset}"),
            *(() if load else (("unsigned" if made.packed else kind, one) for one in taken)),
        ]
        body.written += _asm([statement], [(kind, one) for one in taken] if load else [], inputs, "memory")
    body.written += [f"{one} <<= {made.shift};" for one in registers if made.shift]
    name = f"{used.replace('.', '_')}_{operand.identifier}_{made.major}" + f"_x{made.count}" * (made.count > 1)
    name += f"_pitch{pitch}" * (made.pitch is not None) + f"_{made.mode}" * (made.mode != "none")
    if through:
        name = f"{used.replace('.', '_')}_{operand.identifier}_in_{through.extents}_{through.tile.mode}"
        name = name.replace(".", "_") + f"_at_{through.named(start)}" * (len(through.starts(made)) > 1)
    argument = _argument(kind if load else f"const {kind}", role, sizes)
    arguments = ["const void* tile", argument] if load else [argument, "void* tile"]
    facts = through.parts() if through else made.parts()
    return _function(facts, name, arguments, body.written, "template <bool bf16 = false>\n" * made.packed)


def _offset(body: Lines, plain: Array, place: Array, mode: Swizzle) -> str:
    """The byte of a tile that each lane names."""
    try:
        as_sum(place)
    except NotASumError:
        row = body.named("row", "unsigned", expression(plain, ["lane"]))
        return f"{row} ^ ({row} >> {mode.shift} & {(1 << mode.bits) - 1 << mode.first:#x})"
    return expression(place, ["lane"])


def _lambda(name: str, inputs: Sequence[str], output: str, ways: Sequence[Sequence[str]], stays: str = "") -> list[str]:
    """A function within the function: what PTX makes of its arguments. Of two ways the first is that of bf16."""
    names = [f"v{at}" for at in range(len(inputs))]
    arguments = ", ".join(map(" ".join, zip(inputs, names, strict=True)))
    operands = [*zip(inputs, names, strict=True)]
    lines, *others = [_asm(way, [(output, "word")], operands, stays) for way in ways]
    for other in others:
        lines = ["if constexpr (bf16)", *map(_indented, lines), "else", *map(_indented, other)]
    lines = [f"{output} word;", *lines, "return word;"]
    return [f"const auto {name} = []({arguments}) {{", *map(_indented, lines), "};"]


def _asm(
    statements: Sequence[str], outputs: Sequence[tuple[str, str]], inputs: Sequence[tuple[str, str]], stays: str
) -> list[str]:
    """Inline PTX with its operands, each a type and what it is. It may be ``volatile``, or use ``memory``, too."""
    first, *others = statements if len(statements) == 1 else ["{", *(f"  {one}" for one in statements), "}"]
    lines = [f'asm{" volatile" * bool(stays)}("{first}"', *(f'    "{one}"' for one in others)]
    for sign, some in (("=", outputs), ("", inputs)):
        lines.append("    : " + ", ".join(f'"{sign}{_LETTERS[kind]}"({text})' for kind, text in some))
    lines[-1] += ' : "memory");' if stays == "memory" else ");"
    return [line.rstrip() for line in lines]


def _indented(line: str) -> str:
    return f"  {line}"


def _type(operand: Fragment) -> str:
    """What a register of an operand is in C++."""
    return _NATIVE.get(operand.type, "unsigned") if operand.slots == 1 else "unsigned"


def _sizes(tiles: Sequence[int], operand: Fragment) -> list[int]:
    """The extents of an array of registers, of tiles where there are several."""
    return [*(count for count in tiles if count > 1), operand.registers]


def _names(name: str, sizes: Sequence[int]) -> list[str]:
    """The elements of an array, the last index fastest."""
    return [name + "".join(f"[{at}]" for at in place) for place in product(*map(range, sizes))]


def _argument(kind: str, name: str, sizes: Sequence[int]) -> str:
    return f"{kind} (&{name}){''.join(f'[{count}]' for count in sizes)}"


def _function(
    facts: Iterable[str | Rows], name: str, arguments: Sequence[str], lines: Sequence[str], template: str = ""
) -> str:
    """A function under a comment; lines are broken where C++ may be."""
    said = report((fact for fact in facts if isinstance(fact, str)), _WIDTH).splitlines()
    listed = ["int lane"] * any(re.search(r"\blane\b", line) for line in lines) + [*arguments]
    head = f"__device__ __forceinline__ void {name}({', '.join(listed)}) {{"
    heads = [head] if len(head) <= _LONGEST else [head[: head.index("(") + 1], f"    {', '.join(listed)}) {{"]
    texts = [*(f"// {line}".rstrip() for line in said), *template.splitlines(), *heads]
    for line in lines:
        texts += [f"  {line}"] if line.lstrip().startswith(("asm", '"')) else _broken(f"  {line}")
    return "\n".join([*texts, "}", ""])


def _broken(line: str) -> list[str]:
    margin = line[: len(line) - len(line.lstrip())]
    return wrapped(line.strip(), _LONGEST, margin + "    ", margin)
