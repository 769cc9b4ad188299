"""What is said of a difference, read back: done to the right side as the words say, it gives the left."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.db.compare.difference import difference
from lanemap.db.layout.fragment import elements

from ..modes import examples
from ..shipped import corrected

DENSE = [fragment for fragment in corrected() if not fragment.windowed and fragment.role != "p"]
PLACE = ("lane", "reg", "slot")


def changed(fragment, **columns):
    table = {name: fragment.elements[name] for name in fragment.elements.dtype.names} | columns
    return replace(fragment, elements=elements(table))


def numbers(words):
    """Every number in a list such as ``0-3, 7`` or ``1, 5, .., 29``."""
    if ".." in words:
        first, second, last = (int(number) for number in re.findall(r"\d+", words))
        return set(range(first, last + 1, second - first))
    found = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", words):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def chosen(words, table):
    """The elements that words such as ``reg 1, lanes 0-3`` name."""
    mask = np.ones(len(table), bool)
    for name, listed in re.findall(r"(lane|reg|slot)s? ([\d,. -]+?)(?=, [a-z]|$)", words):
        mask &= np.isin(table[name], list(numbers(listed)))
    return mask


some = st.sets(st.integers(0, 31), min_size=1)


@given(st.sampled_from(DENSE), some, some, some, st.integers(-4, 4), st.integers(-4, 4))
@examples(200)
def test_offsets_read_back_give_the_left(fragment, lanes, regs, slots, down, across):
    table = fragment.elements
    mask = np.logical_and.reduce(
        [np.isin(table[name], list(numbers)) for name, numbers in zip(PLACE, (lanes, regs, slots), strict=True)]
    )
    row, col = table["row"] + down * mask, table["col"] + across * mask
    if min(row.min(), col.min()) < 0:
        return
    words = difference(changed(fragment, row=row, col=col, col_last=col), fragment).words
    if "exchanged" in words or "counted" in words:
        return
    said = [phrase for phrase in words.split("; ") if phrase and "outside" not in phrase]
    assert len(said) == bool(mask.any() and (down or across))
    for line in said:
        where, what = line.rsplit(": ", 1)
        assert (chosen(where, table) == mask).all()
        for name, by in (("row", down), ("col", across)):
            found = re.search(rf"{name} is (\d+) too (high|low)", what)
            assert (int(found[1]) * (1 if found[2] == "high" else -1) if found else 0) == by


@given(st.sampled_from(DENSE), st.sampled_from(PLACE), st.data())
@examples(200)
def test_an_exchange_read_back_gives_the_left(fragment, name, data):
    """Also where only some registers and slots are exchanged between lanes, and so on."""
    table, other = fragment.elements, [word for word in PLACE if word != name]
    there = np.unique(table[name]).tolist()
    picked = data.draw(st.permutations(there))[: data.draw(st.integers(2, 6))]
    order = dict(zip(sorted(picked), picked, strict=True))
    mask = np.isin(
        table[other[0]], data.draw(st.lists(st.sampled_from(np.unique(table[other[0]]).tolist()), min_size=1))
    )
    moved = np.asarray([order.get(number, number) for number in range(max(there) + 1)])
    left = changed(fragment, **{name: np.where(mask, moved[table[name]], table[name])})
    words = difference(left, fragment).words
    if left.digest == fragment.digest:
        assert words == ""
        return
    if "exchanged" not in words:
        return
    pairs = [(int(one), int(two)) for one, two in re.findall(r"(\d+) is (\d+)", words)]
    pairs += [
        pair
        for one, two in re.findall(r"(\d+) and (\d+) are exchanged", words)
        for pair in ((int(one), int(two)), (int(two), int(one)))
    ]
    word = re.search(r"(lane|reg|slot)s (?:are exchanged|\d+ and \d+ are)", words)[1]
    right = {(row["lane"], row["reg"], row["slot"]): row for row in table}
    for row in left.elements:
        place = {name: int(row[name]) for name in PLACE}
        cell = [row[name] for name in ("row", "col", "computation")]
        origin = place | {word: dict(pairs).get(place[word], place[word])}
        theirs = [
            [right[tuple(at[name] for name in PLACE)][name] for name in ("row", "col", "computation")]
            for at in (origin, place)
        ]
        assert cell in theirs


@given(st.permutations(range(8)).filter(lambda order: order != sorted(order)), st.integers(0, 7))
def test_what_is_not_one_to_one_is_no_exchange(order, doubled):
    """Lanes that hold what others do, and one that holds the same as its neighbour."""
    fragment = next(
        fragment for fragment in DENSE if fragment.role == "A" and fragment.computations == 1 and fragment.registers > 1
    )
    table = fragment.elements.copy()
    origin = np.arange(32)
    origin[:8] = order
    origin[doubled] = origin[(doubled + 1) % 8]
    lookup = {(row["lane"], row["reg"], row["slot"]): row for row in fragment.elements}
    for row in table:
        theirs = lookup[origin[row["lane"]], row["reg"], row["slot"]]
        for name in ("row", "col", "col_last"):
            row[name] = theirs[name]
    assert "exchanged" not in difference(replace(fragment, elements=table), fragment).words


@pytest.mark.slow
def test_what_is_done_to_the_whole_matrix_is_recognised():
    for fragment in {fragment.digest: fragment for fragment in DENSE}.values():
        table, (rows, cols) = fragment.elements, fragment.dimensions

        def words(row, col, fragment=fragment):
            return difference(changed(fragment, row=row, col=col, col_last=col), fragment).words

        assert words(table["col"], table["row"]) == "transposed: rows and columns are exchanged"
        assert words(table["row"] + 1, table["col"]) == "rows are counted from 1"
        assert words(table["row"], table["col"] + 1) == "cols are counted from 1"
        assert words(table["row"] + 1, table["col"] + 1) == "rows and cols are counted from 1"
        by = rows // 2 - 1
        if by > 0:
            assert words((table["row"] + by) % rows, table["col"]) == f"row is {by} too high, and wraps around"
        shifts = [(name, by) for name, by, size in (("row", 1, rows), ("col", cols - 1, cols)) if size > 1]
        assert words((table["row"] + 1) % rows, (table["col"] + cols - 1) % cols) == "; ".join(
            f"{name} is {by} too high, and wraps around" for name, by in shifts
        )
        assert words(table["row"], table["col"] + 2).endswith("everywhere: col is 2 too high")


def test_windows_shifted_as_a_whole():
    for fragment in (fragment for fragment in corrected() if fragment.windowed):
        table, cols = fragment.elements, fragment.dimensions[1]
        width = fragment.chunk * (1 + int((table["col_last"] - table["col"]).max()) // fragment.chunk)
        if width < cols:
            left = changed(fragment, col=(table["col"] + width) % cols, col_last=(table["col_last"] + width) % cols)
            assert difference(left, fragment).words == f"col is {width} too high, and wraps around"


def test_what_is_out_of_range_is_said_with_its_place():
    fragment = next(
        fragment for fragment in DENSE if (fragment.role, fragment.shape, fragment.type) == ("A", "m16n8k16", "f16")
    )
    row = fragment.elements["row"].copy()
    row[fragment.elements["lane"] == 3] += 20
    words = difference(changed(fragment, row=row), fragment).words
    assert words == "left row 20, 28 is outside 0..15 (lane 3); lane 3: row is 20 too high"


def test_missing_slots_are_said_of_both_sides():
    fragment = next(
        fragment for fragment in DENSE if (fragment.role, fragment.shape, fragment.type) == ("A", "m16n8k16", "f16")
    )
    table = fragment.elements
    left = replace(fragment, elements=table[table["lane"] != 5])
    right = replace(fragment, elements=table[table["reg"] != 2])
    found = difference(left, right)
    assert found.words == "absent on the left: regs 0-1, 3, lane 5; absent on the right: reg 2, lanes 0-4, 6-31"
    assert (found.count, found.total) == (6 + 62, 256 - 2)


def test_elements_of_another_product_differ():
    fragment = next(fragment for fragment in corrected() if fragment.computations > 1)
    table = fragment.elements.copy()
    table["computation"][:3] = table["computation"][:3] % 4 + 1
    found = difference(replace(fragment, elements=table), fragment)
    assert found.count == len(found.elements) == 3
    assert "computation is " in found.words


def test_a_window_that_ends_elsewhere_is_different():
    fragment = next(fragment for fragment in corrected() if fragment.windowed)
    table = fragment.elements.copy()
    table["col_last"][5] -= 1
    found = difference(replace(fragment, elements=table), fragment)
    assert (found.count, [place for place, *_ in found.elements]) == (1, [tuple(table[5])[:3]])
    assert "col_last is 1 too low" in found.words


def test_rows_counted_from_1_do_not_hide_that_columns_are_off():
    fragment = next(fragment for fragment in DENSE if fragment.key[:4] == ("mma", "m16n8k16", "f16", "A"))
    table = fragment.elements
    wrong = changed(fragment, row=table["row"] + 1, col=table["col"] + 2, col_last=table["col"] + 2)
    assert "col is 2 too high" in difference(wrong, fragment).words
