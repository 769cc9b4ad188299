"""``python -m lanemap.cli`` is ``lanemap``."""

from . import main

main()
