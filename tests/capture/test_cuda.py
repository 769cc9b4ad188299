"""The PyCUDA device on a stand-in for PyCUDA, which interprets the kernels' PTX; a simulated warp multiplies."""

import importlib
import os
import sys
from contextlib import nullcontext

import pytest

import lanemap
from lanemap.capture import conflict, cuda, shared
from lanemap.capture.context import open_gpu
from lanemap.capture.device import LaunchFailed
from lanemap.capture.module import CAPTURED, FAILED, UNSUPPORTED
from lanemap.db.errors import LanemapError

from ..forms import DENSE_FORMS, MOVES, SPARSE_FORMS, WARPGROUP, WMMA
from .group import SimulatedGroup
from .stand_in import Error, StandIn
from .tables import at_random, capture


@pytest.fixture
def driver(complete, monkeypatch):
    stand_in = StandIn(complete)
    monkeypatch.setattr(importlib, "import_module", lambda _: stand_in)
    return stand_in


def test_a_gpu_gives_what_the_simulated_group_gives(driver, documented, complete):
    some = [*(DENSE_FORMS[index] for index in (0, 1, 8, 11, 30, 32)), SPARSE_FORMS[0], SPARSE_FORMS[6]]
    with cuda.Gpu() as gpu:
        source = capture(gpu, documented, some)
    assert source.name == "h200-sm_90a"
    assert [outcome["status"] for outcome in source.provenance["instructions"]] == [CAPTURED] * len(some)
    assert all(fragment.digest == complete[fragment.key].digest for fragment in source.fragments)
    assert sorted(name for loaded in driver.loads for name in loaded) == sorted(form.mnemonic for form in some)
    assert len(driver.loads) < len(some)
    assert (driver.contexts, driver.open_contexts) == (1, 0)
    assert source.provenance["gpu_seconds"] > 0
    device = source.provenance["device"]
    assert (device["compute_capability"], device["cuda_version"], device["target"]) == ("9.0", "13.0", "sm_90a")


@pytest.mark.slow
def test_so_it_does_for_warpgroups_wmma_and_matrix_moves(monkeypatch):
    # One type of each width; every other one has a kernel of the same text but for its name.
    kinds = ("f16", "tf32", "e4m3", "s8", "b1")
    some = [
        *(form for form in WARPGROUP if form.dimensions[1] in (24, form.dimensions[2]) and form.a in kinds),
        *MOVES,
        *(form for form in WMMA if form.majors == ("row", "col")),
    ]
    table = at_random(some)
    monkeypatch.setattr(importlib, "import_module", lambda _: StandIn(table))
    for module in (conflict, shared):  # it has neither a clock nor swizzled memory
        monkeypatch.setattr(module, "kernels", lambda form: [])
    with cuda.Gpu() as gpu:
        source = capture(gpu, {key: table[key] for key in table if key.instruction == "ldmatrix"}, some)
    for result in source.provenance["instructions"]:
        assert result["status"] == CAPTURED, result["message"]
    assert {fragment.key: fragment.digest for fragment in source.fragments} == {
        key: fragment.digest for key, fragment in table.items()
    }


def test_a_failed_launch_gets_the_next_instruction_a_new_context(driver, documented):
    driver.fail_launch_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:
        source = capture(gpu, documented, DENSE_FORMS[8:11])
    results = source.provenance["instructions"]
    assert [result["status"] for result in results] == [CAPTURED, FAILED, CAPTURED]
    assert results[1]["message"] == f"{DENSE_FORMS[9]}: the launch failed: an illegal memory access was encountered"
    assert (driver.contexts, driver.open_contexts) == (2, 0)


@pytest.mark.parametrize("forked", [False, True])
def test_only_a_forked_process_has_the_primary_context(driver, forked):
    """In the user's own another library may use it."""
    with open_gpu(0, None, os.getppid() if forked else os.getpid()) as gpu:
        assert gpu.describe().target == "sm_90a"
    assert (driver.contexts, driver.primary, driver.open_contexts) == (1, forked, 0)


def test_a_failed_launch_ends_a_process_that_has_only_the_primary_context(driver, documented):
    driver.fail_launch_of = str(DENSE_FORMS[9])
    with pytest.raises(SystemExit), cuda.Gpu(primary=True) as gpu:
        capture(gpu, documented, DENSE_FORMS[8:11])
    assert (driver.contexts, driver.open_contexts) == (1, 0)


def test_a_lost_gpu_fails_the_rest_with_its_reason(driver, documented):
    driver.fail_launch_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:

        def no_context():
            raise Error("the device was lost")

        gpu._gpu.make_context = no_context
        results = capture(gpu, documented, DENSE_FORMS[8:12]).provenance["instructions"]
    assert [result["status"] for result in results] == [CAPTURED, FAILED, FAILED, FAILED]
    assert results[3]["message"].endswith("cannot create a context on the GPU: the device was lost")
    assert driver.open_contexts == 0


def test_a_kernel_that_does_not_load_is_unsupported_with_the_drivers_message(driver, documented):
    driver.fail_load_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:
        results = capture(gpu, documented, DENSE_FORMS[8:11]).provenance["instructions"]
    assert [result["status"] for result in results] == [CAPTURED, UNSUPPORTED, CAPTURED]
    assert results[1]["message"].endswith("a PTX JIT compilation failed - ptxas line 9; fatal")


def test_the_context_is_released_on_an_interrupt(driver, documented):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), cuda.Gpu() as gpu:
        capture(gpu, documented, DENSE_FORMS[:9], interrupt)
    assert driver.open_contexts == 0
    gpu.close()


@pytest.mark.parametrize(
    ("capability", "target"), [((7, 5), "sm_75"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a")]
)
def test_targets(capability, target):
    assert cuda.target(capability) == target


@pytest.mark.parametrize(
    ("options", "number", "said"),
    [
        ({"count": 0}, 0, "this machine has no GPU: a capture needs an NVIDIA GPU and its driver"),
        ({"count": 2}, 2, "there is no GPU 2: this machine has 2, numbered from 0"),
        ({"count": 2}, -1, "there is no GPU -1"),
        ({"capability": (6, 1)}, 0, "GPU 0, NVIDIA H200, has compute capability 6.1: tensor cores need 7.0 or higher"),
    ],
)
def test_gpus_that_cannot_be_used(complete, monkeypatch, options, number, said):
    monkeypatch.setattr(importlib, "import_module", lambda _: StandIn(complete, **options))
    with pytest.raises(LanemapError, match=said):
        cuda.Gpu(number)


def test_a_driver_that_does_not_start(driver):
    def no_device():
        raise Error("cuInit failed: no CUDA-capable device is detected")

    driver.init = no_device
    with pytest.raises(LanemapError, match="no GPU can be used: cuInit failed: no CUDA-capable device is detected: a"):
        cuda.Gpu()


def test_a_gpu_without_a_context_is_an_error(driver, monkeypatch):
    def busy():
        raise Error("out of memory")

    monkeypatch.setattr(driver, "make_context", busy)
    with pytest.raises(LaunchFailed, match="cannot create a context on the GPU: out of memory"):
        cuda.Gpu()


@pytest.mark.parametrize("made", [False, True])
def test_an_interruption_while_the_context_is_made_leaves_none(driver, monkeypatch, made):
    make = driver.make_context

    def interrupted():
        if made:
            make()
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "make_context", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cuda.Gpu()
    assert driver.open_contexts == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'pycuda'", name="pycuda"),
            "pip install pycuda, which needs",
        ),
        (
            ModuleNotFoundError("No module named 'pytools'", name="pytools"),
            "PyCUDA cannot be loaded: No module named 'py",
        ),
        (ImportError("libcuda.so.1: cannot open shared object file"), r"there is no NVIDIA driver \(libcuda\)"),
        (ImportError("libcurand.so.10: cannot open shared object file"), "PyCUDA cannot be loaded: libcurand.so.10"),
    ],
)
def test_pycuda_that_cannot_be_loaded(monkeypatch, error, said):
    def failing(_):
        raise error

    monkeypatch.setattr(importlib, "import_module", failing)
    with pytest.raises(LanemapError, match=said) as caught:
        cuda.Gpu()
    assert "\n" not in str(caught.value)


def test_pycuda_is_not_imported_until_it_is_needed():
    assert "pycuda" not in sys.modules


@pytest.mark.slow
def test_a_database_keeps_what_it_measures(complete, file, monkeypatch):
    monkeypatch.setattr(cuda, "Gpu", lambda *_: nullcontext(SimulatedGroup(complete)))
    with lanemap.open(str(file)) as database:
        for name, expected in (("bench", "bench"), (None, "simulated-warp-sm_90a")):
            source = database.capture("mma", "m16n8k16", type="bf16", name=name)
            assert source.name == expected
            assert {fragment.key for fragment in database.source(expected).fragments} == {
                fragment.key for fragment in source.fragments
            }
            assert {(fragment.shape, fragment.type) for fragment in source.fragments} == {
                ("m16n8k16", "bf16"),
                ("m16n8k16", "f32"),
            }
