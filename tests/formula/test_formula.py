"""The notation: what it means, and what it says when it cannot be read."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.layout import formula
from lanemap.db.layout.formula import Cells, FormulaError, coverage, evaluate_at, parse

LANE, ELEMENT = np.indices((32, 8))


def evaluate(formula, letter, count, lanes=32):
    """Row and column of every element in every lane: arrays of shape (lanes, elements)."""
    cells = evaluate_at(formula, letter, *np.indices((lanes, count)).reshape(2, -1))
    return Cells(*(values.reshape(lanes, count) for values in cells))


def rows(text, letter="a", count=8):
    return evaluate(parse(f"row = {text} col = 0"), letter, count).row


# An expression, and what Python makes of it: for the same operators the precedence is the same in C.
PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
PYTHON = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
LEAVES = st.one_of(
    st.integers(0, 300).flatmap(
        lambda number: st.sampled_from([str(number), hex(number), bin(number), f"0x{number:X}"])
    ),
    st.sampled_from(["i", "%laneid", "g"]),
)
TREES = st.recursive(LEAVES, lambda inner: st.tuples(inner, st.sampled_from(sorted(PRECEDENCE)), inner), max_leaves=12)


def text(tree, needed=0):
    """The tree with brackets only where precedence needs them."""
    if isinstance(tree, str):
        return tree
    left, sign, right = tree
    own = PRECEDENCE[sign]
    written = f"{text(left, own)} {sign} {text(right, own + 1)}"
    return f"({written})" if own < needed else written


def value(tree, lane, element):
    """Python's value, or None where the notation refuses: a remainder of a negative, an overflow, ..."""
    if isinstance(tree, str):
        names = {"i": element, "%laneid": lane, "g": lane >> 2}
        return names[tree] if tree in names else int(tree, 0)
    left, sign, right = value(tree[0], lane, element), tree[1], value(tree[2], lane, element)
    if left is None or right is None:
        return None
    if sign in "/%" and (left < 0 or right <= 0):
        return None
    if sign in ("<<", ">>") and (left < 0 or not 0 <= right <= 31):
        return None
    result = PYTHON[sign](left, right)
    return result if -(2**31) <= result < 2**31 else None


@given(TREES)
def test_expressions_evaluate_as_python_does(tree):
    expected = [[value(tree, lane, element) for element in range(8)] for lane in range(32)]
    formula = parse(f"g = %laneid >> 2 row = {text(tree)} col = 0")
    if any(None in line for line in expected):
        with pytest.raises(FormulaError):
            evaluate(formula, "a", 8)
    else:
        assert evaluate(formula, "a", 8).row.tolist() == expected


@given(TREES, st.sampled_from(["\n", "\n      ", "\t", "\r\n"]))
def test_white_space_carries_no_meaning(tree, space):
    one = parse(f"g = %laneid >> 2 row = {text(tree)} col = 0")
    other = parse(f"g = %laneid >> 2 row = {text(tree)} col = 0".replace(" ", space))
    try:
        expected = evaluate(one, "a", 8).row
    except FormulaError:
        return
    assert (evaluate(other, "a", 8).row == expected).all()


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1 for a0 and a1 2 for a2 or a3, a4 3 otherwise", [1, 1, 2, 2, 2, 3, 3, 3]),
        ("1 for ai where 0 <= i < 2 || 4 <= i < 6 2 Otherwise", [1, 1, 2, 2, 1, 1, 2, 2]),
        ("1 for ai where 2 <= i && i < 4 2 otherwise", [2, 2, 1, 1, 2, 2, 2, 2]),
        ("1 For ai where i % 2 = 0 2 for ai where i % 2 != 0", [1, 2] * 4),
        ("1 for ai where i == 3 2 otherwise", [2, 2, 2, 1, 2, 2, 2, 2]),
        ("1 for ai where i = {0,..,3} 2 for ai where i = {4, ...,7}", [1] * 4 + [2] * 4),
        ("1 for ai where i = {0, 1} 2 for ai where i = {2..7}", [1, 1] + [2] * 6),
        ("1 for ai where i = {0, 2, .., 6} 2 otherwise", [1, 2] * 4),
        ("1 for ai where i = {0,…,3} 2 otherwise", [1] * 4 + [2] * 4),
        ("i for ai", list(range(8))),
        ("(i - 2) % 4 for ai where i >= 2 9 otherwise", [9, 9, 0, 1, 2, 3, 0, 1]),
        ("i & 0x3", [0, 1, 2, 3] * 2),
        ("!i", [1] + [0] * 7),
        ("i for ai where ~i < -3 0 otherwise", [0, 0, 0, 3, 4, 5, 6, 7]),
    ],
)
def test_cases_by_element(formula, expected):
    assert rows(formula).tolist() == [expected] * 32


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1 if %laneid < 16 2 otherwise", np.where(LANE < 16, 1, 2)),
        (
            "1 for ai where i < 4 if %laneid < 16 2 for ai where i < 4 otherwise 3 for ai where i >= 4",
            np.where(ELEMENT >= 4, 3, np.where(LANE < 16, 1, 2)),
        ),
        ("X if %laneid < 16 X + 4 otherwise where X = i", ELEMENT + 4 * (LANE >= 16)),
    ],
)
def test_cases_by_lane_and_by_both(formula, expected):
    assert (rows(formula) == expected).all()


def test_comments_run_to_the_end_of_the_line():
    assert (rows("1 // for a0 only\n + i") == 1 + ELEMENT).all()


def test_a_window_and_its_where():
    cells = evaluate(
        parse("row = 0 col = [first ... last] Where first = i * 4 for ai where i < 2 0 otherwise last = first + 3"),
        "a",
        4,
    )
    assert cells.col[0].tolist() == [0, 4, 0, 0]
    assert (cells.col_last - cells.col == 3).all()


def test_a_definition_may_be_a_window():
    cells = evaluate(parse("row = 0 col = w for ai where i < 2 9 otherwise where w = [i ... i + 1]"), "a", 4)
    assert (cells.col[0].tolist(), cells.col_last[0].tolist()) == ([0, 1, 9, 9], [1, 2, 9, 9])


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("row = (i", "ends in the middle"),
        ("row = i @ 2 col = 0", "column 9"),
        ("row  =  1\n\n\tcol =  i  @ 2", "line 3, column 12: cannot read '@ 2' in 'col =  i  @ 2'"),
        ("row = 1 // row\n@ 2", "line 2, column 1: cannot read '@ 2' in '@ 2'"),
        ("row = 1", "col is not defined"),
        ("row = x col = 0", "x is not defined"),
        ("row = row col = 0", "defined in terms of itself"),
        ("row = x col = 0 x = y y = x", "defined in terms of itself"),
        ("row = 1 row = 2 col = 0", "row is defined twice"),
        ("row = 1 for a0 col = 0", "no case of row covers a1-3"),
        ("row = 1 if %laneid < 16 col = 0", "no case of row covers a0-3 in lanes 16-31"),
        ("row = 1 for ai where i < 3 2 for ai where i > 1 col = 0", "two cases of row disagree for a2"),
        ("row = 1 for b0 2 otherwise col = 0", "b0 is not an element of this operand"),
        ("row = 1 for bi col = 0", "bi is not an element"),
        ("row = 1 for a0 for a1 col = 0", "two conditions of one kind"),
        ("row = 4000000000 col = 0", "32-bit"),
        ("row = 65536 * 65536 col = 0", "32-bit"),
        ("row = 1 << 32 col = 0", "shift"),
        ("row = i / 0 col = 0", "quotient"),
        ("row = (0 - i) % 4 col = 0", "remainder"),
        ("row = [0 ... 1] col = 0", "row is a window, not a value"),
        ("row = 0 col = [1 ... 0]", "ends before it begins"),
        ("row = 0 col = w + 1 w = [0 ... 1]", "cannot be used in arithmetic"),
        ("row = 1 for ai where i = {3,..,0} 2 otherwise col = 0", "must ascend"),
        ("row = 1 for ai where i = {..,3} 2 otherwise col = 0", "dots stand before"),
        ("row = 1 for ai where i = {0,..,4000000000} col = 0", "32-bit"),
        ("row = 1 for ai where i = {0,..,999999} col = 0", "must ascend"),
        (f"row = {'(' * 200}i{')' * 200} + 1 col = {'-' * 200}1", "nested deeper"),
        ("row = 1 col = 0 " + "// so long\n" * 2000, "is longer than the limit of 10000"),
        ("", "ends in the middle"),
    ],
)
def test_a_formula_that_says_nothing_clear_is_refused(formula, words):
    with pytest.raises(FormulaError) as error:
        evaluate(parse(formula), "a", 4)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


NOWHERE = "{new} = {old} for ai where i > 4095 {old} for ai where i > 4095 0 otherwise"


def definitions(count, text):
    return " ".join(text.format(new=f"x{n + 1}", old=f"x{n}") for n in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (f"x0 = 0 {definitions(30, '{new} = {old} + {old}')} row = x30 col = 0", "more than 500 operations"),
        (f"x0 = 0 {definitions(20, NOWHERE)} row = x20 col = 0", "more than 500 operations"),
        (f"x0 = 0 {definitions(59, '{new} = {old} + {old}')} row = x59 col = 0", "deeper than 120 levels"),
        (f"x0 = 0 {definitions(200, '{new} = {old}')} row = x200 col = 0", "deeper than 120 levels"),
        (f"row = 0 for ai where {'-' * 2000}i < 4 1 otherwise col = 0", "deeper than 120 levels"),
        (f"row = 0 if {'!' * 2000}%laneid 1 otherwise col = 0", "deeper than 120 levels"),
        (f"row = {'@' * 9000} col = 0", "line 1, column 7: cannot read '@@@"),
        (f"row = i row = {'i + ' * 4000}i", "is longer than the limit of 10000"),
    ],
    ids=["doubled", "doubled nowhere", "doubled deep", "chained", "signs", "lane signs", "unknown signs", "long"],
)
@pytest.mark.parametrize("count", [1, 1024])
def test_a_formula_that_would_take_forever_is_refused_at_once(formula, words, count):
    start = time.process_time()
    with pytest.raises(FormulaError, match=words) as error:
        evaluate(parse(formula), "a", count)
    assert time.process_time() - start < 20
    assert len(str(error.value)) < 500


def test_every_formula_of_ptx_is_far_from_the_limits(fragments, monkeypatch):
    monkeypatch.setattr(formula, "MAX_DEPTH", 60)
    stated = [fragment for fragment in fragments if fragment.threads > 1 and fragment.citation.formula]
    for text in {fragment.citation.formula for fragment in stated}:
        assert parse.__wrapped__(text)
        assert len(text) < 1000


def test_threads_of_a_warpgroup():
    cells = evaluate(parse("row = %laneid // all of them\n col = i"), "a", 2, lanes=128)
    assert cells.row.tolist() == [[lane, lane] for lane in range(128)]
    with pytest.raises(FormulaError, match="covers a0-1 in lanes 100-127"):
        evaluate(parse("row = 1 if %laneid < 100 col = 0"), "a", 2, lanes=128)


CONDITIONS = ["for ai where i < 3", "for a1 or a5", "if %laneid < 16", "for ai where i >= 2 if %laneid % 4 = 1"]
HOLDS = [ELEMENT < 3, np.isin(ELEMENT, [1, 5]), LANE < 16, (ELEMENT >= 2) & (LANE % 4 == 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5))
def test_coverage_says_where_each_case_holds(cases):
    """``otherwise`` holds where no case before it does, and only there."""
    text = " ".join(f"1 {CONDITIONS[which]}{' otherwise' * otherwise}" for which, otherwise in cases)
    covered, expected = np.zeros_like(LANE, bool), []
    for which, otherwise in cases:
        expected.append(HOLDS[which] & ~covered if otherwise else HOLDS[which])
        covered = covered | expected[-1]
    masks = coverage(parse(f"row = {text} col = 0"), "row", "a", 8)
    assert [mask.tolist() for mask in masks] == [mask.tolist() for mask in expected]


@given(st.text(alphabet="rowcl=i0123 ()[]{}<>&|%+-*/.,\n forwheifots", max_size=60))
def test_any_text_is_evaluated_or_refused(text):
    try:
        evaluate(parse(text), "a", 4)
    except FormulaError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("number", ["010", "9" * 5000])
def test_a_number_that_python_would_refuse_is_refused_in_words(number):
    with pytest.raises(FormulaError, match="cannot read the number"):
        evaluate(parse(f"row = {number} col = 0"), "a", 1)
