"""Fragments of one source as a text in a notation, each under a comment that says what it is and where it is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from ..errors import LanemapError
from ..files import atomically
from ..fragment import Fragment
from ..instructions import FORMS, Key
from . import Notation, RefusedError, identifier, notation
from .table import refusal


class Export(NamedTuple):
    """A text, and why each fragment or instruction that is not in it was refused."""

    text: str
    refused: list[RefusedError]

    def write(self, output: str | PathLike[str] | IO[bytes]) -> None:
        """Write the text to a file that appears whole or not at all, or to a stream.

        Raises:
            LanemapError: it cannot be written.
        """
        if isinstance(output, str | PathLike):
            with atomically(Path(output)) as stream:
                stream.write(self.text.encode())
        else:
            output.write(self.text.encode())


def export(fragments: Iterable[Fragment], name: str, version: str) -> Export:
    """The fragments in the notation of a name, and the instructions all of whose operands are among them.

    ``version`` is that of Lanemap. Each fragment is evaluated again and found equal to its elements.

    Raises:
        LanemapError: there is no such notation, nothing is left that it can express, or the fragments are of several
            sources.
    """
    form = notation(name)
    expressed: dict[Key, Fragment] = {}
    refused: list[RefusedError] = []
    texts = []
    for each in fragments:
        if each.key in expressed:
            sources = f"{expressed[each.key].source} and {each.source}"
            raise LanemapError(f"{each} is in {sources}: a notation is of one source, so name one")
        try:
            text = express(form, each)
        except RefusedError as error:
            refused.append(error)
        else:
            expressed[each.key] = each
            texts.append(_commented(form, describe(each, version)) + text)
    if not texts:
        more = f" ({len(refused) - 1} more likewise)" if len(refused) > 1 else ""
        raise LanemapError(f"{name} cannot express {refused[0]}{more}" if refused else "there are no fragments")
    texts += _instructions(form, expressed, refused)
    return Export(form.before + form.between.join(texts) + form.after, refused)


def express(form: Notation, fragment: Fragment, name: str | None = None) -> str:
    """The fragment in a notation, evaluated again and found equal to its elements.

    ``name`` is what the text calls it. Default: its identifier.

    Raises:
        RefusedError: the notation cannot express it, or its source does not give its elements.
    """
    if fragment.elements is None:
        raise RefusedError(f"{fragment} has no rows: it is {fragment.status}")
    text = form.compose(fragment, name or identifier(fragment))
    again = form.read(text, fragment)
    if len(again) != len(fragment.elements):
        raise RefusedError(f"{fragment}: {len(again)} elements read back, the rows are {len(fragment.elements)}")
    if len(different := np.flatnonzero(again != fragment.elements)):
        raise refusal(fragment, fragment.elements[different[0]], "reads back as another cell")
    return text


def describe(fragment: Fragment, version: str) -> Iterator[str]:
    """What the fragment is, its source, section, anchor and the version of Lanemap, as lines."""
    rows, cols = fragment.dimensions
    registers = f"{fragment.registers} register{'s' * (fragment.registers > 1)} of {fragment.register_bits} bits"
    slots = f"{fragment.slots} slot{'s' * (fragment.slots > 1)}"
    yield f"{fragment}: {rows} x {cols}; per lane {registers} with {slots}{' each' * (fragment.registers > 1)}"
    section = f", section {fragment.section} #{fragment.anchor}" if fragment.section else ""
    yield f"{fragment.source}{section}, Lanemap {version}"
    if fragment.erratum:
        yield f"corrected: {' '.join(fragment.erratum.split())}"


def _instructions(form: Notation, there: Mapping[Key, Fragment], refused: list[RefusedError]) -> Iterator[str]:
    """The text of every instruction all of whose operands are there, under the mnemonics that share it."""
    mnemonics: dict[str, list[str]] = {}
    operands: dict[str, dict[str, Fragment]] = {}
    for each in FORMS if form.instruction else ():
        keys = {role: each.key(role) for role in "ABCD"}
        if all(key in there for key in keys.values()):
            name = "_".join((each.name, each.shape, *each.majors, *(each.types[role] for role in "DABC")))
            mnemonics.setdefault(name, []).append(each.mnemonic)
            operands[name] = {role: there[key] for role, key in keys.items()}
    for name, these in operands.items():
        try:
            assert form.instruction
            yield _commented(form, mnemonics[name]) + form.instruction(name, these)
        except RefusedError as error:
            refused.append(error)


def _commented(form: Notation, lines: Iterable[str]) -> str:
    return "".join(f"{form.comment} {line}\n" for line in lines)
