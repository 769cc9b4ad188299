"""What ships, read once in each process that tests. Copy elements before changing them."""

from functools import cache

import lanemap
from lanemap.capture import recording
from lanemap.db.layout.fragment import Fragment, Source
from lanemap.ingest import catalogue


@cache
def documents() -> dict[str, Source]:
    """The sources of the catalogue by name."""
    return {source.name: source for source in catalogue.load()}


def printed() -> list[Fragment]:
    """Every fragment of the document as printed."""
    return documents()["ptx-isa-9.1"].fragments


@cache
def corrected() -> list[Fragment]:
    """Every fragment of the corrected document that has elements."""
    return [each for each in documents()[lanemap.DEFAULT_SOURCE].fragments if each.elements is not None]


@cache
def recorded() -> Source:
    """The run on the H200."""
    (file,) = lanemap._recordings()
    return recording.read(file)
