import tomllib

import pytest

from lanemap.ingest import catalogue
from lanemap.ingest.document import read


@pytest.fixture(scope="session")
def printed(sources):
    """The fragments of an earlier version, as printed, by key: figures of the pages have its numbers."""
    return {fragment.key: fragment for fragment in sources["ptx-isa-9.1"].fragments}


@pytest.fixture(scope="session")
def written():
    """The fragments that files of a catalogue describe, as printed."""

    def written(folder):
        sections = {file.stem: tomllib.loads(file.read_text()) for file in folder.glob("*.toml")}
        del sections["document"]
        return [catalogue.fragment(sections, *described) for described in catalogue._described(sections)]

    return written


@pytest.fixture
def reading(tmp_path):
    """Read a text as a document of its own."""

    def reading(text, name="made-up", file="page.txt"):
        path = tmp_path / file
        path.write_text(text, "utf-8", newline="")
        (found,) = read([path], name)
        return found

    return reading
