"""The dataset: one table to every engine that reads it, and whole or not there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap.db.dataset import write_dataset
from lanemap.db.export import METADATA_KEY
from lanemap.db.files import folder_atomically
from lanemap.db.lookup import COLUMNS, Query

README = (Path(__file__).parent.parent.parent / "README.md").read_text()
CONTRADICTED = [["m16n8k256", "b1", "A", 1024]]


@pytest.fixture(scope="module")
def database(built):
    with lanemap.open(str(built)) as database:
        yield database


@pytest.fixture(scope="module")
def folder(database, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset") / "layouts"
    write_dataset(database.reader, Query(), folder, "9.9")
    return folder


def snippet(engine):
    """The README's lines for an engine, as a program that prints what they find."""
    query = re.search(r"^```sql\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    blocks = re.findall(r"^```py\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    lines = next(block for block in blocks if engine in block)
    return f"query = {query!r}\n{lines}\nimport json\nprint(json.dumps([list(row) for row in found]))"


def answer(engine, folder, **variables):
    command = [sys.executable, "-W", "ignore", "-c", snippet(engine)]
    done = subprocess.run(
        command, cwd=folder.parent, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_duckdb_runs_the_query_of_the_readme(folder):
    assert answer("duckdb", folder) == CONTRADICTED


@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java, which is not on this machine")
def test_spark_runs_the_query_of_the_readme(folder):
    pytest.importorskip("pyspark")
    quick = "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 pyspark-shell"
    assert answer("pyspark", folder, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_SUBMIT_ARGS=quick) == CONTRADICTED


def test_every_row_is_in_it_for_pandas_and_duckdb(database, folder):
    import duckdb

    expected = sorted(map(str, database.reader.sql(f"SELECT {', '.join(COLUMNS)} FROM layout").rows))
    files = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    assert sorted(map(str, duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM {files}").fetchall())) == expected
    frame = pd.read_parquet(folder)[list(COLUMNS)].astype(object)
    rows = frame.where(frame.notna(), None).itertuples(index=False, name=None)
    whole = (tuple(int(each) if isinstance(each, float) else each for each in row) for row in rows)
    assert sorted(map(str, whole)) == expected


def test_each_file_says_where_its_rows_come_from(folder, shipped):
    for file in folder.rglob("*.parquet"):
        described = json.loads(pq.read_schema(file).metadata[METADATA_KEY])
        assert described["lanemap"] == "9.9"
        assert len(described["sources"]) == 1
    assert {path.name for path in folder.iterdir()} == {f"source={name.replace('+', '%2B')}" for name in shipped}


def test_an_older_dataset_is_replaced_and_nothing_is_left_beside_it(database, tmp_path):
    folder = tmp_path / "layouts"
    write_dataset(database.reader, Query(), folder, "1")
    write_dataset(database.reader, Query(source="ptx-isa-9.1", instruction="mma"), folder, "1")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")] == [
        "layouts/source=ptx-isa-9.1/instruction=mma/part-0.parquet"
    ]
    assert list(tmp_path.iterdir()) == [folder]
    mask = os.umask(0)
    os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o777 & ~mask


def test_an_empty_folder_is_filled(database, tmp_path):
    write_dataset(database.reader, Query(shape="m16n8k8", source="ptx-isa-9.1"), tmp_path, "1")
    assert [path.name for path in tmp_path.iterdir()] == ["source=ptx-isa-9.1"]


@pytest.mark.parametrize("there", ["notes.txt", "source=x/other.txt", "source=x/instruction=y/part-0.parquet/z"])
def test_a_folder_of_something_else_is_refused(refused, tmp_path, there):
    stays = tmp_path / "mine" / there
    stays.parent.mkdir(parents=True)
    stays.write_text("mine")
    refused("export", "--format", "dataset", "--output", tmp_path / "mine", words=("not a dataset", "empty"))
    assert stays.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


def test_half_a_dataset_is_never_there(tmp_path):
    folder = tmp_path / "layouts"
    folder.mkdir()
    (folder / "old").touch()
    for failure in (KeyboardInterrupt, lanemap.LanemapError):
        with pytest.raises(failure), folder_atomically(folder, lambda _: True, "mine") as made:
            (made / "half").touch()
            raise failure
    assert [path.name for path in tmp_path.rglob("*")] == ["layouts", "old"]


def test_the_older_one_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "layouts"
    folder.mkdir()
    (folder / "old").touch()
    rename = Path.rename

    def fail(self, target):
        if target == folder and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with (
        pytest.raises(lanemap.LanemapError, match="No space left"),
        folder_atomically(folder, lambda _: True, "mine") as made,
    ):
        (made / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["layouts", "old"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--output", "folder")),
        (("--output", "file"), ("not a dataset",)),
        (("--output", "no/such/layouts"), ("no/such/layouts", "No such file")),
        (("--output", "new", "--role", "E", "--source", "ptx-isa-9.1"), ("no rows",)),
        (("--output", "new", "--shape", "m1n1k1"), ("no shape m1n1k1",)),
    ],
)
def test_bad_input_is_one_line_and_exit_2(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    refused("export", "--format", "dataset", *arguments, words=words)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]
