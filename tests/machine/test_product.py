"""The notation of products: what is written is what is read, and it computes what its sums say."""

from itertools import product as every

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lanemap.capture.machine.product import Factor, Formula, Term, evaluate, extents, parse
from lanemap.db.errors import LanemapError

EXTENTS = {"m": 4, "n": 2, "k": 6, "b": 3}
NUMBERS = [1.0, 2.0, 0.125, 3.5, 1e-3, 25.0]


@st.composite
def formulas(draw):
    """A sum of products, with batches, factors and scales of blocks, whose arrays are called after their order."""
    indices = st.lists(st.sampled_from([*EXTENTS]), min_size=1, max_size=3, unique=True)
    terms, count = [], 0
    for _ in range(draw(st.integers(1, 3))):
        factors = []
        for _ in range(draw(st.integers(1, 3))):
            names = tuple(draw(indices))
            shares = tuple(draw(st.sampled_from([s for s in (1, 2, 3) if EXTENTS[name] % s == 0])) for name in names)
            factors.append(Factor(f"X{count}", names, shares if max(shares) > 1 else ()))
            count += 1
        terms.append(Term(draw(st.sampled_from(NUMBERS)) * draw(st.sampled_from([1, -1])), tuple(factors)))
    there = {name for term in terms for factor in term.factors for name in factor.indices}
    left = tuple(name for name in draw(indices) if name in there)
    assume(left)
    return Formula(Factor("Y", left), (), tuple(terms))


def written(formula, draw):
    """A formula as people may write it."""
    blank = st.sampled_from(["", " "])

    def factor(of):
        shares = of.shares or (1,) * len(of.indices)
        names = [
            name + (f"{draw(blank)}/{share}" if share > 1 else "")
            for name, share in zip(of.indices, shares, strict=True)
        ]
        return f"{of.name}[{f'{draw(blank)},{draw(blank)}'.join(names)}]"

    text = ""
    for number, term in enumerate(formula.terms):
        sign = "-" if term.scale < 0 else "+" if number or draw(st.booleans()) else ""
        size = abs(term.scale)
        scale = "" if size == 1 and draw(st.booleans()) else f"{draw(st.sampled_from([str, '{:e}'.format]))(size)} "
        between = draw(st.sampled_from([" ", " * ", "*"]))
        text += f"{draw(blank)}{sign}{draw(blank)}{scale}" + between.join(map(factor, term.factors))
    return f"{factor(formula.left)}{draw(blank)}={text}{draw(blank)}"


def by_loops(formula, arrays):
    """Every sum, one product after the other."""
    result = np.zeros([EXTENTS[name] for name in formula.left.indices])
    for term in formula.terms:
        own = dict.fromkeys(name for factor in term.factors for name in factor.indices)
        names = [*dict.fromkeys([*formula.left.indices, *own])]
        for place in every(*(range(EXTENTS[name]) for name in names)):
            at = dict(zip(names, place, strict=True))
            value = term.scale
            for factor in term.factors:
                value *= arrays[factor.name][factor.place(at)]
            result[tuple(at[name] for name in formula.left.indices)] += value
    return result


def shaped(factor, random):
    shares = factor.shares or (1,) * len(factor.indices)
    shape = [EXTENTS[name] // share for name, share in zip(factor.indices, shares, strict=True)]
    return random.integers(-4, 5, shape).astype("f8")


@given(formulas(), st.data())
def test_what_is_written_is_read_and_computes_its_sums(formula, data):
    (read,) = steps = parse(written(formula, data.draw))
    assert read == formula
    random = np.random.default_rng(0)
    arrays = {factor.name: shaped(factor, random) for term in formula.terms for factor in term.factors}
    computed = np.broadcast_to(evaluate(steps, arrays)["Y"], [EXTENTS[name] for name in formula.left.indices])
    assert np.allclose(computed, by_loops(formula, arrays))
    shapes = {name: array.shape for name, array in arrays.items()}
    there = {name for factor in (f for term in formula.terms for f in term.factors) for name in factor.indices}
    assert extents(steps, shapes) == {name: EXTENTS[name] for name in there}


def test_steps_have_functions_between_them():
    random = np.random.default_rng(1)
    q, k, v, d = (random.integers(-3, 4, shape).astype("f8") for shape in ((5, 4), (6, 4), (6, 3), (5, 3)))
    text = "S[m,n] = 0.5 Q[m,k] K[n,k]; P = softmax(causal(S)); T = exp(S); r[m] = max(S); w = sum(T)"
    found = evaluate(parse(f"{text}; O[m,d] = P[m,n] V[n,d] + D[m,d]; R = relu(O)"), {"Q": q, "K": k, "V": v, "D": d})
    scores = 0.5 * q @ k.T
    assert np.allclose(found["S"], scores)
    masked = np.where(np.tri(5, 6, dtype=bool), np.exp(scores), 0)
    weights = masked / masked.sum(axis=1, keepdims=True)
    assert np.allclose(found["P"], weights)
    assert np.allclose(found["T"], np.exp(scores))
    assert np.allclose(found["r"], scores.max(axis=1))
    assert np.allclose(found["w"], np.exp(scores).sum(axis=1))
    assert np.allclose(found["O"], weights @ v + d)
    assert np.allclose(found["R"], np.maximum(weights @ v + d, 0))
    assert parse(f"{text}")[-1].left == Factor("w", ("m",))


@given(st.text("CABmnk[],=+-*/;. 0123e()", max_size=30))
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        steps = parse(text)
    except LanemapError as error:
        assert "\n" not in str(error)
    else:
        assert all(step.terms and step.left.indices for step in steps)


@pytest.mark.parametrize(
    "text",
    [
        "C[m,n] = A[m,k] B[n,k",
        "C[m,n] = A[m,k] + ",
        "C[m,n] = + - A[m,n]",
        "C[m,n] = 2 + A[m,n]",
        "C[m,n] = 2",
        "C[m,n] = (A[m,n])",
        "C[m,n] = relu(A[m,n]) + relu(B[m,n])",
        "C[m,n] = A[m,k/0] B[n,k]",
        "C[m/2] = A[m]",
        "r[n] = max(S[m,n])",
        "r[m] = max(A[m,k] B[n,k])",
        "r[m] = max(sum(S[m,n]))",
        "C = A",
        "C[m,n] = alpha A[m,k] B[n,k]",
        "C[m,n] = alpha A[m,n] + B[m,n]",
        "Y = softmax(X)",
        "C[m] == A[m]",
    ],
)
def test_what_would_mean_something_else_is_refused(text):
    with pytest.raises(LanemapError, match="write it like|compute it in a step before"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C[m,n] = sofmax(A[m,n])", "there is no function sofmax: choose from softmax, causal, exp, relu, max, sum"),
        ("C[m,n] = A[m,n] + relu(A[m,n])", "relu is of a whole step: compute it in a step before"),
    ],
)
def test_a_function_that_is_none_is_named(text, words):
    with pytest.raises(LanemapError, match=words):
        parse(text)


def test_an_index_has_the_extent_of_what_a_step_before_computes():
    steps = parse("S[m,n] = A[m,k] B[n,k]; P[i,j] = softmax(S[i,j]); C[m,n] = P[m,n]")
    shapes = {"A": (16, 8), "B": (4, 8), "C": (16, 4)}
    assert extents(steps, shapes) == {"m": 16, "n": 4, "k": 8, "i": 16, "j": 4}
    with pytest.raises(LanemapError, match="n is 4 of B, and 16 of S"):
        extents(parse("S[m,n] = A[m,k] B[n,k]; C[m,n] = S[n,m]"), shapes)
    with pytest.raises(LanemapError, match="q of S is an index of no argument"):
        extents(parse("S[m,q] = A[m,k]; C[m,n] = S[m,q] B[n,k]"), shapes)
