"""What a matrix descriptor reads: which place in shared memory each element of an operand comes from.

The memory that a descriptor names is filled with the numbers of its places, from 1, and the other operand is an
identity, so D shows the number of the place of each element. Narrow elements hold no large numbers: these are written
digit by digit, a pattern for each.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..db.isa.forms import Form
from ..db.isa.instructions import WARPGROUP, tile
from ..db.isa.shared import Fields, descriptor, pattern
from ..db.layout.algebra import Array
from ..db.layout.fragment import Fragment
from ..db.layout.shared import read as predicted
from ..db.layout.shared import shared
from .device import Bench, Contradiction, Probes, expect_written
from .kernels import Kernel, Port, descriptor_lines, operand_port
from .values import encode, extents, memory_bits, memory_size, places, read_registers, to_bytes, write_memory

#: Bytes of memory that a probe can show.
AREA = 32 << 10


class DescriptorReading(NamedTuple):
    """A descriptor to measure: of which operand, along what its lines run, and its fields."""

    role: str
    major: str
    fields: Fields


@cache
def kernel(form: Form, role: str, major: str) -> Kernel:
    """One product of a warpgroup whose operand of a role is read by a descriptor that is an input."""
    other = "AB"["BA".index(role)]
    inputs = [
        Port("memory", bytes=AREA, align=1024),
        Port("identity", bytes=memory_size(form, other)),
        Port("descriptor", 2),
        *([operand_port(form.operand("E"))] if form.sparse else []),
    ]
    output = operand_port(form.operand("D"))
    named = {role: "%measured", other: "%other"}
    chosen = f", %E0, {form.selectors[0]}" if form.sparse else ""
    scales = "" if form.d == "s32" else ", 1, 1"
    turned = (
        "".join(f", {int(operand == role and major == 'MN')}" for operand in "AB") if memory_bits(form) == 16 else ""
    )
    lines = [
        ".reg .pred %starts;",
        ".reg .b64 %measured, %other;",
        "setp.ne.u32 %starts, 0, 0;",
        *descriptor_lines(form, other, "%other", "%identity"),
        "shr.u32 %pick, %memory, 4;",
        "add.u32 %pick, %pick, %descriptor0;",
        "mov.b64 %measured, {%pick, %descriptor1};",
        "fence.proxy.async;",
        "bar.sync 0;",
        "wgmma.fence.sync.aligned;",
        f"{form.mnemonic} {output.vector}, {named['A']}, {named['B']}{chosen}, %starts{scales}{turned};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]
    return Kernel(form, tuple(inputs), output, "\n".join(lines), called=f"{role}_{major}")


def kernels(form: Form) -> list[Kernel]:
    """The kernels of a form: for each operand that it can measure and each major-ness.

    Of forms that read the same there is one, and of widths those that are powers of two.
    """
    if form.threads != WARPGROUP or form.a != form.b or form.a == "b1" or form.d == "f16":
        return []
    if form.dimensions[1].bit_count() != 1:
        return []
    majors = dict.fromkeys(pattern(name)[1] for name in form.instruction.patterns(memory_bits(form)))  # type: ignore[index]
    return [kernel(form, role, major) for role in roles(form) for major in majors]


def roles(form: Form) -> str:
    """The operands that a form can measure: A only where N has room for an identity."""
    _, n, k = form.dimensions
    return "AB" if n >= k else "B"


def read(bench: Bench, d: Fragment, readings: Sequence[DescriptorReading]) -> Array:
    """The places that descriptors of one role and major-ness read: an array (readings, mn, k), -1 where nothing.

    A place is a bit of the memory, counted from the start of the area. Of a sparse A there are only stored elements.

    Raises:
        Contradiction: what comes out is no number of a place.
    """
    form, (role, major, _) = bench.form, readings[0]
    bits, chosen = memory_bits(form), kernel(form, role, major)
    digits, memory = _numbers(form.a, bits)
    words = np.array([descriptor(each.fields) for each in readings], np.uint64)
    halves = np.stack([words & 0xFFFFFFFF, words >> np.uint64(32)], axis=1).astype(np.uint32)
    filled = {"memory": memory, "descriptor": np.repeat(halves[:, :, None], form.threads, axis=2)}
    filled["identity"] = write_memory(form, "BA"["AB".index(role)], _identity(form, role))
    vectors = [*form.sparsity.indices]
    if form.sparse:
        filled["E"] = np.tile(0x11111111 * np.array(vectors, np.uint32)[:, None, None], form.threads)
    counts = [len(filled[port.name]) for port in chosen.inputs]
    picks = np.indices(counts).reshape(len(counts), -1).T.astype(np.uint32)
    output = bench.device.run(chosen, Probes(filled, picks))
    expect_written(output.data, "D")
    bench.probes += len(picks)
    bench.gpu_seconds += output.gpu_seconds
    m, n, k = form.dimensions
    _, row, column = places(d)
    shown = read_registers(form.operand("D"), output.data).reshape(len(memory), -1)
    by_slot = ((1 << digits * np.arange(len(memory))).astype(shown.dtype) @ shown).astype(np.int32).reshape(-1, m * n)
    numbers = by_slot[:, np.argsort(row * n + column)].reshape(len(readings), -1, m, n)  # vectors are the second axis
    if (numbers < 0).any() or (numbers > AREA * 8 // bits).any():
        raise Contradiction(f"{role} of {form.shape} shows {numbers.max()}, which is no number of a place")
    if role == "A":
        return _of_a(form, numbers[..., :k]) * bits - bits
    held = np.full((len(readings), n, k), 0)
    for at, vector in enumerate(vectors if form.sparse else [0]):
        cols = _columns(form, vector) if form.sparse else np.arange(k)
        held[:, :, cols] = numbers[:, at, : len(cols)].swapaxes(1, 2)
    return held * bits - bits


@cache
def _numbers(of_type: str, bits: int) -> tuple[int, Array]:
    """How many bits a digit has, and the memory that holds each digit of the number of each place, from 1."""
    digits = 6 if bits >= 16 else 1
    count = AREA * 8 // bits
    number = np.arange(1, count + 1)
    shifts = np.arange(0, count.bit_length(), digits)
    return digits, to_bytes(encode(of_type, bits, number >> shifts[:, None] & (1 << digits) - 1), bits)


def _identity(form: Form, role: str) -> Array:
    """The other operand, with a one for each row of B, or column of A, that D is to show."""
    lines, length = extents(form, "BA"["AB".index(role)])
    return np.eye(lines, length)[None]


def _columns(form: Form, vector: int) -> Array:
    """The column of each stored element of a row of a sparse A, with one vector of metadata everywhere."""
    rule, (_, _, k) = form.sparsity, form.dimensions
    place = np.arange(k // 2)
    chunk, nth = np.divmod(place, rule.fields * rule.group)
    index = np.array(rule.indices[vector])[nth // rule.group]
    return np.asarray(chunk * rule.width + index * rule.group + nth % rule.group)


def _of_a(form: Form, numbers: Array) -> Array:
    """The numbers of the stored elements of A from those that came out at each column, by vector of metadata."""
    if not form.sparse:
        return np.asarray(numbers[:, 0])
    every = [numbers[:, at][..., _columns(form, vector)] for at, vector in enumerate(form.sparsity.indices)]
    for vector, held, whole in zip(form.sparsity.indices, every, np.moveaxis(numbers, 1, 0), strict=True):
        if (held != every[0]).any() or np.count_nonzero(whole) != np.count_nonzero(held):
            raise Contradiction(f"metadata 0x{vector:x} does not only choose columns of A in memory")
    return np.asarray(every[0])


def canonical(form: Form, role: str, qualifiers: str) -> DescriptorReading:
    """The descriptor of the smallest tile that holds an operand."""
    of = tile(form.key(role)._replace(qualifiers=qualifiers))
    assert of is not None
    return DescriptorReading(role, of.major, Fields(of.mode, *of.offsets))


def measure_shared(bench: Bench, d: Fragment) -> list[Fragment]:
    """The fragments of the operands that a form reads from shared memory, by the fragment of its D.

    Raises:
        Contradiction: two elements come from one place, or one from outside the tile.
    """
    fragments, form = [], bench.form
    for role, major, readings in _by_kernel(form):
        for reading, bits in zip(readings, read(bench, d, readings), strict=True):
            key = form.key(role)._replace(qualifiers=f"{reading.fields.mode}.{major}")
            of = tile(key)
            assert of is not None
            taken = np.zeros(of.size * 8, bool)
            taken[bits[(bits >= 0) & (bits < len(taken))]] = True
            if np.count_nonzero(taken) < bits.size:
                raise Contradiction(f"{key} does not read each of its elements from a place of its own in its tile")
            fragments.append(Fragment.of(key, shared(key, bits), "captured"))
    return fragments


def measure_descriptors(bench: Bench, d: Fragment) -> int:
    """Measures descriptors with other fields than a packed tile needs; how many there were.

    Raises:
        Contradiction: one is not read as ``layout.shared.read`` says; names its fields.
    """
    count = 0
    for role, major, readings in _by_kernel(bench.form):
        varied = [replaced for reading in readings for replaced in _varied(bench.form, reading)]
        for reading, bits in zip(varied, read(bench, d, varied) if varied else (), strict=True):
            of = tile(bench.form.key(role)._replace(qualifiers=f"{reading.fields.mode}.{major}"))
            assert of is not None
            if not np.array_equal(bits, predicted(of, reading.fields)):
                raise Contradiction(
                    f"{role} of {bench.form.shape} {major}-major is read in another way by {reading.fields}"
                )
        count += len(varied)
    return count


def varies(form: Form) -> bool:
    """Whether a form measures other descriptors, too: one of each width of elements that memory can number at once."""
    return form.shape in ("m64n64k16", "m64n64k8", "m64n64k32") and form.a in ("f16", "tf32")


def _by_kernel(form: Form) -> Iterator[tuple[str, str, list[DescriptorReading]]]:
    """Role and major-ness of each kernel, and the descriptors of the smallest tiles."""
    for one in kernels(form):
        role, major = one.called.split("_")
        names = [name for name in form.instruction.patterns(memory_bits(form)) if name.endswith(f".{major}")]
        yield role, major, [canonical(form, role, name) for name in names]


def _varied(form: Form, reading: DescriptorReading) -> Iterator[DescriptorReading]:
    """A descriptor with other offsets, start addresses and base offsets, all within the area.

    Of a sparse product only the leading offset of a B that does not fit into its lines: it is like any other otherwise.
    """
    leading, stride = reading.fields[1:3]
    fields: list[dict[str, Any]] = [{"leading": other} for other in (0, 16, 48, 128, 256, 512, 1024, 2 * leading)]
    if not form.sparse:
        fields += [{"stride": other} for other in (0, 16, 48, 128, 256, 512, stride + 16, stride + 128)]
        fields += [{"start": start} for start in (16, 32, 64, 112, 128, 160, 384, 640, 1024, 1152)]
        fields += [{"start": start, "base": base} for start in (0, 128, 256, 1408) for base in range(1, 8)]
    elif (reading.role, reading.fields.mode) != ("B", "32B"):
        return
    for changed in fields:
        yield reading._replace(fields=reading.fields._replace(**changed))
