"""A kernel on simulated threads: ``lanemap trace``."""

import json
from enum import StrEnum
from typing import Annotated

from .. import DEFAULT_SOURCE
from .app import DISAGREES, OK, app, open_database, write
from .options import argument, integer, read_text

#: How the report of a trace comes out.
TraceFormat = StrEnum("TraceFormat", ["TABLE", "JSON"])


@app.command(epilog="Example: lanemap trace gemm.ptx --block 64 --arg A=f16[16,16] --arg B=f16[8,16] --arg C=f32[16,8]")
def trace(
    kernel: Annotated[str, argument("KERNEL", "A file of PTX, or - for stdin.")],
    arg: list[str] | None = None,
    product: str | None = None,
    block: str = "32",
    grid: str = "1",
    shared: int = 0,
    entry: str | None = None,
    source: str = DEFAULT_SOURCE,
    seed: int = 0,
    format: TraceFormat = TraceFormat.TABLE,
    db: str | None = None,
) -> int:
    """Run a kernel without a GPU, and judge what its registers hold.

    Arrays hold small random integers, or with =0 behind the shape a number, or as A=@a.npy what is in a file. The left
    side of a product is the output, and begins uninitialised. Without a product, what holds for any kernel is judged:
    operands, races, addresses. Exit code 0: nothing is wrong; 1: something is, or the product could not be checked.
    """
    text = read_text(kernel, "a file of PTX")
    with open_database(db) as database:
        found = database.trace(
            text,
            arg or [],
            product,
            block=_extents(block),
            grid=_extents(grid),
            shared=shared,
            entry=entry,
            source=source,
            seed=seed,
        )
    write(json.dumps(found.records(), indent=1) + "\n" if format is TraceFormat.JSON else found.text() + "\n")
    return OK if found.ok else DISAGREES


def _extents(text: str) -> list[int]:
    return [integer(part) for part in text.split(",")]
