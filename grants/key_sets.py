"""The key sets that this project's processes publish (RFC 7517), for ``/.well-known/jwks.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from contract.published import LIFE
from contract.signing import PublicKey, Signer
from grants.trust import Trust

CACHE_CONTROL: Final = f"public, max-age={LIFE:.0f}"
"""As long as receivers of ours keep a set; a key is published for longer than that before it signs."""


def issuer_key_set(trust: Trust, issuer_url: str, signer: Signer) -> Mapping[str, Any]:
    """Every grant key of the issuer: the one that signs, the staged one, and those not yet retired."""
    issuer = trust.issuer(issuer_url)
    return _key_set(signer.public_key, () if issuer is None else issuer.keys, trust)


def agent_key_set(trust: Trust, agent_id: str, signer: Signer) -> Mapping[str, Any]:
    """Every key by which an agent is believed: the one that signs, the staged one, and those not yet retired."""
    agent = trust.agent(agent_id)
    return _key_set(signer.public_key, () if agent is None else agent.accepted_keys, trust)


def _key_set(signs: PublicKey, others: Iterable[PublicKey], trust: Trust) -> Mapping[str, Any]:
    keys = dict.fromkeys((signs, *others))
    return {"keys": [key.jwk() for key in keys if key.thumbprint not in trust.revoked_keys]}
