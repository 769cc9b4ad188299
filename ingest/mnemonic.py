"""The forms that libraries name by PTX mnemonics beside their layouts."""

from __future__ import annotations

from functools import cache

from ..db.errors import LanemapError
from ..db.isa.forms import Form
from ..db.isa.instructions import INSTRUCTIONS, Key
from ..db.isa.parse import parse
from ..db.isa.spelling import candidates, exact


@cache
def instruction(mnemonic: str) -> Form | None:
    """The ``mma`` or ``wgmma`` that a PTX mnemonic names, or None where it is another instruction.

    Libraries name some that PTX does not have.

    >>> instruction("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32").types["A"]
    'tf32'
    """
    words = _words(mnemonic)
    by_kind = {kind: word for word, kind in words.items()}
    row = INSTRUCTIONS.get(by_kind.get("instruction", ""))
    if row is None or not row.multiplies or not row.opcode or not {"shape", "types"} <= by_kind.keys():
        return None
    if found := exact(words, candidates(words)):
        return found[0]
    types = by_kind["types"].split(".")
    if len(types) != len(row.types):
        return None
    of = dict(zip(row.types, types, strict=True))
    majors = tuple(by_kind.get("layouts", "row.col").split("."))
    return Form(row.name, by_kind["shape"], of["A"], of["B"], of.get("C", of["D"]), of["D"], "", majors)


@cache
def move(mnemonic: str) -> Key | None:
    """The registers of the move that a PTX mnemonic names, or None where it is another instruction.

    >>> move("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16").qualifiers
    'x4.trans'
    """
    words = _words(mnemonic)
    moved = {"shape", "type"} <= {*words.values()}
    form = next((form for form in candidates(words) if form.instruction.moves), None) if moved else None
    return None if form is None else Key(form.name, form.shape, form.a, "r", qualifiers=form.qualifiers)


def _words(mnemonic: str) -> dict[str, str]:
    try:
        return dict(parse(mnemonic) or {})
    except LanemapError:  # an instruction without operands in registers
        return {}
