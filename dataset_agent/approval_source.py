"""Where the approvals commands work: at the stores of this home, or over the admin endpoint of an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from contract.settings import Settings
from dataset_agent.admin_client import AdminClient, Members
from dataset_agent.configuration import check_home, check_user

if TYPE_CHECKING:
    from evidence.ledger import Ledger
    from remote_agent.approval_desk import ApprovalDesk
    from remote_agent.service import World


_PATIENCE_S: Final = 60.0


class ApprovalSource(Protocol):
    """Each answer is one JSON object, the same from here and from there (``remote_agent.approval_desk``)."""

    def listed(self, *, everything: bool) -> dict[str, Any]: ...

    def show(self, approval_id: str, person: str) -> dict[str, Any]: ...

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]: ...

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]: ...


def approval_source(settings: Settings, url: str | None) -> ApprovalSource:
    """Raises NOT_FOUND where there is no home to look into, CONFIGURATION without a token for ``url``."""
    if url is not None:
        return _There(settings, url)
    check_home(settings)
    return _Here(settings)


class _Here:
    """The desk itself, over the stores of this home, beside whoever serves from it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def listed(self, *, everything: bool) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.listed(everything=everything))

    def show(self, approval_id: str, person: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.show(approval_id, person))

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.approve(approval_id, person, edits=edits, why=why))

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.deny(approval_id, person, why=why))

    def _at_desk(self, work: Callable[[ApprovalDesk], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        async def done() -> dict[str, Any]:
            async with _own_desk(self._settings) as desk:
                return await work(desk)

        return asyncio.run(done())


@asynccontextmanager
async def _own_desk(settings: Settings) -> AsyncIterator[ApprovalDesk]:
    """A desk over this home's approvals, ledger and keys; the ledger is opened where something is recorded."""
    from grants.key_store import KeyName  # engines and ledgers take a second to load
    from grants.signers import open_signer
    from grants.state import reach_state
    from grants.trust import load_trust
    from remote_agent.admin_world import described_world
    from remote_agent.approval_desk import ApprovalDesk
    from remote_agent.approvals_place import open_approvals
    from remote_agent.approvers import Approvers
    from remote_agent.own_ledger import open_ledger

    check_user(settings, settings.home / "remote" / "ledger.sqlite")
    trust = load_trust(settings.trust_path)
    opened: list[Ledger] = []

    def ledger() -> Ledger:
        if not opened:
            opened.append(open_ledger(settings, open_signer(settings, KeyName.REMOTE), trust))
        return opened[0]

    @asynccontextmanager
    async def world(dataset: str) -> AsyncIterator[World]:
        async with described_world(settings, dataset) as described:
            yield described

    approvals, people, state = open_approvals(settings), Approvers(settings, lambda: trust), reach_state(settings)
    try:
        yield ApprovalDesk(settings.agent_id, world, approvals, ledger, people, lambda: state, time.time)
    finally:
        await state.close()
        await people.close()
        await approvals.close()
        for one in opened:
            one.close()


class _There:
    """The desk of a running agent, behind its admin token."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._ask = AdminClient(settings, url, "approvals", patience_s=_PATIENCE_S).ask

    def listed(self, *, everything: bool) -> dict[str, Any]:
        return self._ask("GET", "list", params={"all": str(everything).lower()})

    def show(self, approval_id: str, person: str) -> dict[str, Any]:
        return self._ask("POST", "show", body={"id": approval_id, "person": person})

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]:
        body = {"id": approval_id, "person": person, "edits": dict(edits), "why": why}
        return self._ask("POST", "approve", body=body)

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]:
        return self._ask("POST", "deny", body={"id": approval_id, "person": person, "why": why})
