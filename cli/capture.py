"""``lanemap capture``."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import count
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from .. import LanemapError, Rows, forms, measure, named_file, shipped_captures, write_capture
from ..db.text import counted
from .app import DISAGREES, OK, app, encoded, open_database, progress_line, remark, write, write_rows
from .options import Format

if TYPE_CHECKING:
    from .. import Form, Source


@app.command(epilog="Example: lanemap capture --instruction mma.sp --output sparse.parquet")
def capture(
    instruction: Annotated[str | None, "mma, mma.sp, or a pattern such as '*.b1.*'."] = None,
    shape: str | None = None,
    type: list[str] | None = None,
    device: Annotated[int, typer.Option("--device", help="Number of the GPU.", min=0, metavar="N")] = 0,
    output: Annotated[str | None, "Write a capture file, not the database."] = None,
    name: Annotated[str | None, "Name of the source. Default: after the GPU."] = None,
    ptxas: Annotated[
        str | None, typer.Option(help="Assembles what the driver's compiler does not take.", metavar="PATH")
    ] = None,
    listed: Annotated[bool, "Say what would run. Needs no GPU."] = False,
    ptx: Annotated[
        str | None, typer.Option("--ptx", help="Write every kernel to this folder. Needs no GPU.", metavar="DIR")
    ] = None,
    everything: Annotated[bool, "List every instruction, also those that the card does not have."] = False,
    format: Format = Format.TABLE,
    db: str | None = None,
) -> int:
    """Measure layouts on the GPU of this machine.

    They become a source in the database, or with --output a file. It needs PyCUDA (the extra "capture", with a CUDA
    toolkit) and an NVIDIA driver. Exit code 1: an instruction failed, or disagrees with the document or with another
    instruction.
    """
    if output is not None and (listed or ptx is not None):
        raise LanemapError(f"--output is for what is measured: leave it out, or {'--list' if listed else '--ptx'}")
    file = None if output is None else named_file(output, "a capture file")
    if listed or ptx is not None:
        selected = forms(instruction, shape, type)
        if ptx is not None:
            from .. import write_kernels

            folder = named_file(ptx, "a folder for the kernels")
            sys.stdout.write(f"{counted(write_kernels(selected, folder), 'kernel')} in {folder}\n")
        if listed:
            _write_forms(selected, format)
        return OK
    # Each process takes a core; threads of numpy's would only wait for each other. Its probes run one after another:
    # with one queue to the GPU instead of eight the driver makes a context in half the time.
    for number in ("OPENBLAS_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS"):
        os.environ.setdefault(number, "1")
    started = time.perf_counter()
    total, done = len(forms(instruction, shape, type)), count(1)
    with progress_line("instructions") as progress, ThreadPoolExecutor(1) as beside:

        @cache
        def ships() -> Future[Mapping[str, Source]]:
            return beside.submit(shipped_captures)

        def measured(_: object) -> None:
            progress(next(done), total)
            ships()  # while the card works, and not before all processes are forked

        source = measure(instruction, shape, type, device=device, name=name, progress=measured, ptxas=ptxas)
        seconds, shipped = time.perf_counter() - started, ships().result().get(source.provenance["device"]["target"])
    if file:
        write_capture(source, file)
        stored = str(file)
    else:
        with open_database(db) as database:
            source = database.add_capture(source, own_name=name is not None)
            stored = str(database.location)
    _write_results(source, list(_summary(source, shipped, seconds, stored)), format, everything=everything)
    from .. import failures  # what lists forms alone goes without numpy

    troubles = [trouble.words for trouble in failures(source)]
    remark(troubles)
    return DISAGREES if troubles else OK


def _write_forms(selected: Sequence[Form], form: Format) -> None:
    """What a capture would run."""
    if form is Format.TABLE:  # only two columns, as a mnemonic cannot be broken and says the rest
        write(encoded(Rows(("target", "instruction"), [(chosen.target, chosen.mnemonic) for chosen in selected]), form))
        return
    rows: list[tuple[str | None, ...]] = []
    for chosen in selected:
        selectors = " ".join(str(selector) for selector in chosen.selectors if selector is not None) or None
        majors = chosen.layout if chosen.role else " ".join(chosen.majors)
        rows.append((chosen.mnemonic, chosen.shape, chosen.a, chosen.d or None, majors, selectors, chosen.target))
    columns = ("instruction", "shape", "type", "accumulator", "majors", "selectors", "target")
    write_rows(Rows(columns, rows), form)


def _write_results(source: Source, summary: Sequence[str], form: Format, *, everything: bool) -> None:
    """The summary in words, and the outcome of each instruction: in a table only if ``everything``."""
    say = sys.stdout if form is Format.TABLE else sys.stderr
    for line in summary:
        lines = wrap(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        say.write("\n".join(lines) + "\n")
    rows = []
    for record in source.provenance["instructions"]:
        documented = record["documented"]["verdict"] if record["documented"] else None
        message = record["message"] if record["status"] == "failed" else None
        measured = record["instruction"], record["status"], record["probes"], round(record["seconds"], 3)
        rows.append((*measured, documented, message))
    if form is not Format.TABLE:
        write_rows(Rows(("instruction", "status", "probes", "seconds", "documented", "message"), rows), form)
    elif everything:
        write("\n")
        write(encoded(Rows(("status", "instruction"), [row[1::-1] for row in rows]), form))


def _summary(source: Source, shipped: Source | None, seconds: float, stored: str) -> Iterator[str]:
    """What was captured, how it compares with the shipped run of the same architecture, and where it is stored."""
    from .. import diff

    device, on_gpu = source.provenance["device"], source.provenance["gpu_seconds"]
    status = Counter(result["status"] for result in source.provenance["instructions"])
    captured = counted(status["captured"], "instruction")
    yield f"{device['name']}, {device['target']}: {captured} captured, {status['failed']} failed"
    yield f"it took {seconds:.2f} s, {on_gpu:.3f} s of it on the GPU"
    if status["unsupported"]:
        yield f"this card does not support {status['unsupported']} more: --all lists them"
    if shipped is None:
        yield f"no run of {device['target']} ships with Lanemap to compare it with"
    elif any(fragment.key in {other.key for other in shipped.fragments} for fragment in source.fragments):
        results = diff([source], [shipped]).comparisons[0].results
        counts = Counter(result.verdict for result in results if result.left)
        verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
        yield f"compared with {shipped.name}, which ships: {verdicts}".replace("left only", "only here")
    yield f"stored as {source.name} in {stored}"
