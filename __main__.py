"""``python -m lanemap`` is ``lanemap``."""

# The processes that the server starts read this module, too.
if __name__ == "__main__":
    from .cli import main

    main()
