"""PTX as text to functions of instructions: as nvcc, Triton, TileLang, MLIR and people write it (PTX ISA 4 and 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ...db.errors import LanemapError
from .constants import LONG_SIGNS, NUMBER, constant
from .ptx import (
    REGISTER_BITS,
    SPACES,
    TYPE,
    VECTORS,
    WORKSPACE,
    Both,
    Function,
    Link,
    MemoryOperand,
    Module,
    Name,
    Number,
    Operand,
    SourceLine,
    Statement,
    Variable,
    Vector,
    bits_of,
)

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\f]+|//[^\n]*|/\*.*?\*/)|(?P<end>\n)|(?P<text>\"[^\"\n]*\")"
    rf"|(?P<number>{NUMBER})|(?P<word>(?:[.$_A-Za-z]|%[\w$.])[\w$.%]*(?:::[\w.]+)*)"
    rf"|(?P<sign>{'|'.join(map(re.escape, LONG_SIGNS))}|[][{{}}();,:|!@+*/%<>=~&^?-])",
    re.DOTALL,
)

#: A declaration whose type follows without a blank, as nvcc's own headers write it.
_DIRECTIVE = re.compile(rf"({'|'.join(map(re.escape, ('.reg', *SPACES)))})(\..+)")

#: What encloses a list, for what encloses one in a call.
_BRACES = {"(": "{", ")": "}"}

#: How files end that are compiled by themselves, as a kernel's author writes them, unlike a library's headers.
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".py")

#: Directives that end with their line.
_OF_A_LINE = (".loc", ".file", ".version", ".target", ".address_size")

#: What a declaration may have at most: registers, and bytes of a variable.
_MOST_REGISTERS, _LARGEST = 1 << 16, 1 << 28

#: Where the debugger finds what.
_SECTION = re.compile(r"\.section[^{\n]*\s*\{[^}]*\}")


def parse(text: str) -> Module:
    """The functions and variables of a text. Raises LanemapError with the line of what is not PTX."""
    return _Reader(text).module


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        matched = _TOKEN.match(text, at)
        if matched is None:
            raise LanemapError(f"line {line} of the PTX: {text[at : at + 20].splitlines()[0]!r} is not PTX")
        if matched.lastgroup != "blank":
            yield _Token(str(matched.lastgroup), matched[0], line)
        line += matched[0].count("\n")
        at = matched.end()


class _Scope:
    """The names that a block in braces declares: each with the name that is unique in its function.

    ``vectors`` are those of registers that are vectors of others, by the unique names of these.
    """

    def __init__(self, outer: _Scope | None, number: int) -> None:
        self.outer, self.number, self.names = outer, number, dict[str, str]()
        self.vectors: dict[str, Vector] = outer.vectors if outer else {**VECTORS}

    def declare(self, name: str) -> str:
        self.names[name] = f"{name}#{self.number}" if self.outer else name
        return self.names[name]

    def find(self, name: str) -> str:
        if name in self.names:
            return self.names[name]
        return self.outer.find(name) if self.outer else name


class _Reader:
    def __init__(self, text: str) -> None:
        self.module = Module()
        self.files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"(?:[^"\n]*/)?([^"\n]*)"', text, re.MULTILINE))
        self.function: Function | None = None
        self.scopes: list[_Scope] = []
        self.opened, self.label = 0, ""
        self.tables: dict[str, tuple[list[str], _Scope]] = {}
        self.source: list[str] = []
        self.callers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.pending: list[tuple[Statement, _Scope]] = []
        for line, tokens in self._statements(_SECTION.sub(lambda section: "\n" * section[0].count("\n"), text)):
            try:
                self._statement(tokens, line)
            except (IndexError, ValueError, ArithmeticError, RecursionError):
                words = " ".join(token.text for token in tokens[:12])
                raise LanemapError(f"line {line} of the PTX cannot be read: {words}") from None
        if self.scopes:
            raise LanemapError("the PTX ends within braces")
        if WORKSPACE.name in text:
            self.module.variables.append(WORKSPACE)

    @staticmethod
    def _statements(text: str) -> Iterator[tuple[int, list[_Token]]]:
        """Statements with their line. Braces of scopes and labels with their colon are statements."""
        held: list[_Token] = []
        depth, initial = 0, False
        for token in _tokens(text):
            if token.kind == "end":
                if held and held[0].text in _OF_A_LINE:
                    yield held[0].line, held
                    held = []
                continue
            scope = not held or (held[0].text.startswith(".") and not initial and not depth)
            if token.text in "{}" and scope:
                if held:
                    yield held[0].line, held
                yield token.line, [token]
                held, initial = [], False
                continue
            depth += (token.text in "{([") - (token.text in "})]") if token.kind == "sign" else 0
            if token.text == ";" or (token.text == ":" and len(held) == 1):
                if held:
                    yield held[0].line, held + ([token] if token.text == ":" else [])
                held, depth, initial = [], 0, False
            else:
                held.append(token)
                initial |= token.text == "="

    def _statement(self, tokens: list[_Token], line: int) -> None:
        if (directive := _DIRECTIVE.match(tokens[0].text)) is not None:  # .reg.b32
            tokens = [tokens[0]._replace(text=text) for text in directive.groups()] + tokens[1:]
        first = tokens[0].text
        if not first.startswith("."):
            tokens = _joined(tokens)
        words = [token.text for token in tokens]
        if first == ".loc":
            self._locate(words)
        elif first == "{":
            self._open()
        elif first == "}":
            self._close()
        elif words[-1] == ":" and len(words) == 2:
            function = self._inside()
            self.label = self.scopes[-1].declare(first)
            function.labels[self.label] = len(self.pending)
        elif first in (".callprototype", ".calltargets"):
            pass  # a call by an address finds its function there
        elif first == ".branchtargets":
            self.tables[self.label] = [word for word in words[1:] if word != ","], self.scopes[-1]
        elif ".entry" in words or ".func" in words:
            self._head(tokens)
        elif first == ".reg":
            self._registers(words)
        elif any(space in words[:4] for space in SPACES):
            self._variable(tokens)
        elif not first.startswith("."):
            self._instruction(tokens, line)

    def _locate(self, words: list[str]) -> None:
        """Note where in the source what follows comes from: a file, line and column, and where that is inlined.

        The place of a call has come before, with where that is inlined in turn. The author knows the file of the
        outermost place, or of the outermost one in no header, where a library's kernel calls what it is given: the
        innermost place in that file is named.
        """
        place = known = tuple(words[1:4])
        if "inlined_at" in words:
            outer = tuple(words[words.index("inlined_at") + 1 :][:3])
            known = self.callers.get(outer, outer)
            own, outside = (self.files.get(file, "").endswith(_SOURCES) for file in (place[0], known[0]))
            if place[1] != "0" and (place[0] == known[0] or (own and not outside)):
                known = place
        self.callers[place] = known
        named = [f"{self.files[at]}:{line}" for at, line, *_ in (known, place) if at in self.files and line != "0"]
        self.source = [*dict.fromkeys(named)]

    def _inside(self) -> Function:
        if self.function is None:
            raise IndexError
        return self.function

    def _open(self) -> None:
        self._inside()
        self.opened += 1
        self.scopes.append(_Scope(self.scopes[-1] if self.scopes else None, self.opened))

    def _close(self) -> None:
        self.scopes.pop()
        if not self.scopes:
            function = self._inside()
            function.targets = {name: [*map(scope.find, names)] for name, (names, scope) in self.tables.items()}
            function.body = [_resolved(instruction, scope) for instruction, scope in self.pending]
            self.module.functions[function.name] = function
            self.function, self.pending, self.opened, self.source, self.tables = None, [], 0, [], {}

    def _head(self, tokens: list[_Token]) -> None:
        words = [token.text for token in tokens]
        at = next(place for place, word in enumerate(words) if word in (".entry", ".func")) + 1
        returns: list[Variable] = []
        if words[at] == "(":
            close = words.index(")", at)
            returns, at = _variables(tokens[at + 1 : close]), close + 1
        function = Function(words[at], words[at - 1] == ".entry" or ".entry" in words, returns=returns)
        if at + 1 < len(words) and words[at + 1] == "(":
            function.parameters = _variables(tokens[at + 2 : words.index(")", at)])
        if ".reqnctapercluster" in words:
            behind = " ".join(words[words.index(".reqnctapercluster") + 1 :])
            x, y, z, *_ = [*map(int, re.findall(r"\d+", re.split("[^\\d, ]", behind)[0])), 1, 1]
            function.cluster = x, y, z
        registers = [each for each in (*function.parameters, *returns) if each.space == ".reg"]
        if function.entry and registers:
            raise ValueError(words)
        function.registers |= {each.name: each.type for each in registers}
        # What is only declared ends with a semicolon, and no brace follows: the next head replaces it.
        self.function = None if ".extern" in words else function

    def _registers(self, words: list[str]) -> None:
        """Registers of a type; a vector, and one of 128 bits, is of several that are called as its elements are."""
        function, scope = self._inside(), self.scopes[-1]
        at = 2 + (words[1] in (".v2", ".v4"))
        type_, letters = words[at - 1].removeprefix("."), "xyzw"[: int(words[1][2:])] if at == 3 else ""
        if type_ == "b128":
            type_, letters = "b64", "xy"
        if bits_of(type_) not in REGISTER_BITS:
            raise ValueError(type_)
        while at < len(words):
            name, several = words[at], words[at + 1 : at + 2] == ["<"]
            count = constant([words[at + 2]]).value if several else 1
            if count > _MOST_REGISTERS:
                raise ValueError(name)
            for each in [f"{name}{number}" for number in range(count)] if several else [name]:
                own = [scope.declare(f"{each}.{letter}") for letter in letters] or [scope.declare(each)]
                function.registers |= dict.fromkeys(own, type_)
                if letters:
                    scope.vectors[scope.declare(each)] = Vector(tuple(map(Name, own)))
            at += 5 if several else 2

    def _variable(self, tokens: list[_Token]) -> None:
        for variable in _variables(tokens):
            if self.function and self.scopes:
                self.function.variables.append(variable._replace(name=self.scopes[-1].declare(variable.name)))
            else:
                self.module.variables.append(variable)

    def _instruction(self, tokens: list[_Token], line: int) -> None:
        self._inside()
        guard = None
        if tokens[0].text == "@":
            negated = tokens[1].text == "!"
            guard, tokens = Name(tokens[1 + negated].text, negated), tokens[2 + negated :]
        parts = tuple(tokens[0].text.split("."))
        if parts[0] == "call":  # what is passed stands in parentheses, and is a list as one in braces
            tokens = [token._replace(text=_BRACES.get(token.text, token.text)) for token in tokens]
        operands = _operands(tokens[1:])
        if parts[0] in ("ld", "st", "mov") and parts[-1] == "b128":
            parts = (*parts[:-1], "v2", "b64")
        self.pending.append((Statement(parts, operands, guard, SourceLine(line, *self.source)), self.scopes[-1]))


def _variables(tokens: Sequence[_Token]) -> list[Variable]:
    """Declarations, apart from each other by commas outside of brackets and braces."""
    found, said = [], ""
    for declared in _separated(tokens):
        words = [token.text for token in declared]
        if not words:
            continue
        at = words.index("=") if "=" in words else len(words)
        head = " ".join(words[:at])
        head = head if "." in head.split(" [")[0] else said + head  # as the one before it, but for the name
        matched = re.search(r"([$\w%]+)((?: \[ ?\w* ?\])*)$", head)
        if matched is None:
            raise ValueError(head)
        said = head[: matched.start()]
        types = [word[1:] for word in head.split() if word.startswith(".") and TYPE.fullmatch(word[1:])]
        space = next((word for word in head.split() if word in SPACES), ".reg")
        extents = re.findall(r"\[ ?(\w*) ?\]", matched[2])
        each = max(bits_of(types[0]) // 8, 1) * (4 if ".v4" in head else 2 if ".v2" in head else 1)
        size = each * prod(constant([extent or "0"]).value for extent in extents)
        if size > _LARGEST:
            raise ValueError(head)
        align = re.search(r"\.align (\w+)", head)
        pointer = ".ptr" in words
        data, links = _initial(declared[at + 1 :], types[0]) if at < len(words) else (None, ())
        if data is not None:
            size = size or len(data)
            data = data.ljust(size, b"\0")
        alignment = each if align is None or pointer else constant([align[1]]).value
        found.append(Variable(matched[1], space, types[0], size, alignment, data, pointer, links))
    return found


def _initial(tokens: Sequence[_Token], type_: str) -> tuple[bytes, tuple[Link, ...]]:
    """What a variable begins with (5.4.4): numbers of a type, and addresses, whose places are zero in the bytes."""
    width, data, links = bits_of(type_) // 8, b"", list[Link]()
    for element in _separated([token for token in tokens if token.text not in "{}"]):
        mask = -1
        if element[0].kind == "number" and [token.text for token in element[1:2]] == ["("]:
            mask, element = _whole(element[:1]), element[2:-1]
        if element[0].text == "generic":
            element = [element[2], *element[4:]]
        if element[0].kind == "word":
            base, more = _address(element)
            links.append(Link(len(data), width, str(base and base.name), more, mask))
            data += bytes(width)
            continue
        bits, kind = _immediate(element)
        if bool(kind) != (type_[0] == "f"):
            raise ValueError(kind)
        if kind == "f64" and type_ != "f64":
            bits = int(np.array(bits, "u8").view("f8").astype(f"f{width}").view(f"u{width}"))
        data += (bits & (1 << 8 * width) - 1).to_bytes(width, "little")
    return data, tuple(links)


def _separated(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    held: list[_Token] = []
    depth = 0
    for token in tokens:
        if token.kind == "sign":
            depth += (token.text in "{([") - (token.text in "})]")
        if token.text == "," and not depth:
            yield held
            held = []
        else:
            held.append(token)
    if held:
        yield held


def _joined(tokens: list[_Token]) -> list[_Token]:
    """The tokens of an instruction, whose words may stand apart: bulk_group .L2::cache_hint."""
    found: list[_Token] = []
    for token in tokens:
        if found and token.text.startswith("."):
            found[-1] = found[-1]._replace(text=found[-1].text + token.text)
        else:
            found.append(token)
    return found


def _operands(tokens: Sequence[_Token]) -> tuple[Operand, ...]:
    return tuple(_operand(each) for each in _separated(tokens))


def _operand(tokens: list[_Token]) -> Operand:
    first, last = tokens[0].text, tokens[-1].text
    if (first, last) == ("{", "}"):
        return Vector(_operands(tokens[1:-1]))
    if (first, last) == ("[", "]"):
        inner, *more = _separated(tokens[1:-1])
        base, offset = _address(inner)
        return MemoryOperand(base, offset, tuple(_operand(each) for each in more))
    if first == "!" and tokens[1].kind == "word":
        (name,) = tokens[1:]
        return Name(name.text, negated=True)
    if tokens[0].kind != "word":
        return _immediate(tokens)
    if len(tokens) > 1 and tokens[1].text == "|":
        return Both(Name(first), _operand(tokens[2:]))
    base, offset = _address(tokens)
    return MemoryOperand(base, offset) if offset else Name(first)


def _address(tokens: list[_Token]) -> tuple[Name | None, int]:
    """A name, where there is one, and what is added to it."""
    if tokens[0].kind != "word":
        return None, _whole(tokens)
    sign = [token.text for token in tokens[1:2]]
    if sign not in ([], ["+"]):
        raise ValueError(sign)
    return Name(tokens[0].text), _whole(tokens[2:]) if sign else 0


def _whole(tokens: list[_Token]) -> int:
    """The value of an expression of whole numbers."""
    number = _immediate(tokens)
    if number.type:
        raise ValueError(number)
    return number.number


def _immediate(tokens: list[_Token]) -> Number:
    words = [token.text for token in tokens]
    if len(words) == 1 and (type_ := {"0f": "f32", "0d": "f64"}.get(words[0][:2].lower())):
        return Number(int(words[0][2:], 16), type_)
    value, type_ = constant(words)
    return Number(int(np.float64(value).view("u8")), type_) if type_ == "f64" else Number(value)


def _resolved(instruction: Statement, scope: _Scope) -> Statement:
    """The same with names that are unique in the function."""

    def resolve(operand: Operand) -> Operand:
        match operand:
            case Name(name, negated):
                unique = scope.find(name)
                return scope.vectors.get(unique, Name(unique, negated))
            case Vector(items):
                return Vector(tuple(map(resolve, items)))
            case MemoryOperand(base, offset, more):
                return MemoryOperand(base and Name(scope.find(base.name)), offset, tuple(map(resolve, more)))
            case Both(first, second):
                return Both(resolve(first), resolve(second))
        return operand

    guard = instruction.guard and Name(scope.find(instruction.guard.name), instruction.guard.negated)
    return instruction._replace(operands=tuple(map(resolve, instruction.operands)), guard=guard)
