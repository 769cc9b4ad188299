"""Kernels made from chains compute on a GPU what numpy does: mma or wgmma, the registers that a chain says, another.

On one machine, with the packages for tests, a driver and PyCUDA: pytest tests/gpu. Or on two, of which the one with
the GPU needs no more than this file, the folder, PyCUDA and numpy:

    python tests/gpu/test_chains.py build FOLDER
    python tests/gpu/test_chains.py run FOLDER
"""

import sys
import tempfile
from itertools import count, product
from pathlib import Path

import numpy as np

#: Instruction; shape, type of A and B, and type of D of the first product; shape and type of A and B of the second,
#: whose D has that type, too; what D becomes, and whether transposed. Values stay in their lanes, K is renumbered, or
#: movmatrix moves.
CASES = [
    *(
        ("mma", "m16n8k16", "f16", "f16", "m16n8k16", "f16", role, turned)
        for role, turned in product("AB", (False, True))
    ),
    ("mma", "m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "A", False),
    ("mma", "m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "B", True),
    ("mma", "m16n8k16", "f16", "f32", "m16n8k16", "f16", "A", False),
    ("mma", "m16n8k16", "f16", "f32", "m16n8k16", "f16", "B", True),
    ("mma", "m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "A", False),
    ("mma", "m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "B", True),
    ("wgmma", "m64n64k16", "f16", "f16", "m64n8k16", "f16", "A", False),
    ("wgmma", "m64n64k16", "f16", "f32", "m64n24k16", "f16", "A", False),
    ("wgmma", "m64n64k32", "e4m3", "f32", "m64n8k32", "e4m3", "A", False),
    ("wgmma", "m64n24k8", "tf32", "f32", "m64n24k8", "tf32", "A", False),
]

KERNEL = """
.visible .entry chain{n}(.param .u64 in, .param .u64 out) {{
  .shared .align 128 .b8 tiles[{size}];
  .reg .pred %starts, %adds;
  .reg .b16 %low, %high;
  .reg .b32 %lane, %own, %base, %word, %r<{registers}>;
  .reg .b64 %in, %out, %at, %tile<{tiles}>;
  setp.ne.u32 %starts, 0, 0;
  setp.eq.u32 %adds, 0, 0;
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


def bits(matrix, type_):
    """Whole numbers, small enough for the type, in its bits."""
    if type_ == "e4m3":
        return np.choose(np.abs(matrix), [0, 0x38, 0x40]) | np.where(matrix < 0, 0x80, 0)
    return matrix.astype(np.float16).view(np.uint16) if type_ == "f16" else matrix.astype(np.float32).view(np.uint32)


def words(fragment, matrix):
    """The registers of every lane that hold a matrix: an array of registers by lanes."""
    found, cells = (
        np.zeros((fragment.registers, fragment.threads), np.uint32),
        bits(matrix, fragment.type).astype(np.uint32),
    )
    for element in fragment.records():
        found[element.reg, element.lane] |= cells[element.row, element.col] << np.uint32(
            element.slot * fragment.slot_bits
        )
    return found


def cores(matrix, type_):
    """A B as wgmma takes it from memory without swizzle: cores of 8 columns and 16 bytes of K, those along K first."""
    columns = np.ascontiguousarray(bits(matrix, type_).T.astype({"e4m3": "u1", "f16": "u2", "tf32": "u4"}[type_]))
    of_bytes = columns.view(np.uint8).reshape(len(columns) // 8, 8, -1, 16)
    data = of_bytes.transpose(0, 2, 1, 3).tobytes()
    return data + bytes(-len(data) % 512)


class Kernel:
    """The lines of a kernel of one instruction, with what it is given."""

    def __init__(self, database, name):
        self.database, self.name = database, name
        self.lines, self.given, self.shared = [], [], []
        self.numbers, self.tiles = count(), count()
        self.threads = 128 if name == "wgmma" else 32

    def fragment(self, shape, type_, role):
        return self.database.fragment(f"{self.name} {shape} {type_}", role=role)

    def registers(self, number):
        """Names of new registers."""
        return [f"%r{next(self.numbers)}" for _ in range(number)]

    def load(self, shape, type_, role, matrix):
        """A or B that is given a matrix: registers, or of B of wgmma the descriptor of a tile in shared memory."""
        if (self.name, role) == ("wgmma", "B"):
            name, start = f"%tile{next(self.tiles)}", sum(map(len, self.shared))
            self.shared.append(cores(matrix, type_))
            address = f"add.u32 %word, %base, {start}; shr.u32 %word, %word, 4; and.b32 %word, %word, 0x3fff;"
            self.lines.append(f"{address} mov.b64 {name}, {{%word, 16}}; or.b64 {name}, {name}, 0x80000;")
            return name
        fragment = self.fragment(shape, type_, role)
        names = self.registers(fragment.registers)
        for name, row in zip(names, words(fragment, matrix), strict=True):
            self.lines.append(f"ld.global.u32 {name}, [%in+{4 * self.threads * len(self.given)}];")
            self.given.append(row)
        return vector(names)

    def multiply(self, shape, type_, result, a, b, c=None):
        """Registers of D, to which the product is added if there are some."""
        from ..forms import CAPTURED

        known = (form for form in CAPTURED if hasattr(form, "a") and (form.name, form.shape) == (self.name, shape))
        form = next(form for form in known if (form.a, form.b, form.c, form.d) == (type_, type_, result, result))
        d = c or self.registers(self.fragment(shape, result, "D").registers)
        if self.name == "mma":
            self.lines += [] if c else [f"mov.u32 {name}, 0;" for name in d]
            self.lines.append(f"{form.mnemonic} {vector(d)}, {a}, {b}, {vector(d)};")
            return d
        turned = ", 0" if type_ == "f16" else ""
        self.lines += [
            "wgmma.fence.sync.aligned;",
            f"{form.mnemonic} {vector(d)}, {a}, {b}, {'%adds' if c else '%starts'}, 1, 1{turned};",
            "wgmma.commit_group.sync.aligned;",
            "wgmma.wait_group.sync.aligned 0;",
        ]
        return d

    def text(self, n):
        """The whole kernel, which first fills its shared memory."""
        step, start = 4 * self.threads, 4 * self.threads * len(self.given)
        size = sum(map(len, self.shared))
        filled = [
            f"ld.global.u32 %word, [%in+{start + at}]; st.shared.u32 [%own+{at}], %word;" for at in range(0, size, step)
        ]
        lines = [*filled, *(["fence.proxy.async;", "bar.sync 0;"] if filled else []), *self.lines]
        registers, tiles = next(self.numbers), 1 + next(self.tiles)
        return KERNEL.format(n=n, size=size or 4, registers=registers, tiles=tiles, body="\n  ".join(lines))

    def inputs(self):
        """What the kernel is given: registers, then shared memory."""
        return np.concatenate([*self.given, np.frombuffer(b"".join(self.shared), np.uint32)])

    def take(self, told, given):
        """The registers of every tile of the second operand, from those of the tiles of D."""
        taken = {}
        for place, origins in by_register(told).items():
            taken.setdefault(place[:2], []).extend(name := self.registers(1))
            sources = [given[origin[:2]][origin[2]] for origin in origins]
            if told.first.slot_bits == told.second.slot_bits:
                assert len(set(sources)) == 1
                self.lines.append(f"mov.b32 {name[0]}, {sources[0]};")
            elif len(sources) == 2:
                self.lines.append(f"cvt.rn.f16x2.f32 {name[0]}, {sources[1]}, {sources[0]};")
            else:
                for half, low in (("low", 0), ("high", 2)):
                    pair = f"{sources[low + 1]}, {sources[low]}"
                    self.lines.append(f"cvt.rn.satfinite.e4m3x2.f32 %{half}, {pair};")
                self.lines.append(f"mov.b32 {name[0]}, {{%low, %high}};")
        return taken

    def transpose(self, told, given):
        """The same through movmatrix."""
        taken = {}
        for move in told.through_movmatrix():
            taken.setdefault((move.tile_row, move.tile_col), []).extend(name := self.registers(1))
            source = given[move.from_tile_row, move.from_tile_col][move.from_reg]
            self.lines.append(f"movmatrix.sync.aligned.m8n8.trans.b16 {name[0]}, {source};")
        return taken


def vector(names):
    """Registers as an operand."""
    return "{" + ", ".join(names) + "}"


def by_register(told):
    """For each register of each tile, the tile, register and slot of D that each of its slots has its value from."""
    found = {}
    for move in told.moves:
        assert move.lane == move.from_lane
        origin = move.from_tile_row, move.from_tile_col, move.from_reg, move.from_slot
        slots = found.setdefault((move.tile_row, move.tile_col, move.reg), {})
        assert slots.setdefault(move.slot, origin) == origin, "all lanes do the same"
    return {place: [slots[slot] for slot in sorted(slots)] for place, slots in found.items()}


def first_product(made, told, shape, type_, random):
    """The tiles of D as a chain counts them, and the matrix that they make."""
    from lanemap.db.isa.instructions import dimensions

    (m, k), (_, n) = dimensions(shape, "A"), dimensions(shape, "B")
    down, across = told.tiles[0][::-1] if told.transposed else told.tiles[0]
    # Few ones, so that the products are exact in 8 bits.
    x, y = (random.choice([-1, 0, 1], size, p=[0.1, 0.8, 0.1]) for size in ((down * m, k), (k, across * n)))
    rows = [made.load(shape, type_, "A", part) for part in np.split(x, down)]
    columns = [made.load(shape, type_, "B", part) for part in np.split(y, across, axis=1)]
    tiles = {
        ((col, row) if told.transposed else (row, col)): made.multiply(shape, type_, told.first.type, *pair)
        for (row, col), pair in zip(np.ndindex(down, across), product(rows, columns), strict=True)
    }
    return tiles, (x @ y).T if told.transposed else x @ y


def second_product(made, told, taken, middle, random):
    """The registers of each D, and the matrix that each must hold, of the taken operand times another one."""
    from lanemap.db.isa.instructions import dimensions

    second, (down, across) = told.second, told.tiles[1]
    left, which = second.role == "A", (second.shape, second.type)
    (m, _), (_, n) = dimensions(second.shape, "A"), dimensions(second.shape, "B")
    depth = middle.shape[left]
    z = random.integers(-2, 3, (depth, n) if left else (m, depth))
    order = list(told.order or range(depth))
    parts = np.split(z[order], across) if left else np.split(z[:, order], down, axis=1)
    others = [made.load(*which, "B" if left else "A", part) for part in parts]
    right = middle @ z if left else z @ middle
    for line, expected in enumerate(np.split(right, down) if left else np.split(right, across, axis=1)):
        d = None
        for k, other in enumerate(others):
            pair = (vector(taken[line, k]), other) if left else (other, vector(taken[k, line]))
            d = made.multiply(*which, told.first.type, *pair, d)
        yield d, expected


def kernel(n, case, database):
    """The text of one kernel, what it is given, and what it must give."""
    name, shape, type_, result, then, taken_type, role, turned = case
    ends = f"{name} {shape} {result} D", f"{name} {then} {taken_type} {role}"
    told = database.chain(*ends, transpose=turned, relabel=True)
    made, random = Kernel(database, name), np.random.default_rng(n)
    given, middle = first_product(made, told, shape, type_, random)
    still = told.movement.value == "no data movement between lanes"
    taken = made.take(told, given) if still else made.transpose(told, given)
    stored, expected, out = [], [], made.fragment(then, result, "D")
    for registers, matrix in second_product(made, told, taken, middle, random):
        assert np.unique(matrix).size > 5, "many wrong registers would give the same"
        stored += registers
        expected.append(words(out, matrix))
    made.lines += [f"st.global.u32 [%out+{4 * made.threads * at}], {name};" for at, name in enumerate(stored)]
    assert np.abs(middle).max() <= 16, "exact in 8 bits"
    return made.text(n), made.inputs(), np.concatenate(expected)


def build(folder, file=None):
    """Writes the kernels, what each is given, and what numpy says it must give; from a database file, or a new one."""
    import lanemap

    folder.mkdir(parents=True, exist_ok=True)
    kept, texts = {}, [".version 8.4\n.target sm_90a\n.address_size 64\n"]
    with tempfile.TemporaryDirectory() as place, lanemap.open(file or Path(place) / "layouts.db") as database:
        for n, case in enumerate(CASES):
            text, given, right = kernel(n, case, database)
            texts.append(text)
            kept |= {f"given{n}": given, f"right{n}": right}
    (folder / "chains.ptx").write_text("".join(texts))
    np.savez(folder / "chains.npz", **kept)


def run(folder):
    """Runs every kernel; how many gave what numpy did.

    Raises:
        AssertionError: one gave something else.
    """
    from pycuda import autoinit, driver

    module = driver.module_from_buffer((folder / "chains.ptx").read_bytes())
    kept = np.load(folder / "chains.npz")
    for n, case in enumerate(CASES):
        right = kept[f"right{n}"]
        found = np.full_like(right, 0xFFFFFFFF)
        module.get_function(f"chain{n}")(
            driver.In(kept[f"given{n}"]), driver.InOut(found), block=(right.shape[1], 1, 1)
        )
        assert np.array_equal(found, right), f"{case}: {found} instead of {right}"
    return f"{len(CASES)} kernels made from chains give what numpy does, on {autoinit.device.name()}"


def test_kernels_made_from_chains_assemble(tmp_path, built, ptxas):
    build(tmp_path, built)
    ptxas(tmp_path / "chains.ptx", "sm_90a")


def test_kernels_made_from_chains_compute_what_numpy_does(tmp_path, built, needs):
    needs((9, 0), (9, 0))
    build(tmp_path, built)
    assert "kernels made from chains give" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
