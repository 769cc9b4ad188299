import errno
import json
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from lanemap.capture import recording
from lanemap.db.errors import LanemapError
from lanemap.db.layout.fragment import Element
from lanemap.db.store.export import DIGEST_KEY

from ..forms import DENSE_FORMS, SPARSE_FORMS
from .group import SimulatedGroup
from .tables import capture


@pytest.fixture(scope="module")
def source(documented, complete):
    return capture(SimulatedGroup(complete), documented, [*DENSE_FORMS[:4], *SPARSE_FORMS[:2]])


@pytest.fixture(params=["now", "earlier"])
def path(source, tmp_path, request):
    """A capture file, also as earlier versions wrote them: another key, and the digest in the header."""
    file = tmp_path / "capture.parquet"
    recording.write(source, file)
    if request.param == "earlier":
        read = pyarrow.parquet.ParquetFile(file)
        header = json.loads(read.metadata.metadata[b"lanemap"])
        del header["kind"]
        finish(file, read.read(), header, b"lanemap.capture", fits=True)
    return file


def finish(path, table, header, key, *, fits):
    """Write a table with a header, and a digest that fits both, or the one that is there."""
    columns = {name: table[name].fill_null(0).to_numpy() for name in table.column_names}
    if key == b"lanemap.capture":
        if fits:
            header.pop("digest", None)
            header["digest"] = recording._earlier_digest(header, columns)
        metadata = {key: json.dumps(header).encode()}
    else:
        text = json.dumps(header).encode()
        old = pyarrow.parquet.read_metadata(path).metadata.get(DIGEST_KEY, b"")
        metadata = {key: text, DIGEST_KEY: recording._digest(text, columns).encode() if fits else old}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)


def rewritten(path, change=lambda table: table, header=lambda header: None, digest=True):
    """The file with other columns or another header; with a digest that fits them, unless told otherwise."""
    read = pyarrow.parquet.ParquetFile(path)
    metadata = read.metadata.metadata
    key = b"lanemap.capture" if b"lanemap.capture" in metadata else b"lanemap"
    described = json.loads(metadata[key])
    header(described)
    finish(path, change(read.read()), described, key, fits=digest)
    return path


@pytest.mark.parametrize("column", ["layout", *Element._fields])
def test_a_gap_is_not_taken_for_a_number(path, column):
    """Where a value is missing, no digest is made that could fit: the file is refused for what it lacks."""

    def gaps(table):
        missing = np.zeros(len(table), bool)
        missing[[3, 200]] = True
        at = table.schema.get_field_index(column)
        values = pyarrow.array(table[column].to_numpy(), table.schema.field(at).type, mask=missing)
        return table.set_column(at, table.schema.field(at), values)

    with pytest.raises(LanemapError, match=f"has empty values of {column}"):
        recording.read(rewritten(path, gaps))


def with_value(table, name, value, at=7):
    column = table[name].to_numpy().copy()
    column[at] = value
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


def test_each_distinct_layout_is_written_once(source, path):
    written = pyarrow.parquet.read_table(path)
    assert written.column_names == ["layout", *Element._fields]
    distinct = {fragment.digest: len(fragment.elements) for fragment in source.fragments}
    assert len(distinct) < len(source.fragments)
    assert written.num_rows == sum(distinct.values())
    assert len(np.unique(written["layout"].to_numpy())) == len(distinct)


def test_an_old_file_stays_until_the_new_one_is_whole(source, path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", full)
    with pytest.raises(LanemapError, match=r"cannot write .*capture.parquet: No space left on device"):
        recording.write(source, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_nothing(source, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.write(source, tmp_path / "capture.parquet")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(source, tmp_path):
    with pytest.raises(LanemapError, match="cannot write .*: the folder .* does not exist"):
        recording.write(source, tmp_path / "nowhere" / "capture.parquet")


def test_files_that_are_no_captures(path, tmp_path):
    with pytest.raises(LanemapError, match="cannot be read: No such file"):
        recording.read(tmp_path / "nothing")
    with pytest.raises(LanemapError, match="cannot be read"):
        recording.read(tmp_path)
    text = tmp_path / "text"
    text.write_text("shape,type\n")
    with pytest.raises(LanemapError, match="text is not a complete Parquet file"):
        recording.read(text)
    half = tmp_path / "half"
    half.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(LanemapError, match="half is not a complete Parquet file"):
        recording.read(half)
    other = tmp_path / "other"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), other)
    with pytest.raises(LanemapError, match="other is not a capture: it is a Parquet file without lanemap's provenance"):
        recording.read(other)


def test_other_columns(path):
    with pytest.raises(LanemapError, match=r"has columns layout .*: a capture has layout, lane"):
        recording.read(rewritten(path, lambda table: table.drop_columns("col_last"), digest=False))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lane", 32, "not sorted by lane, register and slot"),
        ("row", -1, "A of mma m8n8k4 f16 row major: row -1 is outside 0..7"),
        ("col", 4, ": col 4 is outside 0..3"),
        ("col_last", 4, ": col_last 4 is outside 0..3"),
        ("reg", 0, "not sorted by lane, register and slot"),
        ("slot", 0, "not sorted by lane, register and slot"),
        ("computation", 0, ": computation 0 is outside 1..4"),
        ("computation", 5, ": computation 5 is outside 1..4"),
        ("layout", 1, "not sorted by lane, register and slot"),
        ("layout", 2**31 - 1, r"of layout 2147483647, but there are only \d+ fragments"),
    ],
)
def test_values_out_of_range(path, name, value, said):
    with pytest.raises(LanemapError, match=said) as caught:
        recording.read(rewritten(path, lambda table: with_value(table, name, value)))
    assert "\n" not in str(caught.value)


def test_a_window_that_ends_before_it_begins(path):
    with pytest.raises(LanemapError, match=": a window of columns ends before it begins"):
        recording.read(rewritten(path, lambda table: with_value(with_value(table, "col", 1), "col_last", 0)))


def test_lanes_registers_and_slots_that_the_instruction_does_not_have(path):
    def last(header):
        return lambda table: with_value(table, header, 32, np.flatnonzero(table["layout"].to_numpy() == 0)[-1])

    for name in ("lane", "reg", "slot"):
        before = path.read_bytes()
        with pytest.raises(LanemapError, match=f"A of mma m8n8k4 f16 row major: {name} 32 is outside 0.."):
            recording.read(rewritten(path, last(name)))
        path.write_bytes(before)


def test_a_layout_that_is_not_there(path):
    def other(header):
        header["fragments"][0][3] = 1000

    with pytest.raises(LanemapError, match="A of mma m8n8k4 f16 row major has layout 1000, but there are only"):
        recording.read(rewritten(path, header=other))


def test_what_was_changed_is_not_read(path):
    whole = path.read_bytes()
    with pytest.raises(LanemapError, match="was changed after it was written"):
        recording.read(rewritten(path, lambda table: with_value(table, "row", 0), digest=False))
    path.write_bytes(whole)
    with pytest.raises(LanemapError, match="was changed after it was written"):
        recording.read(rewritten(path, header=lambda header: header.update(title="another"), digest=False))


@pytest.mark.parametrize("gone", ["name", "title", "provenance", "fragments", "digest"])
def test_a_broken_provenance(path, gone):
    if gone == "digest" and b"lanemap.capture" not in pyarrow.parquet.read_metadata(path).metadata:
        pytest.skip("it is not in the header")
    with pytest.raises(LanemapError, match="its provenance is not as lanemap writes it"):
        recording.read(rewritten(path, header=lambda header: header.pop(gone, None), digest=False))


def test_a_capture_of_nothing_is_still_a_capture(documented, complete, tmp_path):
    empty = capture(SimulatedGroup(complete), documented, [])
    recording.write(empty, tmp_path / "empty.parquet")
    assert recording.read(tmp_path / "empty.parquet").fragments == []
    assert np.isfinite(empty.provenance["seconds"])


@pytest.mark.parametrize(
    "header",
    [
        lambda header: header.update(name=1),
        lambda header: header.update(provenance=[]),
        lambda header: header["fragments"][0].__setitem__(0, ["mma"]),
        lambda header: header["fragments"][0][0].__setitem__(0, {}),
        lambda header: header["fragments"][0][0].__setitem__(1, 16),
        lambda header: header["fragments"][0][0].__setitem__(5, "0"),
        lambda header: header["fragments"][0][0].__setitem__(6, 1),
        lambda header: header["fragments"][0].__setitem__(1, "4"),
        lambda header: header["fragments"][0].__setitem__(3, True),
        lambda header: header["fragments"][0].__setitem__(1, 0),
        lambda header: header["fragments"][0].__setitem__(2, 257),
        lambda header: header["fragments"][0][0].__setitem__(2, "x" * 257),
        lambda header: header.update(kind="import"),
    ],
)
def test_metadata_of_other_types_is_refused(path, header):
    rewritten(path, header=header)
    with pytest.raises(LanemapError, match="provenance is not as lanemap writes it"):
        recording.read(path)


def test_a_file_of_too_many_rows_is_not_read(path, monkeypatch):
    monkeypatch.setattr(recording, "_MOST", 10)
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "read", lambda _: pytest.fail("was read"))
    with pytest.raises(LanemapError, match="no capture has more than 10"):
        recording.read(path)


def test_a_capture_without_a_digest_is_not_read(path):
    whole = pyarrow.parquet.ParquetFile(path)
    metadata = {name: text for name, text in whole.metadata.metadata.items() if name != DIGEST_KEY}
    if b"lanemap.capture" in metadata:
        pytest.skip("it is in the header")
    pyarrow.parquet.write_table(whole.read().replace_schema_metadata(metadata), path)
    with pytest.raises(LanemapError, match="its digest does not match"):
        recording.read(path)
