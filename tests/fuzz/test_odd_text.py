"""What Python itself would stumble over: numbers too long for ``int``, digits that are none, and deep nesting."""

import numpy as np
import pytest

from lanemap import LanemapError
from lanemap.db.layout import formula
from lanemap.db.layout.algebra import parse_strided
from lanemap.db.text import naturally
from lanemap.ingest.python.mapping import read_mapping

LONG = "9" * 5000
DEEP = "[" * 100_000


def beginning(text):
    return str(text)[:30]


@pytest.mark.parametrize(
    "text",
    [
        f"row = 1 for a0 and a{LONG} col = i",
        "row = 1 for a0 and a99999999999999999999 col = i",
        f"row = {LONG} col = i",
        f"row = i == {{0, .., {LONG}}} col = i",
        f"row = {'(' * 9000}i col = i",
        f"row = {'~' * 9000}i col = i",
        f"row = {'i+' * 4900}i col = i",
    ],
    ids=beginning,
)
def test_a_formula_is_refused(text):
    with pytest.raises(formula.FormulaError):
        formula.evaluate_at(formula.parse(text), "a", np.arange(4), np.zeros(4, int))


@pytest.mark.parametrize(
    "text", [DEEP, "(" * 5000 + ":" + "(" * 5000, f"{LONG}:1", f"(2,{LONG}):(1,2)", "²:1"], ids=beginning
)
def test_a_layout_is_refused(text):
    with pytest.raises((ValueError, LanemapError)):
        parse_strided(text)


def test_names_are_sorted_whatever_their_numbers():
    names = ["m16", "m8", f"m{LONG}", "m0008a", "²", "1²", "m٣", "m"]
    assert sorted(names, key=naturally) == ["m", "m8", "m0008a", "m16", f"m{LONG}", "m٣", "²", "1²"]


@pytest.mark.parametrize("text", [f"x = {LONG}", f"x = {DEEP}", f"x = 1e{LONG}", "x = " + "{a=" * 5000], ids=beginning)
def test_a_mapping_is_refused(tmp_path, text):
    (tmp_path / "mapping.toml").write_text(text)
    with pytest.raises(LanemapError, match=r"mapping\.toml (is not TOML|has no entry)"):
        read_mapping(tmp_path / "mapping.toml")
