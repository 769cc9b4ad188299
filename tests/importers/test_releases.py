"""Every atom of a real release of CUTLASS and of tensor-layouts, against the document and against arithmetic."""

import re
from collections import Counter
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from lanemap.db import lookup
from lanemap.db.isa.instructions import instruction
from lanemap.db.isa.names import Query
from lanemap.db.layout.fragment import Fragment
from lanemap.db.layout.structure import check
from lanemap.ingest.cute.header import parse_header
from lanemap.ingest.importing import adding
from lanemap.ingest.python import shipped

from ..shipped import everything
from . import coverage

RNG = np.random.default_rng(7)

WARP_LEVEL = ("sm61", "sm70", "sm75", "sm80", "sm89", "sm90", "sm120", "sm120_sparse")

#: What a warp multiplies with.
PRODUCTS = ("mma", "mma.sp")

#: The B of m16n8k32 with 4-bit types: lanes of a quad start 4 rows apart, and hold 8 each.
OVERLAPPING = {("m16n8k32", "s4"), ("m16n8k32", "u4")}


@pytest.fixture(scope="session")
def documented(fragments):
    """The document's fragments by key."""
    return {fragment.key: fragment for fragment in fragments}


def keyed(imported):
    return {fragment.key: fragment for fragment in imported.source.fragments}


def wrong(fragment):
    return fragment.role == "B" and fragment.instruction == "mma" and (fragment.shape, fragment.type) in OVERLAPPING


def test_every_atom_of_a_warp_is_read_or_named(cutlass, release):
    """Counted without the importer: the MMA_Traits, and the operations, that a search of the text finds."""
    headers = [path for path in sorted((cutlass / "cute" / "atom").glob("mma_traits*.hpp")) if "gmma" not in path.name]
    patterns = Counter(re.findall(r"struct MMA_Traits<\s*(?:\w+::)*(\w+)", "".join(map(Path.read_text, headers))))
    told = {re.split(r"[< ]", part.name)[0] for part in release.skipped}
    untold = set(patterns) - told
    warp = "".join((cutlass / "cute/arch" / f"mma_{name}.hpp").read_text() for name in WARP_LEVEL)
    assert {name for name in untold if not re.search(rf"struct {name}\b", warp)} == {
        "SM90_16x8x4_F64F64F64F64_TN",
        "SM90_16x8x8_F64F64F64F64_TN",
        "SM90_16x8x16_F64F64F64F64_TN",
    }
    mnemonics = set(re.findall(r'"(mma\.[^"]*?)\s*"', warp))
    assert {
        (fragment.instruction, fragment.shape)
        for fragment in release.source.fragments
        if fragment.instruction in PRODUCTS
    } == {
        ("mma.sp" if ".sp::" in mnemonic else "mma", re.search(r"m\d+n\d+k\d+", mnemonic)[0]) for mnemonic in mnemonics
    }


def operands(struct, text):
    """The keys of the operands that the threads of an instruction hold, from its mnemonic."""
    if matched := re.match(r"mma\.\S*?\.(m\d+n\d+k\d+)\.(row|col)\.(row|col)\.(\w+)\.(\w+)\.(\w+)\.(\w+)", text):
        shape, row, col, *types = matched.groups()
        name, majors = "mma.sp" if ".sp::" in text else "mma", {"A": row, "B": col}
        return [(name, shape, type_, role, majors.get(role)) for role, type_ in zip("DABC", types, strict=True)]
    if matched := re.match(r"(wgmma\S*?)\.sync\.aligned\.(m\d+n\d+k\d+)\.(\w+)\.(\w+)\.", text):
        long_name, shape, d, a = matched.groups()
        name = "wgmma.sp" if long_name.endswith(".sp") else "wgmma"
        roles = [("D", d)] + [("A", a)] * struct.members["ARegisters"].startswith("uint32_t")
        return [(name, shape, type_, role, None) for role, type_ in roles]
    if matched := re.match(r"(ldmatrix|stmatrix|movmatrix)\.sync\.aligned\.\S*?(m\d+n\d+)\S*?\.(b\d+\w*)", text):
        return [(*matched.groups(), "A" if matched[1] == "movmatrix" else "r", None)]
    return []


def test_every_operand_of_every_mnemonic_is_there(cutlass, release):
    """Each type at its place in each mnemonic is a fragment, but for the layouts that are none."""
    found = {fragment.key[:5] for fragment in release.source.fragments}
    wanted = Counter(
        key
        for path in sorted((cutlass / "cute" / "arch").glob("*.hpp"))
        for struct in parse_header(path.read_text()).structs
        for text in struct.strings
        for key in operands(struct, text)
    )
    assert len(wanted) > 600
    assert wanted.keys() - found == {("mma", "m16n8k128", "b1", "A", "row")}


def test_bytes_are_stored_as_they_are_in_the_registers_of_d(release, sources):
    """An address of stmatrix.m16n8 is that of a column: it stores a D of 16 x 8 in bytes, four to a register."""
    stored = next(fragment for fragment in release.source.fragments if fragment.key[:3] == ("stmatrix", "m16n8", "b8"))
    d = next(
        fragment for fragment in sources["ptx-isa-9.4"].fragments if fragment.key[:4] == ("mma", "m16n8k16", "f32", "D")
    )
    assert stored.qualifiers == "x1.trans"
    assert [(element.lane, element.slot, element.row, element.col) for element in stored.records()] == [
        (element.lane, element.reg, element.row, element.col) for element in d.records()
    ]


#: What must hold of an operation, as the header has it, for a reason to be true of one of its operands.
TRUE = {
    "it is in shared memory": lambda struct, role: struct.members[f"{role}Registers"].startswith("uint64_t"),
    "tcgen05.mma is not covered": lambda struct, _: "tcgen05.mma" in str(struct.strings),
    "tcgen05.cp is not covered": lambda struct, _: "tcgen05.cp." in str(struct.strings),
    "it has no instruction of its own": lambda struct, _: not re.search(r"matrix|tcgen05|mma", str(struct.strings)),
    "cp.async is not": lambda struct, _: "cp.async" in str(struct.strings),
    "dp4a.s32 is not": lambda struct, _: "dp4a" in str(struct.strings),
    "dp2a.s32 is not": lambda struct, _: "dp2a" in str(struct.strings),
    "ld.global is not": lambda struct, _: "ld.global" in str(struct.strings),
    "st.global is not": lambda struct, _: "st.global" in str(struct.strings),
    "shape ((4,8),(32,2)) and stride": lambda struct, role: role == "A" and ".m16n8k128." in str(struct.strings),
}


@pytest.fixture(scope="module")
def arrays(cutlass):
    """Every array of registers of every operation, with what the importer makes of it."""
    return list(coverage.of_cutlass(cutlass))


def test_at_least_95_in_100_operands_are_compared_or_named(arrays):
    """Every array of registers of every operation is read or left out for a reason that its header bears out."""
    known, counted = coverage.others(), Counter()
    for name, role, struct, made, reason in arrays:
        said = coverage.outcome(made, reason, known)
        counted["compared" if said == "compared" else "read" if made else "named"] += 1
        if not made:
            (holds,) = (holds for words, holds in TRUE.items() if reason.startswith(words))
            assert holds(struct, role), (name, role, reason)
    assert counted.total() > 9000
    assert counted["compared"] > 5000
    assert counted["compared"] + counted["named"] > 0.95 * counted.total()


def test_what_is_read_and_not_compared_is_only_drawn_in_the_document(arrays, sources):
    status = {fragment.key: fragment.status for fragment in sources["ptx-isa-9.4"].fragments}
    known = coverage.others()
    alone = {
        fragment.key
        for *_, made, reason in arrays
        for fragment in made
        if coverage.outcome(made, reason, known).startswith("read")
    }
    addresses = {key for key in alone if key.role == "p"}
    assert {key[:2] for key in addresses} == {("ldmatrix", "m16n16")}  # of which the document says too little
    assert {status[key] for key in alone - addresses} == {"figure-only"}
    assert {key.instruction for key in alone} == {"mma.sp", "ldmatrix", "stmatrix", "tcgen05.ld", "tcgen05.st"}


def test_what_ships_of_cutlass_is_what_the_headers_of_its_release_say(release):
    """Element by element, of every load and store that is new with SM100; and the headers are those that it names."""
    (shipped,) = (source for source in everything() if source.kind == "import")
    moves = {fragment.key: fragment for fragment in release.source.fragments if instruction(fragment.instruction).moves}
    theirs = {
        key: move
        for key, move in moves.items()
        if key.instruction.startswith("tcgen05.") or (key.type == "b8" and key.shape != "m8n8")
    }
    assert len(theirs) == 148 + 7
    ships = [fragment for fragment in shipped.fragments if instruction(fragment.instruction).moves]
    assert {fragment.key for fragment in ships} == theirs.keys()
    for fragment in ships:
        real = theirs[fragment.key]
        assert (fragment.registers, fragment.slots, fragment.status) == (real.registers, real.slots, real.status)
        assert np.array_equal(fragment.elements, real.elements), fragment
        assert real.citation.origin.startswith(f"{fragment.citation.origin}:")
    said, known = shipped.provenance, release.source.provenance
    assert (shipped.name, said["version"]) == (f"cutlass-{known['version']}", known["version"])
    assert said["files"].items() <= known["files"].items()


def test_every_atom_of_tensor_layouts_is_claimed(transcribed):
    """But for those that are no matrix instruction of a warp or a warpgroup, or not one instruction."""
    (mapping,) = (one for one in shipped() if one.path.stem == "tensor-layouts")
    claimed = {entry.make["atom"] if entry.adapter else entry.name.partition(".")[0] for entry in mapping.entries}
    atoms = {
        name: atom for name, atom in vars(import_module("tensor_layouts.atoms_nv")).items() if hasattr(atom, "ptx")
    }
    assert claimed <= atoms.keys()
    others = r"dp[24]a|tcgen05[.]mma|shfl[.]sync|cp[.]async|.*[(]complex[)]"
    assert [name for name in atoms.keys() - claimed if not re.match(others, atoms[name].ptx)] == []
    assert not transcribed.skipped


def place(fragment):
    """The thread, the element, the row and the column of each element of a fragment."""
    table = fragment.elements
    return (
        *(table[name].astype(int) for name in ("lane", "row", "col")),
        table["reg"] * fragment.slots + table["slot"],
    )


@pytest.mark.parametrize("kind", ["release", "transcribed"])
def test_each_warp_of_a_warpgroup_has_16_rows_as_a_warp_has_them(kind, request):
    """D in tiles of 8 columns, A in tiles of four registers' width: what section 9.7.17.5 draws."""
    done = Counter()
    for fragment in request.getfixturevalue(kind).source.fragments:
        if not fragment.instruction.startswith("wgmma") or fragment.role == "E":
            continue
        lane, row, col, i = place(fragment)
        width = fragment.slots if fragment.role == "A" else 2
        assert (row == lane // 32 * 16 + lane % 32 // 4 + i // width % 2 * 8).all(), fragment
        stored = i // width // 2 * width * 4 + lane % 4 * width + i % width
        chunk = fragment.chunk if fragment.role == "A" else 1
        assert (col == (stored // (chunk // 2) * chunk if chunk > 1 else stored)).all(), fragment
        done[fragment.instruction, fragment.role] += 1
    assert min(done.values()) >= 4
    assert len(done) == (4 if kind == "release" else 2)


def test_metadata_of_a_warpgroup_goes_with_its_a(release):
    """Each chunk of A has two indices in E, or one where a chunk is two columns, in the warp that has the rows."""
    found = [fragment for fragment in release.source.fragments if fragment.instruction == "wgmma.sp"]
    windows = {
        (fragment.shape, fragment.type): set(zip(*(place(fragment)[n].tolist() for n in (1, 2)), strict=True))
        for fragment in found
        if fragment.role == "A"
    }
    for fragment in (fragment for fragment in found if fragment.role == "E"):
        lane, row, col, _ = place(fragment)
        held = Counter(zip(row.tolist(), col.tolist(), strict=True))
        assert set(held) == windows[fragment.shape, fragment.type]
        assert set(held.values()) == {1 if fragment.type == "tf32" else 2}
        assert (lane // 32 == row // 16).all()


@pytest.mark.parametrize("kind", ["release", "transcribed"])
def test_moves_of_8x8_matrices(kind, request):
    done = Counter()
    for fragment in request.getfixturevalue(kind).source.fragments:
        if fragment.instruction not in ("ldmatrix", "stmatrix") or fragment.type != "b16":
            continue
        lane, row, col, i = place(fragment)
        if fragment.role == "p":
            matrix = lane // 8 + 1
            assert (row == lane % 8).all()
        else:
            matrix, along = i // 2 + 1, lane % 4 * 2 + i % 2
            cell = (along, lane // 4) if "trans" in fragment.qualifiers else (lane // 4, along)
            assert (row == cell[0]).all(), fragment
            assert (col == cell[1]).all(), fragment
        assert (fragment.elements["computation"] == matrix).all()
        done[fragment.instruction, fragment.role, fragment.qualifiers] += 1
    assert len(done) == 24
    assert set(done.values()) == {1}


def test_moves_of_bytes(release):
    """ldmatrix as the document's words have it (9.7.16.5.15): a lane has four of a line of 16, in two lines; stmatrix
    as D of a product holds 16 x 8."""
    found = [
        fragment
        for fragment in release.source.fragments
        if fragment.shape in ("m16n16", "m16n8") and fragment.type == "b8"
    ]
    assert sorted((fragment.instruction, fragment.role, fragment.qualifiers) for fragment in found) == [
        *(("ldmatrix", role, f"x{count}.trans") for role in "pr" for count in (1, 2)),
        *(("stmatrix", "r", f"x{count}.trans") for count in (1, 2, 4)),
    ]
    for fragment in found:
        lane, row, col, i = place(fragment)
        if fragment.role == "p":
            assert lane.tolist() == list(range(16 * int(fragment.qualifiers[1])))
            cell, matrix = (lane % 16, 0), lane // 16 + 1
        elif fragment.instruction == "ldmatrix":
            cell, matrix = (lane % 4 * 4 + i % 4, lane // 4 + i // 4 % 2 * 8), i // 8 + 1
        else:
            cell, matrix = (lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2), i // 4 + 1
        assert (row == cell[0]).all(), fragment
        assert (col == cell[1]).all(), fragment
        assert (fragment.elements["computation"] == matrix).all()


def test_movmatrix_is_said_to_move_nothing(release):
    """CUTLASS has the same layout before and after, where D is A transposed: D is not where it says."""
    sides = {
        fragment.role: place(fragment) for fragment in release.source.fragments if fragment.instruction == "movmatrix"
    }
    lane, row, col, i = sides["A"]
    assert (row == lane // 4).all()
    assert (col == lane % 4 * 2 + i % 2).all()
    lane, row, col, i = sides["D"]
    assert (col == lane // 4).all()
    assert (row == lane % 4 * 2 + i % 2).all()


#: Lane and column of Tensor Memory, and which of two accesses, from thread and register.
TENSOR_MEMORY = {
    "32x32b": lambda t, r: (t, r, 1),
    "16x64b": lambda t, r: (t // 4 + t % 2 * 8, r * 2 + t // 2 % 2, 1),
    "16x128b": lambda t, r: (t // 4 + r % 2 * 8, r // 2 * 4 + t % 4, 1),
    "16x256b": lambda t, r: (t // 4 + r // 2 % 2 * 8, r // 4 * 8 + t % 4 * 2 + r % 2, 1),
    "16x32bx2": lambda t, r: (t % 16, r, t // 16 + 1),
}


def test_tensor_memory(release, sources):
    """Every load and store, whole and packed; what is packed takes two columns where another takes one.

    CUTLASS 4.2 has no load that also reduces or compresses.
    """
    found = [fragment for fragment in release.source.fragments if fragment.instruction.startswith("tcgen05.")]
    assert {fragment.key for fragment in found} == {
        fragment.key
        for fragment in next(iter(sources.values())).fragments
        if fragment.instruction in ("tcgen05.ld", "tcgen05.st")
    }
    for fragment in found:
        for e in fragment.records():
            row, col, computation = TENSOR_MEMORY[fragment.shape](e.lane, e.reg)
            assert (e.row, e.col, e.computation) == (row, col * fragment.slots + e.slot, computation), fragment
        assert check(fragment) == []


def test_block_scales_are_those_of_the_document(release, documented):
    """Every atom of SM120 takes the lowest bytes of the first lanes."""
    found = [fragment for fragment in release.source.fragments if fragment.role in ("SFA", "SFB")]
    assert {(*fragment.key[:3], fragment.qualifiers.partition(".")[0]) for fragment in found} == {
        ("mma", "m16n8k32", "ue8m0", "scale_vec::1X"),
        ("mma", "m16n8k64", "ue8m0", "scale_vec::2X"),
        ("mma", "m16n8k64", "ue4m3", "scale_vec::4X"),
        ("mma.sp", "m16n8k64", "ue8m0", "scale_vec::1X"),
        ("mma.sp", "m16n8k128", "ue8m0", "scale_vec::2X"),
        ("mma.sp", "m16n8k128", "ue4m3", "scale_vec::4X"),
    }
    assert len(found) == 12
    assert all(fragment.same_layout(documented[fragment.key]) for fragment in found)


def test_what_the_release_leaves_out(release):
    """By reason; a new release that leaves out something else shows here."""
    reasons = Counter(re.sub(r"\d+", "N", part.reason) for part in release.skipped)
    assert set(reasons) == {
        "it is in shared memory, and no thread holds any of it",
        "tcgenN.mma is not covered: it names neither shape nor types: write tcgenN.mma mNnNkN fN B NB.K",
        "tcgenN.cp is not covered: it copies from shared memory to Tensor Memory, and no register holds any of it",
        "cp.async is not covered: it copies memory, and no register holds any of it",
        *(
            f"{name} is not covered: each thread has values of its own, and no matrix is spread over lanes"
            for name in ("dpNa.sN", "ld.global", "st.global")
        ),
        "it has no instruction of its own in its assembly",
        "its operation, a struct of this name, is missing or has other traits",
        "shape ((N,N),(N,N)) and stride ((N,N),((N,N))) are not nested alike: no layout",
    }
    malformed = [part.name for part in release.skipped if "nested" in part.reason]
    assert malformed == ["SM80_16x8x128_S32U1U1S32_TN_XORPOPC A", "SM80_16x8x128_S32U1U1S32_TN_ANDPOPC A"]
    elsewhere = [part.name for part in release.skipped if part.reason.startswith("its operation")]
    assert all(re.search("TMA|BULK|PREFETCH|Auto", name) for name in elsewhere)


@pytest.mark.parametrize("kind", ["release", "transcribed"])
def test_every_dense_fragment_is_what_the_document_says(kind, request, documented):
    compared = 0
    for fragment in request.getfixturevalue(kind).source.fragments:
        said = documented.get(fragment.key)
        if said is None or said.elements is None or (fragment.instruction == "mma.sp" and fragment.role == "A"):
            continue
        compared += 1
        assert (fragment.registers, fragment.slots) == (said.registers, said.slots), fragment
        # CuTe has one layout for what goes into movmatrix and what comes out.
        differs = wrong(fragment) or (fragment.instruction, fragment.role) == ("movmatrix", "D")
        assert (fragment.digest == said.digest) is not differs, fragment
    assert compared > 90


@pytest.mark.parametrize("kind", ["release", "transcribed"])
def test_structure(kind, request):
    for fragment in request.getfixturevalue(kind).source.fragments:
        if fragment.role == "p":
            continue  # the lanes that give no address are no fault
        assert bool(check(fragment)) is wrong(fragment), (fragment, check(fragment))


@pytest.mark.parametrize("kind", ["release", "transcribed"])
def test_every_dense_product_comes_out(kind, request):
    found = [fragment for fragment in request.getfixturevalue(kind).source.fragments if fragment.instruction == "mma"]
    done = Counter()
    for shape in sorted({fragment.shape for fragment in found}):
        a, b, c = (
            [fragment for fragment in found if fragment.shape == shape and fragment.role == role] for role in "ABC"
        )
        for left, right in product(a, b):
            # PTX mixes signed with unsigned, and the 8-bit and narrower floats; any other pair is one type's.
            alike = left.type == right.type or left.slots == right.slots >= 4
            for accumulator in [
                fragment for fragment in c if alike and (fragment.type == "f64") == (left.type == "f64")
            ]:
                assert multiplies(left, right, accumulator) is not wrong(right), (left, right, accumulator)
                done[shape] += 1
    assert sum(done.values()) > 60


def test_a_sparse_window_is_inside_the_documents(release, documented):
    """CUTLASS's chunk is narrower than the window that PTX names, and never reaches out of it."""
    sparse = [
        fragment for fragment in release.source.fragments if fragment.instruction == "mma.sp" and fragment.role == "A"
    ]
    assert {(fragment.shape, fragment.type) for fragment in sparse} == {
        ("m16n8k64", type_) for type_ in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    } | {("m16n8k128", "e2m1")}
    for fragment in sparse:
        mine, said = fragment.elements, documented[fragment.key].elements
        for name in ("lane", "reg", "slot", "row"):
            assert (mine[name] == said[name]).all()
        assert (mine["col"] >= said["col"]).all()
        assert (mine["col_last"] <= said["col_last"]).all()


def test_metadata_and_stored_elements_go_together(release):
    """Each chunk of A has as many two-bit indices in E as it has stored elements, or pairs of 4-bit ones."""
    found = keyed(release)
    for key, metadata in found.items():
        if metadata.role != "E" or metadata.instruction != "mma.sp":
            continue
        a = found[(*key[:3], "A", "row", None, None)]
        windows = Counter(a.elements[["row", "col", "col_last"]].tolist())
        indices = Counter(metadata.elements[["row", "col", "col_last"]].tolist())
        assert set(windows) == set(indices)
        assert set(indices.values()) == {2}
        assert set(windows.values()) == {4 if key[1] == "m16n8k128" else 2}


def test_provenance(release, cutlass):
    provenance = release.source.provenance
    assert release.source.name == f"cute-{provenance['version']}"
    assert all((cutlass / name).is_file() and len(digest) == 64 for name, digest in provenance["files"].items())
    assert {f"cute/arch/mma_{name}.hpp" for name in WARP_LEVEL if name != "sm61"} <= set(provenance["files"])


def test_tensor_layouts_names_operands_that_ptx_does_not_have(transcribed, sources):
    """Dense e4m3 with K = 64, and sparse with K = 128: PTX has these shapes for 4-bit types only."""
    known = {fragment.key for source in sources.values() for fragment in source.fragments}
    found = [fragment for fragment in transcribed.source.fragments if fragment.instruction in PRODUCTS]
    unknown = {str(fragment) for fragment in found if fragment.key not in known}
    assert unknown == {
        "A of mma m16n8k64 e4m3",
        "B of mma m16n8k64 e4m3",
        "C of mma m16n8k64 f16",
        "D of mma m16n8k64 f16",
        "B of mma.sp m16n8k128 e4m3",
        "C of mma.sp m16n8k128 f16",
        "D of mma.sp m16n8k128 f16",
    }


def multiplies(a: Fragment, b: Fragment, c: Fragment) -> bool:
    """Whether random registers, read as A, B and C by the layouts, multiply, and come out as the layouts say.

    Every product of the warp's is done: a cell that a layout leaves out, or writes twice, or puts elsewhere, shows.
    """
    m, k = a.dimensions
    n = b.dimensions[1]
    for computation in np.unique(c.elements["computation"]).tolist():
        want = [RNG.integers(-9, 10, size) for size in ((m, k), (k, n), (m, n))]
        registers = [scatter(fragment, matrix, computation) for fragment, matrix in zip((a, b, c), want, strict=True)]
        left, right, add = (
            gather(fragment, held, computation) for fragment, held in zip((a, b, c), registers, strict=True)
        )
        if not np.array_equal(left @ right + add, want[0] @ want[1] + want[2]):
            return False
    return True


def scatter(fragment: Fragment, matrix, computation: int):
    """Registers (lane, reg, slot) filled from a matrix."""
    held = np.zeros((32, fragment.registers, fragment.slots), np.int64)
    table = fragment.elements[fragment.elements["computation"] == computation]
    held[table["lane"], table["reg"], table["slot"]] = matrix[table["row"], table["col"]]
    return held


def gather(fragment: Fragment, held, computation: int):
    """The matrix that registers hold; a cell that no slot holds is zero, one that several hold is their sum."""
    matrix = np.zeros(fragment.dimensions, np.int64)
    table = fragment.elements[fragment.elements["computation"] == computation]
    np.add.at(matrix, (table["row"], table["col"]), held[table["lane"], table["reg"], table["slot"]])
    return matrix


def test_it_is_known_which_fragments_only_cutlass_has(database, release):
    """Of those that no document and no capture has rows of, just those that the importer reads."""
    found = lookup.fragments(database.reader, Query())
    missing = {fragment.key for fragment in found} - {fragment.key for fragment in found if fragment.has_rows}
    assert missing
    assert {key for key in missing if adding(key)} == missing & keyed(release).keys()
