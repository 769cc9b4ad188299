"""Reports of a cross-check. A format is a module with a function ``render``, and an entry here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..crosscheck import Check

#: Each format and its module.
FORMATS = {
    "table": "terminal",
    "markdown": "markdown",
    "json": "as_json",
    "html": "html",
    "junit": "junit",
}


def render(check: Check, form: str = "table", *, everything: bool = False) -> str:
    """The whole report in one format.

    Args:
        check: what ``diff`` or ``check`` found.
        form: one of FORMATS.
        everything: list every element that differs and every fragment of one side, where a report otherwise lists the
            first few and counts the rest. JSON always has everything.
    """
    text: str = import_module(f".{FORMATS[form]}", __name__).render(check, everything=everything)
    return text
