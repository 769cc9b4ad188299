"""Look-ups: which fragments there are, where an element sits, and what sits in a cell.

The statements run on SQLite and PostgreSQL alike. A filter that is None does not filter.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import LanemapError
from .reader import Reader, Rows, Value

#: What look-ups read unless another source is named: the document, corrected where it was proved wrong.
DEFAULT_SOURCE = "ptx-isa-9.1+errata"

#: As in ``fragment``, which needs numpy; look-ups do without.
LANES = 32

#: The columns of the ``layout`` view and of every export, in this order.
COLUMNS = (
    *("shape", "type", "role", "lane", "reg", "slot", "row", "col"),
    *("col_last", "instruction", "major", "computation", "selector", "source"),
)

_SOURCES = """
SELECT source.name, source.kind, source.title, source.provenance,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id) AS fragments,
       (SELECT COUNT(*) FROM fragment WHERE source_id = source.id AND mapping_id IS NULL) AS without_rows,
       (SELECT COUNT(*) FROM finding JOIN fragment ON fragment.id = fragment_id WHERE source_id = source.id) AS findings
FROM source ORDER BY source.id
"""

_MATCHING = """
FROM fragment JOIN source ON source.id = fragment.source_id
WHERE (CAST(:source AS TEXT) IS NULL OR LOWER(source.name) = LOWER(:source))
  AND (CAST(:instruction AS TEXT) IS NULL OR instruction = :instruction)
  AND (CAST(:shape AS TEXT) IS NULL OR shape = :shape)
  AND (CAST(:type AS TEXT) IS NULL OR type = :type)
  AND (CAST(:role AS TEXT) IS NULL OR role = :role)
  AND (CAST(:major AS TEXT) IS NULL OR major = :major)
  AND (CAST(:selector AS INTEGER) IS NULL OR selector = :selector)
"""
_FRAGMENTS = f"SELECT fragment.*, source.name AS source {_MATCHING} ORDER BY fragment.id"
_WITH_ELEMENTS = f"""
SELECT shape, type, role, instruction, major, selector, source.name AS source, mapping_id {_MATCHING}
  AND mapping_id IS NOT NULL ORDER BY fragment.id
"""

_FINDINGS = """
SELECT fragment_id, source.name AS source, instruction, shape, type, role, major, selector, section, words AS finding
FROM finding JOIN fragment ON fragment.id = fragment_id JOIN source ON source.id = source_id
ORDER BY finding.id
"""

_ELEMENTS = """
SELECT lane, reg, slot, row, col, col_last, computation FROM element
WHERE mapping_id = :mapping
  AND (CAST(:lane AS INTEGER) IS NULL OR lane = :lane)
  AND (CAST(:reg AS INTEGER) IS NULL OR reg = :reg)
  AND (CAST(:slot AS INTEGER) IS NULL OR slot = :slot)
  AND (CAST(:row AS INTEGER) IS NULL OR row = :row)
  AND (CAST(:col AS INTEGER) IS NULL OR (col <= :col AND col_last >= :col))
  AND (CAST(:computation AS INTEGER) IS NULL OR computation = :computation)
ORDER BY lane, reg, slot
"""

_COMPUTATIONS = "SELECT MAX(computation) FROM element WHERE mapping_id = :mapping"


@dataclass(frozen=True)
class Wanted:
    """Which fragments: names in any case, a leading dot allowed, as in ``.F16``. None is any; an empty name is none."""

    shape: str | None = None
    type: str | None = None
    role: str | None = None
    instruction: str | None = None
    major: str | None = None
    selector: int | None = None
    source: str | None = None

    def parameters(self) -> dict[str, Value]:
        """The names as the database spells them.

        Raises:
            LanemapError: one is not text, or the selector no whole number.
        """
        return {
            "shape": _word("shape", self.shape),
            "type": _word("type", self.type),
            "role": None if self.role is None else _text("role", self.role).upper(),
            "instruction": _word("instruction", self.instruction),
            "major": _word("major", self.major),
            "selector": whole("selector", self.selector),
            "source": None if self.source is None else _text("source", self.source),
        }


def sources(reader: Reader) -> Rows:
    """Every source, with how many fragments it has, how many of them have no rows, and findings on it."""
    return reader.select(_SOURCES, {})


def findings(reader: Reader, wanted: Wanted) -> Rows:
    """What the structural checks found on the fragments that match.

    Raises:
        LanemapError: no fragment does.
    """
    there = [fragment["id"] for fragment in fragments(reader, wanted)] if wanted != Wanted() else None
    found = reader.select(_FINDINGS, {})
    rows = [row for fragment, *row in found.rows if there is None or fragment in there]
    return Rows(found.columns[1:], [tuple(row) for row in rows])


def fragments(reader: Reader, wanted: Wanted) -> list[dict[str, Any]]:
    """The fragments that match, in the order of their source.

    Raises:
        LanemapError: none does; names which part of the request is unknown, and what there is.
    """
    asked = wanted.parameters()
    found = reader.select(_FRAGMENTS, _stored(asked)).records()
    if not found:
        raise LanemapError(_why_none(reader, asked))
    return found


def with_elements(reader: Reader, wanted: Wanted) -> list[dict[str, Any]]:
    """The fragments that match and have elements: just what an export needs to know of each.

    Raises:
        LanemapError: no fragment matches, with elements or without.
    """
    return reader.select(_WITH_ELEMENTS, _stored(wanted.parameters())).records() or fragments(reader, wanted)[:0]


def one_operand(reader: Reader, wanted: Wanted) -> list[dict[str, Any]]:
    """The fragments of one operand: the dense instruction's where no instruction is named and there is one.

    More than one where PTX's layout qualifier (m8n8k4 with f16) or the sparsity selector (E) tells them apart.
    """
    found = fragments(reader, wanted)
    instruction = min(fragment["instruction"] for fragment in found)
    return [fragment for fragment in found if fragment["instruction"] == instruction]


def with_rows(reader: Reader, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those fragments that have elements.

    Raises:
        LanemapError: none has; says what the source has instead, and which other source has rows.
    """
    if rows := [fragment for fragment in found if fragment["mapping_id"] is not None]:
        return rows
    first = found[0]
    same = Wanted(first["shape"], first["type"], first["role"], first["instruction"])
    others = reader.select(_FRAGMENTS, same.parameters()).records()
    names = sorted({other["source"] for other in others if other["mapping_id"] is not None})
    instead = f"use --source {names[0]}" if names else "no other source has it either"
    raise LanemapError(
        f"{first['source']} has no rows for {first['role']} of {first['instruction']} {first['shape']} "
        f"{first['type']}: {first['status']}{_figures(first)}: {instead}"
    )


def elements(reader: Reader, fragment: Mapping[str, Any], **where: int | None) -> Rows:
    """The elements of a fragment at the given lane, reg, slot, row, col or computation, by lane, reg and slot.

    A column matches every element that can stand for it.

    Raises:
        LanemapError: a coordinate is outside the fragment; names its range.
    """
    asked = {name: whole(name, value) for name, value in where.items()}
    last = {"lane": LANES - 1, "reg": fragment["registers"] - 1, "slot": fragment["slots"] - 1}
    last |= {"row": fragment["rows"] - 1, "col": fragment["cols"] - 1}
    mapping = {"mapping": fragment["mapping_id"]}
    if asked.get("computation") is not None:
        last["computation"] = reader.select(_COMPUTATIONS, mapping).rows[0][0]
    for name, most in last.items():
        value, least = asked.get(name), int(name == "computation")
        if value is not None and not least <= value <= most:
            goes = f"it goes from {least} to {most}" if least < most else f"there is only {least}"
            raise LanemapError(
                f"{name} {value} is outside {fragment['role']} of {fragment['instruction']} {fragment['shape']} "
                f"{fragment['type']}: {goes}"
            )
    return reader.select(_ELEMENTS, mapping | {name: asked.get(name) for name in (*last, "computation")})


def find(reader: Reader, wanted: Wanted, **where: int | None) -> Rows:
    """The elements of one operand at the given coordinates, with the columns of ``layout``.

    Raises:
        LanemapError: no such fragment, a coordinate outside it, or a fragment without rows.
    """
    found = with_rows(reader, one_operand(reader, wanted))
    rows: list[tuple[Any, ...]] = []
    for fragment in found:
        part = elements(reader, fragment, **where)
        rows += [tuple((fragment | record)[name] for name in COLUMNS) for record in part.records()]
    return Rows(COLUMNS, rows)


def _figures(fragment: Mapping[str, Any]) -> str:
    return f", figure {fragment['figures']}" if fragment["figures"] else ""


def whole(name: str, number: object) -> int | None:
    """A number out of a request, as one that every database driver takes; frames and arrays hold others.

    Raises:
        LanemapError: it is no whole number; ``name`` says which.
    """
    try:
        return None if number is None else operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise LanemapError(f"{name} {number!r} is no whole number: write it like 1") from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise LanemapError(f"{name} {value!r} is not text: write it like {_EXAMPLES[name]!r}")
    return value.strip()


def _word(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value).lower().removeprefix(".")


_EXAMPLES = {
    "shape": "m16n8k16",
    "type": "f16",
    "role": "A",
    "instruction": "mma.sp",
    "major": "row",
    "source": DEFAULT_SOURCE,
}

#: No selector is so far from 0. What a database cannot hold is not in it.
_FAR = 1 << 15


def _stored(asked: dict[str, Value]) -> dict[str, Value]:
    """What was asked, in values that every database takes and that match no more than it would."""
    return {
        name: max(-_FAR, min(value, _FAR)) if isinstance(value, int) else value and _printable(value)
        for name, value in asked.items()
    }


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _shown(value: Value) -> str:
    return repr(value) if isinstance(value, str) and (not value or not value.isprintable()) else str(value)


def _why_none(reader: Reader, asked: dict[str, Value]) -> str:
    """The first name of the request that nothing has, narrowing down in the order in which people think of them."""
    known = reader.select(_FRAGMENTS, dict.fromkeys(asked)).records()
    matched: list[str] = []
    for name in ("source", "instruction", "shape", "type", "role", "major", "selector"):
        value = asked[name]
        if value is None:
            continue
        there = [record for record in known if _alike(record[name], value)]
        if not there:
            options = sorted({str(record[name]) for record in known if record[name] is not None}, key=_naturally)
            of = f" in {' '.join(matched)}" if matched else ""
            return f"no {name} {_shown(value)}{of}: {_suggest(str(value), options)}"
        matched.append(str(there[0][name]))
        known = there
    return "the database is empty: run lanemap ingest"


def _alike(one: Value, other: Value) -> bool:
    return one.lower() == other.lower() if isinstance(one, str) and isinstance(other, str) else one == other


def _naturally(name: str) -> list[tuple[int, str]]:
    """Sort key that counts: m16n8k8 before m16n8k16."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _suggest(name: str, options: list[str]) -> str:
    from difflib import get_close_matches

    if not options:
        return "there is none to choose from"
    close = get_close_matches(name, options, n=1)
    shown = ", ".join(options[:12]) + (", ..." if len(options) > 12 else "")
    return (f"did you mean {close[0]}? " if close else "") + f"there is {shown}"
