"""Atoms of CuTe, in the words of a mnemonic: ``SM80_16x8x16_F32BF16BF16F32_TN``, ``SM75_U32x4_LDSM_N`` and the like."""

from __future__ import annotations

import re

from ..errors import LanemapError
from .types import shape_name, type_name

_PRODUCT = re.compile(
    r"(?<![A-Za-z0-9_])(?:SM\d+_(?:MMA_)?|(?P<gmma>G?)MMA_)(?P<sparse>SPARSE_)?(?P<shape>(?:8|16|64)x\d+x\d+)"
    r"(?P<words>(?:_[A-Z0-9]+)*)(?:\s*<(?P<arguments>[^<>]*)>)?"
)
_TYPE = re.compile(r"TF32|BF16|F64|F32|F16|S32|S8|U8|S4|U4|U1|E[2-5]M[0-3]|G?C64")
_MATRIX_MOVE = re.compile(r"(?<!\w)SM\d+_U(16|32)x(\d)_(LDSM|STSM|MOVM)_([NT])(?!\w)")
_BYTES = re.compile(r"(?<!\w)SM100_U8x(\d+)_(LDSM|STSM)_T(?!\w)")
_NARROW = re.compile(r"(?<!\w)SM100_SU([46])_DU8x16_(x[124])_LDSM_N(?!\w)")
_TENSOR_MEMORY = re.compile(r"(?<!\w)SM100_TMEM_(LOAD|STORE)_(16|32)dp(\d+)b(\d+)x(_16b)?(?!\w)")
_NO_REGISTERS = re.compile(r"(?<!\w)SM1\d\d_(?:(UTCCP)|MMA|MXF4)_\w+")
_OTHER = re.compile(r"(?<!\w)SM\d{2,3}_[A-Za-z0-9_]+")

_LAYOUT = {"T": "row", "N": "col"}
_QUALIFIERS = {"XORPOPC": ["xor", "popc"], "ANDPOPC": ["and", "popc"]}
_MOVE = {"LDSM": "ldmatrix", "STSM": "stmatrix"}


def mnemonic(text: str) -> str | None:
    """The words of the mnemonic that an atom in the text stands for; None where there is no atom in it.

    >>> mnemonic("MMA_Atom<SM80_16x8x16_F32BF16BF16F32_TN>")
    'mma.m16n8k16.row.col.f32.bf16.bf16.f32'

    Raises:
        LanemapError: the atom has no operands in registers that a layout could be of.
    """
    readers = (
        (_PRODUCT, _product),
        (_MATRIX_MOVE, _matrix_move),
        (_BYTES, _bytes),
        (_NARROW, _narrow),
        (_TENSOR_MEMORY, _tensor_memory),
        (_NO_REGISTERS, lambda atom: ["tcgen05", "cp" if atom[1] else "mma"]),
    )
    for pattern, words in readers:
        if found := pattern.search(text):
            return ".".join(filter(None, words(found))).lower()
    if other := _OTHER.search(text):
        raise LanemapError(
            f"{other[0]} is not an atom with matrices in registers: name an mma, a matrix move or tcgen05.ld"
        )
    return None


def multiplies_from_memory(text: str) -> bool:
    """Whether an atom in the text takes A from shared memory too: a word ``SS`` says that both are there.

    >>> multiplies_from_memory("SM90_64x128x16_F32F16F16_SS"), multiplies_from_memory("SM90_64x128x16_F32F16F16_RS")
    (True, False)
    """
    atom = _PRODUCT.search(text)
    return atom is not None and "SS" in atom["words"].split("_")


def _product(atom: re.Match[str]) -> list[str]:
    shape, words = shape_name(atom["shape"]), atom["words"].split("_")[1:]
    group = shape.startswith("m64")
    types = [each for word in words for each in _TYPE.findall(word)]
    if any(each.endswith("C64") for each in types):
        raise LanemapError(f"{atom[0]} multiplies complex numbers with f64 instructions: name mma {shape} f64")
    qualifiers = [each for word in words for each in _QUALIFIERS.get(word, [])]
    if not types and atom["arguments"]:
        types, scaled = _arguments(atom["arguments"], int(shape.partition("k")[2]))
        qualifiers += scaled
    layouts = [_LAYOUT[letter] for word in words if word in ("TN", "NT", "NN", "TT") for letter in word]
    sparse = atom["sparse"] or atom["gmma"] or "SPARSE::" in atom.string[: atom.start()]
    name = ["wgmma.mma_async" if group else "mma", "sp" if sparse else "", shape]
    return name + ([] if group else layouts) + types[: 3 if group else 4] + qualifiers


def _arguments(text: str, depth: int) -> tuple[list[str], list[str]]:
    """The types of D, A, B and C, and what is said of block scales.

    A template's arguments are the types of A, B, C and scales, and of how many columns of the ``depth`` a scale is.
    """
    names = [type_name(each.rsplit("::", 1)[-1])[0] for each in text.split(",")]
    types = [names[2], *names[:3]] if len(names) > 2 else []
    if len(names) < 4:
        return types, []
    size = int(names[4]) if len(names) > 4 and names[4].isdigit() else 0
    count = [f"scale_vec::{depth // size}x"] if size else []
    return types, ["block_scale", *count, names[3].removeprefix("float_").removesuffix("_t")]


def _matrix_move(atom: re.Match[str]) -> list[str]:
    bits, count, move, layout = atom.groups()
    trans = "trans" if layout == "T" else ""
    if move == "MOVM":
        return ["movmatrix", "m8n8", trans, "b16"]
    return [_MOVE[move], "m8n8", f"x{int(count) * int(bits) // 32}", trans, "b16"]


def _bytes(atom: re.Match[str]) -> list[str]:
    shape, each = {"LDSM": ("m16n16", 8), "STSM": ("m16n8", 4)}[atom[2]]
    return [_MOVE[atom[2]], shape, f"x{int(atom[1]) // each}", "trans", "b8"]


def _narrow(atom: re.Match[str]) -> list[str]:
    return ["ldmatrix", "m8n16", atom[2], "b8x16", {"4": "b4x16_p64", "6": "b6x16_p32"}[atom[1]]]


def _tensor_memory(atom: re.Match[str]) -> list[str]:
    move, lanes, bits, count, half = atom.groups()
    shape = f"{lanes}x{bits}b" + ("x2" if (lanes, bits) == ("16", "32") else "")
    name, packed = ("ld", "pack::16b") if move == "LOAD" else ("st", "unpack::16b")
    return ["tcgen05", name, shape, f"x{count}", packed if half else "", "b32"]
