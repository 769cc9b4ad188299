"""CuTe's C++ headers as text: the structs and aliases that they declare. The grammar of types is ``type.lark``.

Namespaces are dropped: no two of CuTe's atoms differ by them alone, and an alias that means two things is refused.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput

from ...db.errors import LanemapError

#: The text of a type is a line or two, nested a few levels. Headers are untrusted: anything longer is refused.
MAX_TYPE = 2_000
MAX_DEPTH = 40

_NOISE = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*', re.DOTALL | re.MULTILINE)
#: Only declarations are parsed; between them braces must just balance. A struct's head ends before its brace.
_TOKEN = re.compile(
    r"""(?P<struct>(?:template\s*<[^{};]*>\s*)?(?:struct|class)\s+[^{};()=]+(?=\{))|
    (?P<alias>(?P<template>template\s*<[^{};]*>\s*)?using\s+(?P<name>\w+)\s*=(?P<text>[^{};"]*);)|
    (?P<string>"(?:[^"\\\n]|\\[\s\S])*")|
    (?P<open>\{)|(?P<close>\})|;|[^{};"\s][^{};"]*|(?P<bad>\S)""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"static\s+constexpr\s+\w+\s+(\w+)\s*=\s*(\d{1,9})\s*")
#: A statement that changes the registers of an operation after its instruction has filled them.
_AFTERWARDS = re.compile(r"dst\d*\s*=|\w+\.[xyzw]\s*,")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./]+)[>\"]", re.MULTILINE)


@dataclass(frozen=True)
class TypeName:
    """A type: a name with template arguments, if any, its scope, and the extent of an array."""

    name: str
    arguments: tuple[Term, ...] | None = None
    scope: TypeName | None = None
    extent: int | None = None

    def __str__(self) -> str:
        scope = "" if self.scope is None else f"{self.scope}::"
        arguments = "" if self.arguments is None else f"<{', '.join(map(str, self.arguments))}>"
        return scope + self.name + arguments + ("" if self.extent is None else f"[{self.extent}]")


Term = TypeName | int


class Struct(NamedTuple):
    """A struct: its name, with arguments if it is a specialisation; its template parameters, base and aliases.

    ``members`` are the texts of its aliases by name; ``strings`` are its string literals, which contain the instruction
    of an operation; ``afterwards`` are statements that change the registers after that; ``numbers`` are its constants;
    ``where`` is the file and line.
    """

    name: TypeName
    parameters: tuple[str, ...]
    base: TypeName | None
    where: str
    members: dict[str, str]
    strings: list[str]
    afterwards: list[str]
    numbers: dict[str, int]


class Alias(NamedTuple):
    """``using name = text``, after ``template <...>`` if it is a template."""

    template: str
    name: str
    text: str


class Header(NamedTuple):
    """What a header declares, and the files that it includes."""

    file: str
    structs: Sequence[Struct]
    aliases: Sequence[Alias]
    includes: Sequence[str]


def parse_header(text: str, file: str = "") -> Header:
    """The declarations of a header; ``file`` is its name in ``Struct.where``.

    Raises:
        LanemapError: its braces or quotes do not balance; names the line.
    """
    code = _NOISE.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    line_ends = [newline.start() for newline in re.finditer("\n", code)]

    def unbalanced(place: int) -> LanemapError:
        line = bisect(line_ends, place) + 1
        return LanemapError(f"line {line}: cannot parse the C++: braces or quotes do not balance")

    structs: list[Struct] = []
    aliases: list[Alias] = []
    # The depth of the struct that is still open, and the struct itself, or None if its head is not one of CuTe's.
    opened: int | None = None
    struct: Struct | None = None
    depth = 0
    for token in _TOKEN.finditer(code):
        kind = token.lastgroup
        if kind == "bad" or (kind == "close" and depth == 0):
            raise unbalanced(token.start(kind))
        depth += (kind == "open") - (kind == "close")
        if kind == "struct" and opened is None:
            opened = depth
            with suppress(LanemapError):
                name, parameters, base = _parse("head", token["struct"])
                # The template may be on separate lines: the line is that of the name.
                line = bisect(line_ends, token.start() + token["struct"].rindex(name.name)) + 1
                struct = Struct(name, parameters, base, f"{file}:{line}", {}, [], [], {})
        elif kind == "alias" and opened is None:
            aliases.append(Alias(token["template"] or "", token["name"], " ".join(token["text"].split())))
        elif kind == "close" and depth == opened:
            structs += [struct] if struct else []
            opened = struct = None
        elif struct is None:
            continue
        elif kind == "alias" and depth - 1 == opened:
            struct.members[token["name"]] = " ".join(token["text"].split())
        elif kind == "string":
            struct.strings.append(token["string"][1:-1])
        elif kind is None and _AFTERWARDS.match(token[0]):
            struct.afterwards.append(token[0])
        elif kind is None and (number := _NUMBER.fullmatch(token[0])):
            struct.numbers[number[1]] = int(number[2])
    if depth:
        raise unbalanced(len(code))
    return Header(file, structs, aliases, _INCLUDE.findall(text))


@lru_cache(1 << 12)
def parse_type(text: str) -> TypeName:
    """A type.

    Raises:
        LanemapError: it is not a name with template arguments; shows the text.
    """
    parsed: TypeName = _parse("type", text)
    return parsed


@lru_cache(1 << 10)
def parse_parameters(template: str) -> tuple[str, ...]:
    """The names of the parameters of ``template <...>``, or of nothing.

    Raises:
        LanemapError: it cannot be read; shows the text.
    """
    _, parameters, _ = _parse("head", f"{template} struct _")
    return tuple(parameters)


def _parse(start: str, text: str) -> Any:
    if len(text) > MAX_TYPE or text.count("<") > MAX_DEPTH:
        raise LanemapError(f"a type of {len(text)} characters is longer than any of CuTe's: {text[:40]!r} ...")
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput:
        raise LanemapError(f"cannot read the type {text!r}") from None


@cache
def _parser() -> Lark:
    starts = ["type", "head"]
    return Lark.open("type.lark", __file__, start=starts, parser="lalr", maybe_placeholders=True, transformer=_Build())


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """The value of each rule of the grammar."""

    NAME, NUMBER = str, int

    def head(self, template: tuple[str, ...] | None, name: TypeName, base: TypeName | None) -> tuple[Any, ...]:
        return name, template or (), base

    def template(self, *parameters: str | None) -> tuple[str, ...]:
        return tuple(filter(None, parameters))

    def parameter(self, type_: TypeName, name: str | None, *_: Term | None) -> str:
        return name or str(replace(type_, scope=None))

    def type(self, *parts: Any) -> TypeName:
        *scopes, name, extent = parts
        scope = reduce(lambda outer, part: replace(part, scope=outer), scopes, None)
        return TypeName(name.name, name.arguments, scope, extent)

    def part(self, name: str, arguments: tuple[Term, ...] | None) -> TypeName:
        return TypeName(name, arguments)

    def arguments(self, *terms: Term | None) -> tuple[Term, ...]:
        return tuple(term for term in terms if term is not None)

    def shifted(self, number: int, places: int) -> int:
        return number << min(places, MAX_DEPTH)

    def quotient(self, *terms: Term) -> TypeName:
        return TypeName("quotient", terms)
