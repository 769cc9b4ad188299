"""What meets in an element of D, against a product of which each operand names itself."""

import numpy as np
import pytest

import lanemap
from lanemap import Query


def places(text):
    return [tuple(map(int, part.replace(":", ".").split("."))) for part in text.split(" or ")]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words", ["m16n8k16 f16", "m16n8k8 tf32", "m8n8k4 f64", "m16n8k256 b1", "m16n8k32 e4m3", "wmma m16n16k16 f16"]
)
def test_the_terms_of_every_element_are_a_row_of_a_and_a_column_of_b(database, words):
    a, b = (database.operand(f"{words} {role}")[0] for role in "AB")
    rows, depth = a.dimensions
    for row, col in [(0, 0), (rows - 1, b.dimensions[1] - 1), (3, 5)]:
        found = database.terms(f"{words} D", row, col).rows().records()
        assert [each["k"] for each in found] == list(range(depth))
        for each in found:
            for operand, cell in ((a, (row, each["k"])), (b, (each["k"], col))):
                for place in places(each[operand.role]):
                    at = operand.at(*place)
                    assert (int(at.row), int(at.col)) == cell


def test_a_sparse_product_names_each_slot_that_can_hold_a_column(database):
    found = database.terms("mma.sp m16n8k32 f16", 3, 5).rows().records()
    shown = database.find("mma.sp m16n8k32", "f16", "A", row=3, col=9)
    listed = [(*place,) for place in shown[["lane", "reg", "slot"]].values.tolist()]
    assert places(found[9]["A"]) == listed
    assert len(listed) == 2
    assert set(found[9]) == {"k", "A", "E", "B"}


def test_a_scale_stands_beside_each_k_of_its_block(database):
    """The scale of a row is that of 32 elements of K."""
    name = "m16n8k64.scale_vec::2X.byte_id::0.thread_id::0"
    found = database.terms(Query("m16n8k64", "e2m1", instruction="mma"), 9, 5)
    assert found.remarks
    for k, each in enumerate(found.rows().records()):
        for role, at in (("SFA", {"row": 9, "col": k // 32}), ("SFB", {"row": k // 32, "col": 5})):
            held = database.find(name, "ue8m0", role, **at)[["lane", "reg", "slot"]].values.tolist()
            assert [list(place) for place in places(each[role])] == held


def test_several_products_are_told_apart(database):
    found = database.terms("m8n8k4 f16", 3, 5).rows()
    assert found.columns[0] == "computation"
    assert np.unique([row[0] for row in found.rows]).tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_the_command_says_the_same_and_what_is_wrong(database, run, refused):
    found = run("find", *"m16n8k16 f16 D --row 3 --col 5 --terms".split())
    assert found.out == database.terms("m16n8k16 f16 D", 3, 5).text(80) + "\n"
    refused("find", *"m16n8k16 f16 D --row 16 --col 5 --terms".split(), words=("row 16 is outside D", "0 to 15"))
    refused("find", *"m16n8k16 f16 D --row 3 --terms".split(), words=("name D, --row and --col",))
    refused("find", *"m16n8k16 f16 A --row 3 --col 5 --terms".split(), words=("of an element of D",))
    refused("find", *"m16n8k16 f32 D --row 3 --col 5 --terms".split(), words=("type of A, as in m16n8k16 f16 D",))
    assert "lies in shared memory" in run("find", *"wgmma m64n64k16 f16 D --row 3 --col 5 --terms".split()).err
    with pytest.raises(lanemap.LanemapError, match="col 8 is outside"):
        database.terms("m16n8k16 f16", 0, 8)
