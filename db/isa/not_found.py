"""Why nothing was found: what is wrong in a request, and what there is instead, in one line.

What is wrong in the name of an instruction is the token without which there are forms.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate
from operator import ne
from typing import Any

from ..text import but_for_n, either, enumerated, grouped, listed, naturally, printable
from . import by_word
from .forms import Form
from .instructions import INSTRUCTIONS, choices, instruction, undecided
from .spelling import KINDS, MODIFIERS, OPTIONS, Tokens, candidates, cased, every_candidate, kind_of, notation, tokens
from .spelling import words as words_of
from .types import is_shape, known_type, same_name, shape_name
from .vendors import UNKNOWN, VENDORS, vendor_of

#: Kinds of tokens in the order in which people mistake them.
_ORDER = (*OPTIONS, *MODIFIERS, "layouts", "qualifiers", "type", "shape", "types")


def no_form(asked: Tokens, title: str, role: str | None = None) -> str:
    """Why there is no form of a name: the token that no form has together with the others, and what forms have.

    ``role`` is the operand that was asked for.
    """

    def rank(token: str) -> int:
        implied = asked[token] in (*MODIFIERS, *OPTIONS) and token not in title.lower()
        return len(_ORDER) if implied or asked[token] not in _ORDER else _ORDER.index(asked[token])

    said = {kind: token for token, kind in asked.items()}
    if (row := INSTRUCTIONS.get(said.get("instruction", ""))) and not row.has_forms:
        shown = str(role) if role in ("A", "D") else "D" if row.sparse else "B"
        operand = f"k32 f16 {shown}" if row.sparse else f"k16 f16 {shown}{' 128B.K' * (shown in row.in_memory)}"
        words = "its mnemonics name neither shape nor types"
        return f"{title} is not covered: {words}: write {row.name} m128n128{operand}"
    a = said.get("type") or said.get("types", "").partition(".")[2].partition(".")[0]
    for row in INSTRUCTIONS.values():
        if said.get("instruction", row.name) == row.name and (why := row.absent.get(f"{said.get('shape')} {a}")):
            return why
    for token in sorted(sorted(asked), key=rank):
        rest = {other: kind for other, kind in asked.items() if other != token}
        if asked[token] != "instruction" and (forms := every_candidate(rest)):
            return f"there is no {title}: {_instead(token, asked, forms)}"
    close = get_close_matches(title, [form.mnemonic for form in every_candidate({})], 1, 0)
    return f"there is no {title}: did you mean {close[0]}?"


def no_spelling(name: str) -> str:
    """Why no form has a name in one piece: an attribute, its shape, or the names that are most like it."""
    attributes = by_word("attributes")
    for key in re.findall(r"(\w+)\s*=", name.partition("<")[2]):
        if key.lower() not in map(str.lower, attributes):
            instead = "".join(f"did you mean {like}?" for like in get_close_matches(key, attributes, 1))
            return f"there is no attribute {key} in {name}: {instead or 'leave it out'}"
    every = {its: form for form in every_candidate({}) for its in notation(name)(form)}
    nearest = _nearest(name, every)
    size = re.search(r"\d+x\d+x\d+", name)
    if size and all({*words_of(name)} - {*words_of(its)} == {*words_of(size[0])} for its in nearest):
        asked = shape_name(size[0])
        return f"there is no {name}: {_instead(asked, {asked: 'shape'}, [every[its] for its in nearest])}"
    if {*words_of(name)}.isdisjoint(words_of(nearest[0])):
        return f"{name} is not an atom with matrices in registers: name an mma, a matrix move or tcgen05.ld"
    few = nearest if len(nearest) <= _FEW else get_close_matches(name, nearest, 2, 0)
    return f"there is no {name}: did you mean {either(few)}?"


def _instead(token: str, asked: Tokens, forms: Sequence[Form]) -> str:
    """What the forms that have the other tokens of a name have in the place of a token."""
    kind = asked[token]
    if kind == "shape":
        return f"its shapes are {enumerated(_shapes(token, {form.shape for form in forms}))}"
    if kind == "type":
        types = sorted({form.a for form in forms})
        operand = "A of " if any(not form.role for form in forms) else ""
        whose = next((name for role in ("shape", "instruction") for name, tag in asked.items() if tag == role), None)
        return f"{operand}{whose} is {enumerated(types)}" if whose else f"choose from {enumerated(types)}"
    names = {name for form in forms for name, tag in tokens(form).items() if tag == kind}
    if kind not in ("types", "layouts", "qualifiers"):
        names = {name for name in names if any(name in form.mnemonic.lower().split(".") for form in forms)}
    elif kind == "types" and not names:
        names = {form.a for form in forms}
    if nearest := _nearest(token, names):
        others = either([f".{cased(name)}" for name in sorted(nearest, key=naturally)])
        return f"write {others} instead of .{cased(token)}"
    return f"leave out .{cased(token)}"


def _nearest(asked: str, names: Iterable[str]) -> list[str]:
    """Those that differ in the fewest parts, and have the most of them in the same place."""

    def apart(name: str) -> tuple[int, int]:
        its, own = (_PARTS.findall(each.lower()) for each in (asked, name))
        return len({*its} ^ {*own}), sum(map(ne, its, own))

    return min(grouped(names, apart).items(), default=((), []))[1]


def no_fragment(
    named: Tokens, title: str, qualifiers: str, asked: Mapping[str, Any], every: Sequence[Any], order: Sequence[str]
) -> str:
    """The first of the parameters that nothing has of those ``asked``, in the order in which people think of them.

    ``named`` are the tokens of the request and ``title`` what it was called. Of ``every`` fragment the sources are
    named in the ``order`` in which they answer.

    Raises:
        LanemapError: a word of the qualifiers is none that selects block scales, but looks like one.
    """
    for word in qualifiers.lower().split("."):
        if "::" in word and not kind_of(word):
            known_type(word, KINDS)
    maker = VENDORS.get(asked["vendor"]) or vendor_of(asked["instruction"] or "")
    if maker is not UNKNOWN and not any(record.vendor == maker.name for record in every):
        return f"no source has instructions of {maker.title}: import a table or a mapping of it"
    forms = candidates(named)
    typed = "type" in named.values() and not asked["role"] and asked["instruction"] in (None, *INSTRUCTIONS)
    if typed and not forms and "" not in named:
        return no_form(named, title)
    records = every
    matched: list[str] = []
    fields = ("source", "vendor", "instruction", "shape", "type", "role", "major", "selector", "qualifiers")
    for name in fields:
        value = asked[name]
        if value is None:
            continue
        if name != "source":
            every = [record for record in every if same_name(getattr(record, name), value)]
        matching = [record for record in records if same_name(getattr(record, name), value)]
        if matching:
            matched.append(str(getattr(matching[0], name)))
            records = matching
            continue
        said = " ".join(["", *matched, str(value)])
        absent = [instruction(record.instruction).absent.items() for record in records]
        reasons = {next((why for words, why in row if said.endswith(f" {words}")), None) for row in absent}
        if len(reasons := reasons - {None}) == 1:
            return str(reasons.pop())
        unknown = f"{printable(str(value)) or repr(value)}{' in' * bool(matched)} {' '.join(matched)}".strip()
        if asked["source"] is not None and every and name != "source":
            having = {record.source for record in every}
            return f"no {name} {unknown}: ask the source {next(filter(having.__contains__, order))}"
        if name in ("shape", "instruction") and value and not is_shape(value) and not matched:
            names = [*INSTRUCTIONS, *{record.instruction for record in records} - INSTRUCTIONS.keys()]
            shapes = sorted({record.shape for record in records}, key=naturally)
            # The numbers alone, or the first of them, as they stand in an opcode and a mnemonic.
            like = [shape for shape in shapes if value in (re.sub(r"\D", "", shape), *accumulate(_AXES.findall(shape)))]
            like = like or get_close_matches(value, names, 1, 0.5)
            known = "no source has it: lanemap list names what there is, and lanemap import adds a table of others"
            return f"no shape or instruction {unknown}: {f'did you mean {either(like)}?' if like else known}"
        if other := next((it for it in fields if any(same_name(getattr(one, it), value) for one in records)), None):
            return f"no {name} {unknown}: name it as one of the {other}"
        of_lanes = [record for record in records if instruction(record.instruction).register_roles]
        options = {getattr(record, name) for record in of_lanes or records} - {None}
        return f"no {name} {unknown}: {_suggest(name, str(value), sorted(map(str, options), key=naturally))}"
    if not records:
        return "the database is empty: run lanemap ingest"
    if asked["role"] and forms and not any(asked["role"] in form.types for form in forms):
        return f"{title} has no {asked['role']}: it has {', '.join(forms[0].types)}"
    alike = grouped(sorted({record.qualifiers or "" for record in records}), undecided)
    apart = [choice for choice in map(choices, alike.values()) if choice]
    return f"no source has operands of {title}" + (f": choose from {enumerated(apart)}" if apart else "")


def choose_from(name: str, names: Sequence[str], listed: str = "lanemap list sources names") -> str:
    """What there is instead of a name that is not there: of many, the nearest, and what lists them all."""
    if len(names) <= 2 * _FEW:
        return f"choose from {', '.join(names)}" if names else "there is none to choose from"
    near = get_close_matches(name, names, _FEW, 0)
    return f"choose from {', '.join(near)}, or from all {len(names)} that {listed}"


def _suggest(kind: str, name: str, options: list[str]) -> str:
    if kind == "source" and len(options) > 2 * _FEW:
        return choose_from(name, options)
    if not options:
        return "there is none to choose from"
    if kind == "shape" and is_shape(name):
        close, options = _near(name, options), _shapes(name, options)
    else:
        close = get_close_matches(name, options)
        close = [token for token in close if kind != "type" or token.rstrip("0123456789") == name.rstrip("0123456789")]
    guess = f"did you mean {close[0]}?" if close else ""
    return guess if options == close[:1] else f"{guess} choose from {enumerated(options)}".strip()


def _near(asked: str, shapes: Iterable[str]) -> list[str]:
    """The shapes that differ from the one asked for in one number: in N if there are any, else in K, else in M."""
    first, *others = re.finditer("[0-9]+", asked)
    for number in (*others, first):
        like = re.compile(f"{asked[: number.start()]}([0-9]+){asked[number.end() :]}")
        matched = ((like.fullmatch(shape), shape) for shape in shapes)
        if near := sorted((abs(int(its[1]) - int(number[0])), shape) for its, shape in matched if its):
            return [shape for _, shape in near]
    return []


def _shapes(asked: str, shapes: Iterable[str]) -> list[str]:
    """The shapes most like the one asked for, or all, with those that differ only in N as one where they are many.

    >>> _shapes("m64n12k16", [f"m64n{n}k16" for n in range(8, 257, 8)])
    ['m64nNk16 with N 8, 16, .., 256']
    """
    folded = []
    for first, *others in but_for_n(sorted(_near(asked, shapes) or shapes, key=naturally)):
        widths = [int(re.findall(r"n(\d+)", shape)[0]) for shape in (first, *others)] if others else []
        folded.append(re.sub(r"n\d+", "nN", first) + f" with N {listed(widths)}" if others else first)
    return folded


_FEW = 4
_AXES = re.compile("[mnk][0-9]+")
_PARTS = re.compile("[a-z0-9:]+")
