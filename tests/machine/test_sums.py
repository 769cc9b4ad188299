"""What a sum has added is multiplied out, and a scale that is not its own is named."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanemap.capture.machine import sums
from lanemap.capture.machine.product import parse
from lanemap.capture.machine.values import Join, Tape

from .conftest import run
from .kernels import ARGUMENTS, PRODUCT

LEAVES = 5

#: Sums and products, each of two of what is there before.
STEPS = st.lists(st.tuples(st.sampled_from(["add", "mul"]), st.integers(0, 99), st.integers(0, 99)), max_size=5)


def recorded(steps):
    """What a run would have recorded of them, and the number of the last value."""
    tape = Tape(LEAVES + 1)
    for kind, left, right in steps:
        ids = [np.array([1 + each % (tape.starts[-1] - 1)]) for each in (left, right)]
        tape.add(Join(kind, *ids), 1)
    (step,) = parse("Y[m] = A[m]")
    of = SimpleNamespace(tape=tape, steps=[step], known=SimpleNamespace(array=np.full(99, -1)), origin=lambda name: 0)
    return of, tape.starts[-1] - 1


@example([("mul", 4 + at, 4 + at) for at in range(5)])
@given(STEPS)
def test_products_are_those_of_the_polynomial(steps):
    of, last = recorded(steps)
    values = [Counter({(leaf,): 1}) for leaf in range(1, LEAVES + 1)]
    for kind, *sides in steps:
        left, right = (values[side % len(values)] for side in sides)
        if kind == "add":
            values.append(left + right)
        else:
            values.append(Counter())
            for one, times in left.items():
                for other, again in right.items():
                    values[-1][tuple(sorted(one + other))] += times * again
    found = sums.terms(of, last)
    if max(map(len, values[-1])) > 16:
        assert found is None
    else:
        assert found is not None
        assert {key: len(added) for key, added in found.items()} == values[-1]


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_what_doubles_again_and_again_is_not_followed(kind, monkeypatch):
    monkeypatch.setattr(sums, "_MOST_STEPS", 1 << 12)
    of, last = recorded([(kind, LEAVES + at - 1, LEAVES + at - 1) for at in range(60)])
    assert sums.terms(of, last) is None


#: Multiplies each result by a scale of its row and one of its column, so many bytes from one to the next.
SCALES = """ld.param.u64 %offset, [sA]; mad.wide.u32 %offset, %group, 4, %offset;
ld.global.f32 %s0, [%offset]; ld.global.f32 %s1, [%offset+{rows}];
mul.f32 %c0, %s0, %c0; mul.f32 %c1, %s0, %c1; mul.f32 %c2, %c2, %s1; mul.f32 %c3, %s1, %c3;
ld.param.u64 %offset, [sB]; mad.wide.u32 %offset, %pair, {columns}, %offset;
ld.global.v2.f32 {{%s0, %s1}}, [%offset];
mul.f32 %c0, %c0, %s0; mul.f32 %c1, %c1, %s1; mul.f32 %c2, %s0, %c2; mul.f32 %c3, %s1, %c3;
"""
FACTORS = {"sA": np.arange(1, 17, dtype="f4"), "sB": np.arange(1, 9, dtype="f4")}


#: What it computes, in one step or in two.
ONCE = "C[m,n] = sA[m] sB[n] A[m,k] B[n,k]"
TWICE = "S[m,n] = A[m,k] B[n,k]; C[m,n] = sA[m] S[m,n] sB[n]"
BETWEEN = "S[m,n] = sA[m] A[m,k] B[n,k]; C[m,n] = S[m,n] sB[n]"


def scaled(rows, columns, old="", new="", formula=ONCE):
    """The kernel of the guide with scales."""
    text = PRODUCT.replace("    .reg .pred %second;", "    .reg .pred %second; .reg .f32 %s<2>;").replace(old, new)
    text = text.replace(".param .u64 C", ".param .u64 C, .param .u64 sA, .param .u64 sB")
    store = "mad.lo.u32 %at, %pair, 8, %row;"
    text = text.replace(store, SCALES.format(rows=rows, columns=columns) + store)
    given_ = dict(argument.split("=") for argument in ARGUMENTS) | FACTORS
    return run(text, given_, formula, block=64)


def test_results_that_are_scaled_by_row_and_column_are_right():
    assert scaled(32, 8).ok


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (0, 8, "C[8][0] adds A[8][0] x B[0][0] x sA[0] x sB[0] at {}, sA[0] in place of sA[8] (16 of 16"),
        (32, 0, "C[0][2] adds A[0][0] x B[2][0] x sA[0] x sB[0] at {}, sB[0] in place of sB[2] (16 of 16"),
    ],
)
def test_a_scale_of_another_row_or_column_is_named(rows, columns, words):
    found = scaled(rows, columns)
    (finding,) = found.findings
    assert finding.details[0].startswith(words.format(found.judge.executions[0].place)), finding


def test_what_an_earlier_step_computes_is_a_factor():
    assert scaled(32, 8, formula=TWICE).ok
    details = scaled(0, 8, formula=TWICE).findings[0].details
    assert details[0].startswith("C[8][0] adds sA[0] x sB[0] x S[8][0], sA[0] in place of sA[8] (1 of 1 products")
    details = scaled(32, 0, formula=BETWEEN).findings[0].details
    assert details[0].startswith("C[0][2] adds sB[0] x S[0][2], sB[0] in place of sB[2] (1 of 1 products")


def test_products_that_are_added_twice_are_scaled_both_times():
    a, b, c = "{%a0, %a1, %a2, %a3}", "{%b0, %b1}", "{%c0, %c1, %c2, %c3}"
    again = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {c}, {a}, {b}, {c};\n"
    (finding,) = scaled(
        32, 8, "    mad.lo.u32 %at, %pair, 8, %row;", again + "    mad.lo.u32 %at, %pair, 8, %row;"
    ).findings
    assert "C[0][0] adds A[0][0] x B[0][0] x sA[0] x sB[0] 2 times (16 products" in finding.details[0]


def test_a_factor_that_is_not_known_has_no_name():
    old, new = "{%b0, %b1}, {%c0, %c0, %c0, %c0};", "{%a0, %a1}, {%c0, %c0, %c0, %c0}; max.f32 %c0, %c0, %c1;"
    (finding,) = scaled(32, 8, old, new).findings
    assert len(finding.details) == 1, finding


def test_an_operand_is_named_beside_right_scales():
    found = scaled(32, 8, "{%a0, %a1, %a2, %a3}", "{%a0, %a2, %a1, %a3}")
    operand, product = found.findings
    assert "registers 1 and 2 are exchanged" in operand.words
    assert "C[0][0] adds A[8][0] x B[0][8] x sA[0] x sB[0]" in product.details[0]
    assert "(8 of 16 products are not its own)" in product.details[0]
