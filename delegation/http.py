"""HTTP towards dataset agents: no redirects, no proxies, bounded replies, checked addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpx

from contract.settings import Settings

CONNECT_TIMEOUT: Final = 5.0
_OVERHEAD: Final = 2**20
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ReplyTooLarge(httpx.DecodingError):
    """A reply beyond the bound; what was read of it is dropped."""


class UnsafeAddress(ValueError):
    """An address that no grant may be sent to; the message says what would be accepted."""


def open_http(settings: Settings) -> httpx.AsyncClient:
    """One client for cards and calls.

    Replies are bounded by twice ``max_result_bytes`` (base64 inside JSON) and 1 MiB. The
    environment's proxies are not used: a grant goes to the agent it names, or nowhere.
    """
    return httpx.AsyncClient(
        transport=BoundedTransport(httpx.AsyncHTTPTransport(), 2 * settings.max_result_bytes + _OVERHEAD),
        timeout=httpx.Timeout(settings.call_timeout, connect=CONNECT_TIMEOUT),
        follow_redirects=False,
        trust_env=False,
    )


class BoundedTransport(httpx.AsyncBaseTransport):
    """Stops reading a reply that grows beyond ``limit`` bytes. Raises ``ReplyTooLarge``."""

    def __init__(self, inner: httpx.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A compressed reply could grow after this bound has counted it.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        if response.headers.get("Content-Encoding", "identity") != "identity" or not isinstance(
            stream, httpx.AsyncByteStream
        ):
            await response.aclose()
            raise ReplyTooLarge("the reply is encoded although none was asked for", request=request)
        response.stream = _Bounded(stream, self._limit, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, limit: int, request: httpx.Request) -> None:
        self._inner = inner
        self._limit = limit
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise ReplyTooLarge(f"the reply is over {self._limit} bytes", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def checked_url(url: str, *, private_network: bool) -> str:
    """``url`` without a trailing slash, if a grant may be sent there.

    https anywhere; http on loopback, or anywhere with ``private_network``. Raises
    ``UnsafeAddress``.
    """
    parts = _split(url)
    if parts.scheme == "https" or (parts.scheme == "http" and (private_network or _is_loopback(parts.hostname))):
        return url.rstrip("/")
    raise UnsafeAddress("use https, or http on loopback (DATASET_AGENT_PRIVATE_NETWORK allows http elsewhere)")


def same_origin(left: str, right: str) -> bool:
    """Whether two addresses share scheme, host and port (RFC 6454)."""
    return _origin(_split(left)) == _origin(_split(right))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where the port is not one
    except ValueError as error:
        raise UnsafeAddress("the address is not a URL") from error
    if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment or parts.query:
        raise UnsafeAddress("an agent's address is scheme, host, port and path only")
    return parts


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _is_loopback(host: str | None) -> bool:
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
