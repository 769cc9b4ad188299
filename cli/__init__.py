"""The command line: ``main`` runs a command and turns what goes wrong into a line and an exit code.

Only the module of the command that is called is loaded: all of them take longer than a look-up.
"""

import atexit
import gc
import io
import re
import signal
import sys
import warnings
from copy import copy
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from typing import Any

import typer

from .. import LanemapError, NoRowsError, Query, interruption
from ..db.text import either
from .app import INTERRUPTED, OK, TERMINATED, app, complain, remark
from .options import described, option

__all__ = ["application", "main"]

#: The commands of each module.
_COMMANDS = {
    "capture": "capture",
    "compare": "check diff report",
    "export": "draw export",
    "flow": "blame chain decode descriptor reduce",
    "load": "import ingest remove",
    "look": "find list show sql",
    "serve": "serve site",
    "trace": "trace",
}
_MODULES = {name: module for module, names in _COMMANDS.items() for name in names.split()}

#: What typer raises where the command line is used wrongly: an exception of its own, or before 0.29 one of click.
_BAD_USAGE: type[Exception] = typer.BadParameter.__mro__[2]

#: What people mean by options that a command lacks, where it has the other.
_MEANT = {"--source": "--against", "--thread": "--lane", "--register": "--reg", "--dtype": "--type"}

#: How typer says that the command line is wrong, and how Lanemap does.
_WORDS = {
    r"No such command '(\S+)'\. Did you mean (.+)\?": r"no command \1: did you mean \2?",
    r"No such command '(\S+)'\.": r"no command \1",
    r"Got unexpected extra arguments?\S* \((.+)\)": r"unexpected argument: \1",
    r"valid int range": "valid integer",
    r"\.$": "",
}


def main() -> None:
    """Run a command, which returns its exit code; 2 is bad input, with one line on stderr that says what would help."""
    if hasattr(signal, "SIGPIPE"):
        # End quietly, as other tools do, when the reader of our output closes it.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # All memory is given back at the end. To look through it for garbage first takes a tenth of a look-up.
    atexit.register(gc.freeze)
    # As after Ctrl-C, so that half-written files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    try:
        if signal.getsignal(signal.SIGINT) is interruption.stop:
            signal.signal(signal.SIGINT, interrupt)
        _open_streams()
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # those of libraries
            warnings.filterwarnings("always", category=UserWarning, module="lanemap")
            warnings.showwarning = lambda message, *_: remark([str(message)])
            code = application(*sys.argv[1:2])(standalone_mode=False)
        sys.stdout.flush()
    except _BAD_USAGE as error:
        code = complain(_usage(error))
    except NoRowsError as error:
        from .. import adding

        advice = adding(error.key)
        code = complain(f"{error}: {advice}" if advice else f"{error}, and no import has them")
    except LanemapError as error:
        code = complain(f"{error} (--{error.argument})" if error.argument else str(error))
    except UnicodeEncodeError as error:
        words = f"cannot write {error.object[error.start : error.end][:20]!a} in {error.encoding}"
        code = complain(f"{words}: give text in UTF-8, and set PYTHONIOENCODING=utf-8")
    except UnicodeError:
        code = complain("the input is not UTF-8: give text in UTF-8")
    except OSError as error:
        code = complain(f"cannot write: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception:
        if not interrupted:
            raise
        code = INTERRUPTED  # an extension that is interrupted while it is imported raises an error of its own
    sys.exit(code or OK)


def _usage(error: Any) -> str:
    """What is wrong with a command line, and what would be right."""
    context: Any = getattr(error, "ctx", None)
    words = getattr(error, "format_message", error.__str__)().replace("Value error, ", "")
    for theirs, ours in _WORDS.items():
        words = re.sub(theirs, ours, words)
    if hasattr(error, "possibilities"):  # those of typer may have nothing in common with the option
        known = [flag for parameter in context.command.params for flag in parameter.opts]
        name = str(error.option_name)
        meant = [_MEANT[name]] if _MEANT.get(name) in known else get_close_matches(name, known, 2, 0.7)
        words = f"no option {name}" + (f": did you mean {either(meant)}?" if meant else "")
    elif words.startswith("no command ") and not words.endswith("?"):
        given = [*takewhile(lambda word: not word.startswith("-"), sys.argv[1:])]
        try:
            if given and given[0] in [*import_module(".look", __name__).What]:
                words += f": did you mean lanemap list {given[0]}?"
            elif Query.parse(given).forms:
                words += f": lanemap show {' '.join(given)} draws it, and lanemap find looks up an element"
        except LanemapError as why:
            words = str(why)
    elif words.startswith("Missing ") and context:
        words += context.command.epilog.replace("Example:", ", as in")
    command = context.command_path if context else "lanemap"
    return f"{words[:1].lower()}{words[1:]} (see {command} --help)"


def application(command: str | None = None) -> typer.Typer:
    """The application with one command, or with all of them if there is no such command."""
    names = [command] if command in _MODULES else sorted(_MODULES)
    for name in names:
        import_module(f".{_MODULES[name]}", __name__)
    reduced = copy(app)
    loaded = {entry.name or getattr(entry.callback, "__name__", ""): entry for entry in app.registered_commands}
    reduced.registered_commands = [loaded[name] for name in names]
    for entry in reduced.registered_commands:
        if entry.callback:
            described(entry.callback, option)
    return reduced


class _Closed(io.StringIO):
    """Stands in for an input that the shell has closed."""

    def read(self, _size: int | None = -1, /) -> str:
        """Refuse to be read."""
        raise LanemapError("stdin is closed: send something to it, or give the text as an argument")


def _open_streams() -> None:
    """Replace streams that the shell has closed, which are None. Without stdout the next open file would become it."""
    if sys.stdin is None:
        sys.stdin = _Closed()
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        raise LanemapError("stdout is closed: send it to a file or a pipe, or to /dev/null")
