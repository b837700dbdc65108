"""Who signs grants in a run of the kit: a signer of one's own, as ``DATASET_AGENT_ISSUER_SIGNER`` lets anybody have.

A root token is what authority is made of here. So whether a step minted any is not asked of the
product: it is counted where it is signed.
"""

from __future__ import annotations

from typing import Final

from contract.settings import Settings
from contract.signing import PublicKey
from grants.key_files import FileSigner

KEY: Final = "issuer-elsewhere.jwk"
SIGNED: Final[list[bytes]] = []
"""Every message this process has signed as the issuer, in order."""


class CountingSigner:
    def __init__(self, inner: FileSigner) -> None:
        self._inner = inner

    @property
    def public_key(self) -> PublicKey:
        return self._inner.public_key

    def sign(self, message: bytes) -> bytes:
        SIGNED.append(message)
        return self._inner.sign(message)


def counting_signer(settings: Settings, name: str) -> CountingSigner:
    """The factory that the setting names."""
    return CountingSigner(FileSigner.load(settings.home / KEY))
