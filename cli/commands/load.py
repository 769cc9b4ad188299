"""Commands that bring layouts in: documents, imports and captures, and the metadata that captures explain."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from ... import LanemapError
from ...db.location import named_file
from ..app import DISAGREES, app, complain, open_database, progress
from ..options import Db, Format, Kind, Output, Selector, Shape, SomeShape, SomeSource, SomeType, Type, What


@app.command(epilog="Example: lanemap ingest --db layouts.db")
def ingest(
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DOCUMENT]...", help="Pages of the PTX documentation, or folders of them."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Name of the source. Default: after the version in the text.")
    ] = None,
    slips: Annotated[bool, typer.Option("--slips", help="List what is wrong or doubtful in the text itself.")] = False,
    catalogue: Annotated[
        str | None, typer.Option("--catalogue", help="Write files of the catalogue to this folder.", metavar="DIR")
    ] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load PTX documentation as a source, and say what of it could not be read.

    HTML, Markdown and plain text, as in lanemap ingest ptx-isa.html --slips. Without a document: load the shipped
    sources anew; other sources stay. Exit code 1: something was not read; 2: nothing was.
    """
    if not documents:
        if name is not None or slips or catalogue is not None:
            raise LanemapError("--name, --slips and --catalogue go with documents: name a file or folder")
        from ... import refresh
        from ...db.lookup import Query
        from ..listing import listing
        from ..output import write_rows

        with refresh(db, progress=progress) as database:
            write_rows(listing(database.reader, What.SOURCES, Query()), format)
        return
    from ... import read_documents
    from .. import ingesting

    folder = None if catalogue is None else named_file(catalogue, "a folder for the catalogue")
    readings = read_documents(*documents, url=db, name=name, progress=progress)
    ingesting.report(readings, slips=slips, form=format)
    if not any(reading.source.fragments for reading in readings):
        raise LanemapError(f"no fragment in {', '.join(documents)}: give pages on the fragments of mma or mma.sp")
    if folder:
        ingesting.write_catalogue(readings, folder)
    if not all(reading.complete for reading in readings):
        raise typer.Exit(DISAGREES)


@app.command("import", epilog="Example: lanemap import python triton")
def import_(
    kind: Kind,
    path: Annotated[
        str | None, typer.Argument(help="A file or folder, or a mapping's name; tensor-layouts needs none.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="What to call the source.")] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="The Python that has the library of a mapping.", metavar="PATH")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the mappings that ship.")] = False,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load a capture file, another toolchain's layouts, or anyone's table; list what was left out and why.

    cute is a CUTLASS source tree or header; table is CSV, Parquet or Arrow with the first eight columns of layout;
    python is a mapping, a TOML file that names layout functions and what each claims.
    A table of reasons counts what each left out; the other formats name every atom.
    """
    from ... import import_layouts
    from ..importing import list_mappings, write_imported

    if show:
        list_mappings(kind, format)
        return
    found = import_layouts(kind.lower(), path, name=name, python=python, url=db, progress=progress)
    write_imported(found, format)


@app.command(epilog="Example: lanemap capture --instruction mma.sp --output sparse.parquet")
def capture(
    pattern: Annotated[
        str | None, typer.Option("--instruction", "-i", help="mma, mma.sp, or a pattern such as '*.b1.*'.")
    ] = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    device: Annotated[int, typer.Option("--device", help="Number of the GPU.", min=0)] = 0,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write a capture file, not the database.", metavar="FILE")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the source. Default: after the GPU.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Say what would run. Needs no GPU.")] = False,
    ptx: Annotated[
        str | None, typer.Option("--ptx", help="Write every kernel to this folder. Needs no GPU.", metavar="DIR")
    ] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Measure layouts on the GPU of this machine, as a new source or a file that stands alone.

    It needs PyCUDA (pip install "lanemap[capture]", with a CUDA toolkit) and an NVIDIA driver. Exit code 1: an
    instruction failed, or disagrees with the document or with another one.
    """
    from ...db.fragment import check_name
    from .. import capturing
    from ..output import write_rows

    if output is not None and (show or ptx is not None):
        raise LanemapError(f"--output is for what is measured: leave it out, or {'--list' if show else '--ptx'}")
    file = None if output is None else named_file(output, "a capture file")
    folder = None if ptx is None else named_file(ptx, "a folder for the kernels")
    if name is not None:
        check_name(name)
    instructions = capturing.chosen(pattern, shape, type)
    if folder:
        count = capturing.write_ptx(instructions, folder)
        sys.stdout.write(f"{count} kernels in {folder}\n")
    if show:
        write_rows(capturing.list_instructions(instructions), format)
    if folder or show:
        return
    source, seconds = capturing.measure(instructions, device, name)
    if file:
        from ...capture.recording import write

        write(source, file)
    else:
        from ... import add
        from ...capture.recording import shipped

        if name is None and source.name in shipped():
            # The run that ships is there to be compared with this one.
            source = replace(source, name=f"{source.name}-own")
        add([source], db, progress=progress)
    write_rows(capturing.report(source), format)
    gpu_seconds = source.provenance["gpu_seconds"]
    sys.stderr.write(f"lanemap: {source.name} in {seconds:.2f} s, probes {gpu_seconds:.3f} s of it on the GPU\n")
    troubles = capturing.troubles(source)
    for trouble in troubles:
        complain(trouble)
    if troubles:
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap decode m16n8k32 f16 0x44444444 --selector 0")
def decode(
    shape: Shape,
    type: Type,  # noqa: A002
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Metadata of each of the 32 lanes, or one word for all; - for stdin."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", "-c", help="The way back: a CSV with lane, reg, slot, col; - for stdin.", metavar="FILE"
        ),
    ] = None,
    selector: Selector = None,
    source: SomeSource = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Turn the metadata of a sparse A into the column of each of its elements, or columns into metadata.

    With --columns it prints the word of each lane, and what decode prints as CSV is what --columns takes.
    """
    from .. import decoding
    from ..output import write_rows

    if bool(words) == bool(columns):
        raise LanemapError("give words of metadata, or --columns FILE for the way back")
    with open_database(db) as database:
        a, e = decoding.operands(database.reader, shape, type, selector, source)
        if columns:
            rows = decoding.words_of(columns, a, e)
        else:
            rows = decoding.columns_of(sys.stdin.read().split() if words == ["-"] else words or [], a, e)
        write_rows(rows, format)
