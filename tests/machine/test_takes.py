"""What the table says that instructions take is what ptxas takes, but for exceptions that have a reason."""

import re

import numpy as np
import pytest

from lanemap.capture.machine import opcodes
from lanemap.capture.machine.ptx import TYPE, bits_of

from ..assembler import refused
from ..modes import LONG

#: Words that ptxas knows, too, of one instruction or another.
OTHERS = ["oob", "rs", "sat", "ftz", "relu", "rn", "cc"]
#: Rows without words that only steps know.
ROWS = {name: rows for name, rows in opcodes.TAKES.items() if "*" not in " ".join(row.words for row in rows)}
#: What ptxas refuses and the table takes: a range that is kept and no narrower, and words in another order.
MORE_HERE = (
    r"cvt\.(sat\.)?[us]\d+\.(sat\.)?[us]\d+|cvta\..*\.to\..*"
    r"|(mad|madc|mad24|shf|dp2a)\.(cc|sat|wrap|clamp|u32|s32)\..*"
)
#: What ptxas takes and the machine does not know: results of what is out of bounds, rounding by chance, carries of 16
#: bits, ranges kept with a carry, a test of nothing, comparisons of wide numbers as halves, and infinities made finite.
MORE_THERE = r"fma\..*oob.*|cvt\..*(rs|bf16x2.*satfinite|satfinite.*bf16x2).*|(add|sub|mad)c\..*(sat|[us]16).*"
MORE_THERE += r"|testp\.f\d\d|set\..*(f16|[us]16)\..*"


def candidates(name, random, count):
    """Instructions with the words of a row or nearly so, of a type that the name has, and how many operands."""
    rows = ROWS[name]
    vocabulary = [word for row in rows for group in row.words.split() for word in group.strip("[+]").split("|")]
    types = [type_ for row in rows for type_ in row.types]
    for _ in range(count):
        row = random.choice(np.array(rows, object))
        words = [random.choice(group.strip("[+]").split("|")) for group in row[2].split() if random.random() < 0.8]
        if random.random() < 0.2:
            words.insert(random.integers(len(words) + 1), random.choice(vocabulary + OTHERS))
        if len({*words}) < len(words):
            continue  # ptxas does not mind
        type_ = random.choice(row[3] if random.random() < 0.8 else types)
        yield (name, *map(str, words), str(type_)), int(random.integers(row[0], row[1] + ("+" in row[2]) + 1))


def register(type_):
    """A register as wide as ptxas wants it for a type."""
    if re.fullmatch(r"u?e\dm\dx2", type_):
        return "%c" if type_ == "e2m1x2" else "%h"
    if not TYPE.fullmatch(type_):
        return "%r0"
    return (
        "%r0" if type_ in ("u8", "s8") else {1: "%q", 8: "%c", 16: "%h", 32: "%r0", 64: "%l"}.get(bits_of(type_), "%r0")
    )


def line(parts, count):
    """An instruction with operands of its type, but for those that have another one."""
    name, *words, type_ = parts
    operands = [register(type_)] * count
    places = {"shl": {2: "%r0"}, "shr": {2: "%r0"}, "bfe": {2: "%r0", 3: "%r0"}, "bfi": {3: "%r0", 4: "%r0"}}
    places |= {"popc": {0: "%r0"}, "clz": {0: "%r0"}, "bfind": {0: "%r0"}, "testp": {0: "%q"}, "selp": {3: "%q"}}
    places |= {"lop3": {0: "%r0|%q", 4: "9", 5: "%q"} if count == 6 else {4: "9"}, "setp": {0: "%q", 3: "%q"}}
    places |= {"shfl": {3: "31", 4: "-1"}, "match": {0: "%r0", 2: "-1"}, "redux": {2: "-1"}, "mapa": {2: "0"}}
    if name in ("set", "slct", "cvt"):
        own = next((word for word in reversed(words) if TYPE.fullmatch(word) or re.search(r"\dx2$", word)), type_)
        places |= {"set": {0: register(own), 3: "%q"}, "slct": dict.fromkeys((0, 1, 2), register(own))}
        places |= {"cvt": {0: "%r0" if "pack" in words else register(own)}}
    if "wide" in words:
        wide = {"%h": "%r0", "%r0": "%l"}.get(operands[0], "%l")
        places |= {name: {0: wide, 3: wide}}
    operands = [places.get(name, {}).get(place, operand) for place, operand in enumerate(operands)]
    if words and words[-1] in ("v2", "v4"):
        operands = [f"{{{', '.join([operand] * int(words[-1][1]))}}}" for operand in operands]
    return f"{{ .reg .pred %q; .reg .b8 %c; .reg .b16 %h; .reg .b64 %l; {'.'.join(parts)} {', '.join(operands)}; }}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_the_words_of_an_instruction_are_those_that_ptxas_takes(tmp_path, seed):
    random = np.random.default_rng(seed)
    given = {line(*each): each for name in ROWS for each in candidates(name, random, 1200 if name == "cvt" else 120)}
    there = refused([*given], "sm_100a", tmp_path)
    there = refused([*there], "sm_120a", tmp_path)
    wrong = []
    for text, (parts, count) in given.items():
        here, opcode = opcodes.refused(parts, count), ".".join(parts)
        known = MORE_THERE if here else MORE_HERE
        if bool(here) != (text in there) and not re.fullmatch(known, opcode):
            wrong.append((opcode, count, here, there.get(text)))
    assert wrong == []
