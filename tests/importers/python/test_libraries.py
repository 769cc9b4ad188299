"""The mappings that ship, on recorded answers of their libraries (``tests/wild/run.py`` makes them from the real ones).

Every claim is compared with the corrected document, and every other operand in its set with it. What is wrong is named
here, with the reason; nothing else may be.
"""

from collections import Counter
from pathlib import Path

import pytest

import lanemap
from lanemap.capture.recording import read
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue
from lanemap.ingest import python as mappings

NAMES = [mapping.path.stem for mapping in mappings.shipped()]

#: By source: the operands that are not what the document says.
WRONG = {
    # B is said to lie as A does. What loads it and multiplies it does otherwise, and nothing asks where it lies.
    "tvm-0.27.0.post1:mma": {"B of mma m16n8k16 f16"},
    "tvm-0.27.0.post1:mma_trans_a": {"A of mma m16n8k16 f16"},
    # The two halves of N are said to share registers with the halves of K; the loads give each N its own.
    **{
        f"tvm-0.27.0.post1:mma_trans_b{variant}": {"B of mma m16n8k16 f16"}
        | {f"B of mma m16n8k32 {type_}" for type_ in ("s8", "e4m3", "e5m2")}
        for variant in ("", ":shared_16x16_to_ldmatrix_32x8_layout")
    },
    # The registers of the two halves of M and of the two halves of K are exchanged; loads and ldmatrix are right.
    **{
        f"tilelang-0.1.15:{name}": {f"A of mma m16n8k64 {type_}" for type_ in ("s4", "u4", "e2m1")}
        for name in ("maps", "maps, transposed")
    },
    **{f"tilelang-0.1.15:{name}": {"A of mma m16n8k64 s4"} for name in ("emitter s4", "emitter s4, transposed")},
    # ldmatrix transposes no elements of 4 bits: 16 of 64 rows of K are read, and .trans moves four elements as one.
    **{
        f"tilelang-0.1.15:sm_120 ldmatrix, transposed{variant}": {f"{role} of mma m16n8k64 e2m1" for role in "AB"}
        for variant in ("", ":load")
    },
    # A lane reads four values 8 rows apart: half of them are below the tile, and half of the tile is not read.
    "tilelang-0.1.15:metadata, 8 bits": {f"E of mma.sp m16n8k16 tf32 selector {selector}" for selector in (0, 1)},
    # 8 * col // 4 is meant as 8 * (col // 4).
    "tilelang-0.1.15:sm_70 maps": {"B of mma m8n8k4 f16 row major"},
    # As CuTe's did until 4.4.3, lanes 1 to 3 of each quad begin in the wrong row of K.
    "tensor-layouts-0.3.2": {"B of mma m16n8k32 s4"},
    # Rows and columns of registers are repeated in the other order; K is half as deep as the instruction's.
    "hidet-0.6.1:mma": {f"A of mma m16n8k32 {type_}" for type_ in ("s8", "u8")}
    | {f"B of mma m16n8k32 {type_}" for type_ in ("e4m3", "e5m2")},
}

#: By mapping: the operands of which nothing is where they are claimed to be, with the function that claims it.
LEFT_OUT = {
    "tilelang": {
        # With M first, the warps below others are 4 lanes further on instead of two warps.
        ("TensorCoreIntrinEmitter.make_mma_store_layout", "C of mma m16n8k16 f32"): 1,
        # 4-bit B has tiles of N = 8, and is repeated as if they were 16: its threads overlap those of the next warp.
        ("TensorCoreIntrinEmitter.make_mma_load_layout", "B of mma m16n8k64 s4"): 4,
        # Two warpgroups take turns in the rows of A, stored either way, and have halves of those of D.
        **{
            (f"{emitter}.make_mma_load_layout", f"A of {operand}"): 2
            for emitter, operands in (
                ("TensorCoreIntrinEmitter", ("wgmma m64n64k16 f16", "wgmma m64n64k8 tf32", "wgmma m64n64k32 s8")),
                (
                    "WGSparseTensorCoreIntrinEmitter",
                    ("wgmma.sp m64n64k32 f16", "wgmma.sp m64n64k16 tf32", "wgmma.sp m64n64k64 s8"),
                ),
            )
            for operand in operands
        },
    },
}


#: By source: the operands that are right, and whose functions go on beyond them.
BEYOND = {
    # The map of each N is that of N = 256.
    "hidet-0.6.1:wgmma": {"D of wgmma m64n64k32 f16", "D of wgmma m64n64k32 f32"},
    # 64 columns of each 16 are read.
    **{
        f"tilelang-0.1.15:sm_120 ldmatrix, transposed{variant}": {f"{role} of mma m16n8k64 e2m1" for role in "AB"}
        for variant in ("", ":load")
    },
}


@pytest.fixture(scope="session")
def replayed(replay):
    """What each mapping makes of the recorded answers of its library."""
    return {name: replay(name) for name in NAMES}


@pytest.fixture(scope="session")
def known(documented):
    """Every operand by key: as the corrected document has it, and where that only draws it, as an H200 has it."""
    recording = Path(lanemap.__file__).parent / "capture" / "recordings" / "h200-sm_90a.parquet"
    measured = {fragment.key: fragment for fragment in read(recording).fragments}
    stated = [one for fragment in documented.values() for one in fragment.every]
    return measured | {fragment.key: fragment for fragment in stated if fragment.elements is not None}


def agrees(mine, said):
    """Whether every element is in the same cell, or one says a window and the other a column within it."""

    def within(one, other):
        return bool((one["col"] >= other["col"]).all() and (one["col_last"] <= other["col_last"]).all())

    one, other = mine.elements, said.elements
    return (
        len(one) == len(other)
        and all((one[name] == other[name]).all() for name in ("lane", "reg", "slot", "row", "computation"))
        and (within(one, other) or within(other, one))
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_true_but_for_these(replayed, known, name):
    wrong = {
        imported.source.name: {
            str(made) for made in imported.source.fragments if made.key in known and not agrees(made, known[made.key])
        }
        for imported in replayed[name]
    }
    assert {source: found for source, found in wrong.items() if found} == {
        source: found for source, found in WRONG.items() if source.startswith(f"{name}-")
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_found_and_where_it_is_from_is_known(replayed, known, name):
    for imported in replayed[name]:
        unsound = {str(fragment) for fragment in imported.source.fragments if check(fragment)}
        assert unsound <= WRONG.get(imported.source.name, set())
        assert {finding.name.split(",")[0] for finding in imported.findings} == {
            str(made)
            for made in imported.source.fragments
            if made.key in known and len(made.elements) < len(known[made.key].elements)
        } | BEYOND.get(imported.source.name, set())
        assert all(fragment.citation.origin for fragment in imported.source.fragments)


@pytest.mark.parametrize("name", ["jax", "tilelang", "triton"])
def test_a_warp_of_a_warpgroup_has_16_rows(replayed, name):
    """D in tiles of 8 columns, A in tiles of four registers' width: what section 9.7.17.5 draws."""
    every = [made for imported in replayed[name] for made in imported.source.fragments if not made.tile]
    found = [made for made in every if made.instruction == "wgmma"]
    assert {made.role for made in found} == {"A", "D"}
    for made in found:
        lane, row, col, reg, slot = (made.elements[name].astype(int) for name in ("lane", "row", "col", "reg", "slot"))
        i, width = reg * made.slots + slot, made.slots if made.role == "A" else 2
        assert (row == lane // 32 * 16 + lane % 32 // 4 + i // width % 2 * 8).all(), made
        assert (col == i // width // 2 * width * 4 + lane % 4 * width + i % width).all(), made


@pytest.mark.parametrize(
    ("name", "spans"), [("jax", (32, 64, 128)), ("triton", (32, 64, 128)), ("tvm", (16, 32, 64, 128))]
)
def test_a_swizzle_is_that_of_a_descriptor_and_no_other(replayed, known, name, spans):
    """What a library writes is what its mode reads, and not what another mode does."""
    found = {made.key: made for imported in replayed[name] for made in imported.source.fragments if made.tile}
    assert {made.tile.span for made in found.values()} == {*spans}
    assert {made.tile.bits for made in found.values()} == {8, 16, 32}
    for key, made in found.items():
        same = {
            mode
            for mode in ("none", "32B", "64B", "128B")
            if (other := key._replace(qualifiers=f"{mode}.{made.tile.major}")) in known and agrees(made, known[other])
        }
        assert same == {made.tile.mode}, made


@pytest.mark.parametrize(("name", "count"), [("triton", 16), ("jax", 4)])
def test_tensor_memory_is_as_cute_has_it(replayed, release, name, count):
    """The document only draws it, and two who wrote it down by themselves agree."""
    theirs = {fragment.key: fragment for fragment in release.source.fragments}
    found = [
        made
        for imported in replayed[name]
        for made in imported.source.fragments
        if made.instruction.startswith("tcgen05") and not made.tile
    ]
    assert len(found) == count
    assert all(made.same_layout(theirs[made.key]) for made in found)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out(replayed, name):
    left_out = Counter(
        (part.name.split(", ")[1].split(" ")[1], part.name.split(",")[0])
        for part in replayed[name][0].skipped
        if part.reason != "kernels are not recorded"
    )
    assert left_out == LEFT_OUT.get(name, {})


@pytest.mark.parametrize("name", NAMES)
def test_a_mapping_says_which_version_it_was_seen_with(replayed, name):
    mapping = next(mapping for mapping in mappings.shipped() if mapping.path.stem == name)
    assert mapping.refused == ()
    assert replayed[name][0].source.provenance["version"] in mapping.seen


def test_each_emitter_of_tilelang_is_asked_for_a_and_b_stored_either_way():
    """Each kind of tile, of each width: a branch of its own in the library."""
    mapping = next(mapping for mapping in mappings.shipped() if mapping.path.stem == "tilelang")
    asked = [entry.make for entry in mapping.entries if entry.name in ("fragment", "load")]
    loads = {
        (made.get("emitter"), made.get("dtype"), str(made.get("warps")), made["matrix"], made["transposed"])
        for made in asked
        if made["matrix"] != "C" and "is_m_first" not in made
    }
    assert {(*kind, not transposed) for *kind, transposed in loads} == loads
    assert {emitter for emitter, *_ in loads} == {None, "BlockScaled", "Sparse", "SparseWarpgroups", "Warpgroups"}


def test_layouts_of_tensor_memory_are_those_of_cute(replayed):
    """Also where two elements of 16 bits share a register."""
    expected = {fragment.key: fragment.digest for fragment in catalogue.document("cutlass-4.2.0").fragments}
    held = [imported.source for imported in replayed["tvm"] if ":Tensor Memory" in imported.source.name]
    assert [source.name.partition(":")[2] for source in held] == ["Tensor Memory", "Tensor Memory, 16 bits"]
    for source in held:
        assert len(source.fragments) == 58
        assert all(expected[fragment.key] == fragment.digest for fragment in source.fragments)


def test_accumulators_in_tensor_memory_lie_where_cutlass_has_them(replayed):
    """No document has rows of them: two libraries that share no code say the same of each."""
    (emitter,) = (each.source for each in replayed["tilelang"] if each.source.name.endswith(":tcgen05 emitter"))
    cutlass = {one.key: one for each in catalogue.document("cutlass-4.2.0").fragments for one in each.every}
    both = [(made, cutlass[made.key]) for made in emitter.fragments if made.key in cutlass]
    assert {made.key.qualifiers for made, _ in both} == {None, "ws"}
    assert all(made.same_layout(said) for made, said in both)


def test_tilelang_swizzles_shared_memory_as_descriptors_read_it(replayed, known):
    """Every mode of each width along K, and those of 16 bits along N."""
    (shared,) = (each.source for each in replayed["tilelang"] if each.source.name.endswith(":shared memory"))
    assert len(shared.fragments) == 90
    assert all(made.digest == known[made.key].digest for made in shared.fragments)
