"""What a row of a fragment table says in words: how many registers, how many elements each, and which.

The words, the list of elements and the size of the matrix say the same thing three times. Where they differ, the one
of the first two that fills the matrix counts, and what the other says is a slip of the document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..words import NUMBER, bits, number, types


@dataclass(frozen=True)
class LaneElements:
    """How the elements of one lane are held. ``slips``: what the row says that cannot be so."""

    registers: int
    slots: int
    slips: tuple[str, ...]


def held(prose: str, listed: str, names: tuple[str, ...], expected: int | None) -> LaneElements | None:
    """Registers and slots from the words of a row; None where they name no number of registers.

    Args:
        prose: as in ``two .b32 registers, each holding four .s8 elements``.
        listed: the list of elements, as in ``a0, a1, ..., a7``, or nothing.
        names: the types that the row is for.
        expected: elements per lane that fill the matrix, if that is known.
    """
    counted = _REGISTERS.search(prose)
    if not counted:
        return None
    registers = number(counted["number"])
    if not 0 < registers <= _MOST_REGISTERS:
        return None
    in_words = _in_words(prose[counted.end() :], registers, counted["type"], names)
    count, slips = elements(listed)
    slips += _other_types(prose, counted["type"], names)
    choices = [total for total in (in_words, count) if total and total % registers == 0]
    fitting = [total for total in choices if total == expected] or choices or [expected or 0]
    total = fitting[0]
    if in_words and count and in_words != count:
        slips.append(f"{registers} registers hold {in_words} elements, but {count} are listed: {listed}")
    elif choices and expected and total != expected:
        slips.append(f"{total} elements in each lane, but the matrix has {expected}")
    width = bits(counted["type"]) or 32
    slots = total // registers
    if not slots or any((bits(name) or 1) * slots > width for name in names):
        return None
    return LaneElements(registers, slots, tuple(slips))


def _in_words(behind: str, registers: int, register: str, names: tuple[str, ...]) -> int | None:
    """Elements per lane as the words after the registers count them."""
    if each := _EACH.search(behind):
        return number(each["number"]) * registers
    if together := _TOGETHER.search(behind):
        return number(together["number"])
    return registers if register in names else None


def elements(listed: str) -> tuple[int, list[str]]:
    """How many elements a list names, and what is wrong with it.

    >>> elements("c0, c1, c1, c2")
    (4, ['c1 is listed twice: c0, c1, c1, c2', 'c3 is missing: c0, c1, c1, c2'])
    """
    names = re.findall(r"([abcd])(\d{1,3})\b|(\.{2,3})", listed)
    indices = [int(index) for _, index, _ in names if index]
    if not indices:
        return 0, []
    text = " ".join(listed.split())
    letter = names[0][0]
    slips = []
    if wrong := [other + index for other, index, _ in names if index and other != letter]:
        slips.append(f"{wrong[0]} stands among {letter}0, {letter}1, ...: {text}")
    if re.search(r"\d\s?[.;]\s?[abcd]\d", listed):
        slips.append(f"a comma is missing: {text}")
    slips += [f"{letter}{index} is listed twice: {text}" for index in sorted({*indices}) if indices.count(index) > 1]
    count = max(max(indices) + 1, len(indices))
    skipped = any(dots for _, _, dots in names)
    missing = sorted({*range(count)} - {*indices}) if not skipped else [] if indices[0] == 0 else [0]
    slips += [f"{letter}{index} is missing: {text}" for index in missing[:3]]
    return count, slips


def _other_types(prose: str, register: str, names: tuple[str, ...]) -> list[str]:
    """A row that is for some types and speaks of others."""
    said = {*types(prose)} - (_OF_ANY_TYPE - {*names})
    if said <= {*names} and (said or register in _OF_ANY_TYPE) and (not said - {register} or said == {*names}):
        return []
    return [f"the row is for {', '.join(names)}, but speaks of {', '.join(sorted(said))}"]


#: Registers that hold elements of other types than their own.
_OF_ANY_TYPE = {"b32", "f16x2", "bf16x2", "b64"}
#: PTX vectors of registers are far shorter; an absurd one is no reason to fill the memory.
_MOST_REGISTERS = 256
_REGISTERS = re.compile(rf"\b(?i:(?P<number>{NUMBER}))\s\.(?P<type>\w{{1,6}})\s{{1,2}}registers?\b")
_EACH = re.compile(rf"\beach(?:\sregister|\sof\s\w+)?\s(?:contain|hold)\w*\s(?P<number>{NUMBER})")
_TOGETHER = re.compile(rf"(?:contain|hold)\w*\s(?P<number>{NUMBER})\s(?!\d)")
