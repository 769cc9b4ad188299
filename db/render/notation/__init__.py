"""Fragments in other toolchains' notations, each derived from the rows.

A notation is a function from a fragment and its name to a text: one entry in ``NOTATIONS`` and one in ``WRITERS``.
It writes a sum of digits, cases of such sums, bases or an encoding, and only after checking it against every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from os import PathLike
from typing import IO, TYPE_CHECKING, NamedTuple

from ...errors import LanemapError
from ...isa.forms import Form, forms
from ...isa.instructions import Key, undecided
from ...isa.spelling import atom
from ...layout.fragment import Fragment
from ...store.files import opened
from ...text import grouped
from ..facts import facts

if TYPE_CHECKING:
    from .table import RefusedError, Writer


class Notation(NamedTuple):
    """Who uses a notation, and the language that highlights it. The guide says what each one writes."""

    audience: str
    language: str = "text"


NOTATIONS: Mapping[str, Notation] = {
    "cute": Notation("CUTLASS", "cpp"),
    "linear": Notation("Triton", "mlir"),
    "triton": Notation("Triton", "mlir"),
    "affine": Notation("MLIR, IREE", "mlir"),
    "python": Notation("TVM, TileLang", "python"),
    "cpp": Notation("CUDA, C++", "cpp"),
    "ptx-formula": Notation("reading"),
}


def _writer(name: str) -> Writer:
    """The writer of a notation. The names alone need no numpy, so these modules are imported here."""
    if name not in NOTATIONS:
        raise LanemapError(f"{name!r} is not a notation: choose {', '.join(NOTATIONS)}")
    from . import closed_forms, cpp

    return {**closed_forms.WRITERS, "cpp": cpp.CPP}[name]


def express(name: str, fragment: Fragment, called: str | None = None) -> str:
    """The fragment in a notation, under the name ``called``, by default its identifier.

    Raises:
        LanemapError: there is no such notation.
        RefusedError: the notation cannot express it, or its source does not give its elements.
    """
    writer = _writer(name)
    from .table import RefusedError

    if not fragment.has_rows:
        raise RefusedError(f"{fragment} has no rows: it is {fragment.status}")
    return writer.compose(fragment, called or fragment.identifier)


class Export(NamedTuple):
    """A text, and the reason for each fragment or instruction that it leaves out. Printing shows both."""

    text: str
    refused: list[RefusedError]

    def __str__(self) -> str:
        return self.text + "\n".join(f"cannot express {error}" for error in self.refused)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def write(self, output: str | PathLike[str] | IO[bytes]) -> None:
        """Write the text to a stream, or to a file, which appears complete or not at all.

        Raises:
            LanemapError: it cannot be written.
        """
        with opened(output) as stream:
            stream.write(self.text.encode())


def export(fragments: Iterable[Fragment], name: str, version: str) -> Export:
    """The fragments in a notation, and the instructions all of whose operands are among them.

    A comment above each text says what it is and where it comes from. ``version`` is that of Lanemap.

    Raises:
        LanemapError: there is no such notation, it can express none of them, or they come from several sources.
    """
    writer = _writer(name)
    from .table import RefusedError

    def headed(lines: Iterable[str], text: str) -> str:
        return "".join(f"{writer.comment} {line}\n" for line in lines) + text

    by_key: dict[Key, Fragment] = {}
    for fragment in fragments:
        if (earlier := by_key.setdefault(fragment.key, fragment)) is not fragment:
            sources = f"{earlier.source} and {fragment.source}"
            raise LanemapError(f"{fragment} is in {sources}: export one source at a time")
    expressed: dict[Key, Fragment] = {}
    refused: list[RefusedError] = []
    texts = []
    but_for_scales = grouped(by_key.values(), lambda each: each.key._replace(qualifiers=undecided(each.qualifiers)))
    for key, alike in but_for_scales.items():
        whole = replace(alike[0], qualifiers=key.qualifiers) if len(alike) > 1 else alike[0]
        text = writer.joined(alike, whole.identifier) if writer.joined and len(alike) > 1 else None
        for shown, several in [(whole, alike)] if text else [(fragment, [fragment]) for fragment in alike]:
            try:
                texts.append(headed(_describe(shown, version), text or express(name, shown)))
                expressed |= {fragment.key: fragment for fragment in several}
            except RefusedError as error:
                refused.append(error)
    if not texts:
        more = f" ({len(refused) - 1} more likewise)" if len(refused) > 1 else ""
        raise LanemapError(f"{name} cannot express {refused[0]}{more}" if refused else "there are no fragments")
    if writer.instruction:
        # Of a tile those are enough that registers hold.
        tiled = any(fragment.tiling for fragment in expressed.values())

        def roles(form: Form) -> list[str]:
            return [role for role in "ABCD" if not tiled or role in form.instruction.register_roles]

        complete = (form for form in forms() if form.d and all(form.key(role) in expressed for role in roles(form)))
        for form_name, same in grouped(complete, _called).items():
            operands = {role: expressed[same[0].key(role)] for role in roles(same[0])}
            called = "_".join([form_name, *(tiling.identifier for tiling in [operands["D"].tiling] if tiling)])
            try:
                texts.append(
                    headed((form.mnemonic for form in same), writer.instruction(called, operands, atom(same[0])))
                )
            except RefusedError as error:
                refused.append(error)
    return Export(writer.before + writer.between.join(texts) + writer.after, refused)


def _describe(fragment: Fragment, version: str) -> Iterator[str]:
    texts = facts(fragment)
    where, label = ("in memory", "memory") if fragment.tile else ("per lane", "per lane")
    yield f"{texts['operand']}; {where} {texts[label]}"
    section = f", section {texts['section']}" if "section" in texts else ""
    yield f"{fragment.source}{section}, Lanemap {version}"
    if "note" in texts:
        yield texts["note"]
    if "true of" in texts:
        yield f"true of {texts['true of']}"
    if "erratum" in texts:
        yield f"corrected: {' '.join(texts['erratum'].split())}"


def _called(form: Form) -> str:
    return "_".join((form.name, form.shape, *form.majors, *(form.types[role] for role in "DABC")))
