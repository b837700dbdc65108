"""Asking other dataset agents over A2A: their verified cards, and ADK's agent for one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contract.authority import Authority
from contract.extension import GRANT_HEADER
from contract.settings import Settings
from contract.signing import Signer
from contract.tracing import Kind, tracing
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from delegation.cards import CardBook
from delegation.credentials import Assertions
from delegation.http import open_http
from delegation.remote import Delegate, Exchange
from delegation.reply import Reply
from delegation.sending import Sent
from delegation.trace import traceparent
from grants.trust import TrustedAgent
from remote_agent.executor import AdkExecutor
from remote_agent.service import Errand


class A2aUpstreams:
    """The ``Upstreams`` of a dataset agent that is itself a client, by its own key and its own assertions."""

    def __init__(self, cards: CardBook, assertions: Assertions, executor: AdkExecutor) -> None:
        self._cards = cards
        self._assertions = assertions
        self._executor = executor

    @classmethod
    def open(cls, settings: Settings, signer: Signer) -> A2aUpstreams:
        """Nothing is connected before the first call."""
        assertions = Assertions(signer, settings.agent_id)
        cards = CardBook(
            open_http(settings), assertions, private_network=settings.private_network, ttl=settings.card_ttl
        )
        return cls(cards, assertions, AdkExecutor())

    async def descriptor(
        self, agent: TrustedAgent, dataset: str, now: float, *, anew: bool = False
    ) -> DatasetDescriptor | None:
        if agent.datasets is not None and dataset not in agent.datasets:
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"trust.toml does not list {dataset} for {agent.id}")
        if anew:
            self._cards.forget(agent.id)
        offers = await self._cards.offers(agent, agent.url, now)
        found = next((offer.descriptor for offer in offers if offer.dataset == dataset), None)
        return found if isinstance(found, DatasetDescriptor) else None

    def headers(self, audience: str, grant: str, trace_id: str, now: float) -> Mapping[str, str]:
        return {
            "Authorization": self._assertions.bearer(audience, now),
            GRANT_HEADER: grant,
            "traceparent": traceparent(trace_id),
        }

    async def ask(self, authority: Authority, errand: Errand) -> tuple[Sent | None, Reply]:
        """By ADK's ``RemoteA2aAgent``, as the one node of a workflow with the errand's name."""
        card = self._cards.verified(errand.plan.agent_id)
        if card is None:
            raise NotGranted(Reason.REMOTE_CARD_INVALID, "there is no verified card of the agent to be asked")
        exchange = Exchange(errand.plan.call, errand.prepare, timeout=errand.timeout, waits=self._assertions.waits)
        with tracing("a2a.call", Kind.CLIENT) as span:
            await self._executor.send(authority, errand.name, Delegate(card, exchange, self._cards.http))
            span.tell(agent_id=errand.plan.agent_id, **exchange.reply.codes)
        return exchange.sent, exchange.reply

    def forget(self, agents: Iterable[str]) -> None:
        for agent_id in agents:
            self._cards.forget(agent_id)

    async def close(self) -> None:
        await self._cards.http.aclose()
