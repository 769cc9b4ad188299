"""What a kernel must compute, in index notation: ``C[m,n] = A[m,k] B[n,k]``, in one step or several.

An index that the left side lacks is summed over. A step may end in functions of the whole, and name an earlier step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.layout.algebra import Array

_NAME = r"[A-Za-z_]\w*"
_FACTOR = re.compile(rf"({_NAME})(?:\[\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\])?")
_TERM = re.compile(r"\s*([+-]?)\s*([^+-]+(?:e[+-]?\d+)?[^+-]*)")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+")

EXAMPLE = "'C[m,n] = A[m,k] B[n,k]'"


def _softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _causal(values: Array) -> Array:
    rows, columns = values.shape[-2:]
    return np.where(np.arange(columns) > np.arange(rows)[:, None], -np.inf, values)


#: Functions of a whole array; the last axis is that of a row.
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "softmax": _softmax,
    "causal": _causal,
    "exp": np.exp,
    "relu": lambda values: np.maximum(values, 0),
    "max": lambda values: values.max(axis=-1),
    "sum": lambda values: values.sum(axis=-1),
}


class Factor(NamedTuple):
    """An array with the names of its indices."""

    name: str
    indices: tuple[str, ...]


class Term(NamedTuple):
    """A number times arrays."""

    scale: float
    factors: tuple[Factor, ...]


class Formula(NamedTuple):
    """One step: what it computes, the functions of the whole, the outermost first, and the sum within."""

    left: Factor
    functions: tuple[str, ...]
    terms: tuple[Term, ...]


def parse(text: str) -> tuple[Formula, ...]:
    """The steps of a product. Raises LanemapError, which says how one is written."""
    steps: list[Formula] = []
    for written in text.split(";"):
        left, equals, right = written.partition("=")
        head = _FACTOR.fullmatch(left.strip())
        if not equals or head is None:
            raise LanemapError(f"{written.strip()!r} is no product: write it like {EXAMPLE}", "product")
        functions, rest = [], right.strip()
        while (call := re.fullmatch(rf"({'|'.join(FUNCTIONS)})\s*\((.*)\)", rest)) is not None:
            functions.append(call[1])
            rest = call[2].strip()
        known = {step.left.name: step.left.indices for step in steps}
        terms = tuple(_term(matched, known, written) for matched in _TERM.finditer(rest))
        indices = _indices(head)
        if not indices and len(terms) == 1 and len(terms[0].factors) == 1:
            indices = terms[0].factors[0].indices
        if not terms or not indices:
            raise LanemapError(f"{written.strip()!r} is no product: write it like {EXAMPLE}", "product")
        steps.append(Formula(Factor(head[1], indices), tuple(functions), terms))
    return tuple(steps)


def _indices(matched: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip() for part in matched[2].split(",")) if matched[2] else ()


def _term(matched: re.Match[str], known: Mapping[str, tuple[str, ...]], written: str) -> Term:
    sign, body = matched.groups()
    scale = -1.0 if sign == "-" else 1.0
    factors = [Factor(found[1], _indices(found) or known.get(found[1], ())) for found in _FACTOR.finditer(body)]
    rest = _FACTOR.sub(" ", body)
    for number in _NUMBER.findall(rest):
        scale *= float(number)
    if _NUMBER.sub("", rest).strip(" *\t\n") or not factors or not all(factor.indices for factor in factors):
        raise LanemapError(f"{written.strip()!r} is no product: write it like {EXAMPLE}", "product")
    return Term(scale, tuple(factors))


def extents(steps: Sequence[Formula], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The extent of each index. Raises LanemapError where arrays disagree, or one is not an argument."""
    found: dict[str, tuple[int, str]] = {}
    made = {step.left.name for step in steps}
    for step in steps:
        for factor in (*(factor for term in step.terms for factor in term.factors), step.left):
            if factor.name not in shapes:
                if factor.name not in made:
                    raise LanemapError(f"{factor.name} of the product is no argument: there is {', '.join(shapes)}")
                continue
            shape = shapes[factor.name]
            if len(shape) != len(factor.indices):
                raise LanemapError(f"{factor.name} has {len(shape)} dimensions, and {len(factor.indices)} indices")
            for name, extent in zip(factor.indices, shape, strict=True):
                known, where = found.setdefault(name, (extent, factor.name))
                if known != extent:
                    raise LanemapError(f"{name} is {known} of {where}, and {extent} of {factor.name}")
    return {name: extent for name, (extent, _) in found.items()}


def evaluate(steps: Sequence[Formula], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What each step computes, in double precision."""
    known = {name: np.asarray(array, "f8") for name, array in arrays.items()}
    for step in steps:
        reduces = {"max", "sum"} & {*step.functions}
        inner = step.terms[0].factors[0].indices if reduces else step.left.indices
        total: Array | float = 0.0
        for term in step.terms:
            letters = {name: at for at, name in enumerate(dict.fromkeys(n for f in term.factors for n in f.indices))}
            operands = [part for f in term.factors for part in (known[f.name], [letters[name] for name in f.indices])]
            present = [name for name in inner if name in letters]
            found = np.einsum(*operands, [letters[name] for name in present], optimize=True)
            shape = [found.shape[present.index(name)] if name in present else 1 for name in inner]
            total = total + term.scale * found.reshape(shape)
        values = np.asarray(total)
        for function in reversed(step.functions):
            values = FUNCTIONS[function](values)
        known[step.left.name] = values
    return {step.left.name: known[step.left.name] for step in steps}
