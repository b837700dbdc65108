"""A real dataset agent over HTTP while its cache server suffers: what it answers, and what it costs."""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from cache.allowance import present
from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from tests.cache.valkey_world import Server, Watched, running, watched
from tests.running_agent import (
    Asker,
    RunningAgent,
    agent_home,
    decision_of,
    message,
    result_of,
    running_agent,
    task_of,
)

DATASET: Final = "purification-batches"
CAPABILITY: Final = "compare_batches"
RECOVERY_S: Final = 30.0
BATCHES: Final = [(first, second) for first in range(1, 40) for second in range(1, 40) if first != second]


@dataclass
class Told:
    """One phase: outcomes of the cache, and the time of each call in milliseconds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """What of them was spent waiting for the cache server."""
    standings: set[str] = field(default_factory=set)
    """What ``/readyz`` said of the cache after each call."""

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def worst(self) -> float:
        return max(self.times)


class Client:
    """Asks one call whose answer is known, and calls that nobody asked before."""

    def __init__(self, agent: RunningAgent) -> None:
        self._asker = Asker(agent.settings, agent.url)
        self._agent = agent
        self._scope = self._asker.scope(DATASET, CAPABILITY)
        self._http = httpx.Client(timeout=30, trust_env=False)
        self._fresh = iter(BATCHES[1:])
        self._known: dict[tuple[int, int], Any] = {}
        self._waited = 0.0
        self._time_the_store()

    def ask(self, pair: tuple[int, int]) -> tuple[str, float]:
        """The outcome of the cache, and milliseconds. Raises ``AssertionError`` for anything but the right rows."""
        arguments = dict(zip(("batch_a", "batch_b"), (f"B{number:03d}" for number in pair), strict=True))
        call = self._asker.call(DATASET, CAPABILITY, arguments)
        grant = self._asker.grant(self._scope, Operation("SendMessage", call_hash=sha256_hex(call)))
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
        headers = self._asker.headers(grant)
        began = time.perf_counter()
        response = self._http.post(self._agent.url + "/", json=body, headers=headers)
        spent = (time.perf_counter() - began) * 1_000
        task = task_of(response)
        assert decision_of(task)["verdict"] == "GRANTED", decision_of(task)
        rows = result_of(task)["rows"]
        assert self._known.setdefault(pair, rows) == rows
        assert len(rows) <= 2
        return str(task["metadata"][CACHE_KEY]["outcome"]), spent

    def repeated(self, count: int) -> Told:
        return self._phase([BATCHES[0]] * count)

    def never_asked(self, count: int) -> Told:
        return self._phase([next(self._fresh) for _ in range(count)])

    def recovered(self) -> float:
        """Seconds until a call is a hit again, with nothing done to the agent."""
        began = time.monotonic()
        while time.monotonic() - began < RECOVERY_S:
            if self.ask(BATCHES[0])[0] == "HIT":
                return time.monotonic() - began
        raise AssertionError("the cache did not recover")

    def standing(self) -> str:
        return str(self._http.get(self._agent.url + "/readyz").json()["cache"])

    def close(self) -> None:
        self._http.close()

    def _time_the_store(self) -> None:
        store: Any = self._agent.lifecycle.service.cache.store
        ask = store._lanes.ask

        async def timed(*command: Any) -> Any:
            if present() is None:  # beside the call, which does not wait for it
                return await ask(*command)
            began = time.perf_counter()
            try:
                return await ask(*command)
            finally:
                self._waited += (time.perf_counter() - began) * 1_000

        store._lanes.ask = timed

    def _phase(self, pairs: list[tuple[int, int]]) -> Told:
        told = Told()
        for pair in pairs:
            self._waited = 0.0
            outcome, spent = self.ask(pair)
            told.waits.append(self._waited)
            told.outcomes[outcome] += 1
            told.times.append(spent)
            told.standings.add(self.standing())
        return told


@dataclass
class World:
    client: Client
    server: Server
    watch: Watched | None = None


@contextmanager
def one_server(folder: Path) -> Iterator[World]:
    server = Server(folder / "server", {"maxmemory": "64mb", "maxmemory-policy": "volatile-lfu"})
    with running(server), _agent(folder, server.url) as client:
        yield World(client, server)


@contextmanager
def behind_sentinels(folder: Path) -> Iterator[World]:
    with watched(folder) as watch, _agent(folder, watch.url) as client:
        yield World(client, watch.primary, watch)


@contextmanager
def _agent(folder: Path, url: str) -> Iterator[Client]:
    with running_agent(agent_home(folder / "home", cache_url=url)) as agent:
        client = Client(agent)
        with closing(client):
            client.recovered()
            yield client


def stopped(world: World) -> Iterator[None]:
    world.server.stop()
    yield
    world.server.start()


def silent(world: World) -> Iterator[None]:
    world.server.signal(signal.SIGSTOP)
    yield
    world.server.signal(signal.SIGCONT)


def full(world: World) -> Iterator[None]:
    """What is there is kept, and nothing new is taken."""
    with world.server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 64 * 2**20)
        client.config_set("maxmemory-policy", "volatile-lfu")


def full_with_lfu(world: World) -> Iterator[None]:
    """There is room for nothing at all, though everything may be evicted."""
    with world.server.client() as client:
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 64 * 2**20)


def evicting(world: World) -> Iterator[None]:
    """Room for a few entries, which others take from one another."""
    with world.server.client() as client:
        used = int(client.info("memory")["used_memory"])  # type: ignore[index]
        client.config_set("maxmemory", used + 20_000)
        yield
        client.config_set("maxmemory", 64 * 2**20)


def failing_over(world: World) -> Iterator[None]:
    world.server.stop()
    yield
    if world.watch is not None:
        world.watch.failed_over()


@dataclass(frozen=True)
class Fault:
    name: str
    world: Callable[[Path], AbstractContextManager[World]]
    during: Callable[[World], Iterator[None]]
    noticed: bool
    """Whether the agent leaves the server alone meanwhile."""


FAULTS: Final = (
    Fault("stopped", one_server, stopped, noticed=True),
    Fault("silent (SIGSTOP)", one_server, silent, noticed=True),
    Fault("full, noeviction", one_server, full, noticed=False),
    Fault("full, volatile-lfu", one_server, full_with_lfu, noticed=False),
    Fault("evicting", one_server, evicting, noticed=False),
    Fault("failing over (sentinels)", behind_sentinels, failing_over, noticed=True),
)


@dataclass(frozen=True)
class Report:
    fault: str
    healthy: Told
    faulty: Told
    standing: str
    recovery_s: float

    @property
    def added_median(self) -> float:
        return self.faulty.median - self.healthy.median

    @property
    def added_worst(self) -> float:
        return self.faulty.worst - self.healthy.median

    @property
    def waited_worst(self) -> float:
        """The longest that one call waited for the server, all of its commands together."""
        return max(self.faulty.waits)


def suffer(fault: Fault, folder: Path, *, calls: int) -> Report:
    """Misses while all is well, and as many during the fault with repeated ones between them; then recovery."""
    with fault.world(folder) as world:
        client = world.client
        healthy = client.never_asked(calls)
        with contextmanager(fault.during)(world):
            faulty = client.never_asked(calls)
            standings = faulty.standings | client.repeated(calls).standings
        # A failover may be over before the last call: what counts is that it was noticed.
        standing = "unavailable" if "unavailable" in standings else client.standing()
        return Report(fault.name, healthy, faulty, standing, client.recovered())
