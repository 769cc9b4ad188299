"""The notation: what it means, and what it says when it cannot be read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.ingest.evaluate import evaluate
from lanemap.ingest.notation import NotationError, parse

LANE, ELEMENT = np.indices((32, 8))


def rows(text, letter="a", count=8):
    return evaluate(parse(f"row = {text} col = 0"), letter, count).row


# An expression and, beside it, what Python makes of it: for the same operators the precedence is the same in C.
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
        with pytest.raises(NotationError):
            evaluate(formula, "a", 8)
    else:
        assert evaluate(formula, "a", 8).row.tolist() == expected


@given(TREES, st.sampled_from(["\n", "\n      ", "\t", "\r\n"]))
def test_white_space_carries_no_meaning(tree, space):
    one = parse(f"g = %laneid >> 2 row = {text(tree)} col = 0")
    other = parse(f"g = %laneid >> 2 row = {text(tree)} col = 0".replace(" ", space))
    try:
        expected = evaluate(one, "a", 8).row
    except NotationError:
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
        ("row = 1", "col is not defined"),
        ("row = x col = 0", "x is not defined"),
        ("row = row col = 0", "defined by itself"),
        ("row = x col = 0 x = y y = x", "defined by itself"),
        ("row = 1 row = 2 col = 0", "row is defined twice"),
        ("row = 1 for a0 col = 0", "no case of row covers a1-3"),
        ("row = 1 if %laneid < 16 col = 0", "no case of row covers a0-3 in lanes 16-31"),
        ("row = 1 for ai where i < 3 2 for ai where i > 1 col = 0", "two cases of row disagree for a2"),
        ("row = 1 for b0 2 otherwise col = 0", "b0 is no element of this operand"),
        ("row = 1 for bi col = 0", "bi is no element"),
        ("row = 1 for a0 for a1 col = 0", "two conditions of one kind"),
        ("row = 4000000000 col = 0", "32-bit"),
        ("row = 65536 * 65536 col = 0", "32-bit"),
        ("row = 1 << 32 col = 0", "shift"),
        ("row = i / 0 col = 0", "quotient"),
        ("row = (0 - i) % 4 col = 0", "remainder"),
        ("row = [0 ... 1] col = 0", "only col may be"),
        ("row = 0 col = [1 ... 0]", "ends before it begins"),
        ("row = 0 col = w + 1 w = [0 ... 1]", "cannot be calculated with"),
        ("row = 1 for ai where i = {3,..,0} 2 otherwise col = 0", "must ascend"),
        ("row = 1 for ai where i = {..,3} 2 otherwise col = 0", "dots stand before"),
        ("row = 1 for ai where i = {0,..,4000000000} col = 0", "32-bit"),
        ("row = 1 for ai where i = {0,..,999999} col = 0", "must ascend"),
        (f"row = {'(' * 200}i{')' * 200} + 1 col = {'-' * 200}1", "nested deeper"),
        ("row = 1 col = 0 " + "// so long\n" * 2000, "longer than any formula"),
        ("", "ends in the middle"),
    ],
)
def test_a_formula_that_says_nothing_clear_is_refused(formula, words):
    with pytest.raises(NotationError) as error:
        evaluate(parse(formula), "a", 4)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_definitions_that_double_each_time_are_refused():
    chain = " ".join(f"x{n + 1} = x{n} + x{n}" for n in range(40))
    with pytest.raises(NotationError, match="too often"):
        evaluate(parse(f"x0 = 0 {chain} row = x40 col = 0"), "a", 1)


@given(st.text(alphabet="rowcl=i0123 ()[]{}<>&|%+-*/.,\n forwheifots", max_size=60))
def test_any_text_is_evaluated_or_refused(text):
    try:
        evaluate(parse(text), "a", 4)
    except NotationError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("number", ["010", "9" * 5000])
def test_a_number_that_python_would_refuse_is_refused_in_words(number):
    with pytest.raises(NotationError, match="cannot read the number"):
        evaluate(parse(f"row = {number} col = 0"), "a", 1)
