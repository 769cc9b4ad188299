"""What runs an instruction: the protocol that a GPU and the simulated warp implement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..db.errors import LanemapError
from ..db.instructions import Form

#: What the output holds before a launch, in each half of 64 bits. No probe yields it.
POISON = 0xDEADBEEF


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
    ptx_version: str


@dataclass(frozen=True)
class Probes:
    """Inputs of one launch: patterns of registers, and which of them each warp takes.

    ``patterns`` has, for each input role, words (patterns, registers, 32 lanes). ``picks`` (probes, 4) has the pattern
    numbers of A, B, C and E.
    """

    patterns: Mapping[str, NDArray[Any]]
    picks: NDArray[Any]


@dataclass(frozen=True)
class Output:
    """Registers of D after one launch, as words (probes, registers, 32 lanes), and what the GPU took for it."""

    words: NDArray[Any]
    gpu_seconds: float


class Device(Protocol):
    """Runs one instruction once in each of many warps."""

    def describe(self) -> Description:
        """What the device is."""

    def run(self, instruction: Form, selector: int | None, probes: Probes) -> Output:
        """Runs each probe in a warp of its own.

        Raises NotLoaded where the device does not take the instruction and LaunchFailed where it does not finish.
        """

    def close(self) -> None:
        """Gives the device back."""


def combinations(a: Any, b: Any, c: Any = 0, e: Any = 0) -> NDArray[Any]:
    """Picks of every combination of pattern numbers, the last of A, B, C and E running fastest."""
    axes = np.meshgrid(*(np.atleast_1d(each) for each in (a, b, c, e)), indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, 4).astype(np.uint32)
