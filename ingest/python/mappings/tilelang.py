"""TileLang's fragments, of its emitters and of one m8n8k4 cut out of a tile of four, and kernels that it compiles."""

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from operator import add, floordiv, mod, mul, sub
from types import SimpleNamespace

import numpy as np
from tilelang import layout as layouts  # which brings a TVM of its own


def _module(folder, name):
    inside = f"cuda.intrinsics.{folder}" if find_spec("tilelang.cuda") else "intrinsics"
    return import_module(f"tilelang.{inside}.{name}")


layout = _module("layout", "mma_sm70_layout")
Emitter = _module("macro", "mma_macro_generator").TensorCoreIntrinEmitter
Sparse = _module("macro", "mma_sp_macro_generator").SparseTensorCoreIntrinEmitter
Volta = _module("macro", "mma_sm70_macro_generator").TensorCoreIntrinEmitter
Warpgroups = _module("macro", "wgmma_macro_generator").TensorCoreIntrinEmitter
with suppress(ModuleNotFoundError):  # in older versions
    SparseWarpgroups = _module("macro", "wgmma_sp_macro_generator").WGSparseTensorCoreIntrinEmitter
    TensorMemory = _module("macro", "tcgen05_macro_generator").TensorCoreIntrinEmitter
    block_scaled = _module("macro", "mma_sm120_macro_generator")
    BlockScaled = block_scaled.TensorCoreIntrinEmitterSM120
tirx = import_module("tvm.tirx" if find_spec("tvm.tirx") else "tvm.tir")


def fragment(matrix, dtype, transposed, warps, tile, depth, copy=0, emitter="Emitter", **more):
    """The function (i, j) -> (thread, value) of what an emitter gives for A, B or C, for one of its copies.

    It has ``warps`` down and across, each with a ``tile`` of C. Transposed are A as K x M, and B as K x N.
    """
    accumulator = "int32" if dtype.startswith("int") else "float32"
    settings = {"a_dtype": dtype, "b_dtype": dtype, "accum_dtype": accumulator, **more}
    settings |= {"a_transposed": transposed, "b_transposed": not transposed}
    settings |= dict(zip(("block_row_warps", "block_col_warps", "warp_row_tiles", "warp_col_tiles"), (*warps, *tile)))
    sparse = "Sparse" in emitter
    settings |= {"warp_k": depth, "e_dtype": "uint16"} if sparse else {"chunk": depth}
    rows, columns = (across * along for across, along in zip(warps, tile))
    shape = {"A": (rows, depth // (1 + sparse)), "B": (columns, depth), "C": (rows, columns)}[matrix]
    turned = transposed and matrix != "C"
    builder = globals()[emitter](**settings)
    held = accumulator if matrix == "C" else dtype
    shape = shape[::-1] if turned else shape
    buffer = tirx.decl_buffer(shape, held, scope="local.fragment")
    tile = builder.make_mma_store_layout(buffer) if matrix == "C" else builder.make_mma_load_layout(buffer, matrix)
    down, along = np.indices(shape)
    at = {"_i": down, "_j": along, "_rep": copy}
    results = np.stack([down * 0 + _value(result, at) for result in (tile.thread, *tile.get_forward_index())], axis=-1)
    return lambda i, j: results[i, j].tolist()


_OPERATIONS = {"Add": add, "Sub": sub, "Mul": mul, "FloorDiv": floordiv, "FloorMod": mod}


def _value(expression, at):
    """An expression of sums, products and floor divisions, with numbers or arrays for its variables."""
    kind = type(expression).__name__
    if kind in ("Var", "SizeVar"):
        return at[expression.name]
    if kind == "IntImm":
        return expression.value
    return _OPERATIONS[kind](_value(expression.a, at), _value(expression.b, at))


def accumulator(rows, columns, dtype="float16", depth=16):
    """The function (i, j) -> (lane, column): where an accumulator lies in Tensor Memory, of one block's products."""
    emitter = TensorMemory(dtype, dtype, "float32", b_transposed=True, chunk=depth)
    emitter.get_tcgen5_mma_meta(rows, columns, depth, True)
    tile = emitter.make_mma_store_layout(tirx.decl_buffer((rows, columns), "float32", scope="shared.tmem"))
    results = np.stack(_mapped(tile, (rows, columns)), axis=-1)
    return lambda i, j: results[i, j].tolist()


def shared(instruction, dtype, shape, k_major=True):
    """The function (i, j) -> offset of a tile in shared memory that ``wgmma`` or ``tcgen05mma`` read."""
    buffer = tirx.decl_buffer(shape, dtype, scope="shared.dyn")
    tile = getattr(layouts, f"make_{instruction}_swizzled_layout")(buffer, k_major=k_major)
    offsets = np.ravel_multi_index(_mapped(tile, shape), [int(extent) for extent in tile.get_output_shape()])
    return lambda i, j: int(offsets[i, j])


def _mapped(tile, shape):
    """Each result of a layout of TileLang's, as an array of a shape."""
    at = dict(zip((variable.name for variable in tile.get_forward_vars()), np.indices(shape)))
    return [np.broadcast_to(_value(result, at), shape) for result in tile.get_forward_index()]


def load(matrix, transposed):
    """The function lane -> (i, j): from where the emitter of block-scaled products loads A or B with ldmatrix.

    Its macro runs as the Python that it is written in, with a lane's number for the thread.
    """
    cells = type("Cells", (), {"__getitem__": lambda _, index: index})()
    region = SimpleNamespace(buffer=cells, region=[SimpleNamespace(min=0)] * 2)
    settings = {"a_dtype": "float4_e2m1fn", "b_dtype": "float4_e2m1fn", "accum_dtype": "float32", "chunk": 64}
    settings |= {"a_transposed": transposed, "b_transposed": not transposed, "is_blockscaled": True}
    settings |= {"block_row_warps": 1, "block_col_warps": 1, "warp_row_tiles": 16, "warp_col_tiles": 16}

    def place(lane):
        found = []
        language = {"macro": lambda function: function, "unroll": range, "access_ptr": lambda cell, *_, **__: cell}
        language |= {"bool": bool, "ptx_ldmatrix": lambda *arguments: found.append(arguments[2])}
        block_scaled.T = SimpleNamespace(**{**vars(block_scaled.T), **language})
        emitter = BlockScaled(**settings, thread_var=lane)
        emitter._legalize_to_buffer_region = lambda buffer: buffer
        getattr(emitter, f"ldmatrix_{matrix.lower()}")(cells, region, 0)
        return found[0]

    return place


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


def volta(matrix, accumulator="float32"):
    """The same of what the emitter for sm_70 gives for A or C: 2 x 2 warps, each with two tiles down, and along N or K.

    A value counts within a tile, and all tiles of all warps must have the same there.
    """
    axes, tile, per_lane = ("mk", (16, 4), 4) if matrix == "A" else ("mn", (16, 16), 8)
    rows, columns = (64, 8) if matrix == "A" else (64, 64)
    settings = {"emitter": "Volta", "accum_dtype": accumulator}
    found = {}
    for copy in range(4 if matrix == "A" else 1):  # two lanes hold each cell of A, in each of two warps
        held_by = fragment(matrix, "float16", False, (2, 2), (32, 32), 8, copy, **settings)
        for row, column in product(range(rows), range(columns)):
            thread, value = held_by(row, column)
            warp, number = thread // 32, value // per_lane
            # A has the tiles along K one after the other, with those down the rows in each; C those of each row.
            down, along = (number % 2, number // 2) if matrix == "A" else (number // 2, number % 2)
            top = (warp % 2 * 2 + down) * tile[0]
            left = (along if matrix == "A" else warp // 2 * 2 + along) * tile[1]
            place = thread % 32, value % per_lane
            found.setdefault(place, []).append((row - top, column - left))

    def place(lane, value):
        cells = {*found.get((lane, value), ())}
        if len(cells) != 1:
            raise LookupError("the tiles of the warps differ")
        return _within(axes, lane, *cells)

    return place


def _within(axes, lane, cell):
    pair = lane // 4 % 4
    at = dict(zip(axes, cell))
    at["m"] = at.get("m", 0) - pair % 2 * 8
    column = at.get("n", 0) - pair // 2 * 4
    at["n"] = column // 8 * 4 + column % 8 if column % 8 < 4 else -1
    return [at[axis] for axis in axes]


def kernel(target, dtype, shape, threads, held="", policy="Square"):
    """A product A x B of one block, B as (n, k), as its compiler and nvcc make it. A or B may come from a fragment."""
    import tilelang.language as tl
    from tilelang import lower, tvm
    from tilelang.contrib.nvcc import compile_cuda
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    m, n, k = shape
    total = "int32" if dtype.startswith("int") else "float32"

    @tl.prim_func
    def main(a: tl.Tensor((m, k), dtype), b: tl.Tensor((n, k), dtype), c: tl.Tensor((m, n), total)):
        with tl.Kernel(1, threads=threads):
            a_shared, b_shared = tl.alloc_shared((m, k), dtype), tl.alloc_shared((n, k), dtype)
            a_held, b_held = tl.alloc_fragment((m, k), dtype), tl.alloc_fragment((n, k), dtype)
            c_held = tl.alloc_fragment((m, n), total)
            tl.clear(c_held)
            tl.copy(a, a_shared)
            tl.copy(b, b_shared)
            if held == "A":
                tl.copy(a_shared, a_held)
            if held == "B":
                tl.copy(b_shared, b_held)
            left, right = a_held if held == "A" else a_shared, b_held if held == "B" else b_shared
            tl.gemm(left, right, c_held, transpose_B=True, policy=getattr(tl.GemmWarpPolicy, policy))
            tl.copy(c_held, c)

    settings = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
    with tvm.target.Target({"kind": "cuda", "arch": target}) as of, tvm.transform.PassContext(config=settings):
        made = lower(main, target=of)
    (function,) = made.device_mod.functions.values()
    include = [f"-I{TILELANG_TEMPLATE_PATH}", f"-I{CUTLASS_INCLUDE_DIR}"]
    options = ["-std=c++17", "-DENABLE_BF16", *include]
    text = compile_cuda(made.kernel_source, target_format="ptx", arch=[f"-arch={target}"], options=options)
    shared = int(function.attrs["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in function.attrs else 0
    return {"ptx": bytes(text).decode(), "block": threads, "shared": shared}
