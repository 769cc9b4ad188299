"""Layouts measured against memory, so that every label is absolute: wgmma, and instructions that move matrices.

wgmma takes B, and for D also A, from memory. D: a column of ones in A, and a row of ones in B, make D all ones; the
bits of row numbers in A, or of column numbers in B, make each slot of D read its own row or column. A in registers:
times an identity, D shows A itself, in which slots hold their own numbers. For a sparse A that is repeated with each
valid vector of metadata, and again with the numbers of the vectors themselves. A and its metadata do not depend on N,
so they are measured where B can be an identity, and verified for every other N.

A move runs on memory that holds the numbers of its own places, in binary, one digit per pattern, since narrow elements
hold no more. A load brings the number of a place in memory into each slot. A store runs on slots that hold their
numbers, and memory then shows where each went. One address names a row of an 8 x 8 matrix, and lane 8 i + j names row j
of matrix i + 1 (9.7.16.5.15); which lanes matter is measured.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from functools import partial

import numpy as np

from ..db.isa.forms import Form
from ..db.isa.instructions import WARP, Key, computations
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment
from . import device
from .device import Bench, Contradiction, captured
from .kernels import in_registers
from .product import governing_fields, metadata
from .values import LINE, extents, write_memory

#: Rows of a matrix that a move handles.
_ROWS = 8


def measure_warpgroup(bench: Bench, form: Form, known: MutableMapping[Key, Fragment]) -> tuple[list[Fragment], str]:
    """The fragments of a form, and in words where their labels come from.

    ``known`` has the fragments measured so far; A and its metadata are added to it if they are measured here.
    """
    square = replace(form, shape=f"m64n{form.dimensions[2]}k{form.dimensions[2]}")
    keys = [square.key("A"), *(square.key("E", selector) for selector in form.selectors if selector is not None)]
    if keys[0] not in known:
        squares = bench if square == form else Bench(bench.device, square)
        measured = _registers(squares, square)
        bench.probes += 0 if squares is bench else squares.probes
        bench.gpu_seconds += 0 if squares is bench else squares.gpu_seconds
        known.update({fragment.key: fragment for fragment in measured})
    row, column = _accumulator(bench, form)
    shared = [replace(known[key], shape=form.shape) for key in keys]
    words = "rows and columns are those of A and B in memory"
    if square != form:
        words += f"; A as measured with {square.shape}, and verified"
    return [*shared, captured(form.key("D"), np.arange(len(row)), row, column)], words


def _accumulator(bench: Bench, form: Form) -> tuple[Array, Array]:
    """Row and column of each slot of D."""
    m, n, _ = form.dimensions
    numbered = {}
    for role, count in (("A", m), ("B", n)):
        lines = np.zeros((2 + (count - 1).bit_length(), *extents(form, role)))
        lines[:, :, 0] = device.index_patterns(count)
        numbered[f"shared_{role}"] = write_memory(form, role, lines)[1:]
    indices = []
    for varied, constant in (("shared_A", "shared_B"), ("shared_B", "shared_A")):
        patterns = {varied: numbered[varied], constant: numbered[constant][:1], "E": device.uniform_metadata(form)[:1]}
        indices.append(device.which(bench.checked("rows and columns of D", bench.values(patterns))))
    row, column = indices
    if (row < 0).any():
        raise Contradiction(f"nothing comes out in {bench.place(np.argmin(row))}")
    held = np.bincount(row * n + column, minlength=m * n)
    if (held != 1).any() or (row >= m).any() or (column >= n).any():
        odd = int(np.argmax(held != 1))
        raise Contradiction(f"row {odd // n}, column {odd % n} of D is in {held[odd]} slots, not in one")
    return row, column


def _registers(bench: Bench, form: Form) -> list[Fragment]:
    """A, and its metadata for each selector, of a form whose B can be an identity."""
    a, depth = form.operand("A"), form.dimensions[2]
    row, column = _accumulator(bench, form)
    order = np.lexsort((column, row))
    identity, numbered = write_memory(form, "B", np.eye(depth)[None]), device.index_registers(a)[1:]
    cells, governing = None, {}

    def shown(name: str, taken: Array, words: Array) -> Array:
        """D as cells, row * K + column: (patterns of metadata, patterns of A, cells)."""
        outputs = bench.values({"shared_B": identity, name: taken, "E": words[:, None]})
        return bench.checked("slots of A", outputs)[:, order].reshape(len(taken), -1, len(order)).swapaxes(0, 1)

    for name, selector in in_registers(form).items():
        outputs = shown(name, numbered, device.uniform_metadata(form)[:, 0])
        stored = device.which(outputs.swapaxes(0, 1))
        for held in stored:
            device.expect_all(held[held >= 0], a, "D")
        where = np.argsort(stored, axis=1, kind="stable")[:, -a.size :]
        if (where // depth != where[0] // depth).any():
            raise Contradiction("metadata moves a slot of A to another row")
        if cells is not None and not np.array_equal(where, cells):
            raise Contradiction(f"selector {selector} places slots of A differently from selector {form.selectors[0]}")
        cells = where
        if selector is not None:
            show = partial(shown, name, numbered[:1])
            governing[selector] = governing_fields(form, form.sparsity, selector, stored, show)
    assert cells is not None
    of_row, of_column = cells[0] // depth, cells % depth
    first, last = of_column.min(axis=0), of_column.max(axis=0)
    fragments = [captured(form.key("A"), np.arange(a.size), of_row, first, last)]
    fragments += [metadata(form.key("E", key), field, of_row, first, last) for key, field in governing.items()]
    return fragments


def measure_move(bench: Bench, form: Form) -> tuple[list[Fragment], str]:
    """The fragments of a move, and in words where their labels come from.

    Raises Contradiction if the output is not a copy of the input.
    """
    lines, length = extents(form, form.role)
    numbered = write_memory(form, form.role, device.index_patterns(lines * length).reshape(-1, lines, length))
    key, at = form.key(form.role), _stored(bench, form) if form.stores else _loaded(bench, numbered)
    line, place = np.divmod(at, length)
    if form.moves == "transpose":
        source, moved = np.hsplit(np.stack([line, place]).reshape(2, WARP, 2, 2).swapaxes(1, 2).reshape(2, -1), 2)
        slots = np.arange(source.shape[1])
        fragments = [captured(form.key("A"), slots, *source), captured(key, slots, *moved[::-1])]
        return fragments, "rows and columns of A are those that ldmatrix loads"
    if form.layout:
        row, column = (line, place) if form.layout == "row" else (place, line)
        return [captured(key, np.arange(len(row)), row, column)], "rows and columns are those of the matrix in memory"
    lanes = np.unique(line)
    if len(lanes) != _ROWS * computations(*key[:3], key.qualifiers):
        raise Contradiction(f"{len(lanes)} lanes pass addresses of rows")
    addresses = captured(form.key("p"), lanes, lanes % _ROWS, 0 * lanes, computation=lanes // _ROWS + 1)
    words = "rows are those that addresses name, lane 8 i + j that of row j of matrix i + 1"
    held = captured(key, np.arange(len(line)), line % _ROWS, place, computation=line // _ROWS + 1)
    return [held, addresses], words


#: The addresses of consecutive rows.
_ADDRESSES = (np.arange(WARP, dtype=np.uint32) * LINE).reshape(1, 1, WARP)


def _loaded(bench: Bench, numbered: Array) -> Array:
    """The place in memory that each slot holds."""
    outputs = bench.checked("load", bench.values({"memory": numbered, "p": _ADDRESSES}))
    if (wrong := outputs[0] | ~outputs[1]).any():
        raise Contradiction(f"{bench.place(np.argmax(wrong))} does not hold what is in memory")
    return device.decode_index(outputs[2:])


def _stored(bench: Bench, form: Form) -> Array:
    """The place in memory where each slot comes out."""
    held = form.operand(form.role)
    outputs = bench.values({"r": device.index_registers(held), "p": _ADDRESSES})
    written = np.flatnonzero((outputs[0] == 0) & (outputs[1] == 1))
    outputs = outputs[:, written]
    if not ((outputs == 0) | (outputs == 1)).all():
        raise Contradiction("memory holds other numbers than the registers")
    slots = device.decode_index(outputs[2:] == 1)
    device.expect_all(slots, held, "memory")
    return np.asarray(written[np.argsort(slots)])
