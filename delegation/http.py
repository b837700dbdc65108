"""HTTP towards dataset agents: no redirects, no proxies, bounded replies, checked addresses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import SplitResult

import httpx

from contract import address
from contract.address import is_loopback
from contract.canonical import InvalidJson, check_shape
from contract.settings import Settings

CONNECT_TIMEOUT: Final = 5.0
EACH: Final = 100
"""Connections to one agent at the same time; who wants one more waits for it, as long as for an answer."""
REPLY_VALUES: Final = 2_000
"""JSON values in the reply to a call: its rows and its proof are one text each."""
UNAVAILABLE: Final = frozenset({429, 503})
"""HTTP statuses by which an agent says that it did nothing, and may do it later."""
EVENT_STREAM: Final = "text/event-stream"
MAX_EVENTS: Final = 256
"""Lines of data in a stream: what a percentage may tell, and the end."""
_LONGEST_WAIT_S: Final = 86_400
_OVERHEAD: Final = 2**20
_AT_ONCE: Final = 64 * 1024
_BOUNDS: Final = "dataset_agent.bounds"


class ReplyTooLarge(httpx.DecodingError):
    """A reply beyond a bound, of bytes or of shape; what was read of it is dropped."""


class UnsafeAddress(ValueError):
    """An address that no grant may be sent to; the message says what would be accepted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most a body may cost whoever reads it: bytes, and values of JSON."""

    size: int
    values: int

    @property
    def extensions(self) -> dict[str, object]:
        """For one request of httpx: its reply has these bounds in place of those of a reply to a call."""
        return {_BOUNDS: self}


def busy(response: httpx.Response) -> str:
    """What an answer of ``UNAVAILABLE`` says; of when to come again, a number of seconds within a day and nothing else."""
    said = response.headers.get("retry-after", "")
    seconds = int(said) if said.isascii() and said.isdecimal() and len(said) <= len(str(_LONGEST_WAIT_S)) else 0
    again = f"try again in {seconds} s" if 0 < seconds <= _LONGEST_WAIT_S else "try again later"
    over = response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return f"HTTP {response.status_code}: {'over a limit there' if over else 'it cannot answer now'}, {again}"


@cache
def authorities() -> ssl.SSLContext:
    """Whom HTTPS is believed from: read once, for every client of this process."""
    return httpx.create_ssl_context()


def open_http(settings: Settings) -> httpx.AsyncClient:
    """One client for cards and calls.

    Replies are bounded by twice ``max_result_bytes`` (base64 inside JSON) and 1 MiB, and by
    ``REPLY_VALUES``. The environment's proxies are not used: a grant goes to the agent it
    names, or nowhere. Each agent has ``EACH`` connections of its own, so that one that answers nobody keeps
    nobody from the others.
    """
    bounds = Bounds(2 * settings.max_result_bytes + _OVERHEAD, REPLY_VALUES)
    return httpx.AsyncClient(
        transport=BoundedTransport(Apart(), bounds),
        timeout=httpx.Timeout(settings.call_timeout, connect=CONNECT_TIMEOUT),
        follow_redirects=False,
        trust_env=False,
    )


class Apart(httpx.AsyncBaseTransport):
    """HTTP with a pool of connections for each origin (RFC 6454). How many origins there are is the trust file's."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str, int | None], httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        origin = request.url.scheme, request.url.host, request.url.port
        pool = self._pools.get(origin)
        if pool is None:
            limits = httpx.Limits(max_connections=EACH, max_keepalive_connections=20)
            pool = self._pools[origin] = httpx.AsyncHTTPTransport(verify=authorities(), limits=limits)
        return await pool.handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


class BoundedTransport(httpx.AsyncBaseTransport):
    """Hands on a reply whole, after its bytes and its shape were found within ``bounds``.

    So no parser sees more, whoever calls it. A stream of events, where one was asked for, is handed
    on line by line, each after the same. Only a request that says so has other bounds.
    The body of an error is not read. Raises ``ReplyTooLarge``.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A compressed reply could grow after this bound has counted it.
        request.headers["Accept-Encoding"] = "identity"
        asked = request.extensions.get(_BOUNDS)
        bounds = asked if isinstance(asked, Bounds) else self._bounds
        response = await self._inner.handle_async_request(request)
        if _is_stream(request, response):
            return await _streamed(request, response, bounds)
        try:
            body = await _whole(request, response, bounds)
        finally:
            await response.aclose()
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=httpx.ByteStream(body),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedEvents(httpx.AsyncByteStream):
    """The body of a stream of events, in whole lines. Raises ``ReplyTooLarge`` while it is read."""

    def __init__(self, inner: httpx.AsyncByteStream, bounds: Bounds, request: httpx.Request) -> None:
        self._inner = inner
        self._bounds = bounds
        self._request = request
        self._size = 0
        self._lines = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept = bytearray()
        async for chunk in self._inner:
            self._size += len(chunk)
            if self._size > self._bounds.size:
                raise ReplyTooLarge(f"the reply is over {self._bounds.size} bytes", request=self._request)
            end = chunk.rfind(b"\n") + 1
            if not end:
                kept += chunk
                continue
            whole = bytes(kept) + chunk[:end]
            kept = bytearray(chunk[end:])
            await self._check(whole)
            yield whole
        if kept:
            await self._check(bytes(kept))
            yield bytes(kept)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _check(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if not line.startswith(b"data"):
                continue
            self._lines += 1
            if self._lines > MAX_EVENTS:
                raise ReplyTooLarge(f"the reply has more than {MAX_EVENTS} events", request=self._request)
            data = line.removesuffix(b"\r").partition(b":")[2]
            await _check_shape(self._request, data, self._bounds)
            if len(data.decode().splitlines()) > 1:  # whoever reads it would take it for several
                raise ReplyTooLarge("a line of the reply holds a separator of lines", request=self._request)


async def _streamed(request: httpx.Request, response: httpx.Response, bounds: Bounds) -> httpx.Response:
    try:
        events = BoundedEvents(_plain(request, response), bounds, request)
    except ReplyTooLarge:
        await response.aclose()
        raise
    return httpx.Response(response.status_code, headers=response.headers, stream=events, extensions=response.extensions)


def _plain(request: httpx.Request, response: httpx.Response) -> httpx.AsyncByteStream:
    """The body as it is sent; it was asked for without an encoding."""
    if response.headers.get("Content-Encoding", "identity") != "identity" or not isinstance(
        response.stream, httpx.AsyncByteStream
    ):
        raise ReplyTooLarge("the reply is encoded although none was asked for", request=request)
    return response.stream


def _is_stream(request: httpx.Request, response: httpx.Response) -> bool:
    """Whether events were asked for and come."""
    kinds = (request.headers.get("Accept", ""), response.headers.get("Content-Type", ""))
    return response.is_success and all(kind.partition(";")[0].strip() == EVENT_STREAM for kind in kinds)


async def _check_shape(request: httpx.Request, body: bytes, bounds: Bounds) -> None:
    try:
        if len(body) > _AT_ONCE:
            await asyncio.to_thread(check_shape, body, max_values=bounds.values)
        else:
            check_shape(body, max_values=bounds.values)
    except InvalidJson as error:
        raise ReplyTooLarge(str(error), request=request) from error


async def _whole(request: httpx.Request, response: httpx.Response, bounds: Bounds) -> bytes:
    """The body of a reply; of an error nothing, since nobody reads it."""
    if not response.is_success:
        return b""
    body = bytearray()
    async for chunk in _plain(request, response):
        body += chunk
        if len(body) > bounds.size:
            raise ReplyTooLarge(f"the reply is over {bounds.size} bytes", request=request)
    whole = bytes(body)
    await _check_shape(request, whole, bounds)
    return whole


def checked_url(url: str, *, private_network: bool) -> str:
    """``url`` without a trailing slash, if a grant may be sent there.

    https anywhere; http on loopback, or anywhere with ``private_network``. Raises
    ``UnsafeAddress``.
    """
    parts = _split(url)
    if parts.scheme == "https" or (parts.scheme == "http" and (private_network or is_loopback(parts.hostname or ""))):
        return url.rstrip("/")
    raise UnsafeAddress("use https, or http on loopback (DATASET_AGENT_PRIVATE_NETWORK allows http elsewhere)")


def same_origin(left: str, right: str) -> bool:
    """Whether two addresses share scheme, host and port (RFC 6454)."""
    return address.same_origin(_split(left), _split(right))


def _split(url: str) -> SplitResult:
    try:
        return address.plain_url(url)
    except address.UnsafeUrl as error:
        raise UnsafeAddress(str(error)) from error
