"""Chains, recipes and reductions as functions do on a GPU what the rows say, and products with them what numpy does.

On one machine, with the packages for tests, a driver and PyCUDA: pytest -m "" tests/gpu/test_functions.py. Or on two,
of which the one with the GPU needs no more than this file, the folder, PyCUDA and numpy:

    python -m tests.gpu.functions build FOLDER
    python tests/gpu/functions.py run FOLDER
"""

import re
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

#: Two products, one after the other: shape, type of A and B, and type of D of the first; shape and type of A and B of
#: the second, whose D has that type, too; what D becomes, and how. Values stay in their lanes, K is renumbered, lanes
#: exchange, or movmatrix moves.
PRODUCTS = [
    *(
        ("m16n8k16", "f16", "f16", "m16n8k16", "f16", role, {"transpose": turned})
        for role, turned in product("AB", (False, True))
    ),
    ("m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "A", {}),
    ("m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "A", {"relabel": True}),
    ("m16n8k8", "tf32", "f32", "m16n8k8", "tf32", "B", {"transpose": True, "relabel": True}),
    ("m16n8k16", "f16", "f32", "m16n8k16", "f16", "A", {}),
    ("m16n8k16", "bf16", "f32", "m16n8k16", "bf16", "B", {"transpose": True}),
    ("m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "A", {}),
    ("m16n8k16", "f16", "f32", "m16n8k32", "e4m3", "A", {"relabel": True}),
    ("m16n8k16", "f16", "f32", "m16n8k32", "e5m2", "B", {"transpose": True}),
    ("m16n8k32", "s8", "s32", "m16n8k32", "s8", "A", {}),
    ("m16n8k32", "s8", "s32", "m16n8k32", "s8", "A", {"relabel": True}),
]

KERNEL = """
extern "C" __global__ void {name}(const unsigned* given, unsigned* made) {{
  alignas(128) __shared__ unsigned words[{words}];
  const int lane = threadIdx.x;
  for (int at = lane; at < {given}; at += 32) words[at] = given[at];
  __syncthreads();
  char* tile = reinterpret_cast<char*>(words);
  {body}
  __syncthreads();
  for (int at = lane; at < {words} - {given}; at += 32) made[at] = words[{given} + at];
}}
"""

#: The oldest PTX ISA that has all that the compiler writes, so that drivers older than the compiler take it.
VERSION = "8.4"


class Kernel:
    """A kernel that is written from answers, its shared memory, and the functions that it calls."""

    def __init__(self, database):
        self.database, self.functions, self.lines, self.given = database, [], [], b""

    def tile(self, matrix, type_, bits):
        """Where the lines of a matrix of small whole numbers lie in shared memory, one after the other."""
        from lanemap.capture.values import encode, to_bytes

        start = len(self.given)
        data = to_bytes(encode(type_, bits, matrix.ravel()), bits).tobytes()
        self.given += data + bytes(-len(data) % 128)
        return start

    def call(self, answer, *arguments):
        """Call the function of an answer."""
        text = answer.cpp()
        self.functions.append(text)
        name, listed = re.search(r"void (\w+)\(([^{]*)", text).groups()
        lane = ["lane"] * ("int lane" in listed)
        self.lines.append(f"{name}({', '.join([*lane, *arguments])});")

    def array(self, kind, name, *sizes):
        """Registers, and their names."""
        sizes = [size for size in sizes[:-1] if size > 1] + [sizes[-1]]
        self.lines.append(f"{kind} {name}{''.join(f'[{size}]' for size in sizes)} = {{}};")
        return [name + "".join(f"[{at}]" for at in place) for place in np.ndindex(*sizes)]

    def load(self, name, operand, major, start, count=1, pitch=None):
        """The registers of operands side by side, loaded from a tile."""
        (recipe,) = self.database.chain("ldmatrix", operand, major=major, count=count, pitch=pitch)
        registers = self.array("unsigned", name, count, recipe.operand.registers)
        self.call(recipe, f"tile + {start}", name)
        return np.array_split(registers, count)

    def multiply(self, mnemonic, kind, d, a, b):
        """An instruction that adds to D."""
        vectors, at = [], 0
        for names in (d, a, b):
            vectors.append("{" + ", ".join(f"%{at + number}" for number in range(len(names))) + "}")
            at += len(names)
        outputs = ", ".join(f'"+{"f" if kind == "float" else "r"}"({one})' for one in d)
        inputs = ", ".join(f'"r"({one})' for one in (*a, *b))
        operands = ", ".join([*vectors, vectors[0]])
        self.lines.append(f'asm volatile("{mnemonic} {operands};" : {outputs} : {inputs});')


def mnemonic(shape, type_, result):
    """The mnemonic of a product."""
    from lanemap.db.isa.forms import forms

    known = forms("mma", shape, type_)
    return next(form for form in known if (form.b, form.c, form.d) == (type_, result, result)).mnemonic


def fused(n, case, database):
    """A kernel of two products, what it is given, and what it must give: words."""
    shape, type_, result, then, taken, role, how = case
    chain = database.chain(f"mma {shape} {result} D", f"mma {then} {taken} {role}", **how)
    made, random = Kernel(database), np.random.default_rng(n)
    (down, across), (lines, columns) = chain.tiles[0][:: -1 if chain.transposed else 1], chain.tiles[1]
    first = {one: database.fragment(f"mma {shape} {type_}", role=one) for one in "AB"}
    other = database.fragment(f"mma {then} {taken}", role="B" if role == "A" else "A")
    # Few ones, so that the products are exact in 8 bits.
    (m, k), n_ = first["A"].dimensions, first["B"].dimensions[1]
    x, y = (random.choice([-1, 0, 1], size, p=[0.1, 0.8, 0.1]) for size in ((down * m, k), (k, across * n_)))
    bits = first["A"].slot_bits
    a = made.load("a", f"mma {shape} {type_} A", "row", made.tile(x, type_, bits), down)
    b = made.load("b", f"mma {shape} {type_} B", "col", made.tile(y.T, type_, bits), across)
    kind = {"f32": "float", "s32": "int"}.get(result, "unsigned")
    tiles = (across, down) if chain.transposed else (down, across)
    d = np.array_split(made.array(kind, "d", *tiles, chain.first.registers), down * across)
    for i, j in np.ndindex(down, across):
        of = d[j * down + i] if chain.transposed else d[i * across + j]
        made.multiply(mnemonic(shape, type_, result), kind, of, a[i], b[j])
    operands = np.array_split(made.array("unsigned", "taken", lines, columns, chain.second.registers), lines * columns)
    made.call(chain, "d", "taken")
    middle = (x @ y).T if chain.transposed else x @ y
    assert np.abs(middle).max() <= 16, "exact in 8 bits"
    depth, width, step = middle.shape[role == "A"], other.dimensions[role == "A"], columns if role == "A" else lines
    z = random.integers(-2, 3, (width, depth))  # lines along K, of B columns
    ordered, size = z[:, list(chain.order or range(depth))], depth * other.slot_bits // 8
    start, major = made.tile(ordered, taken, other.slot_bits), "col" if role == "A" else "row"
    others = [
        made.load(f"z{at}", f"mma {then} {taken} {other.role}", major, start + at * size // step, pitch=size)[0]
        for at in range(step)
    ]
    right, end = b"", len(made.given)
    whole = middle @ z.T if role == "A" else z @ middle
    (stored,) = database.chain(f"mma {then} {result} D", "stmatrix", major="row")
    for line, part in enumerate(np.split(whole, lines) if role == "A" else np.split(whole, columns, axis=1)):
        e = made.array(kind, f"e{line}", stored.operand.registers)
        for at, its in enumerate(others):
            pair = (operands[line * columns + at], its) if role == "A" else (its, operands[at * columns + line])
            made.multiply(mnemonic(then, taken, result), kind, e, *pair)
        made.call(stored, f"e{line}", f"tile + {end + len(right)}")
        assert np.unique(part).size > 5, "many wrong registers would give the same"
        right += part.astype(np.float16).tobytes()
    name = f"product{n}"
    text = KERNEL.format(name=name, words=(end + len(right)) // 4, given=end // 4, body="\n  ".join(made.lines))
    return name, text, made.functions, np.frombuffer(made.given, "u4"), np.frombuffer(right, "u4")


def products(database):
    """By target, each kernel of products: its name, its text, what it calls, its threads, and the words of both."""
    made = (fused(n, case, database) for n, case in enumerate(PRODUCTS))
    return {"sm_90a": [(name, text, functions, 32, *words) for name, text, functions, *words in made]}


def cases(database):
    """By target, every kernel: its name, its text, what it calls, its threads, the words it is given and must leave."""
    from ..functions import of_chain, of_recipe
    from ..notation.test_function import CHAINS, RECIPES, answers
    from ..notation.test_reductions import kernels

    found = products(database)
    for target in CHAINS.keys() | RECIPES.keys():
        alone = [*map(of_chain, answers(database, CHAINS.get(target, [])))]
        alone += map(of_recipe, answers(database, RECIPES.get(target, [])))
        found[target] = found.get(target, []) + [
            (case.name, case.text, [case.function], case.threads, case.given, case.right) for case in alone
        ]
    parts, reductions = kernels()
    found["sm_90a"] += [(name, text, parts, threads, given, right) for name, text, threads, given, right in reductions]
    return found


def build(folder, file=None, kinds=cases):
    """Writes the kernels of each target as PTX, what each is given, and what it must leave."""
    import lanemap

    from ..functions import compiled

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, lanemap.open(file or Path(place) / "layouts.db") as database:
        for target, kernels in kinds(database).items():
            compiled([part for _, text, functions, *_ in kernels for part in (*functions, text)], target, folder)
            ptx = folder / f"functions_{target}.ptx"
            if target != "sm_120a":
                ptx.write_text(re.sub(r"(?m)^\.version .*", f".version {VERSION}", ptx.read_text()))
            kept = {}
            for name, _, _, threads, given, right in kernels:
                words = (np.ascontiguousarray(array).view("u4").ravel() for array in (given, right))
                kept |= dict(zip((f"{name} {threads} given", f"{name} {threads} right"), words, strict=True))
            np.savez(folder / f"functions_{target}.npz", **kept)


def run(folder):
    """Runs every kernel that the card has; how many left what they must.

    Raises:
        AssertionError: one left something else.
    """
    from pycuda import autoinit, driver

    capability, count = "".join(map(str, autoinit.device.compute_capability())), 0
    for ptx in sorted(folder.glob("functions_sm_*.ptx")):
        number, letter = re.fullmatch(r"functions_sm_(\d+)(a?)", ptx.stem).groups()
        if int(number) > int(capability) or (letter and number != capability):
            continue
        module, kept = driver.module_from_buffer(ptx.read_bytes()), np.load(ptx.with_suffix(".npz"))
        for key in (key for key in kept.files if key.endswith(" given")):
            (name, threads, _), right = key.split(), kept[key.replace(" given", " right")]
            found = np.zeros_like(right)
            module.get_function(name)(driver.In(kept[key]), driver.InOut(found), block=(int(threads), 1, 1))
            assert np.array_equal(found, right), f"{name}: {found} instead of {right}"
            count += 1
    return f"{count} kernels leave what they must, on {autoinit.device.name()}"


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
