"""Which format a request asks for, by ``format=`` or by its header Accept."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Query
from starlette.exceptions import HTTPException

from ...db.report import FORMATS as REPORTS
from ..export import FileFormat
from ..options import Format

Form = TypeVar("Form", bound=StrEnum)

ReportForm = StrEnum("ReportForm", {each.upper(): each for each in (*REPORTS, *Format)})  # type: ignore[misc]
ExportForm = StrEnum("ExportForm", {each.upper(): each for each in FileFormat if each != "dataset"})  # type: ignore[misc]

#: The formats of rows and what they are called in HTTP. The first one is for who accepts anything.
ROWS: Mapping[Format, str] = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.JSONL: "application/jsonl",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.ARROW: "application/vnd.apache.arrow.file",
    Format.TABLE: "text/plain",
}
_REPORTS: Mapping[str, str] = {"markdown": "text/markdown", "html": "text/html", "junit": "application/xml"}
#: The same of reports.
REPORT: Mapping[ReportForm, str] = {
    ReportForm(each): media for table in (ROWS, _REPORTS) for each, media in table.items()
}

_WHICH = "Default: as the header Accept says, else JSON."
Accept = Annotated[str, Header(include_in_schema=False)]


async def of_rows(
    format: Annotated[Format | None, Query(description=_WHICH)] = None,  # noqa: A002
    accept: Accept = "*/*",
) -> Format:
    """The format of rows that a request asks for."""
    return format or _accepted(ROWS, accept)


async def of_report(
    format: Annotated[ReportForm | None, Query(description=_WHICH)] = None,  # noqa: A002
    accept: Accept = "*/*",
) -> ReportForm:
    """The format of a report that a request asks for."""
    return format or _accepted(REPORT, accept)


RowsFormat = Annotated[Format, Depends(of_rows)]
ReportFormat = Annotated[ReportForm, Depends(of_report)]


def described(media: Mapping[Any, str]) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI description says of an answer in these formats."""
    return {200: {"description": "The answer", "content": {each: {} for each in media.values()}}}


def _accepted(media: Mapping[Form, str], accept: str) -> Form:
    """The format that a header Accept wants most.

    Raises:
        HTTPException: it takes none that there is.
    """
    for wanted in _by_preference(accept):
        for each, name in media.items():
            if wanted in (name, "*/*", name.partition("/")[0] + "/*"):
                return each
    raise HTTPException(406, f"none of these can be had: ask for {', '.join(media.values())}")


def _by_preference(accept: str) -> list[str]:
    """The media types of a header Accept, the most wanted first."""
    wanted = []
    for part in accept.lower().split(","):
        media, *parameters = (each.strip() for each in part.split(";"))
        weights = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 0.0
        if weight > 0:
            wanted.append((-weight, media or "*/*"))
    return [media for _, media in sorted(wanted, key=lambda each: each[0])]
