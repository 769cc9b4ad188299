"""One operation with its traits, as fragments.

Sparse A is in logical columns: ``sparse_elem<S, T>`` says that a stored T stands for S of them. Half is kept, chosen
inside the chunk that PTX names (9.7.14.6.1). So an element of A, and an index of E, has its chunk as its window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from ...db import instructions as table
from ...db.errors import LanemapError
from ...db.fragment import Fragment
from ..atom import AtomLayout, fragment, scales
from ..imported import Skipped
from ..mnemonic import Mnemonic, instruction
from ..shape_stride import Layout, NoLayoutError, size
from .header import Struct, TypeName, parse_type
from .traits import Library, Traits, Value

_REGISTER_BITS = {"uint32_t": 32, "int32_t": 32, "float": 32, "double": 64}
_SELECTOR = re.compile(r"0x([0-3])")
_PTX = re.compile(r"[a-z][a-z0-9_]+(?:[.][\w:]+)+")
_NO_INSTRUCTION = re.compile(r"setp|mov[.]|bar|elect")


def atom(library: Library, name: TypeName, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    """The fragments of an operation; a Skipped with the reason for each operand without one, or for all of it.

    Args:
        library: what the headers declare.
        name: the operation's name, by which its traits are found.
        operation: its struct.
        called: what to call it in a Skipped.
    """
    every = [*filter(None, map(instruction, operation.strings))]
    if not every:
        yield Skipped(called, _why(family(operation)))
        return
    known = every[0]
    try:
        traits = library.traits(name)
        threads = layout_of(library, traits, "ThrID")
        shape = library.member(traits, "Shape_MNK")
    except LanemapError as error:
        yield Skipped(called, str(error))
        return
    if shape != tuple(map(int, re.findall(r"\d+", known.shape))):
        yield Skipped(called, f"its Shape_MNK is {shape} and its instruction is {known.shape}")
        return
    origin = f"{traits.struct.where} {called}"
    for role in "ABCDE":
        if role == "C" and known.name.startswith("wgmma"):
            continue  # D, which is what it adds to
        if role == "E" and not table.instruction(known.name).sparse:
            continue
        try:
            operand = _operand(library, traits, operation, known, role)
            for selector, supplies in _suppliers(operation, known, role):
                yield fragment(known, role, operand, threads, selector, origin=origin, supplies=supplies)
        except NoLayoutError as error:
            yield Skipped(f"{called} {role}", str(error), known.key(role), origin)
        except LanemapError as error:
            yield Skipped(f"{called} {role}", str(error))
    if library.has(traits, "SFALayout"):
        yield from _scales(library, traits, operation, [each for each in every if each.scales], called)


def _scales(
    library: Library, traits: Traits, operation: Struct, scaled: Sequence[Mnemonic], called: str
) -> Iterator[Fragment | Skipped]:
    """The block scales of each of its mnemonics: an operation may have one for each number of scales."""
    if not scaled:
        yield Skipped(f"{called} SFA, SFB", "its mma has no block scales")
    for known, role in product(scaled, ("SFA", "SFB")):
        try:
            chosen = [operation.numbers.get(f"{name}{role[-1]}") for name in ("bid", "tid")]
            layout = layout_of(library, traits, f"{role}Layout")
            yield scales(known, role, layout, chosen, f"{traits.struct.where} {called}")
        except LanemapError as error:
            yield Skipped(f"{called} {role}", str(error))


def family(operation: Struct) -> str | None:
    """The instruction in an operation's assembly, as far as its first qualifier; None where there is none."""
    for text in operation.strings:
        found = _PTX.search(text)
        if found and not _NO_INSTRUCTION.match(found[0]):
            return ".".join(found[0].split(".")[:2])
    return None


def layout_of(library: Library, traits: Traits, member: str) -> Layout:
    """A member of the traits that is a layout.

    Raises:
        LanemapError: there is none, or it is something else.
    """
    found = library.member(traits, member)
    if not isinstance(found, Layout):
        raise LanemapError(f"its {member} is {found} and not a layout")
    return found


def _why(instruction: str | None) -> str:
    """Why an operation has no fragments."""
    if instruction is None:
        return "it has no mma of its own in its assembly"
    if instruction.startswith("tcgen05."):
        return "tcgen05.mma keeps its operands in Tensor Memory and shared memory: no thread holds any"
    return f"{instruction} is not an instruction for tensor cores: a thread does it by itself"


def _operand(library: Library, traits: Traits, operation: Struct, known: Mnemonic, role: str) -> AtomLayout:
    registers, bits = _registers(operation, known, role)
    layout = layout_of(library, traits, {"D": "CLayout"}.get(role, f"{role}Layout"))
    if (bits == 64) != (known.types.get(role) == "f64"):
        raise LanemapError(f"its registers have {bits} bits, and its mma takes {known.types.get(role)}")
    values = size(layout.shape[1]) if isinstance(layout.shape, tuple) and len(layout.shape) == 2 else 0
    rule = table.sparsity(known.name, known.shape, known.types["A"])
    sparse = table.instruction(known.name).sparse
    if role == "E":
        return AtomLayout(layout, registers, rule.slots, rule.width)
    if role == "A" and sparse:
        _check_sparse(library.member(traits, "ValTypeA"))
    slots = values // (2 if role == "A" and sparse else 1) // registers
    if slots < 1 or bits % slots:
        raise LanemapError(f"{layout} does not fill {registers} registers of {bits} bits")
    return AtomLayout(layout, registers, slots, rule.width if role == "A" else 1)


def _registers(operation: Struct, known: Mnemonic, role: str) -> tuple[int, int]:
    """How many registers an operand has, and their bits."""
    text = operation.members.get(f"{role}Registers", "none")
    if known.name.startswith("wgmma"):
        text = operation.members.get("CRegisters", "none") if role == "D" else text
        if text.startswith("uint64_t"):
            raise LanemapError("it is in shared memory, and no thread holds any of it")
    registers = parse_type(text)
    bits = _REGISTER_BITS.get(str(registers.last))
    if bits is None or not registers.extent:
        raise LanemapError(f"its {role}Registers are {text}, not an array of 32- or 64-bit registers")
    return registers.extent, bits


def _check_sparse(type_: Value) -> None:
    """Raises LanemapError unless the type is ``sparse_elem<S, T>``."""
    match type_:
        case TypeName(parts=[*_, part]) if part.name == "sparse_elem" and part.arguments:
            first = part.arguments[0]
            if isinstance(first, int) and first > 1:
                return
    raise LanemapError(f"its mma is sparse, and its ValTypeA is {type_}, not a sparse_elem: which columns is not said")


def _suppliers(operation: Struct, known: Mnemonic, role: str) -> list[tuple[int | None, tuple[int, ...]]]:
    """For each fragment of a role, its selector and the lanes of each four that hold it.

    The selector of mma.sp is a literal of the assembly. wgmma.sp has a parameter: it selects one pair of each four
    lanes, or has no choice where all four are needed.
    """
    every = (0, 1, 2, 3)
    if role != "E":
        return [(None, every)]
    if known.name == "wgmma.sp":
        width = table.sparsity(known.name, known.shape, known.types["A"]).width
        rows, columns = table.dimensions(known.shape, "E", known.name)
        whole = rows * columns // width == table.instruction(known.name).threads * 8
        return [(0, every)] if whole else [(0, (0, 1)), (1, (2, 3))]
    found = next(filter(None, map(_SELECTOR.search, operation.strings)), None)
    if found is None:
        raise LanemapError("its mma has no sparsity selector")
    return [(int(found[1]), every)]
