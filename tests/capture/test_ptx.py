import importlib.util
import subprocess
from pathlib import Path

import pytest

from lanemap.capture import ptx
from lanemap.db.instructions import DENSE_FORMS, FORMS, NARROW_FORMS, SPARSE_FORMS


def ptxas(text: str, target: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Assembles PTX with the assembler of the package nvidia-cuda-nvcc."""
    packages = importlib.util.find_spec("nvidia")
    assert packages is not None
    folders = packages.submodule_search_locations or []
    program = next(chosen for each in folders for chosen in sorted(Path(each).glob("*/bin/ptxas")))
    source = folder / "kernels.ptx"
    source.write_text(text)
    command = [program, "-arch", target, source, "-o", folder / "kernels.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_every_kernel_assembles_where_its_instruction_is_supported(target, tmp_path):
    kernels = [
        ptx.kernel(instruction, selector, f"probe_{number}_{selector or 0}")
        for number, instruction in enumerate(FORMS)
        if instruction.supports(target)
        for selector in instruction.selectors
    ]
    done = ptxas(f".version {ptx.VERSION}\n.target {target}\n.address_size 64\n{''.join(kernels)}", target, tmp_path)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize("instruction", [DENSE_FORMS[0], DENSE_FORMS[8], DENSE_FORMS[11], SPARSE_FORMS[0]], ids=str)
def test_a_module_has_a_kernel_for_each_selector(instruction, tmp_path):
    text = ptx.module(instruction, "sm_90a")
    for selector in instruction.selectors:
        assert f".visible .entry {ptx.entry(selector)}(" in text
    assert text.count(".entry") == len(instruction.selectors)
    assert ptxas(text, "sm_90a", tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("instruction", "target"), [(NARROW_FORMS[0], "sm_90a"), (NARROW_FORMS[25], "sm_100a"), (DENSE_FORMS[9], "sm_89")]
)
def test_the_assembler_refuses_what_is_not_supported(instruction, target, tmp_path):
    assert not instruction.supports(target)
    assert ptxas(ptx.module(instruction, target), target, tmp_path).returncode != 0
