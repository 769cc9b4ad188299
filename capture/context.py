"""The context of a GPU in a process that measures, made by a thread while the process imports what it needs.

That takes the driver half a second where many processes ask for one, and PyCUDA keeps Python's lock meanwhile.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cuda import Gpu


def open_gpu(number: int, ptxas: str | None, process: int) -> "AbstractContextManager[Gpu]":
    """GPU ``number``: in ``process`` with a context of its own, in processes forked from it with the primary context.

    A forked process has the primary context for itself. The driver begins to make it at once; entering waits for it.
    """
    forked = os.getpid() != process
    return _opened(number, ptxas, forked, _prepare(number) if forked else lambda: None)


@contextmanager
def _opened(number: int, ptxas: str | None, primary: bool, let_go: Callable[[], None]) -> "Iterator[Gpu]":
    from .cuda import Gpu

    with Gpu(number, ptxas, primary) as gpu:
        let_go()
        yield gpu


def _prepare(number: int) -> Callable[[], None]:
    """Begins to make the primary context. What is returned lets go of it, once another keeps it.

    What the driver refuses is for whoever opens it next to say.
    """
    device, context = ctypes.c_int(), ctypes.c_void_p()

    def make() -> None:
        with suppress(OSError):
            driver, found = ctypes.CDLL("libcuda.so.1"), (ctypes.byref(device), number)
            if not driver.cuInit(0) and not driver.cuDeviceGet(*found):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

    def let_go() -> None:
        thread.join()
        if context:
            ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxRelease_v2(device)

    thread = Thread(target=make)
    thread.start()
    return let_go
