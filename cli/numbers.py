"""Numbers on the command line."""

from __future__ import annotations

import re

import typer

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")


def integer(text: str) -> int:
    """A whole number as people write one; Python itself would take 1_0 for 10.

    >>> integer("-1")
    -1
    """
    if not _INTEGER.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not a valid integer.")
    return int(text)
