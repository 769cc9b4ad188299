"""The parameters of commands and routes: what each is for and what it looks like, said once by its name.

A command has a plain signature. What its parameters are called on the command line, what their help says and how they
are completed comes from the table, and where a help is narrower there, from the signature: ``Annotated[int, "..."]``.
"""

import csv
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from .. import DEFAULT_SOURCE, Database, LanemapError, existing, named_file

#: How rows come out.
Format = StrEnum("Format", ["TABLE", "CSV", "JSON", "JSONL", "PARQUET", "ARROW"])

#: How a chain or a recipe comes out: also as a device function.
ChainFormat = StrEnum("ChainFormat", ["TABLE", "CSV", "JSON", "JSONL", "PARQUET", "ARROW", "CPP"])

#: How a fragment is drawn.
By = StrEnum("By", ["ELEMENT", "LANE"])

#: How the report of a comparison comes out.
ReportFormat = StrEnum("ReportFormat", ["TABLE", "MARKDOWN", "JSON", "HTML", "JUNIT", "GITHUB"])

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")


def integer(text: str | int) -> int:
    """A whole number as people write one; Python itself would take 1_0 for 10.

    >>> integer("-1")
    -1
    """
    if not _INTEGER.fullmatch(str(text)):  # a default is one already
        raise typer.BadParameter(f"{text!r} is not a valid integer.")
    return int(text)


class Parameter(NamedTuple):
    """What a parameter is on the command line, and what it is for; the table beside this module has a row for each.

    ``short`` is its short name, ``value`` what its help calls the value. A completer offers what the database has in
    ``column``, or where there is none what is ``usual``.
    """

    short: str = ""
    value: str = ""
    example: str = ""
    column: str = ""
    usual: str = ""
    help: str = ""


with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _table:
    PARAMETERS = {name: Parameter(*said) for name, *said in csv.reader(_table)}

Completer = Callable[[typer.Context, str], list[str]]


def completer(column: str) -> Completer:
    """A completer for what the database has in a column, of the shape that was named before; or the usual names."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        shape, usual = context.params.get("shape"), PARAMETERS[column].usual
        return _offered(lambda database: database.names(column, shape), usual.split(), incomplete)

    return complete


source_names = completer("source")


def _offered(names: Callable[[Database], Sequence[str]], fallback: Sequence[str], incomplete: str) -> list[str]:
    """The names that begin as somebody has begun. Whatever is wrong, a completer must never disturb the shell."""
    choices = fallback
    with suppress(Exception):
        if database := existing():
            choices = names(database)
    return [name for name in choices if name.lower().startswith(incomplete.lower())]


def next_words(words: Sequence[str], context: typer.Context, incomplete: str) -> list[str]:
    """The words that may follow those of one operand, or that may begin one."""
    if not words:
        return completer("shape")(context, incomplete)
    return _offered(lambda database: database.following(words), (), incomplete)


def operand_word(context: typer.Context, incomplete: str) -> list[str]:
    """A completer for the words of an operand: a shape, then types that it has, then roles that they have."""
    return next_words(context.params.get("operand") or [], context, incomplete)


#: What stands last in a help.
_LAST = ("format", "output", "db")


def described(function: Callable[..., Any], describe: Callable[[str, Any, str], Any]) -> None:
    """Say in the signature of a command or a route what the table says of its parameters.

    ``describe`` makes the annotation of a parameter, of its name, its type and what it is for. Those of ``**which``, a
    TypedDict, stand in the signature one by one. What describes itself stays as it is.
    """
    if hasattr(function, "__signature__"):
        return
    parameters = []
    for name, kind, default in _parameters(function):
        base, own, *_ = (*get_args(kind), None) if get_origin(kind) is Annotated else (kind, None)
        says = PARAMETERS.get(name)
        if isinstance(own, str):
            kind = describe(name, base, own)
        elif own is None and says is not None:
            words = ", as in ".join(filter(None, (says.help, says.example)))
            kind = describe(name, base, words + "." * (words[-1] not in ".]"))
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    parameters.sort(key=lambda parameter: parameter.name in _LAST)
    vars(function).update(__signature__=inspect.Signature(parameters))
    function.__annotations__.clear()


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """The name, type and default of each parameter."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield name, hints[name], parameter.default
            continue
        for field, kind in get_type_hints(get_args(hints[name])[0], include_extras=True).items():
            yield field, *((str, DEFAULT_SOURCE) if field == "source" else (kind, None))


def plain(kind: Any) -> Any:
    """A type without None."""
    return next(member for member in get_args(kind) if member is not NoneType) if isinstance(kind, UnionType) else kind


def option(name: str, kind: Any, words: str) -> Any:
    """The annotation of an option of the command line."""
    says, inner = PARAMETERS.get(name, Parameter()), plain(kind)
    single = get_args(inner)[0] if get_origin(inner) is list else inner
    more: dict[str, Any] = {"metavar": says.value or name.upper()}
    if says.column:
        more["autocompletion"] = completer(says.column)
    if single is int:
        more |= {"parser": integer, "metavar": "N"}
    elif single is float:
        more["metavar"] = "N"
    elif single is bool or (inspect.isclass(single) and issubclass(single, StrEnum)):
        more = {"case_sensitive": False}
    if single is not inner:
        words += " May be repeated."
    flags = filter(None, (f"--{_FLAGS.get(name, name.replace('_', '-'))}", says.short))
    return Annotated[kind, typer.Option(*flags, help=words, **more)]


#: What an option is called where Python has another use for the name.
_FLAGS = {"everything": "all", "listed": "list", "show": "open"}


def argument(metavar: str, words: str, complete: Completer | None = None) -> Any:
    """What the signature of a command says of an argument."""
    return typer.Argument(metavar=metavar, help=words, autocompletion=complete)


_NAME = "Instead of SHAPE and TYPE, an instruction may have one name, such as a mnemonic."
Operand = Annotated[list[str], argument("SHAPE TYPE ROLE", _NAME, operand_word)]
SomeOperand = Annotated[
    list[str] | None, argument("SHAPE TYPE ROLE", "An instruction, or one operand of it.", operand_word)
]


def read_text(file: str, wanted: str, most: int = -1) -> str:
    """The text in a file, - for stdin, or so many characters of it."""
    if file == "-":
        return sys.stdin.read(most)
    try:
        with named_file(file, wanted).open(encoding="utf-8", newline="") as stream:
            return stream.read(most)
    except (OSError, UnicodeDecodeError) as error:
        raise LanemapError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def read_token(file: str) -> str:
    """The token in a file, without the end of its line. What is too short to be a secret is refused."""
    token = read_text(file, "a file that holds a token").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise LanemapError(f"{file} holds no token: write 16 characters or more into it, as openssl rand -hex 32 does")
    return token
