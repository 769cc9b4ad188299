"""``lanemap capture``."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from .. import LanemapError, measure, send_capture, shipped_capture, write_capture
from ..db.fragment import Source
from ..db.instructions import Form
from ..db.location import named_file
from ..db.reader import Rows
from .app import DISAGREES, app, complain, open_database
from .options import Db, Format, Output, SomeShape, SomeTypes
from .output import counted, table, write_rows
from .token import read_token

if TYPE_CHECKING:
    from ..db.forms import Move


@app.command(epilog="Example: lanemap capture --instruction mma.sp --output sparse.parquet")
def capture(  # over 40 lines: most of them are its options
    pattern: Annotated[
        str | None,
        typer.Option("--instruction", "-i", help="mma, mma.sp, or a pattern such as '*.b1.*'.", metavar="NAME"),
    ] = None,
    shape: SomeShape = None,
    type: SomeTypes = None,  # noqa: A002
    device: Annotated[int, typer.Option("--device", help="Number of the GPU.", min=0, metavar="N")] = 0,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write a capture file, not the database.", metavar="FILE")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the source. Default: after the GPU.", metavar="NAME")
    ] = None,
    send: Annotated[
        str | None, typer.Option("--send", help="Send it to a server, not into the database.", metavar="URL")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", help="The token of that server.", metavar="FILE")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Say what would run. Needs no GPU.")] = False,
    ptx: Annotated[
        str | None, typer.Option("--ptx", help="Write every kernel to this folder. Needs no GPU.", metavar="DIR")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="List every instruction, also those that the card does not have.")
    ] = False,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Measure layouts on the GPU of this machine.

    They become a source in the database, or with --output a file. It needs PyCUDA (the extra "capture", with a CUDA
    toolkit) and an NVIDIA driver. Exit code 1: an instruction failed, or disagrees with the document or with another
    instruction.
    """
    from ..db.forms import select

    if output is not None and (show or ptx is not None):
        raise LanemapError(f"--output is for what is measured: leave it out, or {'--list' if show else '--ptx'}")
    file = None if output is None else named_file(output, "a capture file")
    if show or ptx is not None:
        _write_forms(select(pattern, shape, type), ptx, format if show else None)
        return
    token = _token(send, token_file)
    started = time.perf_counter()
    with _progress(len(select(pattern, shape, type))) as advance:
        source = measure(pattern, shape, type, device=device, name=name, progress=advance)
    seconds, shipped = time.perf_counter() - started, shipped_capture(source.provenance["device"]["target"])
    if file:
        write_capture(source, file)
        stored = str(file)
    if send:
        source, stored = replace(source, name=_send(source, file, send, token)), send
    elif not file:
        with open_database(db) as database:
            source = database.add_capture(source, own_name=name is not None)
            stored = str(database.location)
    _write_results(source, list(_summary(source, shipped, seconds, stored)), format, everything=everything)
    from ..db.crosscheck import failures  # what lists forms alone goes without numpy

    troubles = list(failures(source))
    for trouble in troubles:
        complain(trouble.words)
    if troubles:
        raise typer.Exit(DISAGREES)


def _write_forms(forms: Sequence[Form | Move], folder: str | None, form: Format | None) -> None:
    """What needs no GPU: the kernels in a folder, and in a format what a capture would run."""
    if folder is not None:
        from ..capture.kernels import write_kernels

        written = named_file(folder, "a folder for the kernels")
        sys.stdout.write(f"{counted(write_kernels(forms, written), 'kernel')} in {written}\n")
    found = _forms(forms)
    if form is Format.TABLE:  # not narrowed: a mnemonic, which says the rest, cannot be broken
        sys.stdout.write(table(Rows(("target", "instruction"), [(row[-1], row[0]) for row in found.rows])))
    elif form:
        write_rows(found, form)


def _write_results(source: Source, summary: Sequence[str], form: Format, *, everything: bool) -> None:
    """The summary in words, and what became of each instruction: in a table only where ``everything`` is asked for."""
    say = sys.stdout if form is Format.TABLE else sys.stderr
    for line in summary:
        lines = wrap(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        say.write("\n".join(lines) + "\n")
    if form is not Format.TABLE:
        write_rows(_results(source), form)
    elif everything:
        sys.stdout.write("\n" + table(Rows(("status", "instruction"), [row[1::-1] for row in _results(source).rows])))


def _summary(source: Source, shipped: Source | None, seconds: float, stored: str) -> Iterator[str]:
    """What was captured, how it compares with the run that ships of the same architecture, and where it is."""
    from ..db.compare import Verdict
    from ..db.crosscheck import diff

    device, on_gpu = source.provenance["device"], source.provenance["gpu_seconds"]
    count = Counter(result["status"] for result in source.provenance["instructions"])
    captured = counted(count["captured"], "instruction")
    yield f"{device['name']}, {device['target']}: {captured} captured, {count['failed']} failed"
    yield f"it took {seconds:.2f} s, {on_gpu:.3f} s of it on the GPU"
    if count["unsupported"]:
        yield f"{count['unsupported']} more are not on this card: --all lists them"
    if shipped is None:
        yield f"no run of {device['target']} ships with Lanemap to compare it with"
    elif any(each.key in {other.key for other in shipped.fragments} for each in source.fragments):
        results = diff(source, shipped).comparisons[0].results
        found = Counter(each.verdict for each in results)
        said = [f"{found[each]} {each.value}" for each in Verdict if found[each] and each is not Verdict.RIGHT_ONLY]
        yield f"compared with {shipped.name}, which ships: {', '.join(said)}".replace("left only", "only here")
    yield f"stored as {source.name} in {stored}"


def _token(url: str | None, file: str | None) -> str:
    """The token for a server, asked for before anything is measured."""
    from ..capture.send import expect_address

    if (url is None) != (file is None):
        raise LanemapError("--send and --token-file go together: name a server, and the file with its token")
    if url is None or file is None:
        return ""
    expect_address(url)
    return read_token(file)


def _send(source: Source, file: Path | None, url: str, token: str) -> str:
    """Send a capture. Where that fails it is kept in a file, because nobody wants to measure again."""
    from tempfile import mkdtemp

    kept = file or Path(mkdtemp(prefix="lanemap-"), f"{source.name}.parquet")
    if not file:
        write_capture(source, kept)
    try:
        stored = send_capture(kept, url, token)
    except LanemapError as error:
        raise LanemapError(f"{error}: the capture is in {kept}") from None
    if not file:
        kept.unlink()
        kept.parent.rmdir()
    return stored


def _forms(forms: Sequence[Form | Move]) -> Rows:
    """What a capture would run."""
    from ..db.forms import Move

    columns = ("instruction", "shape", "type", "accumulator", "majors", "selectors", "target")
    rows: list[tuple[str | None, ...]] = []
    for each in forms:
        if isinstance(each, Move):
            rows.append((each.mnemonic, each.shape, each.type, None, each.layout, None, each.target))
            continue
        selectors = " ".join(str(selector) for selector in each.selectors if selector is not None) or None
        rows.append((each.mnemonic, each.shape, each.a, each.d, " ".join(each.majors), selectors, each.target))
    return Rows(columns, rows)


def _results(source: Source) -> Rows:
    """One row per instruction: what became of it."""
    rows = []
    for result in source.provenance["instructions"]:
        documented = result["documented"]["verdict"] if result["documented"] else None
        message = result["message"] if result["status"] == "failed" else None
        seconds = round(result["seconds"], 3)
        rows.append((result["instruction"], result["status"], result["probes"], seconds, documented, message))
    return Rows(("instruction", "status", "probes", "seconds", "documented", "message"), rows)


@contextmanager
def _progress(count: int) -> Iterator[Callable[[object], object] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("capturing", total=count)
        yield lambda _: bar.advance(task)
