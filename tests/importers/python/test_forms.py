"""Each form of layout becomes the rows that the document has, and nothing else does."""

import numpy as np
import pytest

from lanemap import LanemapError
from lanemap.db.layout.structure import check
from lanemap.ingest import catalogue
from lanemap.ingest.python.mapping import read_mapping

A = '{ shape = "m16n8k16", types = "f16", role = "A" }'

FORMS = {
    "place": ('name = "a_place"\nform = "place"', A),
    "cell": ('name = "a_cell"\nform = "cell"', A),
    "bases": ('name = "BASES"\nform = "bases"', A),
    "strides": ('name = "TEXT"\nform = "strides"', A),
    "address": ('name = "address"\nform = "address"', A.replace(" }", ', move = "ldmatrix.x4" }')),
    "an array": ('name = "an_array"\nform = "place"', A),
    "a method": ('name = "Atom.place"\nform = "place"', A),
    "made": ('name = "makes"\nform = "place"\nmake = { shift = 0 }', A),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_documents_a(imported, right, form):
    entry, claim = FORMS[form]
    ((found,),) = [found.source.fragments for found in imported(f"{entry}\nclaims = [{claim}]")]
    assert right(found)
    assert check(found) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["place", "bases"])
def test_axes_turn_the_pair(imported, right, form):
    """The same numbers as (k, m) are not A; a function that gives (k, m) is."""
    entry, claim = FORMS[form]
    turned = claim.replace(" }", ', axes = "km" }')
    ((found,),) = [found.source.fragments for found in imported(f"{entry}\nclaims = [{turned}]")]
    assert not right(found)
    ((found,),) = [
        found.source.fragments for found in imported(f'name = "turned"\nform = "place"\nclaims = [{turned}]')
    ]
    assert right(found)


@pytest.mark.parametrize(("mode", "verdict"), [("128B", True), ("64B", False)])
def test_a_function_to_an_offset_in_shared_memory_is_an_operand_there(imported, mode, verdict):
    """As long as the claim says the right mode."""
    for name, shape in (("wgmma", "m64n32k16"), ("tcgen05.mma", "m128n32k16")):
        operand = f'instruction = "{name}", shape = "{shape}", types = "f16", role = "B", axes = "nk"'
        claim = f'{{ {operand}, qualifiers = "{mode}.K" }}'
        entry = f'name = "swizzled"\nform = "cell"\nstride = 65536\nclaims = [{claim}]'
        (found,) = imported(entry)
        (fragment,) = found.source.fragments
        key = fragment.key
        assert str(key) == f"B of {name} {shape} f16 {mode}.K"
        assert fragment.same_layout(catalogue.documented()[key]) == verdict


def test_one_claim_for_several_types_and_roles(imported, right):
    (found,) = imported(
        f'name = "a_place"\nform = "place"\nclaims = [{A.replace("f16", "f16 bf16")}]',
        'name = "c_place"\nform = "place"\nclaims = [{ shape = "m16n8k16", types = "f32 f16", role = "C" }, '
        '{ shape = "m16n8k8", types = "f32", role = "D" }]',
    )
    assert [(fragment.type, fragment.role) for fragment in found.source.fragments] == [
        ("f16", "A"),
        ("bf16", "A"),
        ("f32", "C"),
        ("f16", "C"),
        ("f32", "D"),
    ]
    assert all(map(right, found.source.fragments))


WIDE = 'tile = "n16"'
WARPS = 'tile = "m32", warps = "2x1"'


def test_a_tile_is_cut_at_an_origin_and_a_first_value(imported, right):
    halves = [
        '{ shape = "m16n8k16", types = "f16", role = "B" }',
        '{ shape = "m16n8k16", types = "f16", role = "B", origin = [0, 8], first = 4 }',
    ]
    for claim in halves:
        (found,) = imported(f'name = "wide_b"\nform = "place"\nclaims = [{claim}]')
        assert right(found.source.fragments[0])
        assert found.findings == []
    (found,) = imported(f'name = "wide_b"\nform = "place"\nclaims = [{", ".join(halves)}]')
    assert len(found.source.fragments) == 1


@pytest.mark.parametrize("shift", ["origin = [0, 8], first = 0", "origin = [0, 0], first = 4"])
def test_the_wrong_part_of_a_tile_leaves_the_matrix(imported, shift):
    with pytest.raises(
        Exception,
        match=r"lane 0 value [04] is at \(0, [08]\), outside the operand's \(0, [08]\) to \(15, (7|15)\), and 127 more",
    ):
        imported(
            f'name = "wide_b"\nform = "place"\nclaims = [{{ shape = "m16n8k16", types = "f16", role = "B", {shift} }}]'
        )


def test_the_threads_of_another_warp(imported, right):
    second = '{ shape = "m16n8k16", types = "f32", role = "C", thread = 32, origin = [16, 0] }'
    (found,) = imported(f'name = "two_warps"\nform = "place"\nclaims = [{second}]')
    assert right(found.source.fragments[0])


def test_one_claim_covers_a_tile_of_several_instructions_and_warps(imported, right):
    claim = '{{ shape = "m16n8k16", types = "{}", role = "{}", {} }}'
    (found,) = imported(
        f'name = "wide_b"\nform = "place"\nclaims = [{claim.format("f16", "B", WIDE)}]',
        f'name = "two_warps"\nform = "place"\nclaims = [{claim.format("f32", "C", WARPS)}]',
    )
    assert list(map(right, found.source.fragments)) == [True, True]
    assert (found.findings, found.skipped) == ([], [])


@pytest.mark.parametrize("tile", ['tile = "k32"', 'tile = "n32", warps = "1x2", contiguous = true'])
def test_a_claim_is_wrong_where_one_place_of_its_tile_is(imported, tile):
    claim = f'{{ shape = "m16n8k16", types = "f16", role = "B", {tile} }}'
    found = imported(f'name = "wide_b"\nform = "place"\nclaims = [{claim}]')
    assert len(found) > 1 or found[0].skipped or found[0].findings


def test_a_tile_that_is_no_multiple_of_its_instructions_is_refused(imported):
    claim = '{ shape = "m16n8k16", types = "f16", role = "B", tile = "n12" }'
    with pytest.raises(Exception, match="n must be a multiple of 8, for instructions of 8"):
        imported(f'name = "wide_b"\nform = "place"\nclaims = [{claim}]')


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('contiguous = "yes"', r"contiguous: expected true or false, got text"),
        ('order = "k"', "write m or n"),
        ('warps = "2"', "as in 2x2"),
        ('warps = "3x1"', "m must be a multiple of 48"),
        ('tile = "32"', "write it like m64n64k32"),
        ('tile = ""', "warps are of a tile: name it"),
        ("copy = 1", "copy 1 of C: no other warp holds it"),
        ('warps = "2x3", role = "A", copy = 3', "copy 3 of A: 3 warps hold the same, from 0 to 2"),
        ('tile = "", warps = "", copy = 1', "no other warp holds it"),
        ('major = "col"', "invalid major 'col': only A and B have row or col"),
        ('role = "A", major = "col"', "invalid major 'col'"),
        ("quad = [4]", r"quad\[0\]: expected a whole number <= 3"),
        ('move = "ldmatrix.x4"', "and no other does"),
    ],
)
def test_what_a_claim_cannot_say_is_refused_in_one_line(imported, said, words):
    keys = {"shape": '"m16n8k16"', "types": '"f16"', "role": '"C"', "tile": '"m32"', "warps": '"2x1"'}
    keys |= dict(part.split(" = ") for part in said.split(", "))
    claim = ", ".join(map(" = ".join, keys.items()))
    with pytest.raises(LanemapError, match=words) as error:
        imported(f'name = "two_warps"\nform = "place"\nclaims = [{{ {claim} }}]')
    assert "\n" not in str(error.value)


MOVES = {
    # memory is M x K row by row, K x M row by row, N x K row by row, K x N row by row
    "A": ("address", "mk", "ldmatrix.x4", "m16n8k16", "f16"),
    "A transposed": ("offset", "km", "ldmatrix.x2.trans", "m16n8k8", "f16"),
    "B": ("offset", "nk", "ldmatrix.x2", "m16n8k16", "f16"),
    "B transposed": ("address", "kn", "ldmatrix.x2.trans", "m16n8k16", "f16"),
    "D": ("address", "mn", "stmatrix.x2", "m16n8k16", "f16"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVES)
def test_addresses_are_composed_with_the_move(imported, right, name):
    function, axes, move, shape, type_ = MOVES[name]
    stride = "stride = 32\nwith = { stride = 32 }\n" if function == "offset" else ""
    claim = f'{{ shape = "{shape}", types = "{type_}", role = "{name[0]}", axes = "{axes}", move = "{move}" }}'
    (found,) = imported(f'name = "{function}"\nform = "address"\n{stride}claims = [{claim}]')
    assert found.findings == []
    assert right(found.source.fragments[0])
    turned = claim.replace(".trans", "") if "trans" in move else claim.replace(move, move + ".trans")
    (wrong,) = imported(f'name = "{function}"\nform = "address"\n{stride}claims = [{turned}]')
    assert not right(wrong.source.fragments[0])


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("shape", "type_", "bits"), [("m16n8k8", "tf32", 32), ("m16n8k32", "s8", 8), ("m16n8k64", "s4", 4)]
)
def test_sixteen_bytes_are_as_many_elements_as_the_type_has(library, imported, right, shape, type_, bits):
    (library / "wide.py").write_text(
        f"def address(lane):\n    return lane % 16, lane // 16 * {128 // bits}\n", encoding="utf-8"
    )
    claim = f'{{ shape = "{shape}", types = "{type_}", role = "A", move = "ldmatrix.x4" }}'
    (found,) = imported(f'module = "wide"\nname = "address"\nform = "address"\nclaims = [{claim}]')
    assert right(found.source.fragments[0])


def test_an_address_between_16_bytes_is_a_finding(imported):
    claim = A.replace(" }", ', move = "ldmatrix.x4" }')
    (found,) = imported(f'name = "askew"\nform = "address"\nclaims = [{claim}]')
    assert [finding.reason for finding in found.findings] == [
        "lane 3 passes an address that is not a multiple of 16 bytes"
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("shape_type", ["m16n8k16 f16", "m16n8k8 tf32", "m16n8k32 s8", "m16n8k64 s4"])
def test_stored_columns_of_a_sparse_a_become_windows(library, imported, documented, shape_type):
    """The k-th stored column stands for the chunk that it is chosen from: inside the window that PTX names."""
    shape, type_ = shape_type.split()
    said = next(
        fragment
        for fragment in documented.values()
        if (fragment.instruction, fragment.shape, fragment.type, fragment.role) == ("mma.sp", shape, type_, "A")
    )
    table = said.elements.reshape(32, -1)
    order = np.lexsort((np.arange(table.size), table["col"].ravel(), table["row"].ravel()))
    stored = np.empty(table.size, int)
    rows = table["row"].ravel()
    for row in range(16):
        mine = order[rows[order] == row]
        stored[mine] = range(len(mine))
    pairs = np.stack([rows, stored], axis=1).reshape(*table.shape, 2).tolist()
    (library / "sparse.py").write_text(f"PAIRS = {pairs}\ndef place(lane, value):\n    return PAIRS[lane][value]\n")
    claim = f'{{ instruction = "mma.sp", shape = "{shape}", types = "{type_}", role = "A" }}'
    (found,) = imported(f'module = "sparse"\nname = "place"\nform = "place"\nclaims = [{claim}]')
    made = found.source.fragments[0].elements
    assert (made["row"] == said.elements["row"]).all()
    assert (made["col"] >= said.elements["col"]).all()
    assert (made["col_last"] <= said.elements["col_last"]).all()
    assert check(found.source.fragments[0]) == []


@pytest.mark.parametrize(
    ("shape", "type_", "windows", "width"),
    [
        ("m16n8k64", "s4", [(0, 5), (2, 7)], 8),  # runs of two columns: 0-1, 2-3 or 4-5, then one after it
        ("m16n8k32", "f16", [(0, 2), (1, 3)], 4),
        ("m16n8k16", "tf32", [(0, 1)], 2),
    ],
)
def test_an_index_of_metadata_stands_for_what_it_can_select(library, imported, shape, type_, windows, width):
    """Of two lanes in each four, each byte holds the indices of two chunks of one row (9.7.16.6.1)."""
    (library / "metadata.py").write_text("def place(lane, value):\n    return lane // 4 * 2 + lane % 2, value\n")
    claim = f'instruction = "mma.sp", shape = "{shape}", types = "{type_}", role = "E", bits = 8, quad = [0, 1]'
    (found,) = imported(f'module = "metadata"\nname = "place"\nform = "place"\nclaims = [{{ {claim} }}]')
    (made,) = found.source.fragments
    chunks = made.dimensions[1] // width
    expected = [
        (
            lane,
            0,
            chunk * len(windows) + place,
            lane // 4 * 2 + lane % 2,
            chunk * width + first,
            chunk * width + last,
            1,
        )
        for lane in range(32)
        if lane % 4 < 2
        for chunk in range(chunks)
        for place, (first, last) in enumerate(windows)
    ]
    assert made.elements.tolist() == expected
    assert check(made) == []


def test_a_place_may_have_more_values_than_its_claims_and_none_outside(imported):
    """A tile asks for all: those beyond the operand are wrong, and those that are not there are not missed."""
    claim = 'claims = [{ shape = "m16n8k16", types = "f32", role = "C" }]'
    (found,) = imported(f'name = "a_place"\nform = "place"\n{claim}')
    assert not found.findings
    (found,) = imported(f'name = "a_place"\nform = "place"\ntile = [32, 8]\n{claim}')
    assert "lane 0 value 4 is at (0, 8), outside the operand's (0, 0) to (15, 7), and 127 more" in str(found.findings)
    (found,) = imported(f'name = "ends"\nform = "place"\ntile = [32, 8]\n{claim}')
    assert not found.findings


HEAD = 'library = "Mine"\npackage = "mine"\nmodule = "mylib"\n'
EACH = """
[[entry]]
name = "holds_{rows}"
make = {{ rows = {whole}, shape = [{whole}, 4] }}
form = "cell"
claims = [{{ shape = "m16n8k16", types = "f16", role = "A", tile = "m{rows}", contiguous = {joined} }}]
"""


def test_an_entry_may_stand_for_several(tmp_path):
    """Whatever stands in its tables stands in the place of its name, a number as a number."""
    file, rows = tmp_path / "mine.toml", {16: "false", 64: "true"}
    file.write_text(HEAD + "".join(EACH.format(rows=n, whole=n, joined=joined) for n, joined in rows.items()))
    written = read_mapping(file)
    each = ", ".join(f"{{ rows = {n}, joined = {joined} }}" for n, joined in rows.items())
    folded = EACH.format(rows="{rows}", whole='"{rows}"', joined='"{joined}"')
    file.write_text(f"{HEAD}{folded}each = [{each}]\n")
    assert read_mapping(file) == written
    assert len(written.entries) == 2


@pytest.mark.parametrize(
    ("each", "words"),
    [
        ("3", "each is no list of tables: write each = "),
        ("[{ rows = 16 }]", "each has no joined, which the entry names"),
    ],
)
def test_a_wrong_list_of_what_an_entry_stands_for_is_refused(tmp_path, each, words):
    file = tmp_path / "mine.toml"
    file.write_text(HEAD + EACH.format(rows="{rows}", whole='"{rows}"', joined='"{joined}"') + f"each = {each}\n")
    ((entry, reason),) = read_mapping(file).refused
    assert entry == "entry 1 (holds_{rows})"
    assert reason.startswith(words)
