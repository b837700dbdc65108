"""What the memory of spends and revocations would say of a grant now, without spending it and without writing.

For people and commands. The receiver's own policy is not known here, so a revocation by it
is not seen.
"""

from __future__ import annotations

from typing import Final

from contract.errors import DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import NotGranted
from grants.state import (
    armed_after_loss,
    armed_at_open,
    judge,
    names_of,
    remembered_until,
    replay_key,
    replayed,
    unavailable,
)
from grants.state_reading import Held, read_memory

NOT_POLICY: Final = "a revocation by the receiver's own policy is not read here"
NO_STORE: Final = "replay and revocation are not read: there is no state store here"


async def look(settings: Settings, grant: VerifiedGrant, *, now: float) -> NotGranted | None:
    """Why the memory would refuse the grant at ``now``; ``None`` where it would take it. Needs ``has_memory``."""
    try:
        held = await read_memory(settings, leaf=replay_key(grant), until=remembered_until(grant))
    except DatasetAgentError:
        return unavailable()
    names = names_of(grant, None)
    instants = {(revoked.kind, revoked.value): revoked.not_before for revoked in held.revocations}
    marks = [instants.get(name) for name in names]
    try:
        judge(grant, names, marks, armed=_armed(held, now), clock=max(held.clock, now))
    except NotGranted as stop:
        return stop
    return replayed() if held.spent else None


def _armed(held: Held, now: float) -> int:
    """Where whoever serves next would find the memory armed."""
    if held.lost:
        return max(held.armed, armed_after_loss(now))
    return held.armed or armed_at_open(now)
