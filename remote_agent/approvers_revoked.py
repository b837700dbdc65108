"""Whether an approver was revoked: by their subject, as grants are, since they signed in or since they decided.

Grants are read with their spends; an approval is neither, so it is compared here, for the few calls that have one.
"""

from __future__ import annotations

from typing import Protocol

from contract.errors import DatasetAgentError
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.identity import issued_at
from grants.state import Revocation, RevocationKind, unavailable


class Revocations(Protocol):
    """What of a ``grants.state.StateStore`` is asked here."""

    async def revocations(self) -> list[Revocation]: ...


async def check_not_revoked(memory: Revocations, subject: str, since: float, words: str) -> None:
    """That ``subject`` was not revoked for what began at ``since``, POSIX seconds.

    Raises ``NotGranted`` GRANT_REVOKED, which says ``words``, and STATE_UNAVAILABLE.
    """
    try:
        revoked = await memory.revocations()
    except DatasetAgentError:
        raise unavailable() from None
    for one in revoked:
        if one.kind is RevocationKind.SUBJECT and one.value == subject and since <= one.not_before:
            raise NotGranted(Reason.GRANT_REVOKED, words)


async def unless_revoked(decision: Decision, memory: Revocations, subject: str, token: str) -> Decision:
    """The decision about an approver; where it permits, and they were revoked since ``token`` was issued, that refusal."""
    if decision.verdict is not Verdict.GRANTED:
        return decision
    try:
        await check_not_revoked(memory, subject, issued_at(token), "the approver was revoked since they signed in")
    except NotGranted as stop:
        return stop.decision(decision.policy_version)
    return decision
