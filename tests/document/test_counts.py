"""Where a section draws the layouts, the numbers of registers that it states are compared with those of the forms."""

import re

import pytest

from lanemap.db.isa.forms import forms
from lanemap.db.isa.instructions import Key, operand
from lanemap.ingest.document import read_documents, read_text
from lanemap.ingest.document.sections import Kind

SMALL = {1: "one", 2: "two", 4: "four", 8: "eight", 16: "16", 32: "thirty two"}
SHAPES = ("16x32bx2", "16x64b", "32x32b"), ("16x128b",), ("16x256b",)


def registers(name, form, role):
    type_ = form.d if role == "D" else form.a
    return operand(Key(name, form.shape, type_, role, qualifiers=form.qualifiers))


def product(name, k, off=0):
    """A section of a product with a row for every type of A and D, whose registers are ``off`` by some."""
    sparse = "sparse " if name.endswith("sp") else ""
    lines = [f"### 7.1. Matrix Fragments for {sparse}`wgmma.mma_async.m64nNk{k}`", ""]
    of = [form for form in forms(name) if form.shape.endswith(f"k{k}")]
    for role in "AD":
        lines += ["", f"| .{role.lower()}type | Fragment |", "|---|---|"]
        for type_ in sorted({form.a if role == "A" else form.d for form in of}):
            form = next(form for form in of if type_ == (form.a if role == "A" else form.d))
            held = registers(name, form, role)
            n = int(re.search(r"n(\d+)", form.shape)[1])
            count = f"N/{n // held.registers + off} number of" if role == "D" else SMALL[held.registers * 2**off]
            each = f", with each register containing {SMALL[held.slots]}" if held.slots > 1 else ""
            lines.append(f"| `.{type_}` | A vector expression containing {count} `.b32` registers{each} elements. |")
    if sparse:
        slots = operand(Key(name, of[0].shape, of[0].a, "E")).slots
        lines += ["", f"Metadata: a `.b32` register containing {SMALL[slots * 2**off]} 2-bit vectors."]
    return "\n".join(lines)


def moves(name, change=()):
    """A section of a move with the registers of each shape and number, some of them changed."""
    lines = [f"### 7.2. Instructions: `{name}`", "", "| .num | .shape | | |", "|---|---|---|---|"]
    lines.append("|  | " + " | ".join(" / ".join(f".{shape}" for shape in of) for of in SHAPES) + " |")
    known = {(form.shape, form.qualifiers): form for form in forms(name)}
    for num in (f"x{1 << power}" for power in range(8)):
        cells = [known.get((of[0], num)) for of in SHAPES]
        held = [str(registers(name, form, "r").registers) if form else "NA" for form in cells]
        held = [dict(change).get((num, of), cell) for of, cell in enumerate(held)]
        lines.append(f"| `.{num}` | {' | '.join(held)} |")
    return "\n".join(lines)


def remarks(text):
    found = read_documents([read_text("page", f"# PTX ISA\n\n{text}\n".encode())], "made-up").remarks
    return [
        [remark for remark in found if remark.kind is kind] for kind in (Kind.COUNTED, Kind.NOTE)
    ]  # what agrees, what does not


@pytest.mark.parametrize(
    ("name", "k"),
    [(name, k) for name in ("wgmma", "wgmma.sp") for k in sorted({form.shape.split("k")[1] for form in forms(name)})],
)
def test_numbers_of_registers_of_wgmma_are_compared(name, k):
    ((counted,), notes) = remarks(product(name, k))
    rows = product(name, k).count("vector expression") + (name == "wgmma.sp")
    assert counted.reason == f"{rows} numbers as the table of forms has them"
    assert notes == []
    counted, notes = remarks(product(name, k, off=1))
    assert counted == []
    assert len(notes) == rows


@pytest.mark.parametrize("name", ["tcgen05.ld", "tcgen05.st"])
def test_numbers_of_registers_of_tensor_memory_are_compared(name):
    ((counted,), notes) = remarks(moves(name))
    assert (counted.reason, notes) == ("21 numbers as the table of forms has them", [])
    for change in [{("x8", 1): "8"}, {("x128", 2): "512"}, {("x1", 0): "NA"}]:
        _, notes = remarks(moves(name, change.items()))
        assert len(notes) == 1, change
