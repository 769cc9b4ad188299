import pytest

from lanemap.db.lookup import Query, read_fragments


@pytest.fixture(scope="session")
def some(database):
    """One fragment of each operand of each instruction: its words, its options, and the cells of each slot.

    The tests of pictures draw all of them. Options do not tell qualifiers apart.
    """
    every = [each for each in read_fragments(database.reader, Query()) if each.has_rows and each.qualifiers is None]
    narrow = [each for each in every if max(each.dimensions) <= 64]
    found = []
    for each in {(each.instruction, each.role): each for each in narrow}.values():
        named = {name: getattr(each, name) for name in ("instruction", "major", "source", "selector")}
        options = [word for name, value in named.items() if value is not None for word in (f"--{name}", str(value))]
        cells = {e[:3]: {(e.row, col) for col in range(e.col, e.col_last + 1)} for e in each.records()}
        found.append(((each.shape, each.type, each.role), options, cells))
    return found
