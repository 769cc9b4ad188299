"""Tables for reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.rows import Rows, table

words = st.lists(st.text("abcdefgh-", min_size=1, max_size=12), max_size=9).map(" ".join)


@given(st.lists(st.tuples(words, words, st.integers(0, 99)), max_size=5), st.integers(20, 90))
def test_a_table_fits_where_its_words_do_and_loses_and_breaks_none(lines, room):
    columns = ("first", "second", "third")
    written = table(Rows(columns, lines), room)
    texts = [columns, *(tuple(map(str, line)) for line in lines)]
    every = [word for line in texts for text in line for word in text.split()]
    assert {word.rstrip(":") for word in written.split()} == set(every)
    longest = max(map(len, every))
    assert max(map(len, written.splitlines())) <= max(room, len("second") + 2 + longest)


@pytest.mark.parametrize("count", [1, 3])
def test_what_all_rows_share_is_said_once_where_there_is_no_room_for_it(count):
    rows = Rows(("name", "source", "number"), [("a" * 30, "b" * 20, number) for number in range(count)])
    assert table(rows, 60).splitlines()[0].split() == ["name", "source", "number"]
    narrower = table(rows, 50).splitlines()
    if count > 1:
        assert narrower[:3] == ["name: " + "a" * 30, "", "source                number"]
        assert len(narrower) == 3 + count
    else:
        assert narrower == ["name    " + "a" * 30, "source  " + "b" * 20, "number  0"]


def test_a_long_text_is_not_squeezed_into_a_narrow_column():
    rows = Rows(("key", "name", "words"), [(1, "x" * 30, "word " * 40), (2, "y" * 30, None)])
    first, second = table(rows, 60).split("\n\n")
    assert first.splitlines()[:2] == ["key    1", "name   " + "x" * 30]
    assert max(map(len, first.splitlines())) <= 60
    assert second.splitlines() == ["key    2", "name   " + "y" * 30, "words"]


def test_without_room_each_row_is_one_line():
    rows = Rows(("a", "b"), [("word " * 40, 1), (None, 22)])
    assert [len(line.split()) for line in table(rows).splitlines()] == [2, 41, 1]
