"""The functions that export writes in C++, evaluated on a GPU, say what the rows do.

On one machine, with the packages for tests, a driver and PyCUDA: pytest tests/gpu. Or on two, of which the one with
the GPU needs no more than this file, the folder, PyCUDA and numpy:

    python tests/gpu/test_device_functions.py build FOLDER
    python tests/gpu/test_device_functions.py run FOLDER
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

KERNELS = """
extern "C" __global__ void at{n}(const int4* slot, int4* cell, int count) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const lanemap::cell c = lanemap::layout{n}::at(slot[i].x, slot[i].y, slot[i].z);
  cell[i] = make_int4(c.row, c.col, c.col_last, c.computation);
}}
extern "C" __global__ void find{n}(const int4* cell, int4* slot, int count) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  [[maybe_unused]] const int row = cell[i].x, col = cell[i].y, computation = cell[i].z, nth = cell[i].w;
  const lanemap::place p = {find};
  slot[i] = make_int4(p.lane, p.reg, p.slot, lanemap::layout{n}::holds({holds}));
}}
"""

#: The oldest PTX ISA that has all that the compiler writes, so that drivers older than the compiler take it.
VERSION = "8.3"


def nvcc():
    """The compiler in the package nvidia-cuda-nvcc."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else []
    found = [program for folder in folders for program in Path(folder).glob("*/bin/nvcc")]
    return found[0] if found else None


def build(folder):
    """Writes the kernels of every layout that ships as PTX, and the rows that they are about."""
    import lanemap
    from lanemap.db.lookup import Query, read_fragments
    from lanemap.db.render.notation.cpp import CPP

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, lanemap.open(Path(place) / "layouts.db") as database:
        found = [fragment for fragment in read_fragments(database.reader, Query()) if fragment.has_rows]
        distinct = list(
            {
                (fragment.digest, fragment.registers, fragment.slots, fragment.dimensions): fragment
                for fragment in found
            }.values()
        )
        rows = {f"layout{n}": fragment.elements for n, fragment in enumerate(distinct)}
    texts = [CPP.compose(fragment, f"layout{n}") for n, fragment in enumerate(distinct)]
    parts = [CPP.before, *texts, CPP.after]
    for n, text in enumerate(texts):
        parameters = re.search(r"place find\((.*)\)", text)
        called = ", ".join(re.findall(r"int (?:/\*)?(\w+)", parameters[1])) if parameters else ""
        find = f"lanemap::layout{n}::find({called})" if parameters else "{row, col, computation}"
        holds = "p.lane, p.reg, p.slot" if "holds(int lane, " in text else "p.lane"
        parts.append(KERNELS.format(n=n, find=find, holds=holds))
        kept = re.search(r"kept = (\d+)", text)
        rows[f"kept{n}"] = np.array(int(kept[1]) if kept else bool(parameters))
    source, ptx = folder / "functions.cu", folder / "functions.ptx"
    source.write_text("\n".join(parts))
    subprocess.run([nvcc(), "-std=c++17", "-arch=sm_80", "-ptx", source, "-o", ptx], check=True)
    ptx.write_text(re.sub(r"(?m)^\.version .*", f".version {VERSION}", ptx.read_text()))
    np.savez_compressed(folder / "rows.npz", **rows)


def run(folder):
    """Evaluates every function at every element; how many slots and cells agreed.

    Raises:
        AssertionError: one says something else than the rows.
    """
    from pycuda import autoinit, driver

    assert autoinit.device
    module = driver.module_from_buffer((folder / "functions.ptx").read_bytes())
    stored = np.load(folder / "rows.npz")

    def evaluate(name, columns):
        given = np.ascontiguousarray(np.stack(np.broadcast_arrays(*columns), axis=-1), np.int32).reshape(-1, 4)
        result = np.full_like(given, -1)
        grid = (-(-len(given) // 256), 1)
        module.get_function(name)(
            driver.In(given), driver.Out(result), np.int32(len(given)), block=(256, 1, 1), grid=grid
        )
        return result

    slots = cells = 0
    for n in range(len(stored.files) // 2):
        rows, kept = stored[f"layout{n}"], int(stored[f"kept{n}"])
        row = {name: rows[name].astype(np.int32) for name in rows.dtype.names}
        said = evaluate(f"at{n}", (row["lane"], row["reg"], row["slot"], 0))
        expected = np.stack([row[name] for name in ("row", "col", "col_last", "computation")], axis=-1)
        assert np.array_equal(said, expected), f"at of layout{n}"
        slots += len(rows)
        for offset in range(int((row["col_last"] - row["col"]).max()) + 1 if kept else 0):
            col = np.minimum(row["col"] + offset, row["col_last"])
            asked = (row["row"][:, None], col[:, None], row["computation"][:, None], np.arange(kept))
            said = evaluate(f"find{n}", asked).reshape(len(rows), kept, 4)
            assert said[..., 3].all(), f"holds of layout{n}"
            same = [said[..., place] == row[name][:, None] for place, name in enumerate(("lane", "reg", "slot"))]
            assert (np.logical_and.reduce(same).sum(axis=1) == 1).all(), f"find of layout{n}"
            cells += len(rows)
    return f"{slots} slots and {cells} cells of {n + 1} layouts are as the rows say, on {autoinit.device.name()}"


def test_the_functions_say_on_a_gpu_what_the_rows_do(tmp_path, needs):
    needs((8, 0), nvcc=nvcc())
    build(tmp_path)
    assert "layouts are as the rows say" in run(tmp_path)


if __name__ == "__main__":
    steps = {"build": build, "run": run}
    print(steps[sys.argv[1]](Path(sys.argv[2])) or "built")
