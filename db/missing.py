"""Why nothing was found: what is wrong in a request, and what there is instead, in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from .candidates import candidates, every_candidate, said
from .grouped import grouped
from .instructions import FORMS, INSTRUCTIONS, Form, choices, undecided
from .names import Query, naturally
from .reader import Value
from .spelling import Name, is_shape
from .spelling.ptx import ALTERNATIVES, cased
from .spelling.sass import opcode, opcode_name

if TYPE_CHECKING:
    from .forms import Move

#: Operands that no register holds, and what to ask for instead (9.7.15.5, 9.7.15.6).
_ELSEWHERE = {
    "B": "B of wgmma comes from shared memory, and no register holds it: A and D can be asked for",
    "C": "wgmma accumulates in D: ask for D",
}


def no_role(instruction: str, role: str) -> str:
    """Why an instruction has no operand of a role."""
    axes = ", ".join(INSTRUCTIONS[instruction].axes)
    return _elsewhere(instruction, role) or f"{instruction} has no {role}: it has {axes}"


def no_form(name: Name) -> str:
    """Why there is no form of a name: the part that no form has together with the rest, and what forms have there."""
    bare = replace(name, opcode=())
    for part, rest in _parts(bare) if not candidates(bare) else ():
        found = every_candidate(rest)
        if found and (part == "shape" or not name.opcode):
            return f"there is no {name}: {_instead(name, part, found)}"
    if name.opcode:
        return f"there is no {name}: did you mean {_either(_opcodes(name))}?"
    close = get_close_matches(str(name), [form.mnemonic for form in every_candidate(Name())], 1, 0)
    return f"there is no {name}: did you mean {close[0]}?"


def _opcodes(name: Name) -> list[str]:
    """The opcodes that are most like that of a name, of the forms that have all else that it says, or of all forms."""
    every = [form for form in every_candidate(Name()) if isinstance(form, Form) and form.name != "wmma"]
    there = [form for form in candidates(replace(name, opcode=())) if isinstance(form, Form)] or every
    apart = {opcode_name(form): len({*opcode(form)} ^ {*name.opcode}) for form in there}
    return [words for words, number in apart.items() if number == min(apart.values())][:_FEW]


def _parts(name: Name) -> Iterator[tuple[str, Name]]:
    """Each part of a name that may be wrong, and the name without it; first the parts that stand in its text."""
    words = [(field, word) for field in ("options", "modifiers") for word in sorted(getattr(name, field))]
    without = [(word, replace(name, **{field: getattr(name, field) - {word}})) for field, word in words]
    yield from ((word, rest) for word, rest in without if word in name.text.lower())
    for field in ("layouts", "qualifiers", "type", "shape", "types"):
        if getattr(name, field):
            yield field, replace(name, **{field: getattr(Name(), field)})
    yield from ((word, rest) for word, rest in without if word not in name.text.lower())


def _instead(name: Name, part: str, found: Sequence[Form | Move]) -> str:
    """What the forms that have the rest of a name have in the place of a part."""
    if part == "shape":
        there = {form.shape for form in found}
        near = _near(str(name.shape), there) or there
        return f"its shapes are {shortened(_folded(sorted(near, key=naturally)))}"
    if part == "type":
        types = {form.a if isinstance(form, Form) else form.type for form in found}
        what = "A of " if any(isinstance(form, Form) for form in found) else ""
        whose = name.shape or name.instruction
        return f"{what}{whose} is {shortened(sorted(types))}" if whose else f"choose from {shortened(sorted(types))}"
    if part == "types":
        # An atom of CuTe does not have its types in words of their own.
        asked = _types(name.text, name.types.values()) or tuple(
            name.types[role] for role in "DABC" if role in name.types
        )
        return _write(asked, _nearest(asked, {_types(form.mnemonic, form.types.values()) for form in found}))
    if part == "layouts":
        return _write(name.layouts, _nearest(name.layouts, {said(form).layouts for form in found}))
    if part == "qualifiers":
        asked = tuple(str(name.qualifiers).split("."))
        return _write(asked, _nearest(asked, {tuple((said(form).qualifiers or "").split(".")) for form in found}))
    words = {word for form in found for word in form.mnemonic.split(".") if word.lower() in _alternatives(part)}
    return _write((cased(part),), {(word,) for word in words if word.lower() not in name.modifiers | name.options})


def _types(mnemonic: str, types: Iterable[str]) -> tuple[str, ...]:
    """The types in a mnemonic, in its order, without that of block scales."""
    return tuple(word for word in mnemonic.lower().split(".") if word in {*types} and not word.startswith("ue"))


def _alternatives(word: str) -> set[str]:
    """The words that may stand where a word does, such as another kind."""
    if "::" in word and not word.startswith(("sp", "shared")):
        kind = word.partition("::")[0]
        return {each for form in FORMS for each in form.mnemonic.lower().split(".") if each.startswith(f"{kind}::")}
    return next((words for words in ALTERNATIVES if word in words), set())


def _nearest(asked: Sequence[str], there: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Those that differ in the fewest words."""
    apart = {each: len({*asked} ^ {*each}) + sum(map(str.__ne__, asked, each)) for each in filter(any, there)}
    return {each for each, number in apart.items() if number == min(apart.values())}


def _write(asked: Sequence[str], there: Iterable[Sequence[str]]) -> str:
    given = f".{'.'.join(asked)}"
    right = sorted({f".{'.'.join(each)}" for each in there if each}, key=naturally)
    return f"write {_either(right)} instead of {given}" if right else f"leave out {given}"


def no_fragment(query: Query, every: Sequence[Mapping[str, Any]], trust: Callable[[], Sequence[str]]) -> str:
    """The first name of a request that nothing has, narrowing down in the order in which people think of them.

    Args:
        query: the request.
        every: what is stored of all fragments.
        trust: the names of the sources, those first that look-ups ask first.
    """
    asked = query.parameters()
    known = every
    matched: list[str] = []
    for name in ("source", "instruction", "shape", "type", "role", "major", "selector", "qualifiers"):
        value = asked[name]
        if value is None:
            continue
        if name != "source":
            every = [record for record in every if _alike(record[name], value)]
        there = [record for record in known if _alike(record[name], value)]
        if not there:
            reasons = {_elsewhere(record["instruction"], str(value)) for record in known if name == "role"}
            if len(reasons) == 1 and (reason := reasons.pop()):
                return reason
            of = f" in {' '.join(matched)}" if matched else ""
            if asked["source"] is not None and every and name != "source":
                having = {record["source"] for record in every}
                first = next(each for each in trust() if each in having)
                return f"no {name} {_printed(value)}{of}: ask the source {first}"
            if name in ("shape", "instruction") and value and not is_shape(str(value)) and not matched:
                return _unknown(str(value))
            options = sorted({str(record[name]) for record in known if record[name] is not None}, key=naturally)
            return f"no {name} {_printed(value)}{of}: {_suggest(name, str(value), options)}"
        matched.append(str(there[0][name]))
        known = there
    if not known:
        return "the database is empty: run lanemap ingest"
    if asked["role"] and query.forms and not any(asked["role"] in form.types for form in query.forms):
        return f"{query.name} has no {asked['role']}: it has {', '.join(query.forms[0].types)}"
    alike = grouped(sorted({record["qualifiers"] or "" for record in known}), undecided)
    apart = [each for each in map(choices, alike.values()) if each]
    return f"no source has operands of {query.name}" + (f": choose from {shortened(apart)}" if apart else "")


def _unknown(name: str) -> str:
    """That a name is not one of a covered instruction."""
    close = get_close_matches(re.sub(r"[._]", "", name.lower())[:9], INSTRUCTIONS)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"no shape or instruction {_printed(name)}: {guess}covered are {', '.join(INSTRUCTIONS)}"


def _elsewhere(instruction: str, role: str) -> str | None:
    return _ELSEWHERE.get(role) if instruction.startswith("wgmma") else None


def _alike(one: Value, other: Value) -> bool:
    return one.lower() == other.lower() if isinstance(one, str) and isinstance(other, str) else one == other


def _printed(value: Value) -> str:
    return repr(value) if isinstance(value, str) and (not value or not value.isprintable()) else str(value)


def _suggest(kind: str, name: str, options: list[str]) -> str:
    if not options:
        return "there is none to choose from"
    if kind == "shape" and is_shape(name):
        close = _near(name, options)
        options = _folded(sorted(close or options, key=naturally))
    else:
        close = get_close_matches(name, options)
        close = [each for each in close if kind != "type" or _letters(each) == _letters(name)]
    guess = f"did you mean {close[0]}?" if close else ""
    return guess if options == close[:1] else f"{guess} choose from {shortened(options)}".strip()


def _letters(type_: str) -> str:
    return type_.rstrip("0123456789")


def _near(asked: str, there: Iterable[str]) -> list[str]:
    """The shapes that differ from the one asked for in one number: in N if there are any, else in K, else in M."""
    alike = [each for each in there if _NUMBERS.sub("#", each) == _NUMBERS.sub("#", asked)]
    apart = {each: [one != other for one, other in zip(_numbers(each), _numbers(asked), strict=True)] for each in alike}
    n, but_m, any_one = (
        [each for each in alike if sum(apart[each]) == sum(apart[each][start:end]) == 1]
        for start, end in ((1, 2), (1, None), (0, None))
    )
    return sorted(n or but_m or any_one, key=lambda each: _distance(_numbers(each), _numbers(asked)))


def _distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(abs(each - its) for each, its in zip(one, other, strict=True))


def _numbers(shape: str) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(shape)]


def _folded(shapes: Sequence[str]) -> list[str]:
    """Shapes, with those that differ only in N as one where they are many.

    >>> _folded([f"m64n{n}k16" for n in range(8, 257, 8)])
    ['m64nNk16 with N a multiple of 8 from 8 to 256']
    """
    found = []
    for like, group in grouped(shapes, lambda shape: re.sub(r"n\d+", "nN", shape)).items():
        widths = [int(re.findall(r"n(\d+)", each)[0]) for each in group if "N" in like]
        found += [f"{like} with N {_series(widths)}"] if len(widths) > _FEW else group
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


def shortened(names: Sequence[str]) -> str:
    """Names with commas, the first of many."""
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _either(names: Sequence[str]) -> str:
    """The same, as a choice."""
    *first, last = names
    return f"{shortened(first)} or {last}" if first else last
