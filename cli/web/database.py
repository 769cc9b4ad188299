"""The open database, for every route."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ... import Database


async def opened(request: Request) -> Database:
    """The one that the application was made with. It serves any number of threads."""
    database: Database = request.app.state.database
    return database


#: A parameter of a route.
Opened = Annotated[Database, Depends(opened)]
