"""Triton reads both notations: its own parser, its own encodings, its own LinearLayout of each."""

from collections import Counter
from contextlib import suppress
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings

from lanemap.db.layout.fragment import Fragment, by_rule
from lanemap.db.render.notation import express
from lanemap.db.render.notation.table import RefusedError

from .made import corrupted, supplied

ACCUMULATORS = {"tf32": "f32", "s8": "s32"}

libtriton = pytest.importorskip("triton._C.libtriton", reason="needs the package triton")


@pytest.fixture(scope="module")
def context():
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    return context


def shape_of(fragment):
    products = int(fragment.elements["computation"].max())
    return [products, *fragment.dimensions] if products > 1 else list(fragment.dimensions)


def read_places(read):
    """What Triton's LinearLayout says of each thread and register, one row of coordinates each."""
    dimensions = [f"dim{axis}" for axis in range(len(read.shape))]
    bases = {"warp": read.warp_bases, "lane": read.lane_bases, "register": read.reg_bases}
    layout = libtriton.linear_layout.LinearLayout.from_bases(list(bases.items()), dimensions, read.shape, True)
    said = (
        layout.apply(dict(zip(bases, place, strict=True)))
        for place in product(*(range(1 << len(basis)) for basis in bases.values()))
    )
    return [[cell[name] for name in dimensions] for cell in said]


def parsed(text, fragments, context, file):
    """Triton's own linear layout of each alias in a text, from a tensor that has it."""
    constants = "".join(
        f"    %{name} = arith.constant dense<0> : tensor<{'x'.join(map(str, shape_of(fragment)))}xi8, #{name}>\n"
        for name, fragment in fragments.items()
    )
    warps = next(iter(fragments.values())).threads // 32
    attributes = f'"ttg.num-warps" = {warps} : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32'
    file.write_text(
        f"{text}module attributes {{{attributes}}} {{\n  tt.func @f() {{\n{constants}    tt.return\n  }}\n}}\n"
    )
    module = libtriton.ir.parse_mlir_module(str(file), context)
    found = []
    builder = libtriton.gluon_ir.GluonOpBuilder(context)
    module.walk(lambda operation: found.append(operation) if operation.get_name() == "arith.constant" else None)
    layouts = [builder.get_gluon_layout_from_tensor(operation.get_result(0)) for operation in found]
    return {
        name: builder.to_linear_layout(layout._to_ir(builder), shape_of(fragment))
        for (name, fragment), layout in zip(fragments.items(), layouts, strict=True)
    }


@pytest.mark.parametrize("form", ["linear", "triton"])
def test_triton_parses_every_layout_and_places_every_element_as_the_rows_do(everything, context, tmp_path, cells, form):
    distinct = {}
    for _, fragment in everything:
        with suppress(RefusedError):
            distinct[express(form, fragment, "x"), fragment.digest, *shape_of(fragment)] = fragment
    assert len(distinct) > 60
    for threads in {fragment.threads for fragment in distinct.values()}:
        some = {f"n{n}": fragment for n, fragment in enumerate(distinct.values()) if fragment.threads == threads}
        text = "".join(express(form, fragment, name) for name, fragment in some.items())
        for name, layout in parsed(text, some, context, tmp_path / f"{threads}.ttgir").items():
            assert read_places(layout) == cells(some[name])


@pytest.mark.parametrize("form", ["linear", "triton"])
@settings(max_examples=40)
@given(fragment=supplied() | corrupted())
def test_triton_reads_what_is_expressed_of_layouts_with_mistakes_and_holes(
    form, fragment, context, cells, tmp_path_factory
):
    with suppress(RefusedError):
        text = express(form, fragment, "x")
        read = parsed(text, {"x": fragment}, context, tmp_path_factory.mktemp("made") / "x.ttgir")
        assert read_places(read["x"]) == cells(fragment)


def made(role, threads, elements, slots=2, shape="m16n8k16", instruction="mma"):
    """A fragment in which each bit of thread and of element adds a row and a col."""

    def sums(bases, axis):
        return np.array(
            [sum(base[axis] for bit, base in enumerate(bases) if n >> bit & 1) for n in range(1 << len(bases))]
        )

    row, col = (sums(threads, axis)[:, None] + sums(elements, axis) for axis in (0, 1))
    registers = len(row[0]) // slots
    return Fragment(instruction, shape, "f16", role, registers, slots, by_rule(slots, row, col))


def test_an_encoding_is_found_just_where_triton_has_an_equal_one(context, cells):
    """Of every order of the elements, and every width of what a lane holds of a row, also that of another type."""
    gluon = pytest.importorskip("triton.experimental.gluon.language", reason="this triton has no gluon")
    builder = libtriton.gluon_ir.GluonOpBuilder(context)
    parents = [gluon.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[m, 8]) for m in (8, 16)]
    encodings = [gluon.DotOperandLayout(0, parent, 1 << width) for parent in parents for width in range(6)]
    theirs = [read_places(builder.to_linear_layout(encoding._to_ir(builder), [16, 16])) for encoding in encodings]
    found = Counter()
    for width in (1, 2, 4):
        lanes = [(0, width), (0, 2 * width), (1, 0), (2, 0), (4, 0)]
        rest = [(0, bit) for bit in (1, 2, 4, 8) if bit not in (width, 2 * width)]
        for order in permutations([*rest, (8, 0)]):
            fragment = made("A", lanes, order)
            try:
                express("triton", fragment)
            except RefusedError:
                found[False] += 1
                assert cells(fragment) not in theirs
            else:
                found[True] += 1
                assert cells(fragment) in theirs
    assert found[True] > 2 < found[False]


def test_a_matrix_that_no_tensor_of_triton_has_the_shape_of_is_refused():
    lane, i = np.indices((32, 6))
    rows = by_rule(1, lane // 4, lane % 4 * 2 + i % 2 + i // 2 * 8)
    with pytest.raises(RefusedError, match="no tensor of 8 x 24"):
        express("triton", Fragment("mma", "m8n24k8", "f32", "C", 6, 1, rows))


@pytest.mark.parametrize("name", ["m16n8k16_f16", "m16n8k8_tf32", "m16n8k32_s8", "m8n8k16_s8", "m8n8k4_f64"])
def test_operands_of_one_product_have_one_parent(corrected, name):
    """As tt.dot needs it, of an instruction whose A is 256 bits deep, or of eight rows."""
    operands = [express("triton", corrected[f"mma_{name}_{role}"], "x") for role in "ab"]
    shape, _, kind = name.partition("_")
    accumulator = corrected[f"mma_{shape}_{ACCUMULATORS.get(kind, kind)}_c"]
    parent = express("triton", accumulator, "x").partition(" = ")[2].strip()
    assert all(f"parent = {parent}, " in text for text in operands)


@pytest.mark.parametrize("form", ["linear", "triton"])
def test_a_warpgroup_has_warps(context, tmp_path, cells, form):
    threads = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0), (16, 0), (32, 0)]
    elements = [(0, 1), (8, 0), (0, 8)]
    fragments = {role: made(role, threads, elements, 2, "m64n16k16", "wgmma") for role in "AD"}
    text = "".join(express(form, fragment, role) for role, fragment in fragments.items())
    for role, layout in parsed(text, fragments, context, tmp_path / "layouts.ttgir").items():
        assert [len(bases) for bases in (layout.lane_bases, layout.warp_bases)] == [5, 2]
        assert read_places(layout) == cells(fragments[role])
