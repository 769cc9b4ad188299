"""Kernels made from chains compute on a GPU what numpy does: mma, the registers that a chain says, mma.

On one machine, with the packages for tests, a driver and PyCUDA: pytest tests/gpu. Or on two, of which the one with
the GPU needs no more than this file, the folder, PyCUDA and numpy:

    python tests/gpu/test_chains.py build FOLDER
    python tests/gpu/test_chains.py run FOLDER
"""

import importlib.util
import subprocess
import sys
import tempfile
from itertools import count, product
from pathlib import Path

import numpy as np

#: Shape, type of A and B, and type of D of the first mma; shape and type of A and B of the second, whose D has that
#: type, too; what D becomes, and whether transposed. Values stay in their lanes, K is renumbered, or movmatrix moves.
CASES = [
    *(("m16n8k16", "f16", "f16", "m16n8k16", "f16", role, turned) for role, turned in product("AB", (False, True))),
    ("m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "A", False),
    ("m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "B", True),
    ("m16n8k16", "f16", "f32", "m16n8k16", "f16", "A", False),
    ("m16n8k16", "f16", "f32", "m16n8k16", "f16", "B", True),
    ("m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "A", False),
    ("m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "B", True),
]

KERNEL = """
.visible .entry chain{n}(.param .u64 in, .param .u64 out) {{
  .reg .b16 %low, %high;
  .reg .b32 %lane, %r<{registers}>;
  .reg .b64 %in, %out, %at;
  mov.u32 %lane, %tid.x;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mul.wide.u32 %at, %lane, 4;
  add.u64 %in, %in, %at;
  add.u64 %out, %out, %at;
  {body}
  ret;
}}
"""


def ptxas(source):
    """Assembles a file with the assembler in the package nvidia-cuda-nvcc."""
    package = importlib.util.find_spec("nvidia")
    program = next(found for each in package.submodule_search_locations for found in Path(each).glob("*/bin/ptxas"))
    subprocess.run([program, "-arch=sm_90", source, "-o", "/dev/null"], check=True)


def bits(matrix, type_):
    """Whole numbers, small enough for the type, in its bits."""
    if type_ == "e4m3":
        return np.choose(np.abs(matrix), [0, 0x38, 0x40]) | np.where(matrix < 0, 0x80, 0)
    return matrix.astype(np.float16).view(np.uint16) if type_ == "f16" else matrix.astype(np.float32).view(np.uint32)


def words(fragment, matrix):
    """The registers of every lane that hold a matrix: an array of registers by lanes."""
    found, cells = np.zeros((fragment.registers, 32), np.uint32), bits(matrix, fragment.type).astype(np.uint32)
    for each in fragment.records():
        found[each.reg, each.lane] |= cells[each.row, each.col] << np.uint32(each.slot * fragment.slot_bits)
    return found


class Kernel:
    """The lines of a kernel, with what it is given."""

    def __init__(self, database):
        self.database = database
        self.lines, self.given, self.numbers = [], [], count()

    def fragment(self, shape, type_, role):
        return self.database.fragment(f"mma {shape} {type_}", role=role)

    def registers(self, number):
        """Names of new registers."""
        return [f"%r{next(self.numbers)}" for _ in range(number)]

    def load(self, fragment, matrix):
        """Registers that are given a matrix."""
        names = self.registers(fragment.registers)
        for name, row in zip(names, words(fragment, matrix), strict=True):
            self.lines.append(f"ld.global.u32 {name}, [%in+{128 * len(self.given)}];")
            self.given.append(row)
        return names

    def multiply(self, shape, type_, result, a, b, c=None):
        """Registers of D."""
        from lanemap.db.forms import select

        form = next(each for each in select("mma", shape, type_) if (each.b, each.c, each.d) == (type_, result, result))
        d = self.registers(self.fragment(shape, result, "D").registers)
        if c is None:
            c = self.registers(len(d))
            self.lines += [f"mov.u32 {name}, 0;" for name in c]
        vectors = ", ".join("{" + ", ".join(each) + "}" for each in (d, a, b, c))
        self.lines.append(f"{form.mnemonic} {vectors};")
        return d

    def take(self, told, given):
        """The registers of every tile of the second operand, from those of the tiles of D."""
        taken = {}
        for place, origins in by_register(told).items():
            taken.setdefault(place[:2], []).extend(name := self.registers(1))
            sources = [given[each[:2]][each[2]] for each in origins]
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
        for move in self.database.through_movmatrix(told):
            taken.setdefault((move.tile_row, move.tile_col), []).extend(name := self.registers(1))
            source = given[move.from_tile_row, move.from_tile_col][move.from_reg]
            self.lines.append(f"movmatrix.sync.aligned.m8n8.trans.b16 {name[0]}, {source};")
        return taken


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
    a, b = (made.fragment(shape, type_, role) for role in "AB")
    down, across = told.tiles[0][::-1] if told.transposed else told.tiles[0]
    # Few ones, so that the products are exact in 8 bits.
    x, y = (
        random.choice([-1, 0, 1], size, p=[0.1, 0.8, 0.1])
        for size in ((down * a.dimensions[0], a.dimensions[1]), (b.dimensions[0], across * b.dimensions[1]))
    )
    rows = [made.load(a, part) for part in np.split(x, down)]
    columns = [made.load(b, part) for part in np.split(y, across, axis=1)]
    tiles = {
        ((col, row) if told.transposed else (row, col)): made.multiply(shape, type_, told.first.type, *pair)
        for (row, col), pair in zip(np.ndindex(down, across), product(rows, columns), strict=True)
    }
    return tiles, (x @ y).T if told.transposed else x @ y


def second_product(made, told, taken, middle, random):
    """The registers of each D, and the matrix that each must hold, of the taken operand times another one."""
    second, (down, across) = told.second, told.tiles[1]
    left = second.role == "A"
    other = made.fragment(second.shape, second.type, "B" if left else "A")
    depth = middle.shape[left]
    z = random.integers(-2, 3, (depth, other.dimensions[1]) if left else (other.dimensions[0], depth))
    order = list(told.order or range(depth))
    parts = np.split(z[order], across) if left else np.split(z[:, order], down, axis=1)
    others = [made.load(other, part) for part in parts]
    right = middle @ z if left else z @ middle
    for line, expected in enumerate(np.split(right, down) if left else np.split(right, across, axis=1)):
        d = None
        for k, registers in enumerate(others):
            pair = (taken[line, k], registers) if left else (registers, taken[k, line])
            d = made.multiply(second.shape, second.type, told.first.type, *pair, d)
        yield d, expected


def kernel(n, case, database):
    """The text of one kernel, what it is given, and what it must give."""
    shape, type_, result, then, taken_type, role, turned = case
    told = database.chain(f"mma {shape} {result} D", f"mma {then} {taken_type} {role}", transposed=turned, relabel=True)
    made, random = Kernel(database), np.random.default_rng(n)
    given, middle = first_product(made, told, shape, type_, random)
    still = told.movement.value == "no data movement between lanes"
    taken = made.take(told, given) if still else made.transpose(told, given)
    stored, expected, out = [], [], made.fragment(then, result, "D")
    for registers, matrix in second_product(made, told, taken, middle, random):
        assert np.unique(matrix).size > 5, "many wrong registers would give the same"
        stored += registers
        expected.append(words(out, matrix))
    made.lines += [f"st.global.u32 [%out+{128 * at}], {name};" for at, name in enumerate(stored)]
    assert np.abs(middle).max() <= 16, "exact in 8 bits"
    text = KERNEL.format(n=n, registers=next(made.numbers), body="\n  ".join(made.lines))
    return text, np.concatenate(made.given), np.concatenate(expected)


def build(folder, file=None):
    """Writes the kernels, what each is given, and what numpy says it must give; from a database file, or a new one."""
    import lanemap

    folder.mkdir(parents=True, exist_ok=True)
    kept, texts = {}, [".version 8.4\n.target sm_90\n.address_size 64\n"]
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
        module.get_function(f"chain{n}")(driver.In(kept[f"given{n}"]), driver.InOut(found), block=(32, 1, 1))
        assert np.array_equal(found, right), f"{case}: {found} instead of {right}"
    return f"{len(CASES)} kernels made from chains give what numpy does, on {autoinit.device.name()}"


def test_kernels_made_from_chains_assemble(tmp_path, built):
    build(tmp_path, built)
    ptxas(tmp_path / "chains.ptx")


def test_kernels_made_from_chains_compute_what_numpy_does(tmp_path, built, needs):
    needs((9, 0))
    build(tmp_path, built)
    assert "kernels made from chains give" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
