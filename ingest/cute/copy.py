"""One copy operation with its traits, as fragments."""

from __future__ import annotations

from collections.abc import Iterator

from ...db.errors import LanemapError
from ...db.fragment import Fragment
from ..imported import Skipped
from ..mnemonic import move
from ..move import fragments, tensor_memory
from .header import Struct, TypeName
from .operation import family, layout_of
from .traits import Library


def copy(library: Library, name: TypeName, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    """The fragments of a copy, or a Skipped with the reason why it has none.

    Args:
        library: what the headers declare.
        name: the operation's name, by which its traits are found.
        operation: its struct.
        called: what to call it in a Skipped.
    """
    key = next(filter(None, map(move, operation.strings)), None)
    if key is None:
        yield Skipped(called, _why(family(operation)))
        return
    try:
        traits = library.traits(name)
        origin = f"{traits.struct.where} {called}"
        if key.instruction.startswith("tcgen05."):
            held = layout_of(library, traits, "DstLayout" if key.instruction == "tcgen05.ld" else "SrcLayout")
            yield tensor_memory(key, held, layout_of(library, traits, "ValID"), origin)
            return
        source, target = (layout_of(library, traits, f"{side}Layout") for side in ("Src", "Dst"))
        yield from fragments(key, source, target, origin)
    except LanemapError as error:
        yield Skipped(called, str(error))


def _why(instruction: str | None) -> str:
    """Why a copy has no fragments."""
    if instruction is None:
        return "it has no instruction of its own in its assembly"
    if instruction.startswith("tcgen05."):
        return f"{instruction} copies from shared memory to Tensor Memory: no thread holds any of it"
    return f"{instruction} is not a move of matrices between memory and the registers of a warp"
