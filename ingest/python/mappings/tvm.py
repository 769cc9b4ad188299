"""TVM's layouts for tensor intrinsics, and the addresses of its loads, which are in closures of what it compiles.

Compiling some 250 intrinsics when the module is imported would take most of a minute, so here nothing is compiled.
"""

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

from tvm.script import tirx as T  # noqa: N812 - TVM's name


def _as_written(function=None, **_):
    return function or _as_written


T.prim_func = _as_written
import_module("tvm.s_tir" if find_spec("tvm.s_tir") else "tvm.tir").TensorIntrin.register = lambda *_, **__: None
_MODULES = ("tvm.s_tir.tensor_intrin.cuda", "tvm.tir.tensor_intrin.cuda")
cuda = import_module(next(name for name in _MODULES if find_spec(name.split(".tensor")[0])))
with suppress(ModuleNotFoundError):  # in older versions
    layout = import_module("tvm.tirx.layout")
    tma_utils = import_module("tvm.backend.cuda.tile_primitive.tma_utils")


def address(factory, **arguments):
    """The function (lane, stride) -> offset of a factory of load intrinsics."""
    _, implementation = getattr(cuda, factory)(**arguments)
    held = dict(zip(implementation.__code__.co_freevars, implementation.__closure__))
    return next(held[name].cell_contents for name in ("smem_offset", "get_tx_index") if name in held)


def tensor_memory(shape, rows, columns, packed=1):
    """The function (row, column) -> (thread, register) of the registers that an atom moves.

    Where elements have 16 bits, two are ``packed`` into each register and each column of Tensor Memory.
    """
    elements = rows, columns * packed
    atom = layout.tcgen05_atom_layout(shape, elements, f"float{32 // packed}")

    def element(row, column):
        at = {name: int(number) for name, number in atom.apply(row, column, shape=list(elements)).items()}
        return at["tid_in_wg"] if "tid_in_wg" in at else at["wid_in_wg"] * 32 + at["laneid"], at.get("m", 0)

    def cell(row, column):
        thread, first = element(row, column * packed)
        if any(element(row, column * packed + slot) != (thread, first + slot) for slot in range(packed)):
            raise LookupError("the elements of a column are not in one register")
        return thread, first // packed

    return cell


def shared(dtype, mode, shape):
    """The function (row, column) -> offset of a tile in shared memory that ``wgmma`` and ``tcgen05.mma`` read."""
    tiled = tma_utils.mma_shared_layout(dtype, mode, shape)
    return lambda row, column: int(tiled.apply(row, column, shape=shape)["m"])
