"""SQLite and PostgreSQL give the same answers to random queries and look-ups, of sound sources and corrupted ones."""

import os
import random
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import lanemap
from lanemap.db import lookup
from lanemap.db.compare import crosscheck
from lanemap.db.layout.fragment import Element, Source
from lanemap.db.lookup import Query
from lanemap.db.store import store
from lanemap.db.store.location import locate

from ..shipped import CORRECTED, corrected

LONG = "LANEMAP_LONG" in os.environ
TEXT = ("shape", "type", "role", "instruction", "major", "source")
NUMBERS = ("lane", "reg", "slot", "row", "col", "col_last", "computation", "selector")


@pytest.fixture
def chance(seed):
    return random.Random(seed)


@pytest.fixture(scope="module")
def both(new_database, built_on_server, built):
    """The same content in a database of each kind."""
    with ExitStack() as stack:
        places = (str(built), new_database(built_on_server))
        yield [stack.enter_context(lanemap.open(place)) for place in places]


@pytest.fixture(scope="module")
def names(both):
    """What each column of text has."""
    return {name: [row[0] for row in both[0].reader.select(NAMES[name], {}).rows] for name in TEXT}


NAMES = {name: f"SELECT DISTINCT {name} FROM fragment WHERE {name} IS NOT NULL ORDER BY 1" for name in TEXT}
NAMES["source"] = "SELECT name FROM source ORDER BY 1"


def rows(reader, query, **where):
    return lookup.operand_with_rows(reader, query).rows(**where)


def answer(ask, *arguments, **options):
    """Rows in an order that does not depend on the language of the server, or the words of the refusal."""
    try:
        rows = ask(*arguments, **options).rows
    except lanemap.LanemapError as error:
        return str(error)
    return sorted((tuple(int(v) if isinstance(v, Decimal) else v for v in row) for row in rows), key=repr)


def condition(chance, names, depth=2):
    kind = chance.randrange(7 if depth else 5)
    if kind == 0:
        name = chance.choice(TEXT)
        return f"{name} {chance.choice(['=', '<>'])} '{chance.choice(names[name])}'"
    if kind == 1:
        left, right = chance.sample(NUMBERS, 2)
        return f"{left} {chance.choice(['=', '<', '>=', '<>'])} {right} {chance.choice('+-*')} {chance.randrange(4)}"
    if kind == 2:
        return f"{chance.choice(NUMBERS)} % {chance.randrange(1, 9)} = {chance.randrange(4)}"
    if kind == 3:
        return f"{chance.choice(NUMBERS)} BETWEEN {chance.randrange(8)} AND {chance.randrange(40)}"
    if kind == 4:
        return f"{chance.choice(('major', 'selector', 'row'))} IS {chance.choice(('', 'NOT '))}NULL"
    parts = [condition(chance, names, depth - 1) for _ in range(2)]
    return f"NOT ({parts[0]})" if kind == 5 else f"({chance.choice([' AND ', ' OR ']).join(parts)})"


def statement(chance, names):
    """A SELECT on a few shapes, so that each takes milliseconds."""
    few = ", ".join(f"'{shape}'" for shape in chance.sample(names["shape"], 2))
    where = f"FROM layout WHERE shape IN ({few}) AND role = '{chance.choice('ABCDE')}' AND {condition(chance, names)}"
    columns = chance.sample(TEXT + NUMBERS, chance.randrange(1, 4))
    if chance.random() < 0.3:
        return f"SELECT DISTINCT {', '.join(columns)} {where}"
    functions = [f"{chance.choice(['MIN', 'MAX', 'SUM'])}({chance.choice(NUMBERS)} / 2)" for _ in range(2)]
    asked = f"SELECT {', '.join([*columns, *functions])}, COUNT(*) {where} GROUP BY {', '.join(columns)}"
    return asked + (f" HAVING COUNT(*) > {chance.randrange(100)}" if chance.random() < 0.3 else "")


def test_random_queries(both, names, chance):
    found = 0
    for _ in range(3000 if LONG else 60):
        query = statement(chance, names)
        one, other = (answer(database.reader.sql, query) for database in both)
        assert one == other, query
        assert not isinstance(one, str), one
        found += bool(one)
    assert found > 10


ODD = ["", "F16", "m16n8k17", "' OR 1=1 --", "\0", "\u017f", "%", "_"]
KEYS = "SELECT shape, type, role, instruction, major, selector FROM fragment WHERE mapping_id IS NOT NULL ORDER BY id"


def test_random_look_ups(both, chance):
    keys = both[0].reader.select(KEYS, {}).records()
    answered = 0
    for _ in range(3000 if LONG else 40):
        asked = dict(chance.choice(keys))
        for name in ("instruction", "major", "selector"):
            if chance.random() < 0.5:
                del asked[name]
        if chance.random() < 0.3:
            asked[chance.choice(["shape", "type", "role", "source"])] = chance.choice(ODD)
        if chance.random() < 0.1:
            asked["selector"] = chance.choice([0, -1, 10**20])
        places = chance.sample(["lane", "reg", "slot", "row", "col", "computation"], chance.randrange(3))
        where = {name: chance.choice([0, 1, 1, 3, 7, -1, 10**20]) for name in places}
        one, other = (answer(rows, database.reader, Query(**asked), **where) for database in both)
        assert one == other, (asked, where)
        answered += not isinstance(one, str)
    assert answered > 10


def corrupted(chance, source):
    """A source of some fragments with elements changed, exchanged or left out."""
    changed = []
    for fragment in chance.sample([fragment for fragment in source.fragments if fragment.elements is not None], 12):
        table = fragment.elements.copy()
        rows, _ = fragment.dimensions
        some = np.array(chance.sample(range(len(table)), min(len(table), chance.randrange(1, 20))))
        kind = chance.randrange(4)
        if kind == 0:
            table["row"][some] = [chance.randrange(rows) for _ in some]
        elif kind == 1:
            table["col"][some], table["col_last"][some] = table["col"][some[::-1]], table["col_last"][some[::-1]]
        elif kind == 2:
            table = np.delete(table, some)
        changed.append(replace(fragment, elements=table))
    return Source("corrupted", "import", "a test", changed)


def test_random_corruptions(new_database, built_on_server, built, tmp_path, sources, chance):
    places = [str(tmp_path / "own.db"), new_database(built_on_server)]
    (tmp_path / "own.db").write_bytes(built.read_bytes())
    # Of operands in memory one N, as the databases have all of these.
    document, verdicts = replace(sources[CORRECTED], fragments=corrected()), set()
    for _ in range(60 if LONG else 4):
        source = corrupted(chance, document)
        said = []
        for place in places:
            store.load(locate(place), [source])
            with lanemap.open(place) as database:
                names = (document.name, "corrupted")
                left, right = (crosscheck.read_sources(database.reader, name)[0] for name in names)
                known = {fragment.key for fragment in right.fragments}
                results = [
                    result for result in crosscheck.diff([left], [right]).comparisons[0].results if result.key in known
                ]
                findings = database.reader.select("SELECT words FROM finding ORDER BY id", {}).rows
                said.append(([(result.key, result.verdict, result.words) for result in results], findings))
                for stored, given in zip(right.fragments, source.fragments, strict=True):
                    assert stored.elements.tolist() == given.elements.tolist()
                    assert list(map(Element._make, given.elements.tolist())) == stored.records()
        assert said[0] == said[1]
        verdicts |= {verdict for _, verdict, _ in said[0][0]}
    assert len(verdicts) > 1
