import doctest

from lanemap.db.layout import algebra


def test_examples_in_docstrings_are_true():
    tested = doctest.testmod(algebra)
    assert tested.attempted
    assert not tested.failed
