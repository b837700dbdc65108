"""The metrics of a dataset agent as text: what is counted anyway, and what is looked up when somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from contract.verdict import NotGranted
from control_plane.evaluator import HttpEvaluator
from metrics.common import Stores
from metrics.table import summed
from metrics.text import text_of
from remote_agent.measures import (
    DATASETS,
    EVIDENCE,
    METRICS,
    QUERIES,
    RELOAD,
    SPOOL,
    STORE_SECONDS,
    STORE_UP,
    WAITING,
    WORKERS,
    Measures,
)
from remote_agent.service import Service

_LOOKED_S = 2.0
"""How often a process that has siblings looks at its own gauges for them."""


class Telling:
    """``fault`` says whether the newest reload was refused."""

    def __init__(self, service: Service, fault: Callable[[], str | None]) -> None:
        self._service = service
        self._fault = fault
        self._measures: Measures = service.measures
        table = self._measures.table
        self._gauges = {
            metric.name: table.numbers(metric) for metric in (SPOOL, QUERIES, WORKERS, WAITING, EVIDENCE, RELOAD)
        }
        self._datasets = table.numbers(DATASETS)
        self._stores = Stores(
            table.numbers(STORE_UP),
            table.numbers(STORE_SECONDS),
            {
                "state": service.state.health,
                "cache": self._cache(),
                "ledger": self._ledger,
                "policy_server": self._policies(),
            },
        )

    async def text(self) -> bytes:
        """All of the agent's processes together, as this one sees its stores. Stores are asked within seconds."""
        await self._stores.ask()
        self._look()
        self._look_around()
        file = self._measures.file
        tables = [list(self._measures.table.cells)] if file is None else file.tables()
        return text_of(METRICS, summed(METRICS, tables))

    @asynccontextmanager
    async def to_siblings(self) -> AsyncIterator[None]:
        """Inside, this process's gauges are looked at again and again, for others that are asked in its place."""
        looking = asyncio.create_task(self._keep()) if self._measures.file is not None else None
        try:
            yield
        finally:
            if looking is not None:
                looking.cancel()

    async def _keep(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(_LOOKED_S)

    def _look(self) -> None:
        """What this process has under way."""
        engines = [served.engine for served in self._service.world.datasets.values()]
        self._gauges[WAITING.name].set(self._service.ledger.waiting)
        self._gauges[SPOOL.name].set(self._service.spool.used)
        self._gauges[QUERIES.name].set(sum(engine.load.queries for engine in engines))
        self._gauges[WORKERS.name].set(sum(engine.load.workers for engine in engines))

    def _look_around(self) -> None:
        """What is the same for all of the agent's processes."""
        world = self._service.world
        for state, names in (("served", world.datasets), ("invalid", world.invalid), ("outdated", world.outdated)):
            self._datasets.set(len(names), (state,))
        self._gauges[RELOAD.name].set(float(self._fault() is not None))
        try:
            self._gauges[EVIDENCE.name].set(self._service.ledger.size)
        except NotGranted:
            pass  # ``store_up`` says that it cannot be read; the last number stands

    def _cache(self) -> Callable[[], Awaitable[None]] | None:
        store = self._service.cache.store
        return None if store is None else store.health

    def _policies(self) -> Callable[[], Awaitable[None]] | None:
        """Whichever is asked at that moment: a reload makes another one."""
        if not isinstance(self._service.world.evaluator, HttpEvaluator):
            return None

        async def ask() -> None:
            evaluator = self._service.world.evaluator
            if isinstance(evaluator, HttpEvaluator):
                await evaluator.health()

        return ask

    async def _ledger(self) -> None:
        self._service.ledger.health()
