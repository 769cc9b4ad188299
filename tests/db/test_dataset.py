"""The dataset: one table to every engine that reads it, and whole or not there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import lanemap
from lanemap.db.lookup import COLUMNS, Query, read_fragments, with_rows
from lanemap.db.store.export import METADATA_KEY, write_dataset
from lanemap.db.store.files import MANIFEST, folder_atomically

from ..modes import LONG
from ..shipped import SHIPPED

GUIDE = (Path(lanemap.__file__).parent / "cli" / "web" / "guide" / "export.md").read_text()


def export(database, query, folder):
    found = with_rows(database.reader, read_fragments(database.reader, query))
    write_dataset(database.reader, found, folder, "9.9")


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A dataset of all that ships but wgmma and tcgen05.mma, which are in it in the long mode."""
    folder = tmp_path_factory.mktemp("dataset") / "layouts"
    with lanemap.open(request.getfixturevalue("built" if LONG else "built_for_a_warp")) as database:
        export(database, Query(), folder)
    return folder


@pytest.fixture(scope="module")
def fleet(database, built, tmp_path_factory):
    """A dataset of the documents and three captures, one of which differs in one operand."""
    folder = tmp_path_factory.mktemp("fleet")
    captured = database.source("h200-sm_90a")
    some = [fragment for fragment in captured.fragments if fragment.type == "b1"]
    turned = [replace(fragment, elements=fragment.elements.copy()) for fragment in some]
    (wrong,) = (fragment for fragment in turned if (fragment.shape, fragment.role) == ("m16n8k128", "A"))
    wrong.elements["row"] = 15 - wrong.elements["row"]
    with lanemap.open(shutil.copy(built, folder / "fleet.db")) as several:
        several.add([replace(captured, name=f"{captured.name}-1", fragments=some)])
        several.add([replace(captured, name=f"{captured.name}-2", fragments=turned)])
        export(several, Query(instruction="mma", type="b1"), folder / "layouts")
        assert [disagreement.key for disagreement in several.fleet().disagreements] == [wrong.key]
    return folder / "layouts"


def answer(engine, folder, **variables):
    """What the query of the guide finds in a dataset."""
    (query,) = re.findall(r"^```sql\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```py\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    lines = next(block for block in blocks if engine in block).replace("layouts", str(folder))
    program = f"import json\nquery = {query!r}\n{lines}\nprint('found', json.dumps([list(row) for row in found]))\n"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # DuckDB may print how far it is before that.
    return sorted(json.loads(done.stdout.partition("found ")[2]))


CARD = "h200-sm_90a"
PRINTED = "ptx-isa-9.1", "ptx-isa-9.4"
CORRECTED = tuple(f"{name}+errata" for name in PRINTED)


def differences(operand, elements, wrong, right):
    return sorted([*operand, *sorted(pair), elements] for pair in product(wrong, right))


#: What both documents are wrong in; every capture has it right.
_SLIP = ("mma", "m16n8k256", "b1", "A"), 1024, PRINTED
_TURNED = ("mma", "m16n8k128", "b1", "A"), 2048


@pytest.mark.slow
def test_duckdb_finds_what_differs_in_all_that_ships(folder):
    moved = ("movmatrix", "m8n8", "b16", "D"), 56, PRINTED
    right = *SHIPPED[-2:], *CORRECTED
    assert answer("duckdb", folder) == sorted(differences(*_SLIP, right) + differences(*moved, right))


def in_the_fleet():
    captures = SHIPPED[-2], CARD, f"{CARD}-1", f"{CARD}-2"
    return sorted(
        differences(*_SLIP, (*captures, *CORRECTED))
        + differences(*_TURNED, captures[3:], (*captures[:3], *PRINTED, *CORRECTED))
    )


@pytest.mark.slow
def test_duckdb_finds_what_differs_in_a_fleet(fleet):
    assert answer("duckdb", fleet) == in_the_fleet()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java, which is not on this machine")
def test_spark_finds_the_same(fleet):
    """With as little of Spark and its compilers as the query needs: most of the time goes into starting it."""
    pytest.importorskip("pyspark", reason="needs lanemap[test-toolchains]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    quick = " ".join(f"--conf {name}={shlex.quote(value)}" for name, value in settings.items())
    submit = f"{quick} pyspark-shell"
    found = answer("pyspark", fleet, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_SUBMIT_ARGS=submit)
    assert found == in_the_fleet()


@pytest.mark.slow
def test_every_row_is_in_it_for_pandas_and_duckdb(database, tmp_path):
    import duckdb

    folder = tmp_path / "layouts"
    export(database, Query(instruction="mma.sp"), folder)
    stored = f"SELECT {', '.join(COLUMNS)} FROM layout WHERE instruction = 'mma.sp'"
    expected = sorted(map(str, database.reader.sql(stored).rows))
    files = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    assert sorted(map(str, duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM {files}").fetchall())) == expected
    frame = pd.read_parquet(folder)[list(COLUMNS)].astype(object)
    rows = frame.where(frame.notna(), None).itertuples(index=False, name=None)
    whole = (tuple(int(value) if isinstance(value, float) else value for value in row) for row in rows)
    assert sorted(map(str, whole)) == expected


@pytest.mark.slow
def test_each_file_says_where_its_rows_come_from(folder, shipped):
    for file in folder.rglob("*.parquet"):
        described = json.loads(pq.read_schema(file).metadata[METADATA_KEY])
        assert described["lanemap"] == "9.9"
        assert len(described["sources"]) == 1
    assert {path.name for path in folder.iterdir()} - {MANIFEST} == {
        f"source={name.replace('+', '%2B')}" for name in shipped
    }


@pytest.mark.slow
def test_an_older_dataset_is_replaced_and_nothing_is_left_beside_it(database, tmp_path):
    folder = tmp_path / "layouts"
    export(database, Query(), folder)
    export(database, Query(source="ptx-isa-9.1", instruction="mma"), folder)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")] == [
        "layouts/source=ptx-isa-9.1/instruction=mma/part-0.parquet"
    ]
    assert list(tmp_path.iterdir()) == [folder]
    mask = os.umask(0)
    os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o777 & ~mask


def test_an_empty_folder_is_filled(database, tmp_path):
    export(database, Query(shape="m16n8k8", source="ptx-isa-9.1"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"source=ptx-isa-9.1", MANIFEST}


@pytest.mark.slow
@pytest.mark.parametrize("there", ["notes.txt", "source=x/other.txt", "source=x/instruction=y/part-0.parquet/z"])
def test_a_folder_of_something_else_is_refused(refused, tmp_path, there):
    stays = tmp_path / "mine" / there
    stays.parent.mkdir(parents=True)
    stays.write_text("mine")
    refused("export", "--format", "dataset", "--output", tmp_path / "mine", words=("not a dataset", "empty"))
    assert stays.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


def fill(folder, **files):
    """Write a folder of this content."""
    with folder_atomically(folder, "test") as made:
        for name, text in files.items():
            (made / name).write_text(text)


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), lanemap.LanemapError("failed")])
def test_half_a_dataset_is_never_there(tmp_path, failure):
    folder = tmp_path / "layouts"
    for there in ([], [folder]):
        with pytest.raises(type(failure)), folder_atomically(folder, "test") as made:
            (made / "half").touch()
            raise failure
        assert list(tmp_path.iterdir()) == there
        fill(folder, old="old")
    assert content(folder) == {"old": "old"}


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "theirs.parquet").write_text("mine"),
        lambda folder: (folder / "new folder").mkdir(),
        lambda folder: (folder / "old").write_text("edited"),
        lambda folder: (folder / MANIFEST).write_text("{"),
        lambda folder: (folder / MANIFEST).write_text('{"kind": "other", "files": {"old": ""}}'),
        lambda folder: ((folder / "old").unlink(), (folder / "old").symlink_to("/etc/hostname")),
    ],
)
def test_what_somebody_put_into_it_stays(tmp_path, change):
    folder = tmp_path / "layouts"
    fill(folder, old="old", older="older")
    fill(folder, old="old")
    assert content(folder) == {"old": "old"}
    change(folder)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(lanemap.LanemapError, match="layouts (holds|is not a test)"):
        fill(folder, new="new")
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_somebody_puts_into_it_meanwhile_stays(tmp_path):
    folder = tmp_path / "layouts"
    fill(folder, old="old")
    with pytest.raises(lanemap.LanemapError, match="holds theirs"), folder_atomically(folder, "test") as made:
        (made / "new").touch()
        (folder / "theirs").write_text("mine")
    assert content(folder) == {"old": "old", "theirs": "mine"}
    assert list(tmp_path.iterdir()) == [folder]


def test_the_root_of_the_disk_is_refused_at_once(refused, monkeypatch):
    monkeypatch.setattr(os, "walk", lambda *_, **__: pytest.fail("it walks the disk"))
    refused("export", "--format", "dataset", "--output", "/", words=("/ is not a dataset", "name a new folder"))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--output", "folder")),
        (("--output", "file"), ("not a dataset",)),
        (("--output", "no/such/layouts"), ("no/such/layouts", "the folder no/such does not exist")),
        (("--output", "new", "--role", "E", "--source", "ptx-isa-9.1"), ("no rows",)),
        (("--output", "new", "--shape", "m1n1k1"), ("no shape m1n1k1",)),
    ],
)
def test_bad_input_is_one_line_and_exit_2(refused, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    refused("export", "--format", "dataset", *arguments, words=words)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
