"""A stand-in for PyCUDA, which interprets the kernels' PTX for all threads at once on a flat memory.

What a tensor core does is left to a model of a group of threads, once for each instruction: what registers and what
shared memory it is given, and where its results go, is what the text of the kernel says.
"""

from __future__ import annotations

import re
from types import ModuleType, SimpleNamespace

import numpy as np

from lanemap.capture import values
from lanemap.capture.device import Probes
from lanemap.capture.kernels import in_registers, kernels

from ..forms import CAPTURED
from .group import SimulatedGroup

FORMS = {form.mnemonic: form for form in CAPTURED}
IGNORED = ("bar.sync", "fence.proxy", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")


class Error(Exception):
    pass


class Run:
    """One launch: registers by name, an array over all threads, and the shared memory of each block."""

    def __init__(self, text, arguments, blocks, threads, memory, group):
        self.text, self.memory, self.group = text, memory, group
        self.blocks, self.threads = blocks, threads
        names = re.findall(r"\.param \.u\d+ (\w+)", text)
        self.parameters = dict(zip(names, arguments, strict=True))
        thread = np.arange(blocks * threads)
        self.block = thread // threads
        self.registers = {"%tid.x": thread % threads, "%ctaid.x": self.block}
        self.symbols, end = {}, 1024
        for alignment, name, size in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]", text):
            assert end % int(alignment) == 0
            self.symbols[name], end = end, end + int(size)
        self.shared = np.zeros((blocks, end), np.uint8)

    def __call__(self):
        for line in re.findall(r"^    (?!\.)(.*);$", self.text, re.MULTILINE):
            operation, _, rest = line.partition(" ")
            operands = re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+", rest)
            if operation == "ret":
                return
            if operation.startswith(IGNORED):
                continue
            if operation in FORMS:
                self.tensor(operation, operands)
            elif operation.startswith(("st.", "ld.")):
                self.move(operation, operands)
            else:
                self.compute(operation, operands)

    def value(self, operand):
        if operand in self.symbols:
            return self.symbols[operand]
        return self.registers[operand] if operand.startswith("%") else int(operand, 0)

    def each(self, operand):
        return re.findall(r"%\w+", operand)

    def places(self, address, size):
        base, _, offset = address.strip("[]").partition(" + ")
        start = self.registers[base] + int(offset or 0)
        assert (start % size == 0).all()
        return start[:, None] + np.arange(size)

    def move(self, operation, operands):
        bits = int(re.search(r"\d*$", operation)[0])
        registers = self.each(operands[0] if operation.startswith("ld") else operands[1])
        if operation.startswith("ld.param"):
            self.registers[registers[0]] = np.full(len(self.block), self.parameters[operands[1].strip("[]")])
            return
        size = bits // 8 * len(registers)
        at = self.places(operands[1] if operation.startswith("ld") else operands[0], size)
        space = self.memory if ".global" in operation else self.shared
        index = at if ".global" in operation else (self.block[:, None], at)
        if operation.startswith("ld"):
            words = np.ascontiguousarray(space[index]).view(f"u{bits // 8}")
            for number, name in enumerate(registers):
                self.registers[name] = words[:, number].astype(np.int64)
        else:
            held = np.stack([self.registers[name].astype(f"u{bits // 8}") for name in registers], axis=1)
            if ".global" in operation:
                assert (space[index].view("u4") == 0xDEADBEEF).all()
            space[index] = np.ascontiguousarray(held).view(np.uint8)

    def compute(self, operation, operands):
        result, a, *more = operands[0], *operands[1:]
        zero = 0 * self.block
        if operation == "mov.b64":
            low, high = re.findall(r"[^{},\s]+", a)
            self.registers[result] = self.value(low) | self.value(high) << 32
            return
        a, *more = (self.value(operand) for operand in (a, *more))
        match operation, more:
            case "mov.u32" | "mov.b32", []:
                found = a
            case "and.b32", [b]:
                found = a & b
            case "or.b64", [b]:
                found = a | b
            case "add.u32", [b]:
                found = a + b
            case "shr.u32", [b]:
                found = a >> b
            case "setp.ne.u32", [b]:
                found = a != b
            case "setp.eq.u32", [b]:
                found = a == b
            case "mad.lo.u32" | "mad.wide.u32", [b, c]:
                found = a * b + c
            case _:
                raise AssertionError(operation)
        self.registers[result] = found + zero

    def words(self, operand, of_type=np.uint32):
        """Registers as an array (blocks, registers, threads)."""
        shape = (self.blocks, self.threads)
        return np.stack([self.registers[name].astype(of_type).reshape(shape) for name in self.each(operand)], axis=1)

    def put(self, operand, words):
        for number, name in enumerate(self.each(operand)):
            self.registers[name] = words[:, number].ravel().astype(np.int64)

    def simulate(self, form, patterns, selector=None):
        kernel = next(one for one in kernels(form) if one.selector == selector)
        distinct, picks = {}, np.zeros((self.blocks, len(kernel.inputs)), np.uint32)
        for number, port in enumerate(kernel.inputs):
            pattern, numbers = patterns[port.name], {}
            picks[:, number] = [numbers.setdefault(array.tobytes(), len(numbers)) for array in pattern]
            distinct[port.name] = pattern[np.unique(picks[:, number], return_index=True)[1]]
        return self.group.run(kernel, Probes(distinct, picks)).data

    def tensor(self, operation, operands):
        form = FORMS[operation]
        if form.role:
            self.matrices(form, operands)
        elif form.name.startswith("wgmma"):
            self.warpgroup(form, operands)
        else:
            wide = np.uint64 if form.d == "f64" else np.uint32
            patterns = {role: self.words(operand, wide) for role, operand in zip("ABC", operands[1:], strict=False)}
            if form.sparse:
                patterns["E"] = self.words(operands[4])
            self.put(operands[0], self.simulate(form, patterns, int(operands[5]) if form.sparse else None))

    def warpgroup(self, form, operands):
        d, a, b, *rest = operands
        source, (first, *_) = None, form.selectors
        patterns = {
            "shared_A": np.zeros((self.blocks, values.memory_size(form, "A")), np.uint8),
            "shared_B": self.described(form, "B", b),
        }
        empty = np.zeros((self.blocks, form.operand("A").registers, self.threads), np.uint32)
        patterns |= dict.fromkeys(in_registers(form), empty)
        if form.sparse:
            patterns["E"] = self.words(rest.pop(0))
            selector = int(rest.pop(0))
        else:
            selector = None
        if a.startswith("{"):
            source = next(name for name, number in in_registers(form).items() if number == selector)
            patterns[source] = self.words(a)
        else:
            assert selector == first
            patterns["shared_A"] = self.described(form, "A", a)
        scales = ["1", "1"] if form.d != "s32" else []
        turns = (["0"] if source else ["0", "0"]) if form.a in ("f16", "bf16") else []
        assert rest[1:] == scales + turns
        result = values.read_registers(form.operand("D"), self.simulate(form, patterns))
        (adds,) = set(self.registers[rest[0]].tolist())
        if adds:
            result = result + values.read_registers(form.operand("D"), self.words(d))
        self.put(d, values.write_registers(form.operand("D"), result))

    def described(self, form, role, register):
        """The bytes that a matrix descriptor names, core matrix by core matrix."""
        (descriptor,) = set(self.registers[register].tolist())
        start, along, across = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        assert descriptor == start >> 4 | along >> 4 << 16 | across >> 4 << 32
        group, core, byte = np.indices((values.extents(form, role)[0] // 8, values.memory_size(form, role) // 16, 128))
        cores = values.memory_size(form, role) // values.extents(form, role)[0] // 16
        group, core, byte = group[:, :cores], core[:, :cores], byte[:, :cores]
        return self.shared[:, (start + group * across + core * along + byte).ravel()]

    def matrices(self, form, operands):
        if form.name == "movmatrix":
            both = self.simulate(form, {"memory": self.taken})
            assert np.array_equal(self.words(operands[1]), both[:, :1])
            self.put(operands[0], both[:, 1:])
        elif form.stores:
            wide = np.uint64 if form.a == "f64" else np.uint32
            found = self.simulate(form, self.given(form, operands[0]) | {"r": self.words(operands[1], wide)})
            self.shared[:, self.start : self.start + found.shape[1]] = found
            if form.name == "wmma":
                assert operands[2] == str(values.extents(form, form.role)[1])
        else:
            if form.name == "wmma":
                assert operands[2] == str(values.extents(form, form.role)[1])
            given = self.given(form, operands[1])
            size = values.memory_size(form, form.role)
            self.taken = np.array(self.shared[:, self.start : self.start + size])
            self.put(operands[0], self.simulate(form, given | {"memory": self.taken}))

    def given(self, form, address):
        """The addresses of rows relative to the matrix in memory, which starts at ``start``."""
        self.start = min(self.symbols.values())
        at = self.registers[address.strip("[]")].reshape(self.blocks, 1, self.threads)
        if form.name == "wmma":
            assert (at == self.start).all()
            return {}
        return {"p": (at - self.start).astype(np.uint32)}


class StandIn(ModuleType):
    """What the device uses of pycuda.driver, one GPU with one flat memory."""

    Error = Error
    jit_option = SimpleNamespace(OPTIMIZATION_LEVEL="optimization level")

    def __init__(self, table, capability=(9, 0), count=1):
        super().__init__("pycuda.driver")
        self.group = SimulatedGroup(table)
        self.memory = np.zeros(1 << 24, np.uint8)
        self.free_from = 4096
        self.allocated: list[range] = []
        self.contexts = 0
        self.primary = 0
        self.open_contexts = 0
        self.loads: list[list[str]] = []
        self.broken = False
        self.fail_launch_of = None
        self.fail_load_of = None
        self.Device = lambda _: SimpleNamespace(
            name=lambda: "NVIDIA H200",
            compute_capability=lambda: capability,
            make_context=self.make_context,
            retain_primary_context=self.retain_primary_context,
        )
        self.Device.count = lambda: count
        self.Context = SimpleNamespace(pop=self.pop)

    def init(self):
        pass

    def get_driver_version(self):
        return 13000

    def retain_primary_context(self):
        self.primary += 1
        return SimpleNamespace(push=self.make_context, detach=self.pop)

    def make_context(self):
        self.contexts += 1
        self.open_contexts += 1
        self.broken = False

        return SimpleNamespace(detach=self.pop)

    def pop(self):
        if not self.open_contexts:
            raise Error("cannot pop non-current context")
        self.open_contexts -= 1

    def check(self):
        assert self.open_contexts == 1
        if self.broken:
            raise Error("an illegal memory access was encountered")

    def module_from_buffer(self, text, options):
        self.check()
        assert options == [("optimization level", 1)]
        assert text.endswith(b"}\n\0")
        entries = text[:-1].decode().split(".visible .entry ")[1:]
        mnemonics = [re.findall(r"^    (\S+) ", entry, re.MULTILINE) for entry in entries]
        if self.fail_load_of is not None and any(f"    {self.fail_load_of} " in entry for entry in entries):
            raise Error("cuModuleLoadDataEx failed: a PTX JIT compilation failed - ptxas\n  line 9; fatal\0")
        self.loads.append(sorted({line for lines in mnemonics for line in lines if line in FORMS}))

        def get_function(name):
            kernel = next(entry for entry in entries if entry.startswith(f"{name}("))
            function = SimpleNamespace()

            def prepare(parameters):
                assert parameters == "P" * kernel.count(".param .u64")
                function.prepared_timed_call = lambda *rest: self.launch(kernel, *rest)
                return function

            function.prepare = prepare
            return function

        return SimpleNamespace(get_function=get_function)

    def launch(self, kernel, grid, block, *arguments):
        self.check()
        assert {type(argument) for argument in arguments} == {int}
        assert all(argument % 256 == 0 for argument in arguments)
        assert (block[1:], grid[1:]) == ((1, 1), (1,))
        if self.fail_launch_of is not None and f"    {self.fail_launch_of} " in kernel:
            self.broken = True
            return self.check
        Run(kernel, arguments, grid[0], block[0], self.memory, self.group)()
        return lambda: 2e-3

    def mem_alloc(self, size):
        self.check()
        start, self.free_from = self.free_from, self.free_from + -(-size // 256) * 256
        if self.free_from > len(self.memory):
            self.memory = np.concatenate([self.memory, np.zeros(self.free_from, np.uint8)])
        self.allocated.append(range(start, start + size))
        return start

    def check_place(self, address, size):
        self.check()
        assert any(address in buffer and address + size - 1 in buffer for buffer in self.allocated)

    def memcpy_htod(self, address, array):
        self.check_place(address, array.nbytes)
        self.memory[address : address + array.nbytes] = array.view(np.uint8)

    def memset_d32(self, address, value, count):
        self.check_place(address, 4 * count)
        self.memory[address : address + 4 * count].view(np.uint32)[:] = value

    def memcpy_dtoh(self, array, address):
        self.check()
        array.reshape(-1)[:] = self.memory[address : address + array.nbytes]
