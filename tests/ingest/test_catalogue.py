"""mma and mma.sp in the catalogue against what the document's tables say, and against matrix multiplication."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import lanemap
from lanemap.db.isa.instructions import dimensions
from lanemap.db.layout.fragment import Citation
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue

from ..shipped import CORRECTED, NUMBERED, SHIPPED

# What the list says, shape by shape: the types of A and B, then those of C and D.
DENSE = {
    "m8n8k4": ("f16 f64", "f16 f32 f64"),
    "m8n8k16": ("s8 u8", "s32"),
    "m8n8k32": ("s4 u4", "s32"),
    "m8n8k128": ("b1", "s32"),
    "m16n8k4": ("tf32 f64", "f32 f64"),
    "m16n8k8": ("f16 bf16 tf32 f64", "f16 f32 f64"),
    "m16n8k16": ("f16 bf16 f64 s8 u8 e4m3 e5m2", "f16 f32 f64 s32"),
    "m16n8k32": ("s4 u4 s8 u8 e4m3 e5m2 e3m2 e2m3 e2m1", "s32 f32 f16"),
    "m16n8k64": ("s4 u4 e2m1", "s32 f32"),
    "m16n8k128": ("b1", "s32"),
    "m16n8k256": ("b1", "s32"),
}
SPARSE = {
    "m16n8k8": ("tf32", "f32"),
    "m16n8k16": ("f16 bf16 tf32", "f16 f32"),
    "m16n8k32": ("f16 bf16 s8 u8", "f16 f32 s32"),
    "m16n8k64": ("s8 u8 e4m3 e5m2 e3m2 e2m3 e2m1 s4 u4", "s32 f32 f16"),
    "m16n8k128": ("s4 u4 e2m1", "s32 f32"),
}
WIDTH = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}
SELECTORS = {
    ("m16n8k8", "tf32"): 4,
    ("m16n8k16", "f16"): 4,
    ("m16n8k16", "bf16"): 4,
    ("m16n8k16", "tf32"): 2,
    ("m16n8k32", "f16"): 2,
    ("m16n8k32", "bf16"): 2,
    ("m16n8k32", "s8"): 2,
    ("m16n8k32", "u8"): 2,
    ("m16n8k64", "s4"): 2,
    ("m16n8k64", "u4"): 2,
}


@pytest.fixture(scope="module")
def sources(sources):
    """The documents with mma and mma.sp alone, without block scales, which another section has."""

    def part(source):
        products = [fragment for fragment in source.fragments if fragment.instruction in ("mma", "mma.sp")]
        return replace(source, fragments=[product for product in products if product.role in "ABCDE"])

    return {name: part(source) for name, source in sources.items()}


@pytest.fixture(scope="module")
def fragments(sources):
    return [fragment for fragment in sources[CORRECTED].fragments if fragment.elements is not None]


@pytest.fixture(scope="module", params=NUMBERED)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def both(sources, version):
    """A version of the document as printed, and as corrected."""
    return sources[f"ptx-isa-{version}"], sources[f"ptx-isa-{version}+errata"]


@pytest.mark.parametrize("name", [name for name in SHIPPED if name.startswith("ptx-isa")])
def test_every_operand_of_every_type_is_there(sources, name):
    there = Counter(
        (fragment.instruction, fragment.shape, fragment.type, fragment.role) for fragment in sources[name].fragments
    )
    expected = Counter()
    for instruction, table in (("mma", DENSE), ("mma.sp", SPARSE)):
        for shape, (multiplicands, accumulators) in table.items():
            for type_ in multiplicands.split():
                both_majors = shape == "m8n8k4" and type_ == "f16"
                expected |= {(instruction, shape, type_, role): 1 + both_majors for role in "AB"}
                if instruction == "mma.sp":
                    expected[instruction, shape, type_, "E"] = SELECTORS.get((shape, type_), 1)
            expected |= {(instruction, shape, type_, role): 1 for type_ in accumulators.split() for role in "CD"}
    assert there == expected


def test_registers_hold_just_the_matrix(sources):
    for source in sources.values():
        for fragment in source.fragments:
            if fragment.role == "E":
                assert (fragment.registers, fragment.slot_bits) == (1, 4 if fragment.type == "tf32" else 2)
                continue
            rows, cols = fragment.dimensions
            kept = 2 if fragment.instruction == "mma.sp" and fragment.role == "A" else 1
            computations = 4 if fragment.shape == "m8n8k4" and fragment.type != "f64" else 1
            assert 32 * fragment.registers * fragment.slots == rows * cols * computations // kept, fragment


def test_slots_are_as_wide_as_the_type_or_its_container(both):
    for fragment in both[0].fragments:
        if fragment.role != "E":
            packed = {("mma", "m16n8k64"), ("mma.sp", "m16n8k128")}
            e2m1 = 4 if (fragment.instruction, fragment.shape) in packed else 8
            assert fragment.slot_bits == (e2m1 if fragment.type == "e2m1" else WIDTH.get(fragment.type, 8)), fragment


def test_each_section_has_its_number_anchor_and_figures(both, version):
    fragments, chapter = both[0].fragments, NUMBERED[version][0]
    numbers = {fragment.citation.section for fragment in fragments}
    assert numbers == {f"{chapter}.5.{n}" for n in range(1, 14)} | {f"{chapter}.6.2.{n}" for n in range(1, 9)}
    for fragment in fragments:
        assert re.fullmatch(r"warp-level-matrix-fragment-(sparse-)?mma-\d+[a-z0-9-]*", fragment.citation.anchor)
        assert re.fullmatch(r"\d+ #[a-z0-9-]+(, \d+ #[a-z0-9-]+)*", fragment.citation.figures)
        assert (fragment.citation.formula is None) == (fragment.elements is None) == (fragment.status == "figure-only")


def test_figures_run_through_without_a_gap(both, version):
    higher = NUMBERED[version][-1]
    numbers = {
        int(n) - higher for fragment in both[0].fragments for n in re.findall(r"(\d+) #", fragment.citation.figures)
    }
    assert numbers == set(range(46, 104)) | set(range(118, 148))


def test_only_what_is_drawn_has_no_rows(both):
    for fragment in both[0].fragments:
        drawn = {("m16n8k32", "f16"), ("m16n8k32", "bf16"), ("m16n8k16", "tf32")}
        drawn |= {("m16n8k64", type_) for type_ in "s8 u8 e4m3 e5m2 e3m2 e2m3 e2m1".split()}
        drawn |= {("m16n8k128", type_) for type_ in "s4 u4 e2m1".split()}
        only_drawn = (
            fragment.instruction == "mma.sp" and fragment.role == "B" and (fragment.shape, fragment.type) in drawn
        )
        assert (fragment.elements is None) == (only_drawn or fragment.role == "E"), fragment


def test_references_bring_the_layout_they_name(both):
    by_key = {fragment.key: fragment for fragment in both[0].fragments}
    for fragment in by_key.values():
        if fragment.citation.same_as and fragment.role == "B":
            dense = by_key["mma", *fragment.key[1:]]
            assert (fragment.digest, fragment.citation.formula) == (dense.digest, dense.citation.formula)
            assert fragment.citation.same_as == dense.citation.section


def test_structural_findings_are_just_the_errata(both):
    printed, corrected = both
    assert [fragment for fragment in corrected.fragments if check(fragment)] == []
    wrong = {fragment.key for fragment in printed.fragments if check(fragment)}
    assert wrong == {fragment.key for fragment in corrected.fragments if fragment.citation.erratum}
    assert wrong == {("mma", "m16n8k256", "b1", "A", "row", None, None)}


def test_an_erratum_changes_only_its_own_fragment(both):
    for printed, corrected in zip(*(source.fragments for source in both), strict=True):
        assert printed.key == corrected.key
        assert (printed.digest == corrected.digest) == (corrected.citation.erratum is None)
        if corrected.citation.erratum:
            assert corrected.citation.evidence
            assert corrected.citation.formula != printed.citation.formula


def test_cells_forward_and_back(fragments):
    for fragment in fragments:
        rows, cols = fragment.dimensions
        table = fragment.elements
        slots = {(e["lane"], e["reg"], e["slot"]) for e in table}
        assert slots == {
            (lane, reg, slot)
            for lane in range(32)
            for reg in range(fragment.registers)
            for slot in range(fragment.slots)
        }
        held = Counter((e["computation"], e["row"], col) for e in table for col in range(e["col"], e["col_last"] + 1))
        width = int(table["col_last"][0] - table["col"][0] + 1)
        computations = set(table["computation"].tolist())
        assert set(held) == {(n, row, col) for n in computations for row in range(rows) for col in range(cols)}
        assert set(held.values()) == {max(1, width // 2)}


def test_the_four_computations_are_quads(fragments):
    for fragment in fragments:
        quads = fragment.shape == "m8n8k4" and fragment.type != "f64"
        expected = fragment.elements["lane"] % 16 // 4 + 1 if quads else 1
        assert (fragment.elements["computation"] == expected).all()


def products(fragments):
    """Every combination of A, B and C that one instruction takes and that has rows, as pytest parameters."""
    accumulator = {"f64": ["f64"], "b1": ["s32"], "s8": ["s32"], "u8": ["s32"], "s4": ["s32"], "u4": ["s32"]}
    by_role = {role: [fragment for fragment in fragments if fragment.role == role] for role in "ABD"}
    for a in by_role["A"]:
        for b in by_role["B"]:
            if a.key[:3] != b.key[:3]:
                continue
            for d in by_role["D"]:
                if d.key[:2] == a.key[:2] and d.type in accumulator.get(a.type, ["f16", "f32"]):
                    yield a, b, d


def test_matrices_multiply_through_the_fragments(fragments):
    """Scatter random A and B into registers, multiply what meets, gather D: numpy's own product."""
    random = np.random.default_rng(9)
    seen, proved = set(), set()
    for a, b, d in products(fragments):
        seen.add((a.instruction, a.shape, a.type))
        layouts = (a.shape, a.digest, b.digest, d.digest)
        if layouts not in proved:
            proved.add(layouts)
            for computation in sorted(set(d.elements["computation"].tolist())):
                multiply(a, b, d, computation, random)
    dense = {("mma", shape, type_) for shape, (types, _) in DENSE.items() for type_ in types.split()}
    assert seen >= dense
    assert {key for key in seen if key[0] == "mma.sp"} == {
        *(("mma.sp", "m16n8k16", type_) for type_ in ("f16", "bf16")),
        *(("mma.sp", "m16n8k32", type_) for type_ in ("s8", "u8")),
        *(("mma.sp", "m16n8k64", type_) for type_ in ("s4", "u4")),
        ("mma.sp", "m16n8k8", "tf32"),
    }


def multiply(a, b, d, computation, random):
    (m, k), n = dimensions(a.shape, "A"), dimensions(b.shape, "B")[1]
    left, right = random.integers(-9, 9, (m, k)), random.integers(-9, 9, (k, n))
    in_a, columns, left = scatter_a(a, computation, left, random)
    held = part(b, computation)
    registers = np.zeros((32, b.registers, b.slots), int)
    registers[held["lane"], held["reg"], held["slot"]] = right[held["row"], held["col"]]
    rows_of_b = {row: held[held["row"] == row] for row in range(k)}
    product = np.zeros((m, n), int)
    for slot, (row, col) in columns.items():
        meets = rows_of_b[col]
        product[row, meets["col"]] += in_a[slot] * registers[meets["lane"], meets["reg"], meets["slot"]]
    held = part(d, computation)
    gathered = np.full((m, n), -999)
    gathered[held["row"], held["col"]] = product[held["row"], held["col"]]
    assert (gathered == left @ right).all(), (str(a), str(b), str(d))


def part(fragment, computation):
    return fragment.elements[fragment.elements["computation"] == computation]


def scatter_a(fragment, computation, matrix, random):
    """A in registers; in a sparse one each window keeps half of its columns, at random, in ascending order."""
    table = part(fragment, computation)
    columns, windows = {}, {}
    for lane, reg, slot, row, first, last, _ in table.tolist():
        windows.setdefault((row, first, last), []).append((lane, reg, slot))
    for (row, first, last), inside in sorted(windows.items()):
        kept = sorted(random.choice(np.arange(first, last + 1), len(inside), replace=False).tolist())
        columns |= {slot: (row, col) for slot, col in zip(inside, kept, strict=True)}
    kept = np.zeros(matrix.shape, bool)
    kept[tuple(zip(*columns.values(), strict=True))] = True
    matrix = np.where(kept, matrix, 0)
    return {slot: matrix[cell] for slot, cell in columns.items()}, columns, matrix


def test_a_formula_that_leaves_an_element_out_names_section_element_and_text(monkeypatch):
    section = {
        "section": "1.2.3",
        "anchor": "x",
        "instruction": "mma",
        "shape": "m8n8k4",
        "fragment": [
            {
                "roles": ["A"],
                "types": ["f64"],
                "registers": 2,
                "slots": 1,
                "figures": {},
                "formula": "row = 0 for a0 col = i",
            }
        ],
    }
    monkeypatch.setattr(catalogue, "_read", lambda _: {"x": section, "document": {"title": "T", "version": "1"}})
    with pytest.raises(
        lanemap.LanemapError, match=r"section 1\.2\.3, A of mma m8n8k4 f64: .*row covers a1.*'0 for a0'"
    ):
        catalogue.document("another")


def test_sections_that_contradict_each_other_are_refused(sources, monkeypatch):
    one, _, _, _, other, *_ = sources["ptx-isa-9.1"].fragments
    stated = iter([one, replace(one, elements=other.elements, citation=Citation("2"))])
    monkeypatch.setattr(catalogue, "_described", lambda _: [({}, {}, one.key)] * 2)
    monkeypatch.setattr(catalogue, "fragment", lambda *_, **__: next(stated))
    with pytest.raises(lanemap.LanemapError, match="disagree on A of mma m8n8k4 f16"):
        catalogue.document("ptx-isa-9.1")


def test_what_is_evaluated_alone_is_what_the_newest_document_has():
    documented = catalogue.documented()
    fragments = catalogue.document("ptx-isa-9.4+errata").fragments
    whole = {one.key: one for fragment in fragments for one in fragment.every}
    assert {*documented} == {*whole}
    for key, fragment in whole.items():
        assert (documented[key].digest, documented[key].status) == (fragment.digest, fragment.status)
