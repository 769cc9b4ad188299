"""The application that the commands join, and what they share: exit codes, complaints, the database."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import Database, __version__, masked, printable
from .. import open as open_lanemap

app = typer.Typer(
    name="lanemap",
    help="Which lane, register and slot of an NVIDIA tensor-core instruction holds which matrix element.",
    epilog="Try: lanemap show m16n8k16 f16 A",
    rich_markup_mode=None,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)

OK, DISAGREES, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def complain(words: str) -> int:
    """One line on stderr, without passwords and control characters; the exit code of bad input.

    On a terminal it is as many as there is room for, cut between words.
    """
    line = printable(f"lanemap: {masked(' '.join(words.split()))}")
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    sys.stderr.write(f"{line}\n")
    return BAD_INPUT


def open_database(db: str | None) -> Database:
    """The database, built if need be; says when it is stale."""
    database = open_lanemap(db, progress=progress)
    if database.stale:
        command = f"lanemap ingest --db {db}" if db else "lanemap ingest"
        complain(f"{database.location} was built from other shipped sources: {command} updates it")
    return database


def progress(source: object) -> None:
    """Say on a terminal which source is being loaded."""
    if sys.stderr.isatty():
        complain(f"loading {getattr(source, 'name', '')}")


def _print_version(query: bool) -> None:
    if query:
        sys.stdout.write(f"lanemap {__version__}\n")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
]


@app.callback()
def _common(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001 - its callback prints it
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
