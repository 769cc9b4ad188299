"""Kernels made from recipes compute on a GPU what numpy does: tiles, ldmatrix, mma or wmma, stmatrix, a tile.

On one machine, with the packages for tests, a driver and PyCUDA: pytest tests/gpu. Or on two, of which the one with
the GPU needs no more than this file, the folder, PyCUDA and numpy:

    python tests/gpu/test_recipes.py build FOLDER
    python tests/gpu/test_recipes.py run FOLDER
"""

import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

_MAJORS = ("row", "col")

#: Instruction, shape, type of A and B, how A, B and D lie in memory, and how many neighbours of B and D are moved
#: together: of 8 and 32 bits only as loads can be. What wmma leaves opaque is as it was measured on sm_90a.
CASES = [
    *(("mma", "m16n8k16", "f16", *majors, count) for *majors, count in product(*[_MAJORS] * 3, (1, 2))),
    *(("mma", "m16n8k8", "bf16", a, b, "row", 1) for a, b in product(_MAJORS, repeat=2)),
    ("mma", "m16n8k32", "e4m3", "row", "col", "row", 2),
    ("mma", "m16n8k32", "e5m2", "row", "col", "col", 1),
    ("mma", "m16n8k8", "tf32", "row", "col", "row", 1),
    ("mma", "m16n8k4", "tf32", "row", "col", "col", 2),
    *(("wmma", "m16n16k16", "f16", *majors, 1) for majors in product(*[_MAJORS] * 3)),
    *(("wmma", "m16n16k16", "bf16", a, b, "row", 1) for a, b in product(_MAJORS, repeat=2)),
]

KERNEL = """
.visible .entry recipe{n}(.param .u64 in, .param .u64 out) {{
  .shared .align 128 .b8 tiles[{size}];
  .reg .b32 %lane, %own, %base, %p, %t, %a<8>, %b<8>, %h<8>;
  .reg .f32 %d<8>;
  .reg .b64 %in, %out, %at;
  mov.u32 %lane, %tid.x;
  mov.u32 %base, tiles;
  mad.lo.u32 %own, %lane, 4, %base;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mul.wide.u32 %at, %lane, 4;
  add.u64 %in, %in, %at;
  add.u64 %out, %out, %at;
  {body}
  ret;
}}
"""


def tile(matrix, major):
    """A matrix as it lies in memory."""
    return np.ascontiguousarray(matrix if major == "row" else matrix.T)


def encoded(matrix, type_):
    """Small whole numbers in the bits of a type."""
    if type_ in ("f16", "tf32"):
        return matrix.astype({"f16": np.float16, "tf32": np.float32}[type_])
    if type_ == "bf16":
        return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    one = {"e4m3": 0x38, "e5m2": 0x3C}[type_]
    step = {"e4m3": 0x08, "e5m2": 0x04}[type_]
    size = np.choose(np.abs(matrix), [0, one, one + step])
    return (size | np.where(matrix < 0, 0x80, 0)).astype(np.uint8)


def moves(made, registers, start, table):
    """The text of each move of a recipe, whose tile begins at ``start`` and whose addresses in ``table``, in bytes."""
    from lanemap.db.flow.recipe import form_of

    for step, used in enumerate(made.moves):
        regs = sorted({address.reg for address in made.addresses if address.step == step})
        vector = "{" + ", ".join(f"%{registers}{reg}" for reg in regs) + "}"
        yield f"ld.global.b32 %p, [%in+{table + 128 * step}];"
        yield f"add.u32 %p, %p, %base; add.u32 %p, %p, {start};"
        loads = used.instruction == "ldmatrix"
        yield f"{form_of(used, made.operand)} {f'{vector}, [%p]' if loads else f'[%p], {vector}'};"


def offsets(made):
    """What each lane passes to each move: the offset in the tile, whose lines follow each other."""
    return np.array([address.line * made.tile[1] + address.byte for address in made.addresses], np.uint32)


def kernel(n, case, database):
    """The text of one kernel, what it is given, and what it must give."""
    from lanemap.db.isa.names import select

    name, shape, type_, *majors, count = case
    own = tuple(majors[:2]) if name == "wmma" else ("row", "col")
    form = next(
        form
        for form in select(name, shape, type_)
        if form.majors == own and (form.b, form.c, form.d) == (type_, "f32", "f32")
    )
    loaded = [
        database.chain("ldmatrix", f"{name} {shape} {type_} {role}", major=major, count=number)[0]
        for role, major, number in zip("AB", majors, (1, count), strict=False)
    ]
    (stored,) = database.chain(f"{name} {shape} f32 D", "stmatrix", major=majors[2], count=count)
    random = np.random.default_rng(n)
    (rows, depth), (_, columns) = (made.operand.dimensions for made in loaded)
    a, b = random.integers(-2, 3, (rows, depth)), random.integers(-2, 3, (depth, count * columns))
    tiles = [tile(encoded(operand, type_), major).tobytes() for operand, major in zip((a, b), majors, strict=False)]
    tables = [offsets(made).tobytes() for made in (*loaded, stored)]
    right = tile((a @ b).astype(np.float16), majors[2])
    assert np.unique(right).size > 10, "many wrong addresses would give the same"
    starts = np.cumsum([0, *map(len, [*tiles, *tables])]).tolist()
    lines = []
    for at in range(0, starts[2], 128):
        lines += [f"ld.global.b32 %t, [%in+{at}];", f"st.shared.b32 [%own+{at}], %t;"]
    lines.append("bar.sync 0;")
    lines += [*moves(loaded[0], "a", 0, starts[2]), *moves(loaded[1], "b", starts[1], starts[3])]
    for number in range(count):
        vectors = [
            ", ".join(f"%{role}{at * made.operand.registers + reg}" for reg in range(made.operand.registers))
            for role, made, at in zip("dab", (stored, *loaded), (number, 0, number), strict=True)
        ]
        zeros = ", ".join(["0f00000000"] * stored.operand.registers)
        lines.append(f"{form.mnemonic} {{{'}, {'.join(vectors)}}}, {{{zeros}}};")
    lines += [
        f"cvt.rn.f16x2.f32 %h{reg}, %d{2 * reg + 1}, %d{2 * reg};"
        for reg in range(stored.operand.registers * count // 2)
    ]
    lines += [*moves(stored, "h", starts[2], starts[4]), "bar.sync 0;"]
    for at in range(0, right.nbytes, 128):
        lines += [f"ld.shared.b32 %t, [%own+{starts[2] + at}];", f"st.global.b32 [%out+{at}], %t;"]
    text = KERNEL.format(n=n, size=starts[2] + right.nbytes, body="\n  ".join(lines))
    return text, b"".join([*tiles, *tables]), right


def build(folder, file=None):
    """Writes the kernels, what each is given, and what numpy says it must give; from a database file, or a new one."""
    import lanemap

    folder.mkdir(parents=True, exist_ok=True)
    kept, texts = {}, [".version 8.4\n.target sm_90\n.address_size 64\n"]
    with tempfile.TemporaryDirectory() as place, lanemap.open(file or Path(place) / "layouts.db") as database:
        for n, case in enumerate(CASES):
            text, given, right = kernel(n, case, database)
            texts.append(text)
            kept |= {f"given{n}": np.frombuffer(given, np.uint8), f"right{n}": right}
    (folder / "recipes.ptx").write_text("".join(texts))
    np.savez(folder / "recipes.npz", **kept)


def run(folder):
    """Runs every kernel; how many gave what numpy did.

    Raises:
        AssertionError: one gave something else.
    """
    from pycuda import autoinit, driver

    module = driver.module_from_buffer((folder / "recipes.ptx").read_bytes())
    kept = np.load(folder / "recipes.npz")
    for n, case in enumerate(CASES):
        right = kept[f"right{n}"]
        found = np.full_like(right, np.nan)
        module.get_function(f"recipe{n}")(driver.In(kept[f"given{n}"]), driver.InOut(found), block=(32, 1, 1))
        assert np.array_equal(found, right), f"{case}: {found} instead of {right}"
    return f"{len(CASES)} kernels made from recipes give what numpy does, on {autoinit.device.name()}"


def test_kernels_made_from_recipes_assemble(tmp_path, built, ptxas):
    build(tmp_path, built)
    ptxas(tmp_path / "recipes.ptx", "sm_90")


def test_kernels_made_from_recipes_compute_what_numpy_does(tmp_path, built, needs):
    needs((9, 0))
    build(tmp_path, built)
    assert "kernels made from recipes give" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
