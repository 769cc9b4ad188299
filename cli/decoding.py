"""What ``decode`` does: sparsity metadata to columns, and back."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..capture.recording import shipped
from ..db.errors import LanemapError
from ..db.fragment import Fragment
from ..db.lookup import Query, read_fragments, sources
from ..db.metadata import decode, encode
from ..db.reader import Reader, Rows

_PLACE = ("lane", "reg", "slot")

#: Kinds of sources, those that know metadata best first.
_KINDS = ("capture", "import")


def operands(
    reader: Reader, shape: str, type_: str, selector: int | None, source: str | None
) -> tuple[Fragment, Fragment]:
    """A and E of one sparse instruction from the most trustworthy source that has the elements of both.

    Where no source is named and there are several, the one that is used is named on stderr.
    """
    e_there = read_fragments(reader, Query(shape, type_, "E", "mma.sp", source=source))
    a_there = {a.source: a for a in read_fragments(reader, Query(shape, type_, "A", "mma.sp", source=source))}
    selectors = sorted({e.selector for e in e_there if e.selector is not None})
    if selector is None and len(selectors) > 1:
        raise LanemapError(
            f"E of mma.sp {shape} {type_} depends on the sparsity selector: say --selector 0 to {selectors[-1]}"
        )
    found: dict[str, tuple[Fragment, Fragment]] = {}
    for e in e_there:
        a = a_there.get(e.source)
        if e.has_rows and a is not None and a.has_rows and selector in (None, e.selector):
            found.setdefault(str(e.source), (a, e))
    if len(found) > 1:
        used, *others = _by_trust(reader, found)
        sys.stderr.write(f"lanemap: metadata as in {used}; --source takes another: {', '.join(others)}\n")
        return found[used]
    if found:
        return next(iter(found.values()))
    if selector is not None and selector not in selectors:
        raise LanemapError(
            f"mma.sp {shape} {type_} takes --selector {' or '.join(map(str, selectors))}, not {selector}"
        )
    raise LanemapError(f"no source has the elements of E of mma.sp {shape} {type_}: only a capture can have them")


def _by_trust(reader: Reader, names: Iterable[str]) -> list[str]:
    """Names of sources: shipped captures, then other captures, imports, and the rest; alike ones by name.

    Not by when they were loaded: loading what ships anew must not change an answer.
    """
    kinds = {record["name"]: record["kind"] for record in sources(reader).records()}
    ships = shipped()

    def trust(name: str) -> tuple[bool, int, str]:
        kind = kinds[name]
        return name not in ships, _KINDS.index(kind) if kind in _KINDS else len(_KINDS), name

    return sorted(names, key=trust)


def columns_of(words: Sequence[str], a: Fragment, e: Fragment) -> Rows:
    """The column of each element of A that metadata words select: one word for each lane, or one for all."""
    numbers = [_number(word) for word in words]
    if len(numbers) not in (1, a.threads):
        raise LanemapError(
            f"{len(numbers)} words of metadata: give {a.threads}, one for each lane, or one for all lanes"
        )
    columns = decode(np.resize(np.asarray(numbers, np.uint32), a.threads), a, e)
    assert a.elements is not None
    places = a.elements[[*_PLACE, "row"]].tolist()
    return Rows((*_PLACE, "row", "col"), [(*place, int(col)) for place, col in zip(places, columns, strict=True)])


def words_of(file: str, a: Fragment, e: Fragment) -> Rows:
    """The metadata word of each lane that selects the columns in a CSV file with lane, reg, slot and col."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LanemapError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    rows = list(csv.DictReader(text.splitlines()))
    try:
        chosen = {tuple(int(row[name]) for name in _PLACE): int(row["col"]) for row in rows}
    except (KeyError, TypeError, ValueError):
        raise LanemapError(
            f"{file} is no table of columns: it needs lane, reg, slot and col, as decode prints them"
        ) from None
    assert a.elements is not None
    places = [tuple(place) for place in a.elements[list(_PLACE)].tolist()]
    if missing := [place for place in places if place not in chosen]:
        lane, reg, slot = missing[0]
        raise LanemapError(
            f"{file} has no column for {len(missing)} of {len(places)} elements, as lane {lane} reg {reg} slot {slot}"
        )
    words = encode(np.asarray([chosen[place] for place in places]), a, e)
    return Rows(("lane", "metadata"), [(lane, f"0x{word:08X}") for lane, word in enumerate(words.tolist())])


def _number(word: str) -> int:
    try:
        number = int(word, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise LanemapError(f"{word!r} is no word of metadata: write 32 bits, as in 0x44444444")
    return number
