"""Text for people: lists and counts in words, names in natural order, messages that are fit to be shown."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar
from unicodedata import category

Item = TypeVar("Item")
Common = TypeVar("Common", bound=Hashable)

_LONGEST = 500

#: How many bytes a repr has at most.
_BRIEF = 4000
_PASSWORD = re.compile(r"(//?)[^\s:/@]*(?::.*)?@|(password\s*=\s*)[^&\s]*", re.IGNORECASE)


def grouped(items: Iterable[Item], common: Callable[[Item], Common]) -> dict[Common, list[Item]]:
    """The items by what they have in common; groups, and the items in each, in the order in which they come.

    >>> grouped(["mma", "wgmma", "mma.sp"], lambda name: name[0])
    {'m': ['mma', 'mma.sp'], 'w': ['wgmma']}
    """
    groups: dict[Common, list[Item]] = {}
    for item in items:
        groups.setdefault(common(item), []).append(item)
    return groups


def but_for_n(items: Iterable[Item]) -> list[list[Item]]:
    """The items together whose names differ in the N of a shape alone if they are many, by the first of each.

    >>> [len(each) for each in but_for_n([f"m64n{n}k16 f16" for n in range(8, 257, 8)] + ["m16n8k16 f16"])]
    [32, 1]
    """
    items = [*items]
    groups = grouped(items, lambda item: re.sub(r"n\d+", "n", str(item))).values()
    lines = [line for group in groups for line in ([group] if len(group) > 4 else [[item] for item in group])]
    return sorted(lines, key=lambda line: items.index(line[0]))


def spans(numbers: Iterable[int]) -> str:
    """Sorted distinct numbers as runs.

    >>> spans([3, 0, 1, 2, 7])
    '0-3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def listed(numbers: Iterable[int]) -> str:
    """The same, but of numbers that are evenly apart the first two and the last.

    >>> listed(range(0, 32, 4)), listed([4, 0, 1])
    ('0, 4, .., 28', '0-1, 4')
    """
    ordered = sorted(set(numbers))
    step = ordered[1] - ordered[0] if len(ordered) > 3 else 0
    even = step > 1 and ordered == list(range(ordered[0], ordered[-1] + 1, step))
    return f"{ordered[0]}, {ordered[1]}, .., {ordered[-1]}" if even else spans(ordered)


def naturally(name: str) -> list[tuple[int, str]]:
    """Sort key that counts: m16n8k8 before m16n8k16, and what begins with a number last."""
    first, *parts = re.split(r"0*([0-9]+)", name)
    return [
        (int(not first and name != ""), first),
        *((len(part), part) if part.isdecimal() else (0, part) for part in parts),
    ]


def brief(text: str, rest: str, *, whole: bool = True) -> str:
    """A text as a repr, of a few kB at most: whole lines of it and, unless that is the whole, how to get the rest.

    >>> brief("a table", "frame() has all rows", whole=False).splitlines()
    ['a table', '... (frame() has all rows)']
    """
    shown = text.encode(errors="replace")[:_BRIEF].decode(errors="ignore")
    cut = len(shown) < len(text)
    if whole and not cut:
        return text
    lines = shown.rpartition("\n")[0] if cut else shown.rstrip("\n")
    return f"{lines or shown}\n... ({rest})"


def counted(number: int, noun: str) -> str:
    """A number of things, as in ``1 fragment`` and ``2 fragments``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def enumerated(names: Sequence[str]) -> str:
    """Names with commas, the first of many."""
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def either(names: Sequence[str]) -> str:
    """The same, as a choice."""
    *first, last = names
    return f"{enumerated(first)} or {last}" if first else last


def in_one_line(error: BaseException) -> str:
    """The message of a library's error in one line."""
    return " ".join(str(error).replace("\0", " ").split())[:_LONGEST]


def masked(text: str) -> str:
    """A text in which the users and passwords of addresses are replaced by ``***``."""
    return _PASSWORD.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2]}***", text)


def shortened(text: str) -> str:
    """A message without the middle of words that are too long to read; its end says what would be right.

    >>> shortened("no type " + "x" * 5000 + ": choose from f16, bf16")[100:140]
    'xxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    """
    text = re.sub(r"(\S{100})\S{100,}(\S{100})", r"\1...\2", text)
    return text if len(text) <= 2000 else f"{text[:1000]}...{text[-1000:]}"


def printable(text: str) -> str:
    """A line in which characters that would control a terminal or reorder text are escaped."""
    return "".join(
        character if character.isprintable() else " " if category(character) == "Zs" else ascii(character)[1:-1]
        for character in text
    )
