"""The open database as it is now, and what was read of it or made of it, by a cache of limited size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, ParamSpec, TypeVar

from anyio.to_thread import run_sync
from fastapi import Depends, Request

from ... import Database, Fragment, Query, Survey, lookup

P = ParamSpec("P")
T = TypeVar("T")

#: Where a GET request keeps the digest of what the database held when it came.
DIGEST = "lanemap.digest"


@lru_cache(2048)
def _cached(*_key: object) -> list[Any]:
    """A place for what is made of a key, empty until it is made."""
    return []


def remembered(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function gives for these arguments, which decide it whatever the time; the ones used last are kept."""
    place = _cached(function, *args, *kwargs.items())
    if not place:
        place.append(function(*args, **kwargs))
    found: T = place[0]
    return found


class State:
    """A database as it is now. Nothing of an earlier state is ever given for a later one."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def digest(self) -> bytes:
        """What the database holds.

        Raises:
            LanemapError: it cannot be read.
        """
        reader = self.database.reader
        changes = reader.changes() if reader.location.file else await run_sync(reader.changes)
        # Of a state that is newer than these changes the digest is made again for the next one who asks.
        place = _cached(self, changes)
        if not place:
            place.append(await run_sync(lookup.digest, reader))
        found: bytes = place[0]
        return found

    def survey(self) -> Survey:
        """What is known of every operand.

        Raises:
            LanemapError: the database cannot be read.
        """
        return remembered(_survey, self, self.database.reader.changes())

    async def operand(self, request: Request, query: Query) -> Sequence[Fragment]:
        """The fragments with elements of one operand, as the database was when a request came or later.

        Raises:
            LanemapError: there is none.
        """
        place = _cached(self, request.scope.get(DIGEST), query)
        if not place:
            place.append(await run_sync(self._operand, query))
        found: Sequence[Fragment] = place[0]
        return found

    def _operand(self, query: Query) -> Sequence[Fragment]:
        with self.database.reader.snapshot():
            found = self.database.operand(query)
            for each in found:
                each.tuples()  # reads them
            return found


def _survey(state: State, _changes: object) -> Survey:
    return state.database.survey()


async def _state(request: Request) -> State:
    found: State = request.app.state.lanemap
    return found


async def _database(state: Current) -> Database:
    return state.database


def _surveyed(state: Current) -> Survey:
    return state.survey()


#: Parameters of routes.
Current = Annotated[State, Depends(_state)]
Opened = Annotated[Database, Depends(_database)]
Surveyed = Annotated[Survey, Depends(_surveyed)]
