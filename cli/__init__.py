"""The command line. It parses, calls and prints; commands import what they need when they run."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import DEFAULT_SOURCE, Database, LanemapError, __version__
from .. import open as open_database
from .options import (
    By,
    Computation,
    Db,
    Drawn,
    Everything,
    FileFormat,
    Format,
    Importable,
    Major,
    Output,
    PictureFormat,
    Report,
    ReportFile,
    ReportFormat,
    Role,
    Selector,
    Shape,
    SomeInstruction,
    SomeRole,
    SomeShape,
    SomeSource,
    SomeType,
    Source,
    Type,
    What,
    source_names,
)

app = typer.Typer(
    name="lanemap",
    help="Which lane, register and slot of an NVIDIA tensor-core instruction holds which matrix element.",
    epilog="Try: lanemap show m16n8k16 f16 A",
    rich_markup_mode=None,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)

OK, DISAGREES, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """Run a command. Exit code 2 is bad input, with one line on stderr that says what would be right."""
    if hasattr(signal, "SIGPIPE"):
        # End quietly, as other tools do, when the reader of our output has seen enough of it.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "lanemap"
        code = _complain(f"{error.format_message()} (see {command} --help)")
    except LanemapError as error:
        code = _complain(str(error))
    except OSError as error:
        code = _complain(f"cannot write: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    sys.exit(code or OK)


def _complain(words: str) -> int:
    line = " ".join(words.split())
    sys.stderr.write(f"lanemap: {line}\n")
    return BAD_INPUT


def _open(db: str | None) -> Database:
    database = open_database(db, progress=_progress)
    if database.stale:
        command = f"lanemap ingest --db {db}" if db else "lanemap ingest"
        sys.stderr.write(f"lanemap: {database.location} was built from other shipped sources: {command} updates it\n")
    return database


def _progress(source: object) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"lanemap: loading {getattr(source, 'name', '')}\n")


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"lanemap {__version__}\n")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
]


@app.callback()
def _common(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001 - its callback prints it
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("list", epilog="Example: lanemap list --shape m16n8k16 --role A")
def list_(
    what: Annotated[What, typer.Argument(help="What to list.", case_sensitive=False)] = What.FRAGMENTS,
    source: Source = DEFAULT_SOURCE,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """List the fragments that there are, or the sources, errata or structural findings."""
    from ..db.lookup import Wanted
    from .listing import listing
    from .output import write_rows

    wanted = Wanted(shape, type, role, instruction, source=source)
    with _open(db) as database:
        write_rows(listing(database.reader, what, wanted), format)


@app.command(epilog="Example: lanemap show m16n8k16 f16 A --by lane")
def show(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    by: Drawn = By.ELEMENT,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Draw a fragment, with its formula and where it stands.

    By element, each cell is lane:reg.slot; by lane, row,col. Neighbours that count on are drawn as one.
    """
    from ..db import lookup

    wanted = lookup.Wanted(shape, type, role, instruction, major, selector, source)
    with _open(db) as database:
        if format is not Format.TABLE:
            from .output import write_rows

            write_rows(lookup.find(database.reader, wanted), format)
            return
        from .showing import show as draw

        draw(database.reader, wanted, by)


@app.command(epilog="Example: lanemap find m16n8k16 f16 A --row 9 --col 3")
def find(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    row: Annotated[int | None, typer.Option("--row", "-r", help="Row of the matrix.")] = None,
    col: Annotated[int | None, typer.Option("--col", "-c", help="Column of the matrix.")] = None,
    lane: Annotated[int | None, typer.Option("--lane", "-l", help="Lane, 0 to 31.")] = None,
    reg: Annotated[int | None, typer.Option("--reg", "-g", help="Register of the operand.")] = None,
    slot: Annotated[int | None, typer.Option("--slot", "-t", help="Slot in the register, low bits first.")] = None,
    computation: Computation = None,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Find what sits in a cell (--row, --col), or what a slot holds (--lane, --reg, --slot), or any part of these."""
    from ..db import lookup
    from .output import telling, write_rows

    where = {"row": row, "col": col, "lane": lane, "reg": reg, "slot": slot, "computation": computation}
    if all(value is None for value in where.values()):
        raise LanemapError("say where to look: --row and --col, or --lane, --reg and --slot, or some of them")
    wanted = lookup.Wanted(shape, type, role, instruction, major, selector, source)
    with _open(db) as database:
        found = lookup.find(database.reader, wanted, **where)
        write_rows(telling(found) if format is Format.TABLE else found, format)


@app.command(epilog="Example: lanemap sql 'SELECT role, COUNT(*) FROM layout GROUP BY role'")
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT, or - to read it from stdin.", show_default=False)],
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Run a query, usually on the view layout. It cannot write.

    layout has the columns shape, type, role, lane, reg, slot, row, col, col_last, instruction, major, computation,
    selector and source.
    """
    from .output import write_rows

    with _open(db) as database:
        write_rows(database.reader.sql(sys.stdin.read() if query == "-" else query), format)


@app.command(epilog="Example: lanemap diff ptx-isa-9.1+errata h200-sm_90a")
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A source, or a file.", autocompletion=source_names)],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="Another one.", autocompletion=source_names)],
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    format: Report = ReportFormat.TABLE,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    db: Db = None,
) -> None:
    """Compare two sources fragment by fragment; each is in the database, or a file.

    A file is a capture, an export, or anyone's CSV or Parquet with the first eight columns of layout. Verdicts:
    identical; relabelled, equal after one renumbering of rows, columns or depth in all operands that share it;
    refined, exact columns within the windows of the other; different; left only and right only. Exit code 0 means
    that nothing is different, 1 that something is.
    """
    from ..db.lookup import Wanted
    from . import crosschecking

    with _open(db) as database:
        report = crosschecking.diff(database, left, right, Wanted(shape, type, role, instruction))
    crosschecking.write(report, format, output, everything=everything)
    if report.unexplained:
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap check")
def check(
    against: Annotated[
        list[str] | None,
        typer.Option("--against", help="Only against this source; may be repeated.", autocompletion=source_names),
    ] = None,
    format: Report = ReportFormat.TABLE,  # noqa: A002
    output: ReportFile = None,
    everything: Everything = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count what an erratum explains, too.")] = False,
    db: Db = None,
) -> None:
    """Check the structure of every source, and every document against every capture and import.

    What a catalogued erratum explains is reported as known. Exit code 0 means that nothing else disagrees, 1 that
    something does.
    """
    from . import crosschecking

    with _open(db) as database:
        report = crosschecking.check(database, against or ())
    crosschecking.write(report, format, output, everything=everything)
    if report.unexplained or (strict and report.known):
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap ingest --db layouts.db")
def ingest(
    documents: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DOCUMENT]...", help="Pages of the PTX documentation, or folders of them."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Name of the source. Default: after the version in the text.")
    ] = None,
    slips: Annotated[bool, typer.Option("--slips", help="List what is wrong or doubtful in the text itself.")] = False,
    catalogue: Annotated[
        Path | None, typer.Option("--catalogue", help="Write files of the catalogue to this folder.", metavar="DIR")
    ] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load PTX documentation as a source, and say what of it could not be read.

    HTML, Markdown and plain text, as in lanemap ingest ptx-isa.html --slips. Without a document: load the shipped
    sources anew; other sources stay. Exit code 1: something was not read; 2: nothing was.
    """
    if not documents:
        if name or slips or catalogue:
            raise LanemapError("--name, --slips and --catalogue go with documents: name a file or folder")
        from .. import refresh
        from .listing import listing
        from .output import write_rows

        with refresh(db, progress=_progress) as database:
            write_rows(listing(database.reader, What.SOURCES), format)
        return
    from .. import read_documents
    from . import ingesting

    readings = read_documents(*documents, url=db, name=name, progress=_progress)
    ingesting.report(readings, slips=slips, form=format)
    if catalogue:
        ingesting.write_catalogue(readings, catalogue)
    if not any(reading.source.fragments for reading in readings):
        raise LanemapError(
            f"no fragment in {', '.join(map(str, documents))}: give pages on the fragments of mma or mma.sp"
        )
    if not all(reading.complete for reading in readings):
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap capture --instruction mma.sp --output sparse.parquet")
def capture(
    pattern: Annotated[
        str | None, typer.Option("--instruction", "-i", help="mma, mma.sp, or a pattern such as '*.b1.*'.")
    ] = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    device: Annotated[int, typer.Option("--device", help="Number of the GPU.", min=0)] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a capture file, not the database.", metavar="FILE")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the source. Default: after the GPU.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Say what would run. Needs no GPU.")] = False,
    ptx: Annotated[
        Path | None, typer.Option("--ptx", help="Write every kernel to this folder. Needs no GPU.", metavar="DIR")
    ] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Measure layouts on the GPU of this machine, as a new source or a file that stands alone.

    It needs PyCUDA (pip install "lanemap[capture]", with a CUDA toolkit) and an NVIDIA driver. Exit code 1: an
    instruction failed, or disagrees with the document or with another one.
    """
    from . import capturing
    from .output import write_rows

    instructions = capturing.chosen(pattern, shape, type)
    if ptx:
        count = capturing.write_ptx(instructions, ptx)
        sys.stdout.write(f"{count} kernels in {ptx}\n")
    if show:
        write_rows(capturing.list_instructions(instructions), format)
    if ptx or show:
        return
    source, seconds = capturing.measure(instructions, device, name)
    if output:
        from ..capture.recording import write

        write(source, output)
    else:
        from .. import add

        add([source], db, progress=_progress)
    write_rows(capturing.report(source), format)
    gpu_seconds = source.provenance["gpu_seconds"]
    sys.stderr.write(f"lanemap: {source.name} in {seconds:.2f} s, probes {gpu_seconds:.3f} s of it on the GPU\n")
    troubles = capturing.troubles(source)
    for trouble in troubles:
        _complain(trouble)
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
    from . import decoding
    from .output import write_rows

    if bool(words) == bool(columns):
        raise LanemapError("give words of metadata, or --columns FILE for the way back")
    with _open(db) as database:
        a, e = decoding.operands(database.reader, shape, type, selector, source)
        if columns:
            rows = decoding.words_of(columns, a, e)
        else:
            rows = decoding.columns_of(sys.stdin.read().split() if words == ["-"] else words or [], a, e)
        write_rows(rows, format)


@app.command("import", epilog="Example: lanemap import tensor-layouts")
def import_(
    kind: Annotated[Importable, typer.Argument(help="What to read.", case_sensitive=False, show_default=False)],
    path: Annotated[str | None, typer.Argument(help="Where it is; tensor-layouts is found where installed.")] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="What to call the source.")] = None,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Load a capture file, another toolchain's layouts, or anyone's table; list what was left out and why.

    cute is a CUTLASS source tree or header; table is CSV, Parquet or Arrow with the first eight columns of layout.
    A table of reasons counts what each left out; the other formats name every atom.
    """
    from .. import import_layouts
    from .importing import write_imported

    write_imported(import_layouts(kind.value, path, name=name, url=db, progress=_progress), format)


@app.command(epilog="Example: lanemap draw m16n8k16 f16 A --output a.svg")
def draw(
    shape: Shape,
    type: Type,  # noqa: A002
    role: Annotated[str | None, typer.Argument(metavar="[ROLE]", help="A, B, C, D or E. Default: A, B and D.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    format: Annotated[  # noqa: A002
        PictureFormat | None,
        typer.Option("--format", "-f", help="Default: by the ending of --output, else svg.", case_sensitive=False),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None, typer.Option("--diff", help="Mark where two sources differ.", metavar="LEFT RIGHT")
    ] = None,
    accumulator: Annotated[
        str | None, typer.Option("--accumulator", "-a", help="Type of C and D, without ROLE.")
    ] = None,
    instruction: SomeInstruction = None,
    major: Major = None,
    selector: Selector = None,
    source: Source = DEFAULT_SOURCE,
    db: Db = None,
) -> None:
    """Draw an operand, or without ROLE a whole instruction, as a picture: SVG, PNG or PDF.

    PNG and PDF need pip install "lanemap[draw]". An SVG follows the dark mode of whoever looks at it.
    """
    from ..db.lookup import Wanted
    from . import picturing

    wanted = Wanted(shape, type, role, instruction, major, selector, source)
    if diff and not role:
        raise LanemapError("say which operand to compare: draw --diff LEFT RIGHT SHAPE TYPE ROLE")
    with _open(db) as database:
        if diff:
            drawing = picturing.difference(database.reader, wanted, diff)
        elif role:
            drawing = picturing.operand(database.reader, wanted)
        else:
            drawing = picturing.instruction(database.reader, wanted, accumulator)
    picturing.write(drawing, format, output)


@app.command(epilog="Example: lanemap chain m16n8k16 f32 D m16n8k16 f16 A")
def chain(
    first_shape: Shape,
    first_type: Type,
    first_role: Role,
    shape: Shape,
    type: Type,  # noqa: A002
    role: Role,
    transpose: Annotated[bool, typer.Option("--transpose", "-t", help="Take D transposed.")] = False,
    relabel: Annotated[bool, typer.Option("--relabel", "-k", help="Number K anew where that avoids movement.")] = False,
    first: Annotated[str | None, typer.Option("--first", help="mma or mma.sp, where both have the first.")] = None,
    second: Annotated[str | None, typer.Option("--second", help="mma or mma.sp, where both have the second.")] = None,
    major: Major = None,
    source: Source = DEFAULT_SOURCE,
    format: Output = Format.TABLE,  # noqa: A002
    db: Db = None,
) -> None:
    """Can D of one instruction be A or B of the next as it is, or which lanes must exchange what?

    Tiles of D are put together, or D is cut, to fit. A table says it by register, other formats by element. Exit code
    0: no value moves to another lane; 1: some do.
    """
    from ..db.chain import Movement, relabelled
    from ..db.chain import chain as moves
    from ..db.lookup import Wanted
    from .chaining import write_chain

    given = Wanted(first_shape, first_type, first_role, first, source=source)
    taken = Wanted(shape, type, role, second, major, source=source)
    with _open(db) as database:
        plain = moves(database.reader, given, taken, transposed=transpose)
    anew = relabelled(plain)
    shown = anew if relabel and anew else plain
    write_chain(shown, anew, format)
    if shown.movement is not Movement.NONE:
        raise typer.Exit(DISAGREES)


@app.command(epilog="Example: lanemap export --format parquet --output layouts.parquet --shape m16n8k16")
def export(
    format: Annotated[  # noqa: A002
        FileFormat | None,
        typer.Option(
            "--format",
            "-f",
            help="Default: by the ending of --output, else csv.",
            case_sensitive=False,
            metavar="FORMAT",
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.", metavar="FILE")] = "-",
    source: SomeSource = None,
    instruction: SomeInstruction = None,
    shape: SomeShape = None,
    type: SomeType = None,  # noqa: A002
    role: SomeRole = None,
    db: Db = None,
) -> None:
    """Write the layout table, or a selection of it, to a file that appears whole or not at all.

    As a table: parquet, csv, arrow, jsonl, or dataset, a folder of Parquet files by source and instruction, which
    DuckDB, Spark and pandas read as one table. Or in a notation: cute, linear (Triton), affine (MLIR, IREE), python (TVM,
    TileLang), cpp, ptx-formula. A notation is of one source, by default the one that look-ups read; each fragment is
    evaluated again and compared with its rows. Exit code 1: the notation cannot express some; 2: any.
    """
    from ..db.lookup import Wanted

    wanted = Wanted(shape, type, role, instruction, source=source)
    with _open(db) as database:
        if format and format.notation:
            from .notating import export as write_notation

            refused = write_notation(database.reader, wanted, format, output)
            for error in refused:
                _complain(f"{format} cannot express {error}")
            if refused:
                raise typer.Exit(DISAGREES)
            return
        from .exporting import export as write

        write(database.reader, wanted, format, output)
