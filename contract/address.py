"""What an address is here, which are this machine's, and from which it may be read who is believed."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

MAX_URL_CHARS: Final = 512
_PORTS: Final = {"http": 80, "https": 443}
# Nothing else stands between the slashes: a user, a name that is not ASCII, a second host in brackets.
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(:[0-9]{1,5})?")


class UnsafeUrl(ValueError):
    """An address that is not accepted; the message says which would be, and does not repeat it."""


def plain_url(url: str, *, query: bool = False) -> SplitResult:
    """The parts of an http or https URL with a host and no user or fragment.

    Raises ``UnsafeUrl``, also for a query where none is allowed.
    """
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UnsafeUrl(f"it must be a URL of at most {MAX_URL_CHARS} ASCII characters (a host in its xn-- form)")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        raise UnsafeUrl("it is not a URL") from None
    if parts.scheme not in _PORTS:
        raise UnsafeUrl("it must start with https:// or http://")
    if not _HOST_AND_PORT.fullmatch(parts.netloc) or "#" in url or ("?" in url and not query):
        raise UnsafeUrl("it must be scheme, host, port and path only")
    return parts


def secure_url(url: str, *, query: bool = False) -> SplitResult:
    """The parts of a plain https URL, or of an http one on loopback. Raises ``UnsafeUrl``."""
    parts = plain_url(url, query=query)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise UnsafeUrl("it must start with https://; http:// is for loopback only")
    return parts


def loopback_url(url: str) -> SplitResult:
    """The parts of a plain URL on this machine. Raises ``UnsafeUrl``."""
    parts = plain_url(url)
    if not is_loopback(parts.hostname or ""):
        raise UnsafeUrl("it must be on this machine, such as http://127.0.0.1:9050")
    return parts


def for_development(url: str, *, private_network: bool) -> bool:
    """Whether an address is certainly one at which nobody real asks: this machine's, or plain http
    on a network that its operator calls private. Whatever cannot be told is not.
    """
    try:
        parts = plain_url(url)
    except UnsafeUrl:
        return False
    return is_loopback(parts.hostname or "") or (parts.scheme == "http" and private_network)


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
