"""TVM's layouts for tensor intrinsics, and the addresses of its loads, which are in closures of what it compiles.

Compiling some 250 intrinsics when the module is imported would take most of a minute, so here nothing is compiled.
"""

from importlib import import_module
from importlib.util import find_spec

from tvm.script import tirx as T  # noqa: N812 - TVM's name


def _as_written(function=None, **_):
    return function or _as_written


T.prim_func = _as_written
import_module("tvm.s_tir" if find_spec("tvm.s_tir") else "tvm.tir").TensorIntrin.register = lambda *_, **__: None
_MODULES = ("tvm.s_tir.tensor_intrin.cuda", "tvm.tir.tensor_intrin.cuda")
cuda = import_module(next(name for name in _MODULES if find_spec(name.split(".tensor")[0])))


def address(factory, **arguments):
    """The function (lane, stride) -> offset of a factory of load intrinsics."""
    _, implementation = getattr(cuda, factory)(**arguments)
    held = dict(zip(implementation.__code__.co_freevars, implementation.__closure__))
    return next(held[name].cell_contents for name in ("smem_offset", "get_tx_index") if name in held)
