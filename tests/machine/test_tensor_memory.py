"""Tensor Memory: what a load gives is what a store left in the same lanes and columns, and mistakes are named."""

import numpy as np
import pytest

from lanemap.db.isa.forms import forms
from lanemap.db.isa.instructions import WARP

from ..shipped import everything
from .conftest import run

#: Of four registers each.
SHAPES = ["32x32b.x4", "16x64b.x4", "16x128b.x2", "16x256b.x1", "16x32bx2.x4"]


def traits():
    """The layouts of Tensor Memory that ship, by key."""
    return {each.key: each for source in everything() if source.name == "cutlass-4.2.0" for each in source.fragments}


def kernel(stored, loaded, count, *, between="tcgen05.wait::st.sync.aligned;", columns=32, free="32", split=""):
    """A warpgroup stores numbers by one shape, and writes what it loads by another one."""
    registers = ", ".join(f"%r{at}" for at in range(count))
    results = ", ".join(f"%d{at}" for at in range(count))
    split_st, split_ld = (f", {split}" if "bx2" in each else "" for each in (stored, loaded))
    free = f"@%p tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {free};" if free else ""
    return f"""
.visible .entry move(.param .u64 in, .param .u64 out) {{
.reg .b64 %in, %out, %at; .reg .b32 %t, %lane, %base, %to, %r<{count}>, %d<{count}>; .reg .pred %p;
.shared .align 4 .b8 place[4];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;
@%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], {columns};
@%p tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
bar.sync 0; ld.shared.u32 %base, [place];
shr.u32 %lane, %t, 5; shl.b32 %lane, %lane, 21; add.u32 %to, %base, %lane;
mad.wide.u32 %at, %t, {4 * count}, %in;
{" ".join(f"ld.global.u32 %r{at}, [%at+{4 * at}];" for at in range(count))}
tcgen05.st.sync.aligned.{stored}.b32 [%to]{split_st}, {{{registers}}};
{between}
tcgen05.ld.sync.aligned.{loaded}.b32 {{{results}}}, [%to]{split_ld};
tcgen05.wait::ld.sync.aligned;
mad.wide.u32 %at, %t, {4 * count}, %out;
{" ".join(f"st.global.u32 [%at+{4 * at}], %d{at};" for at in range(count))}
bar.sync 0; {free}
ret; }}
"""


def moved(text, count, **how):
    given = {"in": np.arange(1, 128 * count + 1, dtype="u4").reshape(128, count), "out": f"u32[128,{count}]=0"}
    return run(text, given, block=128, table=traits(), **how)


@pytest.mark.parametrize("loaded", SHAPES)
@pytest.mark.parametrize("stored", SHAPES)
def test_a_load_gives_what_a_store_left_in_the_same_places(stored, loaded):
    """By a dictionary of places, which shares no code with the machine."""
    table, split = traits(), 4

    def words(name, instruction):
        (form,) = [form for form in forms(instruction) if f".{name}.b32" in form.mnemonic]
        for row in table[form.key("r")].table:
            yield (
                (int(row["lane"]), int(row["reg"])),
                (int(row["row"]), int(row["col"] + split * (row["computation"] - 1))),
            )

    found = moved(kernel(stored, loaded, 4, split=split), 4)
    given = np.arange(1, 512 + 1).reshape(4, WARP, 4)
    assert found.ok, found
    for warp in range(4):
        memory = {place: given[warp, lane, reg] for (lane, reg), place in words(stored, "tcgen05.st")}
        for (lane, reg), place in words(loaded, "tcgen05.ld"):
            assert found.outputs["out"][warp * 32 + lane, reg] == memory.get(place, 0)


def test_halves_are_packed_and_unpacked():
    count = 2
    text = kernel("32x32b.x2.unpack::16b", "32x32b.x2.pack::16b", count)
    found = moved(text, count)
    assert found.ok, found
    assert (found.outputs["out"] == np.arange(1, 257).reshape(128, 2)).all()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tcgen05.wait::st.sync.aligned;", "", "race: loads what no tcgen05.wait::st has waited for"),
        ("tcgen05.wait::ld.sync.aligned;", "", "race: st touches a register that tcgen05 of line 15 still uses"),
        ("shl.b32 %lane, %lane, 21;", "shl.b32 %lane, %lane, 20;", "Tensor Memory: lane 16 belongs to another warp"),
        ("%base, 32;", "%base, 64;", "64 columns at 0x0 are deallocated, and not allocated so"),
        ("@%p tcgen05.dealloc", "@!%p bra OVER; OVER: //", "Tensor Memory: 32 columns are never deallocated"),
        ("[place], 32;", "[place], 48;", "48 columns: a power of two from 32 to 512 is allocated"),
        ("add.u32 %to, %base, %lane;", "add.u32 %to, %lane, 30;", "column 32 of Tensor Memory is not allocated"),
        (
            "bar.sync 0; ld",
            "@%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32; bar.sync 0; ld",
            "32 columns are allocated after the permit was given back",
        ),
        ("tcgen05.wait::ld", "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma is not run"),
    ],
)
def test_a_mistake_with_tensor_memory_is_named(old, new, words):
    text = kernel("32x32b.x4", "32x32b.x4", 4)
    assert old in text
    found = moved(text.replace(old, new), 4)
    assert words in " ".join(found.text().split()), found
    assert moved(text, 4).ok


def test_four_allocations_fit_and_a_fifth_does_not():
    alloc = "@%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 128;"
    text = kernel("32x32b.x4", "32x32b.x4", 4, columns=128, free="")
    many = text.replace("@%p tcgen05.relinquish", f"{alloc * 3}\n@%p tcgen05.relinquish")
    assert "no more are free" not in moved(many, 4).text()
    more = " ".join(moved(many.replace(alloc * 3, alloc * 4), 4).text().split())
    assert "128 columns are allocated and no more are free" in more


REDUCED = [("u32", "min"), ("u32", "max"), ("s32", "min"), ("s32", "max"), ("f32", "max"), ("f32", "min.abs")]


@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
@pytest.mark.parametrize(("type_", "operation"), REDUCED)
def test_the_least_or_greatest_of_what_is_loaded(shape, type_, operation):
    split = "4" if "bx2" in shape else ""
    text = kernel(f"{shape}.x4", f"{shape}.x4", 4, split=split)
    text = text.replace(
        f"tcgen05.ld.sync.aligned.{shape}.x4.b32", f"tcgen05.ld.red.sync.aligned.{shape}.x4.{operation}.{type_}"
    )
    text = text.replace("%d3}, [%to]", "%d3}, %least, [%to]").replace(".reg .b64", ".reg .b32 %least; .reg .b64")
    text = text.replace("st.global.u32 [%at+0], %d0;", "st.global.u32 [%at+0], %least;")
    given = np.random.default_rng(3).integers(-99, 99, (128, 4)).astype({"u": "u4", "s": "i4", "f": "f4"}[type_[0]])
    layouts = {**traits()}
    for form in forms("tcgen05.ld.red"):
        plain = form.key("r")._replace(instruction="tcgen05.ld", type="b32")
        if plain in layouts:
            layouts[form.key("r")] = layouts[plain]
    found = run(text, {"in": given.view("u4"), "out": "u32[128,4]=0"}, block=128, table=layouts)
    assert found.ok, found
    of = np.abs(given) if "abs" in operation else given
    wanted = getattr(np, operation[:3])(of, axis=1)
    assert np.array_equal(found.outputs["out"][:, 0].view(given.dtype), wanted)
    assert np.array_equal(found.outputs["out"][:, 1:], given.view("u4")[:, 1:])
    early = run(
        text.replace("tcgen05.wait::ld.sync.aligned;", ""),
        {"in": given.view("u4"), "out": "u32[128,4]=0"},
        block=128,
        table=layouts,
    )
    assert "race" in {each.kind for each in early.findings}
