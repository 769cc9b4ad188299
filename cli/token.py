"""The secret that a server and those who write to it share, in a file."""

from __future__ import annotations

from .. import LanemapError
from ..db.location import named_file


def read_token(file: str) -> str:
    """The token in a file, without the end of its line.

    Raises:
        LanemapError: it cannot be read, or is too short to be a secret.
    """
    try:
        token = named_file(file, "a file that holds a token").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LanemapError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    if len(token) < 16 or not token.isprintable() or " " in token:
        raise LanemapError(f"{file} holds no token: write 16 characters or more into it, as openssl rand -hex 32 does")
    return token
