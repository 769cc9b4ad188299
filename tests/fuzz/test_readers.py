"""Whatever a file holds, a reader gives sources that can be stored and compared, or says in one line what is wrong.

``LANEMAP_LONG=1`` tries a hundred times as many, and ``guided.py`` follows what is reached. What breaks a reader is
written to ``corpus``, where it stays as a test.
"""

import os
import time
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lanemap
from lanemap import LanemapError
from lanemap.db.layout.fragment import Source
from lanemap.db.store import store
from lanemap.db.store.location import locate

from .readers import CORPUS, READERS, SOUND, changed

LONG = "LANEMAP_LONG" in os.environ
pytestmark = pytest.mark.usefixtures("shipped_once")
FILES = sorted(file for file in CORPUS.rglob("*.*") if file.is_file())


@pytest.fixture(scope="module")
def printed(sources):
    """A few fragments: dense, sparse, and with four computations."""
    chosen = {("m16n8k16", "f16"), ("m16n8k16", "bf16"), ("m8n8k4", "f16")}
    held = [
        fragment
        for fragment in sources["ptx-isa-9.1"].fragments
        if (fragment.shape, fragment.type) in chosen and fragment.digest
    ]
    return Source("printed", "document", "a document", held)


@pytest.fixture(scope="module")
def place(printed, tmp_path_factory):
    """A small database, which takes what the readers give."""
    file = tmp_path_factory.mktemp("fuzz") / "small.db"
    store.ship(locate(str(file)), lambda: [printed], "shipped")
    return file


def survives(reader, data, place, folder):
    """Read, store and check; the words of a refusal, None if there is none."""
    began = time.process_time()
    try:
        found = READERS[reader](data, folder)
    except LanemapError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 2000
        return str(error)
    finally:
        assert time.process_time() - began < 5
    with lanemap.open(place) as database:
        try:
            database.add(found)
            database.check().report()
        except LanemapError as error:
            assert "\n" not in str(error)
            return str(error)
        finally:
            there = set(database.sources().name)
            for source in found:
                if source.name in there and source.name != "printed":
                    database.remove(source.name)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_sound_inputs_are_read(reader, place, tmp_path):
    sound = SOUND[reader].read_bytes()
    assert all(source.fragments for source in READERS[reader](sound, tmp_path))
    # A page is a document, and so is what the database holds: neither judges the other.
    said = survives(reader, sound, place, tmp_path)
    assert said is None or (reader == "page" and said.startswith("nothing to compare"))


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_any_change_is_read_or_refused_in_words(reader, place, tmp_path):
    seen, sound = set(), SOUND[reader].read_bytes()

    @given(st.integers(0, 2**64))
    @settings(
        max_examples=6000 if LONG else 25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    def run(seed):
        data = changed(reader, sound, seed)
        try:
            seen.add(survives(reader, data, place, tmp_path))
        except Exception:
            if LONG:
                (CORPUS / reader / f"{sha256(data).hexdigest()[:12]}.found").write_bytes(data)
            raise

    run()
    assert len(seen) > (3 if LONG else 2)


@pytest.mark.few(8)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_was_found_once_stays_mended(file, place, tmp_path):
    survives(file.parent.name, file.read_bytes(), place, tmp_path)
