"""What ships, read once in each process that tests. Copy elements before changing them."""

from functools import cache

import lanemap
from lanemap.db.layout.fragment import Fragment, Source

#: The sources that every database has from the first minute.
SHIPPED = [
    *("ptx-isa-9.4", "ptx-isa-9.4+errata", "ptx-isa-9.1", "ptx-isa-9.1+errata"),
    *("cutlass-4.2.0", "h100-sm_90a", "h200-sm_90a"),
]
#: The newest document, as printed and as corrected.
PRINTED, CORRECTED = SHIPPED[:2]
#: The section numbers and figures of a document that all others of the version are counted from.
NUMBERED = {"9.1": ("9.7.14", "9.7.15", "9.7.16", 0), "9.4": ("9.7.16", "9.7.17", "9.7.18", 3)}


@cache
def everything() -> list[Source]:
    """All of them."""
    found = list(lanemap._shipped())
    assert [source.name for source in found] == SHIPPED
    return found


def documents() -> dict[str, Source]:
    """Those that are documents, by name."""
    return {source.name: source for source in everything() if source.kind == "document"}


def printed() -> list[Fragment]:
    """Every fragment of the newest document as printed."""
    return documents()[PRINTED].fragments


@cache
def corrected() -> list[Fragment]:
    """Every fragment of the newest document, corrected, that has elements; of those in memory one N is enough."""
    every = documents()[CORRECTED].fragments
    having = [one for one in every if one.elements is not None and (not one.tile or one.members)]
    return [fragment.every[0] for fragment in having]


def recorded() -> Source:
    """The run on the H200."""
    return everything()[-1]
