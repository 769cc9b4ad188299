"""Reports of a cross-check. A format is a module with a function ``render``, and an entry here.

Those in DEFECTS also have a function ``defects``, which renders the defects of sources.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import LanemapError

if TYPE_CHECKING:
    from ..crosscheck import Check
    from ..defect import Report

#: Each format and its module.
FORMATS = {
    "table": "terminal",
    "markdown": "markdown",
    "json": "as_json",
    "html": "html",
    "junit": "junit",
}

#: The formats in which defects are reported.
DEFECTS = ("markdown", "html", "json")


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


def render_defects(report: Report, form: str = "markdown") -> str:
    """The defects of sources in one of DEFECTS.

    Raises:
        LanemapError: there is no such format.
    """
    if form not in DEFECTS:
        raise LanemapError(f"defects are reported as {', '.join(DEFECTS)}, not as {form!r}", "format")
    text: str = import_module(f".{FORMATS[form]}", __name__).defects(report)
    return text
