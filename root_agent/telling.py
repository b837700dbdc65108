"""The metrics of a root agent as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from contract.verdict import NotGranted
from control_plane.evaluator import HttpEvaluator
from metrics.common import Stores
from metrics.text import text_of
from root_agent.measures import EVIDENCE, METRICS, STORE_SECONDS, STORE_UP
from root_agent.service import Service


class Telling:
    """``text`` asks the stores; without a memo or an identity provider nothing is told of them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._table = service.measures.table
        self._evidence = self._table.numbers(EVIDENCE)
        asks: dict[str, Callable[[], Awaitable[None]] | None] = {
            "ledger": self._ledger,
            "memo": None if service.memo is None else service.memo.store.health,
            "identity_provider": None if service.identity_provider is None else self._people,
            "policy_server": self._policies if isinstance(service.world.evaluator, HttpEvaluator) else None,
        }
        self._stores = Stores(self._table.numbers(STORE_UP), self._table.numbers(STORE_SECONDS), asks)

    async def text(self) -> bytes:
        await self._stores.ask()
        try:
            self._evidence.set(self._service.ledger.size)
        except NotGranted:
            pass  # ``store_up`` says that it cannot be read; the last number stands
        return text_of(METRICS, list(self._table.cells))

    async def _ledger(self) -> None:
        self._service.ledger.health()

    async def _policies(self) -> None:
        evaluator = self._service.world.evaluator
        if isinstance(evaluator, HttpEvaluator):
            await evaluator.health()

    async def _people(self) -> None:
        people = self._service.identity_provider
        if people is not None and not people.available(self._service.clock()):
            raise LookupError("its keys cannot be read")
