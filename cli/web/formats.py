"""Which format a request asks for, by ``format=`` or by its header Accept, and rows in it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...db.reader import Rows
from ..options import Format
from ..output import encoded

#: The formats of rows and what they are called in HTTP. The first one is for who accepts anything.
MEDIA = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.JSONL: "application/jsonl",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.ARROW: "application/vnd.apache.arrow.file",
    Format.TABLE: "text/plain",
}


def chosen(
    format: Annotated[Format | None, Query(description="Default: as the header Accept says, else JSON.")] = None,  # noqa: A002
    accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
) -> Format:
    """The format that a request asks for.

    Raises:
        HTTPException: it accepts none that there is.
    """
    if format is not None:
        return format
    for wanted in _by_preference(accept):
        for each, media in MEDIA.items():
            if wanted in (media, "*/*", media.partition("/")[0] + "/*"):
                return each
    raise HTTPException(406, f"none of these can be had: ask for {', '.join(MEDIA.values())}")


Chosen = Annotated[Format, Depends(chosen)]


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


def answer(rows: Rows, form: Format) -> Response:
    """Rows in a format, as the command line prints them."""
    return Response(encoded(rows, form), media_type=MEDIA[form])
