"""Grant keys that an issuer publishes, for issuers whose ``trust.toml`` entry names a ``jwks_url``.

How they are read, and how seldom, is ``contract.published``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from contract.published import Published, fetch, key_entries
from contract.signing import InvalidKey, PublicKey
from grants import jose
from grants.trust import Trust, TrustedIssuer

Fetch = Callable[[str], Awaitable[bytes]]
_Keys = tuple[PublicKey, ...]


class PublishedKeys:
    """Completes a ``Trust`` by the keys its issuers publish; one per process, for one event loop."""

    def __init__(self, fetch: Fetch = fetch) -> None:
        self._fetch = fetch
        self._published: dict[tuple[str, str], Published[_Keys]] = {}
        self._completed: tuple[Trust, Mapping[str, Sequence[PublicKey]], frozenset[str], Trust] | None = None

    async def complete(self, trust: Trust, header: str | None, *, now: float) -> Trust:
        """``trust`` with every published key that ``header`` could need. Never raises for the header.

        Issuers without a usable set are listed in ``Trust.unreachable``, so that an unknown
        key is KEYS_UNAVAILABLE and not untrusted.
        """
        publishing = {issuer.url: self._of(issuer) for issuer in trust.issuers.values() if issuer.jwks_url is not None}
        if not publishing:
            return trust
        kid = _root_kid(header)
        if kid is not None and kid in trust.revoked_keys:
            return trust  # whoever publishes it: there is nothing to look for
        pinned = kid is not None and trust.grant_key(kid) is not None
        knowing = () if kid is None else tuple(url for url, held in publishing.items() if held.knows(kid, now))
        await asyncio.gather(
            *(
                held.look(kid, now, elsewhere=pinned or (bool(knowing) and url not in knowing))
                for url, held in publishing.items()
            )
        )
        return self._merged(trust, publishing, now)

    def forget(self) -> None:
        """Believe no set that was read so far: whoever needs a published key waits until it is read anew."""
        for held in self._published.values():
            held.forget()

    def _merged(self, trust: Trust, publishing: Mapping[str, Published[_Keys]], now: float) -> Trust:
        found = {url: held.usable(now) for url, held in publishing.items()}
        usable = {url: keys for url, keys in found.items() if keys is not None}
        failed = frozenset(url for url, held in publishing.items() if not held.reached(now))
        if self._completed is not None:
            of, with_keys, without, completed = self._completed
            if of is trust and with_keys == usable and without == failed:
                return completed
        completed = replace(trust, issuers=MappingProxyType(_with(trust, usable)), unreachable=failed)
        self._completed = (trust, usable, failed, completed)
        return completed

    def _of(self, issuer: TrustedIssuer) -> Published[_Keys]:
        place = issuer.url, cast(str, issuer.jwks_url)
        if place not in self._published:
            self._published[place] = Published(lambda: self._read(place[1]), holds=_holds, name=issuer.url)
        return self._published[place]

    async def _read(self, url: str) -> _Keys:
        return read_jwks(await self._fetch(url))


def read_jwks(data: bytes) -> _Keys:
    """The Ed25519 signature keys of a set; others are passed over. Raises ``Unreadable``."""
    keys: list[PublicKey] = []
    for entry in key_entries(data):
        try:
            keys.append(PublicKey.from_jwk(entry))
        except InvalidKey:
            continue
    return tuple(dict.fromkeys(keys))


def _holds(keys: _Keys, kid: str) -> bool:
    return any(key.thumbprint == kid for key in keys)


def _with(trust: Trust, published: Mapping[str, Sequence[PublicKey]]) -> dict[str, TrustedIssuer]:
    """Issuers with their published keys; a key that is pinned, for whatever use, stays its owner's alone.

    One that several publish is each one's (``Trust.grant_key``): so nobody can take another's
    grants out of use by publishing its key.
    """
    issuers = dict(trust.issuers)
    owned = {key for issuer in issuers.values() for key in (*issuer.keys, *issuer.identity_keys)}
    owned |= {key for agent in trust.agents.values() for key in agent.every_key}
    for url, keys in published.items():
        free = tuple(key for key in keys if key not in owned and key.thumbprint not in trust.revoked_keys)
        issuers[url] = replace(issuers[url], keys=(*issuers[url].keys, *free))
    return issuers


def _root_kid(header: str | None) -> str | None:
    try:
        kid = jose.split((header or "").partition(",")[0]).header.get("kid")
    except jose.MalformedToken:
        return None
    return kid if isinstance(kid, str) else None
