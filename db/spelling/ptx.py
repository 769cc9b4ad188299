"""PTX mnemonics (9.7.14, 9.7.15), alone or as they stand in a kernel: with operands, quotes and line breaks."""

from __future__ import annotations

import re

from ..errors import LanemapError
from .name import Name
from .types import is_shape, known_type, shape_name

_HEAD = re.compile(r"(?<![\w:.%])(?:mma|wgmma|wmma|ldmatrix|stmatrix|movmatrix|tcgen05)(?![\w:])")
_OPERANDS = re.compile(r"[,;{}()\[\]%&$]")
_SEPARATOR = re.compile(r"[\s.]+")

#: Words that tell no layouts apart: who executes, how results are rounded, which memory is read, and from which 4- or
#: 6-bit format bytes are made.
_IGNORED = {"sync", "aligned", "shared", "shared::cta", "global", "satfinite", "b6x16_p32", "b4x16_p64"}
_SPARSE = ("sp", "sp::ordered_metadata")
_MODIFIER = re.compile(r"kind::\w+|scale_vec::[124]x|block_scale|ue8m0|ue4m3|xor|and|popc")
#: How many block scales a kind has that does not say it (9.7.14.5.14).
_SCALES = {"kind::mxf8f6f4": "scale_vec::1x", "kind::mxf4": "scale_vec::2x"}
_QUALIFIER = re.compile(r"x\d+|trans|pack::16b|unpack::16b|(?:byte|thread)_id::[0-3]")


def mnemonic(text: str) -> str | None:
    """The words of the one mnemonic in a text; None where there is none.

    >>> mnemonic('asm volatile("ldmatrix.sync.aligned.m8n8.x4"\\n".shared.b16 {%0, %1, %2, %3}, [%4];")')
    'ldmatrix.sync.aligned.m8n8.x4.shared.b16'

    Raises:
        LanemapError: there are several.
    """
    plain = re.sub(r'\\[nt]|[\\"]', " ", text).lower()
    if is_shape(_SEPARATOR.split(plain.strip(), maxsplit=1)[0]):
        return _words(plain)
    starts = [head.start() for head in _HEAD.finditer(plain)]
    found = [_words(plain[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=False)]
    shaped = dict.fromkeys(each for each in found if any(map(is_shape, each.split("."))))
    if len(shaped) > 1:
        raise LanemapError(f"there are {len(shaped)} instructions, {' and '.join([*shaped][:2])}: name one of them")
    return next(iter([*shaped, *found]), None)


def _words(text: str) -> str:
    """A mnemonic without its operands, with one dot between its words."""
    operands = _OPERANDS.search(text)
    words = text[: operands.start()] if operands else text
    if operands and operands[0] == ",":  # the first operand is a plain name
        words = words.rsplit(maxsplit=1)[0]
    return ".".join(filter(None, _SEPARATOR.split(words)))


def read(words: str) -> Name:
    """What the words of a mnemonic say. Their order matters only among types.

    Raises:
        LanemapError: a word is none of PTX's, or the instruction holds no matrix in registers; says which.
    """
    head, *rest = words.split(".")
    if is_shape(head):
        head, rest = "", [head, *rest]
    elif head in ("tcgen05", "wgmma"):
        head, rest = _asynchronous(head, rest)
    role = None
    if head == "wmma" and rest[:1] in (["load"], ["store"]):
        role, rest = rest[1].upper() if len(rest) > 1 and rest[1] in "abcd" else None, rest[2:]
    found: dict[str, list[str]] = {"shape": [], "layouts": [], "modifiers": [], "qualifiers": [], "types": []}
    for word in rest:
        if word in _SPARSE:
            head = head.removesuffix(".sp") + ".sp"
        elif word not in _IGNORED and not (word == "mma" and head == "wmma"):
            kind, value, more = _classified(word, words)
            found[kind].append(value)
            found["modifiers"] += [more] if more else []
    if len(found["shape"]) > 1:
        raise LanemapError(f"{words} has {len(found['shape'])} shapes: name one instruction")
    types, modifiers = found["types"], found["modifiers"]
    if "block_scale" in modifiers and not any(each.startswith("scale_vec") for each in modifiers):
        modifiers += [_SCALES[each] for each in modifiers if each in _SCALES]
    return Name(
        instruction=head or None,
        shape=next(iter(found["shape"]), None),
        role=role,
        type=types[0] if len(types) == 1 else None,
        types=_by_role(types, head, words),
        layouts=tuple(found["layouts"]),
        qualifiers=".".join(found["qualifiers"]) or None,
        modifiers=frozenset(modifiers),
    )


def _asynchronous(head: str, rest: list[str]) -> tuple[str, list[str]]:
    """The name of an instruction that has its verb in its second word."""
    verb = rest[0] if rest else ""
    if (head == "wgmma" and verb in ("mma_async", "sync", "sp", "")) or is_shape(verb):
        return head, [word for word in rest if word != "mma_async"]
    if head == "tcgen05" and verb in ("ld", "st"):
        return f"{head}.{verb}", rest[1:]
    if head == "tcgen05" and verb in ("mma", "cp", "shift"):
        raise LanemapError(f"tcgen05.{verb} keeps its operands in Tensor Memory and has no registers")
    if not verb:
        raise LanemapError(f"{head} names several instructions: choose one, such as tcgen05.ld")
    raise LanemapError(f"{head}.{verb} holds no matrix in registers")


def _classified(word: str, words: str) -> tuple[str, str, str | None]:
    """What kind of word it is, how PTX spells it, and the modifier that it implies."""
    if is_shape(word):
        return "shape", shape_name(word), None
    if word in ("row", "col"):
        return "layouts", word, None
    for kind, pattern in (("modifiers", _MODIFIER), ("qualifiers", _QUALIFIER)):
        if pattern.fullmatch(word):
            return kind, word, None
    try:
        return "types", *known_type(word, (*_SPARSE, *_IGNORED))
    except LanemapError as error:
        raise LanemapError(f"cannot read {words}: {error}") from None


def _by_role(types: list[str], head: str, words: str) -> dict[str, str]:
    """Which role has which type: mnemonics name those of D, A, B and C in this order."""
    if len(types) < 2:
        return {}
    if len(types) == 4:
        return dict(zip("DABC", types, strict=True))
    if len(types) == 3 and head in ("wgmma", "wgmma.sp"):
        return dict(zip("DAB", types, strict=True))
    if len(types) == 2 and head == "wmma":  # with f16, it names only the accumulators
        return {"D": types[0], "A": "f16", "B": "f16", "C": types[1]}
    raise LanemapError(f"{words} has {len(types)} types: write those of D, A, B and C, or only that of A and B")
