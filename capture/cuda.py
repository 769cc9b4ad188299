"""An NVIDIA GPU as a device, by PyCUDA. PTX text goes to the driver's own compiler: no nvcc is needed."""

from __future__ import annotations

import contextlib
import importlib
import re
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..db.errors import LanemapError
from ..db.instructions import WARP, Form
from . import ptx
from .device import POISON, Description, LaunchFailed, NotLoaded, Output, Probes
from .values import word_type

_THREADS = 256
_ALIGNMENT = 256
_LINE = 500

#: The kernels' parameters as PyCUDA packs them: six addresses and a 32-bit number.
_PARAMETERS = "PPPPPPI"
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
            ptx_version=ptx.VERSION,
        )

    def run(self, instruction: Form, selector: int | None, probes: Probes) -> Output:
        """Runs each probe in a warp of its own. After a failed launch the context is a new one.

        Some errors, such as a bad address, stay with a context: the next instruction must not meet them.
        """
        self._session = self._session or self._open()
        kernel = self._session.kernel(instruction, selector, target(self._capability))
        try:
            return self._session.launch(kernel, instruction, probes)
        except self._driver.Error as error:
            reason = _line(error)
        del kernel
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
            raise LaunchFailed(f"the GPU gives no context: {_line(error)}") from None


class _Session:
    """A context and what lives in it: the module of the last instruction, and buffers that grow."""

    def __init__(self, driver: Any, gpu: Any) -> None:
        self._driver = driver
        self._module: Any = None
        self._loaded: Form | None = None
        self._inputs: Any = None
        self._outputs: Any = None
        self._pinned: Any = None
        self._input_size = self._output_size = 0
        self._context: Any = gpu.make_context()

    def release(self) -> None:
        self._module = self._loaded = self._inputs = self._outputs = self._pinned = None
        self._context.detach()

    def kernel(self, instruction: Form, selector: int | None, for_target: str) -> Any:
        try:
            if self._loaded != instruction:
                self._module = self._loaded = None
                text = ptx.module(instruction, for_target)
                self._module = self._driver.module_from_buffer(text.encode() + b"\0")
                self._loaded = instruction
            return self._module.get_function(ptx.entry(selector)).prepare(_PARAMETERS)
        except self._driver.Error as error:
            raise NotLoaded(f"the driver does not load it: {_line(error)}") from None

    def launch(self, kernel: Any, instruction: Form, probes: Probes) -> Output:
        driver, count = self._driver, len(probes.picks)
        output, word = instruction.operand("D"), word_type(instruction.operand("D"))
        size = count * output.registers * WARP * word.itemsize
        addresses = self._upload([*(probes.patterns.get(role) for role in "ABCE"), probes.picks.astype(np.uint32)])
        self._reserve_output(size)
        driver.memset_d32(self._outputs, POISON, size // 4)
        grid, block = (-(-count * WARP // _THREADS), 1), (_THREADS, 1, 1)
        wait = kernel.prepared_timed_call(grid, block, *addresses, int(self._outputs), count)
        seconds = wait()
        driver.memcpy_dtoh(self._pinned[:size], self._outputs)
        words = self._pinned[:size].copy().view(word).reshape(count, output.registers, WARP)
        return Output(words, seconds)

    def _upload(self, arrays: list[Any]) -> list[int]:
        """Addresses of the arrays on the GPU, after one copy. An absent array has the address of the next one."""
        sizes = [0 if array is None else -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays]
        starts = np.cumsum([0, *sizes]).tolist()
        packed = np.zeros(starts[-1], np.uint8)
        for array, start in zip(arrays, starts[:-1], strict=True):
            if array is not None:
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
        raise LanemapError(
            'PyCUDA is not installed: pip install "lanemap[capture]", which needs a CUDA toolkit to build'
        ) from None
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
