"""Plain index functions, from cell to lane and value and back, in the form that TVM and TileLang take.

``value`` is the element i.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..fragment import Fragment
from . import Notation
from .arithmetic import evaluate, quotients
from .digits import Array, NotASumError, Sum, as_sum
from .table import Table, refusal, rows_of, table

_PLACE = ("lane", "value")
_FUNCTION = re.compile(
    r"^def \w+\((?P<names>[\w, ]+)\):\n(?P<lines>(?:    \w+ = .+\n)+)    return (?P<values>[\w, ]+)$", re.M
)


def compose(fragment: Fragment, name: str) -> str:
    """Two functions: ``shared_RxC_to_NAME_TxV_layout`` and ``NAME_TxV_to_shared_RxC_layout``, of T threads."""
    held = table(fragment)
    shared = "shared_" + "x".join(map(str, held.extents.values()))
    warp = f"{name}_{fragment.threads}x{held.values}"
    forward = _function(f"{shared}_to_{warp}_layout", tuple(held.extents), _places(held))
    backward = _function(f"{warp}_to_{shared}_layout", _PLACE, held.sums())
    return f"{forward}\n\n{backward}"


def read(text: str, fragment: Fragment) -> Array:
    """The rows that both functions say; where the inverse says otherwise, there is no such cell in them."""
    forward, backward = (match.groupdict() for match in _FUNCTION.finditer(text))
    lane, value = np.indices((fragment.threads, fragment.registers * fragment.slots))
    coordinates = _call(backward, lane, value)
    again = _call(forward, *coordinates.values())
    agree: Array = (again["lane"] == lane) & (again["value"] == value)
    rows = rows_of(fragment, coordinates)
    return rows[agree.ravel()]


def _places(held: Table) -> dict[str, Sum]:
    places = held.places()
    try:
        return {"lane": as_sum(places // held.values), "value": as_sum(places % held.values)}
    except NotASumError as error:
        why = "has a place that is no sum of digits of its cell"
        raise refusal(held.fragment, held.at(int(places[error.index])), why) from None


def _function(name: str, names: Sequence[str], sums: Mapping[str, Sum]) -> str:
    lines = "".join(f"    {result} = {quotients(each, names)}\n" for result, each in sums.items())
    return f"def {name}({', '.join(names)}):\n{lines}    return {', '.join(sums)}\n"


def _call(function: Mapping[str, str], *values: Array) -> dict[str, Array]:
    known = dict(zip(function["names"].split(", "), values, strict=True))
    lines = [line.strip().split(" = ", 1) for line in function["lines"].splitlines()]
    results = {name: np.asarray(evaluate(text, known)) for name, text in lines}
    return {name: results[name] for name in function["values"].split(", ")}


NOTATION = Notation(
    compose,
    read,
    comment="#",
    before="# From row and col to lane and value, which is the element i, and back.\n\n\n",
    between="\n\n",
)
