import subprocess
from pathlib import Path

import pytest

from lanemap.capture.kernels import kernels, module_text
from lanemap.db.isa.vendors import NVIDIA

from ..forms import CAPTURED, DENSE_FORMS, NARROW_FORMS
from ..toolchain import program


def ptxas(text: str, target: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Assembles PTX with the assembler of the package nvidia-cuda-nvcc."""
    source = folder / "kernels.ptx"
    source.write_text(text)
    command = [program("ptxas"), "-O0", "-arch", target, source, "-o", folder / "kernels.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_every_kernel_assembles_where_its_form_is_supported(target, tmp_path):
    forms = [form for form in CAPTURED if form.supports(target)]
    # Of the widths of wgmma the least, the greatest, and those that an A is measured with.
    some = [
        form
        for form in forms
        if form.target != "sm_90a" or form.role or form.dimensions[1] in (8, 248, 256, form.dimensions[2])
    ]
    text = module_text((kernel for form in some for kernel in kernels(form)), target)
    done = ptxas(text, target, tmp_path)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize(
    ("form", "target"), [(NARROW_FORMS[0], "sm_90a"), (NARROW_FORMS[25], "sm_100a"), (DENSE_FORMS[9], "sm_89")]
)
def test_the_assembler_refuses_what_is_not_supported(form, target, tmp_path):
    assert not form.supports(target)
    assert ptxas(module_text(kernels(form), target), target, tmp_path).returncode != 0


@pytest.mark.parametrize("form", [form for form in CAPTURED if form.version > NVIDIA.version], ids=str)
def test_no_earlier_version_has_a_form_that_needs_a_later_one(form, tmp_path):
    major, minor = form.version
    text = module_text(kernels(form), form.target)
    assert text.startswith(f".version {major}.{minor}\n")
    assert ptxas(text, form.target, tmp_path).returncode == 0
    earlier = text.replace(f".version {major}.{minor}\n", f".version {major}.{minor - 1}\n")
    assert "PTX ISA .version" in ptxas(earlier, form.target, tmp_path).stderr


def test_entries_are_all_different():
    entries = [kernel.entry for form in CAPTURED for kernel in kernels(form)]
    assert len(set(entries)) == len(entries)
