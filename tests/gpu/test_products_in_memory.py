"""Products of matrices that TMA writes and descriptors read compute on a GPU what numpy does, in every mode.

A kernel copies both tiles with their tensor maps, steps through them with their descriptors, and stores D by the recipe
for stmatrix. On one machine: pytest tests/gpu. Or on two, of which the one with the GPU needs no more than this file,
the folder, PyCUDA and numpy:

    python tests/gpu/test_products_in_memory.py build FOLDER
    python tests/gpu/test_products_in_memory.py run FOLDER
"""

import ctypes
import json
import sys
from itertools import product
from pathlib import Path

import numpy as np

_MODES = ("none", "32B", "64B", "128B")
_EITHER = [f"{mode}.{major}" for mode, major in product(_MODES, ("K", "MN"))]

#: Shape and type, and how A and B lie in shared memory.
CASES = [
    *(("m64n64k16", "f16", *pair) for pair in product(_EITHER, repeat=2)),
    *(("m64n64k32", "e4m3", f"{a}.K", f"{b}.K") for a, b in product(_MODES, repeat=2)),
]

#: Rows of A, columns of B, and bytes of a row along K.
_LINES, _DEPTH = 64, 128

TMA = "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"

KERNEL = """
.visible .entry product{n}(.param .u64 a, .param .u64 b, .param .u64 table, .param .u64 out) {{
  .shared .align 1024 .b8 tiles[{size}];
  .shared .align 8 .b8 copied[8];
  .reg .b32 %lane, %base, %start, %copied, %place, %zero, %p, %t, %d<16>;
  .reg .b64 %a, %b, %table, %out, %of, %da, %db;
  .reg .pred %first, %done, %adds;
  mov.u32 %lane, %tid.x;
  mov.u32 %base, tiles;
  mov.u32 %copied, copied;
  mov.u32 %zero, 0;
  setp.eq.u32 %first, %lane, 0;
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %table, [table];
  ld.param.u64 %out, [out];
  mul.wide.u32 %of, %lane, 4;
  add.u64 %table, %table, %of;
  add.u64 %out, %out, %of;
  @%first mbarrier.init.shared.b64 [%copied], 1;
  fence.proxy.async;
  bar.sync 0;
  {body}
  ret;
}}
"""


def described(shape, type_, role, layout):
    """What the kernel needs of one operand: its descriptors for each step along K, and its tensor map."""
    import lanemap

    depth = _DEPTH * 8 // {"f16": 16, "e4m3": 8}[type_]
    letter = {"A": "m", "B": "n"}[role]
    found = lanemap.Database.descriptor(f"wgmma {shape} {type_} {role} {layout}", f"{letter}{_LINES}k{depth}")
    steps = [(found.word, step) for _, _, _, step in found.steps.rows]
    box, axes, mode = found.tensor_map
    width, inner = found.tile.bits // 8, axes[0]
    pitch = {axis: width if axis == inner else (_LINES if inner != "k" else depth) * width for axis in {*axes}}
    apart, reached = [], dict(pitch)
    for extent, axis in zip(box, axes, strict=True):
        apart.append(reached[axis])
        reached[axis] *= extent
    names = ["NONE", "32B", "64B", "128B"]
    swizzle = names.index(mode.removeprefix("CU_TENSOR_MAP_SWIZZLE_"))
    return steps, {"box": box, "strides": apart[1:], "width": width, "swizzle": swizzle}, found.tile.size


def kernel(n, case, stored):
    """The text of one kernel, its tensor maps, what it is given, and what it must give."""
    shape, type_, *layouts = case
    operands = [described(shape, type_, role, layout) for role, layout in zip("AB", layouts, strict=True)]
    sizes = [size for _, _, size in operands]
    at_d = sum(sizes)
    lines = [f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%copied], {at_d};"]
    for role, (_, encoded, _), start in zip("ab", operands, (0, sizes[0]), strict=True):
        rank = len(encoded["box"])
        corner = ", ".join(["%zero"] * rank)
        lines += [
            f"add.u32 %place, %base, {start};",
            f"@%first fence.proxy.tensormap::generic.acquire.gpu [%{role}], 128;",
            f"@%first {TMA.format(rank)} [%place], [%{role}, {{{corner}}}], [%copied];",
        ]
    lines += [
        "wait:",
        "mbarrier.try_wait.parity.shared.b64 %done, [%copied], 0;",
        "@!%done bra wait;",
        "wgmma.fence.sync.aligned;",
    ]
    turned = "".join(f", {int(layout.endswith('MN'))}" for layout in layouts) if type_ == "f16" else ""
    registers = ", ".join(f"%d{number}" for number in range(16))
    for step, pair in enumerate(zip(operands[0][0], operands[1][0], strict=True)):
        lines.append(f"setp.ne.u32 %adds, {step}, 0;")
        for name, start, (word, advance) in zip(("%da", "%db"), (0, sizes[0]), pair, strict=True):
            lines += [
                f"add.u32 %start, %base, {start};",
                "and.b32 %start, %start, 0x3ffff;",
                "shr.u32 %start, %start, 4;",
                f"add.u32 %start, %start, {advance};",
                f"cvt.u64.u32 {name}, %start;",
                f"or.b64 {name}, {name}, 0x{word:x};",
            ]
        lines.append(
            f"wgmma.mma_async.sync.aligned.{shape}.f16.{type_}.{type_} {{{registers}}}, %da, %db, %adds, 1, 1{turned};"
        )
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    for step, used in enumerate(stored.moves):
        own = sorted({address.reg for address in stored.addresses if address.step == step})
        vector = ", ".join(f"%d{number}" for number in own)
        lines += [
            f"ld.global.b32 %p, [%table+{512 * step}];",
            "add.u32 %p, %p, %base;",
            f"stmatrix.sync.aligned.m8n8.{used.qualifiers}.shared.b16 [%p+{at_d}], {{{vector}}};",
        ]
    lines += ["bar.sync 0;", "shl.b32 %t, %lane, 2;", "add.u32 %base, %base, %t;"]
    for at in range(0, _LINES * _LINES * 2, 512):
        lines += [f"ld.shared.b32 %t, [%base+{at_d + at}];", f"st.global.b32 [%out+{at}], %t;"]
    random, depth = np.random.default_rng(n), _DEPTH * 8 // {"f16": 16, "e4m3": 8}[type_]
    a, b = random.integers(-2, 3, (_LINES, depth)), random.integers(-2, 3, (depth, _LINES))
    given = [
        encode(matrix if layout.endswith("MN") == (matrix is b) else matrix.T, type_)
        for matrix, layout in zip((a, b), layouts, strict=True)
    ]
    right = (a @ b).astype(np.float16)
    assert np.unique(right).size > 10, "many wrong places would give the same"
    text = KERNEL.format(n=n, size=at_d + _LINES * _LINES * 2, body="\n  ".join(lines))
    return text, [encoded for _, encoded, _ in operands], given, right


def encode(matrix, type_):
    """Small whole numbers in the bits of a type."""
    if type_ == "f16":
        return np.ascontiguousarray(matrix, np.float16)
    size = np.choose(np.abs(matrix), [0, 0x38, 0x40])
    return np.ascontiguousarray(size | np.where(matrix < 0, 0x80, 0), np.uint8)


def build(folder, file=None):
    """Writes the kernels, their tensor maps, what each is given, and what numpy says it must give."""
    import lanemap

    folder.mkdir(parents=True, exist_ok=True)
    kept, maps, texts = {}, [], [".version 8.4\n.target sm_90a\n.address_size 64\n"]
    with lanemap.open(file) as database:
        (stored,) = database.chain("wgmma m64n64k16 f16 D", "stmatrix", major="row")
    table = np.zeros((len(stored.moves), 128), np.uint32)
    for address in stored.addresses:
        table[address.step, address.lane] = address.line * stored.tile[1] + address.byte
    for n, case in enumerate(CASES):
        text, encoded, (a, b), right = kernel(n, case, stored)
        texts.append(text)
        maps.append(encoded)
        kept |= {f"a{n}": a, f"b{n}": b, f"right{n}": right}
    (folder / "products.ptx").write_text("".join(texts))
    (folder / "products.json").write_text(json.dumps(maps))
    np.savez(folder / "products.npz", table=table, **kept)


def tensor_map(encoded, address):
    """The tensor map of a whole tensor, which is one tile."""
    rank, room = len(encoded["box"]), np.zeros(128 + 64, np.uint8)
    start = -room.ctypes.data % 64
    failed = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(room.ctypes.data + start),
        encoded["width"] - 1,
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*encoded["box"]),
        (ctypes.c_uint64 * rank)(*encoded["strides"]),
        (ctypes.c_uint32 * rank)(*encoded["box"]),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        encoded["swizzle"],
        0,
        0,
    )
    assert not failed, f"no tensor map {encoded}: error {failed}"
    return room[start : start + 128].copy()


def run(folder):
    """Runs every kernel; how many gave what numpy did.

    Raises:
        AssertionError: one gave something else.
    """
    from pycuda import autoinit, driver

    module = driver.module_from_buffer((folder / "products.ptx").read_bytes())
    kept, every = np.load(folder / "products.npz"), json.loads((folder / "products.json").read_text())
    for n, (case, maps) in enumerate(zip(CASES, every, strict=True)):
        tensors = [driver.to_device(kept[f"{name}{n}"]) for name in "ab"]
        encoded = [tensor_map(one, int(tensor)) for one, tensor in zip(maps, tensors, strict=True)]
        held = driver.to_device(np.concatenate(encoded))
        right = kept[f"right{n}"]
        found = np.full_like(right, np.nan)
        addresses = [np.uint64(int(held)), np.uint64(int(held) + 128)]
        module.get_function(f"product{n}")(*addresses, driver.In(kept["table"]), driver.InOut(found), block=(128, 1, 1))
        assert np.array_equal(found, right), f"{case}: {found} instead of {right}"
    return f"{len(CASES)} products of tiles in memory are what numpy computes, on {autoinit.device.name()}"


def test_products_in_memory_assemble(tmp_path, built, ptxas):
    build(tmp_path, built)
    ptxas(tmp_path / "products.ptx", "sm_90a")


def test_products_in_memory_are_what_numpy_computes(tmp_path, built, needs):
    needs((9, 0), (9, 0))
    build(tmp_path, built)
    assert "products of tiles in memory" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
