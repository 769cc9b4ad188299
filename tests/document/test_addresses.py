"""Which threads give the addresses of ldmatrix and stmatrix, and hold what is moved: read as stated, never guessed."""

import re

import pytest

from lanemap.db.errors import LanemapError
from lanemap.ingest.document.addresses import rows_addressed
from lanemap.ingest.document.sections import Kind

TABLE = """\
| `.num` | Threads 0-7 | Threads 8-15 | Threads 16-23 | Threads 24-31 |
| --- | --- | --- | --- | --- |
| `.x1` | addr0-addr7 | - | - | - |
| `.x2` | addr0-addr7 | addr8-addr15 | - | - |
| `.x4` | addr0-addr7 | addr8-addr15 | addr16-addr23 | addr24-addr31 |
"""
PAGE = f"""\
# 7.6.1. Warp-level matrix load instruction: `ldmatrix`

A made-up page about `.m8n8` of `.b16`, `.m8n16` of `.b8x16` and `.m16n16` of `.b8`.

Each address corresponds to the start of a matrix row: addr0-addr7 correspond to the rows of the first matrix, and
addr8-addr15 correspond to the rows of the second matrix.

{TABLE}
"""
WORDS = """\
Each component of the vector expression holds a fragment from the corresponding matrix.

Each thread in a warp loads fragments of a row, with thread 0 receiving the first fragment in its register `r`, and so
on. A group of four threads loads an entire row of the matrix.

For matrix shape 16x16, an entire row of the matrix can be loaded by a group of four consecutive and aligned threads.
Each thread in a warp loads 4 consecutive columns across 2 rows.

For matrix shape 8x16, there is one register. An entire row of the matrix can be loaded by a group of four consecutive
and aligned threads. Each thread in a warp loads 4 consecutive columns.

`.trans` indicates that the matrix is loaded in column-major format.
"""
#: The same without signs of markup.
TEXT = re.sub(r"`|^[|] ---.*\n|^[|] ", "", PAGE, flags=re.MULTILINE)
READ = (8, {"x1", "x2", "x4"})


def test_the_addresses_are_those_of_the_catalogue(reading, printed):
    found = reading(PAGE, file="page.md")
    assert found.complete
    fragments = found.source.fragments
    assert len(fragments) == 9
    assert all(fragment.digest == printed[fragment.key].digest for fragment in fragments)
    assert {fragment.shape for fragment in fragments} == {"m8n8", "m8n16"}


def test_what_a_thread_holds_is_what_the_catalogue_has(reading, printed):
    """Of 16 x 16 the words do not say which rows a thread has."""
    found = reading(PAGE + WORDS, file="page.md")
    assert found.complete
    held = [fragment for fragment in found.source.fragments if fragment.role == "r"]
    assert {(fragment.shape, fragment.qualifiers) for fragment in held} == {
        *(("m8n8", f"{number}{trans}") for number in ("x1", "x2", "x4") for trans in ("", ".trans")),
        *(("m8n16", number) for number in ("x1", "x2", "x4")),
    }
    assert all(fragment.digest == printed[fragment.key].digest for fragment in held)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("fragments of a row", "fragments of a column", {"m8n8"}),
        ("with thread 0", "with thread 31", {"m8n8"}),
        ("of four threads loads an", "of eight threads loads an", {"m8n8"}),
        ("loads an entire row", "loads half a row", {"m8n8"}),
        ("4 consecutive columns.", "2 consecutive columns.", {"m8n16"}),
        ("4 consecutive columns.", "4 consecutive columns across 2 rows.", {"m8n16"}),
        ("four consecutive\nand aligned", "two consecutive\nand aligned", {"m8n16"}),
        ("shape 8x16", "shape 16x8", {"m8n16"}),
        ("in column-major format", "as it is", {"trans"}),
        ("the corresponding matrix", "any matrix", {"m8n8", "m8n16"}),
    ],
)
def test_other_words_of_what_a_thread_holds_are_not_believed(before, after, lost, reading):
    assert before in WORDS

    def held(words):
        fragments = reading(PAGE + words, file="page.md").source.fragments
        return {(fragment.shape, *fragment.qualifiers.split(".")) for fragment in fragments if fragment.role == "r"}

    whole = held(WORDS)
    assert held(WORDS.replace(before, after)) == {names for names in whole if not lost & {*names}} != whole


TURNED = """\
# 7.6.3. Warp-level matrix transpose instruction: `movmatrix`

Each thread in a warp holds a fragment of a row of the input matrix, with thread 0 holding the first fragment in
register `a`, and so on. A group of four threads holds an entire row of the input matrix.

Each thread in a warp holds a fragment of a column of the result matrix, with thread 0 holding the first fragment in
register `d`, and so on. A group of four threads holds an entire column of the result matrix.
"""


def test_what_is_turned_is_read_as_it_is_printed(reading, printed):
    found = reading(TURNED, file="page.md")
    assert found.complete
    assert [fragment.role for fragment in found.source.fragments] == ["A", "D"]
    assert all(fragment.digest == printed[fragment.key].digest for fragment in found.source.fragments)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("entire row", "entire column", "A"),
        ("first fragment in\nregister `d`", "last fragment in\nregister `d`", "D"),
        ("register `a`", "register `d`", "A"),
        ("of four threads holds an entire column", "of eight threads holds an entire column", "D"),
    ],
)
def test_other_words_of_what_is_turned_are_reported(before, after, lost, reading):
    assert before in TURNED
    found = reading(TURNED.replace(before, after), file="page.md")
    assert [remark.reason for remark in found.remarks if remark.kind is Kind.UNREAD] == [
        f"the words do not say what threads hold of {lost}"
    ]
    assert lost not in {fragment.role for fragment in found.source.fragments}


@pytest.mark.parametrize("number", ["x1", "x2", "x4"])
def test_a_lost_row_is_reported_and_costs_only_its_own(number, reading):
    lines = PAGE.splitlines(keepends=True)
    found = reading("".join(line for line in lines if f"`.{number}`" not in line), file="page.md")
    assert [remark.kind for remark in found.remarks] == [Kind.UNREAD] * 2
    assert {fragment.qualifiers.partition(".")[0] for fragment in found.source.fragments} == READ[1] - {number}


def test_a_section_without_its_table_is_reported(reading):
    found = reading(PAGE.replace(TABLE, ""), file="page.md")
    assert [remark.reason for remark in found.remarks] == ["no table says which threads give the addresses"]


def outcome(text):
    try:
        return rows_addressed(text)
    except LanemapError as error:
        assert "\n" not in str(error)
        return None


def test_every_change_of_a_number_or_a_cell_is_refused_or_loses_its_row():
    assert outcome(TEXT) == READ
    table = TEXT.index(".num")
    changes = [
        TEXT[: match.start()] + new + TEXT[match.end() :]
        for part in (r"\d+", r"addr\d+-addr\d+", "(?<= )-(?= )")
        for match in re.compile(part).finditer(TEXT, table)
        for new in ("", "-", "3", "9", "16", "addr8-addr15", "addr16-addr23")
        if new != match[0]
    ]
    assert len(changes) > 200
    for text in changes:
        found = outcome(text)
        assert found is None or (found[0] == 8 and found[1] & READ[1] < READ[1]), text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("start of a matrix row", "start of a matrix column"),
        ("start of a matrix row", "end of a matrix row"),
        ("addr0-addr7 correspond", "addr0-addr15 correspond"),
        ("addr0-addr7 correspond", "addr8-addr15 correspond"),
        ("rows of the first", "columns of the first"),
        ("rows of the first matrix", "even rows of all matrices"),
        ("rows of the second", "rows of the third"),
        ("Threads 0-7 | Threads 8-15", "Threads 8-15 | Threads 0-7"),
        ("Threads", "Lanes"),
        ("addr0-addr7 | addr8-addr15 | -", "addr8-addr15 | addr0-addr7 | -"),
        ("addr0-addr7 | addr8-addr15 | - | -", "addr0-addr7 | - | addr8-addr15 | -"),
    ],
)
def test_other_words_and_other_orders_are_refused(before, after):
    assert before in TEXT
    assert outcome(TEXT.replace(before, after)) is None
