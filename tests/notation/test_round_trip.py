"""Every notation over every fragment of every source: it says just what the rows say, or refuses by name."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import lanemap
from lanemap.db.render.notation import NOTATIONS, express
from lanemap.db.render.notation.table import RefusedError

from ..modes import examples
from ..shared_memory import box, memory
from ..shipped import CORRECTED
from .made import corrupted, matrices, supplied, unheard_of, warpgroup
from .readers import READERS

#: What the notations refuse that have one cell for each slot: windows of columns, and what the document prints wrong.
#: Triton has no products of quad pairs either.
REFUSED = {
    **dict.fromkeys(("cute", "linear", "affine", "python"), lambda fragment: windows(fragment) or slip(fragment)),
    "triton": lambda fragment: windows(fragment) or slip(fragment) or fragment.computations > 1,
    **dict.fromkeys(("cpp", "ptx-formula"), lambda fragment: False),
}

forms = pytest.mark.parametrize("form", NOTATIONS)


def said_as_it_is(form, fragment):
    """Whether a text says just the rows; of C++ and Triton's encodings the compilers say it, in their own tests."""
    text = express(form, fragment)
    return form not in READERS or np.array_equal(READERS[form](text, fragment), fragment.elements)


def windows(fragment):
    return (fragment.elements["col"] != fragment.elements["col_last"]).any()


def slip(fragment):
    return fragment.source in ("ptx-isa-9.4", "ptx-isa-9.1") and str(fragment) == "A of mma m16n8k256 b1"


@pytest.mark.slow
@forms
def test_every_operand_of_a_product_is_expressed_but_for_what_a_notation_cannot_say(everything, form):
    """Of fragments of one layout, one of each role and instruction is enough."""
    refused = Counter()
    one = {
        (fragment.instruction, fragment.role, fragment.dimensions, fragment.slots, fragment.digest): fragment
        for _, fragment in everything
    }
    for fragment in one.values():
        try:
            assert said_as_it_is(form, fragment), fragment
            said = False
        except RefusedError as error:
            assert str(error).startswith(f"{fragment}: ")
            said = True
        if fragment.instruction in ("mma", "mma.sp") and fragment.role in "ABCDE":
            assert said == REFUSED[form](fragment), fragment
            refused[said] += 1
    assert refused[False] > 40


@pytest.mark.slow
@forms
def test_operands_in_memory_lie_where_the_text_puts_them(in_memory, form):
    """A formula may refuse a box, which has no canonical layout."""
    refused = set()
    for fragment in in_memory:
        try:
            assert said_as_it_is(form, fragment), fragment
        except RefusedError as error:
            assert str(error).startswith(f"{fragment}: ")
            refused.add(fragment.role)
    may_refuse = {"cute": set(), "cpp": set(), "ptx-formula": {"t"}}
    assert refused <= may_refuse[form] if form in may_refuse else refused


@pytest.mark.slow
def test_a_linear_layout_in_memory_is_one_to_one_over_whole_lines(every_width):
    """A model of memory that is filled by hand has the same at each place, also where an operand has nothing."""
    partly = refused = padded = 0
    few = re.compile(r"m\d+n(8|24|32)(k|$)")
    for fragment in every_width:
        of = fragment.tile
        if fragment.source != CORRECTED or not of or fragment.windowed or not few.match(fragment.shape):
            continue
        rows, cols = fragment.dimensions
        try:
            text = express("linear", fragment)
        except RefusedError as error:
            padded += (has_padding := "padding" in str(error))
            refused += 1
            assert has_padding or (of.size * 8 // of.bits).bit_count() > 1, error
            continue
        if said := re.match(r"// of a tensor of (\d+) x (\d+), which begins with this operand\n", text):
            rows, cols = map(int, said.groups())
            partly += 1
        held = np.zeros((1, 2), int)
        for basis in json.loads(re.search(r"offset = (\[\[.*?\]\])", text)[1]):
            held = np.concatenate([held, held ^ basis])
        mn, k = (cols, rows) if fragment.role == "B" else (rows, cols)
        if fragment.role == "t":
            lies = np.array(box(of.mode, rows, of.span, 0)).reshape(rows, cols, -1)[..., 0] * 8
        else:
            found, size = memory(of.mode, of.major, of.bits, mn, k)
            assert size == of.size
            lies = np.array([found[cell] for cell in np.ndindex(mn, k)]).reshape(mn, k)
        lies = lies.T if fragment.role == "B" else lies
        assert len(held) == lies.size == len(np.unique(held, axis=0))
        assert np.array_equal(lies[tuple(held.T)], np.arange(len(held)) * of.bits), fragment
    assert min(partly, refused - padded, padded) > 3, (partly, refused, padded)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("cute", "lane 0 reg 3 slot 0 has cell 2056, but the digits of lane and element add up to 2568"),
        ("linear", "lane 0 reg 3 slot 0 has col 128, but the XOR of the bases of its bits is 160"),
        ("triton", "lane 0 reg 1 slot 0 does not hold row 8 col 0, as it does in #ttg.dot_op<.*"),
        ("affine", "lane 0 reg 3 slot 0 has col 128, but the digits of lane and element add up to 160"),
        ("python", "lane 3 reg 1 slot 0 holds a cell that another slot also holds"),
    ],
)
def test_what_the_document_prints_wrong_is_refused_at_its_first_element(everything, form, words):
    printed = next(
        fragment
        for source, fragment in everything
        if source == "ptx-isa-9.4" and str(fragment) == "A of mma m16n8k256 b1"
    )
    with pytest.raises(RefusedError, match=f"^A of mma m16n8k256 b1: {words}$"):
        express(form, printed)


def test_a_window_is_refused_at_its_first_element(everything):
    sparse = next(fragment for _, fragment in everything if fragment.instruction == "mma.sp" and fragment.role == "A")
    for form in ("cute", "linear", "affine", "python"):
        with pytest.raises(RefusedError, match="lane 0 reg 0 slot 0 can stand for any column from 0 to 3"):
            express(form, sparse)


def test_names_are_unique_within_a_source(everything):
    named = Counter((source, fragment.key.identifier) for source, fragment in everything)
    assert set(named.values()) == {1}


def test_a_fragment_without_rows_is_refused(sources):
    drawn = next(fragment for fragment in sources[CORRECTED].fragments if fragment.elements is None)
    with pytest.raises(RefusedError, match=f"{drawn} has no rows: it is unstated"):
        express("cute", drawn)


@forms
def test_the_128_threads_of_a_warpgroup_are_expressed(form):
    assert said_as_it_is(form, warpgroup())


@forms
@pytest.mark.parametrize("name", ["x.matmul", "v_mfma_f32_32x32x8_f16"])
def test_an_instruction_that_nobody_has_heard_of_is_expressed_with_as_many_lanes_as_it_has(form, name):
    for fragment in unheard_of(name):
        if form == "triton":
            with pytest.raises(RefusedError, match="Triton has no encoding of"):
                express(form, fragment)
        else:
            assert said_as_it_is(form, fragment)
            bits = re.search(r" lane = \[\[(.*?)\]\]", express("linear", fragment))[1].count("], [") + 1
            assert bits == (6 if fragment.threads == 64 or "mfma" in name else 8)


@forms
def test_matrices_of_which_every_lane_holds_some_are_expressed_or_refused(form):
    if form == "triton":
        with pytest.raises(RefusedError, match="several products or matrices"):
            express(form, matrices())
    else:
        assert said_as_it_is(form, matrices())
        assert form == "ptx-formula" or "x4" in express(form, matrices())


@pytest.mark.slow
@forms
@given(fragment=supplied())
def test_what_some_lanes_hold_in_some_elements_is_expressed_or_refused(form, fragment):
    """C++ refuses none of it, and a formula only what no bits of the numbers tell."""
    try:
        assert said_as_it_is(form, fragment)
    except RefusedError as error:
        why = r"no bits of (i|%laneid) tell which ones hold something" if form == "ptx-formula" else "holds nothing"
        assert form != "cpp"
        assert re.search(why, str(error))


@pytest.mark.slow
@forms
@examples(120)
@given(fragment=corrupted())
def test_a_corrupted_fragment_is_expressed_or_refused_in_one_line(form, fragment):
    try:
        assert said_as_it_is(form, fragment)
    except RefusedError as error:
        assert "\n" not in str(error)


def test_the_guide_lists_every_notation():
    guide = (Path(lanemap.__file__).parent / "cli" / "web" / "guide" / "export.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w[\w-]*)` \| .+ \| (.+) \|$", guide.partition("## Notations")[2], re.MULTILINE)
    assert listed == [(name, notation.audience) for name, notation in NOTATIONS.items()]
