"""TileLang's fragments: those of its emitters, and the tiles of the four products of m8n8k4, cut into products."""

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from operator import add, floordiv, mod, mul, sub

import tilelang  # noqa: F401 - it brings a TVM of its own


def _module(folder, name):
    inside = f"cuda.intrinsics.{folder}" if find_spec("tilelang.cuda") else "intrinsics"
    return import_module(f"tilelang.{inside}.{name}")


layout = _module("layout", "mma_sm70_layout")
Emitter = _module("macro", "mma_macro_generator").TensorCoreIntrinEmitter
Warpgroups = _module("macro", "wgmma_macro_generator").TensorCoreIntrinEmitter
with suppress(ModuleNotFoundError):  # of versions before 0.1.10
    SparseWarpgroups = _module("macro", "wgmma_sp_macro_generator").WGSparseTensorCoreIntrinEmitter
tirx = import_module("tvm.tirx" if find_spec("tvm.tirx") else "tvm.tir")


def fragment(matrix, shape, dtype, copy, emitter="Emitter", **settings):
    """The function (i, j) -> (thread, value) of what an emitter gives for A, B or C, for one of its copies."""
    builder = globals()[emitter](**settings)
    buffer = tirx.decl_buffer(shape, dtype, scope="local.fragment")
    tile = builder.make_mma_store_layout(buffer) if matrix == "C" else builder.make_mma_load_layout(buffer, matrix)
    results = [tile.thread, *tile.get_forward_index()]
    return lambda i, j: [_value(result, {"_i": i, "_j": j, "_rep": copy}) for result in results]


_OPERATIONS = {"Add": add, "Sub": sub, "Mul": mul, "FloorDiv": floordiv, "FloorMod": mod}


def _value(expression, at):
    """An expression of sums, products and floor divisions, with numbers for its variables."""
    kind = type(expression).__name__
    if kind in ("Var", "SizeVar"):
        return at[expression.name]
    if kind == "IntImm":
        return expression.value
    return _OPERATIONS[kind](_value(expression.a, at), _value(expression.b, at))


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
