"""Device functions of chains and recipes on simulated threads, and on a card."""

import re

import numpy as np
import pytest

from ..machine.conftest import run as traced
from ..modes import LONG
from .functions import PRODUCTS, build, cases, products, run


@pytest.mark.slow
def test_products_made_with_the_functions_are_those_of_numpy(tmp_path, built, ptxas):
    """On simulated threads. All that a card is given assembles, too: what is no product in the long mode."""
    build(tmp_path, built, cases if LONG else products)
    for file in tmp_path.glob("*.ptx"):
        ptxas(file, file.stem.removeprefix("functions_"))
    ptx, kept = (tmp_path / "functions_sm_90a.ptx").read_text(), np.load(tmp_path / "functions_sm_90a.npz")
    names = [key for key in kept.files if re.match(r"product\d+ 32 given", key)]
    assert len(names) == len(PRODUCTS)
    for key in names:
        right = kept[key.replace("given", "right")]
        found = traced(ptx, {"given": kept[key], "made": f"u32[{right.size}]=0"}, entry=key.split()[0])
        assert found.ok, found
        assert np.array_equal(found.outputs["made"], right), key


@pytest.mark.slow
def test_the_functions_do_on_a_card_what_the_rows_say(tmp_path, built, needs):
    needs((8, 0))
    build(tmp_path, built)
    assert "kernels leave what they must" in run(tmp_path)
