import io
from contextlib import redirect_stdout

import pytest

from lanemap.cli import application
from lanemap.db.lookup import Query, read_fragments


@pytest.fixture(scope="session")
def some(database):
    """The smallest fragment of each operand of each instruction: its words, its options, and the cells of each slot.

    The tests of pictures draw all of them. Options do not tell qualifiers apart.
    """
    every = [
        fragment
        for fragment in read_fragments(database.reader, Query())
        if fragment.has_rows and fragment.qualifiers is None
    ]
    every.sort(key=lambda fragment: len(fragment.elements), reverse=True)
    found = []
    for fragment in {(fragment.instruction, fragment.role): fragment for fragment in every}.values():
        named = {name: getattr(fragment, name) for name in ("instruction", "major", "source", "selector")}
        options = [word for name, value in named.items() if value is not None for word in (f"--{name}", str(value))]
        cells = {e[:3]: {(e.row, col) for col in range(e.col, e.col_last + 1)} for e in fragment.records()}
        found.append(((fragment.shape, fragment.type, fragment.role), options, cells))
    return found


@pytest.fixture
def completed(built, monkeypatch):
    """What bash is offered after some words of a command."""

    def completed(words, db=built):
        number = len(words.split()) - (not words.endswith(" "))
        asked = {"_LANEMAP_COMPLETE": "complete_bash", "COMP_WORDS": f"lanemap {words}", "COMP_CWORD": str(number + 1)}
        with monkeypatch.context() as patch, redirect_stdout(io.StringIO()) as offered, pytest.raises(SystemExit):
            for name, value in (asked | {"LANEMAP_DB": str(db)}).items():
                patch.setenv(name, value)
            application()(prog_name="lanemap")
        return offered.getvalue().split()

    return completed
