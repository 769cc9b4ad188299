"""Every verdict is what its definition says, neither a false agreement nor a false accusation.

``judge`` says what the definition is. Beside the operands of ``test_verdicts`` there are operands in memory, block
scales of several sizes at once, matrices of bytes, products renumbered each in its own way, and unknown instructions.
"""

from collections import Counter
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import settings

from lanemap.db.compare.verdict import compare

from ..modes import LONG
from .judge import judged
from .test_verdicts import CAPTURED, DOCUMENTED, POOLS, axes, corrupted, pooled_case, renumbered


def of(source, *keys):
    return [one for one in source if one.key[:2] in keys]


HALVES = of(DOCUMENTED, ("mma", "m16n8k16"))
#: One or several instructions of a shape; ``None`` is one of ``POOLS``, made there.
WIDE = dict.fromkeys(POOLS) | {
    "scales": of(DOCUMENTED, ("mma", "m16n8k64")),
    "scales of bytes": of(DOCUMENTED, ("mma", "m16n8k32")),
    "sparse scales": of(DOCUMENTED, ("mma.sp", "m16n8k128")),
    "bytes": of(DOCUMENTED, ("ldmatrix", "m8n16"), ("ldmatrix", "m16n16"), ("stmatrix", "m16n8")),
    "quad pairs": of(DOCUMENTED, ("mma", "m8n8k4")),
    "shared memory": of(DOCUMENTED, ("wgmma", "m64n8k16")) + of(CAPTURED, ("wgmma", "m64n8k16")),
    "sparse and memory": of(DOCUMENTED, ("wgmma.sp", "m64n8k32")) + of(CAPTURED, ("wgmma.sp", "m64n8k32")),
    "Tensor Memory and memory": of(DOCUMENTED, ("tcgen05.mma", "m128n8k16")),
    "moved in registers": of(CAPTURED, ("movmatrix", "m8n8")),
    "vendors": [
        replace(one, instruction=name)
        for name in ("theirs", "v_mfma_f32_16x8x16_f16", "dpas", "mma")
        for one in HALVES
        if name == "mma" or (one.role, one.type) in {("A", "f16"), ("B", "f16"), ("C", "f32"), ("D", "f32")}
    ],
}


def order(extent, generator):
    """A permutation of an axis: of all numbers, of whole blocks, within blocks, or a bit exchanged."""
    kind, block = generator.integers(4), int(2 ** generator.integers(0, 6))
    if kind == 0 or extent % block:
        return generator.permutation(extent)
    if kind == 1:
        return (generator.permutation(extent // block)[:, None] * block + np.arange(block)).ravel()
    if kind == 2:
        return np.concatenate([start + generator.permutation(block) for start in range(0, extent, block)])
    return np.arange(extent) ^ (block if extent >= 2 * block and extent & (extent - 1) == 0 else 0)


def follows(scales, k, generator):
    """Where block scales go if K goes there, if as whole blocks; mostly."""
    of_block = k.reshape(scales, -1) // (len(k) // scales)
    alike = (of_block == of_block[:, :1]).all() and generator.random() < 0.9
    return of_block[:, 0] if alike else np.arange(scales)


def moved(fragment, way, generator):
    """The fragment renumbered, or one of its computations alone."""
    table = fragment.elements
    for axis, extent in zip(axes(fragment), fragment.dimensions, strict=True):
        named = "k" if axis == "s" else axis
        if named in way and (axis == "s" or len(way[named]) == extent):
            to = follows(extent, way["k"], generator) if axis == "s" else way[named]
            table = renumbered(replace(fragment, elements=table), {axis: to}).elements
    if "computation" in way and len(way["computation"]) == fragment.computations:
        one = replace(fragment, elements=table)
        table = renumbered(one, {"computation": way["computation"]}).elements
    if "only" in way:
        elsewhere = fragment.elements["computation"] != way["only"]
        table = np.where(elsewhere, fragment.elements, table)
    return replace(fragment, elements=table)


def wide_case(fragments, generator):
    """Both sides, with few or most of the operands, renumbered in one or two ways or not, and some of them changed."""
    lacking = generator.choice([0, 0.1, 0.4])
    types = {one.type for one in fragments}
    types = {one for one in sorted(types) if generator.random() < 0.5} or types
    fragments = {one.key: one for one in fragments if one.type in types or generator.random() < 0.2}.values()
    extents, ways = {}, []
    for one in fragments:
        extents |= {axis: extent for axis, extent in zip(axes(one), one.dimensions, strict=True) if axis not in "s1"}
    computations = max((one.computations for one in fragments), default=1)
    for _ in range(2):
        way = {axis: order(extent, generator) for axis, extent in extents.items() if generator.random() < 0.4}
        if computations > 1 and generator.random() < 0.3:
            way["computation"] = generator.permutation(computations)
        elif computations > 1 and generator.random() < 0.3:
            way["only"] = generator.integers(1, computations + 1)
        ways.append(way)
    torn, cards, left, right = generator.random() < 0.3, generator.random() < 0.2, [], []
    for one in fragments:
        way = ways[int(torn and generator.random() < 0.3)] if generator.random() < 0.95 else {}
        for side, made in ((left, one), (right, moved(one, way, generator))):
            if generator.random() < 0.03:
                made = corrupted(made, generator)
            if generator.random() < 0.03:
                halved = made.first_bit in (None, 0) and generator.random() < 0.5
                made = replace(made, **({"slots": 2 * made.slots} if halved else {"register_bits": 64}))
            if generator.random() < 0.03:
                made = replace(made, first_bit=None)
            if generator.random() >= lacking:
                side.append(replace(made, source=f"card {generator.integers(2) if cards else 0}"))
    return left, right


def as_wide(left, right):
    """Whether windows of columns have the widths of the other side; else one may refine the other."""
    theirs = {one.key: one.elements for one in right}
    for one in left:
        if one.windowed and one.key in theirs:
            sides = [{row[:3]: row[5] - row[4] for row in table.tolist()} for table in (one.elements, theirs[one.key])]
            if any(sides[0][place] != sides[1][place] for place in sides[0].keys() & sides[1].keys()):
                return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_verdict_is_what_its_definition_says(seed):
    generator, verdicts, names = np.random.default_rng(seed), Counter(), [*WIDE]
    for at in count():
        name = names[at % len(names)]
        left, right = wide_case(WIDE[name], generator) if WIDE[name] else pooled_case(name, generator)[:2]
        if not as_wide(left, right):
            continue
        found = {result.key: result for result in compare(left, right)}
        expected = judged(left, right)
        for key, result in found.items():
            assert result.verdict == expected[key], (name, at, seed, key)
        assert found.keys() == expected.keys()
        verdicts.update(result.verdict for result in found.values())
        if verdicts.total() >= (50_000 if LONG else 40 * settings().max_examples):
            break
    print(dict(verdicts))
    assert min(map(verdicts.__getitem__, ("identical", "relabelled", "different"))) > verdicts.total() / 20
