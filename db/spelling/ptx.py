"""PTX mnemonics (9.7.14, 9.7.15), alone or as they stand in a kernel: with operands, quotes and line breaks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import LanemapError
from ..instructions import TYPES
from .name import Name
from .types import is_shape, known_type, shape_name, type_name
from .uncovered import uncovered

_HEAD = re.compile(r"(?<![\w:.%])(?:mma|wgmma|wmma|ldmatrix|stmatrix|movmatrix|tcgen05)(?![\w:])")
_OPERANDS = re.compile(r"[,;{}()\[\]%&$]")
_SEPARATOR = re.compile(r"[\s.]+")

#: Words that tell no layouts apart: who executes, how results are rounded, and which memory is read.
_OPTIONS = ("sync", "aligned", "shared", "shared::cta", "global", "satfinite", "rn", "rz", "rm", "rp")
_SPARSE = ("sp", "sp::ordered_metadata")
_MODIFIER = re.compile(r"kind::\w+|scale_vec::\d+x|block_scale|ue8m0|ue4m3|xor|and|popc|b6x16_p32|b4x16_p64")
#: Words of which a mnemonic has one.
ALTERNATIVES = (
    {"xor", "and"},
    {"ue8m0", "ue4m3"},
    {"b6x16_p32", "b4x16_p64"},
    {"load", "store", "mma"},
    {"shared", "shared::cta", "global"},
    {"rn", "rz", "rm", "rp"},
    {*_SPARSE},
)
#: How many block scales a kind has that does not say it (9.7.14.5.14).
_SCALES = {"kind::mxf8f6f4": "scale_vec::1x", "kind::mxf4": "scale_vec::2x"}
_VERBS = {"wmma": ("load", "store", "mma"), **dict.fromkeys(("wgmma", "wgmma.sp"), ("mma_async",))}
_COUNT = re.compile(r"x\d+")
_QUALIFIER = re.compile(r"x\d+|trans|pack::16b|unpack::16b|(?:byte|thread)_id::\d+")


#: The last byte, or lane of a quad, that block scales may be in (9.7.14.3).
_LAST_ID = 3

#: What a word that is not a type may have been meant for.
_NO_TYPES = (*_SPARSE, *_OPTIONS, *_VERBS["wmma"], "trans", "block_scale")


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


def is_alone(text: str) -> bool:
    """Whether a text is a mnemonic, or some words of one, without anything around it."""
    return not re.search(r'[\\"\n]', text) and not _OPERANDS.search(text)


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
        LanemapError: a word is none of PTX's, or the instruction is not covered; says which.
    """
    head, *rest = words.split(".")
    if is_shape(head):
        head, rest = "", [head, *rest]
    elif head in ("tcgen05", "wgmma"):
        head, rest = _asynchronous(head, rest)
    role = None
    if head == "wmma" and rest[:1] in (["load"], ["store"]) and rest[1:] and rest[1] in "abcd":
        role = rest.pop(1).upper()
    head, types, found = _by_kind(head, rest)
    _check_once(words, rest, found)
    modifiers = found["modifiers"]
    if "block_scale" in modifiers and not any(each.startswith("scale_vec") for each in modifiers):
        modifiers += [_SCALES[each] for each in modifiers if each in _SCALES]
    return Name(
        instruction=head or None,
        shape=next(iter(found["shape"]), None),
        role=role,
        type=types[0] if len(types) == 1 else None,
        types=_by_role(types, head, words),
        layouts=tuple(found["layouts"]),
        qualifiers=".".join(sorted(found["qualifiers"], key=lambda word: not _COUNT.fullmatch(word))) or None,
        modifiers=frozenset(modifiers),
        options=frozenset(found["options"]),
    )


def _by_kind(head: str, rest: Sequence[str]) -> tuple[str, list[str], dict[str, list[str]]]:
    """The instruction, the types, and the other words by their kinds."""
    found: dict[str, list[str]] = {kind: [] for kind in ("shape", "layouts", "modifiers", "qualifiers", "options")}
    types: list[str] = []
    for word in rest:
        if word in _SPARSE:
            sparse = head.removesuffix(".sp") in ("mma", "wgmma")
            head = head.removesuffix(".sp") + ".sp" if sparse else head
            # Without the rest of a mnemonic it is a part of the name, as in mma.sp m16n8k16.
            found["options"] += [word] if "::" in word or "sync" in rest or not sparse else []
        elif kind := _kind(word, head):
            found[kind].append(shape_name(word) if kind == "shape" else word)
        else:
            type_, more = known_type(word, _NO_TYPES)
            if type_ != word and "sync" in rest:  # other names of types are for people, and not for the assembler
                raise LanemapError(f"{word!r} is not a type of PTX: write {type_}")
            types.append(type_)
            found["modifiers"] += [more] if more else []
    return head, types, found


def _check_once(words: str, rest: Sequence[str], found: Mapping[str, Sequence[str]]) -> None:
    for word in (*found["modifiers"], *found["qualifiers"], *found["options"], *_SPARSE):
        if rest.count(word) > 1:
            raise LanemapError(f"{cased(words)} has .{cased(word)} twice: write it once")
    for choice in ALTERNATIVES:
        if len(both := sorted(choice & {*rest})) > 1:
            raise LanemapError(f"{cased(words)} has .{both[0]} and .{both[1]}: write one of them")
    for word in found["qualifiers"]:
        if "_id::" in word and int(word.rpartition(":")[2]) > _LAST_ID:
            raise LanemapError(f"there is no {word}: it goes from 0 to {_LAST_ID}")
    if len(found["shape"]) > 1:
        raise LanemapError(f"{words} has {len(found['shape'])} shapes: name one instruction")


def cased(words: str) -> str:
    """Words in small letters as PTX spells them, which has one capital letter.

    >>> cased("mma.block_scale.scale_vec::2x")
    'mma.block_scale.scale_vec::2X'
    """
    return re.sub(r"(scale_vec::\d)x", r"\1X", words)


def _asynchronous(head: str, rest: list[str]) -> tuple[str, list[str]]:
    """The name of an instruction that has its verb in its second word."""
    verb = rest[0] if rest else ""
    if is_shape(verb) or (head == "wgmma" and (verb in ("mma_async", "sync", "sp", "") or type_name(verb)[0] in TYPES)):
        return head, rest
    if head == "tcgen05" and verb in ("ld", "st") and rest[1:2] != ["red"]:
        return f"{head}.{verb}", rest[1:]
    if not verb:
        raise LanemapError(f"{head} names several instructions: choose one, such as tcgen05.ld")
    right = ".ld or .st" if head == "tcgen05" else ".mma_async"
    raise LanemapError(uncovered(".".join((head, *rest))) or f"{head} has no .{verb}: write {right}")


def _kind(word: str, head: str) -> str:
    """What kind of word it is; nothing where it can only be a type."""
    if is_shape(word):
        return "shape"
    if word in ("row", "col"):
        return "layouts"
    if word in _OPTIONS or word in _VERBS.get(head, ()):
        return "options"
    return "modifiers" if _MODIFIER.fullmatch(word) else "qualifiers" if _QUALIFIER.fullmatch(word) else ""


def _by_role(types: list[str], head: str, words: str) -> dict[str, str]:
    """Which role has which type: mnemonics name those of D, A, B and C in this order, or only one."""
    if len(types) < 2:
        return {}
    if head in ("wgmma", "wgmma.sp") and len(types) == 3:
        return dict(zip("DAB", types, strict=True))
    if head == "wmma" and len(types) == 2:  # with f16, it names only the accumulators
        return {"D": types[0], "A": "f16", "B": "f16", "C": types[1]}
    if head in ("", "mma", "mma.sp", "wmma") and len(types) == 4 and not (head == "wmma" and types[1] == "f16"):
        return dict(zip("DABC", types, strict=True))
    right = {"wgmma": "D, A and B", "wgmma.sp": "D, A and B", "wmma": "D, A, B and C, and with f16 of D and C"}
    several = f"those of {right.get(head, 'D, A, B and C')}, or only that of A and B"
    moves = head in ("ldmatrix", "stmatrix", "movmatrix", "tcgen05.ld", "tcgen05.st")
    raise LanemapError(f"{words} has {len(types)} types: write {'one' if moves else several}")
