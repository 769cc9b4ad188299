"""Forms in words: each generates how PTX, SASS and CuTe spell it, and tokens mean the forms that have all of them.

Tokens that have an order among themselves are one token: the types (``f32.f16.f16.f32``), the layouts (``row.col``),
the qualifiers of a move (``x4.trans``). What an opcode says was learned from what ptxas assembles.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from itertools import filterfalse

from . import by_word, data
from .forms import Form, forms
from .shared import pattern
from .types import SHAPE, TYPES, type_bits

#: The tokens of a name, each with its kind.
Tokens = Mapping[str, str]

#: The kinds of tokens that are neither instructions nor types.
KINDS = by_word("kinds")
_PATTERNS = {"shape": SHAPE} | data("words")["patterns"]

#: Kinds of tokens that tell forms of the same types apart, and of tokens that tell no layouts apart.
MODIFIERS = "kind scale_vec scale_type block_scale operation popc packed reduction absolute nan factor".split()
OPTIONS = ("sync", "aligned", "satfinite", "sparse", "verb", "space", "rounding")

#: Kinds of tokens that have an order among themselves.
ORDERED = ("layouts", "qualifiers", "types", "memory")

#: Words of a name that mean the same, or nothing that tells forms apart.
_ALIKE = by_word("alike")
_TARGET = re.compile(r"sm\d+").fullmatch
_NEVER_LEFT_OUT = {*data("words")["never left out"].split()}
_OTHER_ATTRIBUTES = re.compile(
    rf"\b(?:{'|'.join(data('words')['attributes']['of its use'].split())})\s*=\s*(?:\[[^=<>]*\]|\w+)", re.IGNORECASE
)

#: The products of sm_75 whose atoms are called so; CuTe calls others by sm_80.
_OF_SM75 = ("16x8x8_F32F16F16F32_TN", "8x8x16_S32S8S8S32_TN")
#: What stands in the opcodes of matrix moves for the elements that a matrix is made from.
_ELEMENTS = {"b16": "16", "b8": "8", "b8x16.b4x16_p64": "U4X16P64TO8", "b8x16.b6x16_p32": "U6X16P32TO8"}


@lru_cache(1000)
def kind_of(token: str) -> str:
    """The kind of a token that is neither an instruction nor a type; nothing where it is none of PTX's.

    >>> kind_of("scale_vec::2x")
    'scale_vec'
    """
    return KINDS.get(token) or next((kind for kind, pattern in _PATTERNS.items() if re.fullmatch(pattern, token)), "")


def cased(mnemonic: str) -> str:
    """Tokens in small letters as PTX spells them, which has few capital letters, and how an operand lies in memory.

    >>> cased("mma.block_scale.scale_vec::2x"), cased("tcgen05.ld.red.max.abs.nan")
    ('mma.block_scale.scale_vec::2X', 'tcgen05.ld.red.max.abs.NaN')
    >>> cased("128b.mn"), cased("128b.atom32")
    ('128B.MN', '128B.atom32')
    """
    mnemonic = re.sub(r"(?<![^.])([0-9]+)b(?![^.])", r"\1B", ".".join(pattern(mnemonic) or (mnemonic,)))
    return re.sub(r"\bnan\b", "NaN", re.sub(r"(scale_vec::\d)x", r"\1X", mnemonic))


def joined(pairs: Iterable[tuple[str, str]]) -> Tokens:
    """Tokens and their kinds, with those that have an order among themselves as one; one type is a kind of its own."""
    pairs = list(pairs)
    in_order = {kind: [token for token, tag in pairs if tag == kind] for kind in ORDERED}
    in_order["qualifiers"].sort(key=lambda token: not re.fullmatch(r"x\d+", token))  # their count first
    fused = {".".join(several): kind for kind, several in in_order.items() if several}
    tokens = {token: kind for token, kind in pairs if kind not in in_order}
    return tokens | {token: "type" if kind == "types" and "." not in token else kind for token, kind in fused.items()}


@cache
def tokens(form: Form) -> Tokens:
    """The tokens of a form: those of its mnemonic, and those that it may have or leave out.

    One type stands for A and B of it, or for what is moved.
    """
    words = form.mnemonic.lower().split(".")[1:] or (form.shape, *form.named_types)  # those within one word
    named = [(token, kind_of(token) or "types" * (token in TYPES)) for token in words]
    kinds = {form.name: "instruction", form.shape: "shape", **joined(pair for pair in named if pair[1])}
    if form.layout:
        kinds[form.role.lower()] = "role"
    elif form.role or form.a == form.b:
        kinds[form.a] = "type"
    if "shared" in kinds:
        spaces = ("shared::cta", "global") if form.instruction.multiplies else ("shared::cta",)
        kinds |= dict.fromkeys(spaces, "space")
    if form.sparse and not form.kind:
        kinds["sp"] = "sparse"
    optional = {"byte_id", "thread_id"} if form.scale is not None else set()  # they are operands of its mnemonic
    if not form.role:
        optional |= {"I": {"satfinite"}, "D": {"rounding"}}.get(TYPES[form.a].letter, set())
    return kinds | {token: kind for token, kind in KINDS.items() if kind in optional}


@cache
def opcode(form: Form) -> str:
    """The opcode that a form is assembled to, as disassemblers write it; nothing where it is assembled to several."""
    head = form.instruction.opcode
    if not head:
        return ""
    if form.role:
        return _move_opcode(form, head)
    narrow = form.a == "e2m1" and form.operand("A").slot_bits < type_bits(form.a)
    letter = "O" if narrow else TYPES[form.a].letter
    cross = "x" if head == "GMMA" or (letter == "D" and form.shape != "m8n8k4") else ""
    parts = [*["SF"] * (form.scale is not None), *["SP"] * form.sparse, cross.join(re.findall(r"\d+", form.shape))]
    if letter in "HQO":
        parts += [form.d, form.c] if form.computations > 1 else [form.d]
    if letter in "IQO":
        parts += [form.a, form.b]
    elif letter == "H" and form.a != "f16":
        parts += [form.a]
    elif letter == "B":
        parts += form.suffix.split(".")[1:]
    if form.scale is not None:
        parts += [form.suffix[1:].replace("ue8m0", "e8"), *["4x"] * ("::4X" in form.kind)]
    return ".".join([letter + head, *(part if cross and "x" in part else part.upper() for part in parts)])


def _move_opcode(form: Form, head: str) -> str:
    count, *others = str(form.qualifiers).split(".")
    number = count.removeprefix("x") if count[0] == "x" else ""
    if form.shape.startswith("m"):
        transposed = "T" * ("trans" in str(form.qualifiers))
        if form.a + form.packed not in _ELEMENTS:
            return ""
        parts = [head, _ELEMENTS[form.a + form.packed], f"M{transposed}{re.sub('[mn]', '', form.shape)}", number]
    elif others or form.shape.endswith("x2"):
        return ""
    else:
        lanes, bits = form.shape.removesuffix("b").split("x")
        parts = [head, "" if lanes == "32" else f"{lanes}DP{bits}BIT", f"X{number}"]
    return ".".join(token for token in parts if token not in ("", "1", "X1"))


def atom(form: Form) -> str:
    """CuTe's name of a form, as in ``SM80_16x8x16_F32BF16BF16F32_TN``; nothing where it has none."""
    head, number = form.instruction.atom or form.instruction.opcode, "".join(filter(str.isdigit, form.target))
    if not head:
        return ""
    if form.role:
        return f"SM{number}_{_move_atom(form, head)}" if form.packed != ".s4" else ""
    shape = "x".join(map(str, form.dimensions))
    sparse = "SPARSE_" * form.sparse
    layouts = "".join("T" if major == "row" else "N" for major in form.majors)
    if form.kind:
        arguments = [TYPES[type_].cute for type_ in (form.a, form.b, form.c)]
        if form.scale is not None:
            size = form.dimensions[2] // int(form.kind[-2])
            arguments += [f"float_{form.suffix[1:]}_t", str(size)]
        scaled = "_VS" * (form.scale is not None)
        return f"SM{number}_{sparse}{shape}_{layouts}{scaled}<{', '.join(arguments)}>"
    lacking = form.sparse or form.c != form.d or (number == "89" and form.dimensions[2] == 16)
    if lacking if form.instruction.layouts else form.a == "b1":
        return ""
    types = "".join("U1" if type_ == "b1" else type_.upper() for type_ in form.named_types)
    ends = [layouts] if form.instruction.layouts else ["SS"] if form.a in ("f16", "bf16") else ["SS", "TN"]
    ends += [form.suffix.upper().replace(".", "")] if form.suffix else []
    name = "_".join((shape, types, *ends))
    if form.sparse:
        return f"SM{number}::GMMA::SPARSE::GMMA_{name}"
    return f"SM{'80' if number == '75' and name not in _OF_SM75 else number}_{name}"


def _move_atom(form: Form, head: str) -> str:
    count, *others = str(form.qualifiers).split(".")
    number = int(count[1:]) if count[0] == "x" else 1
    if not form.shape.startswith("m"):
        lanes, bits = form.shape.removesuffix("x2").removesuffix("b").split("x")
        return f"{head}_{lanes}dp{bits}b{number}x{'_16b' * bool(others)}"
    letter = "T" if "trans" in str(form.qualifiers) else "N"
    if form.packed:
        return f"SU{form.packed[2]}_DU8x16_x{number}_{head}_{letter}"
    if form.a == "b8":
        return f"U8x{number * (8 if form.shape == 'm16n16' else 4)}_{head}_{letter}"
    return f"U16x{2 * number}_{head}_T" if letter == "T" and others else f"U32x{number}_{head}_{letter}"


def notation(like: str) -> Callable[[Form], Mapping[str, str]]:
    """How a form is written in one piece, each name with the role that it says, if any: in the notation of a name."""
    namespace, underscore, _ = like.partition("<")[0].partition("_")
    return (_in_namespace if "." in namespace else _identifiers) if underscore else _opcodes


@cache
def _opcodes(form: Form) -> Mapping[str, str]:
    return {opcode(form): ""} if opcode(form) else {}


@cache
def _identifiers(form: Form) -> Mapping[str, str]:
    row = form.instruction
    own = [] if "." in (row.move_spelling or row.spelling) else [form.mnemonic]
    others = [form.written(other) for other in row.others if "." not in other]
    its = atom(form).rpartition("::")[2]
    later = "" if form.role else its.replace("SM75_", "SM80_")  # CuTe has products of sm_75 twice
    return dict.fromkeys(filter(None, (its, later, *own, *others)), "")


@cache
def _in_namespace(form: Form) -> Mapping[str, str]:
    row, whole = form.instruction, [form.written(other) for other in form.instruction.others if "." in other]
    if not row.of_operand:
        return dict.fromkeys(whole, "")
    width = max(1, form.operand("A").register_bits // type_bits(form.a))
    parts = [(role, of) for role in "AB" if role in row.register_roles for of in whole]
    return dict.fromkeys(whole, "") | {
        form.written(row.of_operand, parent=of, operand="AB".index(role), width=width): role for role, of in parts
    }


@lru_cache(1 << 14)
def words(name: str) -> tuple[str, ...]:
    """The words of a name that tell forms apart, with the numbers of a shape as one, and one word for all that mean it.

    >>> words("v_mfma_f32_16x16x16f16"), words("HMMA.16816.F32.STEP0"), words("dot_op<{opIdx = 1, parent = #a}>")
    (('mfma', 'f32', '161616', 'f16'), ('hmma', '16816', 'f32'), ('dot', 'op', 'opidx1', 'parent', 'a'))
    """
    plain = re.sub(r"(\d+)x(\d+)(?:x(\d+))?", r"\1\2\3 ", _OTHER_ATTRIBUTES.sub("", name.lower()))
    plain = re.sub(r"(?<=\d), *(?=\d)", "x", re.sub(r"\s*=[\s\[]*(?=\w)", "", plain))
    plain = re.sub(r"\bfloat_(?=\w+_t\b)|, *vs\b", "", plain)  # in a header VS is any size
    return tuple(filter(None, (_ALIKE.get(word, word) for word in re.findall(r"#\w+\b(?!\.)|[a-z0-9]+", plain))))


@lru_cache(1 << 14)
def _pieces(said: tuple[str, ...], form: Form | None = None) -> Set[tuple[str, str]]:
    """The words of a name, each as often as it is there; types in order, or that of A alone where it is that of B."""
    both = {form.a: "type"} if form and form.a == form.b else {}
    types = joined((word, "types") for word in said if word in TYPES)
    others = {(word, str(said[:at].count(word))) for at, word in enumerate(said) if word not in TYPES}
    return (both | dict(types)).items() | others


def spelt_so(name: str, forms: Iterable[Form]) -> tuple[list[Form], str]:
    """The forms whose spelling begins as a name in one piece does, and has all that it says, and the one role in those.

    The target of an atom may be left out.

    One type is that of A and B. Where a spelling has no template arguments, they say nothing. Block scales and sparsity
    are never left out. If some are spelt just so, they are meant.
    """
    spellings = notation(name)
    fit = []
    for form in forms:
        for its, role in spellings(form).items():
            said, whole = words(name if "<" in its else name.partition("<")[0]), words(its)
            first, its_first = (next(filterfalse(_TARGET, each), "") for each in (said, whole))
            alike = first == its_first and not _NEVER_LEFT_OUT & ({*said} ^ {*whole})
            if alike and (
                _pieces(said) <= _pieces(whole, form) if name.count("<") <= its.count("<") else said == whole
            ):
                fit.append((form, role, said == whole))
    fit = [each for each in fit if each[2]] or fit
    roles = {role for _, role, _ in fit}
    return [*dict.fromkeys(form for form, _, _ in fit)], roles.pop() if len(roles) == 1 else ""


def _tiers(asked: Tokens, vendor: str | None = None) -> Iterator[list[Form]]:
    """The forms that have all tokens of a name, tier by tier: most names mean a form of the first."""
    name = next((token for token, kind in asked.items() if kind == "spelling"), None)
    in_memory = "memory" in asked.values()  # which no mnemonic says
    unspelt = ("spelling", "memory", *["role"] * bool(name))
    named = {token: kind for token, kind in asked.items() if kind not in unspelt}.items()
    of_kind = {kind: token for token, kind in named}
    for tier in range(3):
        some = forms(of_kind.get("instruction"), of_kind.get("shape"), of_kind.get("type"), tier)
        own = (form for form in some if vendor in (None, form.instruction.vendor.name))
        matching = [form for form in own if not named or named <= tokens(form).items()]
        fit = spelt_so(name, matching)[0] if name else matching
        yield [form for form in fit if form.instruction.in_memory or not in_memory]


def candidates(asked: Tokens, vendor: str | None = None) -> list[Form]:
    """The forms that have all tokens of a name, of any vendor or of one, products before moves."""
    return next(filter(None, _tiers(asked, vendor)), [])


def every_candidate(asked: Tokens) -> list[Form]:
    """The same, with the forms that a name would mean only if there were no others."""
    return [form for tier in _tiers(asked) for form in tier]


def exact(asked: Tokens, forms: Sequence[Form]) -> list[Form]:
    """Of the forms that have all tokens of a name, those that have no further modifiers, if there are any."""
    modifiers = {token for token, kind in asked.items() if kind in MODIFIERS}
    same = [form for form in forms if {token for token, kind in tokens(form).items() if kind in MODIFIERS} == modifiers]
    return same or list(forms)
