"""Opcodes as the disassembler lists them (SASS), in the words of a mnemonic. Learned from what ptxas assembles.

An opcode says less than a mnemonic: its first letter stands for types that it leaves out.
"""

from __future__ import annotations

import re

from ..errors import LanemapError
from ..instructions import WARPGROUP, Form, computations, element_bits
from .types import known_type, shape_name

_PRODUCT = re.compile(r"(?<![\w.])(?P<letter>[HIQOBD])(?P<group>G?)MMA(?P<words>(?:\.\w+)*)(?![\w.])", re.IGNORECASE)
_MATRIX_MOVE = re.compile(
    r"(?<![\w.])(LDSM|STSM|MOVM)\.(16|8|U4x16P64TO8|U6x16P32TO8)\.(M88|MT88|M816|MT1616|MT168)(?:\.(\d+))?(?![\w.])",
    re.IGNORECASE,
)
#: The shape of each matrix; the letter T says that it is transposed.
_MATRICES = {"M88": "m8n8", "MT88": "m8n8", "M816": "m8n16", "MT1616": "m16n16", "MT168": "m16n8"}
_ELEMENTS = {"16": "b16", "8": "b8", "U4X16P64TO8": "b8x16 b4x16_p64", "U6X16P32TO8": "b8x16 b6x16_p32"}
_TENSOR_MEMORY = re.compile(r"(?<![\w.])(LDT|STT)M(?:\.16dp(64|128|256)bit)?(?:\.x(\d+))?(?![\w.])", re.IGNORECASE)
_NO_REGISTERS = re.compile(r"(?<![\w.])UT(?:C?[HQIO]MMA|(CCP))(?!\w)", re.IGNORECASE)

_DIGITS = re.compile(r"(16|8)(8)(\d{1,3})")
_QUALIFIERS = {each: each for each in ("ue4m3", "and", "xor", "popc")}
_QUALIFIERS |= {"sf": "block_scale", "e8": "ue8m0", "ue8": "ue8m0", "4x": "scale_vec::4x", "sat": "satfinite"}
_IGNORED = {"step0", "step1", "step2", "step3"}

#: How many block scales there are where an opcode has them without a number.
_SCALES = {"O": "scale_vec::2x", "Q": "scale_vec::1x"}

#: The multiplied type that an opcode does not give, and the accumulator that it never gives.
_MULTIPLIED = {"H": "f16", "B": "b1", "D": "f64"}
_ACCUMULATOR = {"I": "s32", "B": "s32", "D": "f64"}
_BYTE = 8
_LETTERS = {
    **dict.fromkeys(("f16", "bf16", "tf32"), "H"),
    **dict.fromkeys(("s8", "u8", "s4", "u4"), "I"),
    "b1": "B",
    "f64": "D",
}


def mnemonic(text: str) -> str | None:
    """The words of the mnemonic that an opcode in the text stands for; None where there is no opcode in it.

    >>> mnemonic("@P0 HMMA.16816.F32.BF16 R4, R8, R12, R4 ;")
    'mma.m16n8k16.f32.bf16.bf16.f32'

    Raises:
        LanemapError: the opcode names no shape, or has a word that is not a type.
    """
    readers = (
        (_PRODUCT, _product),
        (_MATRIX_MOVE, _matrix_move),
        (_TENSOR_MEMORY, _tensor_memory),
        (_NO_REGISTERS, lambda opcode: ["tcgen05", "cp" if opcode[1] else "mma"]),
    )
    for pattern, words in readers:
        if found := pattern.search(text):
            return ".".join(filter(None, words(found)))
    return None


def product(text: str) -> tuple[str, ...]:
    """The words of the opcode of a product in a text, as ``opcode`` has them; it may leave some out.

    >>> product("HMMA.16816.F32.BF16 R4, R8, R12, R4")
    ('HMMA', 'm16n8k16', 'F32', 'BF16')
    """
    found = _PRODUCT.search(text)
    if found is None:
        return ()
    _, *words = found["words"].upper().split(".")
    shapes = {word: _shape(word) for word in words}
    named = [shapes[word] or {"UE8": "E8"}.get(word, word) for word in words if word.lower() not in (*_IGNORED, "sat")]
    return f"{found['letter']}{found['group']}MMA".upper(), *named


def opcode(form: Form) -> tuple[str, ...]:
    """The words of the opcode that a form is assembled to, also for mixed types. The shape is as in a mnemonic."""
    packed = element_bits(form.name, form.shape, form.a) < _BYTE
    letter = _LETTERS.get(form.a, "O" if packed else "Q")
    group = "G" * (form.threads == WARPGROUP)
    words = [f"{letter}{group}MMA", *["SF"] * (form.scale is not None), *["SP"] * form.sparse, form.shape]
    if letter not in _ACCUMULATOR:
        words += [form.d, form.c] if computations(form.name, form.shape, form.a) > 1 else [form.d]
    if letter in "IQO":
        words += [form.a, form.b]
    elif letter == "H" and form.a != "f16":
        words += [form.a]
    elif letter == "B":
        words += form.suffix.split(".")[1:]
    if form.scale is not None:
        words += [form.suffix[1:].replace("ue8m0", "e8"), *["4x"] * ("::4X" in form.kind)]
    return tuple(word if word == form.shape else word.upper() for word in words)


def opcode_name(form: Form) -> str:
    """The same as the disassembler writes it: the shape in numbers, with an x between those of GMMA and most DMMA."""
    words = opcode(form)
    crosses = words[0].endswith("GMMA") or (words[0] == "DMMA" and form.shape != "m8n8k4")
    numbers = ("x" if crosses else "").join(re.findall(r"\d+", form.shape))
    return ".".join(numbers if word == form.shape else word for word in words)


def _shape(word: str) -> str:
    """The shape that a word of an opcode is; nothing where it is another word."""
    digits = _DIGITS.fullmatch(word)
    named = shape_name("x".join(digits.groups()) if digits else word)
    return named if named != word.lower() else ""


def _product(opcode: re.Match[str]) -> list[str]:
    letter, group, shape = opcode["letter"].upper(), bool(opcode["group"]), ""
    types: list[str] = []
    qualifiers: list[str] = []
    words = opcode["words"].lower().split(".")[1:]
    for word in words:
        if named := _shape(word):
            shape = named
        elif word in _QUALIFIERS:
            qualifiers.append(_QUALIFIERS[word])
        elif word not in _IGNORED and word != "sp":
            types.append(known_type(word)[0])
    if "sf" in words and "4x" not in words:
        qualifiers.append(_SCALES.get(letter, ""))
    if not shape:
        raise LanemapError(f"{opcode[0]} does not name a shape: write it like HMMA.16816.F32.BF16")
    if letter not in _MULTIPLIED and not types:
        raise LanemapError(f"{opcode[0]} does not name the types of A and B: write it like IMMA.16832.S8.S8")
    name = ["wgmma.mma_async" if group else "mma", "sp" if "sp" in words else "", shape]
    return name + _types(letter, types, group=group) + qualifiers


def _types(letter: str, types: list[str], *, group: bool) -> list[str]:
    """The types in the order of a mnemonic. An opcode gives the accumulators before what is multiplied."""
    accumulators = (
        [_ACCUMULATOR[letter]] if letter in _ACCUMULATOR else [each for each in types if each in ("f16", "f32")]
    )
    multiplied = [each for each in types if each not in accumulators] or [_MULTIPLIED.get(letter, "")]
    if not accumulators:
        return multiplied[:1]
    last = [] if group else accumulators[-1:]
    return [accumulators[0], multiplied[0], multiplied[-1], *last]


def _matrix_move(opcode: re.Match[str]) -> list[str]:
    move, element, matrix = (opcode[group].upper() for group in (1, 2, 3))
    name = {"LDSM": "ldmatrix", "STSM": "stmatrix", "MOVM": "movmatrix"}[move]
    count = "" if name == "movmatrix" else f"x{opcode[4] or 1}"
    return [name, _MATRICES[matrix], count, "trans" if "T" in matrix else "", *_ELEMENTS[element].split()]


def _tensor_memory(opcode: re.Match[str]) -> list[str]:
    move = {"LDT": "ld", "STT": "st"}[opcode[1].upper()]
    return ["tcgen05", move, f"16x{opcode[2]}b" if opcode[2] else "32x32b", f"x{opcode[3] or 1}", "b32"]
