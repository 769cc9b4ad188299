"""CuTe's C++ headers as text: the structs and aliases that they declare. The grammars are the two files beside this.

Namespaces are dropped: no two of CuTe's atoms differ by them alone, and an alias that means two things is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from ...db.errors import LanemapError

#: The text of a type is a line or two; nesting a handful. Headers are untrusted: more is refused rather than tried.
MAX_TYPE = 2_000
MAX_DEPTH = 40

_NOISE = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*', re.DOTALL | re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([\w./]+)[>\"]", re.MULTILINE)


def parse_header(text: str) -> Header:
    """The declarations of a header.

    Raises:
        LanemapError: its braces or quotes do not balance; names the line.
    """
    code = _NOISE.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    try:
        tree = _parser("header").parse(code)
    except UnexpectedInput as error:
        raise LanemapError(f"line {error.line}: not C++ that can be read: braces or quotes do not balance") from None
    structs: list[Struct] = []
    aliases: list[tuple[str, str]] = []
    _collect(tree, structs, aliases)
    return Header(structs, aliases, _INCLUDE.findall(text))


@cache
def parse_type(text: str) -> Name:
    """A type.

    Raises:
        LanemapError: it is not a name with template arguments; shows the text.
    """
    parsed: Name = _parse("type", text)
    return parsed


@dataclass(frozen=True)
class Part:
    """One part of a qualified name, with its template arguments where it has any."""

    name: str
    arguments: tuple[Term, ...] | None = None

    def __str__(self) -> str:
        return self.name if self.arguments is None else f"{self.name}<{', '.join(map(str, self.arguments))}>"


@dataclass(frozen=True)
class Name:
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


Term = Name | int


@dataclass(frozen=True)
class Struct:
    """A struct: its name, with arguments where it is a specialisation; its template parameters, base and aliases.

    ``members`` are the texts of its aliases by name; ``strings`` are the string literals in it, which is where an
    operation keeps its instruction.
    """

    name: Name
    parameters: tuple[str, ...]
    base: Name | None
    members: Mapping[str, str]
    strings: tuple[str, ...]


@dataclass(frozen=True)
class Header:
    """What a header declares, and the files that it includes. ``aliases`` are names with the text of their types."""

    structs: Sequence[Struct]
    aliases: Sequence[tuple[str, str]]
    includes: Sequence[str]


def _collect(tree: Tree[Token], structs: list[Struct], aliases: list[tuple[str, str]]) -> None:
    """Depth first without recursion: a header of nothing but braces must not end in a stack overflow."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.data == "struct":
            structs += _struct(node)
            continue
        aliases += _aliases(node)
        waiting += [child for child in reversed(node.children) if isinstance(child, Tree)]


def _struct(tree: Tree[Token]) -> list[Struct]:
    head, body = tree.children
    assert isinstance(body, Tree)
    try:
        name, parameters, base = _parse("head", str(head))
    except LanemapError:
        return []
    strings = tuple(str(token)[1:-1] for token in body.scan_values(_is_string))
    return [Struct(name, parameters, base, dict(_aliases(body)), strings)]


def _aliases(tree: Tree[Token]) -> list[tuple[str, str]]:
    texts = (str(child) for child in tree.children if isinstance(child, Token) and child.type == "ALIAS")
    pairs = (text.removeprefix("using").rstrip(";").split("=", 1) for text in texts)
    return [(name.strip(), " ".join(value.split())) for name, value in pairs]


def _is_string(token: object) -> bool:
    return isinstance(token, Token) and token.type == "STRING"


def _parse(start: str, text: str) -> Any:
    if len(text) > MAX_TYPE or text.count("<") > MAX_DEPTH:
        raise LanemapError(f"a type of {len(text)} characters is longer than any of CuTe's: {text[:40]!r} ...")
    try:
        return _BUILD[start](_parser(start).parse(text))
    except UnexpectedInput:
        raise LanemapError(f"cannot read the type {text!r}") from None


@cache
def _parser(start: str) -> Lark:
    grammar = (files(__package__) / ("header.lark" if start == "header" else "type.lark")).read_text("utf-8")
    return Lark(grammar, start=start, parser="lalr", maybe_placeholders=True)


def _head(tree: Tree[Token]) -> tuple[Name, tuple[str, ...], Name | None]:
    template, name, base = tree.children
    parameters = tuple(map(_parameter, filter(None, template.children))) if isinstance(template, Tree) else ()
    assert isinstance(name, Tree)
    return _name(name), parameters, _name(base) if isinstance(base, Tree) else None


def _parameter(tree: Any) -> str:
    type_, name, *_ = tree.children
    return str(name or _name(type_).last)


def _name(tree: Tree[Token]) -> Name:
    *parts, extent = tree.children
    return Name(tuple(map(_part, parts)), None if extent is None else int(str(extent)))


def _part(tree: Any) -> Part:
    name, arguments = tree.children
    return Part(str(name), None if arguments is None else tuple(map(_term, filter(None, arguments.children))))


def _term(node: Any) -> Term:
    return _name(node) if isinstance(node, Tree) else int(str(node))


_BUILD: Mapping[str, Callable[[Tree[Token]], Any]] = {"head": _head, "type": _name}
