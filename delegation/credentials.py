"""An agent's own credential on the wire: a short client assertion, reused while it is fresh."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from contract.key_ring import waits
from contract.signing import PublicKey, Signer
from grants.client import client_assertion

_LIFE: Final = 60
_FRESH: Final = 30


@dataclass(frozen=True, slots=True)
class _Held:
    made_at: float
    key: PublicKey
    token: str


class Assertions:
    """Client assertions by audience (RFC 7523 profile), each sent for half of its 60 s life.

    One is made anew as soon as the signer signs with another key, so that nothing is sent
    that was signed with a key which may be withdrawn.
    """

    def __init__(self, signer: Signer, agent_id: str) -> None:
        self._signer = signer
        self._agent_id = agent_id
        self._held: dict[str, _Held] = {}

    @property
    def waits(self) -> bool:
        """Whether making one asks another process."""
        return waits(self._signer)

    async def fresh(self, audience: str, now: float) -> str:
        """As ``bearer``; where another process has the key, the event loop does not wait for it."""
        return await asyncio.to_thread(self.bearer, audience, now) if self.waits else self.bearer(audience, now)

    def bearer(self, audience: str, now: float) -> str:
        """The value of an Authorization header for ``audience``. ``now`` is POSIX seconds."""
        held, key = self._held.get(audience), self._signer.public_key
        if held is None or held.key != key or not 0 <= now - held.made_at < _FRESH:
            token = client_assertion(self._signer, agent_id=self._agent_id, audience=audience, now=now, ttl=_LIFE)
            held = self._held[audience] = _Held(now, key, token)
        return f"Bearer {held.token}"

    def naming(self, audience: str, person: tuple[str, str, str], now: float) -> str:
        """The same with the person (issuer, tenant, subject) whose tasks are looked at; it is not kept."""
        token = client_assertion(
            self._signer, agent_id=self._agent_id, audience=audience, now=now, ttl=_LIFE, person=person
        )
        return f"Bearer {token}"
