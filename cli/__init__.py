"""The command line: ``main`` runs one of ``commands/`` and turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import signal
import sys

import typer

from .. import LanemapError
from .app import INTERRUPTED, OK, app, complain
from .commands import compare, export, load, lookup

__all__ = ["app", "compare", "export", "load", "lookup", "main"]


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
        code = complain(f"{error.format_message()} (see {command} --help)")
    except LanemapError as error:
        code = complain(str(error))
    except OSError as error:
        code = complain(f"cannot write: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    sys.exit(code or OK)
