"""What the document says of wgmma, wgmma.sp and the moves of matrices, against what an H200 does."""

import re
from collections import Counter, defaultdict

import pytest

from lanemap.db.isa.instructions import tile
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue

from ..shipped import NUMBERED, recorded

WARPGROUP = ("wgmma", "wgmma.sp")
MOVES = ("ldmatrix", "stmatrix", "movmatrix")

#: What no H200 can run.
ELSEWHERE = {
    *(("ldmatrix", "m8n16", "b8x16", role, f"x{n}") for role in "rp" for n in (1, 2, 4)),
    *(("ldmatrix", "m16n16", type_, "r", f"x{n}.trans") for type_ in ("b8", "b8x16") for n in (1, 2)),
    *(("stmatrix", "m16n8", "b8", "r", f"x{n}.trans") for n in (1, 2, 4)),
}


#: What the card has that an earlier version does not know.
ADDED = {"9.1": {("ldmatrix", "m8n16", "s8", role, f"x{n}") for role in "rp" for n in (1, 2, 4)}, "9.4": set()}


@pytest.fixture(scope="module", params=NUMBERED)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def documented(sources, version):
    """The fragments of these instructions in registers by key: as printed, and as corrected."""
    return [in_registers(sources[f"ptx-isa-{version}{end}"]) for end in ("", "+errata")]


@pytest.fixture(scope="module")
def measured():
    return in_registers(recorded())


def in_registers(source):
    named = (one for one in source.fragments if one.instruction in (*WARPGROUP, *MOVES))
    return {one.key: one for one in named if tile(one.key) is None}


def test_the_document_names_what_an_h200_has_and_what_is_newer(documented, measured, version):
    for source in documented:
        missing, newer = measured.keys() - source.keys(), source.keys() - measured.keys()
        assert {(*key[:4], key.qualifiers) for key in missing} == ADDED[version]
        assert {(*key[:4], key.qualifiers) for key in newer} == ELSEWHERE


def test_registers_and_slots_are_those_measured(documented, measured):
    for key in measured.keys() & documented[0].keys():
        fragment = measured[key]
        assert (documented[0][key].registers, documented[0][key].slots) == (fragment.registers, fragment.slots), (
            fragment
        )


def test_each_width_has_the_registers_of_the_documents_tables(documented):
    every, integer = set(range(8, 257, 8)), {8, 16, 24, 32, *range(48, 257, 16)}
    widths = defaultdict(set)
    for fragment in documented[0].values():
        if fragment.instruction in WARPGROUP:
            n = int(re.search(r"n(\d+)", fragment.shape)[1])
            widths[fragment.instruction, fragment.type, fragment.role].add(n)
            assert (
                fragment.registers == {"A": 4, "D": n // 4 if fragment.type == "f16" else n // 2, "E": 1}[fragment.role]
            )
    for (_, type_, _), found in widths.items():
        assert found == (integer if type_ in ("s8", "u8", "b1", "s32") else every)


def test_only_what_is_drawn_has_no_rows(documented):
    drawn = {("ldmatrix", "m16n16"), ("stmatrix", "m16n8")}
    for source in documented:
        for fragment in source.values():
            only_drawn = fragment.instruction in WARPGROUP or (fragment.instruction, fragment.shape) in drawn
            assert fragment.has_rows != only_drawn
            assert fragment.status == ("figure-only" if only_drawn else "documented")
            assert fragment.citation.figures or fragment.role == "p"


def test_wmma_is_opaque(sources):
    assert not [
        fragment for source in sources.values() for fragment in source.fragments if fragment.instruction == "wmma"
    ]


def test_rows_are_those_measured_but_for_the_erratum(documented, measured, version):
    printed, corrected = documented
    several = {key for key, fragment in corrected.items() if fragment.has_rows and key in measured}
    assert Counter(key.instruction for key in several) == {
        "ldmatrix": {"9.1": 12, "9.4": 18}[version],
        "stmatrix": 12,
        "movmatrix": 2,
    }
    assert all(corrected[key].same_layout(measured[key]) for key in several)
    wrong = {key for key in several if not printed[key].same_layout(measured[key])}
    assert wrong == {key for key in several if corrected[key].citation.erratum}
    assert {key[:4] for key in wrong} == {("movmatrix", "m8n8", "b16", "D")}


def test_rows_are_sound(documented):
    assert [check(fragment) for source in documented for fragment in source.values() if check(fragment)] == []


def test_movmatrix_as_printed_moves_nothing(documented):
    """A number in each slot of the source, transposed: the printed layout of the result has it where it was."""
    for source, moves in zip(documented, (0, 56), strict=True):
        by_role = {key.role: fragment for key, fragment in source.items() if key.instruction == "movmatrix"}
        cells = {(e.row, e.col): (e.lane, e.slot) for e in by_role["A"].records()}
        after = {(e.lane, e.slot): cells[e.col, e.row] for e in by_role["D"].records()}
        assert sum(place != came for place, came in after.items()) == moves


def test_each_matrix_has_eight_addresses_and_its_own_registers(documented):
    for source in documented:
        for key, fragment in source.items():
            if key.instruction == "movmatrix" or not fragment.has_rows:
                continue
            matrices = int(key.qualifiers[1])
            if key.role == "p":
                given = {(e.lane, e.row, e.computation) for e in fragment.records()}
                assert given == {(8 * n + row, row, n + 1) for n in range(matrices) for row in range(8)}
                assert {e.col for e in fragment.records()} == {0}
            else:
                assert {(e.reg, e.computation) for e in fragment.records()} == {(n, n + 1) for n in range(matrices)}


def test_four_threads_hold_a_row_of_memory_in_order(documented):
    """A column of memory where the move transposes."""
    for key, fragment in documented[0].items():
        if key.role != "r" or not fragment.has_rows:
            continue
        lines = defaultdict(list)
        for e in fragment.records():
            line, place = (e.col, e.row) if key.qualifiers.endswith("trans") else (e.row, e.col)
            lines[e.computation, line].append((e.lane, e.slot, place))
        width = fragment.dimensions[1]
        for (_, line), held in lines.items():
            assert [place for *_, place in held] == list(range(width))
            assert {lane for lane, *_ in held} == set(range(4 * line, 4 * line + 4))


def test_sections_and_figures(documented, version):
    warp, warpgroup, _, higher = NUMBERED[version]
    sections = defaultdict(set)
    for fragment in documented[0].values():
        assert re.fullmatch(r"[a-z0-9-]+", fragment.citation.anchor)
        numbers = {int(number) for number in re.findall(r"(\d+) #", fragment.citation.figures or "")}
        if fragment.citation.same_as:
            assert (fragment.instruction, fragment.role) == ("wgmma.sp", "D")
            k = int(fragment.shape.partition("k")[2])
            assert fragment.citation.same_as == f"{warpgroup}.5.1.1.{[32, 16, 64].index(k) + 1}"
        else:
            sections[fragment.citation.section] |= numbers
    expected = {
        f"{warp}.5.15": {104, 105, 106},
        f"{warp}.5.16": {107, 108},
        f"{warp}.5.17": {109, 110},
        **{f"{warpgroup}.5.1.1.{n}": {146 + 2 * n, 147 + 2 * n} for n in range(1, 5)},
        f"{warpgroup}.6.2.1": {175, 176},
        f"{warpgroup}.6.2.2": {177, 178},
        f"{warpgroup}.6.2.3": {179, 180, 181},
    }
    assert sections == {number: {figure + higher for figure in figures} for number, figures in expected.items()}


def test_an_entry_names_many_shapes():
    entry = {"roles": ["A"], "types": ["s8"], "n": [[8, 16, 8], [32, 64, 16]]}
    keys = list(catalogue.keys({"instruction": "wgmma", "shape": "m64nNk32"}, entry))
    assert [key.shape for key in keys] == [f"m64n{n}k32" for n in (8, 16, 32, 48, 64)]


def test_metadata_has_a_fragment_for_each_selector():
    entry = {"roles": ["E"], "types": ["f16"], "shapes": {"mma.sp": "m16n8k32", "wgmma.sp": "m64n8k32"}}
    keys = list(catalogue.keys({"instruction": "mma.sp", "shape": "m16n8k32"}, entry))
    assert [(key.instruction, key.selector) for key in keys] == [
        (name, selector) for name in ("mma.sp", "wgmma.sp") for selector in (0, 1)
    ]
