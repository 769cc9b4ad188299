"""Kernels of compilers leave the same bytes on a GPU as on simulated threads, with a mistake planted, too.

Mistakes are those after which a trace finds the bytes determined: no race, nothing out of bounds or uninitialised.
Kernels for sm_80 are assembled for sm_90a, and those for sm_120a, which has other instructions, are not here.

On one machine: pytest -m "" tests/gpu. Or on two, of which the one with the GPU needs no more than this file, the
folder, PyCUDA and numpy:

    LANEMAP_LONG=1 pytest -n 0 -m "" tests/gpu/test_trace_on_card.py --basetemp FOLDER
    python tests/gpu/corpus.py FOLDER/test_the_corpus_assembles0
"""

import ctypes
import json
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: What all kernels are assembled for.
TARGET = "sm_90a"

_SWIZZLES = ("none", "32B", "64B", "128B")

#: Types in the order of the numbers that the driver gives them in tensor maps.
_ELEMENTS = "u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16".split()

#: The number that the driver gives to the most bytes of dynamic shared memory.
_DYNAMIC_SHARED = 8

#: How far sums may be off, relative to the largest, that are of no whole numbers.
_ROUNDED = 2.0**-20

#: Addresses that stand for those of the first array and the next ones.
_STANDS_FOR = 0xA44A_0000_0000

_PRODUCT = "C[m,n] = A[m,k] B[n,k]"
_SMALL = ["A=f16[32,64]", "B=f16[32,64]", "C=f32[32,32]", "K=64"]


class Case(NamedTuple):
    """A kernel, PTX or what Triton compiles, and how it is launched."""

    name: str
    kernel: object
    given: object
    formula: str
    block: int | None
    grid: tuple[int, ...]


def right():
    """The kernels of the corpus."""
    from ..machine import kernels, test_corpus, test_sparse, test_structs
    from ..machine.conftest import compiled_by_nvcc

    yield Case("guide", kernels.PRODUCT, kernels.ARGUMENTS, kernels.FORMULA, 64, (1,))
    for target in ("sm_80", "sm_90a"):
        yield Case(f"gemm {target}", compiled_by_nvcc("gemm", target), test_corpus.GEMM, _PRODUCT, 64, (1, 2))
    added = ["A=f16[64,128]", "B=f16[32,128]", "C=f32[64,32]=0", "K=128"]
    yield Case("gemm in halves", compiled_by_nvcc("gemm", "sm_80", "SPLIT"), added, _PRODUCT, 64, (1, 2, 2))
    stream = compiled_by_nvcc("stream", "sm_80")
    yield Case("blocks that wait for others", stream, test_corpus.STREAM, _PRODUCT, 32, (3,))
    for target in ("sm_80", "sm_90a"):
        attention = compiled_by_nvcc("attention", target)
        yield Case(f"attention {target}", attention, test_corpus.ATTENTION, test_corpus.STEPS, 128, (1,))
    sparse = compiled_by_nvcc("sparse", "sm_80")
    yield Case("sparse", sparse, test_sparse.SPARSE, test_sparse.SPARSE_FORMULA, 32, (2, 2))
    fields = [test_structs.FIELDS, *test_structs.ARRAYS]
    yield Case("struct", compiled_by_nvcc("params", "sm_80"), fields, test_structs.PRODUCT, 32, (1,))
    yield Case("virtual functions", compiled_by_nvcc("virtual", "sm_80"), ["out=f32[32]"], None, 32, (1,))
    yield Case("wgmma", compiled_by_nvcc("wgmma", "sm_90a"), test_corpus.WGMMA, _PRODUCT, 128, (1, 2))
    yield Case("tma", compiled_by_nvcc("tma", "sm_90a"), test_corpus.TMA, _PRODUCT, 160, (1, 2))
    for capability in (80, 90):
        types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "width": "i32", "depth": "i32"}
        kernel = test_corpus.compiled("matmul", types, {"tile_m": 64, "tile_n": 64, "tile_k": 32}, capability)
        given = {"a": (64, 64), "b": (64, 128), "c": (64, 128), "width": 128, "depth": 64}
        yield Case(f"matmul {capability}", kernel, given, "c[m,n] = a[m,k] b[k,n]", None, (1, 2))
        types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32", "width": "i32", "scale": "fp32"}
        given = {"q": (64, 64), "k": (128, 64), "v": (128, 64), "o": (64, 64), "width": 128, "scale": 0.125}
        for causal in (False, True):
            tiles = {"tile_m": 64, "tile_n": 64, "size": 64, "causal": causal}
            kernel = test_corpus.compiled("attention", types, tiles, capability)
            steps = (
                f"S[m,n] = 0.125 q[m,d] k[n,d]; P = softmax({'causal(S)' if causal else 'S'}); o[m,e] = P[m,n] v[n,e]"
            )
            yield Case(f"attention {capability}{' causal' * causal}", kernel, given, steps, None, (1,))


def mistaken(count):
    """So many kernels with a mistake, and some of warpgroups."""
    from ..machine import test_corpus
    from ..machine.conftest import compiled_by_nvcc

    text = compiled_by_nvcc("gemm", "sm_80")
    for number, (at, mutant) in enumerate(test_corpus.mutants(text, np.random.default_rng(0), count)):
        yield Case(f"mistake {number} in line {at + 1} of gemm", mutant, _SMALL, _PRODUCT, 64, (1,))
    text = compiled_by_nvcc("wgmma", "sm_90a")
    for number, (old, new) in enumerate(
        [("4611686293305360384", "4611686155866406912"), ("1, 1, 1, 0, 0;", "1, -1, 1, 0, 0;")]
    ):
        assert old in text
        yield Case(f"mistake {number} in wgmma", text.replace(old, new), test_corpus.WGMMA, _PRODUCT, 128, (1, 2))


def determined(found):
    """Whether a kernel leaves the same bytes everywhere: nothing races, faults, or leaves what nobody wrote."""
    from lanemap.capture.machine.report import FAULTS

    return not (found.notes or {finding.kind for finding in found.findings} & FAULTS.keys())


def built_case(folder, number, case, database):
    """Writes what the kernel is given and what it leaves on simulated threads; whether its bytes are determined."""
    from lanemap.capture.machine import arguments, parameters, parse, trace
    from lanemap.capture.machine.memory import Allocated, map_bytes

    from ..toolchain import program

    made = trace.compiled(case.kernel)
    found = database.trace(case.kernel, case.given, case.formula, block=case.block, grid=case.grid)
    if not determined(found):
        return False
    function = parse.parse(made.text).entry()
    given = parameters.given(arguments.named(case.given, made.types), function, list(found.outputs), 0)
    # Addresses and tensor maps are those of a launch: what stands for them is replaced there, also within a struct.
    places = {each.name: Allocated(_STANDS_FOR + at, 0) for at, each in enumerate(given) if each.pointer}
    data, maps = parameters.packed(given, function.parameters, places)
    sizes = [parameter.size for parameter in function.parameters]
    source, cubin = folder / f"{number}.ptx", folder / f"{number}.cubin"
    source.write_text(made.text)
    subprocess.run([program("ptxas"), f"-arch={TARGET}", source, "-o", cubin], check=True, capture_output=True)
    arrays = {each.name: each for each in found.judge.arguments if each.pointer}
    output = arrays[case.formula.rpartition(";")[2].partition("[")[0].strip() if case.formula else next(iter(arrays))]
    before = {name: np.zeros(each.size, "u1") if each.array is None else each.encode() for name, each in arrays.items()}
    np.savez(folder / f"{number}.npz", right=found.outputs[output.name].astype("f4"), **before)
    launch = {
        "name": case.name,
        "entry": function.name,
        "block": case.block or made.threads,
        "grid": [*case.grid, 1, 1][:3],
        "shared": made.shared or 0,
        "parameters": [data[end - size : end].hex() for size, end in zip(sizes, accumulate(sizes), strict=True)],
        "arrays": {name: place.address for name, place in places.items()},
        "maps": [
            {"stands": map_bytes(at).hex(), **each._asdict(), "fill": [*each.fill]} for at, each in enumerate(maps)
        ],
        "output": output.name,
    }
    (folder / f"{number}.json").write_text(json.dumps(launch))
    return True


def build(folder, file, mistakes=100):
    """Writes every case; how many of the mistakes leave the bytes determined."""
    import lanemap

    folder.mkdir(parents=True, exist_ok=True)
    with lanemap.open(str(file)) as database:
        number = 0
        for case in right():
            assert built_case(folder, number, case, database), case.name
            number += 1
        first = number
        for case in mistaken(mistakes):
            number += built_case(folder, number, case, database)
    return number - first


def tensor_map(of, address):
    """The bytes of the tensor map of an array, by the fields of a mapped tensor."""
    rank, width = len(of["shape"]), of["bits"] // 8
    room = np.zeros(128 + 64, np.uint8)
    start = -room.ctypes.data % 64
    strides = [stride * width for stride in of["strides"][:-1]]
    if of["corners"]:
        encode, (pixels, channels) = "cuTensorMapEncodeIm2col", of["box"]
        upper = [end - extent for (_, end), extent in zip(of["corners"], of["shape"][1:], strict=False)]
        corners = (_numbers("int", [low for low, _ in of["corners"]]), _numbers("int", upper))
        box = (*corners, channels, pixels)
    else:
        encode = "cuTensorMapEncodeTiled"
        box = (_numbers("uint32", [extent * step for extent, step in zip(of["box"], of["every"], strict=True)]),)
    failed = getattr(ctypes.CDLL("libcuda.so.1"), encode)(
        ctypes.c_void_p(room.ctypes.data + start),
        _ELEMENTS.index(of["type"]),
        rank,
        ctypes.c_void_p(address),
        _numbers("uint64", of["shape"]),
        _numbers("uint64", strides),
        *box,
        _numbers("uint32", of["every"]),
        0,
        _SWIZZLES.index(of["swizzle"]),
        0,
        int(any(of["fill"])),
    )
    assert not failed, f"no tensor map of {of}: error {failed}"
    return room[start : start + 128]


def _numbers(type_, numbers):
    """An array of C, innermost first."""
    return (getattr(ctypes, f"c_{type_}") * len(numbers))(*numbers[::-1])


def launch_kernel(cubin, launch, parameters):
    """Runs a kernel to its end.

    PyCUDA packs parameters from the first byte on, where a kernel need not expect a tensor map.
    """
    cuda, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    places = (ctypes.c_void_p * len(parameters))(*(each.ctypes.data for each in parameters))
    shared, blocks = launch["shared"], map(ctypes.c_uint, (*launch["grid"], launch["block"], 1, 1))
    for failed in (
        cuda.cuModuleLoadData(ctypes.byref(module), cubin.read_bytes()),
        cuda.cuModuleGetFunction(ctypes.byref(function), module, launch["entry"].encode()),
        cuda.cuFuncSetAttribute(function, _DYNAMIC_SHARED, shared),
        cuda.cuLaunchKernel(function, *blocks, ctypes.c_uint(shared), None, places, None),
        cuda.cuCtxSynchronize(),
    ):
        assert not failed, f"{launch['name']}: error {failed}"


def _bytes(address):
    return address.to_bytes(8, "little")


def launched(folder, number, launch):
    """What a kernel leaves on the GPU, and what it left on simulated threads."""
    from pycuda import driver

    with np.load(folder / f"{number}.npz") as kept:
        arrays = dict(kept)
    expected = arrays.pop("right")
    held = {name: driver.to_device(array) for name, array in arrays.items()}
    real = {_bytes(stands): _bytes(int(held[name])) for name, stands in launch["arrays"].items()}
    for each in launch["maps"]:
        array = next(name for name, stands in launch["arrays"].items() if stands == each["address"])
        real[bytes.fromhex(each["stands"])] = tensor_map(each, int(held[array])).tobytes()
    parameters = []
    for each in launch["parameters"]:
        data = bytes.fromhex(each)
        for stands, its in real.items():
            data = data.replace(stands, its)
        # A kernel may expect a tensor map at a multiple of 64 bytes.
        room = np.zeros(len(data) + 64, "u1")
        start = -room.ctypes.data % 64
        parameters.append(room[start : start + len(data)])
        parameters[-1][:] = np.frombuffer(data, "u1")
    launch_kernel(folder / f"{number}.cubin", launch, parameters)
    found = driver.from_device(held[launch["output"]], arrays[launch["output"]].shape, "u1")
    return found.view("f4").reshape(expected.shape), expected


def run(folder):
    """Runs every kernel; how many left the same, and which did not."""
    from pycuda import autoinit

    files = sorted(folder.glob("*.json"), key=lambda file: int(file.stem))
    assert files, f"no kernels in {folder}"
    wrong = []
    for file in files:
        launch = json.loads(file.read_text())
        found, expected = launched(folder, file.stem, launch)
        # Which bits it has that is no number is left open, and so is the last one of what is no sum of whole numbers:
        # tensor cores cut sums off, and powers are approximated.
        same = (found.view("u4") == expected.view("u4")) | np.isnan(found) & np.isnan(expected)
        if (expected % 1 != 0).any():
            same |= np.abs(found - expected) <= _ROUNDED * np.nanmax(np.abs(expected))
        if not same.all():
            at = tuple(np.argwhere(~same)[0].tolist())
            wrong.append(f"{launch['name']}: {(~same).sum()} of {same.size}, at {at} {found[at]} not {expected[at]}")
    assert not wrong, "\n".join(wrong)
    return f"{len(files)} kernels leave what they do on simulated threads, on {autoinit.device.name()}"


if __name__ == "__main__":
    print(run(Path(sys.argv[1])))
