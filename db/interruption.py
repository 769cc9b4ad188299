"""Ctrl-C ends the command without a traceback even while it is still being imported.

The package imports this module before any other. Outside the command, in Python, an interruption raises as usual.
"""

import _signal  # type: ignore[import-not-found] # signal imports enum, and takes long enough to be interrupted
import os
import sys


def stop(*_: object) -> None:
    """End the process with the exit code of Ctrl-C."""
    os._exit(130)


#: Whether this is ``python -m lanemap``, with whatever options of Python, while Python looks for the module.
BY_MODULE = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "lanemap"

_program = os.path.split(sys.argv[0])[1].partition(".")[0]  # without pathlib, which takes as long as all of this
if (BY_MODULE or _program == "lanemap") and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, stop)
