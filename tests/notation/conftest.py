import importlib.util
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import lanemap
from lanemap.db.layout.fragment import Fragment
from lanemap.db.lookup import Query, read_fragments

from ..shipped import CORRECTED


@pytest.fixture(scope="session")
def every_width(built) -> list[Fragment]:
    """Every fragment with rows of every source."""
    with lanemap.open(str(built)) as database:
        return [fragment for fragment in read_fragments(database.reader, Query()) if fragment.elements is not None]


@pytest.fixture(scope="session")
def everything(every_width) -> list[tuple[str, Fragment]]:
    """Those that lanes hold, with the name of the source, but of wgmma only those of a few widths."""
    few = re.compile("m64n(8|24|256)k")
    return [
        (fragment.source, fragment)
        for fragment in every_width
        if not fragment.tile and (not fragment.instruction.startswith("wgmma") or few.match(fragment.shape))
    ]


@pytest.fixture(scope="session")
def in_memory(every_width) -> list[Fragment]:
    """Those in shared memory, of the corrected document, one of each layout."""
    documented = [fragment for fragment in every_width if fragment.source == CORRECTED and fragment.tile]
    few = [fragment for fragment in documented if fragment.role == "t" or re.match("m64n(8|64)k", fragment.shape)]
    return [*{(fragment.role, fragment.slots, fragment.digest): fragment for fragment in few}.values()]


@pytest.fixture(scope="session")
def corrected(everything) -> dict[str, Fragment]:
    """Those of the corrected document by name."""
    return {fragment.key.identifier: fragment for source, fragment in everything if source == CORRECTED}


@pytest.fixture(scope="session")
def one_per_width(corrected) -> dict[str, Fragment]:
    """One fragment of each width of a slot, 1 to 64 bits, and one of four products in a warp."""
    names = ("m8n8k128_b1_b", "m8n8k32_s4_a", "m16n8k32_e4m3_b", "m16n8k16_f16_a", "m16n8k8_tf32_a", "m8n8k4_f64_c")
    found = {f"mma_{name}": corrected[f"mma_{name}"] for name in (*names, "m8n8k4_f16_a_col")}
    assert {fragment.slot_bits for fragment in found.values()} == {1, 4, 8, 16, 32, 64}
    return found


@pytest.fixture(scope="session")
def nvcc() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Compiles a file with the packages nvidia-cuda-nvcc, -crt, -runtime, -cccl, nvidia-nvvm and nvidia-cutlass."""
    cuda, cutlass = (importlib.util.find_spec(name) for name in ("nvidia", "cutlass_library"))
    folders = list(cuda.submodule_search_locations) if cuda else []
    programs = [program for folder in folders for program in sorted(Path(folder).glob("*/bin/nvcc"))]
    if not programs or not cutlass or not list(programs[0].parent.parent.glob("nvvm/bin/cicc")):
        pytest.skip("needs the packages nvidia-cuda-nvcc, nvidia-nvvm and nvidia-cutlass")
    include = Path(cutlass.submodule_search_locations[0]) / "source" / "include"
    options = ["-std=c++17", "--expt-relaxed-constexpr", f"-I{include}"]

    def compile_(
        file: Path, *more: str, to: Sequence[str] = ("-arch=sm_90", "-ptx")
    ) -> subprocess.CompletedProcess[str]:
        """To PTX, if nothing else is asked for: that checks every assertion, and takes half the time."""
        command = [programs[0], *options, *to, *more, file, "-o", file.with_suffix(".out")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return compile_


@pytest.fixture
def exported(run) -> Callable[..., str]:
    """What ``lanemap export`` writes of the corrected document, or of a selection of it."""

    def exported(form: str, *selection: str) -> str:
        result = run("export", "--format", form, *selection)
        assert result.code in (0, 1), result.err
        return result.out

    return exported


@pytest.fixture(scope="session")
def cells() -> Callable[[Fragment], list[list[int]]]:
    """The cell of each element of a fragment in the order of its rows: computation from 0 if there are several."""

    def cells(fragment: Fragment) -> list[list[int]]:
        rows = fragment.elements
        several = [rows["computation"] - 1] if rows["computation"].max() > 1 else []
        return np.stack([*several, rows["row"], rows["col"]], axis=-1).tolist()

    return cells


@pytest.fixture(scope="session")
def places() -> Callable[[Fragment], list[list[int]]]:
    """Lane and element i of each element of a fragment, in the order of its rows."""

    def places(fragment: Fragment) -> list[list[int]]:
        rows = fragment.elements
        return np.stack([rows["lane"], rows["reg"] * fragment.slots + rows["slot"]], axis=-1).tolist()

    return places
