"""Sending captures to a Lanemap server, with the standard library, as a machine with a GPU may have little else."""

import json
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ..db.errors import LanemapError
from ..db.text import masked

#: The server stores captures one after the other, and many may be waiting.
_SECONDS = 300
_LARGEST = 1 << 16


def send(file: Path, url: str, token: str) -> str:
    """Send a capture file to a server; returns the name of the source under which it was stored."""
    expect_address(url)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    request = Request(f"{url.rstrip('/')}/api/captures", file.read_bytes(), headers, method="POST")  # noqa: S310
    try:
        with build_opener(_NoRedirect).open(request, timeout=_SECONDS) as answer:
            return str(json.loads(answer.read(_LARGEST))["source"])
    except HTTPError as error:
        raise LanemapError(f"{masked(url)} did not take the capture: {_reason(error)}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise LanemapError(f"cannot reach {masked(url)}: {getattr(reason, 'strerror', None) or reason}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LanemapError(f"{masked(url)} does not answer like lanemap serve: give the address of one") from None


def expect_address(url: str) -> None:
    """Refuse an address that cannot be that of a server, before anything is measured for it."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        fits = False
    if not fits or not url.isprintable() or parts.query or parts.fragment:
        raise LanemapError(f"cannot send to {masked(url)!r}: write the address that lanemap serve prints")


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirects: a token is only for the server that was named."""

    def redirect_request(self, *_: object) -> None:
        """Do not follow it."""


def _reason(error: HTTPError) -> str:
    """The server's message in one line, or else its status."""
    try:
        return " ".join(str(json.loads(error.read(_LARGEST))["detail"]).split())
    except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return f"{error.code} {error.reason}"
