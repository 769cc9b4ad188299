"""What importers need of the PTX mnemonics that libraries keep beside their layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..db.errors import LanemapError
from ..db.instructions import Key
from ..db.spelling import Name, ptx

_SCALES = re.compile(r"scale_vec::(\d)x")


@dataclass(frozen=True)
class Mnemonic:
    """What a mnemonic says: ``mma`` or ``mma.sp``, the shape, the majors of A and B, the types of D, A, B and C.

    ``scales`` is how many block scales a row or a column has, and their type, where it has some.
    """

    name: str
    shape: str
    majors: Mapping[str, str]
    types: Mapping[str, str]
    scales: tuple[int, str] | None = None

    def key(self, role: str, selector: int | None = None) -> Key:
        """What names the operand of a role."""
        type_ = self.types["A" if role == "E" else role]
        return Key(self.name, self.shape, type_, role, self.majors.get(role), selector)


def instruction(mnemonic: str) -> Mnemonic | None:
    """The ``mma`` or ``wgmma`` that a PTX mnemonic names, or None where it is another instruction.

    >>> instruction("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32").types["A"]
    'tf32'
    """
    said = _read(mnemonic)
    if said is None or said.shape is None or said.instruction not in ("mma", "mma.sp", "wgmma", "wgmma.sp"):
        return None
    if not said.types:
        return None
    counts = [int(found[1]) for each in said.modifiers if (found := _SCALES.fullmatch(each))]
    types = [each for each in said.modifiers if each.startswith("ue")]
    majors = dict(zip("AB", said.layouts, strict=False))
    return Mnemonic(said.instruction, said.shape, majors, said.types, next(zip(counts, types, strict=False), None))


def move(mnemonic: str) -> Key | None:
    """The registers of the move that a PTX mnemonic names, or None where it is another instruction.

    >>> move("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16").qualifiers
    'x4.trans'
    """
    said = _read(mnemonic)
    moves = ("ldmatrix", "stmatrix", "movmatrix", "tcgen05.ld", "tcgen05.st")
    if said is None or said.instruction not in moves or said.shape is None or said.type is None:
        return None
    return Key(said.instruction, said.shape, said.type, "r", qualifiers=said.qualifiers)


@cache
def _read(mnemonic: str) -> Name | None:
    try:
        words = ptx.mnemonic(mnemonic)
        return ptx.read(words) if words else None
    except LanemapError:  # an instruction without operands in registers
        return None
