"""A C++17 header: for each fragment a namespace with its sizes, the cell of each slot, and the slot of each cell.

The functions are constexpr, hold their tables themselves, need no other header, and are compiled for the device too
where CUDA compiles them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fragment import LANES, Fragment
from . import Notation
from .table import RefusedError, by_lane, rows_of, table

Array = NDArray[Any]

_BEFORE = """\
#pragma once

// C++17, constexpr, no other header. The cell of a slot: at(lane, reg, slot), where holds(lane). The slot of a cell:
// find(row, col), where every cell has just one.

#ifndef LANEMAP_FUNCTION
#if defined(__CUDACC__)
#define LANEMAP_FUNCTION __host__ __device__ constexpr
#else
#define LANEMAP_FUNCTION constexpr
#endif

namespace lanemap {

struct cell {
  short row, col;
  short col_last = col;   // end of the window of columns, in sparse A and E
  short computation = 1;  // 1 to 4 where a warp does four products
};

struct place {
  short lane, reg, slot;
};

}  // namespace lanemap
#endif

namespace lanemap {

"""

_INDENT = "      "
_TABLE = re.compile(r"constexpr (?:cell|place) (\w+)\[\d+\] = \{\n(.*?)\n  \};", re.DOTALL)
_ENTRY = re.compile(r"\{([-\d,]+)\}")
_ROWS = re.compile(r"row_of\[\d+\] = \{(.*?)\};")


def compose(fragment: Fragment, name: str) -> str:
    """A namespace with constants, ``holds`` and ``at``, and ``find`` or a line that says why there is none."""
    lanes, coordinates = by_lane(fragment)
    rows, cols = fragment.dimensions
    sizes = f"rows = {rows}, cols = {cols}, registers = {fragment.registers}, slots = {fragment.slots}"
    mask = sum(1 << int(lane) for lane in lanes)
    return (
        f"namespace {name} {{\n\n"
        f"inline constexpr int {sizes};\n\n"
        f"LANEMAP_FUNCTION bool holds(int lane) {{ return 0x{mask:08X}u >> lane & 1; }}\n\n"
        f"{_at(lanes, coordinates)}\n{_find(fragment)}\n}}  // namespace {name}\n"
    )


def read(text: str, fragment: Fragment) -> Array:
    """The rows in the table of ``at``, as far as that of ``find``, if there is one, leads back to them."""
    tables = {
        name: [[int(number) for number in entry.split(",")] for entry in _ENTRY.findall(body)]
        for name, body in _TABLE.findall(text)
    }
    listed = _ROWS.findall(text)
    lanes = [lane for lane, row in enumerate(listed[0].split(",")) if int(row) >= 0] if listed else range(LANES)
    full = [(row, col, *(rest or [col]), 1)[:4] for row, col, *rest in tables["cells"]]
    row, col, col_last, computation = np.array(full, np.int64).T.reshape(4, len(lanes), -1)
    cells = {"row": row, "col": col, "col_last": col_last, "computation": computation - 1}
    rows = rows_of(fragment, cells, lanes)
    if "places" not in tables:
        return rows
    height, width = fragment.dimensions
    back = np.array(tables["places"])[(cells["computation"] * height + row) * width + col].reshape(-1, 3)
    return rows[np.all(back == np.stack([rows[name] for name in ("lane", "reg", "slot")], axis=-1), axis=-1)]


def _at(lanes: Array, coordinates: dict[str, Array]) -> str:
    cells = _cells(coordinates)
    table_of_lanes, index = "", "lane"
    if len(lanes) < LANES:
        numbers = np.full(LANES, -1)
        numbers[lanes] = np.arange(len(lanes))
        listed = ", ".join(map(str, numbers.tolist()))
        table_of_lanes, index = f"  constexpr signed char row_of[{LANES}] = {{{listed}}};\n", "row_of[lane]"
    return (
        "LANEMAP_FUNCTION cell at(int lane, int reg, int slot) {\n"
        f"{table_of_lanes}  constexpr cell cells[{len(cells)}] = {{\n{_wrapped(cells)}  }};\n"
        f"  return cells[({index} * registers + reg) * slots + slot];\n}}\n"
    )


def _cells(coordinates: dict[str, Array]) -> list[str]:
    """One initialiser per slot, with as many members as any of them needs."""
    members = np.stack([coordinates[name].ravel() for name in ("row", "col", "col_last", "computation")], axis=1)
    members[:, 3] += 1
    count = 4 if (members[:, 3] > 1).any() else 3 if (members[:, 2] != members[:, 1]).any() else 2
    return ["{" + ",".join(map(str, cell)) + "}" for cell in members[:, :count].tolist()]


def _find(fragment: Fragment) -> str:
    try:
        held = table(fragment)
        places = held.places()
    except RefusedError as error:
        return f"// no find: {error}\n"
    slots = [held.at(place) for place in places.ravel().tolist()]
    body = _wrapped([f"{{{slot['lane']},{slot['reg']},{slot['slot']}}}" for slot in slots])
    several = "computation" in held.extents
    product, index = (", int computation", "((computation - 1) * rows + row)") if several else ("", "row")
    return (
        f"LANEMAP_FUNCTION place find(int row, int col{product}) {{\n"
        f"  constexpr place places[{places.size}] = {{\n{body}  }};\n"
        f"  return places[{index} * cols + col];\n}}\n"
    )


def _wrapped(parts: Sequence[str]) -> str:
    """The parts as indented lines of at most 120 columns, a power of two on each."""
    fit = (120 - len(_INDENT)) // (max(map(len, parts)) + 1)
    count = 1 << fit.bit_length() - 1
    return "".join(f"{_INDENT}{','.join(parts[at : at + count])},\n" for at in range(0, len(parts), count))


NOTATION = Notation(compose, read, before=_BEFORE, after="\n}  // namespace lanemap\n")
