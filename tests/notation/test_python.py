"""Python runs the index functions."""

import pytest

from lanemap.db.render.notation import express
from lanemap.db.render.notation.table import RefusedError

from ..modes import SOME_OR_ALL


def functions(fragment):
    """The two functions of a fragment, from cell to place and back, as Python defines them."""
    defined = {}
    exec(express("python", fragment), defined)
    return [function for name, function in defined.items() if name.endswith("_layout")]


@pytest.mark.slow
@SOME_OR_ALL
def test_python_runs_both_functions_on_every_element_of_every_fragment(everything, cells, places, step):
    count = 0
    for _, fragment in everything[::step]:
        try:
            forward, backward = functions(fragment)
        except RefusedError:
            continue
        count += 1
        for cell, place in zip(cells(fragment), places(fragment), strict=True):
            assert (list(forward(*cell)), list(backward(*place))) == (place, cell)
    assert count * step > 100
