"""Ctrl-C ends the command without a traceback even while it is still being imported.

The package imports this module first. Outside the command, in Python, an interruption raises as usual.
"""

import os
import signal
import sys
from pathlib import PurePath


def stop(*_: object) -> None:
    """End the process with the exit code of Ctrl-C."""
    os._exit(130)


if (sys.orig_argv[1:3] == ["-m", "lanemap"] or PurePath(sys.argv[0]).stem == "lanemap") and (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, stop)
