"""Rows, answers that are rows, and rows as text in columns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import LanemapError
from .text import brief, printable

if TYPE_CHECKING:
    import pandas as pd


#: How many rows a repr shows at most.
_FEW = 40


@dataclass(frozen=True, repr=False)
class Rows:
    """The result of a query: the names of its columns, and its rows as tuples."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def __repr__(self) -> str:
        few = table(Rows(self.columns, self.rows[:_FEW]))
        return brief(few, f"all {len(self.rows)} are in rows and frame()", whole=len(self.rows) <= _FEW)

    def named(self) -> Rows:
        """The same rows, for formats that tell columns apart by their names.

        Raises:
            LanemapError: two have the same name.
        """
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise LanemapError(f"two columns are called {twice!r}: name them apart, as in SELECT row AS a, col AS b")
        return self

    def by_column(self) -> list[tuple[Any, ...]]:
        """The values of each column."""
        return list(zip(*self.rows, strict=True)) or [()] * len(self.columns)

    def only(self, wanted: Callable[[str, tuple[Any, ...]], bool]) -> Rows:
        """The rows with only those columns whose name and values are ``wanted``."""
        places = [at for at, values in enumerate(self.by_column()) if wanted(self.columns[at], values)]
        return Rows(tuple(self.columns[at] for at in places), [tuple(row[at] for at in places) for row in self.rows])

    def filled(self) -> Rows:
        """The rows with only those columns in which one has a value."""
        return self.only(lambda _, values: any(value is not None for value in values))

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries.

        Raises:
            LanemapError: two columns have the same name.
        """
        self.named()
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def frame(self) -> pd.DataFrame:
        """The rows as a frame.

        Raises:
            LanemapError: two columns have the same name.
        """
        import pandas as pd

        return pd.DataFrame.from_records(list(self.named().rows), columns=list(self.columns))


class Tabular(ABC):
    """Something that can be expressed as rows."""

    @abstractmethod
    def rows(self) -> Rows:
        """Everything as rows."""

    def __repr__(self) -> str:
        return repr(self.rows())

    def frame(self) -> pd.DataFrame:
        """The rows as a frame."""
        return self.rows().frame()


def plain(value: Any) -> str | int | float | None:
    """A value for text and JSON: bytes in hexadecimal, decimals as numbers, anything unknown as its text."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    # A Decimal, whose module a look-up does not import.
    if hasattr(value, "to_integral_value") and value.is_finite() and abs(value) < 1 << 63:
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def table(rows: Rows, room: int | None = None) -> str:
    """Columns under their names, two spaces apart, numbers to the right. A missing value is empty.

    If lines would be longer than ``room``, columns with one value in all rows are put above the table, then text is
    broken between words. If that is not enough, each row becomes a paragraph with a line for each column.
    """
    columns = [
        _Column(
            printable(name),
            ["" if value is None else printable(str(plain(value))) for value in values],
            to_right=bool(values) and all(isinstance(value, int | float | None) for value in values),
        )
        for name, values in zip(rows.columns, rows.by_column(), strict=True)
    ]
    if room is None or _width([column.width for column in columns]) <= room:
        return "".join(_lines(columns, [column.width for column in columns]))
    above: list[str] = []
    below = list(columns)
    repeated = sorted(
        (column for column in columns if len(column.texts) > 1 and len(set(column.texts)) == 1),
        key=lambda column: column.width,
    )
    while repeated and len(below) > 1 and _width([column.least for column in below]) > room:
        constant = repeated.pop()
        above.append(f"{constant.name}: {constant.texts[0]}")
        below.remove(constant)
    if _width([column.least for column in below]) > room:
        return "\n".join("".join(_paragraph(columns, at, room)) for at in range(len(rows.rows)))
    heading = [line + "\n" for text in above for line in _broken(text, room)]
    widths = [column.width for column in below]
    while _width(widths) > room:  # the widest is narrowed first
        wide = [at for at, column in enumerate(below) if widths[at] > column.least]
        widths[max(wide, key=widths.__getitem__)] -= 1
    return "".join([*heading, "\n" * bool(heading), *_lines(below, widths)])


def report(parts: Iterable[str | Rows], room: int | None = None) -> str:
    """Lines and tables one below the other, with a blank line before and after each table.

    A line that is longer than ``room``, or 80, continues below its own words, to the right of its label.
    """
    written = []
    for part in parts:
        if isinstance(part, str):
            label = re.match(r"[A-Za-z]+( \d+)?: *|  +", part)
            indent = " " * len(label[0] if label else "")
            written += wrapped(part, room or 80, indent)
        else:
            written += ["", *table(part, room).splitlines(), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).strip("\n")


class Told(Tabular):
    """An answer that shows itself in the same way in a terminal and a notebook, and as rows for programs.

    ``remarks`` are sentences on how it differs from what was asked for, and on what to ask next; ``failed`` says what
    there is not of it, which is not in the rows.
    """

    remarks: Sequence[str] = ()
    failed: Sequence[str] = ()

    #: Return it as a C++ device function, where it is a chain or a recipe. The package attaches it.
    cpp: ClassVar[Callable[[Any], str]]

    @property
    def exit_code(self) -> int:
        """What a command exits with that gives it: 1 where something is wrong."""
        return 0

    @abstractmethod
    def parts(self) -> Iterator[str | Rows]:
        """Its text: lines, and tables below them."""

    def text(self, room: int | None = None) -> str:
        """Its text in lines no longer than ``room``."""
        return report(self.parts(), room)

    def __repr__(self) -> str:
        return brief(self.text(), "print() shows all, frame() has it as rows")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Its text in a notebook."""
        from html import escape  # not needed by a look-up

        return f"<pre>{escape(str(self))}</pre>"


#: How many lines a text is broken into at most.
_TALLEST = 8


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    texts: Sequence[str]
    to_right: bool

    @property
    def width(self) -> int:
        """The width of its widest text."""
        return max(map(len, (self.name, *self.texts)))

    @property
    def least(self) -> int:
        """The least width that fits its longest word and breaks no text into many lines."""
        texts = self.name, *self.texts
        return max(max(len(text) // (_TALLEST - 1), *map(len, text.split())) for text in texts if text)


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _lines(columns: Sequence[_Column], widths: Sequence[int]) -> Iterator[str]:
    for texts in zip(*([column.name, *column.texts] for column in columns), strict=True):
        parts = (_broken(text, width) for text, width in zip(texts, widths, strict=True))
        for part in zip_longest(*parts, fillvalue=""):
            cells = zip(part, widths, columns, strict=True)
            line = "  ".join(
                text.rjust(width) if column.to_right else text.ljust(width) for text, width, column in cells
            )
            yield line.rstrip() + "\n"


def _paragraph(columns: Sequence[_Column], at: int, room: int) -> Iterator[str]:
    margin = 2 + max(len(column.name) for column in columns)
    for column in columns:
        for number, text in enumerate(_broken(column.texts[at], max(room - margin, margin))):
            yield f"{'' if number else column.name:<{margin}}{text}".rstrip() + "\n"


def _broken(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else wrapped(text, width)


def wrapped(text: str, width: int, indent: str = "", first: str = "") -> list[str]:
    """Text in lines that end between words, all but the first indented. A word longer than a line stays whole."""
    import textwrap  # not needed where all lines fit

    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
