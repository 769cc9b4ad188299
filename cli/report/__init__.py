"""Reports of a cross-check. Each module renders one format from the same records, as text.

``everything`` asks for every element that differs, where a report otherwise lists the first few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...db.crosscheck import Check
from ..options import ReportFormat


def render(check: Check, form: ReportFormat, *, everything: bool) -> str:
    """The whole report in one format."""
    return _RENDERERS[form](check, everything)


def _table(check: Check, everything: bool) -> str:
    from .table import render

    return render(check, everything=everything)


def _markdown(check: Check, everything: bool) -> str:
    from .markdown import render

    return render(check, everything=everything)


def _json(check: Check, _everything: bool) -> str:
    from .as_json import render

    return render(check)


def _html(check: Check, everything: bool) -> str:
    from .html import render

    return render(check, everything=everything)


def _junit(check: Check, everything: bool) -> str:
    from .junit import render

    return render(check, everything=everything)


_RENDERERS: Mapping[ReportFormat, Callable[[Check, bool], str]] = {
    ReportFormat.TABLE: _table,
    ReportFormat.MARKDOWN: _markdown,
    ReportFormat.JSON: _json,
    ReportFormat.HTML: _html,
    ReportFormat.JUNIT: _junit,
}
