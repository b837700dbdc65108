"""A state store that is stopped, emptied or unfit: no rows, cached or not; and it recovers by itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.call import Operation
from contract.ids import new_id
from tests.engine_taps import tap
from tests.grants.state_worlds import OwnServer, SqliteWorld
from tests.remote_agent.clocked_world import ARGUMENTS, DATASET, Clocked, clocked
from tests.running_agent import decision_of, task_of

pytestmark = pytest.mark.live


@dataclass
class Outage:
    """A world, and what its store's operator, or an accident, does to it."""

    world: Clocked
    sqlite: SqliteWorld | None = None
    server: OwnServer | None = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        if self.sqlite is not None:
            with self.sqlite.silent():
                yield
        if self.server is not None:
            self.server.stop()
            yield
            self.server.start()

    def flush(self) -> None:
        if self.sqlite is not None:
            self.sqlite.flush()
        if self.server is not None:
            with self.server.client() as client:
                client.flushall()

    def both(self, root: str) -> list[str]:
        """The reasons at both agents, for a call that is cached and for one that is not."""
        world = self.world
        return [world.reason(root, call, agent) for agent in world.agents for call in (ARGUMENTS, world.fresh())]


@pytest.fixture(params=["sqlite", "redis"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    if request.param == "sqlite":
        with clocked(tmp_path, None) as world:
            yield Outage(world, sqlite=SqliteWorld(world.settings.home / "state.sqlite3"))
        return
    server = OwnServer(tmp_path / "valkey")
    try:
        with clocked(tmp_path, server.url) as world:
            yield Outage(world, server=server)
    finally:
        server.stop()


def test_a_stopped_store_is_indeterminate_for_every_call_and_is_used_again_when_it_is_back(outage: Outage) -> None:
    world = outage.world
    world.primed()
    root = world.root_token()
    assert [world.ready(agent) for agent in world.agents] == [200, 200]
    world.new_rows()
    world.executions = 0
    with outage.stopped():
        assert outage.both(root) == ["STATE_UNAVAILABLE"] * 4
        assert {decision_of(world.ask(root, ARGUMENTS))["verdict"]} == {"INDETERMINATE"}
        assert [world.ready(agent) for agent in world.agents] == [503, 503]
        assert world.executions == 0
        assert world.new_rows() == {"STATE_UNAVAILABLE": 5}
    assert [world.ready(agent) for agent in world.agents] == [200, 200]
    if outage.server is not None:  # what a server forgot when it ended nobody knows
        assert outage.both(root) == ["REPLAY_MEMORY_LOST"] * 4
        world.move(20)
    assert outage.both(root if outage.server is None else world.root_token()) == ["PRINCIPAL_AUTHORIZED"] * 4


def test_a_stopped_store_neither_negotiates_nor_discovers(outage: Outage) -> None:
    world, asker = outage.world, outage.world.asker()
    root = world.root_token()
    words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare B001 and B002"}]}
    negotiating = asker.headers(asker.leaf(root, b"", Operation("SendMessage", negotiate=True)))
    discovering = asker.headers(asker.leaf(root, b"", Operation("discover")))
    with outage.stopped():
        task = task_of(asker.rpc("SendMessage", {"message": words}, negotiating))
        card = asker.rpc("GetExtendedAgentCard", {}, discovering).text
    assert decision_of(task)["reason"] == "STATE_UNAVAILABLE"
    assert "STATE_UNAVAILABLE" in card


def test_a_store_that_stops_while_the_query_runs_releases_no_row(outage: Outage) -> None:
    world = outage.world
    engine = world.agents[0].lifecycle.service.world.datasets[DATASET].engine
    stopping: list[AbstractContextManager[None]] = []

    async def stop_after(_: Any) -> None:
        stopping.append(outage.stopped())
        await asyncio.to_thread(stopping[0].__enter__)

    tap(engine, after=stop_after)
    assert world.reason(world.root_token(), world.fresh()) == "STATE_UNAVAILABLE"
    stopping[0].__exit__(None, None, None)
    assert world.new_rows() == {"STATE_UNAVAILABLE": 1}


def test_an_emptied_store_refuses_what_was_issued_before_and_takes_what_is_issued_after(outage: Outage) -> None:
    world = outage.world
    world.primed()
    root = world.root_token()
    outage.flush()
    world.new_rows()
    world.executions = 0
    assert outage.both(root) == ["REPLAY_MEMORY_LOST"] * 4
    assert decision_of(world.ask(root, ARGUMENTS))["verdict"] == "INDETERMINATE"
    assert (world.executions, world.new_rows()) == (0, {"REPLAY_MEMORY_LOST": 5})
    world.move(7)  # a second more than a clock may be ahead
    assert outage.both(world.root_token()) == ["PRINCIPAL_AUTHORIZED"] * 4
    assert outage.both(root) == ["REPLAY_MEMORY_LOST"] * 4


def test_a_leaf_that_was_used_before_the_store_was_emptied_is_not_good_again(outage: Outage) -> None:
    world, asker = outage.world, outage.world.asker()
    call = asker.call(DATASET, "compare_batches", ARGUMENTS)
    leaf = asker.leaf(world.root_token(), call)
    assert decision_of(world.send(asker, call, leaf))["verdict"] == "GRANTED"
    outage.flush()
    for _ in range(3):
        assert decision_of(world.send(asker, call, leaf))["reason"] == "REPLAY_MEMORY_LOST"
        world.move(10)


def test_an_earlier_copy_of_the_file_put_back_under_running_agents_is_a_memory_lost(tmp_path: Path) -> None:
    with clocked(tmp_path, None) as world:
        path = world.settings.home / "state.sqlite3"
        asker = world.asker()
        call = asker.call(DATASET, "compare_batches", ARGUMENTS)
        backup = shutil.copy2(path, tmp_path / "backup")
        leaf = asker.leaf(world.root_token(), call)
        assert decision_of(world.send(asker, call, leaf))["verdict"] == "GRANTED"
        shutil.copyfile(backup, path)
        assert decision_of(world.send(world.asker(world.agents[1]), call, leaf))["reason"] == "REPLAY_MEMORY_LOST"
        world.move(20)
        assert [world.reason(world.root_token(), ARGUMENTS, agent) for agent in world.agents] == [
            "PRINCIPAL_AUTHORIZED"
        ] * 2


def test_a_server_that_begins_to_evict_is_noticed_by_the_very_next_call(tmp_path: Path) -> None:
    server = OwnServer(tmp_path / "valkey")
    try:
        with clocked(tmp_path, server.url) as world, server.client() as client:
            root = world.root_token()
            assert world.reason(root, ARGUMENTS) == "PRINCIPAL_AUTHORIZED"
            client.config_set("maxmemory-policy", "allkeys-lru")
            outage = Outage(world, server=server)
            assert outage.both(root) == ["STATE_UNAVAILABLE"] * 4
            client.config_set("maxmemory-policy", "noeviction")
            assert outage.both(root) == ["PRINCIPAL_AUTHORIZED"] * 4
    finally:
        server.stop()
