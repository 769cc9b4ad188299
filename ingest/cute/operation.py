"""One operation with its traits, as fragments.

Sparse A is in logical columns: ``sparse_elem<S, T>`` says that a stored T stands for S of them. Half is kept, chosen
inside two such, which CUTLASS calls a chunk (``sm1xx_sparse_config.inl``, where two bits of metadata choose each). So
an element of A, and an index of E, has its chunk as its window of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...db.errors import LanemapError
from ...db.fragment import Fragment
from ..atom import Instruction, Operand, fragment, instruction
from ..imported import Skipped
from ..shape_stride import Layout, size
from .header import Name, Struct, parse_type
from .traits import Library, Traits, Value

_INDEX_BITS = 2
_REGISTER_BITS = {"uint32_t": 32, "int32_t": 32, "float": 32, "double": 64}
_SELECTOR = re.compile(r"0x([0-3])")


def threads(library: Library, traits: Traits) -> Layout:
    """The layout from an atom's threads to those of the warp.

    Raises:
        LanemapError: the traits have none.
    """
    return _layout(library, traits, "ThrID")


def atom(library: Library, name: Name, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    """The fragments of an operation; a Skipped for each operand that is none, or for the operation as a whole.

    Args:
        library: what the headers declare.
        name: the operation's name, by which its traits are found.
        operation: its struct.
        called: what to call it in a Skipped.
    """
    known = next(filter(None, map(instruction, operation.strings)), None)
    if known is None:
        yield Skipped(called, "it has no mma of its own in its assembly")
        return
    try:
        traits = library.traits(name)
        lanes = threads(library, traits)
        shape = library.member(traits, "Shape_MNK")
    except LanemapError as error:
        yield Skipped(called, str(error))
        return
    if shape != tuple(map(int, re.findall(r"\d+", known.shape))):
        yield Skipped(called, f"its Shape_MNK is {shape} and its mma is {known.shape}")
        return
    sparse = known.name == "mma.sp"
    for role in "ABCDE" if sparse else "ABCD":
        try:
            operand = _operand(library, traits, operation, known, role)
            yield fragment(known, role, operand, lanes, _selector(operation) if role == "E" else None)
        except LanemapError as error:
            yield Skipped(f"{called} {role}", str(error))
    if library.has(traits, "SFALayout"):
        yield Skipped(f"{called} SFA, SFB", "scale factors are not a role of Lanemap's")


def _operand(library: Library, traits: Traits, operation: Struct, known: Instruction, role: str) -> Operand:
    layout = _layout(library, traits, {"D": "CLayout"}.get(role, f"{role}Layout"))
    registers, bits = _registers(operation, role)
    if (bits == 64) != (known.types.get(role) == "f64"):
        raise LanemapError(f"its registers have {bits} bits, and its mma takes {known.types.get(role)}")
    values = size(layout.shape[1]) if isinstance(layout.shape, tuple) and len(layout.shape) == 2 else 0
    if role == "E":
        slots = bits // _INDEX_BITS
        chunk = 2 * values // (registers * slots)
    else:
        sparsity = _sparsity(library.member(traits, "ValTypeA")) if role == "A" and known.name == "mma.sp" else 1
        chunk = 2 * sparsity if sparsity > 1 else 1
        slots = values // (1 if sparsity == 1 else 2) // registers
    if slots < 1 or bits % slots:
        raise LanemapError(f"{layout} does not fill {registers} registers of {bits} bits")
    return Operand(layout, registers, slots, chunk)


def _layout(library: Library, traits: Traits, member: str) -> Layout:
    found = library.member(traits, member)
    if not isinstance(found, Layout):
        raise LanemapError(f"its {member} is {found} and not a layout")
    return found


def _registers(operation: Struct, role: str) -> tuple[int, int]:
    """How many registers an operand has, and their bits."""
    text = operation.members.get(f"{role}Registers", "none")
    registers = parse_type(text)
    bits = _REGISTER_BITS.get(str(registers.last))
    if bits is None or not registers.extent:
        raise LanemapError(f"its {role}Registers are {text}, not an array of 32- or 64-bit registers")
    return registers.extent, bits


def _sparsity(type_: Value) -> int:
    """S of ``sparse_elem<S, T>``."""
    match type_:
        case Name(parts=[*_, part]) if part.name == "sparse_elem" and part.arguments:
            first = part.arguments[0]
            if isinstance(first, int) and first > 1:
                return first
    raise LanemapError(f"its mma is sparse, and its ValTypeA is {type_}, not a sparse_elem: which columns is not said")


def _selector(operation: Struct) -> int:
    """The sparsity selector, a literal of the assembly."""
    found = next(filter(None, map(_SELECTOR.search, operation.strings)), None)
    if found is None:
        raise LanemapError("its mma has no sparsity selector")
    return int(found[1])
