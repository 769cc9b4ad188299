"""Every verdict is what its definition says, neither a false agreement nor a false accusation.

``judge`` says what the definition is. Beside the operands of ``test_verdicts`` there are operands in memory, block
scales of several sizes at once, matrices of bytes, products renumbered each in its own way, unknown instructions, and
sparse operands that leave columns open or name them, on either side.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations, count

import numpy as np
import pytest
from hypothesis import settings

from lanemap.db.compare.crosscheck import judge
from lanemap.db.compare.verdict import compare
from lanemap.db.layout.fragment import Source

from ..modes import LONG
from .judge import STORED, UndecidedError, judged
from .test_verdicts import (
    CAPTURED,
    DOCUMENTED,
    FAMILIES,
    LIKE,
    POOLS,
    agrees,
    axes,
    corrupted,
    is_product,
    pooled_case,
    renumbered,
    renumbering,
)


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
    "sparse bits": [
        one
        for one in of(CAPTURED, ("mma.sp", "m16n8k64"), ("mma.sp", "m16n8k32"), ("mma.sp", "m16n8k16"))
        if one.type not in ("u8", "u4", "e5m2")
    ],
    # With one E alone, so that metadata seldom contradicts itself.
    "sparse pairs": [one for one in of(CAPTURED, ("mma.sp", "m16n8k64")) if one.type in ("s4", "s32")],
    "sparse chunks": [
        one for one in of(CAPTURED, ("mma.sp", "m16n8k16")) if one.type in ("f16", "f32") and one.selector in (None, 0)
    ],
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


def within(chunk, extent, generator):
    """A permutation of the columns of each chunk that metadata chooses from."""
    if generator.random() < 0.5:
        return np.arange(extent) ^ generator.choice([1, chunk - 1])
    return np.concatenate([start + generator.permutation(chunk) for start in range(0, extent, chunk)])


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


def claim(generator):
    """How a sparse operand leaves its columns open: in its own way, within chunks, in the row, nowhere, or in some."""
    return generator.choice(["own", "chunk", "row", "chosen", "some"], p=[0.1, 0.35, 0.02, 0.48, 0.05])


def claiming(fragment, kind, choices, generator):
    """A sparse operand whose columns are open as ``claim`` says.

    ``choices`` are those of metadata so far, by type, row and chunk, so that A and E may name the same.
    """
    table, width = fragment.elements.copy(), fragment.chunk
    fields, run = STORED[width]
    held = run if fragment.role == "A" else 1
    block = width * int(generator.choice([1, 1, 2]))
    whose = (fragment.shape, fragment.type, fragment.role if generator.random() < 0.05 else "")
    impossible = 0.02 if generator.random() < 0.1 else 0
    every = [*combinations(range(width // run), fields)]
    # In a chunk the elements have the order of their slots.
    order = np.lexsort((table["slot"], table["reg"], table["lane"], table["col"] // width, table["row"]))
    for at, index in enumerate(order.tolist()):
        row, col, last = (int(table[name][index]) for name in ("row", "col", "col_last"))
        start, stored = col // width * width, at % (fields * held)
        if (whose, row, start) not in choices:
            chosen = every[generator.integers(len(every))]
            choices[whose, row, start] = chosen[::-1] if generator.random() < impossible else chosen
        first = start + choices[whose, row, start][stored // held] * run + stored % held
        if kind == "row":
            col, last = 0, fragment.dimensions[1] - 1
        elif kind == "chunk":
            col, last = col // block * block, col // block * block + block - 1
        elif kind == "chosen" or (kind == "some" and generator.random() < 0.5):
            col, last = first, first + run // held - 1
        table["col"][index], table["col_last"][index] = col, last
    if generator.random() < 0.1:  # a window that begins or ends beyond that of the other side
        at, by = generator.integers(len(table)), generator.choice([-1, 1])
        if table["col"][at] + by >= 0 and table["col_last"][at] + by < fragment.dimensions[1]:
            table["col"][at] += by
            table["col_last"][at] += by
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
        if (chunk := max((one.chunk for one in fragments if one.windowed), default=1)) > 1 and generator.random() < 0.3:
            way["k"] = within(chunk, extents["k"], generator)
        ways.append(way)
    torn, cards, left, right = generator.random() < 0.3, generator.random() < 0.2, [], []
    choices = [{}, {}] if generator.random() < 0.3 else [{}] * 2  # both sides may name the columns of one choice
    for one in fragments:
        way = ways[int(torn and generator.random() < 0.3)] if generator.random() < 0.95 else {}
        both = [one, one]
        if one.windowed:
            claims = [claim(generator)] * 2 if generator.random() < 0.4 else [claim(generator) for _ in both]
            both = [claiming(one, kind, some, generator) for kind, some in zip(claims, choices, strict=True)]
        for side, made in ((left, both[0]), (right, moved(both[1], way, generator))):
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


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_verdict_is_what_its_definition_says(seed):
    generator, verdicts, names, undecided = np.random.default_rng(seed), Counter(), [*WIDE], 0
    for at in count():
        name = names[at % len(names)]
        left, right = wide_case(WIDE[name], generator) if WIDE[name] else pooled_case(name, generator)[:2]
        try:
            expected = judged(left, right)
        except UndecidedError:
            undecided += 1
            continue
        found = {result.key: result for result in compare(left, right)}
        for key, result in found.items():
            assert result.verdict == expected[key], (name, at, seed, key)
        assert found.keys() == expected.keys()
        verdicts.update(result.verdict for result in found.values())
        if verdicts.total() >= (50_000 if LONG else 40 * settings().max_examples):
            break
    print(dict(verdicts), undecided)
    assert min(map(verdicts.__getitem__, ("identical", "relabelled", "different"))) > verdicts.total() / 20
    assert verdicts["refined"] > verdicts.total() / 200 > undecided


def several(operands, generator):
    """Right sources, each of which counts rows, columns and depth in its own way, and the layouts of what is claimed.

    A claim is torn where it has each operand as some source does, or as the first that has it.
    """
    ways = [{}, *(renumbering(operands, generator) for _ in range(2))]
    layouts = [{role: renumbered(one, way) for role, one in operands.items()} for way in ways]
    right = [each for each in layouts if agrees(operands, each)]
    lacking, names = generator.choice([0, 0.5]), ["ptx-isa-9.4", "h200-sm_90a", "mine", "other"]
    sources, having = [], {role: [] for role in operands}
    for name in names[: generator.integers(1, 5)]:
        counted = right[generator.integers(len(right))]
        its = {role: one for role, one in counted.items() if generator.random() >= lacking}
        card = {"device": {"target": f"sm_{generator.choice([80, 90])}"}}
        kind, more = ("document", {}) if "ptx" in name else ("capture", card)
        sources.append(Source(name, kind, name, [replace(one, source=name) for one in its.values()], more))
        for role, one in its.items():
            having[role].append(one)
    claimed, torn, first = (
        dict(right[generator.integers(len(right))]),
        generator.random() < 0.7,
        generator.random() < 0.5,
    )
    for role, those in having.items() if torn else ():
        claimed[role] = (those or [claimed[role]])[0 if first else generator.integers(len(those) or 1)]
    return sources, claimed, torn


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_right_sources_agree_falsely_with_nothing_together(seed):
    """What they agree with computes the same as they do, and a whole one accuses nothing that is right."""
    generator, verdicts, names = np.random.default_rng(seed), Counter(), [*FAMILIES]
    for at in count():
        name = names[at % len(names)]
        sources, claimed, torn = several(FAMILIES[name], generator)
        generator.shuffle(sources)
        claim = Source("claimed", "import", "claimed", [replace(one, source="claimed") for one in claimed.values()])
        found = {result.key.role: result for result in judge([claim], sources).results}
        alike = {role for role, result in found.items() if result.verdict in LIKE}
        if is_product(name, alike) and not any(found[role].narrower for role in alike):
            assert agrees(*({role: side[role] for role in alike} for side in (FAMILIES[name], claimed))), (
                name,
                at,
                seed,
            )
        if not torn and all(len(source.fragments) == len(claimed) for source in sources):
            assert alike == claimed.keys(), (name, at, seed)
        again = judge([claim], sources[::-1]).results
        assert [one.verdict for one in again] == [one.verdict for one in found.values()], (name, at, seed)
        verdicts.update(result.verdict for result in found.values())
        if verdicts.total() >= (50_000 if LONG else 40 * settings().max_examples):
            break
    print(dict(verdicts))
    assert min(map(verdicts.__getitem__, ("identical", "relabelled", "different"))) > verdicts.total() / 20
