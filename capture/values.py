"""Numbers as instructions take them: in the slots of registers, as matrices in shared memory, and as numpy arrays.

Registers are arrays (patterns, registers, threads) of 32 or 64 bits. Values, and codes, which are the bits of one
element each, are arrays (patterns, slots) in the order of a fragment's elements: by lane, then register, then slot from
low to high bits. A matrix in memory is also a fragment, whose slots are the places in memory.
"""

from functools import lru_cache, reduce
from math import prod

import numpy as np

from ..db.isa.forms import Form
from ..db.isa.instructions import WARP, Operand, dimensions, element_bits
from ..db.isa.types import TYPES
from ..db.layout.algebra import Array
from ..db.layout.codes import decode as decode
from ..db.layout.codes import table
from ..db.layout.fragment import Fragment, by_rule
from ..db.layout.structure import expect_ranges

#: Rows, and bytes of each row, of a core matrix (9.7.17.5.1.2).
_CORE = 8, 16

#: Bytes of a row of an 8 x 8 matrix of 16-bit elements, which one address names.
LINE = 16


def from_bytes(data: Array, bits: int) -> Array:
    """Consecutive codes of ``bits`` bits in bytes (..., bytes), low bits first."""
    if bits >= 8:
        return data.view(f"<u{bits // 8}")
    if 8 % bits:
        each = np.unpackbits(data, axis=-1, bitorder="little").reshape(*data.shape[:-1], -1, bits)
        return np.packbits(each, axis=-1, bitorder="little")[..., 0]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray((data[..., None] >> shifts & (1 << bits) - 1).reshape(*data.shape[:-1], -1))


def to_bytes(codes: Array, bits: int) -> Array:
    """Bytes of codes, the inverse of ``from_bytes``."""
    if bits >= 8:
        return np.ascontiguousarray(codes.astype(f"<u{bits // 8}")).view(np.uint8)
    if 8 % bits:
        each = np.unpackbits(codes.astype(np.uint8)[..., None], axis=-1, count=bits, bitorder="little")
        return np.packbits(each.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    # One after another, as a reduction along so short an axis takes ten times as long.
    shifted = (codes[..., place :: 8 // bits].astype(np.uint8) << place * bits for place in range(8 // bits))
    return reduce(np.bitwise_or, shifted)


def write_registers(operand: Operand, values: Array) -> Array:
    """Registers whose slots hold values (patterns, slots)."""
    data = to_bytes(encode(operand.type, operand.slot_bits, values), operand.slot_bits)
    by_lane = data.view(f"u{operand.register_bits // 8}").reshape(len(values), operand.threads, operand.registers)
    return np.ascontiguousarray(by_lane.transpose(0, 2, 1))


def read_registers(operand: Operand, registers: Array) -> Array:
    """Values (patterns, slots) of registers."""
    data = np.ascontiguousarray(registers.transpose(0, 2, 1)).reshape(len(registers), -1).view(np.uint8)
    return decode(operand.type, operand.slot_bits, from_bytes(data, operand.slot_bits))


def encode(of_type: str, bits: int, values: Array) -> Array:
    """Codes of small integers, which every PTX type represents exactly if it has them."""
    if native := TYPES[of_type].native:
        numbers = np.asarray(values).astype(native)
        return np.asarray(numbers.view(f"u{numbers.dtype.itemsize}"))
    if of_type == "bf16":
        return np.asarray(np.asarray(values).astype("f4").view("u4") >> 16)
    return np.asarray(_codes(of_type, bits).take(np.asarray(values).astype(np.int8)))


def integers(of_type: str) -> tuple[int, int]:
    """Least and greatest of the small integers to test a type with."""
    scales = {"ue8m0": (1, 2), "ue4m3": (1, 2)}
    return ({"b1": (0, 1), "u8": (0, 2), "u4": (0, 2), "b16": (0, 0xFFFF)} | scales).get(of_type, (-2, 2))


@lru_cache
def _codes(of_type: str, bits: int) -> Array:
    """The code of every integer that ``integers`` allows in a type of at most 8 bits, negative ones at the end."""
    low, high = integers(of_type)
    values = table(of_type, bits)
    return np.array([np.argmax(values == value) for value in (*range(high + 1), *range(low, 0))], np.uint8)


def extents(form: Form, role: str) -> tuple[int, int]:
    """How many lines, and elements of a line, memory holds of a matrix.

    For wgmma a line is a row of A or a column of B, for ldmatrix and stmatrix one of the rows that the addresses of a
    warp name, and for wmma what the layout names. Of a sparse A only the stored elements count.
    """
    if form.role:
        if not form.layout:
            return WARP, LINE * 8 // memory_bits(form)
        rows, columns = dimensions(form.shape, form.role, form.name)
        return (rows, columns) if form.layout == "row" else (columns, rows)
    m, n, k = form.dimensions
    return (m, k // 2 if form.sparse else k) if role == "A" else (n, k)


def memory_bits(form: Form) -> int:
    """Bits of one element in memory."""
    if form.packed == ".s4":
        return 4
    return element_bits(form.name, form.shape, form.a)


def memory_size(form: Form, role: str) -> int:
    """Bytes of a matrix in memory."""
    return prod(extents(form, role)) * memory_bits(form) // 8


def descriptor_offsets(form: Form, role: str) -> int:
    """The byte offsets in a matrix descriptor between neighbouring core matrices, along K and along rows."""
    core, cores = prod(_CORE), _cores(form, role)
    return (core >> 4) << 16 | (core * cores >> 4) << 32


@lru_cache
def stored_a(form: Form) -> Fragment:
    """A of wgmma in memory as a fragment: the stored elements of each row in order, with their windows of columns."""
    rule = form.sparsity
    lines, length = extents(form, "A")
    row, place = np.indices((lines, length))
    stored = rule.fields * rule.group
    col = place // stored * rule.width + place % stored
    elements = by_rule(1, row, col, col + rule.width - stored)
    return Fragment(form.name, form.shape, form.a, "A", length, 1, elements)


def write_memory(form: Form, role: str, lines: Array) -> Array:
    """Bytes (patterns, bytes) of values (patterns, lines, elements of a line)."""
    width = memory_bits(form)
    data = to_bytes(encode(form.a, width, lines), width)
    if not form.role:
        rows, length = _CORE
        data = data.reshape(len(data), -1, rows, _cores(form, role), length).swapaxes(2, 3)
    return np.ascontiguousarray(data).reshape(len(data), -1)


def read_memory(form: Form, role: str, data: Array) -> Array:
    """Values (patterns, lines, elements of a line) of bytes (patterns, bytes): the inverse of ``write_memory``."""
    width, (lines, _) = memory_bits(form), extents(form, role)
    data = data[:, : memory_size(form, role)]
    if not form.role:
        rows, length = _CORE
        data = data.reshape(len(data), -1, _cores(form, role), rows, length).swapaxes(2, 3)
    by_line = np.ascontiguousarray(data).reshape(len(data), lines, -1)
    return decode(form.a, width, from_bytes(by_line, width))


def _cores(form: Form, role: str) -> int:
    """Core matrices along K."""
    return extents(form, role)[1] * memory_bits(form) // 8 // _CORE[1]


def scatter(values: Array, fragment: Fragment, columns: Array | None = None) -> Array:
    """Matrices (n, computations, rows, columns) from values (n, slots), zero where nothing is stored.

    ``columns`` (n, slots) replaces the fragment's own where metadata selects them.
    """
    computation, row, column = places(fragment)
    matrices = np.zeros((len(values), fragment.computations, *fragment.dimensions), np.float32)
    column = column if columns is None else columns
    matrices[np.arange(len(values))[:, None], computation, row, column] = values
    return matrices


def gather(matrices: Array, fragment: Fragment) -> Array:
    """The values (n, slots) of matrices (n, computations, rows, columns) that a fragment holds."""
    return matrices[(slice(None), *places(fragment))]


@lru_cache(maxsize=8)
def places(fragment: Fragment) -> tuple[Array, Array, Array]:
    """Computation from 0, row and column of each slot. Raises LanemapError if a slot is outside the matrix."""
    expect_ranges(fragment)
    table = fragment.table
    return table["computation"].astype(np.intp) - 1, table["row"].astype(np.intp), table["col"].astype(np.intp)


def multiply(form: Form, a: Array, b: Array) -> Array:
    """The product of (..., M, K) and (..., K, N) as an instruction computes it; for .xor.popc, the differing bits."""
    product = a @ b
    if form.suffix == ".xor.popc":
        return np.asarray(a.sum(axis=-1)[..., :, None] + b.sum(axis=-2)[..., None, :] - 2 * product)
    return np.asarray(product)
