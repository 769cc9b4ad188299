"""CuTe's thread-value layouts as fragments, for an instruction or a move.

A layout of an atom takes (thread, value) to an index into the operand, leftmost fastest: A and E are M x K, C is M x N,
and B is N x K, the transpose of PTX's K x N. Values fill a thread's registers in order, low bits first.

The layout of a copy takes (thread, bit) to a bit of the tile. On the memory side each thread names 16 bytes of it, a
row; lane R i + j names row j of matrix i + 1, where a matrix has R rows (PTX ISA 9.7.16.5.15). So the row and the
column of what a register holds are those of the bytes from which its bits come, whatever the order of the tile. Tensor
Memory has an address for each bit instead.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.isa import instructions
from ..db.isa.forms import Form
from ..db.isa.instructions import INSTRUCTIONS, WARP, Key, computations, dimensions, operand
from ..db.isa.parse import parse, uncovered
from ..db.isa.spelling import candidates, exact
from ..db.layout.algebra import LANE_BITS, Sum
from ..db.layout.fragment import Citation, Fragment, by_rule, elements

_ROW_BITS = 128
_COLUMN_BITS = 32


def thread_value(layout: Sum) -> NDArray[np.int64]:
    """The indices of a layout of two modes, threads and values, as an array (threads, values).

    Raises:
        LanemapError: the layout does not have two modes.
    """
    if len(layout.axes) != 2:
        raise LanemapError(f"{layout} does not take a thread and a value: it must have two modes")
    return layout.table()


@lru_cache(1 << 10)
def lanes(threads: Sum, group: int = WARP) -> NDArray[np.int64]:
    """The lanes of a warp, or of another group, that are an atom's threads: an array (computations, threads).

    A warp does an atom of eight threads four times, each time with lanes that are four further on.

    Raises:
        LanemapError: the atom is not the work of one group.
    """
    first = threads.table().ravel(order="F")
    shifted = first + 4 * np.arange(max(1, group // len(first)))[:, None]
    if sorted(shifted.ravel().tolist()) != list(range(group)):
        raise LanemapError(f"its threads {threads} do not fill a group of {group}")
    return shifted


class AtomLayout(NamedTuple):
    """The layout of an operand, and how a lane's registers hold its values.

    Dense operands have a slot per value. In sparse A and E, ``chunk`` consecutive values share the slots of those that
    are stored, so that a slot can stand for any column of its chunk. ``supplies`` are the lanes of each four that hold
    it.
    """

    layout: Sum
    registers: int
    slots: int
    chunk: int = 1
    supplies: tuple[int, ...] = (0, 1, 2, 3)


def atom_operand(
    of: Form, role: str, held: AtomLayout, threads: Sum, selector: int | None = None, origin: str | None = None
) -> Fragment:
    """One operand of an atom.

    Raises:
        LanemapError: the layout does not fit the atom's threads or registers.
    """
    table = _elements(of.name, of.shape, role, held, threads)
    citation = Citation(origin=origin, formula=f"(thread, value) -> {_ORDER[role]}: {held.layout}")
    return Fragment.of(of.key(role, selector), table, "imported", citation, registers=held.registers, slots=held.slots)


def block_scales(of: Form, role: str, layout: Sum, chosen: Sequence[int | None], origin: str) -> Fragment:
    """The block scales of an operand, from a layout in which a thread has its scale for each element along K.

    Args:
        of: the instruction.
        role: SFA or SFB.
        layout: takes (thread, k) to an index into M x K, or N x K.
        chosen: byte-id and thread-id, which say in which of four bytes and four lanes the scales are (9.7.16.3).
        origin: where the layout was found.

    Raises:
        LanemapError: the layout is not of this form, or the selectors are missing.
    """
    byte, thread = chosen
    if of.block_scales is None or byte is None or thread is None:
        raise LanemapError("its mma has no block scales, or its byte-id and thread-id are not constants")
    count, type_ = of.block_scales
    lines, depth = dimensions(of.shape, role[-1], of.name)[:: 1 if role == "SFA" else -1]
    index = thread_value(layout)
    line = index % lines
    if index.shape != (WARP, depth) or (line != line[:, :1]).any() or (index // lines != np.arange(depth)).any():
        raise LanemapError(f"{layout} does not give each of {WARP} threads one row or column of {depth} elements")
    supplied = np.arange(WARP) % 4 // 2 == thread if role == "SFA" else np.arange(WARP) % 4 == thread
    lane, chunk = (axis.ravel() for axis in np.meshgrid(np.flatnonzero(supplied), np.arange(count), indexing="ij"))
    row, col = (line[lane, 0], chunk) if role == "SFA" else (chunk, line[lane, 0])
    qualifiers = f"scale_vec::{count}X.byte_id::{byte}.thread_id::{thread}"
    table = elements({"lane": lane, "reg": 0 * lane, "slot": byte + chunk, "row": row, "col": col})
    citation = Citation(origin=origin, formula=f"(thread, k) -> ({'m' if role == 'SFA' else 'n'}, k): {layout}")
    return Fragment.of(Key(of.name, of.shape, type_, role, qualifiers=qualifiers), table, "imported", citation)


@lru_cache(1 << 10)
def _elements(name: str, shape: str, role: str, held: AtomLayout, threads: Sum) -> NDArray[Any]:
    """The elements of an operand, shared by atoms that do not differ in these arguments."""
    index = thread_value(held.layout)
    where = lanes(threads, instructions.instruction(name).threads)
    if len(index) != where.shape[1]:
        raise LanemapError(f"{held.layout} is for {len(index)} threads, but {where.shape[1]} do the atom")
    count, values = held.registers * held.slots, index.shape[1]
    if values != count and held.chunk == 1:
        raise LanemapError(f"{held.layout} has {values} values for {count} slots")
    if values % count or values % held.chunk:
        raise LanemapError(f"{values} values in chunks of {held.chunk} do not fill {count} slots")
    rows, cols = dimensions(shape, role, name)
    row, col = np.divmod(index, cols) if role == "B" else np.divmod(index, rows)[::-1]
    # The value that begins the chunk of each element, and all values of the chunk.
    start = np.arange(count) * (values // count) // held.chunk * held.chunk
    chunks = start[:, None] + np.arange(held.chunk)
    apart = (col[:, chunks] - np.arange(held.chunk) != col[:, start, None]) | (row[:, chunks] != row[:, start, None])
    if apart.any():
        raise LanemapError(f"{held.layout} does not keep the {held.chunk} columns of a chunk together")
    computation, thread, element = (axis.ravel() for axis in np.indices((*where.shape, count)))
    columns = {
        "lane": where[computation, thread],
        "slot": element,
        "row": row[thread, start[element]],
        "col": col[thread, start[element]],
        "col_last": col[thread, start[element]] + held.chunk - 1,
        "computation": computation + 1,
    }
    supplied = np.isin(columns["lane"] % 4, held.supplies)
    return elements({name: values[supplied] for name, values in columns.items()}, held.slots)


_ORDER = {"A": "(m, k)", "B": "(n, k)", "C": "(m, n)", "D": "(m, n)", "E": "(m, k)"}


def move_fragments(
    key: Key, source: Sum, target: Sum, origin: str, byte_order: Sequence[int] = ()
) -> Iterator[Fragment]:
    """The fragments of a move: registers ``r`` and addresses ``p``, or A and D of movmatrix.

    The addresses are left out if the move is to columns of the matrix. ``byte_order`` says for each byte of a thread's
    registers which one it was before the atom changed their order.

    Raises:
        LanemapError: the layouts are not those of the instruction.
    """
    sides = thread_value(source), thread_value(target)
    moves = INSTRUCTIONS[key.instruction].moves
    if moves == "transpose":
        for role, bits in zip("AD", sides, strict=True):
            yield _held(key._replace(role=role), bits, origin)
        return
    held, memory = reversed(sides) if moves == "load" else sides
    if byte_order:
        held = held.reshape(len(held), -1, 8)[:, np.argsort(byte_order)].reshape(held.shape)
    yield _held(key, held, origin, memory)
    (rows, width), count = _tile(key)
    if rows <= width:
        lanes = np.arange(rows * count)
        columns = {"lane": lanes, "row": lanes % rows, "computation": lanes // rows + 1}
        zero = dict.fromkeys(("reg", "slot", "col"), 0 * lanes)
        yield _imported(key._replace(role="p"), elements({**columns, **zero}), origin)


def tensor_memory(key: Key, held: Sum, values: Sum, origin: str) -> Fragment:
    """The registers of a load or a store of Tensor Memory, with its lanes as rows and its columns as columns.

    If an instruction makes two accesses, CuTe puts the second right after the first; here they are two matrices. Two
    columns that are packed into one register are its two slots.

    Args:
        key: names the registers.
        held: takes (thread, bit) to a bit of the moved data.
        values: takes a bit of the moved data to its bit in Tensor Memory.
        origin: where the layouts were found.

    Raises:
        LanemapError: the layouts are not those of the instruction.
    """
    start = _starts(key, values.table().ravel(order="F")[thread_value(held)])
    if (start % _COLUMN_BITS).any():
        raise LanemapError("its layout does not keep the bits of a column together")
    (_, columns), _ = _tile(key)
    column = start % LANE_BITS // _COLUMN_BITS
    slots = operand(key).slots
    table = by_rule(slots, start // LANE_BITS, column % columns, computation=column // columns + 1)
    return _imported(key, table, origin)


def _held(key: Key, held: NDArray[Any], origin: str, memory: NDArray[Any] | None = None) -> Fragment:
    """The registers of a move, with memory in the order of the tile, or with bytes that each thread names."""
    ((rows, columns), _), of = _tile(key), operand(key)
    # A matrix that can only be moved transposed has an address for each column (9.7.16.5.16).
    turned = rows * of.slot_bits == _ROW_BITS > columns * of.slot_bits
    lines = columns if turned else rows
    if not turned and (size := columns * of.slot_bits) != _ROW_BITS:
        raise LanemapError(f"a row of {key.shape} has {size // 8} bytes, but an address stands for 16")
    start = _starts(key, held)
    named = _ROW_BITS * np.arange(held.size // _ROW_BITS) if memory is None else memory[: held.size // _ROW_BITS, 0]
    giver = np.argsort(named)[np.searchsorted(np.sort(named), start, side="right") - 1]
    row, col = giver % lines, (start - named[giver]) // of.slot_bits
    if turned or key.role == "D":
        row, col = col, row
    return _imported(key, by_rule(of.slots, row, col, computation=giver // lines + 1), origin)


def _starts(key: Key, bits: NDArray[Any]) -> NDArray[Any]:
    """The first bit of each element, after checking that the others follow it. Both are arrays (threads, ...)."""
    of = operand(key)
    if bits.shape != (of.threads, of.registers * of.register_bits):
        raise LanemapError(f"its layout is for {bits.shape[1]} bits of {len(bits)} threads, not for {key}")
    start = bits[:, :: of.slot_bits]
    if (bits != np.repeat(start, of.slot_bits, axis=1) + np.tile(np.arange(of.slot_bits), start.shape[1])).any():
        raise LanemapError(f"its layout does not keep the {of.slot_bits} bits of an element together")
    return start


def _imported(key: Key, table: NDArray[Any], origin: str) -> Fragment:
    return Fragment.of(key, table, "imported", Citation(origin=origin))


def _tile(key: Key) -> tuple[tuple[int, int], int]:
    """Rows and columns of a matrix, and how many there are."""
    extents = dimensions(key.shape, key.role, key.instruction, key.qualifiers)
    return extents, computations(key.instruction, key.shape, key.type, key.qualifiers)


@lru_cache(1 << 10)
def named_form(mnemonic: str) -> Form | None:
    """The ``mma`` or ``wgmma`` that a PTX mnemonic names, or None if it is another instruction.

    Libraries name some that PTX does not have.

    >>> named_form("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32").types["A"]
    'tf32'
    """
    tokens = _tokens(mnemonic)
    by_kind = {kind: token for token, kind in tokens.items()}
    row = INSTRUCTIONS.get(by_kind.get("instruction", ""))
    if row is None or not row.multiplies or not row.opcode or not {"shape", "types"} <= by_kind.keys():
        return None
    if found := exact(tokens, candidates(tokens)):
        return found[0]
    types = by_kind["types"].split(".")
    if len(types) != len(row.types):
        return None
    of = dict(zip(row.types, types, strict=True))
    majors = tuple(by_kind.get("layouts", "row.col").split("."))
    return Form(row.name, by_kind["shape"], of["A"], of["B"], of.get("C", of["D"]), of["D"], majors=majors)


@lru_cache(1 << 10)
def named_move(mnemonic: str) -> Key | None:
    """The registers of the move that a PTX mnemonic names, or None if it is another instruction.

    >>> named_move("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16").qualifiers
    'x4.trans'
    """
    tokens = _tokens(mnemonic)
    moved = {"shape", "type"} <= {*tokens.values()}
    form = next((form for form in candidates(tokens) if form.instruction.moves), None) if moved else None
    return None if form is None else Key(form.name, form.shape, form.a, "r", qualifiers=form.qualifiers)


def why_none(mnemonic: str) -> str:
    """Why an instruction that is neither has no fragments."""
    return uncovered(mnemonic) or f"{mnemonic} is not an instruction that Lanemap knows"


def _tokens(mnemonic: str) -> dict[str, str]:
    try:
        return dict(parse(mnemonic) or {})
    except LanemapError:  # an instruction without operands in registers
        return {}
