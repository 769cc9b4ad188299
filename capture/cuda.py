"""An NVIDIA GPU as a device, by PyCUDA. PTX text goes to the driver's own compiler: no nvcc is needed."""

from __future__ import annotations

import contextlib
import importlib
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..db.errors import LanemapError
from . import ptx
from .device import Description, LaunchFailed, NotLoaded, Output, Probes
from .ptx import POISON, Kernel, Port

_ALIGNMENT = 256
_LINE = 500

_OLDEST = (7, 0)
_NEEDS = "a capture needs an NVIDIA GPU and its driver"


def target(compute_capability: tuple[int, int]) -> str:
    """PTX target of a compute capability, with the features of the architecture where it has any: (9, 0) is sm_90a."""
    major, minor = compute_capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


class Gpu:
    """GPU ``number`` of this machine, with a context of its own until ``close``. Use it in a ``with`` statement.

    Raises LanemapError where there is no PyCUDA, no driver, no such GPU, or one without tensor cores.
    """

    def __init__(self, number: int = 0) -> None:
        self._driver = driver = _pycuda_driver()
        try:
            driver.init()
            count = driver.Device.count()
        except driver.Error as error:
            raise LanemapError(f"no GPU can be used: {_line(error)}: {_NEEDS}") from None
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
        self._session: _Session | None = self._open()

    def __enter__(self) -> Gpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What an interrupted launch still holds on the GPU must go before its context does.
        traceback.clear_frames(trace)
        self.close()

    def describe(self) -> Description:
        """Name, compute capability, versions of the driver and of the CUDA that it speaks, and PTX target."""
        cuda = self._driver.get_driver_version()
        return Description(
            name=self._gpu.name(),
            compute_capability=_dotted(self._capability),
            driver_version=_driver_version(),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}",
            target=target(self._capability),
        )

    def load(self, kernels: Sequence[Kernel]) -> None:
        """Loads kernels as one module, which the driver compiles first."""
        self._session = self._session or self._open()
        self._session.load(kernels, target(self._capability))

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """Runs each probe in a block of its own. After a failed launch the context is a new one.

        Some errors, such as a bad address, stay with a context: the next kernel must not meet them.
        """
        self._session = self._session or self._open()
        if kernel.entry not in self._session.functions:
            self.load([kernel])
        try:
            return self._session.launch(kernel, probes)
        except self._driver.Error as error:
            reason = _line(error)
        self.close()
        raise LaunchFailed(f"the launch failed: {reason}")

    def close(self) -> None:
        """Releases everything on the GPU, then the context. A second call does nothing."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(self._driver.Error):
                session.release()

    def _open(self) -> _Session:
        try:
            return _Session(self._driver, self._gpu)
        except self._driver.Error as error:
            raise LaunchFailed(f"cannot create a context on the GPU: {_line(error)}") from None


class _Session:
    """A context and what lives in it: modules, their kernels by entry, and buffers that grow."""

    def __init__(self, driver: Any, gpu: Any) -> None:
        self._driver = driver
        self._modules: list[Any] = []
        self.functions: dict[str, Any] = {}
        self._inputs: Any = None
        self._outputs: Any = None
        self._pinned: Any = None
        self._input_size = self._output_size = 0
        self._context: Any = gpu.make_context()

    def release(self) -> None:
        self._inputs = self._outputs = self._pinned = None
        self.functions.clear()
        self._modules.clear()
        self._context.detach()

    def load(self, kernels: Sequence[Kernel], for_target: str) -> None:
        if not kernels:
            return
        try:
            # Less optimizing: the kernels run for microseconds, and the driver compiles them for seconds.
            options = [(self._driver.jit_option.OPTIMIZATION_LEVEL, 1)]
            text = ptx.module(kernels, for_target).encode() + b"\0"
            module = self._driver.module_from_buffer(text, options)
            found = {
                each.entry: module.get_function(each.entry).prepare("P" * (len(each.inputs) + 2)) for each in kernels
            }
        except self._driver.Error as error:
            raise NotLoaded(f"the driver cannot load it: {_line(error)}") from None
        self._modules.append(module)
        self.functions |= found

    def launch(self, kernel: Kernel, probes: Probes) -> Output:
        driver, count = self._driver, len(probes.picks)
        each = kernel.output
        size = count * each.size(kernel.threads)
        arrays = [self._padded(kernel, port, probes.patterns[port.name]) for port in kernel.inputs]
        addresses = self._upload([*arrays, probes.picks.astype(np.uint32)])
        self._reserve_output(size)
        driver.memset_d32(self._outputs, POISON, size // 4)
        function = self.functions[kernel.entry]
        wait = function.prepared_timed_call((count, 1), (kernel.threads, 1, 1), *addresses, int(self._outputs))
        seconds = wait()
        driver.memcpy_dtoh(self._pinned[:size], self._outputs)
        found = self._pinned[:size].copy().reshape(count, -1)
        if not each.bytes:
            by_thread = found.view(f"u{each.bits // 8}").reshape(count, -1, kernel.threads, each.together)
            found = by_thread.swapaxes(2, 3).reshape(count, each.registers, kernel.threads)
        return Output(found, seconds)

    @staticmethod
    def _padded(kernel: Kernel, port: Port, patterns: Any) -> Any:
        """The patterns of an input, each as long as the kernel reads."""
        data = np.ascontiguousarray(patterns).reshape(len(patterns), -1).view(np.uint8)
        padded = np.zeros((len(data), port.size(kernel.threads)), np.uint8)
        padded[:, : data.shape[1]] = data
        return padded

    def _upload(self, arrays: list[Any]) -> list[int]:
        """Addresses of the arrays on the GPU, after one copy."""
        sizes = [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays]
        starts = np.cumsum([0, *sizes]).tolist()
        packed = np.zeros(starts[-1], np.uint8)
        for array, start in zip(arrays, starts[:-1], strict=True):
            packed[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if len(packed) > self._input_size:
            self._inputs = None
            self._inputs = self._driver.mem_alloc(2 * len(packed))
            self._input_size = 2 * len(packed)
        self._driver.memcpy_htod(self._inputs, packed)
        return [int(self._inputs) + start for start in starts[:-1]]

    def _reserve_output(self, size: int) -> None:
        if size > self._output_size:
            self._outputs = self._pinned = None
            self._outputs = self._driver.mem_alloc(2 * size)
            self._pinned = self._driver.pagelocked_empty(2 * size, np.uint8)
            self._output_size = 2 * size


def _pycuda_driver() -> Any:
    try:
        return importlib.import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pycuda":
            raise LanemapError(f"PyCUDA cannot be loaded: {_line(error)}") from None
        raise LanemapError("PyCUDA is not installed: pip install pycuda, which needs a CUDA toolkit to build") from None
    except ImportError as error:
        if "libcuda.so" in str(error) or "nvcuda" in str(error):
            raise LanemapError(f"there is no NVIDIA driver (libcuda): {_NEEDS}") from None
        raise LanemapError(f"PyCUDA cannot be loaded: {_line(error)}") from None


def _driver_version() -> str:
    """Version of the kernel driver. CUDA has no call that tells it."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        if matched := re.search(r"Kernel Module.*?\s(\d+\.\d[\d.]*)\s", text):
            return matched[1]
    return "unknown"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _line(error: BaseException) -> str:
    """An error's message as one line."""
    return " ".join(str(error).replace("\0", " ").split())[:_LINE]
