"""The captures of a database side by side: what became of each form on each card, and where two captures differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .instructions import Key
from .reader import Reader, Rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Capture:
    """A capture: the name of its source, its card and driver, when it was made, and what became of each form.

    ``forms`` has a status by mnemonic: captured, unsupported or failed. What the capture does not say is empty.
    """

    source: str
    title: str
    device: str
    compute_capability: str
    driver_version: str
    cuda_version: str
    time: str
    forms: Mapping[str, str]


@dataclass(frozen=True)
class Disagreement:
    """A fragment that not all captures have the same layout of: those that agree stand together, the most first."""

    key: Key
    groups: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Fleet:
    """All captures, and every fragment on which two of them differ."""

    captures: Sequence[Capture]
    disagreements: Sequence[Disagreement]

    @property
    def forms(self) -> list[str]:
        """The mnemonic of every form that a capture was asked for, in the order of the captures."""
        return list(dict.fromkeys(form for each in self.captures for form in each.forms))

    def rows(self) -> Rows:
        """One row for each form of each capture, with the card, the driver and the status."""
        columns = ("instruction", "status", "source", *_DEVICE)
        rows = [
            (form, status, each.source, *(getattr(each, name) for name in _DEVICE))
            for each in self.captures
            for form, status in each.forms.items()
        ]
        return Rows(columns, rows)

    def frame(self) -> pd.DataFrame:
        """The same as a frame."""
        return self.rows().frame()


_DEVICE = ("device", "compute_capability", "driver_version", "cuda_version", "time")

_CAPTURES = "SELECT name, title, provenance FROM source WHERE kind = 'capture' ORDER BY id"
_LAYOUTS = """
SELECT instruction, shape, type, role, major, selector, qualifiers, mapping_id, source.name
FROM fragment JOIN source ON source.id = source_id
WHERE kind = 'capture' AND mapping_id IS NOT NULL ORDER BY fragment.id
"""


def fleet(reader: Reader) -> Fleet:
    """The captures of a database."""
    with reader.snapshot():
        captures = [_captured(*row) for row in reader.select(_CAPTURES, {}).rows]
        layouts = reader.select(_LAYOUTS, {}).rows
    # Equal layouts are stored once, so that their numbers tell whether they are.
    found: dict[Key, dict[int, list[str]]] = {}
    for *key, mapping, source in layouts:
        found.setdefault(Key(*key), {}).setdefault(mapping, []).append(source)
    differ = [
        Disagreement(key, sorted(groups.values(), key=len, reverse=True))
        for key, groups in found.items()
        if len(groups) > 1
    ]
    return Fleet(captures, differ)


def _captured(source: str, title: str, provenance: str) -> Capture:
    said: dict[str, Any] = json.loads(provenance)
    device = said.get("device")
    known = device if isinstance(device, dict) else {}
    forms = {each["instruction"]: each["status"] for each in said.get("instructions", [])}
    return Capture(
        source,
        title,
        device=str(known.get("name", "")),
        compute_capability=str(known.get("compute_capability", "")),
        driver_version=str(known.get("driver_version", "")),
        cuda_version=str(known.get("cuda_version", "")),
        time=str(said.get("time", "")),
        forms=forms,
    )
