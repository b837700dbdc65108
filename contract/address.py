"""Which addresses a document that decides who is believed may be read from."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import SplitResult, urlsplit

MAX_URL_CHARS: Final = 512
_PORTS: Final = {"http": 80, "https": 443}


class UnsafeUrl(ValueError):
    """An address that is not accepted; the message says which would be, and does not repeat it."""


def secure_url(url: str, *, query: bool = False) -> SplitResult:
    """The parts of an https URL, or of an http one on loopback, with a host and no user or fragment.

    Raises ``UnsafeUrl``, also for a query where none is allowed.
    """
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UnsafeUrl(f"it must be a URL of at most {MAX_URL_CHARS} ASCII characters")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        raise UnsafeUrl("it is not a URL") from None
    if not parts.hostname or "@" in parts.netloc or "#" in url or ("?" in url and not query):
        raise UnsafeUrl("it must be scheme, host, port and path only")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise UnsafeUrl("it must start with https://; http:// is for loopback only")
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host, as a URL or a socket names it, is this machine. Names are not resolved."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_origin(left: SplitResult, right: SplitResult) -> bool:
    """Whether two URLs share scheme, host and port (RFC 6454)."""
    return _origin(left) == _origin(right)


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)
