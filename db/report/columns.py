"""Rows as text in columns, for reading."""

from __future__ import annotations

from decimal import Decimal
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


def table(rows: Rows) -> str:
    """Columns under their names, two spaces apart, numbers to the right. A missing value is empty."""
    names = [printable(name) for name in rows.columns]
    texts = [["" if value is None else printable(str(plain(value))) for value in row] for row in rows.rows]
    widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
    numeric = [all(isinstance(row[index], int | float | None) for row in rows.rows) for index in range(len(widths))]
    right = [number and bool(rows.rows) for number in numeric]
    lines = []
    for line in (names, *texts):
        cells = zip(line, widths, right, strict=True)
        lines.append("  ".join(text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in cells))
    return "".join(line.rstrip() + "\n" for line in lines)
