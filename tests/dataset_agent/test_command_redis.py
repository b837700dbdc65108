"""State and cache in a real Valkey: the same story, and what start refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from tests.dataset_agent.command_line import CommandLine, command_for
from tests.running_agent import RunningAgent, agent_home, running_agent
from tests.valkey_server import ValkeyServer

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"


@contextmanager
def valkey(folder: Path, **config: str) -> Iterator[str]:
    durable = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    server = ValkeyServer(data_dir=folder, config=durable | config)
    server.start()
    try:
        yield str(server.connection_url)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey(tmp_path_factory.mktemp("valkey")) as url:
        yield url


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, store: str) -> Iterator[RunningAgent]:
    settings = agent_home(tmp_path_factory.mktemp("agent"), state_url=store, cache_url=store)
    with running_agent(settings) as running:
        yield running


@pytest.fixture(scope="module")
def command(agent: RunningAgent, store: str) -> CommandLine:
    return command_for(agent.settings, URL=agent.url, STATE_URL=store, CACHE_URL=store)


def test_the_same_question_misses_then_hits_and_its_entry_is_listed(command: CommandLine, store: str) -> None:
    first, second = (command.ask(QUESTION).json for _ in range(2))
    assert (first["cache"]["outcome"], second["cache"]["outcome"]) == ("MISS", "HIT")
    assert first["result"] == second["result"]
    assert first["provenance"]["envelope"] != second["provenance"]["envelope"]
    (entry,) = command("cache", "keys", "--json").json["entries"]
    assert entry["key"] == first["cache"]["key"]
    assert entry["dimensions"]["capability"] == "compare_batches"
    assert command("cache", "show", entry["key"][-8:], "--json").json["key"] == entry["key"]
    assert command("cache", "stats", "--json").json["entries"] == 1
    with Redis.from_url(store) as client:
        assert client.exists(entry["key"]) == 1


def test_doctor_reaches_both_stores(command: CommandLine) -> None:
    found = {finding["check"]: finding["status"] for finding in command("doctor", "--json").json["findings"]}
    assert (found["state store"], found["cache store"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("config", "said"),
    [({"maxmemory-policy": "allkeys-lru"}, "noeviction"), ({"appendonly": "no"}, "append")],
    ids=["evicting", "without a log"],
)
def test_a_state_store_that_may_forget_stops_the_start(
    command: CommandLine, tmp_path: Path, config: dict[str, str], said: str
) -> None:
    with valkey(tmp_path, **config) as url:
        run = command("serve", "--port", "0", STATE_URL=url)
        doctor = command("doctor", STATE_URL=url)
    assert run.code == 1
    assert said in run.line
    assert doctor.code == 1
    assert said in doctor.out


def test_a_cache_that_is_gone_costs_the_reuse_and_nothing_else(tmp_path: Path, store: str) -> None:
    settings = agent_home(tmp_path, state_url=store, cache_url="redis://127.0.0.1:1/0")
    with running_agent(settings) as agent:
        command = command_for(settings, URL=agent.url)
        answers = [command.ask(QUESTION) for _ in range(2)]
    assert [(run.code, run.json["cache"]["outcome"]) for run in answers] == [(0, "MISS")] * 2
