"""The digest of a table: another one for every change of a value, and the same for the same values."""

import pyarrow as pa
import pytest

from lanemap.db.store.export import DIGEST_KEY, sealed

TEXT = {
    "shape": ["m16n8k16", "m16n8k16", "m16n8k16", "m16n8k8", "m16n8k8", "m16n8k16"],
    "major": ["row", "row", None, None, "col", "col"],
}
NUMBERS = {
    "row": [0, 1, 1, 0, 15, 2**31 - 1],
    "selector": [None, 0, 0, 1, None, -1],
}
ANOTHER = {"shape": "m8n8k4", "major": "diagonal", "row": 7, "selector": 3}


def table(columns):
    text = {name: pa.array(columns[name], pa.string()).dictionary_encode() for name in TEXT}
    return pa.table(text | {name: pa.array(columns[name], pa.int32()) for name in NUMBERS})


def digest(table):
    return sealed(table).schema.metadata[DIGEST_KEY]


def test_any_changed_value_gives_another_digest():
    columns = TEXT | NUMBERS
    changed = [
        {**columns, name: [*values[:at], other, *values[at + 1 :]]}
        for name, values in columns.items()
        for at, value in enumerate(values)
        for other in {ANOTHER[name], *values, None} - {value}
    ]
    found = [digest(table(version)) for version in [columns, *changed]]
    assert len(set(found)) == len(found) == 91


def test_rows_that_are_added_dropped_or_change_places_give_another_digest():
    whole = table(TEXT | NUMBERS)
    parts = [whole, *(whole.slice(0, rows) for rows in range(1, 6)), whole.slice(1), pa.concat_tables([whole] * 2)]
    parts += [whole.take([1, 0, 2, 3, 4, 5]), whole.rename_columns(["major", "shape", "row", "selector"])]
    assert len({digest(part.unify_dictionaries()) for part in parts}) == len(parts)


@pytest.mark.parametrize("rows", range(1, 7))
def test_the_same_values_have_the_same_digest_however_they_are_stored(rows):
    whole = table(TEXT | NUMBERS)
    pieces = [
        table({name: values[at : at + rows] for name, values in (TEXT | NUMBERS).items()}) for at in range(0, 6, rows)
    ]
    wide = pa.schema(
        (field.name, pa.dictionary(pa.int8(), pa.string()) if field.name in TEXT else pa.int64())
        for field in whole.schema
    )
    backwards = whole.select(whole.column_names[::-1])
    for same in (pa.concat_tables(pieces).unify_dictionaries(), whole.cast(wide), backwards):
        assert digest(same) == digest(whole)
