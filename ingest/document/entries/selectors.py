"""The sparsity selectors of mma.sp, which the documentation gives by shape and type in a section of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..blocks import plain
from ..sections import Section
from ..words import TYPES, types

#: Selectors by shape and type of A.
Selectors = Mapping[tuple[str, str], tuple[int, ...]]


def selectors(place: Section) -> Selectors:
    """What the section on sparse matrix storage says.

    Each of its parts begins with the types that it is about; in a list after them, an item names one or more shapes,
    with types of their own where the part has several, and then the values that the selector can have.
    """
    text = "\n".join(plain(line) for line in place.text.split("\n"))
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    about: tuple[str, ...] = ()
    for mark in _MARK.finditer(text):
        if mark["part"]:
            about = ()
        elif mark["half"]:
            about += ("f16",)
        elif mark["types"]:
            about += types(mark["types"])
        else:
            behind = (each.start() for each in _MARK.finditer(text, mark.end()) if each["item"] or each["part"])
            values = _values(text[mark.end() : min(next(behind, len(text)), mark.end() + _LONGEST_ITEM)])
            for shape in _SHAPE.finditer(mark["item"]):
                for type_ in types(shape["types"] or "") or about:
                    found[shape["shape"], type_] = values
    return {key: values for key, values in found.items() if values}


def _values(item: str) -> tuple[int, ...]:
    listed = _SET.search(item)
    if listed:
        return tuple(map(int, re.findall(r"\d+", listed[1])))
    choice = _CHOICE.search(item)
    return tuple(int(value) for value in choice.groups() if value) if choice else ()


_LONGEST_ITEM = 600
_ONE_SHAPE = rf"m\d{{1,3}}n\d{{1,3}}k\d{{1,3}}(?:\s(?:with|for)\s{TYPES}(?:\stypes?)?)?"
_SHAPE = re.compile(rf"(?P<shape>m\d{{1,3}}n\d{{1,3}}k\d{{1,3}})(?:\s(?:with|for)\s(?P<types>{TYPES}))?")
_MARK = re.compile(
    rf"(?P<part>\bSparse\s\W?mma\.sp)|(?P<half>\bhalf[ \-]precision)|"
    rf"(?<!\.)\b(?P<item>{_ONE_SHAPE}(?:,?\s(?:and\s)?\.?{_ONE_SHAPE}){{0,8}})\s?:|(?P<types>{TYPES})"
)
_SET = re.compile(r"\{(\d(?:,\s?\d){0,9})\}")
_CHOICE = re.compile(r"\bmust\sbe\s(?:either\s)?(\d)\b(?:[^.;]{0,60}?\bor\s(\d)\b)?")
