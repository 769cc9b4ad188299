"""Spellings, against what real headers, assemblers and number formats say."""

import importlib.util
import re
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lanemap import LanemapError
from lanemap.db.isa.forms import forms
from lanemap.db.isa.names import Query
from lanemap.db.isa.parse import parse
from lanemap.db.isa.spelling import MODIFIERS, opcode, words
from lanemap.db.isa.spelling import atom as atom_of
from lanemap.db.isa.types import known_type

from ..forms import CAPTURED, FORMS

_STRUCT = re.compile(r"^struct\s+(\w+(?:\s*<[^{;]*?>)?)\s*(?::[^{;]*)?\{(.*?)^\};", re.DOTALL | re.MULTILINE)


def folder(package: str, path: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]) / path


def atoms():
    """Every struct of CuTe's instructions, by its name in full, with the strings that it assembles."""
    for file in sorted(folder("cutlass_library", "source/include/cute/arch").glob("*_sm*.hpp")):
        text = file.read_text()
        for name, body in _STRUCT.findall(text):
            sparse = "SM90::GMMA::SPARSE::" if "gmma_sparse" in file.name else ""
            strings = [text for text in re.findall(r'"([^"\n]*)"', body) if not re.search("ttempt|should", text)]
            yield sparse + name, " ".join(strings)


def test_every_atom_that_a_form_has_is_in_cutlass_and_is_that_form():
    headers = folder("cutlass_library", "source/include/cute")
    text = "".join(file.read_text() for file in sorted(headers.glob("a*/*_sm*.hpp")))
    known = set(re.findall(r"\w+", text))
    called = {form: name for form in forms() if (name := atom_of(form))}
    lacking = {name for form, name in called.items() if re.sub("<.*", "", name).split("::")[-1] not in known}
    assert all(re.fullmatch(r"SM100_SU[46]_DU8x16_x[12]_LDSM_T", name) for name in lacking)
    assert all(form in Query(name).forms for form, name in called.items() if form.instruction.multiplies)


def test_every_atom_of_cutlass_says_what_it_assembles():
    read, refused = 0, []
    for atom, assembly in atoms():
        try:
            name = parse(atom)
        except LanemapError as error:
            refused.append((atom, assembly, str(error)))
            continue
        if name is None:
            assert not re.search("mma|matrix", assembly), atom
            continue
        assembled = parse(assembly)
        for said in ("instruction", "shape", "type", "types", "layouts", "qualifiers"):
            its = [[word for word, kind in words.items() if kind == said] for words in (name, assembled)]
            assert its[0] == its[1], (atom, said)
        assert {word for word, kind in name.items() if kind in MODIFIERS} <= assembled.keys(), atom
        assert Query(atom).parameters()["shape"] == Query(assembly).parameters()["shape"]
        assert Query(assembly).forms[0] in Query(atom).forms
        read += 1
    assert read > 2400
    for atom, assembly, why in refused:
        complex_numbers = "complex" in why and "C64" in atom
        elsewhere = not re.search(r"\b(mma\.sync|wgmma|(ld|st|mov)matrix|tcgen05\.(ld|st)\.)", assembly)
        assert complex_numbers or elsewhere, (atom, why)


def kernel(form, number: int) -> str:
    """A kernel that executes one form, with operands from memory."""

    def registers(role):
        operand = form.operand(role)
        kind = "f64" if operand.register_bits == 64 else "f32" if operand.type == "f32" else "b32"
        return kind, [f"%{role.lower()}{index}" for index in range(operand.registers)]

    lines = ["ld.param.u64 %at, [at];", "ld.global.b32 %e, [%at];"]
    for role in "ABC":
        kind, names = registers(role)
        lines += [f"ld.global.{kind} {name}, [%at + {64 * 'ABC'.index(role) + 8 * i}];" for i, name in enumerate(names)]
    operands = ["{" + ", ".join(registers(role)[1]) + "}" for role in "DABC"]
    operands += ["%e", "0"] if form.sparse else []
    operands += ["%e", "{0, 0}", "%e", "{0, 0}"] if form.scale is not None else []
    kind, names = registers("D")
    lines += [
        f"{form} {', '.join(operands)};",
        *(f"st.global.{kind} [%at + {8 * i}], {n};" for i, n in enumerate(names)),
    ]
    declared = [f".reg .{registers(role)[0]} {', '.join(registers(role)[1])};" for role in "ABCD"]
    body = "\n".join([".reg .b64 %at; .reg .b32 %e;", *declared, *lines, "ret;"])
    return f".visible .entry form{number}(.param .u64 at) {{\n{body}\n}}\n"


_MIXED = {"u8": "s8", "s4": "u4", "e4m3": "e5m2", "e2m3": "e3m2"}


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_120a"])
def test_what_the_assembler_makes_of_a_form_is_read_as_that_form(target, tmp_path):
    """On the first target that has a form, where later ones may put it together from other instructions."""
    tools = folder("triton", "backends/nvidia/bin")
    first = {"sm_70": "sm_75"}
    pure = [form for form in FORMS if first.get(form.target, form.target) == target]
    mixed = [replace(form, b=_MIXED[form.a]) for form in pure if form.a in _MIXED and form.scale is None]
    chosen = dict(enumerate([*pure, *mixed]))
    source, binary = tmp_path / "forms.ptx", tmp_path / "forms.cubin"
    kernels = "".join(kernel(form, number) for number, form in chosen.items())
    source.write_text(f".version 9.1\n.target {target}\n.address_size 64\n{kernels}")
    ptxas = next(folder("nvidia", "").glob("*/bin/ptxas"))
    subprocess.run([ptxas, "-arch", target, source, "-o", binary], check=True, capture_output=True)
    listing = subprocess.run([tools / "nvdisasm", "-c", binary], check=True, capture_output=True, text=True).stdout
    sections = re.split(r"^\s*\.section\s+\.text\.form(\d+)", listing, flags=re.MULTILINE)
    assembled = dict(zip(map(int, sections[1::2]), sections[2::2], strict=True))
    assert assembled.keys() == chosen.keys()
    for number, form in chosen.items():
        opcodes = {line.split("*/")[-1] for line in assembled[number].splitlines() if re.search(r"\wMMA\.", line)}
        assert opcodes, form
        for line in opcodes:
            named = next(token for token, kind in parse(line).items() if kind == "spelling")
            assert words(named) == words(opcode(form))
            assert all(Query(line).type_named(role) == form.types[role] for role in "ABCD"), line
            # An opcode does not tell .kind::f8f6f4 from its absence, which no layout depends on.
            found = Query(line).forms
            assert (form.name, form.shape, form.types) in [(one.name, one.shape, one.types) for one in found]
            if form.scale is not None:
                # Nor does it tell .kind::mxf4 from .kind::mxf4nvf4, but it does tell how many scales there are.
                assert {one.kind.split(".")[-1] for one in found} == {form.kind.split(".")[-1]}, line


def test_an_opcode_tells_the_types_of_both_accumulators():
    """``HMMA.884.F32.F16`` alone has a C of another type than D: no other opcode names both."""
    assert {(form.d, form.c) for form in Query("HMMA.884.F32.F16").forms} == {("f32", "f16")}
    told = defaultdict(set)
    for form in CAPTURED:
        if not form.role and opcode(form):
            told[opcode(form)].add((form.d, form.c))
    assert {line: types for line, types in told.items() if len(types) > 1} == {}


F16, S8 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
F64 = "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
NARROW = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e3m2.e3m2.f32"
SCALED = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0"


@pytest.mark.parametrize(
    ("mnemonic", "words", "others", "taken"),
    [
        (F16, ".row.col", ".row.row", False),
        (F16, ".row.col", ".col.col", False),
        (F16, ".m16n8k16.row.col", ".row.col.m16n8k16", True),
        (F16, ".row.col", ".row.col.satfinite", False),
        (F16, ".row.col", ".row.col.kind::f16", False),
        (F16, ".f32.f16.f16.f32", ".f32.f16.bf16.f32", False),
        (F16, ".f32.f16.f16.f32", ".f32.bf16.bf16.f32", True),
        (F16, ".f32.f16.f16.f32", ".f32.half.half.f32", False),
        (S8, ".row.col", ".row.col.satfinite", True),
        (S8, ".s32.s8.s8.s32", ".s32.s8.u8.s32.satfinite", True),
        (S8, ".s32.s8.s8.s32", ".s32.s8.s4.s32", False),
        (F64, ".row.col", ".row.col.rz", True),
        (F64, ".row.col", ".row.col.satfinite", False),
        (SPARSE, ".sp::ordered_metadata", ".sp", True),
        (NARROW, ".sp::ordered_metadata", ".sp", False),
        (NARROW, ".kind::f8f6f4", ".kind::mxf4", False),
        (NARROW, ".e3m2.e3m2", ".e2m1.e4m3", True),
        (SCALED, ".ue8m0", ".ue4m3", True),
        (SCALED, "4X", "2X", True),
        (SCALED, "4X", "1X", False),
        (SCALED, "nvf4.block_scale.scale_vec::4X", ".block_scale", True),
        (SCALED, "nvf4.block_scale.scale_vec::4X", ".block_scale.scale_vec::4X", False),
        (SCALED, "scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0", "scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3", False),
    ],
)
def test_a_name_is_what_the_assembler_takes(mnemonic, words, others, taken, tmp_path):
    """With other words in the place of some: a name is refused, or it is one, just where ptxas says so."""
    form = next(form for form in FORMS if form.mnemonic == mnemonic)
    near = mnemonic.replace(words, others)
    assert near != mnemonic
    source = tmp_path / "near.ptx"
    text = kernel(form, 0).replace(mnemonic, near)
    target = form.target if form.target[-1] == "a" else "sm_90"
    source.write_text(f".version 9.1\n.target {target}\n.address_size 64\n{text}")
    ptxas = next(folder("nvidia", "").glob("*/bin/ptxas"))
    assembled = subprocess.run([ptxas, "-arch", target, source, "-o", tmp_path / "out"], capture_output=True)
    assert (assembled.returncode == 0) == taken
    if taken:
        assert Query(near).forms
    else:
        with pytest.raises(LanemapError):
            assert Query(near).tokens


MOVES = {
    "LDSM.16.M88.4 R4, [R2]": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "LDSM.16.MT88.2 R4, [R2]": "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "STSM.16.M88 [R0], R1": "stmatrix.sync.aligned.m8n8.x1.shared.b16",
    "STSM.16.MT88.4 [R0], R4": "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "LDSM.8.MT1616.2 R16, [R0]": "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8",
    "LDSM.U6x16P32TO8.M816 R7, [R0]": "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32",
    "LDSM.U4x16P64TO8.M816.4 R8, [R0]": "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
    "LDSM.U4x16P64TO8.MT1616.2 R12, [R0]": "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b4x16_p64",
    "STSM.8.MT168 [R0], R21": "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8",
    "STSM.8.MT168.4 [R0], R4": "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8",
    "MOVM.16.MT88 R1, R5": "movmatrix.sync.aligned.m8n8.trans.b16",
    "LDTM.16dp256bit R4, tmem[UR4]": "tcgen05.ld.sync.aligned.16x256b.x1.b32",
    "LDTM.x4 R4, tmem[UR4]": "tcgen05.ld.sync.aligned.32x32b.x4.b32",
    "STTM.16dp64bit.x4 tmem[UR4], R4": "tcgen05.st.sync.aligned.16x64b.x4.b32",
}


@pytest.mark.parametrize("opcode", MOVES)
def test_opcodes_of_moves(opcode):
    """Pairs of what nvdisasm 12.9 lists for sm_100a, or for sm_120a, and what was assembled."""
    assert [form.mnemonic for form in Query(opcode).forms] == [MOVES[opcode]]


def test_number_formats_of_ml_dtypes_by_their_names():
    """Each name either is a type of PTX with as many bits, or is left alone."""
    names = [name for name in dir(ml_dtypes) if name[0] != "_" and isinstance(getattr(ml_dtypes, name), type)]
    bits = {"bf16": 16, "e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4, "s4": 4, "u4": 4, "b1": 1}
    known = {}
    for name in names:
        try:
            known[name] = known_type(name)[0]
        except LanemapError:
            continue
    assert known == {
        "bfloat16": "bf16",
        "float8_e4m3": "e4m3",
        "float8_e4m3fn": "e4m3",
        "float8_e5m2": "e5m2",
        "float6_e3m2fn": "e3m2",
        "float6_e2m3fn": "e2m3",
        "float4_e2m1fn": "e2m1",
        "int4": "s4",
        "uint4": "u4",
        "uint1": "b1",
    } | ({"int1": "b1"} if "int1" in names else {})
    for name, type_ in known.items():
        kind = ml_dtypes.finfo if "float" in name else ml_dtypes.iinfo
        assert kind(getattr(ml_dtypes, name)).bits == bits[type_], name


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "uint8", "int32"])
def test_types_of_numpy_by_their_names(name):
    type_, bits = re.fullmatch(r"([a-z]+)(\d+)", known_type(name)[0]).groups()
    assert int(bits) == 8 * np.dtype(name).itemsize
    assert type_ == {"float": "f", "int": "s", "uint": "u"}[name.rstrip("0123456789")]
