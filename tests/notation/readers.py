"""What a text in each notation says, as elements: read by its own tool where that is Python, else by a small reader.

C++ is compiled in test_cpp, and Triton parses encodings in test_triton.
"""

import json
import math
import re
from ast import literal_eval

import numpy as np
import pytest

from lanemap.db.layout.formula import coverage, evaluate_at, parse, value_at
from lanemap.db.layout.fragment import by_rule, elements

_ALIAS = re.compile(r"^using \w+ = Layout<(.*?),\n +(Stride.*|_\d+)>;", re.MULTILINE)
_MAP = re.compile(r"^#\w+ = affine_map<\((.*)\) -> \((.*)\)>$", re.MULTILINE)
_TILE = re.compile(r"(outer_tile|thread_tile|element_tile|thread_strides) = \[(.*?)\]")
_BASES = re.compile(r"(register|lane|warp|offset) = \[(.*?)\](?=, \w+ =)")


def rows_of(fragment, cells, lanes=None):
    """The elements of computation, from 0, if there are several, row and col over (lane, element)."""
    shape = (fragment.threads if lanes is None else len(lanes), fragment.registers * fragment.slots)
    *computation, row, col = (np.broadcast_to(cell, shape) for cell in cells)
    rows = by_rule(fragment.slots, row, col, None, computation[0] + 1 if computation else 1)
    if lanes is not None:
        rows["lane"] = np.asarray(lanes)[rows["lane"]]
    return rows


def indices(fragment):
    return np.indices((fragment.threads, fragment.registers * fragment.slots))


def python(text, fragment):
    """Python itself runs both functions, on arrays."""
    defined = {}
    exec(text, defined)
    forward, backward = [function for name, function in defined.items() if name.endswith("_layout")]
    lane, value = indices(fragment)
    cells = backward(lane, value)
    for said, place in zip(forward(*cells), (lane, value), strict=True):
        assert np.array_equal(np.broadcast_to(said, lane.shape), place)
    return rows_of(fragment, cells)


def affine(text, fragment):
    """The map, and the nested layout as far as it says anything: both must say the same."""

    def value(expression, known):
        return eval(expression.replace("floordiv", "//").replace("mod", "%"), {}, known)

    (_, results), *nested = _MAP.findall(text)
    lane, place = indices(fragment)
    cells = [np.broadcast_to(value(term, {"lane": lane, "value": place}), lane.shape) for term in results.split(", ")]
    for names, at in nested:
        tiles = [[int(n) for n in numbers.split(", ")] for _, numbers in _TILE.findall(text)]
        outer, thread, element, stride = tiles
        seen = []
        for index in np.ndindex(*outer, *element):
            seen.append(value(at, dict(zip(names.split(", "), index, strict=True))))
            for axis, cell in enumerate(cells):
                turn = np.arange(fragment.threads) // max(stride[axis], 1) % thread[axis]
                said = (index[axis] * thread[axis] + turn) * element[axis] + index[axis + len(cells)]
                assert np.array_equal(cell[:, seen[-1]], said)
        assert sorted(seen) == list(range(place.shape[1]))
    return rows_of(fragment, cells)


def linear(text, fragment):
    """The XOR of the bases of every bit; of an operand in memory those of an offset, counted in elements."""
    dimensions = text.partition("[[")[2].partition("]")[0].count(",") + 1
    bases = {
        part: np.array(re.findall(r"\d+", body), int).reshape(-1, dimensions) for part, body in _BASES.findall(text)
    }

    def spread(vectors):
        found = np.zeros((1, dimensions), int)
        for vector in vectors:
            found = np.concatenate([found, found ^ vector])
        return found

    if fragment.threads == 1:
        found = rows_of(fragment, spread(bases["offset"]).T[:, None])
        rows, cols = fragment.dimensions
        return found[(found["row"] < rows) & (found["col"] < cols)]
    lanes = spread(np.concatenate([bases["lane"], bases["warp"]]))
    return rows_of(fragment, np.moveaxis(lanes[:, None] ^ spread(bases["register"])[None], -1, 0))


def cute(text, fragment):
    """CUTLASS's pycute evaluates the layout for each thread of the ThrID, and of those beside it."""
    pycute = pytest.importorskip("pycute", reason="needs the package nvidia-cutlass")

    def layout(shape, stride):
        parts = (
            re.sub(r"(?:Shape |Stride)<", "[", part).replace(">", "]").replace("_", "") for part in (shape, stride)
        )
        return pycute.Layout(*(_as_tuple(json.loads(part)) for part in parts))

    *threads, whole = (layout(*entry) for entry in _ALIAS.findall(text))
    if fragment.threads == 1:
        return in_memory(fragment, whole, re.findall(r"Swizzle<(\d),(\d),(\d)>", text)[::-1])
    starts, of_thread = (pycute.complement(threads[0], fragment.threads), threads[0]) if threads else (None, None)
    products = fragment.threads // pycute.size(threads[0]) if threads else 1
    rows, cols = fragment.dimensions
    found = []
    for product in range(products):
        for thread in range(fragment.threads // products):
            lane = of_thread(thread) + starts(product) if threads else thread
            for value in range(fragment.registers * fragment.slots):
                matrix, cell = divmod(whole(thread, value), math.prod(fragment.dimensions))
                place = divmod(cell, cols) if fragment.role == "B" else divmod(cell, rows)[::-1]
                found.append((lane, *divmod(value, fragment.slots), *place, matrix + product + 1))
    return elements(dict(zip(("lane", "reg", "slot", "row", "col", "computation"), np.array(found).T, strict=True)))


def in_memory(fragment, layout, swizzles):
    """Where a layout of (M or N, K) and swizzles of elements put the cells of each line, in the order along K."""
    found = fragment.elements.copy()
    along = "col" if fragment.role == "B" else "row"
    for line in np.unique(found[along]):
        at = np.flatnonzero(found[along] == line)
        for k, index in enumerate(at[np.argsort(found["row" if along == "col" else "col"][at])]):
            place = layout(int(line), k)
            for bits, base, shift in (map(int, numbers) for numbers in swizzles):
                place ^= place >> shift & ((1 << bits) - 1) << base
            found["reg"][index], found["slot"][index] = divmod(place, fragment.slots)
    return np.sort(found, order=["lane", "reg", "slot"])


def _as_tuple(tree):
    return tuple(map(_as_tuple, tree)) if isinstance(tree, list) else tree


def ptx_formula(text, fragment):
    """The evaluator of documents, of the elements that the cases of ``row`` cover; or the canonical layout by hand."""
    if canonical := re.fullmatch(r"(?://.+\n)?Swizzle<(\d),(\d),(\d)> o (.+):(.+)\n", text):
        bits, base, shift = map(int, canonical.groups()[:3])
        modes = [*zip(*map(literal_eval, canonical.groups()[3:]), strict=True)]

        def layout(*place):
            """CuTe's: the first extent of a mode is the fastest."""
            total = 0
            for index, (extents, weights) in zip(place, modes, strict=True):
                for extent, weight in zip(extents, weights, strict=True):
                    total, index = total + index % extent * weight, index // extent
            return total

        # The swizzle is of bytes.
        return in_memory(fragment, layout, [(bits, base + 4 - (32 // fragment.slots).bit_length(), shift)])
    formula, letter = parse(text), {"B": "b", "C": "c", "D": "c", "E": "e"}.get(fragment.role, "a")
    held = np.any(coverage(formula, "row", letter, fragment.registers * fragment.slots, fragment.threads), axis=0)
    lane, element = np.nonzero(held)
    cells = evaluate_at(formula, letter, lane, element)._asdict()
    if "computation" in formula:
        cells["computation"] = value_at(formula, "computation", letter, lane, element)
    return elements({"lane": lane, "reg": element // fragment.slots, "slot": element % fragment.slots} | cells)


READERS = {"cute": cute, "linear": linear, "affine": affine, "python": python, "ptx-formula": ptx_formula}
