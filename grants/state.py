"""What must be remembered of grants: which leaves were spent, and what was revoked.

One memory for every process that answers. Two stores keep it, SQLite and Redis; what it
*means* is judged here, by one pure function. The memory fails closed: where it is down or
was lost, the verdict is INDETERMINATE and nothing runs.

*Armed* is the instant, in whole seconds, since which the memory is known to be complete.
It is written when a store is first opened and again when a store is found emptied or
restored under a running process; grants issued before it are not accepted, because their
leaves may have been spent, and they may have been revoked, in what was lost.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from contract.errors import Category, Component, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from grants.claims import SKEW

STATE_FILE: Final = "state.sqlite3"
BUDGET: Final = 1.0
"""Seconds that one answer of the store may take."""


class RevocationKind(StrEnum):
    """What can be revoked, and what its value is."""

    SUBJECT = "subject"
    """A subject, as in ``sub``."""
    GRANT = "grant"
    """The ``jti`` of a root token or of a leaf."""
    TXN = "txn"
    POLICY = "policy"
    """``id@version`` of the receiver's own granting policy."""
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


class StateStore(Protocol):
    """The memory of spent leaves and revocations, shared by every process of a service."""

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        """Use a leaf up, once, in one round trip that reads the revocations too.

        ``policy`` is ``id@version`` of this service's granting policy. Raises
        ``NotGranted``: GRANT_REPLAYED, GRANT_REVOKED, REPLAY_MEMORY_LOST, STATE_UNAVAILABLE.
        """
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
    answer or may forget.
    """
    instant = time.time() if now is None else now
    if settings.state_url is None:
        from grants.state_sqlite import SqliteState

        return SqliteState.open(settings.home / STATE_FILE, now=instant)
    from grants.state_redis import RedisState

    return RedisState.open(settings.state_url, now=instant)


def replay_key(grant: VerifiedGrant) -> str:
    """Hash of the leaf's issuer and ``jti``; the issuer of a leaf is the holder before it.

    Never the token's text, which has more than one spelling, and never the message: a
    second presentation is a replay whatever it carries.
    """
    issuer = grant.holders[-2] if len(grant.holders) > 1 else grant.issuer
    return hashlib.sha256(f"{issuer}\x00{grant.leaf_jti}".encode()).hexdigest()


def seconds_to_keep(grant: VerifiedGrant, now: float) -> float:
    """How long a spent leaf must be remembered: until no clock within the skew accepts it."""
    return max(1.0, grant.leaf_expires_at + 2 * SKEW - now)


def names_of(grant: VerifiedGrant, policy: str | None) -> tuple[tuple[RevocationKind, str], ...]:
    """Everything by which a grant could have been revoked."""
    names = [
        (RevocationKind.SUBJECT, grant.subject),
        (RevocationKind.GRANT, grant.root_jti),
        (RevocationKind.GRANT, grant.leaf_jti),
        (RevocationKind.TXN, grant.txn),
        (RevocationKind.KEY, grant.issuer_kid),
        *((RevocationKind.HOLDER, holder) for holder in grant.holders),
    ]
    if policy is not None:
        names.append((RevocationKind.POLICY, policy))
    names += [(RevocationKind.DATASET, f"{scope.dataset}@{scope.dataset_version}") for scope in grant.scopes]
    return tuple(names)


def armed_at_open(now: float) -> int:
    """Where a store opens empty: this second. The issue times of tokens are whole seconds too."""
    return int(now)


def armed_after_loss(now: float) -> int:
    """Where a running process finds its memory gone: after every instant a clock could have stamped by now."""
    return int(now) + SKEW + 1


def judge(
    grant: VerifiedGrant,
    names: Sequence[tuple[RevocationKind, str]],
    instants: Sequence[float | None],
    *,
    armed: int | None,
) -> None:
    """Refuse a grant that is older than the memory or that was revoked.

    ``instants`` are the not-before instants of ``names``. The root token's issue time is
    compared: it is the issuer's word, and a holder could not have set it back.
    """
    if armed is None or min(grant.root_issued_at, grant.leaf_issued_at) < armed:
        raise NotGranted(
            Reason.REPLAY_MEMORY_LOST, "the memory of spent grants is younger than this grant; ask for a new one"
        )
    for (kind, _), instant in zip(names, instants, strict=True):
        if instant is not None and grant.root_issued_at <= instant:
            raise NotGranted(Reason.GRANT_REVOKED, f"the grant was revoked by its {kind}")


def check_not_ended(grant: VerifiedGrant, now: float) -> None:
    if now >= grant.root_expires_at + SKEW:
        raise NotGranted(Reason.GRANT_EXPIRED, "the grant expired before its result was released")


def replayed() -> NotGranted:
    return NotGranted(Reason.GRANT_REPLAYED, "this grant was used before; derive a fresh one for every call")


def unavailable() -> NotGranted:
    return NotGranted(Reason.STATE_UNAVAILABLE, "the memory of spent and revoked grants does not answer")


def fault(code: str, message: str, category: Category = Category.CONFIGURATION) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, category, f"grants.state.{code}", message)


def check_value(kind: RevocationKind, value: str) -> None:
    """Raises ``grants.state.value`` for a value that could name nothing."""
    if not value or len(value) > 600 or not value.isprintable():
        raise fault("value", f"a revocation by {kind} needs a printable value", Category.INVALID_INPUT)
    if kind in (RevocationKind.POLICY, RevocationKind.DATASET) and not all(value.rpartition("@")):
        raise fault("value", f"a revocation by {kind} names it as id@version", Category.INVALID_INPUT)


def in_order(instants: Mapping[tuple[str, str], float]) -> list[Revocation]:
    return [Revocation(RevocationKind(kind), value, instant) for (kind, value), instant in sorted(instants.items())]
