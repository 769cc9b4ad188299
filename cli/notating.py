"""What ``export`` writes in other toolchains' notations."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from .. import DEFAULT_SOURCE, __version__
from ..db.files import atomically
from ..db.lookup import Query, read_fragments, with_rows
from ..db.notation import RefusedError
from ..db.notation.export import export as express
from ..db.reader import Reader


def export(reader: Reader, query: Query, name: str, output: str) -> list[RefusedError]:
    """Write the fragments that match to a file, or to stdout for ``-``; what the notation refused, if not all.

    Raises:
        LanemapError: nothing matches, nothing has rows, or the notation refuses everything.
    """
    query = replace(query, source=DEFAULT_SOURCE if query.source is None else query.source)
    text, refused = express(with_rows(reader, read_fragments(reader, query)), name, __version__)
    if output == "-":
        sys.stdout.write(text)
        return refused
    with atomically(Path(output)) as stream:
        stream.write(text.encode())
    return refused
