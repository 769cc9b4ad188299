"""Fragments out of the database as the records that went in, for whoever works on whole layouts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .fragment import Fragment, unpack
from .lookup import Wanted, fragments
from .reader import Reader

_PACKED = "SELECT id, elements FROM mapping"
_STORED = [field.name for field in fields(Fragment) if field.name != "elements"]


def read_fragments(reader: Reader, wanted: Wanted) -> list[tuple[str, Fragment]]:
    """The fragments that match, each with the name of its source, in the order of their sources.

    Raises:
        LanemapError: none does.
    """
    packed = dict(reader.select(_PACKED, {}).rows)
    return [(record["source"], _fragment(record, packed)) for record in fragments(reader, wanted)]


def _fragment(record: dict[str, Any], packed: dict[int, bytes]) -> Fragment:
    mapping = record["mapping_id"]
    elements = None if mapping is None else unpack(packed[mapping])
    return Fragment(elements=elements, **{name: record[name] for name in _STORED})
