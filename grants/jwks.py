"""Grant keys that an issuer publishes (RFC 7517), for issuers whose ``trust.toml`` entry names a ``jwks_url``.

A set is read when it is first needed, when it is older than its life, and when a grant
names a key that is in none. Attempts are rare and bounded, so that nobody makes this
service knock at an issuer's door by sending invented keys; a key that is known is
answered from memory and never waits for another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from contract.canonical import InvalidJson, parse_json
from contract.signing import InvalidKey, PublicKey
from grants import jose
from grants.trust import MAX_KEYS, Trust, TrustedIssuer

LIFE: Final = 300.0
"""Seconds for which a set is fresh."""
STALE: Final = 3_600.0
"""Seconds for which a set is used while it cannot be read again."""
FLOOR: Final = 30.0
"""Least seconds between two attempts, failed ones included."""
TIMEOUT: Final = 2.0
MAX_JWKS_BYTES: Final = 64 * 1024

Fetch = Callable[[str], Awaitable[bytes]]


class JwksUnreadable(Exception):
    """A key set that could not be fetched or does not read."""


@dataclass(frozen=True, slots=True)
class _Published:
    keys: tuple[PublicKey, ...] = ()
    read_at: float | None = None
    tried_at: float | None = None

    def usable(self, now: float) -> bool:
        return self.read_at is not None and now - self.read_at < STALE

    def fresh(self, now: float) -> bool:
        return self.read_at is not None and now - self.read_at < LIFE

    def reached(self, now: float) -> bool:
        """Whether the last attempt, if there was need of one, succeeded."""
        return self.usable(now) and self.tried_at == self.read_at

    def may_try(self, now: float) -> bool:
        return self.tried_at is None or now - self.tried_at >= FLOOR


class PublishedKeys:
    """Completes a ``Trust`` by the keys its issuers publish; one per process, for one event loop."""

    def __init__(self, fetch: Fetch | None = None) -> None:
        self._fetch = fetch or fetch_jwks
        self._published: dict[str, _Published] = {}
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._completed: tuple[Trust, Mapping[str, Sequence[PublicKey]], frozenset[str], Trust] | None = None

    async def complete(self, trust: Trust, header: str | None, *, now: float) -> Trust:
        """``trust`` with every published key that ``header`` could need. Never raises for the header.

        Issuers without a usable set are listed in ``Trust.unreachable``, so that an unknown
        key is KEYS_UNAVAILABLE and not untrusted.
        """
        publishing = [issuer for issuer in trust.issuers.values() if issuer.jwks_url is not None]
        if not publishing:
            return trust
        kid = _root_kid(header)
        known = kid is not None and self._known(trust, publishing, kid, now)
        due = [issuer for issuer in publishing if self._due(issuer, known=known, asked=kid is not None, now=now)]
        attempts = [self._attempt(issuer, now) for issuer in due]
        if attempts and not known:
            await asyncio.gather(*(asyncio.shield(attempt) for attempt in attempts))
        return self._merged(trust, publishing, now)

    def _known(self, trust: Trust, publishing: Sequence[TrustedIssuer], kid: str, now: float) -> bool:
        if trust.grant_key(kid) is not None:
            return True
        sets = [self._of(issuer) for issuer in publishing]
        return any(key.thumbprint == kid for held in sets if held.usable(now) for key in held.keys)

    def _due(self, issuer: TrustedIssuer, *, known: bool, asked: bool, now: float) -> bool:
        held = self._of(issuer)
        if self._running(issuer) is not None:
            return not known
        return held.may_try(now) and (not held.fresh(now) or (asked and not known))

    def _running(self, issuer: TrustedIssuer) -> asyncio.Task[None] | None:
        attempt = self._attempts.get(issuer.url)
        return None if attempt is None or attempt.done() else attempt

    def _attempt(self, issuer: TrustedIssuer, now: float) -> asyncio.Task[None]:
        """One attempt at a time for each issuer; whoever else needs it waits for the same."""
        running = self._running(issuer)
        if running is None:
            self._published[issuer.url] = replace(self._of(issuer), tried_at=now)
            running = asyncio.create_task(self._read(issuer, now), name=f"jwks {issuer.url}")
            self._attempts[issuer.url] = running
        return running

    async def _read(self, issuer: TrustedIssuer, now: float) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                keys = read_jwks(await self._fetch(issuer.jwks_url or ""))
        except (JwksUnreadable, OSError):  # TimeoutError is an OSError
            return
        self._published[issuer.url] = _Published(keys, read_at=now, tried_at=now)

    def _merged(self, trust: Trust, publishing: Sequence[TrustedIssuer], now: float) -> Trust:
        usable = {issuer.url: self._of(issuer).keys for issuer in publishing if self._of(issuer).usable(now)}
        failed = frozenset(issuer.url for issuer in publishing if not self._of(issuer).reached(now))
        if self._completed is not None:
            of, with_keys, without, completed = self._completed
            if of is trust and with_keys == usable and without == failed:
                return completed
        completed = replace(trust, issuers=MappingProxyType(_with(trust, usable)), unreachable=failed)
        self._completed = (trust, usable, failed, completed)
        return completed

    def _of(self, issuer: TrustedIssuer) -> _Published:
        return self._published.get(issuer.url, _Published())


def read_jwks(data: bytes) -> tuple[PublicKey, ...]:
    """The Ed25519 signature keys of a set; others are passed over. Raises ``JwksUnreadable``."""
    try:
        document = parse_json(data, limit=MAX_JWKS_BYTES)
    except InvalidJson as error:
        raise JwksUnreadable(str(error)) from error
    entries: Any = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise JwksUnreadable(f"a key set has a list of at most {MAX_KEYS} keys")
    keys: list[PublicKey] = []
    for entry in entries:
        try:
            keys.append(PublicKey.from_jwk(entry))
        except InvalidKey:
            continue
    return tuple(dict.fromkeys(keys))


async def fetch_jwks(url: str) -> bytes:
    """The bytes at ``url``: https (http on loopback only), no redirect, bounded. Raises ``JwksUnreadable``."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise JwksUnreadable("a key set is read over https")
    body = bytearray()
    try:
        async with (
            httpx.AsyncClient(follow_redirects=False, timeout=TIMEOUT, trust_env=False) as client,
            client.stream("GET", url, headers={"Accept": "application/jwk-set+json, application/json"}) as response,
        ):
            if response.status_code != 200:
                raise JwksUnreadable(f"the issuer answered {response.status_code}")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_JWKS_BYTES:
                    raise JwksUnreadable(f"a key set is larger than {MAX_JWKS_BYTES} bytes")
    except httpx.HTTPError as error:
        raise JwksUnreadable(type(error).__name__) from error
    return bytes(body)


def _with(trust: Trust, published: Mapping[str, Sequence[PublicKey]]) -> dict[str, TrustedIssuer]:
    """Issuers with their published keys; a key that has an owner already stays its owner's."""
    issuers = dict(trust.issuers)
    owned = {key for issuer in issuers.values() for key in issuer.keys}
    owned |= {key for agent in trust.agents.values() for key in agent.every_key}
    for url, keys in published.items():
        free = tuple(key for key in keys if key not in owned)
        issuers[url] = replace(issuers[url], keys=(*issuers[url].keys, *free))
        owned.update(free)
    return issuers


def _root_kid(header: str | None) -> str | None:
    try:
        kid = jose.split((header or "").partition(",")[0]).header.get("kid")
    except jose.MalformedToken:
        return None
    return kid if isinstance(kid, str) else None
