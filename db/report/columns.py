"""Rows as text in columns, for reading."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from math import isfinite
from typing import Any

from ..errors import printable
from ..reader import Rows


def plain(value: Any) -> str | int | float | None:
    """A value as text and JSON can hold it: bytes in hexadecimal, whole decimals as numbers, the rest as it is said."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal) and value.is_finite() and abs(value) < 1 << 63:
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def table(rows: Rows, room: int | None = None) -> str:
    """Columns under their names, two spaces apart, numbers to the right. A missing value is empty.

    Where lines would be longer than ``room``, the widest columns are narrowed, and their text broken between words.
    """
    names = [printable(name) for name in rows.columns]
    texts = [["" if value is None else printable(str(plain(value))) for value in row] for row in rows.rows]
    widths = _fitted([[name, *column] for name, *column in zip(names, *texts, strict=True)], room)
    numeric = [all(isinstance(row[index], int | float | None) for row in rows.rows) for index in range(len(widths))]
    right = [number and bool(rows.rows) for number in numeric]
    lines = []
    for line in (names, *texts):
        parts = zip_longest(*(_broken(text, width) for text, width in zip(line, widths, strict=True)), fillvalue="")
        for part in parts:
            cells = zip(part, widths, right, strict=True)
            lines.append(
                "  ".join(text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in cells)
            )
    return "".join(line.rstrip() + "\n" for line in lines)


def _fitted(columns: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """The width of each column: as wide as its texts or, if need be and not below its longest word, narrower."""
    widths = [max(map(len, column)) for column in columns]
    least = [max(len(word) for text in column for word in text.split() or [""]) for column in columns]
    while room is not None and sum(widths) + 2 * (len(widths) - 1) > room:
        wide = [at for at, width in enumerate(widths) if width > least[at]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _broken(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
