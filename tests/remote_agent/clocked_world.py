"""Two dataset agents that share a home and a state store, and a clock that a test moves instead of waiting."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from contract.scope import Scope
from contract.settings import Settings
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.state import RevocationKind, StateStore, open_state, revoked_by_now
from tests.engine_taps import tap
from tests.grants.state_worlds import start_valkey
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, running_agent, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"
ARGUMENTS = {"batch_a": "B001", "batch_b": "B002"}


class ClockedAsker(Asker):
    """Asks at the time of its world."""

    clock: Callable[[], float] = staticmethod(time.time)

    def leaf(self, root: str, call: bytes, operation: Operation | None = None) -> str:
        """The header value of a fresh leaf of ``root`` for one call."""
        receiver = self.trust.agents[self.settings.agent_id]
        operation = operation or Operation("SendMessage", call_hash=sha256_hex(call))
        return header_value(derive((root,), self.holder, audience=receiver, operation=operation, now=self.clock()))

    def headers(
        self, grant: str | None = None, *, extension: bool = True, authenticated: bool = True
    ) -> dict[str, str]:
        headers = super().headers(grant, extension=extension, authenticated=False)
        assertion = client_assertion(
            self.holder, agent_id=self.settings.root_id, audience=self.settings.agent_id, now=self.clock()
        )
        return headers | ({"Authorization": f"Bearer {assertion}"} if authenticated else {})


@dataclass
class Clocked:
    """``agents`` are as two processes: each with its own handles on the store, the cache and the ledger.

    Their clock stands still but for ``move``, so that nothing becomes old while a machine is busy.
    """

    settings: Settings
    agents: list[RunningAgent]
    began: float = field(default_factory=time.time)
    ahead: float = 0.0
    executions: int = 0
    _pairs: Iterator[tuple[int, int]] = field(default_factory=lambda: itertools.permutations(range(3, 60), 2))
    _rows: int = 0

    def __post_init__(self) -> None:
        for agent in self.agents:
            agent.lifecycle.service.clock = self.now
            self._count(agent)

    def now(self) -> float:
        return self.began + self.ahead

    def move(self, seconds: float) -> None:
        self.ahead += seconds

    def asker(self, agent: RunningAgent | None = None) -> ClockedAsker:
        asker = ClockedAsker(self.settings, (agent or self.agents[0]).url)
        asker.clock = self.now
        return asker

    def root_token(self, scope: Scope | None = None) -> str:
        asker = self.asker()
        return asker.root_token(scope or asker.scope(DATASET, CAPABILITY), now=self.now())

    def fresh(self) -> dict[str, str]:
        """Arguments that nobody asked with before."""
        first, second = next(self._pairs)
        return {"batch_a": f"B{first:03d}", "batch_b": f"B{second:03d}"}

    def ask(self, root: str, arguments: dict[str, str], agent: RunningAgent | None = None) -> dict[str, Any]:
        """One call with a fresh leaf of ``root``, and the task that came back."""
        asker = self.asker(agent)
        call = asker.call(DATASET, CAPABILITY, arguments)
        return self.send(asker, call, asker.leaf(root, call))

    def primed(self) -> None:
        """A fresh grant finds the call with ``ARGUMENTS`` in the cache of every agent."""
        for agent in (self.agents[0], *self.agents):
            task = self.ask(self.root_token(), ARGUMENTS, agent)
        assert task["metadata"][CACHE_KEY]["outcome"] == "HIT"

    def send(self, asker: ClockedAsker, call: bytes, grant: str) -> dict[str, Any]:
        return task_of(asker.send(call, asker.headers(grant)))

    def reason(self, root: str, arguments: dict[str, str], agent: RunningAgent | None = None) -> str:
        task = self.ask(root, arguments, agent)
        decision = decision_of(task)
        assert ("artifacts" in task) == (decision["verdict"] == "GRANTED"), decision
        return str(decision["reason"])

    def new_rows(self) -> Counter[str]:
        """The reasons of the evidence rows since the last look."""
        rows = self.agents[0].rows()[self._rows :]
        self._rows += len(rows)
        return Counter(str(row.cells["reason"]) for row in rows)

    def revoke(self, kind: RevocationKind, value: str) -> None:
        """As an operator does: from a process of its own."""
        self.operate(lambda store: store.revoke(kind, value, not_before=revoked_by_now(self.now())))

    def operate(self, work: Callable[[StateStore], Any]) -> Any:
        async def run() -> Any:
            store = open_state(self.settings, now=self.now())
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def ready(self, agent: RunningAgent) -> int:
        return httpx.get(agent.url + "/readyz", timeout=30).status_code

    def _count(self, agent: RunningAgent) -> None:
        engine: Any = agent.lifecycle.service.world.datasets[DATASET].engine
        engine._clock = self.now

        async def counted(_: Any) -> None:
            self.executions += 1

        tap(engine, before=counted)


@contextmanager
def cache_at(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The settings of an agent whose cache is a file (``sqlite``), or a server of its own (``redis``)."""
    if kind == "sqlite":
        yield {}
        return
    server = start_valkey(folder / "valkey")
    try:
        yield {"cache_url": server.connection_url}
    finally:
        server.stop()


@contextmanager
def clocked(folder: Path, state_url: str | None, *, agents: int = 2, **settings_of: Any) -> Iterator[Clocked]:
    settings = agent_home(folder / "home", **({} if state_url is None else {"state_url": state_url}), **settings_of)
    with ExitStack() as stack:
        yield Clocked(settings, [stack.enter_context(running_agent(settings)) for _ in range(agents)])
