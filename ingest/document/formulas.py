"""Formulas inside a document's text: where they begin and end, what they say, and how they are written out."""

import re
from collections.abc import Iterator
from itertools import islice

from ...db.layout.formula import MAX_LENGTH, FormulaError, parse
from .blocks import TYPES, unescape

#: What a formula begins with: ``row =``, ``col =``, or a definition after ``where`` or that starts from the lane.
START = (
    r"(?<![\w%.])(?:row|col|firstcol|lastcol|(?<=[Ww]here\s)[A-Za-z_]\w{0,60}|"
    r"[A-Za-z_]\w{0,60}(?=[ \t]{0,40}=[\s(]{0,40}%laneid))\s{0,40}=(?!=)"
)


def defined(text: str) -> frozenset[str]:
    """The names that a text defines."""
    return frozenset(name[1] for name in _TARGET.finditer(text)) - {"i", "I"}


def end_of_formula(text: str, start: int, names: frozenset[str]) -> int:
    """Where the formula that begins at ``start`` ends: before the first thing that cannot belong to one.

    Words of other text may be glued to its end. What is neither the notation's nor among ``names`` is the end only
    where something that follows formulas begins, or a line without conditions; else it stays, to be complained about.
    """
    at = start
    # Far enough beyond what the notation accepts that a formula cut here is refused, not shortened.
    limit = min(len(text), start + MAX_LENGTH + 200)
    while at < limit:
        matched = _TOKEN.match(text, at)
        word = matched["word"] if matched else None
        known = _known(word, names) if word else None
        if matched and known == word:
            at = matched.end()
            continue
        glued = len(known or "")
        end = at + glued
        # Without words and signs behind it that only look like the notation's, as a bullet does.
        while tail := _TAIL.search(text, max(start, end - 200), end):
            end = tail.start()
        line_end = text.find("\n", at)
        line_end = limit if line_end < 0 else min(line_end, limit)
        new_line = "\n" in text[end:at] and not _CASE.search(text, at, line_end)
        if glued or new_line or _NEXT.match(text, end):
            return end
        after = _NEXT.search(text, at + 1, line_end)
        at = after.start() if after else line_end
    return len(text[: min(at, limit)].rstrip())


def _known(word: str, names: frozenset[str]) -> str | None:
    """The word, or the part of it in front of a capital letter that belongs to a formula."""
    if word in names or _KEYWORD.fullmatch(word):
        return word
    for capital in re.finditer("[A-Z]", word[:_LONGEST_NAME]):
        if (front := word[: capital.start()]) in names or (front and _KEYWORD.fullmatch(front)):
            return front
    return None


def read(text: str, mendings: Iterator[int]) -> tuple[str, str | None]:
    """A formula as printed, laid out in columns; and what had to be added or dropped to read it, if anything.

    Where a bracket is missing or one too many, that is mended if there is only one way. ``mendings`` yields a number
    for each formula that may be mended.

    Raises:
        FormulaError: it cannot be read.
    """
    printed = _COMMENT.sub("", unescape(text)).strip()
    try:
        return _laid_out(printed), None
    except FormulaError:
        near = len(printed) <= _LONGEST_MENDED and next(mendings, None) is not None
        mended_ways = [(words, way) for words, way in _mendings(printed) if _values(way)] if near else []
        if not mended_ways or any(_values(way) != _values(mended_ways[0][1]) for _, way in mended_ways):
            raise
        words, mended = mended_ways[-1]
        return _laid_out(mended), words


def _values(text: str) -> list[list[object]]:
    """What the cases of each definition say: equal where brackets differ that change nothing. Empty: no formula."""
    try:
        return [[(case.value, case.elements, case.lanes) for case in cases] for cases in parse(text).values()]
    except FormulaError:
        return []


def _mendings(text: str) -> Iterator[tuple[str, str]]:
    """The ways to make the brackets of a formula balance by adding or dropping one."""
    for opening, closing in ("()", "{}", "[]"):
        surplus = text.count(opening) - text.count(closing)
        if surplus == 1:
            for token in islice(_OPERAND.finditer(text), _MOST_PLACES):
                where = token.end()
                yield f"added the closing bracket after {token[0]}", text[:where] + closing + text[where:]
        elif surplus == -1:
            for sign in islice(re.finditer(re.escape(closing), text), _MOST_PLACES):
                front = text[: sign.start()]
                before = " ".join(front.split()[-1:])
                yield f"dropped the closing bracket after {before}", front + text[sign.end() :]


def _laid_out(text: str) -> str:
    """The formula with each definition on its own line and the conditions of all cases in one column."""
    lines: list[tuple[str, str]] = []
    for name, cases in parse(text).items():
        front = re.search(rf"(?i:\bwhere\s+)?(?<![\w%]){name}\s*=(?!=)", text)
        lead = " ".join(front[0].split()) if front else f"{name} ="
        for index, case in enumerate(cases):
            condition = _CONDITION.search(case.text)
            value = case.text[: condition.start()].rstrip() if condition else case.text
            lines.append((f"{lead if index == 0 else ' ' * len(lead)} {value}", condition[0] if condition else ""))
    width = max((len(value) for value, condition in lines if condition), default=0)
    return "\n".join(f"{value:{width}}  {condition}".rstrip() for value, condition in lines)


#: The longest formula of PTX has 362 characters.
_LONGEST_MENDED = 600
_MOST_PLACES = 100
_LONGEST_NAME = 64
_TARGET = re.compile(r"\b([A-Za-z_]\w{0,60})[ \t]{0,40}=(?!=)")
_KEYWORD = re.compile(r"for|where|if|otherwise|and|or|i|[abcd](?:i|\d+)|laneid", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:for|if|otherwise)\b.*", re.IGNORECASE | re.DOTALL)
#: A line that goes on with a formula.
_CASE = re.compile(r"\bfor\s+[abcd](?:i|\d)|\botherwise\b|\bif\s+%|=", re.IGNORECASE)
_OPERAND = re.compile(r"%?\w+|[)\]}]")
_COMMENT = re.compile(r"//(?:(?!//|\b[Ww]here\s+\w+\s*=|\b(?:row|col|firstcol|lastcol)\s*=)[^\n])*")
_TOKEN = re.compile(
    rf"\s+|{_COMMENT.pattern}|%laneid|(?P<word>[A-Za-z_]\w*)|0x[\da-fA-F]+|0b[01]+|\d+(?!\.\d+\.)|\.{{2,3}}|"
    r"&(?:lt|gt|amp|nbsp);|[-+*/%&|^~!<>=(){}\[\],]"
)
_TAIL = re.compile(r"(?:\s|\b(?:for|where|if|and|or)|(?<!\|)\||(?<=\s)[-+*>]|[\[(])$", re.IGNORECASE)
#: What follows a formula in the documentation, behind a bullet or quotation mark if need be.
_NEXT = re.compile(
    r"[\s*+>|\-]{0,40}(?:Multiplicand|Accumulator|Metadata|Matrix [Ff]ragment|Copy\b|Figure\b|The\b|[Ww]here the\b|"
    rf"Permalink|A warp|Fragment layout|Elements|\d+(?:\.\d+){{2}}|{TYPES}\s*:|\.[abcd]type|!\[|\x02|\n\s*\n|$)"
)
