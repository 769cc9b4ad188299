"""What ``show`` draws."""

from __future__ import annotations

from rich.console import Console

from ..db import lookup
from ..db.lookup import Query
from ..db.reader import Reader
from .drawing import describe, draw
from .grid import by_element, by_lane
from .options import By


def show(reader: Reader, query: Query, by: By) -> None:
    """Draw each fragment of the operand, one after the other."""
    console = Console(highlight=False, markup=False, emoji=False)
    for index, fragment in enumerate(lookup.one_operand(reader, query)):
        if index:
            console.print()
        for line in describe(fragment):
            console.print(line, soft_wrap=True)
        if not fragment.has_rows:
            console.print("\nno rows: the document only draws this one")
            continue
        draw(by_element(fragment) if by is By.ELEMENT else by_lane(fragment), console)
