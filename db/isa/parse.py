"""Names of instructions in any text: those in one piece, such as opcodes of SASS, are matched with spellings of forms.

A mnemonic (9.7.16, 9.7.17) may stand alone or as in a kernel: with operands, quotes and line breaks, its tokens in any
order. The tokens that forms have in common are what a name says.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter

from ..errors import LanemapError
from ..text import grouped
from . import data, spelling
from .instructions import INSTRUCTIONS
from .spelling import Tokens, cased, kind_of
from .types import is_shape, known_type, shape_name, types_named
from .vendors import UNKNOWN, VENDORS, vendor_of

_HEADS = "|".join({re.escape(name.partition(".")[0]) for name in INSTRUCTIONS})
_HEAD = re.compile(rf"(?<![\w:.%])(?:{_HEADS})(?![\w:])")
_OPERANDS = re.compile(r'[,;{}()\[\]%&$\\"]')

#: A name in one piece: people write spaces before the numbers and types of an opcode, which has no underscore.
_NAME = re.compile(
    rf"(?<![\w.])#?(?=(?P<underscore>[\w.]*_)?)(?:{'|'.join(filter(None, (row.names for row in VENDORS.values())))})\w*"
    r"(?(underscore)(?:\.\w+)*|(?:(?:\.|\s+(?=\d{3}|\d+x|[bt]?f\d|[sue]\d))\w+)*)(?![\w.])(?:\s*<(?:[^<>]|<[^<>]*>)*>)?",
    re.IGNORECASE,
)
#: Words may begin with underscores, as those of compilers do.
_WORDS = re.compile(r"(?<![\w.:%])[a-z_]\w*(?:\.[\w:]+)*", re.IGNORECASE)


def parse(text: str) -> Tokens | None:
    """The tokens of a spelling with their kinds; None where it is in none of the notations.

    >>> parse("HMMA.16816.F32.BF16")["f32.bf16.bf16.f32"]
    'types'

    Raises:
        LanemapError: it is in one of them and wrong, or the instruction is not covered.
    """
    if (name := _NAME.search(text)) and name[0].lower() not in INSTRUCTIONS and (tokens := _of_name(name[0])):
        rest = text[name.end() :].replace(name[0], "")
        if not re.fullmatch(r"\s+[\w\s.:]*\w\s*", rest):
            return tokens
        if again := _NAME.search(rest):
            raise _several([name[0], again[0]])
        return {**tokens, **_of_mnemonic(rest.lower().split())}
    if mnemonic := find_mnemonic(text):
        return _of_mnemonic(mnemonic.split("."))
    if reason := uncovered(text):
        raise LanemapError(reason)
    return None


def find_mnemonic(text: str) -> str | None:
    """The tokens of the one mnemonic in a text; None where there is none.

    >>> find_mnemonic('asm volatile("ldmatrix.sync.aligned.m8n8.x4"\\n".shared.b16 {%0, %1, %2, %3}, [%4];")')
    'ldmatrix.sync.aligned.m8n8.x4.shared.b16'

    Raises:
        LanemapError: there are several.
    """
    plain = re.sub(r'\\[nt]|[\\"]', " ", text).lower()
    if any(map(is_shape, plain.replace(".", " ").split()[:1])):
        return _without_operands(plain)
    starts = [head.start() for head in _HEAD.finditer(plain)]
    mnemonics = [_without_operands(plain[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=False)]
    shaped = dict.fromkeys(mnemonic for mnemonic in mnemonics if any(map(is_shape, mnemonic.split("."))))
    if len(shaped) > 1:
        raise _several([*shaped])
    return next(iter([*shaped, *mnemonics]), None)


def _several(names: Sequence[str]) -> LanemapError:
    return LanemapError(f"there are {len(names)} instructions, {' and '.join(names[:2])}: name one of them")


def title(text: str) -> str:
    """What to call the instruction in a text in a message: the text itself, or the mnemonic among other code."""
    named = find_mnemonic(text) if _OPERANDS.search(text) and not _NAME.search(text) else None
    return cased(named) if named else " ".join(text.split())


def _without_operands(text: str) -> str:
    """A mnemonic without its operands, with one dot between its tokens."""
    operands = _OPERANDS.search(text)
    mnemonic = text[: operands.start()] if operands else text
    if operands and operands[0] == ",":  # the first operand is a plain name
        mnemonic = mnemonic.rsplit(maxsplit=1)[0]
    return ".".join(mnemonic.replace(".", " ").split())


def _of_mnemonic(tokens: list[str]) -> Tokens:
    """The tokens of a mnemonic. The order of those that are not types, layouts or qualifiers does not matter."""
    text = ".".join(tokens)
    begins = [name for name in INSTRUCTIONS if f"{text}.".startswith(f"{name}.") and not name.endswith(".sp")]
    head = max(begins, key=len, default="")
    if not head and (several := [name for name in INSTRUCTIONS if name.startswith(f"{tokens[0]}.")]):
        raise LanemapError(uncovered(text) or f"there is no {text}: choose from {', '.join(several)}")
    rest = tokens[len(head.split(".")) * bool(head) :]
    kinds: list[tuple[str, str]] = []
    for token in rest:
        kind = kind_of(token)
        if kind == "sparse" and f"{head}.sp" in INSTRUCTIONS:
            head += ".sp"
            # Without the rest of a mnemonic it is a part of the name, as in mma.sp m16n8k16.
            kind = kind if "::" in token or "sync" in rest else ""
        elif not kind:
            spelt = ".".join(takewhile(lambda token: not is_shape(token), tokens))
            if token is rest[0] and not types_named(token) and (reason := uncovered(spelt)):
                raise LanemapError(reason)
            type_, more = known_type(token, spelling.KINDS)
            if type_ != token and "sync" in rest:  # other names of types are for people, and not for the assembler
                raise LanemapError(f"{token!r} is not a type of PTX: write {type_}")
            kinds += [(type_, "implied"), (more, kind_of(more))] if more else [(type_, "types")]
        kinds += [(shape_name(token) if kind == "shape" else token, kind)] if kind else []
    # Who says mxf4 may say e2m1, too, and means the same operand.
    implied = [pair for pair in kinds if pair[1] != "implied" or (pair[0], "types") not in kinds]
    kinds = [(token, "types" if kind == "implied" else kind) for token, kind in implied]
    alone = (pair for pair in kinds if pair[1] not in ("role", *spelling.ORDERED))
    if both := next((pairs for pairs in grouped(alone, itemgetter(1)).values() if len(pairs) > 1), None):
        raise LanemapError(f"{cased(text)} has {' and '.join(f'.{cased(token)}' for token, _ in both)}: write one")
    return spelling.joined([*kinds, *([(head, "instruction")] if head else [])])


@lru_cache(1000)
def _of_name(name: str) -> Tokens | None:
    """A name in one piece, and what the forms that are spelt so have in common; None where it may be of an import."""
    request = {name: "spelling"} | {shape_name(shape): "shape" for shape in re.findall(r"\d+x\d+x\d+", name)[:1]}
    forms = spelling.candidates(request)
    if not forms:
        if vendor_of(name) is not UNKNOWN:
            return None
        from .not_found import no_spelling

        raise LanemapError(uncovered(name) or no_spelling(name))
    if "_" not in name and forms[0].instruction.multiplies and len({form.shape for form in forms}) > 1:
        raise LanemapError(f"{name} does not name a shape: write it like {spelling.opcode(forms[0])}")
    common = dict(set.intersection(*({*spelling.tokens(form).items()} for form in forms)))
    types = "types" if "types" in common.values() else "type"
    kinds = {"instruction", "shape", "layouts", "qualifiers", types, *spelling.MODIFIERS}
    if role := spelling.spelt_so(name, forms)[1]:
        request[role.lower()] = "role"
    return request | {token: kind for token, kind in common.items() if kind in kinds}


def uncovered(text: str) -> str | None:
    """That the first instruction in a text is not covered, and why; None where it is none of these.

    >>> uncovered("fma.rn.f32 %f1, %f2, %f3, %f4;")
    'fma.rn.f32 is not covered: each thread has values of its own, and no matrix is spread over lanes'
    """
    for name in _WORDS.finditer(text):
        whole = "." in name[0] or re.match(r"sm\d+_", name[0].lower()) or name[0] == text.strip()
        for reason, heads in data("words")["uncovered"].items() if whole else ():
            if re.compile(rf"(?i:{heads.replace(' ', '|')})(?!\w)").match(text, name.start()):
                return f"{name[0]} is not covered: {reason}"
    return None
