import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["", ".arithmetic", ".digits"])
def test_examples_in_docstrings_are_true(module):
    tested = doctest.testmod(importlib.import_module(f"lanemap.db.notation{module}"))
    assert tested.attempted
    assert not tested.failed
