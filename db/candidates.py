"""The forms that a name stands for: those that have all that the name says. A name without a form is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from .errors import LanemapError
from .instructions import FORMS, Form, element_bits
from .spelling import Name

if TYPE_CHECKING:
    from .forms import Move


def forms(name: Name) -> tuple[Form | Move, ...]:
    """The forms that a name stands for: those without further modifiers, if there are any.

    Raises:
        LanemapError: there is none; says what there is instead.
    """
    if found := candidates(name):
        return tuple(form for form in found if said(form).modifiers == name.modifiers) or found
    from .missing import no_form

    raise LanemapError(no_form(name))


def candidates(name: Name) -> tuple[Form | Move, ...]:
    """The forms that have all that a name says, products before moves. A single type is that of A."""
    return next(filter(None, (tuple(form for form in tier if _fits(name, form)) for tier in _tiers(name))), ())


def every_candidate(name: Name) -> list[Form | Move]:
    """The same, with the forms that a request would mean only if there were no others."""
    return list(dict.fromkeys(form for tier in _tiers(name) for form in tier if _fits(name, form)))


@cache
def accumulators(instruction: str | None, shape: str, a: str) -> tuple[str, ...]:
    """The types of D for a type of A, most exact first."""
    if not shape or not a:
        return ()
    found = {form.types.get("D", "") for form in candidates(Name(instruction=instruction, shape=shape, type=a))} - {""}
    return tuple(sorted(found, key=lambda type_: -element_bits("mma", shape, type_)))


def _tiers(name: Name) -> Iterator[Sequence[Form | Move]]:
    """All forms that a name may stand for, the few that most requests mean first: the others take time to make."""
    yield FORMS
    from .forms import FAMILIES

    head = (name.instruction or "").partition(".")[0]
    for families in FAMILIES:
        yield [form for make, heads in families.items() if not head or head in heads for form in make()]


@cache
def said(form: Form | Move) -> Name:
    """What the mnemonic of a form says."""
    from .spelling import ptx

    return ptx.read(form.mnemonic.lower())


def _fits(name: Name, form: Form | Move) -> bool:
    return (
        name.instruction in (None, form.name)
        and name.shape in (None, form.shape)
        and _fits_types(name, form)
        and (not name.layouts or name.layouts == said(form).layouts)
        and (not name.modifiers or name.modifiers <= said(form).modifiers)
        and _fits_qualifiers(name, form)
        and (not name.options or name.options <= _options(form))
        and (not name.opcode or _fits_opcode(name.opcode, form))
    )


def _fits_types(name: Name, form: Form | Move) -> bool:
    """Whether a form has the types and the role of a name. Who names one type means an A and a B of it."""
    if not isinstance(form, Form):
        return name.role in (None, form.role) and not name.types and name.type in (None, form.type)
    if name.types:
        return name.types.items() <= form.types.items()
    return name.role is None and (name.type is None or name.type == form.a == form.b)


def _fits_qualifiers(name: Name, form: Form | Move) -> bool:
    if name.qualifiers is None:
        return True
    if isinstance(form, Form):  # what selects block scales are operands, and no words of a mnemonic
        return form.scale is not None and all("_id::" in word for word in name.qualifiers.split("."))
    return name.qualifiers == form.qualifiers


def _options(form: Form | Move) -> frozenset[str]:
    from .forms import options

    return options(form)


def _fits_opcode(words: Sequence[str], form: Form | Move) -> bool:
    """Whether words are some of those of a form's opcode, in the same order. Block scales are never left out."""
    from .spelling.sass import opcode

    if not isinstance(form, Form):
        return False
    rest = iter(opcode(form))
    return ("SF" in words) == (form.scale is not None) and all(word in rest for word in words)
