"""How people spell an instruction: as PTX, SASS or CuTe do, or by a shape and a type.

Every spelling is put into the words of a PTX mnemonic first, so that one place reads what they say.
"""

from __future__ import annotations

from .name import Name as Name
from .types import is_shape as is_shape
from .types import shape_name as shape_name
from .types import type_name as type_name


def read(text: str) -> Name | None:
    """What a spelling says of an instruction; None where it is in none of the notations.

    >>> read("HMMA.16816.F32.BF16").types["B"]
    'bf16'

    Raises:
        LanemapError: it is in one of them and wrong, or the instruction holds no matrix in registers.
    """
    if is_shape(text):
        return Name(shape=shape_name(text))
    from . import cute, ptx, sass  # a shape and a type need none of them

    words = cute.mnemonic(text) or sass.mnemonic(text) or ptx.mnemonic(text)
    return None if words is None else ptx.read(words)
