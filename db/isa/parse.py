"""Names of instructions in any text, taken apart into tokens: mnemonics of PTX, opcodes of SASS, atoms of CuTe.

A mnemonic (9.7.16, 9.7.17) may stand alone or as in a kernel: with operands, quotes and line breaks.
"""

import re
from collections.abc import Mapping
from functools import cache

from ..errors import LanemapError
from . import data, spelling
from .forms import Form
from .instructions import INSTRUCTIONS
from .spelling import Tokens, cased, kind_of
from .types import TYPES, is_shape, known_type, shape_name, type_name
from .vendors import VENDORS

_LAST_ID = 3

_HEADS = "|".join({re.escape(name.partition(".")[0]) for name, row in INSTRUCTIONS.items() if row.register_roles})
#: Of these no mnemonic says which operand is meant: it stands in a tensor map.
_NAMES = "|".join({re.escape(name) for name, row in INSTRUCTIONS.items() if not row.register_roles})
_HEAD = re.compile(rf"(?<![\w:.%])(?:(?:{_HEADS})(?![\w:])|(?:{_NAMES})(?![\w:.]))")
_OPERANDS = re.compile(r"[,;{}()\[\]%&$]")
_SEPARATOR = re.compile(r"[\s.]+")

#: People write spaces before the numbers and types of an opcode.
_OPCODES = "|".join({f"{'[HIQOBD]' * row.multiplies}{row.opcode}" for row in INSTRUCTIONS.values() if row.opcode})
_OPCODE = re.compile(
    rf"(?<![\w.])(?:{_OPCODES})(?:(?:\.|\s+(?=\d{{3}}|\d+x|[BT]?F\d|[SUE]\d))\w+)*(?![\w.])", re.IGNORECASE
)
#: What Triton calls the layout of a dot: of version 2 that of a warp, of version 3 of a warpgroup of four.
_TRITON = re.compile(
    r"#?\bttg?\.nvidia_mma\b(?:[^>]{0,200}?\bversionMajor\s*=\s*(?P<version>\d))?"
    r"(?:[^>]{0,200}?\binstrShape\s*=\s*\[(?P<m>\d{1,4}),\s*(?P<n>\d{1,4}),\s*(?P<k>\d{1,4})\])?"
)
#: Tokens of an opcode that say nothing of a layout, and other spellings of tokens.
_SILENT = ("STEP0", "STEP1", "STEP2", "STEP3", "SAT", "1", "X1")
_SAME = {"UE8": "E8"}

_ATOM = re.compile(
    r"(?<![A-Za-z0-9_])(?:SM\d+_(?:MMA_)?|(?P<gmma>G?)MMA_)(?P<sparse>SPARSE_)?(?P<shape>(?:8|16|64)x\d+x\d+)"
    r"(?P<tokens>(?:_[A-Z0-9]+)*)(?:\s*<(?P<arguments>[^<>]*)>)?"
)
_ATOM_TYPE = re.compile(r"TF32|BF16|F64|F32|F16|S32|S8|U8|S4|U4|U1|E[2-5]M[0-3]|G?C64")
_ATOM_WORDS = {"XORPOPC": "xor popc", "ANDPOPC": "and popc"}
_ATOM_WORDS |= {"TN": "row col", "NT": "col row", "NN": "col col", "TT": "row row"}
_OTHER_ATOM = re.compile(r"(?<!\w)SM\d{2,3}_([A-Za-z0-9_]+)")
#: Opcodes and atoms of tcgen05 that no register has a part in; two copy.
_NO_REGISTERS = re.compile(r"(?<![\w.])(?i:UT(?:C?[HQIO]MMA|(CCP)))(?!\w)|(?<!\w)SM1\d\d_(?:(UTCCP)|MMA|MXF4)_\w+")


def parse(text: str) -> Tokens | None:
    """The tokens of a spelling with their kinds; None where it is in none of the notations.

    >>> parse("HMMA.16816.F32.BF16")["f32.bf16.bf16.f32"]
    'types'

    Raises:
        LanemapError: it is in one of them and wrong, or the instruction is not covered.
    """
    if encoding := _TRITON.search(text):
        warps = 4 if encoding["version"] == "3" else 1
        shape = [f"m{warps * int(encoding['m'])}n{encoding['n']}k{encoding['k']}"] if encoding["k"] else []
        return _of_mnemonic(["wgmma" if warps == 4 else "mma", *shape])
    if product := _ATOM.search(text):
        return _of_mnemonic(_of_atom(product))
    if unsupported := _NO_REGISTERS.search(text):
        raise LanemapError(str(uncovered("tcgen05.cp" if unsupported[1] or unsupported[2] else "tcgen05.mma")))
    if move := _OTHER_ATOM.search(text):
        if form := _move_atoms().get(move[1]):
            return {token: kind for token, kind in spelling.tokens(form).items() if kind not in spelling.OPTIONS}
        raise LanemapError(
            f"{move[0]} is not an atom with matrices in registers: name an mma, a matrix move or tcgen05.ld"
        )
    if mnemonic := find_mnemonic(text):
        return _of_mnemonic(mnemonic.split("."))
    if opcode := _OPCODE.search(text):
        return _of_opcode(opcode[0])
    if words := next(filter(None, map(_of_word, _WORDS.findall(text.lower()))), None):
        return words
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
    if is_shape(_SEPARATOR.split(plain.strip(), maxsplit=1)[0]):
        return _without_operands(plain)
    starts = [head.start() for head in _HEAD.finditer(plain)]
    mnemonics = [_without_operands(plain[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=False)]
    shaped = dict.fromkeys(mnemonic for mnemonic in mnemonics if any(map(is_shape, mnemonic.split("."))))
    if len(shaped) > 1:
        raise LanemapError(f"there are {len(shaped)} instructions, {' and '.join([*shaped][:2])}: name one of them")
    return next(iter([*shaped, *mnemonics]), None)


def title(text: str) -> str:
    """What to call the instruction in a text in a message: the text itself, or the mnemonic among other code."""
    alone = not re.search(r'[\\"\n]', text) and not _OPERANDS.search(text)
    named = None if alone or is_shape(text) or _ATOM.search(text) or _OTHER_ATOM.search(text) else find_mnemonic(text)
    return cased(named) if named else text.strip()


def _without_operands(text: str) -> str:
    """A mnemonic without its operands, with one dot between its tokens."""
    operands = _OPERANDS.search(text)
    mnemonic = text[: operands.start()] if operands else text
    if operands and operands[0] == ",":  # the first operand is a plain name
        mnemonic = mnemonic.rsplit(maxsplit=1)[0]
    return ".".join(filter(None, _SEPARATOR.split(mnemonic)))


def _of_mnemonic(tokens: list[str]) -> Tokens:
    """The tokens of a mnemonic. The order of those that are not types, layouts or qualifiers does not matter."""
    text, (head, *rest) = ".".join(tokens), tokens
    if is_shape(head):
        head, rest = "", tokens
    elif head in ("cp", "tcgen05", "wgmma"):
        head, rest = _with_verb(head, rest)
    kinds: list[tuple[str, str]] = []
    if head == "wmma" and rest[:1] in (["load"], ["store"]) and rest[1:] and rest[1] in "abcd":
        kinds.append((rest.pop(1), "role"))
    for token in rest:
        kind = kind_of(token)
        if kind == "sparse" and head.removesuffix(".sp") in ("mma", "wgmma"):
            head = head.removesuffix(".sp") + ".sp"
            # Without the rest of a mnemonic it is a part of the name, as in mma.sp m16n8k16.
            kind = kind if "::" in token or "sync" in rest else "instruction"
        if kind:
            kinds.append((shape_name(token) if kind == "shape" else token, kind))
            continue
        type_, more = known_type(token, spelling.KINDS)
        if type_ != token and "sync" in rest:  # other names of types are for people, and not for the assembler
            raise LanemapError(f"{token!r} is not a type of PTX: write {type_}")
        kinds += [(type_, "types"), *([(more, kind_of(more))] if more else [])]
    _check_once(text, [*kinds, (head, "instruction")])
    named = [pair for pair in kinds if pair[1] != "instruction"]
    return spelling.joined([*named, *([(head, "instruction")] if head else [])])


def _check_once(text: str, kinds: list[tuple[str, str]]) -> None:
    """Refuse a name that has a token twice, two tokens for one thing, or a number that nothing goes up to."""
    in_order = ("layouts", "qualifiers", "types", "memory")
    tokens = [token for token, kind in kinds if kind not in ("shape", "role", *in_order)]
    if twice := next((token for token in tokens if tokens.count(token) > 1), None):
        raise LanemapError(f"{cased(text)} has .{cased(twice)} twice: write it once")
    for kind in {kind for _, kind in kinds} - {*in_order, "instruction"}:
        conflicting = sorted(token for token, tag in kinds if tag == kind)
        if len(conflicting) > 1 and kind == "shape":
            raise LanemapError(f"{text} has {len(conflicting)} shapes: name one instruction")
        if len(conflicting) > 1:
            raise LanemapError(f"{cased(text)} has .{conflicting[0]} and .{conflicting[1]}: write one of them")
        if kind in spelling.IDS and int(conflicting[0].rpartition(":")[2]) > _LAST_ID:
            raise LanemapError(f"there is no {conflicting[0]}: it goes from 0 to {_LAST_ID}")


def _with_verb(head: str, rest: list[str]) -> tuple[str, list[str]]:
    """The name of an instruction that has its verb in its second token."""
    verb = rest[0] if rest else ""
    for count in (3, 2, 1):
        if (name := ".".join([head, *rest[:count]])) in INSTRUCTIONS and rest[:count] != ["sp"]:
            return name, rest[count:]
    tokens = ("mma_async", "sync", "sp", "")
    if is_shape(verb) or (head == "wgmma" and (verb in tokens or type_name(verb)[0] in TYPES)):
        return head, rest
    if not verb:
        raise LanemapError(f"{head} names several instructions: choose one, such as tcgen05.ld")
    right = ".ld or .st" if head == "tcgen05" else ".mma_async"
    raise LanemapError(uncovered(".".join([head, *rest])) or f"{head} has no .{verb}: write {right}")


def _of_atom(product: re.Match[str]) -> list[str]:
    """The tokens of the mnemonic that an atom of CuTe stands for."""
    shape, parts = shape_name(product["shape"]), product["tokens"].split("_")[1:]
    types = [type_name(name)[0] for token in parts for name in _ATOM_TYPE.findall(token)]
    if any(type_.endswith("c64") for type_ in types):
        raise LanemapError(f"{product[0]} multiplies complex numbers with f64 instructions: name mma {shape} f64")
    more = [part for token in parts for part in _ATOM_WORDS.get(token, "").split()]
    if not types and product["arguments"]:
        # Those of a template are the types of A, B, C and scales, and of how many columns a scale is.
        named = [argument.rsplit("::", 1)[-1].strip() for argument in product["arguments"].split(",")]
        a, b, c = (type_name(argument)[0] for argument in named[:3]) if len(named) > 2 else ("", "", "")
        types = [c, a, b, c] if c else []
        size = int(named[4]) if len(named) > 4 and named[4].isdigit() and len(named[4]) < 5 else 0
        more += ["block_scale"] if len(named) > 3 else []
        more += [f"scale_vec::{int(shape.partition('k')[2]) // size}x"] if size else []
        more += [named[3].removeprefix("float_").removesuffix("_t")] if len(named) > 3 else []
    sparse = product["sparse"] or product["gmma"] or "SPARSE::" in product.string[: product.start()]
    if shape.startswith("m64"):
        more = [part for part in more if part not in ("row", "col")]
        return ["wgmma", "mma_async", *["sp"] * bool(sparse), shape, *types[:3], *more]
    return ["mma", *["sp"] * bool(sparse), shape, *types[:4], *more]


@cache
def _move_atoms() -> dict[str, Form]:
    """The forms of moves by their atoms, without the architecture."""
    moves = [form for form in spelling.every_candidate({}) if form.role]
    return {name.partition("_")[2]: form for form in moves if (name := spelling.atom(form))}


def _of_opcode(text: str) -> Tokens:
    """The tokens of an opcode, and what the forms that are assembled to it have in common."""
    head, *tokens = (_SAME.get(token, token) for token in _SEPARATOR.split(text.upper()))
    meant = [token for token in tokens if token not in _SILENT]
    opcode = [head, *(re.sub(r"[^0-9]", "", token) if is_shape(token) else token for token in meant)]
    request = {".".join(opcode): "opcode"}
    forms = spelling.candidates(request)
    if not forms:
        from .not_found import no_opcode

        raise LanemapError(no_opcode(text, opcode))
    if head.endswith("MMA") and len({form.shape for form in forms}) > 1:
        raise LanemapError(f"{text} does not name a shape: write it like HMMA.16816.F32.BF16")
    same = [form for form in forms if list(spelling.opcode(form)) == opcode] or forms
    common = dict(set.intersection(*({*spelling.tokens(form).items()} for form in same)))
    types = "types" if "types" in common.values() else "type"
    kinds = {"instruction", "shape", "qualifiers", types, *spelling.MODIFIERS}
    return request | {token: kind for token, kind in common.items() if kind in kinds}


def _of_word(word: str) -> Tokens | None:
    """The tokens of a name that is one word, in machine code or in C++; None where it is that of no form."""
    vendor = next((vendor for vendor in VENDORS.values() if vendor.intrinsic and vendor.intrinsic in word), None)
    word = word.replace(vendor.intrinsic, vendor.opcode) if vendor else word
    name = next((name for name in INSTRUCTIONS if word.startswith(f"{name}_")), None)
    if name is None:
        return None
    # A type may stand right behind the shape.
    words = re.sub(r"(?<=\d)(?=[a-z]+\d+$)", "_", word.removeprefix(f"{name}_")).split("_")
    named = [(shape_name(word), "shape") if is_shape(word) else (type_name(word)[0], "types") for word in words]
    tokens = spelling.joined([(name, "instruction"), *named])
    return tokens if spelling.candidates(tokens) else None


#: Words may begin with underscores, as those of compilers do.
_WORDS = re.compile(r"(?<![\w.:%])[a-z_]\w*(?:\.[\w:]+)*", re.IGNORECASE)


def uncovered(text: str) -> str | None:
    """That the first instruction in a text is not covered, and why; None where it is none of these.

    >>> uncovered("fma.rn.f32 %f1, %f2, %f3, %f4;")
    'fma.rn.f32 is not covered: each thread has values of its own, and no matrix is spread over lanes'
    """
    reasons = _reasons()
    for name in _WORDS.findall(text):
        tokens = name.lower().split(".")
        whole = (len(tokens) > 1 or name == text.strip()) and tokens[1:2] != ["matrix"]  # ld.matrix is ldmatrix
        heads = [".".join(tokens[:count]) for count in (1, 2, 3)]
        if reason := next((reasons[head] for head in heads if whole and head in reasons), None):
            return f"{name} is not covered: {reason}"
    return None


@cache
def _reasons() -> Mapping[str, str]:
    """Why each instruction that is not covered has no layouts, by its name."""
    return {name: reason for reason, names in data("uncovered").items() for name in names}
