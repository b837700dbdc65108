"""The rows of an answer that did not bring them: fetched for the person who asked, from the agent that has them.

Nothing of them is kept here; they go through to where the caller wants them. The decision that was
made for the call holds for its result: each attempt derives a leaf from the same root token, and
where that ended the call is admitted again and a new one is minted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx

from contract.errors import SignerUnavailable
from contract.key_ring import waits
from contract.result import StoredResult
from contract.verdict import NotGranted, Reason, Verdict
from delegation.cards import CardBook
from delegation.results import Download, Progress, Sink, open_downloads, result_address, send_for_result
from delegation.sending import Sent
from delegation.trace import traceparent
from root_agent import ask as path
from root_agent.answer_view import columns_of
from root_agent.asking import Answer, Asking
from root_agent.evidence_row import evidence_row
from root_agent.service import Service

MAX_ATTEMPTS: Final = 3
"""One after another that bring nothing. A download that broke off goes on where it was."""
_PAUSE_S: Final = 0.25
_AGAIN: Final = frozenset(
    {Reason.REMOTE_UNREACHABLE, Reason.REMOTE_TIMEOUT, Reason.REMOTE_UNAVAILABLE, Reason.GRANT_EXPIRED}
)


async def fetch_result(
    answer: Answer,
    service: Service,
    sink: Sink,
    *,
    progress: Progress | None = None,
    check: Callable[[StoredResult], None] | None = None,
) -> None:
    """Write the result of a granted answer to ``sink``; it is good where this returns, and only then.

    ``check`` looks at what was written before that is said; it may block. Raises ``NotGranted``:
    REMOTE_PROVENANCE_INVALID for bytes that were not signed, the agent's own reason, or one of
    REMOTE_*; the root's ledger then says that nothing was released.
    """
    stored = answer.document
    if stored is None:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "there is no granted result to fetch")
    if not isinstance(stored, StoredResult):
        taking = sink.write(stored.body)
        if isinstance(taking, Awaitable):
            await taking
        return
    try:
        await _downloaded(answer.asking, Download(stored, columns_of(answer), sink, progress), service)
        if check is not None:
            await asyncio.to_thread(check, stored)
    except NotGranted as stop:
        await _withdraw(answer, stop, service)
        raise


async def _downloaded(asking: Asking, download: Download, service: Service) -> None:
    address = _address(asking, download.stored, service)
    idle = 0
    async with open_downloads(service.call_timeout) as http:
        while not download.whole:
            had = download.received
            try:
                await _attempt(asking, download, address, http, service)
            except NotGranted as stop:
                idle = 0 if download.received > had else idle + 1
                if stop.reason not in _AGAIN or idle >= MAX_ATTEMPTS:
                    raise
                if stop.reason is Reason.GRANT_EXPIRED:
                    asking = await _admitted_again(asking, service)
                await asyncio.sleep(_PAUSE_S * idle)
    download.finish()


async def _attempt(asking: Asking, download: Download, address: str, http: httpx.AsyncClient, service: Service) -> None:
    def prepared() -> Sent:
        return _prepared(asking, download.stored, service)

    try:
        sent = await asyncio.to_thread(prepared) if waits(service.holder) else prepared()
    except SignerUnavailable as error:
        raise NotGranted(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now") from error
    await download.attempt(http, address, sent.headers)
    if not download.whole:
        raise NotGranted(Reason.REMOTE_UNREACHABLE, "the download broke off")


def _address(asking: Asking, stored: StoredResult, service: Service) -> str:
    cards, planned = service.cards, asking.plan
    card = cards.verified(planned.agent_id) if planned and isinstance(cards, CardBook) else None
    if card is None:
        raise NotGranted(Reason.REMOTE_CARD_INVALID, "there is no verified card of the agent that has the result")
    return result_address(card.rpc_url, stored)


def _prepared(asking: Asking, stored: StoredResult, service: Service) -> Sent:
    if asking.plan is None:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "nothing was admitted to be fetched")
    return send_for_result(
        asking.plan,
        stored,
        service.holder,
        client=service.root_id,
        audience=service.trust.agent(asking.plan.agent_id),
        now=service.clock(),
        ttl=service.leaf_ttl,
        headers=lambda agent, grant: service.headers(agent, grant, traceparent(asking.trace_id)),
    )


async def _admitted_again(asking: Asking, service: Service) -> Asking:
    """The same call under a decision and a root token of now, for the person as they are known now.

    Raises ``NotGranted``.
    """
    fresh = await path.readmit(asking, service)
    decision = fresh.decision
    if fresh.verdict is not Verdict.GRANTED or decision is None:
        reason = decision.reason if decision else Reason.NO_ACTIVE_GRANT
        raise NotGranted(reason, "the call of this result would not be admitted any more")
    return fresh


async def _withdraw(answer: Answer, stop: NotGranted, service: Service) -> None:
    """The row that says that what was granted did not reach the person."""
    decision = stop.decision(answer.asking.world_in(service).policy_version)
    row = evidence_row(answer.asking.stopped(decision), decision, service, withdrawn=answer.decision)
    await service.ledger.append_async(row)
