"""One operation of CuTe with its traits, as fragments: an MMA, or a copy that moves matrices.

Sparse A is in logical columns: ``sparse_elem<S, T>`` says that a stored T stands for S of them. Half is kept, chosen
inside the chunk that PTX names (9.7.14.6.1). So an element of A, and an index of E, has its chunk as its window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ...db.errors import LanemapError
from ...db.isa.forms import Form
from ...db.isa.instructions import INSTRUCTIONS, WARP, dimensions, sparsity
from ...db.layout.algebra import NoLayoutError, Sum
from ...db.layout.fragment import Fragment
from ..atom import AtomLayout, atom_operand, block_scales, move_fragments, named_form, named_move, tensor_memory
from ..importing import Skipped
from .header import Struct, TypeName, parse_type
from .traits import Library, Traits

_REGISTER_BITS = {"uint32_t": 32, "int32_t": 32, "float": 32, "double": 64}
_SELECTOR = re.compile(r"0x([0-3])")
_PTX = re.compile(r"([a-z][a-z0-9_]+[.][\w:]+)(?:[.][\w:]+)*")
_NO_INSTRUCTION = re.compile(r"setp|mov[.]|bar|elect")
#: Why an operation has no fragments: it has no instruction, one of tcgen05, or another one.
_NO_PRODUCT = (
    "it has no mma of its own in its assembly",
    "tcgen05.mma keeps its operands in Tensor Memory and shared memory: no thread holds any",
    "{} is not an instruction for tensor cores: a thread does it by itself",
)
_NO_COPY = (
    "it has no instruction of its own in its assembly",
    "{} copies from shared memory to Tensor Memory: no thread holds any of it",
    "{} is not a move of matrices between memory and the registers of a warp",
)


def atom(library: Library, name: TypeName, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    """The fragments of an operation; a Skipped with the reason for each operand without one, or for all of it.

    Args:
        library: what the headers declare.
        name: the operation's name, by which its traits are found.
        operation: its struct.
        called: what to call it in a Skipped.
    """
    traits = library.traits(name)
    read = _copy if traits.struct.name.name == "Copy_Traits" else _product
    try:
        yield from read(library, traits, operation, called)
    except LanemapError as error:
        yield Skipped(called, str(error))


def _product(library: Library, traits: Traits, operation: Struct, called: str) -> Iterator[Fragment | Skipped]:
    every = [*filter(None, map(named_form, operation.strings))]
    if not every:
        raise LanemapError(_why_none(operation, _NO_PRODUCT))
    known = every[0]
    threads = _layout_of(library, traits, "ThrID")
    shape = library.member(traits, "Shape_MNK")
    if shape != known.dimensions:
        raise LanemapError(f"its Shape_MNK is {shape} and its instruction is {known.shape}")
    origin = f"{traits.struct.where} {called}"
    absent = {"SFA", "SFB", *({"C"} & {*known.instruction.absent})}  # D is what wgmma adds to
    for role in [role for role in known.types if role not in absent]:
        try:
            operand = _operand(library, traits, operation, known, role)
            for selector, supplies in _suppliers(operation, known, role):
                held = replace(operand, supplies=supplies)
                yield atom_operand(known, role, held, threads, selector, origin)
        except LanemapError as error:
            claimed = (known.key(role), origin) if isinstance(error, NoLayoutError) else ()
            yield Skipped(f"{called} {role}", str(error), *claimed)
    if not library.has(traits, "SFALayout"):
        return
    # An operation may have a mnemonic for each number of scales.
    scaled = [each for each in every if each.block_scales]
    if not scaled:
        yield Skipped(f"{called} SFA, SFB", "its mma has no block scales")
    for each, role in product(scaled, ("SFA", "SFB")):
        try:
            chosen = [operation.numbers.get(f"{name}{role[-1]}") for name in ("bid", "tid")]
            yield block_scales(each, role, _layout_of(library, traits, f"{role}Layout"), chosen, origin)
        except LanemapError as error:
            yield Skipped(f"{called} {role}", str(error))


def _copy(library: Library, traits: Traits, operation: Struct, called: str) -> Iterator[Fragment]:
    key = next(filter(None, map(named_move, operation.strings)), None)
    if key is None:
        raise LanemapError(_why_none(operation, _NO_COPY))
    origin = f"{traits.struct.where} {called}"
    if library.has(traits, "ValID"):  # of Tensor Memory
        held = "DstLayout" if INSTRUCTIONS[key.instruction].moves == "load" else "SrcLayout"
        values = _layout_of(library, traits, "ValID")
        yield tensor_memory(key, _layout_of(library, traits, held), values, origin)
    else:
        source, target = (_layout_of(library, traits, f"{side}Layout") for side in ("Src", "Dst"))
        yield from move_fragments(key, source, target, origin)


def _why_none(operation: Struct, reasons: tuple[str, str, str]) -> str:
    found = filter(None, map(_PTX.search, operation.strings))
    family = next((each[1] for each in found if not _NO_INSTRUCTION.match(each[0])), None)
    none, memory, other = reasons
    return none if family is None else (memory if family.startswith("tcgen05.") else other).format(family)


def _layout_of(library: Library, traits: Traits, member: str) -> Sum:
    """A member of the traits that is a layout; raises LanemapError where there is none, or something else."""
    found = library.member(traits, member)
    if not isinstance(found, Sum):
        raise LanemapError(f"its {member} is {found} and not a layout")
    return found


def _operand(library: Library, traits: Traits, operation: Struct, known: Form, role: str) -> AtomLayout:
    adds = role == "D" and "C" in known.instruction.absent
    text = operation.members.get("CRegisters" if adds else f"{role}Registers", "none")
    if known.instruction.fixed and text.startswith("uint64_t"):
        raise LanemapError("it is in shared memory, and no thread holds any of it")
    array = parse_type(text)
    registers, bits = array.extent, _REGISTER_BITS.get(array.name)
    if bits is None or not registers:
        raise LanemapError(f"its {role}Registers are {text}, not an array of 32- or 64-bit registers")
    layout = _layout_of(library, traits, "CLayout" if role == "D" else f"{role}Layout")
    if (bits == 64) != (known.types[role] == "f64"):
        raise LanemapError(f"its registers have {bits} bits, and its mma takes {known.types[role]}")
    rule = sparsity(known.name, known.shape, known.a)
    if role == "E":
        return AtomLayout(layout, registers, rule.slots, rule.width)
    compressed = role == "A" and known.sparse
    if compressed:
        match type_ := library.member(traits, "ValTypeA"):
            case TypeName("sparse_elem", [int(logical), *_]) if logical > 1:
                pass
            case _:
                why = f"its ValTypeA is {type_}, not a sparse_elem: which columns is not said"
                raise LanemapError(f"its mma is sparse, and {why}")
    values = layout.lengths[1] if len(layout.axes) == 2 else 0
    slots = values // (2 if compressed else 1) // registers
    if slots < 1 or bits % slots:
        raise LanemapError(f"{layout} does not fill {registers} registers of {bits} bits")
    return AtomLayout(layout, registers, slots, rule.width if compressed else 1)


def _suppliers(operation: Struct, known: Form, role: str) -> list[tuple[int | None, tuple[int, ...]]]:
    """For each fragment of a role, its selector and the lanes of each four that hold it.

    The selector of a warp's instruction is a literal of the assembly. A warpgroup's has a parameter: it selects one
    pair of each four lanes, or has no choice where all four are needed.
    """
    every = (0, 1, 2, 3)
    if role != "E":
        return [(None, every)]
    if known.threads > WARP:
        rows, columns = dimensions(known.shape, "E", known.name)
        whole = rows * columns // sparsity(known.name, known.shape, known.a).width == known.threads * 8
        return [(0, every)] if whole else [(0, (0, 1)), (1, (2, 3))]
    found = next(filter(None, map(_SELECTOR.search, operation.strings)), None)
    if found is None:
        raise LanemapError("its mma has no sparsity selector")
    return [(int(found[1]), every)]
