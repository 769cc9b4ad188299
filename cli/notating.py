"""What ``export`` writes in other toolchains' notations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from .. import DEFAULT_SOURCE, __version__
from ..db.errors import LanemapError
from ..db.files import atomically
from ..db.fragment import Fragment
from ..db.instructions import FORMS
from ..db.lookup import Query, read_fragments, with_rows
from ..db.notation import Notation, affine, cpp, cute, linear, ptx_formula, python
from ..db.notation.selection import Selection, select
from ..db.notation.table import RefusedError
from ..db.reader import Reader
from .options import FileFormat

NOTATIONS: Mapping[FileFormat, Notation] = {
    FileFormat.CUTE: cute.NOTATION,
    FileFormat.LINEAR: linear.NOTATION,
    FileFormat.AFFINE: affine.NOTATION,
    FileFormat.PYTHON: python.NOTATION,
    FileFormat.CPP: cpp.NOTATION,
    FileFormat.PTX_FORMULA: ptx_formula.NOTATION,
}


def export(reader: Reader, query: Query, form: FileFormat, output: str) -> list[RefusedError]:
    """Write the fragments that match to a file, or to stdout for ``-``; what the notation refused, if not all.

    Raises:
        LanemapError: nothing matches, nothing has rows, or the notation refuses everything.
    """
    query = replace(query, source=DEFAULT_SOURCE if query.source is None else query.source)
    found = with_rows(reader, read_fragments(reader, query))
    selection = select(NOTATIONS[form], found)
    if not selection.expressed:
        more = f" ({len(selection.refused) - 1} more likewise)" if len(selection.refused) > 1 else ""
        raise LanemapError(f"{form} cannot express {selection.refused[0]}{more}")
    traits = list(_traits(selection)) if form is FileFormat.CUTE else []
    text = selection.text(str(found[0].source), __version__, traits)
    if output == "-":
        sys.stdout.write(text)
        return selection.refused
    with atomically(Path(output)) as stream:
        stream.write(text.encode())
    return selection.refused


def _traits(selection: Selection) -> Iterator[str]:
    """The traits of every instruction all of whose operands are there, after the mnemonics that share them.

    What CuTe's traits cannot hold is refused like any other.
    """
    there: dict[object, Fragment] = {fragment.key: fragment for fragment, _ in selection.expressed}
    mnemonics: dict[str, list[str]] = {}
    operands: dict[str, dict[str, Fragment]] = {}
    for each in FORMS:
        keys = {role: each.key(role) for role in "ABCD"}
        if all(key in there for key in keys.values()):
            types = (each.d, each.a, each.b, each.c)
            name = "_".join((each.name, each.shape, *each.majors, *types))
            mnemonics.setdefault(name, []).append(each.mnemonic)
            operands[name] = {role: there[key] for role, key in keys.items()}
    for name, these in operands.items():
        try:
            yield "".join(f"// {mnemonic}\n" for mnemonic in mnemonics[name]) + cute.traits(name, these)
        except RefusedError as error:
            selection.refused.append(error)
