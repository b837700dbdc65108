"""The root agent's own credential on the wire: a short client assertion, reused while it is fresh."""

from __future__ import annotations

from typing import Final

from contract.signing import Signer
from grants.client import client_assertion

_LIFE: Final = 60
_FRESH: Final = 30


class Assertions:
    """Client assertions by audience (RFC 7523 profile), each sent for half of its 60 s life."""

    def __init__(self, signer: Signer, agent_id: str) -> None:
        self._signer = signer
        self._agent_id = agent_id
        self._held: dict[str, tuple[float, str]] = {}

    def bearer(self, audience: str, now: float) -> str:
        """The value of an Authorization header for ``audience``. ``now`` is POSIX seconds."""
        held = self._held.get(audience)
        if held is None or not 0 <= now - held[0] < _FRESH:
            token = client_assertion(self._signer, agent_id=self._agent_id, audience=audience, now=now, ttl=_LIFE)
            held = self._held[audience] = now, token
        return f"Bearer {held[1]}"
