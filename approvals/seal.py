"""Approvals at rest: sealed, each for its place and version, by a key that only the dataset agent has.

AES-256-GCM (NIST SP 800-38D) with a random nonce under an HKDF-SHA256 subkey (RFC 5869) of the agent's
secrets. The associated data are the agent, the id, the task and the version: who can write the store can
neither read, forge nor edit an approval, nor move it to another id, task, version or agent.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import ValidationError

from approvals.approval import Approval, Requester
from approvals.store import Held
from contract.canonical import b64url, canonical_json, unb64url

_INFO: Final = b"dataset-agent/approvals/1"
_OWNER: Final = b"dataset-agent/approvals/owner/1"
_NONCE: Final = 12


class Damaged(ValueError):
    """What lies in the store is not what this agent put there."""


class Seal:
    """Holds key material: never print, never pickle. The first secret seals; every one opens."""

    def __init__(self, agent_id: str, held: Sequence[bytes]) -> None:
        """``held`` are at least one secret of 32 bytes or more."""
        if not held or any(len(secret) < 32 for secret in held):
            raise ValueError("approvals are sealed with secrets of 32 bytes or more")
        self._agent_id = agent_id
        self._ciphers = [AESGCM(_derived(secret, _INFO)) for secret in held]
        self._owners = _derived(held[0], _OWNER)

    def owner(self, requester: Requester) -> str:
        """Equal for one requester under one secret, and to whoever has not the secret nobody's: no name can be tried out."""
        told = [requester.issuer, requester.subject, requester.tenant, requester.client]
        return hmac.digest(self._owners, canonical_json(told), hashlib.sha256).hex()[:32]

    def close(self, approval: Approval, *, version: int, until: float, owner: str) -> Held:
        """As it is stored, until it may be forgotten."""
        nonce = secrets.token_bytes(_NONCE)
        place = self._place(approval.id, approval.task_id, version)
        sealed = nonce + self._ciphers[0].encrypt(nonce, canonical_json(approval.model_dump(mode="json")), place)
        return Held(approval.id, approval.task_id, owner, version, until, b64url(sealed))

    def open(self, held: Held) -> Approval:
        """Raises ``Damaged``."""
        try:
            sealed = unb64url(held.sealed)
        except ValueError as error:
            raise Damaged("it is no text of a seal") from error
        place = self._place(held.id, held.task_id, held.version)
        for cipher in self._ciphers:
            try:
                approval = Approval.model_validate_json(cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place))
            except (InvalidTag, ValueError, ValidationError):
                continue
            return approval
        raise Damaged("it does not open with the keys at hand")

    def _place(self, approval_id: str, task_id: str, version: int) -> bytes:
        return canonical_json([self._agent_id, approval_id, task_id, version])

    def __repr__(self) -> str:
        return "Seal(…)"


def _derived(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
