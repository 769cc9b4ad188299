import errno
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from lanemap.capture import recording
from lanemap.capture.run import capture
from lanemap.capture.simulate import SimulatedWarp
from lanemap.db.errors import LanemapError
from lanemap.db.instructions import DENSE_FORMS, SPARSE_FORMS


@pytest.fixture(scope="module")
def source(documented, complete):
    return capture(SimulatedWarp(complete), documented, [*DENSE_FORMS[:4], *SPARSE_FORMS[:2]])


@pytest.fixture
def path(source, tmp_path):
    file = tmp_path / "capture.parquet"
    recording.write(source, file)
    return file


def rewritten(path, change):
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)
    return path


def with_value(table, name, value):
    column = table[name].to_numpy().copy()
    column[7] = value
    number = table.schema.get_field_index(name)
    return table.set_column(number, table.schema.field(number), pyarrow.array(column, table.schema.field(number).type))


def test_what_is_read_is_what_was_written(source, path):
    found = recording.read(path)
    assert (found.name, found.kind, found.title) == (source.name, "capture", source.title)
    assert found.provenance == source.provenance
    assert len(found.fragments) == len(source.fragments)
    for one, other in zip(found.fragments, source.fragments, strict=True):
        assert (one.key, one.digest, one.registers, one.slots) == (
            other.key,
            other.digest,
            other.registers,
            other.slots,
        )
        assert one.status == "captured"
    assert recording.read(path, "mine").name == "mine"


def test_the_columns_are_the_table_that_users_query(path):
    assert pyarrow.parquet.read_table(path).column_names == (
        [
            "shape",
            "type",
            "role",
            "lane",
            "reg",
            "slot",
            "row",
            "col",
            "col_last",
            "instruction",
            "major",
            "computation",
            "selector",
        ]
    )
    assert pyarrow.parquet.read_table(path).to_pandas().query("role == 'E'")["selector"].nunique() == 4


def test_a_whole_run_is_small(documented, complete, tmp_path):
    whole = capture(SimulatedWarp(complete), documented, (*DENSE_FORMS, *SPARSE_FORMS))
    recording.write(whole, tmp_path / "whole.parquet")
    assert (tmp_path / "whole.parquet").stat().st_size < 300_000


def test_an_old_file_stays_until_the_new_one_is_whole(source, path, monkeypatch):
    before = path.read_bytes()

    def full(*arguments, **_):
        arguments[1].write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(LanemapError, match=r"cannot write .*capture.parquet: No space left on device"):
        recording.write(source, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_nothing(source, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pyarrow.parquet, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.write(source, tmp_path / "capture.parquet")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(source, tmp_path):
    with pytest.raises(LanemapError, match="cannot write .*: No such file or directory"):
        recording.write(source, tmp_path / "nowhere" / "capture.parquet")


def test_files_that_are_no_captures(path, tmp_path):
    with pytest.raises(LanemapError, match="cannot be read: No such file"):
        recording.read(tmp_path / "nothing")
    with pytest.raises(LanemapError, match="cannot be read"):
        recording.read(tmp_path)
    text = tmp_path / "text"
    text.write_text("shape,type\n")
    with pytest.raises(LanemapError, match="text is not a whole Parquet file"):
        recording.read(text)
    half = tmp_path / "half"
    half.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(LanemapError, match="half is not a whole Parquet file"):
        recording.read(half)
    other = tmp_path / "other"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), other)
    with pytest.raises(LanemapError, match="other is not a capture: it is a Parquet file without lanemap's provenance"):
        recording.read(other)


def test_other_columns(path):
    with pytest.raises(LanemapError, match=r"has columns shape .*: a capture has shape, type"):
        recording.read(rewritten(path, lambda table: table.drop_columns("col_last")))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lane", 32, "has lane 32 in A of mma m8n8k4 f16 row major: it must be 0 to 31"),
        ("row", -1, "has row -1 in .*: it must be 0 to 7"),
        ("col", 4, "has col 4 in .*: it must be 0 to 3"),
        ("col_last", 4, "has col_last 4 in .*: it must be 0 to 3"),
        ("slot", 0, "slot . is given twice"),
        ("computation", 0, "has a computation below 1"),
    ],
)
def test_values_out_of_range(path, name, value, said):
    with pytest.raises(LanemapError, match=said) as caught:
        recording.read(rewritten(path, lambda table: with_value(table, name, value)))
    assert "\n" not in str(caught.value)


def test_a_broken_provenance(path):
    with pytest.raises(LanemapError, match="its provenance is not as lanemap writes it"):
        recording.read(rewritten(path, lambda table: table.replace_schema_metadata({"lanemap.capture": "{"})))


def test_a_capture_of_nothing_is_still_a_capture(documented, complete, tmp_path):
    empty = capture(SimulatedWarp(complete), documented, [])
    recording.write(empty, tmp_path / "empty.parquet")
    assert recording.read(tmp_path / "empty.parquet").fragments == []
    assert np.isfinite(empty.provenance["seconds"])
