"""CuTe's C++ headers as text: the structs and aliases that they declare. The grammar of types is ``type.lark``.

Namespaces are dropped: no two of CuTe's atoms differ by them alone, and an alias that means two things is refused.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from ...db.errors import LanemapError

#: The text of a type is a line or two; nesting a handful. Headers are untrusted: more is refused rather than tried.
MAX_TYPE = 2_000
MAX_DEPTH = 40

_NOISE = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*', re.DOTALL | re.MULTILINE)
_ALIAS = re.compile(r"(template\s*<[^{};]*>\s*)?using\s+(\w+)\s*=([^{};\"]*);")
#: Declarations as islands: what is between them is only balanced. A struct's head ends before its brace.
_TOKEN = re.compile(
    r"""(?P<struct>(?:template\s*<[^{};]*>\s*)?(?:struct|class)\s+[^{};()=]+(?=\{))|
    (?P<alias>(?:template\s*<[^{};]*>\s*)?using\s+\w+\s*=[^{};"]*;)|
    (?P<string>"(?:[^"\\\n]|\\[\s\S])*")|
    (?P<open>\{)|(?P<close>\})|;|[^{};"\s][^{};"]*|(?P<bad>\S)""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"static\s+constexpr\s+\w+\s+(\w+)\s*=\s*(\d+)\s*")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./]+)[>\"]", re.MULTILINE)


def parse_header(text: str, file: str = "") -> Header:
    """The declarations of a header; ``file`` is what it is called in ``Struct.where``.

    Raises:
        LanemapError: its braces or quotes do not balance; names the line.
    """
    code = _NOISE.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    structs: list[Struct] = []
    aliases: list[Alias] = []
    owner: _Body | None = None
    depth = 0
    for token in _TOKEN.finditer(code):
        kind = token.lastgroup
        if kind == "bad" or (kind == "close" and depth == 0):
            raise _unbalanced(code, token.start(kind))
        depth += (kind == "open") - (kind == "close")
        if kind == "struct" and owner is None:
            owner = _Body(token["struct"], token.start("struct"), depth)
        elif owner is None:
            aliases += [_alias(token["alias"])] if kind == "alias" else []
        elif kind == "alias" and depth == owner.depth + 1:
            owner.members.append(_alias(token["alias"]))
        elif kind == "string":
            owner.strings.append(token["string"][1:-1])
        elif kind is None and (number := _NUMBER.fullmatch(token[0])):
            owner.numbers[number[1]] = int(number[2])
        elif kind == "close" and depth == owner.depth:
            structs += _struct(owner, code, file)
            owner = None
    if depth:
        raise _unbalanced(code, len(code))
    return Header(file, structs, aliases, _INCLUDE.findall(text))


@cache
def parse_type(text: str) -> TypeName:
    """A type.

    Raises:
        LanemapError: it is not a name with template arguments; shows the text.
    """
    parsed: TypeName = _parse("type", text)
    return parsed


@cache
def parse_parameters(template: str) -> tuple[str, ...]:
    """The names of the parameters of ``template <...>``, or of nothing.

    Raises:
        LanemapError: it cannot be read; shows the text.
    """
    _, parameters, _ = _parse("head", f"{template} struct _")
    return tuple(parameters)


@dataclass(frozen=True)
class Part:
    """One part of a qualified name, with its template arguments where it has any."""

    name: str
    arguments: tuple[Term, ...] | None = None

    def __str__(self) -> str:
        return self.name if self.arguments is None else f"{self.name}<{', '.join(map(str, self.arguments))}>"


@dataclass(frozen=True)
class TypeName:
    """A type: a name with qualifiers and template arguments, and the extent of an array."""

    parts: tuple[Part, ...]
    extent: int | None = None

    @property
    def last(self) -> Part:
        """The name without its qualifiers."""
        return self.parts[-1]

    def __str__(self) -> str:
        extent = "" if self.extent is None else f"[{self.extent}]"
        return "::".join(map(str, self.parts)) + extent


Term = TypeName | int


@dataclass(frozen=True)
class Struct:
    """A struct: its name, with arguments where it is a specialisation; its template parameters, base and aliases.

    ``members`` are the texts of its aliases by name; ``strings`` are the string literals in it, which is where an
    operation keeps its instruction; ``numbers`` its constants; ``where`` is the file and line.
    """

    name: TypeName
    parameters: tuple[str, ...]
    base: TypeName | None
    members: Mapping[str, str]
    strings: tuple[str, ...]
    where: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Alias:
    """``using name = text``, after ``template <...>`` where it is one."""

    template: str
    name: str
    text: str


@dataclass(frozen=True)
class Header:
    """What a header declares, and the files that it includes."""

    file: str
    structs: Sequence[Struct]
    aliases: Sequence[Alias]
    includes: Sequence[str]


@dataclass
class _Body:
    """A struct that is not closed yet: its head, where it is, how deep, and what was found in it."""

    head: str
    start: int
    depth: int
    members: list[Alias] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)


def _struct(body: _Body, code: str, file: str) -> list[Struct]:
    try:
        name, parameters, base = _parse("head", body.head)
    except LanemapError:
        return []
    # The template may be on lines of its own: the line is that of the name.
    line = _line(code, body.start + body.head.rindex(name.last.name))
    members = {alias.name: alias.text for alias in body.members}
    return [Struct(name, parameters, base, members, tuple(body.strings), f"{file}:{line}", body.numbers)]


def _alias(text: str) -> Alias:
    found = _ALIAS.fullmatch(text)
    assert found is not None  # the same pattern found the token
    template, name, value = found.groups()
    return Alias(template or "", name, " ".join(value.split()))


def _line(code: str, place: int) -> int:
    return bisect(_ends(code), place) + 1


@lru_cache(maxsize=1)
def _ends(code: str) -> list[int]:
    """Where the lines of a header end."""
    return [found.start() for found in re.finditer("\n", code)]


def _unbalanced(code: str, place: int) -> LanemapError:
    return LanemapError(f"line {_line(code, place)}: not C++ that can be read: braces or quotes do not balance")


def _parse(start: str, text: str) -> Any:
    if len(text) > MAX_TYPE or text.count("<") > MAX_DEPTH:
        raise LanemapError(f"a type of {len(text)} characters is longer than any of CuTe's: {text[:40]!r} ...")
    try:
        return _BUILD[start](_parser(start).parse(text))
    except UnexpectedInput:
        raise LanemapError(f"cannot read the type {text!r}") from None


@cache
def _parser(start: str) -> Lark:
    grammar = (files(__package__) / "type.lark").read_text("utf-8")
    return Lark(grammar, start=start, parser="lalr", maybe_placeholders=True)


def _head(tree: Tree[Token]) -> tuple[TypeName, tuple[str, ...], TypeName | None]:
    template, name, base = tree.children
    parameters = tuple(map(_parameter, filter(None, template.children))) if isinstance(template, Tree) else ()
    assert isinstance(name, Tree)
    return _name(name), parameters, _name(base) if isinstance(base, Tree) else None


def _parameter(tree: Any) -> str:
    type_, name, *_ = tree.children
    return str(name or _name(type_).last)


def _name(tree: Tree[Token]) -> TypeName:
    *parts, extent = tree.children
    return TypeName(tuple(map(_part, parts)), None if extent is None else int(str(extent)))


def _part(tree: Any) -> Part:
    name, arguments = tree.children
    return Part(str(name), None if arguments is None else tuple(map(_term, filter(None, arguments.children))))


def _term(node: Any) -> Term:
    if isinstance(node, Tree) and node.data == "shifted":
        number, places = (int(str(child)) for child in node.children)
        return number << min(places, MAX_DEPTH)
    if isinstance(node, Tree) and node.data == "quotient":
        return TypeName((Part("quotient", tuple(map(_term, node.children))),))
    return _name(node) if isinstance(node, Tree) else int(str(node))


_BUILD: Mapping[str, Callable[[Tree[Token]], Any]] = {"head": _head, "type": _name}
