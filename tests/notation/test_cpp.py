"""C++ compilers take the header: g++ and clang++ with every warning an error, nvcc for host and device.

Compilers compare the functions with the rows of every layout in constant expressions. What nvcc makes of them for a
device takes no memory, and at most two registers more than arithmetic written by hand.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lanemap
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import CELL, Fragment, elements
from lanemap.db.render.notation import export, express
from lanemap.db.render.notation.cpp import CPP
from lanemap.db.render.notation.table import RefusedError, table
from lanemap.ingest.catalogue import documented

from ..modes import one_of_each
from ..shipped import CORRECTED
from .made import corrupted, matrices, supplied, unheard_of, warpgroup

WARNINGS = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]

LONG = "LANEMAP_LONG" in os.environ

#: Whether the functions of a namespace say what rows do, to which is added which one of its chunk an element is.
CHECKS = """
template <class At> constexpr bool cells(const short (*rows)[8], int count, At at) {
  for (int n = 0; n < count; ++n) {
    const auto& r = rows[n];
    const lanemap::cell c = at(r[0], r[1], r[2]);
    if (c.row != r[3] || c.col != r[4] || c.col_last != r[5] || c.computation != r[6]) return false;
  }
  return true;
}
template <class Find> constexpr bool places(const short (*rows)[8], int count, Find find) {
  for (int n = 0; n < count; ++n) {
    const auto& r = rows[n];
    for (int col = r[4]; col <= r[5]; ++col) {
      const lanemap::place p = find(r[3], col, r[6], r[7]);
      if (p.lane != r[0] || p.reg != r[1] || p.slot != r[2]) return false;
    }
  }
  return true;
}
template <class Holds> constexpr bool held(const char* all, int lanes, int registers, int slots, Holds holds) {
  for (int lane = 0; lane < lanes; ++lane)
    for (int reg = 0; reg < registers; ++reg)
      for (int slot = 0; slot < slots; ++slot)
        if (holds(lane, reg, slot) != (*all++ == '1')) return false;
  return true;
}
"""

#: at and find as kernels have them: of m16n8k16, of four products in a warp, of a sparse A and its metadata, and of
#: the accumulators and metadata of a warpgroup.
BY_HAND = {
    "A of mma m16n8k16 f16": (
        "return {(lane >> 2) + (reg & 1) * 8, (lane & 3) * 2 + slot + (reg >> 1) * 8};",
        "return {(row & 7) * 4 + ((col & 7) >> 1), (row >> 3) + (col >> 3) * 2, col & 1};",
    ),
    "B of mma m16n8k16 f16": (
        "return {(lane & 3) * 2 + slot + reg * 8, lane >> 2};",
        "return {col * 4 + ((row & 7) >> 1), row >> 3, row & 1};",
    ),
    "C of mma m16n8k16 f32": (
        "return {(lane >> 2) + (reg >> 1) * 8, (lane & 3) * 2 + (reg & 1)};",
        "return {(row & 7) * 4 + (col >> 1), (row >> 3) * 2 + (col & 1), 0};",
    ),
    "C of mma m8n8k4 f32": (
        "int c = (lane & 2) + (reg & 5); return {(lane & 1) + lane / 16 * 4 + (reg & 2), c, c, (lane >> 2 & 3) + 1};",
        "return {(row & 1) + (col & 2) + (row >> 2) * 16 + computation * 4 - 4, (row & 2) + (col & 5), 0};",
    ),
    "A of mma.sp m16n8k32 f16": (
        "int col = (lane & 3) * 4 + (reg >> 1) * 16; return {(lane >> 2) + (reg & 1) * 8, col, col + 3};",
        "return {(row & 7) * 4 + (col >> 2 & 3), (row >> 3) + (col >> 4) * 2, nth};",
    ),
    "E of mma.sp m16n8k32 f16 selector 1": (
        "int col = (lane & 1) * 16 + (slot & 6) * 2 + (slot & 1); return {(lane >> 2) + (slot & 8), col, col + 2};",
        "return {(row & 7) * 4 + 2 + (col >> 4), 0, (row & 8) + (col >> 2 & 3) * 2 + nth};",
    ),
    "D of wgmma m64n256k16 f32": (
        "return {(lane >> 5) * 16 + (lane >> 2 & 7) + (reg & 2) * 4, (lane & 3) * 2 + (reg & 1) + (reg >> 2) * 8};",
        "return {(row >> 4) * 32 + (row & 7) * 4 + (col >> 1 & 3), (row >> 2 & 2) + (col & 1) + (col >> 3) * 4, 0};",
    ),
    "E of wgmma.sp m64n8k32 f16 selector 0": (
        (
            "int c = (lane & 1) * 16 + (slot & 6) * 2 + (slot & 1);"
            " return {(lane >> 5) * 16 + (lane >> 2 & 7) + (slot & 8), c, c + 2};"
        ),
        "return {(row >> 4) * 32 + (row & 7) * 4 + (col >> 4), 0, (row & 8) + (col >> 2 & 3) * 2 + nth};",
    ),
    "D of wgmma m64n256k16 f16": (
        "return {(lane >> 5) * 16 + (lane >> 2 & 7) + (reg & 1) * 8, (lane & 3) * 2 + slot + (reg >> 1) * 8};",
        "return {(row >> 4) * 32 + (row & 7) * 4 + (col >> 1 & 3), (row >> 3 & 1) + (col >> 3) * 2, col & 1};",
    ),
}

HAND = """
namespace {name} {{
inline constexpr int chunk = {chunk};
LANEMAP_FUNCTION cell at(int lane, [[maybe_unused]] int reg, [[maybe_unused]] int slot) {{ {at} }}
LANEMAP_FUNCTION place find(int row, int col, [[maybe_unused]] int computation, [[maybe_unused]] int nth) {{
  {find}
}}
}}
"""

KERNELS = """
extern "C" __global__ void at_{name}(int* out, int reg, int slot) {{
  const int lane = threadIdx.x;
  const lanemap::cell c = lanemap::{name}::at(lane, reg, slot);
  out[lane] = c.row;
  out[lane + 32] = c.col;
  out[lane + 64] = c.col_last;
  out[lane + 96] = c.computation;
}}
"""

KERNELS_BACK = """
extern "C" __global__ void find_{name}(int* out, int row, int col, int computation, int nth) {{
  const lanemap::place p = lanemap::{name}::find({arguments});
  out[0] = p.lane;
  out[1] = p.reg;
  out[2] = p.slot;
}}
"""


@pytest.fixture(scope="module")
def distinct(every_width):
    """Every layout of lanes of every source once: its text and fragment under a name of its own."""
    found = {}
    for fragment in (fragment for fragment in every_width if not fragment.tile):
        found.setdefault((fragment.digest, fragment.registers, fragment.slots, fragment.dimensions), fragment)
    return {f"layout{n}": (CPP.compose(fragment, f"layout{n}"), fragment) for n, fragment in enumerate(found.values())}


@pytest.fixture(scope="module")
def by_hand(everything):
    """The layouts by hand, likewise."""
    first = {}
    for _, fragment in everything:
        first.setdefault(str(fragment), fragment)
    return {f"hand{n}": (hand(f"hand{n}", *BY_HAND[name]), first[name]) for n, name in enumerate(BY_HAND)}


def hand(name, at, find):
    return HAND.format(name=name, at=at, find=find, chunk=4 if "nth" in find else 1)


def least(fragment):
    """One operation for each result that a layout of these sizes has: no version by hand takes fewer registers."""
    col_last = ", lane + slot + 3" if fragment.windowed else ""
    reg, slot = "row - col" if fragment.registers > 1 else "0", "col" if fragment.slots > 1 else "0"
    return f"return {{lane + reg, lane + slot{col_last}}};", f"return {{row + col, {reg}, {slot}}};"


def header(texts):
    return CPP.before + "\n".join(texts) + CPP.after


def arguments(text, function="place find"):
    """What a function of a namespace takes, as find does of row, col, computation and nth; None if there is none."""
    parameters = re.search(rf"{function}\((.*?)\)", text)
    return parameters and ", ".join(re.findall(r"int (?:/\*)?(\w+)", parameters[1]))


def numbered(fragment, chunk):
    """The rows, each with its number among those of its row, computation and chunk of columns, by column and place."""
    seen, found = Counter(), []
    for row in sorted(fragment.elements.tolist(), key=lambda row: (row[4:6], row[:3])):
        among = (row[3], row[4] // chunk, row[6])
        found.append((*row, seen[among]))
        seen[among] += 1
    return found


def assertions(name, text, fragment):
    chunk = int((re.search(r"chunk = (\d+)", text) or [0, 1])[1])
    rows = ",".join("{" + ",".join(map(str, row)) + "}" for row in numbered(fragment, chunk))
    count = len(fragment.elements)
    yield f"constexpr short {name}_rows[][8] = {{{rows}}};"
    yield f"static_assert(cells({name}_rows, {count}, lanemap::{name}::at));"
    if called := arguments(text, "bool holds"):
        sizes = (fragment.threads, fragment.registers, fragment.slots)
        held = np.zeros(sizes, int)
        held[tuple(fragment.elements[column] for column in ("lane", "reg", "slot"))] = 1
        holds = f"[](int lane, int reg, int slot) {{ (void)reg; (void)slot; return lanemap::{name}::holds({called}); }}"
        listed = "".join(map(str, held.ravel().tolist()))
        yield f'static_assert(held("{listed}", {", ".join(map(str, sizes))}, {holds}));'
    if called := arguments(text):
        unused = "".join(f"(void){name}; " for name in ("computation", "nth"))
        find = f"[](int row, int col, int computation, int nth) {{ {unused}return lanemap::{name}::find({called}); }}"
        yield f"static_assert(places({name}_rows, {count}, {find}));"


def compiled(compiler, file, *more):
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    return subprocess.run([compiler, *WARNINGS, *more, file], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++ -fconstexpr-steps=9999999"])
def test_a_compiler_finds_every_layout_equal_to_its_rows_in_constant_expressions(
    compiler, everything, distinct, by_hand, tmp_path
):
    """In the long mode of all widths of wgmma; else of the greatest width D of f32 alone."""
    assert len(distinct) > 170
    assert [str(fragment) for text, fragment in distinct.values() if not arguments(text)] == ["A of mma m16n8k256 b1"]
    large = "D of wgmma m64n256k16 f32"
    checked = {fragment.digest for _, fragment in everything if len(fragment.elements) < 8192 or str(fragment) == large}
    every = {name: named for name, named in distinct.items() if LONG or named[1].digest in checked}
    every |= {name: named for name, named in by_hand.items() if LONG or len(named[1].elements) < 8192}
    equal_to_their_rows(every, tmp_path / "every.cpp", *compiler.split())


@pytest.mark.slow
def test_gxx_finds_one_layout_of_each_kind_equal_to_its_rows(distinct, tmp_path):
    def kind(name):
        fragment = distinct[name][1]
        return fragment.instruction, fragment.role, fragment.slots, fragment.windowed

    names = one_of_each(kind, distinct, lambda name: len(distinct[name][1].elements))
    equal_to_their_rows({name: distinct[name] for name in names}, tmp_path / "few.cpp", "g++")


@pytest.mark.slow
def test_a_swizzle_is_an_exclusive_or_and_no_table(every_width, tmp_path):
    """Of operands and boxes in shared memory the smallest of each kind, also where they have a part of each line."""
    kinds = {}
    for fragment in (each for each in every_width if each.tile):
        kinds.setdefault((fragment.instruction, fragment.role, fragment.slots, fragment.qualifiers), []).append(
            fragment
        )
    few = [min(each, key=lambda fragment: len(fragment.elements)) for each in kinds.values()]
    every = {f"layout{n}": (CPP.compose(each, f"layout{n}"), each) for n, each in enumerate(few)}
    texts = [text for text, _ in every.values()]
    assert sum(" ^ (" in text for text in texts) > len(texts) / 2 > 12
    assert sum("reg, int slot) { return at(" in text for text in texts) > 9
    assert not [text for text in texts if 'u"' in text or " ? " in text]
    equal_to_their_rows(every, tmp_path / "swizzled.cpp", "g++")


@pytest.mark.parametrize(
    ("shape", "type_", "mode", "tile"), [("m64n8k16", "f16", "128B", "n8k64"), ("m64n16k8", "tf32", "64B", "n16k16")]
)
def test_rows_go_on_to_the_end_of_a_line_that_is_held_in_part(shape, type_, mode, tile):
    """Where a descriptor of the next products reads them."""
    fragment = documented()[Key("wgmma", shape, type_, "B", None, None, f"{mode}.K")]
    bits = lanemap.Database.descriptor(f"wgmma {shape} {type_} B {mode}.K", tile).read
    everywhere = table(fragment).everywhere
    col, row = np.indices(bits.shape)
    for name, expected in {"row": row, "col": col}.items():
        assert np.array_equal(everywhere[name][0, bits // fragment.slot_bits], expected)


def test_columns_go_on_to_the_end_of_a_line_that_is_held_in_part():
    """As the next width that fills its lines has them."""
    cut, full = (documented()[Key("wgmma", f"m64n{n}k16", "f16", "B", None, None, "32B.MN")] for n in (24, 32))
    assert all(np.array_equal(table(cut).everywhere[name], table(full).coordinates[name]) for name in CELL)


@pytest.mark.parametrize("register", [8, 300])
def test_what_is_said_of_lines_is_true_of_an_import_that_lies_elsewhere(register):
    """In a word that the document leaves out, and in one beyond the tile."""
    fragment = documented()[Key("wgmma", "m64n8k16", "f16", "B", None, None, "128B.K")]
    rows = fragment.table.copy()
    rows["reg"][-2:] = register
    rows.sort(order=("lane", "reg", "slot"))
    moved = table(replace(fragment, elements=rows, registers=max(register + 1, fragment.registers)))
    for name in CELL:
        held = moved.everywhere[name][np.ix_(moved.lanes, moved.elements)]
        assert np.array_equal(held, moved.coordinates[name])


@pytest.mark.slow
def test_no_width_along_n_needs_a_table(every_width, tmp_path):
    """Also where it ends within a line."""
    along = [each for each in every_width if each.tile and each.role == "B" and str(each.qualifiers).endswith("MN")]
    texts = {f"layout{n}": (CPP.compose(each, f"layout{n}"), each) for n, each in enumerate(along)}
    assert len(texts) > 32 * 4
    assert not [str(each) for text, each in texts.values() if 'u"' in text or " ? " in text]
    few = {name: texts[name] for name in texts if re.search(r"n(24|112|152)k16", texts[name][1].shape)}
    equal_to_their_rows(dict([*few.items()][:6]), tmp_path / "along.cpp", "g++")


def equal_to_their_rows(layouts, file, compiler, *more):
    lines = [line for name, (text, layout) in layouts.items() for line in assertions(name, text, layout)]
    file.write_text("\n".join([header(text for text, _ in layouts.values()), CHECKS, *lines]) + "\n")
    done = compiled(compiler, file, *more)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.slow
def test_gxx_sees_a_wrong_element_and_one_that_is_not_there(distinct, tmp_path):
    name, (text, fragment) = next(iter(distinct.items()))
    rows = fragment.elements[1:].copy()
    rows["row"][-1] ^= 1
    lines = assertions(name, text, replace(fragment, elements=rows))
    file = tmp_path / "wrong.cpp"
    file.write_text("\n".join([header([text]), CHECKS, *lines]) + "\n")
    done = compiled("g++", file)
    assert done.stderr.count("static assertion failed") == 3, done.stderr[:2000]


@pytest.mark.slow
def test_headers_that_share_fragments_can_be_included_together(distinct, tmp_path):
    fragments = [(name, fragment) for name, (_, fragment) in distinct.items()]
    for file, part in {"one.hpp": fragments[:2], "two.hpp": fragments[1:3], "all.hpp": fragments[:3]}.items():
        (tmp_path / file).write_text(header(CPP.compose(replace(fragment), name) for name, fragment in part))
    file = tmp_path / "together.cpp"
    file.write_text("".join(f'#include "{name}.hpp"\n' for name in ("one", "two", "all", "one")))
    done = compiled("g++", file)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.slow
@settings(max_examples=4, phases=(Phase.explicit, Phase.generate))
@given(fragments=st.lists(supplied() | corrupted(), min_size=12, max_size=12))
def test_gxx_finds_layouts_with_mistakes_and_with_holes_as_their_rows_say(fragments, tmp_path_factory):
    every = {}
    for n, fragment in enumerate([matrices(), warpgroup(), *unheard_of(), *fragments]):
        with suppress(RefusedError):
            every[f"layout{n}"] = (CPP.compose(fragment, f"layout{n}"), fragment)
    lines = [line for name, (text, fragment) in every.items() for line in assertions(name, text, fragment)]
    file = tmp_path_factory.mktemp("made") / "made.cpp"
    file.write_text("\n".join([header(text for text, _ in every.values()), CHECKS, *lines]) + "\n")
    done = compiled("g++", file)
    assert done.returncode == 0, done.stderr[:2000]


def shuffled(seed):
    """A layout without rule, of lanes that no bits of their numbers tell from the rest."""
    lane, reg, slot = (axis.ravel() for axis in np.indices((30, 2, 2)))
    cell = np.random.default_rng(seed).permutation(128)[: lane.size]
    columns = {"lane": lane, "reg": reg, "slot": slot, "row": cell // 8, "col": cell % 8, "col_last": cell % 8}
    return Fragment("mma", "m16n8k8", "f16", "A", 2, 2, elements(columns | {"computation": np.ones_like(lane)}))


def test_a_layout_without_rule_becomes_constants_that_fold_where_arguments_are_known(nvcc, tmp_path):
    fragment = shuffled(1)
    text = express("cpp", fragment)
    file = tmp_path / "table.cpp"
    file.write_text("\n".join([header([text]), CHECKS, *assertions("mma_m16n8k8_f16_a", text, fragment)]) + "\n")
    done = compiled("g++", file)
    assert done.returncode == 0, done.stderr[:2000]
    known = "".join(f"out[{n}] = lanemap::known::at({n}, 1, 0).col;" for n in range(30))
    file = tmp_path / "table.cu"
    file.write_text(
        header([CPP.compose(fragment, "unknown"), CPP.compose(shuffled(2), "known")])
        + KERNELS.format(name="unknown")
        + f'extern "C" __global__ void fold(int* out) {{ {known} }}\n'
    )
    done = nvcc(file, "-Xptxas=-v", to=["-arch=sm_80", "-cubin", "--keep", f"--keep-dir={tmp_path}"])
    assert done.returncode == 0, done.stderr[:2000]
    assert set(re.findall(r"(\d+) bytes stack frame", done.stderr)) == {"0"}
    ptx = (tmp_path / "table.ptx").read_text()
    assert ".local" not in ptx
    assert "ld.global.nc" in ptx.partition(".entry fold")[0]
    assert "ld.global" not in ptx.partition(".entry fold")[2]


def test_where_two_sources_differ_a_name_that_could_mean_either_is_an_error(everything, tmp_path):
    both = [CPP.compose(fragment, "a") for source, fragment in everything if str(fragment) == "A of mma m16n8k256 b1"]
    file = tmp_path / "both.cpp"
    one = "static_assert(lanemap::from_{}::a::at(0, 1, 0).col == {});\n"
    said = one.format("ptx_isa_9_4", 32) + one.format("ptx_isa_9_4_errata", 0)
    file.write_text(header(both) + said)
    done = compiled("g++", file)
    assert done.returncode == 0, done.stderr[:2000]
    file.write_text(header(both) + "static_assert(lanemap::a::at(0, 1, 0).col == 0);\n")
    assert "ambiguous" in compiled("g++", file).stderr


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"] if LONG else ["sm_90a"])
def test_device_code_takes_no_memory_and_two_registers_more_than_by_hand(distinct, by_hand, nvcc, tmp_path, target):
    kinds = dict.fromkeys(least(fragment) for _, fragment in [*distinct.values(), *by_hand.values()])
    leasts = {texts: f"least{n}" for n, texts in enumerate(kinds)}
    every = {name: text for name, (text, _) in [*distinct.items(), *by_hand.items()]}
    every |= {name: hand(name, *texts) for texts, name in leasts.items()}
    called = {name: arguments(text) for name, text in every.items()}
    parts = [header(every.values()), *(KERNELS.format(name=name) for name in every)]
    parts += [KERNELS_BACK.format(name=name, arguments=given) for name, given in called.items() if given]
    file = tmp_path / "kernels.cu"
    file.write_text("\n".join(parts))
    to = [f"-arch={target}", "-cubin", "--keep", f"--keep-dir={tmp_path}"]
    done = nvcc(file, "-Xptxas=-v", "-Werror=all-warnings", to=to)
    assert done.returncode == 0, done.stderr[:2000]
    ptx = (tmp_path / "kernels.ptx").read_text()
    assert not re.search(r"\.local|\.const|ld\.global|\$str", ptx)
    found = re.findall(r"properties for (\w+)\n +(.*)\n.*: Used (\d+) registers", done.stderr)
    assert {frame for _, frame, _ in found} == {"0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"}
    registers = {name: int(count) for name, _, count in found}
    assert len(registers) == len(every) + sum(map(bool, called.values()))
    for function in ("at", "find"):
        known = {}
        for name, (_, fragment) in by_hand.items():
            known[fragment.digest] = registers[f"{function}_{name}"]
            assert known[fragment.digest] >= registers[f"{function}_{leasts[least(fragment)]}"]
        for name, (_, fragment) in distinct.items():
            limit = known.get(fragment.digest, registers[f"{function}_{leasts[least(fragment)]}"]) + 2
            assert registers.get(f"{function}_{name}", 0) <= limit, f"{function} of {fragment}"


def test_block_scales_are_one_type_whose_parameters_select_them(everything, tmp_path):
    """It says of each choice what the rows do; the old names stand for it; of a part there are the old names alone."""
    fragments = [fragment for source, fragment in everything if source == CORRECTED and fragment.role.startswith("SF")]
    text = export(fragments, "cpp", "VERSION").text
    kinds = {re.sub(r"_id::\d", "", str(fragment)) for fragment in fragments}
    assert text.count("template <int byte_id, int thread_id>") == text.count("struct mma") == len(kinds) > 10
    lines, types = [CHECKS], re.findall(r"using (\w+) \[\[deprecated.*?\]\] = (\w+<.*?>);", text)
    assert len(types) == len(fragments) == len({fragment.key for fragment in fragments})
    in_order = sorted(fragments, key=lambda fragment: fragment.key.identifier)
    for (old, new), fragment in zip(sorted(types), in_order, strict=True):
        body = text[text.index(f"struct {new.partition('<')[0]} {{") :].partition("\n};")[0]
        lines += assertions(old, body, fragment)
        lines.append(f"static_assert(lanemap::{new}::at(0, 0, 0).row == lanemap::{old}::at(0, 0, 0).row);")
    file = tmp_path / "scales.cpp"
    file.write_text(text + "\n".join(lines) + "\n")
    done = compiled("g++", file, "-Wno-deprecated-declarations")
    assert done.returncode == 0, done.stderr[:2000]
    file.write_text(f"{text}constexpr int wrong = lanemap::{types[0][1].partition('<')[0]}<9, 0>::rows;\n")
    assert "there is no such choice of scales" in compiled("g++", file).stderr
    for part in (fragments[:1], fragments[:3]):
        text = export(part, "cpp", "VERSION").text
        assert "template <int byte_id" not in text
        assert all(f"struct {fragment.key.identifier} {{" in text for fragment in part)


#: Operands of tiles, each with the orders and neighbours that another one lacks: also sparse ones, and block scales.
TILES = [
    ("m16n8k16 f16 A", {"tile": "m64k32", "warps": "2x2"}),
    ("m16n8k16 f16 B", {"tile": "n64k32", "warps": "2x2", "order": "nkn"}),
    ("m16n8k16 f32 D", {"tile": "m96n48", "warps": "3x2", "order": "n"}),
    ("m16n8k32 s8 A", {"tile": "m64k64", "warps": "4x1", "contiguous": True}),
    ("m8n8k4 f64 D", {"tile": "m32n32", "warps": "2x2", "order": "mnm"}),
    ("m64n24k16 f32 D", {"tile": "m128n48", "warps": "2x1"}),
    ("mma.sp m16n8k32 f16 A", {"tile": "m64k64", "warps": "2x1"}),
    ("mma.sp m16n8k32 f16 E", {"tile": "m64k64", "warps": "2x1", "selector": 1}),
    ("mma m16n8k64 e2m1 SFA scale_vec::2X.byte_id::0.thread_id::0", {"tile": "m64k128", "warps": "2x1"}),
]


def tiles(database):
    """The header that is exported of each tile with its fragment."""
    for words, tiling in TILES:
        query = lanemap.Query.parse(words, **tiling)
        (fragment,) = database.operand(query)
        assert fragment.tiling
        yield database.export(format="cpp", query=replace(query, source=fragment.source)).text, fragment


@pytest.mark.slow
def test_compilers_find_every_tile_equal_to_its_rows(database, nvcc, tmp_path):
    """In constant expressions, with every warning an error, and for the oldest device that nvcc has without memory.

    Exchanged elements of two warps, of two instructions, or a copy that is another warp's, are seen.
    """
    texts, lines, wrong = [], [CHECKS], 0
    for text, fragment in tiles(database):
        name = fragment.identifier
        assert "// no find" not in text
        texts.append(text)
        lines += assertions(name, text, fragment)
        lines.append(f"static_assert(lanemap::{name}::threads == {fragment.threads});")
        for place, step in (("lane", fragment.atom.threads), ("reg", fragment.atom.registers)):
            rows = fragment.elements.copy()
            rows[place] = (rows[place] + step) % fragment.ranges[place].stop
            if {*rows.tolist()} != {*fragment.elements.tolist()}:
                wrong += 1
                said = "\n".join(assertions(name, text, replace(fragment, elements=rows)))
                said = said.replace(f"{name}_rows", f"wrong{wrong}_rows").replace("(cells", "(!cells")
                lines.append(said.replace("(places", "(!places"))
    assert wrong > 12
    file = tmp_path / "tiles.cpp"
    file.write_text("\n".join([*texts, *lines]) + "\n")
    done = compiled("g++", file)
    assert done.returncode == 0, done.stderr[:2000]
    kernels = [KERNELS.format(name=fragment.identifier) for _, fragment in tiles(database)]
    file = tmp_path / "tiles.cu"
    file.write_text("\n".join([*texts, *lines, *kernels]) + "\n")
    done = nvcc(file, "-Werror=all-warnings", to=["-arch=sm_75", "-ptx"])
    assert done.returncode == 0, done.stderr[:2000]
    assert not re.search(r"\.local|\.const|ld\.global", file.with_suffix(".out").read_text())


ANY = """
template <class Fragment> constexpr bool whole() {
  int held = 0;
  for (int lane = 0; lane < Fragment::threads; ++lane)
    for (int reg = 0; reg < Fragment::registers; ++reg)
      for (int slot = 0; slot < Fragment::slots; ++slot) {
        if (!Fragment::holds(lane, reg, slot)) continue;
        const lanemap::cell c = Fragment::at(lane, reg, slot);
        if (c.row >= Fragment::rows || c.col_last >= Fragment::cols) return false;
        bool found = false;
        for (int nth = 0; nth < Fragment::kept; ++nth) {
          const lanemap::place p = Fragment::find(c, nth);
          found = found || (p.lane == lane && p.reg == reg && p.slot == slot);
        }
        if (!found) return false;
        ++held;
      }
  return held > 0 && Fragment::first_bit + Fragment::element_bits <= Fragment::slot_bits;
}
"""


@pytest.mark.slow
def test_one_template_takes_every_fragment(distinct, tmp_path):
    assert all(("kept = 0;" in text) == ("// no find" in text) for text, _ in distinct.values())
    some = {name: named for name, named in distinct.items() if arguments(named[0]) and len(named[1].elements) < 1024}
    lines = [ANY, *(f"static_assert(whole<lanemap::{name}>());" for name in some)]
    file = tmp_path / "any.cpp"
    file.write_text("\n".join([header(text for text, _ in some.values()), *lines]) + "\n")
    done = compiled("g++", file, "-fconstexpr-ops-limit=999999999")
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.slow
def test_the_bits_of_a_slot_are_those_of_the_fragment(everything):
    """Of e2m1 in a byte the central four."""
    kind = attrgetter("instruction", "type", "role", "slot_bits", "first_bit")
    said = {}
    for fragment in {kind(fragment): fragment for _, fragment in everything}.values():
        bits = re.search(
            r"slot_bits = (\d+), first_bit = (\d+), element_bits = (\d+)", express("cpp", fragment)
        ).groups()
        slot, first, count = map(int, bits)
        assert (slot, range(first, first + count)) == (fragment.slot_bits, fragment.occupied_bits)
        said[kind(fragment)[:4]] = first, count
    assert said["mma", "e2m1", "A", 8] == (2, 4)
    assert said["mma", "e4m3", "A", 8] == (0, 8)


LOAD = """
template <class Fragment> __device__ void load(const short* matrix, int width, short* out) {
#pragma unroll
  for (int reg = 0; reg < Fragment::registers; ++reg)
#pragma unroll
    for (int slot = 0; slot < Fragment::slots; ++slot) {
      const lanemap::cell c = Fragment::at(threadIdx.x, reg, slot);
      out[reg * Fragment::slots + slot] = matrix[c.row * width + c.col];
    }
}
"""


def test_a_load_that_takes_any_fragment_needs_the_registers_of_one_by_hand(everything, nvcc, tmp_path):
    """Of 32 and of 128 threads, each in a header of its own."""
    for name in ("A of mma m16n8k16 f16", "C of mma m16n8k16 f32", "D of wgmma m64n256k16 f16"):
        fragment = next(fragment for _, fragment in everything if str(fragment) == name and fragment.has_rows)
        count = fragment.registers * fragment.slots
        sizes = f"static constexpr int registers = {fragment.registers}, slots = {fragment.slots};"
        at = f"static LANEMAP_FUNCTION lanemap::cell at(int lane, int reg, int slot) {{ {BY_HAND[name][0]} }}"
        kernels = (
            f'extern "C" __global__ void {kernel}(const short* matrix, int width, short* out) {{\n'
            f"  short values[{count}];\n  load<{type_}>(matrix, width, values);\n"
            f"  for (int i = 0; i < {count}; ++i) out[i * blockDim.x + threadIdx.x] = values[i];\n}}\n"
            for kernel, type_ in (("ours", f"lanemap::{fragment.key.identifier}"), ("theirs", "hand"))
        )
        file = tmp_path / f"{fragment.key.identifier}.cu"
        text = export([fragment], "cpp", "VERSION").text
        file.write_text("\n".join([text, f"struct hand {{ {sizes} {at} }};", LOAD, *kernels]))
        done = nvcc(file, "-Xptxas=-v", to=["-arch=sm_90a", "-cubin", "--keep", f"--keep-dir={tmp_path}"])
        assert done.returncode == 0, done.stderr[:2000]
        found = dict(re.findall(r"properties for (\w+)\n.*\n.*: Used (\d+) registers", done.stderr))
        assert found["ours"] == found["theirs"], (name, found)
        assert set(re.findall(r"(\d+) bytes spill", done.stderr)) == {"0"}


def test_the_kernel_of_the_guide_compiles_and_copies_a_matrix(run, nvcc, tmp_path, monkeypatch):
    """On simulated threads each element comes back to its cell; with two registers exchanged it does not."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "cli" / "web" / "guide" / "export.md"
    (kernel,) = re.findall(r"^```cuda\n(// load.cu\n.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    command = re.search(r"^lanemap (export --format cpp .*fragments.hpp)$", page.read_text(), re.MULTILINE)[1]
    assert run(*command.split()).code == 0
    wrong = kernel.replace("same[cell.row", "same[(cell.row ^ 8)")
    for text, code in ((kernel, 0), (wrong, 1)):
        (tmp_path / "load.cu").write_text(text)
        done = nvcc(tmp_path / "load.cu", to=["-arch=sm_80", "-ptx"])
        assert done.returncode == 0, done.stderr
        arguments = ("--block", "32", "--arg", "matrix=f16[16,16]", "--arg", "same=f16[16,16]")
        product = ("--product", "same[m,k] = matrix[m,k]")
        assert run("trace", "load.out", *arguments, *product).code == code
