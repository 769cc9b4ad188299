"""The one kind of error that users are meant to read."""


class LanemapError(Exception):
    """Bad input or a bad environment. The message is one line that says what was wrong and what would be right."""
