"""What a source says of where it comes from: JSON that is stored, and read again by whoever checks a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import LanemapError
from .fragment import Source
from .instructions import Key, dimensions

_LARGEST = 1 << 20


def provenance(source: Source) -> str:
    """The provenance of a source as JSON, if every reader of it will understand it.

    That of a capture has a list ``instructions`` of objects with ``instruction``, ``status``, ``message`` and
    ``documented`` (nothing, or an object with ``verdict`` and ``detail``). That of any source has a list
    ``disagreements`` of text, of what it says is wrong in itself, and a list ``wrong`` of objects with ``operand`` (a
    key as a list), ``origin`` and ``words``. That of an import has objects ``confirmed`` and ``unreached`` of text by
    operand. All may be left out.

    Raises:
        LanemapError: says what of it is wrong.
    """
    try:
        text = json.dumps(dict(source.provenance), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LanemapError(f"{source.name}: its provenance is not a JSON object: {error}") from None
    if len(text) > _LARGEST:
        raise LanemapError(f"{source.name}: its provenance has more than {_LARGEST} characters")
    said = json.loads(text)
    if not all(isinstance(each, str) for each in _list(source, said, "disagreements")):
        raise LanemapError(f"{source.name}: disagreements in its provenance must be a list of text")
    for number, each in enumerate(_list(source, said, "wrong")):
        _text(source, f"wrong[{number}]", each, "origin", "words")
        if not _is_key(each.get("operand")):
            raise LanemapError(f"{source.name}: wrong[{number}] in its provenance must name an operand")
    for name in ("confirmed", "unreached"):
        if not isinstance(said.get(name, {}), dict):
            raise LanemapError(f"{source.name}: {name} in its provenance must be an object")
    if source.kind == "capture":
        for number, each in enumerate(_list(source, said, "instructions")):
            where = f"instructions[{number}]"
            _text(source, where, each, "instruction", "status", "message")
            if each.get("documented") is not None:
                _text(source, f"{where}.documented", each["documented"], "verdict", "detail")
    return text


def _list(source: Source, said: Mapping[str, Any], name: str) -> list[Any]:
    found = said.get(name, [])
    if not isinstance(found, list):
        raise LanemapError(f"{source.name}: {name} in its provenance must be a list, not {json.dumps(found)[:40]}")
    return found


def _is_key(said: Any) -> bool:
    if not isinstance(said, list) or len(said) != len(Key._fields):
        return False
    if not all(isinstance(each, str) for each in said[:4]) or not all(
        isinstance(each, str | int | None) for each in said
    ):
        return False
    key = Key(*said)
    try:
        return min(dimensions(key.shape, key.role, key.instruction, key.qualifiers)) > 0
    except LanemapError:
        return False


def _text(source: Source, where: str, said: Any, *names: str) -> None:
    for name in names:
        if not isinstance(said, dict) or not isinstance(said.get(name), str):
            raise LanemapError(f"{source.name}: {where} in its provenance must be an object with the text {name!r}")
