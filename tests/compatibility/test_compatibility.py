"""What earlier versions wrote is still read: captures, exports and datasets, one of each lies here.

They were written at schema version 5. ``expected.json`` is what version 5 said of the sources.
"""

import json
import shutil
from pathlib import Path

import pytest

import lanemap
from lanemap.db.isa.instructions import Key
from lanemap.db.layout.fragment import Citation, count_elements

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
EXPORTED = ["mine", "tilelang-0.1.15:emitter f16"]


def described(source) -> dict:
    """What ``expected.json`` says of a source."""
    names = EXPECTED["house-ptx"]["fragments"][0]
    fragments = [
        {name: getattr(fragment.citation if name in Citation._fields else fragment, name) for name in names}
        for fragment in source.fragments
    ]
    return {
        "kind": source.kind,
        "title": source.title,
        "provenance": json.loads(json.dumps(dict(source.provenance))),
        "fragments": fragments,
        "rows": count_elements(source.fragments),
    }


def layouts(source) -> dict:
    """The layout of each fragment by its key."""
    return {str(fragment.key): fragment.digest for fragment in source.fragments}


def expected_layouts(name) -> dict:
    return {
        str(Key(*(fragment[name] for name in Key._fields))): fragment["digest"]
        for fragment in EXPECTED[name]["fragments"]
        if fragment["digest"]
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["export.parquet", "export.csv", "export.arrow", "dataset"])
def test_exports_are_still_read(name, built, tmp_path):
    with lanemap.open(str(shutil.copy2(built, tmp_path / "new.db"))) as database:
        found = {imported.source.name: imported.source for imported in database.import_layouts("table", HERE / name)}
    names = [*EXPORTED, *(["bench-sm_90a"] if name in ("export.parquet", "dataset") else [])]
    assert {name: layouts(source) for name, source in found.items()} == {name: expected_layouts(name) for name in names}


def test_a_recording_is_still_read():
    source = lanemap.read_file(HERE / "recording.parquet")
    assert source.name == "bench-sm_90a"
    assert described(source)["provenance"] == EXPECTED["bench-sm_90a"]["provenance"]
    assert layouts(source) == expected_layouts("bench-sm_90a")
