"""The keys of one role while they change: one signs now, the others answer for grants that name them.

A process opens its ring once and hands it around as its ``Signer``. A reload gives the ring
other keys; whoever holds it signs with those from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from contract.signing import PublicKey, Signer

T = TypeVar("T")


class KeyRing:
    """A ``Signer`` that signs with its current key and holds the staged and the replaced ones.

    ``waits`` says that signing asks another process or machine: such work must not stand in
    an event loop (``sign_with``).
    """

    def __init__(self, current: Signer, *others: Signer, waits: bool = False) -> None:
        self._held = (current, *others)
        self._waits = waits

    @property
    def current(self) -> Signer:
        """The signer of this moment, which a later reload does not change."""
        return self._held[0]

    @property
    def public_key(self) -> PublicKey:
        return self._held[0].public_key

    @property
    def waits(self) -> bool:
        return self._waits

    def sign(self, message: bytes) -> bytes:
        return self._held[0].sign(message)

    def holding(self, key: PublicKey) -> Signer | None:
        """The signer whose public key is ``key``; ``None`` where this ring does not hold it."""
        return next((signer for signer in self._held if signer.public_key == key), None)

    def take(self, other: KeyRing) -> None:
        """Sign with the keys of ``other`` from now on."""
        self._held, self._waits = other._held, other._waits

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(signer.public_key.thumbprint for signer in self._held)})"


def take_over(signer: Signer, fresh: KeyRing) -> None:
    """Give a ring other keys; a signer that is none has just the one it was made with."""
    if isinstance(signer, KeyRing):
        signer.take(fresh)


def waits(signer: Signer) -> bool:
    """Whether signing asks another process or machine."""
    return isinstance(signer, KeyRing) and signer.waits


def signer_of(signer: Signer, key: PublicKey) -> Signer | None:
    """Whoever of ``signer`` signs with ``key``; ``None`` where it cannot."""
    if isinstance(signer, KeyRing):
        return signer.holding(key)
    return signer if signer.public_key == key else None


async def sign_with(signer: Signer, work: Callable[[Signer], T]) -> T:
    """``work`` with the signer of this moment; in a thread where signing waits for another process."""
    now = signer.current if isinstance(signer, KeyRing) else signer
    return await asyncio.to_thread(work, now) if waits(signer) else work(now)
