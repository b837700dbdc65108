"""Two dataset agents that were given one cache and one secret: neither answers with, nor signs, the other's rows."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from cache.keys import load_keys
from cache.redis_store import RedisStore
from cache.verification import State, verify
from contract.extension import CACHE_KEY
from contract.settings import SHIPPED_DATASETS, Settings
from tests.cache.valkey_world import Server, running
from tests.running_agent import Asker, agent_home, result_of, running_agent

DATASET, TABLE = "purification-batches", "batch_record"
SITES = {"one": "Dublin", "other": "Madrid"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Server(tmp_path_factory.mktemp("server"))) as (server,):
        yield server


def home(folder: Path, name: str, server: Server) -> Settings:
    """An agent of its own, whose dataset has the other's name, version and revision, and rows of its own."""
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, folder / name / "datasets"))
    descriptor = datasets / DATASET / "descriptor.yaml"
    told = yaml.safe_load(descriptor.read_text(encoding="utf-8"))
    descriptor.write_text(yaml.safe_dump(told | {"revision": "r1"}, sort_keys=False), encoding="utf-8")
    (table,) = (datasets / DATASET).rglob(f"{TABLE}.parquet")
    rows = duckdb.read_parquet(str(table))
    rows.project(f"* REPLACE ('{SITES[name]}' AS site)").write_parquet(str(table.with_suffix(".new")))
    table.with_suffix(".new").replace(table)
    return agent_home(
        folder / name / "home",
        agent_id=f"urn:dataset-agent:{name}",
        datasets=datasets,
        cache_url=server.url,
        cache_secret="ab" * 32,
    )


def asked(settings: Settings) -> list[tuple[str, Any]]:
    """What the cache had and the site that was answered, of one question that is put twice."""
    with running_agent(settings) as agent:
        asker = Asker(settings, agent.url)
        told = [asker.ask(DATASET, "search", {"query": "B001"}) for _ in range(2)]
    return [(task["metadata"][CACHE_KEY]["outcome"], result_of(task)["rows"][0][2]) for task in told]


def test_each_runs_for_itself_and_what_both_stored_is_whole(tmp_path: Path, server: Server) -> None:
    homes = {name: home(tmp_path, name, server) for name in SITES}
    for name, site in SITES.items():
        assert asked(homes[name]) == [("MISS", site), ("HIT", site)]

    async def verified() -> dict[State, int]:
        store = RedisStore.connect(server.url, budget_s=5.0)
        try:
            return dict((await verify(store, *load_keys(homes["one"]), now=0.0)).counts)
        finally:
            await store.close()

    assert asyncio.run(verified()) == {State.OPENED: 2}
