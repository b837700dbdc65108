"""What an issuer publishes about its keys and this process keeps (RFC 7517).

Grant issuers and identity providers are read by the same rules. A document is read when it is
first needed, when it is older than its life, and when a token names a key that is not in it.
Past its life it is used only where reading it again failed, so a key that was withdrawn is
believed no longer than that life while its publisher answers, however seldom it is asked for.
Attempts are rare and bounded, so that nobody makes this service knock at an issuer's door by
sending invented keys; a key in a fresh document is answered from memory and waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import httpx

from contract.address import UnsafeUrl, secure_url
from contract.canonical import InvalidJson, parse_json

LIFE: Final = 300.0
"""Seconds for which a document is fresh."""
STALE: Final = 3_600.0
"""Seconds for which a document is used where it cannot be read again."""
FLOOR: Final = 30.0
"""Least seconds between two attempts, failed ones included."""
MISSED: Final = 120.0
"""Seconds for which a key that was looked for in vain is not looked for again."""
TIMEOUT: Final = 2.0
"""Seconds for one attempt: names, connection and every byte."""
MAX_DOCUMENT_BYTES: Final = 64 * 1024
MAX_KEYS: Final = 16
MAX_MISSED: Final = 256

T = TypeVar("T")

log = logging.getLogger(__name__)


class Unreadable(Exception):
    """A document that could not be fetched or does not read; the message quotes nothing of it."""


class Published(Generic[T]):
    """One issuer's document, read by ``read``; for one event loop.

    ``holds`` says whether a document has the key of a ``kid``. ``name`` is for the log. Every
    ``now`` is POSIX seconds.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], *, holds: Callable[[T, str], bool], name: str) -> None:
        self._read = read
        self._holds = holds
        self._name = name
        self._document: T | None = None
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._attempts: set[asyncio.Task[None]] = set()
        self._forgotten = 0
        self._wanted: set[str] = set()
        self._missed: dict[str, float] = {}

    def usable(self, now: float) -> T | None:
        """The document, unless none was read for too long. Past its life: after ``look`` only."""
        return self._document if self._read_at is not None and now - self._read_at < STALE else None

    def knows(self, kid: str, now: float) -> bool:
        document = self.usable(now)
        return document is not None and self._holds(document, kid)

    def fresh(self, now: float) -> bool:
        """Whether the document is within its life."""
        return self._read_at is not None and abs(now - self._read_at) < LIFE

    def reached(self, now: float) -> bool:
        """Whether the last attempt, if there was need of one, succeeded."""
        return self.usable(now) is not None and self._tried_at == self._read_at

    def retry_in(self, now: float) -> float:
        """Seconds until another attempt may be made."""
        return 0.0 if self._tried_at is None else max(0.0, FLOOR - abs(now - self._tried_at))

    async def look(self, kid: str | None, now: float, *, elsewhere: bool = False) -> None:
        """Wait for what has to be read before ``kid``, or with ``None`` any key, is judged; never raises.

        ``elsewhere`` says that the caller has the key from somebody else: then nothing is waited for.
        """
        while (attempt := self.look_for(kid, now, elsewhere=elsewhere)) is not None:
            forgotten = self._forgotten
            await asyncio.shield(attempt)
            if forgotten == self._forgotten:
                return

    def look_for(self, kid: str | None, now: float, *, elsewhere: bool = False) -> asyncio.Task[None] | None:
        """The attempt that is under way or begins now because of ``kid``; ``None`` where there is nothing to wait for.

        Whoever waits shields the attempt; it never raises.
        """
        known = elsewhere or (self.usable(now) is not None if kid is None else self.knows(kid, now))
        running = self._running()
        if running is None and self._is_due(kid, now, known=known):
            self._tried_at = now
            running = self._attempt = asyncio.create_task(self._try(now), name=f"published {self._name}")
            self._attempts.add(running)
            running.add_done_callback(self._attempts.discard)
        if running is None or elsewhere or (known and self.fresh(now)):
            return None
        if kid is not None and len(self._wanted) < MAX_MISSED:
            self._wanted.add(kid)
        return running

    def forget(self) -> None:
        """Believe nothing that was read so far, nor what an attempt under way brings; the next ``look`` reads anew."""
        self._forgotten += 1
        self._document = self._read_at = self._tried_at = self._attempt = None
        self._wanted.clear()
        self._missed.clear()

    async def close(self) -> None:
        """End what is under way."""
        running = set(self._attempts)
        for attempt in running:
            attempt.cancel()
        if running:
            await asyncio.wait(running)

    def _is_due(self, kid: str | None, now: float, *, known: bool) -> bool:
        # a clock that was set back must not block attempts until it is where it was
        if self._tried_at is not None and abs(now - self._tried_at) < FLOOR:
            return False
        return not self.fresh(now) or (kid is not None and not known and not self._is_missed(kid, now))

    def _is_missed(self, kid: str, now: float) -> bool:
        looked_at = self._missed.get(kid)
        return looked_at is not None and abs(now - looked_at) < MISSED

    def _running(self) -> asyncio.Task[None] | None:
        return None if self._attempt is None or self._attempt.done() else self._attempt

    async def _try(self, now: float) -> None:
        forgotten = self._forgotten
        try:
            async with asyncio.timeout(TIMEOUT):
                document = await self._read()
        except Unreadable as error:
            log.warning("the keys of %s cannot be read: %s", self._name, error)
        except Exception as error:  # whatever a server makes of our client, it is no answer
            log.warning("the keys of %s cannot be read: %s", self._name, type(error).__name__)
        else:
            if forgotten == self._forgotten:
                self._take(document, now)
        finally:
            if forgotten == self._forgotten:
                self._wanted.clear()

    def _take(self, document: T, now: float) -> None:
        self._document, self._read_at, self._tried_at = document, now, now
        for kid in self._wanted:
            if not self._holds(document, kid):
                self._missed.pop(kid, None)
                self._missed[kid] = now
        while len(self._missed) > MAX_MISSED:
            del self._missed[next(iter(self._missed))]


def key_entries(data: bytes) -> list[Any]:
    """The members of a key set (RFC 7517, section 5), unread. Raises ``Unreadable``."""
    document = read_object(data)
    entries = document.get("keys")
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise Unreadable(f"a key set has a list of at most {MAX_KEYS} keys")
    return entries


def read_object(data: bytes) -> dict[str, Any]:
    """One strict JSON object. Raises ``Unreadable``."""
    try:
        document = parse_json(data, limit=MAX_DOCUMENT_BYTES)
    except InvalidJson as error:
        raise Unreadable(str(error)) from error
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    return document


async def fetch(url: str, *, authorities: Path | None = None) -> bytes:
    """The bytes at exactly ``url``: https (http on loopback only), in ``TIMEOUT`` seconds. Raises ``Unreadable``.

    No redirect is followed, no proxy of the environment used, no encoding accepted (a small
    body could grow beyond every bound) and at most ``MAX_DOCUMENT_BYTES`` read. ``authorities``
    is a PEM file to verify the server's certificate by, instead of the shipped ones.
    """
    try:
        secure_url(url, query=True)
        async with asyncio.timeout(TIMEOUT):
            return await _get(url, _verification(authorities))
    except UnsafeUrl as error:
        raise Unreadable(f"its address is not accepted: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # TimeoutError and SSLError are OSErrors
        raise Unreadable(f"no answer ({type(error).__name__})") from error


async def _get(url: str, verify: ssl.SSLContext | bool) -> bytes:
    headers = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity"}
    body = bytearray()
    async with (
        httpx.AsyncClient(follow_redirects=False, timeout=TIMEOUT, trust_env=False, verify=verify) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        if response.status_code != 200:
            raise Unreadable(f"the answer is {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unreadable("the answer is encoded although none was asked for")
        async for part in response.aiter_raw():
            body += part
            if len(body) > MAX_DOCUMENT_BYTES:
                raise Unreadable(f"the answer is larger than {MAX_DOCUMENT_BYTES} bytes")
    return bytes(body)


def _verification(authorities: Path | None) -> ssl.SSLContext | bool:
    return True if authorities is None else ssl.create_default_context(cafile=str(authorities))
