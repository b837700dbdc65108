"""What must be remembered of grants: which leaves were spent, and what was revoked.

One memory for every process that answers. Two stores keep it, SQLite and Redis; what it
*means* is judged here, by pure functions. The memory fails closed: where it is down or was
lost, the verdict is INDETERMINATE and nothing runs.

*Armed* is the instant, in whole seconds, since which the memory is known to be complete.
It is written when a store is first opened, and again when a store is found emptied,
replaced or put back; grants issued before it are not accepted, because their leaves may
have been spent, and they may have been revoked, in what was lost.

*Clock* is the latest instant at which any process spent a leaf. A leaf is forgotten by it,
and refused from the same instant on, so no clock that is wrong, or is put back, makes a
leaf good a second time.

*Progress* says which memory it is and how far it has come. Each process remembers what it
saw, in a file beside it too (``grants.state_seen``): a memory that is behind that was lost.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from contract.errors import Category, Component, DatasetAgentError
from contract.files import of_another_user
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from grants.claims import SKEW

if TYPE_CHECKING:
    from grants.once import Once

STATE_FILE: Final = "state.sqlite3"
SEEN_FILE: Final = "state.seen"
BUDGET: Final = 1.0
"""Seconds that one answer of the store may take."""
PUT_BACK: Final = 300
"""Seconds by which a clock may be put back without any grant being refused for it."""
SWEEP: Final = 64
"""Leaves that nobody accepts any more, forgotten by a server with every spend."""


class RevocationKind(StrEnum):
    """What can be revoked, and what its value is."""

    SUBJECT = "subject"
    """A subject, as in ``sub``."""
    GRANT = "grant"
    """The ``jti`` of any token of a chain: what was derived from it is revoked with it."""
    TXN = "txn"
    POLICY = "policy"
    """``id@version`` of the policy that granted: the receiver's own, or the one the issuer recorded."""
    DATASET = "dataset"
    """``id@version``."""
    HOLDER = "holder"
    """The thumbprint of an agent's key."""
    KEY = "key"
    """The thumbprint of an issuer's key."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """Grants that name ``value`` and were issued at or before ``not_before`` (POSIX seconds) are refused."""

    kind: RevocationKind
    value: str
    not_before: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a memory has come: ``epoch`` counts its losses, ``seq`` what was written to it."""

    memory: str
    epoch: int
    seq: int

    def behind(self, seen: Progress | None) -> bool:
        """Whether this is another memory than the one seen, or the same one at an earlier time."""
        if seen is None:
            return False
        return self.memory != seen.memory or (self.epoch, self.seq) < (seen.epoch, seen.seq)

    def further(self, steps: int = 1) -> Progress:
        return Progress(self.memory, self.epoch, self.seq + steps)


class StateStore(Protocol):
    """The memory of spent leaves and revocations, shared by every process of a service."""

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        """Use a leaf up, once, in one round trip that reads the revocations too.

        ``policy`` is ``id@version`` of this service's granting policy. Raises
        ``NotGranted``: GRANT_REPLAYED, GRANT_REVOKED, REPLAY_MEMORY_LOST, STATE_UNAVAILABLE.
        """
        ...

    async def use(self, once: Once, *, now: float) -> None:
        """Use up what is no leaf, once. Raises ``NotGranted`` as ``spend`` does, but for GRANT_REVOKED."""
        ...

    async def recheck(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        """Ask again, before a result is released, whether the grant was revoked or has ended.

        The root token's expiry governs. Raises as ``spend`` does, and GRANT_EXPIRED.
        """
        ...

    async def revoke(self, kind: RevocationKind, value: str, *, not_before: float) -> None:
        """Revoke what was issued at or before ``not_before``; an instant is never lowered."""
        ...

    async def revocations(self) -> list[Revocation]:
        """Every revocation, by kind and value."""
        ...

    async def health(self) -> None:
        """Raises ``grants.state.*`` unless the store answers and is still fit to remember."""
        ...

    async def close(self) -> None: ...


def open_state(settings: Settings, *, now: float | None = None) -> StateStore:
    """The store that ``DATASET_AGENT_STATE_URL`` names, checked and armed; SQLite in the home folder by default.

    Blocks for one exchange with the store. Raises ``grants.state.*`` where it does not
    answer or may forget, or where what it writes into the home would be in another user's way.
    """
    instant = time.time() if now is None else now
    check_user(settings.home)
    seen = settings.home / SEEN_FILE
    if settings.state_url is None:
        from grants.state_sqlite import SqliteState

        return SqliteState.open(settings.home / STATE_FILE, now=instant, seen_file=seen)
    from grants.state_redis import RedisState

    return RedisState.open(settings.state_url, now=instant, seen_file=seen)


def reach_state(settings: Settings) -> StateStore:
    """The same store for who only revokes: it is not armed, and nothing is noted beside it.

    Raises ``grants.state.url``, ``grants.state.user``.
    """
    if settings.state_url is None:
        from grants.state_sqlite import SqliteState

        check_user(settings.home)
        return SqliteState(settings.home / STATE_FILE, noting=False)
    from grants.state_redis import RedisState

    return RedisState.reach(settings.state_url)


def check_user(home: Path) -> None:
    """Raises ``grants.state.user`` where files of this process in the home would shut out the user that serves."""
    found = of_another_user(home, home / SEEN_FILE, home / STATE_FILE)
    if found is not None:
        path, owner = found
        raise fault("user", f"{path} belongs to user {owner}, not to this one ({os.geteuid()}): run this as that user")


def replay_key(grant: VerifiedGrant) -> str:
    """Hash of the leaf's issuer and ``jti``; the issuer of a leaf is the holder before it.

    Never the token's text, which has more than one spelling, and never the message: a
    second presentation is a replay whatever it carries.
    """
    issuer = grant.holders[-2] if len(grant.holders) > 1 else grant.issuer
    return hashlib.sha256(f"{issuer}\x00{grant.leaf_jti}".encode()).hexdigest()


def remembered_until(grant: VerifiedGrant) -> float:
    """The instant of the memory's clock at which a leaf is forgotten, and from which on it is refused.

    No clock within the skew accepts the leaf by then, nor one that was put back a little.
    """
    return float(grant.leaf_expires_at + 2 * SKEW + PUT_BACK)


def names_of(grant: VerifiedGrant, policy: str | None) -> tuple[tuple[RevocationKind, str], ...]:
    """Everything by which a grant could have been revoked.

    The policy that the issuer recorded grants nothing here, but what it granted can be taken back by it.
    """
    recorded = grant.tctx.get("policy_id"), grant.tctx.get("policy_version")
    policies = {policy, f"{recorded[0]}@{recorded[1]}" if all(recorded) else None}
    return (
        (RevocationKind.SUBJECT, grant.subject),
        *[(RevocationKind.GRANT, jti) for jti in grant.jtis],
        (RevocationKind.TXN, grant.txn),
        (RevocationKind.KEY, grant.issuer_kid),
        *[(RevocationKind.HOLDER, holder) for holder in grant.holders],
        *[(RevocationKind.POLICY, name) for name in sorted(filter(None, policies))],
        *[(RevocationKind.DATASET, f"{scope.dataset}@{scope.dataset_version}") for scope in grant.scopes],
    )


def new_memory() -> str:
    """A name for a memory that begins; the same name is never drawn twice."""
    return secrets.token_hex(8)


def armed_at_open(now: float) -> int:
    """Where a store that nobody here has seen before opens empty: this second, as issue times are whole seconds."""
    return int(now)


def armed_after_loss(now: float) -> int:
    """Where a memory that was seen before is gone: after every instant an issuer's clock can have stamped by now."""
    return int(now) + SKEW + 1


def revoked_by_now(now: float) -> float:
    """The instant that revokes everything issued so far, also by an issuer whose clock is ahead."""
    return now + SKEW


def judge(
    grant: VerifiedGrant,
    names: Sequence[tuple[RevocationKind, str]],
    instants: Sequence[float | None],
    *,
    armed: int,
    clock: float,
) -> None:
    """Refuse a grant that is older than the memory, or that was revoked, or whose leaf may be forgotten.

    ``instants`` are the not-before instants of ``names``. The root token's issue time is
    compared: it is the issuer's word, and a holder could not have set it back.
    """
    if min(grant.root_issued_at, grant.leaf_issued_at) < armed:
        raise NotGranted(
            Reason.REPLAY_MEMORY_LOST, "the memory of spent grants is younger than this grant; ask for a new one"
        )
    for (kind, _), instant in zip(names, instants, strict=True):
        if instant is not None and grant.root_issued_at <= instant:
            raise NotGranted(Reason.GRANT_REVOKED, f"the grant was revoked by its {kind}")
    if remembered_until(grant) <= clock:
        raise NotGranted(
            Reason.STATE_UNAVAILABLE, "a clock was put back: what was spent at this time may be forgotten already"
        )


def check_not_ended(grant: VerifiedGrant, now: float) -> None:
    """Raises ``NotGranted`` GRANT_EXPIRED where the root token has; ``now`` is POSIX seconds."""
    if now >= grant.root_expires_at + SKEW:
        raise NotGranted(Reason.GRANT_EXPIRED, "the grant expired before its result was released")


def replayed() -> NotGranted:
    return NotGranted(Reason.GRANT_REPLAYED, "this grant was used before; derive a fresh one for every call")


def unavailable() -> NotGranted:
    return NotGranted(Reason.STATE_UNAVAILABLE, "the memory of spent and revoked grants does not answer, or may forget")


def fault(code: str, message: str, category: Category = Category.CONFIGURATION) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, category, f"grants.state.{code}", message)


def in_order(instants: Mapping[tuple[str, str], float]) -> list[Revocation]:
    return [Revocation(RevocationKind(kind), value, instant) for (kind, value), instant in sorted(instants.items())]
