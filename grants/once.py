"""What is used once and is no leaf: an approval. It is remembered among the leaves, so that an old copy of what it lies in revives none."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from contract.verdict import NotGranted, Reason
from grants.claims import SKEW
from grants.state import PUT_BACK

_DOMAIN: Final = "dataset-agent:once"


@dataclass(frozen=True, slots=True)
class Once:
    """``name`` of a ``kind``, which may be used from ``since`` until ``ends``, POSIX seconds: what gives it says both."""

    kind: str
    name: str
    since: float
    ends: float

    @property
    def key(self) -> str:
        """Equal to no leaf's: their issuers are URLs or thumbprints (``grants.state.replay_key``)."""
        return hashlib.sha256(f"{_DOMAIN}\x00{self.kind}\x00{self.name}".encode()).hexdigest()

    @property
    def until(self) -> float:
        """As ``grants.state.remembered_until``: no clock that is right takes it any more by then."""
        return self.ends + 2 * SKEW + PUT_BACK


def judge_once(once: Once, *, armed: int, clock: float) -> None:
    """Refuse what is older than the memory, in which it may have been used, and what the memory may have forgotten.

    Raises ``NotGranted`` REPLAY_MEMORY_LOST, STATE_UNAVAILABLE.
    """
    if once.since < armed:
        raise NotGranted(
            Reason.REPLAY_MEMORY_LOST, "the memory of what was used is younger than this: it has to be asked for anew"
        )
    if once.until <= clock:
        raise NotGranted(
            Reason.STATE_UNAVAILABLE, "a clock was put back: what was used at this time may be forgotten already"
        )
