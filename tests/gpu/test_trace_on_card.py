"""Kernels of the corpus leave on a GPU what a trace says they do."""

import pytest

from ..modes import LONG
from .corpus import build, run


@pytest.mark.slow
def test_the_corpus_assembles(tmp_path, built):
    mistakes = 100 if LONG else 5
    assert build(tmp_path, built, mistakes) >= mistakes / 5


@pytest.mark.slow
def test_the_corpus_leaves_the_same_bytes_on_a_card(tmp_path, built, needs):
    needs((9, 0), (9, 0))
    build(tmp_path, built)
    assert "leave what they do on simulated threads" in run(tmp_path)
