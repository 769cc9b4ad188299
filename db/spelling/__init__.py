"""How people spell an instruction: as PTX, SASS or CuTe do, or by a shape and a type.

Every spelling is put into the words of a PTX mnemonic first, so that one place reads what they say.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import LanemapError
from .name import Name as Name
from .types import is_shape as is_shape
from .types import shape_name as shape_name
from .types import type_name as type_name


def read(text: str) -> Name | None:
    """What a spelling says of an instruction; None where it is in none of the notations.

    >>> read("HMMA.16816.F32.BF16").types["B"]
    'bf16'

    Raises:
        LanemapError: it is in one of them and wrong, or the instruction is not covered.
    """
    if is_shape(text):
        return Name(shape=shape_name(text), text=text)
    from . import cute, ptx  # a shape and a type need none of them

    if words := cute.mnemonic(text):
        return replace(ptx.read(words), text=text)
    if words := ptx.mnemonic(text):
        return replace(ptx.read(words), text=text.strip() if ptx.is_alone(text) else ptx.cased(words))
    from . import sass
    from .uncovered import uncovered

    if words := sass.mnemonic(text):
        return replace(ptx.read(words), opcode=sass.product(text), text=text)
    if reason := uncovered(text):
        raise LanemapError(reason)
    return None
