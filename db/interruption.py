"""Ctrl-C ends the command without a traceback even while it is still being imported.

The package imports this module before any other. Outside the command, in Python, an interruption raises as usual.
"""

import os
import signal
import sys


def stop(*_: object) -> None:
    """End the process with the exit code of Ctrl-C."""
    os._exit(130)


_program = os.path.split(sys.argv[0])[1].partition(".")[0]  # without pathlib, which takes as long as all of this
if (sys.orig_argv[1:3] == ["-m", "lanemap"] or _program == "lanemap") and (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, stop)
