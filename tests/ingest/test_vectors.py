"""What the document says of vectors that threads have for themselves: how many registers, and nothing of their bits."""

from itertools import product
from math import ceil

import pytest

from lanemap import LanemapError
from lanemap.db import lookup
from lanemap.db.isa.forms import forms
from lanemap.db.isa.instructions import operand
from lanemap.db.isa.names import Query

from ..shipped import CORRECTED

COUNTS = [1 << at for at in range(7)]
FACTORS = [(kept, of) for kept in (1, 2, 4) for of in (2, 4, 8, 16) if kept < of]
NEW = ("spcompress", "spdecompress", "tcgen05.ld.spcompress", "tcgen05.ld.red.spcompress")


def compressing():
    """Registers by mnemonic: table 37, and at most 253 of them."""
    for element, index, count in product((8, 16), (2, 4), COUNTS):
        sizes = {"mdata": ceil(count * index / element), "cdata": count, "data": 2 * count}
        if sum(sizes.values()) <= 253:
            yield f"spcompress.b{element}.b{index}.sp::2:4.x{count}", sizes


def decompressing():
    """Registers by mnemonic: table 39, and the conditions below it."""
    for (kept, of), element, index, count in product(FACTORS, (8, 16), (2, 4), COUNTS):
        bits = {"data": of * element * count, "mdata": kept * index * count, "cdata": kept * element * count}
        sizes = {name: ceil(number / 32) for name, number in bits.items()}
        fits = kept * element <= 32 <= bits["data"] <= 4096 and (index == 4 or of <= 4)
        if fits and sum(sizes.values()) <= 253:
            yield f"spdecompress.b{element}.b{index}.sp::{kept}:{of}.x{count}", sizes


@pytest.mark.parametrize("stated", [compressing, decompressing])
def test_the_forms_are_those_that_the_section_allows_with_the_registers_of_its_table(stated):
    wanted = dict(stated())
    name = next(iter(wanted)).partition(".")[0]
    found = {form.mnemonic: {role: form.operand(role).registers for role in form.types} for form in forms(name)}
    assert found == wanted


def test_each_form_has_its_operands_in_the_document_without_rows(sources):
    """Those of tcgen05.ld.red are drawn: lanes of its figures."""
    new = [fragment for fragment in sources[CORRECTED].fragments if fragment.instruction in NEW]
    assert {fragment.key for fragment in new} == {
        form.key(role) for name in NEW for form in forms(name) for role in form.types
    }
    for fragment in new:
        assert (fragment.status, fragment.has_rows, fragment.partial) == (
            "unstated",
            False,
            fragment.role in ("mdata", "cdata"),
        )
        held = operand(fragment.key)
        assert (fragment.registers, fragment.slots) == (held.registers, held.slots)
        if fragment.role == "mdata":
            assert fragment.slot_bits == int(fragment.qualifiers[-1])


@pytest.mark.parametrize("name", ["tcgen05.ld.spcompress", "tcgen05.ld.red.spcompress"])
def test_what_is_loaded_compressed_has_the_registers_of_the_table(name):
    for form in forms(name):
        count = int(form.qualifiers.partition(".")[0][1:])
        reduced = {"redval": 1} if "red" in name else {}
        assert {role: form.operand(role).registers for role in form.types} == {
            "mdata": ceil(count / 32),
            "cdata": count // 2,
            **reduced,
        }


@pytest.mark.parametrize("name", NEW)
def test_a_mnemonic_names_the_operands_of_one_form(name, reader):
    for form in forms(name)[::7]:
        found = lookup.fragments(reader, Query.parse(form.mnemonic))
        assert {fragment.key for fragment in found} == {form.key(role) for role in form.types}
        for role in form.types:
            found = lookup.fragments(reader, Query.parse([form.mnemonic, role]))
            assert {fragment.key for fragment in found} == {form.key(role)}


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        ("spcompress.b8.b2.sp::2:8.x4", "write .sp::2:4 instead of .sp::2:8"),
        ("spdecompress.b8.b2.sp::2:8.x4", "write .sp::1:2, .sp::1:4 or .sp::2:4 instead"),
        ("spdecompress.b16.b4.sp::4:8.x1", "write .sp::"),
        ("spcompress A", "spcompress has no A: it has mdata, cdata, data"),
        ("spcompress 2:4 b32", "b16, b8"),
    ],
)
def test_what_there_is_not_is_answered_with_what_there_is(asked, right, reader):
    with pytest.raises(LanemapError, match=right):
        lookup.fragments(reader, Query.parse(asked))


def elements(of):
    """The rows of spcompress b8 x1 if what is kept of a group follows each other; of ``of`` lanes."""
    head = "shape,type,role,lane,reg,slot,row,col,col_last,computation,instruction,qualifiers\n"
    rows = [
        (role, lane, 0, slot, lane, slot % 2, slot % 2 + 2, slot // 2 + 1)
        for role in ("mdata", "cdata")
        for lane in range(of)
        for slot in range(4)
    ]
    rows += [
        ("data", lane, slot // 4, slot % 4, lane, slot % 4, slot % 4, slot // 4 + 1)
        for lane in range(of)
        for slot in range(8)
    ]
    return head + "".join(
        f"2:4,b8,{role},{','.join(map(str, rest))},spcompress,x1.b2\n" for role, *rest in sorted(rows)
    )


@pytest.mark.slow
def test_an_import_fills_what_no_document_states(file, run, tmp_path):
    """It answers, is judged by structure alone, and is not taken for the document's."""
    (tmp_path / "own.csv").write_text(elements(32))
    (tmp_path / "short.csv").write_text(elements(31))
    for name in ("own", "short"):
        assert run("import", "table", str(tmp_path / f"{name}.csv"), db=file).code == 0
    assert run("list", "findings", "--source", "own", "-f", "csv", db=file).out.count("\n") == 1
    assert "rows 31" in run("list", "findings", "--source", "short", db=file).out
    shown = run("find", "spcompress", "2:4", "b8", "x1.b2", "mdata", "--row", "3", "--col", "0", "-f", "csv", db=file)
    assert shown.out.count("\n") == 3
    assert "neither documented nor measured" in shown.err
