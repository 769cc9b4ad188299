"""An NVIDIA GPU as a device, by PyCUDA. PTX text goes to the driver's own compiler: no nvcc is needed."""

import contextlib
import ctypes
import importlib
import re
import subprocess
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..db.errors import LanemapError
from ..db.isa.shared import BOX_MODES, BoundingBox
from ..db.layout.algebra import Array
from ..db.text import in_one_line
from .device import Description, LaunchFailed, NotLoaded, Output, Probes
from .kernels import POISON, Kernel, module_text

_ALIGNMENT = 256

#: Bytes of a tensor map (5.5.8), and the number that the driver gives to elements of so many bits.
_MAP = 128
_ELEMENTS = {8: 0, 16: 1, 32: 2}

_OLDEST = (7, 0)
_NEEDS = "a capture needs an NVIDIA GPU and its driver"


def target(compute_capability: tuple[int, int]) -> str:
    """The PTX target of a compute capability, with features of the architecture if it has any: (9, 0) is sm_90a."""
    major, minor = compute_capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


class Gpu:
    """GPU ``number`` of this machine, with a context of its own until ``close``. Use it in a ``with`` statement.

    What the driver's compiler does not take is assembled by ``ptxas``, if that is given. The context is the ``primary``
    one only in a process where nobody else uses that, as an error of a launch ends it.

    Raises LanemapError if there is no PyCUDA, no driver or no such GPU, or if it has no tensor cores, or no such ptxas.
    """

    def __init__(self, number: int = 0, ptxas: str | None = None, primary: bool = False) -> None:
        self._primary, self._ptxas, self._assembler = primary, ptxas, "" if ptxas is None else assembler(ptxas)
        self._driver = driver = _pycuda_driver()
        try:
            driver.init()
            count = driver.Device.count()
        except driver.Error as error:
            raise LanemapError(f"no GPU can be used: {in_one_line(error)}: {_NEEDS}") from None
        if count == 0:
            raise LanemapError(f"this machine has no GPU: {_NEEDS}")
        if not 0 <= number < count:
            raise LanemapError(f"there is no GPU {number}: this machine has {count}, numbered from 0")
        self._gpu = driver.Device(number)
        major, minor = self._gpu.compute_capability()
        self._capability = (int(major), int(minor))
        if self._capability < _OLDEST:
            raise LanemapError(
                f"GPU {number}, {self._gpu.name()}, has compute capability {_dotted(self._capability)}: "
                f"tensor cores need {_dotted(_OLDEST)} or higher"
            )
        self._context: Any = None
        # What lives in the context: modules, their kernels by entry, and memory that grows.
        self._modules: list[Any] = []
        self._functions: dict[str, Any] = {}
        self._assembled: set[str] = set()
        self._memory: Any = None
        self._size = 0
        self._open()

    def __enter__(self) -> "Gpu":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What an interrupted launch still holds on the GPU must be released before its context.
        traceback.clear_frames(trace)
        self.close()

    def describe(self) -> Description:
        """Name, compute capability, versions of the driver and of the CUDA that it supports, and PTX target."""
        cuda, version = self._driver.get_driver_version(), None
        with contextlib.suppress(OSError):  # CUDA has no call for the version of the kernel's driver
            text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
            version = re.search(r"Kernel Module.*?\s(\d+\.\d[\d.]*)\s", text)
        return Description(
            name=self._gpu.name(),
            compute_capability=_dotted(self._capability),
            driver_version=version[1] if version else "unknown",
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}",
            target=target(self._capability),
        )

    def load(self, kernels: Sequence[Kernel]) -> None:
        """Loads kernels as one module, which the driver compiles first."""
        self._open()
        if not kernels:
            return
        try:
            # Little optimization: the kernels run for microseconds, but the driver compiles them for seconds.
            options = [(self._driver.jit_option.OPTIMIZATION_LEVEL, 1)]
            text = module_text(kernels, target(self._capability))
            try:
                module = self._driver.module_from_buffer(text.encode() + b"\0", options)
            except self._driver.Error:
                if self._ptxas is None:
                    raise
                module = self._driver.module_from_buffer(assembled(text, self._ptxas, target(self._capability)))
                self._assembled |= {kernel.entry for kernel in kernels}
            functions = {
                kernel.entry: module.get_function(kernel.entry).prepare("P" * (len(kernel.inputs) + 2))
                for kernel in kernels
            }
        except self._driver.Error as error:
            raise NotLoaded(f"the driver cannot load it: {in_one_line(error)}") from None
        self._modules.append(module)
        self._functions |= functions

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """Runs each probe in a block of its own. After a failed launch there is a new context.

        Some errors, such as a bad address, persist in a context, and with driver 580 in the process: they must not
        affect the next kernel. So a process with only the primary context ends, and another has to measure the rest.
        """
        self._open()
        if kernel.entry not in self._functions:
            self.load([kernel])
        try:
            return self._launch(kernel, probes)
        except self._driver.Error as error:
            reason = in_one_line(error)
        self.close()
        if self._primary:
            raise SystemExit(1)
        raise LaunchFailed(f"the launch failed: {reason}")

    def close(self) -> None:
        """Releases everything on the GPU, then the context. A second call does nothing."""
        context, self._context = self._context, None
        self._memory, self._size = None, 0
        self._functions.clear()
        self._modules.clear()
        if context is not None:
            with contextlib.suppress(self._driver.Error):
                context.detach()

    def _open(self) -> None:
        if self._context is None:
            try:
                if self._primary:
                    context = self._gpu.retain_primary_context()
                    context.push()
                else:
                    context = self._gpu.make_context()
                self._context = context
            except self._driver.Error as error:
                raise LaunchFailed(f"cannot create a context on the GPU: {in_one_line(error)}") from None
            except BaseException:
                # An interruption is noticed once the context is made. PyCUDA aborts a process that ends with one.
                with contextlib.suppress(self._driver.Error):
                    self._driver.Context.pop()
                raise

    def _launch(self, kernel: Kernel, probes: Probes) -> Output:
        """Runs a kernel on inputs and probes in one block of memory, with patterns padded to what it reads."""
        driver, count, output = self._driver, len(probes.picks), kernel.output
        inputs = [(probes.patterns[port.name], port.size(kernel.threads)) for port in kernel.inputs]
        inputs.append((probes.picks.astype(np.uint32), 4 * len(inputs)))
        inputs += [(np.zeros((1, _MAP), np.uint8), _MAP) for port in kernel.inputs if port.box]
        lengths = [-(-len(rows) * size // _ALIGNMENT) * _ALIGNMENT for rows, size in inputs]
        starts = np.cumsum([0, *lengths]).tolist()
        packed = np.zeros(starts[-1], np.uint8)
        for (rows, size), start in zip(inputs, starts, strict=False):
            data = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
            packed[start : start + len(rows) * size].reshape(len(rows), size)[:, : data.shape[1]] = data
        results: Any = np.empty((count, output.size(kernel.threads)), np.uint8)
        if len(packed) + results.nbytes > self._size:
            self._memory, self._size = None, 2 * (len(packed) + results.nbytes)
            self._memory = driver.mem_alloc(self._size)
        addresses = [int(self._memory) + start for start in starts]
        maps = len(kernel.inputs) + 1
        for at, port in enumerate(kernel.inputs):
            if port.box:
                encoded = tensor_map(port.box, addresses[at], len(probes.patterns[port.name]))
                packed[starts[maps] : starts[maps] + _MAP] = encoded
                addresses[at] = addresses.pop(maps)
        driver.memcpy_htod(self._memory, packed)
        driver.memset_d32(addresses[-1], POISON, results.nbytes // 4)
        wait = self._functions[kernel.entry].prepared_timed_call((count, 1), (kernel.threads, 1, 1), *addresses)
        seconds = wait()
        driver.memcpy_dtoh(results, addresses[-1])
        if not output.bytes:
            by_thread = results.view(f"u{output.bits // 8}").reshape(count, -1, kernel.threads, output.together)
            results = by_thread.swapaxes(2, 3).reshape(count, output.registers, kernel.threads)
        return Output(results, seconds, self._assembler if kernel.entry in self._assembled else "")


def assembler(ptxas: str) -> str:
    """What a ptxas calls its version. Raises LanemapError where it does not run."""
    try:
        said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        return f"ptxas {re.findall(r'V([0-9.]+)', said)[-1]}"
    except (OSError, subprocess.CalledProcessError, IndexError):
        raise LanemapError(f"{ptxas} is no ptxas: name the program, as in /usr/local/cuda/bin/ptxas") from None


def assembled(text: str, ptxas: str, target: str) -> bytes:
    """The cubin of a module. Raises NotLoaded where ptxas refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(text, "utf-8")
        command = [ptxas, f"-arch={target}", "-O1", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise NotLoaded(f"ptxas cannot assemble it: {' '.join(done.stderr.split())}")
        return cubin.read_bytes()


def tensor_map(of: BoundingBox, address: int, count: int) -> Array:
    """The bytes of the tensor map of so many boxes that follow each other in global memory.

    Raises:
        NotLoaded: the driver has no such map.
    """
    room = np.zeros(_MAP + 64, np.uint8)
    start = -room.ctypes.data % 64
    failed = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(room.ctypes.data + start),
        _ELEMENTS[of.bits],
        2,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(of.k, of.mn * count),
        (ctypes.c_uint64 * 1)(of.k * of.bits // 8),
        (ctypes.c_uint32 * 2)(of.k, of.mn),
        (ctypes.c_uint32 * 2)(1, 1),
        0,
        list(BOX_MODES).index(of.mode),
        0,
        0,
    )
    if failed:
        raise NotLoaded(f"the driver has no tensor map of {of}: error {failed}")
    return room[start : start + _MAP]


def _pycuda_driver() -> Any:
    try:
        return importlib.import_module("pycuda.driver")
    except ImportError as error:
        words = f"PyCUDA cannot be loaded: {in_one_line(error)}"
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "pycuda":
            words = "PyCUDA is not installed: pip install pycuda, which needs a CUDA toolkit to build"
        elif "libcuda.so" in str(error) or "nvcuda" in str(error):
            words = f"there is no NVIDIA driver (libcuda): {_NEEDS}"
        raise LanemapError(words) from None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
