"""Triton reads the linear layouts: its own parser, its own LinearLayout, its own layouts of mma for comparison."""

import re

import pytest

from lanemap.db.notation import identifier, linear

libtriton = pytest.importorskip("triton._C.libtriton", reason="needs the package triton")


@pytest.fixture(scope="module")
def context():
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    return context


def shape_of(fragment):
    products = int(fragment.elements["computation"].max())
    return [products, *fragment.dimensions] if products > 1 else list(fragment.dimensions)


def read_places(layout, lanes, registers):
    """What Triton's LinearLayout says of each lane and register, one row of coordinates each."""
    dimensions = [name for name, _ in layout.out_dims]
    said = (layout.apply({"lane": lane, "register": each}) for lane in range(lanes) for each in range(registers))
    return [[cell[name] for name in dimensions] for cell in said]


def test_triton_parses_every_layout_and_places_every_element_as_the_rows_do(
    exported, corrected, context, tmp_path, cells
):
    text = exported("linear")
    fragments = {name: corrected[name] for name in re.findall(r"^#(\w+) =", text, re.MULTILINE)}
    assert len(fragments) > 100
    constants = "".join(
        f"    %{name} = arith.constant dense<0> : tensor<{'x'.join(map(str, shape_of(each)))}xi8, #{name}>\n"
        for name, each in fragments.items()
    )
    attributes = '"ttg.num-warps" = 1 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32'
    file = tmp_path / "layouts.ttgir"
    file.write_text(
        f"{text}module attributes {{{attributes}}} {{\n  tt.func @f() {{\n{constants}    tt.return\n  }}\n}}\n"
    )
    module = libtriton.ir.parse_mlir_module(str(file), context)
    found = []
    builder = libtriton.gluon_ir.GluonOpBuilder(context)
    module.walk(lambda operation: found.append(operation) if operation.get_name() == "arith.constant" else None)
    layouts = [builder.get_gluon_layout_from_tensor(operation.get_result(0)) for operation in found]
    checked = set()
    for fragment, read in zip(fragments.values(), layouts, strict=True):
        assert read.shape == shape_of(fragment)
        key = (fragment.digest, tuple(read.shape))
        if key in checked:
            continue
        checked.add(key)
        assert read_places(linear_layout(read), 32, fragment.registers * fragment.slots) == cells(fragment)


def linear_layout(read):
    bases = [("register", read.reg_bases), ("lane", read.lane_bases)]
    names = [f"dim{axis}" for axis in range(len(read.shape))]
    return libtriton.linear_layout.LinearLayout.from_bases(bases, names, read.shape, True)


@pytest.mark.parametrize(("kind", "bits"), [("f16", 16), ("bf16", 16), ("tf32", 32), ("s8", 8), ("e4m3", 8)])
def test_triton_has_the_same_layouts_of_its_own_mma(corrected, context, kind, bits):
    """Triton's mma version 2 is m16n8kK, with K of 256 bits: accumulator, and operands with 32 bits per step."""
    gluon = pytest.importorskip("triton.experimental.gluon.language", reason="this triton has no gluon")
    depth = 256 // bits
    accumulator = gluon.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[16, 8])
    operands = {role: gluon.DotOperandLayout(place, accumulator, 32 // bits) for place, role in enumerate("ab")}
    shapes = {"a": [16, depth], "b": [depth, 8], "c": [16, 8]}
    types = {"a": kind, "b": kind, "c": "s32" if kind == "s8" else "f32"}
    builder = libtriton.gluon_ir.GluonOpBuilder(context)
    for role, layout in {**operands, "c": accumulator}.items():
        fragment = corrected[f"mma_m16n8k{depth}_{types[role]}_{role}"]
        theirs = builder.to_linear_layout(layout._to_ir(builder), shapes[role])
        ours = re.findall(r"\[\[.*?\]\]", linear.compose(fragment, identifier(fragment)))
        assert [str(theirs.reg_bases), str(theirs.lane_bases)] == ours
