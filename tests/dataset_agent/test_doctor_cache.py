"""What doctor says of a cache server: away, full, without a bound, evicting, or the state's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cache.redis_store import ServerMemory
from contract.settings import Settings
from dataset_agent.doctor_cache import check_cache, memory_advice
from dataset_agent.finding import Finding
from tests.cache.valkey_world import Server, running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", {"maxmemory": "100mb", "maxmemory-policy": "volatile-lfu"})
    with running(made):
        yield made


async def found(home: Path, **urls: str) -> Finding:
    return await check_cache(Settings(home=home, **urls), none_yet="none yet")  # type: ignore[arg-type]


async def test_a_bounded_server_that_evicts_by_use_is_well(server: Server, tmp_path: Path) -> None:
    told = await found(tmp_path, cache_url=server.url)
    assert (told.status, "memory" in told.advice or "evict" in told.advice) == ("ok", False)


async def test_a_server_that_is_full_and_evicts_nothing_is_broken(server: Server, tmp_path: Path) -> None:
    with server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        assert "evict nothing when it is full" in (await found(tmp_path, cache_url=server.url)).advice
        client.config_set("maxmemory", 1)
        told = await found(tmp_path, cache_url=server.url)
    assert told.status == "broken"
    assert "maxmemory-policy volatile-lfu" in told.advice


async def test_a_server_that_is_away_is_broken(tmp_path: Path) -> None:
    told = await found(tmp_path, cache_url="redis://:hunter2@127.0.0.1:1")
    assert told.status == "broken"
    assert "hunter2" not in told.advice


async def test_one_server_for_both_is_told(server: Server, tmp_path: Path) -> None:
    told = await found(tmp_path, cache_url=server.url, state_url=server.url)
    assert "state store's server" in told.advice


async def test_no_store_yet_is_no_fault(tmp_path: Path) -> None:
    assert await found(tmp_path) == Finding("cache store", "absent", "none yet")


def test_the_gravest_of_several_servers_is_told() -> None:
    well = ServerMemory(1, 100, "volatile-lfu", 0)
    assert memory_advice([well, well]) == ""
    assert memory_advice([well, ServerMemory(1, 0, "noeviction", 0)]).startswith("its memory has no bound")
    assert memory_advice([well, ServerMemory(99, 100, "noeviction", 0)]).startswith("it is full")
    assert "evicted 7" in memory_advice([well, ServerMemory(1, 100, "volatile-lfu", 7)])
