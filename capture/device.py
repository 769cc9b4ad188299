"""What runs kernels: the protocol that a GPU and the simulated group of threads implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from .ptx import Kernel


class NotLoaded(LanemapError):  # noqa: N818
    """The driver or the target does not take the instruction."""


class LaunchFailed(LanemapError):  # noqa: N818
    """The instruction was loaded but its launch failed."""


@dataclass(frozen=True)
class Description:
    """The device that a capture was made on. ``target`` is the PTX target, such as sm_90a."""

    name: str
    compute_capability: str
    driver_version: str
    cuda_version: str
    target: str


@dataclass(frozen=True)
class Probes:
    """Inputs of one launch: patterns of each input by the name of its port, and which of them each group takes.

    The patterns of registers are words (patterns, registers, threads), those of shared memory bytes (patterns, bytes).
    ``picks`` (probes, inputs) has pattern numbers.
    """

    patterns: Mapping[str, NDArray[Any]]
    picks: NDArray[Any]


@dataclass(frozen=True)
class Output:
    """The output after one launch, an array like a pattern for each probe, and what the GPU took for it."""

    words: NDArray[Any]
    gpu_seconds: float


class Device(Protocol):
    """Runs a kernel once in each of many groups of threads."""

    def describe(self) -> Description:
        """What the device is."""

    def load(self, kernels: Sequence[Kernel]) -> None:
        """Makes kernels ready to run, in the place of earlier ones. Raises NotLoaded where one of them is refused."""

    def run(self, kernel: Kernel, probes: Probes) -> Output:
        """Runs each probe in a group of its own. A kernel that was not loaded is loaded alone.

        Raises NotLoaded where the device does not take the instruction and LaunchFailed where it does not finish.
        """

    def close(self) -> None:
        """Gives the device back."""


def combinations(*numbers: Any) -> NDArray[Any]:
    """Picks of every combination of pattern numbers, one argument for each input, the last running fastest."""
    axes = np.meshgrid(*map(np.atleast_1d, numbers), indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, len(numbers)).astype(np.uint32)
