"""Pages from templates. Whatever comes from outside is escaped where it is put into a page."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ... import DEFAULT_SOURCE, __version__
from ...db.fragment import Fragment
from ...db.instructions import Key
from ...db.picture.html import stylesheet
from ...db.report.html import STYLE
from ...db.survey import Known
from .links import Links

_FOLDER = Path(__file__).parent

#: What every page links to, where it is.
NAVIGATION = (
    ("compare", "Compare"),
    ("check", "Check"),
    ("defects", "Defects"),
    ("sources", "Sources"),
    ("fleet", "Fleet"),
    ("sql", "SQL"),
)
#: How each state looks besides its colour.
_SIGNS = {
    Known.AGREED: "✓",
    Known.DOCUMENTED: "§",
    Known.MEASURED: "◆",
    Known.IMPORTED: "↓",
    Known.DRAWN: "◇",
    Known.CONTRADICTED: "≠",
    Known.ERROR: "!",
}
_DESCRIPTION = "Which lane, register and slot of a tensor-core instruction holds which matrix element."


@cache
def environment() -> Environment:
    """The templates, with everything escaped."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["signs"] = _SIGNS
    return made


def render(name: str, links: Links, facts: dict[str, Any]) -> str:
    """A page.

    Args:
        name: of the template.
        links: where other pages are.
        facts: what it says, with a ``title``.
    """
    common = {
        "here": name,
        "links": links,
        "navigation": NAVIGATION,
        "version": __version__,
        "asked": "",
        "description": _DESCRIPTION,
        "address": "",
        "preview": "",
    }
    return environment().get_template(f"{name}.html").render(common | facts)


def layouts_css() -> str:
    """The style sheet that is made: the colours of lanes, and that of reports."""
    return stylesheet() + STYLE


def selection(key: Key, source: str | None) -> str:
    """The options of ``lanemap export`` that choose a fragment."""
    options = {"shape": key.shape, "type": key.type, "role": key.role, "instruction": key.instruction}
    options |= {"source": source} if source not in (None, DEFAULT_SOURCE) else {}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in options.items())


def describe(fragment: Fragment) -> str:
    """What a preview of a link says of an operand."""
    rows, cols = fragment.dimensions
    return (
        f"{fragment}, {rows} x {cols}: which of {fragment.threads} lanes holds which element in which of "
        f"{fragment.registers} registers, by {fragment.source}."
    )
