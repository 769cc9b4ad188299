"""Lowers products of TileLang to CUDA, and says what they are launched with; TileLang's own Python runs this.

It reads the parameters of ``product`` as a list in JSON, and writes a list with ``source``, ``shared`` and
``parameters``, the names of the kernel's parameters in their order.
"""

import json
import re
import sys

import tilelang
import tilelang.language as tl
from tilelang import tvm


def product(m, n, k, types, threads, policy, transposed, fragments, metadata):
    """C = A x B of one block; A may be sparse, and each may be stored transposed or come from a fragment."""
    element, total = types
    of_a, of_b = "A" in fragments, "B" in fragments
    stored = k // 2 if metadata else k
    rows = (stored, m) if "A" in transposed else (m, stored)
    columns = (n, k) if "B" in transposed else (k, n)
    word, bits = metadata or ("int8", 8)
    chosen = (m, k * (2 if element == "float32" else 1) // bits)
    turned, way = ("A" in transposed, "B" in transposed), getattr(tl.GemmWarpPolicy, policy)

    @tl.prim_func
    def main(
        a: tl.Tensor(rows, element),
        b: tl.Tensor(columns, element),
        c: tl.Tensor((m, n), total),
        e: tl.Tensor(chosen, word),
    ):
        with tl.Kernel(1, threads=threads):
            a_shared, b_shared = tl.alloc_shared(rows, element), tl.alloc_shared(columns, element)
            a_held, b_held = tl.alloc_fragment(rows, element), tl.alloc_fragment(columns, element)
            c_held = tl.alloc_fragment((m, n), total)
            tl.clear(c_held)
            tl.copy(a, a_shared)
            tl.copy(b, b_shared)
            if of_a:
                tl.copy(a_shared, a_held)
            if of_b:
                tl.copy(b_shared, b_held)
            if metadata:
                e_shared = tl.alloc_shared(chosen, word)
                tl.copy(e, e_shared)
                tl.gemm_sp(
                    a_held if of_a else a_shared,
                    e_shared,
                    b_held if of_b else b_shared,
                    c_held,
                    transpose_A=turned[0],
                    transpose_B=turned[1],
                    policy=way,
                )
            else:
                tl.gemm(
                    a_held if of_a else a_shared,
                    b_held if of_b else b_shared,
                    c_held,
                    transpose_A=turned[0],
                    transpose_B=turned[1],
                    policy=way,
                )
            tl.copy(c_held, c)

    return main


def pipelined(m, n, k, types, threads, transposed, stages, block, column):
    """C = A x B by blocks in a pipeline, whose boxes tensor maps load and store; C is stored from a column on."""
    (element, total), (rows, columns, depth) = types, block
    turned = "A" in transposed, "B" in transposed

    @tl.prim_func
    def main(
        a: tl.Tensor((k, m) if turned[0] else (m, k), element),
        b: tl.Tensor((n, k) if turned[1] else (k, n), element),
        c: tl.Tensor((m, n + 8 * bool(column)), total),
    ):
        with tl.Kernel(n // columns, m // rows, threads=threads) as (x, y):
            a_shared = tl.alloc_shared((depth, rows) if turned[0] else (rows, depth), element)
            b_shared = tl.alloc_shared((columns, depth) if turned[1] else (depth, columns), element)
            c_shared = tl.alloc_shared((rows, columns), total)
            c_held = tl.alloc_fragment((rows, columns), total)
            tl.clear(c_held)
            for step in tl.Pipelined(k // depth, num_stages=stages):
                if turned[0]:
                    tl.copy(a[step * depth, y * rows], a_shared)
                else:
                    tl.copy(a[y * rows, step * depth], a_shared)
                if turned[1]:
                    tl.copy(b[x * columns, step * depth], b_shared)
                else:
                    tl.copy(b[step * depth, x * columns], b_shared)
                tl.gemm(a_shared, b_shared, c_held, transpose_A=turned[0], transpose_B=turned[1])
            tl.copy(c_held, c_shared)
            tl.copy(c_shared, c[y * rows, x * columns + column])

    return main


def lowered(target, **how):
    """The CUDA of a product, with the bytes of shared memory and the parameters of its kernel.

    Of tensor maps it has the array, the box and the number of the swizzle.
    """
    settings = {} if "stages" in how else {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
    with tvm.target.Target({"kind": "cuda", "arch": target}) as of, tvm.transform.PassContext(config=settings):
        made = tilelang.lower((pipelined if "stages" in how else product)(**how), target=of)
    (function,) = made.device_mod.functions.values()
    shared = int(function.attrs["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in function.attrs else 0
    names = re.findall(r"(\w+)[,)]", re.search(r"main_kernel\((.*?\))", made.kernel_source)[1])
    maps = {}
    for name, given in re.findall(r'(\w+): \["__tvm_tensormap_create_tiled", ([^]]*)\]', str(made.host_mod)):
        _, _, rank, array, *numbers = given.split(", ")
        rank, numbers = int(rank), list(map(int, numbers))
        maps[name] = array, numbers[2 * rank : 3 * rank][::-1], numbers[4 * rank + 1]
    return {"source": made.kernel_source, "shared": shared, "parameters": names, "maps": maps}


if __name__ == "__main__":
    answers = [lowered(**how) for how in json.load(sys.stdin)]
    print("\n" + json.dumps(answers))
