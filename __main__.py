"""``python -m lanemap`` is ``lanemap``."""

from .cli import main

main()
