import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["layout.algebra", "render.notation.table"])
def test_examples_in_docstrings_are_true(module):
    tested = doctest.testmod(importlib.import_module(f"lanemap.db.{module}"))
    assert tested.attempted
    assert not tested.failed
