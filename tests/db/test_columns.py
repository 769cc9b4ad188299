"""Tables for reading."""

from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.reader import Rows
from lanemap.db.report.columns import table

words = st.lists(st.text("abcdefgh-", min_size=1, max_size=12), max_size=9).map(" ".join)


@given(st.lists(st.tuples(words, words, st.integers(0, 99)), max_size=5), st.integers(20, 90))
def test_a_table_fits_where_its_words_do_and_breaks_none(lines, room):
    columns = ("first", "second", "third")
    written = table(Rows(columns, lines), room).splitlines()
    texts = [columns, *(tuple(map(str, line)) for line in lines)]
    assert sorted(" ".join(written).split()) == sorted(word for line in texts for text in line for word in text.split())
    longest = [max(len(word) for line in texts for word in line[at].split() or [""]) for at in range(3)]
    assert max(map(len, written)) <= max(room, sum(longest) + 4)


def test_without_room_each_row_is_one_line():
    rows = Rows(("a", "b"), [("word " * 40, 1), (None, 22)])
    assert [len(line.split()) for line in table(rows).splitlines()] == [2, 41, 1]
