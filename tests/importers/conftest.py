import importlib.util
from pathlib import Path

import pytest

from lanemap.ingest import cute, tensor_layouts


@pytest.fixture(scope="session")
def cutlass() -> Path:
    """The headers of a real release."""
    found = importlib.util.find_spec("cutlass_library")
    if found is None or found.origin is None:
        pytest.skip("nvidia-cutlass is not installed")
    return Path(found.origin).parent / "source" / "include"


@pytest.fixture(scope="session")
def release(cutlass):
    """What the importer makes of the release."""
    return cute.load(cutlass)[0]


@pytest.fixture(scope="session")
def transcribed():
    """What the importer makes of tensor-layouts."""
    if importlib.util.find_spec("tensor_layouts") is None:
        pytest.skip("tensor-layouts is not installed")
    return tensor_layouts.load()[0]
