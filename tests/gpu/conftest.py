import subprocess
from pathlib import Path

import pytest

from ..toolchain import program


@pytest.fixture
def needs():
    """A function that skips a test on a machine without a GPU of a compute capability, or without what else it names.

    The tests here also run as programs, on machines that have no pytest.
    """

    def needs(least: tuple[int, int], most: tuple[int, int] = (99, 9), **others: object) -> None:
        try:
            from pycuda import autoinit
        except Exception as error:
            pytest.skip(f"needs PyCUDA, a driver and a GPU: {error}")
        if not least <= autoinit.device.compute_capability() <= most:
            pytest.skip("needs a GPU of compute capability {}.{}".format(*least))
        if lacking := [name for name, there in others.items() if not there]:
            pytest.skip(f"needs {lacking[0]}")

    return needs


@pytest.fixture
def ptxas():
    """A function that assembles a file for a target, with the assembler in the package nvidia-cuda-nvcc."""

    def assemble(source: Path, target: str) -> None:
        subprocess.run([program("ptxas"), f"-arch={target}", source, "-o", "/dev/null"], check=True)

    return assemble
