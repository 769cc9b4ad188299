"""The PyCUDA device on a stand-in for PyCUDA, which interprets the kernels' PTX; a simulated warp multiplies."""

import importlib
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from lanemap.capture import cuda
from lanemap.capture.device import LaunchFailed, Probes
from lanemap.capture.run import CAPTURED, FAILED, UNSUPPORTED, capture
from lanemap.capture.simulate import SimulatedWarp
from lanemap.db.errors import LanemapError
from lanemap.db.instructions import DENSE_FORMS, FORMS, SPARSE_FORMS

BY_MNEMONIC = {each.mnemonic: each for each in FORMS}


class Error(Exception):
    pass


def interpret(kernel, arguments, threads, width, memory, multiply):
    """Runs the few PTX operations of our kernels for all threads at once, on a flat memory."""
    names = re.findall(r"\.param \.u\d+ (\w+)", kernel)
    parameters = dict(zip(names, arguments, strict=True))
    thread = np.arange(threads)
    registers = {"%tid.x": thread % width, "%ctaid.x": thread // width, "%ntid.x": np.full(threads, width)}

    def value(operand):
        return registers[operand] if operand.startswith("%") else int(operand, 0)

    def places(address, bits):
        base, _, offset = address.strip("[]").partition(" + ")
        start = registers[base] + int(offset or 0)
        assert (start % (bits // 8) == 0).all()
        return start[:, None] + np.arange(bits // 8)

    def load(address, bits):
        return np.ascontiguousarray(memory[places(address, bits)]).view(f"u{bits // 8}").ravel().astype(np.int64)

    for line in re.findall(r"^    (?!\.)(.*);$", kernel, re.MULTILINE):
        operation, _, rest = line.partition(" ")
        operands = re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", rest)
        bits = int(re.search(r"\d*$", operation)[0] or 0)
        if operation == "ret":
            return
        if operation.startswith("@"):
            going_on = ~registers[operation[1:]]
            registers = {name: held[going_on] for name, held in registers.items()}
        elif operation.startswith("mma"):
            vectors = [re.findall(r"%\w+", each) for each in operands]
            roles = dict(zip("DABC", vectors, strict=False)) | ({"E": vectors[4]} if len(vectors) > 4 else {})
            size = np.uint64 if operation.endswith("f64") else np.uint32
            words = {
                role: np.stack([registers[name].astype(size).reshape(-1, 32) for name in roles[role]], axis=1)
                for role in roles.keys() - {"D"}
            }
            selector = int(operands[5]) if len(operands) > 4 else None
            result = multiply(operation, selector, words)
            for number, name in enumerate(roles["D"]):
                registers[name] = result[:, number].ravel().astype(np.int64)
        elif operation.startswith("st.global"):
            held = np.ascontiguousarray(registers[operands[1]].astype(f"u{bits // 8}"))
            at = places(operands[0], bits)
            assert (memory[at].view("u4") == 0xDEADBEEF).all()
            memory[at] = held.view(np.uint8).reshape(at.shape)
        elif operation == "ld.global.v4.u32":
            for number, name in enumerate(re.findall(r"%\w+", operands[0])):
                address = f"{operands[1]} + {4 * number}".replace("]", "")
                registers[name] = load(address, 32)
        elif operation.startswith("ld.global"):
            registers[operands[0]] = load(operands[1], bits)
        elif operation.startswith("ld.param"):
            registers[operands[0]] = np.full(len(registers["%tid.x"]), parameters[operands[1].strip("[]")])
        else:
            result, a, *more = operands[0], *map(value, operands[1:])
            match operation, more:
                case "mov.u32" | "mov.b32", []:
                    registers[result] = a + 0 * registers["%tid.x"]
                case "and.b32", [b]:
                    registers[result] = a & b
                case "shr.u32", [b]:
                    registers[result] = a >> b
                case "setp.ge.u32", [b]:
                    registers[result] = a >= b
                case "mad.lo.u32" | "mad.wide.u32", [b, c]:
                    registers[result] = a * b + c
                case _:
                    raise AssertionError(line)


class StandIn(ModuleType):
    """What the device uses of pycuda.driver, one GPU with one flat memory."""

    Error = Error

    def __init__(self, table, capability=(9, 0), count=1):
        super().__init__("pycuda.driver")
        self.warp = SimulatedWarp(table)
        self.memory = np.zeros(1 << 24, np.uint8)
        self.free_from = 4096
        self.contexts = 0
        self.open_contexts = 0
        self.loads: list[str] = []
        self.broken = False
        self.fail_launch_of = None
        self.fail_load_of = None
        self.Device = lambda _: SimpleNamespace(
            name=lambda: "NVIDIA H200", compute_capability=lambda: capability, make_context=self.make_context
        )
        self.Device.count = lambda: count

    def init(self):
        pass

    def get_driver_version(self):
        return 13000

    def make_context(self):
        self.contexts += 1
        self.open_contexts += 1
        self.broken = False

        def detach():
            self.open_contexts -= 1

        return SimpleNamespace(detach=detach)

    def check(self):
        assert self.open_contexts == 1
        if self.broken:
            raise Error("an illegal memory access was encountered")

    def module_from_buffer(self, text):
        self.check()
        assert text.endswith(b"}\n\0")
        text = text[:-1].decode()
        (mnemonic,) = set(re.findall(r"^ +(mma\S+) ", text, re.MULTILINE))
        if mnemonic == self.fail_load_of:
            raise Error("cuModuleLoadDataEx failed: a PTX JIT compilation failed - ptxas\n  line 9; fatal\0")
        self.loads.append(mnemonic)

        def get_function(name):
            kernel = next(each for each in text.split(".visible .entry ")[1:] if each.startswith(f"{name}("))

            def prepare(parameters):
                assert parameters == "PPPPPPI"
                return SimpleNamespace(prepared_timed_call=lambda *rest: self.launch(mnemonic, kernel, *rest))

            return SimpleNamespace(prepare=prepare)

        return SimpleNamespace(get_function=get_function)

    def launch(self, mnemonic, kernel, grid, block, *arguments):
        self.check()
        assert {type(each) for each in arguments} == {int}
        assert all(each % 256 == 0 for each in arguments[:-1])
        assert (block[1:], grid[1:]) == ((1, 1), (1,))
        if mnemonic == self.fail_launch_of:
            self.broken = True
            return self.check
        interpret(kernel, arguments, grid[0] * block[0], block[0], self.memory, self.multiply)
        return lambda: 2e-3

    def multiply(self, mnemonic, selector, words):
        """D of one instruction in many warps, from the words of its operands."""
        patterns, picks = {}, np.zeros((len(words["A"]), 4), np.uint32)
        for number, role in enumerate("ABCE"):
            if role in words:
                patterns[role], which = np.unique(words[role], axis=0, return_inverse=True)
                picks[:, number] = which.ravel()
        return self.warp.run(BY_MNEMONIC[mnemonic], selector, Probes(patterns, picks)).words

    def mem_alloc(self, size):
        self.check()
        start, self.free_from = self.free_from, self.free_from + -(-size // 256) * 256
        if self.free_from > len(self.memory):
            self.memory = np.concatenate([self.memory, np.zeros(self.free_from, np.uint8)])
        return start

    def memcpy_htod(self, address, array):
        self.check()
        self.memory[address : address + array.nbytes] = array.view(np.uint8)

    def memset_d32(self, address, value, count):
        self.memory[address : address + 4 * count].view(np.uint32)[:] = value

    def pagelocked_empty(self, shape, of_type):
        self.check()
        return np.empty(shape, of_type)

    def memcpy_dtoh(self, array, address):
        self.check()
        array[:] = self.memory[address : address + array.nbytes]


@pytest.fixture
def driver(complete, monkeypatch):
    stand_in = StandIn(complete)
    monkeypatch.setattr(importlib, "import_module", lambda _: stand_in)
    return stand_in


def test_a_gpu_gives_what_the_simulated_warp_gives(driver, documented, complete):
    some = [
        DENSE_FORMS[0],
        DENSE_FORMS[1],
        DENSE_FORMS[8],
        DENSE_FORMS[11],
        DENSE_FORMS[30],
        DENSE_FORMS[32],
        *SPARSE_FORMS[:1],
        *SPARSE_FORMS[6:7],
    ]
    with cuda.Gpu() as gpu:
        source = capture(gpu, documented, some)
    assert source.name == "h200-sm_90a"
    assert [each["status"] for each in source.provenance["instructions"]] == [CAPTURED] * len(some)
    assert all(each.digest == complete[each.key].digest for each in source.fragments)
    assert driver.loads == [each.mnemonic for each in some]
    assert (driver.contexts, driver.open_contexts) == (1, 0)
    assert source.provenance["gpu_seconds"] > 0
    device = source.provenance["device"]
    assert (device["compute_capability"], device["cuda_version"], device["target"]) == ("9.0", "13.0", "sm_90a")


def test_a_failed_launch_gets_the_next_instruction_a_new_context(driver, documented):
    driver.fail_launch_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:
        source = capture(gpu, documented, DENSE_FORMS[8:11])
    results = source.provenance["instructions"]
    assert [each["status"] for each in results] == [CAPTURED, FAILED, CAPTURED]
    assert results[1]["message"] == f"{DENSE_FORMS[9]}: the launch failed: an illegal memory access was encountered"
    assert (driver.contexts, driver.open_contexts) == (2, 0)


def test_a_lost_gpu_fails_the_rest_with_its_reason(driver, documented):
    driver.fail_launch_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:

        def no_context():
            raise Error("the device was lost")

        gpu._gpu.make_context = no_context
        results = capture(gpu, documented, DENSE_FORMS[8:12]).provenance["instructions"]
    assert [each["status"] for each in results] == [CAPTURED, FAILED, FAILED, FAILED]
    assert results[3]["message"].endswith("the GPU gives no context: the device was lost")
    assert driver.open_contexts == 0


def test_a_kernel_that_does_not_load_is_unsupported_with_the_drivers_message(driver, documented):
    driver.fail_load_of = str(DENSE_FORMS[9])
    with cuda.Gpu() as gpu:
        results = capture(gpu, documented, DENSE_FORMS[8:11]).provenance["instructions"]
    assert [each["status"] for each in results] == [CAPTURED, UNSUPPORTED, CAPTURED]
    assert results[1]["message"].endswith("a PTX JIT compilation failed - ptxas line 9; fatal")


def test_the_context_is_released_on_an_interrupt(driver, documented):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), cuda.Gpu() as gpu:
        capture(gpu, documented, DENSE_FORMS, interrupt)
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
    with pytest.raises(LaunchFailed, match="the GPU gives no context: out of memory"):
        cuda.Gpu()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'pycuda'", name="pycuda"),
            r'pip install "lanemap\[capture\]", which needs',
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
