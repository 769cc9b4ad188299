"""What descriptors read, measured on simulated shared memory: the layout comes out that the memory has."""

import numpy as np
import pytest

from lanemap.capture import shared, values
from lanemap.capture.device import Bench, Contradiction, Output
from lanemap.capture.kernels import POISON, module_text
from lanemap.db.isa.instructions import INSTRUCTIONS, tile
from lanemap.db.isa.shared import Fields
from lanemap.db.layout.shared import places
from lanemap.db.layout.shared import shared as expected

from .. import forms
from ..shared_memory import addressed, memory
from .tables import at_random
from .test_ptx import ptxas

#: Of each type the least, a middle and the greatest width.
FORMS = [
    form
    for form in forms.WARPGROUP
    if form.a == form.b and form.a != "b1" and form.d != "f16" and form.dimensions[1] in (8, 64)
]


class SharedMemory:
    """Runs the kernels of ``shared``: each element of the measured operand is read where its descriptor says.

    ``wrong`` changes the bit of an element that is read.
    """

    def __init__(self, form, wrong=lambda bit, mn, k: bit):
        self.d = at_random([form])[form.key("D")]
        self.wrong = wrong

    def run(self, kernel, probes):
        form, (role, major) = kernel.form, kernel.called.split("_")
        bits, (m, n, k) = values.memory_bits(form), form.dimensions
        chosen = dict(zip((port.name for port in kernel.inputs), probes.picks.T, strict=True))
        depth = k // 2 if form.sparse and role == "A" else k
        words = probes.patterns["descriptor"][:, :, 0].astype(object)
        at = np.array(
            [
                [
                    [self.wrong(addressed(int(low) | int(high) << 32, major, bits, mn, k), mn, k) for k in range(depth)]
                    for mn in range(m if role == "A" else n)
                ]
                for low, high in words
            ]
        )
        codes = values.from_bytes(probes.patterns["memory"], bits)
        held = values.decode(form.a, bits, codes)[chosen["memory"][:, None, None], at[chosen["descriptor"]] // bits]
        other = values.read_memory(form, "BA"["AB".index(role)], probes.patterns["identity"])[chosen["identity"]]
        a, b = (held, other) if role == "A" else (other, held)
        if form.sparse:
            vectors = probes.patterns["E"][chosen["E"], 0, 0] & 0xF
            stored, a = a, np.zeros((len(a), m, k))
            for vector in form.sparsity.indices:
                cols = [
                    chunk * form.sparsity.width + index * form.sparsity.group
                    for chunk in range(k // form.sparsity.width)
                    for index in form.sparsity.indices[vector]
                ]
                mine = vectors == vector
                a[np.ix_(mine, range(m), cols)] = stored[mine]
        product = a @ b.swapaxes(1, 2)
        return Output(values.write_registers(form.operand("D"), values.gather(product[:, None], self.d)), 0.0)


@pytest.mark.few(4)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_layout_in_memory_comes_out(form):
    device = SharedMemory(form)
    measured = shared.measure_shared(Bench(device, form), device.d)
    kinds = {(fragment.role, fragment.qualifiers) for fragment in measured}
    stated = form.instruction.patterns(values.memory_bits(form))
    stated = [name for name in stated if not (form.sparse and name == "32B.K")]
    assert {(role, name) for role in shared.roles(form) for name in stated} <= kinds
    for fragment in measured:
        bits = memory(*fragment.tile)[0]
        of = tile(fragment.key)
        found = np.array([[bits[mn, k] for k in range(of.k)] for mn in range(of.mn)])
        assert np.array_equal(fragment.elements, expected(fragment.key, found))
        assert np.array_equal(found, places(of))


def form_of(*facts):
    return next(form for form in forms.WARPGROUP if (form.name, form.shape, form.a, form.b, form.d) == facts)


F16 = form_of("wgmma", "m64n64k16", "f16", "f16", "f32")


@pytest.mark.parametrize("base", [0, 3])
@pytest.mark.parametrize("start", [0, 16, 1024 + 128])
@pytest.mark.parametrize("qualifiers", INSTRUCTIONS["wgmma"].patterns(16))
def test_a_descriptor_is_read_field_by_field(qualifiers, start, base):
    device = SharedMemory(F16)
    mode, major = qualifiers.split(".")
    reading = shared.DescriptorReading("B", major, Fields(mode, 304, 528, start, base))
    (found,) = shared.read(Bench(device, F16), device.d, [reading])
    code = {"none": 0, "128B": 1, "64B": 2, "32B": 3}[mode]
    word = start >> 4 | 304 >> 4 << 16 | 528 >> 4 << 32 | base << 49 | code << 62
    assert found.tolist() == [[addressed(word, major, 16, mn, k) for k in range(16)] for mn in range(64)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda bit, mn, k: 0, "does not read each of its elements from a place of its own"),
        (lambda bit, mn, k: bit + 8 * 16384, "does not read each of its elements from a place of its own"),
    ],
)
def test_memory_that_holds_two_elements_in_a_place_is_refused(wrong, said):
    device = SharedMemory(F16, wrong)
    with pytest.raises(Contradiction, match=said):
        shared.measure_shared(Bench(device, F16), device.d)


def test_registers_that_are_not_written_are_noticed():
    device = SharedMemory(F16)

    def run(kernel, probes):
        return Output(np.full((len(probes.picks), kernel.output.registers, 128), POISON, np.uint32), 0.0)

    device.run = run
    with pytest.raises(Contradiction, match="did not write D"):
        shared.measure_shared(Bench(device, F16), device.d)


def test_every_kernel_assembles(tmp_path):
    kernels = [kernel for form in FORMS for kernel in shared.kernels(form)]
    assert len({kernel.entry for kernel in kernels}) == len(kernels)
    done = ptxas(module_text(kernels, "sm_90a"), "sm_90a", tmp_path)
    assert done.returncode == 0, done.stderr[:2000]
