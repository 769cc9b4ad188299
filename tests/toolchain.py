"""Programs of NVIDIA's toolkit, out of the packages of lanemap[test-toolchains]."""

import importlib.util
from pathlib import Path

import pytest


def program(name: str) -> Path:
    """Where nvcc, ptxas or another program is; skips the test where no package has it."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations or [] if package else []
    found = [file for folder in folders for file in sorted(Path(folder).glob(f"*/bin/{name}"))]
    if not found:
        pytest.skip(f"needs lanemap[test-toolchains]: {name}")
    return found[0]
