"""What a kernel must compute, in index notation: ``C[m,n] = A[m,k] B[n,k]``, in one step or several.

An index that the left side lacks is summed over. A step may end in functions of the whole, and name an earlier step.
``SFA[m,k/32]`` has one element for 32 of an index, and ``sparse(A,E)[m,k]`` is what A stores of a sparse matrix, in the
columns that the metadata E chooses: four bits for each chunk of a row, one chunk after the other.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...db.errors import LanemapError
from ...db.isa.instructions import ONE_OF_TWO, PAIRWISE, TWO_OF_FOUR, Sparsity
from ...db.layout.algebra import Array

_NAME = r"[A-Za-z_]\w*"
_INDEX = rf"{_NAME}(?:\s*/\s*[1-9]\d*)?"
_FACTOR = re.compile(
    rf"(?:sparse\(\s*(?P<stored>{_NAME})\s*,\s*(?P<metadata>{_NAME})\s*\)|(?P<name>{_NAME}))"
    rf"(?:\[\s*(?P<indices>{_INDEX}(?:\s*,\s*{_INDEX})*)\s*\])?"
)
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"\s*(?:(?P<sign>[+-])|(?P<number>{_NUMBER})|(?P<factor>{_FACTOR.pattern})|\*|$)")

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

#: Those that have one number for each row.
_REDUCING = ("max", "sum")


class Factor(NamedTuple):
    """An array with the names of its indices.

    ``shares`` says how many of an index have one element, where these are several. ``metadata`` is the array that
    chooses the columns of a sparse one, whose last index is that of all columns.
    """

    name: str
    indices: tuple[str, ...]
    shares: tuple[int, ...] = ()
    metadata: str = ""

    def place(self, at: Mapping[str, int]) -> tuple[int, ...]:
        """The place of its element for a value of each index."""
        shares = self.shares or (1,) * len(self.indices)
        return tuple(at[name] // share for name, share in zip(self.indices, shares, strict=True))


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
    if not isinstance(text, str):
        raise LanemapError(f"{text!r} is no product: write it like {EXAMPLE}", "product")
    steps: list[Formula] = []
    for written in text.split(";"):
        left, equals, right = written.partition("=")
        head = _FACTOR.fullmatch(left.strip())
        if not equals or head is None or head["name"] is None or "/" in left:
            raise LanemapError(f"{written.strip()!r} is no product: write it like {EXAMPLE}", "product")
        functions, rest = [], right.strip()
        while (call := re.fullmatch(rf"({'|'.join(FUNCTIONS)})\s*\((.*)\)", rest)) is not None:
            functions.append(call[1])
            rest = call[2].strip()
        known = {step.left.name: step.left.indices for step in steps}
        terms = tuple(_terms(rest, known))
        reduced = sum(name in _REDUCING for name in functions)
        if reduced and (reduced > 1 or len(terms) != 1 or len(terms[0].factors) != 1):
            words = f"{written.strip()!r}: max and sum are of one array: compute it in a step before"
            raise LanemapError(words, "product")
        indices, _ = _indices(head)
        alone = terms[0].factors[0].indices if len(terms) == 1 and len(terms[0].factors) == 1 else ()
        alone = alone[: len(alone) - reduced]
        indices = indices or alone
        if not terms or not indices or (reduced and indices != alone):
            raise LanemapError(f"{written.strip()!r} is no product: write it like {EXAMPLE}", "product")
        steps.append(Formula(Factor(head["name"], indices), tuple(functions), terms))
    return tuple(steps)


def _indices(matched: re.Match[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names of indices, and how many of each have one element; the latter only where these are several."""
    parts = [part.partition("/") for part in (matched["indices"] or "").split(",") if part]
    shares = tuple(int(share or 1) for _, _, share in parts)
    return tuple(name.strip() for name, *_ in parts), shares if any(share > 1 for share in shares) else ()


def _factor(matched: re.Match[str], known: Mapping[str, tuple[str, ...]]) -> Factor:
    name = matched["name"] or matched["stored"]
    indices, shares = _indices(matched)
    if name in FUNCTIONS:
        raise LanemapError(f"{name} is of a whole step: compute it in a step before", "product")
    if matched.string[matched.end() :].lstrip().startswith("("):
        raise LanemapError(f"there is no function {name}: choose from {', '.join(FUNCTIONS)}", "product")
    if not (indices := indices or known.get(name, ())):
        raise LanemapError(f"{name} of the product has no indices: write it like {name}[m,n]", "product")
    return Factor(name, indices, shares, matched["metadata"] or "")


def _terms(text: str, known: Mapping[str, tuple[str, ...]]) -> list[Term]:
    """The terms of a sum; none where the text is no sum."""
    terms, scale, factors, at = list[Term](), 1.0, list[Factor](), 0
    while at < len(text):
        if (matched := _TOKEN.match(text, at)) is None:
            return []
        at = matched.end()
        if matched["sign"]:
            if factors:
                terms.append(Term(scale, tuple(factors)))
            elif text[: matched.start("sign")].strip():  # a sign stands first, or behind a term
                return []
            scale, factors = -1.0 if matched["sign"] == "-" else 1.0, []
        elif matched["number"]:
            scale *= float(matched["number"])
        elif matched["factor"]:
            factors.append(_factor(matched, known))
    return [*terms, Term(scale, tuple(factors))] if factors else []


def extents(steps: Sequence[Formula], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The extent of each index. Raises LanemapError where arrays disagree, or one is not an argument."""
    found: dict[str, tuple[int, str]] = {}
    computed: dict[str, tuple[int, ...]] = {}
    made = {step.left.name for step in steps}
    of_steps = [[*(factor for term in step.terms for factor in term.factors), step.left] for step in steps]
    for factors in of_steps:
        for factor in factors:
            if factor.name not in shapes and factor.name not in made:
                raise LanemapError(f"{factor.name} of the product is no argument: there is {', '.join(shapes)}")
            if (shape := shapes.get(factor.name, computed.get(factor.name))) is None:
                continue
            if factor.metadata and factor.metadata not in shapes:
                raise LanemapError(f"{factor.metadata} of the product is no argument: there is {', '.join(shapes)}")
            if factor.metadata and (shape[:-1] != shapes[factor.metadata][:-1] or len(shape) != 2):
                raise LanemapError(
                    f"{factor.name} and its metadata {factor.metadata} have two dimensions and as many rows"
                )
            if len(shape) != len(factor.indices):
                raise LanemapError(f"{factor.name} has {len(shape)} dimensions, and {len(factor.indices)} indices")
            shares = factor.shares or (1,) * len(shape)
            whole = [extent * share for extent, share in zip(shape, shares, strict=True)]
            whole[-1] *= 2 if factor.metadata else 1  # half of a sparse matrix is stored
            for name, extent in zip(factor.indices, whole, strict=True):
                known, where = found.setdefault(name, (extent, factor.name))
                if known != extent:
                    raise LanemapError(f"{name} is {known} of {where}, and {extent} of {factor.name}")
        left = factors[-1]
        if found.keys() >= {*left.indices}:
            computed[left.name] = tuple(found[name][0] for name in left.indices)
    for factor in chain.from_iterable(of_steps):
        if unknown := {*factor.indices} - found.keys():
            raise LanemapError(f"{min(unknown)} of {factor.name} is an index of no argument", "product")
    return {name: extent for name, (extent, _) in found.items()}


#: How chunks of so many columns are stored.
_RULES = {rule.width: rule for rule in (ONE_OF_TWO, TWO_OF_FOUR, PAIRWISE)}


def rule(columns: int, bits: int, name: str) -> Sparsity:
    """How a sparse matrix of so many columns is stored, by the bits of metadata of a row of it."""
    if bits == 0 or columns * 4 % bits or columns * 4 // bits not in _RULES:
        raise LanemapError(
            f"{name} has {bits} bits of metadata for {columns} columns: 4 bits choose of 2, 4 or 8", "product"
        )
    return _RULES[columns * 4 // bits]


def stored_columns(metadata: Array, columns: int, name: str) -> Array:
    """The columns (rows, stored elements) that metadata (rows, numbers) chooses for a sparse matrix of so many."""
    bits = metadata.dtype.itemsize * 8
    of = rule(columns, bits * metadata.shape[-1], name)
    vectors = (metadata[..., None] >> np.arange(0, bits, 4).astype(metadata.dtype) & 0xF).reshape(len(metadata), -1)
    index = np.full((16, of.fields), -1)
    for vector, chosen in of.indices.items():
        index[vector] = chosen
    if (index[vectors] < 0).any():
        raise LanemapError(f"{name} has metadata that chooses no columns: {', '.join(map(hex, of.indices))} do", "arg")
    first = np.arange(vectors.shape[1])[:, None] * of.width + index[vectors] * of.group
    return np.asarray((first[..., None] + np.arange(of.group)).reshape(len(vectors), -1))


def random_metadata(shape: Sequence[int], bits: int, columns: int, name: str, random: np.random.Generator) -> Array:
    """Numbers of so many bits of metadata, which choose columns at random."""
    of = rule(columns, bits * shape[-1], name)
    vectors = random.choice(list(of.indices), (*shape, bits // 4)).astype("u8")
    return np.asarray(np.bitwise_or.reduce(vectors << np.arange(0, bits, 4, dtype="u8"), axis=-1))


def evaluate(
    steps: Sequence[Formula], arrays: Mapping[str, Array], chosen: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """What each step computes, in double precision. ``chosen`` are the columns of sparse matrices by their names."""
    known = {name: np.asarray(array, "f8") for name, array in arrays.items()}

    def operand(factor: Factor) -> Array:
        array = known[factor.name]
        if factor.metadata and chosen:
            sparse = np.zeros((array.shape[0], 2 * array.shape[1]))
            np.put_along_axis(sparse, chosen[factor.name], array, axis=1)
            return sparse
        for axis, share in enumerate(factor.shares):
            array = array.repeat(share, axis)
        return array

    for step in steps:
        inner = step.left.indices
        if any(name in _REDUCING for name in step.functions):
            inner = step.terms[0].factors[0].indices
        total: Array | float = 0.0
        for term in step.terms:
            letters = {name: at for at, name in enumerate(dict.fromkeys(n for f in term.factors for n in f.indices))}
            operands = [part for f in term.factors for part in (operand(f), [letters[name] for name in f.indices])]
            present = [name for name in inner if name in letters]
            found = np.einsum(*operands, [letters[name] for name in present], optimize=True)
            shape = [found.shape[present.index(name)] if name in present else 1 for name in inner]
            total = total + term.scale * found.reshape(shape)
        values = np.asarray(total)
        for function in reversed(step.functions):
            values = FUNCTIONS[function](values)
        known[step.left.name] = values
    return {step.left.name: known[step.left.name] for step in steps}
