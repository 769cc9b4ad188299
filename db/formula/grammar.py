"""PTX's formula notation: text in, definitions with their cases out. The grammar is ``grammar.lark``.

A formula is a list of definitions. Each has one or more cases; a case is a value, or a window of values, for some
elements (``for a0 and a1``, ``for ai where i < 4``), some lanes (``if %laneid < 16``), both, or what the cases before
it leave (``otherwise``). Operators have C's precedence; ``=`` in a condition compares; ``0 <= i < 2`` is a chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ..errors import LanemapError

#: Documents are untrusted: a longer formula, or one nested deeper, is refused.
MAX_LENGTH = 10_000
MAX_DEPTH = 60
_LONGEST_EXCERPT = 200


class FormulaError(LanemapError):
    """A formula that cannot be read, or that does not say where every element goes."""


@dataclass(frozen=True)
class Clause:
    """One value of a definition and the elements and lanes that it holds for."""

    value: Tree[Token]
    elements: Tree[Token] | None
    lanes: Tree[Token] | None
    otherwise: bool
    depth: int
    text: str


Formula = Mapping[str, tuple[Clause, ...]]


def parse(text: str) -> Formula:
    """The definitions of a formula by name, in the order in which they are written.

    Raises:
        FormulaError: names the line, the column and the text that no rule of the notation allows.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula of {len(text)} characters is longer than the limit of {MAX_LENGTH}")
    # White space means nothing outside comments: a formula is parsed once, however it is laid out.
    plain = text if "//" in text else " ".join(text.split())
    try:
        return _definitions(plain)
    except UnexpectedInput as error:
        raise FormulaError(_explain(error, plain, text)) from None


@lru_cache(maxsize=1024)
def _definitions(text: str) -> Formula:
    definitions: dict[str, tuple[Clause, ...]] = {}
    for definition in _parser().parse(text).children:
        assert isinstance(definition, Tree)
        name = str(definition.children[0]).rstrip("=").split()[-1]
        if name in definitions:
            raise FormulaError(f"{name} is defined twice")
        definitions[name] = tuple(_case(case, text) for case in definition.children[1:] if isinstance(case, Tree))
    return definitions


@cache
def _parser() -> Lark:
    grammar = (files(__package__) / "grammar.lark").read_text("utf-8")
    return Lark(grammar, start="formula", parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _case(tree: Tree[Token], text: str) -> Clause:
    depth = _depth(tree)
    if depth > MAX_DEPTH:
        raise FormulaError(f"nested deeper than {MAX_DEPTH} levels")
    value, *clauses = tree.children
    found: dict[str, Tree[Token]] = {}
    for clause in clauses:
        assert isinstance(clause, Tree)
        kind = {"element_test": "elements", "lane_test": "lanes"}.get(clause.data, str(clause.data))
        if kind in found:
            raise FormulaError(f"two conditions of one kind in {_excerpt(tree, text)!r}")
        found[kind] = clause
    assert isinstance(value, Tree)
    otherwise = "otherwise" in found
    return Clause(value, found.get("elements"), found.get("lanes"), otherwise, depth, _excerpt(tree, text))


def _excerpt(tree: Tree[Token], text: str) -> str:
    return " ".join(text[tree.meta.start_pos : tree.meta.end_pos].split())


def _depth(tree: Tree[Token]) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in node.children if isinstance(child, Tree)]
    return depth


def _explain(error: UnexpectedInput, parsed: str, text: str) -> str:
    """What cannot be read, and where in the text that was given; ``parsed`` differs from it in white space alone."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return f"the formula ends in the middle: {text.strip()[-60:]!r}"
    before = len("".join(parsed[: error.pos_in_stream].split()))
    at = next(islice((at for at, sign in enumerate(text) if not sign.isspace()), before, None))
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].partition("\n")[0]
    found, line_number, column = line[at - begin :].strip(), text.count("\n", 0, at) + 1, at - begin + 1
    return (
        f"line {line_number}, column {column}: cannot read {found[:_LONGEST_EXCERPT]!r} "
        f"in {line.strip()[:_LONGEST_EXCERPT]!r}"
    )
