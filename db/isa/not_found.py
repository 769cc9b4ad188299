"""Why nothing was found: what is wrong in a request, and what there is instead, in one line.

What is wrong in the name of an instruction is the word without which there are forms.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from .forms import Form
from .instructions import INSTRUCTIONS, choices, undecided
from .listing import but_for_n, either, grouped, naturally, shortened
from .spelling import MODIFIERS, OPTIONS, Words, candidates, cased, every_candidate, opcode, opcode_name, words
from .types import is_shape, same_name, shape_name

#: Kinds of words in the order in which people mistake them, after modifiers and options that stand in the name.
_ORDER = ("layouts", "qualifiers", "type", "shape", "types")


def no_role(name: str, role: str) -> str:
    """Why an instruction has no operand of a role."""
    row = INSTRUCTIONS[name]
    return row.absent.get(role) or f"{name} has no {role}: it has {', '.join(row.axes)}"


def no_form(asked: Words, title: str) -> str:
    """Why there is no form of a name: the word that no form has together with the others, and what forms have there."""

    def rank(word: str) -> int:
        kind = asked[word]
        if kind in _ORDER:
            return _ORDER.index(kind)
        stands = kind in (*MODIFIERS, *OPTIONS) and word in title.lower()
        return len(_ORDER) if not stands else -1 if kind in MODIFIERS else -2

    for word in sorted(sorted(asked), key=rank):
        rest = {each: kind for each, kind in asked.items() if each != word}
        if asked[word] != "instruction" and (found := every_candidate(rest)):
            return f"there is no {title}: {_instead(word, asked, found)}"
    close = get_close_matches(title, [form.mnemonic for form in every_candidate({})], 1, 0)
    return f"there is no {title}: did you mean {close[0]}?"


def no_opcode(text: str, its: Sequence[str]) -> str:
    """Why no form is assembled to an opcode: its shape, or the opcodes that are most like it."""
    every = {opcode_name(form): opcode(form) for form in every_candidate({}) if opcode(form)}
    size = next((word for word in text.split(".") if is_shape(word)), None)
    if size and not any({its[0], re.sub("[^0-9]", "", size)} <= {*words} for words in every.values()):
        found = every_candidate({its[0]: "opcode"}) or every_candidate({})
        return f"there is no {text}: {_shapes(shape_name(size), found)}"
    apart = {name: len({*words} ^ {*its}) for name, words in every.items()}
    close = [name for name, number in apart.items() if number == min(apart.values())]
    return f"there is no {text}: did you mean {either(close[:_FEW])}?"


def _instead(word: str, asked: Words, found: Sequence[Form]) -> str:
    """What the forms that have the other words of a name have in the place of a word."""
    kind = asked[word]
    if kind == "shape":
        return _shapes(word, found)
    if kind == "type":
        types = sorted({form.a for form in found})
        what = "A of " if any(not form.role for form in found) else ""
        whose = next((each for role in ("shape", "instruction") for each, its in asked.items() if its == role), None)
        return f"{what}{whose} is {shortened(types)}" if whose else f"choose from {shortened(types)}"
    there = {each for form in found for each, its in words(form).items() if its == kind}
    if kind not in ("types", "layouts", "qualifiers"):
        there = {each for each in there if any(each in form.mnemonic.lower().split(".") for form in found)}
    elif kind == "types" and not there:
        there = {form.a for form in found}
    if there := _nearest(word.split("."), there):
        return f"write {either([f'.{cased(each)}' for each in sorted(there, key=naturally)])} instead of .{cased(word)}"
    return f"leave out .{cased(word)}"


def _shapes(asked: str, found: Sequence[Form]) -> str:
    there = {form.shape for form in found}
    return f"its shapes are {shortened(_folded(sorted(_near(asked, there) or there, key=naturally)))}"


def _nearest(asked: Sequence[str], there: Iterable[str]) -> set[str]:
    """Those that differ in the fewest words."""
    apart = {each: len({*asked} ^ {*each.split(".")}) + sum(map(str.__ne__, asked, each.split("."))) for each in there}
    return {each for each, number in apart.items() if number == min(apart.values())}


def no_fragment(
    asked: Mapping[str, Any],
    named: Words,
    title: str,
    every: Sequence[Mapping[str, Any]],
    first_of: Callable[[Container[str]], str | None],
) -> str:
    """The first name of a request that nothing has, narrowing down in the order in which people think of them.

    Args:
        asked: the parameters of the request.
        named: the words of the instruction that it names.
        title: what to call that instruction.
        every: what is stored of all fragments.
        first_of: which of some sources look-ups ask first.
    """
    forms = candidates(named)
    typed = "type" in named.values() and not asked["role"] and asked["instruction"] in (None, *INSTRUCTIONS)
    if typed and not forms and "" not in named:
        return no_form(named, title)
    known = every
    matched: list[str] = []
    for name in ("source", "instruction", "shape", "type", "role", "major", "selector", "qualifiers"):
        value = asked[name]
        if value is None:
            continue
        if name != "source":
            every = [record for record in every if same_name(record[name], value)]
        there = [record for record in known if same_name(record[name], value)]
        if not there:
            rows = [INSTRUCTIONS.get(record["instruction"]) for record in known if name == "role"]
            reasons = {row and row.absent.get(str(value)) for row in rows}
            if len(reasons) == 1 and (reason := reasons.pop()):
                return reason
            of = f" in {' '.join(matched)}" if matched else ""
            if asked["source"] is not None and every and name != "source":
                first = first_of({record["source"] for record in every})
                return f"no {name} {_printed(value)}{of}: ask the source {first}"
            if name in ("shape", "instruction") and value and not is_shape(str(value)) and not matched:
                own = {record["instruction"].lower(): record["instruction"] for record in known}
                close = [own[name] for name in get_close_matches(value.lower(), own.keys() - INSTRUCTIONS.keys())]
                close += get_close_matches(re.sub(r"[._]", "", value.lower())[:9], INSTRUCTIONS)
                guess = f"did you mean {close[0]}? " if close else ""
                return f"no shape or instruction {_printed(value)}: {guess}covered are {', '.join(INSTRUCTIONS)}"
            options = sorted({str(record[name]) for record in known if record[name] is not None}, key=naturally)
            return f"no {name} {_printed(value)}{of}: {_suggest(name, str(value), options)}"
        matched.append(str(there[0][name]))
        known = there
    if not known:
        return "the database is empty: run lanemap ingest"
    if asked["role"] and forms and not any(asked["role"] in form.types for form in forms):
        return f"{title} has no {asked['role']}: it has {', '.join(forms[0].types)}"
    alike = grouped(sorted({record["qualifiers"] or "" for record in known}), undecided)
    apart = [each for each in map(choices, alike.values()) if each]
    return f"no source has operands of {title}" + (f": choose from {shortened(apart)}" if apart else "")


def _printed(value: object) -> str:
    return repr(value) if isinstance(value, str) and (not value or not value.isprintable()) else str(value)


def source_names(name: str, there: Sequence[str]) -> str:
    """Which sources there are instead of one that is not there: of many, the nearest, and what lists them all."""
    if len(there) <= 2 * _FEW:
        return f"choose from {', '.join(there)}" if there else "there is none to choose from"
    near = get_close_matches(name, there, _FEW, 0)
    return f"choose from {', '.join(near)}, or from all {len(there)} that lanemap list sources names"


def _suggest(kind: str, name: str, options: list[str]) -> str:
    if kind == "source" and len(options) > 2 * _FEW:
        return source_names(name, options)
    if not options:
        return "there is none to choose from"
    if kind == "shape" and is_shape(name):
        close = _near(name, options)
        options = _folded(sorted(close or options, key=naturally))
    else:
        close = get_close_matches(name, options)
        close = [each for each in close if kind != "type" or each.rstrip("0123456789") == name.rstrip("0123456789")]
    guess = f"did you mean {close[0]}?" if close else ""
    return guess if options == close[:1] else f"{guess} choose from {shortened(options)}".strip()


def _near(asked: str, there: Iterable[str]) -> list[str]:
    """The shapes that differ from the one asked for in one number: in N if there are any, else in K, else in M."""
    numbers = _NUMBERS.findall(asked)

    def apart(shape: str) -> dict[int, int]:
        pairs = enumerate(zip(_NUMBERS.findall(shape), numbers, strict=True))
        return {place: abs(int(one) - int(other)) for place, (one, other) in pairs if one != other}

    like = [each for each in there if _NUMBERS.sub("#", each) == _NUMBERS.sub("#", asked)]
    alike = grouped(like, lambda each: (*apart(each),))
    found = next(filter(None, (alike.get((place,)) for place in (1, 2, 0))), [])
    return sorted(found, key=lambda each: [*apart(each).values()])


def _folded(shapes: Sequence[str]) -> list[str]:
    """Shapes, with those that differ only in N as one where they are many.

    >>> _folded([f"m64n{n}k16" for n in range(8, 257, 8)])
    ['m64nNk16 with N a multiple of 8 from 8 to 256']
    """
    found = []
    for first, *others in but_for_n(shapes):
        widths = [int(re.findall(r"n(\d+)", shape)[0]) for shape in (first, *others)] if others else []
        found.append(re.sub(r"n\d+", "nN", first) + f" with N {_series(widths)}" if others else first)
    return found


def _series(numbers: Sequence[int]) -> str:
    """Rising numbers in words, the last ones by their step where it is the same.

    >>> _series([8, 16, 24, 32, 48, 64, 80])
    '8, 16, 24 or a multiple of 16 from 32 to 80'
    """
    first = len(numbers) - 2
    step = numbers[-1] - numbers[-2]
    while first and numbers[first] - numbers[first - 1] == step:
        first -= 1
    rest = f"a multiple of {step} from {numbers[first]} to {numbers[-1]}"
    return f"{', '.join(map(str, numbers[:first]))} or {rest}" if first else rest


_FEW = 4
_NUMBERS = re.compile(r"[0-9]+")
