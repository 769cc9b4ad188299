"""Programs of NVIDIA's toolkit, out of the packages of lanemap[test-toolchains]."""

import importlib.util
from pathlib import Path

import pytest


def program(name: str) -> Path:
    """Where nvcc, ptxas or another program is; skips the test where no package has it."""
    found: list[Path] = []
    for package, place in (("nvidia", "*/bin"), ("triton", "backends/nvidia/bin")):
        there = importlib.util.find_spec(package)
        for folder in there.submodule_search_locations or [] if there else []:
            found += sorted(Path(folder).glob(f"{place}/{name}"))
    if not found:
        pytest.skip(f"needs lanemap[test-toolchains]: {name}")
    return found[0]
