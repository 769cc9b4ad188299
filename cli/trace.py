"""A kernel on simulated threads: ``lanemap trace``."""

from typing import Annotated

from .app import app, open_database, opened, progress_line, write
from .options import ReportFormat, argument, read_text


@app.command(epilog="Example: lanemap trace gemm.ptx --block 64 --arg A=f16[16,16] --arg B=f16[8,16] --arg C=f32[16,8]")
def trace(
    kernel: Annotated[str, argument("KERNEL", "A file of PTX, or - for stdin.")],
    arg: list[str] | None = None,
    product: str | None = None,
    args: str | None = None,
    block: str | None = None,
    grid: str | None = None,
    shared: int | None = None,
    entry: str | None = None,
    source: Annotated[str | None, "Whose layouts tensor instructions have. Default: best."] = None,
    seed: int | None = None,
    save: str | None = None,
    format: ReportFormat = ReportFormat.TABLE,
    output: str = "-",
    db: str | None = None,
) -> int:
    """Run a kernel without a GPU, and judge what its registers hold.

    Arrays hold small random integers, or with =0 behind the shape a number, or as A=@a.npy what is in a file. The left
    side of a product is the output, and begins uninitialised. Without a product, what holds for any kernel is judged:
    operands, races, addresses. All options may stand in a file instead, as in lanemap trace gemm.ptx --args
    gemm.trace.toml; those of the command take the place of what it says. Exit code 0: nothing is wrong; 1: something
    is, or the product could not be checked.
    """
    with open_database(db) as database, opened(output, filter(None, (kernel, args))) as file:
        with progress_line("blocks have ended") as progress:
            found = database.trace(
                read_text(kernel, "a file of PTX") if kernel == "-" else kernel,
                arg or [],
                product,
                args=args,
                block=block,
                grid=grid,
                shared=shared,
                entry=entry,
                source=source,
                seed=seed,
                save=save,
                progress=progress,
            )
        write(found.report(format), file)
    return found.exit_code
