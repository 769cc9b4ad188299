"""TileLang's fragments: those of its emitters, and the tiles of the four products of m8n8k4, cut into products."""

from importlib import import_module
from importlib.util import find_spec
from itertools import product

import tilelang  # noqa: F401 - it brings a TVM of its own

if find_spec("tilelang.cuda"):
    layout = import_module("tilelang.cuda.intrinsics.layout.mma_sm70_layout")
    emitters = import_module("tilelang.cuda.intrinsics.macro.mma_macro_generator")
else:
    layout = import_module("tilelang.intrinsics.mma_sm70_layout")
    emitters = import_module("tilelang.intrinsics.mma_macro_generator")
Emitter = emitters.TensorCoreIntrinEmitter
Warpgroups = import_module(emitters.__name__.replace("mma_macro", "wgmma_macro")).TensorCoreIntrinEmitter
if find_spec(_sparse := emitters.__name__.replace("mma_macro", "wgmma_sp_macro")):
    SparseWarpgroups = import_module(_sparse).WGSparseTensorCoreIntrinEmitter
tirx = import_module("tvm.tirx" if find_spec("tvm.tirx") else "tvm.tir")


def fragment(matrix, shape, dtype, copy, emitter="Emitter", **settings):
    """The function (i, j) -> (thread, value) of what an emitter gives for A, B or C, for one of its copies."""
    made = globals()[emitter](**settings)
    buffer = tirx.decl_buffer(shape, dtype, scope="local.fragment")
    given = made.make_mma_store_layout(buffer) if matrix == "C" else made.make_mma_load_layout(buffer, matrix)
    results = [given.thread, *given.get_forward_index()]
    return lambda i, j: [_value(each, {"_i": i, "_j": j, "_rep": copy}) for each in results]


def _value(expression, at):
    """An expression of sums, products and floor divisions, with numbers for its variables."""
    kind = type(expression).__name__
    if kind in ("Var", "SizeVar"):
        return at[expression.name]
    if kind == "IntImm":
        return expression.value
    a, b = _value(expression.a, at), _value(expression.b, at)
    return (
        {"Add": a + b, "Sub": a - b, "Mul": a * b}[kind]
        if kind in ("Add", "Sub", "Mul")
        else divmod(a, b)[kind == "FloorMod"]
    )


def products(name, axes):
    """The function (lane, value) -> pair within a product, of a function of TileLang for the tile.

    Quad pair q, lanes 4 q to 4 q + 3 and the same plus 16, has rows from 8 (q % 2) on, and of each 8 columns the four
    from 4 (q / 2) on.
    """
    function = getattr(layout, name)
    return lambda lane, value: _within(axes, lane, function(lane, value))


def held(name, axes, shape):
    """The same of a function (row, column, copy) -> (lane, value); each cell is held by two lanes."""
    function = getattr(layout, name)
    cells = {function(*cell, copy): cell for *cell, copy in product(*map(range, (*shape, 2)))}

    def place(lane, value):
        if (lane, value) not in cells:
            raise LookupError("no cell is held there")
        return _within(axes, lane, cells[lane, value])

    return place


def _within(axes, lane, cell):
    pair = lane // 4 % 4
    at = dict(zip(axes, cell))
    at["m"] = at.get("m", 0) - pair % 2 * 8
    column = at.get("n", 0) - pair // 2 * 4
    at["n"] = column // 8 * 4 + column % 8 if column % 8 < 4 else -1
    return [at[axis] for axis in axes]
