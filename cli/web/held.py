"""The open database, what it holds as a digest, and the operands that were looked at last, in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Request

from ... import Database
from ...db import lookup
from ...db.fragment import Fragment
from ...db.names import Which, of_one_operand
from ...db.reader import Reader

#: Where a GET request keeps the digest of what the database held when it came.
STATE = "lanemap.state"
#: How many operands: the largest one takes half a megabyte.
_MOST = 256


class Held:
    """A database as it is now. Nothing of an earlier state is ever given for a later one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._digest: tuple[object, bytes] = (None, b"")
        self._operands: OrderedDict[tuple[object, ...], Sequence[Fragment]] = OrderedDict()

    async def digest(self) -> bytes:
        """What the database holds.

        Raises:
            LanemapError: it cannot be read.
        """
        at_once = self._reader.location.file is not None
        changes = self._reader.changes() if at_once else await run_sync(self._reader.changes)
        if changes != self._digest[0]:
            # Of a state that is newer than these changes the digest is made again for the next one who asks.
            self._digest = changes, await run_sync(lookup.digest, self._reader)
        return self._digest[1]

    async def operand(
        self, request: Request, shape: str, type_: str | None, role: str | None, which: Which
    ) -> Sequence[Fragment]:
        """The fragments with elements of one operand, as the database was when a request came or later.

        Args:
            request: which has the digest of that state.
            shape: as for ``Database.find``, and likewise for the rest.
            type_: of the operand.
            role: of the operand.
            which: what tells it apart from others.

        Raises:
            LanemapError: there is none.
        """
        key = request.scope.get(STATE), shape, type_, role, *which.values()
        if key not in self._operands:
            self._operands[key] = await run_sync(self._read, shape, type_, role, which)
        self._operands.move_to_end(key)
        while len(self._operands) > _MOST:
            self._operands.popitem(last=False)
        return self._operands[key]

    def _read(self, shape: str, type_: str | None, role: str | None, which: Which) -> Sequence[Fragment]:
        query = of_one_operand(shape, type_, role, **which)
        with self._reader.snapshot():
            found = lookup.operand_with_rows(self._reader, query)
            for each in found:
                each.tuples()  # reads them
            return found


async def opened(request: Request) -> Database:
    """The one that the application was made with. It serves any number of threads."""
    database: Database = request.app.state.database
    return database


#: A parameter of a route.
Opened = Annotated[Database, Depends(opened)]
